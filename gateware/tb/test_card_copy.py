# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine with the card's memory: C2H 0 copies within it, by descriptors with `to_card`."""

import cocotb
import pytest
from axi_memory import REFUSALS
from card_bus import MESSAGE_ADDRESS
from card_memory_bus import BURST, BYTES, CARD_BYTES, carry, complete, opened, started, to_card
from cocotb.triggers import ClockCycles, RisingEdge
from engine_host import (
    INTERRUPT,
    STATE_RUNNING,
    STATE_STOPPED,
    STATUS,
    TO_CARD,
    Channel,
    Descriptor,
    set_vector,
)
from register_map import OFFSETS, fields_of
from simulate import simulate, widths

COPY = STATUS | TO_CARD
HALF = CARD_BYTES // 2
BEATS = 2000


def copies_of(bus, number, longest=3000):
    """Descriptors that copy from the lower half of the memory to the upper one, one behind another.

    Whole bursts and single bytes are always among them.
    """
    jobs, at = [], HALF + bus.random.randrange(100)
    counts = [3 * BURST, 1, BYTES, BURST + 1]
    counts += [bus.random.choice([2, 31, 64, bus.random.randrange(1, longest)]) for _ in counts]
    while len(counts) < number:
        counts.append(bus.random.randrange(1, longest))
    for count in counts[:number]:
        source = bus.random.randrange(HALF - count)
        jobs.append(Descriptor(at, count, COPY, source))
        at += count + bus.random.choice([0, 0, 1, 5, 300])
    return jobs


def copied(card, jobs):
    """The memory after these copies."""
    card = bytearray(card)
    for job in jobs:
        card[job.address : job.address + job.bytes] = card[job.card : job.card + job.bytes]
    return card


@cocotb.test()
async def the_registers_say_so(dut):
    bus = await started(dut)
    sizes = fields_of("global.sizes", await bus.read32(OFFSETS["global.sizes"]))
    assert sizes["card_copy"] == 1


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.4])
async def copies_arrive_at_any_alignment(dut, how_often):
    bus = await started(dut, 21, how_often)
    channel = await opened(bus, "c2h[0]")
    jobs = copies_of(bus, 40)
    expected = copied(bus.card, jobs)
    writes = len(bus.writes)
    await carry(channel, *jobs)
    assert bus.card == expected
    # No TLP but status blocks; nothing passes the stream; bytes are counted.
    assert {w.address for w in bus.writes[writes:]} == {channel.status_block}
    assert int(dut.stream_beats.value) == 0
    assert await channel.get64("bytes") == sum(job.bytes for job in jobs)
    assert await channel.get("tlps") == 0
    assert {BURST // BYTES, 1} <= {burst.beats for burst in bus.memory_port.writes}


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.4])
async def h2c_and_copies_share_the_port(dut, how_often):
    bus = await started(dut, 22, how_often)
    h2c, c2h = await opened(bus, "h2c[0]"), await opened(bus, "c2h[0]")
    into = [(HALF + 200_000 + n * 1000, bus.random.randrange(1, 1000)) for n in range(40)]
    jobs = copies_of(bus, 30)
    copied_card = copied(bus.card, jobs)
    expected = await to_card(bus, h2c, into)
    expected[HALF : HALF + 200_000] = copied_card[HALF : HALF + 200_000]
    await c2h.post(jobs)
    await complete(h2c)
    await complete(c2h)
    assert bus.card == expected


