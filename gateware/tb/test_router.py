# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_router: datagrams of three links in a ring whose size changes. They come with pauses,
one behind the other, or break off; each leaves once, in its link's order, by the right way, and at
once if none waits before it."""

import random
from collections import deque
from dataclasses import dataclass

import cocotb
from network_bench import ARRIVED_BITS
from packed import part
from simulate import ALL, SEED, simulate
from tlp_stream import Bench

LINKS, NODES = 3, 16
IDENTITIES = 512
ROUTED_KIND, CHANNEL = 3, 6
# From a routing word to the end of its datagram, and from there to the next one's word.
WHOLE_CLOCKS, NEXT_CLOCKS = 16, 2


@dataclass
class Datagram:
    """A datagram of a link."""

    identity: int
    source: int
    destination: int
    is_routed: bool
    seen: int = -1  # clock in which it is first there
    is_first: bool = False  # none was before it

    def arrived(self) -> int:
        """As an arrived_t."""
        label = (ROUTED_KIND if self.is_routed else 0) | self.identity << 2
        vector = self.source << 16 | self.destination
        return ((vector << 8 << 21 | label) << 3 | CHANNEL) << 9 | self.identity


@dataclass(frozen=True)
class Ring:
    """Nodes in a ring, and which one this is."""

    size: int
    node: int

    def way(self, source: int, destination: int, by: int) -> tuple[int, int] | str:
        """The next link and whether it is behind the edge, or `here` or `nowhere`."""
        if max(source, destination) >= self.size:
            return "nowhere"
        if destination == self.node:
            return "here"
        up = (destination - source) % self.size
        is_up = up <= self.size // 2
        length, gone = (up, self.node - source) if is_up else (self.size - up, source - self.node)
        link = 0 if is_up else 1
        if source == destination or gone % self.size >= length or link == by:
            return "nowhere"
        behind = (self.node + (1 if is_up else -1)) % self.size
        return link, int(behind < source if is_up else behind > source)


class Links:
    """What three links deliver, and where it goes, as a part of a Bench."""

    def __init__(self, dut, seed: random.Random):
        self.dut, self.seed = dut, seed
        self.rings: list[tuple[int, Ring]] = [(0, Ring(2, 0))]  # and the clock since when
        self.is_written = False
        self.clock = 0
        self.identity = 0
        self.left, self.broken, self.at_once = 0, 0, 0
        self.waiting: list[deque[Datagram]] = [deque() for _ in range(LINKS)]
        self.coming: list[Datagram | None] = [None] * LINKS
        self.whole_at = [0] * LINKS  # clock in which the datagram is whole, or breaks off
        self.next_at = [0] * LINKS
        self.breaks = [False] * LINKS
        self.pause, self.stop, self.breaking = 0.5, 0.0, 0.1
        self.is_open = True

    @property
    def ring(self) -> Ring:
        """The ring now."""
        return self.rings[-1][1]

    def begin(self, link: int) -> Datagram:
        """A datagram whose routing word is there."""
        seed = self.seed
        self.identity = (self.identity + 1) % IDENTITIES
        near = [self.ring.node, *range(self.ring.size), NODES - 1]
        one = Datagram(self.identity, seed.choice(near), seed.choice(near), seed.random() < 0.8)
        self.breaks[link] = seed.random() < self.breaking
        took = seed.randrange(1, WHOLE_CLOCKS) if self.breaks[link] else WHOLE_CLOCKS
        self.whole_at[link] = self.clock + took
        self.coming[link] = one
        return one

    def drive(self) -> None:
        """Sets the inputs of a clock."""
        dut, seed = self.dut, self.seed
        valid = is_coming = arrived = coming = 0
        for link in range(LINKS):
            one, begins = self.coming[link], 0
            if one is not None and self.clock == self.whole_at[link]:
                self.next_at[link] = self.clock + (1 if self.breaks[link] else NEXT_CLOCKS)
                if seed.random() < self.pause:
                    self.next_at[link] += seed.randrange(40)
                if self.breaks[link]:
                    self.broken += 1
                else:
                    one.seen, one.is_first = self.clock, not self.waiting[link]
                    is_coming |= one.is_first << link
                    self.waiting[link].append(one)
                self.whole_at[link] = -1
            if self.is_open and self.clock >= max(self.whole_at[link] + 1, self.next_at[link]):
                one, begins = self.begin(link), 1
            if one is not None:
                word = begins << 1 | one.is_routed
                coming |= ((word << 16 | one.source) << 16 | one.destination) << 34 * link
            if self.waiting[link]:
                valid |= 1 << link
                arrived |= self.waiting[link][0].arrived() << ARRIVED_BITS * link
        dut.s_valid.value, dut.s_is_coming.value = valid, is_coming
        dut.s_arrived.value, dut.coming.value = arrived, coming
        dut.takes.value = (1 << LINKS) - 1
        dut.m_ready.value = sum((seed.random() >= self.stop) << n for n in range(LINKS))
        dut.push_ready.value = int(seed.random() >= self.stop)
        dut.extents.value = self.ring.size | self.ring.node << 16
        dut.written.value, self.is_written = int(self.is_written), False
        dut.look.value = 0

    def leave(self, link: int, way: tuple[int, int] | str) -> None:
        """The oldest datagram of a link has left."""
        one = self.waiting[link].popleft()
        # That of any ring since it has come.
        ways, changed = set(), self.rings[-1][0]
        for since, ring in reversed(self.rings):
            ways.add(ring.way(one.source, one.destination, link))
            if since < one.seen:
                break
        if not one.is_routed:
            ways = {"passes"}
        assert way in ways, (one, link, way, ways, self.rings[-3:])
        if one.is_first and not self.stop and one.seen > changed + 2 * NODES:
            # Two that come in one clock leave by turns.
            assert self.clock - one.seen < LINKS, (one, self.clock)
            self.at_once += self.clock == one.seen
        self.left += 1

    def sample(self, _clock: int) -> None:
        """Looks at what leaves."""
        dut = self.dut
        left = int(dut.m_valid.value) & int(dut.m_ready.value)
        ready, valid = int(dut.s_ready.value), int(dut.s_valid.value)
        for link in range(LINKS):
            if left >> link & 1:
                one = self.waiting[link][0]
                vector = part(int(dut.m_arrived.value), ARRIVED_BITS, link)
                assert vector & IDENTITIES - 1 == one.identity
                is_here = vector >> ARRIVED_BITS - 2 & 1
                self.leave(link, "here" if is_here else "nowhere" if one.is_routed else "passes")
        if dut.push.value and dut.push_ready.value:
            place = int(dut.push_place.value)
            link = place >> 12
            assert place & IDENTITIES - 1 == self.waiting[link][0].identity
            assert int(dut.push_label.value) >> 2 == self.waiting[link][0].identity
            assert not left >> link & 1
            left |= 1 << link
            self.leave(link, (int(dut.push_link.value), int(dut.push_behind_edge.value)))
        assert ready & valid == left
        self.clock += 1

    def change(self, ring: Ring) -> None:
        """Another ring, or another node of it."""
        self.rings.append((self.clock, ring))
        self.is_written = True


@cocotb.test()
async def each_leaves_once_by_the_right_way(dut):
    seed = random.Random(f"{SEED} router")
    links = Links(dut, seed)
    bench = Bench(dut, [links])
    links.is_open = False
    links.drive()
    await bench.reset(3)
    links.is_open = True
    for _ in range(100 if ALL else 30):
        size = seed.randrange(2, NODES + 1)
        links.change(Ring(size, seed.randrange(size)))
        links.pause, links.breaking = seed.choice([0, 0.5, 1]), seed.choice([0, 0.2, 0.6])
        links.stop = seed.choice([0, 0, 0.5, 0.95])
        await bench.step(seed.choice([30, 200, 400]))
    links.is_open, links.stop = False, 0
    await bench.until(lambda: not any(links.waiting), 2000)
    await bench.step(20)
    assert links.left > 300 and links.broken > 50 and links.at_once > 50
    dut._log.warning("%d left, %d of them at once", links.left, links.at_once)


def test_router():
    simulate(__file__, "crosslane_router", {"LINKS": LINKS, "NODES": NODES})
