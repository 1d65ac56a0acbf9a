# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A core in a simulator, with a lab in place of a bus model: its host writes the core's registers,
the core reads and writes the host's memory through a switch, and a neighbour has its own traffic.

In a project of your own `cocotb_tools.runner` builds and runs the core, or the makefiles of cocotb.
"""

import hashlib
import random
from pathlib import Path

import cocotb
import crosslane
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from crosslane.cocotb import Clocked, TlpSink, TlpSource
from simulate import simulate

FOLDER = Path(__file__).parent
LAB = crosslane.Lab.load(FOLDER / "lab.toml")
SIZE = 16384
# Bytes of each of the core's reads and writes, as many reads in flight as it has tags.
CHUNK, TAGS = 128, 8
# Registers of the core.
SOURCE, TARGET, BYTES, START, STATUS = 0x00, 0x08, 0x10, 0x14, 0x18
DONE = 2
# Simulated times, exact: another core, or another lab, has others.
REGISTER_READ_PS = 789_330
ALONE_PS = 15_416_000
BESIDE_PS = 23_204_000


class Bench:
    """The core as card0 of the lab, and the host above it."""

    async def start(self, dut, running):
        """Resets the core, and lets the host prepare: memory, interrupts."""
        self.port, self.host = running.port(), running.host()
        dut.rst.value = 1
        dut.function_id.value = self.port.id
        Clock(dut.clk, 4, unit="ns").start()
        self.clocked = Clocked(running, dut.clk)
        TlpSource(self.clocked, self.port, dut, "rx_req", which="requests")
        TlpSource(self.clocked, self.port, dut, "rx_cpl", which="completions")
        self.sent = TlpSink(self.clocked, self.port, dut, "tx").sent
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0
        await self.does(self.host.enable_interrupts("card0"))
        self.memory = await self.does(self.host.memory("card0", 2 * SIZE))
        return self

    async def does(self, operation):
        """Waits until the host has done something."""
        return await self.clocked.result(operation)

    async def write(self, register, value):
        """Writes a register of the core."""
        await self.does(self.host.write_register("card0", 0, register, value))

    async def read(self, register):
        """Reads a register of the core."""
        return await self.does(self.host.read_register("card0", 0, register))

    async def invert(self, data):
        """Has the core invert data in host memory. Returns the result, and the picoseconds that
        its writes behind the first one take: simulated, so they are the same in each run."""
        self.memory.write(0, data)
        for register, address in ((SOURCE, 0), (TARGET, SIZE)):
            await self.write(register, self.memory.address + address)
        await self.write(BYTES, len(data))
        self.sent.clear()
        await self.write(START, 1)
        assert await self.does(self.host.wait_interrupt("card0")) == 1
        assert await self.read(STATUS) == DONE
        # The interrupt, a write too, has pushed the data before it.
        times = [time for time, tlp in self.sent if tlp.kind == "memory_write"]
        assert len(times) == len(data) // CHUNK + 1
        return self.memory.read(SIZE, len(data)), times[-2] - times[0]


def rate(span_ps):
    """Bytes a second of the writes behind the first one."""
    return (SIZE - CHUNK) / span_ps * 1e12


def inverted(data):
    """The result that the core has to give."""
    return bytes(byte ^ 0xFF for byte in data)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_core_works_alone(dut):
    """Every byte is right, and the rate is what the core's tags bring in the lab's round trip."""
    data = random.Random(1).randbytes(SIZE)
    with LAB.attach("card0") as running:
        bench = await Bench().start(dut, running)
        status = bench.host.read_register("card0", 0, STATUS)
        assert await bench.does(status) == 0
        # Two links and a switch each way, the ports' latencies, and three clocks of the core.
        assert status.ended_ps - status.begun_ps == REGISTER_READ_PS
        result, span_ps = await bench.invert(data)
        assert result == inverted(data)
        assert span_ps == ALONE_PS
        print(f"alone {rate(span_ps) / 1e6:.0f} MB/s")
        # A tag is in use from its read to its data: so long is the round trip that the core sees.
        round_trip_ps = TAGS * CHUNK / rate(span_ps) * 1e12
        assert 0.9e6 < round_trip_ps < 1.0e6


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_neighbour_takes_its_share(dut):
    """The neighbour writes all that the uplink takes: reads and writes of the core wait there."""
    data = random.Random(2).randbytes(SIZE)
    with LAB.attach("card0") as running:
        bench = await Bench().start(dut, running)
        (flow,) = running.traffic("card1:host:write:4K", operations=100)
        result, span_ps = await bench.invert(data)
        assert result == inverted(data)
        assert span_ps == BESIDE_PS
        report = flow.report()
        assert report["failed"] == 0 and report["operations"] < 100, "it has ended too early"
        print(
            f"beside a neighbour {rate(span_ps) / 1e6:.0f} MB/s, {ALONE_PS / span_ps:.0%} of what "
            f"it has alone; the neighbour {report['bytes_per_second'] / 1e6:.0f} MB/s"
        )


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_refused_read_is_an_error_of_the_core(dut):
    """Nothing is mapped at the source: the core says so, and does not hang."""
    running = LAB.attach("card0")
    bench = await Bench().start(dut, running)
    await bench.write(SOURCE, 0xF000_0000)
    await bench.write(TARGET, bench.memory.address)
    await bench.write(BYTES, 128)
    await bench.write(START, 1)
    assert await bench.does(bench.host.wait_interrupt("card0")) == 1
    assert await bench.read(STATUS) == DONE | 4
    (error,) = running.errors
    assert "Unsupported Request: MRd 0xf0000000 128 B" in error, error


def package():
    """Hash of the package and the lab, for the environment: a run that has passed is remembered by
    it."""
    folder = Path(crosslane.__file__).parent
    files = [*sorted(folder.glob("*.py")), *sorted(folder.glob("*.so")), FOLDER / "lab.toml"]
    text = b"".join(path.read_bytes() for path in files)
    return {"CROSSLANE_HASH": hashlib.sha256(text).hexdigest()}


def test_own_core():
    """Builds the core and runs the tests above."""
    simulate(__file__, "invert_dma", environment=package())


def test_the_page_has_the_figures():
    """The tutorial says what the tests above assert."""
    page = (FOLDER.parents[1] / "docs/tutorials/own-core.md").read_text().replace("\n", " ")
    for figure in (
        f"{REGISTER_READ_PS / 1000:.2f} ns",
        f"{rate(ALONE_PS) / 1e6:.0f} MB/s each way",
        f"{TAGS * CHUNK / rate(ALONE_PS) * 1e6:.2f} us",
        f"keeps {rate(BESIDE_PS) / 1e6:.0f} MB/s, {100 * ALONE_PS / BESIDE_PS:.0f} %",
    ):
        assert figure in page, figure
