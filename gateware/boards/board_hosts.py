# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Hosts around the vendor's core of a board's top, by the core's family."""

import os

import boards


def family() -> str:
    """The family of the board that the test has been started for."""
    if os.environ["BOARD"] == boards.AWS_F2:
        return boards.AWS_F2
    return boards.FAMILIES[boards.board(os.environ["BOARD"]).core.name]


def host(dut):
    """A host for the board in simulation."""
    # Each bench reads the environment that its family has.
    if family() == "s7":
        from board_s7_bench import BoardHost
    elif family() == boards.AWS_F2:
        from board_f2_bench import BoardHost
    elif family() == "ptile":
        from board_ptile_bench import BoardHost
    else:
        from board_us_bench import BoardHost
    return BoardHost(dut)
