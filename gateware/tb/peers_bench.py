#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Speed of cocotbext-pcie on the first workload of the fabric's benchmark `hops`: each of ten
endpoints, five behind each of two switches, writes blocks of 4 KiB to one behind the other switch,
in TLPs of 256 B over four links, with real bytes that are compared.

`peers_bench.py [BLOCKS]` prints TLP-hops a second, and their number.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import cocotb
from cocotb.triggers import Event, with_timeout
from cocotbext.pcie.core import Device, MemoryEndpoint, RootComplex, Switch
from model import Model
from simulate import TB, run

ENDPOINTS = 10
BLOCK_BYTES = 4096
PAYLOAD_BYTES = 256
LINKS = 4


class Peer(MemoryEndpoint):
    """An endpoint with a window of two blocks."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.window = self.add_mem_region(1 << 20, self.load, self.store)
        self.bytes = bytearray(2 * BLOCK_BYTES)
        self.left = blocks * BLOCK_BYTES
        self.all_there = Event()

    async def load(self, at: int, length: int) -> bytes:
        """Answers a read."""
        return bytes(self.bytes[at : at + length])

    async def store(self, at: int, data: bytes) -> None:
        """Takes a write."""
        self.bytes[at : at + len(data)] = data
        self.left -= len(data)
        if self.left == 0:
            self.all_there.set()


def block(number: int) -> bytes:
    """Bytes of a block."""
    return bytes((number * 7 + at) % 251 for at in range(BLOCK_BYTES))


@cocotb.test()
async def ten_peers_write_to_each_other(_dut: object) -> None:
    """Measures and prints."""
    blocks = int(os.environ["BLOCKS"])
    root = RootComplex()
    root.max_payload_size = 1
    peers = []
    for _ in range(2):
        switch = Switch()
        uplink = root.make_port()
        uplink.downstream_port.max_link_speed, uplink.downstream_port.max_link_width = 3, 16
        uplink.connect(switch)
        for _ in range(ENDPOINTS // 2):
            device = Device(Peer(blocks))
            device.upstream_port.max_link_speed, device.upstream_port.max_link_width = 3, 8
            switch.make_port().connect(device)
            peers.append(device.functions[0])
    await with_timeout(root.enumerate(), 2000, "us")
    for peer in peers:
        found = root.find_device(peer.pcie_id)
        await found.enable_device()
        await found.set_master()

    async def write(peer: Peer, to: Peer) -> None:
        window = root.find_device(to.pcie_id).bar_addr[0]
        for number in range(blocks):
            await peer.mem_write(window + number % 2 * BLOCK_BYTES, block(number))

    begun = time.perf_counter()
    for number, peer in enumerate(peers):
        cocotb.start_soon(write(peer, peers[(number + ENDPOINTS // 2) % ENDPOINTS]))
    for peer in peers:
        await peer.all_there.wait()
    wall_s = time.perf_counter() - begun
    for peer in peers:
        first = (blocks - 1) % 2 * BLOCK_BYTES
        assert bytes(peer.bytes[first : first + BLOCK_BYTES]) == block(blocks - 1)
    hops = ENDPOINTS * blocks * BLOCK_BYTES // PAYLOAD_BYTES * LINKS
    Path(os.environ["RESULT"]).write_text(f"{hops / wall_s:.0f} {hops}\n")


def main() -> None:
    """Runs the simulation."""
    blocks = sys.argv[1] if len(sys.argv) > 1 else "20"
    model = Model("nothing", TB / "tops" / "nothing.sv", {}, trace=False, coverage=False)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result"
        environment = {"BLOCKS": blocks, "RESULT": str(result), "COCOTB_RANDOM_SEED": "1"}
        environment["COCOTB_LOG_LEVEL"] = "ERROR"
        # The simulator's own words go to the standard error.
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2, 1)
        run(model, model.program(), Path(folder), Path(__file__), None, environment)
        os.dup2(kept, 1)
        print(result.read_text(), end="")


if __name__ == "__main__":
    main()
