# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The 7-series hard block in tests: TLPs in band, as cocotbext-pcie packs them."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.pcie.core.tlp import CplStatus, TlpAttr, TlpTc, TlpType
from cocotbext.pcie.core.tlp import Tlp as WireTlp
from cocotbext.pcie.core.utils import PcieId
from tlp_stream import (
    COMPLETION,
    COMPLETION_DATA,
    MEMORY_READ,
    MEMORY_WRITE,
    Clocks,
    Tlp,
    TlpSink,
    TlpSource,
)

SEED = int(os.environ.get("SEED", "1"))
INPUTS = {
    "m_axis_rx_tvalid": 0,
    "tx_buf_av": 20,
    "user_lnk_up": 1,
    "cfg_bus_number": 3,
    "cfg_device_number": 2,
    "cfg_function_number": 1,
    "cfg_command": 0x6,
    "cfg_dcommand": 0x2130,
    "cfg_interrupt_msixenable": 1,
    "cfg_interrupt_msixfm": 0,
    "cfg_received_func_lvl_rst": 0,
    "fc_ph": 0,
    "fc_pd": 0,
    "fc_nph": 0,
    "fc_cplh": 0,
    "fc_cpld": 0,
}
# Inputs of the shim alone.
ENGINE_INPUTS = ["s_tx_valid", "m_rx_ready"]


def double_words(packet):
    """A packed TLP as double words of the interface, first byte on top."""
    return [int.from_bytes(packet[n : n + 4], "big") for n in range(0, len(packet), 4)]


# Kinds of TLP with an address of 32 and of 64 bits.
REQUESTS = {
    MEMORY_READ: (TlpType.MEM_READ, TlpType.MEM_READ_64),
    MEMORY_WRITE: (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64),
}


def on_the_wire(tlp: Tlp) -> WireTlp:
    """Converts a TLP of the engine's stream to one of cocotbext-pcie."""
    wire = WireTlp()
    wire.tag, wire.length = tlp.tag, tlp.length_dw
    wire.tc, wire.attr = TlpTc(tlp.traffic_class), TlpAttr(tlp.attributes)
    wire.ep = bool(tlp.poisoned)
    wire.requester_id = PcieId.from_int(tlp.requester)
    wire.data = bytearray(tlp.payload)
    if tlp.is_request:
        wire.fmt_type = REQUESTS[tlp.kind][tlp.address >= 1 << 32]
        wire.address, wire.first_be, wire.last_be = tlp.address, tlp.first_be, tlp.last_be
    else:
        wire.fmt_type = TlpType.CPL_DATA if tlp.has_data else TlpType.CPL
        wire.status = CplStatus(tlp.status)
        wire.completer_id = PcieId.from_int(tlp.completer)
        wire.byte_count, wire.lower_address = tlp.byte_count, tlp.address
    return wire


def off_the_wire(packet: bytes) -> Tlp:
    """Converts a packed TLP that the engine has sent to one of its stream."""
    wire = WireTlp.unpack(packet)
    header = {"tag": wire.tag, "length_dw": wire.length, "traffic_class": int(wire.tc)}
    header |= {"attributes": int(wire.attr), "poisoned": int(wire.ep)}
    header |= {"requester": int(wire.requester_id)}
    if wire.fmt_type in (TlpType.CPL, TlpType.CPL_DATA):
        has_data = wire.fmt_type == TlpType.CPL_DATA
        header |= {"kind": COMPLETION_DATA if has_data else COMPLETION}
        header |= {"status": int(wire.status), "completer": int(wire.completer_id)}
        header |= {"byte_count": wire.byte_count, "address": wire.lower_address}
    else:
        kind = next(kind for kind, types in REQUESTS.items() if wire.fmt_type in types)
        is_long = wire.fmt_type == REQUESTS[kind][1]
        assert is_long == (wire.address >= 1 << 32), "the short header is for addresses below 4 GiB"
        header |= {"kind": kind, "address": wire.address}
        header |= {"first_be": wire.first_be, "last_be": wire.last_be}
    tlp = Tlp(header, bytes(wire.data))
    assert len(tlp.payload) == (4 * tlp.length_dw if tlp.has_data else 0)
    return tlp


