# SPDX-License-Identifier: Apache-2.0 OR MIT
"""FuseSoC's description of the gateware, crosslane.core: it is complete, and it lints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

GATEWARE = Path(__file__).resolve().parent
sys.path[:0] = [str(GATEWARE / "tb"), str(GATEWARE / "boards")]
import boards  # noqa: E402
from model import RTL, VERILATOR_ROOT, sources  # noqa: E402

CORE = yaml.safe_load((GATEWARE / "crosslane.core").read_text().removeprefix("CAPI=2:"))
TARGETS = [name for name in CORE["targets"] if name != "lint"]


def files(*filesets: str) -> list[Path]:
    """The SystemVerilog files of filesets, in their order."""
    names = [name for fileset in filesets for name in CORE["filesets"][fileset]["files"]]
    return [GATEWARE / name for name in names if isinstance(name, str)]


def fusesoc(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Runs FuseSoC on the core in a folder."""
    path = f"{VERILATOR_ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "VERILATOR_ROOT": str(VERILATOR_ROOT), "PATH": path}
    program = str(Path(sys.executable).parent / "fusesoc")
    command = [program, "--cores-root", str(GATEWARE), "run", "--work-root", str(folder / "work")]
    command += arguments
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def lint(folder: Path, *settings: str) -> subprocess.CompletedProcess:
    """Runs FuseSoC's lint target in a folder."""
    return fusesoc(folder, "--target", "lint", CORE["name"], *settings)


def test_each_file_is_in_one_fileset():
    ours = {
        path
        for name in boards.NAMES
        for folder in boards.folders(name)
        for path in folder.glob("*.sv")
    }
    assert sorted(files(*CORE["filesets"])) == sorted([*RTL.rglob("*.sv"), *ours])


def test_packages_come_before_what_names_them():
    seen = set()
    for path in files(*CORE["filesets"]):
        text = re.sub(r"//.*", "", path.read_text())
        named = {name for name in re.findall(r"\bcrosslane_\w+_pkg\b|\bcrosslane_pkg\b", text)}
        assert named - {path.stem} <= seen, path.name
        seen.add(path.stem)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_has_what_its_top_needs(target):
    described = CORE["targets"][target]
    have = set(files(*described["filesets"]))
    folders = boards.folders(target) if target in boards.NAMES else ()
    (top,) = (
        path for root in (RTL, *folders) for path in root.rglob(f"{described['toplevel']}.sv")
    )
    assert set(sources(top, *folders)) <= have


@pytest.mark.parametrize("name", boards.NAMES)
def test_a_board_is_a_project_for_the_vendors_tool(name, tmp_path):
    """With its part, its core and its pins, in the order in which they need each other."""
    done = fusesoc(tmp_path, "--setup", "--target", name, CORE["name"])
    assert done.returncode == 0, done.stdout + done.stderr
    project = CORE["name"].replace(":", "_")
    if boards.tool(name) is boards.QUARTUS:
        project = project.replace(".", "_")
    text = (tmp_path / "work" / f"{project}.tcl").read_text()
    core = boards.board(name).core.name
    places = [text.index(part) for part in (f"{name}/board.tcl", f"ip/{core}.tcl")]
    assert places == sorted(places)
    for constraints in boards.tool(name).constraints:
        assert f"boards/{name}/{constraints}" in text
    assert boards.board(name).part in text and f"crosslane_{name}" in text


def test_parameters_are_those_of_the_card():
    text = next(RTL.rglob("crosslane_card.sv")).read_text()
    found = dict(re.findall(r"parameter int unsigned (\w+) = (\d+)", text))
    described = {name: str(one["default"]) for name, one in CORE["parameters"].items()}
    assert described == found
    assert CORE["targets"]["card"]["parameters"] == list(found)
    assert CORE["targets"]["lint"]["parameters"] == list(found)


def test_lint_passes(tmp_path):
    done = lint(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_refuses_a_width_that_there_is_not(tmp_path):
    done = lint(tmp_path, "--DATA_BITS=96")
    assert done.returncode != 0
