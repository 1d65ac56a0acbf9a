# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_writer: TLPs of any alignment at the full rate, faults in their turn, restart, credits.

docs/engine.md and crates/device/src/engine/write.rs specify its behaviour.
"""

import os

import cocotb
import pytest
from packed import CONSTANTS
from simulate import simulate, widths
from writer_bench import C2H, IDLE, PEER, RUNNING, STOPPED, Descriptor, WriterBench

KIND = int(os.environ.get("KIND", "1"))
BAD_DESCRIPTOR = CONSTANTS["ERROR_BAD_DESCRIPTOR"]
NOT_BUS_MASTER = CONSTANTS["ERROR_NOT_BUS_MASTER"]
LINK_DOWN = CONSTANTS["ERROR_LINK_DOWN"]
CARD_MEMORY = CONSTANTS["ERROR_CARD_MEMORY"]
COMPLETER_ABORT = CONSTANTS["ERROR_COMPLETER_ABORT"]
# Clocks from a descriptor on the port to the first beat on m_write.
LATENCY = 5


async def begin(dut):
    return await WriterBench(dut, KIND).start()


@cocotb.test()
async def any_address_and_length(dut):
    bench = await begin(dut)
    seed, done, at = bench.seed, 0, 0
    status = interrupts = 0
    for _ in range(16):
        bench.source, bench.sink, bench.supply = (seed.choice([0.3, 0.8, 1]) for _ in range(3))
        bench.function["max_payload"] = seed.randrange(6)
        bench.function["relaxed_ordering"] = seed.randrange(2)
        bench.settings["relaxed_ordering"] = seed.randrange(2)
        bench.settings["payload"] = seed.choice([0, 0, 4, 16, 100, 128, 256, 1000, 4096])
        bench.settings["oversize"] = int(seed.random() < 0.2)
        bench.settings["aperture"] = 0
        if KIND == PEER and seed.random() < 0.5:
            bench.settings["aperture"] = seed.choice([1, 4, 64, 1024, 5000, 1 << 20])
        await bench.steps(2)
        jobs = []
        for _ in range(seed.randrange(3, 12)):
            address = seed.getrandbits(seed.choice([20, 40, 64])) & ~0xFFF
            address += seed.choice([0, 0xFFF, 0xFFE, 0x800, seed.randrange(4096)])
            size = seed.choice([1, 2, 3, 4, 5, 64, seed.randrange(1, 300), seed.randrange(1, 3000)])
            size = min(size, 150 * bench.most())
            flags = {"write_status": seed.randrange(2), "send_interrupt": seed.randrange(2)}
            jobs.append(Descriptor(address, size, **flags))
        bench.post(*jobs)
        before = len(bench.tlps)
        done += len(jobs)
        await bench.completed(done)
        at = bench.check_tlps(jobs, bench.tlps[before:], at)
        status += any(job.write_status for job in jobs)
        interrupts += any(job.send_interrupt for job in jobs)
        r = bench.readings
        assert (r.bytes, r.tlps) == (at, len(bench.tlps))
        assert (r.first, r.last) == (bench.tlps[0].first, bench.tlps[-1].last + 1)
        assert r.stopped_at == 0 and r.state == RUNNING and r.error == 0
        assert r.sent == (at if KIND == PEER else 0)
    await bench.steps(3)
    assert bench.taken == at
    # Each is due at least once, and never more often than requested.
    assert status <= bench.dues["status_due"] <= done
    assert interrupts <= bench.dues["interrupt_due"] <= done
    assert bench.pulses == {"command_done": 0, "message_begun": 0}


async def rate(bench, job, count):
    """Clocks for `count` repetitions of a descriptor, from first beat to last, and the beats."""
    before = len(bench.tlps)
    await bench.steps(100)
    jobs = [Descriptor(**vars(job)) for _ in range(count)]
    bench.post(*jobs)
    await bench.completed(bench.readings.completed + count)
    tlps = bench.tlps[before:]
    clocks = tlps[-1].last - tlps[0].first + 1
    beats = sum(tlp.beats for tlp in tlps)
    assert beats == count * bench.beats_of(job)
    return clocks, beats


@cocotb.test()
async def full_rate(dut):
    bench = await begin(dut)
    for code, payload in enumerate([128, 256, 512, 1024]):
        bench.function["max_payload"] = code
        size = max(2048, 64 * bench.lanes)
        for address in (0x1_0000_0000, 0xFFFF_F000 + 0x7C, 0x2000 + bench.seed.randrange(4096)):
            clocks, beats = await rate(bench, Descriptor(address, size), 2)
            assert beats == clocks, f"{payload} B at {address:#x}: {beats} in {clocks}"
            if address % 4096 == 0:
                # Only data.
                assert 2 * size == clocks * bench.lanes
    # The writer causes no idle time.
    r = bench.readings
    assert r.idle_no_data + r.idle_link + r.idle_no_credit == 0


@cocotb.test()
async def one_small_tlp_each_clock(dut):
    bench = await begin(dut)
    for size in (4, 8, 16, 32, 64):
        clocks, beats = await rate(bench, Descriptor(0x1000, size), 60)
        assert beats == 60 * -(-size // bench.lanes)
        assert beats == clocks, f"{size} B: {beats} in {clocks}"
    clocks, beats = await rate(bench, Descriptor(0x1003, 1), 60)
    assert clocks == beats == 60


@cocotb.test()
async def first_beat(dut):
    bench = await begin(dut)
    await bench.steps(200)
    for size in (4, 64, 1000):
        job = Descriptor(0x1234, size, write_status=1)
        bench.post(job)
        count = len(bench.tlps)
        await bench.until(lambda count=count: len(bench.tlps) > count)
        assert bench.tlps[count].offered - job.offered == LATENCY
        await bench.steps(160)
    # A status block becomes due directly after the descriptor's last beat: registered once, for a
    # peer once more as it passes the queue of those that wait for credit.
    bench.takes_due = False
    bench.post(Descriptor(0x1234, 8, write_status=1))
    await bench.completed(bench.readings.completed + 1)
    assert bench.clock - 1 - bench.tlps[-1].last == (2 if KIND == PEER else 1)
    assert int(dut.due.value) == 0b10


@cocotb.test()
async def a_tlp_waits_for_all_of_its_data(dut):
    bench = await begin(dut)
    bench.stream_limit = 0
    bench.post(Descriptor(0x1000, 1000))
    for limit, count in ((255, 0), (256, 1), (511, 1), (512, 2), (999, 3), (1000, 4)):
        bench.stream_limit = limit
        await bench.steps(160)
        assert len(bench.tlps) == count, limit
        assert bench.readings.stopped_at == (256 * count if count < 4 else 0)
    r = bench.readings
    assert r.completed == 1
    assert r.idle_no_data > 100 and r.idle_no_descriptor > 100
    bench.check_tlps(bench.taken_up)


@cocotb.test()
async def run_cleared(dut):
    bench = await begin(dut)
    job = Descriptor(0x1000, 2048)
    bench.post(job, job)
    await bench.until(lambda: bench.port.open is not None and len(bench.tlps) == 2)
    bench.settings["run"] = 0
    bench.sink = 0.5
    await bench.step()
    assert bench.readings.state == RUNNING  # TLPs that are begun
    await bench.steps(200)
    r = bench.readings
    assert r.state == IDLE and 2 < len(bench.tlps) < 8
    assert r.stopped_at == sum(len(t.data) for t in bench.tlps)
    # It continues where it was.
    bench.settings["run"] = 1
    await bench.completed(2)
    bench.check_tlps([job, job])


@cocotb.test()
async def faults_in_their_turn(dut):
    bench = await begin(dut)
    good = Descriptor(0x5000, 700, write_status=1)
    faults = [
        (Descriptor(0xABCD_0000_1234, 0, error=BAD_DESCRIPTOR), BAD_DESCRIPTOR),
        (Descriptor(0xABCD_0000_1232, 8, error=BAD_DESCRIPTOR), BAD_DESCRIPTOR),
        (Descriptor(0x1000, 0, error=COMPLETER_ABORT), COMPLETER_ABORT),
        (Descriptor(0x1000, 1 << 31, error=LINK_DOWN), LINK_DOWN),
    ]
    at = 0
    for sink in (1.0, 0.3):
        for fault, error in faults:
            for ahead in (0, 2):
                bench.sink = sink
                before, dues = len(bench.tlps), dict(bench.dues)
                bench.post(*[good] * ahead, fault, good, good)
                r = await bench.stopped()
                assert (r.error, r.error_address) == (error, fault.address)
                assert (r.completed, r.stopped_at) == (ahead, 0)
                await bench.steps(30)
                at = bench.check_tlps([good] * ahead, bench.tlps[before:], at)
                assert bench.dues["status_due"] > dues["status_due"]
                assert bench.dues["interrupt_due"] == dues["interrupt_due"] + 1
                assert bench.queue == [good, good]
                await bench.restart()
                r = bench.readings
                assert (r.state, r.error, r.completed, r.error_address) == (IDLE, 0, 0, 0)
    assert bench.taken == at


@cocotb.test()
async def bus_master_is_clear(dut):
    bench = await begin(dut)
    # At the beginning of a descriptor.
    bench.function["bus_master"] = 0
    bench.post(Descriptor(0x1238, 64))
    r = await bench.stopped()
    assert (r.error, r.error_address, r.stopped_at) == (NOT_BUS_MASTER, 0x1238, 0)
    assert not bench.tlps
    await bench.restart()
    # In the middle: TLPs that have begun are sent, nothing else.
    for sink in (1.0, 0.4):
        bench.function["bus_master"] = 1
        bench.sink = sink
        before = len(bench.tlps)
        job = Descriptor(0x12_3456_7801, 100_000)
        bench.post(Descriptor(0x8000, 100), job)
        await bench.until(lambda before=before: len(bench.tlps) > before + 5)
        bench.function["bus_master"] = 0
        r = await bench.stopped()
        tlps = bench.tlps[before:]
        await bench.steps(100)
        assert len(bench.tlps) == before + len(tlps)
        moved = sum(len(t.data) for t in tlps) - 100
        assert (r.completed, r.stopped_at) == (1, moved)
        assert (r.error, r.error_address) == (NOT_BUS_MASTER, job.address + moved)
        assert [(t.address, len(t.data)) for t in tlps[1:]] == bench.plan(job)[: len(tlps) - 1]
        await bench.restart()


@cocotb.test()
async def feed_fails(dut):
    bench = await begin(dut)
    # The remaining data are sent, as far as they make whole TLPs.
    bench.stream_limit = 100 + 700
    job = Descriptor(0x1_2345_6000, 1000)
    bench.post(Descriptor(0x1000, 100), job)
    await bench.steps(200)
    assert len(bench.tlps) == 3 and bench.readings.state == RUNNING
    dut.feed_failed.value = 1
    r = await bench.stopped()
    assert (r.error, r.error_address) == (CARD_MEMORY, job.address + 512)
    assert (r.completed, r.stopped_at) == (1, 512)
    await bench.steps(20)
    assert len(bench.tlps) == 3 and bench.taken == 612
    dut.feed_failed.value = 0
    bench.stream_limit = None
    await bench.restart()
    bench.post(job)
    await bench.completed(1)
    bench.check_tlps([job], bench.tlps[3:], 612)


@cocotb.test()
async def link_goes_down(dut):
    bench = await begin(dut)
    # A channel that does not run is not stopped.
    bench.settings["run"] = 0
    bench.function["link_up"] = 0
    await bench.steps(10)
    bench.function["link_up"] = 1
    await bench.steps(10)
    assert bench.readings.state == IDLE
    # One that has just been started is, and writes nothing of what comes meanwhile.
    bench.settings["run"] = 1
    await bench.steps(5)
    bench.function["link_up"] = 0
    await bench.step()
    bench.post(Descriptor(0x1000, 100))
    await bench.steps(10)
    r = bench.readings
    assert (r.state, r.error, r.error_address) == (STOPPED, LINK_DOWN, 0)
    assert (r.completed, r.stopped_at, bench.tlps) == (0, 0, [])
    # In the middle of data, waiting for data, and with all done.
    for case in range(30):
        bench.function["link_up"] = 1
        await bench.restart(payload=(0, 8)[case % 2])
        bench.sink = 1.0
        before = len(bench.tlps)
        size = 600 if case % 3 else 5000
        job = Descriptor(0x7_0000_0000 + case, size)
        bench.post(job)
        if case % 3 == 2:
            await bench.completed(1)
        else:
            await bench.steps(case)
            # Small ones are offered and not taken.
            bench.sink = 0.0 if case % 2 else 1.0
            await bench.steps(5)
        bench.sink = 0.2
        bench.function["link_up"] = 0
        bench.port.may_withdraw = True
        await bench.stopped()
        bench.sink = 1.0
        await bench.steps(30)
        bench.port.may_withdraw = False
        tlps = bench.tlps[before:]
        r = bench.readings
        moved = sum(len(t.data) for t in tlps)
        assert r.error == LINK_DOWN
        assert r.completed * size + r.stopped_at == moved
        if r.completed == 0 and job.taken >= 0:
            assert r.error_address == job.address + moved
        assert [(t.address, len(t.data)) for t in tlps] == bench.plan(job)[: len(tlps)]
    assert bench.port.withdrawn > 3


@cocotb.test()
async def restart_at_any_moment(dut):
    bench = await begin(dut)
    seed = bench.seed
    middles = 0
    for case in range(72):
        bench.sink = seed.choice([0.2, 1.0])
        bench.supply = seed.choice([0.5, 1.0])
        bench.settings["payload"] = seed.choice([0, 16])
        await bench.steps(2)
        old = [
            Descriptor(0x1000_0000 + seed.randrange(4096), seed.choice([8, 900, 2000]))
            for _ in range(8)
        ]
        bench.post(*old)
        await bench.steps(seed.randrange(60))
        begun = bench.port.open
        middles += begun is not None
        count = len(bench.tlps)
        bench.port.may_withdraw = True
        await bench.step(restart=1)
        bench.queue.clear()
        bench.offers = False
        bench.settings["run"] = 1
        new = [Descriptor(0x2000_0000 + case * 8, seed.choice([4, 700])) for _ in range(2)]
        bench.taken_up.clear()
        bench.post(*new)
        await bench.completed(2)
        bench.port.may_withdraw = False
        tlps = bench.tlps[count:]
        # One more than had begun: the clock of the restart itself.
        stale = [t for t in tlps if t.address < 0x2000_0000]
        assert len(stale) <= 1 + (begun is not None)
        if begun is not None:
            assert stale and stale[0].tlp is begun
        expected = [part for job in new for part in bench.plan(job)]
        assert [(t.address, len(t.data)) for t in tlps[len(stale) :]] == expected
        r = bench.readings
        assert (r.completed, r.stopped_at, r.error) == (2, 0, 0)
        assert r.sent == (sum(job.bytes for job in new) if KIND == PEER else 0)
    assert middles > 10 and bench.port.withdrawn > 2


@cocotb.test()
async def what_ends_after_a_restart_counts_nowhere(dut):
    bench = await begin(dut)
    middles = 0
    for delay in range(3, 22):
        bench.takes_due = False
        bench.post(Descriptor(0x1000, 100, write_status=1))
        await bench.steps(delay)
        bench.port.may_withdraw = True
        bench.settings["run"] = 0
        await bench.step(restart=1)
        middles += bench.port.open is not None
        await bench.steps(20)
        bench.port.may_withdraw = False
        r = bench.readings
        assert (r.completed, r.stopped_at, r.sent, r.state) == (0, 0, 0, IDLE), delay
        assert not int(dut.due.value)
        bench.queue.clear()
        bench.offers = False
        bench.settings["run"] = 1
    assert middles > 0


@cocotb.test(skip=KIND != PEER)
async def a_window_is_used_whole(dut):
    bench = await begin(dut)
    for window in (512, 1024):
        await bench.restart(credit_window=window)
        bench.post(Descriptor(0x1000, 4096))
        await bench.steps(250)
        assert bench.readings.sent == window
        await bench.credit(256, 60)
        assert bench.readings.sent == window + 256
    # A receiver that reports more than was sent is believed.
    await bench.restart(credit_window=512)
    await bench.step(credit_written=1, credit=1024)
    bench.post(Descriptor(0x1000, 4096))
    await bench.steps(250)
    assert bench.readings.sent == 1024 + 512


@cocotb.test(skip=KIND != PEER)
async def link_goes_down_as_descriptors_complete(dut):
    bench = await begin(dut)
    sizes = [4 * n for n in range(1, 9)]
    for delay in range(12):
        bench.function["link_up"] = 1
        await bench.restart()
        bench.post(*[Descriptor(0x1000, size, await_credit=1) for size in sizes])
        await bench.steps(60)
        # One of them is complete in each clock from here on.
        await bench.credit(sum(sizes), delay)
        bench.function["link_up"] = 0
        await bench.steps(20)
        r = bench.readings
        assert r.error == LINK_DOWN
        # The complete descriptors count, and all bytes of the incomplete one.
        assert r.stopped_at == ([*sizes, 0])[r.completed]


@cocotb.test(skip=KIND != PEER)
async def the_window_is_never_exceeded(dut):
    bench = await begin(dut)
    seed = bench.seed
    for window in (0x400, 1000, 0x2000, 7):
        await bench.restart(credit_window=window, aperture=0x800)
        bench.tlps.clear()
        job = Descriptor(0x9_0000_0000 + 0x200, 6000 if window > 7 else 40)
        bench.post(job)
        credit = waited = 0
        while bench.readings.completed == 0:
            sent = sum(len(t.data) for t in bench.tlps)
            assert sent - credit <= window
            pulses = {}
            if seed.random() < 0.02 and credit < sent:
                credit = seed.randint(credit, sent)
                # An older count is ignored.
                pulses = {"credit_written": 1, "credit": credit}
            elif seed.random() < 0.02:
                pulses = {"credit_written": 1, "credit": (credit - seed.randrange(9)) % 2**32}
            await bench.step(**pulses)
            waited += 1
            assert waited < 20_000
            assert bench.readings.credit == credit
        bench.check_tlps([job], at=bench.taken - job.bytes)
        assert bench.readings.sent == job.bytes
        # All of its addresses are within the aperture of the first one.
        assert {t.address // 0x800 for t in bench.tlps} == {job.address // 0x800}
        assert bench.readings.idle_no_credit > 0
    # A window of 0 means no credits.
    await bench.restart(credit_window=0)
    bench.post(Descriptor(0x1000, 9000))
    await bench.completed(1)


@cocotb.test(skip=KIND != PEER)
async def credits_in_time_cost_nothing(dut):
    bench = await begin(dut)
    await bench.restart(credit_window=16 * bench.lanes + 512)
    await bench.steps(100)
    bench.post(Descriptor(0x10_0000, 100 * bench.lanes))
    while bench.readings.completed == 0:
        # The receiver takes at once, and reports it every eight clocks.
        sent = sum(len(t.data) for t in bench.tlps)
        pulses = {"credit_written": 1, "credit": sent} if bench.clock % 8 == 0 else {}
        await bench.step(**pulses)
        assert bench.clock < 2000
    assert bench.tlps[-1].last - bench.tlps[0].first + 1 == 100
    assert bench.readings.idle_no_credit == 0


@cocotb.test(skip=KIND != PEER)
async def completion_with_the_credit(dut):
    bench = await begin(dut)
    jobs = [
        Descriptor(0x1000, 100, await_credit=1, write_status=1),
        Descriptor(0x2000, 300),
        Descriptor(0x3000, 50, await_credit=1, send_interrupt=1),
        Descriptor(0, 0, error=BAD_DESCRIPTOR),
    ]
    bench.post(*jobs)
    await bench.until(lambda: len(bench.tlps) == 4)
    await bench.steps(10)
    assert (bench.readings.completed, bench.readings.stopped_at) == (0, 100)
    await bench.credit(99)
    assert bench.readings.completed == 0 and bench.dues["status_due"] == 0
    await bench.credit(100)
    # The next one needs no credit; the one after it does.
    assert (bench.readings.completed, bench.readings.stopped_at) == (2, 50)
    assert bench.dues == {"status_due": 1, "interrupt_due": 0}
    await bench.credit(449)
    assert bench.readings.completed == 2 and bench.readings.state == RUNNING
    await bench.credit(450)
    r = bench.readings
    assert (r.completed, r.state, r.error, r.stopped_at) == (3, STOPPED, BAD_DESCRIPTOR, 0)
    # At most 64 are open; a stop reports how much of the first was moved.
    await bench.restart()
    bench.post(*[Descriptor(0x1000, 8, await_credit=1) for _ in range(80)])
    await bench.steps(300)
    assert len(bench.taken_up) == 64
    await bench.credit(8 * 5 + 7, 40)
    assert bench.readings.completed == 5 and len(bench.taken_up) == 69
    bench.function["link_up"] = 0
    await bench.steps(10)
    r = bench.readings
    assert (r.completed, r.state, r.error, r.stopped_at) == (5, STOPPED, LINK_DOWN, 8)


@cocotb.test(skip=KIND != PEER)
async def commands_count_nowhere(dut):
    bench = await begin(dut)
    jobs = [
        Descriptor(0x1000, 600, command=1),
        Descriptor(0x2000, 64),
        Descriptor(0x3000, 600, command=1, generated=1),
        Descriptor(0x4000, 600, command=1, write_status=1, await_credit=1),
    ]
    bench.post(*jobs)
    seen = []
    while len(bench.tlps) < 10:
        await bench.step()
        if int(dut.feed_move.value) and int(dut.feed_take.value):
            seen += [int(dut.feed_generated.value)] * int(dut.feed_take_bytes.value)
        assert bench.clock < 2000
    await bench.steps(5)
    bench.check_tlps(jobs)
    r = bench.readings
    assert (r.completed, r.stopped_at, r.sent, r.bytes) == (1, 0, 1864, 1864)
    assert bench.pulses == {"command_done": 2, "message_begun": 1}
    assert bench.dues == {"status_due": 0, "interrupt_due": 0}
    assert sum(seen) == 600


@pytest.mark.parametrize(
    ("kind", "data_bits", "short_paths"),
    [
        *((C2H, bits, 1) for bits in widths(64, 512)),
        *((C2H, bits, 0) for bits in widths(128)),
        *((PEER, bits, 1) for bits in widths(256)),
    ],
)
def test_writer(kind, data_bits, short_paths):
    parameters = {
        "KIND": f"2'd{kind}",
        "DATA_BITS": data_bits,
        "MAX_WRITE": 1024,
        "SHORT_PATHS": short_paths,
    }
    simulate(__file__, "writer_on_stream", parameters, environment={"KIND": str(kind)})
