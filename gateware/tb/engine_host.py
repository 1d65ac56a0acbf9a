# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Host side of an engine, over any bus: an independent, small driver for tests.

A `Bus` has `async read32(offset)`, `async write32(offset, value)` for BAR 0, `load(address, bytes)`
and `store(address, data)` for host memory, `allocate(bytes, alignment)`, and `async wait(clocks)`.
"""

import random
import struct
from dataclasses import dataclass, field
from typing import Protocol

from register_map import C2H_TABLE, H2C_TABLE, MSIX_TABLE, OFFSETS, fields_of
from register_map import field as put

PATTERN_STEP = 0x9E3779B1
SOURCE_TABLE, SOURCE_RING, SOURCE_COMMAND = 0, 1, 2
STREAM_GENERATOR, STREAM_H2C, STREAM_LANE = 0, 1, 2
INTERRUPT, STATUS, AWAIT_CREDIT, TO_CARD = 1, 2, 4, 8
STATE_IDLE, STATE_RUNNING, STATE_STOPPED = 0, 1, 2
ERRORS = [
    "none",
    "unsupported_request",
    "completer_abort",
    "poisoned",
    "completion_timeout",
    "bad_descriptor",
    "not_bus_master",
    "malformed_completion",
    "link_down",
    "card_memory",
]


def pattern(seed: int, first_byte: int, count: int) -> bytes:
    """Bytes of the generator's pattern."""
    first, last = first_byte // 4, (first_byte + count + 3) // 4
    words = [(seed + n * PATTERN_STEP) & 0xFFFFFFFF for n in range(first, last)]
    return struct.pack(f"<{len(words)}I", *words)[first_byte % 4 :][:count]


class Bus(Protocol):
    """Access to the engine and to host memory."""

    async def read32(self, offset: int) -> int:
        """Reads a register of BAR 0."""

    async def write32(self, offset: int, value: int) -> None:
        """Writes a register of BAR 0."""

    async def wait(self, clocks: int) -> None:
        """Waits for some clocks."""

    def load(self, address: int, count: int) -> bytes:
        """Bytes of host memory."""

    def store(self, address: int, data: bytes) -> None:
        """Puts bytes into host memory."""

    def allocate(self, count: int, alignment: int) -> int:
        """Bus address of unused host memory."""


async def write64(bus: Bus, register: str, value: int) -> None:
    """Writes a register of two words, the low one first."""
    await bus.write32(OFFSETS[f"{register}_low"], value & 0xFFFFFFFF)
    await bus.write32(OFFSETS[f"{register}_high"], value >> 32)


@dataclass
class Descriptor:
    """Descriptor to post: bus address, bytes, control bits."""

    address: int
    bytes: int
    control: int = STATUS
    card: int = 0


@dataclass
class Block:
    """A status block as it lies in host memory."""

    sequence: int
    completed: int
    state: int
    error: str
    stopped_at: int
    error_address: int
    time: int


@dataclass
class Channel:
    """A channel of an engine with its ring."""

    bus: Bus
    name: str  # such as "h2c[0]"
    entries: int = 64
    source: int = SOURCE_RING
    posted: int = 0
    ring: int = field(default=0, init=False)
    status_block: int = field(default=0, init=False)

    async def set(self, register: str, value: int) -> None:
        """Writes one of the channel's registers."""
        await self.bus.write32(OFFSETS[f"{self.name}.{register}"], value)

    async def get(self, register: str) -> int:
        """Reads one of the channel's registers."""
        return await self.bus.read32(OFFSETS[f"{self.name}.{register}"])

    async def get64(self, register: str) -> int:
        """Reads a register of two words, the low one first."""
        low = await self.get(f"{register}_low")
        return low | await self.get(f"{register}_high") << 32

    async def open(self, **control: int) -> None:
        """Restarts the channel, gives it ring and status block, and sets it to run."""
        if not self.ring:
            self.ring = self.bus.allocate(self.entries * 32, 64)
            self.status_block = self.bus.allocate(32, 64)
        self.bus.store(self.status_block, bytes(32))
        register = f"{self.name}.control"
        await self.set("control", put(register, restart=1))
        self.posted = 0
        await write64(self.bus, f"{self.name}.ring", self.ring)
        await self.set("ring_entries", self.entries)
        await write64(self.bus, f"{self.name}.status", self.status_block)
        control = {"run": 1, "source": self.source, "status_enable": 1, **control}
        await self.set("control", put(register, **control))

    async def post(self, descriptors: list[Descriptor]) -> None:
        """Lays descriptors down and rings the doorbell."""
        for descriptor in descriptors:
            await self.lay_down(descriptor)
            self.posted += 1
        await self.set("doorbell", self.posted)

    async def lay_down(self, d: Descriptor) -> None:
        """Writes a descriptor to its position in the ring."""
        if self.source == SOURCE_TABLE:
            base = H2C_TABLE if self.name.startswith("h2c") else C2H_TABLE
            words = struct.unpack("<4I", struct.pack("<QII", d.address, d.bytes, d.control))
            for at, word in enumerate(words):
                await self.bus.write32(base + self.posted % 1024 * 16 + at * 4, word)
            return
        entry = struct.pack("<QQII8x", d.address, d.card, d.bytes, d.control)
        self.bus.store(self.ring + self.posted % self.entries * 32, entry)

    def block(self) -> Block:
        """The status block as it is now."""
        words = struct.unpack("<4IQQ", self.bus.load(self.status_block, 32))
        sequence, completed, status, stopped_at, error_address, time = words
        parts = fields_of(f"{self.name}.status", status)
        error = ERRORS[parts["error"]]
        return Block(sequence, completed, parts["state"], error, stopped_at, error_address, time)

    async def completed(self, clocks: int = 20000) -> Block:
        """Waits until all posted descriptors are complete, or the channel stops."""
        return await self.reached(self.posted, clocks)

    async def reached(self, count: int, clocks: int = 20000) -> Block:
        """Waits until `count` descriptors are complete, or the channel stops."""
        for _ in range(0, clocks, 20):
            block = self.block()
            if block.completed >= count or block.state == STATE_STOPPED:
                return block
            await self.bus.wait(20)
        done, posted = await self.get("completed"), await self.get("doorbell")
        status = fields_of(f"{self.name}.status", await self.get("status"))
        raise AssertionError(
            f"{self.name}: {done} of {posted} descriptors complete after {clocks} clocks, {status}"
        )


