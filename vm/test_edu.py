# SPDX-License-Identifier: Apache-2.0 OR MIT
"""QEMU's `edu` device, an independent model, through VFIO of a stock kernel."""

from machine import Machine

EDU = "0000:00:05.0"


# Name of each interface in the program's output, and the text of the error for a kernel that lacks
# it.
NAMES = {"group": "group and container", "iommufd": "iommufd"}
MISSING = {"group": "CONFIG_VFIO_GROUP", "iommufd": "/dev/iommu"}


def test_it_is_driven(machine: Machine, interface: str) -> None:
    # Before it is bound the error names the command to run.
    code, said = machine.attempt(f"edu {EDU}")
    assert code == 1 and f"crosslane device bind {EDU}" in said
    machine.run(f"crosslane device bind {EDU}")
    told = machine.run(f"edu {EDU}")
    assert f"opened by {NAMES[interface]}" in told
    assert "in pages of 4096 B" in told and told.rstrip().endswith("all is well"), told
    # The kernel's IOMMU reported the unmapped accesses.
    faults = machine.run("dmesg | grep DMAR")
    assert "DMA Write" in faults and "DMA Read" in faults
    # With huge pages it has fewer and larger ones.
    machine.run("echo 16 >/proc/sys/vm/nr_hugepages")
    assert "in pages of 2097152 B" in machine.run(f"edu {EDU}")
    # The same with the interface named. No kernel here has both interfaces, and the error says so.
    machine.run(f"edu {EDU} {interface}")
    (other,) = NAMES.keys() - {interface}
    code, said = machine.attempt(f"edu {EDU} {other}")
    assert code == 1 and MISSING[other] in said, said
    machine.run(f"crosslane device unbind {EDU}; echo 0 >/proc/sys/vm/nr_hugepages")
