# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_evn_ecp5: two boards whose clocks differ by 500 ppm, with models of their
transceivers, over cables of bits. Links come up wherever symbols begin in a word, datagrams come
once and in order while bits are wrong, lost, or a cable is cut, and the report says so."""

import os
import random
import re

import boards
import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import Timer
from packed import part
from simulate import ALL, SEED, TB, simulate

UP = 3
LINKS = range(4)
# The reference clocks of the boards, ps.
PERIODS_PS = (3998, 4000)
# A bit of the serial port with the baud rate of `evn_cables`.
UART_BIT_NS = 64
LANES = 8
REPORT = re.compile(
    r"link (\d) state (\d) sent (\w{8}) right (\w{8}) wrong (\w{8}) repeated (\w{8}) "
    r"damaged (\w{8}) restarts (\w{8}) up (\w{8}) losses (\w{8}) errors((?: \w{8}){8}) "
    r"line (\d) wrong (\w{8}) lost (\w{8})"
)
COUNTERS = "sent right wrong repeated damaged restarts trainings losses".split()


class Bench:
    """Two boards and the lines between them."""

    def __init__(self, dut, name: str) -> None:
        self.dut = dut
        self.random = random.Random(f"{SEED} {name}")
        self.delay = [self.random.randrange(160) for _ in LINKS]
        self.odds = [0] * 4

    def set_lines(self) -> None:
        """Gives delays and errors to the lines."""
        self.dut.delay.value = sum(value << 8 * n for n, value in enumerate(self.delay))
        self.dut.error_odds.value = sum(value << 32 * n for n, value in enumerate(self.odds))

    async def start(self) -> None:
        """Clocks, a reset, and links that are up."""
        dut = self.dut
        for name in ("tests_line", "stops", "is_cut", "is_noisy", "rst_n"):
            getattr(dut, name).value = 0
        self.set_lines()
        for clock, period_ps in zip((dut.clk_a, dut.clk_b), PERIODS_PS, strict=True):
            Clock(clock, period_ps, unit="ps").start()
        await Timer(2, "us")
        dut.rst_n.value = 3
        await self.until_up()

    def counts(self, name: str) -> list[int]:
        """A counter of each link."""
        return [part(getattr(self.dut, name).value, 32, n) for n in LINKS]

    def states(self) -> list[int]:
        """The state of each link."""
        return [part(self.dut.state.value, 3, n) for n in LINKS]

    def errors(self, link: int) -> list[int]:
        """Symbol errors of each lane of a link."""
        value = part(self.dut.lane_errors.value, 32 * LANES, link)
        return [value >> 32 * lane & 0xFFFF_FFFF for lane in range(LANES)]

    async def until(self, holds, within_us: int, why: str) -> None:
        """Waits until it holds."""
        for _ in range(within_us // 2):
            if holds():
                return
            await Timer(2, "us")
        pytest.fail(f"{why} within {within_us} us: {self.states()}, wrong {self.counts('wrong')}")

    async def until_up(self) -> None:
        """Waits until all links are up: columns are looked for anew each 262 us."""
        await self.until(lambda: self.states() == [UP] * 4, 1600, "links are not up")

    async def settled(self) -> None:
        """Stops the generators; all that was sent has come, once and in order."""
        self.dut.stops.value = 1
        await Timer(20, "us")

        def all_come() -> bool:
            sent, right = self.counts("sent"), self.counts("right")
            return all(sent[n] == right[(n + 2) % 4] for n in LINKS)

        await self.until(all_come, 400, "datagrams have not come")
        assert self.counts("wrong") == [0] * 4
        assert all(self.counts("sent"))


async def report(dut, board: int) -> list[str]:
    """The two next lines that a board prints, whole ones."""
    lines, text = [], ""
    # From between two lines.
    idle_ns = 0
    while idle_ns < 20 * UART_BIT_NS:
        idle_ns = idle_ns + UART_BIT_NS if dut.uart.value[board] == 1 else 0
        await Timer(UART_BIT_NS, "ns")
    while len(lines) < 2:
        while dut.uart.value[board] == 1:
            await Timer(UART_BIT_NS // 4, "ns")
        await Timer(UART_BIT_NS * 5 // 4, "ns")
        value = 0
        for bit in range(8):
            value |= int(dut.uart.value[board]) << bit
            await Timer(UART_BIT_NS, "ns")
        assert dut.uart.value[board] == 1, "no stop bit"
        text += chr(value)
        if text.endswith("\r\n"):
            lines.append(text[:-2])
            text = ""
    return lines


@cocotb.test()
async def datagrams_pass_and_are_reported(dut):
    bench = Bench(dut, "pass")
    await bench.start()
    before = bench.counts("right")
    await Timer(200, "us")
    passed = [now - then for now, then in zip(bench.counts("right"), before, strict=True)]
    # A byte for each ten bits, and 136 of them for a datagram, less skip sets and commands.
    most = 200 * int(os.environ["RATE"]) / 10 / 136
    assert all(0.96 * most < count <= most for count in passed), passed
    # Wrong bits, one in 100,000, on each line.
    bench.odds = [(1 << 32) // 5000] * 4
    bench.set_lines()
    await Timer(200, "us")
    bench.odds = [0] * 4
    bench.set_lines()
    assert all(bench.counts("damaged"))
    assert all(bench.counts("repeated"))
    assert all(sum(bench.errors(link)) for link in LINKS)
    await bench.settled()
    assert bench.states() == [UP] * 4
    for board in range(2):
        lines = await report(dut, board)
        found = [REPORT.fullmatch(line) for line in lines]
        assert all(found), lines
        for match in sorted(found, key=lambda match: match[1]):
            link = 2 * board + int(match[1])
            assert int(match[2]) == UP
            for name, digits in zip(COUNTERS, match.groups()[2:10], strict=True):
                assert int(digits, 16) == bench.counts(name)[link], (name, match[0])
            # The lowest lane is printed last.
            lanes = [int(digits, 16) for digits in match[11].split()]
            assert lanes[::-1] == bench.errors(link)
        assert sorted(match[1] for match in found) == ["0", "1"]
    lights = [part(dut.led_n.value, 8, board) for board in range(2)]
    # Up, ready, nothing wrong, sending.
    assert all(~light & 0x7F == 0x4F for light in lights), lights


@cocotb.test()
async def slips_and_cuts_lose_nothing(dut):
    bench = Bench(dut, "slips")
    await bench.start()
    await Timer(40, "us")
    # Bits are lost or doubled on one line of link 0, of both ends in turn. It may take four
    # time-outs in a row until that is noticed.
    for line in (0, 2):
        bench.delay[line] = (bench.delay[line] + bench.random.randrange(1, 80)) % 160
        bench.set_lines()
        await bench.until(lambda: bench.states() != [UP] * 4, 300, "no loss")
        await bench.until_up()
    # Link 1 is cut, both ways; link 0 does not notice.
    before = bench.counts("losses")
    dut.is_cut.value = 0b1010
    await Timer(100, "us")
    assert [state == UP for state in bench.states()] == [True, False, True, False]
    dut.is_cut.value = 0
    await bench.until_up()
    after = bench.counts("losses")
    assert [a - b for a, b in zip(after, before, strict=True)] == [0, 1, 0, 1]
    # A whole symbol is lost: lanes are right but for their order.
    bench.delay[0] = (bench.delay[0] + 10) % 160
    bench.set_lines()
    await bench.until(lambda: bench.states() != [UP] * 4, 300, "no loss")
    await bench.until_up()
    # Noise comes with a signal.
    dut.is_noisy.value = 0b0001
    await Timer(60, "us")
    dut.is_noisy.value = 0
    await bench.until_up()
    await bench.settled()


@cocotb.test()
async def a_board_reset_alone_comes_back(dut):
    bench = Bench(dut, "reset")
    await bench.start()
    await Timer(40, "us")
    dut.rst_n.value = 1
    await Timer(10, "us")
    dut.rst_n.value = 3
    await bench.until(lambda: UP not in bench.states(), 300, "no loss")
    await bench.until_up()
    before = bench.counts("right")
    await Timer(40, "us")
    assert all(now > then for now, then in zip(bench.counts("right"), before, strict=True))


@cocotb.test()
async def lines_are_tested(dut):
    bench = Bench(dut, "lines")
    await bench.start()
    dut.tests_line.value = 1
    await Timer(20, "us")
    in_step = lambda: int(dut.line_in_step.value) == 0b1111  # noqa: E731
    await bench.until(in_step, 20, "lines are not in step")
    assert UP not in bench.states()
    before = bench.counts("line_wrong_bits")
    await Timer(50, "us")
    assert bench.counts("line_wrong_bits") == before
    bench.odds[1] = (1 << 32) // 1000
    bench.set_lines()
    await Timer(80, "us")
    bench.odds[1] = 0
    bench.set_lines()
    await Timer(2, "us")
    wrong = [now - then for now, then in zip(bench.counts("line_wrong_bits"), before, strict=True)]
    # Line 1 goes from link 1 of board A to that of board B. A word of 20 bits each 8 ns.
    assert [count > 0 for count in wrong] == [False, False, False, True], wrong
    assert 4 <= wrong[3] <= 30, wrong
    lost = bench.counts("line_steps_lost")
    bench.delay[1] += 1
    bench.set_lines()
    await Timer(10, "us")
    await bench.until(in_step, 20, "lines are not in step")
    now = bench.counts("line_steps_lost")
    assert [a - b for a, b in zip(now, lost, strict=True)] == [0, 0, 0, 1]
    dut.tests_line.value = 0
    await bench.until_up()
    await bench.settled()


RATES = (2500, 5000) if ALL else (2500,)


@pytest.mark.parametrize("rate", RATES)
def test_evn(rate):
    folders = (boards.FOLDER / "stubs", boards.FOLDER / "evn_ecp5", TB / "tops")
    simulate(__file__, "evn_cables", {"RATE": rate}, beside=folders)
