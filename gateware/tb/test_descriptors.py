# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_descriptors: from ring, table and command port to the channel, in order and once."""

import os
import random
import struct
from collections import deque

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from packed import CONSTANTS, pack, unpack
from simulate import simulate
from tlp_stream import reset

BATCH = 8
TABLE_ENTRIES = 64
RING = 0x12_3456_7000
TABLE_READ_CLOCKS = 2
HAS_PUSH = int(os.environ.get("HAS_PUSH", "1"))
INLINE_BYTES = 48
# Clocks from a write to the line until its descriptor is offered.
LINE_CLOCKS = 3


class Bench:
    """Host, memory and channel around the module; `clock` runs one clock."""

    def __init__(self, dut, seed):
        self.dut = dut
        self.random = random.Random(seed)
        self.settings = {"run": 1, "source": CONSTANTS["SOURCE_RING"], "ring": RING}
        self.settings |= {"ring_entries": 32}
        self.function = {"max_read_request": 2, "bus_master": 1}
        self.posted = deque()  # posted by the host and not taken by the channel
        self.taken = []
        self.fetches = deque()  # (address, descriptors, clocks until they come)
        self.entries = {}  # ring memory
        self.table = {}
        self.table_pipe = deque([None] * (TABLE_READ_CLOCKS - 1))
        self.now = 0
        self.completed = 0
        self.eager = 0.7  # probability that the channel takes one
        self.fetch_clocks = 30
        self.fail_next = False
        self.asked = 0
        self.pushed = []  # number of the descriptor, its data if they are in the line
        self.line = None  # what is written to the line in this clock
        self.dropped = 0

    async def start(self):
        dut = self.dut
        for name in ["stopped", "reset_counters", "table_entry", "table_whole", "fetch_ready",
                     "fetched_valid", "fetched_data", "fetch_failed", "fetch_error",
                     "fetch_error_address", "command_valid", "command_descriptor",
                     "descriptor_ready", "completed", "line_valid", "line_write"]:  # fmt: skip
            getattr(dut, name).value = 0
        self.apply()
        await reset(dut, 1)
        return self

    def apply(self, **pulses):
        """Puts the settings on the port."""
        self.dut.settings.value = pack("channel_settings_t", **self.settings, **pulses)
        self.dut.function_i.value = pack("function_t", **self.function)

    def post(self, count):
        """Writes descriptors and rings the doorbell."""
        for _ in range(count):
            number = self.settings.get("doorbell", 0)
            words = [self.random.getrandbits(32) for _ in range(5)]
            words[4] = self.random.getrandbits(16)
            entry = (words[0] | words[1] << 32, words[2] | words[3] << 32, words[4], number % 8)
            if self.settings["source"] == CONSTANTS["SOURCE_RING"]:
                place = number % self.settings["ring_entries"]
                self.entries[RING + 32 * place] = struct.pack("<QQII8x", *entry)
            else:
                self.table[number % TABLE_ENTRIES] = (entry[0] | entry[2] << 64 | entry[3] << 96, 1)
                entry = (entry[0], 0, entry[2], entry[3])
            self.posted.append(entry)
            self.settings["doorbell"] = (number + 1) & 0xFFFFFFFF
        self.apply()

    def push(self, data=None, number=0, whole=1):
        """Writes the next descriptor into the ring, and its line, whose number may be wrong."""
        words = [self.random.getrandbits(32) for _ in range(4)]
        count = len(data) if data else self.random.getrandbits(16)
        entry = (words[0] | words[1] << 32, words[2] | words[3] << 32, count, words[0] % 8)
        doorbell = self.settings.get("doorbell", 0)
        place = doorbell % self.settings["ring_entries"]
        self.entries[RING + 32 * place] = struct.pack("<QQII8x", *entry)
        control = entry[3] | (8 if data else 0) | words[1] % 16 << 4 | count << 8
        posted = (doorbell + 1 + number) & 0xFFFFFFFF
        line = struct.pack("<IIQ", posted, control, entry[0]) + (data or b"").ljust(48, b"\xa5")
        line = int.from_bytes(line, "little")
        self.dut.line_write.value = pack("line_write_t", valid=1, whole=whole, data=line)
        self.dut.line_valid.value = 1
        self.line = (entry, data, not number and whole)

    def take_line(self):
        """Samples what becomes of the line."""
        dut, (entry, data, is_good) = self.dut, self.line
        self.line = None
        dut.line_valid.value = 0
        dut.line_write.value = self.random.getrandbits(len(dut.line_write))
        assert int(dut.line_taken.value) == (HAS_PUSH and is_good)
        if not dut.line_taken.value:
            self.dropped += HAS_PUSH
            return
        # It is pushed if all before it are taken up.
        if len(self.taken) == len(self.posted):
            self.pushed.append((len(self.posted), data))
            self.asked += 1
            entry = (entry[0], 0, entry[2], entry[3])
        self.posted.append(entry)
        self.settings["doorbell"] = (self.settings.get("doorbell", 0) + 1) & 0xFFFFFFFF
        self.apply()

    async def clock(self):
        """Runs one clock: samples requests and outputs."""
        dut = self.dut
        await RisingEdge(dut.clk)
        self.now += 1
        if self.line:
            self.take_line()
        if dut.descriptor_valid.value and dut.descriptor_ready.value:
            number = len(self.taken)
            self.taken.append((self.now, unpack("descriptor_t", dut.descriptor.value)))
            data = dict(self.pushed).get(number)
            assert int(dut.descriptor_inline.value) == (data is not None)
            if data:
                shown = int(dut.inline_data.value).to_bytes(INLINE_BYTES, "little")
                assert shown[: len(data)] == data
        if dut.fetch_valid.value and dut.fetch_ready.value:
            self.take_fetch(int(dut.fetch_address.value), int(dut.fetch_bytes.value))
        if dut.fetched_valid.value and dut.fetched_ready.value:
            self.fetches[0][0].popleft()
            if not self.fetches[0][0]:
                self.fetches.popleft()
        if dut.fetch_forget.value:
            self.fetches.clear()
        coming = self.table_pipe.popleft()
        dut.table_entry.value, dut.table_whole.value = coming or (self.random.getrandbits(128), 0)
        entry = self.table.get(int(dut.table_index.value)) if dut.table_take.value else None
        self.table_pipe.append(entry)
        dut.descriptor_ready.value = self.random.random() < self.eager
        dut.fetch_ready.value = self.random.random() < 0.6
        self.offer_fetched()

    async def clocks(self, count):
        """Runs some clocks."""
        for _ in range(count):
            await self.clock()

    def take_fetch(self, address, count):
        assert count % 32 == 0 and 0 < count <= 32 * BATCH
        most = min(1024, 128 << self.function["max_read_request"])
        assert address // most == (address + count - 1) // most, "a fetch crosses its boundary"
        ahead = self.asked - len(self.taken)
        assert ahead + count // 32 <= 2 * BATCH, "more than two batches ahead"
        self.asked += count // 32
        places = deque(range(address, address + count, 32))
        clocks = self.now + self.random.randint(1, self.fetch_clocks)
        self.fetches.append((places, clocks))

    def offer_fetched(self):
        dut = self.dut
        dut.fetch_failed.value = 0
        valid = bool(self.fetches) and self.fetches[0][1] <= self.now
        if valid and self.fail_next:
            dut.fetch_failed.value = 1
            dut.fetch_error.value = CONSTANTS["ERROR_POISONED"]
            dut.fetch_error_address.value = self.fetches[0][0][0]
            self.fail_next = False
            self.fetches.clear()
            valid = False
        dut.fetched_valid.value = valid
        if valid:
            entry = self.entries[self.fetches[0][0][0]]
            dut.fetched_data.value = int.from_bytes(entry, "little")

    def check_taken(self):
        """Checks that the descriptors taken are those posted, in order."""
        for (_, d), (address, card, count, control) in zip(self.taken, self.posted, strict=True):
            assert (d.address, d.card, d.bytes) == (address, card, count)
            assert (d.send_interrupt, d.write_status, d.await_credit) == (
                control & 1,
                control >> 1 & 1,
                control >> 2 & 1,
            )
            assert d.error == (0 if count else CONSTANTS["ERROR_BAD_DESCRIPTOR"])


