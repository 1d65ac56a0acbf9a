# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_window against an AXI4 memory: writes, reads and their completions, errors, rates."""

import random

import cocotb
import pytest
from axi_memory import REFUSALS, AxiMemory
from packed import CONSTANTS, pack
from simulate import SEED, simulate, widths
from tlp_stream import Bench, Pulses, Sink, Source, Tlp, assert_same

MEMORY_BYTES = 1 << 16
WINDOW = 0x4_0000_0000
MOST = 1024
COMPLETER = 0x0100
COMPLETER_ABORT = 4


class Window:
    """The module between TLP streams and a memory, and the expected content of the memory."""

    def __init__(self, dut, seed, max_payload=1):
        self.dut = dut
        self.random = random.Random(SEED * 1000 + seed)
        self.source = Source(dut, "s_window", self.random)
        self.sink = Sink(dut, "m_answer", self.random, gapless=True)
        self.bench = Bench(dut, [self.source, self.sink])
        self.max_payload = max_payload
        self.memory = bytearray(self.random.randbytes(MEMORY_BYTES))
        self.tag = 0
        self.expected = []

    def drive_function(self):
        """Drives the function's settings."""
        self.dut.function_i.value = pack(
            "function_t", max_payload=self.max_payload, routing_id=COMPLETER
        )

    async def start(self):
        """Memory, clock and reset."""
        dut = self.dut
        self.drive_function()
        self.content = bytearray(self.memory)
        self.port = AxiMemory(dut, "m_axi", self.content, self.random)
        await self.bench.reset(3)
        await self.bench.step(3)
        self.failures = Pulses(dut, "write_failed")
        return self

    def pauses(self, chance):
        """Sets how often the memory and the streams refuse and pause."""
        self.port.pause(chance)
        self.source.pause = self.sink.pause = chance

    def request(self, kind, at, words, first, last, payload=b"", **changes):
        """A request TLP for `words` double words at byte `at` of the memory."""
        fields = dict(
            kind=CONSTANTS[kind],
            address=WINDOW + at,
            length_dw=words,
            first_be=first,
            last_be=last,
            bar=2,
            requester=0x0208,
            tag=self.tag,
            traffic_class=self.tag % 8,
            attributes=self.tag % 5,
        )
        self.tag = (self.tag + 1) % 256
        tlp = Tlp({**fields, **changes}, payload)
        self.source.send(tlp)
        return tlp

    def write(self, at, payload, first=15, last=15, **changes):
        """Queues a write, and applies it to the expected memory."""
        words = len(payload) // 4
        if words == 1:
            last = 0
        tlp = self.request("MEMORY_WRITE", at, words, first, last, payload, **changes)
        if not tlp.poisoned:
            for place in tlp.enabled:
                self.memory[at + place] = payload[place]
        return tlp

    def read(self, at, words, first=15, last=15, aborts=False):
        """Queues a read, and its expected answer."""
        if words == 1:
            last = 0
        tlp = self.request("MEMORY_READ", at, words, first, last)
        bits = [n for n in range(4) if first >> n & 1] or [0]
        skipped = bits[0]
        end = (last if words > 1 else first).bit_length() or 1
        left = 4 * words - skipped - (4 - end)
        most = min(128 << self.max_payload, MOST)
        address = at
        while address < at + 4 * words:
            size = min(most - address % most, at + 4 * words - address)
            header = dict(
                kind=CONSTANTS["COMPLETION" if aborts else "COMPLETION_DATA"],
                status=COMPLETER_ABORT if aborts else 0,
                address=(address & 0x7F) + skipped,
                length_dw=0 if aborts else size // 4,
                byte_count=left,
                requester=0x0208,
                completer=COMPLETER,
                tag=tlp.header["tag"],
                traffic_class=tlp.header["traffic_class"],
                attributes=tlp.header["attributes"],
                poisoned=0,
            )
            data = b"" if aborts else bytes(self.memory[address : address + size])
            self.expected.append(Tlp(header, data))
            if aborts:
                break
            left -= size - skipped
            skipped = 0
            address += size
        return tlp

    async def finish(self, limit=20000):
        """Waits until everything is written and answered, and checks it."""
        await self.bench.until(
            lambda: not self.source.queue and len(self.sink.tlps) >= len(self.expected), limit
        )
        await self.bench.step(60)
        assert_same(self.sink.tlps, self.expected)
        assert self.content == self.memory
        self.expected.clear()
        self.sink.tlps.clear()


