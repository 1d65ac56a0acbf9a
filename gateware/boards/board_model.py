# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The top of a board as a simulation: with empty modules in place of the vendor's."""

import hashlib
import os
from pathlib import Path

import boards
from model import BUILD
from simulate import simulate
from vendor_core import module

STUBS = boards.FOLDER / "stubs"
# As the build's script would give it, to the top or to the core.
BUILD_ID = 0x0123456789ABCDEF
# Of a memory that is cleared before its first use: a real one takes a second.
CLEARED_BITS = 16


def beside(name: str) -> tuple[Path, ...]:
    """The folders with the modules of a board, and with those that replace the vendor's."""
    folder = BUILD / "boards" / name
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / "crosslane_pcie.sv", module(boards.board(name))
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return (*boards.folders(name), STUBS, folder)


def simulate_board(test_file: str, name: str) -> None:
    """Runs the cocotb tests of a file on the top of a board. The environment has its name, and a
    hash of what the tests read beside Python and SystemVerilog: scripts, and the program."""
    digest = hashlib.sha256()
    for path in sorted(boards.FOLDER.glob("**/*")):
        if path.suffix not in (".tcl", ".xdc", ".sdc"):
            continue
        digest.update(path.read_bytes())
    # Benches of the UltraScale+ shim read their settings there.
    engine = boards.parameters(name)
    environment = {"BOARD": name}
    environment |= {key: str(engine[key]) for key in ("DATA_BITS", "RC_TLPS") if key in engine}
    environment["GEN3"] = str(int(boards.board(name).core.name == "pcie3_7x"))
    environment["BUILD_ID_DIGITS"] = f"{BUILD_ID:0{boards.IDENTITY_DIGITS}x}"
    if program := os.environ.get("CROSSLANE_PROGRAM"):
        digest.update(Path(program).read_bytes())
    environment["BOARDS_HASH"] = digest.hexdigest()
    top = f"crosslane_{name}"
    text = (boards.FOLDER / name / f"{top}.sv").read_text()
    parameters = {"BUILD_ID": f"64'h{BUILD_ID:016x}"} if "BUILD_ID" in text else {}
    if "CLEARED_BITS" in text:
        parameters["CLEARED_BITS"] = CLEARED_BITS
    simulate(test_file, top, parameters, environment=environment, beside=beside(name))
