# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_shim_ptile against cocotbext-pcie's streams of the P-Tile."""

import itertools
import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from packed import pack, unpack
from shim_intel_bench import (
    DATA_BITS,
    LANES,
    SEGMENTS,
    any_tlp,
    openings,
    send_by_hand,
    write_of,
)
from shim_ptile_bench import HardBlock
from simulate import ALL, SEED, simulate
from tlp_stream import (
    COMPLETION,
    COMPLETION_DATA,
    MEMORY_WRITE,
    Tlp,
    TlpSink,
    assert_same,
    clocks_between,
    memory_read,
    memory_write,
    until,
)
from wire import on_the_wire

RATE_LENGTHS = [1, 8, 9, 16, 17, 32, 64, 128]
# Clocks through the shim.
LATENCY = {"rx": 2, "tx": 1}


@cocotb.test()
@cocotb.parametrize(pause=[0.0, 0.5])
async def what_comes_is_handed_on(dut, pause):
    """Every field and byte, in order; at 512 bits TLPs begin in both halves of a beat."""
    seed = random.Random(SEED)
    block = await HardBlock(dut).reset()
    block.pause(seed, pause)
    if SEGMENTS == 2 and pause:
        block.rx.leaves_lower = lambda: seed.random() < 0.5
    expected = []
    for _ in range(200):
        wire, bar, tlp = any_tlp(seed, received=True)
        block.receive(wire, bar)
        if tlp is not None:
            expected.append(tlp)
        if pause and seed.random() < 0.5:
            # The block has nothing to put beside the end of the last one.
            await until(dut, block.rx.idle)
    found = block.from_shim.tlps
    await until(dut, lambda: len(found) >= len(expected))
    await ClockCycles(dut.clk, 50)
    assert_same(found, expected)


