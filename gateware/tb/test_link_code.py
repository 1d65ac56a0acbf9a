# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_link_encode, crosslane_link_decode: all symbols and all codes at both disparities, as
crate `torus-link` has them; streams of symbols come back."""

import random

import cocotb
import link_reference
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from simulate import SEED, simulate

COMMA = 0xBC


async def begin(dut) -> None:
    """Resets both."""
    Clock(dut.clk, 4, unit="ns").start()
    for name in ("encode", "decode", "aligns", "aligned", "symbol", "control", "code"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = 0


async def encode(dut, symbol: int, control: int) -> tuple[int, int]:
    """The code of a symbol, and the disparity behind it."""
    dut.encode.value, dut.symbol.value, dut.control.value = 1, symbol, control
    await FallingEdge(dut.clk)
    dut.encode.value = 0
    return int(dut.encoded.value), int(dut.encoded_positive.value)


@cocotb.test()
async def every_symbol_has_its_code(dut):
    await begin(dut)
    wanted = {line[:3]: line[3:] for line in link_reference.codes("encode")}
    assert len(wanted) == 2 * (256 + 12)
    for (positive, control, byte), coded in wanted.items():
        if int(dut.encoded_positive.value) != positive:
            await encode(dut, COMMA, 1)
        assert await encode(dut, byte, control) == coded, (positive, control, byte)


@cocotb.test()
async def every_code_has_its_meaning(dut):
    await begin(dut)
    lines = link_reference.codes("decode")
    assert len(lines) == 2 * 1024
    for positive, code, kind, byte, behind in lines:
        dut.decode.value, dut.code.value = 1, code
        dut.aligns.value, dut.aligned.value = 1, positive
        await FallingEdge(dut.clk)
        found = [int(dut.code_error.value), int(dut.turned_error.value)]
        assert found == [kind == 2, kind == 3], (positive, code)
        if kind < 2:
            assert int(dut.decoded.value) == byte, (positive, code)
            assert int(dut.decoded_control.value) == kind, (positive, code)
        assert int(dut.decoded_positive.value) == behind, (positive, code)


@cocotb.test()
async def streams_come_back(dut):
    await begin(dut)
    seed = random.Random(SEED)
    symbols = sorted({(byte, control) for _, control, byte, *_ in link_reference.codes("encode")})
    for _ in range(1000):
        byte, control = seed.choice(symbols)
        code, positive = await encode(dut, byte, control)
        assert 4 <= code.bit_count() <= 6
        dut.decode.value, dut.code.value = 1, code
        await FallingEdge(dut.clk)
        dut.decode.value = 0
        assert not int(dut.code_error.value) and not int(dut.turned_error.value)
        assert (int(dut.decoded.value), int(dut.decoded_control.value)) == (byte, control)
        assert int(dut.decoded_positive.value) == positive


def test_link_code():
    environment = {"LINK_REFERENCE": link_reference.key()}
    simulate(__file__, "link_code", {}, environment=environment)
