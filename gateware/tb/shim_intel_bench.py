# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the shims for Intel's hard blocks have this in common: random TLPs, and an engine that
is driven by hand."""

import os

from cocotb.triggers import RisingEdge
from cocotbext.pcie.core.tlp import Tlp as WireTlp
from cocotbext.pcie.core.tlp import TlpType
from completer import COMPLETER_ABORT, UNSUPPORTED_REQUEST
from packed import pack
from tlp_stream import (
    COMPLETION,
    COMPLETION_DATA,
    MEMORY_READ,
    MEMORY_WRITE,
    NO_BAR,
    Tlp,
    until,
)
from wire import on_the_wire

DATA_BITS = int(os.environ.get("DATA_BITS", "256"))
LANES = DATA_BITS // 32
SEGMENTS = DATA_BITS // 256
# Double words of payload around a segment's and a beat's end.
LENGTHS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 64]


def write_of(address, data):
    """A write on the wire."""
    wire = WireTlp()
    wire.fmt_type = TlpType.MEM_WRITE_64 if address >> 32 else TlpType.MEM_WRITE
    wire.set_addr_be_data(address, data)
    return wire


# Requests that the engine gets as reads that hit no BAR.
OTHERS = [TlpType.IO_READ, TlpType.IO_WRITE, TlpType.FETCH_ADD]
# Kinds of the engine's stream; it gets all other requests as reads.
KINDS = {"write": MEMORY_WRITE, "completion": COMPLETION, "data": COMPLETION_DATA}


def any_tlp(seed, *, received, length=None):
    """A TLP on the wire, the code of the BAR that it hits, and the TLP in the engine's stream, if
    any."""
    kinds = ["write", "write", "read", "completion", "data", "data"]
    kind = seed.choice([*kinds, "other", "message"] if received else kinds)
    high, length = seed.random() < 0.5, seed.choice(LENGTHS)
    if kind == "read":
        length = seed.choice([1, 2, 128, 1024])
    elif kind == "other":
        high, length = False, 1
    elif kind == "completion":
        length = 0
    has_data = kind in ("write", "data")
    header = {"kind": KINDS.get(kind, MEMORY_READ), "length_dw": length}
    header |= {"tag": seed.getrandbits(10), "traffic_class": seed.getrandbits(3)}
    header |= {"attributes": seed.getrandbits(3), "requester": seed.getrandbits(16)}
    header |= {"poisoned": int(has_data and seed.random() < 0.1)}
    bar = 0
    if kind in ("completion", "data"):
        header |= {"completer": seed.getrandbits(16)}
        header |= {"status": 0 if has_data else seed.choice([UNSUPPORTED_REQUEST, COMPLETER_ABORT])}
        header |= {"address": seed.getrandbits(7), "byte_count": seed.choice([1, 4, 64, 4096])}
    else:
        address = (seed.getrandbits(30) << 2) + (seed.randrange(1, 1 << 32) << 32) * high
        header |= {"address": address, "first_be": seed.choice([0xF, 0x8, 0x6, 0])}
        header |= {"last_be": 0 if length == 1 else seed.choice([0xF, 0x3])}
        bar = seed.choice([0, 1, 2, 5, 6, 7])
    tlp = Tlp(header, seed.randbytes(4 * length) if has_data else b"")
    wire = on_the_wire(tlp)
    if kind == "other":
        wire.fmt_type, bar = seed.choice(OTHERS), 6
        if wire.fmt_type != TlpType.IO_READ:
            wire.data = bytearray(seed.randbytes(4))
    if kind == "message":
        # A message with data: four double words of header.
        wire.fmt_type, wire.address = TlpType.MEM_WRITE_64, 1 << 40
        wire.data = bytearray(seed.randbytes(4 * length))
        packed = wire.pack_header()
        wire.pack_header = lambda: bytes([packed[0] | 0x10]) + bytes(packed[1:])
    if received:
        header["bar"] = NO_BAR if not tlp.is_request or bar > 5 else bar
    return wire, bar, None if kind == "message" else tlp


async def openings(dut, clocks=64):
    """The classes that are open in some clock, and those that are in each: posted, nonposted,
    completion."""
    some, each = 0, 7
    for _ in range(clocks):
        await RisingEdge(dut.clk)
        some |= int(dut.room.value)
        each &= int(dut.room.value)
    return f"{some:03b}", f"{each:03b}"


async def send_by_hand(dut, tlp, beats=None):
    """Puts the first `beats` beats of a TLP on the engine's stream."""
    size = DATA_BITS // 8
    count = max(1, -(-len(tlp.payload) // size))
    for beat in range(count if beats is None else beats):
        dut.s_tx_valid.value = 1
        dut.s_tx_first.value = beat == 0
        dut.s_tx_last.value = beat == count - 1
        dut.s_tx_header.value = pack("tlp_header_t", **tlp.header) if beat == 0 else 0
        piece = tlp.payload[beat * size : (beat + 1) * size]
        dut.s_tx_data.value = int.from_bytes(piece, "little")
        await RisingEdge(dut.clk)
        await until(dut, lambda: dut.s_tx_ready.value, 200)
    dut.s_tx_valid.value = 0
