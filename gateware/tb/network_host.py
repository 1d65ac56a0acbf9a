# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The host of a network processor's card: stores, registers, memory, answers to reads."""

import random

from network_bench import LONG, PUT_BAR, REQUEST_BAR
from tlp_stream import (
    COMPLETION_DATA,
    MEMORY_READ,
    MEMORY_WRITE,
    NO_BAR,
    Bench,
    Sink,
    Source,
    Tlp,
    enables,
    memory_read,
    memory_write,
)

CONTROL, STATUS, COUNTS_LOW, COUNTS_HIGH = 0x10, 0x14, 0x18, 0x1C
LINK, LINK_STRIDE, LINK_STATUS, LINK_SENT = 0x100, 0x40, 4, 8
# Bus addresses of the apertures: multiples of their sizes, and of nothing more.
BASES = {
    0: 0xFE01_3000,
    REQUEST_BAR: 0x71_0003_8000,
    PUT_BAR: 0x72_0005_8000 if LONG else 0x72_0005_C000,
}
UP = 2
SUCCESSFUL = 0


def byte_at(address: int) -> int:
    """The byte that a read of the card finds at an address."""
    return (address ^ address >> 8) & 0xFF


class Host:
    """The host of a card."""

    def __init__(self, dut, seed: random.Random, number: str = ""):
        self.dut, self.source = dut, Source(dut, f"rx{number}", seed)
        self.sink = Sink(dut, f"tx{number}", seed, pause=0.2, gapless=True)
        self.sink.took = self.take
        self.memory: dict[int, int] = {}
        self.writes: list[int] = []
        self.answers: list[Tlp] = []
        self.bench = Bench(dut, [self.source, self.sink])

    def take(self, tlp: Tlp) -> None:
        """Takes a write or an answer."""
        if tlp.kind == MEMORY_READ:
            self.complete(tlp)
            return
        if tlp.kind != MEMORY_WRITE:
            self.answers.append(tlp)
            return
        self.writes.append(tlp.address)
        for at in tlp.enabled:
            self.memory[tlp.address + at] = tlp.payload[at]

    def complete(self, read: Tlp) -> None:
        """Answers a read of the card, cut at multiples of 64 B."""
        where = read.enabled
        start, left = read.address + where[0], len(where)
        while left:
            size = min(left, 64 - start % 64)
            _, _, length = enables(start, size)
            data = bytes(byte_at(start - start % 4 + n) for n in range(4 * length))
            header = {"kind": COMPLETION_DATA, "address": start & 0x7F, "length_dw": length}
            header |= {"byte_count": left, "tag": read.tag, "requester": read.requester}
            self.source.queue.append(Tlp(header | {"bar": NO_BAR}, data))
            start, left = start + size, left - size

    def word(self, address: int) -> int:
        """A double word of memory; 0 where nothing was written."""
        return sum(self.memory.get(address + n, 0) << 8 * n for n in range(4))

    def store(self, bar: int, offset: int, data: bytes, **others: int) -> None:
        """Stores bytes."""
        self.source.queue.append(memory_write(BASES[bar] + offset, data, bar=bar, **others))

    def write(self, register: int, value: int, **others: int) -> None:
        """Writes a register."""
        self.store(0, register, value.to_bytes(4, "little"), **others)

    async def answer(self, offset: int, count: int, bar: int) -> list[Tlp]:
        """The completions of a read."""
        self.answers.clear()
        read = memory_read(BASES.get(bar, 0) + offset, count, 7, bar=bar, requester=3)
        self.source.queue.append(read)

        def is_whole() -> bool:
            got = sum(len(one.payload) for one in self.answers)
            return any(one.status for one in self.answers) or got >= 4 * read.length_dw

        await self.bench.until(is_whole)
        assert all(one.tag == 7 and one.requester == 3 for one in self.answers)
        return self.answers

    async def read(self, register: int) -> int:
        """A register."""
        (one,) = await self.answer(register, 4, 0)
        assert one.status == SUCCESSFUL
        return int.from_bytes(one.payload, "little")

    async def until(self, register: int, condition, reads: int = 300) -> None:
        """Reads a register until its value is as wanted."""
        for _ in range(reads):
            if condition(await self.read(register)):
                return
        raise AssertionError(f"register {register:#x} does not come to it")

    async def up(self) -> None:
        """Enables both links, and waits until they are up."""
        for link in range(2):
            self.write(LINK + LINK_STRIDE * link, 1)
        for link in range(2):
            status = LINK + LINK_STRIDE * link + LINK_STATUS
            await self.until(status, lambda value: value & 7 == UP)