def bursts_of(job):
    """Number of bursts in which a copy is written."""
    return (job.address + job.bytes - 1) // BURST - job.address // BURST + 1


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.3])
async def copies_and_transfers_to_the_host_go_in_order(dut, how_often):
    bus = await started(dut, 23, how_often)
    channel = await opened(bus, "c2h[0]")
    at = place = bus.allocate(1 << 16, 4096)
    jobs, before = [], bytes(bus.card)
    for job in copies_of(bus, 30, 900):
        jobs.append(job)
        if bus.random.random() < 0.5:
            count = bus.random.randrange(1, 900)
            # From the lower half, which no copy changes: data are read ahead.
            jobs.append(Descriptor(at, count, 0, bus.random.randrange(HALF - count)))
            at += count + 3
    # Bursts that the memory has confirmed at the end of each TLP with data.
    confirmed, ends = 0, {}

    async def watch():
        nonlocal confirmed
        while True:
            await RisingEdge(dut.clk)
            for write in bus.writes[len(bus.writes) - 1 :]:
                if place <= write.address < at:
                    ends.setdefault(write.address, confirmed)
            confirmed += bool(dut.m_memory_bvalid.value)

    cocotb.start_soon(watch())
    await carry(channel, *jobs)
    bursts = 0
    for job in jobs:
        if job.control & TO_CARD:
            bursts += bursts_of(job)
        else:
            data = bus.load(job.address, job.bytes)
            assert data == before[job.card : job.card + job.bytes]
            span = range(job.address - 3, job.address + job.bytes)
            own = {n for address, n in ends.items() if address in span}
            assert own == {bursts}, f"{bursts} bursts are copied before it"
    assert bus.card == copied(before, [job for job in jobs if job.control & TO_CARD])


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.3])
async def a_write_that_the_memory_refuses_stops_the_copy_there(dut, how_often):
    bus = await started(dut, 24, how_often)
    channel = await opened(bus, "c2h[0]")
    edge = HALF + 64 * BURST
    jobs = [
        Descriptor(edge - 8 * BURST, BURST, COPY, 77),
        Descriptor(edge - 3 * BURST - 5, 5 * BURST, COPY, 5),
        Descriptor(edge + 9 * BURST, 77, COPY, 0),
    ]
    for response in REFUSALS:
        bus.refuse(lambda address: address >= edge, response)
        before, expected = bytes(bus.card), copied(bus.card, jobs)
        await channel.post(jobs)
        block = await channel.completed(60000)
        assert (block.state, block.error) == (STATE_STOPPED, "card_memory")
        assert (block.completed, block.stopped_at) == (1, 3 * BURST + 5)
        assert block.error_address == edge
        await ClockCycles(dut.clk, 300)
        assert bus.card[:edge] == expected[:edge]
        assert bus.card[edge:] == before[edge:]
        bus.refuse(None)
        await channel.open(card_memory=1)
        await carry(channel, *jobs)
        assert bus.card == expected
        await channel.open(card_memory=1)


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.3])
async def a_read_that_the_memory_refuses_stops_the_copy_there(dut, how_often):
    """Behind the last whole burst of which all data are there."""
    bus = await started(dut, 25, how_often)
    channel = await opened(bus, "c2h[0]")
    edge = 64 * BURST
    for gap, response in zip((0, 5), REFUSALS, strict=True):
        bus.refuse(lambda address: edge <= address < HALF, response)
        # Of the second copy 3 bursts and `gap` bytes can be read.
        jobs = [
            Descriptor(HALF + 7, 500, COPY, 8),
            Descriptor(HALF + 8 * BURST - 9, 6 * BURST, COPY, edge - 3 * BURST - gap),
            Descriptor(HALF, 5, COPY, 0),
        ]
        before = bytearray(bus.card)
        await channel.post(jobs)
        block = await channel.completed(60000)
        # The 9 bytes up to the first boundary, and whole bursts.
        moved = 9 + (3 * BURST + gap - 9) // BURST * BURST
        assert (block.state, block.error) == (STATE_STOPPED, "card_memory")
        assert (block.completed, block.stopped_at) == (1, moved)
        assert block.error_address == jobs[1].address + moved
        done = [jobs[0], Descriptor(jobs[1].address, moved, COPY, jobs[1].card)]
        await ClockCycles(dut.clk, 300)
        assert bus.card == copied(before, done)
        bus.refuse(None)
        await channel.open(card_memory=1)
        await carry(channel, *jobs)
        assert bus.card == copied(before, jobs)
        await channel.open(card_memory=1)


@cocotb.test()
async def a_read_refused_behind_a_copy_stops_the_transfer_to_the_host(dut):
    bus = await started(dut, 26)
    channel = await opened(bus, "c2h[0]")
    edge = 64 * BURST
    bus.refuse(lambda address: edge <= address < HALF)
    place = bus.allocate(4096, 4096)
    jobs = [Descriptor(HALF + 7, 900, COPY, 8), Descriptor(place, 900, STATUS, edge)]
    expected = copied(bus.card, jobs[:1])
    await channel.post(jobs)
    block = await channel.completed(60000)
    assert (block.completed, block.error, block.stopped_at) == (1, "card_memory", 0)
    assert block.error_address == place
    assert bus.card == expected