@cocotb.test()
async def a_ring_is_worked_off_in_order(dut):
    bench = await Bench(dut, 1).start()
    for clock in range(6000):
        bench.completed = len(bench.taken)
        dut.completed.value = bench.completed
        room = 32 - (bench.settings.get("doorbell", 0) - bench.completed)
        if room and bench.random.random() < 0.05:
            bench.post(bench.random.randint(1, room))
        if clock % 1000 == 0:
            bench.function["max_read_request"] = bench.random.randrange(4)
            bench.eager = bench.random.choice([0.1, 0.7, 1.0])
        await bench.clock()
    for _ in range(800):
        dut.completed.value = len(bench.taken)
        bench.eager = 1.0
        await bench.clock()
    assert len(bench.taken) > 500
    bench.check_taken()
    assert int(dut.fetched.value) == len(bench.taken)
    assert dut.posted.value == 0


@cocotb.test()
async def a_ring_gives_a_descriptor_each_clock(dut):
    bench = await Bench(dut, 2).start()
    bench.fetch_clocks = 1
    bench.eager = 0.0
    bench.post(2 * BATCH)
    await bench.clocks(60)
    bench.eager = 1.0
    await bench.clocks(40)
    bench.check_taken()
    clocks = [at for at, _ in bench.taken]
    assert clocks[-1] - clocks[0] == 2 * BATCH - 1


