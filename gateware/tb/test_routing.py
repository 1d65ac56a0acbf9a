# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Routing: four cards in a ring, each with a host. Messages between any nodes arrive, and each node
does with each request and each datagram what the behavioural model does with it."""

import os
import random
from collections import defaultdict, deque

import cocotb
import pytest
from network_bench import (
    ARRIVED_BITS,
    CREDITS,
    CREDITS_BASE,
    DATA,
    DONE,
    DROPPED,
    MISROUTED,
    NOTIFY,
    PAYLOAD_BYTES,
    REFUSED_COUNT,
    REQUEST_BAR,
    WAITING,
    request,
)
from network_host import LINK, LINK_STATUS, LINK_STRIDE, STATUS, UP, Host, byte_at
from network_reference import Reference
from packed import pack, part
from simulate import ALL, SEED, simulate
from tlp_stream import Bench

RING, LINKS, ROUTED = 4, 2, 3
SIZES = {"put_slots": 4, "credit_slots": 16, "max_write": 128, "channel_datagrams": 8}
GETS = {"get_slots": 16, "max_read": 256}
DIMENSION, FORWARDED, GETS_REGISTER, ROUTING = 0x40, 0x30, 0x20, 0x3C
UNIT = PAYLOAD_BYTES - 8
SOURCE = 0x9_8765_0000
# Notifications of gets lie behind those of credits.
GET_NOTIFY = NOTIFY + 0x10000
# With 8 lanes; one datagram behind the other has its clocks on the cable, and little more.
FRAME_CLOCKS = (PAYLOAD_BYTES + 8) // int(os.environ.get("LANES", "8"))
CLOCKS_OF_A_HOP = FRAME_CLOCKS + 36


def word_of(arrived: int) -> tuple[int, int, int]:
    """Source, destination and index of a routed datagram (arrived_t)."""
    return arrived >> 57 & 0xFFFF, arrived >> 41 & 0xFFFF, arrived >> 73 & 0x1FFF


def word_of_payload(payload: bytes) -> tuple[int, int, int]:
    """The same of its payload."""
    word = int.from_bytes(payload[:8], "little")
    return word >> 16 & 0xFFFF, word & 0xFFFF, word >> 32 & 0x1FFF


class Ring:
    """The four hosts, and what happens in their cards, as a part of a Bench."""

    def __init__(self, dut, seed: random.Random):
        self.dut, self.seed = dut, seed
        self.hosts = [Host(dut, seed, f"_{n}") for n in range(RING)]
        self.bench = Bench(dut, [self])
        for host in self.hosts:
            host.bench = self.bench
            self.bench.parts += [host.source, host.sink]
        self.events: list[tuple] = []
        self.tokens = 0
        self.hold = True  # whether datagrams without a credit may take all places

    def drive(self) -> None:
        """Nothing."""

    def sample(self, clock: int) -> None:
        """Keeps what each card takes, in its order."""
        dut = self.dut
        credits, gets = int(dut.event_is_credit.value), int(dut.event_is_get.value)
        taken, through = int(dut.event_is_datagram.value), int(dut.event_goes_on.value)
        for n in range(RING):
            if credits >> n & 1:
                asked = part(dut.event_credit.value, 256, n).to_bytes(32, "little")
                self.events.append(("credit", n, asked))
            if gets >> n & 1:
                asked = part(dut.event_get.value, 256, n).to_bytes(32, "little")
                self.events.append(("get", n, asked))
            if taken >> n & 1:
                link = part(dut.event_link.value, 3, n)
                what = part(dut.event_datagram.value, ARRIVED_BITS, n)
                self.events.append(("here", n, link, what))
            if through >> n & 1:
                link = part(dut.event_from.value, 3, n)
                what = part(dut.event_through.value, ARRIVED_BITS, n)
                to = part(dut.event_to.value, 4, n)
                self.events.append(("on", n, link, what, to >> 1, 6 + (to & 1)))

    # --- Messages ----------------------------------------------------------------------------
    def ask(self, node: int, is_get: bool, fields: dict, runs: list[tuple[int, int]]) -> int:
        """Stores the requests of a message; returns where its notification comes."""
        self.tokens += 1
        index, host = 0, self.hosts[node]
        notify = (GET_NOTIFY if is_get else NOTIFY) + 8 * self.tokens
        unit = UNIT if fields.get("routed") else PAYLOAD_BYTES
        for number, (address, count) in enumerate(runs):
            is_last = number == len(runs) - 1
            what = {"index": index, "last": int(is_last), "buffer": address, "bytes": count}
            asked = request(**{"link": 0} | fields | what, token=self.tokens, notify=notify)
            slot = self.seed.randrange(16)
            host.store(REQUEST_BAR, 64 * slot + (0 if is_get else CREDITS_BASE), asked)
            index += -(-count // unit)
        return notify

    def runs(self, at: int, count: int, unit: int = UNIT) -> list[tuple[int, int]]:
        """Host memory of a message, in one run or more."""
        runs, left = [], count
        while left > unit and len(runs) < 2 and self.seed.random() < 0.4:
            full = unit * self.seed.randrange(1, 1 + left // unit)
            if full == left:
                break
            runs.append((at, full))
            at, left = at + full + self.seed.randrange(200), left - full
        return [*runs, (at, left)]

    # --- Beside the model --------------------------------------------------------------------
    async def replay(self) -> None:
        """Lets all of it happen in references, and compares datagrams, writes and counters."""
        references = [Reference(links=LINKS, **SIZES, **GETS) for _ in range(RING)]
        for n, reference in enumerate(references):
            reference.store(0, DIMENSION, (RING | n << 16).to_bytes(4, "little"))
            reference.store(0, ROUTING, self.hold.to_bytes(4, "little"))
            for link in range(LINKS):
                reference.store(0, LINK + LINK_STRIDE * link, (1).to_bytes(4, "little"))
        # Datagrams on their way to a node's link: of each channel, source, destination and tag.
        way = defaultdict(deque)
        passed = defaultdict(deque)  # what has gone on to a channel of a link, in its order
        writes = [[] for _ in range(RING)]
        for event in self.events:
            kind, n = event[:2]
            reference = references[n]
            if kind in ("credit", "get"):
                place = CREDITS_BASE if kind == "credit" else 0
                said = reference.store(REQUEST_BAR, place, event[2])
            else:
                link, arrived = event[2:4]
                channel, label = arrived >> 9 & 7, arrived >> 12 & 0x1FFFFF
                is_routed = label & 3 == ROUTED
                key = word_of(arrived) if is_routed else ()
                group = (n, link, channel, *key[:2], label >> 2 & 63)
                header, payload = way[group].popleft()
                assert header >> 11 == label, (event, hex(header))
                assert not is_routed or word_of_payload(payload) == key, event
                neighbour = (n + (1 if link == 0 else -1)) % RING
                if is_routed and key[0] != neighbour:
                    # Not of the neighbour itself: it has gone through it, in order.
                    assert passed[n, link, channel].popleft() == (*key, label)
                said = reference.deliver(link, header, payload)
                went = [(int(one[1]), int(one[2], 16) >> 8 & 7) for one in said if one[0] == "s"]
                assert went == ([event[4:6]] if kind == "on" else []), event
                if kind == "on":
                    far = (n + (1 if event[4] == 0 else -1)) % RING, 1 - event[4], event[5]
                    passed[far].append((*key, label))
            for one in said:
                if one[0] == "t":
                    writes[n].append((int(one[1], 16), bytes.fromhex(one[2])))
                    continue
                to, header, payload = int(one[1]), int(one[2], 16), bytes.fromhex(one[3])
                far = ((n + (1 if to == 0 else -1)) % RING, 1 - to)
                key = word_of_payload(payload)[:2] if header >> 11 & 3 == ROUTED else ()
                way[(*far, header >> 8 & 7, *key, header >> 13 & 63)].append((header, payload))
        assert not any(way.values()), "datagrams are lost"
        registers = (CREDITS, GETS_REGISTER, REFUSED_COUNT, FORWARDED, MISROUTED, WAITING)
        for n, (host, reference) in enumerate(zip(self.hosts, references, strict=True)):
            memory = {}
            for address, data in writes[n]:
                memory.update({address + at: byte for at, byte in enumerate(data)})
            assert host.memory == memory, f"memory of node {n}"
            for register in registers:
                assert await host.read(register) == reference.read(register), (n, hex(register))
            reference.close()


async def begin(dut, which: str, hold: bool = True) -> tuple[Ring, random.Random]:
    """The ring after a reset, with its links up."""
    seed = random.Random(f"{SEED} {which}")
    settings = {"routing_id": 0x100, "bus_master": 1, "link_up": 1}
    dut.function_i.value = pack("function_t", **settings, max_payload=0)
    dut.room_i.value = pack("room_t", posted=1, nonposted=1, completion=1)
    dut.is_cut.value = dut.error_odds.value = 0
    ring = Ring(dut, seed)
    ring.hold = hold
    await ring.bench.reset(8)
    await ring.bench.step(20)
    for n, host in enumerate(ring.hosts):
        host.write(DIMENSION, RING | n << 16)
        host.write(ROUTING, int(hold))
        for link in range(LINKS):
            host.write(LINK + LINK_STRIDE * link, 1)
    for host in ring.hosts:
        assert await host.read(DIMENSION) & 0xFFFF == RING
        assert await host.read(ROUTING) == int(hold)
        for link in range(LINKS):
            status = LINK + LINK_STRIDE * link + LINK_STATUS
            await host.until(status, lambda value: value & 7 == UP)
    return ring, seed


class Traffic:
    """Messages between any two nodes, and between neighbours beside them."""

    def __init__(self, ring: Ring, seed: random.Random):
        self.ring, self.seed = ring, seed
        self.expected: list[tuple] = []
        self.goes_on = 0  # datagrams that take two hops

    def message(self, number: int) -> list:
        """The parts of a message: what asks for its credit, and what asks for its get."""
        seed, ring = self.seed, self.ring
        # All pairs of nodes by turns, so that no node has more requests than places.
        here = number % RING
        there = (here + 1 + number // RING % (RING - 1)) % RING
        count = seed.choice([1, UNIT - 1, UNIT, UNIT + 1, 2 * UNIT, 1000, seed.randrange(1, 1500)])
        tag = number % 64
        source, target = SOURCE + 0x1000 * number, DATA + 0x1000 * number
        if seed.random() < 0.8:
            of_get = {"routed": 1, "channel": 6, "node": there, "tag": tag}
            of_credit = of_get | {"node": here}
            unit = UNIT
            self.goes_on += -(-count // UNIT) if (there - here) % RING == 2 else 0
        else:
            # Between neighbours, on a channel of theirs.
            link = seed.randrange(LINKS)
            there = (here + (1 if link == 0 else -1)) % RING
            of_get = {"link": link, "channel": seed.randrange(6), "tag": tag}
            of_credit = of_get | {"link": 1 - link}
            unit = PAYLOAD_BYTES
        gets, credits = ring.runs(source, count, unit), ring.runs(target, count, unit)
        # A part of the credit may be longer than the message.
        credits[-1] = (credits[-1][0], credits[-1][1] + seed.choice([0, 0, 7]))
        self.expected.append((here, there, gets, credits, count))
        return [(there, False, of_credit, credits), (here, True, of_get, gets)]

    async def run(self, count: int) -> None:
        """So many messages, until all of them have ended."""
        self.expected.clear()
        parts, notifies = [], []
        for number in range(count):
            credit, get = self.message(number)
            parts += [credit, get] if self.seed.random() < 0.8 else [get, credit]
        for at, (node, *asked) in enumerate(parts):
            notifies.append((node, self.ring.ask(node, *asked)))
            if at % 2:
                await self.ring.bench.step(self.seed.randrange(60))
        await self.ring.bench.until(
            lambda: all(self.ring.hosts[n].word(at) >> 16 == DONE for n, at in notifies), 40000
        )
        for _, there, gets, credits, total in self.expected:
            data = bytes(byte_at(at + n) for at, length in gets for n in range(length))
            memory = self.ring.hosts[there].memory
            where = [at + n for at, length in credits for n in range(length)]
            assert bytes(memory[at] for at in where[:total]) == data


async def settled(ring: Ring) -> None:
    """Waits until no card has anything to do."""
    for host in ring.hosts:
        await host.until(STATUS, lambda value: value == 1, 1000)


@cocotb.test()
async def messages_arrive_as_in_the_model(dut):
    ring, seed = await begin(dut, "messages")
    traffic = Traffic(ring, seed)
    for _ in range(12 if ALL else 2):
        for host in ring.hosts:
            host.sink.pause = seed.choice([0, 0.3, 0.7])
        await traffic.run(12)
    await settled(ring)
    assert traffic.goes_on > 0
    assert sum([await host.read(FORWARDED) for host in ring.hosts]) == traffic.goes_on


@cocotb.test()
async def each_step_is_that_of_the_model(dut):
    ring, seed = await begin(dut, "steps")
    await Traffic(ring, seed).run(12)
    # Requests that no message may have.
    fields = {"routed": 1, "channel": 6, "tag": 3}
    for wrong in ({"node": 1}, {"node": RING}, {"node": 2, "channel": 7}, {"node": 2, "bytes": 0}):
        for is_get in (False, True):
            count = wrong.get("bytes", 100)
            asked = {k: v for k, v in (fields | wrong).items() if k != "bytes"}
            ring.ask(1, is_get, asked, [(DATA, count)])
    ring.ask(1, True, {"link": 0, "channel": 6, "tag": 4}, [(DATA, 100)])
    ring.ask(1, True, fields | {"node": 2}, [(DATA, UNIT + 1), (DATA, 100)])
    await ring.bench.step(200)
    await settled(ring)
    await ring.replay()


@cocotb.test()
async def wrong_bits_lose_nothing(dut):
    ring, seed = await begin(dut, "bits")
    dut.error_odds.value = (1 << 32) // 400
    await Traffic(ring, seed).run(8)
    dut.error_odds.value = 0
    await settled(ring)
    assert sum([await host.read(LINK + 0x10) for host in ring.hosts]) > 0
    await ring.replay()


async def early(ring: Ring, count: int) -> None:
    """Sends so many messages of a datagram without credits from node 0 to node 2, by node 1."""
    fields = {"routed": 1, "channel": 6, "node": 2}
    gets = [
        ring.ask(0, True, fields | {"tag": tag}, [(SOURCE + 0x100 * tag, 100)])
        for tag in range(count)
    ]
    await ring.bench.until(lambda: all(ring.hosts[0].word(at) for at in gets), 4000)


async def others_pass(ring: Ring) -> None:
    """Sends messages on the way of the early ones, and on others: 1 to 2, 3 to 1 over the edge."""
    fields = {"routed": 1, "channel": 6}
    others = []
    for source, node, tag in ((0, 2, 30), (1, 2, 31), (3, 1, 32)):
        at = DATA + 0x4000 * tag
        notify = ring.ask(node, False, fields | {"node": source, "tag": tag}, [(at, 1500)])
        ring.ask(source, True, fields | {"node": node, "tag": tag}, [(SOURCE, 1500)])
        others.append((node, notify))
    await ring.bench.until(
        lambda: all(ring.hosts[n].word(at) >> 16 == DONE for n, at in others), 20000
    )


@cocotb.test()
async def what_comes_before_its_credit_lets_others_pass(dut):
    ring, _ = await begin(dut, "early", hold=False)
    far, size = ring.hosts[2], SIZES["channel_datagrams"]
    for _ in range(2):
        await early(ring, 2 * size)
        await others_pass(ring)
        assert await far.read(WAITING) == size // 2
        # The rest has been dropped: so it is told.
        fields = {"routed": 1, "channel": 6, "node": 0}
        ends = [
            ring.ask(2, False, fields | {"tag": tag}, [(DATA + 0x100 * tag, 100)])
            for tag in range(2 * size)
        ]
        await ring.bench.until(lambda e=ends: all(far.word(at) for at in e), 8000)
        outcomes = [far.word(at) >> 16 & 0xFF for at in ends]
        assert sorted(outcomes) == [DONE] * (size // 2) + [DROPPED] * (size + size // 2), outcomes
        assert await far.read(WAITING) == 0
    await settled(ring)
    await ring.replay()


@cocotb.test()
async def what_waits_for_a_credit_holds_no_other(dut):
    ring, _ = await begin(dut, "waits")
    far, size = ring.hosts[2], SIZES["channel_datagrams"]
    fields = {"routed": 1, "channel": 6}
    # All places at node 2 but one have a datagram without a credit.
    await early(ring, size - 1)
    await others_pass(ring)
    assert await far.read(WAITING) == size - 1
    # One too many: channel 6 from 1 to 2 is full, and what goes another way does not mind.
    for tag in (40, 41, 42):
        ring.ask(0, True, fields | {"node": 2, "tag": tag}, [(SOURCE + 0x100 * tag, 100)])
    await ring.bench.step(600)
    at = DATA + 0x4000 * 50
    notify = ring.ask(1, False, fields | {"node": 3, "tag": 50}, [(at, 700)])
    ring.ask(3, True, fields | {"node": 1, "tag": 50}, [(SOURCE, 700)])
    await ring.bench.until(lambda: ring.hosts[1].word(notify) >> 16 == DONE, 8000)
    # Credits in any order.
    ends = []
    for tag in (41, 3, 40, 6, 0, 2, 1, 42, 5, 4):
        place = [(DATA + 0x100 * tag, 100)]
        ends.append(ring.ask(2, False, fields | {"node": 0, "tag": tag}, place))
    await ring.bench.until(lambda: all(far.word(at) >> 16 == DONE for at in ends), 8000)
    await settled(ring)
    await ring.replay()


@cocotb.test()
async def a_lost_link_loses_what_goes_through_it_alone(dut):
    ring, seed = await begin(dut, "lost")
    fields = {"routed": 1, "channel": 6}
    first, last = LINK, LINK + LINK_STRIDE
    for round_ in range(3):
        # From 0 to 2 by node 1, whose link to 2 goes while they are on their way: some wait there
        # for a queue, some come later.
        for tag in range(12):
            ring.ask(0, True, fields | {"node": 2, "tag": tag}, [(SOURCE, 1000)])
        await ring.bench.step(seed.randrange(100, 1500))
        misrouted = await ring.hosts[1].read(MISROUTED)
        ring.hosts[1].write(first, 0)
        await settled(ring)
        await ring.bench.step(2000)
        # Later ones have no link to go by: nothing holds the channel.
        assert await ring.hosts[1].read(MISROUTED) > misrouted or round_
        ring.hosts[2].write(last, 0)
        await settled(ring)
        assert await ring.hosts[2].read(WAITING) == 0
        ring.hosts[1].write(first, 1)
        ring.hosts[2].write(last, 1)
        for host, link in ((ring.hosts[1], first), (ring.hosts[2], last)):
            await host.until(link + LINK_STATUS, lambda value: value & 7 == UP)
        # All goes on, in both directions and through both channels.
        for host in ring.hosts:
            host.memory.clear()
        await Traffic(ring, seed).run(8)


@cocotb.test()
async def nothing_goes_back_by_its_link(dut):
    ring, _ = await begin(dut, "back")
    wrong = ring.hosts[1]
    # As node 0 of three, node 1 has the path from 0 to 2 lead down: by the link from node 0.
    wrong.write(DIMENSION, 3)
    assert await wrong.read(DIMENSION) == 3
    fields = {"routed": 1, "channel": 6, "node": 2, "tag": 1}
    notify = ring.ask(0, True, fields, [(SOURCE, 1000)])
    await ring.bench.until(lambda: ring.hosts[0].word(notify) >> 16 == DONE, 4000)
    await ring.bench.step(600)
    await settled(ring)
    assert await wrong.read(MISROUTED) == -(-1000 // UNIT)
    assert await wrong.read(FORWARDED) == 0
    assert await ring.hosts[0].read(MISROUTED) == 0


@cocotb.test()
async def own_messages_and_others_take_turns(dut):
    ring, _ = await begin(dut, "turns")
    for host in ring.hosts:
        host.sink.pause = 0
    fields, count, ends = {"routed": 1, "channel": 6}, 60 * UNIT, []
    # Both leave node 1 on channel 6, which is full all the time.
    for source in (0, 1):
        at = DATA + 0x4000 * source
        ends.append(ring.ask(2, False, fields | {"node": source, "tag": source}, [(at, count)]))
        ring.ask(source, True, fields | {"node": 2, "tag": source}, [(SOURCE, count)])
    clocks = []
    for _ in ends:
        await ring.bench.until(
            lambda: sum(ring.hosts[2].word(at) >> 16 == DONE for at in ends) > len(clocks), 8000
        )
        clocks.append(ring.bench.clock)
    # When the first has ended, nearly all of the other has come, too.
    assert clocks[1] - clocks[0] < 8 * (FRAME_CLOCKS + 1), clocks


@cocotb.test()
async def a_hop_is_early_and_fills_the_link(dut):
    """From the last beat on one cable to the first on the next; 17 or 33 columns a datagram."""
    ring, _ = await begin(dut, "rates")
    # Memories have been cleared.
    await settled(ring)
    for host in ring.hosts:
        host.sink.pause = 0
    fields = {"routed": 1, "channel": 6}
    count, clocks = 60 * UNIT, {}
    for source, node in ((0, 1), (0, 2)):
        took = []
        for length in (UNIT, count):
            notify = ring.ask(node, False, fields | {"node": source, "tag": 1}, [(DATA, length)])
            await ring.bench.step(200)
            begun = ring.bench.clock
            ring.ask(source, True, fields | {"node": node, "tag": 1}, [(SOURCE, length)])
            await ring.bench.until(
                lambda n=node, at=notify: ring.hosts[n].word(at) >> 16 == DONE, 8000
            )
            took.append(ring.bench.clock - begun)
        clocks[node] = took
    hop = clocks[2][0] - clocks[1][0]
    each = (clocks[2][1] - clocks[2][0]) / 59
    dut._log.warning("a hop takes %d clocks, a datagram %.2f", hop, each)
    assert hop <= CLOCKS_OF_A_HOP, hop
    assert each <= FRAME_CLOCKS + 0.6, each


@pytest.mark.parametrize("lanes, long", [(8, 0), (4, 0), (8, 1)] if ALL else [(8, 0)])
def test_routing(lanes, long):
    sizes = {name.upper(): value for name, value in (SIZES | GETS).items()}
    simulate(__file__, "network_ring", sizes | {"LANES": lanes, "LONG": long})
