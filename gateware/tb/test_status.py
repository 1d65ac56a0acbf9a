# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_status: blocks show the clock in which they are built, interrupts follow them."""

import os
import random

import cocotb
import pytest
from packed import CONSTANTS, pack, pack_all
from simulate import SEED, simulate
from tlp_stream import Bench, Sink

CHANNELS = int(os.environ.get("CHANNELS", "2"))
VECTORS = 8
WRITE = CONSTANTS["MEMORY_WRITE"]
ROUTING_ID = 0x4321
STATUS, INTERRUPT = 2, 1  # bits of due_t


class Engine:
    """Surroundings of the module: channels with something due, the MSI-X table, the registers."""

    def __init__(self, dut, seed):
        self.dut, self.seed = dut, seed
        self.due = [0] * CHANNELS
        self.vectors = list(range(CHANNELS))
        self.status_addresses = [seed.getrandbits(64) for _ in range(CHANNELS)]
        self.restart = [0] * CHANNELS
        self.table = [(seed.getrandbits(64), seed.getrandbits(32)) for _ in range(32)]
        self.masked = 0
        self.msix_enabled = self.bus_master = 1
        self.often = 0.0  # probability that something becomes due
        self.busy_table = 0.0  # probability that the table cannot be read
        self.changing = True  # readings
        # Expected TLPs, in order: ("block", channel, words) and ("message", vector).
        self.pending = 0
        self.sequence = [0] * CHANNELS
        self.blocks = []  # (clock, channel, header, payload)
        self.taken_interrupts = []  # (clock, channel)
        self.readings = [self.random_readings() for _ in range(CHANNELS)]
        self.now = seed.getrandbits(40)

    def random_readings(self):
        bits = dict(in_flight=16, completed=32, stopped_at=32, error_address=64, bytes=64)
        codes = {"state": self.seed.randrange(3), "error": self.seed.randrange(9)}
        return codes | {name: self.seed.getrandbits(count) for name, count in bits.items()}

    def drive(self):
        """Sets the inputs of a clock."""
        dut, seed = self.dut, self.seed
        self.now += 1
        for n in range(CHANNELS):
            if seed.random() < self.often:
                self.due[n] |= seed.choice([STATUS, STATUS | INTERRUPT, INTERRUPT])
            if self.changing:
                self.readings[n] = self.random_readings()
        dut.due.value = sum(due << 2 * n for n, due in enumerate(self.due))
        dut.time_i.value = self.now
        dut.readings.value = pack_all("channel_readings_t", self.readings)
        channels = zip(self.vectors, self.status_addresses, self.restart, strict=True)
        settings = [dict(vector=v, status_address=a, restart=r) for v, a, r in channels]
        dut.settings.value = pack_all("channel_settings_t", settings)
        fields = dict(msix_enabled=self.msix_enabled, bus_master=self.bus_master)
        dut.function_i.value = pack("function_t", routing_id=ROUTING_ID, **fields)
        dut.msix_masked.value = self.masked
        self.table_ready = seed.random() >= self.busy_table
        dut.msix_ready.value = int(self.table_ready)
        # The vector is registered: it stays until the next clock.
        vector = int(self.dut.msix_vector.value)
        address, data = self.table[vector] if self.table_ready else (2**64 - 1, 2**32 - 1)
        self.dut.msix_address.value = address
        self.dut.msix_data.value = data

    def sample(self, clock):
        """Records the blocks and interrupts taken, and the readings shown."""
        dut = self.dut
        status_taken = int(dut.status_taken.value)
        interrupt_taken = int(dut.interrupt_taken.value)
        assert int(dut.msix_pending.value) & ~((1 << VECTORS) - 1) == 0
        for n in range(CHANNELS):
            if self.restart[n]:
                assert not (status_taken | interrupt_taken) >> n & 1
                self.due[n], self.restart[n], self.sequence[n] = 0, 0, 0
            if status_taken >> n & 1:
                assert self.due[n] & STATUS
                self.due[n] &= ~STATUS
                if self.bus_master:
                    self.expect_block(clock, n)
            if interrupt_taken >> n & 1:
                assert self.due[n] & INTERRUPT and not (self.bus_master and self.due[n] & STATUS)
                self.due[n] &= ~INTERRUPT
                if self.bus_master:
                    self.taken_interrupts.append((clock, n))

    def expect_block(self, clock, n):
        r = self.readings[n]
        self.sequence[n] += 1
        words = [
            self.sequence[n],
            r["completed"],
            r["state"] | r["error"] << 4 | r["in_flight"] << 16,
            r["stopped_at"],
            r["error_address"] & 0xFFFFFFFF,
            r["error_address"] >> 32,
            self.now & 0xFFFFFFFF,
            self.now >> 32,
        ]
        payload = b"".join(word.to_bytes(4, "little") for word in words)
        self.blocks.append((clock, n, self.status_addresses[n] & ~63, payload))


