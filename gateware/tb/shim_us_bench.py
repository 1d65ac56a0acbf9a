# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The hard block around crosslane_shim_us in tests: its streams, and random TLPs both ways."""

import itertools
import os
import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core.tlp import CplStatus, TlpAttr, TlpTc, TlpType
from cocotbext.pcie.core.utils import PcieId
from cocotbext.pcie.xilinx.us import UltraScalePcieDevice, UltraScalePlusPcieDevice
from cocotbext.pcie.xilinx.us.interface import CcSink, CqSource, RcSource, RqSink
from cocotbext.pcie.xilinx.us.tlp import ErrorCode, Tlp_us
from simulate import SEED
from tlp_stream import (
    COMPLETION,
    COMPLETION_DATA,
    MEMORY_READ,
    MEMORY_WRITE,
    NO_BAR,
    Clocks,
    Tlp,
    TlpSink,
    TlpSource,
    memory_read,
    reset,
    until,
)
from wire import fields_of

DATA_BITS = int(os.environ.get("DATA_BITS", "256"))
LANES = DATA_BITS // 32
CQ_TLPS, CC_TLPS, RQ_TLPS, RC_TLPS = (
    int(os.environ.get(f"{stream}_TLPS", "1")) for stream in ("CQ", "CC", "RQ", "RC")
)
# The Gen3 block of Virtex-7 and UltraScale in place of UltraScale+'s.
GEN3 = os.environ.get("GEN3", "0") == "1"
# Sequence numbers: the bit that tells a write, below it those of each kind.
WRITE_NUMBER = 8 if GEN3 else 32
# Double words of payload: lengths that just fit a beat or do not, and the usual payloads.
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 20, 28, 29, 32, 33, 64]
RATE_LENGTHS = [1, 9, 16, 17, 32, 64, 128, 256]


def whole_tag(tag):
    """The tag of 8 bits of which the Gen3 block has the lower 6, in tests."""
    return tag | ((tag ^ tag >> 3) & 3) << 6


INPUTS = {
    "pcie_rq_seq_num0": 0,
    "pcie_rq_seq_num_vld0": 0,
    "pcie_rq_seq_num1": 0,
    "pcie_rq_seq_num_vld1": 0,
    "user_lnk_up": 1,
    "cfg_bus_number": 5,
    "cfg_max_payload": 1,
    "cfg_max_read_req": 2,
    "cfg_function_status": 7,
    "cfg_interrupt_msix_enable": 1,
    "cfg_interrupt_msix_mask": 0,
    "cfg_mgmt_read_data": 0,
    "cfg_mgmt_read_write_done": 0,
    "cfg_flr_in_process": 0,
    "cfg_fc_ph": 0,
    "cfg_fc_pd": 0,
    "cfg_fc_nph": 0,
    "cfg_fc_cplh": 0,
    "cfg_fc_cpld": 0,
}


# Signals that cocotbext-pcie's device drives or reads, beside its streams.
SIGNALS = [
    *(name for name in INPUTS if name != "cfg_flr_in_process"),
    "cfg_fc_sel",
    "pcie_cq_np_req",
    "cfg_mgmt_addr",
    "cfg_mgmt_function_number",
    "cfg_mgmt_read",
    "cfg_mgmt_write",
    "cfg_mgmt_write_data",
    "cfg_mgmt_byte_enable",
    "cfg_mgmt_debug_access",
]


# Of these the model of the Gen3 block lacks some, and has others by another name; its widths.
NOT_GEN3 = {
    "pcie_rq_seq_num1",
    "pcie_rq_seq_num_vld1",
    "cfg_bus_number",
    "cfg_mgmt_function_number",
    "cfg_mgmt_debug_access",
}
GEN3_NAMES = {
    "pcie_rq_seq_num0": "pcie_rq_seq_num",
    "pcie_rq_seq_num_vld0": "pcie_rq_seq_num_vld",
}
GEN3_BITS = {
    "pcie_rq_seq_num0": 4,
    "pcie_cq_np_req": 1,
    "cfg_max_payload": 3,
    "cfg_function_status": 16,
    "cfg_interrupt_msix_enable": 2,
    "cfg_interrupt_msix_mask": 2,
    "cfg_mgmt_addr": 19,
}


