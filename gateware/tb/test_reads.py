# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_reads: tags, completions in any order to their positions, time-outs, order, fetches."""

import random
from collections import deque

import cocotb
import pytest
from completer import Fault, bytes_of
from packed import CONSTANTS, part, unpack
from read_bench import ReadBench, clocks, load, run
from simulate import SEED, simulate, widths
from tlp_stream import Tlp, enables

ERRORS = {value: name for name, value in CONSTANTS.items() if name.startswith("ERROR_")}


class Reads(ReadBench):
    """crosslane_reads with its channels and fetchers."""

    def __init__(self, dut, seed: int):
        self.fetchers = len(dut.fetch_valid) if int(dut.FETCHERS.value) else 0
        super().__init__(dut, seed, len(dut.read_valid))
        self.tags = int(dut.TAGS.value)
        self.batch = int(dut.BATCH.value)
        self.timeout = int(dut.TIMEOUT_CLOCKS.value)
        self.to_read: list[deque] = [deque() for _ in range(self.h2c)]
        self.expected = [bytearray() for _ in range(self.h2c)]
        self.arrived = [0] * self.h2c
        self.failed = [None] * self.h2c  # (error, address)
        self.issue = 1.0  # probability that a read is offered
        self.accepted: list[int] = []  # clocks
        self.to_fetch: list[deque] = [deque() for _ in range(self.fetchers)]
        self.fetched: list[list[bytes]] = [[] for _ in range(self.fetchers)]
        self.fetch_faults: list[list] = [[] for _ in range(self.fetchers)]
        self.room = [2 * self.batch] * self.fetchers
        self.wants = 1.0  # probability that a fetched descriptor is taken
        self.forget = self.clear = self.fetch_forget = 0  # for the next clock

    async def start(self):
        return await super().start(
            "read_valid", "forget", "clear", "fetch_asks", "fetch_valid", "fetch_forget",
            "read_address", "read_bytes", "read_relaxed", "fetch_address", "fetch_bytes",
            "fetched_ready", "m_fetch_ready",
        )  # fmt: skip

    def read(self, channel: int, address: int, count: int) -> None:
        """Queues a read of a channel."""
        self.to_read[channel].append((address, count))
        self.expected[channel] += load(address, count)

    def read_some(self, channel: int, count: int, most: int | None = None) -> None:
        """Queues random reads of a channel."""
        for _ in range(count):
            self.read(channel, *random_read(self.seed, most or int(self.dut.MAX_READ.value)))

    def read_each(self, base: int, count: int) -> None:
        """Queues reads of 64 B, one after the other."""
        for n in range(count):
            self.read(0, base + n * 64, 64)

    async def clock(self):
        await super().clock()
        self._channels()
        if self.fetchers:
            self._fetchers()

    def _channels(self):
        dut = self.dut
        valid, ready = int(dut.read_valid.value), int(dut.read_ready.value)
        arrived, counts = int(dut.arrived_valid.value), int(dut.arrived_bytes.value)
        failed = int(dut.failed_valid.value)
        for h in range(self.h2c):
            if valid & ready & 1 << h:
                # Unless the test has just taken it back.
                if self.to_read[h]:
                    self.to_read[h].popleft()
                self.accepted.append(self.now)
            if arrived & 1 << h:
                self.arrived[h] += part(counts, 13, h)
            if failed & 1 << h:
                error = ERRORS[part(dut.failed_error.value, 4, h)]
                self.failed[h] = (error, part(dut.failed_address.value, 64, h))
        valid = address = count = 0
        for h, line in enumerate(self.to_read):
            if line and (self.issue == 1.0 or self.seed.random() < self.issue):
                valid |= 1 << h
                address |= line[0][0] << 64 * h
                count |= line[0][1] << 13 * h
        dut.read_valid.value = valid
        dut.read_address.value = address
        dut.read_bytes.value = count
        dut.forget.value = self.forget
        dut.clear.value = self.clear
        dut.fetch_forget.value = self.fetch_forget
        self.cleared = self.clear
        self.forget = self.clear = self.fetch_forget = 0

    def _fetchers(self):
        dut = self.dut
        valid, ready = int(dut.fetch_valid.value), int(dut.fetch_ready.value)
        shown, wanted = int(dut.fetched_valid.value), int(dut.fetched_ready.value)
        failed = int(dut.fetch_failed.value)
        data = int(dut.fetched_data.value)
        if int(dut.m_fetch_valid.value) and int(dut.m_fetch_ready.value):
            tlp = Tlp(vars(unpack("tlp_header_t", int(dut.m_fetch_header.value))))
            self.fetches.append(tlp)
            self.request_taken(tlp)
        for f in range(self.fetchers):
            if valid & ready & 1 << f and self.to_fetch[f]:
                self.room[f] -= self.to_fetch[f].popleft()[1] // 32
            if shown & wanted & 1 << f:
                self.fetched[f].append(part(data, 256, f).to_bytes(32, "little"))
                self.room[f] += 1
            if failed & 1 << f:
                error = ERRORS[part(dut.fetch_error.value, 4, f)]
                address = part(dut.fetch_error_address.value, 64, f)
                self.fetch_faults[f].append((error, address, len(self.fetched[f])))
        valid = address = count = 0
        for f, line in enumerate(self.to_fetch):
            if line and self.room[f] >= line[0][1] // 32 and self.seed.random() < self.issue:
                valid |= 1 << f
                address |= line[0][0] << 64 * f
                count |= line[0][1] << 13 * f
        dut.fetch_asks.value = dut.fetch_valid.value = valid
        dut.fetch_address.value = address
        dut.fetch_bytes.value = count
        dut.fetched_ready.value = sum(
            (self.seed.random() < self.wants) << f for f in range(self.fetchers)
        )
        dut.m_fetch_ready.value = self.seed.random() < self.ready

    def request_taken(self, tlp):
        address, count = bytes_of(tlp)
        first, last, length = enables(address, count)
        assert (tlp.first_be, tlp.last_be, tlp.length_dw) == (first, last, length)
        assert tlp.requester == self.function["routing_id"]
        busy = {answer.request.tag for answer in self.completer.answers}
        assert tlp.tag not in busy, f"tag {tlp.tag} is used twice"
        super().request_taken(tlp)

    def in_flight(self, channel: int = 0) -> int:
        """The channel's reading of reads in flight."""
        return part(self.dut.in_flight.value, 16, channel)

    def is_done(self) -> bool:
        """Whether all requested data have arrived."""
        return all(
            len(consumer.data) >= len(expected)
            for consumer, expected in zip(self.consumers, self.expected, strict=True)
        )

    def check(self) -> None:
        """Compares the data taken off the feeds with the memory."""
        for h, expected in enumerate(self.expected):
            self.compare(h, bytes(expected))

    async def finish(self, limit: int = 20000, what: str = "the end") -> None:
        """Waits until all requested data have arrived, and checks them."""
        await run(self, self.is_done, limit, what)
        self.check()


