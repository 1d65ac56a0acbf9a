# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_get_engine: messages are read from a memory that answers as it likes, and go out as
datagrams: those of each channel as in the behavioural model."""

import os
import random
from collections import deque

import cocotb
import pytest
from network_bench import (
    CANCELLED,
    DONE,
    LINK_CONTROL,
    LINK_DOWN,
    LONG,
    NOTIFY,
    PAYLOAD_BYTES,
    REFUSED,
    REQUEST_BAR,
    TAKEN,
    request,
)
from network_reference import Reference
from packed import pack, unpack
from simulate import ALL, SEED, simulate, widths
from tlp_stream import COMPLETION, COMPLETION_DATA, MEMORY_READ, Bench, Tlp, enables

CHANNELS, QUEUE = 8, 2
HOST_MEMORY, UNSUPPORTED = 3, 1
SHORT = 2
ABORT = bytes(254) + b"\xff\0" if LONG else bytes(127) + b"\xff"
MEMORY = 0x1234_5678_0000
MAX_READ, TAGS, GET_SLOTS, LANES, TIMEOUT = 256, 16, 16, 8, 3200
FUNCTION = {"routing_id": 0x100, "bus_master": 1, "link_up": 1, "max_read_request": 2}
PARAMETERS = {
    "TAGS": TAGS,
    "MAX_READ": MAX_READ,
    "GET_SLOTS": GET_SLOTS,
    "STAGING_BYTES": 1024,
    "RECORDS": 16,
    "TIMEOUT_CLOCKS": TIMEOUT,
}


def byte_at(address: int) -> int:
    """The memory's byte at an address."""
    return (address ^ address >> 8) & 0xFF