class HardBlock:
    """The two streams of the hard block. TLPs that the engine has sent are kept in `sent`, or
    passed to `taken`, if given."""

    def __init__(self, dut, taken=None):
        self.dut = dut
        self.lanes = len(dut.s_axis_tx_tdata) // 32
        self.taken = taken
        self.clocks = Clocks(dut.clk)
        self.seed = random.Random(SEED)
        self.pause = 0.0
        self.to_engine = []  # (TLP, BARs hit, poisoned beside it)
        self.sent = []
        self.discontinued = []
        self.beats = 0
        for name, value in INPUTS.items():
            getattr(dut, name).value = value
        for name in ENGINE_INPUTS:
            if hasattr(dut, name):
                getattr(dut, name).value = 0

    async def begin(self, has_engine=True):
        """Resets and starts the streams."""
        dut = self.dut
        Clock(dut.clk, 4, unit="ns").start()
        dut.rst.value = 1
        await ClockCycles(dut.clk, 3)
        dut.rst.value = 0
        if has_engine:
            self.rx = TlpSink(dut, "m_rx", self.clocks, seed=SEED)
            self.tx = TlpSource(dut, "s_tx", self.clocks, seed=SEED + 1)
        await ClockCycles(dut.clk, 3)
        cocotb.start_soon(self._receive())
        cocotb.start_soon(self._transmit())
        return self

    def _beats(self):
        """Beats of the waiting TLPs: (lanes, start lane or None, end lane or None, bars, poisoned).
        At 128 bits a TLP may begin in the middle of the beat in which another ends, if it is
        available."""
        while self.to_engine:
            lanes, start, end = [], 0, None
            tlp, bars, poisoned = self.to_engine.pop(0)
            words = double_words(tlp.pack())
            while True:
                room = self.lanes - len(lanes)
                lanes += words[:room]
                words = words[room:]
                if words:
                    yield lanes, start, end, bars, poisoned
                    lanes, start, end = [], None, None
                    continue
                end = len(lanes) - 1
                straddles = self.lanes == 4 and end < 2 and start is None and self.to_engine
                if not straddles or self.seed.random() < self.pause:
                    yield lanes, start, end, bars, poisoned
                    break
                lanes += [self.seed.getrandbits(32)] * (2 - len(lanes))
                tlp, bars, poisoned = self.to_engine.pop(0)
                words = double_words(tlp.pack())
                start = 2

    async def _receive(self):
        dut = self.dut
        while True:
            for lanes, start, end, bars, poisoned in self._beats():
                while self.seed.random() < self.pause:
                    dut.m_axis_rx_tvalid.value = 0
                    await RisingEdge(dut.clk)
                padded = lanes + [self.seed.getrandbits(32) for _ in range(self.lanes - len(lanes))]
                dut.m_axis_rx_tdata.value = sum(w << 32 * n for n, w in enumerate(padded))
                user = poisoned << 1 | bars << 2
                if self.lanes == 4:
                    if start is not None:
                        user |= 1 << 14 | start * 4 << 10
                    if end is not None:
                        user |= 1 << 21 | (end * 4 + 3) << 17
                dut.m_axis_rx_tuser.value = user
                dut.m_axis_rx_tlast.value = end is not None and not (self.lanes == 4 and start == 2)
                dut.m_axis_rx_tkeep.value = (1 << 4 * len(lanes)) - 1
                dut.m_axis_rx_tvalid.value = 1
                await RisingEdge(dut.clk)
                while not dut.m_axis_rx_tready.value:
                    await RisingEdge(dut.clk)
            dut.m_axis_rx_tvalid.value = 0
            await RisingEdge(dut.clk)

    async def _transmit(self):
        dut = self.dut
        packet, bad = b"", 0
        while True:
            dut.s_axis_tx_tready.value = self.seed.random() >= self.pause
            await RisingEdge(dut.clk)
            if not (dut.s_axis_tx_tvalid.value and dut.s_axis_tx_tready.value):
                continue
            self.beats += 1
            data, keep = int(dut.s_axis_tx_tdata.value), int(dut.s_axis_tx_tkeep.value)
            for lane in range(self.lanes):
                enables = keep >> 4 * lane & 15
                assert enables in (0, 15)
                if enables:
                    packet += (data >> 32 * lane & 0xFFFFFFFF).to_bytes(4, "big")
            assert keep & keep + 1 == 0, "tkeep has a gap"
            bad |= int(dut.s_axis_tx_tuser.value) >> 3
            if dut.s_axis_tx_tlast.value:
                if self.taken is not None and not bad:
                    self.taken(packet)
                else:
                    (self.discontinued if bad else self.sent).append(packet)
                packet, bad = b"", 0
            else:
                assert keep == (1 << 4 * self.lanes) - 1
