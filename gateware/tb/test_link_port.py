# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_link_port: two ports over cables of bits, with clocks of their own. Every datagram
comes once and in order, and in each clock of all tests the training of both ports is that of crate
`torus-link`, and so is every row of 64b/66b that they send (`tops/link_ports.sv` writes both
down)."""

import os
import random

import cocotb
import link_bench
import link_reference
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotb.utils import get_sim_time
from link_bench import ACKNOWLEDGE, COMMAND_BYTES, of_wire
from link_traces import CHANNEL_DATAGRAMS, compare_sent, compare_training
from packed import part
from simulate import ALL, SEED, simulate

CHANNELS = 8
DISABLED, ALIGN, CONFIRM, UP, FAILED = range(5)
PERIOD_PS = 40_000
PPM_PS = PERIOD_PS * 300 // 1_000_000
BLOCKS = os.environ.get("BLOCKS") == "1"
# Seven symbols, or a row.
MAX_SKEW_BITS = 66 if BLOCKS else 70
# Alignment takes 64 rows at least, of eight clocks each.
PATIENCE = 8 if BLOCKS else 1
OVERHEAD_BYTES = 8


class Ports(link_bench.Ports):
    """Both ports, their cable and their traffic."""

    def __init__(self, dut, seed: random.Random):
        super().__init__(dut, int(os.environ["LANES"]))
        self.seed, self.symbols = seed, int(os.environ["SYMBOLS"])
        self.delays = [[40] * self.lanes, [40] * self.lanes]
        self.sessions = [seed.randrange(1 << 16), seed.randrange(1 << 16)]

    async def begin(self, ppm: tuple[int, int] = (0, 0), enable: bool = True) -> None:
        """Resets both ports, with clocks that differ from the nominal one, and enables them."""
        self.clocks = [
            Clock(clock, PERIOD_PS + PPM_PS * ppm[n] // 300, unit="ps")
            for n, clock in enumerate((self.dut.clk_0, self.dut.clk_1))
        ]
        for name in ("retrain", "is_cut", "is_noisy", "error_odds", "active", "ends"):
            self.drive(name, 0, 0)
        self.drive("accepts", 255, 255)
        self.drive("enable", 0, 0)
        self.drive("rst", 1, 1)
        self.drive("first_session", *self.sessions)
        for n in range(2):
            self.lane_delays(n, self.delays[n])
        self.dut.clk_0.value = self.dut.clk_1.value = self.dut.flush.value = 0
        for clock in self.clocks:
            clock.start()
        await self.step(10)
        self.drive("rst", 0, 0)
        await self.step(20)
        if enable:
            self.drive("enable", 1, 1)

    async def step(self, clocks: int) -> None:
        """Lets clocks of port 0 go by."""
        await ClockCycles(self.dut.clk_0, clocks, rising=False)

    async def until(self, condition, clocks: int) -> int:
        """Waits for a condition, which must hold within these clocks (of 64b/66b eight times as
        many); about how long it took."""
        for waited in range(0, clocks * PATIENCE, 16):
            if condition():
                return waited
            await self.step(16)
        raise AssertionError(f"not within {clocks * PATIENCE} clocks: state {self.states()}")

    def are_up(self) -> bool:
        """Whether both ports are up."""
        return self.states() == [UP, UP]

    def damaged(self, number: int) -> int:
        """Damaged frames that a port has counted."""
        vector = part(self.dut.counters.value, 32 * len(link_reference.COUNTERS), number)
        return part(vector, 32, link_reference.COUNTERS.index("damaged"))

    def lane_errors(self, number: int) -> list[int]:
        """Symbols with errors of each lane of a port."""
        vector = part(self.dut.lane_errors.value, 32 * self.lanes, number)
        return [part(vector, 32, lane) for lane in range(self.lanes)]

    def datagrams(self, name: str, number: int) -> list[int]:
        """Datagrams of each channel that a port has sent, or taken."""
        vector = part(getattr(self.dut, name).value, 32 * CHANNELS, number)
        return [part(vector, 32, channel) for channel in range(CHANNELS)]

    async def all_comes(self) -> list[int]:
        """Ends the traffic; all of it must come, once and in order. Returns how much has."""
        self.drive("ends", 1, 1)

        def is_done():
            pairs = [(self.datagrams("sent", n), self.datagrams("taken", 1 - n)) for n in range(2)]
            return all(one == other for one, other in pairs) and int(self.dut.is_settled.value) == 3

        # Both ends are known to agree a few times `refresh` later.
        await self.until(is_done, 4 * int(os.environ["REFRESH"]) + 8_000)
        await self.step(100)
        assert is_done()
        assert int(self.dut.wrong.value) == 0
        self.drive("ends", 0, 0)
        return [sum(self.datagrams("taken", n)) for n in range(2)]

    async def reset(self, number: int) -> None:
        """Resets a port alone."""
        self.sessions[number] = (self.sessions[number] + 1) % (1 << 16)
        self.drive("first_session", *self.sessions)
        self.drive("rst", number == 0, number == 1)
        await self.step(10)
        self.drive("rst", 0, 0)

    async def end(self) -> None:
        """Compares all that training did in this test, and all rows, with the reference."""
        self.dut.flush.value = 1
        await self.step(8)
        for n in range(2):
            assert compare_training(n, self.lanes) > 100
            if BLOCKS:
                frame_bytes = datagram_bytes(int(os.environ["LONG"]))
                assert compare_sent(n, self.lanes, frame_bytes) > 100


def cases(few: int) -> int:
    """Number of random cases."""
    return 10 * few if ALL else few


def skewed(seed: random.Random, lanes: int, least: int = 0) -> list[int]:
    """Delays of lanes whose skew is at the limit."""
    delays = [least + seed.randrange(MAX_SKEW_BITS + 1) for _ in range(lanes)]
    if lanes > 1:
        first, last = seed.sample(range(lanes), 2)
        delays[first], delays[last] = least, least + MAX_SKEW_BITS
    return delays


async def prepared(dut, name: str, ppm: tuple[int, int] = (0, 0)) -> Ports:
    """Both ports up over a cable with skew."""
    ports = Ports(dut, random.Random(f"{SEED} {name}"))
    for n in range(2):
        ports.lane_delays(n, skewed(ports.seed, ports.lanes))
    await ports.begin(ppm)
    await ports.until(ports.are_up, 1_000)
    return ports


@cocotb.test()
async def comes_up_with_skew_and_clocks_apart(dut):
    ports = Ports(dut, random.Random(f"{SEED} up"))
    begun_ps = get_sim_time("ps")
    for n in range(2):
        ports.lane_delays(n, skewed(ports.seed, ports.lanes))
    await ports.begin((300, -300))
    # 464 columns without latency (docs/torus-link.md); with 64b/66b up to 66 places of a header are
    # tried, each for two rows on average, then 64 rows and 24 sets of four come.
    most = (4 * 66 + 64 + 24 * 4) * 8 if BLOCKS else 640
    assert await ports.until(ports.are_up, 700) <= most
    # As far apart as clocks may be, for some skip sets: columns are dropped or doubled.
    ports.drive("active", 255, 255)
    await ports.step(20_000)
    await ports.all_comes()
    counted = [ports.counted(n) for n in range(2)]
    assert [one["losses"] for one in counted] == [0, 0]
    assert [one["slipped"] for one in counted] == [0, 0]
    # Port 0 is slower by 600 ppm, less what its buffer takes.
    apart = (get_sim_time("ps") - begun_ps) / PERIOD_PS * 600 / 1_000_000
    if BLOCKS:
        # An end that is slower drops skip rows; none doubles any.
        assert [one["doubled"] for one in counted] == [0, 0] and counted[1]["dropped"] == 0
        assert counted[0]["dropped"] * 8 <= apart + 8
    else:
        assert apart - 7 <= counted[0]["dropped"] <= apart + 7 and counted[0]["doubled"] == 0
        assert apart - 7 <= counted[1]["doubled"] <= apart + 7 and counted[1]["dropped"] == 0
    assert all(sum(ports.lane_errors(n)) == 0 for n in range(2))
    assert [ports.damaged(n) for n in range(2)] == [0, 0]
    await ports.end()


@cocotb.test()
async def wrong_bits_lose_nothing(dut):
    ports = await prepared(dut, "bits", (-300, 300))
    ports.drive("active", 255, 255)
    for _ in range(cases(3)):
        # About one bit in 1e5 to 1e4; fewer lanes have fewer frames.
        most = [1, 2, 8] if ports.lanes == 8 else [20]
        if BLOCKS:
            # Words have 66 bits, and there are fewer.
            most = [20, 66] if ports.lanes > 1 else [200]
        odds = [ports.seed.choice(most) * (1 << 32) // 10_000 for _ in range(2)]
        ports.drive("error_odds", *odds)
        await ports.step(3_000)
    ports.drive("error_odds", 0, 0)
    await ports.all_comes()
    for n in range(2):
        # Of 66 bits two are a header's, whose errors are counted; all others damage frames.
        assert ports.damaged(n) > 0 if BLOCKS else sum(ports.lane_errors(n)) > 0
    assert max(ports.counted(n)["losses"] for n in range(2)) == 0, "it bears them"
    await ports.end()


@cocotb.test()
async def slips_of_lanes_lose_nothing(dut):
    ports = await prepared(dut, "slips")
    ports.drive("active", 255, 255)
    for case in range(cases(8)):
        n = case % 2
        delays = list(ports.delays[n])
        # A bit or a symbol of a lane, or a column of all, is lost or comes twice.
        slip = [1, -1, 10, -10][ports.seed.randrange(4)]
        some = range(ports.lanes) if case % 4 > 1 else [ports.seed.randrange(ports.lanes)]
        for lane in some:
            delays[lane] += slip + 20 * (delays[lane] + slip < 0)
        # Within the limit of skew.
        if max(delays) - min(delays) > MAX_SKEW_BITS - 10:
            delays = [min(delays) + 5 * (d % 8) for d in delays]
        ports.lane_delays(n, delays)
        await ports.step(ports.seed.choice([300, 1_500]))
    await ports.until(ports.are_up, 6_000)
    await ports.all_comes()
    assert sum(ports.counted(n)["losses"] for n in range(2)) >= 2
    assert sum(ports.counted(n)["realigned"] for n in range(2)) > 0
    await ports.end()


@cocotb.test()
async def cut_lanes_and_cables_lose_nothing(dut):
    ports = await prepared(dut, "cuts", (300, -300))
    every = (1 << ports.lanes) - 1
    ports.drive("active", 255, 255)
    for case in range(cases(5)):
        one = 1 << ports.seed.randrange(ports.lanes)
        # A lane, all lanes one way, both ways; or noise in their place.
        cut = [[one, 0], [0, every], [every, every], [0, one], [every, 0]][case % 5]
        kind = "is_cut" if case < 3 else "is_noisy"
        ports.drive(kind, *cut)
        for _ in range(2):
            # The link is lost within 40 columns and its latency, and the other end follows.
            await ports.until(lambda: UP not in ports.states(), 600)
            await ports.step(ports.seed.choice([0, 400]))
        ports.drive(kind, 0, 0)
        # Sets with wrong bits.
        ports.drive("error_odds", *[(1 << 32) // 20] * 2)
        await ports.step(600)
        ports.drive("error_odds", 0, 0)
        await ports.until(ports.are_up, 4_000)
        await ports.step(300)
    taken = await ports.all_comes()
    assert min(taken) > 20 * ports.lanes // 8
    await ports.end()


@cocotb.test()
async def skew_past_the_limit_never_comes_up(dut):
    ports = Ports(dut, random.Random(f"{SEED} past"))
    if ports.lanes > 1:
        delays = [20] * ports.lanes
        # Two rows are never one.
        delays[ports.seed.randrange(1, ports.lanes)] += 132 if BLOCKS else MAX_SKEW_BITS + 10
        ports.lane_delays(0, delays)
    else:
        ports.drive("is_cut", 1, 0)
    await ports.begin()
    if ports.lanes == 1:
        ports.drive("is_cut", 1, 0)
    # Longer than port 0 waits in `confirm`.
    for _ in range(24):
        await ports.step(100)
        assert ports.states()[1] == ALIGN
        assert ports.states()[0] in (ALIGN, CONFIRM)
    # A lane of 64b/66b is aligned again in 64 rows, and waits for its signal.
    least = 0 if ports.lanes == 1 else 2
    assert ports.counted(1)["realigned"] >= (least if BLOCKS else 12)
    # A cable that is mended works.
    ports.drive("is_cut", 0, 0)
    ports.lane_delays(0, [20] * ports.lanes)
    await ports.until(ports.are_up, 3_000)
    await ports.end()


@cocotb.test()
async def a_lane_that_shifts_by_a_column_is_noticed(dut):
    ports = await prepared(dut, "shift")
    if ports.lanes > 1:
        # Without traffic nothing but skip sets tells, in four of them.
        delays = list(ports.delays[0])
        delays[0] += 66 if BLOCKS else -10 if delays[0] >= 20 else 10
        ports.lane_delays(0, delays)
        await ports.until(lambda: not ports.are_up(), 5 * 1_300)
        ports.lane_delays(0, [30] * ports.lanes)
        await ports.until(ports.are_up, 3_000)
        assert ports.counted(1)["losses"] >= 1
    # Software may wish it.
    before = ports.counted(0)["losses"]
    ports.drive("active", 255, 255)
    await ports.step(500)
    ports.drive("retrain", 1, 0)
    await ports.step(1)
    ports.drive("retrain", 0, 0)
    await ports.step(2)
    assert ports.states()[0] == ALIGN
    await ports.until(ports.are_up, 2_000)
    await ports.all_comes()
    assert ports.counted(0)["losses"] == before + 1
    await ports.end()


@cocotb.test()
async def an_end_reset_alone_is_seen(dut):
    ports = await prepared(dut, "reset")
    ports.drive("active", 255, 255)
    await ports.step(800)
    for case in range(2):
        if case:
            ports.drive("enable", 0, 1)
            await ports.step(40)
            assert ports.states()[0] == DISABLED
            ports.drive("enable", 1, 1)
        else:
            await ports.reset(0)
        # The other keeps datagrams that will never come; both must begin anew.
        await ports.until(lambda: ports.states()[1] == FAILED, 1_500)
        await ports.step(500)
        assert ports.states()[1] == FAILED and ports.states()[0] in (ALIGN, CONFIRM)
        ports.drive("active", 0, 0)
        ports.drive("enable", 0, 0)
        await ports.step(60)
        assert ports.states() == [DISABLED, DISABLED]
        ports.drive("enable", 1, 1)
        await ports.until(ports.are_up, 1_500)
        ports.drive("active", 255, 255)
        await ports.step(500)
        taken = await ports.all_comes()
        assert min(taken) > 0
        ports.drive("active", 255, 255)
        await ports.step(200)
    await ports.end()


@cocotb.test()
async def full_rate(dut):
    ports = await prepared(dut, "rate", (0, 0))
    frame_bytes = datagram_bytes(int(os.environ["LONG"]))
    datagram = frame_bytes // ports.lanes
    window = 1_281 * 8 * 6 if BLOCKS else 1_283 * 17
    for active in ((255, 0), (255, 255)):
        ports.drive("active", *active)
        await ports.step(20 * datagram)
        before = sum(ports.datagrams("taken", 1))
        await ports.step(window)
        taken = sum(ports.datagrams("taken", 1)) - before
        # Skip sets, an ACK of the other way for each eight datagrams: docs/torus-link.md, Budget.
        limit = window * (1_280 / 1_281 if BLOCKS else 1_280 / 1_283) / datagram
        if active[1]:
            whole = frame_bytes * ACKNOWLEDGE
            limit *= whole / (whole + COMMAND_BYTES)
        dut._log.info("%s: %d of %.1f datagrams", active, taken, limit)
        assert taken >= 0.99 * limit
        # Of all line bits: 66 of a lane in eight clocks, or ten in each.
        raw_bits = window * ports.lanes * (66 / 8 if BLOCKS else 10)
        share = taken * 8 * (frame_bytes - OVERHEAD_BYTES) / raw_bits
        dut._log.info("%.1f %% of the raw line", 100 * share)
        if BLOCKS and os.environ["LONG"] == "1":
            assert share >= 0.93
        await ports.all_comes()
    await ports.end()


def datagram_bytes(is_long: int) -> int:
    """A datagram with header and CRC."""
    return (256 if is_long else 128) + OVERHEAD_BYTES


@pytest.mark.parametrize(("lanes", "symbols"), [(8, 2), (1, 2), *([(4, 4)] if ALL else [])])
def test_link_port(lanes, symbols):
    run({"lanes": lanes, "symbols": symbols})


@pytest.mark.parametrize(("lanes", "symbols"), [(8, 2), *([(1, 2), (4, 4)] if ALL else [])])
def test_link_port_long(lanes, symbols):
    """Datagrams of 256 B."""
    tests = None if ALL else "comes_up|slips|full_rate"
    run({"lanes": lanes, "symbols": symbols, "long": 1}, tests)


@pytest.mark.parametrize(("lanes", "long"), [(8, 1), (4, 1), (1, 0)])
def test_link_port_blocks(lanes, long):
    """Lanes of 64b/66b."""
    few = {4: "comes_up|slips|full_rate", 1: "comes_up|wrong_bits|cut|reset|full_rate"}
    run({"lanes": lanes, "long": long, "blocks": 1}, None if ALL else few.get(lanes))


def run(chosen: dict[str, int], tests: str | None = None) -> None:
    """Simulates two ports."""
    parameters = {"symbols": 2, "long": 0, "blocks": 0, **chosen}
    latency = 120 if parameters["blocks"] else 60
    parameters |= of_wire(parameters["lanes"], datagram_bytes(parameters["long"]), latency)
    parameters["acknowledge_datagrams"] = ACKNOWLEDGE
    parameters |= {"channel_datagrams": CHANNEL_DATAGRAMS, "retry_datagrams": 32}
    simulate(
        __file__,
        "link_ports",
        {name.upper(): value for name, value in parameters.items()},
        tests=tests,
        environment={"LINK_REFERENCE": link_reference.key()},
    )
