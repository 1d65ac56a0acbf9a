# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_stream_in and crosslane_stream_out in series: bytes come out as they went in, packed,
in full beats except when flushed; a beat each clock.
"""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly
from simulate import SEED, simulate, widths
from tlp_stream import Bench

SIZE_BYTES = 2048


class Loop:
    """The two modules, a clock at a time."""

    def __init__(self, dut):
        self.dut = dut
        self.lanes = len(dut.s_tkeep)
        self.seed = random.Random(SEED)
        self.sent, self.received = bytearray(), bytearray()
        self.beat = None
        self.offered = None
        self.clock = 0
        self.beats = []  # (clock, bytes)

    async def start(self):
        """Clock and reset."""
        for name in ("s_tvalid", "m_tready", "flush"):
            getattr(self.dut, name).value = 0
        await Bench(self.dut).reset()
        return self

    async def flush(self):
        """Flushes until all bytes have come out, as they went in."""
        while len(self.received) < len(self.sent):
            await self.step(0, flush=1)
            assert self.clock < 10_000
        assert self.received == self.sent

    async def step(self, most, least=1, source=1.0, sink=1.0, flush=0):
        """One clock; a new beat has `least` to `most` bytes."""
        dut, seed = self.dut, self.seed
        if self.beat is None and most and seed.random() < source:
            self.beat = seed.randbytes(seed.randint(least, most))
        dut.s_tvalid.value = self.beat is not None
        if self.beat is not None:
            # Lanes that are not kept hold random bytes.
            fill = self.beat + seed.randbytes(self.lanes - len(self.beat))
            dut.s_tdata.value = int.from_bytes(fill, "little")
            dut.s_tkeep.value = (1 << len(self.beat)) - 1
        ready = seed.random() < sink
        dut.m_tready.value = ready
        dut.flush.value = flush
        await ReadOnly()
        if self.beat is not None and int(dut.s_tready.value):
            self.sent += self.beat
            self.beat = None
        now = None
        if int(dut.m_tvalid.value):
            keep = int(dut.m_tkeep.value)
            assert keep and keep & (keep + 1) == 0
            data = int(dut.m_tdata.value).to_bytes(self.lanes, "little")
            now = data[: keep.bit_count()]
        if self.offered is not None:
            assert now == self.offered, "a beat changed before it was taken"
        self.offered = None if ready else now
        if ready and now:
            self.received += now
            self.beats.append((self.clock, len(now)))
        self.clock += 1
        await FallingEdge(dut.clk)


@cocotb.test()
async def bytes_come_out_in_order(dut):
    loop = await Loop(dut).start()
    for phase in range(40):
        source, sink = loop.seed.choice([0.2, 0.7, 1]), loop.seed.choice([0.2, 0.7, 1])
        for _ in range(60):
            # A flush now and then makes partial beats; without flush there are none.
            flush = phase % 4 == 3 and loop.seed.random() < 0.3
            await loop.step(loop.lanes, source=source, sink=sink, flush=flush)
    await loop.flush()
    sizes = [size for _, size in loop.beats]
    assert sizes.count(loop.lanes) > 300
    assert len(set(sizes)) > min(5, loop.lanes)


@cocotb.test()
async def beats_are_full_without_a_flush(dut):
    loop = await Loop(dut).start()
    for _ in range(600):
        await loop.step(loop.lanes, sink=0.8)
    for _ in range(SIZE_BYTES // loop.lanes + 20):
        await loop.step(0)
    assert all(size == loop.lanes for _, size in loop.beats)
    left = len(loop.sent) - len(loop.received)
    assert 0 <= left < loop.lanes
    # The remainder comes when it is flushed, and only then.
    await loop.flush()


@cocotb.test()
async def a_beat_each_clock(dut):
    loop = await Loop(dut).start()
    await loop.step(0)
    begin = loop.clock
    for _ in range(400):
        await loop.step(loop.lanes, least=loop.lanes)
    # Ring: 3 clocks until a read sees a beat, 3 until it is out.
    assert loop.beats[0][0] - begin == 6
    assert loop.beats[-1][0] - loop.beats[0][0] == len(loop.beats) - 1
    assert len(loop.beats) == 400 - 6
    # Blocked output: the ring fills, and no byte is lost when it continues.
    for _ in range(SIZE_BYTES // loop.lanes + 40):
        await loop.step(loop.lanes, least=loop.lanes, sink=0)
    assert int(dut.s_tready.value) == 0
    held = len(loop.sent) - len(loop.received)
    assert held >= SIZE_BYTES - loop.lanes
    for _ in range(500):
        await loop.step(loop.lanes, least=loop.lanes)
    await loop.flush()


@pytest.mark.parametrize("data_bits", widths(64, 512))
def test_streams(data_bits):
    parameters = {"DATA_BITS": data_bits, "SIZE_BYTES": SIZE_BYTES}
    simulate(__file__, "stream_loop", parameters)
