# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_h2c on crosslane_reads: descriptors to reads, data in order, completion, faults."""

import itertools
from collections import deque

import cocotb
import pytest
from completer import Fault, bytes_of
from packed import CONSTANTS, pack, unpack
from read_bench import ReadBench, clocks, load, run
from simulate import ALL, SEED, simulate, widths

ERRORS = {value: name for name, value in CONSTANTS.items() if name.startswith("ERROR_")}
IDLE, RUNNING, STOPPED = (CONSTANTS[f"STATE_{name}"] for name in ("IDLE", "RUNNING", "STOPPED"))


class H2c(ReadBench):
    """An H2C channel: the descriptors that its host posts, and their results."""

    def __init__(self, dut, seed: int):
        super().__init__(dut, seed)
        self.line: deque[dict] = deque()
        self.offer = 1.0  # probability that a descriptor is offered
        self.accepted: list[int] = []  # clocks
        self.expected = bytearray()
        self.settings = {"run": 1, "status_enable": 1, "interrupt_enable": 1}
        self.request_clocks: list[int] = []
        self.pulse: dict[str, int] = {}
        self.drains = False  # whether the stream has no consumer
        self._shown = False

    async def start(self):
        self.set()
        return await super().start(
            "descriptor_valid", "descriptor", "reset_counters", "status_taken", "interrupt_taken",
            "draining",
        )  # fmt: skip

    def set(self, **values: int) -> None:
        """Sets registers of the channel."""
        self.settings.update(values)
        self.dut.settings.value = pack("channel_settings_t", **self.settings)

    def post(self, address: int, count: int, **fields: int) -> None:
        """Queues a descriptor."""
        self.line.append({"address": address, "bytes": count, **fields})
        self.expected += load(address, count)

    @property
    def readings(self):
        """The values of the registers."""
        return unpack("channel_readings_t", int(self.dut.readings.value))

    async def clock(self):
        dut = self.dut
        await super().clock()
        if dut.descriptor_valid.value and dut.descriptor_ready.value and self.line:
            self.line.popleft()
            self.accepted.append(self.now)
            self._shown = False
        if self.line and (self._shown or self.seed.random() < self.offer):
            self._shown = True
            dut.descriptor.value = pack("descriptor_t", **self.line[0])
            dut.descriptor_valid.value = 1
        else:
            self._shown = False
            dut.descriptor_valid.value = 0
        dut.draining.value = self.drains and int(dut.feed_available.value) >= 4

    def request_taken(self, tlp):
        self.request_clocks.append(self.now)
        super().request_taken(tlp)

    async def restart(self) -> None:
        """Restarts the channel."""
        self.line.clear()
        await self.clock()
        self.set(restart=1)
        self.cleared = 1
        await self.clock()
        self.set(restart=0)
        await clocks(self, 6)
        self.consumers[0].data.clear()
        self.expected.clear()

    def check(self) -> None:
        """Compares the data taken off the feed with the memory."""
        self.compare(0, bytes(self.expected))

    async def moves(self, *jobs: tuple[int, int]) -> None:
        """Posts descriptors, and waits until all are done."""
        for address, count in jobs:
            self.post(address, count)
        await self.all_done()

    async def all_done(self, limit: int = 20000) -> None:
        """Waits until all posted descriptors are done."""
        await run(
            self, lambda: len(self.consumers[0].data) >= len(self.expected) and not self.line, limit
        )
        await clocks(self, 4)
        self.check()

    async def stopped(self) -> tuple[str, int, int, int]:
        """Waits until the channel stops: error, address, completed, stopped_at."""
        await run(self, lambda: int(self.dut.stopped.value), 8000, "the stop")
        shown = self.readings
        assert shown.state == STOPPED
        return ERRORS[shown.error], shown.error_address, shown.completed, shown.stopped_at


async def bench(dut) -> H2c:
    """A bench after reset, when reads can begin."""
    h2c = await H2c(dut, SEED).start()
    await clocks(h2c, 280)
    return h2c


