# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host around the P-Tile of a board's top: cocotbext-pcie's device of it.

The model knows no link that goes down and no nullified TLP: the bench has both.
"""

import cocotb
from board_rooted_bench import RootedHost
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from cocotbext.pcie.intel.ptile import PTilePcieDevice
from cocotbext.pcie.intel.ptile.interface import PTileRxBus, PTileTxBus

# Clocks of a link that is down for a short time, in which the engine is reset, and for so long that
# the whole card is.
SHORT_CLOCKS, LONG_CLOCKS = 300, 1200
SIGNALS = ["tx_cdts_limit", "tx_cdts_limit_tdm_idx", "tl_cfg_func", "tl_cfg_add", "tl_cfg_ctl"]
STREAM = ["data", "sop", "eop", "valid", "hdr", "tlp_prfx"]
RX_STREAM = [*STREAM, "empty", "bar_range", "tlp_abort"]

# Ports of the core by another name than that of a card's.
NAMES = {"clk": "coreclkout_hip", "rst": "p0_reset_status_n", "dl_up": "p0_dl_up_o"}
NAMES |= {name: f"p0_{name}_o" for name in SIGNALS}
NAMES |= {f"rx_st_{name}": f"p0_rx_st_{name}_o" for name in RX_STREAM}
NAMES |= {f"tx_st_{name}": f"p0_tx_st_{name}_i" for name in [*STREAM, "err"]}
NAMES |= {"rx_st_ready": "p0_rx_st_ready_i", "tx_st_ready": "p0_tx_st_ready_o"}


async def lose(tlp) -> None:
    """Takes a TLP from a link that goes down."""
    tlp.release_fc()


def without_nullified(sink) -> None:
    """Lets a sink drop TLPs whose last beat has the mark of a nullified one."""
    sample, sink_frame, beats = sink.bus.sample, sink._sink_frame, []

    def remember(beat):
        sample(beat)
        beats[:] = [beat]

    def drop(frame):
        if int(beats[0].err) == 0:
            sink_frame(frame)

    sink.bus.sample, sink._sink_frame = remember, drop


class BoardHost(RootedHost):
    """A host that finds the card by its configuration space, as a Bus of engine_host too."""

    def __init__(self, dut, seed: int = 1):
        super().__init__(dut.board.pcie, NAMES, seed)
        self.top = dut
        self.resets = 0

    def make_device(self):
        """The core's device, with its MSI-X capability as the board's settings have it."""
        core, msix, dut = self.board.core, self.board.core.msix, self.dut
        self.top.perst_n.value = 0
        dut.dl_up.value = 0
        self.top.board.release_ip.ninit_done.value = 1
        device = PTilePcieDevice(
            pcie_generation=core.generation,
            pcie_link_width=core.lanes,
            pld_clk_frequency=core.clock_mhz * 1e6,
            max_payload_size=core.max_payload_bytes,
            enable_extended_tag=core.extended_tags,
            pf0_msix_enable=True,
            pf0_msix_table_size=msix.vectors - 1,
            pf0_msix_table_offset=msix.table_offset,
            pf0_msix_pba_offset=msix.pending_offset,
            coreclkout_hip=dut.clk,
            reset_status_n=dut.rst,
            pin_perst_n=dut.pin_perst_n,
            rx_bus=PTileRxBus.from_prefix(dut, "rx_st"),
            tx_bus=PTileTxBus.from_prefix(dut, "tx_st"),
            **{name: getattr(dut, name) for name in SIGNALS},
        )
        without_nullified(device.tx_sink)
        cocotb.start_soon(self._power_up())
        return device

    async def _power_up(self) -> None:
        """The device is configured, the slot's reset ends, the link comes up."""
        await Timer(40, "ns")
        assert int(self.dut.ninit_done.value) == 1, "the core does not wait for the device"
        self.top.board.release_ip.ninit_done.value = 0
        await Timer(40, "ns")
        assert int(self.dut.ninit_done.value) == 0
        self.top.perst_n.value = 1

    async def begun(self) -> None:
        """Waits until the core is out of reset; then its link comes up."""
        await RisingEdge(self.dut.rst)
        await ClockCycles(self.dut.clk, 20)
        self.dut.dl_up.value = 1
        await ClockCycles(self.dut.clk, 80)

    def serial_number(self) -> int:
        """The serial number that the core's settings have."""
        return self.board.core.serial_number

    async def reset(self) -> None:
        """A reset of the link, which the core may show by its link alone: it is down for a short
        time and for a long one in turn. It takes from the card all that this has begun to send."""
        port = self.device.upstream_port
        receive, port.rx_handler = port.rx_handler, lose
        self.dut.dl_up.value = 0
        self.resets += 1
        await ClockCycles(self.dut.clk, SHORT_CLOCKS if self.resets % 2 else LONG_CLOCKS)
        self.dut.dl_up.value = 1
        port.rx_handler = receive
        self.config.reset()
        await self.wait(200)
