# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_card with a push aperture: descriptors that come with their doorbell, and data in them.

docs/engine.md, "Pushed descriptors".
"""

import os
import random
import struct

import cocotb
import pytest
from card_bus import CARD, HOST_ID, WIDTHS, CardBus
from engine_host import (
    AWAIT_CREDIT,
    SOURCE_RING,
    SOURCE_TABLE,
    STATUS,
    STREAM_GENERATOR,
    STREAM_H2C,
    Channel,
    Descriptor,
    complete,
    opened,
    pattern,
    route,
    set_user,
)
from register_map import OFFSETS, fields_of
from register_map import field as put
from simulate import SEED, simulate
from tlp_stream import MEMORY_READ, MEMORY_WRITE, memory_read, memory_write, until

DATA_BITS = int(os.environ.get("DATA_BITS", "256"))
PUSH_BAR = 4
LINE_BYTES = 64
INLINE_BYTES = 48
INLINE = 8
# Channels of the card, and their lines.
LINES = {"h2c[0]": 0, "c2h[0]": 4, "peer[0]": 8}


def line(posted, descriptor, data=None):
    """A line: the doorbell, the descriptor, and perhaps its data."""
    control = descriptor.control | descriptor.bytes << 8 | (0 if data is None else INLINE)
    head = struct.pack("<IIQ", posted & 0xFFFFFFFF, control, descriptor.address)
    return (head + (data or b"")).ljust(LINE_BYTES, b"\xa5")


def store_line(bus, name, data, offset=0, **header):
    """Sends a write to a channel's line."""
    number = LINES[name] if isinstance(name, str) else name
    tlp = memory_write(number * LINE_BYTES + offset, data, requester=HOST_ID, bar=PUSH_BAR)
    tlp.header |= header
    bus.source.queue.append(tlp)
    return tlp


async def push(channel, descriptor, data=None):
    """Posts a descriptor by its line, as the driver does: into its ring as well."""
    await channel.lay_down(descriptor)
    channel.posted += 1
    return store_line(channel.bus, channel.name, line(channel.posted, descriptor, data))


async def started(dut, seed=SEED):
    """A card after reset."""
    return await CardBus(dut, seed).start()


async def counts(channel):
    """Descriptors that were pushed, writes that were dropped, and descriptors fetched."""
    return [await channel.get(name) for name in ("pushed", "pushes_dropped", "fetched")]


@cocotb.test()
async def the_registers_say_that_it_has_lines(dut):
    bus = await started(dut)
    sizes = fields_of("global.sizes", await bus.read32(OFFSETS["global.sizes"]))
    assert (sizes["push"], sizes["packets"], sizes["card_memory"]) == (1, 0, 0)
    # The aperture reads as zero, in any length.
    for offset, count in ((0, 4), (0, 64), (2, 5), (0x7C0, 64), (0xF00, 128), (0x40, 0)):
        answer = await bus.request(memory_read(offset, count, 7, bar=PUSH_BAR))
        assert answer.status == 0 and answer.payload.strip(b"\0") == b""
        assert answer.byte_count == max(1, count)


# Clocks from the line's last beat to the first beat of the first TLP, at most. Nothing is fetched.
FIRST_CLOCKS = {"h2c[0]": 9, "c2h[0]": 13, "peer[0]": 13}


