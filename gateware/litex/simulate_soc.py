# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A LiteX SoC with Crosslane's engine on LitePCIe's PHY, simulated by LiteX's own tools.

Data go from the memory of a host in Migen through H2C, a circuit that inverts them, and C2H back to
that memory. Usage: simulate_soc.py FOLDER [--width 128]; it ends with 0 if all is as it should be.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

from crosslane_litex import GATEWARE, CrosslaneEngine
from litepcie.phy.s7pciephy import S7PCIEPHY
from litex.build.generic_platform import Pins
from litex.build.sim import SimPlatform
from litex.build.sim.config import SimConfig
from litex.build.sim.verilator import core_directory
from litex.gen import ClockDomain, If, Instance, LiteXModule, Signal
from litex.soc.integration.builder import Builder
from litex.soc.integration.soc_core import SoCMini
from migen import ClockDomainsRenamer
from migen.genlib.io import CRG
from simulated_host import (
    END,
    INTERRUPTS,
    MEMORY_BASE,
    MEMORY_BYTES,
    MESSAGE,
    MESSAGE_ADDRESS,
    READ,
    WRITE,
    SimulatedHost,
)

sys.path.insert(0, str(GATEWARE / "tb"))
from engine_host import INTERRUPT, STATUS, Channel, Descriptor, set_vector
from register_map import OFFSETS

# Clocks: of the circuit and of the block.
SYS_HZ, PCIE_HZ = 100_000_000, 125_000_000
IDENTITY = 0x584C4E45
TOTAL = 777  # bytes that go through the circuit
ENGINE = {"STAGING_BYTES": 16384, "RING_BYTES": 4096, "TABLE_ENTRIES": 0, "TAGS": 16}
# For LiteX's make files. Of its models of peripherals only the clock is needed. All C++ is compiled
# at once, and neither optimised nor made ready for a debugger: that takes longer than the run.
MAKE_VARIABLES = {
    "MODULES": "clocker",
    "OPT_FAST": "-O0",
    "OPT_GLOBAL": "-O0",
    "VM_USER_CFLAGS": f"-I{core_directory}",
    "VM_PARALLEL_BUILDS": "0",
}
IO = [(name, 0, Pins(1)) for name in ("sys_clk", "pcie_clk")]


