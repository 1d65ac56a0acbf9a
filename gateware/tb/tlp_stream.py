# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine's TLP streams, for tests: a source that drives one, and a sink that takes one and
checks its rules.

A test may advance clock by clock: `Bench.step` sets inputs in the middle of a clock and samples
outputs when they have settled, so both sides are seen as the next rising edge sees them. Or
`TlpSource` and `TlpSink` run by themselves: they sample at a rising edge, and drive the values that
the next one sees.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from packed import CONSTANTS, STRUCTS, pack, unpack

MEMORY_READ = CONSTANTS["MEMORY_READ"]
MEMORY_WRITE = CONSTANTS["MEMORY_WRITE"]
COMPLETION = CONSTANTS["COMPLETION"]
COMPLETION_DATA = CONSTANTS["COMPLETION_DATA"]
NO_BAR = 7
HEADER_FIELDS = {name for name, _ in STRUCTS["tlp_header_t"]}


@dataclass
class Tlp:
    """A TLP: the fields of `tlp_header_t` by name (those left out are 0), and its payload.

    The payload is whole double words.
    """

    header: dict[str, int]
    payload: bytes = b""
    # Its data are marked as bad with the last beat.
    is_aborted: bool = False
    # Clocks in which its first and its last beat were taken.
    first_clock: int = field(default=-1, compare=False)
    last_clock: int = field(default=-1, compare=False)

    def __getattr__(self, name: str) -> int:
        """A field of the header."""
        if name in HEADER_FIELDS:
            return self.header.get(name, 0)
        raise AttributeError(name)

    def beats(self, data_bits: int) -> list[bytes]:
        """The payload as it is on the bus; at least one beat."""
        size = data_bits // 8
        parts = [self.payload[at : at + size] for at in range(0, len(self.payload), size)]
        return parts or [b""]

    @property
    def has_data(self) -> bool:
        """Whether this kind has a payload."""
        return self.kind in (MEMORY_WRITE, COMPLETION_DATA)

    @property
    def is_request(self) -> bool:
        """Whether it is a memory request."""
        return self.kind in (MEMORY_READ, MEMORY_WRITE)

    @property
    def enabled(self) -> list[int]:
        """Positions of the bytes that a request's enables mark."""
        masks = [self.first_be] + [0xF] * (self.length_dw - 2)
        masks += [self.last_be] * (self.length_dw > 1)
        return [4 * n + at for n, mask in enumerate(masks) for at in range(4) if mask >> at & 1]


def assert_same(found: Iterable[Tlp], expected: Iterable[Tlp]) -> None:
    """Compares TLPs: the fields that are expected, and the payloads."""
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        shown = {name: one.header[name] for name in other.header}
        differ = {n: (v, shown[n]) for n, v in other.header.items() if shown[n] != v}
        assert not differ, f"TLP {number}: expected, found: {differ}"
        assert one.payload == other.payload, f"TLP {number}: payload"


