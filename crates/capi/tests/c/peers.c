// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Two cards: commands and round trips of their circuits, memory of the one that the other reads,
 * payloads that a port refuses, and resets. */
#include <pthread.h>

#include "check.h"

#define BYTES 8192
#define LONG_BYTES 65536
#define ROUNDS 5

static crosslane_session *session;
static crosslane_device *first, *second;

static crosslane_channel *opened(crosslane_device *device, uint32_t kind, uint32_t flags) {
	crosslane_channel *channel = NULL;
	crosslane_channel_attr attr = {.size = sizeof attr, .flags = flags};
	OK(crosslane_channel_open(device, kind, 0, &attr, &channel));
	return channel;
}

static void *in_another_thread(void *peer) {
	FAILS(crosslane_peer_command(peer, 64), EPERM, "another thread");
	return NULL;
}

/* The circuit of the first card writes, and messages go to the second one and back. */
static void circuits_write(void) {
	crosslane_peer *there = NULL, *back = NULL;
	OK(crosslane_peer_connect(first, second, NULL, &there));
	OK(crosslane_peer_connect(second, first, NULL, &back));
	FAILS(crosslane_peer_command(there, 64), EINVAL, "not open for the command port");
	crosslane_channel_attr attr = {.size = sizeof attr, .ring_entries = 16};
	attr.flags = CROSSLANE_CHANNEL_COMMAND_PORT;
	crosslane_channel *wrong = NULL;
	FAILS(crosslane_channel_open(first, CROSSLANE_PEER, 0, &attr, &wrong), EINVAL, "ring_entries");
	attr.ring_entries = 0;
	FAILS(crosslane_channel_open(first, CROSSLANE_C2H, 0, &attr, &wrong), EINVAL, "command port");
	attr.flags |= CROSSLANE_CHANNEL_TABLE;
	FAILS(crosslane_channel_open(first, CROSSLANE_PEER, 0, &attr, &wrong), EINVAL, "a table or");
	crosslane_channel *one = opened(first, CROSSLANE_PEER, CROSSLANE_CHANNEL_COMMAND_PORT);
	crosslane_channel *other = opened(second, CROSSLANE_PEER, CROSSLANE_CHANNEL_COMMAND_PORT);

	OK(crosslane_peer_check(there, 8));
	OK(crosslane_device_seed(first, 8));
	uint64_t before = 0, after = 0;
	OK(crosslane_device_time(first, &before));
	OK(crosslane_peer_command(there, LONG_BYTES));
	FAILS(crosslane_peer_command(there, 64), EBUSY, "still being worked off");
	FAILS(crosslane_peer_command_wait(there, 1), ETIMEDOUT, "end of a command");
	OK(crosslane_peer_command_wait(there, 0));
	OK(crosslane_device_time(first, &after));
	CHECK(after > before);
	OK(crosslane_session_sleep(session, 100000));
	crosslane_peer_info info = {.size = sizeof info};
	OK(crosslane_peer_describe(there, &info));
	CHECK(info.received_bytes == LONG_BYTES && info.drained_bytes == LONG_BYTES);
	crosslane_check check = {.size = sizeof check};
	OK(crosslane_peer_check_result(there, &check));
	CHECK(check.errors == 0);

	OK(crosslane_device_route(second, CROSSLANE_SOURCE_GENERATOR,
				  CROSSLANE_SOURCE_RECEIVE_QUEUE + info.receive_queue));
	OK(crosslane_peer_command(back, 128 * ROUNDS));
	crosslane_ping_pong made = {.size = sizeof made};
	OK(crosslane_peer_ping_pong(there, 128, ROUNDS, 0, &made));
	OK(crosslane_peer_command_wait(back, 0));
	CHECK(made.rounds == ROUNDS && 0 < made.least_clocks && made.least_clocks <= made.most_clocks);
	CHECK((uint64_t)ROUNDS * made.least_clocks <= made.sum_clocks);
	CHECK(made.sum_clocks <= (uint64_t)ROUNDS * made.most_clocks);
	/* Nobody sends the messages back. */
	FAILS(crosslane_peer_ping_pong(there, 128, 1, 100000, &made), ETIMEDOUT, "a ping-pong");

	FAILS(crosslane_peer_ping_pong(there, 128, 1 << 16, 0, &made), EINVAL, "65536 round trips");
	FAILS(crosslane_peer_ping_pong(there, 128, 0, 0, &made), EINVAL, "0 round trips");
	FAILS(crosslane_peer_ping_pong(there, 6, 1, 0, &made), EINVAL, "multiples of 4");
	FAILS(crosslane_peer_ping_pong(there, 128, 1, 0, NULL), EINVAL, "NULL");
	made.size = 3;
	FAILS(crosslane_peer_ping_pong(there, 128, 1, 100000, &made), EINVAL, "size");
	FAILS(crosslane_peer_command(NULL, 64), EINVAL, "the peer is NULL");
	FAILS(crosslane_peer_command((crosslane_peer *)(void *)first, 64), EBADF, "not a peer");
	FAILS(crosslane_device_time(first, NULL), EINVAL, "NULL");
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, in_another_thread, there) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	OK(crosslane_channel_close(one));
	OK(crosslane_channel_close(other));
	OK(crosslane_peer_close(back));
	OK(crosslane_peer_close(there));
	FAILS(crosslane_peer_command_wait(there, 0), EBADF, "closed before");
}

