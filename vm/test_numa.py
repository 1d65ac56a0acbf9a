# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Buffers on the NUMA node of a card or the one that is asked for, in a machine with two nodes."""

import json
from pathlib import Path

from lab import Serve
from machine import Image, Machine

# The card's bus, below a host bridge of the second node.
FAR_BUS = 0x80
FAR = (
    {"driver": "pxb-pcie", "id": "far", "bus_nr": FAR_BUS, "numa_node": 1},
    {"driver": "pcie-root-port", "id": "far-port", "bus": "far", "chassis": 99},
)
CARD = f"0000:{FAR_BUS + 1:02x}:00.0"


def pages_of(machine: Machine, options: str) -> list[list[str]]:
    """What the kernel says of each buffer while a benchmark runs: its policy, its pages."""
    bench = f"crosslane bench write --device vfio:{CARD} --size 64K --iterations 10000 {options}"
    said = machine.run(
        f"{bench} >/dev/null 2>&1 & maps=/proc/$!/numa_maps\n"
        "for i in $(seq 600); do grep -q memfd:crosslane $maps && break; sleep 0.1; done\n"
        "sleep 1; grep memfd:crosslane $maps; kill -9 $!"
    )
    lines = [line.split()[1:] for line in said.splitlines()]
    assert lines, f"{bench} has no buffers"
    return lines


def assert_on_node(machine: Machine, options: str, policy: str, node: int) -> list[list[str]]:
    buffers = pages_of(machine, options)
    assert all(words[0] == policy for words in buffers), buffers
    # A buffer that the program has not touched has no page in it yet.
    pages = [word for words in buffers for word in words if word.startswith("N") and "=" in word]
    assert pages and all(word.startswith(f"N{node}=") for word in pages), buffers
    return buffers


def test_buffers_are_on_the_node_of_the_card_or_asked_for(
    image: Image, serve: Serve, tmp_path: Path
) -> None:
    served = serve("rosta:crosslane", "fpga1")
    [card] = served.cards()
    devices = (*FAR, card | {"bus": "far-port"})
    # Not the shared machine: it has one node.
    with Machine(image, tmp_path / "machine", devices, nodes=2) as machine:
        assert machine.run(f"cat /sys/bus/pci/devices/{CARD}/numa_node").strip() == "1"
        info = json.loads(machine.run(f"crosslane device info {CARD} --json"))
        assert (info["function"]["numa_node"], info["buffers"]) == (1, "node 1, that of the card")
        machine.run(f"crosslane device bind {CARD}")
        # The processor is at node 0, which is where the kernel would take them from.
        assert_on_node(machine, "", "prefer:1", 1)
        assert_on_node(machine, "--numa 0", "bind:0", 0)
        # The same of huge pages, of which each node has some.
        for node in (0, 1):
            huge = f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"
            machine.run(f"echo 16 >{huge}")
        for options, policy, node in (("", "prefer:1", 1), ("--numa 0", "bind:0", 0)):
            buffers = assert_on_node(machine, options, policy, node)
            assert any("huge" in words for words in buffers), buffers
        bench = f"crosslane bench write --device vfio:{CARD} --size 4K --numa 2"
        code, said = machine.attempt(bench)
        assert code == 1 and "no NUMA node 2: those with memory are 0, 1" in said, said
