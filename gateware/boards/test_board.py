# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tops of boards: a host around the vendor's core finds the card and moves data through it."""

import os

import boards
import cocotb
import pytest
from board_hosts import family, host
from board_model import BUILD_ID, CLEARED_BITS, simulate_board
from card_bus import MESSAGE_ADDRESS
from config_space import BAR0, CAPABILITIES, COMMAND, EXTENDED_CAPABILITIES, SERIAL_NUMBER
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
from register_map import OFFSETS
from simulate import ALL

# One of each family; the others differ in width of link, pins and part.
NAMES = boards.NAMES if ALL else ["kc705", "s10dx", "u50", "vc709"]
MEMORY_BASE, MEMORY_BYTES = 0x1_0000_0000, 1 << 20
EXPRESS, MSIX = 0x10, 0x11
# The BAR that shows board memory.
APERTURE = 2


def capabilities(config) -> dict[int, int]:
    """Places of the capabilities, as software finds them."""
    found, at = {}, config.read(CAPABILITIES, 1)[0]
    while at:
        found[config.read(at, 1)[0]] = at
        at = config.read(at + 1, 1)[0]
    return found


def serial_number(config) -> int | None:
    """The serial number, as software finds it among the extended capabilities."""
    at = EXTENDED_CAPABILITIES
    while at:
        header = int.from_bytes(config.read(at, 4), "little")
        if header & 0xFFFF == SERIAL_NUMBER:
            return int.from_bytes(config.read(at + 4, 8), "little")
        at = header >> 20
    return None


