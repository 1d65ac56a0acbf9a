# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_link_end: two ends over cables with faults, each beside the reference of crate
`torus-link` (link_bench.py compares every column, datagram and state)."""

import os
import random
import zlib
from collections import Counter

import cocotb
import link_reference
import pytest
from link_bench import CHANNELS, FAULTS, OPERATIONS, begin, columns_of, payload_bytes
from simulate import ALL, SEED, simulate

# Of both ends; times are clocks.
SIZES = {
    "channel_datagrams": 4,
    "queue_datagrams": 2,
    "retry_datagrams": 8,
    "acknowledge_datagrams": 4,
    "steady": 0,
    "long": 0,
}
# Clocks of the cable with the ends' own latency.
ROUND_TRIP = 60


def datagram_clocks(chosen: dict[str, int]) -> int:
    """Clocks of a datagram."""
    return (payload_bytes(chosen["long"]) + 8) // chosen["lanes"]


def sizes(lanes: int, **others: int) -> dict[str, int]:
    """Sizes and times that fit the wire, as `EndParameters::for_wire` has them."""
    datagram = datagram_clocks({"lanes": lanes, **SIZES, **others})
    chosen = {"lanes": lanes, **SIZES}
    within = 6 * datagram
    round_trip = 7 * datagram + ROUND_TRIP
    chosen |= {"acknowledge_within": within, "retry_timeout": 2 * (round_trip + within)}
    return chosen | {"refresh": 8 * 4 * datagram + 2 * round_trip} | others


def of_run() -> dict[str, int]:
    """The sizes of this simulation."""
    return {name: int(os.environ[name.upper()]) for name in sizes(8)}


def cases(few: int) -> int:
    """Number of random cases: with GATEWARE_ALL ten times as many, else less on few lanes, where a
    datagram takes more clocks."""
    return 10 * few if ALL else -(-few * of_run()["lanes"] // 8)


def is_thorough() -> bool:
    """Whether everything must have happened: so many cases there are, or so CI's seed has them."""
    return ALL or (SEED == 1 and of_run()["lanes"] == 8)


async def prepared(dut, which: str):
    """Both ends up, and random numbers of this test."""
    chosen, seed = of_run(), random.Random(f"{SEED} {which}")
    bench, pair = await begin(dut, chosen, seed)
    pair.up(0, 1)
    await bench.step(2)
    return bench, pair, seed, datagram_clocks(chosen)


async def all_comes(bench, pair, clocks: int):
    """Runs until everything has been delivered and nothing more is said."""
    await bench.until(lambda: pair.is_done, clocks)
    for end in pair.ends:
        assert end.taken_count == sum(pair.ends[1 - end.number].numbers)
    pair.close()


@cocotb.test()
async def everything_comes_once_and_in_order(dut):
    bench, pair, seed, datagram = await prepared(dut, "clean")
    for _ in range(cases(4)):
        for end in pair.ends:
            end.to_send = [seed.randrange(4) for _ in range(CHANNELS)]
            end.source_pause, end.sink_pause = seed.choice([0, 0.5]), seed.choice([0, 0.9])
            end.tx_pause = seed.choice([0, 0.3])
        await bench.until(lambda: pair.is_done, 400 * datagram)
    for n in range(2):
        counters = pair.counters(n)
        assert [counters[name] for name in ("damaged", "repeated", "nacks", "stale")] == [0] * 4
        assert counters["sent"] == sum(pair.ends[n].numbers)
    await all_comes(bench, pair, 1)


