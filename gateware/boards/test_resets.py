# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_ecp5_reset and crosslane_gt_reset: order and length of resets, locks and signals that
come late, flicker or are lost."""

import itertools

import boards
import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from simulate import simulate

# Clocks that a state lasts, and until the receivers of a link that does not come up are reset.
CLOCKS, PATIENCE = 16, 256
# Clocks until a level has passed the synchroniser, state and outputs.
SEEN = 5
LANES = 2
EVERY = (1 << LANES) - 1


class Bench:
    """A module with its clock, and all that its outputs were since the last `forget`."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.outputs = [name for name in OUTPUTS if hasattr(dut, name)]
        self.forget()
        Clock(dut.clk, 10, unit="ns").start()

    def forget(self) -> None:
        """Begins anew to write down outputs."""
        self.was = {name: [] for name in self.outputs}

    async def step(self, clocks: int, **levels: int) -> None:
        """Sets inputs and lets clocks go by."""
        for name, value in levels.items():
            getattr(self.dut, name).value = value
        for _ in range(clocks):
            await FallingEdge(self.dut.clk)
            for name, values in self.was.items():
                values.append(int(getattr(self.dut, name).value))

    async def until(self, name: str, value: int, least: int, **levels: int) -> None:
        """Sets inputs; an output must have a value that many clocks later, and not before."""
        await self.step(least, **levels)
        assert value not in self.was[name][-least:] or least == 0, f"{name} too early"
        await self.step(SEEN)
        assert self.was[name][-1] == value, f"{name} too late"

    def pulses(self, name: str) -> list[int]:
        """Lengths of an output's pulses."""
        text = "".join(str(int(value != 0)) for value in self.was[name])
        return [len(pulse) for pulse in text.split("0") if pulse]


OUTPUTS = (
    "macro_rst tx_rst tx_pcs_rst rx_rst rx_pcs_rst reset_all reset_rx rx_runs tx_ready rx_ready"
).split()


# --- Senders -----------------------------------------------------------------------------------


async def senders(
    dut, reset: str, lasts: int, lost: dict[str, int], locked: dict[str, int]
) -> Bench:
    """Sees senders become ready, behind a lock that flickers, and lose it; `reset` is the output
    that resets all, and lasts that many clocks."""
    bench = Bench(dut)
    await bench.step(3 * CLOCKS, rst=1, **lost)
    bench.forget()
    await bench.step(3 * CLOCKS, rst=0)
    (first,) = bench.pulses(reset)
    assert lasts <= first < lasts + SEEN
    assert 1 not in bench.was["tx_ready"]
    await bench.step(CLOCKS - 2, **locked)
    await bench.step(2, **lost)
    await bench.until("tx_ready", 1, CLOCKS, **locked)
    bench.forget()
    await bench.step(4 * CLOCKS)
    assert 0 not in bench.was["tx_ready"] and 1 not in bench.was[reset]
    await bench.until("tx_ready", 0, 0, **lost)
    await bench.step(2 * CLOCKS)
    assert bench.pulses(reset) == [lasts]
    await bench.until("tx_ready", 1, CLOCKS, **locked)
    return bench


@cocotb.test()
async def dcu_senders_wait_for_their_pll(dut):
    # Receivers without a signal: senders do not wait for them.
    dut.rx_silent.value = dut.rx_unlocked.value = 3
    bench = await senders(dut, "macro_rst", CLOCKS, {"pll_unlocked": 1}, {"pll_unlocked": 0})
    assert bench.was["tx_rst"] == bench.was["macro_rst"]
    # The coder's reset ends with the wait for the PLL.
    assert bench.was["tx_pcs_rst"] == [1 - ready for ready in bench.was["tx_ready"]]