class Resized:
    """A port with another width than the model's: the lower bits are joined."""

    def __init__(self, port, bits: int):
        self.port, self.bits = port, bits

    def __len__(self):
        return self.bits

    @property
    def value(self):
        """The port's value."""
        return self.port.value

    @value.setter
    def value(self, value):
        self.port.value = int(value) & ((1 << len(self.port)) - 1)

    def setimmediatevalue(self, value):
        """Sets the port at once."""
        self.port.setimmediatevalue(value)


def signals(dut):
    """The ports of a shim that the model drives or reads, by the model's names."""
    if not GEN3:
        return {name: getattr(dut, name) for name in SIGNALS}
    found = {name: getattr(dut, name) for name in SIGNALS if name not in NOT_GEN3}
    for name, bits in GEN3_BITS.items():
        if len(found[name]) != bits:
            found[name] = Resized(found[name], bits)
    return {GEN3_NAMES.get(name, name): port for name, port in found.items()}


def device_model(dut, **settings):
    """cocotbext-pcie's device on the ports of a shim."""
    buses = {
        f"{name}_bus": AxiStreamBus.from_prefix(dut, f"{side}_axis_{name}")
        for name, side in {"rq": "s", "rc": "m", "cq": "m", "cc": "s"}.items()
    }
    if GEN3:
        model = UltraScalePcieDevice
    else:
        model = UltraScalePlusPcieDevice
        settings |= {
            "cq_straddle": CQ_TLPS == 2,
            "cc_straddle": CC_TLPS == 2,
            "rq_straddle": RQ_TLPS == 2,
            "rc_4tlp_straddle": RC_TLPS == 4,
        }
    device = model(
        rc_straddle=RC_TLPS >= 2,
        max_payload_size=1024,
        enable_extended_tag=True,
        pf0_msix_enable=True,
        pf0_msix_table_size=7,
        user_clk=dut.clk,
        user_reset=dut.rst,
        **buses,
        **signals(dut),
        **settings,
    )
    if CQ_TLPS == 2:
        mend_enables(device.cq_source)
    return device


def mend_enables(source):
    """With straddling the model puts the byte enables at the nibble of the segment; PG213 says that
    the first nibble belongs to the first TLP that begins in the beat.
    """
    drive = source._drive

    async def mended(beat):
        if DATA_BITS == 512 and beat.tuser >> 80 & 3 == 1 and beat.tuser >> 82 & 3 == 2:
            enables = beat.tuser & 0xFFFF
            beat.tuser = beat.tuser & ~0xFFFF | (enables & 0xF0F0) >> 4
        await drive(beat)

    source._drive = mended


class HardBlock:
    """The streams of the hard block alone."""

    def __init__(self, dut, has_engine=True):
        self.dut = dut
        self.clocks = Clocks(dut.clk)
        bus = AxiStreamBus.from_prefix
        self.cq = CqSource(bus(dut, "m_axis_cq"), dut.clk, dut.rst, segments=CQ_TLPS)
        self.rc = RcSource(bus(dut, "m_axis_rc"), dut.clk, dut.rst, segments=RC_TLPS)
        self.rq = RqSink(bus(dut, "s_axis_rq"), dut.clk, dut.rst, segments=RQ_TLPS)
        self.cc = CcSink(bus(dut, "s_axis_cc"), dut.clk, dut.rst, segments=CC_TLPS)
        if CQ_TLPS == 2:
            mend_enables(self.cq)
        dut.s_tx_valid.value = 0
        dut.m_rx_ready.value = 0
        if has_engine:
            self.rx = TlpSink(dut, "m_rx", self.clocks, seed=SEED)
            self.tx = TlpSource(dut, "s_tx", self.clocks, seed=SEED + 1)

    async def reset(self):
        """Resets: other inputs idle, credits unlimited."""
        for name, value in INPUTS.items():
            getattr(self.dut, name).value = value
        await reset(self.dut)
        await ClockCycles(self.dut.clk, 3)
        return self

    def pause(self, seed, how_often):
        """Pauses all streams."""
        for part in [self.cq, self.rc, self.rq, self.cc]:
            part.set_pause_generator(
                (seed.random() < how_often for _ in itertools.count()) if how_often else None
            )
        self.rx.pause = how_often

    async def send_reads(self):
        """Sends a read with each of the Gen3 block's tags."""
        numbers = Numbers(self, random.Random(SEED), (1, 2))
        self.tx.queue.extend(memory_read(0x1000, 4, whole_tag(tag)) for tag in range(64))
        await until(self.dut, lambda: len(numbers.taken) == 64)

    def receive_write(self, data):
        """Lets a write of this payload come from the link."""
        tlp = Tlp_us()
        tlp.fmt_type = TlpType.MEM_WRITE_64
        tlp.set_addr_be_data(0x1000, data)
        self.cq.send_nowait(tlp.pack_us_cq())


