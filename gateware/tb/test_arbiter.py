# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_arbiter: its choice is compared with a model in each clock in which a TLP begins."""

import random

import cocotb
import pytest
from packed import CONSTANTS, pack, width
from simulate import SEED, simulate
from tlp_stream import Bench, Sink, Tlp, assert_same

SOURCES = 5
READ, WRITE, COMPLETION = (
    CONSTANTS[name] for name in ("MEMORY_READ", "MEMORY_WRITE", "COMPLETION_DATA")
)
ROOM = {READ: "nonposted", WRITE: "posted", COMPLETION: "completion"}
HEADER_BITS = width("tlp_header_t")


class Sources:
    """Answers (place 0) and the sources behind them, with the room of the link."""

    def __init__(self, dut, seed):
        self.dut, self.seed = dut, seed
        self.lanes = len(dut.m_tx_data) // 8
        self.queues = [[] for _ in range(SOURCES + 1)]
        self.at = [0] * (SOURCES + 1)
        self.offered = [False] * (SOURCES + 1)
        self.pause = 0.0
        self.withdraw = 0.0
        self.room_odds = {"posted": 1.0, "nonposted": 1.0, "completion": 1.0}
        self.room = dict.fromkeys(self.room_odds, 1)
        self.sent = []  # (place, TLP) in the order in which they were begun
        self.turn = 1
        self.within = None
        self.count = 0

    def add(self, place, kind=None, words=None):
        """Queues a TLP at a place."""
        kind = COMPLETION if place == 0 else kind
        if kind is None:
            kind = self.seed.choice([READ, WRITE])
        if words is None:
            words = self.seed.choice([1, 2, 8, 16, 64, self.seed.randrange(1, 65)])
        self.count += 1
        payload = self.seed.randbytes(4 * words) if kind != READ else b""
        header = {"kind": kind, "length_dw": words, "address": self.count << 2, "tag": place}
        self.queues[place].append(Tlp(header, payload))

    def drive(self):
        """Sets the inputs of a clock."""
        dut, seed = self.dut, self.seed
        valid = first = last = header = data = 0
        for place, queue in enumerate(self.queues):
            at = self.at[place]
            if at == 0 and self.offered[place] and place and seed.random() < self.withdraw:
                self.offered[place] = False
            elif at > 0:
                self.offered[place] = True
            elif not self.offered[place]:
                self.offered[place] = bool(queue) and seed.random() >= self.pause
            is_first = is_last = 0
            vector = seed.getrandbits(HEADER_BITS)
            beat = seed.getrandbits(8 * self.lanes)
            if self.offered[place]:
                beats = queue[0].beats(8 * self.lanes)
                is_first, is_last = int(at == 0), int(at == len(beats) - 1)
                if is_first:
                    vector = pack("tlp_header_t", **queue[0].header)
                beat = int.from_bytes(beats[at], "little")
            if place == 0:
                dut.s_answer_valid.value = self.offered[0]
                dut.s_answer_first.value, dut.s_answer_last.value = is_first, is_last
                dut.s_answer_header.value, dut.s_answer_data.value = vector, beat
                continue
            valid |= self.offered[place] << place - 1
            first |= is_first << place - 1
            last |= is_last << place - 1
            header |= vector << HEADER_BITS * (place - 1)
            data |= beat << 8 * self.lanes * (place - 1)
        dut.s_valid.value, dut.s_first.value, dut.s_last.value = valid, first, last
        dut.s_header.value, dut.s_data.value = header, data
        self.room = {name: int(seed.random() < odds) for name, odds in self.room_odds.items()}
        dut.room_i.value = pack("room_t", **self.room)

    def can_begin(self, place):
        """Whether a TLP waits at this place, and has room."""
        if not self.offered[place]:
            return False
        return bool(self.room[ROOM[self.queues[place][0].header["kind"]]])

    def expected(self):
        """The place served in this clock, if any."""
        if self.within is not None:
            return self.within
        if self.can_begin(0):
            return 0
        for ahead in range(SOURCES):
            place = 1 + (self.turn - 1 + ahead) % SOURCES
            if self.can_begin(place):
                return place
        return None

    def sample(self, clock):
        """Samples the signals before the rising edge."""
        ready = int(self.dut.s_ready.value) << 1 | int(self.dut.s_answer_ready.value)
        taken = [p for p in range(SOURCES + 1) if ready >> p & 1 and self.offered[p]]
        is_free = int(self.dut.m_tx_ready.value) or not int(self.dut.m_tx_valid.value)
        place = self.expected()
        assert taken == ([place] if is_free and place is not None else []), f"clock {clock}"
        if not taken:
            return
        tlp = self.queues[place][0]
        if self.at[place] == 0:
            tlp.first_clock = clock
            self.sent.append((place, tlp))
            if place:
                self.turn = place % SOURCES + 1
        self.at[place] += 1
        self.within = place
        if self.at[place] == len(tlp.beats(8 * self.lanes)):
            self.queues[place].pop(0)
            self.at[place], self.offered[place], self.within = 0, False, None

    @property
    def is_empty(self):
        """Whether all TLPs have been taken."""
        return not any(self.queues)


