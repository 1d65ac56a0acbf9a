# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every clock crossing of the gateware has its constraints, and they name what there is."""

import re
import sys
from pathlib import Path

import pytest

GATEWARE = Path(__file__).resolve().parent
sys.path[:0] = [str(GATEWARE / "tb"), str(GATEWARE / "boards")]
import boards  # noqa: E402
from board_model import STUBS  # noqa: E402
from model import RTL  # noqa: E402

FOLDER = GATEWARE / "constraints"
CONSTRAINED = {path.stem: path for path in FOLDER.glob("*.xdc")}
# The module in which levels of another clock settle; every crossing has one.
SYNCHRONIZER = "crosslane_synchronizer"
# Not for Vivado: boards with an ECP5, whose paths between clocks `boards/ecp5.py` looks at, and
# models of vendors' cells. Nor are benches of boards.
LEFT_OUT = {path.parent for path in GATEWARE.glob("boards/*/pins.lpf")} | {STUBS}
BENCHES = "_cables"
SOURCES = {
    path.stem: re.sub(r"//.*", "", path.read_text())
    for root in (RTL, GATEWARE / "boards", GATEWARE.parent / "examples")
    for path in root.rglob("*.sv")
    if path.parent not in LEFT_OUT and not path.stem.endswith(BENCHES)
}
MODULES = pytest.mark.parametrize("module", sorted(CONSTRAINED))


def users(module: str, sources: dict[str, str]) -> set[str]:
    """The modules that have an instance of a module."""
    pattern = re.compile(rf"^ *{module} +(?:#\(|\w+ \()", re.M)
    return {name for name, text in sources.items() if pattern.search(text)}


def unconstrained(sources: dict[str, str]) -> set[str]:
    """Modules with a crossing that no constraints are for: neither theirs, nor those of all modules
    that they are in."""
    found, seen = set(), set()
    to_look_at = users(SYNCHRONIZER, sources)
    while to_look_at:
        module = to_look_at.pop()
        if module in CONSTRAINED or module in seen:
            continue
        seen.add(module)
        above = users(module, sources)
        if not above:
            found.add(module)
        to_look_at |= above
    return found


def two_clocks(text: str) -> bool:
    """Whether registers of a module have different clocks."""
    return len(set(re.findall(r"@\(posedge (\w+)", text))) > 1


def test_every_crossing_has_constraints():
    assert users(SYNCHRONIZER, SOURCES)
    assert unconstrained(SOURCES) == set()


def test_a_crossing_without_constraints_is_found():
    wild = "module wild;\n  crosslane_synchronizer here (\n      .clk\n  );\nendmodule\n"
    assert unconstrained({**SOURCES, "wild": wild}) == {"wild"}


def test_registers_of_two_clocks_are_in_constrained_modules():
    assert {name for name, text in SOURCES.items() if two_clocks(text)} <= set(CONSTRAINED)


@MODULES
def test_constraints_name_registers_ports_and_instances(module):
    """A pattern that matches nothing would leave a crossing without them, with a warning only."""
    text = re.sub(r"^#.*", "", CONSTRAINED[module].read_text(), flags=re.M)
    cells = re.findall(r"get_cells (?:-quiet )?\{([^}]*)\}", text)
    assert cells
    for path in (path for group in cells for path in group.split()):
        *instances, register = path.split("/")
        inside = module
        for instance in instances:
            (inside,) = re.findall(
                rf"^ *(crosslane_\w+) +(?:#\([^;]*?\) +)?{instance} \(", SOURCES[inside], re.M
            )
        name = re.fullmatch(r"(\w+)_reg(?:\[.*\])?", register)[1]
        assert re.search(rf"\b{name} <= ", SOURCES[inside]), f"{inside} has no register {name}"
    for group in re.findall(r"get_ports (?:\{([^}]*)\}|(\w+))", text):
        for port in " ".join(group).split():
            assert re.search(rf"input +logic +{port}\b", SOURCES[module]), port


def test_a_project_gets_each_file_for_its_module():
    found = boards.commands(boards.VIVADO, str(FOLDER / "scoped.tcl"))
    scopes = {words[-1]: words[2] for words in found if words[1] == "SCOPED_TO_REF"}
    assert scopes == {f"get_files {name}.xdc": name for name in CONSTRAINED}
    orders = [words[2] for words in found if words[1] == "PROCESSING_ORDER"]
    assert orders == ["LATE"] * len(CONSTRAINED)
    crossings = [words for words in found if words[0] in ("set_max_delay", "set_bus_skew")]
    # A period in place of each last word: the dry run's clocks have one.
    assert crossings and all(float(words[-1]) > 0 for words in crossings)
