# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_shim_s7: TLPs in band as cocotbext-pcie packs them, on streams driven here."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.pcie.core.tlp import Tlp as WireTlp
from cocotbext.pcie.core.tlp import TlpType
from completer import COMPLETER_ABORT, UNSUPPORTED_REQUEST
from packed import pack, unpack
from shim_s7_bench import HardBlock
from simulate import SEED, simulate
from tlp_stream import (
    COMPLETION,
    COMPLETION_DATA,
    MEMORY_READ,
    MEMORY_WRITE,
    NO_BAR,
    Tlp,
    TlpSink,
    TlpSource,
    assert_same,
    clocks_between,
    memory_write,
    until,
)
from wire import on_the_wire

DATA_BITS = int(os.environ.get("DATA_BITS", "64"))
LANES = DATA_BITS // 32
LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33]
# Clocks through the shim. At 64 bits a header takes two beats.
LATENCY = {"rx": 3 + (LANES == 2), "tx": 1}


# Kinds of the engine's stream; it gets all other requests as reads.
KINDS = {"write": MEMORY_WRITE, "completion": COMPLETION, "data": COMPLETION_DATA}


def any_tlp(seed, *, received):
    """A TLP on the wire, the BARs that it hits, and the TLP in the engine's stream, if any."""
    kinds = ["write", "write", "read", "completion", "data", "data"]
    kind = seed.choice([*kinds, "other", "message"] if received else kinds)
    high = seed.random() < 0.5
    length = seed.choice(LENGTHS)
    if kind == "read":
        length = seed.choice([1, 2, 128, 1024])
    elif kind == "other":
        high, length = False, 1
        other = seed.choice([TlpType.IO_READ, TlpType.IO_WRITE])
    elif kind == "completion":
        length = 0
    has_data = kind in ("write", "data")
    header = {"kind": KINDS.get(kind, MEMORY_READ), "length_dw": length}
    header |= {"tag": seed.getrandbits(10), "traffic_class": seed.getrandbits(3)}
    header |= {"attributes": seed.getrandbits(3)}
    header |= {"poisoned": int(has_data and seed.random() < 0.1)}
    header |= {"requester": seed.getrandbits(16)}
    bars, bar = 0, NO_BAR
    if kind in ("completion", "data"):
        header |= {"completer": seed.getrandbits(16)}
        header |= {"status": 0 if has_data else seed.choice([UNSUPPORTED_REQUEST, COMPLETER_ABORT])}
        header |= {"address": seed.getrandbits(7), "byte_count": seed.choice([1, 4, 64, 4096])}
    else:
        address = (seed.getrandbits(30) << 2) + (seed.randrange(1, 1 << 32) << 32) * high
        header |= {"address": address, "first_be": seed.choice([0xF, 0x8, 0x6, 0])}
        header |= {"last_be": 0 if length == 1 else seed.choice([0xF, 0x3])}
        bar = seed.choice([0, 1, 2, 5])
        bars = 1 << bar
    tlp = Tlp(header, seed.randbytes(4 * length) if has_data else b"")
    wire = on_the_wire(tlp)
    if kind == "other":
        bar, wire.fmt_type = NO_BAR, other
        if other == TlpType.IO_WRITE:
            wire.data = bytearray(seed.randbytes(4))
    if kind == "message":
        # A message with data: four double words of header, an address without meaning.
        wire.fmt_type, wire.address = TlpType.MEM_WRITE_64, 1 << 40
        wire.data = bytearray(seed.randbytes(4 * length))
        whole = wire.pack()
        wire.pack = lambda: bytes([whole[0] | 0x10]) + bytes(whole[1:])
    header["bar"] = bar if received else 0
    return wire, bars, None if kind == "message" else tlp


def write_of(address, data):
    """A write on the wire."""
    wire = WireTlp()
    wire.fmt_type = TlpType.MEM_WRITE_64 if address >> 32 else TlpType.MEM_WRITE
    wire.set_addr_be_data(address, data)
    return wire