def reads_of(address: int, count: int, most: int) -> list[tuple[int, int]]:
    """The reads that a descriptor is cut into."""
    found, end = [], address + count
    while address < end:
        piece = min(end, address // most * most + most) - address
        found.append((address, piece))
        address += piece
    return found


@cocotb.test()
async def descriptors_are_cut_as_they_should(dut):
    b = await bench(dut)
    own = int(dut.MAX_READ.value)
    cases = [
        (0, 5, 0, 4096),  # payload register, Max_Read_Request_Size, oversize, longest
        (0, 0, 0, 128),
        (0, 2, 0, 512),
        (0, 2, 1, 4096),
        (256, 5, 0, 256),
        (300, 5, 0, 256),
        (1, 5, 0, 4),
        (8192, 1, 0, 256),
    ]
    for payload, field, oversize, most in cases:
        b.set(payload=payload, oversize=oversize)
        b.set_function(max_read_request=field)
        await clocks(b, 3)
        b.requests.clear()
        wanted = []
        for _ in range(8):
            address = b.seed.randrange(1 << 33)
            count = b.seed.choice([1, 3, 4, 64, 127, 128, 129, b.seed.randrange(1, 600)])
            if b.seed.random() < 0.5:
                address &= ~0x7F
            if most >= 512 and b.seed.random() < 0.4:
                count = b.seed.choice([4096, 4097, 8192, 2 * most])
            b.post(address, count)
            wanted += reads_of(address, count, min(most, own))
        await b.all_done()
        assert [bytes_of(tlp) for tlp in b.requests] == wanted
    # The remainder is exactly the longest read.
    b.requests.clear()
    b.set(payload=0)
    b.set_function(max_read_request=5)
    await clocks(b, 3)
    jobs = [(0x10000, 4096), (0x7000, 8192), (0x7FFF, 4097)]
    await b.moves(*jobs)
    wanted = [read for job in jobs for read in reads_of(*job, own)]
    assert [bytes_of(tlp) for tlp in b.requests] == wanted
    assert b.readings.completed == len(cases) * 8 + 3
    assert b.readings.bytes == len(b.expected)
    assert b.readings.state == CONSTANTS["STATE_RUNNING"]


# Codes of Max_Read_Request_Size and Max_Payload_Size, and the Read Completion Boundary.
LIMITS = list(itertools.product(range(6), range(4), [64, 128]))
# Limits that the bounded set always includes: remainders of 4096 B, in most and in fewest
# completions.
OUTERMOST = [(5, 3, 64), (5, 3, 128), (5, 0, 64), (0, 3, 128)]


@cocotb.test()
async def every_limit_goes_with_every_other(dut):
    """Lengths and offsets under all of them, many descriptors in flight, with pauses everywhere."""
    b = await bench(dut)
    b.completer.latency = (5, 150)
    own, done = int(dut.MAX_READ.value), 0
    for read_code, payload_code, boundary in (
        LIMITS if ALL else OUTERMOST + b.seed.sample(LIMITS, 5)
    ):
        b.set_function(max_read_request=read_code, max_payload=payload_code)
        b.completer.boundary, b.completer.max_payload = boundary, 128 << payload_code
        b.completer.split = b.seed.choice(["most", "least", "random"])
        b.ready, b.pause, b.offer = (b.seed.choice([0.5, 0.8, 1.0]) for _ in range(3))
        b.pause = 1 - b.pause
        b.consumers[0].rate, b.consumers[0].any_size = b.seed.choice([(1.0, False), (0.7, True)])
        await clocks(b, 3)
        b.requests.clear()
        most, wanted = min(128 << read_code, own), []
        sizes = [1, 2, 3, 4, 5, boundary - 1, boundary, boundary + 1, most, most + 1]
        # From an aligned address the remainder is exactly a page.
        jobs = [(b.seed.getrandbits(28) << 12, 4096), (b.seed.getrandbits(28) << 12, 8192)]
        for offset in [0, 1, 3, boundary - 1, 4095, b.seed.randrange(4096)]:
            count = b.seed.choice([*sizes, b.seed.randrange(1, 2 * most)])
            jobs.append(((b.seed.getrandbits(28) << 12) + offset, count))
        b.seed.shuffle(jobs)
        for address, count in jobs:
            b.post(address, count)
            wanted += reads_of(address, count, most)
        await b.all_done(60000)
        done += len(jobs)
        assert [bytes_of(tlp) for tlp in b.requests] == wanted
        assert (b.readings.completed, b.readings.state) == (done, CONSTANTS["STATE_RUNNING"])
    b.assert_no_errors()


@cocotb.test()
async def any_pauses_do_no_harm(dut):
    b = await bench(dut)
    b.completer.latency = (5, 150)
    b.ready, b.pause, b.offer = 0.6, 0.2, 0.7
    b.consumers[0].rate, b.consumers[0].any_size = 0.7, True
    for n in range(120):
        address = b.seed.randrange(1 << 40)
        b.post(address, b.seed.choice([1, 2, 5, 64, b.seed.randrange(1, 900)]), write_status=n % 3)
        if n % 3 == 2:
            b.line[-1]["write_status"] = 0
    await b.all_done(60000)
    shown = b.readings
    assert (shown.completed, shown.stopped_at, shown.in_flight) == (120, 0, 0)
    assert shown.tlps == len(b.requests)
    assert int(dut.due.value)


@cocotb.test()
async def the_first_read_is_early_and_small_ones_come_every_clock(dut):
    b = await bench(dut)
    b.completer.latency = (3, 3)
    await b.moves((0x1000, 64))
    # The clock in which the descriptor is taken, and the one in which the request is.
    assert b.request_clocks[0] - b.accepted[0] <= 2
    b.accepted.clear()
    b.request_clocks.clear()
    await b.moves(*((0x10000 + n * 64, 8) for n in range(300)))
    assert b.request_clocks[-1] - b.request_clocks[0] <= 299 * 1.02
    assert b.readings.completed == 301
    # Time stamps: from the first read to the last data.
    assert b.readings.first + 2 >= b.request_clocks[0] - 100
    assert abs(b.readings.last - b.last_beat) <= 3


@cocotb.test()
async def long_transfers_use_the_whole_datapath(dut):
    b = await bench(dut)
    # As many as there are tags and room for at once: only the data path limits them.
    size = 7 * min(int(dut.MAX_READ.value), 1024)
    b.set_function(max_read_request=3)
    for offset, payload in [(0, 256), (0, 64), (13, 256)]:
        b.completer.max_payload, b.completer.split = payload, "most"
        b.completer.latency = (200, 260)
        b.beats = b.first_beat = 0
        count = size - 7 * (offset > 0)
        await b.moves(*(((n + 1) * 0x10000 + offset, count) for n in range(8)))
        span = b.last_beat - b.first_beat + 1
        assert b.beats >= 0.99 * span, f"{b.beats} beats in {span} clocks"


@cocotb.test()
async def faults_take_effect_in_their_turn(dut):
    b = await bench(dut)
    b.completer.split = "least"
    names = {
        Fault.UNSUPPORTED: "ERROR_UNSUPPORTED_REQUEST",
        Fault.ABORT: "ERROR_COMPLETER_ABORT",
        Fault.POISON: "ERROR_POISONED",
        Fault.SILENCE: "ERROR_COMPLETION_TIMEOUT",
        Fault.BYTE_COUNT: "ERROR_MALFORMED_COMPLETION",
    }
    own = int(dut.MAX_READ.value)
    for fault, name in names.items():
        bad = b.seed.randrange(1, 6)
        size = 2 * own - 9
        starts = [n * 0x10000 + 0x10003 for n in range(8)]
        # The second read of descriptor `bad`, its second completion.
        at = starts[bad] // own * own + own
        b.completer.fail(at, fault, 1)
        for start in starts:
            b.post(start, size)
        moved = at + 64 - starts[bad]
        assert await b.stopped() == (name, at + 64, bad, moved)
        await clocks(b, 60 + 16 * own // b.lanes)
        assert bytes(b.consumers[0].data) == bytes(b.expected[: bad * size + moved])
        assert int(dut.due.value) == 3
        sent = len(b.requests)
        await clocks(b, 50)
        assert len(b.requests) == sent
        await b.restart()
        assert b.readings.completed == 0 and b.readings.state != STOPPED
        b.completer.fail(None)
        await b.moves((0x5001, 2000))
        assert b.readings.completed == 1
        await b.restart()


@cocotb.test()
async def bad_descriptors_wait_for_those_before(dut):
    b = await bench(dut)
    poisoned, bad = CONSTANTS["ERROR_POISONED"], CONSTANTS["ERROR_BAD_DESCRIPTOR"]
    cases = [
        ({"address": 0xABC1, "bytes": 0, "error": bad}, "ERROR_BAD_DESCRIPTOR"),
        ({"address": 0xABC0, "bytes": 4, "error": poisoned}, "ERROR_POISONED"),
    ]
    for fields, name in cases:
        b.post(0x4000, 700)
        b.post(0x8000, 3)
        b.line.append(fields)
        b.line.append({"address": 0x9000, "bytes": 64})
        assert await b.stopped() == (name, fields["address"], 2, 0)
        await clocks(b, 20 + 703 // b.lanes)
        b.check()
        await b.restart()
    b.set_function(bus_master=0)
    b.line.append({"address": 0x1230, "bytes": 64})
    assert await b.stopped() == ("ERROR_NOT_BUS_MASTER", 0x1230, 0, 0)
    assert not b.requests or bytes_of(b.requests[-1])[0] != 0x1230
    b.set_function(bus_master=1)
    await b.restart()


@cocotb.test()
async def some_things_stop_at_once(dut):
    b = await bench(dut)
    most_open = 0
    for change, name in [
        ({"link_up": 0}, "ERROR_LINK_DOWN"),
        ({"bus_master": 0}, "ERROR_NOT_BUS_MASTER"),
    ]:
        for _ in range(5):
            b.completer.latency = (5, 60)
            b.ready = 0.3
            for n in range(50):
                b.post(0x10000 * n + 5, b.seed.choice([20, 300, 3000]))
            sizes = [entry["bytes"] for entry in b.line]
            await clocks(b, b.seed.randrange(10, 120))
            b.set_function(**change)
            error, _, completed, moved = await b.stopped()
            assert error == name
            # It counts the reads that it has given up until they are answered.
            open_reads = len(b.completer.answers)
            assert b.readings.in_flight >= open_reads
            most_open = max(most_open, open_reads)
            b.set_function(**dict.fromkeys(change, 1))
            b.line.clear()
            b.ready = 1.0
            await run(b, lambda: b.is_quiet)
            await clocks(b, 600)
            assert b.readings.in_flight == 0
            # The registers agree with the bytes that the stream has got.
            count = sum(sizes[:completed]) + moved
            assert bytes(b.consumers[0].data) == bytes(b.expected[:count])
            await b.restart()
            await b.moves((0x3333, 1111))
            await b.restart()
    assert most_open > 0
    # A channel that does not run is not stopped when the link goes down.
    b.set(run=0)
    b.set_function(link_up=0)
    await clocks(b, 5)
    assert not int(dut.stopped.value)
    b.set_function(link_up=1)
    # One that has just been started is, and reads nothing for what is posted meanwhile.
    b.set(run=1)
    await clocks(b, 5)
    b.set_function(link_up=0)
    sent = len(b.requests)
    b.post(0x4444, 100)
    assert await b.stopped() == ("ERROR_LINK_DOWN", 0, 0, 0)
    b.set_function(link_up=1)
    await clocks(b, 20)
    assert len(b.requests) == sent
    await b.restart()
    # One that has done its work is stopped, without an address to blame.
    await b.moves((0x4444, 100))
    b.set_function(link_up=0)
    assert await b.stopped() == ("ERROR_LINK_DOWN", 0, 1, 0)
    b.set_function(link_up=1)
    await b.restart()


@cocotb.test()
async def restarts_at_any_moment(dut):
    b = await bench(dut)
    b.completer.latency = (5, 200)
    for _ in range(20):
        for _n in range(b.seed.randrange(1, 20)):
            b.post(b.seed.randrange(1 << 36), b.seed.choice([1, 70, 900]))
        await clocks(b, b.seed.randrange(150))
        await b.restart()
        count = b.seed.randrange(1, 2000)
        await b.moves((b.seed.randrange(1 << 36), count))
        assert (b.readings.completed, b.readings.stopped_at) == (1, 0)
        await b.restart()
    b.assert_no_errors()


@cocotb.test()
async def a_channel_that_does_not_run_goes_on_later(dut):
    b = await bench(dut)
    for n in range(20):
        b.post(0x10000 * n + 1, 900)
    for _ in range(20):
        await clocks(b, b.seed.randrange(1, 20))
        b.set(run=0)
        await clocks(b, 2)
        sent = len(b.requests)
        await clocks(b, b.seed.randrange(30))
        assert len(b.requests) <= sent + 1
        b.set(run=1)
    await b.all_done()
    assert b.readings.completed == 20


@cocotb.test()
async def the_staging_ring_is_filled_whole(dut):
    b = await bench(dut)
    size = int(dut.STAGING_BYTES.value)
    b.consumers[0].rate = 0
    b.post(0x40000, size + 5000)
    await run(b, lambda: b.readings.bytes >= size, 40000)
    await clocks(b, 300)
    assert sum(bytes_of(tlp)[1] for tlp in b.requests) == size
    b.consumers[0].rate = 1.0
    await b.all_done()


@cocotb.test()
async def what_is_drained_is_waited_for(dut):
    b = await bench(dut)
    b.drains = True

    async def drain() -> None:
        b.consumers[0].rate = 1.0
        await run(b, lambda: int(dut.feed_available.value) == 0)
        await clocks(b, 10)
        b.check()

    # All data have arrived, and none are taken: the channel is not idle until they are drained.
    b.consumers[0].rate = 0
    b.post(0x4003, 3000)
    await run(b, lambda: b.readings.completed == 1)
    b.set(run=0)
    await clocks(b, 50)
    assert b.readings.state == RUNNING
    await drain()
    assert b.readings.state == IDLE
    # It does not stop before that either: for a read that fails, a bad descriptor, or at once.
    bad = CONSTANTS["ERROR_BAD_DESCRIPTOR"]
    cases = [
        ({"address": 0x9000, "bytes": 64}, {}, "ERROR_COMPLETER_ABORT"),
        ({"address": 0x9000, "bytes": 0, "error": bad}, {}, "ERROR_BAD_DESCRIPTOR"),
        (None, {"link_up": 0}, "ERROR_LINK_DOWN"),
    ]
    b.completer.fail(0x9000, Fault.ABORT)
    for fields, change, name in cases:
        await b.restart()
        b.consumers[0].rate = 0
        b.set(run=1)
        b.post(0x4003, 3000)
        if fields:
            b.line.append(fields)
        await run(b, lambda: b.readings.completed == 1)
        b.set_function(**change)
        await clocks(b, 100)
        assert b.readings.state == RUNNING and not int(dut.stopped.value)
        await drain()
        assert (await b.stopped())[0] == name
        b.set_function(link_up=1)


@pytest.mark.parametrize("data_bits", widths(64, 512))
def test_h2c(data_bits):
    max_read = {64: 512, 128: 1024, 256: 4096, 512: 4096}[data_bits]
    parameters = {"DATA_BITS": data_bits, "MAX_READ": max_read, "TIMEOUT_CLOCKS": 6000}
    simulate(__file__, "h2c_reads", parameters)
