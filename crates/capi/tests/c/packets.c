// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Packets through a card's stream and back, with their ends and user bits: of a lab, or of the card
 * that is named. */
#include "check.h"

#define BYTES 65536
#define PLACE 2048
#define PLACES 16
/* A served card may be slow. */
#define LATE_NS 60000000000

static crosslane_session *session;
static crosslane_device *device;
static crosslane_buffer *out, *back;
static crosslane_channel *h2c, *c2h;
static unsigned char sent[BYTES];

static const crosslane_channel_attr packets_attr = {
    .size = sizeof(crosslane_channel_attr), .flags = CROSSLANE_CHANNEL_PACKETS};

/* Posts parts of the buffer to receive into; each has its number as wr_id. */
static void post(uint64_t first, size_t count, uint64_t bytes) {
	crosslane_transfer places[PLACES];
	memset(places, 0, sizeof places);
	CHECK(count <= PLACES);
	for (size_t index = 0; index < count; index++) {
		places[index].size = sizeof *places;
		places[index].wr_id = first + index;
		places[index].buffer = back;
		places[index].offset = (first + index) * PLACE;
		places[index].bytes = bytes;
	}
	OK(crosslane_channel_post(c2h, places, count));
}

/* A packet that begins at 100 times its number. */
static crosslane_packet packet(uint64_t number, uint64_t bytes) {
	crosslane_packet made = {.size = sizeof made, .wr_id = number, .buffer = out};
	made.offset = 100 * number;
	made.bytes = bytes;
	made.user = (uint32_t)(0xab00 + number);
	return made;
}

static void is_sent(const crosslane_packet_part *part, uint64_t number, uint64_t skipped) {
	unsigned char seen[PLACE];
	CHECK(part->bytes <= sizeof seen);
	OK(crosslane_buffer_read(back, part->offset, seen, part->bytes));
	CHECK(memcmp(seen, sent + 100 * number + skipped, part->bytes) == 0);
}

static void boundaries_are_kept(void) {
	const uint64_t lengths[4] = {1, 300, PLACE, 2 * PLACE + 7};
	crosslane_packet packets[4];
	for (uint64_t number = 0; number < 4; number++)
		packets[number] = packet(number, lengths[number]);
	post(0, 8, PLACE);
	crosslane_packet_part parts[8] = {{.size = sizeof parts[0]}};
	/* Nothing has come. */
	CHECK(crosslane_channel_recv_packets(c2h, parts, 8, 0) == 0);
	OK(crosslane_channel_send_packets(h2c, packets, 4, LATE_NS));
	FAILS(crosslane_buffer_destroy(out), EBUSY, "in flight");
	for (uint64_t number = 0; number < 4;) {
		crosslane_completion done = {.size = sizeof done};
		CHECK(crosslane_channel_wait(h2c, &done, 1, CROSSLANE_FOREVER) == 1);
		CHECK(done.wr_id == number && done.status == 0 && done.bytes == lengths[number]);
		number++;
	}
	/* The array has room for two of six parts: the rest comes with the next calls. */
	uint64_t seen = 0;
	while (seen < 6) {
		int count = crosslane_channel_recv_packets(c2h, parts + seen, 2, CROSSLANE_FOREVER);
		CHECK(count > 0 && count <= 2);
		seen += (uint64_t)count;
		parts[seen].size = sizeof *parts;
	}
	const uint64_t number_of[6] = {0, 1, 2, 3, 3, 3};
	uint64_t skipped = 0;
	for (uint64_t part = 0; part < 6; part++) {
		uint64_t number = number_of[part];
		uint32_t flags = 0;
		skipped = part > 0 && number_of[part - 1] == number ? skipped : 0;
		if (skipped == 0)
			flags |= CROSSLANE_PACKET_BEGINS;
		if (skipped + parts[part].bytes == lengths[number])
			flags |= CROSSLANE_PACKET_ENDS;
		CHECK(parts[part].size == sizeof *parts && parts[part].wr_id == part);
		CHECK(parts[part].offset == part * PLACE && parts[part].flags == flags);
		CHECK(parts[part].packet_bytes == lengths[number]);
		CHECK(parts[part].user == 0xab00 + number);
		is_sent(&parts[part], number, skipped);
		skipped += parts[part].bytes;
	}
	crosslane_channel_counters counters = {.size = sizeof counters};
	OK(crosslane_channel_count(c2h, &counters));
	CHECK(counters.packets == 4 && counters.packets_dropped == 0);
	CHECK(counters.packets_truncated == 0);
	/* A program of before there were packets gets what it knows. */
	counters.size = offsetof(crosslane_channel_counters, packets);
	counters.packets = 77;
	OK(crosslane_channel_count(c2h, &counters));
	CHECK(counters.packets == 77);
	/* Two places are left. A packet by a plain transfer has no user bits. */
	crosslane_transfer plain = {.size = sizeof plain, .buffer = out, .bytes = 5};
	plain.timeout_ns = LATE_NS;
	OK(crosslane_channel_transfer(h2c, &plain, NULL));
	CHECK(crosslane_channel_recv_packets(c2h, parts, 8, CROSSLANE_FOREVER) == 1);
	CHECK(parts[0].wr_id == 6 && parts[0].bytes == 5 && parts[0].user == 0);
}

