# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Errors that a port above a card reports (AER), counted and seen by the driver."""

import json

import pytest
from lab import port_above
from machine import Machine, Plug

# Seconds for steps that move data through an emulated processor.
LONG = 400


def counted(machine: Machine, card: str) -> dict[str, dict[str, int]]:
    """The counters of the port above the card, by kind."""
    told = json.loads(machine.run(f"crosslane device info {card} --json"))
    return next(one["errors"] for one in told["above"] if one["address"] == port_above(card))


def test_corrected_errors_are_counted_and_harm_nobody(machine: Machine, plug: Plug) -> None:
    [card] = plug("rosta:crosslane", "fpga1")
    port = port_above(card)
    assert counted(machine, card) == {"correctable": {}, "non_fatal": {}, "fatal": {}}
    for count in (1, 2):
        machine.inject(card, "BAD_TLP")
        total = f"grep -q 'BadTLP {count}' /sys/bus/pci/devices/{port}/aer_dev_correctable"
        machine.until(total)
        assert counted(machine, card)["correctable"] == {"BadTLP": count}
    assert "2 BadTLP (correctable)" in machine.run(f"crosslane device info {port}")
    # The doctor finds them on the card's path, and explains them.
    _, told = machine.attempt(f"crosslane device doctor {card}", LONG)
    assert f"errors of {port}" in told and "2 BadTLP (correctable)" in told, told
    # An error corrected by the link loses nothing: a program that has the card open continues.
    machine.run(f"crosslane device bind {card}")
    run = f"crosslane device test vfio:{card} --largest 4K"
    machine.run(f"({run} >/tmp/run 2>&1; echo ended $? >>/tmp/run) &")
    machine.until(f"grep -q 'vfio-msix.*{card}' /proc/interrupts")
    machine.inject(card, "BAD_TLP")
    machine.until("grep -q ended /tmp/run")
    assert "0 failed\nended 0" in machine.run("cat /tmp/run")
    assert counted(machine, card) == {"correctable": {"BadTLP": 3}, "non_fatal": {}, "fatal": {}}


@pytest.mark.parametrize(
    ("error", "kind", "name"),
    [("COMP_TIME", "non_fatal", "CmpltTO"), ("DLP", "fatal", "DLP")],
)
def test_a_transfer_ends_when_its_link_has_failed(
    machine: Machine, plug: Plug, error: str, kind: str, name: str
) -> None:
    [card] = plug("rosta:crosslane", "fpga1")
    machine.run(f"crosslane device bind {card}")
    # More data than can be moved before the error.
    run = f"crosslane bench write --device vfio:{card} --size 64K --iterations 400000"
    machine.run(f"({run} >/tmp/run 2>&1; echo ended $? >>/tmp/run) &")
    # The transfer has begun: the card has interrupts.
    machine.until(f"grep -q 'vfio-msix.*{card}' /proc/interrupts")
    machine.inject(card, error)
    machine.until("grep -q ended /tmp/run")
    told = machine.run("cat /tmp/run")
    # The kernel has told the driver, which ends with an error that names the card.
    assert "ended 1" in told and card in told and "(AER; see dmesg)" in told, told
    machine.until("dmesg | grep -q 'AER: device recovery'")
    assert "device recovery successful" in machine.run("dmesg | grep AER")
    assert counted(machine, card)[kind] == {name: 1}
    # After a fatal error the kernel resets everything below the port. The card works when reopened.
    machine.run(f"crosslane device test vfio:{card} --largest 4K", LONG)
