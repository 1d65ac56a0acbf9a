# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The shell of AWS F2 around a design's ports, with memory of a client's."""

import random
import re

import boards
from cocotb.triggers import with_timeout
from cocotb.types import LogicArray
from cocotbext.axi import AxiBus, AxiSlave
from config_space import ConfigSpace
from shell_f2_bench import Shell
from simulate import SEED
from vfio_user import Memory, OnClientsMemory

# BARs of the function, as the shell shows them: of 64 bits, for OCL, the MSI-X table, and PCIS.
REGISTERS, TABLE = 0, 2
BARS = {REGISTERS: 1 << 26, TABLE: 1 << 16, 4: 1 << 37}
VECTORS = 16
# The shell gives up an access after 8 us.
ACCESS_NS = 8000
CORE = boards.Core(
    name="pcie4_uscale_plus",
    vendor=0x1D0F,
    device=0xF0C1,
    subsystem=(0x1D0F, 1),
    class_code=0x120000,
    bars=BARS,
    msix=boards.Msix(VECTORS, TABLE, 0x8000 | TABLE),
    max_payload_bytes=512,
    extended_tags=True,
    has_serial_number=False,
    generation=4,
    lanes=8,
    width_bits=512,
    clock_mhz=250,
    wide_bars=frozenset(BARS),
)


class Ports:
    """The ports of the top, by the names that the card's bench uses."""

    def __init__(self, dut):
        names = {"clk": "clk_main_a0", "flr_assert": "sh_cl_flr_assert"}
        names |= {"flr_done": "cl_sh_flr_done", "apppf_irq_req": "cl_sh_apppf_irq_req"}
        names |= {"apppf_irq_ack": "sh_cl_apppf_irq_ack"}
        signals = [name for name in dir(dut) if re.match("(cl|sh|ocl|sda)_", name)]
        for name in signals:
            if found := re.fullmatch(r"(cl_sh|sh_cl)_((?:dma_)?pci[ms]_\w+)", name):
                names[found[2]] = name
            elif found := re.fullmatch(r"(?:cl_(ocl|sda)|(ocl|sda)_cl)_(\w+)", name):
                names[f"{found[1] or found[2]}_{found[3]}"] = name
        self._dut, self._names = dut, names

    def __dir__(self):
        """The ports, by both names."""
        return [*dir(self._dut), *self._names]

    def __getattr__(self, name):
        """A port."""
        return getattr(self._dut, self._names.get(name, name))


class Absent:
    """A signal that the top leaves out, as nothing depends on it."""

    def __init__(self, bits: int):
        self.bits = bits
        self.value = LogicArray.from_unsigned(0, bits)

    def __len__(self) -> int:
        """Its bits."""
        return self.bits

    def setimmediatevalue(self, _: object) -> None:
        """Leaves it."""


class Padded:
    """Ports, and others that are absent, by their bits."""

    def __init__(self, ports, absent: dict[str, int]):
        self._ports = ports
        self._absent = {name: Absent(bits) for name, bits in absent.items()}

    def __dir__(self):
        """All of them."""
        return [*dir(self._ports), *self._absent]

    def __getattr__(self, name):
        """A port."""
        return self._absent.get(name) or getattr(self._ports, name)


class ClientsMemory:
    """The client's memory behind PCIM; what is not mapped is refused."""

    def __init__(self, host):
        self.host = host

    async def read(self, address: int, count: int) -> bytes:
        """Bytes of memory."""
        self.host.moved += 1
        found = self.host.memory.load(address, count)
        if found is None or not self.host.config.settings()["bus_master"]:
            raise MemoryError("there is nothing")
        return found

    async def write(self, address: int, data: bytes) -> None:
        """Puts bytes there."""
        self.host.moved += 1
        is_master = self.host.config.settings()["bus_master"]
        if not is_master or not self.host.memory.store(address, data):
            raise MemoryError("there is nothing")


class BoardHost(OnClientsMemory, Shell):
    """The shell, and software that finds the card by its configuration space."""

    def __init__(self, dut):
        super().__init__(Ports(dut), random.Random(SEED))
        # As a board, but for what its build's script would say.
        self.board = None
        self.memory, self.base = Memory(), 0
        self.config = ConfigSpace(CORE)
        self.bars, self.vectors = BARS, VECTORS
        self.table = bytearray(BARS[TABLE])
        self.interrupt = lambda vector: None
        self.moved, self.reads = 0, []

    def connect_memory(self, pause: float) -> None:
        """Puts the client's memory behind PCIM."""
        del pause
        ports = Padded(self.dut, {"pcim_bid": 16, "pcim_rid": 16})
        bus = AxiBus.from_prefix(ports, "pcim")
        port = AxiSlave(bus, self.dut.clk, self.dut.rst, target=ClientsMemory(self))
        for part in (port.write_if, port.read_if):
            part.log.disabled = True

    async def start(self, pause: float = 0.0):
        """As the shell; then firmware sets its own."""
        await super().start(pause)
        self.config.reset()

    def hold(self, is_held: bool) -> None:
        """The shell's reset."""
        self.dut.rst_main_n.value = int(not is_held)

    def asked(self, vector: int) -> None:
        """Passes an interrupt on, by the shell's table, if it is enabled."""
        if self.config.settings()["msix_enabled"]:
            self.interrupt(vector)

    async def read(self, bar: int, offset: int, count: int) -> bytes:
        """Loads of a host; BAR 4 leads to PCIS, where there is nothing."""
        if bar == REGISTERS:
            reading = self.registers.read(offset, count)
            return (await with_timeout(reading, ACCESS_NS, "ns")).data
        return bytes(self.table[offset : offset + count]) if bar == TABLE else bytes(count)

    async def write(self, bar: int, offset: int, data: bytes) -> None:
        """A store of a host."""
        if bar == REGISTERS:
            await with_timeout(self.registers.write(offset, data), ACCESS_NS, "ns")
        elif bar == TABLE:
            self.table[offset : offset + len(data)] = data

    async def set_vectors(self, count: int) -> None:
        """The kernel enables MSI-X, or not."""
        self.config.write(self.config.msix + 2, (int(count > 0) << 15).to_bytes(2, "little"))

    async def reset(self) -> None:
        """A function-level reset."""
        await super().reset()
        self.config.reset()