@cocotb.test()
@cocotb.parametrize(pause=[0.0, 0.5])
async def what_comes_is_handed_on(dut, pause):
    """Headers of 3 and 4 double words, every field and byte, in order."""
    seed = random.Random(SEED)
    block = await HardBlock(dut).begin()
    block.pause = block.rx.pause = pause
    expected = []
    for _ in range(150):
        wire, bars, tlp = any_tlp(seed, received=True)
        # The poison flag beside the stream, with the header's or without.
        beside = seed.random() < 0.05
        block.to_engine.append((wire, bars, int(beside)))
        if tlp is not None:
            tlp.header["poisoned"] |= int(beside)
            expected.append(tlp)
    await until(dut, lambda: len(block.rx.tlps) >= len(expected))
    await ClockCycles(dut.clk, 20)
    assert_same(block.rx.tlps, expected)


@cocotb.test()
@cocotb.parametrize(pause=[0.0, 0.5])
async def what_is_sent_arrives(dut, pause):
    """Every TLP as cocotbext-pcie packs it, byte by byte, in the order of the stream."""
    seed = random.Random(SEED + 2)
    block = await HardBlock(dut).begin()
    block.pause = pause
    wires = []
    for _ in range(150):
        wire, _, tlp = any_tlp(seed, received=False)
        wires.append(bytes(wire.pack()))
        block.tx.queue.append(tlp)
    await until(dut, lambda: len(block.sent) >= len(wires))
    for number, (one, other) in enumerate(zip(block.sent, wires, strict=True)):
        assert one == other, f"TLP {number}: {one[:16].hex()} is not {other[:16].hex()}"


