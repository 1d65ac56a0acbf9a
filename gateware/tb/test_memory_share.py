# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_memory_share: two users' bursts on one memory, each in its own part of it."""

import itertools
import random

import cocotb
import pytest
from axi_memory import REFUSALS, AxiMemory
from axi_user import MOST_BEATS, OKAY, AxiUser
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge
from simulate import SEED, simulate, widths

MEMORY_BYTES = 1 << 20
USERS = ("first", "second")


class Bench:
    """Two users, which take data and answers at any time, and the memory."""

    def __init__(self, dut, seed: int):
        self.dut = dut
        self.random = random.Random(SEED * 1000 + seed)
        self.content = bytearray(self.random.randbytes(MEMORY_BYTES))
        half = MEMORY_BYTES // 2
        self.users = [
            AxiUser(dut, name, self.content, range(n * half, (n + 1) * half), self.random)
            for n, name in enumerate(USERS)
        ]

    async def start(self):
        """Clock, reset, memory."""
        dut = self.dut
        for user in self.users:
            user.is_quiet()
        dut.rst.value = 1
        Clock(dut.clk, 4, unit="ns").start()
        self.stored = bytearray(self.content)
        self.memory = AxiMemory(dut, "m_axi", self.stored, self.random, MOST_BEATS)
        await ClockCycles(dut.clk, 10)
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        for user in self.users:
            cocotb.start_soon(user.run())
        return self

    async def finished(self) -> None:
        """Waits until all bursts of both are answered."""
        for user in self.users:
            await user.finished()


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.4])
async def each_user_has_its_own_data(dut, how_often):
    """Bursts of both at once, more than may be under way, with pauses of all of them."""
    bench = await Bench(dut, 1).start()
    bench.memory.pause(how_often)
    for user in bench.users:
        user.often = 1.0 - how_often
        for _ in range(120):
            user.write() if bench.random.random() < 0.5 else user.read()
    await bench.finished()
    assert bench.stored == bench.content
    assert all(set(user.answers) == {OKAY} for user in bench.users)


@cocotb.test()
async def a_user_by_itself_has_all_of_the_port(dut):
    """A beat a clock each way."""
    bench = await Bench(dut, 2).start()
    user = bench.users[1]
    beats = 40 * MOST_BEATS
    free = iter(range(user.span.start, user.span.stop, MOST_BEATS * user.bytes))
    user.place = lambda: (next(free), MOST_BEATS * user.bytes)
    for _ in range(40):
        user.write()
        user.read()
    await bench.finished()
    taken = bench.memory.write_beats
    assert taken[-1] - taken[0] + 1 <= beats + 8


@cocotb.test()
async def both_get_their_turns(dut):
    """Of two that always have bursts, each gets every other one."""
    bench = await Bench(dut, 3).start()
    for user in bench.users:
        for _ in range(50):
            user.write()
            user.read()
    await bench.finished()
    for bursts in (bench.memory.writes, bench.memory.reads):
        owners = [burst.address >= MEMORY_BYTES // 2 for burst in bursts]
        assert owners.count(True) == owners.count(False) == 50
        assert all(one != following for one, following in itertools.pairwise(owners[2:90]))


@cocotb.test()
@cocotb.parametrize(refused=[0, 1])
async def errors_reach_the_user_whose_they_are(dut, refused):
    bench = await Bench(dut, 4).start()
    span = bench.users[refused].span
    bench.memory.refuses = lambda at: at in span
    for response in REFUSALS:
        bench.memory.response = response
        for user in bench.users:
            user.answers.clear()
            for _ in range(20):
                user.write()
                user.read()
        await bench.finished()
        for n, user in enumerate(bench.users):
            assert set(user.answers) == {int(response) if n == refused else OKAY}
    assert bench.stored == bench.content


@cocotb.test()
async def a_reset_leaves_nothing_behind(dut):
    """Amidst bursts: those that come afterwards get their own data and answers."""
    bench = await Bench(dut, 5).start()
    for _ in range(12):
        bench.memory.pause(bench.random.choice([0.0, 0.5]))
        for user in bench.users:
            for _ in range(bench.random.randrange(8)):
                user.write() if bench.random.random() < 0.5 else user.read()
        await ClockCycles(dut.clk, bench.random.randrange(60))
        await FallingEdge(dut.clk)
        dut.rst.value = 1
        for user in bench.users:
            user.forget()
        await ClockCycles(dut.clk, 20)
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        bench.content[:] = bench.stored
    for user in bench.users:
        for _ in range(20):
            user.write()
            user.read()
    await bench.finished()
    assert bench.stored == bench.content


@pytest.mark.parametrize("data_bits", widths(512))
def test_memory_share(data_bits):
    simulate(__file__, "memory_share", {"DATA_BITS": data_bits})