@cocotb.test()
async def the_link_stops_copies_at_once(dut):
    bus = await started(dut, 27, 0.3)
    channel = await opened(bus, "c2h[0]")
    for clocks in (150, 330, 500):
        await channel.post([Descriptor(HALF + 77, 40_000, COPY, 3)])
        await bus.wait(clocks)
        bus.set_function(link_up=0)
        await bus.wait(600)
        bus.set_function(link_up=1)
        status = fields_of("c2h[0].status", await channel.get("status"))
        assert (status["state"], status["error"]) == (STATE_STOPPED, 8)
        assert await channel.get("completed") == 0
        assert 0 <= await channel.get("stopped_at") < 40_000
        await channel.open(card_memory=1)
        job = Descriptor(HALF + 3, 3000, COPY, 5)
        await carry(channel, job)
        assert bus.card[HALF + 3 : HALF + 3003] == bus.card[5:3005]
        await channel.open(card_memory=1)


@cocotb.test()
async def a_copy_that_has_begun_needs_no_bus_master(dut):
    """The next one does: nobody could be told."""
    bus = await started(dut, 28, 0.3)
    channel = await opened(bus, "c2h[0]")
    jobs = [Descriptor(HALF + 77, 20_000, COPY, 3)]
    expected = copied(bus.card, jobs)
    await channel.post(jobs)
    while not bus.memory_port.writes:
        await bus.wait(1)
    bus.set_function(bus_master=0)
    await bus.wait(8000)
    assert await channel.get("completed") == 1
    assert bus.card == expected
    await channel.post([Descriptor(HALF, 64, COPY, 3)])
    await bus.wait(300)
    status = fields_of("c2h[0].status", await channel.get("status"))
    assert (status["state"], status["error"]) == (STATE_STOPPED, 6)
    assert bus.card == expected


