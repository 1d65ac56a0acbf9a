# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_writer in packet mode: packets end descriptors, and records follow their data."""

import random
from collections import deque
from dataclasses import dataclass

import cocotb
import pytest
from packed import CONSTANTS
from simulate import SEED, simulate, widths
from writer_bench import C2H, STOPPED, Descriptor, WriterBench

RING = 0x4000_0040
ENTRIES = 16
DONE, BEGINS, ENDS, CUT = 1, 2, 4, 8


@dataclass
class Packet:
    """A packet that goes into the stream."""

    data: bytes
    user: int
    sent: int = 0


class PacketBench(WriterBench):
    """A writer in packet mode; packets go into its stream."""

    def __init__(self, dut):
        super().__init__(dut, C2H)
        self.stream_limit = 0
        self.packets: deque[Packet] = deque()
        self.settings |= {"packets": 1, "source": 1, "ring": RING, "ring_entries": ENTRIES}
        self.dut.posted.value = 0
        self.dut.cut.value = 0
        self.dut.s_tlast.value = 0
        self.dut.s_tuser.value = 0
        self.is_full = False  # beats of packets are full but for the last

    def send(self, *lengths):
        """Queues packets of these lengths, with random contents."""
        packets = [Packet(self.seed.randbytes(n), self.seed.randrange(1 << 16)) for n in lengths]
        self.packets += packets
        return packets

    async def step(self, **pulses):
        dut = self.dut
        if self.beat is None and self.packets and self.seed.random() < self.source:
            packet = self.packets[0]
            left = len(packet.data) - packet.sent
            most = min(self.lanes, left)
            count = most if self.is_full else self.seed.choice([most, self.seed.randint(1, most)])
            self.beat = packet.data[packet.sent : packet.sent + count]
            packet.sent += count
            dut.s_tlast.value = packet.sent == len(packet.data)
            dut.s_tuser.value = packet.user
            if packet.sent == len(packet.data):
                self.packets.popleft()
        dut.posted.value = bool(self.queue)
        await super().step(**pulses)

    async def cut(self):
        """Restarts the source of the stream: what is in it is gone."""
        self.packets.clear()
        self.beat = None
        self.dut.cut.value = 1
        await self.step()
        self.dut.cut.value = 0


async def begin(dut):
    """A bench after its reset."""
    return await PacketBench(dut).start()


def record_of(index, written, flags, user=0):
    """A completion record, as it is written: address and bytes."""
    word = flags | DONE | user << 16
    address = RING + index % ENTRIES * 32 + 24
    return address, written.to_bytes(4, "little") + word.to_bytes(4, "little")


def expected(bench, packets, descriptors):
    """The writes of these packets into these descriptors, with their records."""
    writes, index, most = [], 0, bench.most()
    places = iter(descriptors)
    for packet in packets:
        at = 0
        while at < len(packet.data):
            place = next(places)
            size = min(place.bytes, len(packet.data) - at)
            begun = at
            while at < begun + size:
                address = place.address + at - begun
                part = min(begun + size - at, most - address % most)
                writes.append((address, packet.data[at : at + part]))
                at += part
            ends = at == len(packet.data)
            flags = BEGINS * (begun == 0) | ENDS * ends
            writes.append(record_of(index, size, flags, packet.user if ends else 0))
            index += 1
    return writes, index


def places(seed, lengths, most):
    """Descriptors that just hold packets of these lengths."""
    found = []
    for left in lengths:
        while left > 0:
            size = seed.randint(1, most)
            found.append(Descriptor(seed.randrange(1 << 30), size, write_status=seed.randrange(2)))
            left -= size
    return found


