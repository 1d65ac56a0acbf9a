# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two ends of `link_pair`, each beside its reference, and the cables between them.

All that happens in an end in a clock happens in its reference as well; each column that it sends,
each datagram and its state must then be the same. Hosts send numbered datagrams and take them.
"""

import random
from collections import Counter, deque
from dataclasses import dataclass, field

from link_reference import COUNTERS, Reference
from packed import part
from tlp_stream import Bench

CHANNELS = 8
DATA, CONTROL, ERROR = range(3)
SKIP, COMMAND, IDLE, COMMA = ((CONTROL, byte) for byte in (0x1C, 0x5C, 0x7C, 0xBC))
OPERATIONS = {1: "ACK", 2: "NACK", 3: "RESTART", 4: "COUNT", 5: "CONFIRM"}
# Clocks from the choice of a frame to its first column, as tx_ready counts them.
TX_CLOCKS = 3
# Shorter than on a link, for more of them.
SKIP_INTERVAL = 300

# Fields of a port's packed counters of its lanes, the lowest bits first.
LANE_COUNTERS = "bad_sets skip_sets doubled dropped slipped realigned losses".split()
COMMAND_BYTES = 8
# Datagrams that a port acknowledges together.
ACKNOWLEDGE = 8

# A symbol: its kind (DATA, CONTROL, ERROR) and byte. A column: one of each lane; None: no column.
Symbol = tuple[int, int]
Column = list[Symbol]


def payload_bytes(is_long: int) -> int:
    """The payload of a datagram."""
    return 256 if is_long else 128


def of_wire(lanes: int, datagram_bytes: int, latency: int) -> dict[str, int]:
    """Times that fit the wire, as `EndParameters::for_wire` has them; these and its latency are in
    columns."""
    datagram = datagram_bytes // lanes
    round_trip = (ACKNOWLEDGE + 1) * datagram + COMMAND_BYTES // lanes + 3 + 2 * latency
    within = 12 * datagram
    return {
        "acknowledge_within": within,
        "retry_timeout": 2 * (round_trip + within),
        "refresh": 8 * ACKNOWLEDGE * datagram + 2 * round_trip,
    }


def columns_of(frame: bytes, lanes: int) -> list[Column]:
    """The columns of a frame with its CRC."""
    symbols = [(DATA, byte) for byte in frame]
    if len(frame) == 8:
        symbols[0] = COMMAND
    return [symbols[at : at + lanes] for at in range(0, len(frame), lanes)]


def name_of(frame: bytes) -> str:
    """The name of a frame's operation, or `datagram`."""
    return "datagram" if len(frame) != 8 else OPERATIONS[frame[1] & 7]


FAULTS = ("error", "flip", "control", "vanish", "drop", "double", "cut")


def damaged(columns: list[Column], fault: str, seed: random.Random) -> list[list[Column]]:
    """The columns that come in place of each one of a frame with a fault."""
    columns = [list(column) for column in columns]
    at, lane = seed.randrange(len(columns)), seed.randrange(len(columns[0]))
    kind, byte = columns[at][lane]
    idle = [IDLE] * len(columns[0])
    if fault == "error":
        columns[at][lane] = (ERROR, byte)
    elif fault == "flip":
        columns[at][lane] = (kind, byte ^ 1 << seed.randrange(8))
    elif fault == "control":
        columns[at][lane] = (CONTROL, seed.choice([0x1C, 0x3C, 0x5C, 0x7C, 0xBC, 0xFC]))
    elif fault == "cut":
        columns[at:] = [idle] * (len(columns) - at)
    elif fault == "vanish":
        columns = [idle for _ in columns]
    comes = [[column] for column in columns]
    if fault == "drop":
        comes[at] = []
    elif fault == "double":
        comes[at] *= 2
    return comes


class Ports:
    """Two ports of a top whose signals have both side by side, and the delays of their cable."""

    def __init__(self, dut, lanes: int) -> None:
        self.dut, self.lanes = dut, lanes
        # Of the lanes on the way from each port, in bits.
        self.delays = [[0] * lanes, [0] * lanes]

    def drive(self, name: str, *values: int) -> None:
        """Sets an input of both ports."""
        port = getattr(self.dut, name)
        port.value = values[0] | values[1] << len(port) // 2

    def lane_delays(self, number: int, delays: list[int]) -> None:
        """Sets the delays of the lanes on the way from a port."""
        self.delays[number] = list(delays)
        both = [delay for one in self.delays for delay in one]
        self.dut.delay.value = int.from_bytes(bytes(both), "little")

    def states(self) -> list[int]:
        """Training states of both ports."""
        return [part(self.dut.state.value, 3, n) for n in range(2)]

    def counted(self, number: int) -> dict[str, int]:
        """The counters of a port's lanes."""
        vector = part(self.dut.lane_counters.value, 32 * len(LANE_COUNTERS), number)
        return {name: part(vector, 32, n) for n, name in enumerate(LANE_COUNTERS)}


