# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host around the UltraScale+ core of a board's top, or that of Virtex-7."""

from board_rooted_bench import RootedHost
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge
from shim_us_bench import GEN3, GEN3_NAMES, device_model

# Clocks after which a card has answered a function-level reset.
RESET_CLOCKS = 2000
# The clock of a memory, as the model of the clock manager passes it on, ps.
MEMORY_CLOCK_PS = 3334


# Ports of the core by another name than that of a card's.
NAMES = {"clk": "user_clk", "rst": "user_reset"}
if GEN3:
    NAMES |= GEN3_NAMES | {
        f"s_axis_{name}_tready": f"s_axis_{name}_tready_bit" for name in ("rq", "cc")
    }


class BoardHost(RootedHost):
    """A host that finds the card by its configuration space, as a Bus of engine_host too."""

    def __init__(self, dut, seed: int = 1):
        super().__init__(dut.board.pcie, NAMES, seed)
        if hasattr(dut, "sysclk_p"):
            dut.sysclk_n.value = 0
            Clock(dut.sysclk_p, MEMORY_CLOCK_PS, unit="ps").start()

    def make_device(self):
        """The core's device, with its MSI-X capability as the board's settings have it."""
        self.dut.cfg_flr_in_process.value = 0
        msix = self.board.core.msix
        return device_model(
            self.dut,
            pf0_msix_table_offset=msix.table_offset,
            pf0_msix_pba_offset=msix.pending_offset,
        )

    async def begun(self) -> None:
        """Waits until the core is out of reset."""
        await FallingEdge(self.dut.rst)

    def serial_number(self) -> int:
        """The serial number that the top gives the core."""
        return int(self.dut.cfg_dsn.value)

    async def reset(self) -> None:
        """A function-level reset, which the card finishes."""
        self.dut.cfg_flr_in_process.value = 1
        for _ in range(RESET_CLOCKS):
            await ClockCycles(self.dut.clk, 1)
            if int(self.dut.cfg_flr_done.value) & 1:
                break
        else:
            raise AssertionError("the card does not finish a function-level reset")
        self.dut.cfg_flr_in_process.value = 0
        self.config.reset()
        await self.wait(200)
