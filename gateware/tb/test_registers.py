# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_registers: the whole map against engine.rdl, with any requests in any order."""

import itertools
import os

import cocotb
import pytest
from packed import unpack_one
from register_host import (
    ABORT,
    BARE,
    BUILD,
    CHANNELS,
    ENTRIES,
    LANES,
    NO_BAR,
    STOPPED,
    TABLES,
    UNSUPPORTED,
    Host,
    Model,
)
from register_map import H2C_TABLE, MSIX_PENDING, MSIX_TABLE, OFFSETS
from simulate import ALL, simulate

READ_CLOCKS = 5


async def begin(dut, seed=1, pause=0.0):
    return await Host(dut, seed, pause).begin()


@cocotb.test()
async def the_whole_map(dut):
    """Every register holds its writable bits, shows its reading, and no other address responds."""
    host = await begin(dut, 1)
    model, seed = host.model, host.seed
    places = [(0, 0x60), (MSIX_TABLE, 0x1210), (MSIX_PENDING, 0x1808), (0x2000, 0x2084)]
    offsets = [o for begin, end in [*places, (0x3000, 0x4400)] for o in range(begin, end, 4)]
    for offset in offsets:
        # A control register that restarts has a separate test.
        value = seed.getrandbits(31) if offset % 256 == 0 else seed.getrandbits(32)
        host.post(offset, [value])
        if offset != OFFSETS["global.control"]:
            model.write(offset, value)
    await host.bench.until(lambda: not host.source.queue, 40000)
    await host.bench.step(4)
    host.engine.channels = [host.engine.random("channel_readings_t") for _ in CHANNELS]
    for offset in offsets:
        if model.names.get(offset) in ("global.time_low", "global.time_high"):
            continue
        found, wanted = await host.read(offset), model.read(offset)
        assert found == wanted, f"{offset:#x} {model.names.get(offset)}: {found:#x}, {wanted:#x}"
        if offset % 8 == 0 and model.names.get(offset + 4) != "global.time_low":
            found, wanted = await host.read_pair(offset), [model.read(offset + n) for n in (0, 4)]
            assert found == wanted, f"{offset:#x} {model.names.get(offset)}: {found}, {wanted}"
    # Time: its high word belongs to the clock in which the low one was read.
    before = host.engine.now
    low = await host.read(OFFSETS["global.time_low"])
    assert 0 < (low - before) % 2**32 < 20
    host.engine.now += 1 << 40
    assert await host.read(OFFSETS["global.time_high"]) == before >> 32


