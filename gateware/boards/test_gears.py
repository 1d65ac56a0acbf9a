# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_ecp5_tx_gear and crosslane_ecp5_rx_gear: no bit is lost or moved, and words stand
still for as long as their heads say, so that the insertion delays of the two clocks may differ."""

import itertools
import os
import random

import boards
import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from packed import part
from simulate import SEED, simulate

BITS = 20
LINES = 2
# Long words of a run, and those at its beginning and end that are not compared.
WORDS, UNSETTLED = 12, 3


def start(dut, name: str) -> tuple[int, random.Random]:
    """Starts the fast clock; returns the slots of a long word, and random numbers."""
    Clock(dut.pclk, 10, unit="ns").start()
    return int(os.environ["SLOTS"]), random.Random(f"{SEED} {name}")


async def until_edge(dut) -> None:
    """Waits until the first half clock of `pclk` behind an edge of `clk`."""
    was_high = True
    while was_high or not int(dut.clk.value):
        was_high = bool(int(dut.clk.value))
        await FallingEdge(dut.pclk)


@cocotb.test()
async def long_words_go_out_without_a_gap(dut):
    slots, seed = start(dut, "tx")
    half = slots // 2
    dut.begins.value = dut.words.value = 0
    # Words change at any clock of `pclk` behind an edge of `clk`, or before the next.
    for late in range(half):
        await until_edge(dut)
        sent = [[seed.getrandbits(BITS * slots) for _ in range(WORDS)] for _ in range(LINES)]
        came = [[] for _ in range(LINES)]
        for clock in range(WORDS * slots):
            # Words of line 1 change half a long word behind those of line 0.
            begins = words = 0
            for line in range(LINES):
                at = clock - late - half * line
                begins |= (at % slots < half) << line
                words |= sent[line][max(0, at // slots) % WORDS] << BITS * slots * line
                came[line].append(part(dut.m_words.value, BITS, line))
            dut.begins.value, dut.words.value = begins, words
            await FallingEdge(dut.pclk)
        for line in range(LINES):
            parts = [part(word, BITS, n) for word in sent[line] for n in range(slots)]
            settled = parts[UNSETTLED * slots : -UNSETTLED * slots]
            begun = came[line].index(settled[0]) if settled[0] in came[line] else 0
            assert came[line][begun : begun + len(settled)] == settled, (late, line)


@cocotb.test()
async def words_come_together_and_stand_still(dut):
    slots, seed = start(dut, "rx")
    # Clocks before an edge of `clk` and behind it in which the long word does not change.
    before = behind = slots // 2
    sent, edges, seen = [], [], []
    was_high = True
    for _ in range(WORDS * slots):
        sent.append(seed.getrandbits(BITS))
        dut.s_word.value = sent[-1]
        await FallingEdge(dut.pclk)
        is_high = bool(int(dut.clk.value))
        if is_high and not was_high:
            edges.append(len(seen))
        was_high = is_high
        seen.append(int(dut.word.value))
    edges = [edge for edge in edges if edge > UNSETTLED * slots and edge + behind <= len(seen)]
    assert len(edges) >= WORDS - UNSETTLED - 2
    assert {now - then for then, now in itertools.pairwise(edges)} == {slots}
    taken = []
    for edge in edges:
        assert len(set(seen[edge - before : edge + behind])) == 1, edge
        taken += [part(seen[edge], BITS, n) for n in range(slots)]
    begun = sent.index(taken[0])
    assert sent[begun : begun + len(taken)] == taken


@pytest.mark.parametrize("slots", [4, 8])
@pytest.mark.parametrize("way", ["tx", "rx"])
def test_gears(way, slots):
    test = {"tx": "long_words_go_out", "rx": "words_come_together"}[way]
    folder = boards.FOLDER / "evn_ecp5"
    simulate(__file__, f"crosslane_ecp5_{way}_gear", {"SLOTS": slots}, tests=test, beside=(folder,))
