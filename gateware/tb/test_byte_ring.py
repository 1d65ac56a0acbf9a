# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_byte_ring: any position, any number of bytes, a beat each clock; several rings, too."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from simulate import SEED, simulate, widths
from tlp_stream import Bench

SIZE_BYTES = 1024
WRITE_CLOCKS = 3
READ_CLOCKS = 3


@cocotb.test()
async def windows_show_what_was_written(dut):
    lanes = len(dut.write_enable)
    ring = SIZE_BYTES // int(os.environ["RINGS"])

    def place_of(position, lane):
        return position // ring * ring + (position + lane) % ring

    seed = random.Random(SEED)
    dut.write_valid.value = 0
    dut.read_enable.value = 0
    await Bench(dut).reset()
    memory = [None] * SIZE_BYTES
    writes = []  # (first clock in which it is visible, position, byte)
    pipeline = []  # requested windows, oldest first
    windows = 0
    for clock in range(4000):
        while writes and writes[0][0] <= clock:
            _, place, byte = writes.pop(0)
            memory[place] = byte
        position = seed.randrange(SIZE_BYTES)
        data = seed.randbytes(lanes)
        enable = seed.getrandbits(lanes)
        valid = seed.random() < 0.8
        dut.write_valid.value = valid
        dut.write_position.value = position
        dut.write_data.value = int.from_bytes(data, "little")
        dut.write_enable.value = enable
        touched = {place for _, place, _ in writes}
        if valid:
            for lane in range(lanes):
                if enable >> lane & 1:
                    place = place_of(position, lane)
                    writes.append((clock + WRITE_CLOCKS, place, data[lane]))
                    touched.add(place)
        move = seed.random() < 0.7
        start = seed.randrange(SIZE_BYTES)
        back = seed.choice([0, seed.randrange(lanes)])
        dut.read_enable.value = move
        dut.read_position.value = start
        dut.read_back.value = back
        if move:
            places = [place_of(start, lane - back) for lane in range(lanes)]
            # A write in the pipeline may be visible or not.
            pipeline.append([None if p in touched else memory[p] for p in places])
        await FallingEdge(dut.clk)
        if move and len(pipeline) == READ_CLOCKS:
            window = int(dut.read_data.value).to_bytes(lanes, "little")
            for lane, byte in enumerate(pipeline.pop(0)):
                assert byte is None or window[lane] == byte, f"clock {clock}, lane {lane}"
                windows += byte is not None
    assert windows > 1000 * lanes


@pytest.mark.parametrize("rings", [1, 4])
@pytest.mark.parametrize("data_bits", widths(64, 512))
def test_byte_ring(data_bits, rings):
    parameters = {"DATA_BITS": data_bits, "SIZE_BYTES": SIZE_BYTES, "RINGS": rings}
    simulate(__file__, "crosslane_byte_ring", parameters)