async def opened(bus: Bus, *names: str) -> list[Channel]:
    """Channels of these names, open."""
    channels = [Channel(bus, name) for name in names]
    for channel in channels:
        await channel.open()
    return channels


async def complete(*channels: Channel) -> None:
    """Waits until all that was posted to these channels is complete, without an error."""
    for channel in channels:
        block = await channel.completed()
        assert (block.completed, block.error) == (channel.posted, "none"), channel.name


def pieces(seed: random.Random, total: int, largest: int):
    """Lengths that add up to a total."""
    while total > 0:
        length = min(total, seed.randint(1, largest))
        yield length
        total -= length


async def route(
    bus: Bus, c2h: int = STREAM_GENERATOR, peer: int = STREAM_GENERATOR, lane: int = 0
) -> None:
    """Sets the crossbar of the user circuit."""
    value = put("user.interconnect", c2h_source=c2h, peer_source=peer, lane=lane)
    await set_user(bus, "interconnect", value)


async def enable_lane(bus: Bus, lane: int, credit_register: int | None = None) -> None:
    """Restarts and enables a receive queue, with credits if their register is given."""
    base = f"lanes[{lane}]"
    await bus.write32(OFFSETS[f"{base}.control"], put(f"{base}.control", restart=1))
    if credit_register is not None:
        await write64(bus, f"{base}.credit", credit_register)
    value = put(f"{base}.control", enable=1, return_credits=int(credit_register is not None))
    await bus.write32(OFFSETS[f"{base}.control"], value)


async def check_identity(bus: Bus) -> None:
    """Checks the registers that say what it is and what payloads are in force."""
    assert await bus.read32(OFFSETS["global.id"]) == 0x584C4E45
    in_force = put("global.in_force", max_payload=256, max_read_request=512)
    assert await bus.read32(OFFSETS["global.in_force"]) == in_force


async def there_and_back(
    bus: Bus,
    seed: random.Random,
    reader: Channel,
    writer: Channel,
    total: int,
    most: int = 1500,
) -> bytes:
    """Sends data through the card, in descriptors of up to `most` bytes, and back unchanged."""

    def cut(base: int) -> list[Descriptor]:
        at, parts = 0, []
        while at < total:
            parts.append(Descriptor(base + at, min(total - at, seed.randint(1, most))))
            at += parts[-1].bytes
        return parts

    data = seed.randbytes(total)
    source, target = bus.allocate(total + 64, 4096) + 5, bus.allocate(total + 64, 4096) + 2
    bus.store(source, data)
    await writer.post(cut(target))
    await reader.post(cut(source))
    await complete(reader, writer)
    assert bus.load(target, total) == data
    return data


async def set_vector(bus: Bus, vector: int, address: int, data: int, masked: int = 0) -> None:
    """Writes an entry of the MSI-X table."""
    for at, word in enumerate([address & 0xFFFFFFFF, address >> 32, data, masked]):
        await bus.write32(MSIX_TABLE + vector * 16 + at * 4, word)


async def set_command(bus: Bus, address: int, count: int) -> None:
    """Sets the command port of the user circuit."""
    await write64(bus, "user.command", address)
    await set_user(bus, "command_bytes", count)


async def set_user(bus: Bus, register: str, value: int) -> None:
    """Writes a register of the user circuit."""
    await bus.write32(OFFSETS[f"user.{register}"], value)


async def get_user(bus: Bus, register: str) -> int:
    """Reads a register of the user circuit."""
    return await bus.read32(OFFSETS[f"user.{register}"])