def received_request(seed):
    """A request as the hard block delivers it, and the one that the engine must get."""
    kind = seed.choice(["write", "write", "write", "read", "other"])
    length = seed.choice(LENGTHS)
    tlp = Tlp_us()
    tlp.address = seed.getrandbits(62) << 2
    if kind == "write":
        tlp.fmt_type = TlpType.MEM_WRITE_64
        tlp.data = bytearray(seed.randbytes(4 * length))
    elif kind == "read":
        tlp.fmt_type = TlpType.MEM_READ_64
        length = seed.choice([1, 2, 1024])
    else:
        tlp.fmt_type = seed.choice([TlpType.FETCH_ADD_64, TlpType.IO_READ, TlpType.IO_WRITE])
        length = 1
        if tlp.fmt_type != TlpType.IO_READ:
            tlp.data = bytearray(seed.randbytes(4))
    tlp.length = length
    tlp.first_be = seed.choice([0xF, 0xC, 0x3, 0x0 if kind == "read" and length == 1 else 0x8])
    tlp.last_be = seed.choice([0xF, 0x1]) if length > 1 else 0
    tlp.requester_id = PcieId.from_int(seed.getrandbits(16))
    tlp.tag = seed.getrandbits(8)
    tlp.tc = TlpTc(seed.getrandbits(3))
    tlp.attr = TlpAttr(seed.getrandbits(3))
    tlp.bar_id = seed.choice([0, 1, 2, 6])
    tlp.bar_aperture = seed.getrandbits(6)
    tlp.completer_id = PcieId(0, 0, seed.getrandbits(3))
    tlp.discontinue = kind == "write" and seed.random() < 0.1
    header = fields_of(tlp, MEMORY_WRITE if kind == "write" else MEMORY_READ)
    header |= {"poisoned": int(tlp.discontinue), "status": 0, "byte_count": 0}
    header |= {"completer": tlp.completer_id.function}
    header |= {"bar": tlp.bar_id if tlp.bar_id < 6 and kind != "other" else NO_BAR}
    expected = Tlp(header, bytes(tlp.data) if kind == "write" else b"")
    return tlp, expected


def received_completion(seed, length=None):
    """A completion as the hard block delivers it, and the one that the engine must get: none if the
    hard block has generated it."""
    tlp = Tlp_us()
    if length is None:
        length = seed.choice([0, *LENGTHS])
    tlp.fmt_type = TlpType.CPL_DATA if length else TlpType.CPL
    tlp.length = length
    tlp.data = bytearray(seed.randbytes(4 * length))
    tlp.lower_address = seed.getrandbits(10) << 2
    tlp.byte_count = seed.choice([4 * length, 4096]) if length else seed.choice([4, 4096])
    tlp.status = (
        CplStatus.SC if length else seed.choice([CplStatus.UR, CplStatus.CA, CplStatus.CRS])
    )
    codes = [ErrorCode.NORMAL_TERMINATION, ErrorCode.INVALID_TAG]
    tlp.error_code = seed.choice([*codes, ErrorCode.MISMATCH] if GEN3 else codes)
    if not length and seed.random() < 0.3:
        tlp.error_code = seed.choice([ErrorCode.TIMEOUT, ErrorCode.FLR])
    tlp.ep = bool(length) and seed.random() < 0.1
    tlp.requester_id = PcieId.from_int(seed.getrandbits(16))
    tlp.completer_id = PcieId.from_int(seed.getrandbits(16))
    tlp.tag = seed.getrandbits(8)
    tlp.tc = TlpTc(seed.getrandbits(3))
    tlp.attr = TlpAttr(seed.getrandbits(3))
    tlp.request_completed = seed.random() < 0.5
    tlp.discontinue = bool(length) and RC_TLPS == 1 and seed.random() < 0.1
    header = fields_of(tlp) | {"address": tlp.lower_address & 0x7F, "first_be": 0, "last_be": 0}
    header |= {"poisoned": int(tlp.ep or tlp.discontinue), "bar": NO_BAR}
    if GEN3:
        # The block compares it: the function's bus is not known.
        tlp.tag &= 63
        header["tag"] = whole_tag(tlp.tag)
        header["requester"] = 0xFFFF if tlp.error_code == ErrorCode.MISMATCH else 0
    expected = Tlp(header, bytes(tlp.data))
    return tlp, None if tlp.error_code >= 8 else expected


