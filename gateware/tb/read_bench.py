# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Surroundings of crosslane_reads in tests, one clock at a time.

A completer for its requests, consumers of its feeds, fetchers. The test calls `clock` and examines
the result.
"""

import random
from collections import deque

from cocotb.triggers import RisingEdge
from completer import Completer
from packed import pack, part, unpack_one, width
from tlp_stream import Tlp, reach, reset

ROUTING_ID = 0x0100
READ_CLOCKS = 3
FEED_WIDTHS = {"move": 1, "take": 1, "take_back": 6, "take_bytes": 7, "goes_on": 1}
# Signals of a completion's beat.
BEAT = ("header", "first", "last", "data", "aborted")
HEADER_BITS = width("tlp_header_t")
_MEMORY = random.Random(99).randbytes(1 << 16)


def load(address: int, count: int) -> bytes:
    """Host memory: the content of an address is the same in all tests, and differs from one 64 KiB
    to the next."""
    size, data = len(_MEMORY), b""
    while len(data) < count:
        at = address + len(data)
        start = at % size
        turned = (start + at // size * 7) % size
        most = min(count - len(data), size - start, size - turned)
        data += _MEMORY[turned : turned + most]
    return data


class Consumer:
    """Takes the bytes of a feed into `data`. `rate` is the probability that the pipeline moves,
    `any_size` whether it takes odd pieces; `piece_bytes` the number it takes in a row once all of
    them are available, 0 for any number."""

    def __init__(self, lanes: int, seed: random.Random):
        self.lanes = lanes
        self.rate = 1.0
        self.any_size = False
        self.piece_bytes = 0
        self.left = 0  # bytes left of the piece in progress
        self.is_cleared = False  # the feed holds only the rest of the piece
        self.data = bytearray()
        self.first_clock = self.last_clock = 0
        self._seed = seed
        self._pipeline: deque = deque()
        self.took = 0  # bytes taken in this clock
        self.move = False

    def reset(self) -> None:
        """Forgets the bytes taken."""
        self._pipeline.clear()
        self.data.clear()
        self.left = 0

    def sample(self, data: int, now: int) -> None:
        """Takes in the feed's data of the clock that has ended."""
        if self.move and len(self._pipeline) > READ_CLOCKS:
            beat = self._pipeline.popleft()
            if beat is not None:
                back, count = beat
                lanes = data.to_bytes(self.lanes, "little")
                self.data += lanes[back : back + count]
                self.first_clock = self.first_clock or now
                self.last_clock = now

    @property
    def begun(self) -> int:
        """Bytes taken, requested, or belonging to the piece in progress."""
        return len(self.data) + sum(beat[1] for beat in self._pipeline if beat) + self.left

    def drive(self, available: int) -> tuple[int, int, int, int]:
        """Signals for the next clock: move, take, take_back, take_bytes."""
        self.move = self._seed.random() < self.rate
        if not self.move:
            return 0, self._seed.randrange(2), self._seed.randrange(8), self._seed.randrange(8)
        if self.piece_bytes and not self.left and available >= self.piece_bytes:
            self.left = self.piece_bytes
        if available == 0 or (self.piece_bytes and not self.left):
            self._pipeline.append(None)
            return 1, 0, 0, 0
        back, count = 0, min(available, self.lanes)
        if self.any_size:
            back = self._seed.randrange(self.lanes)
            count = self._seed.randint(1, min(available, self.lanes - back))
        if self.piece_bytes:
            back, count = 0, min(self.left, self.lanes)
            assert count <= available, "the rest of a piece is not available"
            self.left -= count
        self._pipeline.append((back, count))
        return 1, 1, back, count


