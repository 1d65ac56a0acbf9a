# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine with the card's memory: H2C into it, C2H out of it, BAR 2 as an aperture onto it."""

import cocotb
import pytest
from axi_memory import REFUSALS
from card_memory_bus import (
    BURST,
    BYTES,
    CARD_BYTES,
    WINDOW_BYTES,
    carry,
    complete,
    jobs_of,
    opened,
    started,
    to_card,
)
from cocotb.triggers import ClockCycles
from completer import Fault
from engine_host import STATE_STOPPED, STATUS, Channel, Descriptor
from register_map import OFFSETS, fields_of
from simulate import simulate, widths

BEATS = 2000


@cocotb.test()
async def the_registers_say_so(dut):
    bus = await started(dut)
    sizes = fields_of("global.sizes", await bus.read32(OFFSETS["global.sizes"]))
    assert sizes["card_memory"] == 1
    channel = await opened(bus, "h2c[0]")
    assert fields_of("h2c[0].control", await channel.get("control"))["card_memory"] == 1


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.4])
async def bytes_go_to_the_memory_and_come_from_it(dut, how_often):
    bus = await started(dut, 2, how_often)
    h2c, c2h = await opened(bus, "h2c[0]"), await opened(bus, "c2h[0]")
    expected = await to_card(bus, h2c, jobs_of(bus, 30_000)[:50])
    await complete(h2c)
    assert bus.card == expected
    spans, descriptors = [], []
    # Whole bursts and single beats are always included.
    counts = [3 * BURST, 1]
    counts += [
        bus.random.choice([2, 3, 4, 31, 64, bus.random.randrange(1, 3000)]) for _ in range(38)
    ]
    for count in counts:
        card = bus.random.randrange(CARD_BYTES - count)
        place = bus.allocate(count + 16, 4)
        bus.store(place, bytes(count + 16))
        address = place + 4 + bus.random.randrange(4)
        spans.append((place, address - place, card, count))
        descriptors.append(Descriptor(address, count, STATUS, card))
    await carry(c2h, *descriptors)
    for place, gap, card, count in spans:
        around = bytes(gap) + bytes(bus.card[card : card + count]) + bytes(16 - gap)
        assert bus.load(place, count + 16) == around
    assert bus.card == expected
    assert int(dut.stream_beats.value) == 0
    # Whole bursts went both ways, and some that begin within a beat.
    for bursts in (bus.memory_port.writes, bus.memory_port.reads):
        assert {BURST // BYTES, 1} <= {burst.beats for burst in bursts}
        assert any(burst.address % BYTES for burst in bursts)


@cocotb.test()
async def both_at_once_with_the_window_and_registers(dut):
    bus = await started(dut, 3, 0.2)
    h2c, c2h = await opened(bus, "h2c[0]"), await opened(bus, "c2h[0]")
    # Halves of the memory: the aperture's, H2C's, and the source of C2H.
    jobs = [(card + WINDOW_BYTES, count) for card, count in jobs_of(bus, 30_000)[:50]]
    kept = CARD_BYTES // 2
    place = bus.allocate(40_000, 4096)
    expected = await to_card(bus, h2c, jobs)
    await c2h.post([Descriptor(place, 30_000, 0, kept + 3), Descriptor(place + 30_001, 5, 1, kept)])
    for n in range(25):
        at, count = bus.random.randrange(WINDOW_BYTES - 2000), bus.random.randrange(1, 700)
        data = bus.random.randbytes(count)
        bus.window_write(at, data)
        expected[at : at + count] = data
        # A read sees the write before it.
        at += bus.random.randrange(count)
        count = min(bus.random.randrange(1, 513), 512 - at % 512)
        assert await bus.window_read(at, count) == expected[at : at + count]
        if n % 5 == 0:
            assert await bus.read32(OFFSETS["global.id"]) == 0x584C4E45
    await complete(h2c)
    for _ in range(1000):
        if await c2h.get("completed") == 2:
            break
    assert bus.load(place, 30_000) == expected[kept + 3 :][:30_000]
    assert bus.load(place + 30_001, 5) == expected[kept : kept + 5]
    assert bus.card == expected


@cocotb.test()
async def answers_of_window_and_registers_take_turns(dut):
    bus = await started(dut, 4)
    bus.sink.pause = 0.5

    async def registers():
        for _ in range(40):
            assert await bus.read32(OFFSETS["global.id"]) == 0x584C4E45

    task = cocotb.start_soon(registers())
    for _ in range(40):
        at = bus.random.randrange(WINDOW_BYTES // 512) * 512
        assert await bus.window_read(at, 512) == bus.card[at : at + 512]
    await task


@cocotb.test()
async def what_the_memory_refuses_the_window_tells(dut):
    bus = await started(dut, 5)
    for n, response in enumerate(REFUSALS):
        bus.refuse(lambda address: 0x1000 <= address < 0x2000, response)
        assert await bus.window_read(0x1100, 64) is None
        assert await bus.window_read(0x0F00, 64) == bus.card[0x0F00:0x0F40]
        bus.window_write(0x1000, bytes(8))
        assert await bus.window_read(0, 4) == bus.card[:4]
        assert bus.window_failures.count == n + 1


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.3])
async def a_write_that_the_memory_refuses_stops_h2c_there(dut, how_often):
    bus = await started(dut, 6, how_often)
    channel = await opened(bus, "h2c[0]")
    edge = 64 * BURST
    jobs = [(edge - 8 * BURST, BURST), (edge - 3 * BURST - 5, 5 * BURST), (edge + 9 * BURST, 77)]
    for response in REFUSALS:
        bus.refuse(lambda address: address >= edge, response)
        before = bytes(bus.card)
        expected = await to_card(bus, channel, jobs)
        block = await channel.completed(60000)
        assert (block.state, block.error) == (STATE_STOPPED, "card_memory")
        assert (block.completed, block.stopped_at) == (1, 3 * BURST + 5)
        assert block.error_address == edge
        await ClockCycles(dut.clk, 300)
        assert bus.card[:edge] == expected[:edge]
        assert bus.card[edge:] == before[edge:]
        # A restart clears the error.
        bus.refuse(None)
        await channel.open(card_memory=1)
        expected = await to_card(bus, channel, jobs)
        await complete(channel)
        assert bus.card == expected
        await channel.open(card_memory=1)


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.3])
async def a_read_that_the_memory_refuses_stops_c2h_there(dut, how_often):
    bus = await started(dut, 7, how_often)
    channel = await opened(bus, "c2h[0]")
    place = bus.allocate(1 << 16, 4096)
    edge = 64 * BURST + 8 * BYTES
    for gap, response in zip((0, 100), REFUSALS, strict=True):
        bus.refuse(lambda address: address >= edge, response)
        bus.store(place, bytes(1 << 16))
        # Of the second descriptor whole TLPs of 256 B are sent, up to the edge.
        first = edge - 4096 - gap
        jobs = [
            Descriptor(place + (1 << 15), 500, STATUS, 8),
            Descriptor(place, 9000, STATUS, first),
        ]
        await channel.post([*jobs, Descriptor(place, 9, STATUS, 0)])
        block = await channel.completed(60000)
        moved = (edge - first) // 256 * 256
        assert (block.state, block.error) == (STATE_STOPPED, "card_memory")
        assert (block.completed, block.stopped_at) == (1, moved)
        assert block.error_address == place + moved
        assert bus.load(place, moved) == bus.card[first : first + moved]
        assert bus.load(place + moved, 9000) == bytes(9000)
        bus.refuse(None)
        await channel.open(card_memory=1)
        await carry(channel, *jobs)
        assert bus.load(place, 9000) == bus.card[first : first + 9000]
        await channel.open(card_memory=1)


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.3])
async def a_fault_of_the_bus_takes_its_turn(dut, how_often):
    bus = await started(dut, 8, how_often)
    channel = await opened(bus, "h2c[0]")
    jobs = [(100, 3000), (5003, 6001), (20_000, 500)]
    expected = await to_card(bus, channel, jobs)
    bad = bus.memory.find(expected[5003 : 5003 + 6001])
    assert bad >= 0
    bad += (1 << 32) + 4096
    bus.completer.fault = lambda at, count: (
        Fault.UNSUPPORTED if at <= bad < at + count else Fault.NONE,
        0,
    )
    block = await channel.completed(60000)
    assert (block.state, block.error, block.completed) == (STATE_STOPPED, "unsupported_request", 1)
    begin = bad - 4096
    assert block.error_address == begin + block.stopped_at
    assert bad - 512 < block.error_address <= bad
    assert bus.card[: 5003 + block.stopped_at] == expected[: 5003 + block.stopped_at]
    await ClockCycles(dut.clk, 200)
    bus.completer.fail(None)
    await channel.open(card_memory=1)
    expected = await to_card(bus, channel, jobs)
    await complete(channel)
    assert bus.card == expected


