# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A writer stepped clock by clock: descriptors and a stream go in, TLPs are kept and checked."""

import os
import random
from dataclasses import dataclass, field

from cocotb.triggers import FallingEdge, ReadOnly
from packed import CONSTANTS, pack, unpack
from simulate import SEED
from tlp_stream import Bench, Sink, Tlp, reach

C2H, PEER = CONSTANTS["KIND_C2H"], CONSTANTS["KIND_PEER"]
IDLE, RUNNING, STOPPED = 0, 1, 2


def floor_power(value: int) -> int:
    """The largest power of two not above the value."""
    return 1 << (value.bit_length() - 1)


@dataclass
class Descriptor:
    """A descriptor of a test; a fault has an error."""

    address: int
    bytes: int
    error: int = 0
    write_status: int = 0
    send_interrupt: int = 0
    await_credit: int = 0
    command: int = 0
    generated: int = 0
    card: int = 0
    end_of_packet: int = 0
    # Clocks in which it was first offered, and taken up.
    offered: int = field(default=-1, compare=False)
    taken: int = field(default=-1, compare=False)

    def vector(self) -> int:
        """Its vector on the port."""
        fields = {k: v for k, v in vars(self).items() if k not in ("offered", "taken")}
        return pack("descriptor_t", **fields)


@dataclass
class Write:
    """A write that has left: its bytes are those with enables set."""

    address: int
    data: bytes
    tlp: Tlp
    offered: int  # clock in which its first beat stood on the port
    first: int
    last: int
    beats: int


class WriteSink(Sink):
    """The writer's TLPs, one of which may be withdrawn at times."""

    may_withdraw = False
    withdrawn = 0

    def sample(self, clock):
        if self.may_withdraw and self._held and not self.ports["valid"].value:
            self._held = None
            self.withdrawn += 1
        super().sample(clock)


