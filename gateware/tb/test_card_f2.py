# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_card_f2 behind a shell of AWS F2."""

import random

import cocotb
from cocotb.triggers import with_timeout
from engine_host import (
    INTERRUPT,
    STATUS,
    STREAM_H2C,
    Channel,
    Descriptor,
    check_identity,
    complete,
    opened,
    pattern,
    route,
    set_vector,
    there_and_back,
)
from register_map import MSIX_TABLE, OFFSETS
from shell_f2_bench import MEMORY_BYTES, Shell
from simulate import SEED, simulate
from tlp_stream import until

CARD = {"TAGS": 32, "STAGING_BYTES": 32768, "TABLE_ENTRIES": 0, "TIMEOUT_CLOCKS": 6000}


async def card_of(dut, which: str, pause: float = 0.0) -> Shell:
    """A card after its reset; all ports of memory pause with this probability."""
    card = Shell(dut, random.Random(f"{SEED} {which}"))
    await card.start(pause)
    return card


@cocotb.test()
@cocotb.parametrize(pause=[0.0, 0.3])
async def data_go_from_host_to_card_to_host(dut, pause):
    """Registers, rings, status blocks; any alignment and length."""
    card = await card_of(dut, "data", pause)
    await check_identity(card)
    await route(card, c2h=STREAM_H2C)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    await there_and_back(card, card.seed, reader, writer, 12_000)
    # Bytes beside what was asked for stay as they are.
    around = card.allocate(4096, 4096)
    for begin, count in [(0, 1), (3, 2), (61, 6), (63, 66), (5, 640), (127, 1), (60, 4)]:
        data, other = card.seed.randbytes(count), card.seed.randbytes(4096)
        card.store(around, other)
        source = card.allocate(count + 64, 64) + card.seed.randrange(64)
        card.store(source, data)
        await reader.post([Descriptor(source, count)])
        await writer.post([Descriptor(around + 1024 + begin, count)])
        await complete(writer)
        at = 1024 + begin
        assert card.load(around, 4096) == other[:at] + data + other[at + count :]


@cocotb.test()
@cocotb.parametrize(pause=[0.0, 0.6])
async def an_interrupt_comes_behind_data_and_status(dut, pause):
    """When the shell is asked for it the memory has all that was written before."""
    card = await card_of(dut, "interrupt", pause)
    # The table is the shim's: what software writes there is not for it.
    await set_vector(card, 2, 0x1234_5000, 0xCAFE)
    channel = Channel(card, "c2h[0]")
    await channel.open(interrupt_enable=1)
    await channel.set("vector", 2)
    for number in range(12):
        place = card.allocate(2048, 64)
        await channel.post([Descriptor(place, 2000, STATUS | INTERRUPT)])
        await until(dut, lambda n=number: len(card.messages) > n, 3000)
        assert channel.block().completed == number + 1
        assert card.load(place, 2000) == pattern(0, 2000 * number, 2000)
    await card.wait(200)
    assert card.messages == [2] * 12


@cocotb.test()
async def an_interrupt_outlasts_a_late_acknowledgement(dut):
    """The second one waits while more writes are confirmed than the shim counts."""
    card = await card_of(dut, "late")
    card.delays = (15_000, 20_000)
    channel = Channel(card, "c2h[0]")
    await channel.open(interrupt_enable=1)
    place = card.allocate(1 << 20, 4096)
    first, long = Descriptor(place, 64, STATUS | INTERRUPT), Descriptor(place, 400_000)
    await channel.post([first])
    await until(dut, lambda: card.messages == [0], 3000)
    await channel.post([first, long])
    await complete(channel)
    assert card.messages == [0]
    await until(dut, lambda: card.messages == [0, 0], 20_000)


@cocotb.test()
async def an_answer_comes_behind_the_writes_before_it(dut):
    """A register that says that a descriptor is complete is not read before its data are there."""
    card = await card_of(dut, "answer", 0.7)
    [channel] = await opened(card, "c2h[0]")
    for number in range(8):
        place = card.allocate(2048, 64)
        await channel.post([Descriptor(place, 2000)])
        while await channel.get("completed") != number + 1:
            pass
        assert card.load(place, 2000) == pattern(0, 2000 * number, 2000)