class Surroundings:
    """Host memory, host and link of the engine, as a part of a Bench."""

    def __init__(self, dut, seed: random.Random):
        self.dut, self.seed = dut, seed
        self.bytes = int(os.environ["DATA_BITS"]) // 8
        self.requests: deque[bytes] = deque()
        self.taken: list[bytes] = []
        self.notified: dict[int, tuple[int, int]] = {}
        self.token = 0
        # Completions that wait: clock from which each may come; beats that are being sent.
        self.answers: list[tuple[int, Tlp]] = []
        self.beats: deque[dict[str, int]] = deque()
        self.reads: list[tuple[int, int]] = []
        self.faults: dict[int, str] = {}  # by the address of a read
        self.latency, self.pause, self.link_pause = 50, 0.0, 0.0
        # Of the completions of a read, if they are not by chance: bytes, and clocks between two.
        self.size, self.gap = 0, 0
        self.others = 0.2  # completions for other links before one
        # The link: datagrams of each channel in its queue, and all that have come.
        self.queue = [0] * CHANNELS
        self.held = 0  # channels without credit
        self.on_way, self.waits = 0, 0  # in the last clock: datagrams, and whether none may begin
        self.drain = 0.2
        self.datagrams = [[] for _ in range(CHANNELS)]
        self.payload = b""
        self.busy = 0
        self.clocks: list[int] = []
        self.forget, self.outcome = 0, LINK_DOWN

    # --- The host ----------------------------------------------------------------------------
    def ask(self, **fields: int) -> int:
        """Gives a request; returns its token."""
        token = fields.pop("token", None)
        if token is None:
            self.token = token = self.token + 1
        fields = {"link": 0, "notify": NOTIFY + 8 * token} | fields
        self.requests.append(request(token=token, **fields))
        return token

    def get(self, channel: int, tag: int, runs: list[tuple[int, int]]) -> int:
        """Gives a message of runs (address, bytes); returns its token."""
        self.token += 1
        index = 0
        for at, (address, count) in enumerate(runs):
            place = {"index": index, "last": int(at == len(runs) - 1), "token": self.token}
            self.ask(channel=channel, tag=tag, buffer=address, bytes=count, **place)
            index += -(-count // PAYLOAD_BYTES)
        return self.token

    # --- Host memory -------------------------------------------------------------------------
    def answer(self, tlp: Tlp, clock: int) -> None:
        """Answers a read, in some completions."""
        where = tlp.enabled
        start, count = tlp.address + where[0], len(where)
        assert tlp.kind == MEMORY_READ and where == list(range(where[0], where[0] + count))
        assert start // MAX_READ == (start + count - 1) // MAX_READ
        assert tlp.tag < TAGS and tlp.requester == 0x100
        self.reads.append((start, count))
        at_clock = clock + 1 + self.seed.randrange(self.latency)
        header = {"tag": tlp.tag, "requester": 0x100, "status": 0}
        fault = self.faults.pop(start, "")
        if fault == "never":
            return
        if fault == "unsupported":
            header |= {"kind": COMPLETION, "status": UNSUPPORTED, "byte_count": count}
            self.answers.append((at_clock, Tlp(header)))
            return
        left = count
        while left:
            address = start + count - left
            size = self.size or 64 * self.seed.randrange(1, 5)
            size = min(left, size - address % 64)
            _, _, length = enables(address, size)
            data = bytes(byte_at(address - address % 4 + n) for n in range(4 * length))
            fields = {"kind": COMPLETION_DATA, "address": address & 0x7F, "length_dw": length}
            fields |= {"byte_count": left, "poisoned": 0}
            if fault == "poisoned" and size == left:
                fields["poisoned"] = 1
            if fault == "misfit":
                fields["byte_count"] = left + 4
            self.answers.append((at_clock, Tlp(header | fields, data)))
            left -= size
            at_clock += self.gap or self.seed.randrange(20)

    def next_completion(self, clock: int) -> None:
        """Chooses a completion that may come: those of one read in their order."""
        seen, ready = set(), []
        for number, (at_clock, tlp) in enumerate(self.answers):
            if tlp.tag not in seen and at_clock <= clock:
                ready.append(number)
            seen.add(tlp.tag)
        if not ready or self.seed.random() < self.pause:
            return
        _, tlp = self.answers.pop(self.seed.choice(ready))
        # One of another link with the same place among its tags, which is none of these.
        if self.seed.random() < self.others:
            other = {"tag": tlp.tag + TAGS * self.seed.randrange(1, 8)}
            self.send(Tlp(tlp.header | other, tlp.payload))
        self.send(tlp)

    def send(self, tlp: Tlp) -> None:
        """Adds the beats of a completion."""
        beats = tlp.beats(8 * self.bytes)
        for at, beat in enumerate(beats):
            beat += self.seed.randbytes(self.bytes - len(beat))
            fields = {"header": pack("tlp_header_t", **tlp.header), "first": int(at == 0)}
            fields |= {"last": int(at == len(beats) - 1), "data": int.from_bytes(beat, "little")}
            self.beats.append(fields)

    # --- Clock by clock ----------------------------------------------------------------------
    def drive(self) -> None:
        """Sets the inputs of a clock."""
        dut = self.dut
        dut.request_valid.value = int(bool(self.requests))
        if self.requests:
            dut.request.value = int.from_bytes(self.requests[0], "little")
        if not self.beats:
            self.next_completion(self.now)
        dut.s_completion_valid.value = int(bool(self.beats))
        dut.s_completion_aborted.value = 0
        if self.beats:
            for name, value in self.beats.popleft().items():
                getattr(dut, f"s_completion_{name}").value = value
        room = sum((self.queue[c] < QUEUE) << c for c in range(CHANNELS))
        dut.room.value = room
        dut.room_more.value = sum((self.queue[c] < QUEUE - 1) << c for c in range(CHANNELS))
        dut.others_may.value = int(self.seed.random() < self.link_pause)
        dut.m_ready.value = int(self.seed.random() >= self.link_pause)
        dut.m_read_ready.value = int(self.seed.random() >= self.pause)
        dut.write_ready.value = int(self.seed.random() >= self.pause)
        dut.forget.value, dut.forget_outcome.value = self.forget, self.outcome
        dut.takes.value = int(not self.forget)

    now = 0

    def sample(self, clock: int) -> None:
        """Sees what the engine does."""
        dut, self.now = self.dut, clock + 1
        for c in range(CHANNELS):
            if self.queue[c] and not self.held >> c & 1 and self.seed.random() < self.drain:
                self.queue[c] -= 1
        on_way = int(dut.on_way.value)
        assert not (self.waits and on_way & ~self.on_way), "a datagram that should have waited"
        self.on_way, self.waits = on_way, int(dut.others_may.value)
        if self.requests and dut.request_ready.value:
            self.taken.append(self.requests.popleft())
        if dut.m_read_valid.value and dut.m_read_ready.value:
            header = vars(unpack("tlp_header_t", dut.m_read_header.value))
            self.answer(Tlp(header), clock)
        if dut.write_valid.value and dut.write_ready.value:
            write = int(dut.write.value)
            address, word = write >> 52 & (1 << 64) - 1, write & (1 << 52) - 1
            token = word & 0xFFFF
            assert address == NOTIFY + 8 * token
            assert token not in self.notified
            self.notified[token] = (word >> 16 & 0xF, word >> 20)
        if dut.m_valid.value and dut.m_ready.value:
            channel = int(dut.m_channel.value)
            self.payload += int(dut.m_data.value).to_bytes(LANES, "little")
            if len(self.payload) == LANES:
                assert self.queue[channel] < QUEUE, "a datagram without room"
                self.queue[channel] += 1
            if len(self.payload) == PAYLOAD_BYTES:
                self.datagrams[channel].append((int(dut.m_label.value), self.payload))
                self.payload = b""
                self.clocks.append(clock)
        if dut.forgotten.value:
            self.forget = 0

    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return bool(not self.requests and self.dut.idle.value and not self.dut.write_valid.value)


async def begin(dut, which: str) -> tuple[Bench, Surroundings, random.Random]:
    """The engine after a reset."""
    seed = random.Random(f"{SEED} {which}")
    around = Surroundings(dut, seed)
    dut.function_i.value = pack("function_t", **FUNCTION)
    dut.link.value = 0
    bench = Bench(dut, [around])
    around.drive()
    await bench.reset(3)
    await bench.until(around.is_idle, 1100)
    return bench, around, seed


def datagrams_of(tag: int, runs: list[tuple[int, int]]) -> list[tuple[int, bytes]]:
    """The datagrams of a message."""
    data = bytes(byte_at(address + n) for address, count in runs for n in range(count))
    full = PAYLOAD_BYTES
    count = max(1, -(-len(data) // full))
    found = []
    for index in range(count):
        piece = data[full * index : full * index + full]
        kind = 0 if index < count - 1 else 1 if len(piece) == full else SHORT
        if kind == SHORT:
            piece = piece + bytes(full - 1 - len(piece)) + bytes([len(piece)])
        found.append((kind | tag << 2 | index << 8, piece))
    return found


def random_runs(seed: random.Random, most: int = 3) -> list[tuple[int, int]]:
    """Runs of a message."""
    runs = []
    for _ in range(seed.randrange(most)):
        runs.append((MEMORY + seed.randrange(1 << 20), PAYLOAD_BYTES * seed.randrange(1, 6)))
    full = PAYLOAD_BYTES
    after, alone = [1, 100, full - 1, full, 600], [0, 1, full, 500, 1000]
    last = seed.choice(after if runs else alone)
    return [*runs, (MEMORY + seed.randrange(1 << 20), last)]


@cocotb.test()
async def everything_is_as_in_the_model(dut):
    bench, around, seed = await begin(dut, "random")
    for _ in range(20 if ALL else 5):
        around.pause, around.link_pause = seed.choice([0, 0.3, 0.8]), seed.choice([0, 0.3])
        around.latency = seed.choice([5, 100, 400])
        keys = seed.sample([(c, t) for c in (1, 4, 7) for t in range(4)], 5)
        asked = {}
        for channel, tag in keys:
            runs = random_runs(seed)
            asked[around.get(channel, tag, runs)] = sum(count for _, count in runs)
        # Requests that change nothing.
        bad = {"channel": 2, "tag": 3, "bytes": 128, "buffer": MEMORY}
        for wrong in ({"reserved": 1}, {"link": 3}, {"index": 4}, {"routed": 1, "channel": 6}):
            if seed.random() < 0.5:
                around.ask(**bad | wrong)
        await bench.until(around.is_idle, 20000)
        for token, count in asked.items():
            assert around.notified[token] == (DONE, count)
    reference = Reference(get_slots=GET_SLOTS, max_read=MAX_READ)
    reference.store(0, LINK_CONTROL, (1).to_bytes(4, "little"))
    datagrams, notified = [[] for _ in range(CHANNELS)], {}
    for asked in around.taken:
        for kind, where, *what in reference.store(REQUEST_BAR, 0, asked):
            if kind == "s":
                header, payload = int(what[0], 16), bytes.fromhex(what[1])
                datagrams[header >> 8 & 7].append((header >> 11, payload))
            else:
                word = int.from_bytes(bytes.fromhex(what[0]), "little")
                assert int(where, 16) == NOTIFY + 8 * (word & 0xFFFF)
                notified[word & 0xFFFF] = (word >> 16 & 0xFF, word >> 32)
    reference.close()
    assert around.notified == notified
    # The model reads a message whole before the next request comes; here they interleave by
    # channel, in the same order.
    assert around.datagrams == datagrams


@cocotb.test()
async def a_fault_ends_its_message_and_no_other(dut):
    bench, around, seed = await begin(dut, "faults")
    count = 1500
    for round_, fault in enumerate(["unsupported", "poisoned", "never", "misfit"] * 2):
        around.drain = 0.05 if round_ < 4 else 1.0
        bad_run = [(MEMORY + 1 << 16, count)]
        place = seed.choice([0, 1, 4])
        around.faults[(MEMORY + 1 << 16) + MAX_READ * place] = fault
        runs = [[(MEMORY + 4096 * n + n, 700)] for n in range(4)]
        before = around.get(3, 0, runs[0])
        bad = around.get(3, 1, bad_run)
        behind = around.get(3, 2, runs[1])
        same = around.get(3, 3, runs[2])
        other = around.get(5, 1, runs[3])
        sent = [len(one) for one in around.datagrams]
        await bench.until(around.is_idle, 4 * TIMEOUT)
        assert around.notified[bad][0] == HOST_MEMORY
        for token in (before, behind, same, other):
            assert around.notified[token] == (DONE, 700)
        assert around.datagrams[5][sent[5] :] == datagrams_of(1, runs[3])
        came = around.datagrams[3][sent[3] :]
        for tag, runs_of in ((0, runs[0]), (2, runs[1]), (3, runs[2])):
            assert [d for d in came if d[0] >> 2 & 63 == tag] == datagrams_of(tag, runs_of)
        of_bad = [d for d in came if d[0] >> 2 & 63 == 1]
        if of_bad:
            assert of_bad.pop() == (SHORT | 1 << 2, ABORT)
            assert of_bad and of_bad == datagrams_of(1, bad_run)[: len(of_bad)]
    # Tags that rest come back.
    await bench.step(3 * TIMEOUT)
    many = [around.get(c, 9, [(MEMORY, 4000)]) for c in range(CHANNELS)]
    await bench.until(around.is_idle, 20000)
    assert all(around.notified[token] == (DONE, 4000) for token in many)


@cocotb.test()
async def what_is_cancelled_ends_once(dut):
    bench, around, seed = await begin(dut, "cancel")
    outcomes = set()
    for _ in range(60 if ALL else 15):
        around.drain = seed.choice([0.02, 1.0])
        runs = [(MEMORY + seed.randrange(999), PAYLOAD_BYTES * 6), (MEMORY, seed.randrange(1, 900))]
        sent = len(around.datagrams[2])
        token = around.get(2, 7, runs)
        behind = around.get(2, 8, [(MEMORY + 5, 300)])
        await bench.step(seed.randrange(250 * PAYLOAD_BYTES // 128))
        around.ask(channel=2, tag=7, token=token, cancel=1)
        await bench.until(around.is_idle, 20000)
        outcome, _ = around.notified[token]
        outcomes.add(outcome)
        assert around.notified[behind] == (DONE, 300)
        came = [d for d in around.datagrams[2][sent:] if d[0] >> 2 & 63 == 7]
        if outcome == CANCELLED and came:
            assert came.pop() == (SHORT | 7 << 2, ABORT) and came
            assert came == datagrams_of(7, runs)[: len(came)]
        elif outcome == DONE:
            assert came == datagrams_of(7, runs)
    assert outcomes == {CANCELLED, DONE}


@cocotb.test()
async def a_channel_without_credit_stops_no_other(dut):
    bench, around, _ = await begin(dut, "held")
    around.held, around.drain = 1 << 1, 1.0
    held = [around.get(1, tag, [(MEMORY, 2000)]) for tag in range(3)]
    others = [around.get(c, 0, [(MEMORY + c, 3000)]) for c in (0, 2, 7)]
    await bench.until(lambda: all(token in around.notified for token in others), 8000)
    assert not around.datagrams[1][QUEUE:]
    around.held = 0
    await bench.until(around.is_idle, 8000)
    assert all(around.notified[token] == (DONE, 2000) for token in held)
    # A key that has a message, and a cancel of another token.
    around.latency = 500
    first = around.get(4, 4, [(MEMORY, 900)])
    second = around.get(4, 4, [(MEMORY, 900)])
    around.ask(channel=4, tag=4, token=first + 7, cancel=1)
    await bench.until(around.is_idle, 8000)
    assert around.notified[first] == (DONE, 900) and around.notified[second] == (TAKEN, 0)
    # A run that is not behind the one before ends the message; so does one that is refused.
    for wrong in ({"index": 3}, {"index": 2, "reserved": 1}):
        token = around.ask(channel=4, tag=4, bytes=2 * PAYLOAD_BYTES, buffer=MEMORY, last=0)
        around.ask(channel=4, tag=4, bytes=9, buffer=MEMORY, token=token, **wrong)
        await bench.until(around.is_idle, 8000)
        assert around.notified[token][0] == REFUSED


@cocotb.test()
async def a_message_waits_for_its_next_run(dut):
    """What is known of it is sent; others of its channel are not read before it, all others are."""
    bench, around, _ = await begin(dut, "runs")
    runs = [(MEMORY, 2 * PAYLOAD_BYTES), (MEMORY + 0x3000, PAYLOAD_BYTES + 9)]
    token = around.ask(channel=1, tag=3, bytes=runs[0][1], buffer=runs[0][0], last=0)
    behind, beside = around.get(1, 4, [(MEMORY, 70)]), around.get(2, 4, [(MEMORY, 80)])
    await bench.step(2000)
    assert around.notified == {beside: (DONE, 80)}
    assert len(around.datagrams[1]) == 2
    last = {"index": 2, "last": 1, "token": token}
    around.ask(channel=1, tag=3, bytes=runs[1][1], buffer=runs[1][0], **last)
    await bench.until(around.is_idle, 8000)
    assert around.notified[token] == (DONE, 3 * PAYLOAD_BYTES + 9)
    assert around.notified[behind] == (DONE, 70)
    assert around.datagrams[1] == datagrams_of(3, runs) + datagrams_of(4, [(MEMORY, 70)])


@cocotb.test()
async def without_bus_master_messages_end(dut):
    bench, around, _ = await begin(dut, "bus master")
    dut.function_i.value = pack("function_t", **(FUNCTION | {"bus_master": 0}))
    token = around.get(3, 3, [(MEMORY, 900)])
    await bench.until(around.is_idle, 8000)
    assert around.notified[token] == (HOST_MEMORY, 0)
    assert not around.reads and not around.datagrams[3]
    dut.function_i.value = pack("function_t", **FUNCTION)
    again = around.get(3, 3, [(MEMORY, 900)])
    await bench.until(around.is_idle, 8000)
    assert around.notified[again] == (DONE, 900)


@cocotb.test()
async def what_is_forgotten_leaves_nothing(dut):
    bench, around, seed = await begin(dut, "forget")
    for _ in range(8):
        around.held = 1 << 3
        tokens = [around.get(c, c, [(MEMORY, 2500)]) for c in range(CHANNELS)]
        await bench.step(seed.randrange(100, 800))
        around.forget = 1
        await bench.until(lambda: not around.forget, 8000)
        await bench.until(around.is_idle, 4000)
        assert {around.notified[t][0] for t in tokens} <= {DONE, LINK_DOWN}
        # The link forgets, too.
        around.queue, around.held = [0] * CHANNELS, 0
        sent = len(around.datagrams[3])
        again = around.get(3, 3, [(MEMORY + 1, 1000)])
        await bench.until(around.is_idle, 8000)
        assert around.notified[again] == (DONE, 1000)
        assert around.datagrams[3][sent:] == datagrams_of(3, [(MEMORY + 1, 1000)])


@cocotb.test()
async def gets_keep_the_link_busy(dut):
    bench, around, _ = await begin(dut, "rate")
    around.drain, around.latency, around.others = 1.0, 60, 0
    first = bench.clock
    for n in range(16):
        around.get(n % CHANNELS, n, [(MEMORY + 4096 * n, 4096)])
    await bench.until(around.is_idle, 30000)
    clocks = around.clocks
    assert len(clocks) == 16 * 4096 // PAYLOAD_BYTES
    if around.bytes == 8:
        # Completions of 64 B, of all reads in any order, take nearly as long as datagrams in words
        # of 64 bits, and at first leave few of these whole.
        clocks = clocks[len(clocks) // 4 :]
    share = (PAYLOAD_BYTES + 8) // 8 * (len(clocks) - 1) / (clocks[-1] - clocks[0])
    dut._log.warning("first %d clocks, share %.3f", around.clocks[0] - first, share)
    assert share >= (0.98 if around.bytes == 8 else 0.99), share


@cocotb.test()
async def parts_of_a_read_are_sent_as_they_come(dut):
    """A datagram leaves when its bytes have come; the read has not ended."""
    bench, around, _ = await begin(dut, "parts")
    around.drain, around.latency, around.size, around.gap = 1.0, 1, 64, 500
    around.others = 0
    token = around.get(0, 5, [(MEMORY, MAX_READ)])
    await bench.until(around.is_idle, 8000)
    assert around.notified[token] == (DONE, MAX_READ)
    payloads = MAX_READ // PAYLOAD_BYTES
    sent = around.clocks[-1] - around.clocks[0]
    apart = (payloads - 1) * PAYLOAD_BYTES // 64 * around.gap
    assert apart <= sent <= apart + 20, sent


@pytest.mark.parametrize("long", [0, 1])
@pytest.mark.parametrize("width", widths(256))
def test_get_engine(width, long):
    sizes = {"DATA_BITS": width, "LONG": long}
    simulate(__file__, "crosslane_get_engine", sizes | PARAMETERS)
