# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_card: the whole engine and its user circuit, as a driver sees them."""

import os
import random

import cocotb
import pytest
from card_bus import CARD, MESSAGE_ADDRESS, WIDTHS, CardBus
from completer import Fault
from engine_host import (
    AWAIT_CREDIT,
    INTERRUPT,
    PATTERN_STEP,
    SOURCE_COMMAND,
    SOURCE_TABLE,
    STATUS,
    STREAM_GENERATOR,
    STREAM_H2C,
    STREAM_LANE,
    TO_CARD,
    Channel,
    Descriptor,
    check_identity,
    complete,
    enable_lane,
    get_user,
    opened,
    pattern,
    pieces,
    route,
    set_command,
    set_user,
    set_vector,
    there_and_back,
)
from register_map import OFFSETS
from register_map import field as put
from simulate import simulate
from tlp_stream import COMPLETION, memory_read, memory_write

# Bus address of the card's BAR 1, for peers.
LANES_BASE = 0x2_0000_0000
LANE_WINDOW = 1 << 19


async def started(dut, seed=1):
    """A card after reset."""
    return await CardBus(dut, seed).start()


@cocotb.test()
async def the_registers_say_what_it_is(dut):
    bus = await started(dut)
    await check_identity(bus)
    assert await bus.read32(OFFSETS["global.version"]) == 0x0001_0000
    counts = await bus.read32(OFFSETS["global.counts"])
    assert counts == put("global.counts", h2c=1, c2h=1, peer=1, lanes=8, vectors=8)
    before = await bus.read32(OFFSETS["global.time_low"])
    await bus.wait(100)
    assert 100 <= await bus.read32(OFFSETS["global.time_low"]) - before <= 140
    # A simulation that skips idle clocks sets the time forward.
    dut.time_set_value.value = 77 << 32
    dut.time_set_valid.value = 1
    await bus.wait(2)
    dut.time_set_valid.value = 0
    assert await bus.read32(OFFSETS["global.time_low"]) < 100
    assert await bus.read32(OFFSETS["global.time_high"]) == 77


@cocotb.test()
async def c2h_writes_the_pattern_anywhere(dut):
    bus = await started(dut, 2)
    [channel] = await opened(bus, "c2h[0]")
    await set_user(bus, "generator_seed", 77)
    place = bus.allocate(1 << 18, 4096)
    at, offset = place, 0
    spans = []
    for length in pieces(bus.random, 60_000, 4000):
        gap = bus.random.randrange(80)
        at += gap
        spans.append((at, length, offset))
        at += length
        offset += length
    while spans:
        part, spans = spans[:40], spans[40:]
        bus.set_function(max_payload=bus.random.randrange(4))
        await channel.post([Descriptor(a, n, STATUS) for a, n, _ in part])
        await complete(channel)
        for a, n, first in part:
            assert bus.load(a, n) == pattern(77, first, n), f"{n} B at {a:#x}"
    assert await channel.get64("bytes") == offset
    assert bus.sink.gaps == 0


@cocotb.test()
async def h2c_reads_from_anywhere_and_the_checker_is_content(dut):
    bus = await started(dut, 3)
    [channel] = await opened(bus, "h2c[0]")
    await set_user(bus, "h2c_check_seed", 5)
    await route(bus)
    await set_user(bus, "h2c_check", put("user.h2c_check", enable=1, restart=1))
    place = bus.allocate(1 << 18, 4096)
    at, offset, batch = place, 0, []
    bus.source.pause = 0.1
    bus.sink.pause = 0.1
    for length in pieces(bus.random, 60_000, 5000):
        at += bus.random.randrange(80)
        bus.store(at, pattern(5, offset, length))
        batch.append(Descriptor(at, length, STATUS))
        at += length
        offset += length
        if len(batch) == 30:
            # More would take longer than the time-out where a beat has 8 B.
            largest = 3 if len(dut.s_rx_data) == 64 else 6
            bus.completer.boundary = bus.random.choice([64, 128])
            payload, read = bus.random.randrange(4), bus.random.randrange(largest)
            bus.set_function(max_payload=payload, max_read_request=read)
            await channel.post(batch)
            batch = []
            await complete(channel)
    await channel.post(batch)
    await complete(channel)
    # Data that came out of order become available at once: up to a full ring is to be drained.
    await bus.wait(4200)
    assert await get_user(bus, "h2c_check_errors") == 0
    assert await channel.get64("bytes") == offset
    # The checker finds an error of one byte.
    await set_user(bus, "h2c_check", put("user.h2c_check", enable=1, restart=1))
    wrong = bytearray(pattern(5, 0, 4096))
    wrong[1001] ^= 1
    bus.store(place, bytes(wrong))
    await channel.post([Descriptor(place, 4096)])
    await channel.completed()
    await bus.wait(600)
    assert await get_user(bus, "h2c_check_errors") == 1
    assert await get_user(bus, "h2c_check_first") == 250


