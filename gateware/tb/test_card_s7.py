# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_card_s7: a whole card behind the 7-series block, whose TLPs cocotbext-pcie packs and
unpacks.
"""

import cocotb
import pytest
from card_bus import MESSAGE_ADDRESS, CardBus
from cocotb.triggers import ClockCycles
from completer import Fault
from engine_host import (
    INTERRUPT,
    STATUS,
    STREAM_H2C,
    STREAM_LANE,
    Channel,
    Descriptor,
    check_identity,
    complete,
    enable_lane,
    opened,
    pattern,
    route,
    set_vector,
    there_and_back,
)
from register_map import OFFSETS
from shim_s7_bench import HardBlock, off_the_wire
from simulate import simulate
from tlp_stream import COMPLETION_DATA, Pulses, Tlp, memory_write
from wire import on_the_wire

CARD = {"TAGS": 32, "STAGING_BYTES": 16384, "LANES": 2, "LANE_FIFO": 4096, "LANE_WINDOW": 65536}
CARD |= {"TABLE_ENTRIES": 0, "MAX_WRITE": 256, "MAX_READ": 512, "TIMEOUT_CLOCKS": 4000}
# By the error that the channel reports.
FAULTS = {
    "unsupported_request": Fault.UNSUPPORTED,
    "completer_abort": Fault.ABORT,
    "poisoned": Fault.POISON,
    "completion_timeout": Fault.SILENCE,
}
# Bus addresses of the BARs.
BARS = {0: 0xE000_0000, 1: 0xE800_0000}


class ToTheCard:
    """Sends the host's TLPs: takes the place of a queue."""

    def __init__(self, block):
        self.block = block
        self.queue = self

    def append(self, tlp: Tlp):
        """Sends a TLP; a request to a BAR gets its bus address."""
        bars = 0
        if tlp.is_request:
            bars = 1 << tlp.bar
            tlp.header["address"] += BARS[tlp.bar]
        self.block.to_engine.append((on_the_wire(tlp), bars, 0))

    def __len__(self):
        return len(self.block.to_engine)


class Host(CardBus):
    """A host on the hard block's streams."""

    async def start(self):
        """Clock, reset, streams."""
        dut = self.dut
        self.block = HardBlock(dut, taken=lambda packet: self._take(off_the_wire(packet)))
        self.clocks = self.block.clocks
        self.source = ToTheCard(self.block)
        self.set_function()
        await self.block.begin(has_engine=False)
        self.timeouts = Pulses(dut, "cfg_err_cpl_timeout")
        self.strays = Pulses(dut, "cfg_err_cpl_unexpect")
        cocotb.start_soon(self._answer())
        await ClockCycles(dut.clk, 80)

    def show_function(self):
        """Drives the hard block's ports."""
        f = {"relaxed_ordering": 0, **self.function}
        dut = self.dut
        dut.cfg_bus_number.value = f["routing_id"] >> 8
        dut.cfg_device_number.value = f["routing_id"] >> 3 & 31
        dut.cfg_function_number.value = f["routing_id"] & 7
        dut.cfg_command.value = f["bus_master"] << 2
        dut.cfg_dcommand.value = (
            f["max_read_request"] << 12
            | f["extended_tags"] << 8
            | f["max_payload"] << 5
            | f["relaxed_ordering"] << 4
        )
        dut.cfg_interrupt_msixenable.value = f["msix_enabled"]
        dut.user_lnk_up.value = f["link_up"]

    async def reset(self):
        """Function-level reset, in the middle of any activity."""
        self.dut.cfg_received_func_lvl_rst.value = 1
        await ClockCycles(self.dut.clk, 1)
        self.dut.cfg_received_func_lvl_rst.value = 0
        # Earlier requests are not answered any more.
        self.completer.answers.clear()
        self.block.to_engine.clear()
        await ClockCycles(self.dut.clk, 200)
        self.completer.answers.clear()


async def started(dut, seed=1):
    """A host with its card."""
    host = Host(dut, seed)
    host.function["link_up"] = 1
    await host.start()
    host.set_function()
    await host.wait(5)
    return host


@cocotb.test()
@cocotb.parametrize(pause=[0.0, 0.3])
async def data_go_from_host_to_card_to_host(dut, pause):
    """Registers, rings, status blocks; any alignment, addresses below and above 4 GiB."""
    host = await started(dut, 3)
    host.block.pause = pause
    await check_identity(host)
    await route(host, c2h=STREAM_H2C)
    reader, writer = await opened(host, "h2c[0]", "c2h[0]")
    await there_and_back(host, host.random, reader, writer, 12_000)
    assert (host.timeouts.count, host.strays.count) == (0, 0)