@cocotb.test()
async def a_table_gives_a_descriptor_each_clock_from_the_fourth_on(dut):
    bench = Bench(dut, 3)
    bench.settings["source"] = CONSTANTS["SOURCE_TABLE"]
    bench.eager = 1.0
    await bench.start()
    await bench.clocks(5)
    rung = bench.now
    bench.post(TABLE_ENTRIES)
    await bench.clocks(TABLE_ENTRIES + 20)
    bench.check_taken()
    clocks = [at for at, _ in bench.taken]
    assert clocks[-1] - clocks[0] == TABLE_ENTRIES - 1
    # Doorbell seen, entry requested, two clocks of table, queue.
    assert clocks[0] - rung <= 6, clocks[0] - rung


@cocotb.test()
async def an_entry_that_is_not_whole_has_no_bytes(dut):
    bench = Bench(dut, 4)
    bench.settings["source"] = CONSTANTS["SOURCE_TABLE"]
    await bench.start()
    bench.post(3)
    bench.table[1] = (bench.table[1][0], 0)
    await bench.clocks(40)
    bad = CONSTANTS["ERROR_BAD_DESCRIPTOR"]
    assert [d.bytes == 0 for _, d in bench.taken] == [False, True, False]
    assert [d.error for _, d in bench.taken] == [0, bad, 0]


@cocotb.test()
async def one_without_bytes_is_a_bad_descriptor(dut):
    bench = await Bench(dut, 13).start()
    bench.post(3)
    address, card, _, control = bench.posted[1]
    bench.posted[1] = (address, card, 0, control)
    bench.entries[RING + 32] = struct.pack("<QQII8x", *bench.posted[1])
    await bench.clocks(200)
    assert len(bench.taken) == 3
    bench.check_taken()


async def faults(bench, clocks=400):
    """The errors that have reached the channel after this time."""
    await bench.clocks(clocks)
    return [(d.error, d.address) for _, d in bench.taken if d.error]


@cocotb.test()
async def what_cannot_be_posted_is_a_fault_behind_what_was_fetched(dut):
    for settings, posted in [
        ({"ring_entries": 24}, 3),
        ({"ring_entries": 8}, 3),
        ({"ring_entries": 1 << 17}, 3),
        ({"ring_entries": 0}, 1),
        ({"ring_entries": 16}, 17),
        ({"source": 3}, 1),
    ]:
        bench = await Bench(dut, 5).start()
        bench.apply(restart=1)
        await bench.clock()
        bench.settings |= settings
        bench.settings["doorbell"] = posted
        bench.apply()
        assert await faults(bench) == [(CONSTANTS["ERROR_BAD_DESCRIPTOR"], RING)], settings
        # Nothing follows it, and a restart clears it.
        assert bench.taken[-1][1].error
        bench.apply(restart=1)
        await bench.clock()
        bench.taken.clear()
        bench.settings |= {"ring_entries": 32, "source": CONSTANTS["SOURCE_RING"], "doorbell": 0}
        bench.asked = 0
        bench.post(5)
        assert await faults(bench) == []
        bench.check_taken()


@cocotb.test()
async def a_fetch_that_fails_is_a_fault_in_its_turn(dut):
    bench = await Bench(dut, 6).start()
    bench.post(BATCH)
    await bench.clocks(100)
    assert len(bench.taken) == BATCH
    bench.fail_next = True
    bench.post(BATCH)
    place = RING + 32 * BATCH
    assert await faults(bench) == [(CONSTANTS["ERROR_POISONED"], place)]


