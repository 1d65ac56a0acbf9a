# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_card_ptile behind cocotbext-pcie's P-Tile, below its root complex."""

import itertools
import random

import cocotb
import pytest
from card_checks import check_interrupt, check_lane, check_unanswered
from cocotb.triggers import FallingEdge, RisingEdge, with_timeout
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.core.tlp import CplStatus, TlpType
from cocotbext.pcie.core.utils import PcieId
from cocotbext.pcie.intel.ptile.interface import PTilePcieFrame
from engine_host import (
    STREAM_H2C,
    Descriptor,
    check_identity,
    complete,
    opened,
    pattern,
    route,
    there_and_back,
)
from register_map import OFFSETS
from rooted_card import RootedCard
from shim_ptile_bench import device_model
from simulate import ALL, SEED, simulate
from tlp_stream import memory_read, until
from wire import on_the_wire

CARD = {"TAGS": 32, "STAGING_BYTES": 32768, "LANES": 2, "LANE_FIFO": 8192, "LANE_WINDOW": 65536}
CARD |= {"TABLE_ENTRIES": 0, "TIMEOUT_CLOCKS": 6000}


async def card_of(dut, pause=0.0):
    """Root complex and card, enumerated; both streams pause with this probability."""
    seed = random.Random(SEED)
    root = RootComplex()
    root.max_payload_size, root.max_read_request_size = 1, 2
    device = device_model(dut)
    function = device.functions[0]
    function.configure_bar(0, 65536)
    function.configure_bar(1, CARD["LANES"] * CARD["LANE_WINDOW"])
    root.make_port().connect(device)
    if pause:
        for stream in (device.rx_source, device.tx_sink):
            stream.set_pause_generator(seed.random() < pause for _ in itertools.count())
    await with_timeout(FallingEdge(dut.rst), 10, "us")
    await with_timeout(root.enumerate(), 2000, "us")
    card = RootedCard(root, dut.clk, device)
    await card.find()
    await card.wait(100)
    return card


@cocotb.test()
@cocotb.parametrize(pause=[0.0, 0.3])
async def data_go_from_host_to_card_to_host(dut, pause):
    """Enumeration, registers, rings, status blocks; any alignment, completions in pieces."""
    card = await card_of(dut, pause)
    await check_identity(card)
    await route(card, c2h=STREAM_H2C)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    await there_and_back(card, random.Random(SEED), reader, writer, 12_000)


@cocotb.test()
async def an_interrupt_comes_behind_data_and_status(dut):
    """A message is a write, from the card's own table."""
    await check_interrupt(await card_of(dut))


@cocotb.test()
async def what_is_written_into_a_lane_comes_out(dut):
    """BAR 1, as another card writes it."""
    await check_lane(await card_of(dut), CARD["LANE_WINDOW"])


@cocotb.test()
async def what_nobody_answers_stops_the_channel(dut):
    """A read of an unmapped address: Unsupported Request from the root complex."""
    await check_unanswered(await card_of(dut))


@cocotb.test()
@cocotb.parametrize(at=[0, 1], is_write=[False, True])
async def what_the_block_aborts_harms_no_other(dut, at, is_write):
    """A completion that is bad in its first segment or a later one stops its channel. A write that
    is bad from the first beat on is lost; bad later on it has taken effect, and all stop."""
    card = await card_of(dut)
    await route(card)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    source, target = card.allocate(4096, 4096), card.allocate(8192, 4096)
    drive, begun = card.device.rx_source._drive, []

    async def spoil(beat):
        # The first that has more than one beat.
        for segment in range(card.device.rx_source.seg_count):
            if beat.sop >> segment & 1:
                words = beat.hdr >> 128 * segment & (1 << 128) - 1
                is_long = words >> 126 & 1 and (words >> 96 & 1023) > 16
                kind = words >> 120 & 15
                if is_long and (kind == 0) == is_write and not begun:
                    begun.append(segment)
                    beat.tlp_abort = 1 << segment if at == 0 else 0
                    break
        else:
            if len(begun) == 1:
                begun.append(0)
                beat.tlp_abort = at
        await drive(beat)

    card.device.rx_source._drive = spoil
    if is_write:
        await writer.post([Descriptor(target, 100)])
        await complete(writer)
        await card.lanes.write(0, bytes(128))
        await card.wait(100)
        await reader.post([Descriptor(source, 4096)])
        block = await reader.completed()
        assert begun
        assert (block.completed, block.error) == ((0, "link_down") if at else (1, "none"))
    else:
        await writer.post([Descriptor(target, 8000)])
        await reader.post([Descriptor(source, 4096)])
        block = await reader.completed()
        assert (block.completed, block.error) == (0, "poisoned")
        assert source <= block.error_address < source + 4096
        await complete(writer)
        assert card.load(target, 8000) == pattern(0, 0, 8000)
    for channel in (reader, writer):
        await channel.open()
    await reader.post([Descriptor(source, 4096)])
    await writer.post([Descriptor(target, 100)])
    await complete(reader, writer)


@cocotb.test()
@cocotb.parametrize(kind=[TlpType.IO_READ, TlpType.IO_WRITE, TlpType.MEM_READ])
async def what_is_not_the_cards_is_refused(dut, kind):
    """Requests to I/O space, and a read of the expansion ROM: Unsupported Request."""
    card = await card_of(dut)
    wire = on_the_wire(memory_read(0x1000, 4, 7, requester=0x0008))
    wire.fmt_type = kind
    if kind == TlpType.IO_WRITE:
        wire.data = bytearray(4)
    frame = PTilePcieFrame.from_tlp(wire)
    frame.bar_range = 7 if kind == TlpType.MEM_READ else 6
    answers, send = [], card.device.send

    async def take(tlp):
        answers.append(tlp)

    card.device.send = take
    await card.device.rx_source.send(frame)
    await until(dut, lambda: answers, 200)
    card.device.send = send
    [answer] = answers
    assert (answer.fmt_type, answer.status, answer.tag) == (TlpType.CPL, CplStatus.UR, 7)
    assert answer.requester_id == PcieId.from_int(0x0008)
    await check_identity(card)


@cocotb.test()
async def a_function_level_reset_forgets_all(dut):
    """In the middle of data both ways; afterwards the card works as if new."""
    card = await card_of(dut)
    seed = random.Random(SEED)

    async def lose(tlp):
        tlp.release_fc()

    for _ in range(3):
        await route(card, peer=STREAM_H2C)
        reader, writer = await opened(card, "h2c[0]", "c2h[0]")
        place = card.allocate(16384, 4096)
        await writer.post([Descriptor(place, 8000)])
        await reader.post([Descriptor(place + 8192, 8000)])
        await card.wait(seed.randint(50, 300))
        dut.flr_rcvd_pf.value = 1
        # The block discards what comes for the function until it is told.
        port = card.device.upstream_port
        recv, port.rx_handler = port.rx_handler, lose
        await RisingEdge(dut.clk)
        dut.flr_rcvd_pf.value = 0
        await until(dut, lambda: dut.flr_completed_pf.value, 400)
        await card.wait(200)
        port.rx_handler = recv
        assert await card.read32(OFFSETS["h2c[0].doorbell"]) == 0
        assert await card.read32(OFFSETS["c2h[0].status"]) == 0
        await writer.open()
        await writer.post([Descriptor(place, 500)])
        await complete(writer)
        assert card.load(place, 500) == pattern(0, 0, 500)


@pytest.mark.parametrize("data_bits", [256, 512] if ALL else [256])
def test_card_ptile(data_bits):
    simulate(__file__, "crosslane_card_ptile", {"DATA_BITS": data_bits, **CARD})
