# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Host and card memory around the engine, for its tests.

The host is that of the whole card, the memory one of cocotbext-axi on both AXI4 ports.
"""

import os

from axi_memory import AxiMemory
from card_bus import HOST_ID, CardBus
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiResp
from engine_host import STATUS, Channel, Descriptor
from tlp_stream import COMPLETION, COMPLETION_DATA, Pulses, memory_read, memory_write

DATA_BITS = int(os.environ.get("DATA_BITS", "256"))
BYTES = DATA_BITS // 8
BURST = 16 * BYTES
CARD_BYTES = 1 << 20
# Size and bus address of BAR 2.
WINDOW_BYTES = 1 << 16
WINDOW = 0x3_0000_0000


class MemoryBus(CardBus):
    """A host, and the card's memory."""

    def __init__(self, dut, seed=1):
        super().__init__(dut, seed)
        self.card = bytearray(CARD_BYTES)
        self._pieces = {}

    async def start(self):
        """Memory, clock, reset."""
        # One memory, on both ports.
        self.memory_port = AxiMemory(self.dut, "m_memory", self.card, self.random, BURST // BYTES)
        self.window_port = AxiMemory(self.dut, "m_window", self.card, self.random)
        await super().start()
        self.window_failures = Pulses(self.dut, "window_failed")

    def refuse(self, refuses, response=AxiResp.SLVERR):
        """From now on the memory answers with an error if `refuses` says so."""
        for port in (self.memory_port, self.window_port):
            port.refuses, port.response = refuses, response

    def pause(self, how_often):
        """Pauses all streams and all channels of the memory."""
        self.source.pause = self.sink.pause = how_often / 2
        for port in (self.memory_port, self.window_port):
            port.pause(how_often)

    # --- BAR 2 -----------------------------------------------------------------------------

    def _take(self, tlp):
        pieces = self._pieces.get(tlp.tag)
        if tlp.kind in (COMPLETION, COMPLETION_DATA) and pieces is not None:
            pieces.append(tlp)
        else:
            super()._take(tlp)

    def window_write(self, at, data):
        """Posts a write into the aperture."""
        while data:
            count = min(256 - at % 256, len(data))
            tlp = memory_write(WINDOW + at, data[:count], requester=HOST_ID, bar=2)
            self.source.queue.append(tlp)
            at, data = at + count, data[count:]

    async def window_read(self, at, count, clocks=5000):
        """Reads from the aperture, not beyond a multiple of 512 B; None if refused."""
        tag = self._next_tag()
        pieces = self._pieces[tag] = []
        self.source.queue.append(memory_read(WINDOW + at, count, tag, requester=HOST_ID, bar=2))
        data = b""
        for _ in range(clocks):
            await RisingEdge(self.dut.clk)
            while pieces:
                piece = pieces.pop(0)
                if piece.kind == COMPLETION:
                    del self._pieces[tag]
                    return None
                assert piece.byte_count == count - len(data)
                skip = piece.address % 4
                data += piece.payload[skip : skip + piece.byte_count]
            if len(data) == count:
                del self._pieces[tag]
                return data
        raise AssertionError(f"no answer to a read of BAR 2 at {at:#x}")


async def started(dut, seed=1, how_often=0.0):
    """An engine with a memory full of random bytes."""
    bus = MemoryBus(dut, seed)
    bus.card[:] = bus.random.randbytes(CARD_BYTES)
    await bus.start()
    bus.pause(how_often)
    return bus


async def opened(bus, name, card_memory=1):
    """A running channel."""
    channel = Channel(bus, name)
    await channel.open(card_memory=card_memory)
    return channel


async def complete(channel):
    """Waits until all that was posted is complete, without an error."""
    block = await channel.completed(60000)
    assert (block.completed, block.error) == (channel.posted, "none")


async def carry(channel, *descriptors):
    """Posts these, and waits until all are complete."""
    await channel.post(descriptors)
    await complete(channel)


def jobs_of(bus, total, longest=5000):
    """(card address, bytes) of successive transfers, with gaps."""
    jobs, at = [], bus.random.randrange(100)
    while at < total:
        count = bus.random.choice(
            [1, 2, 3, 4, 31, 64, 4096, longest, bus.random.randrange(1, 1500)]
        )
        jobs.append((at, count))
        at += count + bus.random.choice([0, 0, 1, 5, 300])
    return jobs


async def to_card(bus, channel, jobs):
    """H2C of random data from random host addresses; returns the expected memory."""
    expected = bytearray(bus.card)
    descriptors = []
    for card, count in jobs:
        data = bus.random.randbytes(count)
        address = bus.allocate(count + 64, 64) + bus.random.choice([0, 0, bus.random.randrange(64)])
        bus.store(address, data)
        expected[card : card + count] = data
        descriptors.append(Descriptor(address, count, STATUS, card))
    await channel.post(descriptors)
    return expected
