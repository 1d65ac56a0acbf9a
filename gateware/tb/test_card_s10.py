# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_card_s10 behind cocotbext-pcie's Stratix 10, below its root complex."""

import itertools
import random

import cocotb
import pytest
from card_checks import check_interrupt, check_lane, check_unanswered
from cocotb.triggers import FallingEdge, RisingEdge, with_timeout
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.core.tlp import CplStatus, TlpType
from cocotbext.pcie.core.utils import PcieId
from cocotbext.pcie.intel.s10.interface import S10PcieFrame
from engine_host import (
    ERRORS,
    STREAM_H2C,
    Descriptor,
    check_identity,
    complete,
    opened,
    pattern,
    route,
    there_and_back,
)
from register_map import OFFSETS, fields_of
from rooted_card import RootedCard
from shim_s10_bench import device_model
from simulate import ALL, SEED, simulate
from tlp_stream import memory_read, until
from wire import on_the_wire

CARD = {"TAGS": 32, "STAGING_BYTES": 32768, "LANES": 2, "LANE_FIFO": 8192, "LANE_WINDOW": 65536}
CARD |= {"TABLE_ENTRIES": 0, "TIMEOUT_CLOCKS": 6000}
READS = (TlpType.MEM_READ, TlpType.MEM_READ_64)
WRITES = (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64)


async def card_of(dut, pause=0.0, **settings):
    """Root complex and card, enumerated; both streams pause with this probability."""
    seed = random.Random(SEED)
    root = RootComplex()
    root.max_payload_size, root.max_read_request_size = 1, 2
    device = device_model(dut, **settings)
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
@cocotb.parametrize(pause=[0.0, 0.3], l_tile=[False, True])
async def data_go_from_host_to_card_to_host(dut, pause, l_tile):
    """Enumeration, registers, rings, status blocks; any alignment, completions in pieces."""
    card = await card_of(dut, pause, l_tile=l_tile)
    await check_identity(card)
    await route(card, c2h=STREAM_H2C)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    await there_and_back(card, random.Random(SEED), reader, writer, 12_000)


@cocotb.test()
async def requests_follow_the_settings(dut):
    """The function's ID, the sizes of payloads and reads as they are set, and the right to be a bus
    master."""
    card = await card_of(dut)
    await route(card)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    place = card.allocate(8192, 4096)
    function, requests, send = card.device.functions[0], [], card.device.send

    async def take(tlp):
        if tlp.fmt_type in READS + WRITES:
            requests.append(tlp)
        await send(tlp)

    card.device.send = take
    for payload, read in [(1, 2), (0, 0), (2, 3)]:
        function.pcie_cap.max_payload_size = payload
        function.pcie_cap.max_read_request_size = read
        await card.wait(60)
        requests.clear()
        await writer.post([Descriptor(place, 4096)])
        await reader.post([Descriptor(place + 4096, 4096)])
        await complete(writer, reader)
        assert all(tlp.requester_id == function.pcie_id for tlp in requests)
        writes = [tlp.length for tlp in requests if tlp.fmt_type in WRITES]
        reads = [tlp.length for tlp in requests if tlp.fmt_type in READS]
        # MAX_WRITE is 512 bytes, MAX_READ 1024.
        assert max(writes) == 32 << payload and max(reads) == 32 << read
    function.bus_master_enable = False
    await card.wait(60)
    await writer.post([Descriptor(place, 100)])
    await card.wait(200)
    status = fields_of("c2h[0].status", await writer.get("status"))
    assert ERRORS[status["error"]] == "not_bus_master"


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
async def a_poisoned_completion_stops_the_channel(dut):
    """The channel whose read it answers, at its address; others go on."""
    card = await card_of(dut)
    await route(card)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    source, target = card.allocate(4096, 4096), card.allocate(8192, 4096)
    take, spoilt = card.device.rx_source.send, []

    async def spoil(frame):
        # The first completion with more data than a descriptor's.
        is_data = frame.data[0] >> 24 == 0x4A
        if is_data and len(frame.data) > 20 and not spoilt:
            spoilt.append(frame)
            frame.data[0] |= 1 << 14
        await take(frame)

    card.device.rx_source.send = spoil
    await writer.post([Descriptor(target, 8000)])
    await reader.post([Descriptor(source, 4096)])
    block = await reader.completed()
    assert (block.completed, block.error) == (0, "poisoned")
    assert source <= block.error_address < source + 4096
    await complete(writer)
    assert card.load(target, 8000) == pattern(0, 0, 8000)
    await reader.open()
    await reader.post([Descriptor(source, 4096)])
    await complete(reader)


@cocotb.test()
@cocotb.parametrize(kind=[TlpType.IO_READ, TlpType.IO_WRITE, TlpType.MEM_READ])
async def what_is_not_the_cards_is_refused(dut, kind):
    """Requests to I/O space, and a read of the expansion ROM: Unsupported Request."""
    card = await card_of(dut)
    wire = on_the_wire(memory_read(0x1000, 4, 7, requester=0x0008))
    wire.fmt_type = kind
    if kind == TlpType.IO_WRITE:
        wire.data = bytearray(4)
    frame = S10PcieFrame.from_tlp(wire)
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
        dut.flr_pf_active.value = 1
        # The block discards what comes for the function until it is told.
        port = card.device.upstream_port
        recv, port.rx_handler = port.rx_handler, lose
        await until(dut, lambda: dut.flr_pf_done.value, 400)
        dut.flr_pf_active.value = 0
        await RisingEdge(dut.clk)
        await card.wait(200)
        port.rx_handler = recv
        assert await card.read32(OFFSETS["h2c[0].doorbell"]) == 0
        assert await card.read32(OFFSETS["c2h[0].status"]) == 0
        await writer.open()
        await writer.post([Descriptor(place, 500)])
        await complete(writer)
        assert card.load(place, 500) == pattern(0, 0, 500)


@pytest.mark.parametrize("data_bits", [256, 512] if ALL else [256])
def test_card_s10(data_bits):
    simulate(__file__, "crosslane_card_s10", {"DATA_BITS": data_bits, **CARD})