@cocotb.test()
async def settings_follow(dut):
    """A written setting takes effect two clocks later; pulses last a clock."""
    host = await begin(dut, 2)
    engine, bench = host.engine, host.bench
    name = CHANNELS[-1]
    base = OFFSETS[f"{name}.control"]
    # The restart of a channel with a table waits until the table is swept.
    await bench.step(ENTRIES)
    tlp = await host.write(base, 0x7F)
    await bench.step(2)
    settings = engine.channel(name)
    assert (settings.run, settings.source, settings.oversize) == (1, 3, 1)
    tlp = await host.write(base, 0x8000_0001)
    assert not any(p[1] == f"{name}.restart" for p in engine.pulses)
    await bench.step(5)
    assert [p for p in engine.pulses if p[1] == f"{name}.restart"] == [
        (tlp.last_clock + 2, f"{name}.restart")
    ]
    assert engine.channel(name).run == 0
    tlp = await host.write(OFFSETS["global.control"], 1)
    await bench.step(5)
    assert engine.pulses[-1] == (tlp.last_clock + 2, "reset_counters")
    if BARE:
        return
    words = [host.seed.getrandbits(32) for _ in range(10)]
    await host.write(base + 8, *words)
    await bench.step(2)
    settings = engine.channel(name)
    assert settings.payload == words[0] & 0xFFFF
    assert settings.vector == words[1] & 0xFFFF
    assert settings.ring == words[2] | words[3] << 32
    assert (settings.ring_entries, settings.doorbell) == (words[4], words[5])
    assert settings.status_address == words[7] | words[8] << 32
    user = OFFSETS["user.interconnect"]
    for offset, value, pulse in (
        (user, 0xF05, "interconnect_written"),
        (OFFSETS["user.generator_seed"], 7, "generator_restart"),
        (OFFSETS["user.h2c_check"], 1 << 31, "h2c_check_restart"),
        (OFFSETS["user.command"], 1, "command_start"),
        (OFFSETS["user.ping"], 0x30001, "ping_start"),
    ):
        engine.pulses.clear()
        tlp = await host.write(offset, value)
        await bench.step(5)
        assert engine.pulses == [(tlp.last_clock + 2, pulse)]
    settings = engine.user_settings
    assert (settings.c2h_source, settings.peer_source, settings.lane) == (1, 1, 15)
    assert (settings.generator_seed, settings.ping_rounds) == (7, 3)
    if LANES:
        await host.write(OFFSETS[f"{LANES[-1]}.credit_low"], 5, 6)
        tlp = await host.write(OFFSETS[f"{LANES[-1]}.control"], 0x8000_000F)
        await bench.step(5)
        assert engine.pulses[-1] == (tlp.last_clock + 2, f"{LANES[-1]}.restart")
        lane = unpack_one("lane_settings_t", engine.lane_settings, len(LANES) - 1)
        assert lane.credit_address == 5 | 6 << 32
        assert lane.enable and lane.drop_when_full and lane.return_credits and lane.check


@cocotb.test(skip=BARE)
async def restart_and_doorbell(dut):
    """A stopped channel ignores the doorbell; one directly after a restart counts."""
    host = await begin(dut, 3)
    engine, bench = host.engine, host.bench
    for name in CHANNELS:
        n = CHANNELS.index(name)
        doorbell, control = OFFSETS[f"{name}.doorbell"], OFFSETS[f"{name}.control"]
        await host.write(doorbell, 11)
        await bench.step(2)
        engine.channels[n]["state"] = STOPPED
        await host.write(doorbell, 12)
        await bench.step(2)
        assert await host.read(doorbell) == 11
        assert await host.read(control) == 0
        # All in successive clocks.
        host.post(control, [0x8000_0041])
        host.post(doorbell, [13])
        host.post(control, [0x0000_0021])
        assert await host.read(OFFSETS[f"{name}.status"]) & 0xFF == 0
        assert engine.channel(name).doorbell == 13 and engine.channel(name).run
        host.post(control, [0x8000_0001])
        host.ask(doorbell)
        host.ask(control)
        answers = await host.answers(2)
        assert [int.from_bytes(a.payload, "little") for a in answers] == [0, 0]
        await bench.step(3)
    if BUILD["PEER"]:
        name = "peer[0]"
        engine.channels[CHANNELS.index(name)]["credit"] = 100
        for value, shown in ((200, 200), (150, 200), (2**31 + 300, 200), (201, 201)):
            host.post(OFFSETS[f"{name}.credit"], [value])
            assert await host.read(OFFSETS[f"{name}.credit"]) == shown


@cocotb.test(skip=not BUILD["PUSH"])
async def a_line_raises_the_doorbell(dut):
    """By one, in a clock without a write of it; a restart clears it all the same."""
    host = await begin(dut, 30)
    engine, bench = host.engine, host.bench
    for name in CHANNELS:
        readings = engine.channels[CHANNELS.index(name)]
        doorbell = OFFSETS[f"{name}.doorbell"]
        for before in (0, 7, 2**32 - 1):
            await host.write(doorbell, before)
            await bench.step(2)
            for count in (1, 3):
                readings["line_taken"] = 1
                await bench.step(count)
                readings["line_taken"] = 0
                await bench.step(1)
                before = (before + count) % 2**32
                assert engine.channel(name).doorbell == before
                assert await host.read(doorbell) == before
        await host.write(OFFSETS[f"{name}.control"], 1 << 31)
        await bench.step(3)
        assert await host.read(doorbell) == 0


