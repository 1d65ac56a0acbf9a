# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_link_gty and crosslane_link_gtx, on GTX and GTH: two ends of a torus link on models of
the vendor's cores, whose clocks differ by 500 ppm, over cables of bits. They train wherever words
begin, carry the pattern both ways without a wrong word, and come back behind cuts, slips and
resets."""

import os
import random
import re
from pathlib import Path

import boards
import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import Timer
from link_bench import Ports, of_wire
from packed import part
from simulate import SEED, TB, simulate

FOLDER = boards.FOLDER / "transceivers"
UP = 3
# Of each end: twice the clock of words, 250 MHz; the clock that runs always.
DOUBLE_PS, FREE_PS = (3998, 4000), (10_000, 9_800)
WORD_BITS = 20
# Of the lanes of a cable, seven columns.
MAX_SKEW_BITS = 70


class Bench(Ports):
    """Two ends and the cable between them."""

    def __init__(self, dut, name: str) -> None:
        super().__init__(dut, int(os.environ["LANES"]))
        self.random = random.Random(f"{SEED} {name}")
        self.delays = [self.skewed(), self.skewed()]

    def skewed(self) -> list[int]:
        """Delays of lanes, bits, with as much skew as a link bears."""
        first = self.random.randrange(120)
        delays = [first + self.random.randrange(MAX_SKEW_BITS + 1) for _ in range(self.lanes)]
        delays[self.random.randrange(self.lanes)] = first
        return delays

    async def start(self) -> None:
        """Clocks, a reset, and a link that is up."""
        for name in ("stops", "is_cut", "error_odds", "no_refclk"):
            self.drive(name, 0, 0)
        self.drive("rst", 1, 1)
        for n in range(2):
            self.lane_delays(n, self.delays[n])
            Clock(getattr(self.dut, f"double_clk_{n}"), DOUBLE_PS[n], unit="ps").start()
            Clock(getattr(self.dut, f"free_clk_{n}"), FREE_PS[n], unit="ps").start()
        await Timer(2, "us")
        self.drive("rst", 0, 0)
        await self.until_up()

    def each(self, name: str) -> list[int]:
        """A counter of both ends."""
        return [part(getattr(self.dut, name).value, 32, n) for n in range(2)]

    def losses(self) -> list[int]:
        """How often each port has lost its lanes."""
        return [self.counted(n)["losses"] for n in range(2)]

    async def until(self, holds, within_us: int, why: str) -> None:
        """Waits until it holds."""
        for _ in range(within_us * 2):
            if holds():
                return
            await Timer(500, "ns")
        pytest.fail(
            f"{why} within {within_us} us: {self.states()}, ready {self.dut.rx_ready.value}"
        )

    async def until_up(self, within_us: int = 60) -> None:
        """Waits until both ports are up: in less than PATIENCE, about 80 us."""
        await self.until(lambda: self.states() == [UP, UP], within_us, "the link is not up")

    async def until_lost(self) -> None:
        """Waits until both ports have lost the link."""
        await self.until(lambda: UP not in self.states(), 20, "the link is not lost")

    async def until_ready(self, number: int, is_ready: bool) -> None:
        """Waits until the senders of an end are ready, or are no more."""
        holds = lambda: int(self.dut.tx_ready.value) >> number & 1 == is_ready  # noqa: E731
        await self.until(holds, 40, f"senders of end {number} are not {is_ready}")

    async def settled(self) -> None:
        """Stops the generators; all that was sent has come, once and in order."""
        self.drive("stops", 1, 1)
        both = lambda: self.each("sent") == self.each("right")[::-1]  # noqa: E731
        await Timer(5, "us")
        await self.until(both, 60, "datagrams have not come")
        assert self.each("wrong") == [0, 0]
        assert min(self.each("sent")) > 0


@cocotb.test()
async def datagrams_pass_at_the_rate(dut):
    bench = Bench(dut, "pass")
    await bench.start()
    # A first lock may have come late, or not.
    assert all(1 <= count <= 2 for count in bench.each("resets"))
    before, resets = bench.each("right"), bench.each("resets")
    await Timer(80, "us")
    passed = [now - then for now, then in zip(bench.each("right"), before, strict=True)]
    # A byte of each lane in each clock, and 136 of them for a datagram; that of the slower end.
    most = 80e6 / max(DOUBLE_PS) * bench.lanes / 136
    assert all(0.96 * most < count <= most + 1 for count in passed), passed
    await bench.settled()
    assert bench.losses() == [0, 0]
    assert bench.each("resets") == resets
    assert sum(bench.counted(n)["dropped"] for n in range(2)) > 0, "clocks are apart"


@cocotb.test()
async def wrong_bits_lose_nothing(dut):
    bench = Bench(dut, "bits")
    await bench.start()
    # A bit in 40,000, which a signal bears.
    bench.drive("error_odds", *[(1 << 32) // 2_000] * 2)
    await Timer(80, "us")
    bench.drive("error_odds", 0, 0)
    await bench.settled()
    assert bench.losses() == [0, 0]
    assert int(dut.rx_ready.value) == 3


@cocotb.test()
async def a_cut_lane_or_cable_comes_back(dut):
    bench = Bench(dut, "cut")
    await bench.start()
    every = (1 << bench.lanes) - 1
    for cut in ([1 << bench.lanes - 1, 0], [0, 1], [every, 0], [every, every]):
        resets = bench.each("resets")
        await Timer(5, "us")
        bench.drive("is_cut", *cut)
        await bench.until_lost()
        await bench.until(lambda: int(dut.rx_ready.value) != 3, 10, "the signal is not missed")
        await Timer(bench.random.randrange(2, 20), "us")
        # The lanes lock anew, wherever their words begin.
        for n in range(2):
            if cut[n]:
                bench.lane_delays(n, bench.skewed())
        bench.drive("is_cut", 0, 0)
        await bench.until_up()
        # Only receivers that had no signal were reset, once it was back.
        more = [now - then for now, then in zip(bench.each("resets"), resets, strict=True)]
        assert [count > 0 for count in more] == [cut[1] > 0, cut[0] > 0], (cut, more)
        assert max(more) == 1
    await bench.settled()


@cocotb.test()
async def a_long_cut_comes_back(dut):
    bench = Bench(dut, "long")
    await bench.start()
    bench.drive("is_cut", 1, 0)
    # Receivers are reset now and then without a signal, too.
    await Timer(200, "us")
    assert bench.each("resets")[1] >= 3
    bench.drive("is_cut", 0, 0)
    await bench.until_up()
    await bench.settled()


@cocotb.test()
async def slips_need_no_reset(dut):
    bench = Bench(dut, "slips")
    await bench.start()
    resets = bench.each("resets")
    for case in range(4):
        await Timer(5, "us")
        n = case % 2
        bench.lane_delays(n, [delay + bench.random.choice([1, 3, 7]) for delay in bench.delays[n]])
        await bench.until(lambda: UP not in bench.states(), 60, "the slip is not noticed")
        await bench.until_up()
    await bench.settled()
    assert bench.each("resets") == resets


@cocotb.test()
async def an_end_reset_alone_comes_back(dut):
    bench = Bench(dut, "alone")
    await bench.start()
    for n in range(2):
        await Timer(5, "us")
        bench.drive("rst", n == 0, n == 1)
        await Timer(3, "us")
        # Its lines are idle.
        assert int(dut.rx_ready.value) == 0
        bench.drive("rst", 0, 0)
        await bench.until_lost()
        await bench.until_up(80)
        # Datagrams on their way are gone, which is one gap for the checker of the other end.
        await Timer(10, "us")
        assert bench.each("wrong") == [int(n == 1), int(n == 0)]
    before = bench.each("right")
    await Timer(20, "us")
    assert all(now > then for now, then in zip(bench.each("right"), before, strict=True))
    assert bench.each("wrong") == [1, 0]


@cocotb.test(skip=os.environ.get("IS_GTX") != "1")
async def a_reference_that_is_set_anew_comes_back(dut):
    bench = Bench(dut, "reference")
    await bench.start()
    for n in range(2):
        await Timer(5, "us")
        bench.drive("no_refclk", n == 0, n == 1)
        await bench.until_ready(n, False)
        await Timer(20, "us")
        bench.drive("no_refclk", 0, 0)
        await bench.until_ready(n, True)
        await bench.until_up(80)
    before = bench.each("right")
    await Timer(20, "us")
    assert all(now > then for now, then in zip(bench.each("right"), before, strict=True))


@cocotb.test()
async def a_link_that_does_not_train_has_resets(dut):
    bench = Bench(dut, "watch")
    await bench.start()
    await Timer(5, "us")
    resets = bench.each("resets")
    # More skew than a link bears: signals are good, and no link comes up.
    if bench.lanes == 1:
        bench.drive("is_cut", 0, 1)
    skew = [0] * (bench.lanes - 1) + [MAX_SKEW_BITS + 10]
    bench.lane_delays(0, skew)
    await bench.until_lost()
    await Timer(200, "us")
    more = [now - then for now, then in zip(bench.each("resets"), resets, strict=True)]
    assert all(count >= 2 for count in more), more
    bench.drive("is_cut", 0, 0)
    bench.lane_delays(0, [0] * bench.lanes)
    await bench.until_up(80)
    await bench.settled()


@pytest.mark.parametrize(("is_gtx", "is_gth", "lanes"), [(0, 0, 4), (1, 0, 1), (1, 1, 1)])
def test_transceivers(is_gtx, is_gth, lanes):
    folders = (boards.FOLDER / "stubs", FOLDER, TB / "tops")
    times = {name.upper(): value for name, value in of_wire(lanes, 136, 80).items()}
    parameters = {"IS_GTX": is_gtx, "IS_GTH": is_gth, "LANES": lanes, **times}
    simulate(__file__, "transceiver_cables", parameters, beside=folders)


def settings(name: str, folder: Path) -> dict[str, str]:
    """The settings of the core of a board's link, as Vivado would get them."""
    script = folder / "core.tcl"
    lines = (f"{name}/link.tcl", "ip/[dict get $link core].tcl")
    script.write_text("".join(f"source {boards.FOLDER}/{line}\n" for line in lines))
    made, found = boards.commands(boards.VIVADO, str(script))
    module = {"kc705": "crosslane_gtx", "vc709": "crosslane_gth"}.get(name, "crosslane_gty")
    assert made[0] == "create_ip" and made[-1] == module
    assert found[:2] == ["set_property", "-dict"] and found[-1] == f"get_ips {module}"
    words = re.findall(r"\{([^}]*)\}|(\S+)", found[2])
    values = [braced or plain for braced, plain in words]
    pairs = zip(values[::2], values[1::2], strict=True)
    return {key.removeprefix("CONFIG."): value for key, value in pairs}


