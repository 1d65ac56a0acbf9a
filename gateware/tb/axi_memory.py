# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The card's memory on an AXI4 port: pauses, refuses, and checks the protocol's rules.

The memory itself is cocotbext-axi's, which also checks `last`.
"""

import itertools
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

import cocotb
from cocotb.triggers import RisingEdge
from cocotb.types import LogicArray
from cocotbext.axi import AxiBus, AxiRam, AxiResp

# AMBA AXI4 A3.4.1: a burst does not cross a boundary of 4 KiB.
BOUNDARY = 4096
INCREMENTING = 1
# Ways in which a memory refuses: it fails, or it is absent.
REFUSALS = (AxiResp.SLVERR, AxiResp.DECERR)


@dataclass(frozen=True)
class Burst:
    """A burst requested on the port: its first byte, and its beats."""

    address: int
    beats: int


class Identifier:
    """A signal with the identifier of a burst, of which the engine has one at a time."""

    value = LogicArray("0")

    def __len__(self) -> int:
        return 1

    def setimmediatevalue(self, _: object) -> None:
        """Leaves it as it is."""


class WithIdentifiers:
    """A module whose AXI4 port has no identifiers, with those that cocotbext-axi asks for."""

    def __init__(self, dut, prefix: str):
        self._dut = dut
        self._ids = {f"{prefix}_{name}": Identifier() for name in ("awid", "bid", "arid", "rid")}

    def __dir__(self) -> list[str]:
        return [*dir(self._dut), *self._ids]

    def __getattr__(self, name: str):
        return self._ids.get(name) or getattr(self._dut, name)


class AxiMemory:
    """`content`, on the port `prefix` of a module.

    `refuses`, if set, is called with an address and returns whether to refuse it; `response` is the
    error given then.
    """

    def __init__(self, dut, prefix: str, content: bytearray, seed: random.Random, most_beats=256):
        self.content = content
        self.refuses: Callable[[int], bool] | None = None
        self.response = AxiResp.SLVERR
        self.writes: list[Burst] = []
        self.reads: list[Burst] = []
        # Clocks of beats into the memory, counted from its first.
        self.write_beats: list[int] = []
        self._dut, self._prefix, self._seed = dut, prefix, seed
        self._most_beats = most_beats
        self._bytes = len(self._port("wdata")) // 8
        bus = AxiBus.from_prefix(WithIdentifiers(dut, prefix), prefix)
        ram = AxiRam(bus, dut.clk, dut.rst, mem=content)
        into, out = ram.write_if, ram.read_if
        self._channels = [into.aw_channel, into.w_channel, into.b_channel]
        self._channels += [out.ar_channel, out.r_channel]
        for part in (ram.write_if, ram.read_if):
            # cocotbext-axi would log every refusal.
            part.log.setLevel(logging.ERROR)
        ram.write_if._write = self._guarded(ram.write_if._write)
        ram.read_if._read = self._guarded(ram.read_if._read)
        for channel, field in [(ram.write_if.b_channel, "bresp"), (ram.read_if.r_channel, "rresp")]:
            channel.send = self._answering(channel.send, field)
        cocotb.start_soon(self._watch())

    def pause(
        self, how_often: float, *, writes: float | None = None, answers: float | None = None
    ) -> None:
        """Makes every channel pause this often; writes and answers have their own rate if given."""
        writes = how_often if writes is None else writes
        answers = how_often if answers is None else answers
        each = [writes, writes, answers, how_often, how_often]
        for channel, often in zip(self._channels, each, strict=True):
            self._pause_channel(channel, often)

    def take_many(self, count: int) -> None:
        """Takes `count` writes before the first of them is answered."""
        for channel in self._channels[:3]:
            channel.queue_occupancy_limit = count

    def take_reads(self, count: int, how_often: float) -> None:
        """Takes `count` reads before the first of them is answered, and pauses this often."""
        channel = self._channels[3]
        channel.queue_occupancy_limit = count
        self._pause_channel(channel, how_often)

    def _pause_channel(self, channel, how_often: float) -> None:
        channel.set_pause_generator(
            self._seed.random() < often for often in itertools.repeat(how_often)
        )

    def _port(self, name: str):
        return getattr(self._dut, f"{self._prefix}_{name}")

    def _guarded(self, access):
        async def guarded(address, what):
            if self.refuses and self.refuses(address):
                raise MemoryError("there is nothing")
            return await access(address, what)

        return guarded

    def _answering(self, send, field):
        async def answering(answer):
            if getattr(answer, field) == AxiResp.SLVERR:
                setattr(answer, field, self.response)
            await send(answer)

        return answering

    async def _watch(self):
        # For each of the port's channels: the beat that waited in the clock before.
        waiting = dict.fromkeys(["aw", "w", "ar"])
        payload = {"aw": ["awaddr", "awlen"], "w": ["wdata", "wstrb", "wlast"]}
        payload["ar"] = ["araddr", "arlen"]
        for now in itertools.count():
            await RisingEdge(self._dut.clk)
            if self._dut.rst.value:
                waiting = dict.fromkeys(waiting)
                continue
            for name, before in waiting.items():
                valid = bool(self._port(f"{name}valid").value)
                # AMBA AXI4 A3.2.1: a valid beat stays unchanged until it is taken.
                assert valid or before is None, (
                    f"{self._prefix}_{name}valid fell before it was taken"
                )
                waiting[name] = None
                if not valid:
                    continue
                shown = [int(self._port(field).value) for field in payload[name]]
                assert before in (None, shown), f"{self._prefix}: {name} changed while it waited"
                if not self._port(f"{name}ready").value:
                    waiting[name] = shown
                elif name == "w":
                    self.write_beats.append(now)
                else:
                    self._look_at(name, *shown)

    def _look_at(self, name: str, address: int, length: int) -> None:
        burst = Burst(address, length + 1)
        assert burst.beats <= self._most_beats, f"{self._prefix}: {burst} is too long"
        first = address // self._bytes * self._bytes
        last = first + burst.beats * self._bytes - 1
        assert first // BOUNDARY == last // BOUNDARY, f"{self._prefix}: {burst} crosses 4 KiB"
        assert 1 << int(self._port(f"{name}size").value) == self._bytes
        assert int(self._port(f"{name}burst").value) == INCREMENTING
        (self.writes if name == "aw" else self.reads).append(burst)