class Script:
    """Records the accesses of a driver for the host to make: the Bus of engine_host."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, int]] = []
        self.memory = bytearray(random.Random(1).randbytes(MEMORY_BYTES))
        self._next_free = 0

    async def write32(self, offset: int, value: int) -> None:
        """Writes a register of BAR 0."""
        self.steps.append((WRITE, offset, value))

    def load(self, address: int, count: int) -> bytes:
        """Bytes of host memory."""
        return bytes(self.memory[address - MEMORY_BASE :][:count])

    def store(self, address: int, data: bytes) -> None:
        """Puts bytes into host memory."""
        at = address - MEMORY_BASE
        self.memory[at : at + len(data)] = data

    def allocate(self, count: int, alignment: int) -> int:
        """Bus address of unused host memory."""
        at = -(-self._next_free // alignment) * alignment
        self._next_free = at + count
        assert self._next_free <= MEMORY_BYTES
        return MEMORY_BASE + at


async def drive(script: Script) -> dict[int, int]:
    """Moves data through the circuit at odd addresses and ends with an interrupt; returns the
    double words that are in and around the target then."""
    script.steps.append((READ, OFFSETS["global.id"], IDENTITY))
    await set_vector(script, 2, MESSAGE_ADDRESS, MESSAGE)
    to_card, from_card = (Channel(script, name, entries=16) for name in ("h2c[0]", "c2h[0]"))
    await to_card.open()
    await from_card.open(interrupt_enable=1)
    await from_card.set("vector", 2)
    source, target = script.allocate(1024, 64) + 5, script.allocate(1024, 64) + 66
    half = TOTAL // 2
    flags = STATUS | INTERRUPT
    await from_card.post([Descriptor(target, half), Descriptor(target + half, TOTAL - half, flags)])
    await to_card.post([Descriptor(source, 1), Descriptor(source + 1, TOTAL - 1)])
    script.steps += [(INTERRUPTS, 0, 1), (READ, OFFSETS["c2h[0].completed"], 2), (END, 0, 0)]
    image = bytearray(script.memory)
    at = target - MEMORY_BASE
    image[at : at + TOTAL] = bytes(byte ^ 0xFF for byte in script.load(source, TOTAL))
    around = range(at // 4 - 8, (at + TOTAL) // 4 + 8)
    return {n: int.from_bytes(image[n * 4 : n * 4 + 4], "little") for n in around}


class SimulatedPHY(S7PCIEPHY):
    """LitePCIe's PHY as it is, with a host in place of the vendor's core and without the cells that
    make its clocks."""

    def __init__(self, platform: SimPlatform, width: int, script: Script, expected) -> None:
        pads = LiteXModule()
        pads.clk_p, pads.clk_n = Signal(), Signal()
        for name in ("tx_p", "tx_n", "rx_p", "rx_n"):
            setattr(pads, name, Signal(4))
        platform.add_period_constraint = lambda *_, **__: None  # Verilator has no such
        super().__init__(platform, pads, data_width=width, cd="pcie", msi_type="msi-x")
        self.script, self.expected = script, expected
        for module in (self, self.mmcm):
            specials = module._fragment.specials
            specials -= {one for one in specials if isinstance(one, Instance)}
        self.mmcm.do_finalize = lambda: None
        self.cd_block = ClockDomain(reset_less=True)
        clocks = Signal(5)
        self.comb += [
            self.cd_block.clk.eq(platform.request("pcie_clk")),
            self.cd_pclk.clk.eq(self.cd_block.clk),
            self.cd_pcie.clk.eq(self.cd_block.clk),
            self.cd_pcie.rst.eq(~clocks[4]),
        ]
        self.sync.block += If(~clocks[4], clocks.eq(clocks + 1))

    def do_finalize(self) -> None:
        """The host: it has the block's ports."""
        script = self.script
        host = SimulatedHost(
            self.pcie_phy_params, self.pcie_data_width, script.steps, script.memory, self.expected
        )
        self.host = ClockDomainsRenamer("pcie")(host)


class SimulatedSoC(SoCMini):
    """PHY, engine, and a circuit between the engine's streams."""

    def __init__(self, platform: SimPlatform, width: int) -> None:
        self.crg = CRG(platform.request("sys_clk"))
        super().__init__(platform, SYS_HZ, ident="Crosslane")
        script = Script()
        expected = asyncio.run(drive(script))
        self.pcie_phy = SimulatedPHY(platform, width, script, expected)
        self.engine = CrosslaneEngine(self.pcie_phy, **ENGINE)
        source, sink = self.engine.h2c[0], self.engine.c2h[0]
        self.comb += source.connect(sink, omit={"data"}), sink.data.eq(~source.data)


def main() -> int:
    """Builds the SoC with LiteX's builder and runs it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=int, default=64)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    soc = SimulatedSoC(SimPlatform("SIM", list(IO)), arguments.width)
    config = SimConfig()
    config.add_clocker("sys_clk", freq_hz=SYS_HZ)
    config.add_clocker("pcie_clk", freq_hz=PCIE_HZ)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "quick.vlt").write_text('`verilator_config\ntracing_off -file "*"\n')
    soc.platform.add_source(str(folder / "quick.vlt"))
    builder = Builder(soc, output_dir=str(folder), compile_software=False)
    builder.build(sim_config=config, run=False, opt_level="O0")
    gateware = folder / "gateware"
    # Of LiteX's models of peripherals only the clock is needed.
    environment = {**os.environ, "MAKEFLAGS": " ".join(map("=".join, MAKE_VARIABLES.items()))}
    subprocess.run(["bash", "build_sim.sh"], cwd=gateware, env=environment, check=True)
    done = subprocess.run(["obj_dir/Vsim"], cwd=gateware, stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    return 0 if "PASSED" in done.stdout and "FAILED" not in done.stdout else 1


if __name__ == "__main__":
    sys.exit(main())