@pytest.mark.parametrize("name", ["vcu118", "u250"])
def test_a_quad_of_gty_has_the_words_and_clocks_of_its_wrapper(name, tmp_path):
    found = settings(name, tmp_path)
    channels = found["CHANNEL_ENABLE"].split()
    numbers = [int(re.fullmatch(r"X\dY(\d+)", channel)[1]) for channel in channels]
    assert numbers == list(range(numbers[0], numbers[0] + 4)) and numbers[0] % 4 == 0
    assert found["RX_MASTER_CHANNEL"] == found["TX_MASTER_CHANNEL"] == channels[0]
    assert found["TX_REFCLK_SOURCE"] == " ".join(f"{channel} clk0" for channel in channels)
    for way, code in (("TX", "EN"), ("RX", "DE")):
        assert found[f"{way}_DATA_{code}CODING"] == "RAW"
        assert found[f"{way}_USER_DATA_WIDTH"] == found[f"{way}_INT_DATA_WIDTH"] == str(WORD_BITS)
        assert found[f"{way}_BUFFER_MODE"] == "1"
        assert found[f"LOCATE_{way}_USER_CLOCKING"] == "EXAMPLE_DESIGN"
        # The PLL's oscillator, 64 times the reference; a line at a power of two below it.
        assert float(found[f"{way}_REFCLK_FREQUENCY"]) * 64 == 4000 * float(
            found[f"{way}_LINE_RATE"]
        )
    # A column in each clock of the port.
    assert float(found["TXPROGDIV_FREQ_VAL"]) == 100 * float(found["TX_LINE_RATE"])
    assert (
        found["TX_OUTCLK_SOURCE"] == "TXPROGDIVCLK" and found["RX_OUTCLK_SOURCE"] == "RXOUTCLKPMA"
    )