/* The second card's memory goes to the first one's, past the host. */
static void memory_goes_to_memory(void) {
	crosslane_buffer *out = NULL, *in = NULL;
	OK(crosslane_buffer_create(second, BYTES, NULL, &out));
	OK(crosslane_buffer_create(first, BYTES, NULL, &in));
	unsigned char *wanted = malloc(BYTES), *found = malloc(BYTES);
	CHECK(wanted != NULL && found != NULL);
	OK(crosslane_pattern(wanted, BYTES, 9, 0));
	OK(crosslane_buffer_write(out, 0, wanted, BYTES));
	crosslane_channel *fill = opened(second, CROSSLANE_H2C, CROSSLANE_CHANNEL_CARD_MEMORY);
	crosslane_transfer transfer = {.size = sizeof transfer, .buffer = out, .bytes = BYTES};
	transfer.card_address = 4096;
	OK(crosslane_channel_transfer(fill, &transfer, NULL));

	crosslane_peer_memory *memory = NULL;
	OK(crosslane_peer_memory_open(first, "fpga2", 2, &memory, NULL));
	crosslane_channel *h2c = opened(first, CROSSLANE_H2C, CROSSLANE_CHANNEL_CARD_MEMORY);
	crosslane_channel *c2h = opened(first, CROSSLANE_C2H, CROSSLANE_CHANNEL_CARD_MEMORY);
	crosslane_transfer read = {.size = sizeof read, .peer_memory = memory, .bytes = BYTES - 13};
	read.offset = 4096 + 13;
	read.card_address = 77;
	crosslane_completion done = {.size = sizeof done};
	OK(crosslane_channel_transfer(h2c, &read, &done));
	CHECK(done.bytes == BYTES - 13);
	transfer.buffer = in;
	transfer.bytes = BYTES - 13;
	transfer.card_address = 77;
	OK(crosslane_channel_transfer(c2h, &transfer, NULL));
	OK(crosslane_buffer_read(in, 0, found, BYTES - 13));
	CHECK(memcmp(found, wanted + 13, BYTES - 13) == 0);
	/* It goes back to another place, behind which a read finds it. */
	crosslane_transfer write = {.size = sizeof write, .peer_memory = memory, .bytes = 4099};
	write.offset = 1 << 20;
	write.card_address = 77;
	OK(crosslane_channel_transfer(c2h, &write, &done));
	CHECK(done.bytes == 4099 && done.level == CROSSLANE_LEVEL_SENT);
	write.card_address = 1 << 20;
	OK(crosslane_channel_transfer(h2c, &write, NULL));
	transfer.bytes = 4099;
	transfer.card_address = 1 << 20;
	OK(crosslane_channel_transfer(c2h, &transfer, NULL));
	OK(crosslane_buffer_read(in, 0, found, 4099));
	CHECK(memcmp(found, wanted + 13, 4099) == 0);
	write.level = CROSSLANE_LEVEL_VISIBLE;
	FAILS(crosslane_channel_transfer(c2h, &write, NULL), EOPNOTSUPP, "sent is possible");
	read.offset = UINT64_MAX;
	CHECK(crosslane_channel_transfer(h2c, &read, NULL) == -EINVAL);
	OK(crosslane_channel_close(fill));
	OK(crosslane_channel_close(h2c));
	OK(crosslane_channel_close(c2h));
	OK(crosslane_peer_memory_close(memory));
	OK(crosslane_buffer_destroy(in));
	OK(crosslane_buffer_destroy(out));
	free(wanted);
	free(found);
}

/* The end of the last transfer, which has an interrupt, tells of those before it. */
static void some_have_no_interrupt(void) {
	crosslane_buffer *buffer = NULL;
	OK(crosslane_buffer_create(first, BYTES, NULL, &buffer));
	crosslane_channel *channel = NULL;
	crosslane_channel_attr attr = {.size = sizeof attr, .notify = CROSSLANE_NOTIFY_INTERRUPT};
	OK(crosslane_channel_open(first, CROSSLANE_C2H, 0, &attr, &channel));
	crosslane_transfer parts[3];
	memset(parts, 0, sizeof parts);
	for (size_t part = 0; part < 3; part++) {
		parts[part].size = sizeof parts[part];
		parts[part].buffer = buffer;
		parts[part].bytes = 1024;
		parts[part].offset = part * 1024;
		parts[part].wr_id = part;
	}
	OK(crosslane_channel_post_unreported(channel, parts, 2));
	OK(crosslane_channel_post(channel, parts + 2, 1));
	crosslane_completion ends[3] = {{.size = sizeof *ends}};
	int count = 0;
	while (count < 3) {
		int more = crosslane_channel_wait(channel, ends + count, 3 - (size_t)count,
						  CROSSLANE_FOREVER);
		CHECK(more > 0);
		count += more;
		if (count < 3)
			ends[count].size = sizeof *ends;
	}
	CHECK(ends[0].wr_id == 0 && ends[2].wr_id == 2 && ends[2].status == 0);
	FAILS(crosslane_channel_post_unreported(channel, NULL, 1), EINVAL, "NULL");
	parts[0].level = 77;
	FAILS(crosslane_channel_post_unreported(channel, parts, 1), EINVAL, "no level 77");
	OK(crosslane_channel_close(channel));
	FAILS(crosslane_channel_post_unreported(channel, parts, 1), EBADF, "closed before");
	OK(crosslane_buffer_destroy(buffer));
}

