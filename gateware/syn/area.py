# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the area of engine and network processor on a chip: yosys `synth_xilinx` for each
configuration, as a table, and `synth_intel_alm` for some.

`area.py` writes docs/gateware-area.md (`--kept`: from remembered results only; rows without one are
named); `--check` synthesises the configurations that have a limit and fails if one is exceeded or
the page differs; `--only NAME` prints those whose name contains this text. One yosys at a time.

A LUT cell counts as one, without packing two into one site, as in the figures of the other engine.
LUTs used as memory or as shift registers are counted separately.
"""

import argparse
import sys
from dataclasses import dataclass

from synthesis import (
    ALM,
    BOTH,
    FAMILIES,
    GATEWARE,
    READ,
    RING,
    SERIES_7,
    ULTRASCALE,
    WIDTHS,
    XILINX,
    Configuration,
    filled,
    mapped,
    yosys,
)

DOCUMENT = GATEWARE.parent / "docs" / "gateware-area.md"

# LUTs that a cell of distributed memory or a shift register takes (UG474, UG574).
MEMORY_LUTS = {
    "RAM32X1S": 1,
    "RAM64X1S": 1,
    "RAM128X1S": 2,
    "RAM256X1S": 4,
    "RAM512X1S": 8,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM256X1D": 8,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32M16": 8,
    "RAM64M8": 8,
    "SRL16E": 1,
    "SRLC16E": 1,
    "SRLC32E": 1,
}


@dataclass(frozen=True)
class Measured(Configuration):
    """A configuration with the families that it is measured for."""

    families: tuple[str, ...]
    # Highest number of LUTs, including those used as memory, on 7-series.
    limit: int | None


RING_LIMITS = {256: 11_999}
NETWORK = "crosslane_network_card"
# As in the lab nget:crosslane.
CARD = {"PUT_SLOTS": 16, "STAGING_BYTES": 8192, "MAX_WRITE": 128, "QUEUE_DATAGRAMS": 16}
# The other engine's sums.
BARE_LIMITS = {64: 2_752, 256: 6_066}

CONFIGURATIONS = [
    Measured(
        f"{name}, {width} bit",
        module,
        {"DATA_BITS": width, **parameters},
        families,
        limits.get(width),
    )
    for name, module, widths, parameters, families, limits in [
        ("bare core", "crosslane_bare", BARE_LIMITS, {}, BOTH, BARE_LIMITS),
        ("bare core, 256 tags", "crosslane_bare", BARE_LIMITS, {"TAGS": 256}, BOTH, {}),
        ("bare core and C2H's ring", "bare_on_ring", BARE_LIMITS, {}, BOTH, {}),
        ("ring engine 1+1", "crosslane_engine", WIDTHS, RING, BOTH, RING_LIMITS),
        (
            "ring engine 1+1 with memory-mapped mode",
            "crosslane_engine",
            WIDTHS,
            {**RING, "MEMORY": 1},
            BOTH,
            {},
        ),
        (
            "ring engine 1+1 with memory-mapped mode and copies",
            "crosslane_engine",
            (64,),
            {**RING, "MEMORY": 1, "COPY": 1},
            (SERIES_7,),
            {},
        ),
        (
            "ring engine 1+1 with pushed descriptors",
            "crosslane_engine",
            (64,),
            {**RING, "PUSH": 1},
            (SERIES_7,),
            {},
        ),
        ("with peer, 8 lanes and tables", "crosslane_engine", WIDTHS, {}, BOTH, {}),
        ("shim to the 7-series block", "crosslane_shim_s7", (64, 128), {}, (SERIES_7,), {}),
        ("shim to the P-Tile", "crosslane_shim_ptile", (256, 512), {}, (SERIES_7,), {}),
        ("shim to Stratix 10", "crosslane_shim_s10", (256, 512), {}, (SERIES_7,), {}),
        (
            "shim to the Gen3 block of Virtex-7",
            "crosslane_shim_us",
            (256,),
            {"GEN3": 1, "RC_TLPS": 2},
            (SERIES_7,),
            {},
        ),
        ("shim to the UltraScale+ block", "crosslane_shim_us", WIDTHS, {}, (ULTRASCALE,), {}),
        (
            "network processor, one link",
            NETWORK,
            (256,),
            {"LINKS": 1, "NODES": 0, **CARD},
            (ULTRASCALE, ALM),
            {},
        ),
    ]
    for width in widths
]
CONFIGURATIONS.append(
    Measured(
        "shim to the shell of AWS F2, 512 bit",
        "crosslane_shim_f2",
        {},
        (ULTRASCALE,),
        None,
    )
)
# Its links are synthesised once.
CONFIGURATIONS += [
    Measured(
        f"network processor, {name}, a link by itself",
        NETWORK,
        {"DATA_BITS": 256, "LINKS": links, "NODES": nodes, **CARD},
        (SERIES_7, ULTRASCALE, ALM),
        None,
        once=("crosslane_network_link", "processor.g_link[0].network_link"),
    )
    for name, links, nodes in [
        ("one link", 1, 0),
        ("4 links, routing", 4, 64),
        ("6 links, routing", 6, 64),
    ]
]


@dataclass
class Area:
    """Cell counts of yosys."""

    logic_luts: int
    memory_luts: int
    flip_flops: int
    # Of 36 Kbit; one of 18 Kbit counts as a half.
    block_rams: float

    @property
    def luts(self) -> int:
        """Total number of LUTs."""
        return self.logic_luts + self.memory_luts

    def cells(self) -> str:
        """The counts as columns of a table."""
        counts = [self.luts, self.logic_luts, self.memory_luts, self.flip_flops]
        return " | ".join([*(f"{n:,}" for n in counts), f"{self.block_rams:g}"])


def counted(cells: dict[str, int]) -> Area:
    """Sums up the cells of a netlist."""

    def count(*prefixes: str) -> int:
        return sum(number for cell, number in cells.items() if cell.startswith(prefixes))

    blocks = count("RAMB36") + count("RAMB18") / 2
    memories = {
        cell: number
        for cell, number in cells.items()
        if cell.startswith(("RAM", "SRL", "URAM")) and not cell.startswith("RAMB")
    }
    # An unknown cell is an error: a KeyError names it.
    memory = sum(number * MEMORY_LUTS[cell] for cell, number in memories.items())
    logic = sum(cells.get(f"LUT{inputs}", 0) for inputs in range(1, 7))
    return Area(logic, memory, count("FD"), blocks)


def counted_alm(cells: dict[str, int]) -> str:
    """The same of a part with ALMs, as columns of its table."""
    luts = sum(number for cell, number in cells.items() if cell.startswith("MISTRAL_ALUT"))
    others = (cells.get(f"MISTRAL_{cell}", 0) for cell in ("MLAB", "FF", "M10K"))
    return " | ".join(f"{count:,}" for count in (luts, *others))


def row(configuration: Measured, area: Area) -> str:
    """A line of the table."""
    limit = f"{configuration.limit:,}" if configuration.limit else ""
    return f"| {configuration.name} | {area.cells()} | {limit} |"


def tables(configurations: list[Measured], *, only_kept: bool = False) -> str:
    """A table for each family."""
    lines = []
    missing: dict[str, list[str]] = {}
    for family, name in FAMILIES.items():
        lines += [f"### {name}", ""]
        if family == ALM:
            lines += ["| | ALUT | MLAB of 32 x 1 | FF | M10K |", "| --- |" + " ---: |" * 4]
        else:
            head = "| | LUT | as logic | as memory | FF | BRAM36 |"
            lines += [f"{head} LUT at most |", "| --- |" + " ---: |" * 6]
        for configuration in configurations:
            if family not in configuration.families:
                continue
            result = mapped(configuration, family, only_kept=only_kept)
            if result is None:
                missing.setdefault(configuration.name, []).append(name)
                continue
            if family == ALM:
                line = f"| {configuration.name} | {counted_alm(result.cells)} |"
            else:
                line = row(configuration, counted(result.cells))
            lines.append(line if family != ULTRASCALE else line.rsplit("|", 2)[0] + "| |")
            print(lines[-1], flush=True)
        lines.append("")
    if missing:
        left_out = [f"* {what}: {', '.join(why)}" for what, why in missing.items()]
        lines += ["Not measured:", "", *left_out]
        print("not measured:", *left_out, sep="\n", file=sys.stderr)
    return "\n".join(lines).rstrip() + "\n"


def document(*, only_kept: bool) -> str:
    """The whole page: its prose, with the figures and what they were made by."""
    command = (READ.replace("{settings} ", "-G ... ") + XILINX.rpartition("; ")[0]).format(
        module="TOP", files="FILES", family="FAMILY", cells="RESULT"
    )
    command = f'python tb/yosys.py "{command}"'.replace("; ", ";\n    ")
    parts = {
        "version": yosys.VERSION,
        "command": f"\n```\n{command}\n```\n",
        "figures": f"\n{tables(CONFIGURATIONS, only_kept=only_kept)}",
    }
    return filled(DOCUMENT, parts)


def check() -> bool:
    """Whether configurations with a limit keep to it, and agree with the page."""
    good = True
    text = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    for configuration in CONFIGURATIONS:
        if configuration.limit is None:
            continue
        area = counted(mapped(configuration, SERIES_7).cells)
        if area.luts > configuration.limit:
            print(f"{configuration.name}: {area.luts:,} LUT, at most {configuration.limit:,}")
            good = False
        line = row(configuration, area)
        if line not in text:
            print(f"not in {DOCUMENT.name} (make area): {line}")
            good = False
    return good


def main() -> int:
    """Prints, writes or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="print the rows whose name has this in it")
    parser.add_argument("--kept", action="store_true", help="run nothing")
    parser.add_argument("--check", action="store_true", help="see module")
    arguments = parser.parse_args()
    if arguments.check:
        return 0 if check() else 1
    if arguments.only:
        tables([c for c in CONFIGURATIONS if arguments.only in c.name])
    else:
        DOCUMENT.write_text(document(only_kept=arguments.kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
