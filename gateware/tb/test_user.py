# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_user: sources of the channels, pattern, checker, command port, ping-pong."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, Timer
from engine_host import pattern
from packed import pack, unpack
from simulate import ALL, SEED, simulate
from tlp_stream import Bench

READ_CLOCKS = 3
GENERATOR, STREAM, LANE, NOTHING = range(4)
WHOLE = 1 << 32


class Pattern:
    """Bytes of a generator's stream: any slice of it."""

    def __init__(self, seed):
        self.seed = seed

    def __getitem__(self, part):
        """The bytes of a slice."""
        return pattern(self.seed, part.start, part.stop - part.start)


class Source:
    """A feed: gives bytes of a stream with the moves' delay."""

    def __init__(self, lanes, seed):
        self.lanes, self.random = lanes, seed
        self.data = bytearray()
        self.taken = 0
        self.times = []  # clocks in which bytes were taken
        self.pipe = [bytes(lanes)] * READ_CLOCKS

    def available(self):
        """Bytes that may be taken."""
        return min(len(self.data) - self.taken, 0xFFFF)

    def clock(self, time, move, take, back, count):
        """Applies the module's move and take of a clock."""
        assert move or not take
        if not move:
            return
        beat = self.random.randbytes(self.lanes)
        if take:
            assert 0 < count <= min(self.lanes - back, self.available())
            at = self.taken
            beat = beat[:back] + bytes(self.data[at : at + count]) + beat[back + count :]
            self.taken += count
            self.times.append(time)
        self.pipe = [beat, *self.pipe[:-1]]


class Sink:
    """A write channel's side of a feed. It takes as long as it is hungry."""

    def __init__(self, lanes, seed):
        self.lanes, self.random = lanes, seed
        self.moves, self.takes, self.hungry = 1.0, 1.0, True
        self.whole_beats = False
        self.generated = False
        self.pipe = [None] * READ_CLOCKS
        self.fresh = False
        self.took = []  # clocks
        self.checked = 0  # bytes

    def look(self, data):
        """Compares the beat that has arrived."""
        if self.fresh and self.pipe[-1]:
            expected, back = self.pipe[-1]
            assert data[back : back + len(expected)] == expected
            self.checked += len(expected)

    def ask(self, available, clock):
        """Whether the pipeline moves, and a beat is asked for: (move, back, count or 0)."""
        move = self.random.random() < self.moves
        back = count = 0
        if move and self.hungry and available and self.random.random() < self.takes:
            back = 0 if self.whole_beats else self.random.randrange(self.lanes)
            most = min(self.lanes - back, available)
            count = most if self.whole_beats else self.random.randint(1, most)
            self.took.append(clock)
        return move, back, count

    def note(self, move, expected, back):
        """Records a request in the clock in which it was made."""
        self.fresh = move
        if move:
            self.pipe = [(expected, back) if expected else None, *self.pipe[:-1]]