def sent_tlp(seed):
    """A TLP from the engine."""
    kind = seed.choice([MEMORY_READ, MEMORY_WRITE, MEMORY_WRITE, COMPLETION, COMPLETION_DATA])
    length = seed.choice(LENGTHS)
    if kind == MEMORY_READ:
        length = seed.choice([1, 2, 128, 1024])
    elif kind == COMPLETION:
        length = 0
    elif kind == COMPLETION_DATA:
        length = seed.choice([1, 1, *LENGTHS])
    request = kind in (MEMORY_READ, MEMORY_WRITE)
    header = {
        "kind": kind,
        "address": seed.getrandbits(62) << 2 if request else seed.getrandbits(7),
        "length_dw": length,
        "first_be": seed.choice([0xF, 0x8, 0x6]) if request else 0,
        "last_be": 0 if length == 1 or not request else seed.choice([0xF, 0x3]),
        "requester": seed.getrandbits(16),
        "tag": seed.getrandbits(8),
        "traffic_class": seed.getrandbits(3),
        "attributes": seed.getrandbits(3),
        "poisoned": int(seed.random() < 0.1),
        "status": 0 if request else seed.choice([0, 1, 4]),
        "byte_count": 0 if request else seed.choice([1, 4, 4096]),
        "completer": 0 if request else seed.getrandbits(16),
    }
    data = kind in (MEMORY_WRITE, COMPLETION_DATA)
    return Tlp(header, seed.randbytes(4 * length) if data else b"")


def assert_matches(frame, tlp):
    """Compares a frame of RQ or CC with the TLP that the engine has sent."""
    # The model's class does not support locked or wide requests; it unpacks the descriptor.
    unpack, descriptor = Tlp_us.unpack_us_rq, 4
    if not tlp.is_request:
        unpack, descriptor = Tlp_us.unpack_us_cc, 3
    found = unpack(frame)
    fields = fields_of(found)
    expected = {name: getattr(tlp, name) for name in fields}
    if GEN3 and tlp.is_request:
        expected["tag"] &= 63
    assert fields == expected
    assert not (found.discontinue or found.requester_id_enable or found.completer_id_enable)
    assert bytes(found.data) == tlp.payload
    assert len(frame.data) == descriptor + len(tlp.payload) // 4


class Numbers:
    """Returns the sequence numbers of requests some clocks after they have left RQ."""

    def __init__(self, block, seed, delay):
        self.block, self.seed, self.delay = block, seed, delay
        self.taken = []
        self.waiting = []  # (clock, number)
        self.writes_back = 0
        cocotb.start_soon(self._run())

    async def _run(self):
        dut = self.block.dut
        while True:
            await RisingEdge(dut.clk)
            now = self.block.clocks.now
            while not self.block.rq.empty():
                frame = self.block.rq.recv_nowait()
                self.taken.append(frame)
                delay = self.seed.randrange(*self.delay)
                earliest = self.waiting[-1][0] if self.waiting else 0
                self.waiting.append((max(now + delay, earliest), frame.seq_num))
            for port in (0, 1):
                valid = getattr(dut, f"pcie_rq_seq_num_vld{port}")
                valid.value = 0
                if (port == 0 or DATA_BITS == 512) and self.waiting and self.waiting[0][0] <= now:
                    number = self.waiting.pop(0)[1]
                    getattr(dut, f"pcie_rq_seq_num{port}").value = number
                    valid.value = 1
                    self.writes_back += number >= WRITE_NUMBER