class WriterBench:
    """The writer and its stream, a clock at a time."""

    def __init__(self, dut, kind):
        self.dut, self.kind = dut, kind
        self.lanes = len(dut.s_tkeep)
        self.max_write = int(os.environ.get("MAX_WRITE", "1024"))
        self.seed = random.Random(SEED)
        self.settings = {"run": 1, "status_enable": 1, "interrupt_enable": 1}
        self.function = {
            "routing_id": 0x1234, "max_payload": 1, "bus_master": 1, "link_up": 1,
        }  # fmt: skip
        self.clock = 0
        self.queue: list[Descriptor] = []  # to be offered
        self.offers = False
        self.taken_up: list[Descriptor] = []
        self.stream = bytearray()  # all bytes that went into the ring
        self.taken = 0  # bytes that the writer has taken
        self.stream_limit = None  # total number of bytes that may go in
        self.beat = None
        self.source = self.sink = self.supply = 1.0
        self.port = WriteSink(dut, "m_write", self.seed, gapless=True)
        self.port.took = self.finish
        self.tlps: list[Write] = []
        self.pulses = {"command_done": 0, "message_begun": 0}
        self.dues = {"status_due": 0, "interrupt_due": 0}
        self.takes_due = True

    async def start(self):
        """Clock and reset."""
        for name in ("settings", "s_tvalid", "descriptor_valid", "m_write_ready",
                     "status_taken", "interrupt_taken", "reset_counters", "time_i",
                     "function_i", "feed_failed"):  # fmt: skip
            getattr(self.dut, name).value = 0
        await Bench(self.dut).reset()
        await self.steps(4)
        return self

    def most(self) -> int:
        """Longest payload of the channel's settings."""
        own = self.max_write
        set_to = self.settings.get("payload", 0)
        most = own if set_to == 0 else min(own, max(4, floor_power(set_to)))
        if not self.settings.get("oversize"):
            most = min(most, 128 << self.function["max_payload"])
        if self.kind == PEER:
            for name in ("credit_window", "aperture"):
                if self.settings.get(name, 0) >= 4:
                    most = min(most, floor_power(self.settings[name]))
        return most

    def plan(self, descriptor: Descriptor) -> list[tuple[int, int]]:
        """Address and bytes of a descriptor's TLPs."""
        parts, built = [], 0
        most, aperture = self.most(), self.settings.get("aperture", 0)
        while built < descriptor.bytes:
            address = descriptor.address + built
            if self.kind == PEER and aperture >= 4:
                within = floor_power(aperture) - 1
                address = descriptor.address & ~within | address & within
            part = min(descriptor.bytes - built, most - address % most)
            parts.append((address % 2**64, part))
            built += part
        return parts

    def beats_of(self, descriptor: Descriptor) -> int:
        """Beats that alignment forces for a descriptor."""
        return sum(-(-(at % 4 + size) // self.lanes) for at, size in self.plan(descriptor))

    @property
    def readings(self):
        """The present values of the registers."""
        return unpack("channel_readings_t", self.dut.readings.value)

    async def steps(self, count, **pulses):
        """Runs `count` clocks; pulses in the first of them."""
        for _ in range(count):
            await self.step(**pulses)
            pulses = {}

    async def credit(self, count, clocks=5):
        """Reports a receiver's count of bytes, and runs a few clocks more."""
        await self.step(credit_written=1, credit=count)
        await self.steps(clocks)

    async def completed(self, count):
        """Steps until this number of descriptors is complete."""
        await self.until(lambda: self.readings.completed == count)

    async def stopped(self):
        """Steps until the channel has stopped; its readings."""
        await self.until(lambda: self.readings.state == STOPPED)
        return self.readings

    async def step(self, **pulses):
        """Runs one clock. `pulses`: of the settings."""
        dut, seed = self.dut, self.seed
        # Stream.
        room = 2**40 if self.stream_limit is None else self.stream_limit - len(self.stream)
        if self.beat is None and room > 0 and seed.random() < self.source:
            self.beat = seed.randbytes(min(room, self.lanes))
        dut.s_tvalid.value = self.beat is not None
        if self.beat is not None:
            dut.s_tdata.value = int.from_bytes(self.beat, "little")
            dut.s_tkeep.value = (1 << len(self.beat)) - 1
        # Descriptors.
        if not self.offers and self.queue and seed.random() < self.supply:
            self.offers = True
            self.queue[0].offered = self.clock
        dut.descriptor_valid.value = self.offers
        if self.offers:
            dut.descriptor.value = self.queue[0].vector()
        # Settings and other inputs.
        self.port.accepts = seed.random() < self.sink
        dut.m_write_ready.value = self.port.accepts
        dut.settings.value = pack("channel_settings_t", **self.settings, **pulses)
        dut.function_i.value = pack("function_t", **self.function)
        dut.time_i.value = self.clock
        for name, taken in (("status_due", "status_taken"), ("interrupt_due", "interrupt_taken")):
            is_due = getattr(unpack("due_t", dut.due.value), name) if self.clock > 3 else 0
            takes = bool(is_due) and self.takes_due
            getattr(dut, taken).value = takes
            self.dues[name] += takes
        await ReadOnly()
        if self.beat is not None and int(dut.s_tready.value):
            self.stream += self.beat
            self.beat = None
        if self.offers and int(dut.descriptor_ready.value):
            self.queue[0].taken = self.clock
            self.taken_up.append(self.queue.pop(0))
            self.offers = False
        self.port.sample(self.clock)
        if int(dut.feed_move.value) and int(dut.feed_take.value):
            self.taken += int(dut.feed_take_bytes.value)
        for name in self.pulses:
            self.pulses[name] += int(getattr(dut, name).value)
        self.clock += 1
        await FallingEdge(dut.clk)

    def finish(self, tlp):
        """Checks a complete TLP: its header, and the bytes that its enables mark."""
        lanes = tlp.enabled
        assert tlp.length_dw > 1 or tlp.last_be == 0
        assert lanes == list(range(lanes[0], lanes[-1] + 1)), "a hole in the enables"
        address, data = tlp.address + lanes[0], tlp.payload[lanes[0] : lanes[-1] + 1]
        assert address // 4096 == (address + len(data) - 1) // 4096
        assert tlp.kind == CONSTANTS["MEMORY_WRITE"]
        assert tlp.requester == self.function["routing_id"]
        relaxed = self.settings.get("relaxed_ordering", 0)
        assert tlp.attributes == (relaxed & self.function.get("relaxed_ordering", 0)) << 1
        assert (tlp.traffic_class, tlp.poisoned, tlp.tag) == (0, 0, 0)
        clocks = (self.port.first_seen, tlp.first_clock, tlp.last_clock)
        beats = len(tlp.beats(8 * self.lanes))
        self.tlps.append(Write(address, data, tlp, *clocks, beats))

    def post(self, *descriptors):
        """Queues more descriptors."""
        self.queue += descriptors

    async def until(self, condition, most=20_000):
        """Steps until it holds."""
        await reach(self.step, condition, most)

    async def restart(self, **settings):
        """Restarts and runs again. The stream continues."""
        self.port.may_withdraw = True
        self.settings["run"] = 0
        await self.step(restart=1)
        self.queue.clear()
        self.offers = False
        self.taken_up.clear()
        self.settings.update(settings)
        await self.steps(3)
        self.port.may_withdraw = False
        self.settings["run"] = 1

    def check_tlps(self, descriptors, tlps=None, at=0):
        """Checks that the TLPs are those of the descriptors, and their data the stream's from `at`
        on."""
        tlps = self.tlps if tlps is None else tlps
        expected = [part for d in descriptors for part in self.plan(d)]
        assert [(t.address, len(t.data)) for t in tlps] == expected
        for tlp in tlps:
            assert tlp.data == self.stream[at : at + len(tlp.data)], hex(tlp.address)
            at += len(tlp.data)
        return at