class User:
    """Drives the module: sources on one side, sinks on the other."""

    def __init__(self, dut, seed):
        self.dut = dut
        self.random = random.Random(SEED * 1000 + seed)
        self.lanes = len(dut.lane_data) // 8
        self.h2c_count = len(dut.h2c_move)
        self.writers = len(dut.write_move)
        self.c2h = int(os.environ["C2H"])
        self.peer = self.writers - self.c2h
        self.sources = [Source(self.lanes, self.random) for _ in range(self.h2c_count)]
        self.lane = Source(self.lanes, self.random)
        self.sinks = [Sink(self.lanes, self.random) for _ in range(self.writers)]
        self.positions = [0] * self.writers  # in the generated streams
        self.settings = dict(c2h_source=0, peer_source=0, lane=0, generator_seed=0)
        self.pulses = {}
        self.wires = dict(command_ready=0, command_done=0, message_begun=0, peer_stopped=0)
        self.received = None
        self.asked = 0  # bytes, of the streams that are routed
        self.time = 0

    async def start(self):
        """Clock and reset."""
        self.drive()
        await Bench(self.dut).reset()
        return self

    def drive(self):
        """Drives registers, and inputs that do not depend on outputs."""
        dut = self.dut
        dut.user_settings.value = pack("user_settings_t", **self.settings, **self.pulses)
        for name, value in {**self.wires, "time_i": self.time}.items():
            getattr(dut, name).value = value
        dut.received_valid.value = self.received is not None
        lane, count = self.received or (0, 0)
        dut.received_lane.value = lane
        dut.received_bytes.value = count
        available, data = 0, 0
        for n, source in enumerate(self.sources):
            available |= source.available() << 16 * n
            data |= int.from_bytes(source.pipe[-1], "little") << 8 * self.lanes * n
        dut.h2c_available.value = available
        dut.h2c_data.value = data
        dut.lane_available.value = self.lane.available()
        dut.lane_data.value = int.from_bytes(self.lane.pipe[-1], "little")
        dut.write_generated.value = sum(s.generated << n for n, s in enumerate(self.sinks))
        dut.write_move.value = dut.write_take.value = 0
        self.pulses, self.received = {}, None
        self.wires = dict.fromkeys(self.wires, 0)

    def source_of(self, n):
        """The source of a sink, and the position of its next bytes."""
        c2h, peer = self.settings["c2h_source"], self.settings["peer_source"]
        which = GENERATOR
        if n == 0:
            which = c2h
        elif n == self.c2h and not self.sinks[n].generated:
            which = NOTHING if peer == c2h != GENERATOR else peer
        if which in (STREAM, LANE):
            source = self.sources[0] if which == STREAM else self.lane
            return source.data, source.taken
        if which == GENERATOR:
            return Pattern(self.settings["generator_seed"]), self.positions[n]
        return None, 0

    def consume(self):
        """Drives the sinks in this clock."""
        dut = self.dut
        data = int(dut.write_data.value).to_bytes(self.lanes * self.writers, "little")
        available = int(dut.write_available.value)
        moves = takes = backs = counts = 0
        self.asked = 0
        for n, sink in enumerate(self.sinks):
            sink.look(data[n * self.lanes : (n + 1) * self.lanes])
            move, back, count = sink.ask(available >> 16 * n & 0xFFFF, self.time)
            stream, at = self.source_of(n)
            expected = None
            if count:
                assert stream is not None, "a sink takes without a source"
                expected = bytes(stream[at : at + count])
                assert len(expected) == count
            if isinstance(stream, Pattern):
                self.positions[n] += count
            else:
                self.asked += count
            sink.note(move, expected, back)
            moves |= move << n
            takes |= (count > 0) << n
            backs |= back << 6 * n
            counts |= count << 7 * n
        dut.write_move.value = moves
        dut.write_take.value = takes
        dut.write_take_back.value = backs
        dut.write_take_bytes.value = counts

    def give(self):
        """Drives the sources in this clock."""
        dut = self.dut
        before = self.sources[0].taken + self.lane.taken
        moves, takes = int(dut.h2c_move.value), int(dut.h2c_take.value)
        backs, counts = int(dut.h2c_take_back.value), int(dut.h2c_take_bytes.value)
        for n, source in enumerate(self.sources):
            bits = (moves >> n & 1, takes >> n & 1)
            source.clock(self.time, *bits, backs >> 6 * n & 63, counts >> 7 * n & 127)
        taken = ("move", "take", "take_back", "take_bytes")
        self.lane.clock(self.time, *(int(getattr(dut, f"lane_{name}").value) for name in taken))
        # Only the selected channels take from routed streams.
        if STREAM in (self.settings["c2h_source"], self.settings["peer_source"]):
            assert self.sources[0].taken + self.lane.taken == before + self.asked

    async def step(self):
        """Runs one clock."""
        self.drive()
        await Timer(500, unit="ps")
        self.consume()
        await Timer(500, unit="ps")
        self.give()
        await FallingEdge(self.dut.clk)
        self.time += 1

    async def run(self, clocks):
        """Runs some clocks."""
        for _ in range(clocks):
            await self.step()

    async def pulse(self, name, clocks=1):
        """Runs some clocks, with a pulse of the registers in the first."""
        self.pulses = {name: 1}
        await self.run(clocks)

    async def wire(self, name, clocks=1):
        """Runs some clocks, with a signal of the channel in the first."""
        self.wires[name] = 1
        await self.run(clocks)

    async def quiet(self):
        """Waits until no requested bytes are in flight."""
        moods = [(sink.hungry, sink.moves) for sink in self.sinks]
        for sink in self.sinks:
            sink.hungry, sink.moves = False, 1
        await self.run(READ_CLOCKS + 2)
        for sink, mood in zip(self.sinks, moods, strict=True):
            sink.hungry, sink.moves = mood

    def readings(self):
        """The values of the registers."""
        return unpack("user_readings_t", self.dut.user_readings.value)