@cocotb.test()
async def faults_in_every_kind_of_frame(dut):
    bench, pair, seed, datagram = await prepared(dut, "faults")
    names = ["datagram", *OPERATIONS.values()]
    for case in range(cases(10)):
        busy = seed.choice([2, 2, 5])
        for end in pair.ends:
            end.to_send = [seed.randrange(busy) for _ in range(CHANNELS)]
            end.sink_pause = seed.choice([0, 0.9])
            end.cable.odds = {name: seed.choice([0, 0.1, 0.3]) for name in names}
            # There are few of these.
            end.cable.odds |= {name: seed.choice([0, 0.7]) for name in ("COUNT", "CONFIRM")}
            end.cable.idle_odds = seed.choice([0, 0, 0.002])
            end.cable.faults = FAULTS
            if case == 0:
                # Without any ACK all is sent again that has come.
                end.cable.odds, end.cable.idle_odds, end.cable.faults = {"ACK": 1}, 0, ("vanish",)
        await bench.step(100 * datagram)
        for end in pair.ends:
            end.cable.odds, end.cable.idle_odds = {}, 0
        await bench.until(lambda: pair.is_done, 1_000 * datagram)
    seen = sum((end.cable.seen for end in pair.ends), Counter())
    if is_thorough():
        assert {name for name, _ in seen} == set(names), seen
        assert {fault for _, fault in seen} == set(FAULTS), seen
        assert_counted(pair, "damaged nacks restarts repeated doubles discarded timeouts")
    await all_comes(bench, pair, 1)


@cocotb.test()
async def links_that_drop_lose_nothing(dut):
    bench, pair, seed, datagram = await prepared(dut, "drops")
    for _ in range(cases(4)):
        for end in pair.ends:
            end.to_send = [left + seed.randrange(3) for left in end.to_send]
            end.cable.odds = {"datagram": seed.choice([0, 0.1])}
        await bench.step(seed.randrange(20 * datagram))
        pair.cut()
        await bench.step(2 * datagram)
        first = seed.randrange(2)
        pair.up(first)
        await bench.step(seed.randrange(4 * datagram))
        pair.up(1 - first)
    for end in pair.ends:
        end.cable.odds = {}
    await all_comes(bench, pair, 1_000 * datagram)


@cocotb.test()
async def a_channel_without_credit_stops_no_other(dut):
    bench, pair, _, datagram = await prepared(dut, "credits")
    for end in pair.ends:
        end.to_send = [0, 3 * SIZES["channel_datagrams"], 9, 0, 0, 0, 0, 0]
        end.holds = 1 << 1
    await bench.step(40 * datagram)
    for n, end in enumerate(pair.ends):
        # All of channel 2, of channel 1 the receive buffer's size.
        assert pair.counters(n)["sent"] == 9 + SIZES["channel_datagrams"]
        assert end.taken_count == 9
        end.holds = 0
    await all_comes(bench, pair, 400 * datagram)


def assert_counted(pair, names: str) -> None:
    """Asserts that one of the ends at least has counted each of these."""
    totals = [pair.counters(n) for n in range(2)]
    for name in names.split():
        assert sum(one[name] for one in totals) > 0, (name, totals)


def framed(content: bytes, lanes: int) -> list:
    """The columns of a frame with a good CRC."""
    return columns_of(content + zlib.crc32(content).to_bytes(4, "little"), lanes)


def made_up(seed, expected: int, pair) -> list:
    """A frame with a good CRC that need not make sense."""
    near = (
        expected + seed.choice([-2, -1, 0, 0, 0, 1, 2, 127, 128, 129, seed.getrandbits(8)])
    ) % 256
    if seed.random() < 0.4:
        word = near | seed.choice([1, 1, 1, 4]) << 8 | seed.getrandbits(21) << 11
        content = word.to_bytes(4, "little") + seed.randbytes(pair.payload_bytes)
    else:
        count = seed.choice([0, 0, 1, 2, seed.getrandbits(10)])
        word = 0x5C | seed.choice([seed.choice([0, 6, 7]), *[1, 2, 4, 5] * 2, *[3] * 6]) << 8
        word |= near << 11 | seed.choice([1, 4]) << 19 | count << 22
        content = word.to_bytes(4, "little")
    return framed(content, pair.lanes)


