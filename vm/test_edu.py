# SPDX-License-Identifier: Apache-2.0 OR MIT
"""QEMU's `edu` device, which somebody else wrote, through VFIO of a stock kernel."""

from collections.abc import Callable

from machine import Machine

EDU = "0000:00:05.0"


# What the error of the interface that a kernel does not have says, and what the program says of
# the one that it has.
NAMES = {"group": "group and container", "iommufd": "iommufd"}
MISSING = {"group": "CONFIG_VFIO_GROUP", "iommufd": "/dev/iommu"}


def test_it_is_driven(start: Callable[..., Machine], interface: str) -> None:
    machine = start("edu,addr=0x5")
    # Before it is bound the error says what to do.
    code, said = machine.attempt(f"edu {EDU}")
    assert code == 1 and f"crosslane device bind {EDU}" in said
    machine.run(f"crosslane device bind {EDU}")
    told = machine.run(f"edu {EDU}")
    assert f"opened by {NAMES[interface]}" in told
    assert "in pages of 4096 B" in told and told.rstrip().endswith("all is well"), told
    # The kernel's IOMMU saw the accesses that were not mapped.
    faults = machine.run("dmesg | grep DMAR")
    assert "DMA Write" in faults and "DMA Read" in faults
    # With huge pages it has fewer and larger ones.
    machine.run("echo 16 >/proc/sys/vm/nr_hugepages")
    assert "in pages of 2097152 B" in machine.run(f"edu {EDU}")
    # The same when it is asked for. No kernel here has both interfaces, and that is said.
    machine.run(f"edu {EDU} {interface}")
    (other,) = NAMES.keys() - {interface}
    code, said = machine.attempt(f"edu {EDU} {other}")
    assert code == 1 and MISSING[other] in said, said