@dataclass
class Cable:
    """One direction: a delay, skip sets, and faults of frames and of idle columns."""

    lanes: int
    seed: random.Random
    latency: int = 12
    # Share of frames of each name with a fault, and of idle columns with an error.
    odds: dict[str, float] = field(default_factory=dict)
    idle_odds: float = 0.0
    faults: tuple[str, ...] = FAULTS
    # (name, fault) of all frames with a fault.
    seen: Counter = field(default_factory=Counter)
    on_way: deque = field(default_factory=deque)
    # Frames in the order in which they begin, and the rest of the one that is being sent.
    frames: deque = field(default_factory=deque)
    rest: deque = field(default_factory=deque)
    since_skip: int = 0
    skip_left: int = 0

    def __post_init__(self):
        self.clear()

    def clear(self) -> None:
        """Loses what is on the way."""
        self.on_way = deque([[IDLE] * self.lanes for _ in range(self.latency)])

    def wants_skip(self, begins: bool) -> bool:
        """Whether this clock belongs to a skip set, and the sender waits."""
        self.since_skip += 1
        if self.skip_left == 0 and begins and self.since_skip > SKIP_INTERVAL:
            self.since_skip = 1
            self.skip_left = 3
        return self.skip_left > 0

    def send_skip(self) -> None:
        """Takes a column of a skip set; one of K28.0 may be dropped or doubled."""
        self.skip_left -= 1
        if self.skip_left == 2:
            self.on_way.append([COMMA] * self.lanes)
            return
        copies = self.seed.randrange(3) if self.skip_left == 0 else 1
        self.on_way.extend([[SKIP] * self.lanes] * copies)

    def send(self, column: Column, begins: bool) -> None:
        """Takes a column."""
        if begins and column[0] != IDLE:
            frame = self.frames.popleft()
            name, columns = name_of(frame), columns_of(frame, self.lanes)
            self.rest = deque([column] for column in columns)
            if self.seed.random() < self.odds.get(name, 0):
                fault = self.seed.choice(self.faults)
                self.seen[name, fault] += 1
                self.rest = deque(damaged(columns, fault, self.seed))
        elif begins and self.seed.random() < self.idle_odds:
            column = list(column)
            column[self.seed.randrange(self.lanes)] = (ERROR, 0)
        if self.rest:
            self.on_way.extend(self.rest.popleft())
        elif len(self.on_way) <= self.latency:
            # Idle columns that are too many make up for doubled ones.
            self.on_way.append(column)

    def receive(self) -> Column | None:
        """Gives a column, or none in this clock."""
        return self.on_way.popleft() if len(self.on_way) >= self.latency else None


@dataclass
class End:
    """One end with its host, its reference and the cable that it sends on."""

    number: int
    dut: object
    lanes: int
    payload_bytes: int
    reference: Reference
    cable: Cable
    seed: random.Random
    # Datagrams that the host has still to send on each channel; pauses, as odds.
    to_send: list[int] = field(default_factory=lambda: [0] * CHANNELS)
    source_pause: float = 0.0
    # Whether a datagram's beats do not pause, so that it is sent while it comes.
    is_steady: bool = False
    sink_pause: float = 0.0
    tx_pause: float = 0.0
    holds: int = 0  # channels that the host does not take
    up: bool = False
    far: int = 0

    def __post_init__(self):
        self.numbers = [0] * CHANNELS
        self.submitted = [deque() for _ in range(CHANNELS)]
        self.delivered = [deque() for _ in range(CHANNELS)]
        self.sending, self.at, self.offers = None, 0, False
        self.ready = True
        # A column takes effect in the second clock behind it.
        self.coming, self.came = None, deque([None, None])
        self.expected = deque([[IDLE] * self.lanes for _ in range(TX_CLOCKS)])
        self.was_up = False
        self.answer = None
        self.taken = bytearray()
        self.taken_count = 0

    def next_datagram(self):
        """Chooses a channel with room and a datagram; returns channel, label, payload."""
        room = part(self.dut.room.value, 8, self.number)
        open_to = [c for c in range(CHANNELS) if self.to_send[c] and room >> c & 1]
        if not open_to:
            return None
        channel = self.seed.choice(open_to)
        self.to_send[channel] -= 1
        number = self.numbers[channel]
        self.numbers[channel] += 1
        head = bytes([self.number, channel]) + number.to_bytes(4, "little")
        payload = head + self.seed.randbytes(self.payload_bytes - len(head))
        return channel, self.seed.getrandbits(21), payload


