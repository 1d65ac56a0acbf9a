# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_memory_write and crosslane_memory_read against an AXI4 memory of cocotbext-axi."""

import itertools
import random
from pathlib import Path

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import (
    AxiBus,
    AxiRam,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)
from simulate import simulate, widths

TOP = Path(__file__).resolve().parent / "tops" / "memory_loop.sv"
MEMORY_BYTES = 1 << 20
CARD_MEMORY, POISONED = 9, 3


class Bench:
    """Streams, memory and descriptors around the two modules."""

    def __init__(self, dut, seed):
        self.dut = dut
        self.random = random.Random(seed)
        self.written = 0
        self.stops = []
        self.beats = []  # clocks of W beats
        self.now = 0

    async def start(self):
        dut = self.dut
        Clock(dut.clk, 4, unit="ns").start()
        for name in ["write_forget", "read_forget", "failed_valid"]:
            getattr(dut, name).value = 0
        for name in ["write_descriptor_valid", "read_descriptor_valid"]:
            getattr(dut, name).value = 0
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s"), dut.clk, dut.rst)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m"), dut.clk, dut.rst)
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=MEMORY_BYTES)
        dut.rst.value = 1
        await ClockCycles(dut.clk, 3)
        dut.rst.value = 0
        await ClockCycles(dut.clk, 2)
        cocotb.start_soon(self.watch())

    async def watch(self):
        dut = self.dut
        stops_before = False
        while True:
            await RisingEdge(dut.clk)
            self.now += 1
            if dut.written_valid.value:
                self.written += int(dut.written_bytes.value)
            # Told until `forget`.
            stops = bool(dut.stop_valid.value)
            if stops and not stops_before:
                self.stops.append((int(dut.stop_error.value), int(dut.stop_address.value)))
            stops_before = stops
            if dut.m_axi_wvalid.value and dut.m_axi_wready.value:
                self.beats.append(self.now)

    def pause(self, how_often):
        """Pauses on every stream and channel."""
        ram = self.ram
        parts = [self.source, self.sink, ram.write_if.aw_channel, ram.write_if.w_channel]
        parts += [ram.write_if.b_channel, ram.read_if.ar_channel, ram.read_if.r_channel]
        for part in parts:
            part.set_pause_generator(self.random.random() < how_often for _ in itertools.count())

    async def descriptor(self, which, card, count):
        """Hands a descriptor to one of the modules."""
        dut = self.dut
        getattr(dut, f"{which}_descriptor_card").value = card
        getattr(dut, f"{which}_descriptor_bytes").value = count
        getattr(dut, f"{which}_descriptor_valid").value = 1
        while True:
            await RisingEdge(dut.clk)
            if getattr(dut, f"{which}_descriptor_ready").value:
                break
        getattr(dut, f"{which}_descriptor_valid").value = 0

    async def until(self, condition, limit=60000):
        """Goes on until the condition holds."""
        for _ in range(limit):
            if condition():
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"not within {limit} clocks")


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.4])
async def bytes_reach_their_card_addresses(dut, how_often):
    bench = Bench(dut, 1)
    await bench.start()
    bench.pause(how_often)
    jobs, at = [], 0
    while at < 60_000:
        at += bench.random.choice([0, 1, 5, 300])
        jobs.append((at, bench.random.choice([1, 3, 64, 777, 4096, 5000])))
        at += jobs[-1][1]
    data = {card: bench.random.randbytes(count) for card, count in jobs}
    bench.source.send_nowait(AxiStreamFrame(b"".join(data[card] for card, _ in jobs)))
    for card, count in jobs:
        await bench.descriptor("write", card, count)
    total = sum(count for _, count in jobs)
    await bench.until(lambda: bench.written == total)
    expected = bytearray(at)
    for card, count in jobs:
        expected[card : card + count] = data[card]
    assert bench.ram.read(0, at) == bytes(expected)
    assert bench.stops == []


