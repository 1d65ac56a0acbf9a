# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_card at full rate: clocks at its TLP streams, exact in simulated time."""

import os

import cocotb
import pytest
from card_bus import CARD, WIDTHS, CardBus
from engine_host import STATUS, STREAM_GENERATOR, Channel, Descriptor, pattern, set_user
from register_map import field as put
from simulate import simulate
from tlp_stream import COMPLETION_DATA

DATA_BITS = int(os.environ.get("DATA_BITS", "256"))
BYTES = DATA_BITS // 8
# Least number of beats of each transfer: the first and last ones carry no weight.
BEATS = 4096


async def started(dut, max_payload=1, max_read_request=2):
    """A card, with a host that never pauses."""
    bus = CardBus(dut, 1)
    bus.completer.in_order(60)
    await bus.start()
    bus.set_function(max_payload=max_payload, max_read_request=max_read_request)
    value = put("user.interconnect", c2h_source=STREAM_GENERATOR, peer_source=STREAM_GENERATOR)
    await set_user(bus, "interconnect", value)
    return bus


def data_writes(bus, low, high):
    """Write TLPs into this range."""
    return [w for w in bus.writes if low <= w.address < high]


def beats_of(tlps):
    """Clocks that TLPs take on the data path."""
    return sum(max(1, -(-len(tlp.payload) // BYTES)) for tlp in tlps)


def check_rate(tlps, beats=None):
    """Checks that TLPs take at most 1 % more clocks than their beats, or than these."""
    clocks = tlps[-1].last_clock - tlps[0].first_clock + 1
    beats = beats or beats_of(tlps)
    assert clocks * 99 <= 100 * beats, f"{clocks} clocks for {beats} beats"


async def write_rate(dut, name, max_payload, offset, length):
    """The data TLPs that leave, their first address and that of each transfer."""
    bus = await started(dut, max_payload=max_payload)
    channel = Channel(bus, name, entries=64)
    await channel.open()
    total = BEATS * BYTES
    count = -(-total // length)
    base = bus.allocate(total + 64 * 1024, 4096)
    at = [base + offset + n * (length + offset if offset else length) for n in range(count)]
    for first in range(0, count, 60):
        part = [Descriptor(a, length, 0) for a in at[first : first + 60]]
        part[-1].control = STATUS
        await channel.post(part)
        await channel.completed(100000)
    writes = data_writes(bus, base, base + (1 << 21))
    return bus, writes, base, at


@cocotb.test()
@cocotb.parametrize(name=["c2h[0]", "peer[0]"], max_payload=[0, 1, 2])
async def aligned_writes_own_the_datapath(dut, name, max_payload):
    bus, writes, base, _ = await write_rate(dut, name, max_payload, 0, BEATS * BYTES)
    data = bytes(bus.load(base, BEATS * BYTES))
    assert data == pattern(0, 0, len(data))
    payload = 128 << max_payload
    assert all(len(w.payload) == payload for w in writes)
    check_rate(writes, BEATS)


@cocotb.test()
@cocotb.parametrize(offset=[1, 4, 30])
async def unaligned_writes_lose_what_alignment_forces(dut, offset):
    bus, writes, base, _ = await write_rate(dut, "c2h[0]", 1, offset, BEATS * BYTES - 8192)
    assert bus.load(base + offset, 5000) == pattern(0, 0, 5000)
    check_rate(writes)


@cocotb.test()
@cocotb.parametrize(length=[4, 16, 64])
async def small_writes_take_a_clock_each(dut, length):
    bus = await started(dut)
    channel = Channel(bus, "c2h[0]", entries=64)
    await channel.open()
    base = bus.allocate(64 * 128, 4096)
    await channel.post(
        [Descriptor(base + n * 128, length, 0) for n in range(59)]
        + [Descriptor(base + 59 * 128, length, STATUS)]
    )
    await channel.completed()
    writes = data_writes(bus, base, base + 64 * 128)
    assert len(writes) == 60
    # Fetches of descriptors come in between: the test measures a run within a batch.
    clocks = writes[15].last_clock - writes[0].first_clock + 1
    needed = beats_of(writes[:16])
    assert clocks <= needed + 2, f"{clocks} clocks for 16 writes of {length} B"


async def read_rate(dut, completion_bytes, offset, shuffled):
    """The completions at the engine."""
    bus = await started(dut, max_payload=1, max_read_request=2)
    bus.completer.in_order(20, completion_bytes)
    if shuffled:
        bus.completer.shuffled, bus.completer.latency = True, (10, 30)
        # A read that is never answered holds up all: a tag is free once all earlier data have
        # arrived.
        bus.completer.window = 16
    channel = Channel(bus, "h2c[0]", entries=64)
    await channel.open()
    await set_user(bus, "h2c_check", put("user.h2c_check", enable=1, restart=1))
    total = BEATS * BYTES
    base = bus.allocate(total + 64, 4096) + offset
    bus.store(base, pattern(0, 0, total))
    await channel.post([Descriptor(base, total, STATUS)])
    assert (await channel.completed(100000)).error == "none"
    assert await channel.get64("bytes") == total
    arrived = [tlp for tlp in bus.source.sent if tlp.kind == COMPLETION_DATA]
    return [tlp for tlp in arrived if tlp.length_dw * 4 > 32 or tlp.byte_count > 32]


@cocotb.test()
@cocotb.parametrize(completion_bytes=[64, 256], shuffled=[False, True])
async def aligned_completions_own_the_datapath(dut, completion_bytes, shuffled):
    check_rate(await read_rate(dut, completion_bytes, 0, shuffled))


@cocotb.test()
@cocotb.parametrize(offset=[1, 4, 30])
async def unaligned_completions_lose_what_alignment_forces(dut, offset):
    check_rate(await read_rate(dut, 256, offset, True))


@pytest.mark.parametrize("data_bits", WIDTHS)
def test_rates(data_bits):
    simulate(__file__, "crosslane_card", {"DATA_BITS": data_bits, **CARD})
