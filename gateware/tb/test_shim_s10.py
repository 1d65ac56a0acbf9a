# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_shim_s10 against cocotbext-pcie's streams of Stratix 10."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from packed import unpack
from shim_intel_bench import (
    DATA_BITS,
    LANES,
    SEGMENTS,
    any_tlp,
    openings,
    send_by_hand,
    write_of,
)
from shim_s10_bench import CLASSES, HardBlock
from simulate import ALL, SEED, simulate
from tlp_stream import (
    COMPLETION,
    COMPLETION_DATA,
    MEMORY_READ,
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

RATE_LENGTHS = [1, 4, 5, 8, 12, 13, 16, 32, 64, 128]
# Clocks through the shim; of a received TLP whose first window ends in the second beat, too.
LATENCY = {"rx": 2, "long": 3, "tx": 1}
# Header double words: address of a write.
PLACES = {3: 0x1000, 4: 0x1_0000_1000}


def clocks_of(payload, header):
    """Clocks that a TLP takes at the full rate: of the hard block's stream, where two TLPs may
    share a beat, or of the engine's, where they may not."""
    return max(-(-payload // LANES), -(-(payload + header) // 8) / SEGMENTS)


@cocotb.test()
@cocotb.parametrize(pause=[0.0, 0.5])
async def what_comes_is_handed_on(dut, pause):
    """Every field and byte, in order; at 512 bits TLPs begin in both halves of a beat."""
    seed = random.Random(SEED)
    block = await HardBlock(dut).reset()
    block.pause(seed, pause)
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
        if pause and seed.random() < 0.3:
            # Nothing follows: the end of the last one leaves alone.
            await until(dut, lambda: len(block.sent) == len(wires))
    await until(dut, lambda: len(block.sent) >= len(wires))
    for number, (frame, wire) in enumerate(zip(block.sent, wires, strict=True)):
        found = bytes(frame.to_tlp().pack())
        assert found == wire, f"TLP {number}: {found[:16].hex()} is not {wire[:16].hex()}"
    assert block.nullified == 0


@cocotb.test()
@cocotb.parametrize(header=[3, 4])
async def the_rate_is_the_streams(dut, header):
    """A header costs its double words, and no clock is lost between TLPs."""
    seed = random.Random(SEED + 3)
    block = await HardBlock(dut).reset()
    for payload in RATE_LENGTHS:
        count = 61
        bound = clocks_of(payload, header) * (count - 1)
        data = seed.randbytes(4 * payload)
        found = block.from_shim.tlps
        found.clear()
        for _ in range(count):
            block.receive(write_of(PLACES[header], data))
        await until(dut, lambda found=found, count=count: len(found) == count)
        clocks = found[-1].first_clock - found[0].first_clock
        print(f"RATE rx {DATA_BITS} {payload * 4} {header} {bound} {clocks}")
        assert clocks <= bound + 1, f"rx {payload}: {clocks} clocks for {bound}"
        tlps = [memory_write(PLACES[header], data) for _ in range(count)]
        block.to_shim.queue.extend(tlps)
        await until(dut, lambda: block.to_shim.is_idle)
        clocks = tlps[-1].first_clock - tlps[0].first_clock
        print(f"RATE tx {DATA_BITS} {payload * 4} {header} {bound} {clocks}")
        assert clocks <= bound + 1, f"tx {payload}: {clocks} clocks for {bound}"


@cocotb.test()
async def latency(dut):
    """From the clock that sees a TLP's first beat to the one that sees its first beat offered."""
    block = await HardBlock(dut).reset()
    block.receive(write_of(0x1000, bytes(16)))
    assert await clocks_between(dut, "rx_st_valid", "m_rx_valid") == LATENCY["rx"]
    await ClockCycles(dut.clk, 10)
    block.receive(write_of(0x1000, bytes(256)))
    assert await clocks_between(dut, "rx_st_valid", "m_rx_valid") == LATENCY["long"]
    block.to_shim.queue.append(memory_write(0x1000, bytes(64)))
    assert await clocks_between(dut, "s_tx_valid", "tx_st_valid") == LATENCY["tx"]
    await ClockCycles(dut.clk, 20)


@cocotb.test()
async def what_comes_late_is_kept(dut):
    """The engine stops at once; the block goes on for its 17 or 18 clocks, full beats in each."""
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
    for address, bit, changed in [
        (0, 29, {"relaxed_ordering": 0}),
        (0, 7, {"bus_master": 0}),
        (0, 6, {"extended_tags": 0}),
        (0, 3, {"max_read_request": 3}),
        (0, 1, {"max_payload": 3}),
        (0, 23, {"routing_id": 0x8510}),
        (0, 24, {"routing_id": 0x0518}),
        (6, 5, {"msix_enabled": 0}),
        (6, 6, {"msix_enabled": 0}),
    ]:
        block.settings[address] ^= 1 << bit
        await ClockCycles(dut.clk, 40)
        settings = vars(unpack("function_t", int(dut.function_o.value)))
        assert settings == {**shown, **changed}, changed
        block.settings[address] ^= 1 << bit
    dut.link_up.value = 0
    await ClockCycles(dut.clk, 10)
    assert not unpack("function_t", int(dut.function_o.value)).link_up
    assert int(dut.room.value) == 0


@cocotb.test()
async def room_follows_the_credits(dut):
    """A class is always open with plenty of credits, now and then with enough for one TLP; what the
    block has not consumed yet counts as used."""
    block = await HardBlock(dut).reset()
    assert await openings(dut) == ("111", "111"), "infinite"
    # Completions whose credits are told as 0 from the beginning have no limit.
    await block.come_up(ph=5, pd=48, nph=2, cplh=0, cpld=0)
    assert await openings(dut) == ("111", "101")
    block.keeps = True
    block.to_shim.queue.append(memory_read(0x4000, 64, 1))
    block.to_shim.queue.append(memory_write(0x4000, bytes(128)))
    assert await openings(dut) == ("111", "001")
    assert (block.free["nph"], block.free["ph"]) == (2, 5)
    block.to_shim.queue.append(memory_read(0x4000, 64, 2))
    block.to_shim.queue.extend(memory_write(0x4000, bytes(256)) for _ in range(2))
    await ClockCycles(dut.clk, 60)
    # 8 + 32 of 48 credits of data are used.
    assert await openings(dut) == ("001", "001")
    block.keeps = False
    await ClockCycles(dut.clk, 100)
    assert block.free == {"ph": 2, "pd": 8, "nph": 0, "cplh": 0, "cpld": 0}
    assert await openings(dut) == ("001", "001")
    block.free["pd"] += 8
    await ClockCycles(dut.clk, 40)
    assert await openings(dut) == ("101", "001")
    block.free["nph"] += 1
    await ClockCycles(dut.clk, 40)
    assert await openings(dut) == ("111", "001")


@cocotb.test()
async def credits_are_counted_exactly(dut):
    """Many TLPs of each class, then to the last header: none is lost, nor counted twice, also if
    some of what is consumed is not told."""
    seed = random.Random(SEED + 5)
    first = {"ph": 60, "pd": 300, "nph": 40, "cplh": 50, "cpld": 300}
    block = await HardBlock(dut).reset()
    await block.come_up(**first)
    for _ in range(40):
        tlps = [memory_write(0x4000, seed.randbytes(seed.choice([4, 16, 60, 256])))]
        tlps += [memory_read(0x4000, 64, 1), memory_read(0x4000, 64, 2)]
        tlps += [Tlp({"kind": COMPLETION, "byte_count": 4})]
        tlps += [Tlp({"kind": COMPLETION_DATA, "byte_count": 4, "length_dw": 64}, bytes(256))]
        block.lag = seed.randrange(8)
        block.to_shim.queue.extend(tlps)
        await until(dut, lambda: block.to_shim.is_idle)
        await ClockCycles(dut.clk, 40)
        # They come back.
        block.free |= first
    assert await openings(dut) == ("111", "111")
    # Credits of data that are never told.
    block.consumed.skips = 1
    block.to_shim.queue.extend(memory_write(0x4000, bytes(256)) for _ in range(18))
    await until(dut, lambda: block.to_shim.is_idle)
    await ClockCycles(dut.clk, 200)
    block.consumed.skips = 0
    block.free["ph"], block.free["pd"] = 60, 48
    await ClockCycles(dut.clk, 20)
    assert await openings(dut) == ("111", "111")
    block.free["pd"] = 300
    # All of one class after the other.
    for name, tlp, left in [
        ("nph", memory_read(0x4000, 64, 1), "101"),
        ("ph", memory_write(0x4000, bytes(4)), "001"),
        ("cplh", Tlp({"kind": COMPLETION, "byte_count": 4}), "000"),
    ]:
        block.to_shim.queue.extend([tlp] * (first[name] - 1))
        await until(dut, lambda: block.to_shim.is_idle)
        await ClockCycles(dut.clk, 40)
        assert block.free[name] == 1
        assert (await openings(dut))[0] != left, name
        block.to_shim.queue.append(tlp)
        await ClockCycles(dut.clk, 40)
        assert (await openings(dut))[0] == left, name


def kinds_of(data):
    """A TLP of each class, as much data as the receiver may be given at once."""
    header = {"kind": COMPLETION_DATA, "byte_count": 4, "length_dw": len(data) // 4}
    return [memory_write(0x4000, data), memory_read(0x4000, 64, 1), Tlp(header, data)]


@cocotb.test()
@cocotb.parametrize(lag=[0, 7])
async def a_receiver_of_one_gets_one_at_a_time(dut, lag):
    """A sender that heeds room never has more in the block than the link's receiver takes, though
    that has the least credits which the specification allows; and all classes go on."""
    seed = random.Random(SEED + 6)
    block = await HardBlock(dut).reset()
    # MPS is 256 bytes.
    least = {"ph": 1, "pd": 16, "nph": 1, "cplh": 1, "cpld": 16}
    await block.come_up(**least)
    block.lag = lag
    block.tx.set_pause_generator(seed.random() < 0.5 for _ in iter(int, 1))
    sent, under_way = [0, 0, 0], [[], [], []]  # the frames that arrived, and are not returned
    waiting = 0
    for _ in range(8000):
        await RisingEdge(dut.clk)
        if block.to_shim.is_idle:
            number = seed.randrange(3)
            if int(dut.room.value) >> 2 - number & 1:
                data = bytes(seed.choice([4, 64, 256]))
                block.to_shim.queue.append(kinds_of(data)[number])
                sent[number] += 1
                assert sent[number] - len(under_way[number]) <= 1, "more than the receiver takes"
        if seed.random() < 0.02:
            block.keeps = not block.keeps
        while waiting < len(block.sent):
            tlp = block.sent[waiting].to_tlp()
            waiting += 1
            cocotb.start_soon(give_back(block, seed.randrange(20, 60), tlp, under_way))
    assert min(sent) > 20, sent


async def give_back(block, clocks, tlp, returned):
    """The link's receiver has taken a TLP."""
    await ClockCycles(block.dut.clk, clocks)
    number = tlp.get_fc_type().value
    for name, count in zip(CLASSES[number], (1, tlp.get_data_credits()), strict=True):
        if name in block.free:
            block.free[name] += count
    returned[number].append(tlp)


@cocotb.test()
@cocotb.parametrize(
    beats=[0, 1, 5], kind=[MEMORY_READ, MEMORY_WRITE, COMPLETION_DATA], is_pulse=[True, False]
)
async def function_level_reset(dut, beats, kind, is_pulse):
    """The engine is reset while it sends and receives: a TLP that had begun to leave is ended and
    nullified, and its credits count as unused; what arrives meanwhile is lost."""
    seed = random.Random(SEED + beats)
    block = await HardBlock(dut, has_engine=False).reset()
    await block.come_up(ph=1, pd=64, nph=1, cplh=1, cpld=64)
    block.is_gapless = False
    for _ in range(30):
        block.receive(write_of(0x1000, seed.randbytes(seed.choice([4, 64, 256]))))
    lanes = 16 * LANES - seed.randrange(LANES)
    header = {"kind": kind, "length_dw": lanes, "first_be": 15, "last_be": 15, "byte_count": 4}
    is_cut = beats > 0 and kind != MEMORY_READ
    if kind != MEMORY_READ:
        await send_by_hand(dut, Tlp(header, seed.randbytes(4 * lanes)), beats)
    # A few received beats are taken, then none: an engine that hangs.
    dut.m_rx_ready.value = 1
    await ClockCycles(dut.clk, seed.randrange(1, 20))
    dut.m_rx_ready.value = 0
    await ClockCycles(dut.clk, seed.randrange(1, 60))
    dut.flr_pf_active.value = 1
    await RisingEdge(dut.clk)
    if is_pulse:
        dut.flr_pf_active.value = 0
    await until(dut, lambda: dut.engine_rst.value, 10)
    await until(dut, lambda: dut.flr_pf_done.value, 400)
    assert dut.engine_rst.value
    await ClockCycles(dut.clk, 4)
    dut.flr_pf_active.value = 0
    await until(dut, lambda: not dut.engine_rst.value, 10)
    rx = TlpSink(dut, "m_rx", block.clocks, seed=SEED)
    await ClockCycles(dut.clk, 100)
    assert not dut.engine_rst.value, "a second reset"
    assert rx.tlps == []
    assert block.nullified == is_cut and not block.sent
    assert (await openings(dut))[0] == "111"
    # Both directions again.
    rx.pause = 0.2
    tlp = None
    while tlp is None:
        wire, bar, tlp = any_tlp(seed, received=True)
    block.receive(wire, bar)
    write = memory_write(0x8000, seed.randbytes(100))
    await send_by_hand(dut, write)
    await until(dut, lambda: block.sent and rx.tlps, 400)
    assert_same(rx.tlps, [tlp])
    assert bytes(block.sent[0].to_tlp().pack()) == bytes(on_the_wire(write).pack())
    assert block.nullified == is_cut


@cocotb.test()
async def a_reset_waits_for_what_is_under_way(dut):
    """The rest of a TLP that comes late is lost, and that of one that the block takes late leaves:
    only then is the block told."""
    block = await HardBlock(dut, has_engine=False).reset()
    block.is_gapless = False
    dut.m_rx_ready.value = 1
    block.receive(write_of(0x1000, bytes(512)))
    await until(dut, lambda: dut.rx_st_valid.value)
    block.rx.pause = True
    await ClockCycles(dut.clk, 8)
    header = {"kind": MEMORY_WRITE, "length_dw": 64 * LANES, "first_be": 15, "last_be": 15}
    await send_by_hand(dut, Tlp(header, bytes(256 * LANES)), 4)
    block.tx.pause = True
    dut.flr_pf_active.value = 1
    completed = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            if dut.flr_pf_done.value:
                completed.append(block.clocks.now)
                dut.flr_pf_active.value = 0

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
    assert not completed and block.nullified == 1 and not block.sent
    block.rx.pause = False
    await until(dut, lambda: completed, 100)
    rx = TlpSink(dut, "m_rx", block.clocks, seed=SEED)
    block.receive(write_of(0x2000, bytes(64)))
    await until(dut, lambda: rx.tlps, 100)
    assert rx.tlps[0].address == 0x2000 and len(completed) == 1


# The bounded set has the shim at one width, and the card at the other.
@pytest.mark.parametrize("data_bits", [256, 512] if ALL else [512])
def test_shim_s10(data_bits):
    simulate(__file__, "crosslane_shim_s10", {"DATA_BITS": data_bits})
