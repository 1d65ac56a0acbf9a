# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Errors that a port above a card reports (AER), counted and seen by the driver."""

import json

import pytest
from machine import Machine, Start

CARD, PORT = "0000:01:00.0", "0000:00:08.0"
# Name that `ServedLab` gives to the port above its first card.
PORT_OF_QEMU = "root0"
# Seconds for steps that move data through an emulated processor.
LONG = 400


def counted(machine: Machine) -> dict[str, dict[str, int]]:
    """The counters of the port above the card, by kind."""
    told = json.loads(machine.run(f"crosslane device info {CARD} --json"))
    return next(port["errors"] for port in told["above"] if port["address"] == PORT)


def test_corrected_errors_are_counted_and_harm_nobody(start_with: Start) -> None:
    machine = start_with("rosta:crosslane", "fpga1")
    assert counted(machine) == {"correctable": {}, "non_fatal": {}, "fatal": {}}
    for count in (1, 2):
        machine.inject(PORT_OF_QEMU, "BAD_TLP")
        total = f"grep -q 'BadTLP {count}' /sys/bus/pci/devices/{PORT}/aer_dev_correctable"
        machine.until(total)
        assert counted(machine)["correctable"] == {"BadTLP": count}
    assert "2 BadTLP (correctable)" in machine.run(f"crosslane device info {PORT}")
    # The doctor finds them on the card's path, and explains them.
    _, told = machine.attempt(f"crosslane device doctor {CARD}", LONG)
    assert f"errors of {PORT}" in told and "2 BadTLP (correctable)" in told, told
    # An error corrected by the link loses nothing: a program that has the card open continues.
    machine.run(f"crosslane device bind {CARD}")
    run = f"crosslane device test vfio:{CARD} --largest 4K"
    machine.run(f"({run} >/tmp/run 2>&1; echo ended $? >>/tmp/run) &")
    machine.until(f"grep -q 'vfio-msix.*{CARD}' /proc/interrupts")
    machine.inject(PORT_OF_QEMU, "BAD_TLP")
    machine.until("grep -q ended /tmp/run")
    assert "0 failed\nended 0" in machine.run("cat /tmp/run")
    assert counted(machine) == {"correctable": {"BadTLP": 3}, "non_fatal": {}, "fatal": {}}


@pytest.mark.parametrize(
    ("error", "kind", "name"),
    [("COMP_TIME", "non_fatal", "CmpltTO"), ("DLP", "fatal", "DLP")],
)
def test_a_transfer_ends_when_its_link_has_failed(
    start_with: Start, error: str, kind: str, name: str
) -> None:
    machine = start_with("rosta:crosslane", "fpga1")
    machine.run(f"crosslane device bind {CARD}")
    # More data than can be moved before the error, in pieces that a busy machine moves in time.
    run = f"crosslane bench write --device vfio:{CARD} --size 64K --iterations 400000"
    machine.run(f"({run} >/tmp/run 2>&1; echo ended $? >>/tmp/run) &")
    # The transfer has begun: the card has interrupts.
    machine.until(f"grep -q 'vfio-msix.*{CARD}' /proc/interrupts")
    machine.inject(PORT_OF_QEMU, error)
    machine.until("grep -q ended /tmp/run")
    told = machine.run("cat /tmp/run")
    # The kernel has told the driver, which ends with an error that names the card.
    assert "ended 1" in told and CARD in told and "(AER; see dmesg)" in told, told
    machine.until("dmesg | grep -q 'AER: device recovery'")
    assert "device recovery successful" in machine.run("dmesg | grep AER")
    assert counted(machine)[kind] == {name: 1}
    # After a fatal error the kernel resets everything below the port. The card works when reopened.
    machine.run(f"crosslane device test vfio:{CARD} --largest 4K", LONG)
