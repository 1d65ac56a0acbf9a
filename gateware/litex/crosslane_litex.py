# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Crosslane's engine as a LiteX module, on LitePCIe's 7-series PHY. Read first: README.md."""

import re
from pathlib import Path

import yaml
from litex.gen import ClockSignal, Instance, LiteXModule, Open, ResetSignal, Signal
from litex.soc.interconnect.axi import AXIStreamInterface
from migen import Cat

GATEWARE = Path(__file__).resolve().parent.parent
TOP = "crosslane_engine_s7"
# Ports of the hard block: outputs, which the engine reads, with their widths (0: the data path's,
# in bits or bytes), and inputs, which it drives in place of the PHY.
READ = {
    "m_axis_rx_tvalid": 1,
    "m_axis_rx_tdata": "bits",
    "m_axis_rx_tkeep": "bytes",
    "m_axis_rx_tlast": 1,
    "m_axis_rx_tuser": 22,
    "s_axis_tx_tready": 1,
    "tx_buf_av": 6,
    "user_lnk_up": 1,
    "cfg_bus_number": 8,
    "cfg_device_number": 5,
    "cfg_function_number": 3,
    "cfg_command": 16,
    "cfg_dcommand": 16,
    "cfg_interrupt_msixenable": 1,
    "cfg_interrupt_msixfm": 1,
    "cfg_received_func_lvl_rst": 1,
    "fc_ph": 8,
    "fc_pd": 12,
    "fc_nph": 8,
    "fc_cplh": 8,
    "fc_cpld": 12,
}
DRIVEN = {
    "m_axis_rx_tready": 1,
    "rx_np_ok": 1,
    "rx_np_req": 1,
    "s_axis_tx_tvalid": 1,
    "s_axis_tx_tdata": "bits",
    "s_axis_tx_tkeep": "bytes",
    "s_axis_tx_tlast": 1,
    "s_axis_tx_tuser": 4,
    "tx_cfg_gnt": 1,
    "cfg_err_cpl_timeout": 1,
    "cfg_err_cpl_unexpect": 1,
    "fc_sel": 3,
}
# Outputs that the PHY leaves with us alone: its data paths stay empty.
STREAM = ("m_axis_rx_", "s_axis_tx_")
# Settings of the core that the engine and its driver rely on; values are those of the boards.
SETTINGS = re.compile(
    r"mode_selection|Extended_Tag_Field|Perf_Level|Use_Class_Code\w+|Class_Code_\w+|Bar0_\w+|MSI\w+"
)
LANE_WINDOW = 524288


def sources() -> list[Path]:
    """The engine's files in their order, as crosslane.core has them."""
    core = yaml.safe_load((GATEWARE / "crosslane.core").read_text().removeprefix("CAPI=2:"))
    names = core["targets"]["engine_s7"]["filesets"]
    return [GATEWARE / file for name in names for file in core["filesets"][name]["files"]]