class ReadBench:
    """The ports of crosslane_reads, except those to the channels."""

    def __init__(self, dut, seed: int, h2c: int = 1):
        self.dut = dut
        self.now = 0
        self.seed = random.Random(seed)
        self.h2c = h2c
        self.lanes = len(dut.s_completion_data) // 8
        self.completer = Completer(load, seed)
        self.consumers = [Consumer(self.lanes, self.seed) for _ in range(h2c)]
        self.requests: list[Tlp] = []  # as they were taken, oldest first
        self.fetches: list[Tlp] = []
        self.ready = 1.0  # probability that a request is taken
        self.pause = 0.0  # probability of a pause before a beat of a completion
        self.counts = {"unexpected": 0, "timed_out": 0, "refused": 0}
        self.beats = 0
        self.first_beat = self.last_beat = 0
        self.held_back = 0
        self.function = {
            "routing_id": ROUTING_ID,
            "max_payload": 2,
            "max_read_request": 5,
            "bus_master": 1,
            "relaxed_ordering": 1,
            "extended_tags": 1,
            "link_up": 1,
        }
        self.cleared = 0  # feeds emptied in the clock that ends, a bit each
        self._beats: deque = deque()
        self._beat = None
        self.extra: deque[Tlp] = deque()  # completions that go before those of the completer

    async def start(self, *inputs: str):
        """Resets for one clock, with these inputs at zero besides those that every bench drives."""
        dut = self.dut
        feeds = [f"feed_{name}" for name in FEED_WIDTHS]
        beats = [f"s_completion_{name}" for name in ("valid", *BEAT)]
        for name in (*inputs, *feeds, *beats, "m_h2c_ready", "time_i"):
            getattr(dut, name).value = 0
        self.set_function()
        await reset(dut, 1)
        return self

    def set_function(self, **values: int) -> None:
        """Sets fields of the function's settings."""
        self.function.update(values)
        self.dut.function_i.value = pack("function_t", **self.function)

    def request_taken(self, tlp: Tlp) -> None:
        """Notes that a request has left."""
        self.completer.take(tlp, self.now)

    async def clock(self) -> None:
        """Runs one clock: samples its ports, then drives the next."""
        dut = self.dut
        await RisingEdge(dut.clk)
        self.now += 1
        dut.time_i.value = self.now
        self._sample_requests()
        for name in self.counts:
            self.counts[name] += int(getattr(dut, name).value)
        self._drive_completion()
        self._drive_feeds()

    def _sample_requests(self) -> None:
        dut = self.dut
        valid, ready = int(dut.m_h2c_valid.value), int(dut.m_h2c_ready.value)
        if valid & ready:
            headers = int(dut.m_h2c_header.value)
            for h in range(self.h2c):
                if valid & ready & 1 << h:
                    header = vars(unpack_one("tlp_header_t", headers, h))
                    tlp = Tlp(header, first_clock=self.now)
                    self.requests.append(tlp)
                    self.request_taken(tlp)
        dut.m_h2c_ready.value = sum(
            (self.ready == 1.0 or self.seed.random() < self.ready) << h for h in range(self.h2c)
        )

    def _drive_completion(self) -> None:
        dut = self.dut
        if self._beat is not None:
            if not dut.s_completion_ready.value:
                self.held_back += 1
                return
            self.beats += 1
            self.first_beat = self.first_beat or self.now
            self.last_beat = self.now
            self._beat = None
        if not self._beats:
            tlp = self.extra.popleft() if self.extra else self.completer.next(self.now)
            if tlp is not None:
                self._beats.extend(self._split(tlp))
        if not self._beats or (self.pause and self.seed.random() < self.pause):
            dut.s_completion_valid.value = 0
            return
        self._beat = self._beats.popleft()
        dut.s_completion_valid.value = 1
        for name, value in zip(BEAT, self._beat, strict=True):
            getattr(dut, f"s_completion_{name}").value = value

    def _split(self, tlp: Tlp):
        header = pack("tlp_header_t", **tlp.header)
        count = max(1, (len(tlp.payload) + self.lanes - 1) // self.lanes)
        for n in range(count):
            piece = tlp.payload[n * self.lanes : (n + 1) * self.lanes]
            # The header is random beside the other beats.
            shown = header if n == 0 else self.seed.getrandbits(HEADER_BITS)
            last = n == count - 1
            aborted = last and tlp.is_aborted
            yield shown, n == 0, last, int.from_bytes(piece, "little"), aborted

    def _drive_feeds(self) -> None:
        dut = self.dut
        available = int(dut.feed_available.value)
        data = int(dut.feed_data.value)
        fields = dict.fromkeys(FEED_WIDTHS, 0)
        for h, consumer in enumerate(self.consumers):
            consumer.sample(part(data, 8 * self.lanes, h), self.now)
            left = part(available, 16, h) - consumer.took
            consumer.is_cleared |= bool(self.cleared >> h & 1)
            if consumer.is_cleared:
                left = consumer.left
                consumer.is_cleared = left > 0
            values = (*consumer.drive(left), consumer.left > 0)
            consumer.took = values[3] if values[0] and values[1] else 0
            for (name, size), value in zip(FEED_WIDTHS.items(), values, strict=True):
                fields[name] |= value << size * h
        for name, value in fields.items():
            getattr(dut, f"feed_{name}").value = value
        self.cleared = 0

    def compare(self, channel: int, expected: bytes) -> None:
        """Compares the data taken off a channel's feed with the memory."""
        taken = bytes(self.consumers[channel].data)
        if taken != expected:
            pairs = enumerate(zip(taken, expected, strict=False))
            wrong = [at for at, (found, wanted) in pairs if found != wanted]
            counts = f"channel {channel}: {len(taken)} of {len(expected)} bytes"
            raise AssertionError(f"{counts}, wrong from {wrong[:1]} to {wrong[-1:]}")

    def drop_answers(self) -> None:
        """Drops all outstanding completions."""
        self.completer.answers.clear()
        self._beats.clear()
        self._beat = None

    def assert_no_errors(self) -> None:
        """Asserts that no completion was unexpected, refused or late."""
        assert self.counts == {"unexpected": 0, "timed_out": 0, "refused": 0}

    @property
    def is_quiet(self) -> bool:
        """Whether no completion is outstanding."""
        return not (self.completer.answers or self._beats or self._beat or self.extra)


async def run(bench: ReadBench, until, clocks: int = 20000, what: str = "the end") -> None:
    """Runs until `until()` holds."""
    await reach(bench.clock, until, clocks, what)


async def clocks(bench: ReadBench, count: int) -> None:
    """Runs for some clocks."""
    for _ in range(count):
        await bench.clock()
