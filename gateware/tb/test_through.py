# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_through: datagrams on their way between three links, each of which may be slow, full,
or forgotten at any moment."""

import random
from collections import defaultdict, deque
from dataclasses import dataclass

import cocotb
import pytest
from network_bench import PAYLOAD_BYTES
from packed import part
from simulate import ALL, SEED, simulate
from tlp_stream import Bench

LINKS, LANES, SLOTS, CAPACITY = 3, 8, 8, 2
BEATS = PAYLOAD_BYTES // LANES
BEAT_BITS = BEATS.bit_length() - 1
SLOT_BITS, LABEL_BITS = 3, 21
POSITION_BITS = 1 + SLOT_BITS + BEAT_BITS


@dataclass
class Datagram:
    """A datagram in the buffers of a link, for a queue of another."""

    place: tuple[int, int, int]  # link, whether of channel 7, slot
    to: tuple[int, int]  # link, whether to channel 7
    label: int
    data: list[int]
    may_lack: bool = False  # the link that it came by has been forgotten


def packed(values: list[int], bits: int) -> int:
    """A packed array."""
    return sum(value << bits * at for at, value in enumerate(values))


class Links:
    """Buffers, lists and queues of all links, as a part of a Bench."""

    def __init__(self, dut, seed: random.Random):
        self.dut, self.seed = dut, seed
        self.pushing: Datagram | None = None
        self.held: dict[tuple[int, int, int], Datagram] = {}
        self.lists: dict[tuple[int, int], deque[Datagram]] = defaultdict(deque)
        self.queued: dict[tuple[int, int], int] = defaultdict(int)
        self.within: list[tuple[Datagram | None, int] | None] = [None] * LINKS
        self.reads = [0] * LINKS
        self.forgetting = [False] * LINKS
        self.sent = [0] * LINKS
        self.wanted: deque[tuple[int, tuple[int, int]]] = deque()
        self.pause, self.drain, self.busy_frees = 0.3, 0.1, 0.3
        self.ready = [0] * LINKS

    def drive(self) -> None:
        """Sets the inputs of a clock."""
        dut, seed = self.dut, self.seed
        if self.pushing is None and self.wanted:
            link, to = self.wanted[0]
            free = [
                (link, is_7, slot)
                for is_7 in range(2)
                for slot in range(SLOTS)
                if (link, is_7, slot) not in self.held
            ]
            if self.forgetting[link] or self.forgetting[to[0]]:
                self.wanted.popleft()
            elif free:
                self.wanted.popleft()
                data = [seed.getrandbits(8 * LANES) for _ in range(BEATS)]
                label = seed.getrandbits(LABEL_BITS)
                self.pushing = Datagram(seed.choice(free), to, label, data)
                self.held[self.pushing.place] = self.pushing
        dut.push.value = int(self.pushing is not None)
        if self.pushing:
            link, is_7, slot = self.pushing.place
            dut.push_link.value, dut.push_behind_edge.value = self.pushing.to
            dut.push_place.value = link << 12 | (6 + is_7) << 9 | slot
            dut.push_label.value = self.pushing.label
        # Queues: room, and beats taken at once but for a datagram's first.
        for queue, count in self.queued.items():
            if count and seed.random() < self.drain:
                self.queued[queue] -= 1
        room = [
            sum((self.queued[link, to] < CAPACITY) << to for to in range(2))
            for link in range(LINKS)
        ]
        self.ready = [
            int(self.within[n] is not None or self.forgetting[n] or seed.random() >= self.pause)
            for n in range(LINKS)
        ]
        dut.room.value = packed(room, 2)
        dut.m_ready.value = packed(self.ready, 1)
        dut.forgetting.value = packed([int(one) for one in self.forgetting], 1)
        dut.read_data.value = packed(self.reads, 8 * LANES)
        dut.frees_ready.value = packed(
            [int(seed.random() >= self.busy_frees) for _ in range(LINKS)], 1
        )

    def sample(self, clock: int) -> None:
        """Takes what a clock brings."""
        dut = self.dut
        if self.pushing and int(dut.push_ready.value):
            self.lists[self.pushing.to].append(self.pushing)
            self.pushing = None
        frees, frees_ready = int(dut.frees.value), int(dut.frees_ready.value)
        reads, valid = int(dut.read_enable.value), int(dut.m_valid.value)
        for n in range(LINKS):
            if frees & frees_ready & 1 << n and not self.forgetting[n]:
                slot = part(dut.frees_slot.value, SLOT_BITS, n)
                freed = self.held.pop((n, int(dut.frees_channel.value) >> n & 1, slot))
                assert freed not in self.lists[freed.to] or self.forgetting[freed.to[0]]
            if reads >> n & 1:
                at = part(dut.read_position.value, POSITION_BITS, n)
                is_7, slot, beat = (
                    at >> BEAT_BITS + SLOT_BITS,
                    at >> BEAT_BITS & SLOTS - 1,
                    at & BEATS - 1,
                )
                one = self.held.get((n, is_7, slot))
                # The last read of a datagram that ends is of any place.
                self.reads[n] = one.data[beat] if one else 0
            self.take(n, bool(valid >> n & 1))

    def take(self, n: int, valid: bool) -> None:
        """Takes a beat for a link's queues, if there is one."""
        dut = self.dut
        assert valid or self.within[n] is None or self.forgetting[n], "a pause within a datagram"
        if not valid or not self.ready[n]:
            return
        channel = part(dut.m_channel.value, 3, n)
        if self.within[n] is None:
            assert channel >= 6
            one = None
            if not self.forgetting[n]:
                waiting = self.lists[n, channel - 6]
                label = part(dut.m_label.value, LABEL_BITS, n)
                while waiting[0].may_lack and waiting[0].label != label:
                    waiting.popleft()
                one = waiting.popleft()
                assert one.label == label
                assert self.queued[n, channel - 6] < CAPACITY, "no room"
                self.queued[n, channel - 6] += 1
            self.within[n] = one, 0
        one, at = self.within[n]
        if one:
            assert part(dut.m_data.value, 8 * LANES, n) == one.data[at], (one, at)
        self.within[n] = (one, at + 1) if at + 1 < BEATS else None
        self.sent[n] += at + 1 == BEATS

    def forget(self, link: int) -> None:
        """Begins to forget a link."""
        self.forgetting[link] = True
        if self.pushing and link in (self.pushing.place[0], self.pushing.to[0]):
            self.held.pop(self.pushing.place)
            self.pushing = None
        for waiting in self.lists.values():
            for one in waiting:
                one.may_lack |= one.place[0] == link
        if self.within[link]:
            # Its beats go nowhere.
            self.within[link] = None, self.within[link][1]

    def forgotten(self, link: int) -> None:
        """Ends it: nothing has stayed."""
        self.forgetting[link] = False
        assert self.within[link] is None
        for to in range(2):
            self.lists[link, to].clear()
            self.queued[link, to] = 0
        # Places of other links are freed in time, which the end asks for.
        self.held = {place: one for place, one in self.held.items() if place[0] != link}
        for to, waiting in self.lists.items():
            self.lists[to] = deque(one for one in waiting if one.place[0] != link)

    @property
    def is_idle(self) -> bool:
        """Whether all datagrams have gone."""
        return not (self.held or self.wanted or any(self.within))


