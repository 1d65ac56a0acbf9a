# SPDX-License-Identifier: Apache-2.0 OR MIT
"""cocotbext-pcie's Stratix 10 around crosslane_shim_s10 in tests: its streams and credits.

The model tells the credits that are free, but not when it consumes some, and it takes the mark of a
nullified TLP from the first beat: both are added here.
"""

import itertools
from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.pcie.intel.s10 import S10PcieDevice
from cocotbext.pcie.intel.s10.interface import (
    S10PcieFrame,
    S10PcieSink,
    S10PcieSource,
    S10RxBus,
    S10TxBus,
)
from shim_intel_bench import SEGMENTS
from simulate import SEED
from tlp_stream import Clocks, TlpSink, TlpSource, reset

RX_READY_LATENCY, TX_READY_LATENCY = (17, 18)[SEGMENTS - 1], 3

# Address of the configuration interface: value. Bus 5, device 2; MPS 256 B, MRRS 512 B.
SETTINGS = {0: 1 << 29 | 2 << 24 | 5 << 16 | 1 << 7 | 1 << 6 | 2 << 3 | 1, 6: 1 << 5}
# Credits of each class, by tx_cdts_type: of headers and of data.
CLASSES = [("ph", "pd"), ("nph", "npd"), ("cplh", "cpld")]
WIDTHS = {"ph": 8, "pd": 12, "nph": 8, "cplh": 8, "cpld": 12}
# Signals that cocotbext-pcie's device drives, beside its streams.
DEVICE_SIGNALS = [
    "tx_ph_cdts",
    "tx_pd_cdts",
    "tx_nph_cdts",
    "tx_cplh_cdts",
    "tl_cfg_func",
    "tl_cfg_add",
    "tl_cfg_ctl",
]


class Consumed:
    """Tells what the hard block consumes: a header, and up to two credits of data, in each segment
    of a clock."""

    def __init__(self, dut):
        self.dut = dut
        self.pulses: deque = deque()  # class, header, data
        self.skips = 0  # credits of data of each TLP that are not told
        self.show()

    def add(self, tlp):
        """A TLP leaves the hard block."""
        number, data = tlp.get_fc_type().value, tlp.get_data_credits() - self.skips
        self.pulses.append((number, 1, min(data, 2)))
        self.pulses += [(number, 0, min(rest, 2)) for rest in range(data - 2, 0, -2)]

    def show(self):
        """Drives the signals of a clock; returns what they tell."""
        told = [self.pulses.popleft() for _ in range(min(SEGMENTS, len(self.pulses)))]
        header = data = kind = two = 0
        for at, (number, headers, credits) in enumerate(told):
            header |= headers << at
            data |= int(credits > 0) << at
            kind |= number << 2 * at
            two |= int(credits == 2) << at
        self.dut.tx_hdr_cdts_consumed.value = header
        self.dut.tx_data_cdts_consumed.value = data
        self.dut.tx_cdts_type.value = kind
        self.dut.tx_cdts_data_value.value = two
        return told


class Sink(S10PcieSink):
    """The transmit stream. A frame's `err` is that of its last segment."""

    def __init__(self, *args, **kwargs):
        self._beat, self._ends = None, deque()
        super().__init__(*args, **kwargs)
        self.ready_latency = TX_READY_LATENCY

    @property
    def sample_obj(self):
        """The beat that has come; the model takes it by setting it to None."""
        return self._beat

    @sample_obj.setter
    def sample_obj(self, beat):
        taken, self._beat = self._beat, beat
        for segment in range(SEGMENTS if taken and not beat else 0):
            if int(taken.valid) & int(taken.eop) & 1 << segment:
                self._ends.append(int(taken.err) >> segment & 1)

    def _sink_frame(self, frame):
        frame.err = self._ends.popleft()
        super()._sink_frame(frame)


