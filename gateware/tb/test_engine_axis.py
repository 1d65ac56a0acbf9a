# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_engine_axis: AXI-Streams in the user circuit's clock."""

import random
from collections import deque

import cocotb
import pytest
from card_bus import CardBus
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from engine_host import Descriptor, complete, enable_lane, opened, there_and_back
from simulate import simulate, widths
from tlp_stream import memory_write

CARD = {"TAGS": 64, "STAGING_BYTES": 16384, "LANE_FIFO": 4096, "MAX_WRITE": 256, "MAX_READ": 512}
CARD |= {"TABLE_ENTRIES": 0, "RING_BYTES": 4096, "TIMEOUT_CLOCKS": 8000}
ENGINE_PERIOD_PS = 4000
# Faster, nearly the same, slower.
USER_PERIODS_PS = [1700, 3990, 9100]


class User:
    """A user circuit that sends its input back, with the bytes cut anew."""

    def __init__(self, dut, period_ps, seed=1):
        self.dut = dut
        self.seed = random.Random(seed)
        self.pause_out, self.pause_in = 0.0, 0.0  # of its input, of its output
        self.is_full = False  # sends full beats as long as it has the bytes
        self.bytes = len(dut.m_axis_lane_tdata) // 8
        self.taken = {"h2c": bytearray(), "lane": bytearray()}
        self.waiting = deque()
        self.resets = 0
        for name in ["user_rst", "m_axis_h2c_tready", "m_axis_lane_tready", "s_axis_write_tvalid"]:
            getattr(dut, name).value = 0
        Clock(dut.user_clk, period_ps, unit="ps").start()
        cocotb.start_soon(self._take("h2c"))
        cocotb.start_soon(self._take("lane"))
        cocotb.start_soon(self._give())
        cocotb.start_soon(self._count_resets())

    async def _count_resets(self):
        was = 1
        while True:
            await RisingEdge(self.dut.user_clk)
            now = int(self.dut.user_rst_o.value)
            if now:
                self.waiting.clear()
            self.resets += now and not was
            was = now

    async def _take(self, name):
        signals = {
            part: getattr(self.dut, f"m_axis_{name}_t{part}")
            for part in ["data", "keep", "valid", "ready"]
        }
        offered = None
        while True:
            await RisingEdge(self.dut.user_clk)
            if signals["valid"].value:
                beat = int(signals["data"].value), int(signals["keep"].value)
                assert offered in (None, beat), "an offered beat changed"
                offered = beat
                if signals["ready"].value:
                    data, keep = beat
                    assert keep and keep & keep + 1 == 0, "tkeep is empty or has a gap"
                    piece = data.to_bytes(self.bytes, "little")[: keep.bit_length()]
                    self.taken[name] += piece
                    self.waiting.extend(piece)
                    offered = None
            else:
                # Only a reset withdraws an offered beat.
                assert offered is None or self.dut.user_rst_o.value
                offered = None
            signals["ready"].value = self.seed.random() >= self.pause_out

    async def _give(self):
        dut = self.dut
        is_offered = False
        while True:
            await RisingEdge(dut.user_clk)
            if is_offered and (dut.s_axis_write_tready.value or dut.user_rst_o.value):
                is_offered = False
            if is_offered:
                continue
            dut.s_axis_write_tvalid.value = 0
            if not self.waiting or self.seed.random() < self.pause_in:
                continue
            if self.is_full and len(self.waiting) < self.bytes:
                continue
            most = min(self.bytes, len(self.waiting))
            count = most if self.is_full else self.seed.choice([most, self.seed.randint(1, most)])
            piece = bytes(self.waiting.popleft() for _ in range(count))
            dut.s_axis_write_tdata.value = int.from_bytes(piece, "little")
            dut.s_axis_write_tkeep.value = (1 << count) - 1
            dut.s_axis_write_tvalid.value = 1
            is_offered = True

    async def reset(self, clocks=1):
        """Resets the user's side."""
        self.dut.user_rst.value = 1
        await ClockCycles(self.dut.user_clk, clocks)
        self.dut.user_rst.value = 0


