# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two cards behind UltraScale+ hard blocks, below one switch: cocotbext-pcie's root complex, switch
and devices, a bus model independent of the engine.
"""

import os
import random
from pathlib import Path

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, with_timeout
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core import RootComplex, Switch
from cocotbext.pcie.xilinx.us import UltraScalePlusPcieDevice
from cocotbext.pcie.xilinx.us.interface import UsPcieFrame
from engine_host import (
    AWAIT_CREDIT,
    INTERRUPT,
    SOURCE_COMMAND,
    STATUS,
    STREAM_GENERATOR,
    STREAM_H2C,
    STREAM_LANE,
    Channel,
    Descriptor,
    get_user,
    pattern,
    set_user,
    set_vector,
    there_and_back,
)
from register_map import OFFSETS
from register_map import field as put
from simulate import ALL, simulate

TOP = Path(__file__).resolve().parent / "tops" / "two_cards_us.sv"
RC_TLPS = int(os.environ.get("RC_TLPS", "1"))
LANE_WINDOW = 65536
BUSES = {"rq": "s", "rc": "m", "cq": "m", "cc": "s"}
# Signals of the hard block that the shim uses, by their names.
SIGNALS = [
    "pcie_rq_seq_num0",
    "pcie_rq_seq_num_vld0",
    "pcie_rq_seq_num1",
    "pcie_rq_seq_num_vld1",
    "pcie_cq_np_req",
    "cfg_bus_number",
    "cfg_max_payload",
    "cfg_max_read_req",
    "cfg_function_status",
    "cfg_interrupt_msix_enable",
    "cfg_interrupt_msix_mask",
    "cfg_mgmt_addr",
    "cfg_mgmt_function_number",
    "cfg_mgmt_read",
    "cfg_mgmt_write",
    "cfg_mgmt_write_data",
    "cfg_mgmt_byte_enable",
    "cfg_mgmt_debug_access",
    "cfg_mgmt_read_data",
    "cfg_mgmt_read_write_done",
    "cfg_fc_ph",
    "cfg_fc_pd",
    "cfg_fc_nph",
    "cfg_fc_cplh",
    "cfg_fc_cpld",
    "cfg_fc_sel",
    "user_lnk_up",
]


class Names:
    """The ports of one card: those of the test's top with its prefix."""

    def __init__(self, dut, prefix):
        self.dut, self.prefix = dut, prefix

    def __getattr__(self, name):
        """A port."""
        return getattr(self.dut, f"{self.prefix}_{name}")


def hard_block(ports):
    """The model of a hard block on the ports of a card."""
    for name in ["cfg_flr_in_process"]:
        getattr(ports, name).value = 0
    buses = {
        f"{name}_bus": AxiStreamBus.from_prefix(ports.dut, f"{ports.prefix}_{side}_axis_{name}")
        for name, side in BUSES.items()
    }
    device = UltraScalePlusPcieDevice(
        rc_straddle=RC_TLPS >= 2,
        rc_4tlp_straddle=RC_TLPS == 4,
        max_payload_size=1024,
        enable_extended_tag=True,
        pf0_msix_enable=True,
        pf0_msix_table_size=7,
        pf0_msix_table_bir=0,
        pf0_msix_table_offset=0x1000,
        pf0_msix_pba_bir=0,
        pf0_msix_pba_offset=0x1800,
        user_clk=ports.clk,
        user_reset=ports.rst,
        **buses,
        **{name: getattr(ports, name) for name in SIGNALS},
    )
    device.functions[0].configure_bar(0, 65536)
    device.functions[0].configure_bar(1, 8 * LANE_WINDOW)
    return device


class CardBus:
    """A card below the root complex, as a Bus of engine_host."""

    def __init__(self, root, ports, device):
        self.root, self.ports, self.device = root, ports, device
        self.regions = []

    async def find(self):
        """Reads the BARs and sets bus mastering, after enumeration."""
        self.found = self.root.find_device(self.device.functions[0].pcie_id)
        await self.found.enable_device()
        await self.found.set_master()
        self.registers, self.lanes = self.found.bar_window[0], self.found.bar_window[1]
        self.registers_base = self.found.bar_addr[0]
        self.lanes_base = self.found.bar_addr[1]

    async def read32(self, offset):
        """Reads a register."""
        return await self.registers.read_dword(offset)

    async def write32(self, offset, value):
        """Writes a register."""
        await self.registers.write_dword(offset, value)

    async def wait(self, clocks):
        """Waits for some clocks."""
        await ClockCycles(self.ports.clk, clocks)

    def _place(self, address, count):
        for region in self.regions:
            base = region.get_absolute_address(0)
            if base <= address and address + count <= base + region.size:
                return region, address - base
        raise AssertionError(f"{address:#x} is outside host memory")

    def load(self, address, count):
        """Bytes of host memory."""
        region, at = self._place(address, count)
        return bytes(region[at : at + count])

    def store(self, address, data):
        """Puts bytes into host memory."""
        region, at = self._place(address, len(data))
        region[at : at + len(data)] = data

    def allocate(self, count, alignment):
        """Bus address of unused host memory."""
        region = self.root.mem_pool.alloc_region(max(count, 4096))
        self.regions.append(region)
        assert region.get_absolute_address(0) % alignment == 0
        return region.get_absolute_address(0)


async def two_cards(dut):
    """Root complex, switch, and the cards, enumerated."""
    root = RootComplex()
    root.max_payload_size = 1
    root.max_read_request_size = 2
    switch = Switch()
    root.make_port().connect(switch)
    cards = []
    for prefix in "ab":
        ports = Names(dut, prefix)
        device = hard_block(ports)
        switch.make_port().connect(device)
        cards.append(CardBus(root, ports, device))
    await with_timeout(FallingEdge(dut.a_rst), 10, "us")
    await with_timeout(root.enumerate(), 2000, "us")
    for card in cards:
        await card.find()
    return root, cards


