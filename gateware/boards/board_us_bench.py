# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host around the UltraScale+ core of a board's top, or that of Virtex-7: cocotbext-pcie's device
and root complex, with memory of a client's.
"""

import os
import random

import boards
from board_s7_bench import fill_vectors
from card_bus import MESSAGE_ADDRESS
from cocotb.triggers import ClockCycles, FallingEdge, with_timeout
from cocotbext.pcie.core import RootComplex
from config_space import ConfigSpace
from shim_us_bench import GEN3, GEN3_NAMES, device_model
from vfio_user import Memory, OnClientsMemory

# Clocks after which a card has answered a function-level reset.
RESET_CLOCKS = 2000


# Ports of the core by another name than that of a card's.
NAMES = {"clk": "user_clk", "rst": "user_reset"}
if GEN3:
    NAMES |= GEN3_NAMES | {
        f"s_axis_{name}_tready": f"s_axis_{name}_tready_bit" for name in ("rq", "cc")
    }


class CorePorts:
    """The core in a board's top, by the names that benches of a card use."""

    def __init__(self, core):
        self._core = core

    def __getattr__(self, name):
        """A port of the core."""
        return getattr(self._core, NAMES.get(name, name))

    def __dir__(self):
        """The ports of the core."""
        return dir(self._core)


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


class BoardHost(OnClientsMemory):
    """A host that finds the card by its configuration space, as a Bus of engine_host too."""

    def __init__(self, dut, seed: int = 1):
        self.dut = CorePorts(dut.board.pcie)
        self.random = random.Random(seed)
        self.board = boards.board(os.environ["BOARD"])
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

    async def start(self):
        """Clock, reset, enumeration by the root complex, and what firmware sets."""
        self.dut.cfg_flr_in_process.value = 0
        msix = self.board.core.msix
        self.device = device_model(
            self.dut,
            pf0_msix_table_offset=msix.table_offset,
            pf0_msix_pba_offset=msix.pending_offset,
        )
        for number, count in self.bars.items():
            self.device.functions[0].configure_bar(number, count)
        self.root = RootComplex()
        self.root.max_payload_size, self.root.max_read_request_size = 1, 2
        self.root.make_port().connect(self.device)
        await with_timeout(FallingEdge(self.dut.rst), 10, "us")
        await with_timeout(self.root.enumerate(), 2000, "us")
        self.found = self.root.find_device(self.device.functions[0].pcie_id)
        await self.found.enable_device()
        # From now on for requests of the card; the windows into BARs are in the one of before.
        self.root.mem_address_space = HostMemory(self)
        self.config.serial_number = int(self.dut.cfg_dsn.value)
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

    async def reset(self) -> None:
        """A function-level reset, which the card finishes."""
        self.dut.cfg_flr_in_process.value = 1
        for _ in range(RESET_CLOCKS):
            await ClockCycles(self.dut.clk, 1)
            if int(self.dut.cfg_flr_done.value) & 1:
                break
        else:
            raise AssertionError("the card does not finish a function-level reset")
        self.dut.cfg_flr_in_process.value = 0
        self.config.reset()
        await self.wait(200)

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