@cocotb.test()
async def registers_are_answered_while_reads_wait(dut):
    """With as many reads as there are tags before a memory that takes one at a time, slowly."""
    card = await card_of(dut, "waits")
    card.port.take_reads(1, 0.97)
    await route(card)
    [reader] = await opened(card, "h2c[0]")
    place = card.allocate(32768, 4096)
    await reader.post([Descriptor(place, 32768)])
    for _ in range(100):
        await with_timeout(reader.get("completed"), 8, "us")
    card.port.take_reads(8, 0.0)
    await complete(reader)


@cocotb.test()
async def registers_are_those_of_the_engine(dut):
    """A part of a word is written nowhere; nor is what lies behind BAR 0, or in the table."""
    card = await card_of(dut, "registers")
    where = OFFSETS["h2c[0].ring_low"]
    await card.write32(where, 0x1122_3340)
    await card.registers.write(where + 1, b"\xaa\xbb")
    assert await card.read32(where) == 0x1122_3340
    for offset in (0x10000, 0x3FF_FFFC):
        await card.write32(offset + where, 0xFFFF_FFFF)
        assert await card.read32(offset) == 0
    assert await card.read32(where) == 0x1122_3340
    table = [await card.read32(MSIX_TABLE + 4 * word) for word in range(8)]
    assert table == [0, 1 << 31, 0, 0, 16, 1 << 31, 1, 0]
    await card.write32(MSIX_TABLE + 4, 7)
    assert await card.read32(MSIX_TABLE + 4) == 1 << 31


@cocotb.test()
@cocotb.parametrize(
    (("bad", "error"), [(0, "unsupported_request"), (300, "poisoned"), (2047, "poisoned")])
)
async def what_the_shell_refuses_stops_the_channel(dut, bad, error):
    """A read with an error in its first beat or a later one."""
    card = await card_of(dut, "refused", 0.2)
    await route(card)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    place = card.allocate(8192, 4096)
    card.port.refuses = lambda address: address // 64 * 64 == (place + 4096 + bad) // 64 * 64
    await reader.post([Descriptor(place, 4096), Descriptor(place + 4096, 2048)])
    block = await reader.completed()
    assert (block.completed, block.error) == (1, error), block
    card.port.refuses = None
    await writer.post([Descriptor(place, 8000)])
    await complete(writer)
    await reader.open()
    await reader.post([Descriptor(place, 4096)])
    await complete(reader)


@cocotb.test()
async def a_function_level_reset_ends_what_has_begun(dut):
    """Bursts are whole, and the card works afterwards."""
    card = await card_of(dut, "reset", 0.3)
    for _ in range(6):
        await route(card, c2h=STREAM_H2C)
        reader, writer = await opened(card, "h2c[0]", "c2h[0]")
        place = card.allocate(16384, 4096)
        await writer.post([Descriptor(place, 8000)])
        await reader.post([Descriptor(place + 8192, 8000)])
        await card.wait(card.seed.randrange(20, 400))
        await card.reset()
        await check_identity(card)
        await route(card, c2h=STREAM_H2C)
        reader, writer = await opened(card, "h2c[0]", "c2h[0]")
        await there_and_back(card, card.seed, reader, writer, 1500)


@cocotb.test()
async def a_beat_each_clock(dut):
    """Aligned writes: data beats of PCIM without a pause, and whole payloads."""
    card = await card_of(dut, "rate")
    [channel] = await opened(card, "c2h[0]")
    total = 1 << 16
    place = card.allocate(total, 4096)
    before = len(card.port.write_beats)
    await channel.post([Descriptor(place, total)])
    await complete(channel)
    beats = card.port.write_beats[before : before + total // 64]
    clocks = beats[-1] - beats[0] + 1
    dut._log.warning("%d beats in %d clocks", len(beats), clocks)
    assert clocks <= len(beats) * 1.01
    assert place + total <= MEMORY_BYTES


def test_card_f2():
    simulate(__file__, "crosslane_card_f2", CARD)