async def begin(dut):
    seed = random.Random(SEED)
    sources = Sources(dut, seed)
    sink = Sink(dut, "m_tx", seed, gapless=True)
    dut.s_answer_valid.value = dut.s_valid.value = dut.m_tx_ready.value = 0
    bench = Bench(dut)
    await bench.reset()
    bench.parts = [sources, sink]
    return bench, sources, sink


def check(sources, sink):
    """Checks that the output is the TLPs begun, in order."""
    assert_same(sink.tlps, [tlp for _, tlp in sources.sent])


@cocotb.test()
async def every_choice(dut):
    bench, sources, sink = await begin(dut)
    seed = sources.seed
    for _ in range(60):
        sources.pause = seed.choice([0, 0.3, 0.9])
        sources.withdraw = seed.choice([0, 0, 0.3])
        sink.pause = seed.choice([0, 0.3, 0.8])
        sources.room_odds = {name: seed.choice([0.2, 1, 1]) for name in sources.room_odds}
        for _ in range(seed.randrange(20)):
            sources.add(seed.randrange(SOURCES + 1))
        await bench.step(seed.randrange(10, 50))
    sources.room_odds = dict.fromkeys(sources.room_odds, 1)
    sources.withdraw = sources.pause = sink.pause = 0
    await bench.until(lambda: sources.is_empty, 20_000)
    await bench.step(3)
    check(sources, sink)
    assert {place for place, _ in sources.sent} == set(range(SOURCES + 1))


@cocotb.test()
async def no_idle_clock(dut):
    bench, sources, sink = await begin(dut)
    for words in (1, 2 * sources.lanes // 4, 64):
        for _ in range(12):
            for place in range(1, SOURCES + 1):
                sources.add(place, WRITE, words)
        before = len(sink.tlps)
        await bench.until(lambda: sources.is_empty)
        await bench.step(2)
        taken = sink.tlps[before:]
        beats = sum(len(tlp.beats(8 * sources.lanes)) for tlp in taken)
        assert taken[-1].last_clock - taken[0].first_clock + 1 == beats
        # One register from source to link.
        first = sources.sent[before][1]
        assert taken[0].first_clock - first.first_clock == 1
        # All sources had equal shares.
        served = [place for place, _ in sources.sent[before:]]
        assert all(sorted(served[n : n + 5]) == [1, 2, 3, 4, 5] for n in range(0, 60, 5))
    check(sources, sink)


@cocotb.test()
async def a_class_without_room_holds_up_no_other(dut):
    bench, sources, sink = await begin(dut)
    blocks = {"nonposted": READ, "posted": WRITE, "completion": COMPLETION}
    for name, kind in blocks.items():
        sources.room_odds = dict.fromkeys(sources.room_odds, 1)
        sources.room_odds[name] = 0
        for place, *what in ((0,), (1, READ, 16), (2, WRITE), (3, READ, 16), (4, WRITE)):
            sources.add(place, *what)
        before = len(sink.tlps)
        await bench.step(60)
        kinds = [tlp.header["kind"] for tlp in sink.tlps[before:]]
        assert kind not in kinds and set(kinds) == set(blocks.values()) - {kind}
        sources.room_odds[name] = 1
        await bench.step(60)
        assert sources.is_empty
    check(sources, sink)


@pytest.mark.parametrize("data_bits", [64, 256])
def test_arbiter(data_bits):
    simulate(__file__, "crosslane_arbiter", {"DATA_BITS": data_bits, "SOURCES": SOURCES})
