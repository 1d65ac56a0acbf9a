# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_lanes: writes to the receive queues are stored, taken out, checked and credited."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, Timer
from engine_host import pattern
from packed import CONSTANTS, pack, pack_all, unpack, unpack_one, width
from simulate import ALL, SEED, simulate
from tlp_stream import Bench

LANE_FIFO = 1024
WINDOW_BYTES = 4096
BAR = 0x7_0000_0000
READ_CLOCKS = 3
# From a beat at the input to its bytes at the feed.
INPUT_TO_AVAILABLE = 4
CREDIT_DELAY = 256


class Lanes:
    """Drives the module and compares it with the expected behaviour of its lanes."""

    def __init__(self, dut, seed):
        self.dut = dut
        self.random = random.Random(seed)
        self.bytes = len(dut.s_lane_data) // 8
        self.count = len(dut.kept)
        self.settings = [
            dict(enable=1, credit_address=0x1_0000_0000 * n + 64 * n + 3, check_seed=n * 77 + 5)
            for n in range(self.count)
        ]
        self.kept = 0
        self.bus_master = 1
        self.pulse = None  # lane restarted in this clock
        self.clock = 0
        # TLPs waiting to be sent: (header, payload), and the beats of the current one.
        self.waiting, self.beats = [], []
        self.begin, self.pause = 1.0, 0.0  # probabilities that a beat follows
        self.offered = False
        self.taken_in = []  # clocks in which beats were taken
        # The feed's consumer.
        self.moves, self.takes, self.hungry = 1.0, 1.0, True
        self.whole_beats = False
        self.pipe = [None] * READ_CLOCKS
        self.fresh = False
        # It may take pieces, each begun when all of it is available: their longest length; the
        # bytes that the piece in progress still lacks.
        self.piece_bytes, self.piece = None, b""
        # For each lane: bytes expected at the output; words expected at its checker.
        self.stored = [bytearray() for _ in range(self.count)]
        self.taken = [0] * self.count
        self.given = 0
        # Credit writes: (clock, address, count).
        self.credits, self.credit_ready = [], 1.0
        self.received = []

    async def start(self):
        """Clock and reset."""
        dut = self.dut
        for name in ["s_lane_valid", "reset_counters", "feed_move", "feed_take", "feed_goes_on",
                     "time_i", "feed_lane", "m_credit_ready"]:  # fmt: skip
            getattr(dut, name).value = 0
        self.drive_settings()
        await Bench(dut).reset()
        return self

    def drive_settings(self):
        """Drives the settings of software and user circuit."""
        settings = [dict(restart=self.pulse == n, **own) for n, own in enumerate(self.settings)]
        self.dut.lane_settings.value = pack_all("lane_settings_t", settings)
        self.dut.kept.value = self.kept
        self.dut.function_i.value = pack(
            "function_t", bus_master=self.bus_master, routing_id=0x1234
        )
        self.pulse = None

    def readings(self, lane):
        """The values of a lane's registers."""
        return unpack_one("lane_readings_t", self.dut.lane_readings.value, lane)

    def send(self, lane, payload, **changes):
        """Queues a TLP."""
        words = len(payload) // 4
        fields = dict(
            kind=CONSTANTS["MEMORY_WRITE"],
            address=BAR + lane * WINDOW_BYTES + self.random.randrange(0, WINDOW_BYTES // 2, 4),
            length_dw=words,
            first_be=15,
            last_be=15 if words > 1 else 0,
            bar=1,
        )
        self.waiting.append((pack("tlp_header_t", **{**fields, **changes}), bytes(payload)))

    def store(self, lane, size):
        """Queues a TLP with random bytes, which are expected at the output."""
        payload = self.random.randbytes(size)
        self.send(lane, payload)
        self.stored[lane] += payload

    async def restart(self, lane):
        """Restarts a lane: nothing of what was stored is expected."""
        self.pulse = lane
        await self.step(lane)
        self.stored[lane], self.taken[lane] = bytearray(), 0

    def offer(self):
        """Drives the input in this clock."""
        dut = self.dut
        if not self.offered:
            if not self.beats and self.waiting and self.random.random() < self.begin:
                header, payload = self.waiting.pop(0)
                for at in range(0, len(payload), self.bytes):
                    part = payload[at : at + self.bytes]
                    rest = self.random.randbytes(self.bytes - len(part))
                    self.beats.append(
                        (header, at == 0, at + self.bytes >= len(payload), part + rest)
                    )
            self.offered = bool(self.beats) and self.random.random() >= self.pause
        dut.s_lane_valid.value = self.offered
        if self.offered:
            header, first, last, data = self.beats[0]
            # The header is valid with the first beat only.
            dut.s_lane_header.value = (
                header if first else self.random.getrandbits(width("tlp_header_t"))
            )
            dut.s_lane_first.value = first
            dut.s_lane_last.value = last
            dut.s_lane_data.value = int.from_bytes(data, "little")

    def consume(self, lane):
        """Drives the feed in this clock: checks the beat that has come, may request one."""
        dut = self.dut
        if self.fresh and self.pipe[-1]:
            expected, back = self.pipe[-1]
            data = int(dut.feed_data.value).to_bytes(self.bytes, "little")
            assert data[back : back + len(expected)] == expected, f"clock {self.clock}"
            self.given += len(expected)
        available = int(dut.feed_available.value)
        move = self.random.random() < self.moves
        take = move and self.hungry and available > 0 and self.random.random() < self.takes
        entry = None
        if self.piece_bytes:
            take, entry = self.take_of_piece(lane, move and self.hungry, available)
        elif take:
            back = 0 if self.whole_beats else self.random.randrange(self.bytes)
            most = min(self.bytes - back, available)
            count = most if self.whole_beats else self.random.randint(1, most)
            at = self.taken[lane]
            entry = (bytes(self.stored[lane][at : at + count]), back)
            assert len(entry[0]) == count, "more is available than has arrived"
            self.taken[lane] += count
            dut.feed_take_back.value = back
            dut.feed_take_bytes.value = count
        dut.feed_move.value = move
        dut.feed_take.value = take
        self.fresh = move
        if move:
            self.pipe = [entry, *self.pipe[:-1]]
        return available

    def take_of_piece(self, lane, moves, available):
        """Whether a beat of a piece of the stream is taken, and its content."""
        dut, back, entry = self.dut, 0, None
        if not self.piece and moves:
            size, at = self.random.randint(1, self.piece_bytes), self.taken[lane]
            if size <= available:
                self.piece = bytes(self.stored[lane][at : at + size])
                assert len(self.piece) == size, "more is available than has arrived"
                self.taken[lane] += size
                back = self.random.randrange(4)
        take = moves and bool(self.piece)
        if take:
            assert available >= min(self.bytes - back, len(self.piece)), "the rest is not available"
            part = self.piece[: self.bytes - back]
            self.piece = self.piece[len(part) :]
            entry = (part, back)
            dut.feed_take_back.value = back
            dut.feed_take_bytes.value = len(part)
        dut.feed_goes_on.value = bool(self.piece)
        return take, entry

    async def step(self, lane=0):
        """Runs one clock."""
        dut = self.dut
        self.drive_settings()
        dut.feed_lane.value = lane
        dut.time_i.value = self.clock
        dut.m_credit_ready.value = ready = self.random.random() < self.credit_ready
        self.offer()
        await Timer(500, unit="ps")
        self.available = self.consume(lane)
        await Timer(500, unit="ps")
        self.ready = int(dut.s_lane_ready.value)
        if self.offered and self.ready:
            self.beats.pop(0)
            self.taken_in.append(self.clock)
            self.offered = False
        if ready and int(dut.m_credit_valid.value):
            header = unpack("tlp_header_t", dut.m_credit_header.value)
            assert (header.kind, header.length_dw) == (CONSTANTS["MEMORY_WRITE"], 1)
            assert (header.first_be, header.last_be, header.requester) == (15, 0, 0x1234)
            assert int(dut.m_credit_first.value) and int(dut.m_credit_last.value)
            data = int(dut.m_credit_data.value) & 0xFFFFFFFF
            self.credits.append((self.clock, header.address, data))
        if int(dut.received_valid.value):
            self.received.append((int(dut.received_lane.value), int(dut.received_bytes.value)))
        await FallingEdge(dut.clk)
        self.clock += 1

    async def run(self, clocks, lane=0):
        """Runs some clocks."""
        for _ in range(clocks):
            await self.step(lane)

    async def settle(self, lane=0, limit=4000):
        """Waits until all queued TLPs have gone in and out."""
        end = self.clock + limit
        quiet = 0
        while quiet < 16:
            await self.step(lane)
            left = self.taken[lane] < len(self.stored[lane]) if self.piece_bytes else self.available
            busy = self.waiting or self.beats or self.piece or (left and self.hungry)
            quiet = 0 if busy else quiet + 1
            assert self.clock < end, "the queued TLPs do not drain"

    def is_credit_of(self, credit, lane):
        """Whether a credit write belongs to a lane."""
        return credit[1] == self.settings[lane]["credit_address"] & ~3


def new(dut, seed=0):
    """A new bench."""
    return Lanes(dut, SEED * 1000 + seed)


def send_random(b, kept, sent):
    """Queues TLPs with the pattern, and some errors in it; returns the bytes of each lane."""
    queued = [0] * b.count
    for _ in range(60):
        lane = kept if b.random.random() < 0.5 else b.random.randrange(b.count)
        words = b.random.choice([1, 2, 3, b.random.randrange(1, 40), 64])
        payload = bytearray(pattern(b.settings[lane]["check_seed"], len(sent[lane]), 4 * words))
        if b.random.random() < 0.05:
            payload[b.random.randrange(len(payload))] ^= 0x10
        b.send(lane, payload)
        sent[lane] += payload
        queued[lane] += len(payload)
    return queued


def check_readings(b, lane, sent, checked):
    """Checks a lane's registers when all data are out; the checker has seen `checked`."""
    r = b.readings(lane)
    assert (r.received, r.drained, r.fill, r.overflow) == (len(sent), len(sent), 0, 0)
    want = pattern(b.settings[lane]["check_seed"], 0, len(checked) // 4 * 4)
    words = range(0, len(want), 4)
    wrong = [n // 4 for n in words if want[n : n + 4] != checked[n : n + 4]]
    if not b.settings[lane]["check"]:
        wrong = []
    assert (r.check_errors, r.check_first) == (len(wrong), wrong[0] if wrong else 0)


def check_credits(b, sent):
    """Checks that every lane with credits has reported all bytes, and none twice."""
    for lane in range(b.count):
        counts = [credit[2] for credit in b.credits if b.is_credit_of(credit, lane)]
        assert counts == sorted(set(counts))
        assert counts[-1:] == [len(sent[lane])] * b.settings[lane]["return_credits"]


@cocotb.test()
async def everything_comes_out_or_is_checked(dut):
    """Random TLPs for all lanes; the lane that is kept changes, and with it the lanes that are
    drained."""
    b = await new(dut).start()
    count = b.count
    b.stored = sent = [bytearray() for _ in range(count)]  # of each lane, in order
    checked = [bytearray() for _ in range(count)]  # words that its checker sees
    out_of_feed = 0
    for lane in range(count):
        b.settings[lane].update(check=lane % 4 != 3, return_credits=lane % 3 != 1)
    for phase in range(10):
        kept = b.random.randrange(count)
        b.kept = 1 << kept if phase % 5 != 4 else 0
        b.moves, b.takes = b.random.choice([(1, 1), (0.5, 0.7), (0.9, 0.2), (1, 0.4)])
        b.begin, b.pause = b.random.choice([(1, 0), (0.3, 0.3), (1, 0.5), (0.6, 0)])
        b.credit_ready = b.random.choice([1, 0.5, 0.02])
        queued = send_random(b, kept, sent)
        before = b.taken[kept] = len(sent[kept]) - queued[kept]
        # A single lane may run empty while it is drained, within a word that the feed has begun:
        # the model does not know a remainder that is dropped then.
        stop = b.kept and b.random.random() < 0.5 and count > 1
        while len(b.waiting) > (20 if stop else 0):
            await b.step(kept)
        if not stop:
            await b.settle(kept)
        # The lane is no longer kept: its content goes to its checker.
        b.hungry, b.moves = False, 1
        await b.run(READ_CLOCKS + 1, kept)
        b.kept = 0
        await b.settle(kept, 6000)
        while any(b.readings(lane).fill for lane in range(count)):
            await b.step(kept)
            assert b.clock < 200_000, "a lane is not drained"
        await b.run(READ_CLOCKS + 1, kept)
        b.hungry = True
        out_of_feed += b.taken[kept] - before
        for lane in range(count):
            # A partial word is dropped, so the checker sees whole words.
            at = b.taken[kept] if lane == kept else len(sent[lane]) - queued[lane]
            checked[lane] += sent[lane][at : at + (len(sent[lane]) - at) // 4 * 4]
            check_readings(b, lane, sent[lane], checked[lane])
    assert b.given == out_of_feed > 1000
    b.credit_ready = 1
    await b.run(CREDIT_DELAY + 4 * count + 20)
    check_credits(b, sent)
    assert sum(size for _, size in b.received) == sum(map(len, sent))


@cocotb.test()
async def what_was_kept_is_checked_first(dut):
    """A TLP that arrives while its lane is drained is checked after the lane's content."""
    b = await new(dut, 7).start()
    lane = b.count - 1
    b.settings[lane]["check"] = 1
    b.hungry = False
    sent = 0
    for clocks in range(64):
        b.kept = 1 << lane
        held = [[20, 3], [1]][clocks // 2 % 2]
        for words in held:
            b.send(lane, pattern(b.settings[lane]["check_seed"], 4 * sent, 4 * words))
            sent += words
        await b.run(25, lane)
        assert b.readings(lane).fill == 4 * sum(held)
        b.kept = 0
        await b.run(clocks // 4, lane)
        # Two that follow each other directly, or one.
        for words in [1, 9][: 1 + clocks % 2]:
            b.send(lane, pattern(b.settings[lane]["check_seed"], 4 * sent, 4 * words))
            sent += words
        await b.settle(lane)
        await b.run(30, lane)
        r = b.readings(lane)
        assert (r.drained, r.fill, r.check_errors) == (4 * sent, 0, 0), clocks
        assert not int(dut.busy.value)


@cocotb.test()
async def every_clock_a_beat(dut):
    """TLPs of any size, back to back, for lanes in any order: a beat each clock, in and out."""
    b = await new(dut, 1).start()
    lane = b.count - 1
    b.kept = 1 << lane
    b.whole_beats = True
    beats = 0
    for _ in range(120):
        target = lane if b.random.random() < 0.4 else b.random.randrange(b.count)
        words = b.random.choice([1, 1, 2, 5, 16, 32, 33])
        b.store(target, 4 * words)
        beats += -(-4 * words // b.bytes)
    await b.settle(lane)
    assert len(b.taken_in) == beats == b.taken_in[-1] - b.taken_in[0] + 1
    assert b.given == len(b.stored[lane])
    # The kept lane alone, in whole beats: as many come out, the same number of clocks later.
    b.taken_in = []
    beats = 0
    for _ in range(20):
        b.store(lane, 128)
        beats += 128 // b.bytes
    shown, start = [], b.given
    for _ in range(beats + 20):
        await b.step(lane)
        shown.append((b.clock - 1, b.available))
    assert b.given - start == 20 * 128
    assert b.taken_in[-1] - b.taken_in[0] + 1 == beats
    with_data = [clock for clock, available in shown if available]
    assert with_data[0] == b.taken_in[0] + INPUT_TO_AVAILABLE
    assert with_data == list(range(with_data[0], with_data[0] + beats))


@cocotb.test()
async def a_full_lane_holds_up_or_drops(dut):
    b = await new(dut, 2).start()
    lane, other = 0, b.count - 1
    b.kept = 1
    b.hungry = False
    full = LANE_FIFO - 64
    for _ in range(full // 64):
        b.store(lane, 64)
    await b.run(LANE_FIFO // 4 + 20)
    assert (b.readings(lane).fill, b.readings(lane).overflow) == (full, 0)
    # 68 bytes do not fit; TLPs behind them wait as well, for any lane.
    b.store(lane, 68)
    b.store(other, 8)
    await b.run(50)
    received = b.readings(other).received if other else 0
    assert (b.readings(lane).received, received) == (full, 0)
    assert b.waiting or b.beats or b.offered
    b.hungry = True
    await b.settle(lane)
    assert b.given == full + 68 + 8 * (other == lane)
    assert b.readings(lane).overflow == 0
    # The same with dropping: a TLP is dropped as a whole, and a later one that fits goes in.
    b.settings[lane]["drop_when_full"] = 1
    b.hungry = False
    fits = [b.random.randbytes(size) for size in [LANE_FIFO - 64, 68, 64]]
    for payload in fits:
        b.send(lane, payload)
    b.stored[lane] += fits[0] + fits[2]
    before = b.readings(lane).received
    await b.run(LANE_FIFO // 4 + 60)
    r = b.readings(lane)
    assert (r.fill, r.overflow, r.received - before) == (LANE_FIFO, 1, LANE_FIFO)
    b.hungry = True
    await b.settle(lane)
    assert b.given == len(b.stored[lane])


@cocotb.test()
async def what_cannot_be_taken_sets_overflow(dut):
    b = await new(dut, 3).start()
    lane = b.count // 2
    b.kept = 1 << lane
    good = dict(first_be=15)
    cases = [
        (64, dict(poisoned=1), 1),
        (4, dict(first_be=7), 1),
        (8, dict(first_be=14), 1),
        (8, dict(last_be=3), 1),
        (4, dict(first_be=0), 1),
        (LANE_FIFO + 4, good, 1),
        (LANE_FIFO, good, 0),
        (64, good, 0),
    ]
    for size, changes, lost in cases:
        await b.restart(lane)
        payload = b.random.randbytes(size)
        b.send(lane, payload, **changes)
        if not lost:
            b.stored[lane] += payload
        start = b.given
        await b.settle(lane)
        r = b.readings(lane)
        assert (r.overflow, r.received) == (lost, 0 if lost else size), (size, changes)
        assert b.given - start == (0 if lost else size)
    # A disabled lane; and a lane that does not exist.
    b.settings[lane]["enable"] = 0
    b.send(lane, bytes(32))
    places = 1 << (b.count - 1).bit_length()
    if places > b.count:
        b.send(places - 1, bytes(32))
    await b.settle(lane)
    assert b.readings(lane).overflow == 1
    assert [b.readings(n).overflow for n in range(b.count) if n != lane] == [0] * (b.count - 1)
    # A lane that is not kept takes a TLP of any length.
    if b.count > 1:
        b.send(0, bytes(4096 if WINDOW_BYTES >= 4096 else 1024))
        await b.settle(lane)
        assert (b.readings(0).received, b.readings(0).overflow) == (4096, 0)


@cocotb.test()
async def a_restart_forgets(dut):
    """In the middle of a TLP as well: nothing of it is left, and the next ones are whole."""
    b = await new(dut, 4).start()
    lane = 0
    b.kept = 1
    b.settings[lane]["return_credits"] = 1
    for clocks in range(1, 20):
        b.hungry = False
        b.send(lane, bytes(256))
        await b.run(clocks, lane)
        await b.restart(lane)
        await b.run(256 // b.bytes + 10, lane)
        b.credits.clear()
        r = b.readings(lane)
        if r.received == 256:
            # It had not begun yet.
            await b.restart(lane)
            await b.run(2, lane)
            r = b.readings(lane)
        assert (r.received, r.fill, r.drained, r.overflow) == (0, 0, 0, 0), clocks
        for _ in range(512 // 32):
            b.store(lane, 32)
        b.hungry, b.whole_beats = True, clocks % 2
        start = b.given
        await b.settle(lane)
        r = b.readings(lane)
        assert (r.received, r.drained, b.given - start) == (512, 512, 512)
        assert all(count <= 512 for _, _, count in b.credits)


def send_pieces(b, lane, total):
    """Queues `total` bytes for a lane."""
    while total:
        size = min(total, 4 * b.random.choice([1, 2, 7, 16, 50]))
        b.store(lane, size)
        total -= size


@cocotb.test()
async def a_restart_leaves_the_rest_of_what_was_begun(dut):
    """A consumer in the middle of a piece gets it whole, and then the later data: up to a full lane
    may arrive before it continues."""
    b = await new(dut, 8).start()
    lane = b.count - 1
    b.kept = 1 << lane
    b.piece_bytes = LANE_FIFO // 4
    rests = waits = 0
    for _ in range(100):
        b.hungry, b.moves = b.random.random() < 0.8, b.random.choice([1, 0.5, 0.1])
        send_pieces(b, lane, 4 * b.random.randint(1, LANE_FIFO // 4))
        while b.waiting or b.beats:
            await b.step(lane)
            b.hungry = b.hungry or b.random.random() < 0.05
        await b.run(b.random.randrange(4, 20), lane)
        b.hungry = True
        for _ in range(b.random.choice([1, 1, 2])):
            await b.run(b.random.randrange(5), lane)
            await b.restart(lane)
        rests += bool(b.piece)
        # The consumer stops, as on a link without credits.
        b.hungry = b.random.random() < 0.3
        begun = b.piece
        send_pieces(b, lane, b.random.choice([4, 200, LANE_FIFO]))
        await b.run(LANE_FIFO // 4 + 60, lane)
        if begun and not b.hungry:
            assert (b.piece, b.readings(lane).drained) == (begun, 0)
            # More than half of the ring is free for later data.
            received = b.readings(lane).received
            assert received == len(b.stored[lane]) or received > LANE_FIFO // 2 - 200
            waits += received < len(b.stored[lane])
        b.hungry = True
        await b.settle(lane, 20_000)
        await b.run(READ_CLOCKS + 1, lane)
        r = b.readings(lane)
        expected = (len(b.stored[lane]), b.taken[lane], 0)
        assert (r.received, r.drained, r.overflow) == expected
    assert rests > 20 and waits > 1


@cocotb.test()
async def credits_come_by_the_quarter_and_when_it_is_quiet(dut):
    b = await new(dut, 5).start()
    lane = b.count - 1
    b.settings[lane]["return_credits"] = 1
    quarter = LANE_FIFO // 4
    # Less than a quarter: once, CREDIT_DELAY clocks after the last bytes were taken out.
    b.send(lane, bytes(16))
    await b.settle()
    assert not b.credits and int(dut.busy.value)
    await b.run(CREDIT_DELAY + 10)
    assert not int(dut.busy.value)
    [(clock, _, count)] = b.credits
    assert count == 16 and CREDIT_DELAY <= clock - b.taken_in[-1] <= CREDIT_DELAY + 4
    # A quarter: at once.
    b.credits.clear()
    b.send(lane, bytes(quarter - 4))
    await b.settle()
    assert not b.credits
    b.send(lane, bytes(4))
    await b.settle()
    [(clock, _, count)] = b.credits
    assert count == 16 + quarter and clock - b.taken_in[-1] <= 4
    # Not without Bus Master Enable; then the newest count.
    b.credits.clear()
    b.bus_master = 0
    for _ in range(8):
        b.send(lane, bytes(quarter))
    await b.settle()
    assert not b.credits
    b.bus_master = 1
    await b.run(4)
    assert [count for _, _, count in b.credits] == [16 + 9 * quarter]
    # Lanes take turns: none has a second write before another's first.
    b.credits.clear()
    for fields in b.settings:
        fields["return_credits"] = 1
    b.credit_ready = 0
    for _ in range(2):
        for n in range(b.count):
            b.send(n, bytes(quarter))
        await b.settle()
    b.credit_ready = 1
    await b.run(2 * b.count + 4)
    order = [next(n for n in range(b.count) if b.is_credit_of(credit, n)) for credit in b.credits]
    # The first was built before the second quarter came, so that lane has another.
    assert sorted(order[: b.count]) == list(range(b.count))
    assert b.count == 1 or (len(order) == b.count + 1 and order[-1] == order[0])


@cocotb.test()
async def times_are_of_the_first_and_the_last(dut):
    b = await new(dut, 6).start()
    await b.run(5)
    spans = {}
    for lane in range(b.count):
        before = len(b.taken_in)
        for _ in range(3):
            b.send(lane, bytes(4))
        await b.settle()
        spans[lane] = (b.taken_in[before] + 1, b.taken_in[-1] + 1)
    for lane, span in spans.items():
        r = b.readings(lane)
        assert (r.first, r.last) == span
    dut.reset_counters.value = 1
    await b.step()
    dut.reset_counters.value = 0
    await b.step()
    assert [vars(b.readings(n))["last"] for n in range(b.count)] == [0] * b.count
    assert [b.readings(n).received for n in range(b.count)] == [12] * b.count


SHAPES = [(64, 3), (256, 8)]
if ALL:
    SHAPES = [(bits, lanes) for bits in (64, 128, 256, 512) for lanes in (1, 3, 8, 16)]


@pytest.mark.parametrize(("data_bits", "lanes"), SHAPES)
def test_lanes(data_bits, lanes):
    parameters = {"DATA_BITS": data_bits, "LANES": lanes, "LANE_FIFO": LANE_FIFO}
    parameters |= {"WINDOW_BYTES": WINDOW_BYTES}
    simulate(__file__, "crosslane_lanes", parameters)