@cocotb.test()
async def gt_senders_wait_for_power_and_their_reset(dut):
    for name in ("rx_done", "is_coded", "link_up"):
        getattr(dut, name).value = 0
    dut.powered.value = 1
    bench = await senders(dut, "reset_all", CLOCKS // 2, {"tx_done": 0}, {"tx_done": 1})
    # Without power there is no reset, and one when it is back.
    bench.forget()
    await bench.step(4 * CLOCKS, powered=0)
    assert 1 not in bench.was["reset_all"] and bench.was["tx_ready"][SEEN:].count(1) == 0
    await bench.until("reset_all", 1, CLOCKS // 2, powered=1)
    await bench.until("tx_ready", 1, 3 * CLOCKS // 2 - SEEN)
    await bench.until("tx_ready", 0, 0, rst=1)


# --- Receivers ---------------------------------------------------------------------------------


@cocotb.test()
async def dcu_receivers_wait_each_for_its_signal(dut):
    bench = Bench(dut)
    await bench.step(CLOCKS, rst=1, pll_unlocked=1, rx_silent=3, rx_unlocked=3)
    await bench.step(3 * CLOCKS, rst=0)
    assert 0 not in bench.was["rx_rst"] and bench.was["rx_pcs_rst"] == bench.was["rx_rst"]
    await bench.until("rx_rst", 0, 2 * CLOCKS, pll_unlocked=0)
    # A signal without a lock is not enough, nor a lock without a signal.
    await bench.step(2 * CLOCKS, rx_silent=0b10, rx_unlocked=0b01)
    assert not any(bench.was["rx_ready"])
    await bench.step(CLOCKS - 2, rx_silent=0, rx_unlocked=0)
    await bench.step(2, rx_silent=0b01)
    bench.forget()
    await bench.until("rx_ready", 3, CLOCKS, rx_silent=0)
    assert 0b10 in bench.was["rx_ready"]
    for lost in ("rx_silent", "rx_unlocked"):
        for n in range(2):
            bench.forget()
            await bench.until("rx_ready", 3 & ~(1 << n), 0, **{lost: 1 << n})
            await bench.step(3 * CLOCKS)
            await bench.until("rx_ready", 3, CLOCKS, **{lost: 0})
            # Nothing was reset, and the other one did not notice.
            assert not any(bench.was["rx_rst"]) and not any(bench.was["rx_pcs_rst"])
            assert all(ready >> 1 - n & 1 for ready in bench.was["rx_ready"])
    await bench.until("rx_rst", 3, 0, pll_unlocked=1)
    assert bench.was["rx_ready"][-1] == 0


async def started(dut) -> Bench:
    """A link on transceivers that is up."""
    bench = Bench(dut)
    levels = {"powered": 1, "tx_done": 1, "rx_done": 1, "is_coded": EVERY, "link_up": 1}
    await bench.step(CLOCKS, rst=1, **levels)
    bench.forget()
    await bench.step(8 * CLOCKS, rst=0)
    assert bench.was["rx_ready"][-1] == bench.was["tx_ready"][-1] == 1
    return bench


@cocotb.test()
async def gt_receivers_are_reset_without_their_clock(dut):
    bench = await started(dut)
    assert bench.pulses("reset_rx") == [CLOCKS]
    begun = bench.was["reset_rx"].index(1)
    assert not any(bench.was["rx_runs"][: begun + CLOCKS])
    # Senders that are lost take the receivers with them, whose clock is off before all is reset.
    bench.forget()
    await bench.step(CLOCKS, tx_done=0)
    for name in ("rx_ready", "rx_runs"):
        assert not any(bench.was[name][SEEN:]), name
    await bench.step(CLOCKS)
    assert not any(bench.was["rx_runs"][SEEN:])
    assert bench.was["reset_all"].index(1) >= CLOCKS // 2
    # The clock is on when the core says that the reset is done, and the port's part later.
    await bench.step(12 * CLOCKS, tx_done=1, rx_done=0)
    assert not any(bench.was["rx_runs"][SEEN:])
    await bench.until("rx_runs", 1, 0, rx_done=1)
    # Its end is lost: off, and reset.
    bench.forget()
    await bench.until("rx_runs", 0, 0, rx_done=0)
    await bench.step(3 * CLOCKS)
    assert len(bench.pulses("reset_rx")) == 1


@cocotb.test()
async def gt_receivers_are_reset_once_a_signal_is_back(dut):
    bench = await started(dut)
    for lost in range(EVERY):
        bench.forget()
        await bench.until("rx_ready", 0, 0, is_coded=lost)
        await bench.step(4 * CLOCKS)
        # The port keeps its clock, and nothing is reset before all lanes have a signal again.
        assert all(bench.was["rx_runs"]) and not any(bench.was["reset_rx"])
        await bench.step(CLOCKS - 2, is_coded=EVERY)
        await bench.step(2, is_coded=lost)
        await bench.until("reset_rx", 1, 2 * CLOCKS, is_coded=EVERY)
        await bench.step(2 * CLOCKS)
        assert bench.pulses("reset_rx") == [CLOCKS] and bench.was["rx_ready"][-1] == 1


@cocotb.test()
async def gt_signals_may_come_a_little_late(dut):
    bench = await started(dut)
    for late, resets in ((CLOCKS - SEEN, 1), (CLOCKS + SEEN, 2)):
        bench.forget()
        await bench.step(2 * SEEN, rx_done=0)
        await bench.step(3 * CLOCKS, is_coded=0)
        await bench.step(late, rx_done=1)
        await bench.step(6 * CLOCKS, is_coded=EVERY)
        assert bench.pulses("reset_rx") == [CLOCKS] * resets
        assert bench.was["rx_ready"][-1] == 1


@cocotb.test()
async def gt_links_that_stay_down_have_resets(dut):
    bench = await started(dut)
    bench.forget()
    await bench.step(3 * PATIENCE)
    assert all(bench.was["rx_ready"])
    for why in ({"link_up": 0}, {"is_coded": 0}, {"rx_done": 0}):
        bench.forget()
        await bench.step(4 * PATIENCE, **why)
        was = bench.was["reset_rx"]
        begun = [n for n in range(1, len(was)) if was[n] and not was[n - 1]]
        apart = [now - then for then, now in itertools.pairwise(begun)]
        assert len(apart) >= 2 and all(PATIENCE < n <= PATIENCE + 4 * CLOCKS for n in apart), apart
        await bench.step(8 * CLOCKS, link_up=1, is_coded=EVERY, rx_done=1)
        assert bench.was["rx_ready"][-1] == 1


@pytest.mark.parametrize("family", ["ecp5", "gt"])
def test_resets(family):
    if family == "ecp5":
        top, folder, parameters = "crosslane_ecp5_reset", "evn_ecp5", {"CLOCKS": CLOCKS}
    else:
        top, folder = "crosslane_gt_reset", "transceivers"
        parameters = {"LANES": LANES, "SETTLE": CLOCKS, "PATIENCE": PATIENCE}
    test = {"ecp5": "dcu_", "gt": "gt_"}[family]
    simulate(__file__, top, parameters, tests=test, beside=(boards.FOLDER / folder,))