@cocotb.test()
async def an_interrupt_comes_behind_data_and_status(dut):
    """A message is a write, from the card's own table; its address is below 4 GiB."""
    host = await started(dut)
    await set_vector(host, 2, MESSAGE_ADDRESS, 0xCAFE)
    channel = Channel(host, "c2h[0]")
    await channel.open(interrupt_enable=1)
    await channel.set("vector", 2)
    place = host.allocate(4096, 4096)
    await channel.post([Descriptor(place, 100, STATUS | INTERRUPT)])
    assert (await channel.completed()).completed == 1
    await host.wait(100)
    assert host.messages == [0xCAFE]
    assert host.load(place, 100) == pattern(0, 0, 100)
    addresses = [tlp.address for tlp in host.writes]
    assert addresses == [place, channel.status_block, MESSAGE_ADDRESS]


@cocotb.test()
@cocotb.parametrize(how=list(FAULTS))
async def a_fault_stops_one_channel(dut, how):
    """The other channel continues, and so does the stopped one after a restart."""
    host = await started(dut)
    await route(host)
    reader, writer = await opened(host, "h2c[0]", "c2h[0]")
    place = host.allocate(8192, 4096)
    bad = place + 4096
    host.completer.fail(range(bad, bad + 4096), FAULTS[how])
    await reader.post([Descriptor(place, 4096), Descriptor(bad, 64)])
    block = await reader.completed()
    assert (block.completed, block.error) == (1, how)
    assert block.error_address == bad
    assert host.timeouts.count == (how == "completion_timeout")
    target = host.allocate(4096, 4096)
    await writer.post([Descriptor(target, 3000)])
    await complete(writer)
    assert host.load(target, 3000) == pattern(0, 0, 3000)
    host.completer.fail(None)
    await reader.open()
    await reader.post([Descriptor(bad, 4096)])
    await complete(reader)


@cocotb.test()
async def what_is_written_into_a_lane_comes_out(dut):
    """Writes to BAR 1, as another card sends them, to host memory."""
    host = await started(dut)
    await route(host, c2h=STREAM_LANE, lane=1)
    await enable_lane(host, 1)
    [writer] = await opened(host, "c2h[0]")
    data = host.random.randbytes(4000)
    for at in range(0, len(data), 200):
        piece = data[at : at + 200]
        host.source.append(memory_write(CARD["LANE_WINDOW"] + at, piece, requester=2, bar=1))
    target = host.allocate(4096, 4096)
    await writer.post([Descriptor(target, len(data))])
    await complete(writer)
    assert host.load(target, len(data)) == data


@cocotb.test()
async def a_stray_completion_is_told_to_the_hard_block(dut):
    host = await started(dut)
    header = {"kind": COMPLETION_DATA, "requester": 0x0100, "tag": 7, "length_dw": 1}
    host.source.append(Tlp({**header, "byte_count": 4}, bytes(4)))
    await host.wait(100)
    assert host.strays.count == 1


@cocotb.test()
async def the_link_goes_down_and_comes_back(dut):
    host = await started(dut)
    await route(host)
    [reader] = await opened(host, "h2c[0]")
    place = host.allocate(4096, 4096)
    host.completer.fault = lambda *_: (Fault.SILENCE, 0)
    await reader.post([Descriptor(place, 4096)])
    await host.wait(300)
    host.set_function(link_up=0)
    await host.wait(20)
    host.set_function(link_up=1)
    block = await reader.completed()
    assert (block.completed, block.error) == (0, "link_down")


@cocotb.test()
async def a_function_level_reset_forgets_all(dut):
    """In the middle of data both ways; afterwards the card works as if new."""
    host = await started(dut, 5)
    for _ in range(3):
        await route(host, peer=STREAM_H2C)
        reader, writer = await opened(host, "h2c[0]", "c2h[0]")
        place = host.allocate(16384, 4096)
        await writer.post([Descriptor(place, 8000)])
        await reader.post([Descriptor(place + 8192, 8000)])
        await host.wait(host.random.randint(100, 400))
        await host.reset()
        assert await host.read32(OFFSETS["h2c[0].doorbell"]) == 0
        assert await host.read32(OFFSETS["c2h[0].status"]) == 0
        await writer.open()
        await writer.post([Descriptor(place, 500)])
        await complete(writer)
        assert host.load(place, 500) == pattern(0, 0, 500)


@pytest.mark.parametrize("data_bits", [64, 128])
def test_card_s7(data_bits):
    simulate(__file__, "crosslane_card_s7", {"DATA_BITS": data_bits, **CARD})
