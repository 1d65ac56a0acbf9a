# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Levels of LUTs of small netlists, as yosys writes them."""

import json
from pathlib import Path

from netlist import Depths, Netlist

OUTPUTS = {"O", "Q", "CO", "DOA", "DOB"}


def cell(kind: str, **ports: int | list[int | str]) -> dict:
    """A cell of a type, with the bits of its ports."""
    wide = {port: bits if isinstance(bits, list) else [bits] for port, bits in ports.items()}
    ways = {port: "output" if port in OUTPUTS else "input" for port in ports}
    return {"type": kind, "connections": wide, "port_directions": ways}


def depths(
    tmp_path: Path,
    signals: dict[str, int],
    cells: dict[str, dict],
    half_rate: str | None = None,
    **ports: int,
) -> Depths:
    """The levels of a top module; `ports` are its outputs."""
    nets = {
        name: {"hide_name": 0, "bits": [bit], "attributes": {"src": f"rtl/some.sv:{bit}.3-9.4"}}
        for name, bit in signals.items()
    }
    top = {
        "attributes": {"top": "1"},
        "cells": cells,
        "netnames": nets,
        "ports": {name: {"direction": "output", "bits": [bit]} for name, bit in ports.items()},
    }
    file = tmp_path / "netlist.json"
    file.write_text(json.dumps({"modules": {"LUT2": {"attributes": {}}, "top": top}}))
    return Netlist(file).depths(half_rate)


def test_luts_between_registers_are_levels(tmp_path):
    """The longer of two ways counts, and the path is named with its lines."""
    found = depths(
        tmp_path,
        {"first": 3, "between": 11, "second": 4},
        {
            "a": cell("FDRE", C=2, D=13, Q=3),
            "b": cell("LUT2", I0=3, I1=3, O=10),
            "c": cell("LUT2", I0=10, I1=3, O=11),
            "d": cell("INV", I=11, O=12),
            "e": cell("FDRE", C=2, D=12, Q=4),
            "f": cell("LUT6", I0=4, O=13),
        },
    )
    assert found.levels == 2
    assert found.ends == {"2": ["second"], "1": ["first"]}
    lines = [(0, "first (some.sv:3)"), (2, "between (some.sv:11)"), (2, "second (some.sv:4)")]
    assert found.deepest == lines


def test_a_carry_chain_is_no_level_and_flows_upwards(tmp_path):
    """The lowest sum does not follow the inputs of the places above it."""
    found = depths(
        tmp_path,
        {"low": 3, "high": 4},
        {
            "a": cell("LUT2", I0=3, O=10),
            "b": cell("LUT2", I0=10, O=11),
            "chain": cell("CARRY4", CI=3, DI=[3, 3], S=[10, 11], O=[20, 21], CO=[22, 23]),
            "c": cell("FDRE", C=2, D=20, Q=3),
            "d": cell("FDRE", C=2, D=21, Q=4),
        },
    )
    assert found.ends == {"2": ["high"], "1": ["low"]}


def test_memory_read_at_once_is_a_level(tmp_path):
    """An output follows the address of its own word; data and the other addresses are written."""
    found = depths(
        tmp_path,
        {"address": 3, "data": 4, "shown": 20},
        {
            "a": cell("FDRE", C=2, D=4, Q=3),
            "b": cell("LUT1", I0=4, O=10),
            "c": cell("LUT1", I0=10, O=11),
            "words.0.0": cell("RAM32M", ADDRA=3, ADDRB=11, DIA=11, DOA=20, DOB=21, WCLK=2),
        },
        out=20,
    )
    assert found.ends == {"2": ["words"], "1": ["out"], "0": ["address"]}
    assert found.levels == 2


def test_levels_into_a_clock_half_as_fast_count_half(tmp_path):
    """Three before its register are two."""
    signals = {"clk": 2, "slow": 5, "first": 3, "second": 4}
    cells = {
        "a": cell("LUT2", I0=3, O=10),
        "b": cell("LUT2", I0=10, O=11),
        "c": cell("LUT2", I0=11, O=12),
        "d": cell("FDRE", C=2, D=10, Q=3),
        "e": cell("FDRE", C=6, D=12, Q=4),
        "buffer": cell("BUFG", I=5, O=6),
    }
    assert depths(tmp_path, signals, cells, "slow").ends == {"2": ["second"], "1": ["first"]}
    assert depths(tmp_path, signals, cells).ends == {"3": ["second"], "1": ["first"]}