@cocotb.test()
async def data_go_from_host_to_card_to_host(dut):
    """Rings, status blocks, interrupts: any alignment, many descriptors in flight, both ways."""
    seed = random.Random(int(os.environ.get("SEED", "1")))
    _, cards = await two_cards(dut)
    card = cards[0]
    assert await card.read32(OFFSETS["global.id"]) == 0x584C4E45
    in_force = put("global.in_force", max_payload=256, max_read_request=512)
    assert await card.read32(OFFSETS["global.in_force"]) == in_force
    value = put("user.interconnect", c2h_source=STREAM_H2C, peer_source=STREAM_GENERATOR)
    await set_user(card, "interconnect", value)
    reader, writer = Channel(card, "h2c[0]"), Channel(card, "c2h[0]")
    await reader.open()
    await writer.open()
    await there_and_back(card, seed, reader, writer, 20_000)


@cocotb.test()
async def a_card_writes_into_the_other(dut):
    """Peer to peer through the switch, with credits that come back, and on to host memory."""
    _, (left, right) = await two_cards(dut)
    lane = 3
    value = put("user.interconnect", c2h_source=STREAM_LANE, peer_source=STREAM_LANE, lane=lane)
    await set_user(right, "interconnect", value)
    await set_user(left, "interconnect", 0)
    await set_user(left, "generator_seed", 4242)
    base = f"lanes[{lane}]"
    register = left.registers_base + OFFSETS["peer[0].credit"]
    await right.write32(OFFSETS[f"{base}.credit_low"], register & 0xFFFFFFFF)
    await right.write32(OFFSETS[f"{base}.credit_high"], register >> 32)
    value = put(f"{base}.control", enable=1, return_credits=1)
    await right.write32(OFFSETS[f"{base}.control"], value)
    sender, receiver = Channel(left, "peer[0]"), Channel(right, "c2h[0]")
    await sender.open()
    await sender.set("credit_window", 4096)
    await sender.set("aperture", 8192)
    await receiver.open()
    total = 30_000
    target = right.allocate(total, 4096)
    await receiver.post([Descriptor(target, total)])
    await sender.post(
        [Descriptor(right.lanes_base + lane * LANE_WINDOW, total, STATUS | AWAIT_CREDIT)]
    )
    assert (await sender.completed()).error == "none"
    assert (await receiver.completed()).error == "none"
    assert right.load(target, total) == pattern(4242, 0, total)
    assert await right.read32(OFFSETS[f"{base}.status"]) == 0


@cocotb.test()
async def messages_go_there_and_back(dut):
    """Ping-pong between the two cards, measured by the hardware timers."""
    _, (left, right) = await two_cards(dut)
    for card, source in [(left, STREAM_GENERATOR), (right, STREAM_LANE)]:
        c2h = STREAM_LANE if card is left else STREAM_GENERATOR
        value = put("user.interconnect", c2h_source=c2h, peer_source=source, lane=0)
        await set_user(card, "interconnect", value)
        await card.write32(OFFSETS["lanes[0].control"], put("lanes[0].control", enable=1))
    # The left card's lane is drained unless a source selects it.
    await set_user(left, "interconnect", 0)
    rounds, size = 10, 128
    for card, other, count in [(right, left, rounds * size), (left, right, size)]:
        channel = Channel(card, "peer[0]", source=SOURCE_COMMAND)
        await channel.open()
        await channel.set("aperture", 4096)
        # A TLP is built once all of its data are available: the echo goes in messages, too.
        await channel.set("payload", size)
        await set_user(card, "command_low", other.lanes_base & 0xFFFFFFFF)
        await set_user(card, "command_high", other.lanes_base >> 32)
        await set_user(card, "command_bytes", count)
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
    channel = Channel(card, "h2c[0]")
    await channel.open()
    place = card.allocate(4096, 4096)
    nowhere = 0x7FFF_0000_0000
    await channel.post([Descriptor(place, 4096), Descriptor(nowhere, 256)])
    block = await channel.completed()
    assert (block.completed, block.error) == (1, "unsupported_request")
    assert block.error_address == nowhere
    await channel.open()
    await channel.post([Descriptor(place, 4096)])
    assert (await channel.completed()).error == "none"


@cocotb.test()
async def a_completion_that_is_taken_back_stops_its_channel(dut):
    """The hard block marks a completion's data as bad at its end: no other channel is affected, and
    the stopped one continues after a restart."""
    _, (card, _) = await two_cards(dut)
    value = put("user.interconnect", c2h_source=STREAM_GENERATOR, peer_source=STREAM_GENERATOR)
    await set_user(card, "interconnect", value)
    reader, writer = Channel(card, "h2c[0]"), Channel(card, "c2h[0]")
    await reader.open()
    await writer.open()
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
    assert (await writer.completed()).error == "none"
    assert card.load(target, 8000) == pattern(0, 0, 8000)
    await reader.open()
    await reader.post([Descriptor(source, 4096)])
    assert (await reader.completed()).error == "none"


CASES = [(64, 1), (128, 1), (256, 2), (512, 4)] if ALL else [(256, 2)]


@pytest.mark.parametrize(("data_bits", "rc_tlps"), CASES)
def test_card_us(data_bits, rc_tlps):
    simulate(
        __file__,
        "two_cards_us",
        {"DATA_BITS": data_bits, "RC_TLPS": rc_tlps},
        top_file=TOP,
        environment={"RC_TLPS": str(rc_tlps)},
    )
