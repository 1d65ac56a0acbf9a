# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_memory_write and crosslane_memory_read against an AXI4 memory of cocotbext-axi."""

import itertools
import random

import cocotb
import pytest
from axi_memory import REFUSALS, AxiMemory
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import (
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)
from simulate import SEED, simulate, widths
from tlp_stream import reset, until

MEMORY_BYTES = 1 << 20
CARD_MEMORY, POISONED = 9, 3


def any_length(seed):
    """Random number of bytes of a transfer."""
    return seed.choice([1, 3, 64, 4096, 5000, seed.randrange(1, 2000)])


async def clocks(dut, count):
    """Waits for `count` clocks, or none."""
    for _ in range(count):
        await RisingEdge(dut.clk)


class Bench:
    """Streams, memory and descriptors around the two modules."""

    def __init__(self, dut, seed):
        self.dut = dut
        self.random = random.Random(SEED * 1000 + seed)
        self.written = 0
        self.stops = []
        self.content = bytearray(MEMORY_BYTES)

    async def start(self, how_often=0.0):
        """Clock and reset; from now on everything pauses this often."""
        dut = self.dut
        for name in ["write_forget", "read_forget", "failed_valid", "write_descriptor_valid",
                     "read_descriptor_valid"]:  # fmt: skip
            getattr(dut, name).value = 0
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s"), dut.clk, dut.rst)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m"), dut.clk, dut.rst)
        self.memory = AxiMemory(dut, "m_axi", self.content, self.random, most_beats=16)
        await reset(dut)
        await ClockCycles(dut.clk, 2)
        cocotb.start_soon(self.watch())
        if how_often:
            self.pause(how_often)
        return self

    async def watch(self):
        dut = self.dut
        stops_before = False
        while True:
            await RisingEdge(dut.clk)
            if dut.written_valid.value:
                self.written += int(dut.written_bytes.value)
            # Reported until `forget`.
            stops = bool(dut.stop_valid.value)
            if stops and not stops_before:
                self.stops.append((int(dut.stop_error.value), int(dut.stop_address.value)))
            stops_before = stops

    def pause(self, how_often):
        """Pauses all streams and channels."""
        self.memory.pause(how_often)
        for part in (self.source, self.sink):
            part.set_pause_generator(self.random.random() < how_often for _ in itertools.count())

    async def descriptor(self, which, card, count):
        """Passes a descriptor to one of the modules."""
        dut = self.dut
        getattr(dut, f"{which}_descriptor_card").value = card
        getattr(dut, f"{which}_descriptor_bytes").value = count
        getattr(dut, f"{which}_descriptor_valid").value = 1
        while True:
            await RisingEdge(dut.clk)
            if getattr(dut, f"{which}_descriptor_ready").value:
                break
        getattr(dut, f"{which}_descriptor_valid").value = 0

    async def forget(self, which):
        """Gives up what one of the modules has begun."""
        signal = getattr(self.dut, f"{which}_forget")
        signal.value = 1
        await RisingEdge(self.dut.clk)
        signal.value = 0

    async def received(self, count):
        """The next `count` bytes, and what has come with them."""
        got = bytearray()

        def is_all():
            if not self.sink.empty():
                got.extend(bytes(self.sink.read_nowait()))
            return len(got) >= count

        await until(self.dut, is_all)
        return got


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.4])
async def bytes_reach_their_card_addresses(dut, how_often):
    bench = await Bench(dut, 1).start(how_often)
    jobs, at = [], 0
    while at < 60_000:
        at += bench.random.choice([0, 1, 5, 300, bench.random.randrange(64)])
        jobs.append((at, any_length(bench.random)))
        at += jobs[-1][1]
    data = {card: bench.random.randbytes(count) for card, count in jobs}
    bench.source.send_nowait(AxiStreamFrame(b"".join(data[card] for card, _ in jobs)))
    for card, count in jobs:
        await bench.descriptor("write", card, count)
    total = sum(count for _, count in jobs)
    await until(dut, lambda: bench.written == total)
    expected = bytearray(at)
    for card, count in jobs:
        expected[card : card + count] = data[card]
    assert bench.content[:at] == expected
    assert bench.stops == []


