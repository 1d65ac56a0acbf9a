# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_link_turns: each lane gets its symbols wherever columns begin in the words of a line;
runs of commas that are too long or come once elsewhere change nothing, two elsewhere do."""

import os
import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from packed import part
from simulate import SEED, simulate

# 0011111010 as sent: bit 0 is the first.
COMMA = 0b0101111100
# None of these makes a comma with its neighbours.
DATA = (0b0101010101, 0b0110010101)
# Words until a column that has come is found, and until its words are there.
FINDS, PASSES = 5, 2


class Line:
    """Columns of a line as bits, and the words of a receiver that begin `offset` bits later."""

    def __init__(self, lanes: int, seed: random.Random) -> None:
        self.lanes, self.random = lanes, seed
        self.columns: list[list[int]] = []

    def data(self, count: int) -> None:
        """Columns of symbols that are no commas, nor have some across their borders."""
        for _ in range(count):
            self.columns.append([self.random.choice(DATA) for _ in range(self.lanes)])

    def commas(self, first: int = 0, count: int | None = None) -> None:
        """Commas in a row in otherwise common columns, from a lane of the next column on."""
        count = self.lanes if count is None else count
        begins = len(self.columns)
        self.data(-(-(first + count) // self.lanes))
        for n in range(first, first + count):
            self.columns[begins + n // self.lanes][n % self.lanes] = COMMA

    def words(self, offset: int) -> list[int]:
        """Words of two columns' bits; `offset` bits of other things come first."""
        bits, at = 0, offset
        for column in self.columns:
            for symbol in column:
                bits |= symbol << at
                at += 10
        size = 20 * self.lanes
        return [bits >> size * n & (1 << size) - 1 for n in range(at // size)]


async def shown(dut, words: list[int], lanes: int) -> list[list[int] | None]:
    """Columns that the lanes get while words come, None for two without a column found."""
    found: list[list[int] | None] = []
    for word in words:
        dut.s_word.value = word
        await FallingEdge(dut.clk)
        if int(dut.found.value) == 0:
            found.append(None)
            continue
        symbols = [part(dut.words.value, 20, lane) for lane in range(lanes)]
        found += [[symbol >> 10 * s & 0x3FF for symbol in symbols] for s in range(2)]
    return found


async def begun(dut) -> None:
    """A clock and a reset."""
    Clock(dut.clk, 8, unit="ns").start()
    dut.rst.value, dut.detected.value, dut.again.value, dut.s_word.value = 1, 0, 0, 0
    for _ in range(2):
        await FallingEdge(dut.clk)
    dut.rst.value, dut.detected.value = 0, 1


def is_within(columns: list[list[int]], line: Line) -> bool:
    """Whether columns are some in a row of the line."""
    places = range(len(line.columns) - len(columns) + 1)
    return any(line.columns[n : n + len(columns)] == columns for n in places)


@cocotb.test()
async def columns_are_found_at_each_bit(dut):
    lanes = int(os.environ["LANES"])
    await begun(dut)
    for offset in range(20 * lanes):
        seed = random.Random(f"{SEED} turns {offset}")
        line = Line(lanes, seed)
        line.data(seed.randrange(2, 6))
        line.commas()
        line.data(24)
        # The signal has gone in between.
        dut.detected.value = 0
        assert (await shown(dut, [0] * 4, lanes))[-1] is None
        dut.detected.value = 1
        got = await shown(dut, line.words(offset), lanes)
        columns = [column for column in got if column is not None]
        # All from `FINDS` words behind the commas.
        assert len(columns) >= 24 - 2 * (FINDS + PASSES), (offset, got)
        assert is_within(columns, line), offset


@cocotb.test()
async def only_runs_of_the_right_length_count(dut):
    lanes = int(os.environ["LANES"])
    seed = random.Random(f"{SEED} runs")
    await begun(dut)
    line = Line(lanes, seed)
    for count in (lanes - 1, lanes + 1, 2 * lanes):
        line.data(3)
        line.commas(0, count)
    line.data(12)
    assert set(map(str, await shown(dut, line.words(7), lanes))) == {"None"}


@cocotb.test()
async def a_column_elsewhere_counts_twice(dut):
    lanes = int(os.environ["LANES"])
    seed = random.Random(f"{SEED} elsewhere")
    await begun(dut)
    # One elsewhere, one here, in turn: nothing changes.
    line = Line(lanes, seed)
    line.data(2)
    line.commas()
    line.data(9)
    for _ in range(4):
        line.commas(first=1)
        line.data(9)
        line.commas()
        line.data(9)
    got = await shown(dut, line.words(13), lanes)
    first = next(n for n, column in enumerate(got) if column is not None)
    assert None not in got[first:]
    assert is_within(got[first:], line)
    # Two elsewhere in a row: it is looked for anew, and the next one elsewhere is the column.
    line = Line(lanes, seed)
    for _ in range(2):
        line.commas(first=1)
        line.data(13)
    lost = await shown(dut, line.words(13), lanes)
    assert lost[-1] is None
    moved = Line(lanes, seed)
    moved.data(2)
    moved.commas()
    moved.data(20)
    got = await shown(dut, moved.words(23), lanes)
    columns = [column for column in got if column is not None]
    assert len(columns) >= 6 and is_within(columns, moved)
    # And so when it is asked for.
    dut.again.value = 1
    await FallingEdge(dut.clk)
    dut.again.value = 0
    assert (await shown(dut, [0] * 3, lanes))[-1] is None


@pytest.mark.parametrize("lanes", [4, 8])
def test_link_turns(lanes):
    simulate(__file__, "crosslane_link_turns", {"LANES": lanes})
