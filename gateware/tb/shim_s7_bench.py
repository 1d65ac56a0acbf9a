# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The 7-series hard block in tests: TLPs in band, as cocotbext-pcie packs them."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.pcie.core.tlp import Tlp as WireTlp
from simulate import SEED
from tlp_stream import Clocks, Tlp, TlpSink, TlpSource, reset
from wire import TYPES, fields_of

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


def off_the_wire(packet: bytes) -> Tlp:
    """Converts a packed TLP that the engine has sent to one of its stream."""
    wire = WireTlp.unpack(packet)
    tlp = Tlp(fields_of(wire), bytes(wire.data))
    if tlp.is_request:
        is_long = wire.fmt_type == TYPES[tlp.kind][1]
        assert is_long == (wire.address >= 1 << 32), "the short header is for addresses below 4 GiB"
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
        self.forget()
        for name, value in INPUTS.items():
            getattr(dut, name).value = value
        for name in ENGINE_INPUTS:
            if hasattr(dut, name):
                getattr(dut, name).value = 0

    async def begin(self, has_engine=True):
        """Resets and starts the streams."""
        dut = self.dut
        await reset(dut)
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

    def forget(self):
        """Forgets the TLP of which beats have come: a reset has cut it off."""
        self.packet, self.bad = b"", 0

    async def _transmit(self):
        dut = self.dut
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
                    self.packet += (data >> 32 * lane & 0xFFFFFFFF).to_bytes(4, "big")
            assert keep & keep + 1 == 0, "tkeep has a gap"
            self.bad |= int(dut.s_axis_tx_tuser.value) >> 3
            if dut.s_axis_tx_tlast.value:
                packet, bad = self.packet, self.bad
                self.forget()
                if self.taken is not None and not bad:
                    self.taken(packet)
                else:
                    (self.discontinued if bad else self.sent).append(packet)
            else:
                assert keep == (1 << 4 * self.lanes) - 1
