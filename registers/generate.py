# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the files generated from the register maps, or compares them with those in the tree.

`generate.py` writes into the tree around it; with `--check` it writes nothing, names each file that
differs, and fails if there is one. The compiler refuses maps whose
registers or fields overlap.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from peakrdl_cheader.c_standards import CStandard
from peakrdl_cheader.exporter import CHeaderExporter
from register_blocks import Block
from register_pages import page
from rust_constants import MapError, header, map_as_rust
from systemrdl import RDLCompileError, RDLCompiler
from systemrdl.node import AddrmapNode

# Maps written as Rust, and the files that describe them.
RUST_MAPS = {
    "engine": "engine.rdl",
    "memory_card": "memory_card.rdl",
    "table_descriptor": "descriptors.rdl",
    "ring_descriptor": "descriptors.rdl",
    "push_line": "descriptors.rdl",
    "status_block": "descriptors.rdl",
    "network_processor": "network_processor.rdl",
    "network_request": "descriptors.rdl",
    "network_notification": "descriptors.rdl",
    "put_control": "descriptors.rdl",
}
# Maps written as C: the file, and whether to write its parts instead of the whole.
C_MAPS = {
    "engine": ("engine.rdl", False),
    "descriptors": ("descriptors.rdl", True),
    "memory_card": ("memory_card.rdl", False),
    "network_processor": ("network_processor.rdl", False),
}
# Register blocks of the gateware: the file, the map, and the map's parameters; None: the block has
# the parameter too.
BLOCKS = {
    "crosslane_global_block": ("engine.rdl", "engine", {"HAS_USER": False, "HAS_REST": False}),
    "crosslane_user_block": ("engine.rdl", "engine", {"HAS_GLOBAL": False, "HAS_REST": False}),
    "crosslane_channel_block": (
        "blocks.rdl",
        "crosslane_channel_block",
        {"IS_PEER": None, "IS_BARE": None, "HAS_PACKETS": None, "HAS_PUSH": None},
    ),
    "crosslane_lane_block": ("blocks.rdl", "crosslane_lane_block", {}),
}
# Lines that go without saying: resets to 0, masks of fields that are whole registers, and what is
# left of such registers.
RESET_TO_0 = re.compile(r"#define \w+_reset 0x0\n")
WHOLE_REGISTER = re.compile(r"(#define \w+)_bm 0xffffffff\n\1_bp 0\n\1_bw 32\n")
WITHOUT_FIELDS = re.compile(r"// reg - .*\n\n")
RUST_FOLDER = "crates/regs/src"
# The only file there that is written by hand: the types of the constants, and a list of the maps.
RUST_TYPES = "crates/regs/src/lib.rs"
C_FOLDER = "registers/generated"
BLOCK_FOLDER = "gateware/rtl/generated"
PAGE = "docs/registers.md"


def elaborate(
    sources: Path, file: str, name: str, parameters: dict[str, bool] | None = None
) -> AddrmapNode:
    """The map `name` of a file of the folder `sources`."""
    compiler = RDLCompiler()
    compiler.compile_file(str(sources / file))
    return compiler.elaborate(top_def_name=name, parameters=parameters).top


def map_as_c(top: AddrmapNode, source: str, parts: bool) -> str:
    """The C header of one map, or of the maps in it where `parts` is set."""
    with tempfile.TemporaryDirectory() as folder:
        # The include guard is made from this name.
        path = Path(folder) / f"crosslane_{top.inst_name}.h"
        CHeaderExporter().export(
            top,
            path=str(path),
            std=CStandard.gnu99,
            generate_bitfields=False,
            bitfield_order_ltoh=False,
            reuse_typedefs=True,
            wide_reg_subword_size=32,
            explode_top=parts,
            instantiate=False,
            inst_offset=0,
            testcase=False,
        )
        lines = path.read_text(encoding="utf-8").splitlines()
    body = "\n".join(line.rstrip() for line in lines)
    for unsaid in (RESET_TO_0, WHOLE_REGISTER, WITHOUT_FIELDS):
        body = unsaid.sub("", body)
    return "\n".join([*header(source), body, ""])


def generate(sources: Path) -> dict[str, str]:
    """All generated files: path from the tree's root, and text."""
    files = {}
    tops = []
    for name, file in RUST_MAPS.items():
        top = elaborate(sources, file, name)
        tops.append((top, f"registers/{file}"))
        is_layout = file == "descriptors.rdl"
        files[f"{RUST_FOLDER}/{name}.rs"] = map_as_rust(top, f"registers/{file}", is_layout)
    files[PAGE] = page(tops)
    for name, (file, parts) in C_MAPS.items():
        top = elaborate(sources, file, name)
        files[f"{C_FOLDER}/{name}.h"] = map_as_c(top, f"registers/{file}", parts)
    for name, (file, map_name, parameters) in BLOCKS.items():
        given = {key: value for key, value in parameters.items() if value is not None}
        top = elaborate(sources, file, map_name, given)
        variants = {
            option: elaborate(sources, file, map_name, {**given, option: True})
            for option in parameters
            if option not in given
        }
        block = Block(top, variants, name, f"registers/{file}")
        files[f"{BLOCK_FOLDER}/{name}.sv"] = block.module()
        files[f"{BLOCK_FOLDER}/{name}_pkg.sv"] = block.package()
    return files


def on_disk(tree: Path) -> set[str]:
    """Generated files in the tree's folders."""
    found = {
        str(path.relative_to(tree))
        for folder in (RUST_FOLDER, C_FOLDER, BLOCK_FOLDER)
        for path in (tree / folder).rglob("*")
        if path.is_file()
    }
    return found - {RUST_TYPES}


def differences(tree: Path, files: dict[str, str]) -> list[str]:
    """One sentence for each file of `tree` that differs from `files`."""
    found = []
    for path in sorted(files.keys() | on_disk(tree)):
        target = tree / path
        if path not in files:
            found.append(f"{path}: nothing generates it")
        elif not target.exists():
            found.append(f"{path}: is missing")
        elif target.read_text(encoding="utf-8") != files[path]:
            found.append(f"{path}: is not what registers/ says")
    return found


def write(tree: Path, files: dict[str, str]) -> None:
    """Writes `files` into `tree`, and removes other files from their folders."""
    for path in on_disk(tree) - files.keys():
        (tree / path).unlink()
    for path, text in files.items():
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def main(tree: Path, arguments: list[str]) -> int:
    """Runs the command on a tree; returns 1 if a map is wrong or the tree differs from the maps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args(arguments)
    try:
        files = generate(tree / "registers")
    except (RDLCompileError, MapError) as error:
        print(f"error: the register maps cannot be used: {error}", file=sys.stderr)
        return 1
    if not options.check:
        write(tree, files)
        return 0
    found = differences(tree, files)
    if found:
        print("\n".join(found), file=sys.stderr)
        print("error: run `make registers` and commit what it writes", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent, sys.argv[1:]))
