# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host around the 7-series core of a board's top: the bench of crosslane_card_s7, on the ports of
the core in place of the card's.
"""

import os

import boards
import cocotb
from card_bus import MESSAGE_ADDRESS
from cocotb.triggers import ClockCycles
from completer import Fault
from config_space import ConfigSpace
from shim_s7_bench import HardBlock, off_the_wire
from test_card_s7 import Host, ToTheCard
from tlp_stream import COMPLETION_DATA, Tlp, memory_read, memory_write
from vfio_user import Memory, OnClientsMemory
from wire import on_the_wire

# Ports of the core whose names at a card differ.
NAMES = {"clk": "user_clk_out", "rst": "user_reset_out"}
TABLE_ENTRY_BYTES = 16
RESET_CLOCKS = 64


class CorePorts:
    """The core in a board's top, by the names that benches of a card use."""

    def __init__(self, core):
        self._core = core

    def __getattr__(self, name):
        """A port of the core."""
        return getattr(self._core, NAMES.get(name, name))


async def fill_vectors(host, count: int) -> None:
    """Fills the MSI-X table of a host's card as a kernel does, and turns it on for some vectors:
    message n has n as its data."""
    table = host.board.core.msix.table_offset
    for vector in range(host.vectors):
        words = (MESSAGE_ADDRESS & 0xFFFFFFFF, MESSAGE_ADDRESS >> 32, vector, int(vector >= count))
        for place, word in enumerate(words):
            at = table + vector * TABLE_ENTRY_BYTES + 4 * place
            await host.write(0, at, word.to_bytes(4, "little"))
    host.config.write(host.config.msix + 2, (0x8000 * (count > 0)).to_bytes(2, "little"))


class ToTheBoard(ToTheCard):
    """Sends the host's TLPs to the addresses that the BARs have."""

    def __init__(self, block, config: ConfigSpace):
        super().__init__(block)
        self.config = config

    def append(self, tlp: Tlp):
        """Sends a TLP; a request to a BAR gets its bus address."""
        bars = 0
        if tlp.is_request:
            bars = 1 << tlp.bar
            tlp.header["address"] += self.config.bar(tlp.bar)
        self.block.to_engine.append((on_the_wire(tlp), bars, 0))


class BoardHost(OnClientsMemory, Host):
    """A host that finds the card by its configuration space, with memory of a client's."""

    def __init__(self, dut, seed: int = 1):
        super().__init__(CorePorts(dut.board.pcie), seed)
        self.board = boards.board(os.environ["BOARD"])
        self.memory = Memory()
        self.config = ConfigSpace(self.board.core, self._configured)
        self.bars = self.board.core.bars
        self.interrupt = lambda vector: None
        self.moved = 0
        self.completer.load = lambda at, count: self.memory.load(at, count) or bytes(count)
        self.completer.fault = self._fault

    @property
    def vectors(self) -> int:
        """Vectors of the core's MSI-X capability."""
        return self.board.core.msix.vectors

    def _fault(self, address, count):
        mapped = self.memory.load(address, count) is not None
        return (Fault.NONE if mapped else Fault.UNSUPPORTED, 0)

    def _configured(self):
        self.set_function(**self.config.settings())

    async def start(self):
        """Clock, reset, and what firmware sets."""
        core = self.dut
        for name in ("cfg_to_turnoff", "cfg_interrupt_msixfm"):
            getattr(core, name).value = 0
        self.function["link_up"] = 1
        self.block = HardBlock(core, taken=lambda packet: self._take(off_the_wire(packet)))
        self.clocks = self.block.clocks
        self.source = ToTheBoard(self.block, self.config)
        self.set_function()
        await self.block.begin(has_engine=False)
        cocotb.start_soon(self._answer())
        await ClockCycles(core.clk, 80)
        self.config.serial_number = int(core.cfg_dsn.value)
        self.config.reset()
        await self.wait(5)

    async def read(self, bar: int, offset: int, count: int) -> bytes:
        """Reads of whole double words, one after the other, as a host's loads."""
        data = b""
        for at in range(offset, offset + count, 4):
            answer = await self.request(memory_read(at, 4, self._next_tag(), bar=bar))
            assert answer.kind == COMPLETION_DATA, f"a read of BAR{bar} at {at:#x} was refused"
            data += answer.payload
        return data[:count]

    async def write(self, bar: int, offset: int, data: bytes) -> None:
        """A store of a host."""
        self.source.queue.append(memory_write(offset, data, requester=0, bar=bar))

    async def set_vectors(self, count: int) -> None:
        """Fills the MSI-X table as a kernel does."""
        await fill_vectors(self, count)

    async def reset(self) -> None:
        """A hot reset of the link: the core has no function-level reset."""
        self.dut.user_lnk_up.value = 0
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, RESET_CLOCKS)
        # Requests of before are answered no more, and the engine sends nothing of before.
        self.completer.answers.clear()
        self.block.to_engine.clear()
        self.block.forget()
        self.dut.rst.value = 0
        self.dut.user_lnk_up.value = 1
        self.config.reset()
        await ClockCycles(self.dut.clk, 100)

    def _take_write(self, tlp):
        self.moved += 1
        if tlp.address == MESSAGE_ADDRESS:
            vector = int.from_bytes(tlp.payload, "little")
            self.messages.append(vector)
            self.interrupt(vector)
            return
        self.check_request(tlp)
        # A write to memory that is not mapped is dropped, as behind an IOMMU.
        if len(tlp.enabled) == len(tlp.payload):
            self.memory.store(tlp.address, tlp.payload)
        else:
            for place in tlp.enabled:
                self.memory.store(tlp.address + place, tlp.payload[place : place + 1])
