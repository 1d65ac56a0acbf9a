# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_link_deskew: line bits that begin anywhere in a word, with skew, errors, slips and
lanes without a signal come out as the columns of crate `torus-link`, symbol by symbol."""

import os
import random

import cocotb
import link_reference
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from simulate import ALL, SEED, simulate

COMMA, SKIP, IDLE = 0xBC, 0x1C, 0x7C
MAX_SKEW = 7
# Clocks from a word to its columns, less one.
DELAY = 3


class Codes:
    """The encoder of a lane."""

    table: dict[tuple[int, int, int], tuple[int, int]] = {}

    def __init__(self):
        self.positive = 0
        if not Codes.table:
            lines = link_reference.codes("encode")
            Codes.table.update({line[:3]: line[3:5] for line in lines})

    def bits(self, control: int, byte: int) -> str:
        """The ten line bits of a symbol, the first one first."""
        code, self.positive = Codes.table[self.positive, control, byte]
        return f"{code:010b}"


def columns(seed: random.Random, count: int) -> list[tuple[int, int]]:
    """Symbols of a training sequence: sets, skip sets and idle columns (of one lane)."""
    found: list[tuple[int, int]] = []
    while len(found) < count:
        found.append((1, COMMA))
        if seed.random() < 0.2:
            found += [(1, SKIP)] * seed.randrange(4)
        else:
            found += [(0, seed.randrange(256)) for _ in range(15)]
        found += [(1, IDLE)] * seed.choice([0, 0, 0, 1, 5])
    return found[:count]


def line(seed: random.Random, symbols: list[tuple[int, int]], delay: int, faults: float) -> str:
    """The bits of a lane: behind others that mean nothing, with errors and slips."""
    codes = Codes()
    bits = "".join(codes.bits(*symbol) for symbol in symbols)
    found = ("01" * delay)[:delay]
    at = 0
    while faults and at < len(bits):
        step = int(seed.expovariate(faults)) + 1
        found += bits[at : at + step]
        at += step
        # A wrong bit, a bit lost, a bit doubled, a symbol lost, a symbol doubled.
        kind = seed.choice("fffffldSD")
        here = bits[at : at + 1]
        if kind == "f":
            found += "1" if here == "0" else "0"
            at += 1
        elif kind == "l":
            at += 1
        elif kind == "d":
            found += here
        elif kind == "S":
            at += 10
        else:
            found += bits[at : at + 10]
    return found + bits[at:]


@cocotb.test()
async def columns_are_those_of_the_reference(dut):
    lanes, size = int(os.environ["LANES"]), int(os.environ["SYMBOLS"])
    seed = random.Random(f"{SEED} align")
    Clock(dut.clk, 4, unit="ns").start()
    dut.rst.value, dut.realign.value = 1, 0
    dut.detected.value, dut.words.value = 0, 0
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    said, found, aligned = [], [], 0
    for case in range(60 if ALL else 12):
        # At the limit of skew, within it, and past it.
        skew = [MAX_SKEW * 10, 35, 0, MAX_SKEW * 10 + 10][case % 4] if lanes > 1 else 0
        symbols = columns(seed, 300)
        delays = [seed.randrange(skew + 1) for _ in range(lanes)]
        if lanes > 1:
            delays[seed.randrange(lanes)] = 0
            delays[delays.index(max(delays))] = skew
        faults = 0 if case < 4 else seed.choice([0, 0.002, 0.02])
        bits = [line(seed, symbols, 13 + delay, faults) for delay in delays]
        count = min(map(len, bits)) // (10 * size)
        before = len(found)
        silent = seed.choice([[], [seed.randrange(lanes)], range(lanes)])
        silence = range(0, 0) if case < 4 else range(10, 10 + seed.randrange(1, 20))
        for at in range(-1, count):
            # A pulse first: alignment begins anew; the word beside it is lost.
            dut.realign.value = int(at < 0)
            word = detected = 0
            texts = ["" for _ in range(size)]
            for lane in range(lanes):
                has_signal = not (at in silence and lane in silent)
                detected |= has_signal << lane
                for s in range(size):
                    ten = bits[lane][max(at, 0) * 10 * size + 10 * s :][:10]
                    code = int(ten, 2)
                    word |= code << 10 * (lane * size + s)
                    texts[s] += f"{code:03x}" if has_signal else "---"
            dut.words.value, dut.detected.value = word, detected
            said += ["r"] if at < 0 else texts
            await FallingEdge(dut.clk)
            found.append((int(dut.present.value), int(dut.columns.value)))
        is_aligned = any(present for present, _ in found[before + DELAY + 2 :])
        aligned += is_aligned
        if case < 4:
            assert is_aligned == (skew <= MAX_SKEW * 10), "up to the limit of skew, not past it"
    answers = link_reference.lanes(f"align {lanes}", said)
    compare(answers, said, found, lanes, size)
    assert (SEED != 1 and not ALL) or aligned > 4, "some align in spite of faults"


def compare(answers, said, found, lanes: int, size: int) -> None:
    """Compares the words of all clocks with the reference's columns."""
    wanted: list[list[str]] = []
    answer = iter(zip(answers, said, strict=True))
    for one, line_said in answer:
        if line_said == "r":
            # Columns still on their way when alignment begins anew do not come out.
            wanted[-DELAY:] = [["-"] * size for _ in wanted[-DELAY:]]
            wanted.append(["-"] * size)
        else:
            wanted.append([one, *(next(answer)[0] for _ in range(size - 1))])
    for n, (present, value) in enumerate(found[DELAY:]):
        shown = []
        for s in range(size):
            symbols = [value >> 10 * (s * lanes + lane) & 0x3FF for lane in range(lanes)]
            texts = [
                "200" if symbol >> 9 else f"{symbol >> 8 & 1}{symbol & 0xFF:02x}"
                for symbol in symbols
            ]
            shown.append("".join(texts) if present >> s & 1 else "-")
        assert shown == wanted[n], f"clock {n}"


@pytest.mark.parametrize(("lanes", "symbols"), [(8, 2), (4, 4), *([(1, 2)] if ALL else [])])
def test_link_align(lanes, symbols):
    environment = {"LINK_REFERENCE": link_reference.key()}
    parameters = {"LANES": lanes, "SYMBOLS": symbols}
    simulate(__file__, "crosslane_link_deskew", parameters, environment=environment)
