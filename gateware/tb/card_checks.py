# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What holds for a card below a root complex, whatever shim it has."""

import random

from engine_host import (
    INTERRUPT,
    STATUS,
    STREAM_LANE,
    Channel,
    Descriptor,
    complete,
    enable_lane,
    opened,
    pattern,
    route,
    set_vector,
)
from simulate import SEED
from tlp_stream import until


async def check_interrupt(card):
    """A message is a write, from the card's own table; it comes behind data and status block."""
    message = card.allocate(4096, 4096)
    card.device.functions[0].msix_cap.msix_enable = True
    await set_vector(card, 2, message + 64, 0xCAFE)
    channel = Channel(card, "c2h[0]")
    await channel.open(interrupt_enable=1)
    await channel.set("vector", 2)
    place = card.allocate(4096, 4096)
    await card.wait(100)
    await channel.post([Descriptor(place, 100, STATUS | INTERRUPT)])
    await until(card, lambda: card.load(message + 64, 4) == (0xCAFE).to_bytes(4, "little"), 2000)
    assert channel.block().completed == 1
    assert card.load(place, 100) == pattern(0, 0, 100)


async def check_lane(card, window):
    """A write of another card into BAR 1 comes out of its lane, which has `window` bytes there."""
    await route(card, c2h=STREAM_LANE, lane=1)
    await enable_lane(card, 1)
    [writer] = await opened(card, "c2h[0]")
    data = random.Random(SEED).randbytes(4000)
    for at in range(0, len(data), 200):
        await card.lanes.write(window + at, data[at : at + 200])
    target = card.allocate(4096, 4096)
    await writer.post([Descriptor(target, len(data))])
    await complete(writer)
    assert card.load(target, len(data)) == data


async def check_unanswered(card):
    """An unmapped address stops one channel: Unsupported Request from the root complex."""
    await route(card)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    place, nowhere = card.allocate(8192, 4096), 0x7FFF_0000_0000
    await reader.post([Descriptor(place, 4096), Descriptor(nowhere, 256)])
    block = await reader.completed()
    assert (block.completed, block.error) == (1, "unsupported_request")
    assert block.error_address == nowhere
    await writer.post([Descriptor(place, 8000)])
    await complete(writer)
    await reader.open()
    await reader.post([Descriptor(place, 4096)])
    await complete(reader)