async def begin(dut, seed=1, pause=0.0):
    engine = Engine(dut, random.Random(seed))
    sink = Sink(dut, "m_status", random.Random(seed), pause, gapless=True)
    bench = Bench(dut, [engine, sink])
    engine.drive()
    await bench.reset()
    return engine, sink, bench


def check(engine, sink):
    """Compares the TLPs with those due, in order; pending are those that did not come."""
    blocks, messages = [], []
    pending = 0
    interrupts = list(engine.taken_interrupts)
    for tlp in sink.tlps:
        header = tlp.header
        assert (header["kind"], header["first_be"], header["requester"]) == (WRITE, 15, ROUTING_ID)
        for name in ("attributes", "traffic_class", "poisoned", "tag"):
            assert header[name] == 0
        if header["length_dw"] == 8:
            assert header["last_be"] == 15
            blocks.append((header["address"], tlp.payload))
            assert tlp.payload == engine.blocks[len(blocks) - 1][3]
            assert header["address"] == engine.blocks[len(blocks) - 1][2]
            continue
        assert (header["length_dw"], header["last_be"]) == (1, 0)
        # For an interrupt recorded before the message was built.
        while interrupts and interrupts[0][0] < tlp.first_clock:
            vector = engine.vectors[interrupts.pop(0)[1]]
            if vector < VECTORS:
                pending |= 1 << vector
        found = [
            v
            for v in range(VECTORS)
            if pending >> v & 1
            and (engine.table[v][0] & ~3, engine.table[v][1])
            == (header["address"], int.from_bytes(tlp.payload, "little"))
        ]
        assert len(found) == 1, "a message for a vector that is not pending"
        messages.append(found[0])
        pending &= ~(1 << found[0])
    assert len(blocks) == len(engine.blocks)
    for _, channel in interrupts:
        if engine.vectors[channel] < VECTORS:
            pending |= 1 << engine.vectors[channel]
    assert int(engine.dut.msix_pending.value) == pending
    return len(blocks), messages


@cocotb.test()
async def all_at_once(dut):
    engine, sink, bench = await begin(dut, SEED, 0.3)
    engine.busy_table = 0.3
    engine.often = 0.03
    for turn in range(3000):
        if turn % 50 == 0:
            engine.masked = engine.seed.getrandbits(32) & engine.seed.getrandbits(32)
            engine.msix_enabled = int(engine.seed.random() < 0.8)
        if engine.seed.random() < 0.01:
            engine.restart[engine.seed.randrange(CHANNELS)] = 1
        await bench.step()
    engine.often = 0.0
    engine.masked, engine.msix_enabled = 0, 1
    await bench.step(300)
    assert not any(engine.due)
    blocks, messages = check(engine, sink)
    assert blocks > 100 and len(messages) > 100
    assert int(dut.msix_pending.value) == 0


