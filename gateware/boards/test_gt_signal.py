# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_gt_signal: 8b/10b is a signal, also with bit errors and wherever words begin; noise, a
constant and a slow clock of bits are none, and it is noticed within 150 words."""

import random

import boards
import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from simulate import SEED, simulate

BITS = 20
# Words until a signal is seen, or missed.
WITHIN = 150
# Bits as they come: K28.5 of both disparities, whose runs of five are the longest of the code, and
# a word with a run of six.
CODED = "0011111010" + "1100000101"
RUN_OF_SIX = "01010111111010101010"


def constant(bit: int):
    """A line that stands still."""
    while True:
        yield (1 << BITS) - 1 if bit else 0


def noise(seed: random.Random):
    """Random bits."""
    while True:
        yield seed.getrandbits(BITS)


def coded(begins: int, wrong: tuple[int, ...] = ()):
    """Words of the code that begin at a bit of it; of 64 words these have a run of six."""
    words = [int(bits[::-1], 2) for bits in ((CODED * 2)[begins : begins + BITS], RUN_OF_SIX)]
    while True:
        yield from (words[n in wrong] for n in range(64))


async def words(dut, source, count: int) -> list[int]:
    """Gives words; returns whether there was a signal at each."""
    seen = []
    for _ in range(count):
        dut.word.value = next(source)
        await FallingEdge(dut.clk)
        seen.append(int(dut.is_coded.value))
    return seen


@cocotb.test()
async def code_is_a_signal_and_noise_is_none(dut):
    seed = random.Random(f"{SEED} signal")
    Clock(dut.clk, 8, unit="ns").start()
    await words(dut, constant(0), WITHIN)
    for begins in range(BITS):
        seen = await words(dut, coded(begins), WITHIN + 100)
        assert seen[WITHIN:] == [1] * 100
        silence = [constant(0), constant(1), noise(seed)][begins % 3]
        seen = await words(dut, silence, WITHIN + 400)
        assert seen[WITHIN:] == [0] * 400


@cocotb.test()
async def few_wrong_words_are_no_loss(dut):
    Clock(dut.clk, 8, unit="ns").start()
    one = (5,)
    seven = (5, 6, 7, 20, 21, 22, 40)
    await words(dut, coded(0), 2 * WITHIN)
    assert all(await words(dut, coded(0, seven), 400))
    assert not all(await words(dut, coded(0, (*seven, 50, 60)), WITHIN))
    # A signal that comes back has at most one of 64.
    await words(dut, constant(0), WITHIN)
    assert not any((await words(dut, coded(0, seven), 400))[WITHIN:])
    assert not any(await words(dut, coded(0, (5, 40)), 400))
    assert all((await words(dut, coded(0, one), 400))[WITHIN:])


def test_gt_signal():
    simulate(__file__, "crosslane_gt_signal", beside=(boards.FOLDER / "transceivers",))