def enables(address: int, count: int) -> tuple[int, int, int]:
    """First and last byte enables, and the double words, of `count` bytes at `address`."""
    offset = address % 4
    length = max(1, (offset + count + 3) // 4)
    if count == 0:
        return 0, 0, 1
    first = 0xF << offset & 0xF
    last = 0xF >> (-(offset + count) % 4)
    return (first & last, 0, 1) if length == 1 else (first, last, length)


def memory_write(address: int, data: bytes, **header: int) -> Tlp:
    """A write of these bytes."""
    first, last, length = enables(address, len(data))
    padded = bytes(address % 4) + data
    padded += bytes(length * 4 - len(padded))
    fields = {"kind": MEMORY_WRITE, "address": address & ~3, "length_dw": length}
    return Tlp({**fields, "first_be": first, "last_be": last, **header}, padded)


def memory_read(address: int, count: int, tag: int, **header: int) -> Tlp:
    """A read of `count` bytes."""
    first, last, length = enables(address, count)
    fields = {"kind": MEMORY_READ, "address": address & ~3, "length_dw": length, "tag": tag}
    return Tlp({**fields, "first_be": first, "last_be": last, **header})


SIGNALS = ["valid", "ready", "header", "first", "last", "data"]


class Source:
    """Drives the stream `prefix` of a module with the TLPs in `queue`; `pause` is the probability
    of an idle clock before each beat."""

    def __init__(self, dut, prefix: str, seed: random.Random, pause: float = 0.0):
        self.seed, self.pause = seed, pause
        self.ports = {name: getattr(dut, f"{prefix}_{name}") for name in SIGNALS}
        self.aborted = getattr(dut, f"{prefix}_aborted", None)
        self.data_bits = len(self.ports["data"])
        self.header_bits = len(self.ports["header"])
        self.queue: deque[Tlp] = deque()  # the first may be partly sent
        self.sent: list[Tlp] = []
        self.is_held = False  # begins no further TLP
        self.at = 0  # beat
        self.offered = False
        self._beats: list[bytes] = []  # of the first TLP
        self.ports["valid"].value = 0

    def send(self, tlp: Tlp) -> Tlp:
        """Queues a TLP."""
        self.queue.append(tlp)
        return tlp

    def drive(self) -> None:
        """Sets the inputs of a clock."""
        if self.offered:
            return
        has_beat = bool(self.queue) and not (self.is_held and self.at == 0)
        self.offered = has_beat and self.seed.random() >= self.pause
        self.ports["valid"].value = int(self.offered)
        if not self.offered:
            return
        is_first = self.at == 0
        if is_first:
            self._beats = self.queue[0].beats(self.data_bits)
            header = pack("tlp_header_t", **self.queue[0].header)
        else:
            # Other headers, and bytes behind the payload's end, are random.
            header = self.seed.getrandbits(self.header_bits)
        beat = self._beats[self.at]
        beat += self.seed.randbytes(self.data_bits // 8 - len(beat))
        self.ports["header"].value = header
        self.ports["first"].value = int(is_first)
        is_last = self.at == len(self._beats) - 1
        self.ports["last"].value = int(is_last)
        self.ports["data"].value = int.from_bytes(beat, "little")
        if self.aborted is not None:
            self.aborted.value = int(is_last and self.queue[0].is_aborted)

    def sample(self, clock: int) -> None:
        """Samples the signals that the rising edge sees."""
        if not (self.offered and self.ports["ready"].value):
            return
        tlp = self.queue[0]
        if self.at == 0:
            tlp.first_clock = clock
        self.at += 1
        self.offered = False
        if self.at == len(self._beats):
            tlp.last_clock = clock
            self.sent.append(self.queue.popleft())
            self.at = 0

    @property
    def is_between(self) -> bool:
        """Whether no TLP is in progress, or offered."""
        return self.at == 0 and not self.offered

    @property
    def is_idle(self) -> bool:
        """Whether all has been taken."""
        return not self.queue


class Sink:
    """Takes the stream `prefix` of a module into `tlps`; `pause` is the probability of a clock
    without ready. A valid beat must stay unchanged until it is taken, and the payload must have as
    many beats as the header says."""

    def __init__(self, dut, prefix: str, seed: random.Random, pause: float = 0.0, gapless=False):
        self.prefix, self.seed, self.pause = prefix, seed, pause
        self.gapless = gapless  # valid may not fall within a TLP
        self.ports = {name: getattr(dut, f"{prefix}_{name}") for name in SIGNALS}
        self.data_bits = len(self.ports["data"])
        self.tlps: list[Tlp] = []
        self.took: Callable[[Tlp], None] = self.tlps.append  # gets each complete TLP
        self.gaps = 0  # clocks in which valid was low within a TLP
        self.first_seen = -1  # clock in which the first beat of the TLP was first offered
        self.accepts = False
        self.open: Tlp | None = None  # in progress
        self._beats: list[bytes] = []
        self._held: tuple | None = None
        self.ports["ready"].value = 0

    def drive(self) -> None:
        """Sets the inputs of a clock."""
        self.accepts = self.seed.random() >= self.pause
        self.ports["ready"].value = int(self.accepts)

    def sample(self, clock: int) -> None:
        """Samples the signals that the rising edge sees."""
        if not self.ports["valid"].value:
            assert self._held is None, f"{self.prefix}: valid fell before it was taken"
            self.gaps += self.open is not None
            assert not (self.gapless and self.open), f"{self.prefix}: a pause within a TLP"
            return
        is_first = bool(self.ports["first"].value)
        header = int(self.ports["header"].value) if is_first else 0
        shown = (is_first, bool(self.ports["last"].value), header, int(self.ports["data"].value))
        assert self._held in (None, shown), f"{self.prefix}: changed before it was taken"
        if self._held is None and is_first:
            self.first_seen = clock
        self._held = None if self.accepts else shown
        if self.accepts:
            self._take(*shown, clock)

    def _take(self, is_first: bool, is_last: bool, header: int, data: int, clock: int) -> None:
        assert is_first == (self.open is None), f"{self.prefix}: first"
        if is_first:
            self.open = Tlp(vars(unpack("tlp_header_t", header)), first_clock=clock)
            self._beats = []
        tlp, size = self.open, self.data_bits // 8
        self._beats.append(data.to_bytes(size, "little"))
        if not is_last:
            return
        length = 4 * tlp.length_dw if tlp.has_data else 0
        assert len(self._beats) == max(1, -(-length // size)), f"{self.prefix}: beats"
        tlp.payload = b"".join(self._beats)[:length]
        tlp.last_clock = clock
        self.open = None
        self.took(tlp)


async def reach(step, condition, limit: int, what: str = "the condition") -> None:
    """Steps until the condition holds."""
    for _ in range(limit):
        if condition():
            return
        await step()
    raise AssertionError(f"{what} is not reached within {limit} clocks")


async def until(dut, condition, limit: int = 60000, what: str = "the condition") -> None:
    """Waits until the condition holds."""
    await reach(lambda: RisingEdge(dut.clk), condition, limit, what)


async def clocks_between(dut, begin: str, end: str) -> int:
    """Clocks from the one that sees `begin` valid to the one that sees `end` valid."""
    await until(dut, lambda: getattr(dut, begin).value)
    clocks = 0
    while not getattr(dut, end).value:
        await RisingEdge(dut.clk)
        clocks += 1
    return clocks


async def reset(dut, clocks: int = 3) -> None:
    """Starts the clock and resets the module."""
    Clock(dut.clk, 4, unit="ns").start()
    dut.rst.value = 1
    await ClockCycles(dut.clk, clocks)
    dut.rst.value = 0


@dataclass
class Bench:
    """A clock, and the sources and sinks that it drives."""

    dut: object
    parts: list = field(default_factory=list)
    clock: int = 0

    async def reset(self, clocks: int = 1) -> None:
        """Starts the clock and resets the module."""
        Clock(self.dut.clk, 4, unit="ns").start()
        self.dut.rst.value = 1
        for _ in range(clocks + 1):
            await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def step(self, count: int = 1) -> None:
        """Runs `count` clocks."""
        for _ in range(count):
            for part in self.parts:
                part.drive()
            await ReadOnly()
            for part in self.parts:
                part.sample(self.clock)
            self.clock += 1
            await FallingEdge(self.dut.clk)

    async def until(self, condition, limit: int = 2000) -> None:
        """Waits until the condition holds."""
        await reach(self.step, condition, limit)


class Clocks:
    """Counts the clocks of a module."""

    def __init__(self, clk):
        self.clk = clk
        self.now = 0
        cocotb.start_soon(self._run())

    async def _run(self):
        while True:
            await RisingEdge(self.clk)
            self.now += 1


class Pulses:
    """Counts the clocks in which a signal is set."""

    def __init__(self, dut, name):
        self.count = 0
        cocotb.start_soon(self._watch(dut.clk, getattr(dut, name)))

    async def _watch(self, clk, signal):
        while True:
            await RisingEdge(clk)
            self.count += int(signal.value)


class TlpSource(Source):
    """A source that runs by itself."""

    def __init__(self, dut, prefix: str, clocks: Clocks, seed: int = 1):
        super().__init__(dut, prefix, random.Random(seed))
        cocotb.start_soon(self._run(clocks))

    async def _run(self, clocks: Clocks):
        while True:
            await RisingEdge(clocks.clk)
            self.sample(clocks.now)
            self.drive()


class TlpSink(Sink):
    """A sink that runs by itself, and passes TLPs to `taken`, if given."""

    def __init__(self, dut, prefix: str, clocks: Clocks, taken=None, seed: int = 2):
        super().__init__(dut, prefix, random.Random(seed))
        self.took = taken or self.took
        self._is_forgotten = False
        cocotb.start_soon(self._run(clocks))

    def forget(self) -> None:
        """Forgets a TLP in progress in the next clock: the module is reset."""
        self._is_forgotten = True

    async def _run(self, clocks: Clocks):
        while True:
            await RisingEdge(clocks.clk)
            if self._is_forgotten:
                self.open = self._held = None
                self._is_forgotten = False
                continue
            self.sample(clocks.now)
            self.drive()
