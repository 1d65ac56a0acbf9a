# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The shell of AWS F2 around a card, with host memory behind it, as a Bus of engine_host.

Its AXI ports are cocotbext-axi's. Memory begins at bus address 0.
"""

import random

import cocotb
from axi_memory import AxiMemory
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

MEMORY_BYTES = 1 << 22
# Clocks in which a function-level reset ends.
RESET_CLOCKS = 5000


class Shell:
    """Registers by OCL, memory by PCIM, interrupts."""

    def __init__(self, dut, seed: random.Random):
        self.dut, self.seed = dut, seed
        self.memory = bytearray(MEMORY_BYTES)
        self.messages: list[int] = []  # vectors, in the order of their requests
        self.delays = (1, 40)  # clocks until a request is acknowledged: from, below
        self._next_free = 0x1000

    def connect_memory(self, pause: float) -> None:
        """Puts memory behind PCIM, which pauses with this probability."""
        self.port = AxiMemory(self.dut, "pcim", self.memory, self.seed, 65)
        self.port.take_many(8)
        self.port.pause(pause)

    def hold(self, is_held: bool) -> None:
        """The shell's reset."""
        self.dut.rst.value = int(is_held)

    def asked(self, vector: int) -> None:
        """Takes an interrupt."""
        self.messages.append(vector)

    async def start(self, pause: float = 0.0):
        """Memory, clock, reset."""
        dut = self.dut
        dut.flr_assert.value, dut.apppf_irq_ack.value = 0, 0
        dut.cfg_max_payload.value, dut.cfg_max_read_req.value = 1, 2
        self.hold(True)
        Clock(dut.clk, 4, unit="ns").start()
        self.connect_memory(pause)
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "ocl"), dut.clk, dut.rst)
        cocotb.start_soon(self._interrupts())
        await ClockCycles(dut.clk, 10)
        self.hold(False)
        await ClockCycles(dut.clk, 100)

    async def _interrupts(self):
        """Acknowledges each request some clocks later; until then there must be no other."""
        dut, due = self.dut, {}
        while True:
            await RisingEdge(dut.clk)
            asked = int(dut.apppf_irq_req.value)
            for vector in range(16):
                if asked >> vector & 1:
                    assert vector not in due, "a request before the last one was acknowledged"
                    self.asked(vector)
                    due[vector] = self.seed.randrange(*self.delays)
            done = [vector for vector, clocks in due.items() if clocks == 0]
            dut.apppf_irq_ack.value = sum(1 << vector for vector in done)
            due = {vector: clocks - 1 for vector, clocks in due.items() if clocks}

    async def reset(self):
        """A function-level reset, which the card finishes."""
        self.dut.flr_assert.value = 1
        for _ in range(RESET_CLOCKS):
            await RisingEdge(self.dut.clk)
            if self.dut.flr_done.value:
                break
        else:
            raise AssertionError("the card does not finish a function-level reset")
        self.dut.flr_assert.value = 0
        await ClockCycles(self.dut.clk, 100)

    # --- Bus -------------------------------------------------------------------------------------
    async def read32(self, offset: int) -> int:
        """Reads a register."""
        return await self.registers.read_dword(offset)

    async def write32(self, offset: int, value: int) -> None:
        """Writes a register."""
        await self.registers.write_dword(offset, value)

    async def wait(self, clocks: int) -> None:
        """Waits for some clocks."""
        await ClockCycles(self.dut.clk, clocks)

    def load(self, address: int, count: int) -> bytes:
        """Bytes of host memory."""
        assert address + count <= MEMORY_BYTES
        return bytes(self.memory[address : address + count])

    def store(self, address: int, data: bytes) -> None:
        """Puts bytes into host memory."""
        assert address + len(data) <= MEMORY_BYTES
        self.memory[address : address + len(data)] = data

    def allocate(self, count: int, alignment: int) -> int:
        """Bus address of unused host memory."""
        at = -(-self._next_free // alignment) * alignment
        self._next_free = at + count
        assert self._next_free <= MEMORY_BYTES
        return at
