# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host around the core of a board's top that cocotbext-pcie has a device for: that device and a
root complex, with memory of a client's.
"""

import os
import random
from abc import ABC, abstractmethod

import boards
from board_s7_bench import fill_vectors
from card_bus import MESSAGE_ADDRESS
from cocotb.triggers import ClockCycles, with_timeout
from cocotbext.pcie.core import RootComplex
from config_space import ConfigSpace
from vfio_user import Memory, OnClientsMemory


class CorePorts:
    """The core in a board's top, by the names that benches of a card use."""

    def __init__(self, core, names: dict[str, str]):
        self._core, self._names = core, names

    def __getattr__(self, name):
        """A port of the core."""
        return getattr(self._core, self._names.get(name, name))

    def __dir__(self):
        """The ports of the core, by both names."""
        return [*dir(self._core), *self._names]


class HostMemory:
    """The root complex's memory: the client's, and the address of messages."""

    def __init__(self, host):
        self.host = host

    def find_regions(self, address: int, count: int = 1) -> list:
        """Whether a request is answered: a list that is empty if not."""
        memory = self.host.memory
        mapped = memory.find(address, 1) and memory.find(address + count - 1, 1)
        return [memory] if mapped or address == MESSAGE_ADDRESS else []

    async def read(self, address: int, count: int) -> bytes:
        """Bytes of the client's memory."""
        self.host.moved += 1
        return self.host.memory.load(address, count)

    async def write(self, address: int, data: bytes) -> None:
        """Puts bytes there, or takes a message."""
        self.host.moved += 1
        if address == MESSAGE_ADDRESS:
            vector = int.from_bytes(data, "little")
            self.host.messages.append(vector)
            self.host.interrupt(vector)
        else:
            self.host.memory.store(address, data)


class RootedHost(OnClientsMemory, ABC):
    """A host that finds the card by its configuration space, as a Bus of engine_host too. A bench
    of a core gives it the core's ports, its device and its reset."""

    def __init__(self, core, names: dict[str, str], seed: int = 1):
        self.dut = CorePorts(core, names)
        self.random = random.Random(seed)
        self.board = boards.board(os.environ["BOARD"], os.environ["BUILD_ID_DIGITS"])
        self.memory = Memory()
        self.config = ConfigSpace(self.board.core, self._configured)
        self.bars = self.board.core.bars
        self.vectors = self.board.core.msix.vectors
        self.interrupt = lambda vector: None
        self.messages: list[int] = []
        self.reads: list = []
        self.moved = 0
        self.device = None
        self._next_free = 0

    @abstractmethod
    def make_device(self):
        """The core's device, with its MSI-X capability as the board's settings have it."""

    @abstractmethod
    def serial_number(self) -> int:
        """The serial number that the core shows."""

    @abstractmethod
    async def begun(self) -> None:
        """Waits until the core is out of reset."""

    async def start(self):
        """Clock, reset, enumeration by the root complex, and what firmware sets."""
        self.device = self.make_device()
        function = self.device.functions[0]
        for number, count in self.bars.items():
            is_wide = number in self.board.core.wide_bars
            function.configure_bar(number, count, ext=is_wide, prefetch=is_wide)
        self.root = RootComplex()
        self.root.max_payload_size, self.root.max_read_request_size = 1, 2
        self.root.make_port().connect(self.device)
        await with_timeout(self.begun(), 10, "us")
        await with_timeout(self.root.enumerate(), 2000, "us")
        self.found = self.root.find_device(self.device.functions[0].pcie_id)
        await self.found.enable_device()
        # From now on for requests of the card; the windows into BARs are in the one of before.
        self.root.mem_address_space = HostMemory(self)
        self.config.serial_number = self.serial_number()
        self.config.reset()
        await self.wait(50)

    def _configured(self):
        if self.device is None:
            return
        function, settings = self.device.functions[0], self.config.settings()
        function.bus_master_enable = bool(settings["bus_master"])
        function.msix_cap.msix_enable = bool(settings["msix_enabled"])
        function.pcie_cap.max_payload_size = settings["max_payload"]
        function.pcie_cap.max_read_request_size = settings["max_read_request"]
        function.pcie_cap.extended_tag_field_enable = bool(settings["extended_tags"])

    async def read(self, bar: int, offset: int, count: int) -> bytes:
        """Reads of whole double words, one after the other, as a host's loads."""
        window = self.found.bar_window[bar]
        return b"".join([await window.read(offset + at, 4) for at in range(0, count, 4)])[:count]

    async def write(self, bar: int, offset: int, data: bytes) -> None:
        """A store of a host."""
        await self.found.bar_window[bar].write(offset, data)

    async def set_vectors(self, count: int) -> None:
        """Fills the MSI-X table as a kernel does."""
        await fill_vectors(self, count)

    # --- The Bus of engine_host ------------------------------------------------------------

    async def read32(self, offset: int) -> int:
        """Reads a register."""
        return int.from_bytes(await self.read(0, offset, 4), "little")

    async def write32(self, offset: int, value: int) -> None:
        """Writes a register."""
        await self.write(0, offset, value.to_bytes(4, "little"))

    async def wait(self, clocks: int) -> None:
        """Waits for some clocks."""
        await ClockCycles(self.dut.clk, clocks)
