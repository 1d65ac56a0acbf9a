# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Surroundings of crosslane_registers in its tests: a host that sends requests, channels that react
to their settings, and a model of the values that the map reads as.
"""

import os
import random

from packed import CONSTANTS, pack, pack_all, part, unpack, unpack_one, width
from register_map import C2H_TABLE, H2C_TABLE, MSIX_PENDING, MSIX_TABLE, OFFSETS, WRITABLE
from register_map import field as put
from tlp_stream import Bench, Sink, Source, Tlp

READ, WRITE = CONSTANTS["MEMORY_READ"], CONSTANTS["MEMORY_WRITE"]
COMPLETION, COMPLETION_DATA = CONSTANTS["COMPLETION"], CONSTANTS["COMPLETION_DATA"]
STOPPED = CONSTANTS["STATE_STOPPED"]
NO_BAR = 7
UNSUPPORTED, ABORT = 1, 4
ROUTING_ID = 0x1234
BAR_ADDRESS = {0: 0x12_4000_0000, 1: 0x12_8000_0000, 4: 0x12_C000_0000, NO_BAR: 0x5_0000_0000}

BUILD = {
    "DATA_BITS": 64,
    "H2C": 1,
    "C2H": 1,
    "PEER": 1,
    "LANES": 2,
    "TAGS": 64,
    "MAX_WRITE": 512,
    "MAX_READ": 1024,
    "LANE_FIFO": 8192,
    "LANE_WINDOW": 65536,
    "CLOCK_PS": 4000,
    "TABLE_ENTRIES": 64,
    "FETCH_BATCH": 16,
    "VECTORS": 8,
    "BARE": 0,
    "PACKETS": 0,
    "PUSH": 0,
}
BUILD = {name: int(os.environ.get(name, value)) for name, value in BUILD.items()}
CHANNELS = [f"{kind}[{n}]" for kind in ("h2c", "c2h", "peer") for n in range(BUILD[kind.upper()])]
LANES = [f"lanes[{n}]" for n in range(BUILD["LANES"])]
TABLES = (H2C_TABLE, C2H_TABLE)
ENTRIES = BUILD["TABLE_ENTRIES"]
BARE = BUILD["BARE"]


def has_packets(place):
    """Whether a channel of this build has a packet mode."""
    return bool(BUILD["PACKETS"]) and not BARE and place in ("h2c[0]", "c2h[0]")


# Registers of a channel that a bare core has.
BARE_REGISTERS = (
    "control", "status", "payload", "completed", "stopped_at", "error_low", "error_high",
)  # fmt: skip
# Registers that show a value of the engine, by name of the reading, and the bits of it.
SHOWN = {
    "error_low": ("error_address", 0),
    "error_high": ("error_address", 32),
    "command_status": ("command_busy", 0),
} | {
    name: (name, 0)
    for name in (
        "completed", "stopped_at", "tlps", "fetched", "idle_no_descriptor", "idle_no_data",
        "idle_no_tag", "idle_link", "idle_no_credit", "credit", "sent", "fill", "received",
        "drained", "check_errors", "check_first", "h2c_check_errors", "h2c_check_first",
        "command_done", "ping_done", "ping_least", "ping_most", "packets", "packets_dropped",
        "packets_truncated", "pushed", "pushes_dropped",
    )
}  # fmt: skip
# Counters of two words, of which the high one is latched.
LATCHED = {"bytes": "bytes", "first": "first", "last": "last", "ping_sum": "ping_sum"}


class Engine:
    """Surroundings of the registers: channels that react to their settings a clock later."""

    def __init__(self, dut, seed):
        self.dut, self.seed = dut, seed
        self.now = seed.getrandbits(50)
        self.max_payload, self.max_read_request = 1, 2
        self.channels = [self.random("channel_readings_t") for _ in CHANNELS]
        for readings in self.channels:
            readings["state"] = seed.randrange(2)
        self.lanes = [self.random("lane_readings_t") for _ in range(max(1, len(LANES)))]
        self.user = self.random("user_readings_t")
        self.pending = seed.getrandbits(BUILD["VECTORS"])
        self.vector = 0
        self.take = [None, None]  # index taken in the next clock
        self.taken = [[], []]  # (clock, index)
        self.entries = [[], []]  # shown two clocks later: (entry, whole)
        self.pulses = []  # (clock, name)
        self.lookups = []  # (vector, address, data)

    def random(self, struct):
        """Random readings."""
        fields = vars(unpack(struct, self.seed.getrandbits(width(struct))))
        # Lines raise a doorbell only where a test says so.
        given = {"error": 5, "line_taken": 0}
        return fields | {name: value for name, value in given.items() if name in fields}

    def drive(self):
        """Sets the inputs of a clock."""
        dut = self.dut
        self.now += 1
        dut.time_i.value = self.now
        dut.function_i.value = pack(
            "function_t",
            routing_id=ROUTING_ID,
            max_payload=self.max_payload,
            max_read_request=self.max_read_request,
        )
        dut.readings.value = pack_all("channel_readings_t", self.channels)
        dut.lane_readings.value = pack_all("lane_readings_t", self.lanes)
        dut.user_readings.value = pack("user_readings_t", **self.user)
        dut.msix_pending.value = self.pending
        dut.msix_vector.value = self.vector
        noise = self.seed.getrandbits(10)
        indices = [noise if take is None else take for take in self.take]
        dut.table_take.value = sum((take is not None) << n for n, take in enumerate(self.take))
        dut.table_index.value = sum(index << 10 * n for n, index in enumerate(indices))

    def sample(self, clock):
        """Samples a clock."""
        dut = self.dut
        self.settings = int(dut.settings.value)
        self.user_settings = unpack("user_settings_t", dut.user_settings.value)
        self.lane_settings = int(dut.lane_settings.value)
        for name in ("interconnect_written", "generator_restart", "h2c_check_restart",
                     "command_start", "ping_start"):  # fmt: skip
            if getattr(self.user_settings, name):
                self.pulses.append((clock, name))
        if int(dut.reset_counters.value):
            self.pulses.append((clock, "reset_counters"))
        self.sample_channels(clock)
        for n, name in enumerate(LANES):
            if unpack_one("lane_settings_t", self.lane_settings, n).restart:
                self.pulses.append((clock, f"{name}.restart"))
        self.sample_tables(clock)
        if dut.msix_ready.value:
            self.lookups.append(
                (self.vector, int(dut.msix_address.value), int(dut.msix_data.value))
            )

    def sample_channels(self, clock):
        """Runs the channels' reactions."""
        for n, name in enumerate(CHANNELS):
            settings = unpack_one("channel_settings_t", self.settings, n)
            if settings.restart:
                assert not settings.run
                self.pulses.append((clock, f"{name}.restart"))
                self.channels[n] |= {"state": 0, "error": 0, "completed": 0, "credit": 0}
            if settings.credit_written:
                self.pulses.append((clock, f"{name}.credit"))
                ahead = (settings.credit - self.channels[n]["credit"]) % 2**32
                if 0 < ahead < 2**31:
                    self.channels[n]["credit"] = settings.credit

    def sample_tables(self, clock):
        """Notes the entries taken, and the values of those taken two clocks ago."""
        dut = self.dut
        for n in range(2):
            if any(taken == clock - 2 for taken, _ in self.taken[n][-2:]):
                entry = part(dut.table_entry.value, 128, n)
                self.entries[n].append((entry, int(dut.table_whole.value) >> n & 1))
            if self.take[n] is not None:
                self.taken[n].append((clock, self.take[n]))
                self.take[n] = None

    def channel(self, name):
        """The settings of a channel."""
        return unpack_one("channel_settings_t", self.settings, CHANNELS.index(name))