@cocotb.test()
async def packets_end_their_descriptors(dut):
    bench = await begin(dut)
    for _ in range(12):
        seed = bench.seed
        bench.source, bench.sink, bench.supply = (seed.choice([0.3, 1.0]) for _ in range(3))
        bench.is_full = seed.random() < 0.5
        bench.settings["payload"] = seed.choice([0, 64, 128])
        most, most_place = seed.choice([40, 300, 1500]), seed.choice([64, 700])
        lengths = [seed.randint(1, most) for _ in range(seed.randint(1, 20))]
        await bench.restart()
        bench.tlps.clear()
        descriptors = places(seed, lengths, most_place)
        bench.post(*descriptors)
        packets = bench.send(*lengths)
        writes, count = expected(bench, packets, descriptors)
        before = bench.readings
        await bench.until(lambda n=count: bench.readings.completed == n)
        await bench.steps(10)
        assert [(t.address, t.data) for t in bench.tlps] == writes
        after = bench.readings
        assert after.packets - before.packets == len(lengths)
        assert after.bytes - before.bytes == sum(lengths)
        records = sum(1 for address, _ in writes if RING <= address < RING + ENTRIES * 32)
        assert after.tlps - before.tlps == len(writes) - records


@cocotb.test()
async def small_packets_cost_their_beats_and_one(dut):
    bench = await begin(dut)
    bench.is_full = True
    count = 60
    bench.post(*(Descriptor(0x10000 * n, 2048) for n in range(count)))
    bench.send(*[64] * count)
    await bench.until(lambda: bench.readings.completed == count)
    first, last = bench.tlps[20].first, bench.tlps[-1].last
    beats = sum(tlp.beats for tlp in bench.tlps[20:])
    # The stream gives a beat a clock; a record takes one more.
    assert beats == 50 * (64 // bench.lanes + 1)
    assert last - first + 1 == beats


@cocotb.test()
async def relaxed_ordering_is_not_for_records(dut):
    bench = await begin(dut)
    seen = []
    bench.port.took = lambda tlp: seen.append((tlp.length_dw, tlp.attributes))
    bench.settings["relaxed_ordering"] = bench.function["relaxed_ordering"] = 1
    bench.post(Descriptor(0x1000, 256))
    bench.send(40)
    await bench.completed(1)
    await bench.steps(5)
    assert seen == [(10, 2), (2, 0)]


@cocotb.test()
async def what_has_no_descriptor_is_dropped(dut):
    bench = await begin(dut)
    bench.settings["drop_packets"] = 1
    bench.send(100, 7, 300)
    await bench.until(lambda: not bench.packets and bench.beat is None)
    await bench.steps(60)
    assert bench.readings.packets_dropped == 3 and not bench.tlps
    # The rest of a packet that has outgrown its descriptors.
    bench.post(Descriptor(0x1000, 50), Descriptor(0x2000, 60))
    await bench.until(lambda: len(bench.taken_up) == 2 or len(bench.taken_up) == 1)
    first, long = bench.send(20, 500)
    await bench.completed(2)
    await bench.until(lambda: not bench.packets and bench.beat is None)
    await bench.steps(60)
    r = bench.readings
    assert (r.packets, r.packets_dropped, r.packets_truncated) == (1, 3, 1)
    bench.post(Descriptor(0x3000, 64))
    await bench.steps(20)
    (last,) = bench.send(30)
    await bench.completed(3)
    await bench.steps(5)
    assert [(t.address, t.data) for t in bench.tlps] == [
        (0x1000, first.data),
        record_of(0, 20, BEGINS | ENDS, first.user),
        (0x2000, long.data[:60]),
        record_of(1, 60, BEGINS),
        (0x3000, last.data),
        record_of(2, 30, BEGINS | ENDS, last.user),
    ]


@cocotb.test()
async def a_stream_that_is_emptied_cuts_its_packet(dut):
    for seed in range(12):
        random.seed(SEED + seed)
        bench = await begin(dut)
        bench.post(Descriptor(0x10000, 4096), Descriptor(0x20000, 4096))
        (long,) = bench.send(3000)
        await bench.steps(random.randint(20, 90))
        await bench.cut()
        await bench.steps(40)
        (last,) = bench.send(77)
        await bench.steps(60)
        writes = [(t.address, t.data) for t in bench.tlps]
        moved = sum(len(data) for address, data in writes if 0x10000 <= address < 0x20000)
        if (0x10000, last.data) in writes:
            # No TLP had begun.
            assert writes == [(0x10000, last.data), record_of(0, 77, BEGINS | ENDS, last.user)]
            continue
        # A wide datapath may have moved all of it by then.
        is_whole = moved == 3000
        record = (BEGINS | ENDS, long.user) if is_whole else (BEGINS | CUT,)
        assert record_of(0, moved, *record) in writes
        assert writes[-2:] == [
            (0x20000, last.data),
            record_of(1, 77, BEGINS | ENDS, last.user),
        ]
        assert bench.readings.packets_truncated == (not is_whole)


@cocotb.test()
async def a_restart_leaves_the_rest_of_the_stream(dut):
    """Each record tells the bytes before it, and packets that begin later are whole."""
    bench = await begin(dut)
    for _ in range(30):
        bench.settings["payload"] = 64
        bench.source = bench.seed.choice([0.4, 1.0])
        bench.post(*(Descriptor(0x10000 * (n + 1), 256) for n in range(12)))
        bench.send(*(bench.seed.randint(1, 600) for _ in range(3)))
        await bench.steps(bench.seed.randint(1, 120))
        await bench.restart()
        bench.tlps.clear()
        (last,) = bench.send(200)
        bench.post(*(Descriptor(0x100000 + 0x1000 * n, 256) for n in range(15)))
        whole = record_of(0, 200, BEGINS | ENDS, last.user)[1]
        await bench.until(lambda r=whole: any(t.data == r for t in bench.tlps))
        await bench.steps(10)
        moved, records = 0, 0
        # One that had begun before ends after it.
        for tlp in [tlp for tlp in bench.tlps if tlp.address >= 0x100000]:
            if not RING <= tlp.address < RING + ENTRIES * 32:
                assert tlp.address // 0x1000 * 0x1000 == 0x100000 + 0x1000 * records
                moved += len(tlp.data)
                continue
            assert tlp.address == RING + records * 32 + 24
            assert int.from_bytes(tlp.data[:4], "little") == moved
            moved, records = 0, records + 1
        assert bench.readings.completed == records
        await bench.restart()


@cocotb.test()
async def bad_descriptors_stop_the_channel(dut):
    empty = Descriptor(0x2000, 0, error=CONSTANTS["ERROR_BAD_DESCRIPTOR"])
    for bad, settings in (
        (Descriptor(0x2000, 64, end_of_packet=1), {}),
        (empty, {}),
        (Descriptor(0x2000, 64), {"source": 0}),
    ):
        bench = await begin(dut)
        bench.settings |= settings
        bench.post(bad)
        bench.send(10)
        r = await bench.stopped()
        assert (r.error, r.error_address) == (CONSTANTS["ERROR_BAD_DESCRIPTOR"], 0x2000)
        assert r.state == STOPPED and not bench.tlps


@cocotb.test()
async def a_lost_link_stops_before_the_record(dut):
    for clocks in range(0, 14):
        bench = await begin(dut)
        bench.post(Descriptor(0x1000, 256))
        bench.send(40)
        bench.port.may_withdraw = True
        await bench.until(lambda: bench.taken == 40)
        bench.sink = 0.0 if clocks % 2 else 1.0
        await bench.steps(clocks // 2)
        bench.function["link_up"] = 0
        bench.sink = 1.0
        await bench.steps(20)
        r = bench.readings
        is_complete = r.completed == 1
        assert r.state == STOPPED
        assert len(bench.tlps) == (2 if is_complete else r.stopped_at // 40)


@pytest.mark.parametrize("data_bits", widths(64, 256))
def test_write_packets(data_bits):
    parameters = {"DATA_BITS": data_bits, "MAX_WRITE": 1024, "PACKETS": 1}
    simulate(__file__, "writer_on_stream", parameters)
