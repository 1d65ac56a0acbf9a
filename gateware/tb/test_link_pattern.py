# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_link_generator, crosslane_link_checker: the pattern of docs/torus-link.md, and every
datagram that is lost, doubled or changed is counted as one; those that do not count are not."""

import os
import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from simulate import SEED, simulate

STEP, CHANNEL = 0x9E3779B1, 7
PAYLOAD_BYTES = 256 if os.environ.get("LONG") == "1" else 128
WORDS = PAYLOAD_BYTES // 4

# A datagram: channel, label (kind, tag, index, the lowest bits first), payload.
Datagram = tuple[int, int, bytes]


def datagram(seed: int, number: int) -> Datagram:
    """A datagram of the pattern, as the page has it."""
    words = [(seed + w * STEP) % (1 << 32) for w in range(WORDS * number, WORDS * (number + 1))]
    return CHANNEL, number % 8192 << 8, b"".join(word.to_bytes(4, "little") for word in words)


class Expected:
    """What a checker counts, by the page: `Checker` of crates/torus-link/src/pattern.rs."""

    def __init__(self):
        self.next, self.right, self.wrong = None, 0, 0

    def take(self, one: Datagram) -> None:
        """Counts a datagram."""
        channel, label, payload = one
        index = label >> 8
        words = [
            int.from_bytes(payload[at : at + 4], "little") for at in range(0, PAYLOAD_BYTES, 4)
        ]
        before, wanted = self.next or ((words[0] - STEP) % (1 << 32), index)
        steps = zip([before, *words], words, strict=False)
        is_right = all((b - a) % (1 << 32) == STEP for a, b in steps)
        is_right &= channel == CHANNEL and label & 0xFF == 0 and index == wanted
        self.next = (words[-1], (index + 1) % 8192)
        self.right += is_right
        self.wrong += not is_right


def changed(seed: random.Random, one: Datagram) -> Datagram:
    """A datagram with one field or byte that is wrong."""
    channel, label, payload = one
    at = seed.randrange(PAYLOAD_BYTES)
    wrong = payload[:at] + bytes([payload[at] ^ 1 << seed.randrange(8)]) + payload[at + 1 :]
    return seed.choice(
        [
            (channel ^ 1, label, payload),
            (channel, label ^ 1 << seed.randrange(21), payload),
            *[(channel, label, wrong)] * 4,
        ]
    )


@cocotb.test()
async def all_that_is_wrong_is_found(dut):
    lanes, seed = int(os.environ["LANES"]), random.Random(f"{SEED} pattern")
    Clock(dut.clk, 4, unit="ns").start()
    for name in ("begins", "runs", "s_ready", "m_valid", "anew", "counts"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value, dut.begins.value = 0, 1
    first = seed.getrandbits(32)
    dut.seed.value = first
    await FallingEdge(dut.clk)
    dut.begins.value, dut.runs.value = 0, 1
    made = [await generated(dut, seed, lanes) for _ in range(40)]
    assert made == [datagram(first, number) for number in range(40)]
    assert int(dut.sent.value) == 40
    # Lost, doubled and changed, between runs that are right; the first may be any.
    expected = Expected()
    numbers = [
        8_150 + n
        for n in range(100)
        if seed.random() < 0.9
        for _ in range(seed.choice([1, 1, 1, 2]))
    ]
    for number in numbers:
        one = datagram(first, number)
        one = changed(seed, one) if seed.random() < 0.3 else one
        if seed.random() < 0.2:
            # Repeats and damaged ones come whole or in part, and do not count.
            await check(dut, seed, lanes, changed(seed, one), counts=False)
        if seed.random() < 0.1:
            dut.anew.value = 1
            await FallingEdge(dut.clk)
            dut.anew.value, expected.next = 0, None
        expected.take(one)
        await check(dut, seed, lanes, one)
        counted = (int(dut.right.value), int(dut.wrong.value))
        assert counted == (expected.right, expected.wrong), number
    assert expected.right > 20 and expected.wrong > 20


async def generated(dut, seed: random.Random, lanes: int) -> Datagram:
    """The next datagram out of the generator, with pauses."""
    payload = b""
    while len(payload) < PAYLOAD_BYTES:
        dut.s_ready.value = ready = int(seed.random() < 0.8)
        if ready and int(dut.s_valid.value):
            payload += int(dut.s_data.value).to_bytes(lanes, "little")
            label, channel = int(dut.s_label.value), int(dut.s_channel.value)
        await FallingEdge(dut.clk)
    return channel, label, payload


async def check(dut, seed: random.Random, lanes: int, one: Datagram, counts: bool = True) -> None:
    """Gives a datagram to the checker, which counts it with its last beat or later."""
    channel, label, payload = one
    behind = seed.choice([0, 0, 1, 3])
    size = PAYLOAD_BYTES if counts else seed.randrange(lanes, PAYLOAD_BYTES + 1, lanes)
    for at in range(0, size + lanes * behind, lanes):
        dut.m_valid.value, dut.m_channel.value, dut.m_label.value = int(at < size), channel, label
        dut.m_first.value = int(at == 0)
        dut.counts.value = int(counts and at + lanes == size + lanes * behind)
        dut.m_data.value = int.from_bytes(payload[at : at + lanes], "little")
        await FallingEdge(dut.clk)
    dut.m_valid.value, dut.counts.value = 0, 0
    if seed.random() < 0.5:
        await FallingEdge(dut.clk)


@pytest.mark.parametrize(("lanes", "long"), [(1, 0), (4, 0), (8, 0), (8, 1)])
def test_link_pattern(lanes, long):
    simulate(__file__, "link_pattern", {"LANES": lanes, "LONG": long})
