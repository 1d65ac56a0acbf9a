# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A user of a memory's AXI4 port without identifiers: random bursts, and what they must read."""

import random
from collections import deque
from dataclasses import dataclass, field

from axi_memory import BOUNDARY
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly

MOST_BEATS = 16
OKAY = 0


@dataclass
class Channel:
    """Beats for a channel that goes to the memory, offered in their order."""

    fields: tuple[str, ...]
    beats: deque = field(default_factory=deque)
    is_offered: bool = False


class AxiUser:
    """The ports `prefix` of a module, as a user drives them. Its bursts are within `span`, bytes of
    `content`, which is what it has written for certain."""

    def __init__(self, dut, prefix: str, content: bytearray, span: range, seed: random.Random):
        self.dut, self.prefix = dut, prefix
        self.content, self.span, self.random = content, span, seed
        self.bytes = len(self.port("wdata")) // 8
        fields = {"aw": ["awaddr", "awlen"], "w": ["wdata", "wstrb"], "ar": ["araddr", "arlen"]}
        if hasattr(dut, f"{prefix}_wlast"):
            fields["w"].append("wlast")
        self.channels = {name: Channel(tuple(ports)) for name, ports in fields.items()}
        # How often it offers beats, and takes answers.
        self.often = self.takes = 1.0
        # Of bursts without an answer: address and data of a write, address and bytes of a read.
        self.writes: deque[tuple[int, bytes]] = deque()
        self.reads: deque[tuple[int, int]] = deque()
        self.got = bytearray()
        self.answers: list[int] = []

    def port(self, name: str):
        """One of the ports."""
        return getattr(self.dut, f"{self.prefix}_{name}")

    def is_quiet(self) -> None:
        """Offers nothing, before its clock runs."""
        for channel in self.channels:
            self.port(f"{channel}valid").value = 0
        self.port("bready").value = self.port("rready").value = 0

    def place(self) -> tuple[int, int]:
        """Address and bytes of a burst that no other one under way has to do with."""
        while True:
            count = self.random.choice([1, self.bytes, self.random.randint(1, 16 * self.bytes)])
            at = self.random.choice(self.span)
            block = at // (MOST_BEATS * self.bytes)
            count = min(count, (block + 1) * MOST_BEATS * self.bytes - at, BOUNDARY - at % BOUNDARY)
            count = min(count, self.span.stop - at)
            if self.is_free(at, count):
                return at, count

    def is_free(self, at: int, count: int) -> bool:
        """Whether no burst under way has to do with these bytes."""
        spans = [(one, len(data)) for one, data in self.writes] + list(self.reads)
        return all(at + count <= one or one + size <= at for one, size in spans)

    def beats(self, at: int, count: int) -> int:
        """Beats of a burst of these bytes."""
        return -(-(at % self.bytes + count) // self.bytes)

    def write(self) -> None:
        """Puts a burst into the queues."""
        at, count = self.place()
        data = self.random.randbytes(count)
        skip, beats = at % self.bytes, self.beats(at, count)
        self.writes.append((at, data))
        self.channels["aw"].beats.append((at, beats - 1))
        whole = bytes(skip) + data
        enabled = ((1 << count) - 1) << skip
        for beat in range(beats):
            part = whole[beat * self.bytes : (beat + 1) * self.bytes].ljust(self.bytes, b"\0")
            mask = enabled >> (beat * self.bytes) & ((1 << self.bytes) - 1)
            values = int.from_bytes(part, "little"), mask, beat == beats - 1
            self.channels["w"].beats.append(values)

    def read(self) -> None:
        """Puts a burst into the queue."""
        at, count = self.place()
        self.reads.append((at, count))
        self.channels["ar"].beats.append((at, self.beats(at, count) - 1))

    async def run(self) -> None:
        """Drives and samples the ports, clock by clock."""
        dut = self.dut
        while True:
            for name, channel in self.channels.items():
                valid = self.port(f"{name}valid")
                channel.is_offered |= bool(channel.beats) and self.random.random() < self.often
                valid.value = channel.is_offered
                if channel.beats:
                    for port, value in zip(channel.fields, channel.beats[0], strict=False):
                        self.port(port).value = value
            self.port("bready").value = self.random.random() < self.takes
            self.port("rready").value = self.random.random() < self.takes
            await ReadOnly()
            if not dut.rst.value:
                self.sample()
            await FallingEdge(dut.clk)

    def sample(self) -> None:
        """What both sides agree on in this clock."""
        for name, channel in self.channels.items():
            if channel.is_offered and self.port(f"{name}ready").value:
                channel.beats.popleft()
                channel.is_offered = False
        if self.port("bvalid").value and self.port("bready").value:
            self.answers.append(int(self.port("bresp").value))
            at, data = self.writes.popleft()
            if self.answers[-1] == OKAY:
                self.content[at : at + len(data)] = data
        if self.port("rvalid").value and self.port("rready").value:
            self.got += int(self.port("rdata").value).to_bytes(self.bytes, "little")
            self.answers.append(int(self.port("rresp").value))
            if self.port("rlast").value:
                at, count = self.reads.popleft()
                skip = at % self.bytes
                if self.answers[-1] == OKAY:
                    assert self.got[skip : skip + count] == self.content[at : at + count]
                assert len(self.got) == self.beats(at, count) * self.bytes
                self.got.clear()

    async def finished(self) -> None:
        """Waits until all bursts are answered."""
        for _ in range(20_000):
            if not self.writes and not self.reads:
                return
            await ClockCycles(self.dut.clk, 10)
        raise AssertionError(f"{len(self.writes)} writes and {len(self.reads)} reads not answered")

    def forget(self) -> deque[tuple[int, bytes]]:
        """Begins anew, in a reset; returns writes without an answer."""
        for channel in self.channels.values():
            channel.beats.clear()
            channel.is_offered = False
        forgotten, self.writes = self.writes, deque()
        self.reads.clear()
        self.got.clear()
        return forgotten