@cocotb.test()
async def in_turn_and_at_the_full_rate(dut):
    """With everything due all the time: a block every two clocks, or one beat after the other."""
    engine, sink, bench = await begin(dut, 2)
    engine.masked = 2**32 - 1
    for _ in range(200):
        engine.due = [STATUS] * CHANNELS
        await bench.step()
    assert len(sink.tlps) > 40
    clocks = [tlp.first_clock for tlp in sink.tlps[5:35]]
    beats = max(1, 256 // sink.data_bits)
    assert clocks[-1] - clocks[0] == 29 * max(beats, 2)
    channels = [entry[1] for entry in engine.blocks]
    assert channels == [n % CHANNELS for n in range(len(channels))]


@cocotb.test()
async def latency(dut):
    """A block is offered two clocks after it is due, its message at most two clocks after its last
    beat."""
    engine, sink, bench = await begin(dut, 3)
    await bench.step(5)
    begun = bench.clock
    engine.due[0] = STATUS | INTERRUPT
    await bench.until(lambda: len(sink.tlps) == 2, 30)
    block, message = sink.tlps
    assert block.first_clock - begun == 2
    assert message.first_clock - block.first_clock == max(2, 256 // sink.data_bits)
    check(engine, sink)


@cocotb.test()
async def without_bus_master_nothing_is_sent(dut):
    engine, sink, bench = await begin(dut, 4)
    engine.bus_master = 0
    await bench.step(3)
    engine.due = [STATUS | INTERRUPT] * CHANNELS
    await bench.step(1)
    assert engine.due == [0] * CHANNELS
    engine.bus_master = 1
    await bench.step(30)
    assert not sink.tlps and int(dut.msix_pending.value) == 0
    # It continues when Bus Master Enable is set.
    engine.due[CHANNELS - 1] = STATUS
    await bench.step(30)
    assert len(sink.tlps) == 1
    check(engine, sink)


@cocotb.test()
async def masked_vectors_wait(dut):
    engine, sink, bench = await begin(dut, 5)
    engine.vectors[0] = 3
    engine.masked = 1 << 3
    engine.due[0] = INTERRUPT
    await bench.step(20)
    assert not sink.tlps and int(dut.msix_pending.value) == 1 << 3
    engine.masked = 0
    engine.msix_enabled = 0
    await bench.step(20)
    assert not sink.tlps
    engine.msix_enabled = 1
    await bench.step(6)
    assert len(sink.tlps) == 1 and int(dut.msix_pending.value) == 0
    # The lowest sendable vector comes first; a vector that does not exist is ignored.
    engine.vectors = [2**16 - 1 if n == 0 else 7 - n for n in range(CHANNELS)]
    engine.msix_enabled = 0
    engine.due = [INTERRUPT] * CHANNELS
    await bench.step(40)
    engine.msix_enabled = 1
    await bench.step(40)
    vectors = [
        next(v for v in range(8) if engine.table[v][1].to_bytes(4, "little") == tlp.payload)
        for tlp in sink.tlps[1:]
    ]
    assert vectors == sorted(7 - n for n in range(1, CHANNELS))


@cocotb.test()
async def restart_begins_the_sequence_anew(dut):
    engine, sink, bench = await begin(dut, 6)
    for pause, clocks in ((0.0, 20), (0.0, 20), (0.0, 20), (1.0, 10), (1.0, 10)):
        engine.due[0], sink.pause = STATUS, pause
        await bench.step(clocks)
    engine.restart[0] = 1
    await bench.step(2)
    sink.pause = 0.0
    await bench.step(20)
    engine.due[0] = STATUS
    await bench.step(20)
    numbers = [int.from_bytes(tlp.payload[:4], "little") for tlp in sink.tlps]
    assert numbers == [1, 2, 3, 4, 1]
    check(engine, sink)


@pytest.mark.parametrize("data_bits,channels", [(64, 3), (256, 2), (512, 4)])
def test_status(data_bits, channels):
    parameters = {"DATA_BITS": data_bits, "CHANNELS": channels, "VECTORS": VECTORS}
    simulate(__file__, "crosslane_status", parameters)
