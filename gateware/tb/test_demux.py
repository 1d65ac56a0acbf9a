# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_demux: each TLP leaves at its output, whole, in order and at the full rate."""

import itertools
import os
import random

import cocotb
import pytest
from packed import CONSTANTS, unpack
from simulate import SEED, simulate
from tlp_stream import Bench, Pulses, Sink, Source, Tlp

READ, WRITE = CONSTANTS["MEMORY_READ"], CONSTANTS["MEMORY_WRITE"]
COMPLETION, COMPLETION_DATA = CONSTANTS["COMPLETION"], CONSTANTS["COMPLETION_DATA"]
NO_BAR = 7
HAS_LANES = int(os.environ.get("HAS_LANES", "1"))
HAS_WINDOW = int(os.environ.get("HAS_WINDOW", "1"))
HAS_PUSH = int(os.environ.get("HAS_PUSH", "1"))
WAYS = ("m_request", "m_lane", "m_window", "m_completion")


# Fields of a header that may hold anything, and their bits.
FIELDS = {
    "first_be": 4, "last_be": 4, "requester": 16, "tag": 10, "traffic_class": 3, "attributes": 3,
    "status": 3, "completer": 16,
}  # fmt: skip


def way_of(header):
    """The stream that a TLP must come out of; none if it is dropped."""
    if header["kind"] in (COMPLETION, COMPLETION_DATA):
        return "m_completion"
    if HAS_LANES and header["bar"] == 1 and header["kind"] == WRITE:
        return "m_lane"
    if HAS_WINDOW and header["bar"] == 2:
        return "m_window"
    if HAS_PUSH and header["bar"] == 4 and header["kind"] == WRITE:
        return "line"
    if header["kind"] == WRITE and header["poisoned"]:
        return None
    return "m_request"


def random_tlp(seed, poison=0.1):
    kind = seed.choice([READ, WRITE, WRITE, COMPLETION, COMPLETION_DATA, COMPLETION_DATA])
    length = 0 if kind == COMPLETION else seed.choice([1, 2, 3, 4, 7, 8, 16, 31, 64])
    header = {"kind": kind, "address": seed.getrandbits(62) << 2, "length_dw": length}
    for name, bits in FIELDS.items():
        header[name] = seed.getrandbits(bits)
    header |= {
        "poisoned": int(seed.random() < poison),
        "byte_count": seed.randrange(1, 4097),
        "bar": seed.choice([0, 1, 2, 4, NO_BAR]),
    }
    if header["bar"] == 4 and kind == WRITE and seed.random() < 0.6:
        header |= {"address": seed.getrandbits(58) << 6, "length_dw": 16}
        header |= {"first_be": 15, "last_be": 15}
        length = 16
    has_data = kind in (WRITE, COMPLETION_DATA)
    return Tlp(header, seed.randbytes(4 * length) if has_data else b"")


class Lines:
    """Records the writes to the push aperture that come out."""

    def __init__(self, dut, seed, held):
        self.dut, self.seed, self.held = dut, seed, held
        self.found = []  # clock, and what came out

    def drive(self):
        self.dut.access_held.value = int(self.seed.random() < self.held)

    def sample(self, clock):
        line = unpack("line_write_t", self.dut.line_write.value)
        if line.valid:
            self.found.append((clock, line.number, line.whole, line.data if line.whole else None))


def line_of(tlp):
    """The line that a write to the push aperture is for, and its data if it is whole."""
    h = tlp.header
    is_whole = h["length_dw"] == 16 and h["address"] % 64 == 0 and not h["poisoned"]
    is_whole = is_whole and h["first_be"] == h["last_be"] == 15
    data = int.from_bytes(tlp.payload, "little") if is_whole else None
    return h["address"] // 64 % 64, int(is_whole), data


