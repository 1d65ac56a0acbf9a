# SPDX-License-Identifier: Apache-2.0 OR MIT
"""cocotbext-pcie's P-Tile around crosslane_shim_ptile in tests: its streams."""

import itertools

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.pcie.intel.ptile import PTilePcieDevice
from cocotbext.pcie.intel.ptile.interface import (
    PTilePcieFrame,
    PTilePcieSink,
    PTilePcieSource,
    PTileRxBus,
    PTileTxBus,
)
from shim_intel_bench import SEGMENTS
from simulate import SEED
from tlp_stream import Clocks, TlpSink, TlpSource, reset

RX_READY_LATENCY, TX_READY_LATENCY = 27, 3

# Address of Configuration Output: value. Bus 5, device 2; MPS 256 B, MRRS 512 B.
SETTINGS = {0x00: 1 << 7 | 1 << 6 | 2 << 3 | 1, 0x01: 1 << 13 | 2 << 8 | 5, 0x0C: 1 << 5}
# Types of credit in the order in which they are told, by tx_cdts_limit_tdm_idx.
CREDITS = {"ph": 0, "nph": 1, "cplh": 2, "pd": 4, "npd": 5, "cpld": 6}
# Signals that cocotbext-pcie's device drives, beside its streams.
DEVICE_SIGNALS = [
    "tx_cdts_limit",
    "tx_cdts_limit_tdm_idx",
    "tl_cfg_func",
    "tl_cfg_add",
    "tl_cfg_ctl",
    "dl_up",
]


class Source(PTilePcieSource):
    """The receive stream. The model leaves two things out: a TLP's abort flag (`tlp_abort` of a
    frame: the number of a segment), and beats of which only the upper half is used."""

    def __init__(self, *args, **kwargs):
        self.leaves_lower = None  # a function: whether the next beat leaves its lower half free
        self.sop_aborts = []  # of the TLPs that begin, in order: the segment with the flag, or None
        self._segments_left = None
        super().__init__(*args, **kwargs)

    async def _drive(self, beat):
        beat.tlp_abort = 0
        for segment in range(self.seg_count):
            if not beat.valid >> segment & 1:
                continue
            if beat.sop >> segment & 1:
                self._segments_left = self.sop_aborts.pop(0) if self.sop_aborts else None
            if self._segments_left is not None:
                beat.tlp_abort |= int(self._segments_left == 0) << segment
                self._segments_left -= 1
        alone = beat.valid == beat.sop == beat.eop == 1
        if alone and self.leaves_lower and self.leaves_lower():
            move(beat)
        await super()._drive(beat)


def move(beat):
    """Moves what is in the lower half of a beat to the upper."""
    widths = {"data": 256, "hdr": 128, "tlp_prfx": 32, "empty": 3, "bar_range": 3, "func_num": 3}
    for name in ("data", "hdr", "tlp_prfx", "empty", "bar_range", "func_num"):
        setattr(beat, name, getattr(beat, name) << widths[name])
    for name in ("valid", "sop", "eop", "tlp_abort"):
        setattr(beat, name, getattr(beat, name) << 1)


