// SPDX-License-Identifier: Apache-2.0 OR MIT
// C++ over crosslane.h: objects that close themselves, and exceptions with the library's sentence.
// Needs C++17. An object must not outlive those that it was made of; each says which.
#ifndef CROSSLANE_HPP
#define CROSSLANE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "crosslane.h"

namespace crosslane {

// A failed call: what() is the sentence.
class error : public std::runtime_error {
public:
	explicit error(const crosslane_error &last)
	    : std::runtime_error(last.sentence), detail_(last.detail), ports_(last.ports),
	      code_(last.code), kind_(last.kind), moved_bytes_(last.moved_bytes) {}
	int code() const noexcept { return code_; }                // negative, of errno.h
	std::uint32_t kind() const noexcept { return kind_; }      // CROSSLANE_KIND_*
	const std::string &detail() const noexcept { return detail_; }
	const std::string &ports() const noexcept { return ports_; }
	std::uint64_t moved_bytes() const noexcept { return moved_bytes_; }

private:
	std::string detail_, ports_;
	int code_;
	std::uint32_t kind_;
	std::uint64_t moved_bytes_;
};

// Returns what a call has returned, or throws its failure.
inline int check(int result) {
	if (result < 0)
		throw error(*crosslane_last_error());
	return result;
}

// A structure with its size, and all else 0.
template <class T> T sized() {
	T made{};
	made.size = sizeof made;
	return made;
}

// The result that a call writes through its last argument: a structure, a handle or a number.
template <class T, class Call, class... Arguments> T got(Call call, Arguments... arguments) {
	T made{};
	if constexpr (std::is_class_v<T>)
		made.size = sizeof made;
	check(call(arguments..., &made));
	return made;
}

// The results that a call writes into an array of at most `most` structures.
template <class T, class Call, class Handle, class... More>
std::vector<T> taken(Call call, Handle *of, std::size_t most, More... more) {
	std::vector<T> all(most, sized<T>());
	all.resize(check(call(of, all.data(), most, more...)));
	return all;
}

// Owns a handle, moves and does not copy. The handle is closed at the end; close() tells whether
// that went well, and keeps the handle where it did not.
template <class T, int (*Close)(T *)> class owner {
public:
	using pointer = T *;
	owner() = default;
	explicit owner(T *handle) : handle_(handle) {}
	T *get() const noexcept { return handle_.get(); }
	explicit operator bool() const noexcept { return handle_ != nullptr; }
	void close() {
		check(Close(handle_.get()));
		handle_.release();
	}

private:
	struct closer {
		void operator()(T *handle) const noexcept { Close(handle); }
	};
	std::unique_ptr<T, closer> handle_;
};

// Opens something, and owns it.
template <class Owner, class Call, class... More> Owner opened(Call call, More... more) {
	return Owner(got<typename Owner::pointer>(call, more...));
}

// Memory that one device may reach. It must not outlive the device.
class buffer : public owner<crosslane_buffer, crosslane_buffer_destroy> {
	using owner::owner;

public:
	void write(const void *from, std::size_t bytes, std::uint64_t offset = 0) {
		check(crosslane_buffer_write(get(), offset, from, bytes));
	}
	void read(void *into, std::size_t bytes, std::uint64_t offset = 0) const {
		check(crosslane_buffer_read(get(), offset, into, bytes));
	}
	// Bytes from `offset` on, as values.
	template <class T> std::vector<T> values(std::size_t count, std::uint64_t offset = 0) const {
		std::vector<T> made(count);
		read(made.data(), count * sizeof(T), offset);
		return made;
	}
	auto describe() const { return got<crosslane_buffer_info>(crosslane_buffer_describe, get()); }
};

// A connection to a receive queue of another card. It must not outlive the two devices.
class peer : public owner<crosslane_peer, crosslane_peer_close> {
	using owner::owner;

public:
	void start_check(std::uint32_t seed) { check(crosslane_peer_check(get(), seed)); }
	auto check_result() const { return got<crosslane_check>(crosslane_peer_check_result, get()); }
	auto describe() const { return got<crosslane_peer_info>(crosslane_peer_describe, get()); }
	// At the command port of the sender, whose peer channel 0 is open for it.
	void command(std::uint32_t bytes) { check(crosslane_peer_command(get(), bytes)); }
	void command_wait(std::uint64_t ns = 0) { check(crosslane_peer_command_wait(get(), ns)); }
	auto ping_pong(std::uint32_t bytes, std::uint32_t rounds, std::uint64_t ns = 0) {
		return got<crosslane_ping_pong>(crosslane_peer_ping_pong, get(), bytes, rounds, ns);
	}
};

// For the calls of crosslane.h: opened<bridge>(crosslane_bridge_connect, server, nullptr) owns a
// connection, got<crosslane_completion>(crosslane_bridge_transfer, bridge.get(), &job) uses it.
using bridge = owner<crosslane_bridge, crosslane_bridge_close>;
using bridge_memory = owner<crosslane_bridge_memory, crosslane_bridge_memory_destroy>;
using dma = owner<crosslane_dma, crosslane_dma_close>;
using memory_card = owner<crosslane_memory_card, crosslane_memory_card_close>;
using network = owner<crosslane_network, crosslane_network_close>;
using peer_memory = owner<crosslane_peer_memory, crosslane_peer_memory_close>;
using plan = owner<crosslane_plan, crosslane_plan_destroy>;
using slot_receiver = owner<crosslane_slot_receiver, crosslane_slot_receiver_destroy>;
using slot_sender = owner<crosslane_slot_sender, crosslane_slot_sender_destroy>;
using why = owner<crosslane_why, crosslane_why_destroy>;
using window = owner<crosslane_window, crosslane_window_close>;

// A transfer of a whole buffer's first `bytes` bytes, or to a peer; the other members may be set.
inline crosslane_transfer transfer(const buffer &with, std::uint64_t bytes, std::uint64_t wr_id = 0) {
	return {sizeof(crosslane_transfer), wr_id, with.get(), nullptr, nullptr, 0, bytes, 0, 0, 0, 0, 0};
}
inline crosslane_transfer transfer(const peer &with, std::uint64_t bytes, std::uint64_t wr_id = 0) {
	return {sizeof(crosslane_transfer), wr_id, nullptr, with.get(), nullptr, 0, bytes, 0, 0, 0, 0, 0};
}

// A packet of a buffer's bytes, with its user bits.
inline crosslane_packet packet(const buffer &with, std::uint64_t bytes, std::uint64_t offset = 0,
			       std::uint16_t user = 0, std::uint64_t wr_id = 0) {
	return {sizeof(crosslane_packet), wr_id, with.get(), offset, bytes, user, 0};
}

// An open channel. It must not outlive the device.
class channel : public owner<crosslane_channel, crosslane_channel_close> {
	using owner::owner;

public:
	crosslane_completion run(const crosslane_transfer &one) {
		return got<crosslane_completion>(crosslane_channel_transfer, get(), &one);
	}
	void post(const crosslane_transfer &one) { check(crosslane_channel_post(get(), &one, 1)); }
	void post(const std::vector<crosslane_transfer> &all) {
		check(crosslane_channel_post(get(), all.data(), all.size()));
	}
	void post_unreported(const std::vector<crosslane_transfer> &all) {
		check(crosslane_channel_post_unreported(get(), all.data(), all.size()));
	}
	// Completions that are there now, at most `most`; failed ones have a status.
	std::vector<crosslane_completion> poll(std::size_t most = 64) {
		return taken<crosslane_completion>(crosslane_channel_poll, get(), most);
	}
	// Waits for the oldest one.
	std::vector<crosslane_completion> wait(std::size_t most = 64,
					       std::uint64_t timeout_ns = CROSSLANE_FOREVER) {
		return taken<crosslane_completion>(crosslane_channel_wait, get(), most, timeout_ns);
	}
	// On a channel for packets: sends them, and waits for parts of received ones.
	void send(const std::vector<crosslane_packet> &all, std::uint64_t timeout_ns = 0) {
		check(crosslane_channel_send_packets(get(), all.data(), all.size(), timeout_ns));
	}
	std::vector<crosslane_packet_part> receive(std::size_t most = 64,
						   std::uint64_t timeout_ns = CROSSLANE_FOREVER) {
		return taken<crosslane_packet_part>(crosslane_channel_recv_packets, get(), most, timeout_ns);
	}
	void cancel() { check(crosslane_channel_cancel(get())); }
	int descriptor() const { return got<int>(crosslane_channel_fd, get()); }
	auto count() const { return got<crosslane_channel_counters>(crosslane_channel_count, get()); }
};

// An open engine. It must not outlive the session.
class device : public owner<crosslane_device, crosslane_device_close> {
	using owner::owner;

public:
	auto describe() const { return got<crosslane_description>(crosslane_device_describe, get()); }
	void route(std::uint32_t c2h, std::uint32_t to) { check(crosslane_device_route(get(), c2h, to)); }
	void seed(std::uint32_t seed) { check(crosslane_device_seed(get(), seed)); }
	auto time_clocks() const { return got<std::uint64_t>(crosslane_device_time, get()); }
	crosslane::buffer buffer(std::uint64_t bytes, const crosslane_buffer_attr *attr = nullptr) {
		return opened<crosslane::buffer>(crosslane_buffer_create, get(), bytes, attr);
	}
	// The program's own memory, which must be there until the buffer ends.
	crosslane::buffer registered(void *memory, std::uint64_t bytes) {
		return opened<crosslane::buffer>(crosslane_buffer_register, get(), memory, bytes, nullptr);
	}
	crosslane::channel channel(std::uint32_t kind, std::uint32_t number = 0,
				   const crosslane_channel_attr *attr = nullptr) {
		return opened<crosslane::channel>(crosslane_channel_open, get(), kind, number, attr);
	}
	crosslane::peer connect(const device &target, const crosslane_peer_attr *attr = nullptr) {
		return opened<crosslane::peer>(crosslane_peer_connect, get(), target.get(), attr);
	}
};

// Cards that are open, for the thread that opened them.
class session : public owner<crosslane_session, crosslane_session_close> {
	using owner::owner;
	static crosslane_session *all(const std::vector<std::string> &names,
				      const crosslane_session_attr *attr) {
		std::vector<const char *> texts;
		for (const auto &name : names)
			texts.push_back(name.c_str());
		return got<crosslane_session *>(crosslane_session_open_all, texts.data(), texts.size(), attr);
	}

public:
	explicit session(const std::string &name, const crosslane_session_attr *attr = nullptr)
	    : owner(all({name}, attr)) {}
	explicit session(const std::vector<std::string> &names,
			 const crosslane_session_attr *attr = nullptr)
	    : owner(all(names, attr)) {}
	crosslane::device device(std::size_t card = 0) {
		return opened<crosslane::device>(crosslane_device_open, get(), card);
	}
	std::uint64_t now_ps() const { return got<std::uint64_t>(crosslane_session_now, get()); }
	void sleep(std::uint64_t time_ns) { check(crosslane_session_sleep(get(), time_ns)); }
	void finish() { check(crosslane_session_finish(get())); }
	void reset(std::size_t card) { check(crosslane_session_reset(get(), card)); }
};

} // namespace crosslane

#endif