async def pass_all(dut, seed, tlps, pause_in, pause_out):
    """Sends TLPs through and checks the outputs."""
    source = Source(dut, "s_rx", seed, pause_in)
    sinks = {way: Sink(dut, way, seed, pause_out) for way in WAYS}
    lines = Lines(dut, seed, pause_out)
    bench = Bench(dut, [source, *sinks.values(), lines])
    await bench.reset()
    poison = Pulses(dut, "poisoned_write")
    for tlp in tlps:
        source.send(tlp)
    wanted = {way: [tlp for tlp in tlps if way_of(tlp.header) == way] for way in WAYS}
    await bench.until(lambda: len(source.sent) == len(tlps), 40000)
    await bench.step(200 if pause_out else 3)
    taken = []
    for way in WAYS:
        found = sinks[way].tlps
        pairs = [[(t.header, t.payload) for t in tlps] for tlps in (found, wanted[way])]
        assert pairs[0] == pairs[1], way
        taken += [(t.first_clock, t.last_clock) for t in found]
    found = [rest for _, *rest in lines.found]
    assert found == [list(line_of(tlp)) for tlp in tlps if way_of(tlp.header) == "line"]
    # A clock behind the last beat's register.
    taken += [(clock - 1, clock - 1) for clock, *_ in lines.found]
    # One at a time, none before the one ahead of it.
    taken.sort()
    assert all(before[1] < after[0] for before, after in itertools.pairwise(taken))
    assert len(taken) == sum(way_of(tlp.header) is not None for tlp in tlps)
    poisoned = sum(t.header["poisoned"] for t in tlps if t.header["kind"] == WRITE)
    assert poison.count == poisoned
    return source, taken


@cocotb.test()
async def each_goes_its_way(dut):
    seed = random.Random(SEED)
    tlps = [random_tlp(seed) for _ in range(400)]
    await pass_all(dut, seed, tlps, 0.3, 0.4)
    assert {way_of(t.header) for t in tlps} >= {None, "m_request", "m_completion"}


@cocotb.test()
async def at_the_full_rate(dut):
    """A beat each clock, in any sequence; a beat comes out the clock after it came in."""
    seed = random.Random(2)
    tlps = [random_tlp(seed, poison=0.0) for _ in range(300)]
    source, taken = await pass_all(dut, seed, tlps, 0.0, 0.0)
    beats = sum(len(tlp.beats(source.data_bits)) for tlp in tlps)
    clocks = source.sent[-1].last_clock - source.sent[0].first_clock + 1
    assert clocks == beats
    assert [t.last_clock + 1 for t in source.sent] == [last for _, last in taken]


@cocotb.test()
async def what_is_not_taken_holds_up_what_is_behind(dut):
    seed = random.Random(3)
    source = Source(dut, "s_rx", seed)
    sinks = {way: Sink(dut, way, seed) for way in WAYS}
    lines = Lines(dut, seed, 1.0)
    bench = Bench(dut, [source, *sinks.values(), lines])
    await bench.reset()
    header = {"kind": WRITE, "bar": 0, "length_dw": 1, "first_be": 15}
    sinks["m_request"].pause = 1.0
    source.send(Tlp(header, b"held"))
    source.send(Tlp({"kind": COMPLETION, "byte_count": 4}))
    await bench.step(30)
    assert not sinks["m_completion"].tlps and len(source.sent) == 1
    sinks["m_request"].pause = 0.0
    await bench.step(4)
    assert len(sinks["m_completion"].tlps) == 1 and len(sinks["m_request"].tlps) == 1
    if not HAS_PUSH:
        return
    # A line waits for the register access before it.
    header |= {"bar": 4, "length_dw": 16, "last_be": 15}
    source.send(Tlp(header, seed.randbytes(64)))
    source.send(Tlp({"kind": COMPLETION, "byte_count": 4}))
    await bench.step(30)
    assert len(sinks["m_completion"].tlps) == 1 and not lines.found
    lines.held = 0.0
    await bench.step(30)
    assert len(sinks["m_completion"].tlps) == 2 and len(lines.found) == 1


CASES = [(64, 1, 1, 1), (256, 1, 0, 0), (512, 1, 1, 1), (128, 0, 0, 1), (256, 1, 0, 1)]


@pytest.mark.parametrize("data_bits,lanes,window,push", CASES)
def test_demux(data_bits, lanes, window, push):
    parameters = {"DATA_BITS": data_bits, "HAS_LANES": lanes, "HAS_WINDOW": window}
    parameters["HAS_PUSH"] = push
    simulate(__file__, "crosslane_demux", parameters)