@cocotb.test()
async def an_end_that_breaks_the_rules_breaks_nothing_here(dut):
    bench, pair, seed, datagram = await prepared(dut, "rules")
    pair.injects = True
    # Nothing is freed while datagrams come without credit.
    for end in pair.ends:
        end.to_send, end.holds = [0, 5, 0, 0, 2, 0, 0, 0], 0xFF
    for _ in range(cases(150)):
        for n in range(2):
            expected = int(dut.expected.value) >> 8 * n & 0xFF
            pair.injected[n].extend(made_up(seed, expected, pair))
        await bench.until(lambda: not any(pair.injected), 2 * datagram)
        await bench.step(seed.choice([2, 2, 3, datagram]))
    # All that was delivered is as it came.
    for end in pair.ends:
        end.holds = 0
    await bench.step(8 * (SIZES["channel_datagrams"] + 1) * datagram)
    assert not any(queue for end in pair.ends for queue in end.delivered)
    if is_thorough():
        assert_counted(pair, "stale doubles discarded delivered overruns damaged")
    pair.close()


@cocotb.test()
async def a_confirm_of_another_count_confirms_nothing(dut):
    bench, pair, _, datagram = await prepared(dut, "confirm")
    pair.ends[0].to_send = [0, 1, 0, 0, 0, 0, 0, 0]
    await bench.until(lambda: pair.ends[1].taken_count == 1, 20 * datagram)
    # The count has been told. From now on end 1 hears only what is made up: it asks again and
    # again, which each of its columns is compared for.
    await bench.step(8 * datagram)
    pair.injects = True
    for count in (0, 1):
        confirm = 0x5C | 5 << 8 | 1 << 19 | count << 22
        pair.injected[1].extend(framed(confirm.to_bytes(4, "little"), pair.lanes))
        await bench.step(of_run()["refresh"] + 8 * datagram)
    pair.close()


@cocotb.test()
async def full_rate(dut):
    bench, pair, _, datagram = await prepared(dut, "rate")
    counted = {}
    for name, senders in (("one way", [0]), ("both ways", [0, 1])):
        for n in senders:
            pair.ends[n].to_send = [40] * CHANNELS
        await bench.step(30 * datagram)
        before = pair.counters(0)["sent"]
        await bench.step(100 * datagram)
        counted[name] = pair.counters(0)["sent"] - before
        for end in pair.ends:
            end.to_send = [0] * CHANNELS
        await bench.until(lambda: pair.is_done, 200 * datagram)
    # Skip sets of this bench, and an ACK (8 B) for each four datagrams (136 B) of the other way.
    assert counted["one way"] >= 98
    assert counted["both ways"] >= 96
    await all_comes(bench, pair, 1)


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_torus_link(lanes):
    chosen = sizes(lanes)
    if lanes == 1:
        # Other sizes as well: not a power of two, and times that are too short.
        chosen |= {"retry_datagrams": 5, "acknowledge_datagrams": 3, "acknowledge_within": 0}
    run(chosen)


@pytest.mark.parametrize("lanes", [8])
def test_torus_link_rate(lanes):
    run(sizes(lanes, retry_datagrams=32, channel_datagrams=16), "full_rate")


@pytest.mark.parametrize("lanes", [1, 4, 8] if ALL else [8])
def test_torus_link_steady(lanes):
    """Datagrams without pauses, which are sent while they come."""
    tests = "^(?!.*full_rate)" if ALL else "everything|drop"
    run(sizes(lanes, steady=1), tests)


@pytest.mark.parametrize("lanes", [1, 4, 8] if ALL else [8])
def test_torus_link_long(lanes):
    """Datagrams of 256 B."""
    run(sizes(lanes, long=1), "^(?!.*full_rate)" if ALL else "faults|rules")


def test_torus_link_long_rate():
    run(sizes(8, retry_datagrams=32, channel_datagrams=16, long=1), "full_rate")


def run(chosen: dict[str, int], tests: str = "^(?!.*full_rate)") -> None:
    """Simulates a pair of these sizes."""
    parameters = {name.upper(): value for name, value in chosen.items()}
    # Its sources decide whether the run is remembered.
    environment = {"LINK_REFERENCE": link_reference.key()}
    simulate(__file__, "link_pair", parameters, tests=tests, environment=environment)
