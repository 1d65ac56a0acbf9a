# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_link_line_test: PRBS-31 by its polynomial; each wrong bit is counted once, on its lane;
a slip is noticed, and a line that stands still is not in step."""

import os
import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from packed import part
from simulate import SEED, simulate

LANES = 2


def prbs(count: int) -> list[int]:
    """Bits of x^31 + x^28 + 1 behind 31 ones."""
    bits = [1] * 31
    while len(bits) < 31 + count:
        bits.append(bits[-28] ^ bits[-31])
    return bits[31:]


def word_of(bits: list[int]) -> int:
    """The word of bits, the first one lowest."""
    return sum(bit << n for n, bit in enumerate(bits))


@cocotb.test()
async def wrong_bits_are_counted_once(dut):
    size, seed = int(os.environ["BITS"]), random.Random(f"{SEED} line")
    for clock in (dut.clk, dut.rx_clk):
        Clock(clock, 4, unit="ns").start()
    dut.rst.value = dut.rx_rst.value = 1
    dut.tx_begins_word.value = dut.rx_words.value = 0
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = dut.rx_rst.value = 0
    pattern = prbs(size * 400)
    # A line that stands still.
    for _ in range(10):
        await FallingEdge(dut.clk)
        assert int(dut.in_step.value) == 0
    at, wanted = [3, 11], [0] * LANES
    for step in range(300):
        # The source, with pauses.
        dut.tx_begins_word.value = 1
        shown = part(dut.tx_words.value, size, step % LANES)
        assert shown == word_of(pattern[size * step :][:size]), step
        words = 0
        for lane in range(LANES):
            bits = list(pattern[at[lane] :][:size])
            at[lane] += size
            in_step = int(dut.in_step.value) >> lane & 1
            if in_step and seed.random() < 0.3:
                for n in seed.sample(range(size), seed.randrange(1, size // 4)):
                    bits[n] ^= 1
                    wanted[lane] += 1
            words |= word_of(bits) << size * lane
        if step == 200:
            # Lane 0 loses a bit; the word beside it is right.
            at[0] += 1
        dut.rx_words.value = words
        await FallingEdge(dut.clk)
        if step == 100 or step == 299:
            assert int(dut.in_step.value) == 3
        if step == 203:
            assert int(dut.in_step.value) == 2
    counted = [part(dut.wrong_bits.value, 32, lane) for lane in range(LANES)]
    lost = [part(dut.steps_lost.value, 32, lane) for lane in range(LANES)]
    assert lost == [1, 0]
    assert counted[1] == wanted[1] > 100
    # Those beside the slip may be among its mismatches.
    assert wanted[0] - size <= counted[0] <= wanted[0] + size


@pytest.mark.parametrize("bits", [20, 40])
def test_link_line_test(bits):
    simulate(__file__, "crosslane_link_line_test", {"LANES": LANES, "BITS": bits})
