# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_demux: each TLP leaves at its output, whole, in order and at the full rate."""

import itertools
import os
import random

import cocotb
import pytest
from packed import CONSTANTS
from simulate import SEED, simulate
from tlp_stream import Bench, Pulses, Sink, Source, Tlp

READ, WRITE = CONSTANTS["MEMORY_READ"], CONSTANTS["MEMORY_WRITE"]
COMPLETION, COMPLETION_DATA = CONSTANTS["COMPLETION"], CONSTANTS["COMPLETION_DATA"]
NO_BAR = 7
HAS_LANES = int(os.environ.get("HAS_LANES", "1"))
HAS_WINDOW = int(os.environ.get("HAS_WINDOW", "1"))
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
        "bar": seed.choice([0, 1, 2, NO_BAR]),
    }
    has_data = kind in (WRITE, COMPLETION_DATA)
    return Tlp(header, seed.randbytes(4 * length) if has_data else b"")


async def pass_all(dut, seed, tlps, pause_in, pause_out):
    """Sends TLPs through and checks the outputs."""
    source = Source(dut, "s_rx", seed, pause_in)
    sinks = {way: Sink(dut, way, seed, pause_out) for way in WAYS}
    bench = Bench(dut, [source, *sinks.values()])
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
    # One at a time, none before the one ahead of it.
    taken.sort()
    assert all(before[1] < after[0] for before, after in itertools.pairwise(taken))
    poisoned = sum(t.header["poisoned"] for t in tlps if t.header["kind"] == WRITE)
    assert poison.count == poisoned
    return source, sinks, bench


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
    source, sinks, _ = await pass_all(dut, seed, tlps, 0.0, 0.0)
    beats = sum(len(tlp.beats(source.data_bits)) for tlp in tlps)
    clocks = source.sent[-1].last_clock - source.sent[0].first_clock + 1
    assert clocks == beats
    outs = sorted(t.first_clock for sink in sinks.values() for t in sink.tlps)
    assert [t.first_clock + 1 for t in source.sent] == outs


@cocotb.test()
async def what_is_not_taken_holds_up_what_is_behind(dut):
    seed = random.Random(3)
    source = Source(dut, "s_rx", seed)
    sinks = {way: Sink(dut, way, seed) for way in WAYS}
    bench = Bench(dut, [source, *sinks.values()])
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


CASES = [(64, 1, 1), (256, 1, 0), (512, 1, 1), (128, 0, 0)]


@pytest.mark.parametrize("data_bits,lanes,window", CASES)
def test_demux(data_bits, lanes, window):
    parameters = {"DATA_BITS": data_bits, "HAS_LANES": lanes, "HAS_WINDOW": window}
    simulate(__file__, "crosslane_demux", parameters)