async def bench(dut) -> Reads:
    """A bench after reset."""
    return await Reads(dut, SEED).start()


def random_read(seed: random.Random, most: int) -> tuple[int, int]:
    """A read that crosses no 4 KiB boundary."""
    address = seed.randrange(1 << 40)
    if seed.random() < 0.3:
        address &= ~0x3F
    count = seed.choice([1, 2, 3, 4, 5, 64, 256, most, seed.randint(1, most)])
    return address, min(count, most, 4096 - address % 4096)


@cocotb.test()
async def random_reads_arrive_in_order(dut):
    b = await bench(dut)
    b.completer.latency = (5, 120)
    for phase, (boundary, payload, pause) in enumerate(
        [(64, 128, 0.0), (128, 256, 0.3), (64, 512, 0.1), (128, 1024, 0.0)]
    ):
        b.completer.boundary, b.completer.max_payload = boundary, payload
        b.pause, b.ready, b.issue = pause, 1 - pause, 1 - pause
        b.wants = 1 - pause
        for consumer in b.consumers:
            consumer.rate = [1.0, 0.6][phase % 2]
            consumer.any_size = phase % 2 == 1
        for h in range(b.h2c):
            b.read_some(h, 40)
        wanted = [[] for _ in range(b.fetchers)]
        for f in range(b.fetchers):
            b.fetched[f].clear()
            for _ in range(12):
                address = b.seed.randrange(1 << 40) & ~0x1F
                count = min(b.seed.randint(1, b.batch) * 32, 4096 - address % 4096)
                b.to_fetch[f].append((address, count))
                wanted[f] += [load(address + at, 32) for at in range(0, count, 32)]
        await run(b, lambda: b.is_done() and not any(b.to_fetch) and b.is_quiet, 60000)
        await clocks(b, 40)
        b.check()
        assert b.fetched == wanted
        assert [b.in_flight(h) for h in range(b.h2c)] == [0] * b.h2c
        assert b.arrived == [len(expected) for expected in b.expected]
    b.assert_no_errors()
    # A tag has a different number on the wire when it is used again.
    turns = 256 // number_of_tags(dut)
    assert len({tlp.tag for tlp in b.requests}) >= min(b.tags * turns, len(b.requests) // 2)


async def measure(b: Reads, reads: list[tuple[int, int]], completion_bytes: int):
    """Full rate of the completions in random order, then of the feed; then of both at once."""
    b.completer.max_payload = completion_bytes
    b.completer.split = "most"
    consumer = b.consumers[0]
    for shuffled in [True, False]:
        b.completer.shuffled = shuffled
        b.completer.latency = (500, 500)
        b.beats = b.first_beat = consumer.first_clock = 0
        before = len(consumer.data)
        for address, count in reads:
            b.read(0, address, count)
        if shuffled:
            consumer.rate = 0.0
            await run(b, lambda: b.arrived[0] == len(b.expected[0]), 60000)
            consumer.rate = 1.0
        await b.finish(60000)
        span = b.last_beat - b.first_beat + 1
        assert b.beats >= 0.99 * span, f"{b.beats} beats in {span} clocks, {b.held_back} held back"
        feed_span = consumer.last_clock - consumer.first_clock + 1
        taken = len(consumer.data) - before
        if shuffled:
            assert taken >= 0.99 * feed_span * b.lanes, f"{taken} B in {feed_span} clocks"
        else:
            # Only the latency of the ring remains, and the rest of an unaligned completion.
            late = consumer.last_clock - b.last_beat
            assert late <= 9 + completion_bytes // b.lanes, f"{late} clocks behind the last beat"


@cocotb.test()
async def aligned_completions_use_the_whole_datapath(dut):
    b = await bench(dut)
    await clocks(b, 300)
    for payload in [64, 256]:
        await measure(b, [(0x10000 + n * 512, 512) for n in range(60)], payload)
        assert b.beats * b.lanes == 60 * 512


@cocotb.test()
async def unaligned_completions_take_their_beats_only(dut):
    b = await bench(dut)
    await clocks(b, 300)
    reads = [(0x10000 + n * 4096 + b.seed.randrange(3000), 509) for n in range(60)]
    await measure(b, reads, 256)


@cocotb.test()
async def small_reads_begin_every_clock(dut):
    b = await bench(dut)
    await clocks(b, 300)
    b.completer.latency = (4, 9)
    for n in range(400):
        b.read(0, n * 64 + n % 5, 4)  # a beat at every width
    await b.finish()
    taken = b.accepted
    # One for each tag at once, then one a clock as long as answers keep up.
    assert taken[b.tags - 1] - taken[0] == b.tags - 1
    assert taken[-1] - taken[0] <= 400 * 1.02, f"{taken[-1] - taken[0]} clocks for 400 reads"


FAULTS = {
    Fault.UNSUPPORTED: "ERROR_UNSUPPORTED_REQUEST",
    Fault.ABORT: "ERROR_COMPLETER_ABORT",
    Fault.RETRY: "ERROR_MALFORMED_COMPLETION",
    Fault.POISON: "ERROR_POISONED",
    Fault.TAKEN_BACK: "ERROR_POISONED",
    Fault.SILENCE: "ERROR_COMPLETION_TIMEOUT",
    Fault.MISSING: "ERROR_MALFORMED_COMPLETION",
    Fault.DOUBLED: "ERROR_MALFORMED_COMPLETION",
    Fault.BYTE_COUNT: "ERROR_MALFORMED_COMPLETION",
    Fault.LOWER_ADDRESS: "ERROR_MALFORMED_COMPLETION",
    Fault.LENGTH: "ERROR_MALFORMED_COMPLETION",
    Fault.UNALIGNED: "ERROR_MALFORMED_COMPLETION",
    Fault.REQUESTER: "ERROR_MALFORMED_COMPLETION",
}


@cocotb.test()
async def every_fault_is_told_in_its_turn(dut):
    b = await bench(dut)
    b.completer.boundary = 64
    b.completer.split = "least"
    for fault, name in FAULTS.items():
        # An error in the last one alone is not always detected as soon.
        for number in [0, 1, 2] if name == "ERROR_POISONED" else [0, 1]:
            # A read of three completions, with the fault in one, among good ones.
            base = b.seed.randrange(1 << 20) << 12
            reads = [(base + n * 256 + 37, 180) for n in range(8)]
            bad = b.seed.randrange(8)
            b.completer.fail(reads[bad][0], fault, number)
            before = len(b.expected[0])
            for read in reads:
                b.read(0, *read)
            good = 180 * bad + [0, 64 - 37, 128 - 37][number]
            if fault is Fault.DOUBLED:
                good += 27 if number == 0 else 64
            # The next one comes instead, and does not fit.
            error, address = name, reads[bad][0] + good - 180 * bad
            await run(b, lambda: b.failed[0] is not None, 8000, f"{fault}, {number}")
            assert b.failed[0] == (error, address), f"{fault}, {number}: {b.failed[0]}"
            assert b.arrived[0] == before + good
            await clocks(b, b.seed.randrange(30))
            assert b.arrived[0] == before + good
            b.forget = 1
            await clocks(b, 2)
            b.failed[0] = None
            del b.expected[0][before + good :]
            # Outstanding completions are dropped; new reads do not wait for them.
            b.to_read[0].clear()
            b.read(0, base + 0x800, 333)
            await b.finish(4000, "what was read afterwards")
            await run(b, lambda: b.is_quiet, 4000)
            await clocks(b, 20)
            assert b.failed[0] is None
            # A restart leaves to themselves what was given up and has not ended yet.
            b.clear = 1
            await clocks(b, 3)
            assert b.in_flight() == 0
    # Silence, at either of the two completions.
    assert b.counts["timed_out"] == 2
    assert b.counts["refused"] >= 2 * len(FAULTS) - 2
    # Completions for other requesters, and the rest of refused reads.
    assert b.counts["unexpected"] >= 2
    # All tags come back.
    await clocks(b, 4 * b.timeout)
    b.completer.fail(None)
    b.completer.latency = (300, 300)
    count = len(b.requests)
    b.read_each(0x100000, b.tags)
    await clocks(b, 2 * b.tags + 20)
    assert len(b.requests) == count + b.tags
    await b.finish()


@cocotb.test()
async def a_late_answer_finds_its_tag_resting(dut):
    b = await bench(dut)
    b.completer.latency = (10, 10)
    b.completer.late_clocks = b.timeout * 3 // 2
    b.completer.fail(0x5000, Fault.LATE)
    b.read(0, 0x5000, 64)
    asked = b.now
    await run(b, lambda: b.failed[0] is not None)
    assert b.failed[0] == ("ERROR_COMPLETION_TIMEOUT", 0x5000)
    assert b.timeout <= b.now - asked <= b.timeout * 1.02 + 150
    late_tag = b.requests[0].tag
    b.expected[0].clear()
    b.forget = 1
    await clocks(b, 2)
    b.failed[0] = None
    # All other tags are reused, but not this one.
    late = [answer for answer in b.completer.answers if answer.request.tag == late_tag]
    while late[0] in b.completer.answers:
        b.read(0, b.seed.randrange(1 << 30) * 64, 64)
        await clocks(b, 8)
    places = 256 // (256 // number_of_tags(dut))
    used = {tlp.tag % places for tlp in b.requests[1:]}
    assert len(used) == b.tags - 1 and late_tag % places not in used
    assert b.counts == {"unexpected": 0, "timed_out": 1, "refused": 0}
    await clocks(b, 2 * b.timeout)
    b.read_each(0x9000, 2 * b.tags)
    await b.finish()
    assert late_tag % places in {tlp.tag % places for tlp in b.requests[-2 * b.tags :]}


def number_of_tags(dut) -> int:
    """Total number of tags, a power of two."""
    tags = int(dut.TAGS.value) + 4 * int(dut.FETCHERS.value)
    return max(8, 1 << (tags - 1).bit_length())


@cocotb.test()
async def strays_are_counted_and_dropped(dut):
    b = await bench(dut)
    b.completer.split = "most"
    b.completer.max_payload = 512
    await clocks(b, 300)
    b.read(0, 0x4000, 256)
    await run(b, b.is_done)
    header = dict(kind=CONSTANTS["COMPLETION_DATA"], address=0, length_dw=64, byte_count=256)
    header.update(requester=0x0100, tag=b.requests[0].tag)
    # Again; for a tag never used; for the next use of this one; with more than eight bits.
    places = number_of_tags(dut)
    tags = [header["tag"], header["tag"] + 1, (header["tag"] + places) % 256, 256]
    for tag in tags:
        b.extra.append(Tlp({**header, "tag": tag}, bytes(256)))
    await run(b, lambda: b.is_quiet)
    await clocks(b, 5)
    assert b.counts["unexpected"] == 4
    b.read(0, 0x4100, 256)
    await b.finish()


@cocotb.test()
async def what_is_given_up_is_gone(dut):
    """Forgets and clears at any moment, with answers in flight."""
    b = await bench(dut)
    b.completer.latency = (5, 200)
    b.pause = 0.1
    for _ in range(60):
        for h in range(b.h2c):
            b.read_some(h, b.seed.randrange(20))
        await clocks(b, b.seed.randrange(160))
        h = b.seed.randrange(b.h2c)
        clear = b.seed.random() < 0.5
        b.to_read[h].clear()
        await clocks(b, 1)
        setattr(b, "clear" if clear else "forget", 1 << h)
        await clocks(b, 2)
        b.to_read[h].clear()
        if clear:
            # Data leaving the ring at that moment are still good.
            for count in (1, 6):
                await clocks(b, count)
                taken = bytes(b.consumers[h].data)
                assert taken == bytes(b.expected[h][: len(taken)])
            b.consumers[h].data.clear()
            b.arrived[h] = 0
            b.expected[h].clear()
        else:
            del b.expected[h][b.arrived[h] :]
    await run(b, lambda: b.is_done() and b.is_quiet)
    await clocks(b, 20)
    b.check()
    assert [b.in_flight(h) for h in range(b.h2c)] == [0] * b.h2c
    b.assert_no_errors()


@cocotb.test()
async def what_is_given_up_is_counted(dut):
    """A channel that has stopped counts reads until they are answered or their time is up; one that
    has been restarted counts its own."""
    b = await bench(dut)
    await clocks(b, 300)
    faults = {0x1000: Fault.UNSUPPORTED, 0x2000: Fault.LATE, 0x3000: Fault.SILENCE}
    b.completer.fault = lambda address, _: (faults.get(address, Fault.NONE), 0)
    b.completer.in_order(20)
    b.completer.late_clocks = b.timeout // 4
    h = b.h2c - 1

    async def read(address: int) -> None:
        b.read(h, address, 64)
        await run(b, lambda: not b.to_read[h])

    async def stop(count: int) -> None:
        """Waits for the fault, and stops: so many reads have no end yet."""
        await run(b, lambda: b.failed[h] is not None)
        assert b.failed[h] == ("ERROR_UNSUPPORTED_REQUEST", 0x1000)
        b.forget = 1 << h
        await clocks(b, 2)
        for _ in range(30):
            await b.clock()
            assert b.in_flight(h) == count
        b.failed[h] = None
        b.expected[h].clear()

    async def restart() -> None:
        b.clear = 1 << h
        await clocks(b, 3)
        assert b.in_flight(h) == 0

    for address in (0x1000, 0x2000, 0x3000):
        await read(address)
    asked = b.now
    await stop(2)
    await run(b, lambda: b.is_quiet)
    await clocks(b, 10)
    assert b.in_flight(h) == 1, "late has come, silence has not"
    await restart()
    await read(0x4000)
    await clocks(b, 2)
    assert b.in_flight(h) == 1, "without silence"
    await run(b, lambda: b.is_done() and b.in_flight(h) == 0)
    b.check()
    b.consumers[h].data.clear()
    # Stopped again it counts also what it gave up before.
    await read(0x1000)
    await stop(1)
    await run(b, lambda: b.in_flight(h) == 0, 2 * b.timeout)
    assert b.timeout <= b.now - asked <= b.timeout * 1.02 + 150
    await restart()
    b.read(h, 0x4000, 64)
    await b.finish()
    assert [b.in_flight(n) for n in range(b.h2c)] == [0] * b.h2c
    assert b.counts == {"unexpected": 0, "timed_out": 0, "refused": 2}


@cocotb.test()
async def what_was_begun_is_not_cleared(dut):
    """A consumer in the middle of a piece gets it whole, and then the data read later."""
    b = await bench(dut)
    b.completer.latency = (5, 60)
    rests = 0
    for _ in range(80):
        h = b.seed.randrange(b.h2c)
        consumer = b.consumers[h]
        consumer.piece_bytes, consumer.rate = b.seed.choice([300, 1000]), b.seed.choice([0.5, 0.1])
        b.read_some(h, b.seed.randrange(60))
        await clocks(b, b.seed.randrange(20, 300))
        b.to_read[h].clear()
        await clocks(b, 1)
        b.clear = 1 << h
        await clocks(b, 2)
        # From here on it begins nothing that is cleared.
        begun = consumer.begun
        rests += consumer.left > 0
        b.to_read[h].clear()
        del b.expected[h][begun:]
        if b.seed.random() < 0.3:
            consumer.rate = 0
        b.read_some(h, b.seed.randrange(1, 60))
        await clocks(b, b.seed.randrange(300))
        consumer.rate = 1
        await run(b, lambda at=consumer: at.left == 0)
        consumer.piece_bytes = 0
        await run(b, lambda: b.is_done() and b.is_quiet)
        await clocks(b, 20)
        b.check()
        consumer.data.clear()
        b.expected[h].clear()
    assert rests > 4
    b.assert_no_errors()


@cocotb.test()
async def a_reset_leaves_nothing_behind(dut):
    b = await bench(dut)
    b.completer.latency = (20, 60)
    for _ in range(6):
        b.read_some(0, 30, 256)
        await clocks(b, b.seed.randrange(200, 500))
        b.dut.rst.value = 1
        b.dut.read_valid.value = 0
        b.to_read[0].clear()
        b.cleared = (1 << b.h2c) - 1
        await clocks(b, 1)
        b.dut.rst.value = 0
        b.dut.s_completion_valid.value = 0
        b.drop_answers()
        for consumer in b.consumers:
            consumer.reset()
        b.expected[0].clear()
        b.read(0, 0x1234, 777 if int(dut.MAX_READ.value) > 777 else 100)
        await b.finish()
        assert b.in_flight() == 0


@cocotb.test()
async def without_extended_tags_five_bits_are_used(dut):
    b = await bench(dut)
    b.read_each(0, 2 * b.tags)
    await run(b, b.is_done)
    before = len(b.requests)
    b.set_function(extended_tags=0)
    b.read_each(0x8000, 100)
    await b.finish()
    used = {tlp.tag for tlp in b.requests[before:]}
    low = min(32 - 4 * int(dut.FETCHERS.value), b.tags)
    assert max(used) < 32 and len(used) == low
    assert b.counts["unexpected"] == 0


@cocotb.test()
async def a_failed_fetch_is_told_behind_those_before(dut):
    b = await bench(dut)
    if not b.fetchers:
        return
    for f in range(b.fetchers):
        for fault in [Fault.UNSUPPORTED, Fault.POISON, Fault.SILENCE]:
            b.fetched[f].clear()
            base = b.seed.randrange(1 << 20) << 12
            batch = b.batch * 32
            b.completer.fail(base + batch, fault)
            b.wants = 0.1
            b.to_fetch[f].extend([(base, batch), (base + batch, batch)])
            await run(b, lambda: b.fetch_faults[f], 5000)
            assert b.fetch_faults[f] == [(FAULTS[fault], base + batch, b.batch)]
            assert b.fetched[f] == [load(base + n * 32, 32) for n in range(b.batch)]
            # No fetch begins until the failed one is forgotten.
            b.room[f] = b.batch
            b.to_fetch[f].append((base, 32))
            await clocks(b, 30)
            assert len(b.fetched[f]) == b.batch
            b.fetch_forget = 1 << f
            b.wants = 1.0
            await run(b, lambda: len(b.fetched[f]) > b.batch)
            assert b.fetched[f][b.batch :] == [load(base, 32)]
            b.fetch_faults[f].clear()
            await run(b, lambda: b.is_quiet)
            b.room[f] = 2 * b.batch
    # Given up at any moment.
    b.completer.latency = (10, 10)
    for n in range(150):
        f = b.seed.randrange(b.fetchers)
        address = b.seed.randrange(1 << 20) << 12
        # Half of them fail, some in the clock in which they are given up.
        b.completer.fail(address if n % 2 else None, Fault.ABORT)
        b.to_fetch[f].append((address, 32 * b.batch))
        await clocks(b, n // 4 + 8)
        b.to_fetch[f].clear()
        await clocks(b, 1)
        b.fetch_forget = 1 << f
        b.wants = 0.0
        await clocks(b, 3)
        b.wants = 1.0
        b.fetched[f].clear()
        b.fetch_faults[f].clear()
        b.room[f] = 2 * b.batch
        b.to_fetch[f].append((address ^ 4096, 64))
        await run(b, lambda: len(b.fetched[f]) >= 2)
        assert b.fetched[f] == [load((address ^ 4096) + at, 32) for at in (0, 32)]
        assert not b.fetch_faults[f]
    assert b.counts["unexpected"] == 0


@cocotb.test()
async def a_fetch_is_counted_until_its_end(dut):
    """One that is given up waits no more, and is open until it is answered or its time is up."""
    b = await bench(dut)
    if not b.fetchers:
        return
    await clocks(b, 300)

    def waiting() -> list[int]:
        return [part(int(dut.fetches_waiting.value), 3, f) for f in range(b.fetchers)]

    def are_open() -> list[int]:
        return [part(int(dut.fetches_open.value), 3, f) for f in range(b.fetchers)]

    faults = {0x2000: Fault.LATE, 0x3000: Fault.SILENCE}
    b.completer.fault = lambda address, _: (faults.get(address, Fault.NONE), 0)
    b.completer.in_order(20)
    b.completer.late_clocks = b.timeout // 4
    for f in range(b.fetchers):
        nothing = [0] * b.fetchers
        only = [int(n == f) for n in range(b.fetchers)]
        b.room[f] = 2 * b.batch
        b.to_fetch[f].extend([(address, 32) for address in (0x1000, 0x2000, 0x3000)])
        asked = len(b.fetches)
        await run(b, lambda: len(b.fetches) == asked + 3)
        begun = b.now
        assert waiting() == are_open() == [3 * n for n in only]
        b.fetch_forget = 1 << f
        await run(b, lambda: waiting() == nothing, 6)
        await run(b, lambda: are_open() == [2 * n for n in only], 100)
        await run(b, lambda: are_open() == only, b.timeout // 2)
        await run(b, lambda: are_open() == nothing, 2 * b.timeout)
        assert b.timeout <= b.now - begun <= b.timeout * 1.02 + 150
        # The next one is counted by itself.
        b.fetched[f].clear()
        b.to_fetch[f].append((0x4000, 64))
        await run(b, lambda: len(b.fetched[f]) == 2)
        assert waiting() == are_open() == nothing
    assert b.counts == {"unexpected": 0, "timed_out": 0, "refused": 0}


SEVERAL = "random_reads|every_fault|strays|given_up|begun|reset|extended|fetch|late"


@pytest.mark.parametrize("data_bits", widths(128, 256))
def test_reads(data_bits):
    parameters = {"DATA_BITS": data_bits, "H2C": 1, "FETCHERS": 0, "TAGS": 64, "MAX_READ": 512}
    parameters |= {"STAGING_BYTES": 65536, "TIMEOUT_CLOCKS": 5000}
    if data_bits >= 256:
        # Counted, but with space for the reads of all tags: nothing is slower for it.
        parameters |= {
            "COMPLETION_HEADER_CREDITS": 64 * 9 + 27,
            "COMPLETION_DATA_CREDITS": 64 * 33 + 99,
        }
    simulate(__file__, "crosslane_reads", parameters)


@pytest.mark.parametrize("data_bits", widths(256))
def test_reads_of_several(data_bits):
    parameters = {"DATA_BITS": data_bits, "H2C": 2, "FETCHERS": 3, "TAGS": 12, "BATCH": 8}
    # The data of all tags take less time than the time-out.
    max_read = {64: 512, 128: 1024, 256: 4096, 512: 4096}[data_bits]
    parameters |= {"MAX_READ": max_read, "STAGING_BYTES": 16384, "TIMEOUT_CLOCKS": 3000}
    simulate(__file__, "crosslane_reads", parameters, tests=SEVERAL)
