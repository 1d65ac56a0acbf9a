# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_reads with a small receive buffer for completions: it never asks for more than fits."""

import cocotb
import pytest
from completer import Fault, bytes_of
from read_bench import clocks, run
from simulate import SEED, simulate, widths
from test_reads import FAULTS, Reads, random_read

# Events that break a read off, and so leave space that no completion gives back.
BROKEN = [fault for fault in FAULTS if fault not in (Fault.DOUBLED, Fault.LENGTH)]


class Buffered(Reads):
    """Counts what the completions that the completer owes would take in the buffer."""

    def __init__(self, dut):
        super().__init__(dut, SEED)
        self.headers = int(dut.COMPLETION_HEADER_CREDITS.value)
        self.data = int(dut.COMPLETION_DATA_CREDITS.value)
        longest = max(int(dut.MAX_READ.value), 32 * self.batch if self.fetchers else 0)
        self.longest = (longest // 64 + 1, longest // 16 + 1)
        self.most = [0, 0]
        # Cut as often as may be: this is the most that they can take.
        self.completer.boundary, self.completer.split = 64, "least"

    async def clock(self):
        await super().clock()
        owed = [tlp for answer in self.completer.answers for tlp in answer.completions]
        # The one that is on its way in is in the buffer until its last beat is taken.
        part = 1 if self._beat or self._beats else 0
        headers = len(owed) + part
        data = sum((tlp.length_dw + 3) // 4 for tlp in owed)
        self.most = [max(self.most[0], headers), max(self.most[1], data)]
        assert headers <= self.headers, f"{headers} completions are owed, for {self.headers}"
        assert data <= self.data, f"{data} units of data are owed, for {self.data}"

    async def count_of_one_unit(self) -> int:
        """Reads of one completion each that are sent while none is answered."""
        await run(self, lambda: self.is_quiet)
        await clocks(self, 20)
        before, self.completer.latency = len(self.requests), (400, 400)
        for n in range(self.tags):
            self.read(0, 0x40000 + n * 64, 16)
        await clocks(self, 300)
        count = len(self.requests) - before
        self.completer.latency = (5, 60)
        await self.finish(20000, "small reads")
        return count

    @property
    def all_of_one_unit(self) -> int:
        """The count if all space is free."""
        most = min(self.headers - self.longest[0], self.data - self.longest[1]) + 1
        assert most < self.tags, "tags are the limit"
        return most


async def bench(dut) -> Buffered:
    return await Buffered(dut).start()


@cocotb.test()
async def what_is_owed_fits_the_buffer(dut):
    b = await bench(dut)
    for phase, (pause, payload) in enumerate([(0.0, 256), (0.3, 64), (0.05, 128)]):
        b.pause, b.ready, b.issue = pause, 1 - pause, 1 - pause
        b.completer.latency = [(5, 120), (200, 900), (40, 40)][phase]
        b.completer.max_payload = payload
        for h in range(b.h2c):
            for _ in range(min(80, 4 * b.headers)):
                address, count = random_read(b.seed, int(dut.MAX_READ.value))
                b.read(h, address, count)
        for f in range(b.fetchers):
            for _ in range(12):
                address = b.seed.randrange(1 << 40) & ~0x1F
                count = min(b.seed.randint(1, b.batch) * 32, 4096 - address % 4096)
                b.to_fetch[f].append((address, count))
        await run(b, lambda: b.is_done() and not any(b.to_fetch) and b.is_quiet, 60000)
        b.check()
    b.assert_no_errors()
    # The buffer is used, up to a longest read.
    used = b.most[0] > b.headers - 2 * b.longest[0], b.most[1] > b.data - 2 * b.longest[1]
    assert any(used), f"{b.most} units of {b.headers} and {b.data} are used at most"
    assert await b.count_of_one_unit() == b.all_of_one_unit


@cocotb.test()
async def space_comes_back_after_each_fault(dut):
    b = await bench(dut)
    b.completer.latency = (5, 60)
    for fault in BROKEN:
        for number in [0, 1]:
            base = b.seed.randrange(1 << 20) << 12
            reads = [(base + n * 256 + 37, 180) for n in range(8)]
            b.completer.fail(reads[b.seed.randrange(8)][0], fault, number)
            for read in reads:
                b.read(0, *read)
            await run(b, lambda: b.failed[0] is not None, 8000, f"{fault}, {number}")
            b.forget = 1
            await clocks(b, 2)
            b.failed[0] = None
            b.to_read[0].clear()
            b.completer.fail(None)
            b.expected[0] = b.consumers[0].data[:]
            # Whatever is still in the ring belongs to what was read before.
            await clocks(b, 200)
            b.clear = 1
            await clocks(b, 4 * b.timeout)
            b.expected[0] = bytearray()
            b.consumers[0].data.clear()
            count = await b.count_of_one_unit()
            assert count == b.all_of_one_unit, f"{fault}, {number}: {count} reads"


@cocotb.test()
async def space_of_a_late_answer_is_kept(dut):
    """A read that timed out keeps its space as long as its tag rests; others have the rest."""
    b = await bench(dut)
    b.completer.latency, b.completer.late_clocks = (5, 60), b.timeout * 3 // 2
    reads = [(0x100000 + n * 4096 + 37, 180) for n in range(4)]
    b.completer.fail(range(0x100000, 0x104000), Fault.LATE)
    for read in reads:
        b.read(0, *read)
    await run(b, lambda: b.failed[0] is not None)
    b.forget = 1
    await clocks(b, 2)
    b.failed[0] = None
    b.completer.fail(None)
    late = [answer for answer in b.completer.answers if bytes_of(answer.request) in reads]
    assert len(late) == 4
    b.expected[0].clear()
    # `clock` counts the late ones with those that are read meanwhile.
    b.most = [0, 0]
    while any(answer in b.completer.answers for answer in late):
        if not b.to_read[0]:
            b.read_some(0, 4)
        await clocks(b, 8)
    assert b.most[0] > b.headers - 2 * b.longest[0] or b.most[1] > b.data - 2 * b.longest[1]
    await b.finish()
    await clocks(b, 2 * b.timeout)
    assert await b.count_of_one_unit() == b.all_of_one_unit


@cocotb.test()
async def a_reset_frees_all_space(dut):
    b = await bench(dut)
    b.completer.latency = (900, 900)
    b.read_some(0, 40)
    await clocks(b, 300)
    assert b.completer.answers
    b.drop_answers()
    b = await bench(dut)
    b.completer.latency = (5, 60)
    await clocks(b, 300)
    assert await b.count_of_one_unit() == b.all_of_one_unit


@cocotb.test()
async def a_fetch_gets_the_next_place_of_a_full_buffer(dut):
    """Reads of data, which take each place at once, wait for it."""
    b = await bench(dut)
    if not b.fetchers:
        return
    await clocks(b, 300)
    b.issue = b.ready = b.wants = 1.0
    for n in range(300):
        b.read(0, n * 512, 512)
    for n in range(10):
        await clocks(b, 100 + n)
        begun, sent = len(b.accepted), len(b.fetches)
        b.to_fetch[0].append((n * 4096, 32 * b.batch))
        await run(b, lambda sent=sent: len(b.fetches) > sent, 500)
        # One in the clocks in which the fetch begins to ask, and one behind it.
        assert len(b.accepted) <= begun + 2
    assert b.to_read[0]
    await b.finish()


@pytest.mark.parametrize("data_bits", widths(64, 512))
def test_completion_space(data_bits):
    parameters = {"DATA_BITS": data_bits, "H2C": 2, "FETCHERS": 3, "TAGS": 64, "BATCH": 4}
    parameters |= {"MAX_READ": 512, "STAGING_BYTES": 16384, "TIMEOUT_CLOCKS": 1500}
    # Headers are the limit, or data.
    headers, data = (128, 77) if data_bits in (128, 512) else (36, 2048)
    parameters |= {"COMPLETION_HEADER_CREDITS": headers, "COMPLETION_DATA_CREDITS": data}
    simulate(__file__, "crosslane_reads", parameters)


def test_one_longest_read_at_a_time():
    parameters = {"DATA_BITS": 256, "H2C": 1, "FETCHERS": 0, "TAGS": 64, "MAX_READ": 256}
    parameters |= {"STAGING_BYTES": 16384, "TIMEOUT_CLOCKS": 1500, "COMPLETION_HEADER_CREDITS": 5}
    simulate(
        __file__, "crosslane_reads", parameters | {"COMPLETION_DATA_CREDITS": 17}, tests="owed"
    )