@cocotb.test()
async def writes_go_at_a_beat_a_clock(dut):
    bench = Bench(dut, 2)
    await bench.start()
    lanes = len(dut.s_tkeep)
    count = 400 * lanes
    bench.source.send_nowait(AxiStreamFrame(bench.random.randbytes(count)))
    # What is written is there before the first burst begins.
    await ClockCycles(dut.clk, 250)
    await bench.descriptor("write", 0, count // 2)
    await bench.descriptor("write", count // 2, count // 2)
    await bench.until(lambda: bench.written == count)
    clocks = bench.beats[-1] - bench.beats[0] + 1
    assert len(bench.beats) == 400
    assert clocks * 99 <= 400 * 100 + 200, f"{clocks} clocks for 400 beats"


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.4])
async def bytes_come_from_their_card_addresses(dut, how_often):
    bench = Bench(dut, 3)
    await bench.start()
    bench.pause(how_often)
    content = bench.random.randbytes(70_000)
    bench.ram.write(0, content)
    jobs = []
    for _ in range(40):
        count = bench.random.choice([1, 3, 64, 777, 4096, 5000])
        jobs.append((bench.random.randrange(60_000), count))
    got = bytearray()

    async def collect():
        while True:
            got.extend(await bench.sink.read())

    cocotb.start_soon(collect())
    for card, count in jobs:
        await bench.descriptor("read", card, count)
    expected = b"".join(content[card : card + count] for card, count in jobs)
    await bench.until(lambda: len(got) >= len(expected))
    assert bytes(got) == expected


@cocotb.test()
async def a_memory_that_fails_stops_the_channel_at_the_burst(dut):
    bench = Bench(dut, 4)
    await bench.start()
    lanes = len(dut.s_tkeep)
    burst = 16 * lanes
    real = bench.ram.write_if._write

    async def write(address, data):
        if address >= 3 * burst:
            raise MemoryError("there is nothing")
        await real(address, data)

    bench.ram.write_if._write = write
    bench.source.send_nowait(AxiStreamFrame(bytes(8 * burst)))
    await bench.descriptor("write", burst // 2, 6 * burst)
    await bench.until(lambda: bench.stops)
    await ClockCycles(dut.clk, 100)
    assert bench.stops == [(CARD_MEMORY, 3 * burst)]
    assert bench.written == 5 * burst // 2
    # Given up: the next is as if nothing had been.
    bench.ram.write_if._write = real
    dut.write_forget.value = 1
    await RisingEdge(dut.clk)
    dut.write_forget.value = 0
    await ClockCycles(dut.clk, 200)
    bench.source.clear()
    bench.written = 0
    bench.stops.clear()
    data = bench.random.randbytes(2 * burst)
    bench.source.send_nowait(AxiStreamFrame(data))
    await bench.descriptor("write", 8, 2 * burst)
    await bench.until(lambda: bench.written == 2 * burst)
    assert bench.ram.read(8, 2 * burst) == data
    assert bench.stops == []


@cocotb.test()
async def a_read_that_failed_is_told_behind_what_came_before(dut):
    bench = Bench(dut, 5)
    await bench.start()
    bench.pause(0.3)
    data = bench.random.randbytes(1000)
    bench.source.send_nowait(AxiStreamFrame(data))
    await bench.descriptor("write", 0, 3000)
    await bench.until(lambda: bench.source.idle())
    dut.failed_valid.value = 1
    await RisingEdge(dut.clk)
    dut.failed_valid.value = 0
    assert bench.stops == []
    await bench.until(lambda: bench.stops)
    assert bench.stops == [(POISONED, 0x1234)]


@cocotb.test()
async def a_read_of_the_memory_that_fails_offers_nothing_more(dut):
    bench = Bench(dut, 6)
    await bench.start()
    lanes = len(dut.s_tkeep)
    burst = 16 * lanes
    bench.ram.write(0, bench.random.randbytes(8 * burst))
    real = bench.ram.read_if._read

    async def read(address, length):
        if address >= 2 * burst:
            raise MemoryError("there is nothing")
        return await real(address, length)

    bench.ram.read_if._read = read
    await bench.descriptor("read", 0, 4 * burst)
    await bench.until(lambda: dut.read_failed.value)
    await ClockCycles(dut.clk, 100)
    assert bytes(bench.sink.read_nowait()) == bytes(bench.ram.read(0, 2 * burst))
    dut.read_forget.value = 1
    await RisingEdge(dut.clk)
    dut.read_forget.value = 0
    bench.ram.read_if._read = real
    await ClockCycles(dut.clk, 100)
    assert not dut.read_failed.value
    await bench.descriptor("read", 77, 500)
    await ClockCycles(dut.clk, 100)
    assert bytes(bench.sink.read_nowait()) == bytes(bench.ram.read(77, 500))


@pytest.mark.parametrize("data_bits", widths(128, 512))
def test_memory(data_bits):
    simulate(__file__, "memory_loop", {"DATA_BITS": data_bits}, top_file=TOP)


assert AxiResp.SLVERR == 2