@cocotb.test()
@cocotb.parametrize(name=list(LINES))
async def a_line_is_a_descriptor_without_a_fetch(dut, name):
    bus = await started(dut)
    [channel] = await opened(bus, name)
    await set_user(bus, "generator_seed", 9)
    await bus.wait(100)
    place = bus.allocate(4096, 4096)
    offset = 0
    for number, count in enumerate((64, 1, 100, 999, 64), 1):
        bus.reads.clear()
        bus.writes.clear()
        control = STATUS | (AWAIT_CREDIT if name == "peer[0]" and number == 2 else 0)
        if control & AWAIT_CREDIT:
            await channel.set("credit", offset + count)
        at = place + 3 * number
        sent = await push(channel, Descriptor(at, count, control))
        await complete(channel)
        tlps = bus.reads if name == "h2c[0]" else bus.writes
        if name == "h2c[0]":
            assert bus.reads[0].address == at & ~3
        else:
            assert bus.load(at, count) == pattern(9, offset, count)
        offset += count
        clocks = tlps[0].first_clock - sent.last_clock
        dut._log.info("%s: %d clocks to the first TLP", name, clocks)
        assert clocks <= FIRST_CLOCKS[name], clocks
        # A doorbell of the same number changes nothing.
        await channel.set("doorbell", channel.posted)
        assert await channel.get("doorbell") == number
        assert await counts(channel) == [number, 0, 0]
    assert await channel.get64("bytes") == offset
    await bus.write32(OFFSETS["global.control"], put("global.control", reset_counters=1))
    assert await counts(channel) == [0, 0, 0]


# Clocks from the line's last beat to the status block behind its data, and those of the data.
INLINE_CLOCKS = 12


