# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A card below cocotbext-pcie's root complex, as the host in tests sees it."""

from cocotb.triggers import ClockCycles


class RootedCard:
    """A card below the root complex, as a Bus of engine_host."""

    def __init__(self, root, clk, device):
        self.root, self.clk, self.device = root, clk, device
        self.regions = []

    async def find(self):
        """Reads the BARs and sets bus mastering, after enumeration."""
        self.found = self.root.find_device(self.device.functions[0].pcie_id)
        await self.found.enable_device()
        await self.found.set_master()
        self.registers, self.lanes = self.found.bar_window[0], self.found.bar_window[1]
        self.registers_base = self.found.bar_addr[0]
        self.lanes_base = self.found.bar_addr[1]

    async def read32(self, offset):
        """Reads a register."""
        return await self.registers.read_dword(offset)

    async def write32(self, offset, value):
        """Writes a register."""
        await self.registers.write_dword(offset, value)

    async def wait(self, clocks):
        """Waits for some clocks."""
        await ClockCycles(self.clk, clocks)

    def _place(self, address, count):
        for region in self.regions:
            base = region.get_absolute_address(0)
            if base <= address and address + count <= base + region.size:
                return region, address - base
        raise AssertionError(f"{address:#x} is outside host memory")

    def load(self, address, count):
        """Bytes of host memory."""
        region, at = self._place(address, count)
        return bytes(region[at : at + count])

    def store(self, address, data):
        """Puts bytes into host memory."""
        region, at = self._place(address, len(data))
        region[at : at + len(data)] = data

    def allocate(self, count, alignment):
        """Bus address of unused host memory."""
        region = self.root.mem_pool.alloc_region(max(count, 4096))
        self.regions.append(region)
        assert region.get_absolute_address(0) % alignment == 0
        return region.get_absolute_address(0)