@cocotb.test()
async def what_the_block_aborts_is_marked_or_lost(dut):
    """A completion counts as poisoned; a request that is bad from its first beat on is lost."""
    seed = random.Random(SEED + 1)
    block = await HardBlock(dut).reset()
    aborted = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            if dut.m_rx_valid.value and dut.m_rx_ready.value and dut.m_rx_last.value:
                aborted.append(int(dut.m_rx_aborted.value))

    cocotb.start_soon(watch())
    expected, flags = [], []
    for _ in range(100):
        wire, bar, tlp = any_tlp(seed, received=True)
        segments = max(1, -(-len(wire.get_data()) // 32))
        at = seed.choice([None, 0, segments - 1])
        block.receive(wire, bar, at)
        in_first = at is not None and at < SEGMENTS
        if tlp is None or (in_first and tlp.is_request):
            continue
        if in_first:
            tlp.header["poisoned"] = 1
        expected.append(tlp)
        flags.append(int(at is not None))
    found = block.from_shim.tlps
    await until(dut, lambda: len(found) >= len(expected))
    await ClockCycles(dut.clk, 50)
    assert_same(found, expected)
    assert aborted == flags


@cocotb.test()
@cocotb.parametrize(pause=[0.0, 0.5])
async def what_is_sent_arrives(dut, pause):
    """Every TLP as cocotbext-pcie packs it, byte by byte, in order."""
    seed = random.Random(SEED + 2)
    block = await HardBlock(dut).reset()
    block.pause(seed, pause)
    wires = []
    for _ in range(200):
        wire, _, tlp = any_tlp(seed, received=False)
        wires.append(bytes(wire.pack()))
        block.to_shim.queue.append(tlp)
    await until(dut, lambda: block.tx.count() >= len(wires))
    for number, wire in enumerate(wires):
        found = bytes(block.tx.recv_nowait().to_tlp().pack())
        assert found == wire, f"TLP {number}: {found[:16].hex()} is not {wire[:16].hex()}"
    assert block.nullified == 0


@cocotb.test()
async def the_rate_is_the_streams(dut):
    """No clock is lost between TLPs: the engine's stream takes one TLP a clock, at most."""
    seed = random.Random(SEED + 3)
    block = await HardBlock(dut).reset()
    for payload in RATE_LENGTHS:
        count = 60
        bound = -(-payload // LANES) * (count - 1)
        data = seed.randbytes(4 * payload)
        found = block.from_shim.tlps
        found.clear()
        for _ in range(count):
            block.receive(write_of(0x1000, data))
        await until(dut, lambda found=found, count=count: len(found) == count)
        clocks = found[-1].first_clock - found[0].first_clock
        print(f"RATE rx {DATA_BITS} {payload * 4} {bound} {clocks}")
        assert clocks * 99 <= bound * 100, f"rx {payload}: {clocks} clocks for {bound}"
        tlps = [memory_write(0x1000, data) for _ in range(count)]
        block.to_shim.queue.extend(tlps)
        await until(dut, lambda: block.to_shim.is_idle)
        clocks = tlps[-1].first_clock - tlps[0].first_clock
        print(f"RATE tx {DATA_BITS} {payload * 4} {bound} {clocks}")
        assert clocks == bound, f"tx {payload}: {clocks} clocks for {bound}"


@cocotb.test()
async def latency(dut):
    """From the clock that sees a TLP's first beat to the one that sees its first beat offered."""
    block = await HardBlock(dut).reset()
    block.receive(write_of(0x1000, bytes(64)))
    assert await clocks_between(dut, "rx_st_valid", "m_rx_valid") == LATENCY["rx"]
    block.to_shim.queue.append(memory_write(0x1000, bytes(64)))
    assert await clocks_between(dut, "s_tx_valid", "tx_st_valid") == LATENCY["tx"]


@cocotb.test()
async def what_comes_late_is_kept(dut):
    """The engine stops at once; the block goes on for its 27 clocks, full beats in each."""
    seed = random.Random(SEED + 4)
    block = await HardBlock(dut).reset()
    expected = []
    for number in range(60):
        data = seed.randbytes(512)
        block.receive(write_of(0x1000 + 512 * number, data))
        expected.append(memory_write(0x1000 + 512 * number, data, bar=0))
    found = block.from_shim.tlps
    for _ in range(4):
        block.from_shim.pause = 1.0
        await ClockCycles(dut.clk, 120)
        assert not dut.rx_st_ready.value
        block.from_shim.pause = 0.0
        await ClockCycles(dut.clk, seed.randrange(1, 60))
    await until(dut, lambda: len(found) == len(expected))
    assert_same(found, expected)


@cocotb.test()
async def settings_are_the_functions(dut):
    """Function 0's, field by field, as they change."""
    block = await HardBlock(dut).reset()
    sizes = {"routing_id": 0x0510, "max_payload": 1, "max_read_request": 2}
    ones = ("bus_master", "relaxed_ordering", "extended_tags", "msix_enabled", "link_up")
    shown = {**sizes, **dict.fromkeys(ones, 1)}
    assert vars(unpack("function_t", int(dut.function_o.value))) == shown
    for address, bit, name in [
        (0x00, 7, "bus_master"),
        (0x00, 6, "extended_tags"),
        (0x01, 13, "relaxed_ordering"),
        (0x0C, 5, "msix_enabled"),
        (0x0C, 6, "msix_enabled"),
    ]:
        block.settings[address] ^= 1 << bit
        await ClockCycles(dut.clk, 70)
        settings = vars(unpack("function_t", int(dut.function_o.value)))
        assert settings == {**shown, name: 0}, name
        block.settings[address] ^= 1 << bit
    dut.dl_up.value = 0
    await ClockCycles(dut.clk, 10)
    assert not unpack("function_t", int(dut.function_o.value)).link_up
    assert int(dut.room.value) == 0


@cocotb.test()
async def room_follows_the_credits(dut):
    """A class is always open with plenty of credits, now and then with enough for one TLP."""
    block = await HardBlock(dut).reset()
    assert await openings(dut) == ("111", "111"), "infinite"
    dut.dl_up.value = 0
    await ClockCycles(dut.clk, 4)
    # MPS is 256 bytes: 16 credits of data. The receiver is small, and its completions infinite.
    limits = {"ph": 5, "pd": 48, "nph": 2, "npd": 1}
    block.credits |= limits
    dut.dl_up.value = 1
    await ClockCycles(dut.clk, 80)
    assert await openings(dut) == ("111", "101")
    block.to_shim.queue.append(memory_read(0x4000, 64, 1))
    block.to_shim.queue.append(memory_write(0x4000, bytes(128)))
    assert await openings(dut) == ("111", "001")
    block.to_shim.queue.append(memory_read(0x4000, 64, 2))
    block.to_shim.queue.extend(memory_write(0x4000, bytes(256)) for _ in range(2))
    await ClockCycles(dut.clk, 40)
    # 8 + 32 of 48 credits of data are gone.
    assert await openings(dut) == ("001", "001")
    block.credits["pd"] += 8
    await ClockCycles(dut.clk, 40)
    assert await openings(dut) == ("101", "001")
    block.credits["nph"] += 1
    await ClockCycles(dut.clk, 40)
    assert await openings(dut) == ("111", "001")


# Credits of a receiver at first, and the bits of headers' and of data's limits, without and with
# scaled flow control.
RECEIVERS = {
    "few": ({"ph": 127, "pd": 2047, "nph": 4, "cplh": 90, "cpld": 900}, (8, 12)),
    "many": ({"ph": 200, "pd": 3000, "nph": 4, "cplh": 300, "cpld": 2500}, (12, 16)),
}


@cocotb.test()
@cocotb.parametrize(receiver=list(RECEIVERS))
async def credits_roll_over(dut, receiver):
    """Limits wrap, several times; and credits that the block uses itself are noticed, so that none
    seem to be free that are not."""
    first, bits = RECEIVERS[receiver]
    block = await HardBlock(dut).reset()
    dut.dl_up.value = 0
    await ClockCycles(dut.clk, 4)
    block.credits |= first
    total = dict(first)
    dut.dl_up.value = 1
    await ClockCycles(dut.clk, 80)
    for number in range(60):
        tlps = [memory_write(0x4000, bytes(256)), memory_write(0x4000, bytes(4))]
        tlps += [memory_read(0x4000, 64, number), memory_read(0x4000, 64, 200)]
        tlps += [Tlp({"kind": COMPLETION, "byte_count": 4})]
        tlps += [Tlp({"kind": COMPLETION_DATA, "byte_count": 4, "length_dw": 64}, bytes(256))]
        block.to_shim.queue.extend(tlps)
        await until(dut, lambda: block.to_shim.is_idle)
        # They come back, and with them many that the block has used.
        used = {"ph": 2, "pd": 17, "nph": 2, "cplh": 2, "cpld": 16}
        for name, count in used.items():
            total[name] += count + (0 if name == "nph" else 4 * first[name] // 5)
            block.credits[name] = total[name] % (1 << bits[name.endswith("d")])
        await ClockCycles(dut.clk, 30)
        while not block.tx.empty():
            block.tx.recv_nowait()
    assert await openings(dut) == ("111", "101")
    # All of one class after the other.
    for name, tlp, left in [
        ("nph", memory_read(0x4000, 64, 1), "101"),
        ("ph", memory_write(0x4000, bytes(4)), "001"),
        ("cplh", Tlp({"kind": COMPLETION, "byte_count": 4}), "000"),
    ]:
        block.to_shim.queue.extend([tlp] * first[name])
        await until(dut, lambda: block.to_shim.is_idle)
        await ClockCycles(dut.clk, 20)
        assert (await openings(dut))[0] == left, name


@cocotb.test()
async def a_receiver_of_one_gets_one_at_a_time(dut):
    """A sender that heeds room as the arbiter does never has more under way than there are credits,
    and all arrive."""
    seed = random.Random(SEED + 6)
    block = HardBlock(dut, has_engine=False)
    block.credits |= {"nph": 1}
    await block.reset()
    block.tx.set_pause_generator(seed.random() < 0.7 for _ in itertools.count())
    dut.s_tx_header.value = pack("tlp_header_t", **memory_read(0x4000, 64, 1).header)
    dut.s_tx_first.value = dut.s_tx_last.value = 1
    begun, back = 0, 0
    for _ in range(4000):
        await RisingEdge(dut.clk)
        is_free = not dut.s_tx_valid.value or dut.s_tx_ready.value
        if is_free:
            is_open = int(dut.room.value) >> 1 & 1
            dut.s_tx_valid.value = is_open
            begun += is_open
        assert begun - back <= 1, "more than the receiver takes"
        if not block.tx.empty() and seed.random() < 0.1:
            block.tx.recv_nowait()
            back += 1
            block.credits["nph"] = (1 + back) % 256
    assert back > 50


@cocotb.test()
@cocotb.parametrize(beats=[0, 1, 5], kind=[MEMORY_WRITE, COMPLETION_DATA], is_pulse=[True, False])
async def function_level_reset(dut, beats, kind, is_pulse):
    """The engine is reset while it sends and receives: a TLP that had begun to leave is ended and
    nullified, and its credits count as unused; what arrives meanwhile is lost."""
    seed = random.Random(SEED + beats)
    block = HardBlock(dut, has_engine=False)
    block.credits |= {"ph": 1, "pd": 64, "nph": 1, "cplh": 1, "cpld": 64}
    block.is_gapless = False
    await block.reset()
    for _ in range(30):
        block.receive(write_of(0x1000, seed.randbytes(seed.choice([4, 64, 256]))))
    lanes = 16 * LANES - seed.randrange(LANES)
    header = {"kind": kind, "length_dw": lanes, "first_be": 15, "last_be": 15, "byte_count": 4}
    await send_by_hand(dut, Tlp(header, seed.randbytes(4 * lanes)), beats)
    # A few received beats are taken, then none: an engine that hangs.
    dut.m_rx_ready.value = 1
    await ClockCycles(dut.clk, seed.randrange(1, 20))
    dut.m_rx_ready.value = 0
    await ClockCycles(dut.clk, seed.randrange(1, 60))
    dut.flr_rcvd_pf.value = 1
    await RisingEdge(dut.clk)
    if is_pulse:
        dut.flr_rcvd_pf.value = 0
    await until(dut, lambda: dut.engine_rst.value, 10)
    await until(dut, lambda: dut.flr_completed_pf.value, 400)
    assert int(dut.flr_completed_pf.value) == 1 and dut.engine_rst.value
    dut.flr_rcvd_pf.value = 0
    await until(dut, lambda: not dut.engine_rst.value, 10)
    rx = TlpSink(dut, "m_rx", block.clocks, seed=SEED)
    await ClockCycles(dut.clk, 100)
    assert not dut.engine_rst.value, "a second reset"
    assert rx.tlps == []
    assert block.nullified == block.tx.count() == (beats > 0)
    if beats:
        assert len(block.tx.recv_nowait().data) == lanes
    assert (await openings(dut))[0] == "111"
    # Both directions again.
    rx.pause = 0.2
    tlp = None
    while tlp is None:
        wire, bar, tlp = any_tlp(seed, received=True)
    block.receive(wire, bar)
    write = memory_write(0x8000, seed.randbytes(100))
    await send_by_hand(dut, write)
    await until(dut, lambda: block.tx.count() and rx.tlps, 400)
    assert_same(rx.tlps, [tlp])
    assert bytes(block.tx.recv_nowait().to_tlp().pack()) == bytes(on_the_wire(write).pack())
    assert block.nullified == (beats > 0)


@cocotb.test()
async def a_reset_waits_for_what_is_under_way(dut):
    """The rest of a TLP that comes late is lost, and that of one that the block takes late leaves:
    only then is the block told."""
    block = await HardBlock(dut, has_engine=False).reset()
    block.is_gapless = False
    dut.m_rx_ready.value = 1
    block.receive(write_of(0x1000, bytes(512)))
    await until(dut, lambda: dut.rx_st_valid.value)
    block.rx.pause = block.tx.pause = True
    await ClockCycles(dut.clk, 8)
    header = {"kind": MEMORY_WRITE, "length_dw": 64 * LANES, "first_be": 15, "last_be": 15}
    block.tx.pause = False
    await send_by_hand(dut, Tlp(header, bytes(256 * LANES)), 4)
    block.tx.pause = True
    dut.flr_rcvd_pf.value = 1
    completed = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            if dut.flr_completed_pf.value:
                completed.append(block.clocks.now)
                dut.flr_rcvd_pf.value = 0

    cocotb.start_soon(watch())
    await ClockCycles(dut.clk, 300)
    assert not completed and dut.engine_rst.value
    block.rx.pause = False
    await ClockCycles(dut.clk, 100)
    assert not completed and dut.engine_rst.value
    # And the other way round.
    block.receive(write_of(0x1000, bytes(512)))
    await until(dut, lambda: dut.rx_st_valid.value)
    block.rx.pause, block.tx.pause = True, False
    await ClockCycles(dut.clk, 200)
    assert not completed and block.nullified == block.tx.count() == 1
    block.rx.pause = False
    await until(dut, lambda: completed, 100)
    rx = TlpSink(dut, "m_rx", block.clocks, seed=SEED)
    block.receive(write_of(0x2000, bytes(64)))
    await until(dut, lambda: rx.tlps, 100)
    assert rx.tlps[0].address == 0x2000 and len(completed) == 1


# The bounded set has the shim at one width, and the card at the other.
@pytest.mark.parametrize("data_bits", [256, 512] if ALL else [512])
def test_shim_ptile(data_bits):
    simulate(__file__, "crosslane_shim_ptile", {"DATA_BITS": data_bits})