async def started(dut, period_ps, seed=1):
    """Host and user circuit, and the channels of the engine, open."""
    host = CardBus(dut, seed)
    user = User(dut, period_ps, seed)
    await host.start()
    # Data that the test before has left in the streams come out before the reset.
    while dut.user_rst_o.value:
        await RisingEdge(dut.user_clk)
    for taken in user.taken.values():
        taken.clear()
    reader, writer = await opened(host, "h2c[0]", "c2h[0]")
    return host, user, reader, writer


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS, pause=[0.0, 0.4])
async def data_go_through_the_user_circuit(dut, period_ps, pause):
    """Host to card to host, with any cuts and pauses, with a clock faster and slower."""
    host, user, reader, writer = await started(dut, period_ps)
    user.pause_out, user.pause_in = pause, pause
    host.sink.pause = host.source.pause = pause / 2
    data = await there_and_back(host, host.random, reader, writer, 8000)
    user.pause_out, user.pause_in = 0.7, 0.0
    data += await there_and_back(host, host.random, reader, writer, 3000)
    assert user.taken["h2c"] == data


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS)
async def a_lane_comes_out_as_a_stream(dut, period_ps):
    """Writes of another card into BAR 1 reach host memory through the user circuit."""
    host, user, _, writer = await started(dut, period_ps)
    await enable_lane(host, 0)
    user.pause_out = user.pause_in = 0.3
    data = host.random.randbytes(6000)
    for at in range(0, len(data), 240):
        host.source.queue.append(memory_write(at, data[at : at + 240], requester=2, bar=1))
    target = host.allocate(8192, 4096)
    await writer.post([Descriptor(target, len(data))])
    await complete(writer)
    assert user.taken["lane"] == data
    assert host.load(target, len(data)) == data


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS)
async def a_beat_each_clock_of_the_slower_side(dut, period_ps):
    """Aligned data both ways at once: 99 % of the slower side's capacity."""
    host, user, reader, writer = await started(dut, period_ps)
    user.is_full = True
    host.completer.in_order(20, 256)
    total = 2400 * user.bytes
    source, target = host.allocate(total, 4096), host.allocate(total, 4096)
    host.store(source, host.random.randbytes(total))
    await writer.post([Descriptor(target, total)])
    await reader.post([Descriptor(source, total)])
    await complete(writer)
    writes = [tlp for tlp in host.writes if target <= tlp.address < target + total]
    begun = writes[10].last_clock
    clocks = writes[-1].last_clock - begun
    beats = sum(len(tlp.payload) for tlp in writes[11:]) / user.bytes
    # The engine also sends requests, a beat each.
    requests = sum(1 for tlp in host.reads if tlp.first_clock > begun)
    least = max(beats + requests, beats * period_ps / ENGINE_PERIOD_PS)
    print(f"RATE {user.bytes * 8} {period_ps} {clocks} {least:.0f}")
    a_tlp = 256 / user.bytes * max(period_ps / ENGINE_PERIOD_PS, 1)
    assert least - 2 * a_tlp <= clocks
    assert clocks * 99 <= (least + a_tlp) * 100


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS)
async def a_reset_of_the_user_side_loses_what_is_between(dut, period_ps):
    """The engine keeps running: the data after the reset are the rest of the stream."""
    host, user, reader, writer = await started(dut, period_ps)
    await user.reset()
    await host.wait(100)
    await there_and_back(host, host.random, reader, writer, 1000)
    user.taken["h2c"].clear()
    total = 8000
    data = host.random.randbytes(total)
    source, target = host.allocate(total, 4096), host.allocate(total, 4096)
    host.store(source, data)
    user.pause_out = 0.5
    await writer.post([Descriptor(target, total)])
    await reader.post([Descriptor(source, total)])
    while len(user.taken["h2c"]) < 2000:
        await RisingEdge(dut.user_clk)
    resets, before = user.resets, len(user.taken["h2c"])
    await user.reset(3)
    await complete(reader)
    seen = -1
    while seen != len(user.taken["h2c"]):
        seen = len(user.taken["h2c"])
        await host.wait(300)
    got = bytes(user.taken["h2c"])
    assert user.resets == resets + 1
    # Some of the first beats may have been taken in the clocks of the reset itself.
    lost = total - len(got)
    assert 0 < lost <= user.bytes * 24
    seams = [at for at in range(before, before + 200) if got == data[:at] + data[at + lost :]]
    assert seams, "the lost bytes are not one piece at the reset"
    # The writer has the data it was given, and waits for the bytes that were lost.
    user.waiting.extend(bytes(total))
    await complete(writer)
    loaded = host.load(target, total)
    same = next((at for at in range(total) if loaded[at] != data[at]), total)
    assert same >= before - user.bytes * 24 - 4096


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS)
async def a_reset_of_the_user_side_repeats_nothing(dut, period_ps):
    """A writer that waits for data gets what is sent after the reset, and no old words."""
    host, user, _, writer = await started(dut, period_ps)
    for _ in range(8):
        parts = [host.random.randbytes(host.random.randint(1, 9) * user.bytes) for _ in range(2)]
        total = sum(map(len, parts))
        target = host.allocate(total, 4096)
        await writer.post([Descriptor(target, total)])
        user.waiting.extend(parts[0])
        await host.wait(200)
        await user.reset()
        await host.wait(200)
        user.waiting.extend(parts[1])
        await complete(writer)
        assert host.load(target, total) == b"".join(parts)


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS)
async def a_function_level_reset_is_one_of_the_streams(dut, period_ps):
    """In the middle of all activity; no earlier data come out afterwards."""
    host, user, reader, writer = await started(dut, period_ps)
    for _ in range(4):
        user.pause_out = user.pause_in = 0.6
        place = host.allocate(16384, 4096)
        data = host.random.randbytes(8000)
        host.store(place + 8192, data)
        user.taken["h2c"].clear()
        await writer.post([Descriptor(place, 8000)])
        await reader.post([Descriptor(place + 8192, 8000)])
        await host.wait(host.random.randint(100, 600))
        resets = user.resets
        await host.reset()
        host.completer.answers.clear()
        while user.resets == resets or dut.user_rst_o.value:
            await RisingEdge(dut.user_clk)
        # Nor do words of before come out again until the reset has reached the user's side.
        assert data.startswith(user.taken["h2c"])
        user.pause_out = user.pause_in = 0.0
        await reader.open()
        await writer.open()
        await there_and_back(host, host.random, reader, writer, 1500)


@pytest.mark.parametrize("data_bits", widths(64, 256))
def test_engine_axis(data_bits):
    simulate(__file__, "crosslane_engine_axis", {"DATA_BITS": data_bits, **CARD})
