# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The card that brightens images, driven by a host: registers, descriptor rings, host memory."""

import cocotb
from card_bus import CardBus
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from engine_host import STATUS, Channel, Descriptor
from simulate import simulate

ADDED = 40  # the default of brighten.sv
USER_PERIOD_PS = 3990  # of the circuit's clock; the engine's is 4000 ps
WIDTH, HEIGHT = 320, 24


def brightened(pixels: bytes) -> bytes:
    """The image that the circuit has to make."""
    return bytes(min(pixel + ADDED, 255) for pixel in pixels)


async def opened(dut):
    """A host, and channels to the circuit and from it."""
    host = CardBus(dut)
    dut.user_rst.value = 0
    Clock(dut.user_clk, USER_PERIOD_PS, unit="ps").start()
    await host.start()
    while dut.user_rst_o.value:
        await RisingEdge(dut.user_clk)
    to_card, from_card = Channel(host, "h2c[0]"), Channel(host, "c2h[0]")
    await to_card.open()
    await from_card.open()
    return host, to_card, from_card


@cocotb.test()
async def an_image_comes_back_brighter(dut):
    """A descriptor for each line, with gaps between the lines of both images."""
    host, to_card, from_card = await opened(dut)
    source, target = host.allocate(HEIGHT * 512, 4096), host.allocate(HEIGHT * 384, 4096)
    image = host.random.randbytes(WIDTH * HEIGHT)
    lines = [image[at : at + WIDTH] for at in range(0, len(image), WIDTH)]
    for number, line in enumerate(lines):
        host.store(source + number * 512, line)
    await from_card.post([Descriptor(target + n * 384, WIDTH, STATUS) for n in range(HEIGHT)])
    await to_card.post([Descriptor(source + n * 512, WIDTH, STATUS) for n in range(HEIGHT)])
    assert (await to_card.completed()).error == "none"
    assert (await from_card.completed()).error == "none"
    for number, line in enumerate(lines):
        assert host.load(target + number * 384, WIDTH) == brightened(line), f"line {number}"


@cocotb.test()
async def the_circuit_keeps_up_with_the_engine(dut):
    """Both ways at once, a beat in 99 % of the clocks, with requests of reads between."""
    host, to_card, from_card = await opened(dut)
    host.completer.in_order(20, 256)
    total = 16384
    source, target = host.allocate(total, 4096), host.allocate(total, 4096)
    image = host.random.randbytes(total)
    host.store(source, image)
    await from_card.post([Descriptor(target, total)])
    await to_card.post([Descriptor(source, total)])
    assert (await from_card.completed()).error == "none"
    assert host.load(target, total) == brightened(image)
    writes = [tlp for tlp in host.writes if target <= tlp.address < target + total]
    clocks = writes[-1].last_clock - writes[0].last_clock
    beats = sum(len(tlp.payload) for tlp in writes[1:]) // 8
    print(f"{beats} beats in {clocks} clocks")
    assert beats >= 0.99 * clocks


def test_own_circuit():
    """Builds the card and runs the tests above."""
    simulate(__file__, "brighten_card")
