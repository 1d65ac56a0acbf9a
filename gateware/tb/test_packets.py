# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_engine_axis with PACKETS: tlast and tuser, both ways, in the user circuit's clock."""

import random
from collections import deque

import cocotb
import pytest
from card_bus import CardBus
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from engine_host import STATUS, Channel, Descriptor
from register_map import OFFSETS, fields_of
from simulate import simulate, widths

CARD = {"TAGS": 64, "STAGING_BYTES": 16384, "LANES": 0, "MAX_WRITE": 256, "MAX_READ": 512}
CARD |= {"TABLE_ENTRIES": 0, "RING_BYTES": 4096, "TIMEOUT_CLOCKS": 8000, "PACKETS": 1}
USER_PERIODS_PS = [1700, 9100]
END_OF_PACKET = 16


class User:
    """A user circuit that sends packets back, cut into other beats, with `tuser` plus 1."""

    def __init__(self, dut, period_ps, seed=1):
        self.dut = dut
        self.seed = random.Random(seed)
        self.pause_out, self.pause_in = 0.0, 0.0
        self.bytes = len(dut.m_axis_h2c_tdata) // 8
        self.packets = []  # whole ones: bytes and tuser
        self.waiting = deque()
        self.open = bytearray()
        for name in ("user_rst", "m_axis_h2c_tready", "m_axis_lane_tready", "s_axis_write_tvalid"):
            getattr(dut, name).value = 0
        Clock(dut.user_clk, period_ps, unit="ps").start()
        cocotb.start_soon(self._take())
        cocotb.start_soon(self._give())

    async def _take(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.user_clk)
            if dut.m_axis_h2c_tvalid.value and dut.m_axis_h2c_tready.value:
                keep, last = int(dut.m_axis_h2c_tkeep.value), int(dut.m_axis_h2c_tlast.value)
                assert keep and keep & keep + 1 == 0, "tkeep is empty or has a gap"
                assert last or keep.bit_length() == self.bytes, "a partial beat in a packet"
                data = int(dut.m_axis_h2c_tdata.value).to_bytes(self.bytes, "little")
                self.open += data[: keep.bit_length()]
                if last:
                    self.packets.append((bytes(self.open), int(dut.m_axis_h2c_tuser.value)))
                    self.waiting.append([self.packets[-1][0], self.packets[-1][1] + 1])
                    self.open.clear()
            dut.m_axis_h2c_tready.value = self.seed.random() >= self.pause_out

    async def _give(self):
        dut = self.dut
        is_offered = False
        while True:
            await RisingEdge(dut.user_clk)
            if is_offered and dut.s_axis_write_tready.value:
                is_offered = False
            if is_offered:
                continue
            dut.s_axis_write_tvalid.value = 0
            if not self.waiting or self.seed.random() < self.pause_in:
                continue
            packet = self.waiting[0]
            # Now and then a beat without bytes, which means nothing, tlast or not.
            count = 0
            if self.seed.random() > 0.1:
                count = self.seed.randint(1, min(self.bytes, len(packet[0])))
            piece, packet[0] = packet[0][:count], packet[0][count:]
            is_last = not packet[0]
            dut.s_axis_write_tdata.value = int.from_bytes(piece, "little")
            dut.s_axis_write_tkeep.value = (1 << count) - 1
            dut.s_axis_write_tlast.value = is_last if count else self.seed.randrange(2)
            dut.s_axis_write_tuser.value = packet[1] & 0xFFFF
            dut.s_axis_write_tvalid.value = 1
            is_offered = True
            if is_last:
                self.waiting.popleft()


async def started(dut, period_ps, **control):
    """Host and user circuit, and both channels in packet mode."""
    host = CardBus(dut, 1)
    user = User(dut, period_ps)
    await host.start()
    # Data that the test before has left in the streams come out before the reset.
    while dut.user_rst_o.value:
        await RisingEdge(dut.user_clk)
    user.open.clear()
    user.packets.clear()
    user.waiting.clear()
    reader, writer = Channel(host, "h2c[0]"), Channel(host, "c2h[0]")
    await reader.open(packets=1)
    await writer.open(packets=1, **control)
    return host, user, reader, writer


