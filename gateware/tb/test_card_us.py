# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two cards behind UltraScale+ hard blocks or Gen3 ones, below one switch: cocotbext-pcie's root
complex, switch and devices, a bus model independent of the engine.
"""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, with_timeout
from cocotbext.pcie.core import RootComplex, Switch
from cocotbext.pcie.xilinx.us.interface import UsPcieFrame
from engine_host import (
    AWAIT_CREDIT,
    INTERRUPT,
    SOURCE_COMMAND,
    STATUS,
    STREAM_H2C,
    STREAM_LANE,
    Channel,
    Descriptor,
    check_identity,
    complete,
    enable_lane,
    get_user,
    opened,
    pattern,
    route,
    set_command,
    set_user,
    set_vector,
    there_and_back,
)
from register_map import OFFSETS
from register_map import field as put
from rooted_card import RootedCard
from shim_us_bench import device_model
from simulate import ALL, SEED, simulate

LANE_WINDOW = 65536


async def two_cards(dut):
    """Root complex, switch, and the cards, enumerated."""
    root = RootComplex()
    root.max_payload_size = 1
    root.max_read_request_size = 2
    switch = Switch()
    root.make_port().connect(switch)
    cards = []
    # cocotb does not number the blocks of a loop.
    blocks = [dut[f"g_cards[{number}]"] for number in range(2)]
    for block in blocks:
        block.cfg_flr_in_process.value = 0
        offsets = {"pf0_msix_table_offset": 0x1000, "pf0_msix_pba_offset": 0x1800}
        bars = {"pf0_msix_table_bir": 0, "pf0_msix_pba_bir": 0}
        device = device_model(block, **offsets, **bars)
        device.functions[0].configure_bar(0, 65536)
        device.functions[0].configure_bar(1, 8 * LANE_WINDOW)
        switch.make_port().connect(device)
        cards.append(RootedCard(root, block.clk, device))
    await with_timeout(FallingEdge(blocks[0].rst), 10, "us")
    await with_timeout(root.enumerate(), 2000, "us")
    for card in cards:
        await card.find()
    return root, cards


@cocotb.test()
async def data_go_from_host_to_card_to_host(dut):
    """Rings, status blocks, interrupts: any alignment, many descriptors in flight, both ways."""
    seed = random.Random(SEED)
    _, cards = await two_cards(dut)
    card = cards[0]
    await check_identity(card)
    await route(card, c2h=STREAM_H2C)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    await there_and_back(card, seed, reader, writer, 20_000)


@cocotb.test()
async def a_card_writes_into_the_other(dut):
    """Peer to peer through the switch, with credits that come back, and on to host memory."""
    _, (left, right) = await two_cards(dut)
    lane = 3
    await route(right, c2h=STREAM_LANE, peer=STREAM_LANE, lane=lane)
    await route(left)
    await set_user(left, "generator_seed", 4242)
    await enable_lane(right, lane, left.registers_base + OFFSETS["peer[0].credit"])
    [sender], [receiver] = await opened(left, "peer[0]"), await opened(right, "c2h[0]")
    await sender.set("credit_window", 4096)
    await sender.set("aperture", 8192)
    total = 30_000
    target = right.allocate(total, 4096)
    await receiver.post([Descriptor(target, total)])
    await sender.post(
        [Descriptor(right.lanes_base + lane * LANE_WINDOW, total, STATUS | AWAIT_CREDIT)]
    )
    await complete(sender, receiver)
    assert right.load(target, total) == pattern(4242, 0, total)
    assert await right.read32(OFFSETS[f"lanes[{lane}].status"]) == 0


@cocotb.test()
async def messages_go_there_and_back(dut):
    """Ping-pong between the two cards, measured by the hardware timers."""
    _, (left, right) = await two_cards(dut)
    # The left card's lane is drained unless a source selects it.
    await route(left, c2h=STREAM_LANE)
    await route(right, peer=STREAM_LANE)
    for card in (left, right):
        await enable_lane(card, 0)
    await route(left)
    rounds, size = 10, 128
    for card, other, count in [(right, left, rounds * size), (left, right, size)]:
        channel = Channel(card, "peer[0]", source=SOURCE_COMMAND)
        await channel.open()
        await channel.set("aperture", 4096)
        # A TLP is built once all of its data are available: the echo goes in messages, too.
        await channel.set("payload", size)
        await set_command(card, other.lanes_base, count)
    await set_user(right, "command", 1)
    await set_user(left, "ping", put("user.ping", start=1, rounds=rounds))
    for _ in range(100):
        await left.wait(100)
        if await get_user(left, "ping_done") == rounds:
            break
    assert await get_user(left, "ping_done") == rounds
    least, most = await get_user(left, "ping_least"), await get_user(left, "ping_most")
    assert 0 < least <= await get_user(left, "ping_sum_low") / rounds <= most
    await right.wait(100)
    assert await get_user(right, "command_done") == 1


@cocotb.test()
async def an_interrupt_arrives_at_the_root_complex(dut):
    _, (card, _) = await two_cards(dut)
    message = card.allocate(4096, 4096)
    function = card.device.functions[0]
    function.msix_cap.msix_enable = True
    await card.wait(50)
    await set_vector(card, 2, message + 64, 0xCAFE)
    channel = Channel(card, "c2h[0]")
    await channel.open(interrupt_enable=1)
    await channel.set("vector", 2)
    place = card.allocate(4096, 4096)
    await channel.post([Descriptor(place, 100, STATUS | INTERRUPT)])
    assert (await channel.completed()).completed == 1
    for _ in range(50):
        await card.wait(20)
        if card.load(message + 64, 4) != bytes(4):
            break
    assert card.load(message + 64, 4) == (0xCAFE).to_bytes(4, "little")
    assert card.load(place, 100) == pattern(0, 0, 100)


@cocotb.test()
async def what_nobody_answers_stops_the_channel(dut):
    """A read of an unmapped address: Unsupported Request from the root complex."""
    _, (card, _) = await two_cards(dut)
    [channel] = await opened(card, "h2c[0]")
    place = card.allocate(4096, 4096)
    nowhere = 0x7FFF_0000_0000
    await channel.post([Descriptor(place, 4096), Descriptor(nowhere, 256)])
    block = await channel.completed()
    assert (block.completed, block.error) == (1, "unsupported_request")
    assert block.error_address == nowhere
    await channel.open()
    await channel.post([Descriptor(place, 4096)])
    await complete(channel)


@cocotb.test()
async def a_completion_that_is_taken_back_stops_its_channel(dut):
    """The hard block marks a completion's data as bad at its end: no other channel is affected, and
    the stopped one continues after a restart."""
    _, (card, _) = await two_cards(dut)
    await route(card)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    source, target = card.allocate(4096, 4096), card.allocate(8192, 4096)
    streams = card.device.rc_source
    to_block, taken_back = streams.queue.put, []

    class TakenBack(UsPcieFrame):
        """The source asks for the flag with each segment: set with the last only."""

        asked = 0

        @property
        def discontinue(self):
            self.asked += streams.seg_byte_lanes
            return self.asked >= len(self.data)

    async def spoil(frame):
        # The first completion with data beyond descriptors.
        if not taken_back and len(frame.data) > 40:
            frame.__class__ = TakenBack
            taken_back.append(frame)
        await to_block(frame)

    streams.queue.put = spoil
    await writer.post([Descriptor(target, 8000)])
    await reader.post([Descriptor(source, 4096)])
    block = await reader.completed()
    assert taken_back
    assert (block.completed, block.error) == (0, "poisoned")
    assert source <= block.error_address < source + 4096
    await complete(writer)
    assert card.load(target, 8000) == pattern(0, 0, 8000)
    await reader.open()
    await reader.post([Descriptor(source, 4096)])
    await complete(reader)


CASES = [(64, 1, 0), (128, 1, 0), (256, 2, 0), (512, 4, 0), (64, 1, 1), (128, 1, 1), (256, 2, 1)]


@pytest.mark.parametrize(("data_bits", "rc_tlps", "gen3"), CASES if ALL else [(256, 2, 0)])
def test_card_us(data_bits, rc_tlps, gen3):
    parameters = {"DATA_BITS": data_bits, "RC_TLPS": rc_tlps, "GEN3": gen3}
    simulate(__file__, "two_cards_us", parameters)
