# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_memory_crossing, its guard, crosslane_memory_halves and crosslane_memory_clear: an
engine's bursts on two memories of half the width and another clock, and resets of the engine amidst
them. With CLEARED_BITS the memory is cleared before, up to there.
"""

import random

import cocotb
import pytest
from axi_memory import AxiMemory
from axi_user import MOST_BEATS, OKAY, AxiUser
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge
from cocotb.utils import get_sim_time
from simulate import ALL, SEED, simulate

MEMORY_BYTES = 1 << 20
# Periods of the clocks of engine and memory, ps.
CLOCKS = [(4000, 4000), (4000, 3334), (3334, 10_002), (8000, 3334)]
SLVERR = 2


class MemoryPort:
    """The port of one of the two memories, with the names that a memory's bench expects."""

    def __init__(self, dut, prefix: str):
        self._dut, self._prefix = dut, prefix
        self.clk, self.rst = dut.memory_clk, dut.memory_rst

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._dut) if name.startswith(self._prefix)]

    def __getattr__(self, name: str):
        """A port of the module."""
        return getattr(self._dut, name)


class Bench(AxiUser):
    """An engine's side with random bursts, and the two memories."""

    def __init__(self, dut, seed: int):
        randomness = random.Random(SEED * 1000 + seed)
        content = bytearray(randomness.randbytes(MEMORY_BYTES))
        super().__init__(dut, "s_axi", content, range(MEMORY_BYTES), randomness)

    async def start(self, engine_ps: int, memory_ps: int):
        """Clocks, memories, and a reset of both sides."""
        dut, half = self.dut, self.bytes // 2
        self.is_quiet()
        dut.rst.value = dut.memory_rst.value = 1
        self.clock = Clock(dut.clk, engine_ps, unit="ps")
        self.clock.start()
        Clock(dut.memory_clk, memory_ps, unit="ps").start()
        self.halves = [bytearray(), bytearray()]
        for at in range(0, MEMORY_BYTES, half):
            self.halves[at // half % 2] += self.content[at : at + half]
        self.memories = [
            AxiMemory(MemoryPort(dut, name), name, content, self.random, most_beats=MOST_BEATS)
            for name, content in zip(("low", "high"), self.halves, strict=True)
        ]
        if cleared := int(dut.CLEARED_BITS.value):
            self.content[: 1 << cleared] = bytes(1 << cleared)
        await ClockCycles(dut.memory_clk, 20)
        dut.memory_rst.value = 0
        await ClockCycles(dut.clk, 20)
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        cocotb.start_soon(self.run())
        return self

    def pause(self, how_often: float) -> None:
        """Both sides pause this often."""
        self.often = self.takes = 1.0 - how_often
        for memory in self.memories:
            memory.pause(how_often)

    def stored(self) -> bytes:
        """What the two memories have together."""
        low, high = self.halves
        half = self.bytes // 2
        parts = (
            memory[at : at + half] for at in range(0, len(low), half) for memory in (low, high)
        )
        return b"".join(parts)

    async def reset(self, clocks: int) -> None:
        """A reset of the engine, which forgets its bursts: their bytes are old ones or new ones."""
        dut = self.dut
        await FallingEdge(dut.clk)
        dut.rst.value = 1
        forgotten = self.forget()
        await ClockCycles(dut.clk, clocks)
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        # Behind a burst of each kind nothing of before is under way.
        at = self.random.randrange(MEMORY_BYTES // self.bytes) * self.bytes
        self.writes.append((at, self.content[at : at + 1]))
        self.channels["aw"].beats.append((at, 0))
        self.channels["w"].beats.append((0, 0, 1))
        await self.finished()
        now = self.stored()
        for at, data in forgotten:
            for index, new in enumerate(data):
                assert now[at + index] in (new, self.content[at + index])
                self.content[at + index] = now[at + index]
        assert now == self.content


async def made(dut, seed: int, clocks: tuple[int, int]) -> Bench:
    """A bench that has begun."""
    return await Bench(dut, seed).start(*clocks)


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS)
async def bursts_go_there_and_back(dut, clocks):
    bench = await made(dut, 1, clocks)
    for how_often in (0.0, 0.3, 0.7):
        bench.pause(how_often)
        for _ in range(60):
            bench.write() if bench.random.random() < 0.5 else bench.read()
            await ClockCycles(dut.clk, bench.random.choice([0, 1, 10]) + 1)
        await bench.finished()
        assert bench.stored() == bench.content
    assert set(bench.answers) == {OKAY}


@cocotb.test()
async def all_bytes_are_cleared_before_the_first_burst(dut):
    """And none behind them, whatever the memories pause."""
    bench = await made(dut, 6, CLOCKS[1])
    bench.pause(0.3)
    bench.write()
    await bench.finished()
    assert bench.stored() == bench.content


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS)
async def a_reset_at_any_time_leaves_the_memory_in_step(dut, clocks):
    """Bursts that the memory has begun end, and change nothing more but their own bytes."""
    bench = await made(dut, 2, clocks)
    for _ in range(25):
        bench.pause(bench.random.choice([0.0, 0.5]))
        for _ in range(bench.random.randint(0, 12)):
            bench.write() if bench.random.random() < 0.6 else bench.read()
            await ClockCycles(dut.clk, bench.random.choice([0, 0, 7]) + 1)
        await ClockCycles(dut.clk, bench.random.randint(1, 40))
        await bench.reset(bench.random.choice([1, 2, 30]))
    for _ in range(20):
        bench.write()
        bench.read()
    await bench.finished()
    assert bench.stored() == bench.content


