# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Modules through yosys, once for the same files, and pages with the figures that come of it."""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

GATEWARE = Path(__file__).resolve().parent.parent
SYN = GATEWARE / "syn"
sys.path.insert(0, str(GATEWARE / "tb"))
import yosys  # noqa: E402
from model import RTL, cache, sources  # noqa: E402
from netlist import Depths, Netlist  # noqa: E402

SERIES_7, ULTRASCALE = "xc7", "xcup"
ALM = "cyclonev"  # Arria V and 10 have the same logic cell, with larger memories
FAMILIES = {SERIES_7: "7-series", ULTRASCALE: "UltraScale+", ALM: "Cyclone V"}
BOTH = (SERIES_7, ULTRASCALE)

WIDTHS = [64, 128, 256, 512]
# One channel each way, descriptors from rings, status blocks and interrupts.
RING = {"H2C": 1, "C2H": 1, "PEER": 0, "LANES": 0, "TABLE_ENTRIES": 0}

# `muxpack` turns chains of comparisons, as the generated registers have them, into multiplexers.
READ = (
    "read_slang --threads 1 -DSYNTHESIS --top {module} {settings} {files}; "
    "hierarchy -top {module}; proc; flatten; opt_expr; opt_clean; muxpack; "
)
# The instances of a module become one, which is synthesised by itself and counted as often.
ONCE = (
    "hierarchy -top {module}; chtype -set {once} t:{name}$*; hierarchy -top {module}; "
    "setattr -mod -set keep_hierarchy 1 {name}$*; "
)
THEN = "tee -o {cells} stat -json; write_json {netlist}"
XILINX = "synth_xilinx -family {family} -top {module} -flatten -noiopad; " + THEN
INTEL = "synth_intel_alm -family {family} -top {module} -noiopad; " + THEN
CELLS, NETLIST, DEPTHS = "cells.json", "netlist.json", "depths.json"


@dataclass(frozen=True)
class Configuration:
    """A module with parameters, and its description for a reader."""

    name: str
    module: str
    parameters: dict[str, int]
    # Module whose instances are equal, and the path of the first: it is synthesised once, and no
    # logic is shared or simplified across its border.
    once: tuple[str, str] | None = field(default=None, kw_only=True)
    # Time of a wire in ps that the mapper counts; none: its own, 300.
    wire_ps: int | None = field(default=None, kw_only=True)
    # A clock half as fast as the others.
    half_rate: str | None = field(default=None, kw_only=True)

    @property
    def sources(self) -> list[Path]:
        """The files that the module needs, itself last."""
        tops = (path for root in (RTL, SYN) for path in root.rglob(f"{self.module}.sv"))
        return sources(next(tops))

    def script(self, then: str, files: list[Path] | None = None) -> str:
        """Commands for yosys that read it (of these files, if given), and do what is asked for."""
        paths = (os.path.relpath(path, GATEWARE) for path in files or self.sources)
        settings = (f"-G {key}={value}" for key, value in self.parameters.items())
        read = READ.format(
            module=self.module,
            settings=" ".join(settings),
            files=" ".join(paths),
        )
        if self.once:
            name, path = self.once
            once = ONCE.format(module=self.module, name=name, once=f"{name}${self.module}.{path}")
            read = read.replace("read_slang ", "read_slang --keep-hierarchy ")
            read = read.replace(f"hierarchy -top {self.module}; ", once)
        wire = f"scratchpad -set synth_xilinx.abc9.W {self.wire_ps}; " if self.wire_ps else ""
        return read + wire + then.replace("{module}", self.module)


@dataclass(frozen=True)
class Mapped:
    """A module on a part: how many cells of each type, and its levels of LUTs if it is in one piece
    and on a Xilinx part."""

    cells: dict[str, int]
    depths: Depths | None


def mapped(configuration: Configuration, family: str, *, only_kept: bool = False) -> Mapped | None:
    """Runs yosys, or takes its remembered result for the same files (unless passes are ignored);
    none if it may not run and has not."""
    then = INTEL if family == ALM else XILINX
    script = configuration.script(then.replace("{family}", family))
    has_depths = family != ALM and not configuration.once

    def make(folder: Path) -> None:
        cells, netlist = folder / CELLS, folder / NETLIST
        yosys.run(
            script.replace("{cells}", str(cells)).replace("{netlist}", str(netlist)), GATEWARE
        )
        if has_depths:
            depths = Netlist(netlist).depths(configuration.half_rate)
            (folder / DEPTHS).write_text(json.dumps(asdict(depths)))
        netlist.unlink()

    half_rate = (configuration.half_rate,) if configuration.half_rate else ()
    mended = (str(yosys.MENDED),) if family == ULTRASCALE else ()
    netlist = (SYN / "netlist.py").read_text()
    parts = (script, netlist, *half_rate, *mended, *configuration.sources)
    label = f"{configuration.name}, {FAMILIES[family]}"
    folder = kept("area", configuration.module, label, parts, make, only_kept=only_kept)
    if folder is None:
        return None
    cells = json.loads((folder / CELLS).read_text())["design"]["num_cells_by_type"]
    depths = Depths(**json.loads((folder / DEPTHS).read_text())) if has_depths else None
    return Mapped(cells, depths)


def kept(
    kind: str,
    module: str,
    label: str,
    parts: tuple[str | Path, ...],
    make: Callable[[Path], None],
    *,
    only_kept: bool = False,
) -> Path | None:
    """The folder that `make` has filled, now or earlier, for the same `parts`; none if it may not
    run and has not. `label` is for the reader of the time that it takes."""
    name = f"{module}-{cache.key(yosys.VERSION, *parts)[:20]}"

    def timed(folder: Path) -> None:
        begun = time.monotonic()
        make(folder)
        print(f"{label}: {time.monotonic() - begun:.0f} s", file=sys.stderr)

    if only_kept:
        return cache.found(kind, name)
    return cache.made(kind, name, timed, again=cache.ignores_passes())


def filled(document: Path, parts: dict[str, str]) -> str:
    """The page with each part between its two marks."""
    page = document.read_text()
    for name, text in parts.items():
        marks = rf"(?s)(<!-- {name} -->).*(?=<!-- /{name} -->)"
        page, count = re.subn(marks, lambda begin, text=text: begin[1] + text, page)
        if count != 1:
            raise SystemExit(f"{document.name} has no part {name}")
    return page
