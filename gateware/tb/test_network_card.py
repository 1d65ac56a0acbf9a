# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_network_card: a network processor as its host sees it, with registers. A cable joins
its two links. What registers say is as in the behavioural model."""

import random

import cocotb
import pytest
from network_bench import (
    COUNTS,
    CREDITS,
    CREDITS_BASE,
    DATA,
    DONE,
    LINK_DOWN,
    NOTIFY,
    PAYLOAD_BYTES,
    PUT_BAR,
    PUT_STRIDE,
    REQUEST_BAR,
    RESET,
    put,
    request,
)
from network_host import (
    CONTROL,
    COUNTS_HIGH,
    COUNTS_LOW,
    LINK,
    LINK_SENT,
    LINK_STATUS,
    LINK_STRIDE,
    STATUS,
    SUCCESSFUL,
    UP,
    Host,
    byte_at,
)
from network_reference import Reference
from packed import pack
from simulate import ALL, SEED, simulate, widths
from tlp_stream import NO_BAR

SIZES = {"put_slots": 4, "credit_slots": 16, "max_write": 128, "channel_datagrams": 8}
GETS = {"get_slots": 16, "max_read": 256}
NORMAL, SINK, LOOPBACK = 0, 1 << 4, 2 << 4
GENERATE, CHECK = 1 << 8, 1 << 9
CHECKED, WRONG = 0x28, 0x2C
# Columns of a datagram on eight lanes, its header's among them.
DATAGRAM_CLOCKS = 1 + PAYLOAD_BYTES // 8
UNSUPPORTED, ABORTED = 1, 4
# State of a link (link_state_e).
TRAINING = 1
WAITING, REFUSED_COUNT = 0x38, 0x2C


async def begin(dut, which: str) -> Host:
    """A card after a reset."""
    settings = {"routing_id": 0x100, "bus_master": 1, "link_up": 1}
    dut.function_i.value = pack("function_t", **settings, max_payload=0)
    dut.room_i.value = pack("room_t", posted=1, nonposted=1, completion=1)
    host = Host(dut, random.Random(f"{SEED} {which}"))
    await host.bench.reset(8)
    await host.bench.step(20)
    return host


@cocotb.test()
async def registers_are_those_of_the_model(dut):
    host = await begin(dut, "registers")
    reference = Reference(links=2, **SIZES, **GETS)
    await host.until(STATUS, lambda value: value == 1)
    for at in (*range(0, 0x40, 4), *range(0x80, 0x100, 4), *range(0x180, 0x400, 4)):
        assert await host.read(at) == reference.read(at), hex(at)
    await host.up()
    writes = [(COUNTS_LOW, 0xFFFF_FFFF), (COUNTS_HIGH, 0x12), (LINK, 1), (LINK + LINK_STRIDE, 1)]
    for register, value in writes:
        host.write(register, value)
        reference.store(0, register, value.to_bytes(4, "little"))
    # Not with all bytes, or poisoned: no effect.
    host.store(0, COUNTS_HIGH + 1, b"\x55")
    host.write(COUNTS_HIGH, 7, poisoned=1)
    for at in (COUNTS_LOW, COUNTS_HIGH, *range(LINK, LINK + 0x80, 4)):
        assert await host.read(at) == reference.read(at), hex(at)
    reference.close()


@cocotb.test()
async def a_put_goes_round_and_all_is_counted(dut):
    host = await begin(dut, "round")
    host.write(COUNTS_LOW, COUNTS & 0xFFFF_FFFF)
    host.write(COUNTS_HIGH, COUNTS >> 32)
    # All counts are written once.
    await host.bench.until(lambda: len(host.writes) == 16)
    assert sorted(host.writes) == [COUNTS + 4 * n for n in range(16)]
    await host.up()
    slots = SIZES["put_slots"]
    count = PAYLOAD_BYTES + 72
    data = random.Random(3).randbytes(count)
    fields = {"channel": 5, "tag": 9, "buffer": DATA + 1, "bytes": count + 100}
    asked = request(link=1, token=77, notify=NOTIFY, **fields)
    host.store(REQUEST_BAR, CREDITS_BASE + 64 * 3, asked)
    for index in range(2):
        datagram = put(9, index, index == 1, data[PAYLOAD_BYTES * index :][:PAYLOAD_BYTES])
        host.store(PUT_BAR, (5 * slots + index) * PUT_STRIDE, datagram)
    await host.bench.until(lambda: host.word(NOTIFY) == DONE << 16 | 77)
    assert host.word(NOTIFY + 4) == count
    assert bytes(host.memory[DATA + 1 + n] for n in range(count)) == data
    await host.until(STATUS, lambda value: value == 1)
    assert host.word(COUNTS + 4 * 5) == 2
    counters = [await host.read(register) for register in (0x24, 0x28, 0x2C, 0x34, 0x38)]
    assert counters == [1, 2, 0, 0, 0]
    sent, delivered = await host.read(LINK + 8), await host.read(LINK + LINK_STRIDE + 12)
    assert (sent, delivered) == (2, 2)
    # Counters of a link stay when it is disabled.
    host.write(LINK, 0)
    assert await host.read(LINK + 8) == 2
    assert await host.read(LINK + LINK_STATUS) & 7 == 0


@cocotb.test()
async def counts_without_an_address_are_not_written(dut):
    """Whenever it is taken away; a count that is due then has no place."""
    host = await begin(dut, "no address")
    await host.until(STATUS, lambda value: value == 1)
    place = 0x1_2340
    for clocks in range(24):
        host.write(COUNTS_LOW, place)
        host.write(COUNTS_HIGH, 0)
        await host.bench.step(clocks)
        host.write(COUNTS_LOW, 0)
        await host.bench.step(60)
    assert place in host.writes
    assert set(host.writes) <= {place + 4 * n for n in range(16)}


@cocotb.test()
async def gets_go_round_among_puts(dut):
    host = await begin(dut, "gets")
    host.write(COUNTS_LOW, COUNTS & 0xFFFF_FFFF)
    host.write(COUNTS_HIGH, COUNTS >> 32)
    await host.up()
    slots, channel = SIZES["put_slots"], 3
    source, lengths = 0x9_8765_4321, (3000, 128, 700, 0)
    for tag, count in enumerate(lengths):
        place = {"link": 1, "channel": channel, "tag": tag, "buffer": DATA + 4096 * tag}
        asked = request(**place, bytes=4096, token=tag, notify=NOTIFY + 8 * tag)
        host.store(REQUEST_BAR, CREDITS_BASE + 64 * tag, asked)
        place |= {"link": 0, "buffer": source + 4096 * tag}
        asked = request(**place, bytes=count, token=100 + tag, notify=NOTIFY + 1024 + 8 * tag)
        host.store(REQUEST_BAR, 64 * tag, asked)
    # A message of puts on the same channel meanwhile.
    place = {"link": 1, "channel": channel, "tag": 40, "buffer": DATA + 0x8000}
    host.store(
        REQUEST_BAR,
        CREDITS_BASE + 640,
        request(**place, bytes=5 * PAYLOAD_BYTES, token=9, notify=NOTIFY + 512),
    )
    data = random.Random(5).randbytes(slots * PAYLOAD_BYTES)
    for index in range(slots):
        datagram = put(40, index, index == slots - 1, data[PAYLOAD_BYTES * index :][:PAYLOAD_BYTES])
        host.store(PUT_BAR, (channel * slots + index) * PUT_STRIDE, datagram)
    every = [NOTIFY + 8 * tag for tag in range(4)] + [NOTIFY + 512]
    await host.bench.until(lambda: all(host.word(at) >> 16 == DONE for at in every), 6000)
    for tag, count in enumerate(lengths):
        assert host.word(NOTIFY + 1024 + 8 * tag) == DONE << 16 | 100 + tag
        assert [host.word(NOTIFY + at + 8 * tag + 4) for at in (0, 1024)] == [count] * 2
        for at in range(count):
            found = host.memory[DATA + 4096 * tag + at]
            assert found == byte_at(source + 4096 * tag + at)
    assert bytes(host.memory[DATA + 0x8000 + n] for n in range(len(data))) == data
    await host.until(STATUS, lambda value: value == 1)
    counters = [await host.read(register) for register in (0x20, 0x24, 0x28, 0x2C, 0x38)]
    assert counters == [4, 5, slots, 0, 0]


@cocotb.test()
async def words_of_half_written_slots_hold_no_gets(dut):
    """A get takes no longer while a host stores a word of a slot in every clock, and the slot does
    not become whole."""
    host = await begin(dut, "words")
    await host.up()
    source, count, taken = 0x9_8765_4321, 3000, []
    for token in (1, 2):
        place = {"channel": 3, "tag": token, "bytes": count, "token": token}
        asked = request(link=1, buffer=DATA + 4096 * token, notify=NOTIFY + 8 * token, **place)
        host.store(REQUEST_BAR, CREDITS_BASE, asked)
        await host.until(CREDITS, lambda value: value == 1)
        asked = request(link=0, buffer=source, notify=NOTIFY + 64 + 8 * token, **place)
        host.store(REQUEST_BAR, 0, asked)
        since = host.bench.clock
        while host.word(NOTIFY + 8 * token) == 0 and host.bench.clock < since + 3000:
            while token == 2 and len(host.source.queue) < 2:
                host.store(PUT_BAR, 4 * SIZES["put_slots"] * PUT_STRIDE + 12, b"word")
            await host.bench.step(1)
        taken.append(host.bench.clock - since)
        assert host.word(NOTIFY + 8 * token) == DONE << 16 | token
        for at in range(count):
            assert host.memory[DATA + 4096 * token + at] == byte_at(source + at)
    dut._log.warning("clocks of a get, and among words of a slot: %s", taken)
    assert taken[1] <= taken[0] + 40


@cocotb.test()
async def an_end_reset_alone_ends_the_others_messages(dut):
    """Link 1 is disabled and enabled: link 0 ends its messages, and both come up again."""
    host = await begin(dut, "alone")
    far, slots, source = LINK + LINK_STRIDE, SIZES["put_slots"], 0x9_8765_4321
    host.write(COUNTS_LOW, COUNTS & 0xFFFF_FFFF)
    host.write(COUNTS_HIGH, COUNTS >> 32)
    await host.up()
    # A credit of which a part has come, one of which nothing has, and a get that nothing takes.
    data = random.Random(7).randbytes(PAYLOAD_BYTES)
    for slot, tag in enumerate((4, 5)):
        asked = request(link=0, channel=2, tag=tag, buffer=DATA + 4096 * slot, bytes=1000,
                        token=1 + slot, notify=NOTIFY + 8 * slot)  # fmt: skip
        host.store(REQUEST_BAR, CREDITS_BASE + 64 * slot, asked)
    get = {"link": 0, "channel": 3, "tag": 1, "buffer": source}
    host.store(REQUEST_BAR, 0, request(**get, bytes=9000, token=3, notify=NOTIFY + 16))
    host.store(PUT_BAR, (8 + 2) * slots * PUT_STRIDE, put(4, 0, False, data))
    await host.until(WAITING, lambda value: value == SIZES["channel_datagrams"])
    await host.bench.until(lambda: host.word(COUNTS + 4 * (8 + 2)) == 1)
    host.write(far, 0)
    await host.until(far + LINK_STATUS, lambda value: value & 7 == 0)
    host.write(far, 1)
    ends = [NOTIFY + 8 * n for n in range(3)]
    await host.bench.until(lambda: all(host.word(at) for at in ends), 4000)
    assert [host.word(at) for at in ends] == [LINK_DOWN << 16 | n for n in (1, 2, 3)]
    assert [host.word(at + 4) for at in ends[:2]] == [PAYLOAD_BYTES, 0]
    assert 0 < host.word(ends[2] + 4) < 9000
    assert bytes(host.memory[DATA + n] for n in range(PAYLOAD_BYTES)) == data
    # Requests that come while the link is being forgotten end as well, at once.
    host.store(REQUEST_BAR, CREDITS_BASE, request(**get | {"buffer": DATA}, bytes=100, token=4,
                                                  notify=NOTIFY + 24))  # fmt: skip
    host.store(REQUEST_BAR, 64, request(**get, bytes=100, token=5, notify=NOTIFY + 32))
    host.store(PUT_BAR, 3 * slots * PUT_STRIDE, put(9, 0, True, data))
    late = [NOTIFY + 24, NOTIFY + 32]
    await host.bench.until(lambda: all(host.word(at) for at in late))
    assert [host.word(at) for at in late] == [LINK_DOWN << 16 | n for n in (4, 5)]
    assert [host.word(at + 4) for at in late] == [0, 0]
    await host.bench.until(lambda: host.word(COUNTS + 4 * 3) == 1)
    # Requests that end at once are counted, too.
    assert await host.read(REFUSED_COUNT) == 3
    assert await host.read(LINK + LINK_STATUS) & 7 == TRAINING
    for link in (LINK, far):
        await host.until(link + LINK_STATUS, lambda value: value & 7 == UP)
    assert await host.read(WAITING) == 0
    count = 700
    asked = request(**get | {"link": 1, "buffer": DATA + 1}, bytes=count, token=6, notify=NOTIFY)
    host.store(REQUEST_BAR, CREDITS_BASE, asked)
    host.store(REQUEST_BAR, 0, request(**get, bytes=count, token=7, notify=NOTIFY + 8))
    await host.bench.until(lambda: host.word(NOTIFY) == DONE << 16 | 6, 4000)
    assert [host.word(NOTIFY + at) for at in (4, 8, 12)] == [count, DONE << 16 | 7, count]
    for at in range(count):
        assert host.memory[DATA + 1 + at] == byte_at(source + at)


@cocotb.test()
async def a_sink_counts_and_a_loopback_returns(dut):
    host = await begin(dut, "modes")
    source, count = 0x9_8765_4321, 3000
    place = {"link": 0, "channel": 3, "tag": 8, "bytes": count}
    host.write(LINK, SINK)
    asked = request(**place, buffer=source, token=1, notify=NOTIFY)
    host.store(REQUEST_BAR, 0, asked)
    # Behind a reset all keys are gone through once; the request waits for that.
    await host.bench.until(lambda: host.word(NOTIFY) == DONE << 16 | 1, 6000)
    host.store(PUT_BAR, 3 * SIZES["put_slots"] * PUT_STRIDE, put(9, 0, True, b"put"))
    datagrams = -(-count // PAYLOAD_BYTES)
    await host.until(LINK + LINK_SENT, lambda value: value == datagrams + 1)
    assert await host.read(LINK + LINK_STATUS) & 7 == 0
    # A change of modes ends the messages of the link, and begins with nothing.
    credit = request(**place, buffer=DATA + 5, token=2, notify=NOTIFY)
    host.store(REQUEST_BAR, CREDITS_BASE, credit)
    await host.until(CREDITS, lambda value: value == 1)
    for mode, state in ((LOOPBACK, UP), (NORMAL, 0), (SINK | 1, 1), (LOOPBACK, UP)):
        host.write(LINK, mode)
        await host.until(LINK + LINK_STATUS, lambda value, wanted=state: value & 7 == wanted)
        assert await host.read(LINK) == mode
    assert host.word(NOTIFY) == LINK_DOWN << 16 | 2
    host.store(REQUEST_BAR, CREDITS_BASE, credit)
    host.store(REQUEST_BAR, 64, asked)
    await host.bench.until(lambda: host.word(NOTIFY) == DONE << 16 | 2)
    for at in range(count):
        assert host.memory[DATA + 5 + at] == byte_at(source + at)
    # The other link is not up, and learns nothing.
    assert await host.read(LINK + LINK_STRIDE + LINK_STATUS) & 7 == 0
    await host.until(STATUS, lambda value: value == 1)
    await host.until(LINK + LINK_SENT, lambda value: value == 2 * datagrams + 1)
    host.write(LINK, NORMAL)
    await host.up()


@cocotb.test()
async def a_generator_fills_what_messages_leave(dut):
    host = await begin(dut, "generator")
    near, far = LINK, LINK + LINK_STRIDE
    await host.up()
    for link in (near, far):
        host.write(link, GENERATE | CHECK | 1)
        assert await host.read(link) == GENERATE | CHECK | 1
    since = host.bench.clock
    sizes = (3000, 700, 128)
    for tag, count in enumerate(sizes):
        place = {"channel": 3, "tag": tag}
        asked = request(link=1, token=tag, notify=NOTIFY + 8 + 8 * tag, **place,
                        buffer=DATA + 4096 * tag, bytes=4096)  # fmt: skip
        host.store(REQUEST_BAR, CREDITS_BASE + 64 + 64 * tag, asked)
        asked = request(link=0, token=9, notify=NOTIFY + 256 + 8 * tag, **place,
                        buffer=0x9_8765_4321, bytes=count)  # fmt: skip
        host.store(REQUEST_BAR, 64 * tag, asked)
    ends = [NOTIFY + 8 + 8 * tag for tag in range(len(sizes))]
    await host.bench.until(lambda: all(host.word(at) >> 16 == DONE for at in ends), 6000)
    for tag, count in enumerate(sizes):
        assert host.word(NOTIFY + 12 + 8 * tag) == count
        for at in range(count):
            assert host.memory[DATA + 4096 * tag + at] == byte_at(0x9_8765_4321 + at)
    await host.bench.step(6000)
    before = await host.read(far + CHECKED)
    clocks = host.bench.clock - since
    assert before > clocks / DATAGRAM_CLOCKS * 0.9 - sum(sizes) / PAYLOAD_BYTES, (before, clocks)
    # Switched on again the pattern begins anew, and the counts go on.
    host.write(near, CHECK | 1)
    host.write(far, CHECK | 1)
    await host.until(STATUS, lambda value: value == 1)
    await host.bench.step(2000)
    host.write(far, 1)
    host.write(far, CHECK | 1)
    host.write(near, GENERATE | CHECK | 1)
    await host.bench.step(2000)
    host.write(near, CHECK | 1)
    await host.bench.step(2000)
    counted = {}
    for link in (near, far):
        names = (("sent", LINK_SENT), ("taken", LINK_SENT + 4), ("right", CHECKED), ("bad", WRONG))
        counted[link] = {name: await host.read(link + at) for name, at in names}
    assert [counted[link]["bad"] for link in (near, far)] == [0, 0]
    messages = sum(-(-count // PAYLOAD_BYTES) for count in sizes)
    assert counted[far]["right"] == counted[far]["taken"] - messages > before
    assert counted[near]["right"] == counted[near]["taken"] == counted[far]["sent"]
    assert counted[near]["sent"] == counted[far]["taken"]
    # With the checker off they are of a message for which no credit is there, and wait.
    host.write(far, 1)
    host.write(near, GENERATE | 1)
    await host.until(0x38, lambda value: value == SIZES["channel_datagrams"])
    assert await host.read(far + CHECKED) == counted[far]["right"]
    host.write(near, LOOPBACK | GENERATE | CHECK)
    old = await host.read(near + CHECKED)
    await host.until(near + CHECKED, lambda value: value > old + 20, 900)
    assert await host.read(near + WRONG) == 0
    host.write(CONTROL, 1)
    await host.until(STATUS, lambda value: value == 1, 600)
    assert [await host.read(near + at) for at in (0, CHECKED, WRONG)] == [0, 0, 0]


@cocotb.test()
async def a_reset_forgets_all(dut):
    host = await begin(dut, "reset")
    host.write(COUNTS_LOW, COUNTS & 0xFFFF_FFFF)
    await host.up()
    asked = request(link=1, token=5, notify=NOTIFY, channel=2, tag=1, bytes=300)
    host.store(REQUEST_BAR, CREDITS_BASE, asked)
    await host.until(CREDITS, lambda value: value == 1)
    host.write(CONTROL, 1)
    assert await host.read(STATUS) == 0
    await host.until(STATUS, lambda value: value == 1, 600)
    # The notification comes before the answer that says so.
    assert host.word(NOTIFY) == RESET << 16 | 5
    registers = (COUNTS_LOW, CREDITS, LINK, LINK + 0x24, LINK + LINK_STRIDE, LINK + LINK_STRIDE + 8)
    assert [await host.read(register) for register in registers] == [0] * len(registers)
    await host.up()


@cocotb.test()
async def reads_elsewhere_give_zeros_or_are_refused(dut):
    host = await begin(dut, "reads")
    for bar, offset, count in ((REQUEST_BAR, CREDITS_BASE + 8, 64), (PUT_BAR, 3, 400)):
        answers = await host.answer(offset, count, bar)
        assert not any(any(one.payload) for one in answers)
        assert all(one.status == SUCCESSFUL for one in answers)
    for bar, status in ((1, UNSUPPORTED), (NO_BAR, UNSUPPORTED), (0, ABORTED)):
        (one,) = await host.answer(0, 64, bar)
        assert one.status == status


# In CI long datagrams are those of lab nget:dense, by the driver.
@pytest.mark.parametrize("long", [0, 1] if ALL else [0])
@pytest.mark.parametrize("width", widths(128))
def test_network_card(width, long):
    sizes = {name.upper(): value for name, value in (SIZES | GETS).items()}
    simulate(__file__, "network_loop", sizes | {"DATA_BITS": width, "LONG": long})