class Model:
    """Model of the values that the map reads as."""

    def __init__(self, engine):
        self.engine = engine
        self.names = {offset: name for name, offset in OFFSETS.items() if self.is_there(name)}
        self.held = dict.fromkeys(self.names.values(), 0)
        self.high = {}  # latched
        self.masked = 2**32 - 1
        self.msix = [0] * 128
        self.tables = [[0] * 4 * ENTRIES for _ in range(2)]
        self.stored = [[0] * ENTRIES for _ in range(2)]

    @staticmethod
    def is_there(name):
        """Whether this build has a register."""
        place, _, register = name.partition(".")
        kind = place.partition("[")[0]
        if kind in ("h2c", "c2h", "peer"):
            if register.startswith("packets"):
                return has_packets(place)
            if register.startswith("pushe"):
                return bool(BUILD["PUSH"]) and place in CHANNELS
            is_peers = register in ("credit", "credit_window", "sent", "aperture")
            if place not in CHANNELS or (is_peers and kind != "peer"):
                return False
            return not BARE or register in BARE_REGISTERS
        if kind == "lanes":
            return place in LANES
        return kind == "global" or not BARE

    def readings(self, name):
        """The readings that a register's file shows."""
        place = name.partition(".")[0]
        if place in CHANNELS:
            return self.engine.channels[CHANNELS.index(place)]
        return self.engine.lanes[LANES.index(place)] if place in LANES else self.engine.user

    def table_of(self, offset):
        """The table, and the index of the word in it."""
        table = (offset - H2C_TABLE) >> 14
        return table, offset % (1 << 14) // 4

    def write(self, offset, value):
        """Models a write of a double word of BAR 0."""
        if offset >= H2C_TABLE:
            table, word = self.table_of(offset)
            if word < 4 * ENTRIES:
                self.tables[table][word] = value
                self.stored[table][word // 4] |= 1 << word % 4
        elif MSIX_TABLE <= offset < MSIX_TABLE + 512 and BUILD["VECTORS"]:
            word = (offset - MSIX_TABLE) // 4
            if word % 4 < 3:
                self.msix[word] = value
            elif word // 4 < BUILD["VECTORS"]:
                self.masked = self.masked & ~(1 << word // 4) | (value & 1) << word // 4
        elif offset in self.names:
            self.write_register(self.names[offset], value)

    def write_register(self, name, value):
        """Models a write of a register."""
        place, _, register = name.partition(".")
        if register == "doorbell" and self.readings(name)["state"] == STOPPED:
            return
        self.held[name] = value & WRITABLE[name]
        is_peer = place.startswith("peer")
        if place in CHANNELS and register == "control" and not (is_peer or has_packets(place)):
            self.held[name] &= ~put(name, packets=1, drop_packets=1)
        if BARE and name.endswith("].control"):
            # The bare core has no memory behind its channels.
            self.held[name] &= ~put(name, card_memory=1)
        if place in CHANNELS and register == "control" and value >> 31:
            self.held[name] &= ~1
            self.held[f"{place}.doorbell"] = 0
            if place in ("h2c[0]", "c2h[0]") and ENTRIES:
                self.stored[place == "c2h[0]"] = [0] * ENTRIES

    def take(self, table, index):
        """The entry that the channel gets."""
        words = self.tables[table][4 * index : 4 * index + 4]
        whole = self.stored[table][index] == 15
        self.stored[table][index] = 0
        return sum(word << 32 * n for n, word in enumerate(words)), whole

    def read(self, offset):
        """The value of a double word of BAR 0."""
        if offset >= H2C_TABLE:
            table, word = self.table_of(offset)
            return self.tables[table][word] if word < 4 * ENTRIES else 0
        if MSIX_TABLE <= offset < MSIX_TABLE + 512:
            if not BUILD["VECTORS"]:
                return 0
            word = (offset - MSIX_TABLE) // 4
            return self.masked >> word // 4 & 1 if word % 4 == 3 else self.msix[word]
        if offset == MSIX_PENDING:
            return self.engine.pending
        return self.read_register(self.names[offset]) if offset in self.names else 0

    def read_register(self, name):
        """The value of a register."""
        place, _, register = name.partition(".")
        if place == "global":
            return self.read_global(register)
        readings = self.readings(name)
        if register == "status":
            if place in LANES:
                return readings["overflow"]
            return readings["state"] | readings["error"] << 4 | readings["in_flight"] << 16
        if register in SHOWN:
            reading, shift = SHOWN[register]
            return readings[reading] >> shift & 0xFFFFFFFF
        counter, _, half = register.rpartition("_")
        if counter in LATCHED:
            if half == "low":
                self.high[place, counter] = readings[LATCHED[counter]] >> 32
                return readings[LATCHED[counter]] & 0xFFFFFFFF
            return self.high.get((place, counter), 0)
        return self.held[name]

    def read_global(self, register):
        """The value of a register of the whole engine, except the time."""
        engine, b = self.engine, BUILD
        lanes = b["LANES"]
        known = {
            "id": 0x584C4E45,
            "version": 1 << 16,
            "counts": b["H2C"] | b["C2H"] << 4 | b["PEER"] << 8 | lanes << 16 | b["VECTORS"] << 24,
            "sizes": b["TAGS"] | b["TABLE_ENTRIES"] << 16 | b["PUSH"] << 28 | b["PACKETS"] << 29,
            "max_write": b["MAX_WRITE"],
            "max_read": b["MAX_READ"],
            "lane_fifo": b["LANE_FIFO"] if lanes else 0,
            "lane_window": b["LANE_WINDOW"] if lanes else 0,
            "clock": b["CLOCK_PS"],
            "in_force": (128 << engine.max_payload) | (128 << engine.max_read_request) << 16,
            "fetch_batch": b["FETCH_BATCH"],
        }
        return known.get(register, 0)


class Host:
    """Sends requests and checks the answers."""

    def __init__(self, dut, seed, pause=0.0):
        self.seed = random.Random(seed)
        self.engine = Engine(dut, self.seed)
        self.source = Source(dut, "s_request", self.seed, pause)
        self.sink = Sink(dut, "m_answer", self.seed, pause)
        self.bench = Bench(dut, [self.engine, self.source, self.sink])
        self.model = Model(self.engine)

    async def begin(self):
        """Resets the module."""
        self.engine.drive()
        await self.bench.reset()
        # The reset sweeps earlier entries out of the tables.
        await self.bench.step(2)
        return self

    def header(self, kind, bar, offset, **fields):
        """A request's header."""
        seed = self.seed
        return {
            "kind": kind,
            "bar": bar,
            "address": BAR_ADDRESS[bar] + (offset & ~3),
            "length_dw": 1,
            "first_be": 15,
            "requester": seed.getrandbits(16),
            "tag": seed.getrandbits(10),
            "traffic_class": seed.getrandbits(3),
            "attributes": seed.getrandbits(3),
        } | fields

    def post(self, offset, words, bar=0, **fields):
        """Sends a write of double words without waiting."""
        payload = b"".join(word.to_bytes(4, "little") for word in words)
        last = 15 if len(words) > 1 else 0
        header = self.header(
            WRITE, bar, offset, length_dw=len(words), **({"last_be": last} | fields)
        )
        return self.source.send(Tlp(header, payload))

    def store(self, offset, words):
        """Sends a write of double words of BAR 0 without waiting, and models it."""
        self.post(offset, words)
        for n, word in enumerate(words):
            self.model.write(offset + 4 * n, word)

    async def take(self, index):
        """Takes an entry of the first table; the entries shown."""
        shown = self.engine.entries[0]
        shown.clear()
        self.engine.take = [index, None]
        await self.bench.step(3)
        return shown

    def ask(self, offset, bar=0, **fields):
        """Sends a read without waiting."""
        return self.source.send(Tlp(self.header(READ, bar, offset, **fields)))

    async def write(self, offset, *words, **fields):
        """Sends a write, and waits until it is taken."""
        tlp = self.post(offset, words, **fields)
        await self.bench.until(lambda: tlp.last_clock >= 0)
        return tlp

    async def read(self, offset):
        """Reads a register."""
        tlp = self.ask(offset)
        (answer,) = await self.answers(1)
        self.check_success(tlp, answer, 4, 4, offset & 0x7F)
        return int.from_bytes(answer.payload, "little")

    async def read_pair(self, offset):
        """Reads two registers at once."""
        tlp = self.ask(offset, length_dw=2, last_be=15)
        (answer,) = await self.answers(1)
        self.check_success(tlp, answer, 8, 8, offset & 0x7F)
        return [int.from_bytes(answer.payload[n : n + 4], "little") for n in (0, 4)]

    async def answers(self, count):
        """The next completions."""
        before = len(self.sink.tlps)
        await self.bench.until(lambda: len(self.sink.tlps) >= before + count, 5000)
        return self.sink.tlps[before:]

    def check_common(self, request, answer):
        """Checks the fields that a completion repeats from its request."""
        for name in ("requester", "tag", "traffic_class", "attributes"):
            assert answer.header[name] == request.header[name], name
        assert answer.header["completer"] == ROUTING_ID
        assert (answer.header["poisoned"], answer.header["address"] >> 7) == (0, 0)

    def check_success(self, request, answer, byte_count, bytes_here, lower):
        """Checks a completion with data."""
        self.check_common(request, answer)
        header = answer.header
        assert (header["kind"], header["status"]) == (COMPLETION_DATA, 0)
        assert (header["byte_count"], header["address"]) == (byte_count, lower)
        assert header["length_dw"] == max(1, (lower % 4 + bytes_here + 3) // 4)

    def check_refusal(self, request, answer, status, byte_count, lower):
        """Checks a completion that refuses."""
        self.check_common(request, answer)
        header = answer.header
        assert (header["kind"], header["status"], header["length_dw"]) == (COMPLETION, status, 0)
        assert (header["byte_count"], header["address"]) == (byte_count, lower)