@cocotb.test()
@cocotb.parametrize(name=["h2c[0]", "c2h[0]"], what=["bus_master", "link_up"])
async def what_stops_a_channel_at_once_stops_it(dut, name, what):
    bus = await started(dut, 9, 0.3)
    channel = await opened(bus, name)
    place = bus.allocate(1 << 16, 4096)
    for clocks in (150, 330, 500):
        bus.store(place, bus.random.randbytes(1 << 16))
        await channel.post([Descriptor(place, 40_000, STATUS, 77)])
        await bus.wait(clocks)
        bus.set_function(**{what: 0})
        await bus.wait(600)
        bus.set_function(**{what: 1})
        status = fields_of(f"{name}.status", await channel.get("status"))
        wanted = {"bus_master": 6, "link_up": 8}[what]
        assert (status["state"], status["error"]) == (STATE_STOPPED, wanted)
        assert await channel.get("completed") == 0
        assert 0 <= await channel.get("stopped_at") < 40_000
        await channel.open(card_memory=1)
        await carry(channel, Descriptor(place + 3, 3000, STATUS, 5))
        assert bus.load(place + 3, 3000) == bus.card[5 : 5 + 3000]
        await channel.open(card_memory=1)


@cocotb.test()
@cocotb.parametrize(name=["h2c[0]", "c2h[0]"])
async def a_restart_at_any_time_leaves_nothing_behind(dut, name):
    bus = await started(dut, 10, 0.3)
    channel = await opened(bus, name)
    place = bus.allocate(1 << 15, 4096)
    for n in range(25):
        # Directly after work that was given up the next begins, elsewhere in the memory.
        bus.store(place, bus.random.randbytes(1 << 15))
        first = bus.random.randrange(CARD_BYTES // 2)
        lost = [Descriptor(place + 16_384 + n, 9000, 0, first + k * 9000) for k in range(3)]
        await channel.post(lost)
        await bus.wait(bus.random.randrange(400))
        await channel.open(card_memory=1)
        card = CARD_BYTES // 2 + bus.random.randrange(100_000)
        before = bytes(bus.card)
        count = bus.random.randrange(1, 5000)
        await carry(channel, Descriptor(place + n, count, STATUS, card))
        assert bus.load(place + n, count) == bus.card[card : card + count]
        assert bus.card[card + count :] == before[card + count :]
        assert bus.card[CARD_BYTES // 2 : card] == before[CARD_BYTES // 2 : card]
        await channel.open(card_memory=1)


@cocotb.test()
@cocotb.parametrize(given_up=["h2c[0]", "c2h[0]"])
async def a_restart_may_change_to_the_stream(dut, given_up):
    """During work with the memory: none of its data get into the stream, or out of it."""
    bus = await started(dut, 16, 0.4)
    h2c, c2h = Channel(bus, "h2c[0]"), Channel(bus, "c2h[0]")
    channel = h2c if given_up == "h2c[0]" else c2h
    source, target = bus.allocate(4096, 64), bus.allocate(4096, 64)
    lost = bus.allocate(30_000, 64)
    bus.store(lost, bus.random.randbytes(30_000))
    for _ in range(12):
        data = bus.random.randbytes(3000)
        bus.store(source, data)
        await h2c.open()
        if channel is c2h:
            # Stays in the stream while the channel works with the memory.
            await carry(h2c, Descriptor(source, 3000))
        before = bytes(bus.card)
        await channel.open(card_memory=1)
        await channel.post([Descriptor(lost + 9001 * n, 9000, 0, 9000 * n) for n in range(3)])
        await bus.wait(bus.random.randrange(100, 700))
        written = b"".join(bus.load(lost + 9001 * n, 9000) for n in range(3))
        await channel.open()
        if channel is h2c:
            await h2c.post([Descriptor(source, 3000)])
            await c2h.open()
        await carry(c2h, Descriptor(target, 3000))
        assert bus.load(target, 3000) == data
        # Data in flight are in the memory unchanged, or not at all.
        if channel is h2c:
            places = zip(bus.card, before, written, strict=False)
            assert all(now in (old, new) for now, old, new in places)
        assert bus.card[27_000:] == before[27_000:]


@cocotb.test()
async def without_the_bit_data_go_through_the_stream(dut):
    bus = await started(dut, 11, 0.2)
    before = bytes(bus.card)
    source, target = bus.allocate(8192, 64), bus.allocate(8192, 64)
    for how in (0, 1, 0):
        data = bus.random.randbytes(6000)
        bus.store(source, data)
        bus.store(target, bytes(8192))
        h2c, c2h = await opened(bus, "h2c[0]", how), await opened(bus, "c2h[0]", how)
        beats = int(dut.stream_beats.value)
        await carry(h2c, Descriptor(source + 1, 5999, STATUS, 12345))
        await carry(c2h, Descriptor(target + 3, 5999, STATUS, 12345))
        assert bus.load(target, 6010) == bytes(3) + data[1:6000] + bytes(8)
        if how:
            assert int(dut.stream_beats.value) == beats
            assert bus.card[12345 : 12345 + 5999] == data[1:]
            bus.card[12345 : 12345 + 5999] = before[12345 : 12345 + 5999]
        else:
            assert int(dut.stream_beats.value) > beats
        assert bus.card == before


@cocotb.test()
async def descriptors_that_are_bad_take_their_turn(dut):
    bus = await started(dut, 12)
    for name in ("h2c[0]", "c2h[0]"):
        channel = await opened(bus, name)
        place = bus.allocate(4096, 4096)
        good = Descriptor(place, 2000, STATUS, 64)
        await channel.post([good, Descriptor(place, 0, STATUS, 64), good])
        block = await channel.completed(30000)
        assert (block.completed, block.error, block.stopped_at) == (1, "bad_descriptor", 0)
        await channel.open(card_memory=1)
        await carry(channel, good)
        assert bus.load(place, 2000) == bus.card[64:2064]


@cocotb.test()
async def run_cleared_and_set_again_loses_nothing(dut):
    bus = await started(dut, 13)
    h2c, c2h = await opened(bus, "h2c[0]"), await opened(bus, "c2h[0]")
    place = bus.allocate(20_000, 64)
    expected = await to_card(bus, h2c, [(1, 9000), (10_001, 9000)])
    await c2h.post([Descriptor(place + 1, 9000, STATUS, 50_000), Descriptor(place, 1, STATUS, 7)])
    for _ in range(6):
        await bus.wait(60)
        for channel in (h2c, c2h):
            await channel.set("control", await channel.get("control") & ~1)
        await bus.wait(200)
        for channel in (h2c, c2h):
            await channel.set("control", await channel.get("control") | 1)
    assert (await h2c.completed()).error == (await c2h.completed()).error == "none"
    assert bus.card == expected
    assert bus.load(place + 1, 9000) == bus.card[50_000:59_000]


@cocotb.test()
async def h2c_owns_the_datapath(dut):
    bus = await started(dut, 14)
    bus.completer.in_order(20, 256)
    channel = await opened(bus, "h2c[0]")
    expected = bytearray(bus.card)
    base = bus.allocate(BEATS * BYTES, 4096)
    data = bus.random.randbytes(BEATS * BYTES)
    bus.store(base, data)
    expected[4096 : 4096 + len(data)] = data
    await carry(channel, Descriptor(base, len(data), STATUS, 4096))
    assert bus.card == expected
    beats = bus.memory_port.write_beats
    assert len(beats) == BEATS
    clocks = beats[-1] - beats[0] + 1
    assert clocks * 99 <= 100 * BEATS, f"{clocks} clocks for {BEATS} beats"


@cocotb.test()
async def c2h_owns_the_datapath(dut):
    bus = await started(dut, 15)
    channel = await opened(bus, "c2h[0]")
    base = bus.allocate(BEATS * BYTES, 4096)
    await carry(channel, Descriptor(base, BEATS * BYTES, STATUS, 8192))
    assert bus.load(base, BEATS * BYTES) == bus.card[8192 : 8192 + BEATS * BYTES]
    writes = [w for w in bus.writes if base <= w.address < base + BEATS * BYTES]
    clocks = writes[-1].last_clock - writes[0].first_clock + 1
    assert clocks * 99 <= 100 * BEATS, f"{clocks} clocks for {BEATS} beats"


@pytest.mark.parametrize("data_bits", widths(512))
def test_card_memory(data_bits):
    simulate(__file__, "card_memory", {"DATA_BITS": data_bits})