@cocotb.test()
async def byte_enables(dut):
    """Double words with a disabled byte are not written, at any length and position."""
    host = await begin(dut, 4)
    model, seed = host.model, host.seed
    base = OFFSETS["h2c[0].payload"] if BARE else OFFSETS["h2c[0].ring_low"]
    room = 1 if BARE else 3  # consecutive registers that hold all written bits
    for _ in range(150):
        length = seed.choice([1, 1, 2, 3, 4, 5, 8, 9, 16, 17, 40])
        at = seed.randrange(-length - 1, room + 1)
        words = [seed.getrandbits(31) for _ in range(length)]
        offset = base + 4 * at
        first = seed.choice([15, 15, seed.getrandbits(4)])
        last = seed.choice([15, 15, seed.getrandbits(4)]) if length > 1 else 0
        host.post(offset, words, first_be=first, last_be=last)
        for n, word in enumerate(words):
            enables = first if n == 0 else last if n == length - 1 else 15
            if enables == 15 and offset + 4 * n != OFFSETS["global.control"]:
                model.write(offset + 4 * n, word)
        # Writes that hit no BAR, and another one, have no effect.
        host.post(base, words, bar=seed.choice([1, NO_BAR]))
        for check in range(room):
            assert await host.read(base + 4 * check) == model.read(base + 4 * check)


@cocotb.test()
async def rate_and_latency(dut):
    """A double word a clock, also with small writes; a read in READ_CLOCKS."""
    host = await begin(dut, 5)
    for _ in range(3):
        host.post(0x2000, [1] * 64)
        for _ in range(8):
            host.post(0x3008, [2])
        host.post(0x3008, [3, 4, 5])
    await host.bench.until(lambda: not host.source.queue)
    sent = host.source.sent
    first_beat = BUILD["DATA_BITS"] // 32
    assert sent[-1].last_clock - sent[0].first_clock + first_beat == 3 * (64 + 8 + 3)
    for offset in (0x0, 0x3008, MSIX_TABLE, H2C_TABLE):
        host.sink.first_seen = -1
        tlp = host.ask(offset)
        await host.answers(1)
        assert host.sink.first_seen - tlp.first_clock <= 0  # the request stays until then
        begun = host.bench.clock
        host.ask(offset)
        await host.answers(1)
        assert host.sink.first_seen - begun == READ_CLOCKS
        begun = host.bench.clock
        await host.read_pair(offset & ~7)
        assert host.sink.first_seen - begun == READ_CLOCKS + 1


@cocotb.test()
async def refusals_and_flushes(dut):
    host = await begin(dut, 6)
    seed = host.seed
    for _ in range(200):
        host.engine.max_payload = seed.randrange(4)
        bar = seed.choice([0, 0, NO_BAR, 1])
        length = seed.choice([1, 1, 1, 2, 2, 3, 16])
        first = seed.choice([15, 15, 0, 1, 2, 4, 8, 3, 6, 12, 14, 7])
        last = seed.choice([15, 1, 3, 7]) if length > 1 else 0
        if length > 1:
            first = seed.choice([15, 15, 15, 14, 12, 8])
        offset = seed.randrange(0x400) * 4
        is_pair = (length, first, last, offset % 8) == (2, 15, 15, 0)
        tlp = host.ask(offset, bar=bar, length_dw=length, first_be=first, last_be=last)
        if length == 1:
            enabled = [n for n in range(4) if first >> n & 1]
            skipped = enabled[0] if enabled else 0
            count = enabled[-1] - enabled[0] + 1 if enabled else 0
        else:
            skipped = [15, 14, 12, 8].index(first)
            count = 4 * length - skipped - [15, 7, 3, 1].index(last)
        lower = (offset + skipped) & 0x7F
        if bar == 1 and LANES and count:
            await check_window(host, tlp, offset + skipped, count)
            continue
        (answer,) = await host.answers(1)
        if count == 0 and (bar == 0 or (bar == 1 and LANES)):
            host.check_success(tlp, answer, 1, 1, lower)
        elif bar == 0 and (length == 1 or is_pair):
            host.check_success(tlp, answer, count, count, lower)
        else:
            status = ABORT if bar == 0 else UNSUPPORTED
            host.check_refusal(tlp, answer, status, max(count, 1), lower)