def send_random(w):
    """Queues reads and writes. A write may overtake a read, so none touches bytes being read."""
    asked = set()
    for _ in range(15):
        words = w.random.choice([1, 1, 2, 3, w.random.randrange(1, 129)])
        at = w.random.randrange(0, 8192, 4)
        words = min(words, (4096 - at % 4096) // 4)
        first = w.random.choice([15, 15, 14, 8, 1, 6, 0 if words == 1 else 12])
        last = w.random.choice([15, 15, 1, 3, 7])
        places = set(range(at // 4, at // 4 + words))
        if w.random.random() < 0.6 and not places & asked:
            poisoned = int(w.random.random() < 0.1)
            w.write(at, w.random.randbytes(4 * words), first, last, poisoned=poisoned)
        else:
            w.read(at, words, first, last)
            asked |= places


@cocotb.test()
async def any_place_length_and_enables(dut):
    w = await Window(dut, 0, max_payload=1).start()
    for chance in [0, 0.3, 0.6]:
        w.pauses(chance)
        for _ in range(8):
            send_random(w)
            await w.finish()


@cocotb.test()
async def a_read_sees_the_writes_before_it(dut):
    w = await Window(dut, 4).start()
    for n in range(20):
        # A memory with faster reads would do them first.
        w.port.pause(0, writes=n % 4 * 0.3, answers=n % 4 * 0.3)
        w.write(4 * n, w.random.randbytes(4 * (n + 1)))
        w.read(0, 64)
        await w.finish()


@cocotb.test()
async def completions_are_split(dut):
    """At multiples of the payload size, which are multiples of the read completion boundary."""
    w = await Window(dut, 1).start()
    for max_payload in [0, 3, 5]:
        w.max_payload = max_payload
        w.drive_function()
        w.pauses(0)
        for at, words in [(0, 1024), (4, 1023), (4092, 1), (60, 2), (124, 66), (8192 - 256, 64)]:
            w.read(at, words)
        await w.finish()
        w.pauses(0.2)
        for _ in range(12):
            at = w.random.randrange(0, 4096, 4)
            w.read(at, w.random.randrange(1, (4096 - at) // 4 + 1))
        await w.finish()


@cocotb.test()
async def a_beat_each_clock(dut):
    w = await Window(dut, 2, max_payload=1).start()
    size = w.source.data_bits // 8
    # Writes, back to back.
    tlps = [w.write(256 * n, w.random.randbytes(256)) for n in range(24)]
    await w.finish()
    beats = 24 * 256 // size
    written = w.port.write_beats
    assert written[-1] - written[0] + 1 == len(written) == beats
    assert tlps[-1].last_clock - tlps[0].first_clock + 1 == beats
    # Small ones: one a clock, as long as the memory answers as fast.
    tlps = [w.write(size * n, w.random.randbytes(4)) for n in range(16)]
    await w.finish()
    assert tlps[-1].last_clock - tlps[0].first_clock + 1 == 16
    # Reads.
    for n in range(8):
        w.read(4096 * (n % 4), 1024)
    await w.bench.until(lambda: len(w.sink.tlps) == len(w.expected), 20000)
    first, last = w.sink.tlps[0], w.sink.tlps[-1]
    clocks = last.last_clock - first.first_clock + 1
    beats = 8 * 4096 // size
    # The test's memory pauses after each burst.
    assert clocks <= beats + 3 * len(w.expected), (clocks, beats)
    await w.finish()


@cocotb.test()
async def errors_of_the_memory_abort(dut):
    w = await Window(dut, 3, max_payload=0).start()
    w.read(0, 32)
    await w.finish()
    for n, response in enumerate(REFUSALS):
        # One beat of the first completion.
        w.port.refuses, w.port.response = (lambda address: address == 64), response
        for words in [1, 32, 200]:
            w.read(64, words, aborts=True)
        # The next request is answered.
        w.read(256, 32)
        await w.finish()
        w.port.refuses = None
        for words in [200, 1]:
            w.read(64, words)
        await w.finish()
        # A write cannot be answered, but its failure is reported.
        assert w.failures.count == n
        w.port.refuses = lambda address: True
        w.write(0, bytes(w.memory[:4]))
        # The memory is unchanged.
        w.memory[:4] = w.content[:4]
        await w.finish()
        assert w.failures.count == n + 1


@cocotb.test()
async def answers_that_are_not_taken_hold_up_the_reads(dut):
    """The memory is asked only for data that there is room for."""
    w = await Window(dut, 5, max_payload=3).start()
    w.sink.pause = 1.0
    long = [(4096 * n + 4 * (n % 2), 1024 - n % 2) for n in range(6)]
    short = [(4 * n, 1) for n in range(100)]
    for reads in (long, short):
        w.sink.pause = 1.0
        for at, words in reads:
            w.read(at, words)
        await w.bench.step(1200 + 6 * 4096 * 8 // w.source.data_bits)
        assert not w.sink.tlps
        w.sink.pause = 0.0
        await w.finish()


@cocotb.test()
async def a_memory_that_does_not_confirm_holds_up_the_writes(dut):
    w = await Window(dut, 6).start()
    # The memory takes the writes, and holds its answers back.
    w.port.take_many(200)
    w.port.pause(0, answers=1.0)
    for n in range(100):
        w.write(4 * n, w.random.randbytes(4))
    await w.bench.step(300)
    assert len(w.port.writes) == 32
    w.port.pause(0)
    w.read(0, 100)
    await w.finish()


@pytest.mark.parametrize("data_bits", widths(64, 256))
def test_window(data_bits):
    parameters = {"DATA_BITS": data_bits, "ADDRESS_BITS": 16}
    simulate(__file__, "crosslane_window", parameters)