async def feed_all(u, c2h, peer):
    """A stretch of traffic, with messages of the generator in between."""
    u.settings.update(c2h_source=c2h, peer_source=peer, lane=u.random.randrange(16))
    for sink in u.sinks:
        sink.moves, sink.takes = u.random.choice([(1, 1), (0.6, 0.7), (1, 0.3)])
        sink.checked = 0
    for _ in range(80):
        if u.peer and u.random.random() < 0.3:
            u.sinks[u.c2h].generated = u.random.random() < 0.4
        for source in [*u.sources, u.lane]:
            source.data += u.random.randbytes(u.random.randrange(u.lanes))
        await u.step()
    for sink in u.sinks:
        sink.generated = False
    await u.quiet()
    while STREAM not in (c2h, peer) and int(u.dut.user_busy.value):
        await u.step()


@cocotb.test()
async def each_is_fed_with_what_is_set(dut):
    """All sources, any byte, any pause."""
    u = await User(dut, 0).start()
    places = len(dut.lane_kept)
    for c2h, peer in [(c2h, peer) for c2h in range(4) for peer in range(4)]:
        before = u.sources[0].taken, u.lane.taken
        await feed_all(u, c2h, peer)
        lane = u.settings["lane"]
        routed = LANE in (c2h, peer) and lane < places
        assert int(dut.lane_kept.value) == (1 << lane if routed else 0)
        assert int(dut.lane_select.value) == lane
        # A stream without a consumer is drained; a lane drains itself.
        assert STREAM in (c2h, peer) or u.sources[0].available() < 4
        assert (u.sinks[0].checked > 0) == (c2h != NOTHING)
        if u.peer and c2h == peer != GENERATOR:
            assert int(dut.write_available.value) >> 16 * u.c2h & 0xFFFF == 0
        assert (u.lane.taken > before[1]) == (c2h == LANE or (peer == LANE and u.peer > 0))
        assert u.sources[0].taken > before[0] or (not u.peer and peer == STREAM)
    for source in u.sources[1:]:
        assert source.available() < u.lanes


@cocotb.test()
async def the_pattern_begins_anew_with_its_seed(dut):
    u = await User(dut, 1).start()
    for seed in [0, 0xFFFFFFFF, 0x12345678]:
        if seed:
            await u.quiet()
            for sink in u.sinks:
                sink.hungry = False
            u.pulses = dict(generator_restart=1)
            # The value may be there in the clock of the pulse, or in the next.
            u.settings["generator_seed"] = seed if seed == 0xFFFFFFFF else 0xFFFFFFFF
            await u.step()
            u.settings["generator_seed"] = seed
            await u.run(2)
            u.positions = [0] * u.writers
        for sink in u.sinks:
            sink.hungry, sink.checked = True, 0
            sink.moves = 0.8
        await u.run(150)
        await u.quiet()
        assert all(sink.checked > 100 for sink in u.sinks)


