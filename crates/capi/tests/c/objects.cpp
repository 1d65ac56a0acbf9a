// SPDX-License-Identifier: Apache-2.0 OR MIT
// Objects of crosslane.hpp: what goes out of scope is closed, and a failure is an exception.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "crosslane.hpp"

#define CHECK(condition)                                                                     \
	do {                                                                                 \
		if (!(condition)) {                                                          \
			std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,      \
				     #condition);                                            \
			std::exit(1);                                                        \
		}                                                                            \
	} while (0)

static const std::uint64_t BYTES = 8192;

static void moves_data(crosslane::session &session) {
	auto one = session.device(0), other = session.device(1);
	one.route(CROSSLANE_SOURCE_GENERATOR, CROSSLANE_SOURCE_GENERATOR);
	one.seed(3);
	auto buffer = one.buffer(BYTES);
	auto channel = one.channel(CROSSLANE_C2H);
	auto end = channel.run(crosslane::transfer(buffer, BYTES / 2, 17));
	CHECK(end.wr_id == 17 && end.bytes == BYTES / 2);
	auto second = crosslane::transfer(buffer, BYTES / 2, 18);
	second.offset = BYTES / 2;
	channel.post({second});
	auto ends = channel.wait();
	CHECK(ends.size() == 1 && ends[0].wr_id == 18 && ends[0].status == 0);
	std::vector<std::uint32_t> wanted(BYTES / 4);
	crosslane::check(crosslane_pattern(wanted.data(), BYTES, 3, 0));
	CHECK(buffer.values<std::uint32_t>(BYTES / 4) == wanted);

	auto peer = one.connect(other);
	peer.start_check(3);
	one.seed(3);
	auto writes = one.channel(CROSSLANE_PEER);
	writes.post(crosslane::transfer(peer, BYTES));
	while (writes.poll().empty()) {
	}
	CHECK(peer.check_result().errors == 0 && peer.describe().received_bytes == BYTES);
	// Moved, not copied.
	crosslane::channel moved = std::move(writes);
	CHECK(moved && !writes);
	moved.close();
	CHECK(!moved);
}

static void circuits_write(crosslane::session &session) {
	auto one = session.device(0), other = session.device(1);
	auto there = one.connect(other), back = other.connect(one);
	auto attr = crosslane::sized<crosslane_channel_attr>();
	attr.flags = CROSSLANE_CHANNEL_COMMAND_PORT;
	auto near = one.channel(CROSSLANE_PEER, 0, &attr), far = other.channel(CROSSLANE_PEER, 0, &attr);
	const auto before = one.time_clocks();
	there.command(BYTES);
	there.command_wait();
	CHECK(one.time_clocks() > before);
	other.route(CROSSLANE_SOURCE_GENERATOR,
		    CROSSLANE_SOURCE_RECEIVE_QUEUE + there.describe().receive_queue);
	back.command(128 * 3);
	const auto made = there.ping_pong(128, 3);
	CHECK(made.rounds == 3 && made.least_clocks > 0);
	back.command_wait();
	near.close();
	far.close();
}

static void some_have_no_interrupt(crosslane::session &session) {
	auto device = session.device(0);
	auto buffer = device.buffer(BYTES);
	auto channel = device.channel(CROSSLANE_C2H);
	channel.post_unreported({crosslane::transfer(buffer, BYTES / 2, 5)});
	CHECK(channel.wait().front().wr_id == 5);
	channel.close();
	auto attr = crosslane::sized<crosslane_channel_attr>();
	attr.flags = CROSSLANE_CHANNEL_OVERSIZE;
	attr.payload_bytes = 256;
	auto lossy = device.channel(CROSSLANE_C2H, 0, &attr);
	bool is_caught = false;
	try {
		lossy.run(crosslane::transfer(buffer, BYTES));
	} catch (const crosslane::error &error) {
		is_caught = error.ports().find("fatal error") != std::string::npos;
	}
	CHECK(is_caught);
}

// What has no class is closed all the same.
static void handles_close_themselves() {
	crosslane::session session("lab:aws-f1/f1");
	using crosslane::memory_card;
	auto card = crosslane::opened<memory_card>(crosslane_memory_card_open, session.get(), "f1");
	char byte = 0;
	CHECK(crosslane::check(crosslane_memory_card_drain(card.get(), &byte, 1)) == 0);
	card.close();
	session.reset(0);
	bool is_caught = false;
	try {
		crosslane::opened<crosslane::bridge>(crosslane_bridge_connect, "nowhere", nullptr);
	} catch (const crosslane::error &error) {
		is_caught = error.code() < 0;
	}
	CHECK(is_caught);
	session.close();
}

static void packets_come_back() {
	crosslane::session session("lab:minimal/card0");
	auto device = session.device();
	device.route(CROSSLANE_SOURCE_H2C, CROSSLANE_SOURCE_GENERATOR);
	auto attr = crosslane::sized<crosslane_channel_attr>();
	attr.flags = CROSSLANE_CHANNEL_PACKETS;
	auto out = device.buffer(BYTES), back = device.buffer(BYTES);
	auto h2c = device.channel(CROSSLANE_H2C, 0, &attr), c2h = device.channel(CROSSLANE_C2H, 0, &attr);
	auto first = crosslane::transfer(back, 512, 1), second = crosslane::transfer(back, 512, 2);
	second.offset = 512;
	c2h.post({first, second});
	out.write("abcdef", 6);
	h2c.send({crosslane::packet(out, 4, 0, 9), crosslane::packet(out, 2, 4)});
	CHECK(h2c.wait().size() >= 1);
	std::vector<crosslane_packet_part> parts;
	while (parts.size() < 2)
		for (const auto &part : c2h.receive())
			parts.push_back(part);
	CHECK(parts[0].bytes == 4 && parts[0].user == 9 && parts[0].wr_id == 1);
	CHECK(parts[1].packet_bytes == 2 && parts[1].user == 0 && parts[1].offset == 512);
	const std::uint32_t whole = CROSSLANE_PACKET_BEGINS | CROSSLANE_PACKET_ENDS;
	CHECK(parts[0].flags == whole && parts[1].flags == whole);
	CHECK(back.values<char>(4) == (std::vector<char>{'a', 'b', 'c', 'd'}));
}

static void failures_are_exceptions(crosslane::session &session) {
	auto device = session.device(0);
	bool is_caught = false;
	try {
		auto again = session.device(0);
	} catch (const crosslane::error &error) {
		is_caught = true;
		CHECK(error.code() == -EBUSY && error.kind() == CROSSLANE_KIND_BUSY);
		CHECK(std::strstr(error.what(), "open already") != nullptr);
		CHECK(error.detail() == "in crosslane_device_open");
	}
	CHECK(is_caught);
	// What cannot be closed yet is still open.
	is_caught = false;
	try {
		session.close();
	} catch (const crosslane::error &error) {
		is_caught = error.code() == -EBUSY;
	}
	CHECK(is_caught && session);
}

int main() {
	const std::vector<std::string> names = {"lab:rosta:crosslane/fpga1",
						"lab:rosta:crosslane/fpga2"};
	crosslane::session session(names);
	moves_data(session);
	failures_are_exceptions(session);
	circuits_write(session);
	packets_come_back();
	handles_close_themselves();
	session.sleep(10);
	CHECK(session.now_ps() > 0);
	session.finish();
	// Its port has detected an error, so it would not finish.
	some_have_no_interrupt(session);
	// Nothing is open any more.
	session.close();
	CHECK(!session);
	std::puts("passed");
	return 0;
}
