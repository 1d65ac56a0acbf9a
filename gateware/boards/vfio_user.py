# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A vfio-user server for a simulated card: `crosslane device test vfio-user:SOCKET` tests it as it
would test a board.

Messages are those of the vfio-user specification, version 0.0 (qemu, docs/interop/vfio-user.rst).
The memory that the client gives is mapped here; registers and configuration space are the card's.
"""

import errno
import mmap
import os
import select
import socket
import struct
from pathlib import Path

VERSION, DMA_MAP, DMA_UNMAP, DEVICE_INFO, REGION_INFO = 1, 2, 3, 4, 5
INTERRUPT_INFO, SET_INTERRUPTS, REGION_READ, REGION_WRITE, RESET = 7, 8, 9, 10, 13
HEADER = struct.Struct("=HHIII")
REPLY, ERROR, NO_REPLY = 1, 1 << 5, 1 << 4
CONFIG_REGION, REGIONS = 7, 9
MSIX_KIND, INTERRUPT_KINDS = 2, 5
MOST_FILES = 8


class Mapping:
    """Memory of the client."""

    def __init__(self, address: int, count: int, file: int, offset: int):
        self.address, self.count = address, count
        before = offset % mmap.ALLOCATIONGRANULARITY
        self.skip = before
        self.memory = mmap.mmap(file, count + before, offset=offset - before)

    @classmethod
    def of_the_bench(cls, address: int, count: int) -> "Mapping":
        """Memory that no client has given."""
        file = os.memfd_create("memory")
        os.truncate(file, count)
        mapping = cls(address, count, file, 0)
        os.close(file)
        return mapping


class Memory:
    """All memory that the client has mapped, by its I/O virtual addresses."""

    def __init__(self):
        self.mappings: list[Mapping] = []

    def find(self, address: int, count: int) -> Mapping | None:
        """The mapping that has all of these bytes."""
        for mapping in self.mappings:
            if mapping.address <= address <= mapping.address + mapping.count - count:
                return mapping
        return None

    def load(self, address: int, count: int) -> bytes | None:
        """Bytes, which may lie in adjacent mappings; None if some are not mapped."""
        found = b""
        while count > 0:
            mapping = self.find(address, 1)
            if mapping is None:
                return None
            at = address - mapping.address
            part = min(count, mapping.count - at)
            found += mapping.memory[mapping.skip + at : mapping.skip + at + part]
            address, count = address + part, count - part
        return found

    def store(self, address: int, data: bytes) -> bool:
        """Puts bytes there; returns whether all were mapped."""
        while data:
            mapping = self.find(address, 1)
            if mapping is None:
                return False
            at = address - mapping.address
            part = min(len(data), mapping.count - at)
            mapping.memory[mapping.skip + at : mapping.skip + at + part] = data[:part]
            address, data = address + part, data[part:]
        return True


class OnClientsMemory:
    """The memory of an engine_host's Bus: a client's, or the bench's own from `base` on."""

    memory: Memory
    base: int
    _next_free: int

    def give_memory(self, base: int, count: int) -> None:
        """Memory of the bench itself, in place of a client's."""
        self.memory.mappings.append(Mapping.of_the_bench(base, count))
        self.base = base

    def load(self, address: int, count: int) -> bytes:
        """Bytes of host memory."""
        return self.memory.load(address, count)

    def store(self, address: int, data: bytes) -> None:
        """Puts bytes into host memory."""
        assert self.memory.store(address, data)

    def allocate(self, count: int, alignment: int) -> int:
        """Bus address of unused host memory."""
        at = -(-self._next_free // alignment) * alignment
        self._next_free = at + count
        return self.base + at


class RefusedError(Exception):
    """A command that is answered with an error number."""


class Server:
    """One client at a time. `card` has `config`, `bars` (bytes of each), `vectors`, `memory`, and
    coroutines `read(bar, offset, count)`, `write(bar, offset, data)`, `set_vectors(count)` and
    `reset()`.
    """

    def __init__(self, path: Path, card):
        self.card = card
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen(1)
        self.client: socket.socket | None = None
        self.eventfds: list[int] = []
        self.handled = 0

    def waits(self, seconds: float) -> bool:
        """Whether there is something to do, now or within some time."""
        ready, _, _ = select.select([self.client or self.listener], [], [], seconds)
        return bool(ready)

    def interrupt(self, vector: int) -> None:
        """Signals the eventfd of a vector."""
        if vector < len(self.eventfds):
            os.write(self.eventfds[vector], struct.pack("=Q", 1))

    async def step(self) -> None:
        """Accepts a client, or answers one command of it."""
        if self.client is None:
            self.client, _ = self.listener.accept()
            return
        header, files, _, _ = socket.recv_fds(self.client, HEADER.size, MOST_FILES)
        if not header:
            self._forget()
            return
        number, command, length, flags, _ = HEADER.unpack(header)
        payload = b""
        while len(payload) < length - HEADER.size:
            payload += self.client.recv(length - HEADER.size - len(payload))
        self.handled += 1
        try:
            answer = await self._answer(command, payload, files)
            header = HEADER.pack(number, command, HEADER.size + len(answer), REPLY, 0)
        except RefusedError as refused:
            answer = b""
            header = HEADER.pack(number, command, HEADER.size, REPLY | ERROR, refused.args[0])
        if not flags & NO_REPLY:
            self.client.sendall(header + answer)

    def _forget(self) -> None:
        self.client.close()
        self.client = None
        self.card.memory.mappings.clear()
        self._drop_eventfds()

    def _drop_eventfds(self) -> None:
        for file in self.eventfds:
            os.close(file)
        self.eventfds = []

    async def _answer(self, command: int, payload: bytes, files: list[int]) -> bytes:
        plain = {
            VERSION: self._version,
            DMA_UNMAP: self._unmap,
            DEVICE_INFO: self._device,
            REGION_INFO: self._region,
            INTERRUPT_INFO: self._interrupts,
        }
        if command in plain:
            return plain[command](payload)
        if command == DMA_MAP:
            return self._map(payload, files)
        if command == SET_INTERRUPTS:
            return await self._set_interrupts(payload, files)
        if command in (REGION_READ, REGION_WRITE):
            return await self._access(command, payload)
        if command == RESET:
            await self.card.reset()
            return b""
        raise RefusedError(errno.ENOTSUP)

    def _version(self, _: bytes) -> bytes:
        text = b'{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576}}\0'
        return struct.pack("=HH", 0, 0) + text

    def _map(self, payload: bytes, files: list[int]) -> bytes:
        _, _, offset, address, count = struct.unpack("=IIQQQ", payload)
        if not files:
            raise RefusedError(errno.EINVAL)
        self.card.memory.mappings.append(Mapping(address, count, files[0], offset))
        os.close(files[0])
        return b""

    def _unmap(self, payload: bytes) -> bytes:
        _, _, address, count = struct.unpack_from("=IIQQ", payload)
        mappings = self.card.memory.mappings
        kept = [one for one in mappings if (one.address, one.count) != (address, count)]
        if len(kept) == len(mappings):
            raise RefusedError(errno.ENOENT)
        self.card.memory.mappings = kept
        return payload

    def _device(self, _: bytes) -> bytes:
        return struct.pack("=IIII", 16, 3, REGIONS, INTERRUPT_KINDS)

    def _region(self, payload: bytes) -> bytes:
        (index,) = struct.unpack_from("=I", payload, 8)
        count = len(self.card.config.bytes) if index == CONFIG_REGION else 0
        count = self.card.bars.get(index, count)
        return struct.pack("=IIIIQQ", 32, 3 if count else 0, index, 0, count, 0)

    def _interrupts(self, payload: bytes) -> bytes:
        (index,) = struct.unpack_from("=I", payload, 8)
        count = self.card.vectors if index == MSIX_KIND else 0
        return struct.pack("=IIII", 16, 1, index, count)

    async def _set_interrupts(self, payload: bytes, files: list[int]) -> bytes:
        _, _, _, start, count = struct.unpack_from("=IIIII", payload)
        if start == 0:
            self._drop_eventfds()
        self.eventfds += files
        await self.card.set_vectors(start + count if files else 0)
        return b""

    async def _access(self, command: int, payload: bytes) -> bytes:
        offset, index, count = struct.unpack_from("=QII", payload)
        answer, data = payload[:16], payload[16:]
        if index == CONFIG_REGION:
            if command == REGION_READ:
                return answer + self.card.config.read(offset, count)
            self.card.config.write(offset, data)
            return answer
        if index not in self.card.bars or offset + count > self.card.bars[index]:
            raise RefusedError(errno.EINVAL)
        if command == REGION_READ:
            return answer + await self.card.read(index, offset, count)
        await self.card.write(index, offset, data)
        return answer
