# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_network_card_us below cocotbext-pcie's root complex, a bus model independent of the
gateware. A cable joins the card's two links (tops/network_loop_us.sv)."""

import os
import random
from collections import deque

import cocotb
import pytest
from cocotb.triggers import FallingEdge, RisingEdge, with_timeout
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.core.tlp import CplStatus, TlpType
from cocotbext.pcie.core.utils import PcieId
from cocotbext.pcie.xilinx.us.interface import UsPcieFrame
from cocotbext.pcie.xilinx.us.tlp import Tlp_us
from network_bench import CREDITS_BASE, DONE, PAYLOAD_BYTES, PUT_STRIDE, put, request
from network_host import (
    CONTROL,
    COUNTS_HIGH,
    COUNTS_LOW,
    LINK,
    LINK_STATUS,
    LINK_STRIDE,
    STATUS,
    UP,
)
from network_reference import Reference
from rooted_card import RootedCard
from shim_us_bench import device_model
from simulate import ALL, SEED, simulate
from tlp_stream import until

# Of the top.
SIZES = {"links": 2, "put_slots": 4, "credit_slots": 16, "max_write": 128, "channel_datagrams": 8}
SIZES |= {"get_slots": 16, "max_read": 256}
HOST_MEMORY = 3
NOWHERE = 0x7FFF_0000_0000
GEN3 = os.environ.get("GEN3") == "1"