@cocotb.test()
async def writes_go_at_a_beat_a_clock(dut):
    bench = await Bench(dut, 2).start()
    lanes = len(dut.s_tkeep)
    count = 400 * lanes
    bench.source.send_nowait(AxiStreamFrame(bench.random.randbytes(count)))
    # All data to be written are available before the first burst begins.
    await ClockCycles(dut.clk, 250)
    await bench.descriptor("write", 0, count // 2)
    await bench.descriptor("write", count // 2, count // 2)
    await until(dut, lambda: bench.written == count)
    beats = bench.memory.write_beats
    clocks = beats[-1] - beats[0] + 1
    assert len(beats) == 400
    assert clocks * 99 <= 400 * 100 + 200, f"{clocks} clocks for 400 beats"


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.4])
async def bytes_come_from_their_card_addresses(dut, how_often):
    bench = await Bench(dut, 3).start(how_often)
    content = bench.random.randbytes(70_000)
    bench.content[: len(content)] = content
    jobs = [(bench.random.randrange(60_000), any_length(bench.random)) for _ in range(40)]
    got = bytearray()

    async def collect():
        while True:
            got.extend(await bench.sink.read())

    cocotb.start_soon(collect())
    for card, count in jobs:
        await bench.descriptor("read", card, count)
    expected = b"".join(content[card : card + count] for card, count in jobs)
    await until(dut, lambda: len(got) >= len(expected))
    assert bytes(got) == expected


@cocotb.test()
async def bytes_that_come_in_pieces_are_waited_for(dut):
    bench = await Bench(dut, 7).start()
    data, counts = b"", []
    for _ in range(12):
        counts.append(any_length(bench.random))
        data += bench.random.randbytes(counts[-1])
    # Each piece ends anywhere, often just before a descriptor's end or just after its beginning.
    ends = {bench.random.randrange(len(data)) for _ in range(10)} | {len(data)}
    for n in range(len(counts)):
        ends |= {max(0, sum(counts[:n]) + bench.random.randrange(-80, 80))}
    ends = sorted(ends)

    async def bring():
        for begin, end in itertools.pairwise([0, *ends]):
            if end > begin:
                bench.source.send_nowait(AxiStreamFrame(data[begin:end]))
            await bench.source.wait()
            await ClockCycles(dut.clk, 60)

    cocotb.start_soon(bring())
    card, expected = 0, bytearray(MEMORY_BYTES)
    begin = 0
    for count in counts:
        card += bench.random.randrange(70)
        expected[card : card + count] = data[begin : begin + count]
        await bench.descriptor("write", card, count)
        card, begin = card + count, begin + count
    await until(dut, lambda: bench.written == len(data))
    assert bench.content == expected


@cocotb.test()
async def writes_that_are_given_up_leave_nothing_behind(dut):
    bench = await Bench(dut, 8).start(0.5)
    half = MEMORY_BYTES // 2
    for n in range(25):
        count = bench.random.randrange(500, 4000)
        data = bench.random.randbytes(count)
        at = bench.random.randrange(half - 5000)
        before = bytes(bench.content)
        bench.source.send_nowait(AxiStreamFrame(data))
        if n >= 10:
            await bench.descriptor("write", at, count)
        await until(dut, bench.source.idle)
        if n < 10:
            # All data are available, and each of the first clocks is tried.
            await bench.descriptor("write", at, count)
        await clocks(dut, n if n < 10 else bench.random.randrange(80))
        await bench.forget("write")
        await RisingEdge(dut.clk)
        # Bytes reported before are in the memory.
        told, bench.written = bench.written, 0
        assert bench.content[at : at + told] == data[:told]
        # The next begins at once.
        next_at, count = half + bench.random.randrange(1000), bench.random.randrange(1, 1500)
        next_data = bench.random.randbytes(count)
        bench.source.send_nowait(AxiStreamFrame(next_data))
        await bench.descriptor("write", next_at, count)
        await until(dut, lambda count=count: bench.written >= count)
        await ClockCycles(dut.clk, 20)
        assert bench.written == count and bench.stops == []
        assert bench.content[next_at : next_at + count] == next_data
        bench.content[next_at : next_at + count] = before[next_at : next_at + count]
        # Nothing else has changed, except by bursts of the first that were in flight.
        wrong = bytearray(before)
        wrong[at : at + len(data)] = data
        assert all(now in pair for now, *pair in zip(bench.content, before, wrong, strict=True))
        bench.written = 0