@pytest.mark.parametrize(
    ("name", "channel", "refclk_ns"), [("kc705", "gt10", 8.0), ("vc709", "gt12", 6.4)]
)
def test_a_gtx_or_gth_has_the_words_and_clocks_of_its_wrapper(name, channel, refclk_ns, tmp_path):
    found = settings(name, tmp_path)
    assert found[f"{channel}_val"] == "true" and found["gt0_val"] == "false"
    assert found[f"{channel}_val_tx_refclk"] == found[f"{channel}_val_rx_refclk"]
    divided = int(found["gt0_val_cpll_fbdiv"]) * int(found["gt0_val_cpll_fbdiv_45"])
    for way, code in (("tx", "en"), ("rx", "de")):
        assert found[f"gt0_val_{code}coding"] == "None"
        assert found[f"gt0_val_{way}_data_width"] == found[f"gt0_val_{way}_int_datawidth"] == "20"
        assert found[f"gt0_val_{way}buf_en"] == "true"
        rate = float(found[f"identical_val_{way}_line_rate"])
        refclk_mhz = float(found[f"identical_val_{way}_reference_clock"])
        # The reference is the port's clock.
        assert rate * 100 == refclk_mhz == 1000 / refclk_ns
        assert 1600 <= refclk_mhz * divided <= 3300
        assert refclk_mhz * divided * 2 == 1000 * rate * int(found[f"gt0_val_cpll_{way}out_div"])


@pytest.mark.parametrize("family", ["gty", "gtx", "gth"])
def test_all_inputs_of_a_core_are_connected(family):
    core = (boards.FOLDER / "stubs" / f"crosslane_{family}.sv").read_text()
    ports = re.findall(r"^ +(?:in|out)put +logic(?: +\[[^]]+\])? +(\w+)", core, re.M)
    assert len(ports) > 20
    text = (FOLDER / f"crosslane_link_{family.replace('gth', 'gtx')}.sv").read_text()
    (instance,) = re.findall(rf"crosslane_{family} transceivers \((.*?)\n +\);", text, re.S)
    connected = re.findall(r"^ +\.(\w+)", instance, re.M)
    assert len(set(connected)) == len(connected)
    assert set(connected) == set(ports)
