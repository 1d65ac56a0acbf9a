// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Transfers of every kind on the lab rosta, with their times. */
#include "check.h"

#define BYTES 65536

static void *pattern(uint32_t seed, size_t bytes) {
	void *made = malloc(bytes);
	CHECK(made != NULL);
	OK(crosslane_pattern(made, bytes, seed, 0));
	return made;
}

/* The user circuit generates words, which channel C2H 0 writes to host memory. */
static void card_to_host(crosslane_session *session, crosslane_device *device) {
	crosslane_buffer *buffer = NULL;
	crosslane_channel *channel = NULL;
	OK(crosslane_device_route(device, CROSSLANE_SOURCE_GENERATOR, CROSSLANE_SOURCE_GENERATOR));
	OK(crosslane_device_seed(device, 7));
	OK(crosslane_buffer_create(device, BYTES, NULL, &buffer));
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, NULL, &channel));

	uint64_t before = 0, after = 0;
	OK(crosslane_session_now(session, &before));
	crosslane_transfer transfer = {.size = sizeof transfer, .wr_id = 42, .buffer = buffer};
	transfer.bytes = BYTES / 2;
	crosslane_completion done = {.size = sizeof done};
	OK(crosslane_channel_transfer(channel, &transfer, &done));
	OK(crosslane_session_now(session, &after));
	CHECK(done.size == sizeof done && done.wr_id == 42 && done.status == 0);
	CHECK(done.bytes == BYTES / 2 && done.total_bytes == BYTES / 2);
	CHECK(done.level == CROSSLANE_LEVEL_VISIBLE);
	CHECK(before <= done.posted_ps && done.posted_ps < done.completed_ps);
	CHECK(done.completed_ps <= after);
	/* Gen2 x4 with payloads of 128 B: 1.7 GB/s, less the time to begin and to end. */
	double rate = (double)done.bytes * 1e12 / (double)(done.completed_ps - done.posted_ps);
	CHECK(rate > 1.4e9 && rate < 1.75e9);

	/* The second half, posted in four parts with one doorbell, and polled. */
	crosslane_transfer parts[4];
	memset(parts, 0, sizeof parts);
	for (size_t part = 0; part < 4; part++) {
		parts[part].size = sizeof parts[part];
		parts[part].wr_id = 100 + part;
		parts[part].buffer = buffer;
		parts[part].bytes = BYTES / 8;
		parts[part].offset = BYTES / 2 + part * BYTES / 8;
	}
	OK(crosslane_channel_post(channel, parts, 4));
	FAILS(crosslane_buffer_destroy(buffer), EBUSY, "in flight");
	char byte = 0;
	FAILS(crosslane_buffer_read(buffer, BYTES - 1, &byte, 1), EBUSY, "in flight");
	crosslane_completion ends[3] = {{.size = sizeof ends[0]}};
	uint64_t polls = 0, next = 100;
	while (next < 104) {
		int count = crosslane_channel_poll(channel, ends, 3);
		CHECK(count >= 0 && count <= 3);
		polls++;
		for (int end = 0; end < count; end++) {
			CHECK(ends[end].wr_id == next++ && ends[end].status == 0);
			CHECK(ends[end].bytes == BYTES / 8);
		}
	}
	CHECK(polls > 4);
	CHECK(crosslane_channel_poll(channel, ends, 3) == 0);
	CHECK(crosslane_channel_wait(channel, ends, 3, CROSSLANE_FOREVER) == 0);

	char *seen = malloc(BYTES), *wanted = pattern(7, BYTES);
	CHECK(seen != NULL);
	OK(crosslane_buffer_read(buffer, 0, seen, BYTES));
	CHECK(memcmp(seen, wanted, BYTES) == 0);
	free(seen);
	free(wanted);

	crosslane_channel_counters counters = {.size = sizeof counters};
	OK(crosslane_channel_count(channel, &counters));
	CHECK(counters.posted == 5 && counters.completed == 5 && counters.doorbells == 2);
	CHECK(counters.bytes == BYTES && counters.engine_bytes == BYTES);
	CHECK(counters.engine_tlps == BYTES / 128);
	OK(crosslane_channel_close(channel));
	OK(crosslane_buffer_destroy(buffer));
}

