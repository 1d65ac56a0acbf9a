# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A core with a vendor's streams (CQ, CC, RQ, RC of UltraScale+) in a lab: the model of the hard
block is cocotbext-pcie's, and a lab is above it in place of a root complex.

The core is this project's shim with a memory behind it, which the test plays.
"""

import random

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, with_timeout
from crosslane.cocotb import Clocked
from crosslane.cocotb_pcie import LabLink
from shim_us_bench import INPUTS, device_model
from simulate import simulate
from test_own_core import LAB, package
from test_shim_us import Engine
from tlp_stream import memory_read, memory_write, until

SIZE = 1024
# Simulated time of eight loads of 8 B, one behind the other.
LOADS_PS = 6_465_173


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_lab_is_above_the_hard_block(dut):
    """Stores and loads of the host, and reads and writes of its memory, through the model."""
    seed = random.Random(1)
    for name, value in INPUTS.items():
        getattr(dut, name).value = value
    lab = LAB.with_({"part.card.bar0.size_bytes": 65536})
    with lab.attach("card0") as running:
        clocked, host = Clocked(running, dut.clk), running.host()
        device = device_model(dut)
        link = LabLink(clocked, running.port(), device)
        await with_timeout(FallingEdge(dut.rst), 10, "us")
        engine = Engine(dut)
        await ClockCycles(dut.clk, 50)
        data = seed.randbytes(64)
        await clocked.result(host.store("card0", 0, 0x100, data, width=8))
        loaded = host.load("card0", 0, 0x100, 64)
        assert await clocked.result(loaded, within_ps=50_000_000) == data
        assert loaded.ended_ps - loaded.begun_ps == LOADS_PS
        memory = await clocked.result(host.memory("card0", 2 * SIZE))
        memory.write(0, seed.randbytes(SIZE))
        own = int(device.functions[0].pcie_id)
        assert own == running.port().id
        for tag, at in enumerate(range(0, SIZE, 256)):
            engine.reads[tag] = (bytearray(), 256)
            engine.tx.queue.append(memory_read(memory.address + at, 256, tag, requester=own))
        await until(dut, lambda: not any(left for _, left in engine.reads.values()), 4000)
        read = b"".join(bytes(data) for data, _ in engine.reads.values())
        assert read == memory.read(0, SIZE)
        for at in range(0, SIZE, 256):
            write = memory_write(memory.address + SIZE + at, read[at : at + 256], requester=own)
            engine.tx.queue.append(write)
        await until(dut, lambda: memory.read(SIZE, SIZE) == read, 4000)
        kinds = [tlp.kind for _, tlp in link.sent]
        assert kinds.count("memory_read") == 4 and kinds.count("memory_write") == 4


def test_hard_block():
    """Builds the shim and runs the test above."""
    simulate(__file__, "crosslane_shim_us", {"DATA_BITS": 256}, environment=package())