@cocotb.test()
async def a_beat_each_clock(dut):
    """Through the generators, from the H2C stream, from the lane, and into the checker."""
    u = await User(dut, 2).start()
    cases = [(GENERATOR, GENERATOR), (STREAM, LANE), (LANE, STREAM), (GENERATOR, LANE)]
    for c2h, peer in cases:
        u.settings.update(c2h_source=c2h, peer_source=peer)
        for source in [*u.sources, u.lane]:
            source.data += u.random.randbytes(64 * u.lanes - source.available())
        for sink in u.sinks:
            sink.whole_beats, sink.took, sink.checked = True, [], 0
        before = u.sources[0].taken
        await u.run(60)
        for sink in u.sinks:
            assert len(sink.took) == 60
            # All but the beats in flight.
            assert sink.checked == (60 - READ_CLOCKS) * u.lanes
        if u.peer:
            assert u.sources[0].taken - before == 60 * u.lanes
        await u.quiet()


@cocotb.test()
async def what_leads_nowhere_is_checked(dut):
    u = await User(dut, 3).start()
    source = u.sources[0]
    for enabled in [1, 1, 0]:
        seed = u.random.getrandbits(32)
        u.settings.update(h2c_check=enabled, h2c_check_seed=seed)
        await u.pulse("h2c_check_restart")
        data = bytearray(pattern(seed, 0, 2800))
        wrong = sorted({u.random.randrange(700) for _ in range(9)} | {699})
        for word in wrong:
            data[4 * word + u.random.randrange(4)] ^= 1 << u.random.randrange(8)
        while data:
            # Bytes arrive in any amounts; a partial word waits.
            part = u.random.randrange(1, 3 * u.lanes)
            source.data += data[:part]
            del data[:part]
            await u.step()
        while source.available():
            await u.step()
        await u.run(READ_CLOCKS + 6)
        r = u.readings()
        expected = (len(wrong), wrong[0]) if enabled else (0, 0)
        assert (r.h2c_check_errors, r.h2c_check_first) == expected
    assert source.taken == 3 * 2800