/* The card's checker compares what channel H2C 0 reads from the program's own memory. */
static void host_to_card(crosslane_device *device) {
	crosslane_buffer *buffer = NULL;
	crosslane_channel *channel = NULL;
	char *data = pattern(9, BYTES);
	OK(crosslane_buffer_register(device, data, BYTES, NULL, &buffer));
	crosslane_buffer_info info = {.size = sizeof info};
	OK(crosslane_buffer_describe(buffer, &info));
	CHECK(info.bytes == BYTES && info.memory == data && info.is_copied == 1);
	OK(crosslane_device_check_h2c(device, 9));
	OK(crosslane_channel_open(device, CROSSLANE_H2C, 0, NULL, &channel));
	crosslane_transfer transfer = {.size = sizeof transfer, .wr_id = 1, .buffer = buffer};
	transfer.bytes = BYTES;
	OK(crosslane_channel_post(channel, &transfer, 1));
	crosslane_completion done = {.size = sizeof done};
	/* Not within 100 ns. */
	CHECK(crosslane_channel_wait(channel, &done, 1, 100) == 0);
	CHECK(crosslane_channel_wait(channel, &done, 1, CROSSLANE_FOREVER) == 1);
	CHECK(done.wr_id == 1 && done.status == 0);
	/* Ends when nothing waits in the channel's staging memory. */
	OK(crosslane_channel_cancel(channel));
	crosslane_check check = {.size = sizeof check};
	OK(crosslane_device_h2c_check_result(device, &check));
	CHECK(check.errors == 0);
	OK(crosslane_channel_close(channel));
	OK(crosslane_buffer_destroy(buffer));
	free(data);
}

/* A card writes into another's receive queue, past the host. */
static void card_to_card(crosslane_device *sender, crosslane_device *target) {
	crosslane_peer *peer = NULL;
	crosslane_channel *channel = NULL;
	OK(crosslane_device_seed(sender, 5));
	OK(crosslane_peer_connect(sender, target, NULL, &peer));
	OK(crosslane_peer_check(peer, 5));
	OK(crosslane_channel_open(sender, CROSSLANE_PEER, 0, NULL, &channel));
	crosslane_transfer transfer = {.size = sizeof transfer, .wr_id = 3, .peer = peer};
	transfer.bytes = BYTES;
	OK(crosslane_channel_post(channel, &transfer, 1));
	FAILS(crosslane_peer_close(peer), EBUSY, "in flight");
	crosslane_completion done = {.size = sizeof done};
	CHECK(crosslane_channel_wait(channel, &done, 1, CROSSLANE_FOREVER) == 1);
	CHECK(done.wr_id == 3 && done.status == 0 && done.bytes == BYTES);
	CHECK(done.level == CROSSLANE_LEVEL_ACKNOWLEDGED);
	crosslane_check check = {.size = sizeof check};
	OK(crosslane_peer_check_result(peer, &check));
	CHECK(check.errors == 0);
	crosslane_peer_info info = {.size = sizeof info};
	OK(crosslane_peer_describe(peer, &info));
	CHECK(info.received_bytes == BYTES && info.has_lost == 0);
	OK(crosslane_channel_close(channel));
	OK(crosslane_peer_close(peer));
}

/* A transfer that fails says how much was moved. */
static void missed_deadline(crosslane_device *device) {
	crosslane_buffer *buffer = NULL;
	crosslane_channel *channel = NULL;
	OK(crosslane_buffer_create(device, BYTES, NULL, &buffer));
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, NULL, &channel));
	crosslane_transfer transfer = {.size = sizeof transfer, .wr_id = 8, .buffer = buffer};
	transfer.bytes = BYTES;
	transfer.timeout_ns = 10000;
	crosslane_completion done = {.size = sizeof done};
	FAILS(crosslane_channel_transfer(channel, &transfer, &done), ETIMEDOUT, "deadline");
	const crosslane_error *error = crosslane_last_error();
	CHECK(error->kind == CROSSLANE_KIND_TIMEOUT && error->total_bytes == BYTES);
	CHECK(error->moved_bytes > 0 && error->moved_bytes < BYTES);
	CHECK(strstr(error->detail, "crosslane_channel_transfer") != NULL);
	CHECK(done.status == -ETIMEDOUT && done.bytes == error->moved_bytes && done.wr_id == 8);
	/* Posted, the completion has the same. */
	OK(crosslane_channel_post(channel, &transfer, 1));
	done.status = 0;
	CHECK(crosslane_channel_wait(channel, &done, 1, CROSSLANE_FOREVER) == 1);
	CHECK(done.status == -ETIMEDOUT && done.kind == CROSSLANE_KIND_TIMEOUT);
	CHECK(crosslane_last_error()->code == -ETIMEDOUT);
	/* And the channel takes new ones. */
	transfer.timeout_ns = 0;
	OK(crosslane_channel_transfer(channel, &transfer, NULL));
	OK(crosslane_channel_close(channel));
	OK(crosslane_buffer_destroy(buffer));
}