def segments_of(header):
    """Segments of the TLP with this header in the lower half."""
    words = (header >> 96 & 1023 or 1024) if header >> 126 & 1 else 0
    return max(1, -(-words // 8))


class HardBlock:
    """The streams of the hard block alone, its settings and credits."""

    def __init__(self, dut, has_engine=True):
        self.dut = dut
        self.clocks = Clocks(dut.clk)
        self.rx = Source(PTileRxBus.from_prefix(dut, "rx_st"), dut.clk, dut.rst, RX_READY_LATENCY)
        self.tx = PTilePcieSink(
            PTileTxBus.from_prefix(dut, "tx_st"), dut.clk, dut.rst, TX_READY_LATENCY
        )
        self.settings = dict(SETTINGS)
        self.credits = dict.fromkeys(CREDITS, 0)
        self.nullified = 0
        self.is_gapless = True  # the engine's stream has no pause within a TLP
        dut.s_tx_valid.value = 0
        dut.m_rx_ready.value = 0
        dut.dl_up.value = 1
        dut.flr_rcvd_pf.value = 0
        if has_engine:
            self.from_shim = TlpSink(dut, "m_rx", self.clocks, seed=SEED)
            self.to_shim = TlpSource(dut, "s_tx", self.clocks, seed=SEED + 1)

    async def reset(self):
        """Resets, and waits until settings and credits are known; credits are infinite."""
        cocotb.start_soon(self._tell_settings())
        cocotb.start_soon(self._tell_credits())
        cocotb.start_soon(self._watch())
        await reset(self.dut)
        await ClockCycles(self.dut.clk, 80)
        return self

    async def _tell_settings(self):
        dut = self.dut
        # Another function's settings must not show.
        for function, address in itertools.cycle(itertools.product((0, 1), range(32))):
            dut.tl_cfg_func.value = function
            dut.tl_cfg_add.value = address
            dut.tl_cfg_ctl.value = 0xFFFF if function else self.settings.get(address, 0)
            await RisingEdge(dut.clk)

    async def _tell_credits(self):
        dut = self.dut
        for name in itertools.cycle(CREDITS):
            dut.tx_cdts_limit.value = self.credits[name]
            dut.tx_cdts_limit_tdm_idx.value = CREDITS[name]
            await RisingEdge(dut.clk)

    async def _watch(self):
        """Rules that the model does not check: no pause in a TLP but for ready, err with eop, and
        as many segments as the length says."""
        dut, ready, is_open = self.dut, [0] * TX_READY_LATENCY, False
        segments = 0  # left of a TLP
        while True:
            await RisingEdge(dut.clk)
            ready.append(int(dut.tx_st_ready.value))
            could = ready.pop(0)
            if dut.rst.value:
                is_open = False
                continue
            valid, eop = int(dut.tx_st_valid.value), int(dut.tx_st_eop.value)
            if self.is_gapless and is_open and could:
                assert valid, "a pause within a TLP"
            if valid:
                assert int(dut.tx_st_sop.value) == (0 if is_open else 1)
                if not is_open:
                    segments = segments_of(int(dut.tx_st_hdr.value))
                now = min(segments, SEGMENTS)
                segments -= now
                assert valid == (1 << now) - 1, "more segments than data, or fewer"
                assert eop == (0 if segments else 1 << now - 1), "eop"
                is_open = not eop
                assert int(dut.tx_st_err.value) & ~eop == 0, "err without eop"
                self.nullified += int(dut.tx_st_err.value) != 0

    def pause(self, seed, how_often):
        """Pauses all streams."""
        for part in (self.rx, self.tx):
            part.set_pause_generator(
                (seed.random() < how_often for _ in itertools.count()) if how_often else None
            )
        self.from_shim.pause = how_often

    def receive(self, wire, bar=0, aborted=None):
        """Lets a TLP come from the link; this segment is marked as aborted."""
        frame = PTilePcieFrame.from_tlp(wire)
        frame.bar_range = bar
        self.rx.sop_aborts.append(aborted)
        self.rx.send_nowait(frame)


def device_model(dut, **settings):
    """cocotbext-pcie's device on the ports of a card, at 250 MHz: Gen4 x8, or x16 at 512 bits."""
    device = PTilePcieDevice(
        pcie_generation=4,
        pcie_link_width=8 * SEGMENTS,
        pld_clk_frequency=250e6,
        max_payload_size=512,
        enable_extended_tag=True,
        pf0_msix_enable=True,
        pf0_msix_table_size=7,
        pf0_msix_table_offset=0x1000,
        pf0_msix_pba_offset=0x1800,
        coreclkout_hip=dut.clk,
        reset_status=dut.rst,
        rx_bus=PTileRxBus.from_prefix(dut, "rx_st"),
        tx_bus=PTileTxBus.from_prefix(dut, "tx_st"),
        **{name: getattr(dut, name) for name in DEVICE_SIGNALS},
        **settings,
    )
    dut.dl_up.value = 1
    dut.flr_rcvd_pf.value = 0
    return device
