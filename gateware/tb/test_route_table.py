# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_route_table: the next hop in any torus, from any source to any destination, as in the
behavioural model."""

import math
import random

import cocotb
from network_bench import LINK_CONTROL, MISROUTED, WAITING
from network_reference import Reference
from simulate import ALL, SEED, simulate
from tlp_stream import Bench

NODES, LINKS, DIMENSIONS = 64, 8, 4
DIMENSION = 0x40
ROUTED = 3
LATENCY_CLOCKS = 3


class Table:
    """Reads the table, as a part of a Bench."""

    def __init__(self, dut):
        self.dut = dut
        self.extents: list[int] = [0] * DIMENSIONS
        self.written = 0
        self.looks: list[tuple[int, int]] = []
        self.found: list[int] = []

    def drive(self) -> None:
        """Asks for a hop in each clock."""
        dut = self.dut
        dut.extents.value = sum(word << 32 * n for n, word in enumerate(self.extents))
        dut.written.value, self.written = self.written, 0
        dut.look.value = int(bool(self.looks))
        if self.looks:
            dut.source.value, dut.destination.value = self.looks.pop(0)
            dut.look_id.value = len(self.looks) % 8

    def sample(self, clock: int) -> None:
        """Keeps the hops."""
        if self.dut.found.value:
            self.found.append(int(self.dut.hop.value))


def extents(seed: random.Random) -> list[int]:
    """A torus of some nodes, with a node's position."""
    nodes, sizes = 0, []
    while not 2 <= nodes <= NODES:
        sizes = [seed.choice([0, 1, 2, 2, 3, 4, 5, 8, 13]) for _ in range(DIMENSIONS)]
        nodes = math.prod(max(1, size) for size in sizes)
    words = []
    for size in sizes:
        is_open = seed.random() < 0.3
        words.append(size | is_open << 15 | seed.randrange(max(1, size)) << 16)
    return words


def hop_of(reference: Reference, source: int, destination: int) -> int | None:
    """The next hop in the model, as a hop_t; None: the datagram is dropped."""
    for link in (0, 1):
        # It does not go back by the link that it came by.
        misrouted = reference.read(MISROUTED)
        payload = (destination | source << 16 | 1 << 56).to_bytes(8, "little") + bytes(120)
        for one in reference.deliver(link, 6 << 8 | ROUTED << 11, payload):
            header = int(one[2], 16)
            return 1 << 4 | int(one[1]) << 1 | (header >> 8 & 1)
        if reference.read(MISROUTED) == misrouted:
            return 1 << 5
    return None


@cocotb.test()
async def each_hop_is_that_of_the_model(dut):
    seed = random.Random(f"{SEED} hops")
    table = Table(dut)
    bench = Bench(dut, [table])
    table.drive()
    await bench.reset(3)
    seen = set()
    for _ in range(60 if ALL else 10):
        table.extents, table.written = extents(seed), 1
        await bench.step(2)
        await bench.until(lambda: not int(dut.torus.value) >> 33 & 1, NODES + 8)
        nodes = int(dut.torus.value) >> 16 & 0x1FFFF
        # More of them are to and from this node, and beyond the last one.
        own = int(dut.torus.value) & 0xFFFF
        pick = [own, 0, nodes - 1, nodes, 0xFFFF]
        asked = []
        for _ in range(60 if ALL else 24):
            some = [seed.randrange(nodes) for _ in range(4)]
            asked.append((seed.choice([*some, own]), seed.choice([*some, *pick])))
        table.looks, table.found = list(asked), []
        begun, count = bench.clock, len(asked)
        await bench.until(lambda n=count: len(table.found) == n, 200)
        assert bench.clock - begun <= count + LATENCY_CLOCKS
        reference = Reference(links=LINKS, channel_datagrams=64)
        for n, word in enumerate(table.extents):
            reference.store(0, DIMENSION + 4 * n, word.to_bytes(4, "little"))
        for link in range(LINKS):
            reference.store(0, LINK_CONTROL + 0x40 * link, (1).to_bytes(4, "little"))
        for (source, destination), found in zip(asked, table.found, strict=True):
            expected = hop_of(reference, source, destination)
            what = (table.extents, source, destination)
            if expected is None:
                assert not found >> 4, what
            elif expected >> 5:
                assert found >> 5 & 1, what
            else:
                assert found == expected, what
            seen.add(None if expected is None else expected)
        assert reference.read(WAITING) <= 64
        reference.close()
    # To this node, up and down in more than one dimension, both channels, and nowhere.
    hops = seen - {None, 1 << 5}
    assert {None, 1 << 5} <= seen and len(hops) > 5, seen
    assert {hop & 1 for hop in hops} == {0, 1} and {hop >> 1 & 1 for hop in hops} == {0, 1}, seen


@cocotb.test()
async def what_is_no_torus_has_no_hop(dut):
    table = Table(dut)
    bench = Bench(dut, [table])
    table.drive()
    await bench.reset(3)
    # Of one node; of more than the table has; a position beyond the size; far too many.
    for words in ([1], [NODES + 1], [5, 13], [4 | 4 << 16], [0x7FFF] * 4):
        table.extents = [*words, *[0] * (DIMENSIONS - len(words))]
        table.written = 1
        await bench.step(2)
        await bench.until(lambda: not int(dut.torus.value) >> 33 & 1, NODES + 8)
        assert not int(dut.torus.value) >> 34, words
        table.looks, table.found = [(0, 0), (0, 1)], []
        await bench.until(lambda: len(table.found) == 2, 20)
        assert [hop >> 4 for hop in table.found] == [0, 0]


def test_route_table():
    simulate(__file__, "crosslane_route_table", {"NODES": NODES, "ID_BITS": 3})
