# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_bare: descriptors from a port, data both ways, registers.

The read data go out again: C2H takes its data from H2C's feed.
"""

import random
from collections import deque

import cocotb
import pytest
from card_bus import CardBus
from cocotb.triggers import RisingEdge
from completer import Fault
from engine_host import ERRORS, STATE_IDLE, STATE_RUNNING, STATE_STOPPED, pieces
from packed import pack
from register_map import OFFSETS, fields_of
from register_map import field as put
from simulate import simulate, widths
from tlp_stream import until


class Port:
    """A descriptor port: offers the descriptors of `queue`, with pauses."""

    def __init__(self, dut, name: str, seed: int):
        self.queue: deque[tuple[int, int]] = deque()  # address, bytes
        self.pause = 0.0
        self.first_clock = None  # of the last descriptor offered, as seen by `clocks`
        self._dut = dut
        self._seed = random.Random(seed)
        self._valid = getattr(dut, f"{name}_descriptor_valid")
        self._ready = getattr(dut, f"{name}_descriptor_ready")
        self._descriptor = getattr(dut, f"{name}_descriptor")
        self._valid.value = 0
        self._descriptor.value = 0

    async def run(self, clocks) -> None:
        """Drives the port."""
        offered = False
        while True:
            await RisingEdge(self._dut.clk)
            if offered and self._ready.value:
                self.queue.popleft()
                offered = False
            if not offered:
                offered = bool(self.queue) and self._seed.random() >= self.pause
                self._valid.value = int(offered)
                if offered:
                    address, count = self.queue[0]
                    self._descriptor.value = pack("descriptor_t", address=address, bytes=count)
                    self.first_clock = clocks.now


class Core:
    """The bare core with its host."""

    def __init__(self, dut, seed: int):
        self.dut = dut
        self.bus = CardBus(dut, seed)
        self.ports = {name: Port(dut, name, seed + n) for n, name in enumerate(["h2c", "c2h"])}

    async def start(self):
        await self.bus.start()
        for name, port in self.ports.items():
            cocotb.start_soon(port.run(self.bus.clocks))
            await self.set(name, restart=1)
            await self.set(name, run=1)
        return self

    async def set(self, name: str, **control: int):
        register = f"{name}[0].control"
        await self.bus.write32(OFFSETS[register], put(register, **control))

    async def get(self, name: str, register: str) -> int:
        return await self.bus.read32(OFFSETS[f"{name}[0].{register}"])

    async def completed(self, name: str, count: int, clocks: int = 60_000):
        """Waits until `count` descriptors are complete."""
        completed = getattr(self.dut, f"{name}_completed")
        stopped = getattr(self.dut, f"{name}_stopped")

        def is_complete():
            is_complete = int(completed.value) == count
            assert is_complete or not stopped.value, f"{name} has stopped"
            return is_complete

        await until(self.dut, is_complete, clocks, f"{name}: descriptor {count}")

    async def stopped(self, name: str, clocks: int = 10_000) -> dict[str, int]:
        """Waits until a channel has stopped; returns its status register."""
        stopped = getattr(self.dut, f"{name}_stopped")
        await until(self.dut, lambda: stopped.value, clocks, f"the stop of {name}")
        status = fields_of(f"{name}[0].status", await self.get(name, "status"))
        assert status["state"] == STATE_STOPPED
        return status


async def started(dut, seed: int) -> Core:
    """A core after reset, both channels running."""
    return await Core(dut, seed).start()


async def copies(core: Core, total: int, largest: int) -> None:
    """Reads from random addresses, writes to random addresses; compares, including the gaps."""
    bus = core.bus
    data = bus.random.randbytes(total)
    places = {name: bus.allocate(1 << 18, 4096) for name in core.ports}
    target = bytearray(1 << 18)
    bus.store(places["c2h"], bytes(target))
    for name, place in places.items():
        at, first = 0, 0
        for length in pieces(bus.random, total, largest):
            at += bus.random.randrange(40)
            if name == "h2c":
                bus.store(place + at, data[first : first + length])
            else:
                target[at : at + length] = data[first : first + length]
            core.ports[name].queue.append((place + at, length))
            at += length
            first += length
    counts = {name: len(port.queue) for name, port in core.ports.items()}
    done = {name: int(getattr(core.dut, f"{name}_completed").value) for name in counts}
    for name, count in counts.items():
        await core.completed(name, done[name] + count)
    # The last write is still in flight.
    await bus.wait(20)
    assert bus.load(places["c2h"], len(target)) == target
    for name, count in counts.items():
        assert await core.get(name, "completed") == done[name] + count


@cocotb.test()
async def what_is_read_is_written_again(dut):
    core = await started(dut, 1)
    await copies(core, 40_000, 3000)
    assert core.bus.sink.gaps == 0
    assert max(len(tlp.payload) for tlp in core.bus.writes) <= 256, "Max_Payload_Size"
    assert max(tlp.length_dw for tlp in core.bus.reads) == 128, "Max_Read_Request_Size"


@cocotb.test()
async def pauses_on_every_stream(dut):
    core = await started(dut, 2)
    core.bus.source.pause = core.bus.sink.pause = 0.4
    for port in core.ports.values():
        port.pause = 0.5
    await copies(core, 12_000, 300)
    await copies(core, 2_000, 9)


@cocotb.test()
async def registers_are_read(dut):
    core = await started(dut, 3)
    assert await core.bus.read32(OFFSETS["global.id"]) == 0x584C4E45
    counts = await core.bus.read32(OFFSETS["global.counts"])
    assert counts == put("global.counts", h2c=1, c2h=1)
    for name in core.ports:
        status = fields_of(f"{name}[0].status", await core.get(name, "status"))
        assert status["state"] == STATE_RUNNING
        register = f"{name}[0].payload"
        await core.bus.write32(OFFSETS[register], 128)
        assert await core.bus.read32(OFFSETS[register]) == 128
        # A register absent from the core.
        await core.bus.write32(OFFSETS[f"{name}[0].doorbell"], 5)
        assert await core.get(name, "doorbell") == 0
    await copies(core, 4_000, 2000)
    assert max(len(tlp.payload) for tlp in core.bus.writes) == 128
    assert max(tlp.length_dw for tlp in core.bus.reads) == 32
    await core.set("c2h")
    status = fields_of("c2h[0].status", await core.get("c2h", "status"))
    assert status["state"] == STATE_IDLE


@cocotb.test()
async def errors_stop_a_channel_until_it_is_restarted(dut):
    core = await started(dut, 4)
    bus = core.bus
    place = bus.allocate(1 << 14, 4096)
    wrong = place + 8192
    bus.completer.fail(wrong, Fault.ABORT)
    core.ports["h2c"].queue += [(place, 64), (place + 4096, 64), (wrong, 64)]
    status = await core.stopped("h2c")
    assert ERRORS[status["error"]] == "completer_abort"
    assert await core.get("h2c", "error_low") == wrong & 0xFFFFFFFF
    assert await core.get("h2c", "error_high") == wrong >> 32
    assert await core.get("h2c", "completed") == 2
    core.ports["c2h"].queue += [(place, 100), (place, 0)]
    status = await core.stopped("c2h")
    assert ERRORS[status["error"]] == "bad_descriptor"
    assert await core.get("c2h", "completed") == 1
    # No answer at all.
    bus.completer.fault = lambda *_: (Fault.SILENCE, 0)
    await core.set("h2c", restart=1)
    await core.set("h2c", run=1)
    await bus.wait(40)
    core.ports["h2c"].queue.append((place, 64))
    status = await core.stopped("h2c")
    assert ERRORS[status["error"]] == "completion_timeout"
    # The channels continue. The bad descriptor is still offered: its supplier withdraws it.
    bus.completer.fail(None)
    core.ports["c2h"].queue.clear()
    core.ports["h2c"].queue.clear()
    await bus.wait(4)
    for name in core.ports:
        await core.set(name, restart=1)
    await bus.wait(40)
    for name in core.ports:
        await core.set(name, run=1)
    await bus.wait(10)
    await copies(core, 5_000, 900)


@cocotb.test()
async def nothing_leaves_without_room(dut):
    core = await started(dut, 6)
    bus = core.bus
    place = bus.allocate(1 << 14, 4096)
    bus.set_room(nonposted=0)
    core.ports["h2c"].queue.append((place, 3000))
    await bus.wait(60)
    assert not bus.reads
    # Neither holds up the other, nor an answer.
    bus.set_room(posted=0)
    core.ports["c2h"].queue.append((place + 8192, 3000))
    await core.completed("h2c", 1)
    await bus.wait(60)
    assert not bus.writes
    assert await core.get("h2c", "completed") == 1
    bus.set_room()
    await core.completed("c2h", 1)
    await bus.wait(20)
    assert bus.load(place + 8192, 3000) == bus.load(place, 3000)


@cocotb.test()
async def latency_and_rate(dut):
    core = await started(dut, 5)
    bus, size = core.bus, len(dut.m_tx_data) // 8
    place = bus.allocate(1 << 16, 4096)
    bus.completer.in_order(60, 256)
    # Counted from the clock in which the port is driven, one before the core sees it. A request
    # takes two clocks, a write's first beat five, and the arbiter has a register.
    await bus.wait(100)
    core.ports["h2c"].queue.append((place, 64))
    while not bus.reads:
        await RisingEdge(dut.clk)
    assert bus.reads[0].first_clock - core.ports["h2c"].first_clock <= 4
    await core.completed("h2c", 1)
    # All data are available when the write begins: it leaves at the rate of the data path.
    total = 16384
    core.ports["h2c"].queue.append((place + 64, total - 64))
    await core.completed("h2c", 2)
    bus.writes.clear()
    core.ports["c2h"].queue.append((place + 32768, total))
    await core.completed("c2h", 1)
    await bus.wait(10)
    assert bus.writes[0].first_clock - core.ports["c2h"].first_clock <= 7
    clocks = bus.writes[-1].last_clock - bus.writes[0].first_clock + 1
    assert clocks == total // size, "an idle clock between TLPs"


@pytest.mark.parametrize("data_bits", widths(64, 256))
def test_bare(data_bits):
    simulate(__file__, "bare_loop", {"DATA_BITS": data_bits})
