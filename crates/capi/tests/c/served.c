// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A card behind a socket: the program sleeps in poll(2) until a channel's descriptor is readable. */
#include <poll.h>

#include "check.h"

#define BYTES 4096

int main(int count, char **arguments) {
	CHECK(count == 2);
	crosslane_session *session = NULL;
	crosslane_device *device = NULL;
	crosslane_buffer *buffer = NULL;
	crosslane_channel *channel = NULL;
	OK(crosslane_session_open(arguments[1], NULL, &session));
	CHECK(crosslane_session_is_simulated(session) == 0);
	OK(crosslane_device_open(session, 0, &device));
	OK(crosslane_device_route(device, CROSSLANE_SOURCE_GENERATOR, CROSSLANE_SOURCE_GENERATOR));
	OK(crosslane_device_seed(device, 11));
	OK(crosslane_buffer_create(device, BYTES, NULL, &buffer));

	int fd = -1;
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, NULL, &channel));
	FAILS(crosslane_channel_fd(channel, &fd), EOPNOTSUPP, "CROSSLANE_NOTIFY_INTERRUPT");
	OK(crosslane_channel_close(channel));
	crosslane_channel_attr attr = {.size = sizeof attr, .notify = CROSSLANE_NOTIFY_INTERRUPT};
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, &attr, &channel));
	OK(crosslane_channel_fd(channel, &fd));
	int again = -1;
	OK(crosslane_channel_fd(channel, &again));
	CHECK(fd >= 0 && again == fd);

	crosslane_completion done = {.size = sizeof done};
	for (uint64_t round = 0; round < 20; round++) {
		CHECK(crosslane_channel_poll(channel, &done, 1) == 0);
		struct pollfd waits = {.fd = fd, .events = POLLIN};
		/* Nothing was posted yet, so nothing wakes. Later an interrupt may come behind its completion. */
		if (round == 0)
			CHECK(poll(&waits, 1, 20) == 0);
		crosslane_transfer transfer = {.size = sizeof transfer, .wr_id = round};
		transfer.buffer = buffer;
		transfer.bytes = BYTES / 4;
		transfer.offset = round % 4 * BYTES / 4;
		transfer.timeout_ns = 30000000000;
		OK(crosslane_channel_post(channel, &transfer, 1));
		int got = 0, sleeps = 0;
		while ((got = crosslane_channel_poll(channel, &done, 1)) == 0) {
			CHECK(poll(&waits, 1, 30000) == 1);
			CHECK(++sleeps < 10);
		}
		CHECK(got == 1 && done.status == 0 && done.wr_id == round);
	}
	uint32_t words[BYTES / 4], wanted[BYTES / 4];
	OK(crosslane_buffer_read(buffer, 0, words, BYTES));
	OK(crosslane_pattern(wanted, BYTES, 11, 4 * BYTES / 4));
	CHECK(memcmp(words, wanted, BYTES) == 0);
	void *place = NULL;
	OK(crosslane_buffer_address(buffer, &place));
	CHECK(memcmp(place, wanted, BYTES) == 0);
	memset(place, 7, BYTES);
	OK(crosslane_buffer_read(buffer, BYTES - 1, words, 1));
	CHECK(*(char *)words == 7);
	OK(crosslane_channel_close(channel));
	OK(crosslane_buffer_destroy(buffer));
	OK(crosslane_device_close(device));
	OK(crosslane_session_close(session));
	puts("passed");
	return 0;
}