@cocotb.test()
async def the_rate_is_the_interfaces(dut):
    """At least 99 % of the interface's capacity, each way, by header and payload."""
    seed = random.Random(SEED + 3)
    block = await HardBlock(dut).begin()
    for payload in [1, 2, 3, 4, 16, 32, 64, 128]:
        for header, address in [(3, 0x1000), (4, 1 << 40)]:
            count = 40
            data = seed.randbytes(4 * payload)
            block.rx.tlps.clear()
            block.to_engine.extend((write_of(address, data), 1, 0) for _ in range(count))
            await until(dut, lambda: len(block.rx.tlps) == count)
            clocks = block.rx.tlps[-1].first_clock - block.rx.tlps[0].first_clock
            # Received TLPs begin at each half of 128 bits, sent ones at each beat.
            half = 2
            bound = -(-(header + payload) // half) * half * (count - 1) / LANES
            print(f"RATE rx {DATA_BITS} {header} {payload * 4} {bound:.0f} {clocks}")
            assert clocks * 99 <= bound * 100 + 100, f"rx {header} + {payload}: {clocks}"
            tlps = [memory_write(address, data) for _ in range(count)]
            block.tx.queue.extend(tlps)
            await until(dut, lambda: block.tx.is_idle)
            await ClockCycles(dut.clk, 20)
            clocks = tlps[-1].first_clock - tlps[0].first_clock
            bound = -(-(header + payload) // LANES) * (count - 1)
            print(f"RATE tx {DATA_BITS} {header} {payload * 4} {bound} {clocks}")
            assert clocks * 99 <= bound * 100 + 100, f"tx {header} + {payload}: {clocks}"


@cocotb.test()
async def latency(dut):
    """From the clock that takes a TLP's first beat to the one that offers its first beat."""
    block = await HardBlock(dut).begin()
    for header, address in [(3, 0x1000), (4, 1 << 40)]:
        wire = write_of(address, bytes(64))
        for way in ["rx", "tx"]:
            await ClockCycles(dut.clk, 20)
            if way == "rx":
                block.to_engine.append((wire, 1, 0))
                taken, offered = "m_axis_rx_tvalid", "m_rx_valid"
            else:
                block.tx.queue.append(memory_write(address, bytes(64)))
                taken, offered = "s_tx_valid", "s_axis_tx_tvalid"
            clocks = await clocks_between(dut, taken, offered)
            print(f"LATENCY {way} {DATA_BITS} {header} {clocks}")
            assert clocks == LATENCY[way], f"{way}, {header}: {clocks} clocks"
            await until(dut, lambda: block.tx.is_idle)


@cocotb.test()
async def settings_and_room(dut):
    """The function's settings; a class of TLP is open while there are credits and a buffer."""
    block = HardBlock(dut)
    for name, value in {"fc_ph": 4, "fc_pd": 64, "fc_nph": 4}.items():
        getattr(dut, name).value = value
    await block.begin()
    settings = vars(unpack("function_t", int(dut.function_o.value)))
    ones = ("bus_master", "relaxed_ordering", "extended_tags", "msix_enabled", "link_up")
    sizes = {"routing_id": 0x0311, "max_payload": 1, "max_read_request": 2}
    assert settings == sizes | dict.fromkeys(ones, 1)
    await until(dut, lambda: int(dut.fc_sel.value) == 0b100, 40)
    await ClockCycles(dut.clk, 40)
    for ph, pd, nph, buffers, open_ in [
        (1, 16, 1, 20, 0b111),
        (1, 15, 1, 20, 0b011),
        (0, 64, 0, 20, 0b001),
        (4, 64, 4, 1, 0b000),
    ]:
        dut.fc_ph.value, dut.fc_pd.value, dut.fc_nph.value = ph, pd, nph
        dut.tx_buf_av.value = buffers
        await ClockCycles(dut.clk, 4)
        assert int(dut.room.value) == open_


@cocotb.test()
async def function_level_reset(dut):
    """A TLP that has begun to leave is ended and marked; TLPs that arrive meanwhile are lost."""
    seed = random.Random(SEED)
    block = await HardBlock(dut).begin(has_engine=False)
    for _ in range(4):
        block.to_engine.append((write_of(0x1000, seed.randbytes(128)), 1, 0))
    dut.s_tx_header.value = pack(
        "tlp_header_t", kind=MEMORY_WRITE, address=0x1000, length_dw=32, first_be=15, last_be=15
    )
    dut.s_tx_valid.value, dut.s_tx_first.value, dut.s_tx_last.value = 1, 1, 0
    await RisingEdge(dut.clk)
    await until(dut, lambda: dut.s_tx_ready.value, 20)
    dut.s_tx_valid.value = 0
    dut.m_rx_ready.value = 1
    await ClockCycles(dut.clk, 5)
    dut.m_rx_ready.value = 0
    dut.cfg_received_func_lvl_rst.value = 1
    await RisingEdge(dut.clk)
    dut.cfg_received_func_lvl_rst.value = 0
    await until(dut, lambda: dut.engine_rst.value, 5)
    await until(dut, lambda: not dut.engine_rst.value, 400)
    rx = TlpSink(dut, "m_rx", block.clocks, seed=SEED)
    await ClockCycles(dut.clk, 200)
    assert [len(packet) for packet in block.discontinued] == [140]
    rx.tlps.clear()
    tlp = None
    while tlp is None:
        wire, bars, tlp = any_tlp(seed, received=True)
    block.to_engine.append((wire, bars, 0))
    await until(dut, lambda: rx.tlps, 400)
    assert rx.tlps[0].payload == tlp.payload


@cocotb.test()
@cocotb.parametrize(address=[0x1000, 1 << 40], clocks=range(6))
async def a_reset_ends_what_has_begun_to_leave(dut, address, clocks):
    """At any beat, also of the header; and the next TLP leaves whole."""
    block = await HardBlock(dut).begin(has_engine=False)
    tlp = memory_write(address, bytes(range(256)))
    data = int.from_bytes(tlp.payload[: DATA_BITS // 8], "little")
    dut.s_tx_header.value = pack("tlp_header_t", **tlp.header)
    dut.s_tx_data.value = data
    dut.s_tx_valid.value, dut.s_tx_first.value, dut.s_tx_last.value = 1, 1, 0
    begun = 0
    for clock in range(60):
        dut.cfg_received_func_lvl_rst.value = clock == clocks
        if dut.engine_rst.value:
            # The engine is reset: it offers nothing more.
            dut.s_tx_valid.value = 0
        await RisingEdge(dut.clk)
        begun = begun or int(dut.s_axis_tx_tvalid.value)
        if dut.s_tx_valid.value and dut.s_tx_ready.value:
            dut.s_tx_first.value = 0
    assert block.sent == []
    assert len(block.discontinued) == begun
    tx = TlpSource(dut, "s_tx", block.clocks)
    tx.queue.append(tlp)
    await until(dut, lambda: block.sent, 100)
    wire = on_the_wire(tlp)
    assert block.sent == [bytes(wire.pack())]


@pytest.mark.parametrize("data_bits", [64, 128])
def test_shim_s7(data_bits):
    simulate(__file__, "crosslane_shim_s7", {"DATA_BITS": data_bits})