@cocotb.test()
async def errors_are_counted_a_beat_each_clock(dut):
    u = await User(dut, 4).start()
    u.settings.update(h2c_check=1, h2c_check_seed=1)
    u.sources[0].data += pattern(2, 0, 100 * u.lanes)
    await u.run(100 + READ_CLOCKS + 6)
    # The engine is told that this stream has no consumer, as all but the first one always are.
    assert int(dut.h2c_drained.value) == (1 << len(u.sources)) - 1
    r = u.readings()
    assert (r.h2c_check_errors, r.h2c_check_first) == (100 * u.lanes // 4, 0)
    # Beats in flight at a restart belong to the time before it.
    source = u.sources[0]
    for clocks in range(6, 16):
        await u.pulse("h2c_check_restart")
        source.times.clear()
        source.data += pattern(2, 0, 20 * u.lanes)
        await u.run(clocks)
        restarted = u.time
        await u.pulse("h2c_check_restart", 30)
        behind = sum(time + READ_CLOCKS > restarted for time in source.times)
        assert 0 < behind < len(source.times) == 20
        r = u.readings()
        assert (r.h2c_check_errors, r.h2c_check_first) == (behind * u.lanes // 4, 0)


@cocotb.test()
async def one_command_at_a_time(dut):
    u = await User(dut, 5).start()
    u.settings.update(command_address=0x5_0000_1000, command_bytes=256)
    assert not int(dut.command_valid.value)

    async def offered():
        await u.step()
        assert int(dut.command_valid.value)
        return unpack("descriptor_t", dut.command_descriptor.value)

    done = 0
    for started_again in [False, True, False]:
        await u.pulse("command_start")
        # The command has the settings of the time when it was started.
        u.settings.update(command_address=0x7000, command_bytes=4)
        d = await offered()
        assert (d.address, d.bytes, d.error) == (0x5_0000_1000, 256, 0)
        assert (d.command, d.generated, d.await_credit) == (1, 0, 0)
        assert (d.write_status, d.send_interrupt) == (0, 0)
        await u.wire("command_ready")
        assert not int(dut.command_valid.value)
        assert u.readings().command_busy == 1
        if started_again:
            await u.pulse("command_start", 2)
            assert not int(dut.command_valid.value)
        await u.wire("command_done")
        done += 1
        assert (u.readings().command_busy, u.readings().command_done) == (0, done)
        u.settings.update(command_address=0x5_0000_1000, command_bytes=256)
    # The channel stops: the started command is dropped, before it is taken or after.
    for taken in [0, 1]:
        await u.pulse("command_start", 2)
        u.wires["command_ready"] = taken
        await u.step()
        await u.wire("peer_stopped", 2)
        assert (int(dut.command_valid.value), u.readings().command_busy) == (0, 0)
    assert u.readings().command_done == done


async def take_message(u):
    """Takes the offered message and begins it; returns the time."""
    dut = u.dut
    await u.run(u.random.randrange(1, 5))
    assert int(dut.command_valid.value)
    d = unpack("descriptor_t", dut.command_descriptor.value)
    address, size = u.settings["command_address"], u.settings["command_bytes"]
    assert (d.address, d.bytes, d.command, d.generated) == (address, size, 1, 1)
    await u.wire("command_ready")
    await u.run(u.random.randrange(1, 9))
    assert not int(dut.command_valid.value)
    begun = u.time
    await u.wire("message_begun")
    return begun


@cocotb.test()
async def rounds_of_the_ping_pong_are_timed(dut):
    u = await User(dut, 6).start()
    u.settings.update(command_address=0x9_0000_0000, command_bytes=1000, lane=3)
    for rounds in [5, 1, 0, 3]:
        u.settings["ping_rounds"] = rounds
        await u.pulse("ping_start", 2)
        assert u.readings().ping_done == 0
        spans = []
        for number in range(rounds):
            begun = await take_message(u)
            if number == 2:
                u.time += (1 << 32) + 5  # too long for `most`
            await u.run(u.random.randrange(1, 60))
            # A TLP for another lane does not count.
            u.received = (2, 1000)
            await u.step()
            spans.append(u.time - begun)
            for count in [128, 512, 356, 4]:
                u.received = (3, count)
                await u.step()
                await u.run(u.random.randrange(3))
                r = u.readings()
                assert r.ping_done == number + (count == 4)
        await u.run(4)
        assert not int(dut.command_valid.value)
        r = u.readings()
        shown = [min(span, WHOLE - 1) for span in spans] or [0]
        assert (r.ping_done, r.ping_sum) == (rounds, sum(spans))
        assert (r.ping_least, r.ping_most) == (min(shown), max(shown))
        # A TLP without a message before it does not count.
        u.received = (3, 1000)
        await u.run(4)
        assert u.readings().ping_done == rounds


@cocotb.test()
async def the_ping_pong_stops_with_the_channel(dut):
    u = await User(dut, 7).start()
    u.settings.update(command_address=64, command_bytes=64, lane=1, ping_rounds=9)
    await u.pulse("ping_start", 2)
    await take_message(u)
    # A command that is started meanwhile comes first.
    u.received = (1, 64)
    await u.pulse("command_start", 2)
    assert int(dut.command_valid.value)
    assert not unpack("descriptor_t", dut.command_descriptor.value).generated
    await u.wire("command_ready")
    assert unpack("descriptor_t", dut.command_descriptor.value).generated
    await u.wire("peer_stopped", 3)
    assert not int(dut.command_valid.value)
    await u.wire("message_begun")
    u.received = (1, 64)
    await u.run(4)
    assert (u.readings().ping_done, int(dut.command_valid.value)) == (1, 0)


SHAPES = [(64, 1, 1, 1, 8), (256, 2, 2, 2, 3)]
if ALL:
    SHAPES += [(128, 1, 1, 1, 8), (512, 1, 1, 1, 8), (256, 1, 1, 0, 0), (64, 3, 1, 2, 16)]


@pytest.mark.parametrize(("data_bits", "h2c", "c2h", "peer", "lanes"), SHAPES)
def test_user(data_bits, h2c, c2h, peer, lanes):
    parameters = {"DATA_BITS": data_bits, "H2C": h2c, "C2H": c2h, "PEER": peer, "LANES": lanes}
    simulate(__file__, "crosslane_user", parameters)
