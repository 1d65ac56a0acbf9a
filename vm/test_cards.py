# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cards other than DMA engines through the kernel's VFIO: memory cards, network processors."""

import json
from pathlib import Path

from lab import memory_card
from machine import Machine, Plug


def flows(machine: Machine, command: str) -> list[dict]:
    scenarios = json.loads(machine.run(f"{command} --json"))["scenarios"]
    return [flow for scenario in scenarios for flow in scenario["flows"]]


def test_stores_into_the_memory_of_a_card(machine: Machine, plug: Plug, tmp_path: Path) -> None:
    [card] = plug(str(memory_card(tmp_path)), "f1")
    machine.run(f"crosslane device bind {card}")
    bench = f"crosslane bench mmio --device vfio:{card} -i 1024 -p 2"
    for mode, name in [("", "burst"), ("-c", "custom"), ("-w -c", "custom-wc")]:
        [flow] = flows(machine, f"{bench} {mode}")
        assert (flow["name"], flow["wrong_words"]) == (name, 0), flow
        assert flow["bytes_per_second"] > 0


def test_a_torus_of_two_network_processors(machine: Machine, plug: Plug) -> None:
    card, other = plug("nget:crosslane", "fpga1", "fpga2")
    machine.run(f"crosslane device bind {card} && crosslane device bind {other}")
    cards = f"--device vfio:{card} --device vfio:{other}"
    gets = flows(machine, f"crosslane bench nget {cards} --size 4K -n 4 -k 20")
    # 4 - 1 + 20 gets of each card, with 128 B of payload in each datagram.
    assert [flow["datagrams"] for flow in gets] == [23 * 4096 // 128] * 2, gets
    # Faces go over the cable between the two, into memory behind the IOMMU, and are compared.
    [halo] = flows(machine, f"crosslane bench halo {cards} --open --exchanges 3")
    assert (halo["buffers_compared"], halo["buffers_wrong"]) == (6, 0), halo
