# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Joins a core in a simulator to an endpoint of a lab, in cocotb tests.

`Clocked` lets a lab's time follow the simulator's. `TlpSource` shows the core the TLPs that arrive
at its endpoint, `TlpSink` takes those that it sends; both are streams with header and data side by
side, as many open cores have them. `docs/tutorials/own-core.md` shows a test.

It needs cocotb 2 and is not imported with the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeVar

import cocotb
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

from crosslane._errors import ArgumentError, DeadlineError, PortError
from crosslane._native import Operation, Port, RunningLab, Tlp

__all__ = ["Clocked", "Part", "TlpSink", "TlpSource"]

T = TypeVar("T")

#: Signals of a stream, behind its prefix. Those after `data` may be missing.
NAMES = ("valid", "ready", "sop", "eop", "hdr", "data", "strb", "bar_id")
OPTIONAL = ("strb", "bar_id")
#: Bytes of the longest header.
HEADER_BYTES = 16
#: Bytes of the longest payload.
MOST_PAYLOAD_BYTES = 4096
CLASSES: dict[str, Literal["posted", "nonposted", "completion"]] = {
    "memory_write": "posted",
    "memory_read": "nonposted",
    "completion": "completion",
    "completion_data": "completion",
}


class Part(Protocol):
    """Something that a `Clocked` drives."""

    def sample(self) -> None:
        """Looks at the signals as a rising edge sees them."""

    def drive(self, now_ps: int) -> None:
        """Exchanges TLPs with the lab, whose time is that of the edge, and sets the inputs."""


class Clocked:
    """A running lab whose time follows the simulator's: at each rising edge of `clk` it is as late
    in the lab as in the simulator, from the moment on in which this is made.

    An edge first sees what the core sends, then the lab advances, and then the inputs of the next
    clock are set. So a TLP that arrives is on its stream in the clock after its arrival, and one
    that the core sends leaves it at the end of the clock that takes its last beat. The lab's
    transmit latency counts from the first beat.
    """

    def __init__(self, lab: RunningLab, clk: Any) -> None:
        self.lab = lab
        self.clk = clk
        self._parts: list[Part] = []
        self._origin_ps = _time_ps() - lab.now_ps
        self._task = cocotb.start_soon(self._run())

    @property
    def now_ps(self) -> int:
        """Time of the lab at the simulator's time."""
        return _time_ps() - self._origin_ps

    def add(self, part: Part) -> None:
        """Drives a part from now on, behind those that were added before."""
        self._parts.append(part)

    def stop(self) -> None:
        """Ends the coupling, for a test that goes on without the lab."""
        self._task.cancel()

    async def result(self, operation: Operation[T], within_ps: int = 1_000_000_000) -> T:
        """Waits for the end of what a host does, and returns its result. The test continues at the
        edge that sees the end; `operation.ended_ps` is the time itself."""
        last_ps = self.now_ps + within_ps
        while not operation.done:
            if self.now_ps > last_ps:
                raise DeadlineError(f"{operation!r} has not ended within {within_ps} ps", "timeout")
            await RisingEdge(self.clk)
            self.lab.advance(self.now_ps)
        return operation.result()

    async def _run(self) -> None:
        while True:
            await RisingEdge(self.clk)
            for part in self._parts:
                part.sample()
            now_ps = self.now_ps
            self.lab.advance(now_ps)
            for part in self._parts:
                part.drive(now_ps)


def _time_ps() -> int:
    return int(get_sim_time("ps"))


def _handles(dut: Any, prefix: str, names: Mapping[str, str] | None) -> dict[str, Any]:
    """The signals of a stream, by their names here."""
    unknown = set(names or {}) - set(NAMES)
    if unknown:
        raise ArgumentError(f"{prefix}: no signal of a stream is called {sorted(unknown)}")
    found = {}
    for name in NAMES:
        called = (names or {}).get(name, f"{prefix}_{name}")
        handle = getattr(dut, called, None)
        if handle is not None:
            found[name] = handle
        elif name not in OPTIONAL:
            raise ArgumentError(f"{prefix}: the core has no signal {called}; names= can tell it")
    if len(found["hdr"]) < 8 * HEADER_BYTES:
        raise ArgumentError(f"{prefix}: a header has 128 bits, not {len(found['hdr'])}")
    if len(found["data"]) % 32:
        raise ArgumentError(f"{prefix}: {len(found['data'])} bits of data are not whole words")
    return found