async def check_window(host, tlp, address, count):
    """The completions of a read of the lanes' apertures: zeros, each as long as allowed."""
    most = 128 << host.engine.max_payload
    while count:
        (answer,) = await host.answers(1)
        here = count if address % 4 + count <= most else most - address % 128
        host.check_success(tlp, answer, count, here, address & 0x7F)
        assert not any(answer.payload)
        address, count = address + here, count - here


@cocotb.test(skip=not LANES and not BUILD["PUSH"])
async def window_reads_of_every_length(dut):
    bars = [1] * bool(LANES) + [4] * BUILD["PUSH"]
    host = await begin(dut, 7, 0.2)
    seed = host.seed
    for _ in range(40):
        host.engine.max_payload = seed.randrange(4)
        offset = seed.randrange(1024) * 4
        length = min(seed.choice([1, 2, 31, 32, 33, 100, 256, 1024]), 1024 - offset // 4)
        first = seed.choice([15, 14, 12, 8])
        last = seed.choice([15, 7, 3, 1]) if length > 1 else 0
        skipped = [15, 14, 12, 8].index(first)
        missing = [15, 7, 3, 1].index(last) if length > 1 else 0
        tlp = host.ask(
            offset, bar=seed.choice(bars), length_dw=length, first_be=first, last_be=last
        )
        await check_window(host, tlp, offset + skipped, 4 * length - skipped - missing)


@cocotb.test(skip=not ENTRIES)
async def tables(dut):
    """Stores, takes and restarts in any order: an entry is whole if stored since."""
    host = await begin(dut, 8)
    model, seed = host.model, host.seed
    await host.bench.step(ENTRIES + 2)
    for table in TABLES:
        host.post(table, [0] * 4 * ENTRIES)
    host.post(OFFSETS["h2c[0].control"], [1 << 31])
    host.post(OFFSETS["c2h[0].control"], [1 << 31])
    wholes = 0
    for _ in range(1500):
        table = seed.randrange(2)
        base = TABLES[table]
        what = seed.random()
        if what < 0.6:
            # No entry exists behind the last one.
            index = seed.randrange(seed.choice([3, ENTRIES, min(ENTRIES + 2, 1022)]))
            start = seed.choice([0, 0, 0, seed.randrange(4)])
            words = [seed.getrandbits(32) for _ in range(seed.choice([4, 4, 4, 1, 2, 8]))]
            host.store(base + 16 * index + 4 * start, words)
        elif what < 0.63:
            control = OFFSETS["c2h[0].control" if table else "h2c[0].control"]
            for _ in range(seed.choice([1, 1, 2])):
                host.store(control, [1 << 31])
        elif what < 0.7:
            offset = base + 16 * seed.randrange(ENTRIES) + 4 * seed.randrange(4)
            assert await host.read(offset) == model.read(offset)
        else:
            await settle(host)
            indices = [
                [seed.randrange(seed.choice([3, ENTRIES])) for _ in range(seed.choice([1, 3, 8]))]
                for _ in range(2)
            ]
            wholes += await take_all(host, indices)
    assert wholes > 100


async def settle(host):
    """Waits until all posted writes have taken effect."""
    host.ask(0, first_be=0)
    await host.answers(1)


async def take_all(host, indices):
    """Takes entries of both tables, one each clock; returns the number of whole ones."""
    engine, model = host.engine, host.model
    wanted = [[model.take(t, index) for index in indices[t]] for t in range(2)]
    for found in engine.entries:
        found.clear()
    for clock in range(max(map(len, indices))):
        engine.take = [i[clock] if clock < len(i) else None for i in indices]
        await host.bench.step()
    await host.bench.step(2)
    for table in range(2):
        assert len(engine.entries[table]) == len(wanted[table])
        for found, (entry, whole) in zip(engine.entries[table], wanted[table], strict=True):
            assert found[1] == whole
            assert not whole or found[0] == entry
    return sum(whole for table in wanted for _, whole in table)


@cocotb.test(skip=not ENTRIES)
async def stores_right_behind_a_restart(dut):
    """The first words after a restart count, those before it do not; also for the last entry of the
    sweep, and with a take in the clock after the restart's."""
    host = await begin(dut, 9)
    control = OFFSETS["h2c[0].control"]
    for turn in range(12):
        for index in (0, 1, ENTRIES - 1):
            for word in range(4):
                host.store(H2C_TABLE + 16 * index + 4 * word, [turn * 100 + word])
        if turn % 3 == 0:
            await settle(host)
            await host.bench.step(2 * ENTRIES)
        # Three of the last entry's words again, all of the first's: only that one is whole.
        host.store(control, [1 << 31])
        last = H2C_TABLE + 16 * (ENTRIES - 1)
        for offset in [*range(H2C_TABLE, H2C_TABLE + 16, 4), *range(last, last + 12, 4)]:
            host.store(offset, [turn])
        await host.bench.until(lambda: not host.source.queue, 5000)
        await host.bench.step(1 + turn % 4)
        assert await take_all(host, [[ENTRIES - 1, 0, 1, 0], []]) == 1


@cocotb.test(skip=not ENTRIES)
async def restart_while_entries_are_taken(dut):
    host = await begin(dut, 14)
    engine, control = host.engine, OFFSETS["h2c[0].control"]
    for index in range(ENTRIES):
        host.post(H2C_TABLE + 16 * index, [1, 2, 3, 4])
    await settle(host)
    tlp = host.post(control, [1 << 31])
    for index in range(20):
        engine.take = [index, None]
        await host.bench.step()
    await host.bench.step(3)
    pulse = [clock for clock, name in engine.pulses if name == "h2c[0].restart"][-1]
    assert pulse == tlp.last_clock + 2
    # Entries stored earlier count until then; an entry is taken the clock before it is shown.
    for (clock, _), (_, whole) in zip(engine.taken[0][-20:], engine.entries[0][-20:], strict=True):
        assert whole == (clock < pulse - 1), f"{clock} {pulse}"


@cocotb.test(skip=not ENTRIES)
async def stores_while_entries_are_taken(dut):
    """Takes hold up stores, and neither is lost; a second restart waits for the sweep."""
    host = await begin(dut, 10)
    engine, seed = host.engine, host.seed
    await host.bench.step(ENTRIES + 2)
    for _ in range(30):
        engine.entries[0].clear()
        busy = seed.random()
        index = seed.randrange(ENTRIES)
        host.post(H2C_TABLE + 16 * index, [5, 6, 7, 8])
        for _ in range(12):
            other = (index + seed.randrange(1, ENTRIES)) % ENTRIES
            engine.take = [other if seed.random() < busy else None, None]
            await host.bench.step()
        await settle(host)
        assert await host.take(index) == [(5 | 6 << 32 | 7 << 64 | 8 << 96, 1)]
    control = OFFSETS["h2c[0].control"]
    await host.bench.step(2 * ENTRIES)
    tlps = [host.post(control, [1 << 31]) for _ in range(3)]
    await host.bench.until(lambda: not host.source.queue)
    await host.bench.step(ENTRIES + 4)
    pulses = [clock for clock, name in engine.pulses if name == "h2c[0].restart"][-3:]
    assert all(ENTRIES < b - a <= ENTRIES + 4 for a, b in itertools.pairwise(pulses))
    assert tlps[2].last_clock - tlps[0].last_clock <= 2 * ENTRIES + 8


@cocotb.test(skip=not BUILD["VECTORS"])
async def msix(dut):
    """Look-ups and accesses of the table at the same time."""
    host = await begin(dut, 11)
    engine, model, seed = host.engine, host.model, host.seed
    assert int(dut.msix_masked.value) == 2**32 - 1
    # A reset does not clear addresses and data.
    host.store(MSIX_TABLE, [3] * 128)
    for _ in range(150):
        engine.vector = seed.randrange(BUILD["VECTORS"])
        host.store(MSIX_TABLE + 4 * seed.randrange(128), [seed.getrandbits(32)])
        await settle(host)
        engine.lookups.clear()
        word = seed.randrange(128)
        assert await host.read(MSIX_TABLE + 4 * word) == model.read(MSIX_TABLE + 4 * word)
        at = 4 * engine.vector
        wanted = (engine.vector, model.msix[at] | model.msix[at + 1] << 32, model.msix[at + 2])
        assert set(engine.lookups) == {wanted}
        assert int(dut.msix_masked.value) == model.masked


@cocotb.test()
async def anything_in_any_order(dut):
    """Random requests with pauses on both sides, answered as the model says."""
    host = await begin(dut, int(os.environ.get("SEED", "12")), 0.3)
    model, seed = host.model, host.seed
    places = [o for o in model.names if "time" not in model.names[o]] + [0x44, 0x2FFC]
    wanted = []
    for _ in range(1500):
        offset = seed.choice(places)
        if seed.random() < 0.5:
            wanted.append((offset, model.read(offset)))
            host.ask(offset)
        elif not model.names.get(offset, "").endswith(("credit", "global.control")):
            value = seed.getrandbits(32)
            if model.names.get(offset, "").endswith(".control"):
                value &= ~(1 << 31)
            host.store(offset, [value])
    await host.bench.until(lambda: len(host.sink.tlps) == len(wanted), 40000)
    for (offset, value), answer in zip(wanted, host.sink.tlps, strict=True):
        assert int.from_bytes(answer.payload, "little") == value, model.names.get(offset)


@cocotb.test()
async def reset_forgets(dut):
    host = await begin(dut, 13)
    await host.write(0x3008, 0x1234)
    if ENTRIES:
        host.post(H2C_TABLE, [1, 2, 3, 4])
    await settle(host)
    dut.rst.value = 1
    await host.bench.step(1)
    dut.rst.value = 0
    assert await host.read(0x3008) == 0
    if ENTRIES:
        host.model = Model(host.engine)
        assert await take_all(host, [[0], []]) == 0
        # A store waits until earlier entries are swept out.
        host.post(H2C_TABLE, [1, 2, 3, 4])
        await settle(host)
        assert (await host.take(0))[0][1] == 1


NONE = ("LANES", "TABLE_ENTRIES", "VECTORS")
CASES = [
    {"PACKETS": 1, "PUSH": 1},
    {"DATA_BITS": 256, "H2C": 2, "PEER": 0, "BARE": 1} | dict.fromkeys(NONE, 0),
]
if ALL:
    CASES += [
        {"DATA_BITS": 128, "PUSH": 1, "H2C": 4, "C2H": 4, "PEER": 4, "LANES": 16, "VECTORS": 31},
        {"DATA_BITS": 256, "H2C": 1, "PEER": 0, "LANES": 0, "TABLE_ENTRIES": 256},
        {"DATA_BITS": 512, "H2C": 2, "LANES": 1, "TABLE_ENTRIES": 32, "VECTORS": 4},
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str((BUILD | case)["DATA_BITS"]))
def test_registers(case):
    simulate(__file__, "crosslane_registers", BUILD | case)