def segments_of(word):
    """Segments of the TLP with this first double word."""
    words = (word & 1023 or 1024) if word >> 30 & 1 else 0
    return -(-(3 + (word >> 29 & 1) + words) // 8)


class HardBlock:
    """The streams of the hard block alone, its settings and credits."""

    def __init__(self, dut, has_engine=True):
        self.dut = dut
        self.clocks = Clocks(dut.clk)
        self.rx = S10PcieSource(S10RxBus.from_prefix(dut, "rx_st"), dut.clk, dut.rst)
        self.rx.ready_latency = RX_READY_LATENCY
        self.tx = Sink(S10TxBus.from_prefix(dut, "tx_st"), dut.clk, dut.rst)
        self.consumed = Consumed(dut)
        self.settings = dict(SETTINGS)
        self.free: dict = {}  # credits; those that are not here are infinite
        self.lag = 0  # clocks by which free credits fall later than they are consumed
        self.keeps = False  # consumes no credits: TLPs stay in the block
        self.sent: list = []  # frames that have left the block
        self.nullified = 0
        self.is_gapless = True  # the engine's stream has no pause within a TLP
        dut.s_tx_valid.value = 0
        dut.m_rx_ready.value = 0
        dut.link_up.value = 1
        dut.flr_pf_active.value = 0
        if has_engine:
            self.from_shim = TlpSink(dut, "m_rx", self.clocks, seed=SEED)
            self.to_shim = TlpSource(dut, "s_tx", self.clocks, seed=SEED + 1)

    async def reset(self):
        """Resets, and waits until settings and credits are known."""
        cocotb.start_soon(self._tell_settings())
        cocotb.start_soon(self._tell_credits())
        cocotb.start_soon(self._watch())
        await reset(self.dut)
        await ClockCycles(self.dut.clk, 80)
        return self

    async def come_up(self, **free):
        """Lets the link come up again, with these credits."""
        self.dut.link_up.value = 0
        await ClockCycles(self.dut.clk, 4)
        self.free = free
        self.dut.link_up.value = 1
        await ClockCycles(self.dut.clk, 80)

    async def _tell_settings(self):
        dut = self.dut
        # Another function's settings must not show.
        for function, address in itertools.cycle(itertools.product((0, 1), range(10))):
            dut.tl_cfg_func.value = function
            dut.tl_cfg_add.value = address
            dut.tl_cfg_ctl.value = 0xFFFFFFFF if function else self.settings.get(address, 0)
            await RisingEdge(dut.clk)

    async def _tell_credits(self):
        dut, falls = self.dut, deque()
        while True:
            for name, bits in WIDTHS.items():
                value = self.free.get(name, (1 << bits) - 1)
                getattr(dut, f"tx_{name}_cdts").value = value
            await RisingEdge(dut.clk)
            if not self.tx.empty() and not self.keeps:
                frame = self.tx.recv_nowait()
                self.nullified += frame.err
                if not frame.err:
                    self.sent.append(frame)
                    self.consumed.add(frame.to_tlp())
            falls.append(self.consumed.show())
            while len(falls) > self.lag:
                for number, headers, data in falls.popleft():
                    for name, count in zip(CLASSES[number], (headers, data), strict=True):
                        if name in self.free:
                            self.free[name] -= count

    async def _watch(self):
        """Rules that the model does not check: no pause in a TLP but for ready, err with eop, no
        free segment within a TLP or before one, and as many as the length says."""
        dut, ready, left = self.dut, [0] * TX_READY_LATENCY, 0
        while True:
            await RisingEdge(dut.clk)
            ready.append(int(dut.tx_st_ready.value))
            could = ready.pop(0)
            if dut.rst.value:
                left = 0
                continue
            valid = int(dut.tx_st_valid.value)
            sop, eop, err = (int(getattr(dut, f"tx_st_{n}").value) for n in ("sop", "eop", "err"))
            if self.is_gapless and left and could:
                assert valid, "a pause within a TLP"
            assert valid in (0, 1, 3), "the lower half is free"
            assert (sop | eop | err) & ~valid == 0 or not valid, "marks of no segment"
            for segment in range(SEGMENTS):
                bit = 1 << segment
                if not valid & bit:
                    assert not (valid and left), "a free segment within a TLP"
                    continue
                assert bool(sop & bit) == (left == 0), "sop"
                if not left:
                    left = segments_of(int(dut.tx_st_data.value) >> 256 * segment & 0xFFFFFFFF)
                left -= 1
                assert bool(eop & bit) == (left == 0), "eop"
                assert not err & bit or eop & bit, "err without eop"

    def pause(self, seed, how_often):
        """Pauses all streams."""
        for part in (self.rx, self.tx):
            part.set_pause_generator(
                (seed.random() < how_often for _ in itertools.count()) if how_often else None
            )
        self.from_shim.pause = how_often

    def receive(self, wire, bar=0):
        """Lets a TLP come from the link."""
        frame = S10PcieFrame.from_tlp(wire)
        frame.bar_range = bar
        self.rx.send_nowait(frame)


class Device(S10PcieDevice):
    """The device, with a hard block that tells what it consumes, and drops nullified TLPs."""

    def begin(self, dut):
        """Begins to take what is sent."""
        self.consumed = Consumed(dut)
        self.tx_sink = Sink(S10TxBus.from_prefix(dut, "tx_st"), dut.clk)
        self.tx_sink.queue_occupancy_limit_frames = 2
        cocotb.start_soon(self._run_tx_logic())
        cocotb.start_soon(self._tell_consumed())

    async def _run_tx_logic(self):
        while True:
            frame = await self.tx_sink.recv()
            if frame.err:
                continue
            tlp = frame.to_tlp()
            await self.send(tlp)
            self.consumed.add(tlp)

    async def _tell_consumed(self):
        while True:
            await RisingEdge(self.coreclkout_hip)
            self.consumed.show()


def device_model(dut, **settings):
    """cocotbext-pcie's device on the ports of a card, at 250 MHz: Gen3 x8, or x16 at 512 bits."""
    device = Device(
        pcie_generation=3,
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
        rx_bus=S10RxBus.from_prefix(dut, "rx_st"),
        **{name: getattr(dut, name) for name in DEVICE_SIGNALS},
        **settings,
    )
    device.begin(dut)
    dut.tx_cpld_cdts.value = 0
    dut.link_up.value = 1
    dut.flr_pf_active.value = 0
    return device
