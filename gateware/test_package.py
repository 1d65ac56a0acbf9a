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
sys.path.insert(0, str(GATEWARE / "tb"))
from model import RTL, VERILATOR_ROOT, sources  # noqa: E402

CORE = yaml.safe_load((GATEWARE / "crosslane.core").read_text().removeprefix("CAPI=2:"))
TARGETS = [name for name in CORE["targets"] if name != "lint"]


def files(*filesets: str) -> list[Path]:
    """The files of filesets, in their order."""
    names = [name for fileset in filesets for name in CORE["filesets"][fileset]["files"]]
    return [GATEWARE / name for name in names]


def lint(folder: Path, *settings: str) -> subprocess.CompletedProcess:
    """Runs FuseSoC's lint target in a folder."""
    path = f"{VERILATOR_ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "VERILATOR_ROOT": str(VERILATOR_ROOT), "PATH": path}
    program = str(Path(sys.executable).parent / "fusesoc")
    command = [program, "--cores-root", str(GATEWARE), "run", "--work-root", str(folder / "work")]
    command += ["--target", "lint", CORE["name"], *settings]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_each_file_is_in_one_fileset():
    assert sorted(files(*CORE["filesets"])) == sorted(RTL.rglob("*.sv"))


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
    (top,) = RTL.rglob(f"{described['toplevel']}.sv")
    assert set(sources(top)) <= have


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
