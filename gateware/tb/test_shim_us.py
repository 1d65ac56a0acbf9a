# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_shim_us against cocotbext-pcie's models of the UltraScale+ hard block and the Gen3 one:
its four streams separately (every field, order, rate), and all of it below a root complex.
"""

import itertools
import random
from fractions import Fraction

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, with_timeout
from cocotbext.pcie.core import RootComplex
from packed import pack, unpack
from shim_us_bench import (
    CC_TLPS,
    CQ_TLPS,
    DATA_BITS,
    GEN3,
    INPUTS,
    LANES,
    LENGTHS,
    RATE_LENGTHS,
    RC_TLPS,
    RQ_TLPS,
    WRITE_NUMBER,
    HardBlock,
    Numbers,
    assert_matches,
    device_model,
    received_completion,
    received_request,
    sent_tlp,
    whole_tag,
)
from simulate import ALL, SEED, simulate
from tlp_stream import (
    COMPLETION,
    COMPLETION_DATA,
    MEMORY_READ,
    MEMORY_WRITE,
    Clocks,
    Pulses,
    Tlp,
    TlpSink,
    TlpSource,
    assert_same,
    clocks_between,
    memory_read,
    memory_write,
    until,
)


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.5])
async def what_comes_is_handed_on(dut, how_often):
    """Every field and every byte, from both streams, in the order of each."""
    seed = random.Random(SEED)
    block = await HardBlock(dut).reset()
    if GEN3:
        await block.send_reads()
    block.pause(seed, how_often)
    requests, completions = [], []
    for _ in range(80):
        if seed.random() < 0.5:
            tlp, expected = received_request(seed)
            block.cq.send_nowait(tlp.pack_us_cq())
            requests.append(expected)
        else:
            tlp, expected = received_completion(seed)
            block.rc.send_nowait(tlp.pack_us_rc())
            if expected is not None:
                completions.append(expected)
    await until(dut, lambda: len(block.rx.tlps) >= len(requests) + len(completions))
    await ClockCycles(dut.clk, 50)
    found = list(block.rx.tlps)
    found_requests = [tlp for tlp in found if tlp.is_request]
    if CQ_TLPS == 2:
        # A beat's flag stands for both TLPs in it: a neighbour may be poisoned as well.
        for one, other in zip(found_requests, requests, strict=True):
            assert one.poisoned >= other.poisoned
            one.header["poisoned"] = other.poisoned
    assert_same(found_requests, requests)
    assert_same([tlp for tlp in found if not tlp.is_request], completions)


@cocotb.test()
async def a_completion_passes_no_request_before_it(dut):
    """A completion that the hard block delivers at RC after requests at CQ comes out after them."""
    seed = random.Random(SEED + 5)
    block = await HardBlock(dut).reset()
    if GEN3:
        await block.send_reads()
    order = []
    for _ in range(30):
        block.rx.pause = seed.choice([0.0, 0.5, 0.9])
        for _ in range(seed.randrange(1, 4)):
            tlp, expected = received_request(seed)
            tlp.discontinue = False
            expected.header["poisoned"] = 0
            block.cq.send_nowait(tlp.pack_us_cq())
            order.append(expected)
        # Until CQ has taken the last beat (the source needs some clocks to begin).
        await ClockCycles(dut.clk, 3)
        await until(dut, lambda: block.cq.idle() and not dut.m_axis_cq_tvalid.value)
        tlp, expected = received_completion(seed, seed.choice(LENGTHS[:8]))
        tlp.discontinue = False
        expected.header["poisoned"] = int(tlp.ep)
        block.rc.send_nowait(tlp.pack_us_rc())
        order.append(expected)
        await ClockCycles(dut.clk, 3)
        await until(dut, lambda: block.rc.idle() and not dut.m_axis_rc_tvalid.value)
        # A later request may pass; here it waits.
        await until(dut, lambda: len(block.rx.tlps) == len(order))
    await until(dut, lambda: len(block.rx.tlps) >= len(order))
    assert_same(list(block.rx.tlps), order)


@cocotb.test()
@cocotb.parametrize(how_often=[0.0, 0.5], delay=[(1, 4), (30, 60)])
async def what_is_sent_arrives(dut, how_often, delay):
    """Every field and every byte, in the order of each stream; and no completion is on CC before
    the numbers of all writes before it have returned, except with relaxed ordering."""
    seed = random.Random(SEED + 2)
    block = await HardBlock(dut).reset()
    block.pause(seed, how_often)
    numbers = Numbers(block, seed, delay)
    sent = [sent_tlp(seed) for _ in range(80)]
    block.tx.queue.extend(sent)
    requests = [tlp for tlp in sent if tlp.is_request]
    completions, writes = [], 0
    for tlp in sent:
        writes += tlp.kind == MEMORY_WRITE
        if not tlp.is_request:
            completions.append((tlp, 0 if tlp.attributes & 2 else writes))
    found = []

    def collect():
        while not block.cc.empty():
            frame = block.cc.recv_nowait()
            _, ahead = completions[len(found)]
            # The shim sees a number in the clock in which it is at its port.
            assert numbers.writes_back >= ahead, f"completion {len(found)} passes a write"
            found.append(frame)
        return len(found) == len(completions) and len(numbers.taken) == len(requests)

    await until(dut, collect)
    for frame, tlp in zip(numbers.taken, requests, strict=True):
        assert_matches(frame, tlp)
    for frame, (tlp, _) in zip(found, completions, strict=True):
        assert_matches(frame, tlp)


def clocks_needed(descriptor, payload, tlps_per_beat):
    """Clocks that a TLP needs on the interface, and on the engine's stream."""
    segment = LANES // tlps_per_beat
    segments = -(-(descriptor + payload) // segment)
    return Fraction(segments * segment, LANES), max(1, -(-payload // LANES))


# Of each stream: double words of a descriptor, TLPs that may begin in a beat.
STREAMS = {"rq": (4, RQ_TLPS), "rc": (3, RC_TLPS), "cq": (4, CQ_TLPS), "cc": (3, CC_TLPS)}


def assert_rate(what, count, clocks, payload):
    """Checks for at least 99 % of the rate that interface and stream allow."""
    descriptor, tlps_per_beat = STREAMS[what]
    interface, stream = clocks_needed(descriptor, payload, tlps_per_beat)
    bound = count * max(interface, stream)
    print(f"RATE {what} {DATA_BITS} {tlps_per_beat} {payload * 4} {float(bound):.0f} {clocks}")
    assert clocks * 99 <= bound * 100 + 100, (
        f"{what} {payload} DW: {clocks} clocks, the interface needs {float(bound):.0f}"
    )


@cocotb.test()
async def the_rate_is_the_interfaces(dut):
    """Each stream separately, without a pause."""
    seed = random.Random(SEED + 3)
    block = await HardBlock(dut).reset()
    # With more clocks the numbers of the Gen3 block would be the bound of short requests.
    Numbers(block, seed, (1, 3) if GEN3 else (4, 8))
    for payload in RATE_LENGTHS:
        count = max(13, 150 // max(2, payload // LANES))
        for what in ["rc", "cq", "rq", "cc"]:
            block.rx.tlps.clear()
            tlps = []
            for _ in range(count):
                data = seed.randbytes(4 * payload)
                if what == "rc":
                    tlp, _ = received_completion(seed, payload)
                    block.rc.send_nowait(tlp.pack_us_rc())
                elif what == "cq":
                    block.receive_write(data)
                elif what == "rq":
                    tlps.append(memory_write(0x4000, data))
                else:
                    header = {"kind": COMPLETION_DATA, "length_dw": payload, "byte_count": 4}
                    tlps.append(Tlp(header, data))
            block.tx.queue.extend(tlps)
            if tlps:
                taken = []

                def collect(taken=taken):
                    while not block.cc.empty():
                        taken.append(block.cc.recv_nowait())
                    return block.tx.is_idle

                await until(dut, collect)
                await ClockCycles(dut.clk, 40)
            else:
                await until(dut, lambda n=count: len(block.rx.tlps) == n)
                tlps = block.rx.tlps
            clocks = tlps[-1].first_clock - tlps[0].first_clock
            assert_rate(what, count - 1, clocks, payload)


@cocotb.test()
async def requests_and_completions_take_turns(dut):
    """With both receive streams full neither waits for more than one TLP of the other."""
    seed = random.Random(SEED + 4)
    block = await HardBlock(dut).reset()
    for _ in range(50):
        block.receive_write(seed.randbytes(64))
        tlp, _ = received_completion(seed, 16)
        block.rc.send_nowait(tlp.pack_us_rc())
    await until(dut, lambda: len(block.rx.tlps) == 100)
    kinds = [tlp.is_request for tlp in block.rx.tlps][10:-10]
    longest = max(len(list(group)) for _, group in itertools.groupby(kinds))
    assert longest <= 4, f"{longest} of one stream in a row"


@cocotb.test()
async def latency(dut):
    """From the clock that takes the first beat to the one that offers the first beat."""
    seed = random.Random(SEED)
    block = await HardBlock(dut).reset()
    for what in ["cq", "rc", "rq", "cc"]:
        await ClockCycles(dut.clk, 20)
        begin, end = f"m_axis_{what}_tvalid", "m_rx_valid"
        if what == "cq":
            block.receive_write(seed.randbytes(4))
            # At 64 bits the descriptor takes two beats.
            expected = 3 + (LANES == 2)
        elif what == "rc":
            block.rc.send_nowait(received_completion(seed, 1)[0].pack_us_rc())
            expected = 3 + (LANES == 2)
        else:
            begin, end = "s_tx_valid", f"s_axis_{what}_tvalid"
            header = {"kind": COMPLETION, "byte_count": 4}
            block.tx.queue.append(memory_write(0x4000, bytes(4)) if what == "rq" else Tlp(header))
            # With straddling a short TLP waits a clock for another one.
            expected = 1 + ((RQ_TLPS if what == "rq" else CC_TLPS) == 2)
            if what == "cc":
                # It waits for the number of the write: the test returns the numbers.
                dut.pcie_rq_seq_num0.value = WRITE_NUMBER
                dut.pcie_rq_seq_num_vld0.value = 1
        clocks = await with_timeout(clocks_between(dut, begin, end), 1, "us")
        print(f"LATENCY {what} {DATA_BITS} {clocks}")
        assert clocks == expected, f"{what}: {clocks} clocks"


def room(dut):
    """The open classes."""
    return vars(unpack("room_t", int(dut.room.value)))


@cocotb.test()
async def room_follows_the_credits(dut):
    """A class is open while there are credits for a TLP of the largest size."""
    block = await HardBlock(dut).reset()
    # At first the hard block is asked for the limits: 0 is infinite.
    limits = {"ph": 8, "pd": 64, "nph": 4, "cplh": 0, "cpld": 0}

    async def show(values):
        for name, value in values.items():
            getattr(dut, f"cfg_fc_{name}").value = value
        await ClockCycles(dut.clk, 4)

    dut.user_lnk_up.value = 0
    await ClockCycles(dut.clk, 4)
    assert room(dut) == {"posted": 0, "nonposted": 0, "completion": 0}
    dut.user_lnk_up.value = 1
    await show(limits)
    assert int(dut.cfg_fc_sel.value) == 0b101
    await until(dut, lambda: int(dut.cfg_fc_sel.value) == 0b100, 40)
    await ClockCycles(dut.clk, 40)
    # MPS is 256 bytes: 16 credits of data.
    for ph, pd, nph, open_ in [
        (1, 16, 1, (1, 1, 1)),
        (1, 15, 1, (0, 1, 1)),
        (0, 64, 1, (0, 1, 1)),
        (8, 64, 0, (1, 0, 1)),
        (0, 0, 0, (0, 0, 1)),
    ]:
        await show({"ph": ph, "pd": pd, "nph": nph, "cplh": 0, "cpld": 0})
        assert tuple(room(dut)[n] for n in ("posted", "nonposted", "completion")) == open_
    # TLPs on their way to the link are counted.
    await show({"ph": 2, "pd": 32, "nph": 2})
    assert room(dut)["posted"] and room(dut)["nonposted"]
    block.tx.queue.append(memory_write(0x4000, bytes(64)))
    block.tx.queue.append(memory_write(0x5000, bytes(64)))
    await ClockCycles(dut.clk, 30)
    assert not room(dut)["posted"] and room(dut)["nonposted"]
    block.tx.queue.extend(memory_read(0x4000, 64, tag) for tag in range(2))
    await ClockCycles(dut.clk, 30)
    assert not room(dut)["nonposted"]
    Numbers(block, random.Random(1), (1, 2))
    await ClockCycles(dut.clk, 30)
    assert room(dut) == {"posted": 1, "nonposted": 1, "completion": 1}


@cocotb.test()
async def numbers_run_out(dut):
    """While no numbers return, 31 writes leave (the Gen3 block: 7), and no more; without Bus Master
    Enable a completion waits for none of them."""
    block = await HardBlock(dut).reset()
    block.tx.queue.extend(memory_write(0x4000, bytes(4)) for _ in range(40))
    await ClockCycles(dut.clk, 300)
    assert block.rq.count() == WRITE_NUMBER - 1
    dut.cfg_function_status.value = 3
    numbers = Numbers(block, random.Random(1), (1, 2))
    await until(dut, lambda: len(numbers.taken) == 40, 300)
    await ClockCycles(dut.clk, 20)
    numbers.delay = (100000, 100001)
    block.tx.queue.append(memory_write(0x4000, bytes(4)))
    block.tx.queue.append(Tlp({"kind": COMPLETION, "byte_count": 4}))
    await until(dut, lambda: block.cc.count() == 1, 100)


async def send_by_hand(dut, tlp, beats=None):
    """Puts the first `beats` beats of a TLP on the engine's stream."""
    size = DATA_BITS // 8
    count = max(1, -(-len(tlp.payload) // size))
    for beat in range(count if beats is None else beats):
        dut.s_tx_valid.value = 1
        dut.s_tx_first.value = beat == 0
        dut.s_tx_last.value = beat == count - 1
        dut.s_tx_header.value = pack("tlp_header_t", **tlp.header) if beat == 0 else 0
        piece = tlp.payload[beat * size : (beat + 1) * size]
        dut.s_tx_data.value = int.from_bytes(piece, "little")
        await RisingEdge(dut.clk)
        await until(dut, lambda: dut.s_tx_ready.value, 200)
    dut.s_tx_valid.value = 0


@cocotb.test()
@cocotb.parametrize(beats=[0, 1, 5], kind=[MEMORY_WRITE, COMPLETION_DATA])
async def function_level_reset(dut, beats, kind):
    """The engine is reset while it sends and receives: TLPs that had begun to leave are ended and
    marked, TLPs that arrive meanwhile are lost, and afterwards everything works."""
    seed = random.Random(SEED + beats)
    block = await HardBlock(dut, has_engine=False).reset()
    numbers = Numbers(block, seed, (1, 4))
    lanes = 16 * LANES
    for _ in range(3):
        block.receive_write(seed.randbytes(4 * lanes))
    header = {"kind": kind, "address": 0, "length_dw": lanes, "first_be": 15, "last_be": 15}
    long = Tlp(header, seed.randbytes(4 * lanes))
    if beats:
        await send_by_hand(dut, long, beats)
    else:
        await ClockCycles(dut.clk, 10)
    # A few received beats are taken, then none: an engine that hangs.
    for _ in range(seed.randrange(1, 20)):
        dut.m_rx_ready.value = 1
        await RisingEdge(dut.clk)
    dut.m_rx_ready.value = 0
    dut.cfg_flr_in_process.value = 1
    await until(dut, lambda: dut.engine_rst.value, 10)
    await until(dut, lambda: dut.cfg_flr_done.value, 400)
    assert dut.engine_rst.value
    dut.cfg_flr_in_process.value = 0
    await until(dut, lambda: not dut.engine_rst.value, 10)
    # Later TLPs are whole: the sink waits for a beginning.
    rx = TlpSink(dut, "m_rx", block.clocks, seed=SEED)
    await ClockCycles(dut.clk, 100)
    assert not dut.engine_rst.value, "a second reset"
    ended = numbers.taken if kind == MEMORY_WRITE else [block.cc.recv_nowait()] if beats else []
    assert len(ended) == (beats > 0)
    for frame in ended:
        assert frame.discontinue and len(frame.data) == lanes + (4 if kind == MEMORY_WRITE else 3)
    # Both directions again.
    rx.tlps.clear()
    rx.pause = 0.2
    tlp, expected = received_request(seed)
    tlp.discontinue = expected.header["poisoned"] = 0
    block.cq.send_nowait(tlp.pack_us_cq())
    numbers.taken.clear()
    write = memory_write(0x8000, seed.randbytes(100))
    await send_by_hand(dut, write)
    answer = Tlp({"kind": COMPLETION_DATA, "length_dw": 1, "byte_count": 4}, seed.randbytes(4))
    await send_by_hand(dut, answer)
    await until(dut, lambda: block.cc.count() and numbers.taken and rx.tlps, 400)
    assert_same(list(rx.tlps), [expected])
    assert_matches(numbers.taken[0], write)
    assert_matches(block.cc.recv_nowait(), answer)


@cocotb.test()
async def a_write_that_begins_in_a_reset_is_lost(dut):
    """A write of many beats that begins to arrive around the end of a reset comes whole or not at
    all, and the next one comes whole."""
    seed = random.Random(SEED)
    block = await HardBlock(dut).reset()
    done = Pulses(dut, "cfg_flr_done")
    found = []
    for delay in range(24):
        dut.cfg_flr_in_process.value = 1
        await ClockCycles(dut.clk, delay)
        writes = [seed.randbytes(32 * LANES) for _ in range(2)]
        block.receive_write(writes[0])
        await until(dut, lambda: done.count == len(found) + 1, 400)
        dut.cfg_flr_in_process.value = 0
        await ClockCycles(dut.clk, 40)
        block.receive_write(writes[1])
        await ClockCycles(dut.clk, 40)
        came = [tlp.payload for tlp in block.rx.tlps]
        assert came in (writes, writes[1:]), f"{delay} clocks after the beginning"
        found.append(len(came))
        block.rx.tlps.clear()
    assert found == sorted(found) and found[0] == 1 and found[-1] == 2


@cocotb.test()
@cocotb.parametrize(kind=[MEMORY_WRITE, MEMORY_READ], clocks=range(5))
async def a_reset_lets_a_descriptor_out_whole(dut, kind, clocks):
    """A descriptor takes two beats at 64 bits: no reset takes effect between them."""
    seed = random.Random(SEED + clocks)
    block = await HardBlock(dut, has_engine=False).reset()
    numbers = Numbers(block, seed, (1, 4))
    size = DATA_BITS // 8
    tlp = memory_write(0x1000, seed.randbytes(16 * size))
    if kind == MEMORY_READ:
        tlp = memory_read(0x1000, 64, 5)
    beats = max(1, len(tlp.payload) // size)
    at = 0
    dut.s_tx_header.value = pack("tlp_header_t", **tlp.header)
    dut.s_tx_valid.value, dut.s_tx_first.value, dut.s_tx_last.value = 1, 1, beats == 1
    for clock in range(100):
        if clock == clocks:
            dut.cfg_flr_in_process.value = 1
        if dut.cfg_flr_done.value:
            dut.cfg_flr_in_process.value = 0
        if dut.engine_rst.value:
            # The engine is reset: it offers nothing more.
            dut.s_tx_valid.value = 0
        await RisingEdge(dut.clk)
        if dut.s_tx_valid.value and dut.s_tx_ready.value:
            at += 1
            dut.s_tx_valid.value = at < beats
            dut.s_tx_first.value, dut.s_tx_last.value = 0, at == beats - 1
    assert len(numbers.taken) <= 1
    assert at == 0 or numbers.taken
    for frame in numbers.taken:
        assert len(frame.data) == 4 + len(tlp.payload) // 4
        assert frame.discontinue == (at < beats)
    numbers.taken.clear()
    write = memory_write(0x8000, seed.randbytes(100))
    await send_by_hand(dut, write)
    await until(dut, lambda: numbers.taken, 400)
    assert_matches(numbers.taken[0], write)


class Engine:
    """A memory behind BAR 0, and reads of host memory: an engine's behaviour, in Python."""

    def __init__(self, dut):
        self.dut = dut
        self.clocks = Clocks(dut.clk)
        self.memory = bytearray(65536)
        self.reads = {}  # tag: (beginning of its data, data, bytes outstanding)
        self.rx = TlpSink(dut, "m_rx", self.clocks, self.take, seed=SEED)
        self.tx = TlpSource(dut, "s_tx", self.clocks, seed=SEED + 1)

    def take(self, tlp):
        """Serves a TLP."""
        at = tlp.address & 0xFFFF
        if tlp.kind == MEMORY_WRITE:
            assert tlp.bar == 0
            for place in tlp.enabled:
                self.memory[at + place] = tlp.payload[place]
        elif tlp.kind == MEMORY_READ:
            assert tlp.bar == 0 and tlp.length_dw <= 64
            first = (tlp.first_be & -tlp.first_be).bit_length() - 1 if tlp.first_be else 0
            last = tlp.last_be or tlp.first_be
            end = tlp.length_dw * 4 - (4 - last.bit_length() if last else 3)
            fields = {n: tlp.header[n] for n in ("requester", "tag", "traffic_class", "attributes")}
            fields |= {"kind": COMPLETION_DATA, "address": (at + first) & 0x7F}
            fields |= {"length_dw": tlp.length_dw, "byte_count": max(1, end - first)}
            self.tx.queue.append(Tlp(fields, bytes(self.memory[at : at + 4 * tlp.length_dw])))
        else:
            assert tlp.status == 0 and not tlp.poisoned
            data, left = self.reads[tlp.tag]
            begin = tlp.address & 3
            part = tlp.payload[begin : begin + left]
            assert tlp.byte_count == left
            data.extend(part)
            self.reads[tlp.tag] = (data, left - len(part))


@cocotb.test()
async def below_a_root_complex(dut):
    """The whole model: enumeration, BAR accesses from the host, reads and writes of host memory,
    all at once; the model supplies the function's settings and the credits."""
    seed = random.Random(SEED + 7)
    for name, value in INPUTS.items():
        getattr(dut, name).value = value
    root = RootComplex()
    device = device_model(dut)
    root.make_port().connect(device)
    device.functions[0].configure_bar(0, 65536)
    root.max_payload_size = 1
    root.max_read_request_size = 2
    await with_timeout(FallingEdge(dut.rst), 10, "us")
    engine = Engine(dut)
    await ClockCycles(dut.clk, 50)
    settings = unpack("function_t", int(dut.function_o.value))
    assert settings.link_up and not settings.bus_master
    await with_timeout(root.enumerate(), 500, "us")
    found = root.find_device(device.functions[0].pcie_id)
    await found.enable_device()
    await found.set_master()
    await ClockCycles(dut.clk, 50)
    settings = unpack("function_t", int(dut.function_o.value))
    assert settings.bus_master and settings.extended_tags and settings.max_payload == 1
    assert settings.max_read_request == 2
    requester = int(device.functions[0].pcie_id)
    assert settings.routing_id == (0 if GEN3 else requester)
    assert settings.relaxed_ordering == device.functions[0].pcie_cap.enable_relaxed_ordering
    assert room(dut) == {"posted": 1, "nonposted": 1, "completion": 1}
    engine.rx.pause = 0.2

    region = root.mem_pool.alloc_region(65536)
    base = region.get_absolute_address(0)
    bar = found.bar_window[0]
    expected = bytearray(65536)
    region[0:65536] = bytes(expected)

    async def host():
        shadow = bytearray(4096)
        for _ in range(40):
            at, count = seed.randrange(3000), seed.randrange(1, 200)
            data = seed.randbytes(count)
            await bar.write(at, data)
            shadow[at : at + count] = data
            at, count = seed.randrange(3000), seed.randrange(1, 120)
            assert await bar.read(at, count) == bytes(shadow[at : at + count]), "BAR read"

    task = cocotb.start_soon(host())
    for _ in range(60):
        at = seed.randrange(200) * 256 + seed.randrange(128)
        data = seed.randbytes(seed.choice([1, 3, 4, 64, 128, 120]))
        engine.tx.queue.append(memory_write(base + at, data, requester=requester))
        expected[at : at + len(data)] = data
    await until(dut, lambda: engine.tx.is_idle)
    await ClockCycles(dut.clk, 300)
    assert region[0:65536] == bytes(expected), "host memory"
    wanted = {}
    for tag in map(whole_tag, range(32)):
        at = seed.randrange(64) * 1024 + seed.randrange(500)
        count = seed.choice([1, 4, 64, 512, 500])
        engine.reads[tag] = (bytearray(), count)
        wanted[tag] = bytes(expected[at : at + count])
        engine.tx.queue.append(memory_read(base + at, count, tag, requester=requester))
    await until(dut, lambda: all(left == 0 for _, left in engine.reads.values()))
    for tag, data in wanted.items():
        assert bytes(engine.reads[tag][0]) == data, f"read {tag}"
    await with_timeout(task, 500, "us")


CONFIGURATIONS = [
    (64, "1 1 1 1"),
    (128, "1 1 1 1"),
    (256, "1 1 1 1"),
    (256, "1 1 1 2"),
    (512, "1 1 1 1"),
    (512, "2 2 2 2"),
    (512, "2 2 2 4"),
]
GEN3_CONFIGURATIONS = [(width, per_beat) for width, per_beat in CONFIGURATIONS if width <= 256]
if not ALL:
    # The narrowest, one that straddles on receive, and one that straddles everywhere.
    CONFIGURATIONS = [CONFIGURATIONS[n] for n in (0, 3, 6)]
    # The one of the VC709.
    GEN3_CONFIGURATIONS = GEN3_CONFIGURATIONS[3:]


def run(data_bits, tlps_per_beat, **others):
    """Runs the tests with these parameters."""
    names = ("CQ_TLPS", "CC_TLPS", "RQ_TLPS", "RC_TLPS")
    parameters = dict(zip(names, map(int, tlps_per_beat.split()), strict=True))
    simulate(__file__, "crosslane_shim_us", {"DATA_BITS": data_bits, **parameters, **others})


@pytest.mark.parametrize(("data_bits", "tlps_per_beat"), CONFIGURATIONS)
def test_shim_us(data_bits, tlps_per_beat):
    run(data_bits, tlps_per_beat)


@pytest.mark.parametrize(("data_bits", "tlps_per_beat"), GEN3_CONFIGURATIONS)
def test_shim_us_gen3(data_bits, tlps_per_beat):
    run(data_bits, tlps_per_beat, GEN3=1)
