# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host on the TLP streams of crosslane_card: registers, memory that answers, and interrupts."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from completer import Completer
from packed import pack
from tlp_stream import (
    COMPLETION_DATA,
    MEMORY_READ,
    MEMORY_WRITE,
    Clocks,
    Tlp,
    TlpSink,
    TlpSource,
    memory_read,
    memory_write,
    reset,
    until,
)

# Parameters of the card in tests: one build for all of them.
CARD = {"TAGS": 64, "STAGING_BYTES": 65536, "LANE_FIFO": 8192, "MAX_WRITE": 1024}
# The data of all tags take 4096 clocks at 64 bits, and a shuffled read may be the last of them.
CARD |= {"TABLE_ENTRIES": 64, "TIMEOUT_CLOCKS": 8000}
# One build serves several files: those of one width go to one worker.
WIDTHS = [
    pytest.param(bits, marks=pytest.mark.xdist_group(f"card-{bits}"))
    for bits in (64, 128, 256, 512)
]

CARD_ID = 0x0100
HOST_ID = 0x0000
# Host memory of the tests, and the address of MSI messages.
MEMORY_BASE = 0x1_0000_0000
MEMORY_BYTES = 1 << 22
MESSAGE_ADDRESS = 0xFEE0_0000


class CardBus:
    """Resets the card and is its host.

    Reads of memory are answered by `completer`.
    """

    def __init__(self, dut, seed: int = 1):
        self.dut = dut
        self.random = random.Random(seed)
        self.memory = bytearray(MEMORY_BYTES)
        self.function = {"routing_id": CARD_ID, "max_payload": 1, "max_read_request": 2}
        self.function |= {"bus_master": 1, "extended_tags": 1, "msix_enabled": 1, "link_up": 1}
        self.completer = Completer(self.load, seed, latency=(30, 90), completer_id=HOST_ID)
        self.messages: list[int] = []  # data of the interrupts
        self.writes: list[Tlp] = []  # all that the card has written
        self.reads: list[Tlp] = []
        self.others: list[Tlp] = []  # requests to addresses outside memory
        self._next_free = 0
        self._answers: dict[int, Tlp] = {}
        self._tag = 0

    async def start(self):
        """Clock, reset, streams."""
        dut = self.dut
        self.clocks = Clocks(dut.clk)
        self.source = TlpSource(dut, "s_rx", self.clocks)
        self.sink = TlpSink(dut, "m_tx", self.clocks, taken=self._take)
        self.set_function()
        self.set_room()
        if hasattr(dut, "time_set_valid"):
            dut.time_set_valid.value = 0
            dut.time_set_value.value = 0
        await reset(dut)
        cocotb.start_soon(self._answer())
        # Descriptor tables are swept after a reset, and a restart waits for that.
        await ClockCycles(dut.clk, 80)
        return self

    async def reset(self):
        """Function-level reset, between two received TLPs, as a shim ensures."""
        self.source.is_held = True
        while not self.source.is_between:
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 1)
        self.dut.rst.value = 0
        self.sink.forget()
        self.source.is_held = False
        await ClockCycles(self.dut.clk, 80)

    def set_function(self, **values: int):
        """Changes settings of the function."""
        self.function |= values
        self.completer.max_payload = 128 << self.function["max_payload"]
        self.show_function()

    def show_function(self):
        """Drives the function's settings on the card's ports."""
        self.dut.function_i.value = pack("function_t", **self.function)

    def set_room(self, posted: int = 1, nonposted: int = 1, completion: int = 1):
        """Sets the classes of TLP for which the link has room."""
        room = pack("room_t", posted=posted, nonposted=nonposted, completion=completion)
        self.dut.room_i.value = room

    # --- The Bus of engine_host ------------------------------------------------------------

    async def write32(self, offset: int, value: int) -> None:
        """Writes a register: posted."""
        data = value.to_bytes(4, "little")
        self.source.queue.append(memory_write(offset, data, requester=HOST_ID, bar=0))

    async def read32(self, offset: int) -> int:
        """Reads a register."""
        answer = await self.request(memory_read(offset, 4, self._next_tag(), bar=0))
        assert answer.kind == COMPLETION_DATA, "a register read was refused"
        return int.from_bytes(answer.payload, "little")

    async def wait(self, clocks: int) -> None:
        """Waits for some clocks."""
        await ClockCycles(self.dut.clk, clocks)

    def load(self, address: int, count: int) -> bytes:
        """Bytes of host memory."""
        at = address - MEMORY_BASE
        assert 0 <= at <= at + count <= MEMORY_BYTES, f"{address:#x} is outside host memory"
        return bytes(self.memory[at : at + count])

    def store(self, address: int, data: bytes) -> None:
        """Puts bytes into host memory."""
        at = address - MEMORY_BASE
        assert 0 <= at <= at + len(data) <= MEMORY_BYTES, f"{address:#x} is outside host memory"
        self.memory[at : at + len(data)] = data

    def allocate(self, count: int, alignment: int) -> int:
        """Bus address of unused host memory."""
        at = -(-self._next_free // alignment) * alignment
        self._next_free = at + count
        assert self._next_free <= MEMORY_BYTES
        return MEMORY_BASE + at

    # --- Requests to the card --------------------------------------------------------------

    def _next_tag(self) -> int:
        self._tag = (self._tag + 1) % 256
        return self._tag

    async def request(self, tlp: Tlp, clocks: int = 2000) -> Tlp:
        """Sends a read and waits for its (single) completion."""
        self.source.queue.append(tlp)
        self._answers.pop(tlp.tag, None)
        what = f"the completion of a read of {tlp.address:#x}"
        await until(self.dut, lambda: tlp.tag in self._answers, clocks, what)
        return self._answers.pop(tlp.tag)

    # --- Requests of the card --------------------------------------------------------------

    def _take(self, tlp: Tlp):
        if tlp.kind == MEMORY_WRITE:
            self._take_write(tlp)
        elif tlp.kind == MEMORY_READ:
            self.reads.append(tlp)
            self.check_request(tlp)
            self.completer.take(tlp, self.clocks.now)
        else:
            self._answers[tlp.tag] = tlp

    def _take_write(self, tlp: Tlp):
        self.writes.append(tlp)
        if tlp.address == MESSAGE_ADDRESS:
            self.messages.append(int.from_bytes(tlp.payload, "little"))
            return
        if not MEMORY_BASE <= tlp.address < MEMORY_BASE + MEMORY_BYTES:
            self.others.append(tlp)
            return
        self.check_request(tlp)
        at = tlp.address - MEMORY_BASE
        for place in tlp.enabled:
            self.memory[at + place] = tlp.payload[place]

    def check_request(self, tlp: Tlp):
        """Checks a request against the specification (PCIe 6.x 2.2.5, 2.2.7)."""
        assert tlp.requester == CARD_ID
        assert 1 <= tlp.length_dw <= 1024
        assert (tlp.last_be == 0) == (tlp.length_dw == 1)
        assert tlp.first_be != 0
        assert tlp.address % 4096 + tlp.length_dw * 4 <= 4096, "a request crosses 4 KiB"
        size = "max_payload" if tlp.kind == MEMORY_WRITE else "max_read_request"
        assert tlp.length_dw * 4 <= 128 << self.function[size], f"{tlp.length_dw} DW are too many"

    async def _answer(self):
        while True:
            await RisingEdge(self.dut.clk)
            while len(self.source.queue) < 4:
                completion = self.completer.next(self.clocks.now)
                if completion is None:
                    break
                self.source.queue.append(completion)