/* The place that is left is too small for the packet. */
static void a_long_packet_needs_more(void) {
	crosslane_packet_part parts[4] = {{.size = sizeof parts[0]}};
	crosslane_packet long_one = packet(9, PLACE + 1);
	OK(crosslane_channel_send_packets(h2c, &long_one, 1, CROSSLANE_FOREVER));
	FAILS(crosslane_channel_recv_packets(c2h, parts, 4, CROSSLANE_FOREVER), EINVAL,
	      "longer than what was posted: 2048 B");
	FAILS(crosslane_buffer_destroy(back), EBUSY, "1 of its transfers is in flight");
	post(8, 1, 64);
	CHECK(crosslane_channel_recv_packets(c2h, parts, 4, CROSSLANE_FOREVER) == 2);
	CHECK(parts[1].wr_id == 8 && parts[1].bytes == 1 && parts[1].packet_bytes == PLACE + 1);
	crosslane_completion done = {.size = sizeof done};
	CHECK(crosslane_channel_wait(h2c, &done, 1, CROSSLANE_FOREVER) == 1);
	FAILS(crosslane_channel_recv_packets(c2h, parts, 4, CROSSLANE_FOREVER), EINVAL,
	      "nothing is posted");
}

/* A cancelled place is told once, and its memory is free. */
static void cancelled_places_are_free(void) {
	crosslane_packet_part part = {.size = sizeof part};
	post(0, 4, PLACE);
	OK(crosslane_channel_cancel(c2h));
	FAILS(crosslane_channel_recv_packets(c2h, &part, 1, 0), ECANCELED, "cancelled");
	post(4, 1, PLACE);
	crosslane_packet one = packet(1, 40);
	OK(crosslane_channel_send_packets(h2c, &one, 1, LATE_NS));
	CHECK(crosslane_channel_recv_packets(c2h, &part, 1, CROSSLANE_FOREVER) == 1);
	CHECK(part.wr_id == 4);
	is_sent(&part, 1, 0);
	crosslane_completion done = {.size = sizeof done};
	CHECK(crosslane_channel_wait(h2c, &done, 1, CROSSLANE_FOREVER) == 1);
}

/* Waits until the engine has dropped and cut so many packets, and no more. */
static void wait_for(uint64_t dropped, uint64_t cut) {
	crosslane_channel_counters counters = {.size = sizeof counters};
	for (int looks = 0; looks < 100000; looks++) {
		OK(crosslane_channel_count(c2h, &counters));
		if (counters.packets_dropped >= dropped && counters.packets_truncated >= cut)
			break;
		OK(crosslane_session_sleep(session, 100000));
	}
	CHECK(counters.packets_dropped == dropped && counters.packets_truncated == cut);
}