@cocotb.test()
async def the_engines_clock_may_stand_still(dut):
    """As it does while a slot's reset is held; the reset comes with the clock."""
    bench = await made(dut, 3, CLOCKS[1])
    for _ in range(10):
        for _ in range(8):
            bench.write()
            bench.read()
        await ClockCycles(dut.clk, bench.random.randint(3, 60))
        bench.clock.stop()
        await ClockCycles(dut.memory_clk, bench.random.randint(1, 300))
        bench.clock.start()
        await bench.reset(20)


@cocotb.test()
async def errors_of_either_memory_are_told(dut):
    bench = await made(dut, 4, CLOCKS[0])
    # Whole beats: a half without enabled bytes refuses nothing.
    bench.place = lambda: (0, MOST_BEATS * bench.bytes)
    for memory in bench.memories:
        memory.refuses = lambda _: True
        for access in (bench.write, bench.read):
            bench.answers.clear()
            access()
            await bench.finished()
            assert set(bench.answers) == {SLVERR}
        memory.refuses = None


@cocotb.test()
async def a_beat_each_clock_of_the_slower_side(dut):
    """Writes and reads at once, 8 KiB each."""
    bench = await made(dut, 5, CLOCKS[0])
    # Until the memory is open, which may be cleared first.
    bench.read()
    await bench.finished()
    beats = 8192 // bench.bytes
    free = iter(range(0, MEMORY_BYTES, MOST_BEATS * bench.bytes))
    bench.place = lambda: (next(free), MOST_BEATS * bench.bytes)
    for _ in range(beats // MOST_BEATS):
        bench.write()
        bench.read()
    begun = get_sim_time("ps")
    await bench.finished()
    clocks = (get_sim_time("ps") - begun) / CLOCKS[0][0]
    # The way there and back, and the bench's look at every tenth clock.
    assert clocks < beats + 60, clocks


@pytest.mark.parametrize("cleared", [0, 17])
@pytest.mark.parametrize("bits", [64, 512] if ALL else [512])
def test_memory_crossing(bits, cleared):
    settings = {"DATA_BITS": bits, "CLEARED_BITS": cleared}
    simulate(__file__, "memory_crossing_halves", settings)
