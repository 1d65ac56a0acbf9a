# SPDX-License-Identifier: Apache-2.0 OR MIT
"""TLP streams stepped clock by clock, with a look at the stream's rules: what is valid stays as it
is until it is taken, and the payload has as many beats as the header says.

A test makes a `Bench` of the streams and calls `step` once a clock: inputs are set in the middle of
the clock, outputs are looked at when they have settled, so both sides are seen as the next rising
edge sees them.
"""

import random
from dataclasses import dataclass, field

from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly
from packed import CONSTANTS, pack, unpack

WITH_DATA = (CONSTANTS["MEMORY_WRITE"], CONSTANTS["COMPLETION_DATA"])


@dataclass
class Tlp:
    """A TLP: fields of tlp_header_t, and the payload in whole double words."""

    header: dict
    payload: bytes = b""
    # Clocks in which its first and its last beat were taken.
    first_clock: int = -1
    last_clock: int = -1

    def beats(self, data_bits: int) -> list[bytes]:
        """The payload as it stands on the bus; one beat at least."""
        size = data_bits // 8
        parts = [self.payload[at : at + size] for at in range(0, len(self.payload), size)]
        return parts or [b""]


class Source:
    """Drives `prefix_valid` and what goes with it; pauses as often as `pause` says."""

    def __init__(self, dut, prefix: str, seed: random.Random, pause: float = 0.0):
        self.dut, self.prefix, self.seed, self.pause = dut, prefix, seed, pause
        self.data_bits = len(self.port("data"))
        self.queue: list[Tlp] = []
        self.sent: list[Tlp] = []
        self.at = 0  # beat
        self.offered = False

    def port(self, name: str):
        """The signal of this name of the stream."""
        return getattr(self.dut, f"{self.prefix}_{name}")

    def send(self, tlp: Tlp) -> Tlp:
        """Puts a TLP behind those that wait."""
        self.queue.append(tlp)
        return tlp

    def drive(self) -> None:
        """Sets the inputs of a clock."""
        if not self.offered:
            self.offered = bool(self.queue) and self.seed.random() >= self.pause
        self.port("valid").value = int(self.offered)
        if not self.offered:
            return
        tlp = self.queue[0]
        beats = tlp.beats(self.data_bits)
        is_first = self.at == 0
        # Beside the other beats, and behind the end of the payload, there is nothing to rely on.
        noise = self.seed.getrandbits(len(self.port("header")))
        self.port("header").value = pack("tlp_header_t", **tlp.header) if is_first else noise
        self.port("first").value = int(is_first)
        self.port("last").value = int(self.at == len(beats) - 1)
        beat = beats[self.at]
        beat += self.seed.randbytes(self.data_bits // 8 - len(beat))
        self.port("data").value = int.from_bytes(beat, "little")

    def sample(self, clock: int) -> None:
        """Looks at what the rising edge will see."""
        if not (self.offered and self.port("ready").value):
            return
        tlp = self.queue[0]
        if self.at == 0:
            tlp.first_clock = clock
        self.at += 1
        self.offered = False
        if self.at == len(tlp.beats(self.data_bits)):
            tlp.last_clock = clock
            self.sent.append(self.queue.pop(0))
            self.at = 0


class Sink:
    """Takes what `prefix_valid` offers, refuses as often as `pause` says, and looks whether the
    stream keeps its rules.
    """

    def __init__(self, dut, prefix: str, seed: random.Random, pause: float = 0.0, gapless=False):
        self.dut, self.prefix, self.seed, self.pause = dut, prefix, seed, pause
        self.gapless = gapless  # valid may not fall within a TLP
        self.data_bits = len(self.port("data"))
        self.taken: list[Tlp] = []
        self.beats: list[bytes] = []
        self.header: dict = {}
        self.first_clock = -1
        self.held = None
        self.accepts = False
        self.first_seen = -1  # clock in which the first beat of the TLP was first offered

    def port(self, name: str):
        """The signal of this name of the stream."""
        return getattr(self.dut, f"{self.prefix}_{name}")

    def drive(self) -> None:
        """Sets the inputs of a clock."""
        self.accepts = self.seed.random() >= self.pause
        self.port("ready").value = int(self.accepts)

    def sample(self, clock: int) -> None:
        """Looks at what the rising edge will see."""
        if not self.port("valid").value:
            assert self.held is None, f"{self.prefix}: valid fell before it was taken"
            assert not (self.gapless and self.beats), f"{self.prefix}: a pause within a TLP"
            return
        is_first = bool(self.port("first").value)
        shown = (
            is_first,
            bool(self.port("last").value),
            int(self.port("header").value) if is_first else 0,
            int(self.port("data").value),
        )
        assert self.held in (None, shown), f"{self.prefix}: changed before it was taken"
        if self.held is None and is_first:
            self.first_seen = clock
        self.held = None if self.accepts else shown
        if not self.accepts:
            return
        assert shown[0] == (not self.beats), f"{self.prefix}: first"
        if is_first:
            self.header = vars(unpack("tlp_header_t", shown[2]))
            self.first_clock = clock
        self.beats.append(shown[3].to_bytes(self.data_bits // 8, "little"))
        if not shown[1]:
            return
        length = 4 * self.header["length_dw"] if self.header["kind"] in WITH_DATA else 0
        size = self.data_bits // 8
        assert len(self.beats) == max(1, -(-length // size)), f"{self.prefix}: beats"
        payload = b"".join(self.beats)[:length]
        tlp = Tlp(self.header, payload, self.first_clock, clock)
        self.taken.append(tlp)
        self.beats = []


@dataclass
class Bench:
    """A clock, and all that takes part in it."""

    dut: object
    parts: list = field(default_factory=list)
    clock: int = 0

    async def reset(self, clocks: int = 1) -> None:
        """Starts the clock and resets the module."""
        Clock(self.dut.clk, 4, unit="ns").start()
        self.dut.rst.value = 1
        for part in self.parts:
            if hasattr(part, "port"):
                side = "ready" if isinstance(part, Sink) else "valid"
                part.port(side).value = 0
        for _ in range(clocks + 1):
            await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def step(self, count: int = 1) -> None:
        """Goes on by so many clocks."""
        for _ in range(count):
            for part in self.parts:
                part.drive()
            await ReadOnly()
            for part in self.parts:
                part.sample(self.clock)
            self.clock += 1
            await FallingEdge(self.dut.clk)

    async def until(self, condition, limit: int = 2000) -> None:
        """Goes on until the condition holds."""
        for _ in range(limit):
            if condition():
                return
            await self.step()
        raise AssertionError(f"not within {limit} clocks")


def double_words(seed: random.Random, count: int) -> bytes:
    """So many random double words."""
    return seed.randbytes(4 * count)