/* Packets for which nothing is posted are dropped and counted; one that fits in part is cut. */
static void drops_are_counted(void) {
	OK(crosslane_channel_close(c2h));
	crosslane_channel_attr attr = packets_attr;
	attr.flags |= CROSSLANE_CHANNEL_DROP_PACKETS;
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, &attr, &c2h));
	crosslane_packet packets[2] = {packet(1, 500), packet(2, 70)};
	OK(crosslane_channel_send_packets(h2c, packets, 2, LATE_NS));
	wait_for(2, 0);
	post(0, 1, PLACE);
	packets[0].bytes = PLACE + 100;
	OK(crosslane_channel_send_packets(h2c, packets, 1, LATE_NS));
	wait_for(2, 1);
	/* That it is cut is known when the next one begins. */
	crosslane_packet_part part[2] = {{.size = sizeof *part}};
	CHECK(crosslane_channel_recv_packets(c2h, part, 2, 0) == 0);
	post(1, 1, PLACE);
	OK(crosslane_channel_send_packets(h2c, packets + 1, 1, LATE_NS));
	CHECK(crosslane_channel_recv_packets(c2h, part, 2, CROSSLANE_FOREVER) == 2);
	CHECK(part[0].bytes == PLACE && part[0].user == 0);
	const uint32_t whole = CROSSLANE_PACKET_BEGINS | CROSSLANE_PACKET_ENDS;
	CHECK(part[0].flags == (whole | CROSSLANE_PACKET_CUT));
	CHECK(part[1].bytes == 70 && part[1].user == 0xab02 && part[1].flags == whole);
	wait_for(2, 1);
	crosslane_completion done[4] = {{.size = sizeof done[0]}};
	CHECK(crosslane_channel_wait(h2c, done, 4, CROSSLANE_FOREVER) == 4);
}

/* The program's own memory has the data when the parts are given. */
static void registered_memory_has_the_data(void) {
	crosslane_buffer *own = NULL, *from = NULL;
	unsigned char memory[256], data[256];
	memset(memory, 0, sizeof memory);
	memcpy(data, sent, sizeof data);
	OK(crosslane_buffer_register(device, memory, sizeof memory, NULL, &own));
	OK(crosslane_buffer_register(device, data, sizeof data, NULL, &from));
	crosslane_transfer place = {.size = sizeof place, .wr_id = 3, .buffer = own, .bytes = 256};
	OK(crosslane_channel_post(c2h, &place, 1));
	crosslane_packet one = {.size = sizeof one, .buffer = from, .offset = 8, .bytes = 99};
	OK(crosslane_channel_send_packets(h2c, &one, 1, LATE_NS));
	crosslane_packet_part part = {.size = sizeof part};
	CHECK(crosslane_channel_recv_packets(c2h, &part, 1, CROSSLANE_FOREVER) == 1);
	CHECK(part.bytes == 99 && memcmp(memory, data + 8, 99) == 0 && memory[99] == 0);
	crosslane_completion done = {.size = sizeof done};
	CHECK(crosslane_channel_wait(h2c, &done, 1, CROSSLANE_FOREVER) == 1);
	OK(crosslane_buffer_destroy(from));
	OK(crosslane_buffer_destroy(own));
}