@cocotb.test()
async def what_is_read_is_written_again(dut):
    bus = await started(dut, 4)
    await route(bus, c2h=STREAM_H2C)
    reader, writer = await opened(bus, "h2c[0]", "c2h[0]")
    await there_and_back(bus, bus.random, reader, writer, 50_000, 2500)


@cocotb.test()
async def tables_work_like_rings(dut):
    bus = await started(dut, 5)
    await route(bus, c2h=STREAM_H2C)
    reader = Channel(bus, "h2c[0]", source=SOURCE_TABLE)
    writer = Channel(bus, "c2h[0]", source=SOURCE_TABLE)
    await reader.open()
    await writer.open()
    source, target = bus.allocate(8192, 4096), bus.allocate(8192, 4096)
    data = bus.random.randbytes(8192)
    bus.store(source, data)
    await writer.post([Descriptor(target + n * 1024, 1024) for n in range(8)])
    await reader.post([Descriptor(source + n * 2048, 2048) for n in range(4)])
    assert (await reader.completed()).completed == 4
    assert (await writer.completed()).completed == 8
    assert bus.load(target, 8192) == data
    # An entry is used once.
    await writer.set("doorbell", 9)
    assert (await writer.reached(9)).error == "bad_descriptor"


@cocotb.test()
async def interrupts_come_behind_their_status_block(dut):
    bus = await started(dut, 6)
    channel = Channel(bus, "c2h[0]")
    await channel.open(interrupt_enable=1)
    await channel.set("vector", 3)
    await set_vector(bus, 3, MESSAGE_ADDRESS, 0xBEEF)
    place = bus.allocate(4096, 4096)
    await channel.post([Descriptor(place, 256, STATUS | INTERRUPT)])
    await channel.completed()
    await bus.wait(50)
    assert bus.messages == [0xBEEF]
    kinds = [w.address for w in bus.writes]
    assert kinds.index(channel.status_block) < kinds.index(MESSAGE_ADDRESS)
    assert kinds.index(place) < kinds.index(channel.status_block)
    # An interrupt of a masked vector waits.
    await set_vector(bus, 3, MESSAGE_ADDRESS, 0xBEEF, masked=1)
    await channel.post([Descriptor(place, 256, STATUS | INTERRUPT)])
    await channel.completed()
    await bus.wait(100)
    assert bus.messages == [0xBEEF]
    assert await bus.read32(0x1800) == 1 << 3
    await set_vector(bus, 3, MESSAGE_ADDRESS, 0xBEEF)
    await bus.wait(100)
    assert bus.messages == [0xBEEF] * 2


def loop_back(bus):
    """Sends writes to the lanes' bus addresses back to this card."""

    async def run():
        while True:
            await bus.wait(1)
            while bus.others:
                tlp = bus.others.pop(0)
                tlp.header["bar"] = 1
                bus.source.queue.append(tlp)

    cocotb.start_soon(run())