class Node(RootedCard):
    """The card, with the host's memory for messages."""

    async def find(self):
        """As every card, with the apertures."""
        await super().find()
        self.requests, self.puts = self.found.bar_window[2], self.found.bar_window[4]
        self.memory = self.allocate(1 << 16, 4096)
        self.notify = self.allocate(4096, 4096)
        self.counts = self.notify + 2048
        self.tokens, self.stored = 0, dict.fromkeys(range(8), 0)

    async def until(self, register: int, condition, reads: int = 100) -> None:
        """Reads a register until its value is as wanted."""
        for _ in range(reads):
            if condition(await self.read32(register)):
                return
            await self.wait(20)
        raise AssertionError(f"register {register:#x} does not come to it")

    async def up(self) -> None:
        """Gives the counts of puts a place; enables both links, and waits until they are up."""
        await self.write32(COUNTS_LOW, self.counts & 0xFFFF_FFFF)
        await self.write32(COUNTS_HIGH, self.counts >> 32)
        for link in range(2):
            await self.write32(LINK + LINK_STRIDE * link, 1)
        for link in range(2):
            status = LINK + LINK_STRIDE * link + LINK_STATUS
            await self.until(status, lambda value: value & 7 == UP)

    async def ask(self, slot: int, **fields: int) -> int:
        """Gives a request; returns where its notification comes."""
        self.tokens += 1
        notify = self.notify + 8 * (self.tokens % 200)
        self.store(notify, bytes(8))
        await self.requests.write(slot, request(**fields, token=self.tokens, notify=notify))
        return notify

    async def get(self, slot: int, **fields: int) -> int:
        """Asks for a get."""
        return await self.ask(64 * slot, **fields)

    async def credit(self, slot: int, **fields: int) -> int:
        """Gives a credit."""
        return await self.ask(CREDITS_BASE + 64 * slot, **fields)

    async def put(self, channel: int, tag: int, data: bytes) -> None:
        """Stores a message for link 0, when its slots are free."""
        slots = SIZES["put_slots"]
        count = -(-len(data) // PAYLOAD_BYTES)
        for index in range(count):
            number = self.stored[channel]
            await until(self, lambda: number - self.word(self.counts + 4 * channel) < slots)
            piece = data[PAYLOAD_BYTES * index :][:PAYLOAD_BYTES]
            place = (channel * slots + number % slots) * PUT_STRIDE
            await self.puts.write(place, put(tag, index, index == count - 1, piece))
            self.stored[channel] += 1

    def word(self, address: int) -> int:
        """A double word of host memory."""
        return int.from_bytes(self.load(address, 4), "little")

    async def ended(self, notify: int, status: int = DONE) -> int:
        """Waits for a notification with this status; returns its bytes."""
        await until(self, lambda: self.word(notify) >> 16, 6000)
        assert self.word(notify) >> 16 == status
        return self.word(notify + 4)


async def card_of(dut) -> Node:
    """Root complex and card, enumerated."""
    root = RootComplex()
    root.max_payload_size, root.max_read_request_size = 1, 2
    dut.cfg_flr_in_process.value = 0
    device = device_model(dut)
    function = device.functions[0]
    puts = 2 * 8 * SIZES["put_slots"] * PUT_STRIDE
    function.configure_bar(0, 4096, ext=True)
    function.configure_bar(2, 32768, ext=True, prefetch=True)
    function.configure_bar(4, puts, ext=True, prefetch=True)
    root.make_port().connect(device)
    await with_timeout(FallingEdge(dut.rst), 10, "us")
    await with_timeout(root.enumerate(), 2000, "us")
    card = Node(root, dut.clk, device)
    await card.find()
    await card.wait(100)
    return card


async def check_messages(card: Node, seed: random.Random) -> None:
    """A message of puts, and gets in both directions, through host memory."""
    data = seed.randbytes(6 * PAYLOAD_BYTES + 72)
    place = {"link": 1, "channel": 5, "tag": 9}
    credit = await card.credit(3, **place, buffer=card.memory + 1, bytes=len(data) + 100)
    await card.put(5, 9, data)
    assert await card.ended(credit) == len(data)
    assert card.load(card.memory + 1, len(data)) == data
    credits, gets = [], []
    for n, count in enumerate((3000, 1, 700, 2049)):
        source, target = card.memory + 0x8000 + 4096 * n + 5 * n, card.memory + 4096 * n + 3
        card.store(source, seed.randbytes(count))
        place = {"channel": 3, "tag": n}
        notify = await card.credit(n, link=1 - n % 2, **place, buffer=target, bytes=4096)
        credits.append((notify, source, target, count))
        gets.append(await card.get(n, link=n % 2, **place, buffer=source, bytes=count))
    for get, (credit, source, target, count) in zip(gets, credits, strict=True):
        assert await card.ended(get) == await card.ended(credit) == count
        assert card.load(target, count) == card.load(source, count)
    await card.until(STATUS, lambda value: value == 1)


@cocotb.test()
async def messages_go_round_through_host_memory(dut):
    """Registers as the model's, puts and gets by the apertures, notifications."""
    card = await card_of(dut)
    reference = Reference(**SIZES)
    await card.until(STATUS, lambda value: value == 1)
    for at in (*range(0, 0x40, 4), *range(LINK, LINK + 2 * LINK_STRIDE, 4)):
        assert await card.read32(at) == reference.read(at), hex(at)
    reference.close()
    await card.up()
    await check_messages(card, random.Random(SEED))
    counters = [await card.read32(register) for register in (0x20, 0x24, 0x28, 0x2C, 0x38)]
    assert counters == [4, 5, 7, 0, 0]
    # With Bus Master Enable clear a notification waits.
    function = card.device.functions[0]
    function.bus_master_enable = False
    await card.wait(60)
    credit = await card.credit(0, link=1, channel=5, tag=9, buffer=card.memory, bytes=128)
    data = random.Random(3).randbytes(100)
    await card.puts.write((5 * 4 + card.stored[5] % 4) * PUT_STRIDE, put(9, 0, True, data))
    await card.wait(600)
    assert card.word(credit) == 0
    function.bus_master_enable = True
    assert await card.ended(credit) == 100
    assert card.load(card.memory, 100) == data


@cocotb.test()
async def a_wrong_access_is_answered_as_the_engine_does(dut):
    """Completer Abort for more registers than two, Unsupported Request for what is not a read of
    memory or of no aperture; zeros from the apertures of requests and puts."""
    card = await card_of(dut)
    answers, send = deque(), card.device.send

    async def take(tlp):
        if tlp.fmt_type in (TlpType.CPL, TlpType.CPL_DATA):
            answers.append(tlp)
        await send(tlp)

    card.device.send = take
    # Of length, kind, aperture: the status.
    wrong = [
        (16, TlpType.MEM_READ_64, 0, CplStatus.CA),
        (1, TlpType.IO_READ, 0, CplStatus.UR),
        (1, TlpType.IO_WRITE, 0, CplStatus.UR),
        (1, TlpType.FETCH_ADD_64, 2, CplStatus.UR),
        (1, TlpType.MEM_READ_64, 6, CplStatus.UR),
    ]
    for tag, (length, kind, aperture, status) in enumerate(wrong):
        tlp = Tlp_us()
        tlp.fmt_type, tlp.length, tlp.tag = kind, length, tag
        tlp.first_be, tlp.last_be = 0xF, 0xF if length > 1 else 0
        tlp.address, tlp.bar_id, tlp.bar_aperture = 0x1000, aperture, 12
        tlp.requester_id = PcieId.from_int(0x0008)
        if kind in (TlpType.IO_WRITE, TlpType.FETCH_ADD_64):
            tlp.data = bytearray(4)
        answers.clear()
        await card.device.cq_source.send(tlp.pack_us_cq())
        await until(dut, lambda: answers, 400)
        [answer] = answers
        assert (answer.status, answer.tag, answer.fmt_type) == (status, tag, TlpType.CPL)
        assert answer.requester_id == PcieId.from_int(0x0008)
        if not GEN3:
            assert answer.completer_id == card.device.functions[0].pcie_id
    assert await card.requests.read(CREDITS_BASE + 8, 64) == bytes(64)
    assert await card.puts.read(3, 400) == bytes(400)
    await card.up()
    await check_messages(card, random.Random(SEED))


@cocotb.test()
async def what_nobody_answers_ends_its_get(dut):
    """A read of an unmapped address: Unsupported Request from the root complex. Others go on."""
    card = await card_of(dut)
    await card.up()
    get = await card.get(0, link=0, channel=3, tag=1, buffer=NOWHERE, bytes=300)
    assert await card.ended(get, HOST_MEMORY) == 0
    await check_messages(card, random.Random(SEED))


async def begun(card: Node, seed: random.Random) -> int:
    """Messages that are under way: returns where a credit's notification would come."""
    await card.up()
    notify = await card.credit(0, link=1, channel=1, tag=1, buffer=card.memory, bytes=4096)
    await card.get(0, link=0, channel=3, tag=2, buffer=card.memory + 0x8000, bytes=700)
    await card.puts.write(4 * PUT_STRIDE, put(1, 0, False, seed.randbytes(PAYLOAD_BYTES)))
    await card.wait(seed.randrange(200))
    return notify


async def check_begins_anew(card: Node, notify: int, seed: random.Random) -> None:
    """All is as behind power-on, without a notification; and it works again."""
    card.stored = dict.fromkeys(range(8), 0)
    card.store(card.counts, bytes(64))
    await card.until(STATUS, lambda value: value == 1)
    registers = (COUNTS_LOW, COUNTS_HIGH, 0x20, 0x24, 0x28, LINK, LINK + LINK_STATUS)
    values = [await card.read32(register) for register in registers]
    assert values[:-1] == [0] * 6 and values[-1] & 7 == 0
    assert card.word(notify) == 0
    await card.up()
    await check_messages(card, seed)


@cocotb.test()
async def a_function_level_reset_forgets_all(dut):
    """In the middle of messages."""
    card, seed = await card_of(dut), random.Random(SEED)

    async def lose(tlp):
        tlp.release_fc()

    for _ in range(2):
        notify = await begun(card, seed)
        dut.cfg_flr_in_process.value = 1
        # The block discards what comes for the function until it is told.
        port = card.device.upstream_port
        recv, port.rx_handler = port.rx_handler, lose
        await until(dut, lambda: int(dut.cfg_flr_done.value) & 1, 400)
        dut.cfg_flr_in_process.value = 0
        await RisingEdge(dut.clk)
        await card.wait(200)
        port.rx_handler = recv
        # No read of before is answered any more, so their tags are free.
        card.device.active_request = [None] * len(card.device.active_request)
        await check_begins_anew(card, notify, seed)


@cocotb.test()
async def a_host_link_that_is_down_resets_all(dut):
    """In the middle of TLPs of both directions, which stay whole. No notification is written. The
    ends of the links are reset for 64 clocks at least."""
    card, seed = await card_of(dut), random.Random(SEED)
    # The model sets it in each clock.
    card.device.user_lnk_up = None
    for _ in range(6):
        notify = await begun(card, seed)
        # A completion would be lost with the host's link; here it would come for another get.
        await until(dut, lambda at=notify + 8: card.word(at) >> 16, 4000)
        place = {"channel": 6, "tag": 8}
        await card.credit(2, link=1, **place, buffer=card.memory, bytes=4096)

        async def stores(place=place):
            for index in range(4):
                data = seed.randbytes(PAYLOAD_BYTES)
                at = (6 * SIZES["put_slots"] + index) * PUT_STRIDE
                await card.puts.write(at, put(place["tag"], index, False, data))
            # Slots that are not there.
            for _ in range(12):
                await card.requests.write(64 * 24, seed.randbytes(256))

        task = cocotb.start_soon(stores())
        await card.wait(seed.randrange(40, 250))
        dut.user_lnk_up.value = 0
        await until(dut, lambda: int(dut.links_rst.value), 100)
        await card.wait(seed.choice([1, 60, 100]))
        dut.user_lnk_up.value = 1
        for _ in range(60):
            await RisingEdge(dut.clk)
            assert int(dut.links_rst.value)
        await until(dut, lambda: not int(dut.links_rst.value), 20)
        await with_timeout(task, 100, "us")
        await card.wait(100)
        # Puts that come behind the reset are refused: their link is not enabled.
        await card.until(STATUS, lambda value: value == 1)
        assert [await card.read32(register) for register in (COUNTS_LOW, LINK)] == [0, 0]
        await card.write32(CONTROL, 1)
        await check_begins_anew(card, notify, seed)


@cocotb.test()
async def a_write_that_is_taken_back_resets_all(dut):
    """The hard block marks a write's data as bad at its end; a read that comes behind waits."""
    card, seed = await card_of(dut), random.Random(SEED)
    notify = await begun(card, seed)
    await until(dut, lambda: card.word(notify + 8) >> 16, 4000)
    streams = card.device.cq_source
    to_block = streams.queue.put

    class TakenBack(UsPcieFrame):
        """The source asks for the flag with each segment: set with the last only."""

        asked = 0

        @property
        def discontinue(self):
            self.asked += streams.seg_byte_lanes
            return self.asked >= len(self.data)

    tlp = Tlp_us()
    tlp.fmt_type, tlp.first_be, tlp.last_be = TlpType.MEM_WRITE_64, 0xF, 0xF
    data = put(9, 0, True, seed.randbytes(100))
    tlp.set_addr_be_data(card.found.bar_addr[4] + 4 * 5 * PUT_STRIDE, data)
    tlp.bar_id, tlp.bar_aperture = 4, 14

    async def spoil(frame):
        frame.__class__ = TakenBack
        streams.queue.put = to_block
        await to_block(frame)

    streams.queue.put = spoil
    await streams.send(tlp.pack_us_cq())
    assert await card.read32(LINK) == 0
    await check_begins_anew(card, notify, seed)


CASES = [(256, 2, 0, 0), (256, 1, 0, 1), (512, 4, 0, 0), (256, 2, 1, 0), (64, 1, 0, 0)]


@pytest.mark.parametrize(("data_bits", "rc_tlps", "gen3", "long"), CASES if ALL else CASES[:1])
def test_network_card_us(data_bits, rc_tlps, gen3, long):
    parameters = {"DATA_BITS": data_bits, "RC_TLPS": rc_tlps, "GEN3": gen3, "LONG": long}
    simulate(__file__, "network_loop_us", parameters)