static void bad_input(void) {
	crosslane_packet_part part = {.size = sizeof part};
	crosslane_packet one = packet(1, 64), two[2] = {packet(1, 64), packet(2, 64)};
	FAILS(crosslane_channel_send_packets(h2c, NULL, 1, 0), EINVAL, "NULL");
	FAILS(crosslane_channel_send_packets(NULL, &one, 1, 0), EINVAL, "the channel is NULL");
	FAILS(crosslane_channel_recv_packets(c2h, NULL, 1, 0), EINVAL, "NULL");
	part.size = 8;
	FAILS(crosslane_channel_recv_packets(c2h, &part, 1, 0), EINVAL, "size");
	CHECK(crosslane_channel_recv_packets(c2h, NULL, 0, CROSSLANE_FOREVER) == 0);
	two[1].user = 0x10000;
	FAILS(crosslane_channel_send_packets(h2c, two, 2, 0), EINVAL, "packet 1 of 2: user has more");
	two[1].user = 0;
	two[1].reserved = 1;
	FAILS(crosslane_channel_send_packets(h2c, two, 2, 0), EINVAL, "packet 1 of 2: reserved");
	two[1].reserved = 0;
	two[1].buffer = NULL;
	FAILS(crosslane_channel_send_packets(h2c, two, 2, 0), EINVAL, "the buffer is NULL");
	two[1] = packet(2, 0);
	FAILS(crosslane_channel_send_packets(h2c, two, 2, 0), EINVAL, "H2C 0");
	two[1] = packet(2, BYTES);
	FAILS(crosslane_channel_send_packets(h2c, two, 2, 0), EINVAL, "not in its");
	OK(crosslane_channel_send_packets(h2c, two, 0, 0));
	part.size = sizeof part;
	FAILS(crosslane_channel_send_packets(c2h, &one, 1, 0), EINVAL, "sent by H2C channels");
	FAILS(crosslane_channel_recv_packets(h2c, &part, 1, 0), EINVAL, "received by C2H channels");
	crosslane_completion done = {.size = sizeof done};
	FAILS(crosslane_channel_poll(c2h, &done, 1), EINVAL, "crosslane_channel_recv_packets");
	FAILS(crosslane_channel_wait(c2h, &done, 1, 0), EINVAL, "crosslane_channel_recv_packets");
	crosslane_transfer place = {.size = sizeof place, .buffer = back, .bytes = 64};
	FAILS(crosslane_channel_transfer(c2h, &place, &done), EINVAL, "crosslane_channel_recv_packets");
	/* Channels that are not in packet mode. */
	OK(crosslane_channel_close(h2c));
	OK(crosslane_channel_close(c2h));
	OK(crosslane_channel_open(device, CROSSLANE_H2C, 0, NULL, &h2c));
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, NULL, &c2h));
	FAILS(crosslane_channel_send_packets(h2c, &one, 1, LATE_NS), EINVAL, "opened for packets");
	FAILS(crosslane_channel_recv_packets(c2h, &part, 1, 0), EINVAL, "opened for packets");
	OK(crosslane_channel_close(h2c));
	OK(crosslane_channel_close(c2h));
	crosslane_channel_attr attr = packets_attr;
	attr.flags = CROSSLANE_CHANNEL_DROP_PACKETS;
	FAILS(crosslane_channel_open(device, CROSSLANE_C2H, 0, &attr, &c2h), EINVAL,
	      "in packet mode drop packets");
	attr.flags = CROSSLANE_CHANNEL_PACKETS | CROSSLANE_CHANNEL_TABLE;
	FAILS(crosslane_channel_open(device, CROSSLANE_C2H, 0, &attr, &c2h), EINVAL, "need a ring");
	attr.flags = 128;
	FAILS(crosslane_channel_open(device, CROSSLANE_C2H, 0, &attr, &c2h), EINVAL, "flags 0x80");
}

static void an_engine_without_packets(void) {
	crosslane_session *other = NULL;
	crosslane_device *card = NULL;
	crosslane_channel *channel = NULL;
	OK(crosslane_session_open("lab:rosta:crosslane/fpga1", NULL, &other));
	OK(crosslane_device_open(other, 0, &card));
	crosslane_description known = {.size = sizeof known};
	OK(crosslane_device_describe(card, &known));
	CHECK(known.has_packets == 0);
	FAILS(crosslane_channel_open(card, CROSSLANE_C2H, 0, &packets_attr, &channel), EOPNOTSUPP,
	      "no packet mode");
	OK(crosslane_device_close(card));
	OK(crosslane_session_close(other));
}

int main(int count, char **arguments) {
	OK(crosslane_pattern(sent, BYTES, 7, 0));
	crosslane_session_attr shared = {.size = sizeof shared, .flags = CROSSLANE_SESSION_SHARED};
	if (count > 1)
		OK(crosslane_session_open(arguments[1], &shared, &session));
	else
		OK(crosslane_session_open("lab:minimal/card0", NULL, &session));
	OK(crosslane_device_open(session, 0, &device));
	crosslane_description known = {.size = sizeof known};
	OK(crosslane_device_describe(device, &known));
	CHECK(known.has_packets == 1);
	/* A served card has had other programs. */
	OK(crosslane_device_reset_counters(device));
	OK(crosslane_device_route(device, CROSSLANE_SOURCE_H2C, CROSSLANE_SOURCE_GENERATOR));
	OK(crosslane_buffer_create(device, BYTES, NULL, &out));
	OK(crosslane_buffer_create(device, BYTES, NULL, &back));
	OK(crosslane_buffer_write(out, 0, sent, BYTES));
	OK(crosslane_channel_open(device, CROSSLANE_H2C, 0, &packets_attr, &h2c));
	OK(crosslane_channel_open(device, CROSSLANE_C2H, 0, &packets_attr, &c2h));
	boundaries_are_kept();
	a_long_packet_needs_more();
	cancelled_places_are_free();
	drops_are_counted();
	registered_memory_has_the_data();
	bad_input();
	OK(crosslane_buffer_destroy(back));
	OK(crosslane_buffer_destroy(out));
	OK(crosslane_device_close(device));
	OK(crosslane_session_finish(session));
	OK(crosslane_session_close(session));
	an_engine_without_packets();
	puts("passed");
	return 0;
}
