# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_async_fifo: words come out as they went in, with any two clocks; rate, latency, and at
most one changed bit where the clocks meet.
"""

import os
import random
from collections import deque
from functools import partial

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge, Timer
from cocotb.utils import get_sim_time
from simulate import SEED, simulate
from tlp_stream import reach

DEPTH = int(os.environ.get("DEPTH", "16"))
STAGES = 2
# Periods of the two clocks, and the delay of the second one, in ps.
CLOCKS = [
    (4000, 4000, 0),
    (4000, 4000, 1300),
    (4000, 3334, 0),
    (3334, 4000, 700),
    (4000, 10_002, 0),
    (10_002, 4000, 100),
    (2000, 14_998, 0),
]


class Fifo:
    """Both sides of the FIFO."""

    def __init__(self, dut):
        self.dut = dut
        self.seed = random.Random(SEED)
        self.sent, self.got = deque(), 0
        self.supply = self.demand = 1.0
        self.now = {"s": 0, "m": 0}
        self.put_at, self.got_at = [], []
        self.most_inside = 0
        self.tasks = []

    async def start(self, clocks, supply=1.0):
        """Starts both clocks and sides, and resets them."""
        dut, (s_period, m_period, late) = self.dut, clocks
        self.supply = supply
        dut.s_valid.value = dut.m_ready.value = 0
        dut.s_rst.value = dut.m_rst.value = 1
        Clock(dut.s_clk, s_period, unit="ps").start()
        await Timer(late + 1, unit="ps")
        Clock(dut.m_clk, m_period, unit="ps").start()
        self.tasks = [cocotb.start_soon(task) for task in (self.put(), self.get())]
        cocotb.start_soon(self.watch("tail_gray", "s"))
        cocotb.start_soon(self.watch("head_gray", "m"))
        await self.reset()
        return self

    async def reset(self, s_clocks=6, m_clocks=6):
        """Resets both sides, each for its number of clocks."""
        dut = self.dut
        dut.s_rst.value = dut.m_rst.value = 1
        slow = max((dut.s_clk, s_clocks), (dut.m_clk, m_clocks), key=lambda side: side[1])

        async def end(clk, rst, clocks):
            for _ in range(clocks):
                await FallingEdge(clk)
            rst.value = 0

        sides = [(dut.s_clk, dut.s_rst, s_clocks), (dut.m_clk, dut.m_rst, m_clocks)]
        for task in [cocotb.start_soon(end(*side)) for side in sides]:
            await task
        await FallingEdge(slow[0])

    async def put(self):
        dut, word = self.dut, None
        while True:
            await FallingEdge(dut.s_clk)
            if word is None and self.seed.random() < self.supply:
                word = self.seed.getrandbits(len(dut.s_data))
            dut.s_valid.value = word is not None
            dut.s_data.value = word or 0
            await ReadOnly()
            self.now["s"] += 1
            if int(dut.s_rst.value):
                assert not int(dut.s_ready.value)
                word = None
                self.sent.clear()
            elif word is not None and int(dut.s_ready.value):
                self.sent.append(word)
                self.put_at.append(self.now["s"])
                self.most_inside = max(self.most_inside, len(self.sent))
                word = None

    async def get(self):
        dut, held = self.dut, None
        while True:
            await FallingEdge(dut.m_clk)
            ready = self.seed.random() < self.demand
            dut.m_ready.value = ready
            await ReadOnly()
            self.now["m"] += 1
            valid = bool(dut.m_valid.value) and not int(dut.m_rst.value)
            if int(dut.m_rst.value):
                held = None
                continue
            if held is not None:
                assert valid and int(dut.m_data.value) == held, "the word changed while it waited"
            held = int(dut.m_data.value) if valid and not ready else None
            if valid and ready:
                assert int(dut.m_data.value) == self.sent.popleft()
                self.got += 1
                self.got_at.append(self.now["m"])

    async def watch(self, name, side):
        """Checks that at most one bit changes a clock."""
        signal, before = getattr(self.dut, name), 0
        clk, rst = (getattr(self.dut, f"{side}_{n}") for n in ("clk", "rst"))
        while True:
            await FallingEdge(clk)
            await ReadOnly()
            now = int(signal.value)
            assert int(rst.value) or (now ^ before).bit_count() <= 1
            before = now

    async def until_got(self, count, clocks=20_000):
        """Waits until `count` words have come out."""
        step = partial(RisingEdge, self.dut.m_clk)
        await reach(step, lambda: self.got >= count, clocks, f"word {count}")


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS)
async def words_come_out_in_order(dut, clocks):
    fifo = await Fifo(dut).start(clocks)
    for _ in range(12):
        fifo.supply, fifo.demand = (fifo.seed.choice([0.1, 0.7, 1]) for _ in range(2))
        await fifo.until_got(fifo.got + 40)
    # Full: the memory, and one word at the output.
    fifo.supply, fifo.demand = 1.0, 0.0
    for _ in range(40 * DEPTH):
        await RisingEdge(dut.s_clk)
    assert len(fifo.sent) == fifo.most_inside == DEPTH + 1
    # A reset empties it, whichever side it ends on first; no earlier word comes out.
    for late in ((8, 24), (24, 8)):
        fifo.supply, fifo.demand = 1.0, 0.3
        await fifo.until_got(fifo.got + 30)
        ratio = max(1, clocks[1] // clocks[0]), max(1, clocks[0] // clocks[1])
        await fifo.reset(late[0] * ratio[0], late[1] * ratio[1])
        await fifo.until_got(fifo.got + 100)
    fifo.supply, fifo.demand = 0.0, 1.0
    await fifo.until_got(fifo.got + len(fifo.sent))
    for _ in range(20):
        await RisingEdge(dut.m_clk)
    assert not fifo.sent and not int(dut.m_valid.value)


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS)
async def a_word_each_clock_of_the_slower_side(dut, clocks):
    fifo = await Fifo(dut).start(clocks)
    await fifo.until_got(20)
    begin = len(fifo.put_at), len(fifo.got_at)
    await fifo.until_got(320)
    put, got = fifo.put_at[begin[0] :], fifo.got_at[begin[1] :]
    if clocks[0] >= clocks[1]:
        assert put[-1] - put[0] == len(put) - 1, "the writing side was held up"
    if clocks[1] >= clocks[0]:
        assert got[-1] - got[0] == len(got) - 1, "the reading side ran empty"


async def end_of_offer(dut):
    await FallingEdge(dut.s_clk)
    dut.s_valid.value = 0


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS)
async def latency(dut, clocks):
    fifo = await Fifo(dut).start(clocks, supply=0.0)
    for task in fifo.tasks:
        task.cancel()
    dut.s_valid.value = 0
    dut.m_ready.value = 1
    seen = set()
    for n in range(12):
        for _ in range(8 + n):
            await FallingEdge(dut.m_clk)
        # One word: edges of m_clk after the s_clk edge that takes it, until it is visible.
        await FallingEdge(dut.s_clk)
        dut.s_valid.value, dut.s_data.value = 1, n
        await RisingEdge(dut.s_clk)
        taken = get_sim_time("ps")
        drop = cocotb.start_soon(end_of_offer(dut))
        edges = 0
        while edges == 0 or not int(dut.m_valid.value):
            await RisingEdge(dut.m_clk)
            edges += get_sim_time("ps") > taken
            await FallingEdge(dut.m_clk)
            assert edges < 10
        assert int(dut.m_data.value) == n
        seen.add(edges)
        await drop
    assert seen <= {STAGES + 1, STAGES + 2}, seen


@pytest.mark.parametrize(("width", "depth"), [(9, 16), (40, 128)])
def test_async_fifo(width, depth):
    parameters = {"WIDTH": width, "DEPTH": depth, "STAGES": STAGES}
    simulate(__file__, "crosslane_async_fifo", parameters)