class Pair:
    """Both ends, as a part of a Bench."""

    def __init__(self, dut, sizes: dict[str, int], seed: random.Random):
        self.dut, self.seed = dut, seed
        self.lanes = sizes["lanes"]
        self.channel_datagrams = sizes["channel_datagrams"]
        self.payload_bytes = payload_bytes(sizes["long"])
        self.ends = [
            End(
                n,
                dut,
                self.lanes,
                self.payload_bytes,
                Reference(**sizes),
                Cable(self.lanes, seed),
                seed,
            )
            for n in range(2)
        ]
        for end in self.ends:
            end.is_steady = bool(sizes["steady"])
        # Columns for an end instead of those of its cable.
        self.injected = [deque(), deque()]
        # Whether frames are made up, so that what is delivered has not been submitted.
        self.injects = False

    def up(self, *numbers: int) -> None:
        """Lets the lanes of these ends be trained."""
        for number in numbers:
            self.ends[number].up = True

    def cut(self) -> None:
        """Loses the lanes of both ends, and what is on the way."""
        for end in self.ends:
            end.up = False
            end.cable.clear()

    def drive(self):
        """Sets the inputs of a clock."""
        dut, lanes, bits = self.dut, self.lanes, 8 * self.lanes
        s_valid = s_channel = s_label = s_data = m_ready = tx_ready = link_up = 0
        rx_valid = rx_symbols = rx_control = rx_error = 0
        begins = int(dut.tx_begins.value)
        for n, end in enumerate(self.ends):
            if end.sending is None:
                end.sending, end.at = end.next_datagram(), 0
            goes_on = end.is_steady and end.at > 0
            end.offers = end.sending is not None and (
                goes_on or self.seed.random() >= end.source_pause
            )
            if end.offers:
                channel, label, payload = end.sending
                beat = payload[end.at * lanes : (end.at + 1) * lanes]
                s_valid |= 1 << n
                s_channel |= channel << 3 * n
                s_label |= label << 21 * n
                s_data |= int.from_bytes(beat, "little") << bits * n
            if self.seed.random() >= end.sink_pause:
                m_ready |= (0xFF & ~end.holds) << 8 * n
            skips = end.cable.wants_skip(bool(begins >> n & 1))
            end.ready = not skips and self.seed.random() >= end.tx_pause
            tx_ready |= end.ready << n
            link_up |= end.up << n
            end.coming = self.column_for(n)
            if end.coming is not None:
                rx_valid |= 1 << n
                for lane, (kind, byte) in enumerate(end.coming):
                    rx_symbols |= byte << bits * n + 8 * lane
                    rx_control |= (kind == CONTROL) << lanes * n + lane
                    rx_error |= (kind == ERROR) << lanes * n + lane
        dut.s_valid.value, dut.s_channel.value = s_valid, s_channel
        dut.s_label.value, dut.s_data.value = s_label, s_data
        dut.m_ready.value, dut.tx_ready.value, dut.link_up.value = m_ready, tx_ready, link_up
        dut.rx_valid.value, dut.rx_symbols.value = rx_valid, rx_symbols
        dut.rx_control.value, dut.rx_error.value = rx_control, rx_error
        dut.far_channel_datagrams.value = self.channel_datagrams

    def column_for(self, number: int) -> Column | None:
        """The column that an end receives in this clock."""
        if self.injected[number]:
            return self.injected[number].popleft()
        far = self.ends[1 - number]
        column = far.cable.receive()
        return column if far.was_up and not self.injects else [IDLE] * self.lanes

    def sample(self, clock: int):
        """Samples the signals before the rising edge."""
        happens, s_ready = int(self.dut.happens.value), int(self.dut.s_ready.value)
        m_valid = int(self.dut.m_valid.value)
        symbols, control = int(self.dut.tx_symbols.value), int(self.dut.tx_control.value)
        begins = int(self.dut.tx_begins.value)
        for n, end in enumerate(self.ends):
            if end.answer is not None:
                self.compare_state(n, end.answer.state, clock)
                end.answer = None
            bytes_now = part(symbols, 8 * self.lanes, n).to_bytes(self.lanes, "little")
            kinds = part(control, self.lanes, n)
            column = [(kinds >> lane & 1, byte) for lane, byte in enumerate(bytes_now)]
            self.take_column(end, column, bool(begins >> n & 1), clock)
            self.follow(end, happens >> 8 * n & 0xFF, bool(s_ready >> n & 1), clock)
            if m_valid >> n & 1:
                self.take_beat(end, clock)

    def take_column(self, end: End, column: Column, begins: bool, clock: int) -> None:
        """Compares a column that is sent, and puts it on the cable."""
        if end.cable.skip_left:
            end.cable.send_skip()
        if not end.ready:
            return
        wanted = end.expected.popleft()
        assert column == wanted, f"end {end.number}, clock {clock}: {column}, not {wanted}"
        end.cable.send(column, begins)

    def follow(self, end: End, happens: int, s_ready: bool, clock: int) -> None:
        """Lets the reference do what the end does in this clock."""
        boundary, is_up = happens >> 7 & 1, happens >> 6 & 1
        submits, frees = happens >> 5 & 1, happens >> 4 & 1
        events = ["n"] if boundary and is_up else []
        came = end.came.popleft()
        end.came.append(end.coming)
        quiet = came is None or came == [IDLE] * self.lanes
        if came is not None:
            events.append("c" + "".join(f"{kind}{byte:02x}" for kind, byte in came))
        if frees:
            events.append(f"f{happens >> 1 & 7}")
        if end.offers and s_ready:
            end.at += 1
            is_last = end.at * self.lanes == self.payload_bytes
            if end.at == 1 if end.is_steady else is_last:
                assert submits, f"clock {clock}"
                channel, label, payload = end.sending
                events.append(f"s{channel}:{label << 11:08x}:{payload.hex()}")
                end.submitted[channel].append((label, payload))
            if is_last:
                end.sending = None
        if end.up != end.was_up:
            events.append(f"u{self.channel_datagrams}" if end.up else "d")
        answer = end.reference.clock(clock, events)
        end.was_up = end.up
        if boundary:
            columns = [[IDLE] * self.lanes]
            if answer.frame is not None:
                columns = columns_of(answer.frame, self.lanes)
                end.cable.frames.append(answer.frame)
            end.expected.extend(columns)
        if answer.delivered is not None:
            header = int.from_bytes(answer.delivered[:4], "little")
            end.delivered[header >> 8 & 7].append((header >> 11, answer.delivered[4:]))
        if answer.frame is not None or frees or not quiet or clock % 16 == 0:
            end.answer = answer

    def compare_state(self, number: int, wanted: list[int], clock: int) -> None:
        """Compares an end's state with its reference's."""
        vector = part(self.dut.state.value, 516, number)
        fields = []
        for bits in (1, 7, 8, 4, *[10] * CHANNELS, *[32] * 13):
            fields.append(vector & ((1 << bits) - 1))
            vector >>= bits
        in_error = int(self.dut.in_error.value) >> number & 1
        wanted = [*wanted[:4], min(wanted[4], 7), *wanted[5:]]
        found = [in_error, *fields]
        assert found == wanted, f"end {number}, clock {clock}: {found}, not {wanted}"

    def take_beat(self, end: End, clock: int) -> None:
        """Takes a beat of a delivered datagram; a whole one is compared."""
        dut, n = self.dut, end.number
        if int(dut.m_first.value) >> n & 1:
            end.taken = bytearray()
        beat = part(dut.m_data.value, 8 * self.lanes, n)
        end.taken += beat.to_bytes(self.lanes, "little")
        if not int(dut.m_last.value) >> n & 1:
            return
        channel = part(dut.m_channel.value, 3, n)
        found = (part(dut.m_label.value, 21, n), bytes(end.taken))
        assert found == end.delivered[channel].popleft(), f"end {n}, clock {clock}: {channel}"
        if not self.injects:
            assert found == self.ends[1 - n].submitted[channel].popleft(), f"clock {clock}"
        end.taken_count += 1

    @property
    def is_done(self) -> bool:
        """Whether all datagrams have been taken and both ends are known to agree."""
        return (
            all(
                not any(end.to_send) and end.sending is None and not any(end.submitted)
                for end in self.ends
            )
            and int(self.dut.is_settled.value) == 3
        )

    def counters(self, number: int) -> dict[str, int]:
        """An end's counters."""
        vector = part(self.dut.state.value, 516, number) >> 100
        return {name: vector >> 32 * n & 0xFFFF_FFFF for n, name in enumerate(COUNTERS)}

    def close(self) -> None:
        """Ends the references."""
        for end in self.ends:
            end.reference.close()


async def begin(dut, sizes: dict[str, int], seed: random.Random) -> tuple[Bench, Pair]:
    """Resets both ends; they are down."""
    pair = Pair(dut, sizes, seed)
    for name in ("s_valid", "m_ready", "tx_ready", "rx_valid", "link_up"):
        getattr(dut, name).value = 0
    bench = Bench(dut)
    await bench.reset()
    bench.parts = [pair]
    return bench, pair
