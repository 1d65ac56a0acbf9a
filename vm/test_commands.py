# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`crosslane device` on the PCI tree of a real kernel."""

import json

from machine import Machine, Start

EDU = "0000:00:05.0"
NETWORK = "0000:01:00.0"
PORT = "0000:00:08.0"
DEVICES = (
    "edu,addr=0x5",
    {"driver": "pcie-root-port", "id": "root8", "addr": "0x8", "chassis": 1},
    {"driver": "e1000e", "bus": "root8"},
)


def functions(machine: Machine) -> dict[str, dict]:
    listed = json.loads(machine.run("crosslane device list --json"))
    return {function["address"]: function for function in listed["functions"]}


def test_what_there_is_is_shown(start: Start) -> None:
    machine = start(*DEVICES)
    shown = functions(machine)
    edu, network = shown[EDU], shown[NETWORK]
    assert (edu["vendor"], edu["device"], edu["driver"]) == ("1234", "11e8", None)
    assert network["link"] == "Gen1 x1"
    # The endpoint and the port above it are in separate groups: the port isolates peers.
    assert len({edu["iommu_group"], network["iommu_group"]}) == 2
    told = machine.run(f"crosslane device info {NETWORK}")
    assert f"{PORT}" in told and "request redirect" in told
    # The kernel agrees.
    own = machine.run(f"cat /sys/bus/pci/devices/{NETWORK}/vendor").strip()
    assert own == f"0x{network['vendor']}"
    code, said = machine.attempt("crosslane device info 09:00.0")
    assert code == 1 and "there is no PCI function 0000:09:00.0" in said


def test_a_function_is_bound_and_given_back(start: Start) -> None:
    machine = start(*DEVICES)
    bound = machine.run(f"crosslane device bind {EDU}")
    assert f"{EDU} has vfio-pci now" in bound
    link = machine.run(f"readlink /sys/bus/pci/devices/{EDU}/driver").strip()
    assert link.endswith("/vfio-pci")
    group = functions(machine)[EDU]["iommu_group"]
    machine.run(f"test -c /dev/vfio/{group}")
    assert "as before" in machine.run(f"crosslane device bind {EDU}")
    machine.run(f"crosslane device unbind {EDU}")
    assert functions(machine)[EDU]["driver"] is None
    machine.run(f"test ! -e /dev/vfio/{group}")
    # A user without rights is told which one is missing, and nothing changes.
    code, said = machine.attempt(
        f"echo 'user:x:1000:1000::/:/bin/sh' >/etc/passwd; su user -c 'crosslane device bind {EDU}'"
    )
    assert code == 1 and "sudo" in said, said
    assert functions(machine)[EDU]["driver"] is None


def test_payloads_are_set_on_a_way(start: Start) -> None:
    machine = start(*DEVICES)
    machine.run(f"crosslane device set-mps --path {NETWORK} host 128")
    code, said = machine.attempt(f"crosslane device set-mps --path {NETWORK} host 256")
    assert code == 1 and "supports payloads up to 128 B" in said


def test_a_card_is_reloaded(start: Start) -> None:
    machine = start(*DEVICES)
    bind = f"crosslane device bind {NETWORK}"
    machine.run(bind)
    machine.run(f"crosslane device reload {NETWORK} --now")
    # It has its former driver, and the port above no longer tolerates errors.
    assert functions(machine)[NETWORK]["driver"] == "vfio-pci"
    machine.run(f"crosslane device unbind {NETWORK}")