@cocotb.test()
async def a_peer_gets_what_the_generator_makes_within_its_credits(dut):
    bus = await started(dut, 7)
    loop_back(bus)
    await route(bus, c2h=STREAM_LANE, peer=STREAM_GENERATOR, lane=2)
    await set_user(bus, "generator_seed", 9)
    # Credits come back as writes to BAR 0 of this card: the test's host forwards them.
    credit_register = 0x3_0000_0000 + OFFSETS["peer[0].credit"]
    await enable_lane(bus, 2, credit_register)

    async def hand_on_credits():
        seen = 0
        while True:
            await bus.wait(1)
            for tlp in bus.writes[seen:]:
                if tlp.address == credit_register:
                    bus.source.queue.append(
                        memory_write(OFFSETS["peer[0].credit"], tlp.payload, bar=0)
                    )
            seen = len(bus.writes)

    cocotb.start_soon(hand_on_credits())
    sender, receiver = await opened(bus, "peer[0]", "c2h[0]")
    await sender.set("credit_window", 4096)
    await sender.set("aperture", 8192)
    total = 40_000
    target = bus.allocate(total, 4096)
    await receiver.post([Descriptor(target, total)])
    bus.others.clear()
    base = LANES_BASE + 2 * LANE_WINDOW
    await sender.post([Descriptor(base, total, STATUS | AWAIT_CREDIT)])
    assert (await sender.completed(40000)).error == "none"
    await complete(receiver)
    assert bus.load(target, total) == pattern(9, 0, total)
    sent = [w.address - base for w in bus.writes if base <= w.address < base + LANE_WINDOW]
    assert max(sent) < 8192
    assert await sender.get("sent") == await sender.get("credit") == total
    assert await bus.read32(OFFSETS["lanes[2].status"]) == 0


@cocotb.test()
async def ping_pong_times_its_rounds(dut):
    bus = await started(dut, 8)
    loop_back(bus)
    await route(bus, c2h=STREAM_GENERATOR, peer=STREAM_GENERATOR, lane=1)
    await enable_lane(bus, 1)
    sender = Channel(bus, "peer[0]", source=SOURCE_COMMAND)
    await sender.open()
    await set_command(bus, LANES_BASE + LANE_WINDOW, 64)
    await set_user(bus, "ping", put("user.ping", start=1, rounds=20))
    await bus.wait(2000)
    assert await get_user(bus, "ping_done") == 20
    least, most = await get_user(bus, "ping_least"), await get_user(bus, "ping_most")
    total = await get_user(bus, "ping_sum_low")
    assert 0 < least <= total / 20 <= most < 60
    # A single command.
    await set_user(bus, "command", 1)
    await bus.wait(200)
    assert await get_user(bus, "command_done") == 1


@cocotb.test()
async def errors_stop_the_channel_and_restart_makes_good(dut):
    bus = await started(dut, 9)
    channel = Channel(bus, "h2c[0]")
    place = bus.allocate(1 << 16, 4096)
    bad = place + 3 * 512
    for fault, error in [
        (Fault.UNSUPPORTED, "unsupported_request"),
        (Fault.ABORT, "completer_abort"),
        (Fault.POISON, "poisoned"),
        (Fault.SILENCE, "completion_timeout"),
    ]:
        await channel.open()
        # The first completion, or the last for poison.
        number = 99 if fault == Fault.POISON else 0
        bus.completer.fail(bad, fault, number)
        await channel.post([Descriptor(place, 1024), Descriptor(place + 1024, 2048)])
        block = await channel.completed(40000)
        assert block.error == error, f"{fault}: {block}"
        assert block.completed == 1
        if fault != Fault.POISON:
            assert (block.stopped_at, block.error_address) == (512, bad)
        bus.completer.fail(None)
        await channel.open()
        await channel.post([Descriptor(place, 4096), Descriptor(place + 8192, 4096)])
        block = await channel.completed()
        assert (block.error, block.completed) == ("none", 2), f"after {fault}"


