# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The bridge beside other programs: what is made of the measurements."""

import os

import bridge_speed
import pytest


def test_ratios_are_of_the_same_round():
    mib = 1 << 20
    # The machine is twice as busy in the second round: that changes no ratio.
    found = {
        "cp": [(mib, 0.1, 0.1, 0.0), (mib, 0.2, 0.1, 0.0), (mib, 0.1, 0.1, 0.0)],
        "put of a file, shm": [(mib, 0.2, 0.1, 0.3), (mib, 0.4, 0.1, 0.3), (mib, 0.2, 0.1, 0.3)],
        "put, tls sealed": [(mib, 1.0, None, 0.001)],
    }
    text = bridge_speed.tables(found, ["scp: it is not installed"])
    assert "| put of a file, shm / cp | 0.50 | 0.5 |" in text
    assert "| put of a file, shm | 5 | 102.40 | 307.20 |" in text
    assert "| put, tls sealed | 1 | - | 1.02 |" in text
    assert "| CPU s/GiB at the server, put, tls sealed | 1.02 | at most 1.2 |" in text
    assert text.endswith("\nNot measured: scp: it is not installed.\n")


def test_what_is_missing_is_named():
    with pytest.raises(bridge_speed.MissingError, match="no-such-program is not installed"):
        bridge_speed.find("no-such-program")
    with pytest.raises(bridge_speed.MissingError, match="false: "):
        bridge_speed.run(["false"])
    assert bridge_speed.processor_s(os.getpid()) >= 0