class TlpSource:
    """The stream of TLPs from the lab to a core: the header is valid with the first beat (`sop`),
    data begin at bit 0 with the first double word. `which` are the TLPs: all in the order of their
    arrival, or those of a core with two streams. The first byte of a header is in its highest bits
    (`header="big"`, as in the specification's tables) or in the lowest. A TLP keeps its receive
    buffer in the lab until its last beat is taken."""

    def __init__(
        self,
        clocked: Clocked,
        port: Port,
        dut: Any,
        prefix: str,
        *,
        which: Literal["any", "requests", "completions"] = "any",
        header: Literal["big", "little"] = "big",
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        self.which = which
        self.order = header
        self.signals = _handles(dut, prefix, names)
        self.beat_bytes = len(self.signals["data"]) // 8
        #: TLPs whose last beat was taken.
        self.count = 0
        self._tlp: Tlp | None = None
        self._at = 0
        self.signals["valid"].value = 0
        clocked.add(self)

    def sample(self) -> None:
        """Looks whether the core has taken the beat."""
        if self._tlp is None or not self.signals["ready"].value:
            return
        self._at += self.beat_bytes
        if self._at >= len(self._tlp.payload):
            self.port.release(self._tlp)
            self._tlp = None
            self.count += 1

    def drive(self, now_ps: int) -> None:
        """Shows the next beat."""
        if self._tlp is None:
            self._tlp, self._at = self.port.receive(self.which, hold=True), 0
        tlp, signals = self._tlp, self.signals
        signals["valid"].value = int(tlp is not None)
        if tlp is None:
            return
        beat = tlp.payload[self._at : self._at + self.beat_bytes]
        is_first = self._at == 0
        signals["sop"].value = int(is_first)
        signals["eop"].value = int(self._at + self.beat_bytes >= len(tlp.payload))
        signals["data"].value = int.from_bytes(beat, "little")
        if "strb" in signals:
            signals["strb"].value = (1 << (len(beat) // 4)) - 1
        if is_first:
            header = tlp.header.ljust(HEADER_BYTES, b"\0")
            signals["hdr"].value = int.from_bytes(header, self.order)
            if "bar_id" in signals:
                signals["bar_id"].value = tlp.bar or 0


class TlpSink:
    """The stream of TLPs from a core to the lab, as that of `TlpSource`. `classes` are those of its
    TLPs: it is ready for one while the link has room for each of them, so it follows the credits.
    A TLP that the lab refuses raises `PortError` in the test."""

    def __init__(
        self,
        clocked: Clocked,
        port: Port,
        dut: Any,
        prefix: str,
        *,
        classes: tuple[Literal["posted", "nonposted", "completion"], ...] = (
            "posted",
            "nonposted",
            "completion",
        ),
        header: Literal["big", "little"] = "big",
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        self.prefix = prefix
        self.classes = classes
        self.order = header
        self.signals = _handles(dut, prefix, names)
        self.beat_bytes = len(self.signals["data"]) // 8
        #: Times at which TLPs have left the core, ps, each with its TLP.
        self.sent: list[tuple[int, Tlp]] = []
        self._header = b""
        self._data = bytearray()
        self._is_open = False
        self._is_ready = False
        self._begun_ps: int | None = None
        self._waiting: Tlp | None = None
        self.signals["ready"].value = 0
        clocked.add(self)

    def sample(self) -> None:
        """Takes the beat that the core sends."""
        signals = self.signals
        if not (self._is_ready and signals["valid"].value):
            return
        is_first, is_last = bool(signals["sop"].value), bool(signals["eop"].value)
        if is_first == self._is_open:
            wrong = "within a TLP" if is_first else "missing in the first beat of a TLP"
            raise PortError(f"{self.prefix}: sop is {wrong}", "data")
        if is_first:
            self._header = int(signals["hdr"].value).to_bytes(len(signals["hdr"]) // 8, self.order)
            self._data.clear()
            self._begun_ps = None
        self._is_open = not is_last
        self._data += int(signals["data"].value).to_bytes(self.beat_bytes, "little")
        if len(self._data) > MOST_PAYLOAD_BYTES + self.beat_bytes:
            raise PortError(f"{self.prefix}: a TLP goes on behind {MOST_PAYLOAD_BYTES} B", "data")
        if is_last:
            self._waiting = self._whole()

    def _whole(self) -> Tlp:
        """The TLP that the beats make."""
        fmt = self._header[0] >> 5
        length = int.from_bytes(self._header[2:4], "big") & 0x3FF or 1024
        payload = 4 * length if fmt & 2 else 0
        beats = max(1, -(-payload // self.beat_bytes))
        if len(self._data) != beats * self.beat_bytes:
            found = len(self._data) // self.beat_bytes
            raise PortError(
                f"{self.prefix}: a TLP of {payload} B of payload has {found} beats", "data"
            )
        header = self._header[: 16 if fmt & 1 else 12]
        return Tlp(header + bytes(self._data[:payload]))

    def drive(self, now_ps: int) -> None:
        """Hands a TLP that is whole to the lab, and sets `ready`."""
        if self._begun_ps is None and (self._is_open or self._waiting is not None):
            self._begun_ps = now_ps
        tlp = self._waiting
        # Another stream of the core may have taken the room meanwhile.
        if tlp is not None and self.port.room(CLASSES[tlp.kind]):
            self.port.send(tlp, begun_ps=self._begun_ps)
            self.sent.append((now_ps, tlp))
            self._waiting = None
        self._is_ready = self._is_open or (
            self._waiting is None and all(self.port.room(name) for name in self.classes)
        )
        self.signals["ready"].value = int(self._is_ready)