@cocotb.test()
async def bad_descriptors_and_no_master(dut):
    bus = await started(dut, 10)
    place = bus.allocate(1 << 16, 4096)
    for name in ["h2c[0]", "c2h[0]", "peer[0]"]:
        channel = Channel(bus, name)
        await channel.open()
        await channel.post([Descriptor(place, 300), Descriptor(place + 4, 0), Descriptor(place, 4)])
        block = await channel.completed()
        assert (block.error, block.completed, block.stopped_at) == ("bad_descriptor", 1, 0)
        assert block.error_address == place + 4
        await channel.open()
        bus.set_function(bus_master=0)
        await channel.post([Descriptor(place, 64)])
        await bus.wait(200)
        status = await channel.get("status")
        assert status & 3 == 2 and status >> 4 & 15 == 6, f"{name}: {status:#x}"
        bus.set_function(bus_master=1)
        # The card has no memory to copy in: `place` is not a bus address then.
        bus.store(place, bytes(64))
        await channel.open()
        await channel.post([Descriptor(place, 64, STATUS | TO_CARD)])
        block = await channel.completed()
        assert (block.error, block.completed) == ("bad_descriptor", 0)
        assert block.error_address == place
        assert bus.load(place, 64) == bytes(64)


@cocotb.test()
async def what_no_register_answers_is_refused(dut):
    bus = await started(dut, 11)
    for address, count, bar, status in ((4, 8, 0, 4), (0, 12, 0, 4), (0, 4, 5, 1)):
        answer = await bus.request(memory_read(address, count, address, bar=bar))
        assert (answer.kind, answer.status) == (COMPLETION, status), f"{count} B at {address}"
    for address, count in ((0, 0), (0, 8), (2, 2)):
        answer = await bus.request(memory_read(address, count, 4, bar=0))
        assert answer.status == 0, f"{count} B at {address}"


@cocotb.test()
async def a_link_that_goes_down_stops_what_runs(dut):
    bus = await started(dut, 12)
    place = bus.allocate(1 << 16, 4096)
    busy, idle = await opened(bus, "c2h[0]", "h2c[0]")
    off = Channel(bus, "peer[0]")
    await busy.post([Descriptor(place, 65000)])
    await bus.wait(60)
    bus.set_function(link_up=0)
    bus.set_room(0, 0, 0)
    await bus.wait(10)
    bus.set_room()
    bus.set_function(link_up=1)
    await bus.wait(100)
    assert await busy.get("status") & 0xFF == 2 | 8 << 4
    assert await idle.get("status") & 0xFF == 2 | 8 << 4
    assert await off.get("status") & 0xFF == 0
    await busy.open()
    await busy.post([Descriptor(place, 65000)])
    await complete(busy)


@cocotb.test()
async def a_fetch_is_in_flight_until_its_end(dut):
    """A ring's memory is not given back before, also when the channel has stopped."""
    bus = await started(dut, 15)
    for name in ["h2c[0]", "c2h[0]", "peer[0]"]:
        [channel] = await opened(bus, name)
        bus.completer.fail(channel.ring, Fault.SILENCE)
        begun = bus.clocks.now
        await channel.post([Descriptor(channel.ring, 64)])
        await bus.wait(100)
        assert await channel.get("status") >> 16 == 1, "the fetch of a running channel"
        bus.set_function(link_up=0)
        bus.set_room(0, 0, 0)
        await bus.wait(10)
        bus.set_room()
        bus.set_function(link_up=1)
        await bus.wait(100)
        assert await channel.get("status") == 1 << 16 | 8 << 4 | 2, "the fetch of a stopped one"
        while await channel.get("status") >> 16:
            assert bus.clocks.now - begun < CARD["TIMEOUT_CLOCKS"] * 1.02 + 500
        assert bus.clocks.now - begun > CARD["TIMEOUT_CLOCKS"]
        # A restart gives it up: the channel that runs again does not count it.
        await channel.open()
        begun = bus.clocks.now
        await channel.post([Descriptor(channel.ring, 64)])
        await bus.wait(100)
        await channel.open()
        await bus.wait(20)
        assert bus.clocks.now - begun < CARD["TIMEOUT_CLOCKS"]
        assert await channel.get("status") >> 16 == 0
        bus.completer.fail(None)
        await channel.open()