@cocotb.test()
async def a_restart_at_any_time_leaves_nothing_behind(dut):
    bus = await started(dut, 29, 0.3)
    channel = await opened(bus, "c2h[0]")
    for n in range(40):
        first = bus.random.randrange(1000)
        # Into the third quarter: what of them is written is of their data.
        lost = [Descriptor(HALF + k * 9000 + n, 9000, TO_CARD, first + k * 9000) for k in range(3)]
        await channel.post(lost)
        await bus.wait(bus.random.randrange(500))
        before = bytes(bus.card)
        await channel.open(card_memory=1)
        count = bus.random.randrange(1, 5000)
        job = Descriptor(HALF + CARD_BYTES // 4 + n, count, COPY, bus.random.randrange(HALF - 5000))
        end = job.address + count
        await carry(channel, job)
        assert bus.card[job.address : end] == bus.card[job.card : job.card + count]
        assert bus.card[end:] == before[end:]
        for k, given_up in enumerate(lost):
            at = given_up.address
            now, old = bus.card[at : at + 9000 - n], before[at : at + 9000 - n]
            wanted = bus.card[given_up.card : given_up.card + 9000 - n]
            places = zip(now, old, wanted, strict=True)
            assert all(byte in (was, copy) for byte, was, copy in places), f"copy {k}"
        await channel.open(card_memory=1)


@cocotb.test()
async def a_restart_may_change_to_the_stream(dut):
    bus = await started(dut, 30, 0.4)
    h2c, c2h = Channel(bus, "h2c[0]"), Channel(bus, "c2h[0]")
    source, target = bus.allocate(4096, 64), bus.allocate(4096, 64)
    for _ in range(12):
        data = bus.random.randbytes(3000)
        bus.store(source, data)
        await h2c.open()
        await carry(h2c, Descriptor(source, 3000))
        await c2h.open(card_memory=1)
        await c2h.post([Descriptor(HALF + n * 9000, 9000, TO_CARD, 9000 * n) for n in range(3)])
        await bus.wait(bus.random.randrange(100, 700))
        await c2h.open()
        await carry(c2h, Descriptor(target, 3000))
        assert bus.load(target, 3000) == data


@cocotb.test()
async def run_cleared_and_set_again_loses_nothing(dut):
    bus = await started(dut, 31)
    channel = await opened(bus, "c2h[0]")
    place = bus.allocate(4096, 64)
    jobs = [
        Descriptor(HALF + 1, 60_000, COPY, 3),
        Descriptor(place + 1, 3000, STATUS, 50_000),
        Descriptor(HALF + 70_000, 60_000, COPY, 70_000),
    ]
    expected = copied(bus.card, [jobs[0], jobs[2]])
    await channel.post(jobs)
    for _ in range(6):
        await bus.wait(60)
        await channel.set("control", await channel.get("control") & ~1)
        await bus.wait(200)
        writes = len(bus.memory_port.writes)
        await bus.wait(200)
        assert len(bus.memory_port.writes) == writes
        await channel.set("control", await channel.get("control") | 1)
    assert (await channel.completed()).error == "none"
    assert bus.card == expected
    assert bus.load(place + 1, 3000) == bus.card[50_000:53_000]


@cocotb.test()
async def descriptors_that_are_bad_take_their_turn(dut):
    bus = await started(dut, 32)
    place = bus.allocate(4096, 4096)
    bus.store(place, bytes(4096))
    before = bytes(bus.card)
    bad = [
        # A copy of nothing; copies of a channel that does not copy, or not now.
        ("c2h[0]", 1, Descriptor(HALF, 0, COPY, 64)),
        ("c2h[0]", 0, Descriptor(place, 64, COPY, 64)),
        ("h2c[0]", 1, Descriptor(place, 64, COPY, 64)),
        ("h2c[0]", 0, Descriptor(place, 64, COPY, 64)),
    ]
    for name, card_memory, job in bad:
        channel = await opened(bus, name, card_memory)
        await channel.post([job])
        block = await channel.completed(30000)
        assert (block.completed, block.error, block.stopped_at) == (0, "bad_descriptor", 0)
        assert block.error_address == job.address
    assert bus.card == before
    assert bus.load(place, 4096) == bytes(4096)
    channel = await opened(bus, "c2h[0]")
    good = Descriptor(HALF, 2000, COPY, 64)
    await channel.post([good, Descriptor(HALF, 0, COPY, 64), good])
    block = await channel.completed(30000)
    assert (block.completed, block.error, block.stopped_at) == (1, "bad_descriptor", 0)
    assert bus.card == copied(before, [good])


@cocotb.test()
async def each_copy_asks_for_its_interrupt(dut):
    bus = await started(dut, 33)
    channel = Channel(bus, "c2h[0]")
    await channel.open(card_memory=1, interrupt_enable=1)
    await set_vector(bus, 0, MESSAGE_ADDRESS, 0xBEEF)
    for n in range(3):
        await carry(channel, Descriptor(HALF, 300, COPY | INTERRUPT, n))
        await bus.wait(50)
        assert bus.messages == [0xBEEF] * (n + 1)


@cocotb.test()
async def the_channel_runs_while_it_copies(dut):
    bus = await started(dut, 34)
    channel = await opened(bus, "c2h[0]")
    await channel.post([Descriptor(HALF, 100_000, COPY, 5)])
    await bus.wait(400)
    waited = await channel.get("idle_no_descriptor")
    await bus.wait(400)
    # Data move all the time: it does not wait for a descriptor.
    assert await channel.get("idle_no_descriptor") == waited
    await channel.set("control", await channel.get("control") & ~1)
    status = fields_of("c2h[0].status", await channel.get("status"))
    assert status["state"] == STATE_RUNNING
    await channel.set("control", await channel.get("control") | 1)
    await complete(channel)


@cocotb.test()
@cocotb.parametrize(shift=[0, 3])
async def copies_own_the_datapath(dut, shift):
    bus = await started(dut, 35)
    channel = await opened(bus, "c2h[0]")
    count = BEATS * BYTES
    job = Descriptor(HALF + shift, count, COPY, 8192)
    expected = copied(bus.card, [job])
    await carry(channel, job)
    assert bus.card == expected
    beats = bus.memory_port.write_beats
    assert len(beats) == BEATS + bool(shift)
    clocks = beats[-1] - beats[0] + 1
    assert clocks * 99 <= 100 * len(beats), f"{clocks} clocks for {len(beats)} beats"


@pytest.mark.parametrize("data_bits", widths(512))
def test_card_copy(data_bits):
    simulate(__file__, "card_memory", {"DATA_BITS": data_bits})