@cocotb.test()
async def a_channel_that_takes_nothing_holds_up_the_reads(dut):
    bench = await Bench(dut, 10).start()
    bench.content[:] = bench.random.randbytes(MEMORY_BYTES)
    bench.sink.pause = True
    await bench.descriptor("read", 5, 20_000)
    await ClockCycles(dut.clk, 2000)
    # Data read ahead, and the stream's pipeline.
    assert sum(burst.beats for burst in bench.memory.reads) * len(dut.m_tkeep) < 8192 + 512
    bench.sink.pause = False
    assert await bench.received(20_000) == bench.content[5:20_005]


@cocotb.test()
async def reads_that_are_given_up_leave_nothing_behind(dut):
    bench = await Bench(dut, 9).start(0.4)
    bench.content[:] = bench.random.randbytes(MEMORY_BYTES)
    for n in range(30):
        await bench.descriptor("read", bench.random.randrange(60_000), 9000)
        await clocks(dut, n if n < 10 else bench.random.randrange(150))
        await bench.forget("read")
        await RisingEdge(dut.clk)
        bench.sink.clear()
        at, count = bench.random.randrange(60_000), any_length(bench.random)
        await bench.descriptor("read", at, count)
        assert await bench.received(count) == bench.content[at : at + count]


@cocotb.test()
@cocotb.parametrize(response=REFUSALS)
async def a_memory_that_fails_stops_the_channel_at_the_burst(dut, response):
    bench = await Bench(dut, 4).start()
    lanes = len(dut.s_tkeep)
    burst = 16 * lanes
    bench.memory.refuses = lambda address: address >= 3 * burst
    bench.memory.response = response
    bench.source.send_nowait(AxiStreamFrame(bytes(8 * burst)))
    await bench.descriptor("write", burst // 2, 6 * burst)
    await until(dut, lambda: bench.stops)
    await ClockCycles(dut.clk, 100)
    assert bench.stops == [(CARD_MEMORY, 3 * burst)]
    assert bench.written == 5 * burst // 2
    # Given up: the next is unaffected.
    bench.memory.refuses = None
    await bench.forget("write")
    await ClockCycles(dut.clk, 200)
    bench.source.clear()
    bench.written = 0
    bench.stops.clear()
    data = bench.random.randbytes(2 * burst)
    bench.source.send_nowait(AxiStreamFrame(data))
    await bench.descriptor("write", 8, 2 * burst)
    await until(dut, lambda: bench.written == 2 * burst)
    assert bench.content[8 : 8 + 2 * burst] == data
    assert bench.stops == []


@cocotb.test()
async def a_read_that_failed_is_told_behind_what_came_before(dut):
    bench = await Bench(dut, 5).start(0.3)
    data = bench.random.randbytes(1000)
    bench.source.send_nowait(AxiStreamFrame(data))
    await bench.descriptor("write", 0, 3000)
    await until(dut, lambda: bench.source.idle())
    dut.failed_valid.value = 1
    await RisingEdge(dut.clk)
    dut.failed_valid.value = 0
    assert bench.stops == []
    await until(dut, lambda: bench.stops)
    assert bench.stops == [(POISONED, 0x1234)]
    assert bench.written == len(data)
    assert bench.content[: len(data)] == data


@cocotb.test()
@cocotb.parametrize(response=REFUSALS)
async def a_read_of_the_memory_that_fails_offers_nothing_more(dut, response):
    bench = await Bench(dut, 6).start()
    lanes = len(dut.s_tkeep)
    burst = 16 * lanes
    bench.content[: 8 * burst] = bench.random.randbytes(8 * burst)
    # Only one beat fails: the good ones behind it do not hide that.
    bench.memory.refuses = lambda address: address == 2 * burst
    bench.memory.response = response
    bench.sink.pause = True
    await bench.descriptor("read", 0, 4 * burst)
    await until(dut, lambda: dut.read_failed.value)
    # It is reported after all offered data.
    offered = int(dut.out_available.value)
    await ClockCycles(dut.clk, 10)
    assert int(dut.out_available.value) == offered
    bench.sink.pause = False
    await ClockCycles(dut.clk, 100)
    assert bytes(bench.sink.read_nowait()) == bench.content[: 2 * burst]
    await bench.forget("read")
    bench.memory.refuses = None
    await ClockCycles(dut.clk, 100)
    assert not dut.read_failed.value
    await bench.descriptor("read", 77, 500)
    await ClockCycles(dut.clk, 100)
    assert bytes(bench.sink.read_nowait()) == bench.content[77:577]


@pytest.mark.parametrize("data_bits", widths(128, 512))
def test_memory(data_bits):
    simulate(__file__, "memory_loop", {"DATA_BITS": data_bits})
