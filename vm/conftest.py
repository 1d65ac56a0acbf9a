# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fixtures shared by the tests in virtual machines: the image with the programs under test."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab import Serve, ServedLab
from machine import Image, Machine, Start

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# `make check-vm` builds them first, with the tests of the workspace.
PROGRAMS = {
    "crosslane": TARGET / "debug" / "crosslane",
    "edu": TARGET / "debug" / "examples" / "edu",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for the machines' kernel."""
    parser.addoption(
        "--iommufd",
        action="store_true",
        help="a kernel of our own, with iommufd and without groups and containers",
    )


@pytest.fixture(scope="session")
def interface(pytestconfig: pytest.Config) -> str:
    """The kernel's interface through which cards are opened: `group` or `iommufd`."""
    return "iommufd" if pytestconfig.getoption("iommufd") else "group"


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, interface: str) -> Image:
    """Kernel and file system with the programs, stripped of debug information."""
    folder = tmp_path_factory.mktemp("image")
    programs = {}
    for name, path in PROGRAMS.items():
        programs[name] = folder / name
        subprocess.run(["strip", "-o", str(programs[name]), str(path)], check=True)
    return Image(folder, programs, iommufd=interface == "iommufd")


@pytest.fixture
def start(image: Image, tmp_path: Path) -> Iterator[Start]:
    """Starts a machine with these devices; it ends with the test."""
    machines: list[Machine] = []

    def begin(*devices: str | dict) -> Machine:
        machine = Machine(image, tmp_path / f"machine{len(machines)}", devices)
        machines.append(machine)
        return machine

    yield begin
    for machine in machines:
        machine.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves endpoints of a lab, a socket each; the server ends with the test."""
    served: list[ServedLab] = []

    def begin(lab: str, *endpoints: str) -> ServedLab:
        folder = tmp_path / f"lab{len(served)}"
        served.append(ServedLab(PROGRAMS["crosslane"], folder, lab, endpoints))
        return served[-1]

    yield begin
    for one in served:
        one.close()


@pytest.fixture
def start_with(start: Start, serve: Serve) -> Start:
    """Starts a machine with endpoints of a lab, each below a root port."""
    return lambda lab, *endpoints: start(*serve(lab, *endpoints).devices())
