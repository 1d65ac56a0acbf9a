# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`crosslane device` on the PCI tree of a real kernel."""

import json

import pytest
from lab import port_above
from machine import Machine

EDU = "0000:00:05.0"


@pytest.fixture
def network(machine: Machine) -> str:
    """The address of a network adapter below a root port."""
    return machine.plug_device({"driver": "e1000e"})


def functions(machine: Machine) -> dict[str, dict]:
    listed = json.loads(machine.run("crosslane device list --json"))
    return {function["address"]: function for function in listed["functions"]}


def test_what_there_is_is_shown(machine: Machine, network: str) -> None:
    shown = functions(machine)
    edu, adapter = shown[EDU], shown[network]
    assert (edu["vendor"], edu["device"], edu["driver"]) == ("1234", "11e8", None)
    assert adapter["link"] == "Gen1 x1"
    # The endpoint and the port above it are in separate groups: the port isolates peers.
    assert len({edu["iommu_group"], adapter["iommu_group"]}) == 2
    told = machine.run(f"crosslane device info {network}")
    assert port_above(network) in told and "request redirect" in told
    # The kernel agrees.
    own = machine.run(f"cat /sys/bus/pci/devices/{network}/vendor").strip()
    assert own == f"0x{adapter['vendor']}"
    code, said = machine.attempt("crosslane device info f9:00.0")
    assert code == 1 and "there is no PCI function 0000:f9:00.0" in said


def test_a_function_is_bound_and_given_back(machine: Machine) -> None:
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


def test_payloads_are_set_on_a_way(machine: Machine, network: str) -> None:
    machine.run(f"crosslane device set-mps --path {network} host 128")
    code, said = machine.attempt(f"crosslane device set-mps --path {network} host 256")
    assert code == 1 and "supports payloads up to 128 B" in said


def test_a_card_is_reloaded(machine: Machine, network: str) -> None:
    machine.run(f"crosslane device bind {network}")
    machine.run(f"crosslane device reload {network} --now")
    # It has its former driver, and the port above no longer tolerates errors.
    assert functions(machine)[network]["driver"] == "vfio-pci"
    machine.run(f"crosslane device unbind {network}")