static void windows_and_plans(crosslane_session *session) {
	crosslane_window *window = NULL;
	crosslane_window_attr attr = {.size = sizeof attr, .bar = 0, .bytes = 64};
	OK(crosslane_window_open(session, "fpga1", &attr, &window));
	uint64_t bytes = 0, before = 0, after = 0;
	OK(crosslane_window_size(window, &bytes));
	CHECK(bytes == 64);
	uint32_t id = 0;
	OK(crosslane_session_now(session, &before));
	OK(crosslane_window_read(window, 0, &id, sizeof id));
	OK(crosslane_session_now(session, &after));
	/* A load is a round trip. */
	CHECK(id != 0 && id != UINT32_MAX && after - before > 500000);
	FAILS(crosslane_window_read(window, 62, &id, 4), EINVAL, "reach beyond");
	FAILS(crosslane_session_close(session), EBUSY, "open");
	OK(crosslane_window_close(window));

	crosslane_plan *plan = NULL;
	OK(crosslane_plan_create(session, "fpga1", "fpga2", &plan));
	crosslane_plan_info info = {.size = sizeof info};
	OK(crosslane_plan_describe(plan, &info));
	CHECK(info.max_payload_bytes == 128 && info.is_through_root_complex == 0);
	CHECK(strstr(info.path, "fpga1 -> ") == info.path && strstr(info.path, " -> fpga2"));
	CHECK(info.expected_bytes_per_second > 1.6e9 && info.expected_bytes_per_second < 1.8e9);
	CHECK(strstr(info.refused, "payloads are 128 B") != NULL);
	OK(crosslane_plan_destroy(plan));
	FAILS(crosslane_plan_create(session, "fpga1", "fpga1", &plan), EINVAL, "no link");
	FAILS(crosslane_plan_create(session, "fpga99", NULL, &plan), ENOENT, "fpga99");
}

static void why_not_faster(void) {
	crosslane_why *why = NULL;
	crosslane_why_attr attr = {.size = sizeof attr, .bytes = 8192, .transfers = 8, .steps = 1};
	attr.kind = CROSSLANE_C2H;
	OK(crosslane_why_create("rosta:crosslane", "fpga1", &attr, &why));
	crosslane_why_info info = {.size = sizeof info};
	OK(crosslane_why_describe(why, &info));
	CHECK(info.bytes_per_second > 1e9 && info.next_bytes_per_second > info.bytes_per_second);
	CHECK(strstr(info.text, " MB/s without") != NULL);
	OK(crosslane_why_destroy(why));
	attr.kind = 7;
	FAILS(crosslane_why_create("rosta:crosslane", "fpga1", &attr, &why), EINVAL, "kind 7");
	FAILS(crosslane_why_create("no such lab", "fpga1", NULL, &why), ENOENT, "no such lab");
	CHECK(crosslane_why_create("rosta:crosslane", "fpga99", NULL, &why) < 0);
	CHECK(strstr(crosslane_last_error()->sentence, "fpga99") != NULL);
}

int main(void) {
	const char *names[2] = {"lab:rosta:crosslane/fpga1", "lab:rosta:crosslane/fpga2"};
	crosslane_session *session = NULL;
	OK(crosslane_session_open_all(names, 2, NULL, &session));
	CHECK(crosslane_session_is_simulated(session) == 1);
	size_t count = 0;
	OK(crosslane_session_card_count(session, &count));
	CHECK(count == 2);
	crosslane_card card = {.size = sizeof card};
	OK(crosslane_session_card(session, 1, &card));
	CHECK(strcmp(card.name, "fpga2") == 0 && strcmp(card.endpoint, "fpga2") == 0);

	crosslane_device *one = NULL, *other = NULL;
	OK(crosslane_device_open(session, 0, &one));
	OK(crosslane_device_open(session, 1, &other));
	crosslane_description description = {.size = sizeof description};
	OK(crosslane_device_describe(one, &description));
	CHECK(description.h2c_channels >= 1 && description.clock_ps > 0);
	card_to_host(session, one);
	host_to_card(one);
	card_to_card(one, other);
	missed_deadline(one);
	windows_and_plans(session);
	why_not_faster();

	uint64_t before = 0, after = 0;
	OK(crosslane_session_now(session, &before));
	OK(crosslane_session_sleep(session, 1500));
	OK(crosslane_session_now(session, &after));
	CHECK(after - before == 1500000);
	OK(crosslane_device_close(other));
	OK(crosslane_device_close(one));
	OK(crosslane_session_finish(session));
	OK(crosslane_session_close(session));
	puts("passed");
	return 0;
}