@cocotb.test()
async def data_in_a_line_enter_the_stream(dut):
    bus = await started(dut)
    reader, writer = await opened(bus, "h2c[0]", "c2h[0]")
    await route(bus, c2h=STREAM_H2C)
    target = bus.allocate(1 << 16, 4096)
    total = sum(range(1, INLINE_BYTES + 1))
    await writer.post([Descriptor(target, total)])
    expected, timed = b"", 0
    for count in bus.random.sample(range(1, INLINE_BYTES + 1), INLINE_BYTES):
        data = bus.random.randbytes(count)
        expected += data
        bus.writes.clear()
        begun = await reader.get64("first"), await reader.get64("last")
        sent = await push(reader, Descriptor(0xDEAD, count), data)
        await complete(reader)
        told = [w for w in bus.writes if w.address == reader.status_block]
        clocks = told[0].first_clock - sent.last_clock
        dut._log.info("%d B in a line: %d clocks to the status block", count, clocks)
        # A write of data may leave first.
        if bus.writes[0] is told[0]:
            assert clocks == INLINE_CLOCKS + -(-count // (DATA_BITS // 8)), clocks
            timed += 1
        first, last = await reader.get64("first"), await reader.get64("last")
        assert begun[1] < last and (begun[0] or last) == first
    await complete(writer)
    assert timed > INLINE_BYTES // 2
    assert bus.load(target, total) == expected
    assert await reader.get64("bytes") == total
    assert await reader.get("tlps") == 0
    assert await counts(reader) == [INLINE_BYTES, 0, 0]
    assert all(read.address >= writer.ring for read in bus.reads)


@cocotb.test()
async def other_writes_are_dropped_and_counted(dut):
    bus = await started(dut)
    seed = bus.random
    channels = await opened(bus, *LINES)
    place = bus.allocate(4096, 4096)
    await bus.wait(50)
    for channel in channels:
        descriptor = Descriptor(place, 64)
        await channel.lay_down(descriptor)
        name, good = channel.name, line(1, descriptor)
        refused = [
            (good[:32], 0, {}),
            (good[32:], 32, {}),
            (good[:60], 0, {}),
            (good[:4], 0, {}),
            (good + good, 0, {}),
            (good, 4, {}),
            (good, 32, {}),
            (good[:4], 60, {"first_be": 8}),
            (good, 0, {"first_be": 0xE}),
            (good, 0, {"last_be": 7}),
            (good, 0, {"poisoned": 1}),
            (good[:4], 8, {"first_be": 0}),
            *((line(number, descriptor), 0, {}) for number in (0, 2, 1 << 31, 0x101)),
        ]
        for at, (data, offset, header) in enumerate(seed.sample(refused, len(refused)), 1):
            store_line(bus, name, data, offset, **header)
            if at % 4 == 0:
                assert await counts(channel) == [0, at, 0], (name, data, offset, header)
        assert await channel.get("doorbell") == 0
        # Not while the channel does not run, and not from another source.
        dropped = len(refused)
        register = f"{name}.control"
        for control in (
            {"run": 0, "source": SOURCE_RING},
            {"run": 1, "source": SOURCE_TABLE},
            {"run": 1, "source": 3},
        ):
            await channel.set("control", put(register, status_enable=1, **control))
            store_line(bus, name, good)
            dropped += 1
            assert await counts(channel) == [0, dropped, 0], control
        await channel.set("control", put(register, run=1, source=SOURCE_RING, status_enable=1))
        store_line(bus, name, good)
        channel.posted = 1
        await complete(channel)
        # A write is for the line of its first byte.
        store_line(bus, name, good * 4, 4)
        assert await counts(channel) == [1, dropped + 1, 0]
        # A stopped channel takes none.
        await channel.set("doorbell", 1000)
        assert (await channel.reached(1000)).error == "bad_descriptor"
        store_line(bus, name, line(2, descriptor))
        store_line(bus, name, line(1001, descriptor))
        assert await counts(channel) == [1, dropped + 3, 0]
    before = [await counts(channel) for channel in channels]
    # Lines of no channel.
    for number in set(range(64)) - set(LINES.values()):
        store_line(bus, number, line(1, Descriptor(place, 64)))
    assert [await counts(channel) for channel in channels] == before
    assert len(bus.others) == 0


@cocotb.test()
async def a_bad_line_stops_its_channel_in_its_turn(dut):
    bus = await started(dut)
    place = bus.allocate(1 << 14, 4096)
    for name in LINES:
        bad = [(Descriptor(place + 5, 0), None)]
        if name == "h2c[0]":
            bad += [(Descriptor(place + 6, count), bytes(48)) for count in (0, 49, 1 << 20)]
        else:
            bad += [(Descriptor(place + 7, count), bytes(48)) for count in (1, 48, 64)]
        for descriptor, data in bad:
            [channel] = await opened(bus, name)
            # Both are taken up, and wait for data or for the link.
            bus.completer.in_order(400)
            bus.set_room(posted=0)
            await channel.post([Descriptor(place, 300), Descriptor(place, 100)])
            await bus.wait(600)
            await push(channel, descriptor, data)
            await bus.wait(50)
            assert await channel.get("completed") == 0
            bus.set_room()
            block = await channel.reached(3)
            assert (block.completed, block.error) == (2, "bad_descriptor"), (name, descriptor)
            assert (block.error_address, block.stopped_at) == (descriptor.address, 0)
        # Bus Master Enable is looked at when the line's descriptor is taken up.
        for data in (None, bytes(48)) if name == "h2c[0]" else (None,):
            [channel] = await opened(bus, name)
            await bus.wait(50)
            bus.set_function(bus_master=0)
            await push(channel, Descriptor(place + 9, 48), data)
            await bus.wait(100)
            status = fields_of(f"{name}.status", await channel.get("status"))
            assert (status["state"], status["error"]) == (2, 6)
            assert await channel.get64("error") == place + 9
            bus.set_function(bus_master=1)
            await bus.wait(50)
        # A ring that cannot be, or is full, makes a line a doorbell.
        for entries, before in ((24, 0), (0, 0), (1 << 17, 0), (16, 16)):
            [channel] = await opened(bus, name)
            await channel.set("ring_entries", entries)
            if before:
                # The descriptors stay open: nothing is answered, or taken.
                bus.set_room(0, 0)
                await channel.post([Descriptor(place, 64)] * before)
            counted = await counts(channel) if not before else None
            store_line(bus, name, line(before + 1, Descriptor(place, 64)))
            await bus.wait(100)
            bus.set_room()
            block = await channel.reached(before + 1)
            assert block.error == "bad_descriptor", (name, entries)
            assert block.error_address == channel.ring
            assert await channel.get("doorbell") == before + 1
            assert counted is None or await counts(channel) == counted


@cocotb.test()
async def lines_and_doorbells_are_mixed_at_will(dut):
    """The stream is that of the descriptors in order, whatever came by lines."""
    bus = await started(dut)
    seed = random.Random(SEED)
    reader, writer = Channel(bus, "h2c[0]", entries=16), Channel(bus, "c2h[0]", entries=16)
    pushed = fetched = 0
    for _ in range(6):
        await reader.open()
        await writer.open()
        await route(bus, c2h=STREAM_H2C)
        await bus.write32(OFFSETS["global.control"], put("global.control", reset_counters=1))
        bus.source.pause = seed.choice([0, 0.2])
        bus.sink.pause = seed.choice([0, 0.3])
        source, target = bus.allocate(1 << 14, 4096), bus.allocate(1 << 14, 4096)
        bus.store(source, seed.randbytes(1 << 14))
        expected, written = b"", 0
        most = seed.choice([30, 300, 1500])
        for _ in range(60):
            channel = seed.choice([reader, writer])
            if channel.posted - channel.block().completed >= 14:
                await bus.wait(200)
                continue
            count = seed.randint(1, most)
            if channel is reader:
                if len(expected) + count > 1 << 14:
                    continue
                at = source + seed.randrange((1 << 14) - count)
                data = bus.load(at, count)
                expected += data
                carried = data if count <= INLINE_BYTES and seed.random() < 0.5 else None
            else:
                if written + count > 1 << 14:
                    continue
                at, carried = target + written, None
                written += count
            descriptor = Descriptor(at, count)
            how = seed.choice(["doorbell", "line", "line", "both", "parts"])
            if how == "doorbell":
                await channel.post([descriptor])
            elif how == "parts":
                await channel.lay_down(descriptor)
                channel.posted += 1
                whole = line(channel.posted, descriptor, carried)
                store_line(bus, channel.name, whole[:32])
                store_line(bus, channel.name, whole[32:], 32)
                await channel.set("doorbell", channel.posted)
            else:
                await push(channel, descriptor, carried)
                if how == "both":
                    await channel.set("doorbell", channel.posted)
            await bus.wait(seed.choice([0, 0, 1, 5, 20, 200]))
        # Parts that one side lacks.
        if len(expected) < written:
            count = written - len(expected)
            expected += bus.load(source, count)
            await complete(reader)
            await push(reader, Descriptor(source, count))
        elif written < len(expected):
            await writer.reached(writer.posted - 8)
            await push(writer, Descriptor(target + written, len(expected) - written))
        await complete(reader, writer)
        assert bus.load(target, len(expected)) == expected
        for channel in (reader, writer):
            by_line, _, by_fetch = await counts(channel)
            assert by_line + by_fetch == channel.posted
            assert await channel.get64("bytes") == len(expected)
            pushed, fetched = pushed + by_line, fetched + by_fetch
    assert pushed > 40 and fetched > 40, (pushed, fetched)


@cocotb.test()
async def lines_keep_their_place_among_register_writes(dut):
    """Restart, settings, doorbell and line without a pause, at every distance."""
    bus = await started(dut)
    channel = Channel(bus, "h2c[0]")
    await channel.open()
    place = bus.allocate(4096, 64)
    bus.store(place, bytes(4096))
    await bus.wait(200)
    register = OFFSETS["h2c[0].control"]
    run = put("h2c[0].control", run=1, source=SOURCE_RING, status_enable=1)
    for distance in range(8):
        await bus.write32(OFFSETS["global.control"], put("global.control", reset_counters=1))
        channel.posted = 0
        for step in range(4):
            for _ in range(4):
                await channel.lay_down(Descriptor(place, 64))
                channel.posted += 1
            channel.posted -= 4
            await bus.write32(register, put("h2c[0].control", restart=1))
            for _ in range(distance * (step == 0)):
                await bus.write32(OFFSETS["h2c[0].vector"], 0)
            store_line(bus, channel.name, line(1, Descriptor(place, 64)))  # not running: dropped
            await bus.write32(register, run)
            channel.posted = 0
            await push(channel, Descriptor(place, 64))
            channel.posted += 1
            await channel.set("doorbell", channel.posted)
            await push(channel, Descriptor(place, 64))
            # The number of the line, behind it: changes nothing.
            await channel.set("doorbell", channel.posted)
            store_line(bus, channel.name, line(3, Descriptor(place, 64)))  # again: dropped
            await push(channel, Descriptor(place, 64))
            await until(dut, lambda: bus.source.is_idle)
            await bus.wait(30)
            assert await channel.get("doorbell") == 4
            for _ in range(2000):
                if await channel.get("completed") == 4:
                    break
            by_line, dropped, by_fetch = await counts(channel)
            assert (by_line + by_fetch, dropped) == (4 * step + 4, 2 * step + 2), (distance, step)


@cocotb.test()
async def a_restart_and_a_reset_forget_a_line(dut):
    bus = await started(dut)
    seed = random.Random(SEED)
    reader, writer = await opened(bus, "h2c[0]", "c2h[0]")
    await route(bus, c2h=STREAM_H2C)
    place, target = bus.allocate(4096, 64), bus.allocate(4096, 64)
    bus.store(place, seed.randbytes(4096))
    for clocks in range(40):
        for channel in (reader, writer):
            await channel.open()
        data = bus.random.randbytes(48)
        carried = seed.choice([None, data])
        await push(reader, Descriptor(place, 48), carried)
        await until(dut, lambda: bus.source.is_idle)
        await bus.wait(clocks)
        if clocks % 8 == 7:
            await bus.reset()
            await route(bus, c2h=STREAM_H2C)
        for channel in (reader, writer):
            await channel.open()
        await bus.wait(200)
        assert await reader.get("doorbell") == await reader.get("completed") == 0
        # The next data are the first of the stream, or what is in it was complete before.
        await writer.post([Descriptor(target, 48)])
        data = bus.random.randbytes(48)
        await push(reader, Descriptor(0, 48), data)
        await complete(reader, writer)
        assert bus.load(target, 48) == data, clocks


@cocotb.test()
async def data_in_a_line_wait_for_those_before_them(dut):
    """For all reads before them, and for room in the staging memory."""
    bus = await started(dut)
    bus.completer.in_order(400)
    reader, writer = await opened(bus, "h2c[0]", "c2h[0]")
    await route(bus, c2h=STREAM_H2C)
    total = CARD["STAGING_BYTES"]
    source, target = bus.allocate(total, 4096), bus.allocate(2 * total, 4096)
    bus.store(source, bus.random.randbytes(total))
    data = bus.random.randbytes(40)
    await reader.post([Descriptor(source, 700)])
    await bus.wait(600)
    await push(reader, Descriptor(0, 40), data)
    await bus.wait(100)
    assert await counts(reader) == [1, 0, 1]
    assert await reader.get("completed") == 0
    # Nothing takes the stream: the ring fills up to less than a longest read.
    await complete(reader)
    bus.completer.in_order(64)
    await reader.post([Descriptor(source, total - 1536)])
    await complete(reader)
    await push(reader, Descriptor(0, 40), data)
    await bus.wait(500)
    assert await reader.get("completed") == 3
    rest = 740 + total - 1536 + 40
    await writer.post([Descriptor(target, rest)])
    await complete(reader, writer)
    whole = bus.load(source, 700) + data + bus.load(source, total - 1536) + data
    assert bus.load(target, rest) == whole
    # A read behind data in a line.
    await writer.post([Descriptor(target, 40 + 2000)])
    await push(reader, Descriptor(0, 40), data)
    await reader.post([Descriptor(source + 1, 2000)])
    await complete(reader, writer)
    assert bus.load(target, 2040) == data + bus.load(source + 1, 2000)
    reads = [tlp for tlp in bus.reads if tlp.kind == MEMORY_READ]
    assert len(reads) > 0 and all(tlp.kind == MEMORY_WRITE for tlp in bus.writes)
    await route(bus, c2h=STREAM_GENERATOR)


@pytest.mark.parametrize("data_bits", WIDTHS)
def test_push(data_bits):
    simulate(__file__, "crosslane_card", {"DATA_BITS": data_bits, "PUSH": 1, **CARD})