def core_settings(lanes: int, lane_window: int, vectors: int) -> dict[str, str]:
    """Settings of the vendor's core (pcie_7x) for an engine with these parameters."""
    text = (GATEWARE / "boards" / "ip" / "pcie_7x.tcl").read_text()
    found = re.findall(r"CONFIG\.(\w+) \{(.*?)\}", text)
    settings = {name: value for name, value in found if SETTINGS.fullmatch(name)}
    settings |= {"MSIx_Table_Size": f"{vectors:X}", "Bar1_Enabled": "false"}
    if lanes:
        kib = lanes * lane_window // 1024
        scale, size = ("Megabytes", kib // 1024) if kib >= 1024 else ("Kilobytes", kib)
        settings |= {"Bar1_Enabled": "true", "Bar1_Type": "Memory", "Bar1_64bit": "false"}
        settings |= {"Bar1_Scale": scale, "Bar1_Size": str(size)}
    return settings


def check(phy) -> None:
    """Refuses a PHY that the engine does not fit."""
    params = getattr(phy, "pcie_phy_params", {})
    if not {f"o_{name}" for name in READ} | {f"i_{name}" for name in DRIVEN} <= set(params):
        kind = type(phy).__name__
        raise ValueError(f"cannot put the engine on {kind}: only S7PCIEPHY has its ports")
    if phy.msi_type != "msi-x":
        raise ValueError(f'cannot use msi_type="{phy.msi_type}": the engine needs "msi-x"')
    if phy.finalized:
        raise ValueError("cannot change a PHY that is finalized: add the engine before")


class CrosslaneEngine(LiteXModule):
    """The engine in place of LitePCIe's endpoint and DMA.

    `phy` is an S7PCIEPHY with `msi_type="msi-x"`; `cd` is the clock domain of the streams, any.
    Keyword arguments are parameters of crosslane_engine_s7.

    h2c, c2h, peer: lists of AXI-Streams, of the channels that read host memory, write it, and write
    to other cards; lane: the stream of receive queue `LANE`, with LANES > 0. reset: the streams are
    reset, because of either side.
    """

    def __init__(self, phy, cd: str = "sys", **parameters: int) -> None:
        check(phy)
        params = phy.pcie_phy_params
        bits = phy.pcie_data_width
        # The core of a link of eight lanes has a clock of 250 MHz and payloads to 256 B, all others
        # 125 MHz and 512 B. Completions: what the smallest receive buffer takes (docs/boards.md).
        is_wide = phy.nlanes == 8
        values = {"H2C": 1, "C2H": 1, "PEER": 0, "LANES": 0, "LANE_WINDOW": LANE_WINDOW}
        values |= {"VECTORS": 8, "TAGS": 64, "PACKETS": 0, "MAX_READ": 256, "BATCH": 4}
        values |= {"MAX_WRITE": 256 if is_wide else 512, "CLOCK_PS": 4000 if is_wide else 8000}
        values |= {"COMPLETION_HEADER_CREDITS": 71, "COMPLETION_DATA_CREDITS": 369}
        values |= parameters
        values.setdefault("TIMEOUT_CLOCKS", 50_000_000_000 // values["CLOCK_PS"])
        values["DATA_BITS"] = bits

        def stream() -> AXIStreamInterface:
            return AXIStreamInterface(bits, user_width=16, clock_domain=cd)

        self.h2c = [stream() for _ in range(values["H2C"])]
        self.c2h = [stream() for _ in range(values["C2H"])]
        self.peer = [stream() for _ in range(values["PEER"])]
        self.lane = stream()
        self.reset = Signal()

        # # #

        def width(of: int | str) -> int:
            return {"bits": bits, "bytes": bits // 8}.get(of, of)

        ports = {}
        for name, of in READ.items():
            if name.startswith(STREAM) or isinstance(params[f"o_{name}"], Open):
                params[f"o_{name}"] = Signal(width(of), name=f"crosslane_{name}")
            ports[f"i_{name}"] = params[f"o_{name}"]
        for name, of in DRIVEN.items():
            params[f"i_{name}"] = ports[f"o_{name}"] = Signal(width(of), name=f"crosslane_{name}")
        writers = self.c2h + self.peer
        for name in ("data", "keep", "last", "user", "valid"):
            ports[f"o_m_axis_h2c_t{name}"] = Cat(*(getattr(s, name) for s in self.h2c))
            ports[f"i_s_axis_write_t{name}"] = Cat(*(getattr(s, name) for s in writers))
        ports |= {
            "i_m_axis_h2c_tready": Cat(*(s.ready for s in self.h2c)),
            "o_s_axis_write_tready": Cat(*(s.ready for s in writers)),
            "o_m_axis_lane_tdata": self.lane.data,
            "o_m_axis_lane_tkeep": self.lane.keep,
            "o_m_axis_lane_tvalid": self.lane.valid,
            "i_m_axis_lane_tready": self.lane.ready,
            "i_clk": ClockSignal("pcie"),
            "i_rst": ResetSignal("pcie"),
            "i_user_clk": ClockSignal(cd),
            "i_user_rst": ResetSignal(cd),
            "o_user_rst_o": self.reset,
        }
        ports |= {f"p_{name}": value for name, value in values.items()}
        self.specials += Instance(TOP, **ports)

        phy.update_config(core_settings(values["LANES"], values["LANE_WINDOW"], values["VECTORS"]))
        for file in sources():
            phy.platform.add_source(str(file))
        # Vivado reads the constraints of the crossings between both clocks.
        if hasattr(phy.platform.toolchain, "pre_synthesis_commands"):
            scoped = GATEWARE / "constraints" / "scoped.tcl"
            phy.platform.toolchain.pre_synthesis_commands.append(f"source {scoped}")