/* Payloads of 256 B on a path that takes 128 B are lost, and the port that has seen it is named. */
static void ports_are_named(void) {
	crosslane_buffer *buffer = NULL;
	crosslane_channel *channel = NULL;
	OK(crosslane_buffer_create(first, 4096, NULL, &buffer));
	crosslane_channel_attr attr = {.size = sizeof attr, .payload_bytes = 256};
	FAILS(crosslane_channel_open(first, CROSSLANE_C2H, 0, &attr, &channel), EOPNOTSUPP, "256 B");
	attr.flags = CROSSLANE_CHANNEL_OVERSIZE;
	OK(crosslane_channel_open(first, CROSSLANE_C2H, 0, &attr, &channel));
	crosslane_transfer transfer = {.size = sizeof transfer, .buffer = buffer, .bytes = 4096};
	FAILS(crosslane_channel_transfer(channel, &transfer, NULL), EBADMSG, "refused on the way");
	CHECK(strcmp(crosslane_last_error()->ports, "rc47a.down0: fatal error") == 0);
	OK(crosslane_channel_close(channel));

	FAILS(crosslane_session_set_max_payload(session, "fpga1", NULL, 100), EINVAL, "100 B");
	CHECK(strcmp(crosslane_last_error()->ports, "") == 0);
	FAILS(crosslane_session_set_max_payload(session, "fpga1", NULL, 4096), EOPNOTSUPP, "4096 B");
	FAILS(crosslane_session_set_max_payload(session, "nobody", NULL, 256), ENOENT, "nobody");
	FAILS(crosslane_session_set_max_payload(NULL, NULL, NULL, 256), EINVAL, "NULL");
	/* The way between the cards takes them, once it is set to. */
	crosslane_plan *plan = NULL;
	crosslane_plan_info info = {.size = sizeof info};
	CHECK(crosslane_session_set_max_payload(session, "fpga1", "fpga2", 256) > 1);
	OK(crosslane_plan_create(session, "fpga1", "fpga2", &plan));
	OK(crosslane_plan_describe(plan, &info));
	CHECK(info.max_payload_bytes == 256);
	OK(crosslane_plan_destroy(plan));
	OK(crosslane_buffer_destroy(buffer));
}

static void cards_are_reset(void) {
	FAILS(crosslane_session_reset(session, 1), EBUSY, "open as a device");
	FAILS(crosslane_session_reset(session, 2), ENOENT, "no card 2");
	FAILS(crosslane_session_reset(NULL, 0), EINVAL, "NULL");
	OK(crosslane_device_close(second));
	uint64_t before = 0, after = 0;
	OK(crosslane_session_now(session, &before));
	OK(crosslane_session_reset(session, 1));
	OK(crosslane_session_now(session, &after));
	CHECK(after > before);
	OK(crosslane_device_open(session, 1, &second));
	crosslane_buffer *buffer = NULL;
	OK(crosslane_buffer_create(second, 4096, NULL, &buffer));
	crosslane_channel *channel = opened(second, CROSSLANE_C2H, 0);
	crosslane_transfer transfer = {.size = sizeof transfer, .buffer = buffer, .bytes = 4096};
	OK(crosslane_channel_transfer(channel, &transfer, NULL));
	OK(crosslane_channel_close(channel));
	OK(crosslane_buffer_destroy(buffer));
}

int main(void) {
	const char *names[2] = {"lab:rosta:memory/fpga1", "lab:rosta:memory/fpga2"};
	CHECK(strcmp(crosslane_last_error()->ports, "") == 0);
	OK(crosslane_session_open_all(names, 2, NULL, &session));
	OK(crosslane_device_open(session, 0, &first));
	OK(crosslane_device_open(session, 1, &second));
	circuits_write();
	memory_goes_to_memory();
	some_have_no_interrupt();
	ports_are_named();
	cards_are_reset();
	OK(crosslane_device_close(first));
	OK(crosslane_device_close(second));
	OK(crosslane_session_close(session));
	puts("passed");
	return 0;
}
