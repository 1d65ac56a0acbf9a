# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_reset_pair: a reset of either side resets both."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from simulate import SEED, simulate

# Overlap that the FIFOs between the clocks require, with two stages.
OVERLAP_CLOCKS = 3


class Watch:
    """Watches the resets of a side: each has enough clocks of both sides in which the other one is
    reset as well."""

    def __init__(self, dut, side, other):
        self.out, self.other = getattr(dut, f"{side}_rst_o"), getattr(dut, f"{other}_rst_o")
        self.clocks = {"a": dut.a_clk, "b": dut.b_clk}
        self.count = {"a": 0, "b": 0}
        self.resets = 0
        for name in self.clocks:
            cocotb.start_soon(self._count(name))
        cocotb.start_soon(self._look(self.clocks[side]))

    async def _count(self, name):
        while True:
            await RisingEdge(self.clocks[name])
            self.count[name] += int(self.out.value) & int(self.other.value)

    async def _look(self, clk):
        was_reset = False
        while True:
            await RisingEdge(clk)
            is_reset = bool(self.out.value)
            if is_reset and not was_reset:
                self.count = {"a": 0, "b": 0}
            if was_reset and not is_reset:
                self.resets += 1
                assert min(self.count.values()) >= OVERLAP_CLOCKS, self.count
            was_reset = is_reset


async def pulse(dut, side, clocks):
    """Resets a side for `clocks` clocks."""
    clk, rst = getattr(dut, f"{side}_clk"), getattr(dut, f"{side}_rst")
    await FallingEdge(clk)
    rst.value = 1
    for _ in range(clocks):
        await RisingEdge(clk)
        assert getattr(dut, f"{side}_rst_o").value, "the reset does not begin at once"
    await FallingEdge(clk)
    rst.value = 0


@cocotb.test()
@cocotb.parametrize(periods=[(4000, 4100), (4000, 1300), (4000, 17000)])
async def both_sides_are_reset_together(dut, periods):
    """At any moment, also during another reset; and it ends."""
    seed = random.Random(SEED)
    for side, period in zip("ab", periods, strict=True):
        getattr(dut, f"{side}_rst").value = 0
        Clock(getattr(dut, f"{side}_clk"), period, unit="ps").start()
    await pulse(dut, "a", 1)
    # The state before the first reset is undefined.
    await ClockCycles(dut.a_clk, 100)
    watches = [Watch(dut, "a", "b"), Watch(dut, "b", "a")]
    for _ in range(300):
        clocks = seed.choice([1, 1, 2, 5, 40])
        await pulse(dut, seed.choice("ab"), clocks)
        # Sometimes the next one comes before this one has ended.
        await ClockCycles(dut.a_clk, seed.choice([0, 1, 3, 7, 15, 30, 120]))
    await ClockCycles(dut.a_clk, 200)
    assert not dut.a_rst_o.value
    assert not dut.b_rst_o.value
    assert min(watch.resets for watch in watches) > 100


def test_reset_pair():
    simulate(__file__, "crosslane_reset_pair")
