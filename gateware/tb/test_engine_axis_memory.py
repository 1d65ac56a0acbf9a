# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_engine_axis_with_memory: the board's memory beside the AXI-Streams."""

import cocotb
import pytest
from card_memory_bus import carry, complete, opened, started, to_card
from cocotb.triggers import RisingEdge
from engine_host import STATUS, Descriptor, enable_lane
from simulate import simulate, widths
from test_engine_axis import CARD, USER_PERIODS_PS, User
from tlp_stream import memory_write

MEMORY = {"MEMORY_BITS": 20, "WINDOW": 1, "WINDOW_BITS": 16}


async def begun(dut, period_ps, seed):
    """Host and memory, and the user circuit."""
    user = User(dut, period_ps, seed)
    bus = await started(dut, seed, 0.2)
    while dut.user_rst_o.value:
        await RisingEdge(dut.user_clk)
    for taken in user.taken.values():
        taken.clear()
    return bus, user


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS)
async def channels_change_between_memory_and_stream(dut, period_ps):
    bus, user = await begun(dut, period_ps, 1)
    user.pause_out = user.pause_in = 0.3
    before = bytes(bus.card)
    source, target = bus.allocate(8192, 64), bus.allocate(8192, 64)
    for how in (0, 1, 0, 1):
        data = bus.random.randbytes(5000)
        bus.store(source, data)
        bus.store(target, bytes(8192))
        user.taken["h2c"].clear()
        h2c, c2h = await opened(bus, "h2c[0]", how), await opened(bus, "c2h[0]", how)
        await carry(h2c, Descriptor(source + 1, 4999, STATUS, 12345))
        await carry(c2h, Descriptor(target + 3, 4999, STATUS, 12345))
        assert bus.load(target, 5010) == bytes(3) + data[1:] + bytes(8)
        assert user.taken["h2c"] == (b"" if how else data[1:])
        if how:
            assert bus.card[12345 : 12345 + 4999] == data[1:]
            bus.card[12345 : 12345 + 4999] = before[12345 : 12345 + 4999]
        assert bus.card == before


@cocotb.test()
@cocotb.parametrize(period_ps=USER_PERIODS_PS)
async def memory_window_and_lane_at_once(dut, period_ps):
    bus, user = await begun(dut, period_ps, 2)
    await enable_lane(bus, 0)
    h2c, c2h = await opened(bus, "h2c[0]"), await opened(bus, "c2h[0]")
    lane = bus.random.randbytes(3000)
    for at in range(0, len(lane), 240):
        tlp = memory_write(at, lane[at : at + 240], requester=2, bar=1)
        bus.source.queue.append(tlp)
    through_window = bus.random.randbytes(900)
    bus.window_write(0x5003, through_window)
    # Below 0x5000 and from 0x6000 on.
    jobs = [(17, 3000), (0x2000, 4096), (0x6001, 5000), (0x9000, 1)]
    expected = await to_card(bus, h2c, jobs)
    expected[0x5003 : 0x5003 + 900] = through_window
    await complete(h2c)
    assert await bus.window_read(0x5003, 300) == through_window[:300]
    assert bus.card == expected
    target = bus.allocate(8192, 4096)
    await carry(c2h, Descriptor(target, 8000, STATUS, 0x4000))
    assert bus.load(target, 8000) == expected[0x4000 : 0x4000 + 8000]
    for _ in range(20_000):
        if len(user.taken["lane"]) == len(lane):
            break
        await RisingEdge(dut.user_clk)
    assert user.taken["lane"] == lane and not user.taken["h2c"]


@pytest.mark.parametrize("data_bits", widths(256))
def test_engine_axis_memory(data_bits):
    sizes = {"DATA_BITS": data_bits, **CARD, **MEMORY}
    simulate(__file__, "crosslane_engine_axis_with_memory", sizes)