def record(host, writer, number):
    """Bytes, flags and tuser of a descriptor's completion record."""
    place = writer.ring + number % writer.entries * 32 + 24
    written, word = (int.from_bytes(host.load(place + at, 4), "little") for at in (0, 4))
    return written, word & 0xF, word >> 16


async def received(host, writer, number, clocks=40000):
    """Waits for a record, and returns it."""
    for _ in range(0, clocks, 20):
        if record(host, writer, number)[1]:
            return record(host, writer, number)
        await host.wait(20)
    raise AssertionError(f"no record of descriptor {number}")


async def send(host, reader, lengths, most):
    """Posts packets of these lengths, in descriptors of up to `most` bytes. Returns them."""
    packets = []
    for length in lengths:
        data, user = host.random.randbytes(length), host.random.randrange(0xFFFF)
        packets.append((data, user))
        place = host.allocate(length + 8, 4) + 3
        host.store(place, data)
        at = 0
        while at < length:
            part = min(length - at, host.random.randint(1, most))
            at += part
            ends = (END_OF_PACKET | user << 16) if at == length else 0
            await reader.lay_down(Descriptor(place + at - part, part, STATUS | ends))
            reader.posted += 1
    await reader.set("doorbell", reader.posted)
    return packets


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS, pause=[0.0, 0.4])
async def packets_go_through_the_user_circuit(dut, period_ps, pause):
    """Each one in its own places, with a clock faster and slower."""
    host, user, reader, writer = await started(dut, period_ps)
    user.pause_out = user.pause_in = pause
    host.sink.pause = host.source.pause = pause / 2
    number = 0
    for most in (20, 300, 1200):
        lengths = [host.random.randint(1, most) for _ in range(12)]
        size = host.random.choice([64, 400, 1000])
        count = sum(-(-length // size) for length in lengths)
        if count > 60:
            size, count = 1200, 12
        base = host.allocate(count * size, 64)
        await writer.post([Descriptor(base + n * size, size, 0) for n in range(count)])
        sent = await send(host, reader, lengths, most)
        place = 0
        for data, tuser in sent:
            got = b""
            while len(got) < len(data):
                written, flags, told = await received(host, writer, number)
                assert (flags & 2 != 0) == (got == b"")
                got += host.load(base + place * size, written)
                number, place = number + 1, place + 1
                assert (flags & 4 != 0) == (len(got) == len(data))
            assert got == data
            assert told == (tuser + 1) & 0xFFFF
        assert user.packets[-len(sent) :] == sent
    assert await reader.get("packets") == await writer.get("packets") == 36
    assert await writer.get("completed") == number
    sizes = fields_of("global.sizes", await host.read32(OFFSETS["global.sizes"]))
    assert sizes["packets"] == 1


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS)
async def packets_without_a_place_are_dropped(dut, period_ps):
    """Until descriptors are posted; then packets are whole again."""
    host, user, reader, writer = await started(dut, period_ps, drop_packets=1)
    await send(host, reader, [100, 700, 1], 300)
    while len(user.packets) < 3 or user.waiting:
        await host.wait(50)
    await host.wait(200)
    assert await writer.get("packets_dropped") == 3
    base = host.allocate(2048, 64)
    await writer.post([Descriptor(base, 1024, 0)])
    ((data, _),) = await send(host, reader, [333], 100)
    written, flags, _ = await received(host, writer, 0)
    assert (written, flags) == (333, 7) and host.load(base, 333) == data
    assert await writer.get("packets_truncated") == 0


@pytest.mark.parametrize("data_bits", widths(64, 256))
def test_packets(data_bits):
    simulate(__file__, "crosslane_engine_axis", {"DATA_BITS": data_bits, **CARD})