async def started(dut):
    """A host whose firmware has found the card: BARs placed, bus mastering on."""
    machine = host(dut)
    await machine.start()
    machine.give_memory(MEMORY_BASE, MEMORY_BYTES)
    free = {4: 0xE000_0000, 8: 0x40_0000_0000}
    for number, count in machine.bars.items():
        place = BAR0 + 4 * number
        width = 8 if number in machine.board.core.wide_bars else 4
        machine.config.write(place, b"\xff" * width)
        decoded = int.from_bytes(machine.config.read(place, width), "little") & ~15
        size = (1 << 8 * width) - decoded
        assert size == count, f"BAR{number} has {size} B"
        free[width] = -(-free[width] // size) * size
        machine.config.write(place, free[width].to_bytes(width, "little"))
        free[width] += size
    machine.config.write(COMMAND, b"\x06\x00")
    await machine.wait(50)
    return machine


@cocotb.test()
async def software_finds_the_card(dut):
    """By its configuration space, which shows the build's identity; the engine has what it says."""
    machine = await started(dut)
    core, config = machine.board.core, machine.config
    found = capabilities(config)
    assert {EXPRESS, MSIX} <= set(found)
    assert config.word(found[MSIX] + 2) + 1 == core.msix.vectors
    assert serial_number(config) == BUILD_ID
    await check_identity(machine)
    counts = await machine.read32(OFFSETS["global.counts"])
    lanes, vectors = counts >> 16 & 31, counts >> 24 & 31
    assert vectors == core.msix.vectors
    assert lanes * await machine.read32(OFFSETS["global.lane_window"]) == core.bars[1]
    assert await machine.read32(OFFSETS["global.max_write"]) == core.max_payload_bytes
    picoseconds = await machine.read32(OFFSETS["global.clock"])
    assert picoseconds * core.clock_mhz == 1_000_000


@cocotb.test()
async def data_go_there_and_back(dut):
    machine = await started(dut)
    await route(machine, c2h=STREAM_H2C)
    reader, writer = await opened(machine, "h2c[0]", "c2h[0]")
    await there_and_back(machine, machine.random, reader, writer, 12_000)


@cocotb.test()
async def an_interrupt_comes_and_the_lights_are_on(dut):
    """Bus mastering off: neither data nor light."""
    machine = await started(dut)
    await machine.set_vectors(4)
    await set_vector(machine, 2, MESSAGE_ADDRESS, 0xCAFE)
    channel = Channel(machine, "c2h[0]")
    await channel.open(interrupt_enable=1)
    await channel.set("vector", 2)
    place = machine.allocate(4096, 4096)
    await channel.post([Descriptor(place, 100, STATUS | INTERRUPT)])
    assert (await channel.completed()).completed == 1
    await machine.wait(100)
    assert machine.messages == [0xCAFE]
    assert machine.load(place, 100) == pattern(0, 0, 100)
    if hasattr(dut, "led"):
        assert int(dut.led.value) & 3 == 3
        machine.config.write(COMMAND, b"\x02\x00")
        await machine.wait(100)
        assert int(dut.led.value) & 3 == 1


@cocotb.test()
async def a_reset_forgets_all(dut):
    """In the middle of data both ways; afterwards the card works as if new."""
    machine = await started(dut)
    for _ in range(2):
        await route(machine, peer=STREAM_H2C)
        reader, writer = await opened(machine, "h2c[0]", "c2h[0]")
        place = machine.allocate(16384, 4096)
        await writer.post([Descriptor(place, 8000)])
        await reader.post([Descriptor(place + 8192, 8000)])
        await machine.wait(machine.random.randint(100, 400))
        kept = machine.config.read(BAR0, 24)
        await machine.reset()
        machine.config.write(BAR0, kept)
        machine.config.write(COMMAND, b"\x06\x00")
        assert await machine.read32(OFFSETS["h2c[0].doorbell"]) == 0
        await writer.open()
        await writer.post([Descriptor(place, 500)])
        assert (await writer.completed()).completed == 1
        assert machine.load(place, 500) == pattern(0, 0, 500)


@cocotb.test(skip=os.environ.get("BOARD") != "u250")
async def the_memory_is_clear_at_first(dut):
    """The first transfer waits until it is: one with ECC has no valid check bits before. This is
    the first of the tests that write there, since it keeps its data over their resets."""
    machine = await started(dut)
    writer = Channel(machine, "c2h[0]")
    await writer.open(card_memory=1)
    target = machine.allocate(4096, 4096)
    machine.store(target, b"\xff" * 4096)
    for card in (0, (1 << CLEARED_BITS) - 4096):
        await writer.post([Descriptor(target, 4096, card=card)])
        await complete(writer)
        assert machine.load(target, 4096) == bytes(4096)


def lacks(parameter: str) -> bool:
    """Whether the board is built without this."""
    return "BOARD" in os.environ and not boards.parameters(os.environ["BOARD"]).get(parameter)


@cocotb.test(skip=lacks("WINDOW"))
async def the_aperture_shows_the_memory(dut):
    """At both of its ends, while the engine uses the memory, too."""
    machine = await started(dut)
    seed = machine.random
    reader, writer = Channel(machine, "h2c[0]"), Channel(machine, "c2h[0]")
    await reader.open(card_memory=1)
    await writer.open(card_memory=1)
    scratch = machine.allocate(32_768, 4096)
    end = machine.bars[APERTURE]
    for place in (68, end - 1400):
        data = bytearray(seed.randbytes(1200))
        machine.store(scratch, data)
        await reader.post([Descriptor(scratch, len(data), card=place)])
        await complete(reader)
        assert await machine.read(APERTURE, place, 64) == data[:64]
        # Behind this the engine reads and writes elsewhere in the memory.
        await reader.post([Descriptor(scratch, 8000, card=1 << 20)])
        await writer.post([Descriptor(scratch + 8192, 8000, card=1 << 21)])
        for _ in range(12):
            at, count = seed.randrange(1000), seed.randint(1, 200)
            data[at : at + count] = stored = seed.randbytes(count)
            await machine.write(APERTURE, place + at, stored)
            assert await machine.read(APERTURE, place + at, 8) == data[at : at + 8]
        await complete(reader)
        await complete(writer)
        await writer.post([Descriptor(scratch + 16_384, len(data), card=place)])
        await complete(writer)
        assert machine.load(scratch + 16_384, len(data)) == data


@cocotb.test(skip=lacks("MEMORY"))
async def the_memory_keeps_its_data_over_resets(dut):
    """Resets amidst transfers with it; what was there before is there afterwards."""
    machine = await started(dut)
    seed, count = machine.random, 6000
    # At both ends of the memory.
    bits = boards.parameters(machine.board.name)["MEMORY_BITS"]
    places = [100, (1 << bits) - 9000]
    contents = [seed.randbytes(count) for _ in places]
    reader, writer = Channel(machine, "h2c[0]"), Channel(machine, "c2h[0]")
    scratch = machine.allocate(16384, 4096)
    for card, data in zip(places, contents, strict=True):
        await reader.open(card_memory=1)
        machine.store(scratch, data)
        await reader.post([Descriptor(scratch, count, card=card)])
        await complete(reader)
    for _ in range(6):
        await reader.open(card_memory=1)
        await writer.open(card_memory=1)
        await reader.post([Descriptor(scratch, 8000, card=1 << 20)])
        await writer.post([Descriptor(scratch + 8192, 8000, card=places[0])])
        if APERTURE in machine.bars:
            await machine.write(APERTURE, (1 << 21) + seed.randrange(64), seed.randbytes(900))
        await machine.wait(seed.randint(60, 260))
        kept = machine.config.read(BAR0, 24)
        await machine.reset()
        machine.config.write(BAR0, kept)
        machine.config.write(COMMAND, b"\x06\x00")
        for card, data in zip(places, contents, strict=True):
            await writer.open(card_memory=1)
            target = machine.allocate(count, 4096)
            await writer.post([Descriptor(target, count, card=card)])
            await complete(writer)
            assert machine.load(target, count) == data


@cocotb.test(skip="BOARD" in os.environ and family() != "s7")
async def it_agrees_to_be_turned_off(dut):
    machine = await started(dut)
    machine.dut.cfg_to_turnoff.value = 1
    await machine.wait(3)
    assert int(machine.dut.cfg_turnoff_ok.value) == 1


@pytest.mark.parametrize("board", NAMES)
def test_board(board):
    simulate_board(__file__, board)