@cocotb.test()
async def what_has_come_before_a_fault_is_worked_off(dut):
    for how in ["too many", "no master"]:
        bench = await Bench(dut, 9).start()
        bench.apply(restart=1)
        await bench.clock()
        bench.eager = 0.0
        bench.post(2 * BATCH)
        await bench.clocks(200)
        if how == "too many":
            bench.settings["doorbell"] = 200
            error, address = "ERROR_BAD_DESCRIPTOR", RING
        else:
            bench.function["bus_master"] = 0
            error, address = "ERROR_NOT_BUS_MASTER", RING + 32 * 2 * BATCH
            bench.post(1)
            bench.posted.pop()
        bench.apply()
        await bench.clocks(20)
        bench.eager = 1.0
        assert await faults(bench) == [(CONSTANTS[error], address)], how
        del bench.taken[-1]
        bench.check_taken()


@cocotb.test()
async def without_bus_master_a_fetch_is_a_fault(dut):
    bench = Bench(dut, 7)
    bench.function["bus_master"] = 0
    await bench.start()
    bench.post(2)
    assert await faults(bench) == [(CONSTANTS["ERROR_NOT_BUS_MASTER"], RING)]
    assert bench.asked == 0


@cocotb.test()
async def commands_reach_the_channel_and_are_counted_nowhere(dut):
    bench = Bench(dut, 8)
    bench.settings["source"] = CONSTANTS["SOURCE_COMMAND_PORT"]
    await bench.start()
    for number in range(20):
        fields = {"address": number * 64, "bytes": 64, "command": 1, "generated": number % 2}
        dut.command_descriptor.value = pack("descriptor_t", **fields)
        dut.command_valid.value = 1
        await bench.clock()
        while not dut.command_ready.value:
            await bench.clock()
        dut.command_valid.value = 0
    await bench.clocks(20)
    assert {d.address for _, d in bench.taken} == {64 * n for n in range(20)}
    assert int(dut.fetched.value) == 0


@cocotb.test()
async def lines_and_doorbells_are_worked_off_in_order(dut):
    bench = await Bench(dut, 10).start()
    for clock in range(8000):
        bench.completed = len(bench.taken)
        dut.completed.value = bench.completed
        room = 32 - (bench.settings.get("doorbell", 0) - bench.completed)
        how = bench.random.random()
        if room and how < 0.01:
            bench.post(bench.random.randint(1, room))
        elif room and how < 0.15:
            data = bench.random.randbytes(bench.random.randint(1, INLINE_BYTES))
            wrong = bench.random.choice([0] * 8 + [1, -1, 1 << 31])
            whole = int(bench.random.random() < 0.9)
            bench.push(bench.random.choice([None, data]), wrong, whole)
        if clock % 1000 == 0:
            bench.eager = bench.random.choice([0.1, 0.7, 1.0])
        await bench.clock()
    for _ in range(800):
        dut.completed.value = len(bench.taken)
        bench.eager = 1.0
        await bench.clock()
    bench.check_taken()
    assert int(dut.pushed.value) == len(bench.pushed)
    assert int(dut.pushes_dropped.value) == bench.dropped
    assert int(dut.fetched.value) == len(bench.taken) - len(bench.pushed)
    assert min(len(bench.pushed), bench.dropped) > 50 or not HAS_PUSH
    assert dut.posted.value == 0


@cocotb.test()
async def a_line_comes_sooner_than_an_entry_of_the_table(dut):
    bench = await Bench(dut, 11).start()
    bench.eager = 1.0
    await bench.clocks(5)
    bench.push()
    rung = bench.now
    await bench.clocks(20)
    found = [at - rung - 1 for at, _ in bench.taken]
    assert found == [LINE_CLOCKS] * HAS_PUSH


@cocotb.test()
async def a_line_that_has_no_place_is_a_bad_doorbell(dut):
    for settings in ({"ring_entries": 24}, {"ring_entries": 8}, {"ring_entries": 16}):
        bench = await Bench(dut, 12).start()
        bench.apply(restart=1)
        await bench.clock()
        bench.settings |= settings
        bench.apply()
        wanted = [(CONSTANTS["ERROR_BAD_DESCRIPTOR"], RING)]
        if settings["ring_entries"] == 16:
            bench.post(16)
            await bench.clocks(200)
        bench.push()
        assert await faults(bench) == wanted * HAS_PUSH, settings
        assert int(dut.pushed.value) == 0


@pytest.mark.parametrize("push", [0, 1])
def test_descriptors(push):
    parameters = {"HAS_COMMAND": 1, "BATCH": BATCH, "TABLE_ENTRIES": TABLE_ENTRIES}
    parameters |= {"MAX_READ": 1024, "HAS_PUSH": push, "HAS_INLINE": push}
    simulate(__file__, "crosslane_descriptors", parameters)