async def begin(dut, which: str) -> tuple[Bench, Links, random.Random]:
    """All after a reset."""
    seed = random.Random(f"{SEED} {which}")
    links = Links(dut, seed)
    bench = Bench(dut, [links])
    links.drive()
    await bench.reset(3)
    return bench, links, seed


def random_way(seed: random.Random) -> tuple[int, tuple[int, int]]:
    """A link, and a queue of another."""
    link, to = seed.sample(range(LINKS), 2)
    return link, (to, seed.randrange(2))


@cocotb.test()
async def each_list_keeps_its_order_and_data(dut):
    bench, links, seed = await begin(dut, "order")
    for _ in range(12 if ALL else 3):
        links.pause, links.drain = seed.choice([0, 0.5]), seed.choice([0.03, 0.2, 1])
        links.busy_frees = seed.choice([0, 0.5, 0.95])
        links.wanted.extend(random_way(seed) for _ in range(200))
        await bench.until(lambda: links.is_idle, 60000)
    assert sum(links.sent) == (12 if ALL else 3) * 200


@cocotb.test()
async def links_are_forgotten_at_any_moment(dut):
    bench, links, seed = await begin(dut, "forgotten")
    for _ in range(120 if ALL else 30):
        links.pause, links.drain = seed.choice([0, 0.5]), seed.choice([0.03, 0.2, 1])
        links.wanted.extend(random_way(seed) for _ in range(60))
        await bench.step(seed.randrange(20, 400))
        gone = seed.sample(range(LINKS), seed.choice([1, 1, 2]))
        for link in gone:
            links.forget(link)
            await bench.step(seed.choice([0, 1, 5]))
        for link in gone:
            await bench.until(lambda n=link: int(dut.clear.value) >> n & 1, 3000)
            links.forgotten(link)
            # Level: it is seen to fall before it rises again.
            await bench.step(2)
    await bench.until(lambda: links.is_idle, 20000)
    assert min(links.sent) > 50


@cocotb.test()
async def links_take_turns_without_a_gap(dut):
    """All comes by one link, for both others: a beat in each clock, half of them for each."""
    bench, links, _ = await begin(dut, "turns")
    links.pause, links.drain, links.busy_frees = 0, 1, 0
    links.wanted.extend((0, (1 + n % 2, n // 2 % 2)) for n in range(400))
    await bench.step(200)
    before = [*links.sent]
    await bench.step(BEATS * 100)
    sent = [now - was for now, was in zip(links.sent, before, strict=True)]
    assert sum(sent) >= 99, sent
    assert abs(sent[1] - sent[2]) <= 1, sent


@cocotb.test()
async def a_busy_link_does_not_starve_another(dut):
    """What comes for link 1 without end leaves turns for link 2."""
    bench, links, _ = await begin(dut, "starve")
    links.pause, links.drain, links.busy_frees = 0, 1, 0
    links.wanted.extend((0, (1, 0)) for _ in range(8))
    links.wanted.append((0, (2, 1)))
    links.wanted.extend((0, (1, 0)) for _ in range(100))
    await bench.until(lambda: links.sent[2] == 1, BEATS * 14)
    assert links.sent[1] < 12, links.sent


@pytest.mark.parametrize("long", [0, 1])
def test_through(long):
    simulate(
        __file__,
        "crosslane_through",
        {"LINKS": LINKS, "LANES": LANES, "CHANNEL_DATAGRAMS": SLOTS, "LONG": long},
    )
