# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_link_block_deskew, crosslane_link_row_columns: line bits of 64b/66b lanes come out as
rows, and rows as columns, as those of crate `torus-link`, block by block and column by column."""

import os
import random

import cocotb
import link_reference
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer
from simulate import ALL, SEED, simulate

BITS, MASK = 66, (1 << 66) - 1
DATA, CONTROL = 0b10, 0b01
COMMAND, IDLE, SKIP, SET = 0x5C, 0x7C, 0x1C, 0xBC
SET_ROWS = 4
# Clocks from a word to its row.
DELAY = 2

# The two header bits, the first one lowest, and the payload.
Block = tuple[int, int]


def scrambled(blocks: list[Block], state: int) -> str:
    """The line bits of a lane, the first one first, by the definition of docs/torus-link.md."""
    line = [state >> n & 1 for n in range(58)]
    found = []
    for header, payload in blocks:
        found += [header & 1, header >> 1]
        for at in range(64):
            bit = (payload >> at & 1) ^ line[-39] ^ line[-58]
            line.append(bit)
            found.append(bit)
    return "".join(map(str, found))


def rows(seed: random.Random, lanes: int, count: int, sets: int) -> list[list[Block]]:
    """Rows of training sets, so many, then rows of all kinds."""
    found: list[list[Block]] = []
    while len(found) < count:
        kind = seed.choice(["set", "set", "frames", "skip", "odd"])
        if kind == "set" or len(found) < sets:
            found.append([(CONTROL, SET | seed.getrandbits(56) << 8) for _ in range(lanes)])
            found += [
                [(DATA, seed.getrandbits(64)) for _ in range(lanes)] for _ in range(SET_ROWS - 1)
            ]
        elif kind == "skip":
            found.append([(CONTROL, SKIP)] * lanes)
        elif kind == "frames":
            found += [[frame_block(seed) for _ in range(lanes)] for _ in range(seed.randrange(9))]
        else:
            # A set or a skip row with a block that is none of it, in any lane.
            row = [(CONTROL, seed.choice([SKIP, SET]))] * lanes
            row[seed.randrange(lanes)] = seed.choice(
                [(CONTROL, IDLE), (DATA, SET), frame_block(seed)]
            )
            found.append(row)
    return found[:count]


def frame_block(seed: random.Random) -> Block:
    """A block between frames or within one, right or not."""
    return seed.choice(
        [
            (DATA, seed.getrandbits(64)),
            (DATA, seed.getrandbits(64)),
            (CONTROL, COMMAND | seed.getrandbits(56) << 8),
            (CONTROL, IDLE),
            (CONTROL, IDLE | 1 << seed.randrange(8, 64)),
            (CONTROL, SKIP),
            (CONTROL, seed.getrandbits(64)),
        ]
    )


def with_faults(seed: random.Random, bits: str, faults: float) -> str:
    """A lane with wrong, lost and doubled bits and blocks, so many in a bit."""
    found, at = "", 0
    while faults and at < len(bits):
        step = int(seed.expovariate(faults)) + 1
        found += bits[at : at + step]
        at += step
        kind = seed.choice("ffffffffldBD")
        here = bits[at : at + 1]
        if kind == "f":
            found += "1" if here == "0" else "0"
            at += 1
        elif kind in "lB":
            at += 1 if kind == "l" else BITS
        else:
            found += here if kind == "d" else bits[at : at + BITS]
    return found + bits[at:]


async def begun(dut, **inputs: int) -> None:
    """Resets the module."""
    Clock(dut.clk, 4, unit="ns").start()
    dut.rst.value = 1
    for name, value in inputs.items():
        getattr(dut, name).value = value
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = 0


def shown_block(value: int) -> str:
    """A block of the gateware as the reference shows it."""
    if value >> 65:
        return "e"
    payload = (value & (1 << 64) - 1).to_bytes(8, "little").hex()
    return ("c" if value >> 64 & 1 else "d") + payload


@cocotb.test()
async def rows_are_those_of_the_reference(dut):
    lanes, seed = int(os.environ["LANES"]), random.Random(f"{SEED} rows")
    await begun(dut, realign=0, detected=0, words=0)
    said, found, aligned = [], [], 0
    for case in range(40 if ALL else 10):
        # At the limit of skew, within it, and past it.
        skew = [BITS, 20, 0, 2 * BITS][case % 4] if lanes > 1 else 0
        sent = rows(seed, lanes, 420, 420 if case < 4 else 200)
        delays = [seed.randrange(skew + 1) for _ in range(lanes)]
        if lanes > 1:
            delays[seed.randrange(lanes)] = 0
            delays[delays.index(max(delays))] = skew
        faults = 0 if case < 4 else seed.choice([0, 0.00001, 0.0001])
        bits = []
        for lane, delay in enumerate(delays):
            line = scrambled([row[lane] for row in sent], seed.getrandbits(58))
            bits.append(("01" * 200)[: 60 + delay] + with_faults(seed, line, faults))
        before = len(found)
        silent = seed.choice([[], [seed.randrange(lanes)], range(lanes)])
        silence = range(0, 0) if case < 4 else range(300, 300 + seed.randrange(1, 20))
        for at in range(min(map(len, bits)) // BITS):
            # It begins anew with each case, and once between.
            realigns = (case > 0 and at == 0) or (case > 3 and at == 250)
            word = detected = 0
            texts = []
            for lane in range(lanes):
                here = int(bits[lane][at * BITS : (at + 1) * BITS][::-1], 2)
                has_signal = not (at in silence and lane in silent)
                detected |= has_signal << lane
                word |= here << BITS * lane
                texts.append(f"{here:x}" if has_signal else "-")
            dut.realign.value, dut.words.value, dut.detected.value = int(realigns), word, detected
            said.append("r " * realigns + " ".join(texts))
            await FallingEdge(dut.clk)
            blocks = int(dut.blocks.value)
            row = [shown_block(blocks >> BITS * lane & MASK) for lane in range(lanes)]
            present = int(dut.present.value)
            found.append(f"{int(dut.is_aligned.value)} {' '.join(row) if present else '-'}")
        is_deskewed = found[-1][2:] != "-"
        aligned += is_deskewed
        if case < 4:
            assert any(line[0] == "1" for line in found[before:])
            assert is_deskewed == (skew <= BITS), "up to the limit of skew, not past it"
    answers = link_reference.lanes(f"align-blocks {lanes}", said)
    for n, (shown, wanted) in enumerate(zip(found[DELAY - 1 :], answers, strict=False)):
        assert shown == wanted, f"clock {n}"
    assert (SEED != 1 and not ALL) or aligned > 4, "some align in spite of faults"


@cocotb.test()
async def columns_are_those_of_the_reference(dut):
    lanes, seed = int(os.environ["LANES"]), random.Random(f"{SEED} columns")
    await begun(dut, restart=0, row_valid=0, row_aligned=1, row_present=1, row_blocks=0)
    said: list[str] = []
    found: list[str] = []
    sent = rows(seed, lanes, 2_000 if ALL else 500, 0)
    dropped: set[int] = set()
    waits, skips = 0.0, 0
    for n, row in enumerate(sent):
        if n % 50 == 0:
            waits = seed.choice([0, 0.5, 0.95])
        while seed.random() < waits:
            dut.row_valid.value = 0
            await FallingEdge(dut.clk)
            take(dut, said, found, dropped)
        value, texts = 0, []
        for lane, (header, payload) in enumerate(row):
            error = seed.random() < 0.02
            control = header == CONTROL
            block = error << 65 | control << 64 | payload
            value |= block << BITS * lane
            texts.append(shown_block(block))
        dut.row_valid.value, dut.row_blocks.value = 1, value
        skips += all(text == shown_block(1 << 64 | SKIP) for text in texts)
        while True:
            # `row_ready` of this clock depends on `row_valid`.
            await Timer(1, unit="ns")
            ready = int(dut.row_ready.value)
            await FallingEdge(dut.clk)
            take(dut, said, found, dropped)
            if ready:
                break
        said.append(" ".join(texts))
    dut.row_valid.value = 0
    for _ in range(12):
        await FallingEdge(dut.clk)
        take(dut, said, found, dropped)
    answers = link_reference.lanes(f"columns {lanes}", said)
    wanted = [
        (column, row)
        for n, (answer, row) in enumerate(zip(answers, said, strict=True))
        for column in answer.split()
        if column != "-" and n not in dropped
    ]
    for at, (column, (expected, row)) in enumerate(zip(found, wanted, strict=False)):
        assert column == expected, f"column {at}, of row {row}"
    assert len(found) == len(wanted)
    assert 0 < len(dropped) < skips, "of skip rows some have another row behind them"


def take(dut, said: list[str], found: list[str], dropped: set[int]) -> None:
    """Takes the column of a clock, or the number of a row that is dropped."""
    lanes = int(os.environ["LANES"])
    if int(dut.dropped.value):
        # It is the last that was taken: the next one is taken in the clock of its dropping.
        dropped.add(len(said) - 1)
    if int(dut.column_valid.value):
        symbols, control = int(dut.column_symbols.value), int(dut.column_control.value)
        error = int(dut.column_error.value)
        texts = [
            "200" if error >> lane & 1 else f"{control >> lane & 1}{symbols >> 8 * lane & 0xFF:02x}"
            for lane in range(lanes)
        ]
        found.append("".join(texts))


@cocotb.test()
async def rows_that_follow_each_other_take_eight_clocks(dut):
    lanes = int(os.environ["LANES"])
    await begun(dut, restart=0, row_valid=1, row_aligned=1, row_present=1, row_blocks=0)
    idle = sum((1 << 64 | IDLE) << BITS * lane for lane in range(lanes))
    skip = sum((1 << 64 | SKIP) << BITS * lane for lane in range(lanes))
    taken, clocks = 0, 0
    while taken < 90:
        dut.row_blocks.value = skip if taken % 30 == 29 else idle
        await FallingEdge(dut.clk)
        taken += int(dut.row_ready.value)
        clocks += 1
    # A skip row with another behind it takes one clock: seven more for a faster end.
    assert 87 * 8 + 3 - 8 <= clocks <= 87 * 8 + 3 + 8


@pytest.mark.parametrize("lanes", [8, 4, 1] if ALL else [8, 1])
def test_link_block_deskew(lanes):
    run("crosslane_link_block_deskew", lanes, "rows_are")


@pytest.mark.parametrize("lanes", [8, 4, 1])
def test_link_row_columns(lanes):
    run("crosslane_link_row_columns", lanes, "columns_are|take_eight")


def run(top: str, lanes: int, tests: str) -> None:
    """Simulates a module."""
    environment = {"LINK_REFERENCE": link_reference.key()}
    simulate(__file__, top, {"LANES": lanes}, tests=tests, environment=environment)
