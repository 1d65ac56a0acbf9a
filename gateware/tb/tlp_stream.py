# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine's TLP streams, for tests: a source that drives one and a sink that takes one."""

import random
from collections import deque
from dataclasses import dataclass, field

import cocotb
from cocotb.triggers import Event, RisingEdge
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
    # What comes is taken back beside its last beat.
    is_aborted: bool = False
    # Clocks at which its first and last beat were handed on.
    first_clock: int = field(default=0, compare=False)
    last_clock: int = field(default=0, compare=False)

    def __getattr__(self, name: str) -> int:
        """A field of the header."""
        if name in HEADER_FIELDS:
            return self.header.get(name, 0)
        raise AttributeError(name)

    @property
    def has_data(self) -> bool:
        """Whether a payload comes with this kind."""
        return self.kind in (MEMORY_WRITE, COMPLETION_DATA)

    @property
    def is_request(self) -> bool:
        """Whether it is a memory request."""
        return self.kind in (MEMORY_READ, MEMORY_WRITE)


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
    """A read of so many bytes."""
    first, last, length = enables(address, count)
    fields = {"kind": MEMORY_READ, "address": address & ~3, "length_dw": length, "tag": tag}
    return Tlp({**fields, "first_be": first, "last_be": last, **header})


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


class TlpSource:
    """Drives the stream `prefix` of a module with what is put into `queue`.

    `pause` is the probability of an idle clock before each beat.
    """

    def __init__(self, dut, prefix: str, clocks: Clocks, seed: int = 1):
        self.queue: deque[Tlp] = deque()
        self.pause = 0.0
        # Begins no further TLP.
        self.is_held = False
        self._clocks = clocks
        self._seed = random.Random(seed)
        self._clk = dut.clk
        self._signals = {
            name: getattr(dut, f"{prefix}_{name}")
            for name in ["valid", "ready", "header", "first", "last", "data"]
        }
        self._aborted = getattr(dut, f"{prefix}_aborted", None)
        self._bytes = len(self._signals["data"]) // 8
        self._signals["valid"].value = 0
        self._beats: deque = deque()
        cocotb.start_soon(self._run())

    def _split(self, tlp: Tlp):
        size = self._bytes
        count = max(1, (len(tlp.payload) + size - 1) // size)
        for n in range(count):
            piece = tlp.payload[n * size : (n + 1) * size]
            yield tlp, n == 0, n == count - 1, int.from_bytes(piece, "little")

    async def _run(self):
        s = self._signals
        beat = None
        while True:
            await RisingEdge(self._clk)
            if beat is not None and s["ready"].value:
                tlp, first, last, _ = beat
                if first:
                    tlp.first_clock = self._clocks.now
                if last:
                    tlp.last_clock = self._clocks.now
                beat = None
            if beat is not None:
                continue
            if not self._beats and self.queue and not self.is_held:
                self._beats.extend(self._split(self.queue.popleft()))
            if not self._beats or self._seed.random() < self.pause:
                s["valid"].value = 0
                continue
            beat = self._beats.popleft()
            tlp, first, last, data = beat
            s["valid"].value = 1
            s["first"].value = first
            s["last"].value = last
            if self._aborted is not None:
                self._aborted.value = last and tlp.is_aborted
            s["data"].value = data
            # Beside the other beats stands nothing that means anything.
            header = pack("tlp_header_t", **tlp.header) if first else 0
            s["header"].value = header

    @property
    def is_between(self) -> bool:
        """Whether no TLP is partway."""
        return not self._beats and not self._signals["valid"].value

    @property
    def is_idle(self) -> bool:
        """Whether all has been put onto the stream."""
        return not self.queue and not self._beats


class TlpSink:
    """Takes the stream `prefix` of a module.

    What has come whole is handed to `taken`, if given, and kept in `tlps` else. `pause` is the
    probability of a clock without ready.
    """

    def __init__(self, dut, prefix: str, clocks: Clocks, taken=None, seed: int = 2):
        self.tlps: deque[Tlp] = deque()
        self.pause = 0.0
        self.beats = 0
        # Whether valid has fallen within a TLP.
        self.gaps = 0
        self.arrived = Event()
        self._is_forgotten = False
        self._taken = taken
        self._clocks = clocks
        self._seed = random.Random(seed)
        self._clk = dut.clk
        self._signals = {
            name: getattr(dut, f"{prefix}_{name}")
            for name in ["valid", "ready", "header", "first", "last", "data"]
        }
        self._bytes = len(self._signals["data"]) // 8
        self._signals["ready"].value = 0
        cocotb.start_soon(self._run())

    def forget(self):
        """Forgets a TLP of which a part has come: the module is reset."""
        self._is_forgotten = True

    async def _run(self):
        s = self._signals
        tlp = None
        pieces = []
        while True:
            await RisingEdge(self._clk)
            if self._is_forgotten:
                self._is_forgotten = False
                tlp = None
                continue
            if s["valid"].value and s["ready"].value:
                self.beats += 1
                if s["first"].value:
                    assert tlp is None, "a TLP begins within another"
                    header = vars(unpack("tlp_header_t", int(s["header"].value)))
                    tlp = Tlp(header, first_clock=self._clocks.now)
                    pieces = []
                assert tlp is not None, "a beat without a beginning"
                if tlp.has_data:
                    pieces.append(int(s["data"].value).to_bytes(self._bytes, "little"))
                if s["last"].value:
                    tlp.last_clock = self._clocks.now
                    self._finish(tlp, b"".join(pieces))
                    tlp = None
            elif tlp is not None and not s["valid"].value:
                self.gaps += 1
            s["ready"].value = self._seed.random() >= self.pause

    def _finish(self, tlp: Tlp, data: bytes):
        if tlp.has_data:
            beats = (tlp.length_dw * 4 + self._bytes - 1) // self._bytes
            assert len(data) == beats * self._bytes, f"{len(data)} B for {tlp.length_dw} DW"
            tlp.payload = data[: tlp.length_dw * 4]
        if self._taken is None:
            self.tlps.append(tlp)
        else:
            self._taken(tlp)
        self.arrived.set()