@cocotb.test()
async def a_reset_in_the_middle_leaves_nothing_behind(dut):
    """A function-level reset: answers to reads from before it arrive and are dropped."""
    bus = await started(dut, 14)
    place, other = bus.allocate(1 << 16, 4096), bus.allocate(1 << 16, 4096)
    data = bus.random.randbytes(30_000)
    for clocks in [90, 160, 333]:
        await route(bus, c2h=STREAM_H2C)
        reader, writer = await opened(bus, "h2c[0]", "c2h[0]")
        await reader.post([Descriptor(place, 60_000)])
        await writer.post([Descriptor(other, 60_000)])
        await bus.wait(clocks)
        await bus.reset()
        assert await reader.get("status") == await writer.get("status") == 0
        assert await reader.get("doorbell") == 0
        # Late answers have no requester.
        await bus.wait(5200)
        sent = len(bus.writes)
        await bus.wait(100)
        assert len(bus.writes) == sent
        bus.store(place, data)
        await route(bus, c2h=STREAM_H2C)
        await reader.open()
        await writer.open()
        await writer.post([Descriptor(other, len(data))])
        await reader.post([Descriptor(place, len(data))])
        await complete(reader, writer)
        assert bus.load(other, len(data)) == data


@cocotb.test()
async def a_source_that_is_restarted_tears_no_write(dut):
    """H2C and a lane feed C2H and a peer channel: a TLP that has begun carries the data available
    then, so each is one piece of the pattern."""
    bus = await started(dut, 14)
    seed, size, inverse = 77, 1 << 16, pow(PATTERN_STEP, -1, 1 << 32)
    source, target = bus.allocate(size, 4096), bus.allocate(1 << 20, 4096)
    bus.store(source, pattern(seed, 0, size))
    bus.sink.pause = 0.3
    reader = Channel(bus, "h2c[0]")
    for feed in (STREAM_H2C, STREAM_LANE):
        for name, way in (("c2h[0]", {"c2h": feed}), ("peer[0]", {"peer": feed})):
            await route(bus, **way, lane=1)
            [writer] = await opened(bus, name)
            await writer.post([Descriptor(target, 1 << 20)])
            before = len(bus.writes)
            for _ in range(12):
                at = 4 * bus.random.randrange(size // 8)
                if feed == STREAM_H2C:
                    await reader.open()
                    await reader.post([Descriptor(source + at, 4096)])
                else:
                    await enable_lane(bus, 1)
                    for place in range(at, at + 4096, 128):
                        data = pattern(seed, place, 128)
                        bus.source.queue.append(memory_write(LANE_WINDOW, data, bar=1))
                await bus.wait(bus.random.randrange(300, 1200))
            await writer.set("control", put(f"{name}.control", restart=1))
            await bus.wait(200)
            written = [
                tlp.payload for tlp in bus.writes[before:] if 0 <= tlp.address - target < 1 << 20
            ]
            for payload in written:
                word = int.from_bytes(payload[:4], "little")
                first = (word - seed) * inverse % (1 << 32)
                assert payload == pattern(seed, 4 * first, len(payload))
            assert len(written) > 50


@cocotb.test()
async def everything_at_once_with_back_pressure(dut):
    bus = await started(dut, int(os.environ.get("SEED", "13")))
    seed = random.Random(13)
    await route(bus, c2h=STREAM_H2C, peer=STREAM_GENERATOR)
    bus.source.pause, bus.sink.pause = 0.2, 0.3
    channels = await opened(bus, "h2c[0]", "c2h[0]", "peer[0]")
    await set_user(bus, "generator_seed", 1234)
    total = 30_000
    data = seed.randbytes(total)
    source, target, peer = (bus.allocate(total, 64) for _ in range(3))
    bus.store(source, data)
    for channel, at in zip(channels, (source, target, peer), strict=True):
        descriptors = []
        for length in pieces(seed, total, 1800):
            descriptors.append(Descriptor(at, length))
            at += length
        await channel.post(descriptors[:60])
    for channel in channels:
        assert (await channel.completed(60000)).error == "none"
    moved = await channels[1].get64("bytes")
    assert bus.load(target, moved) == data[:moved]
    moved = await channels[2].get64("bytes")
    assert bus.load(peer, moved) == pattern(1234, 0, moved)
    assert bus.sink.gaps == 0


@pytest.mark.parametrize("data_bits", WIDTHS)
def test_card(data_bits):
    simulate(__file__, "crosslane_card", {"DATA_BITS": data_bits, **CARD})
