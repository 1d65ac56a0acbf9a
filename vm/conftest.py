# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fixtures shared by the tests in virtual machines: the image with the programs under test."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab import Serve, ServedLab, root_port
from machine import PORTS, Image, Machine, Plug

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# The make targets build them first, with the tests of the workspace.
PROGRAMS = {
    "crosslane": TARGET / "debug" / "crosslane",
    "edu": TARGET / "debug" / "examples" / "edu",
}
# On an emulated processor it takes a fraction of the time.
RELEASED = TARGET / "release" / "crosslane"
# Devices of the shared machine: QEMU's `edu`, and empty root ports.
DEVICES = ("edu,addr=0x5", *(root_port(bus) for bus in range(1, PORTS + 1)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options for the machines' kernel and for the program."""
    parser.addoption("--released", action="store_true", help="the program of the release build")
    parser.addoption(
        "--iommufd",
        action="store_true",
        help="a kernel of our own, with iommufd and without groups and containers",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Chooses the program."""
    if config.getoption("--released"):
        PROGRAMS["crosslane"] = RELEASED


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


@pytest.fixture(scope="session")
def idle() -> Iterator[list[Machine]]:
    """The shared machine between two tests, if there is one."""
    machines: list[Machine] = []
    yield machines
    for machine in machines:
        machine.close()


@pytest.fixture
def machine(
    image: Image, tmp_path: Path, idle: list[Machine], request: pytest.FixtureRequest
) -> Iterator[Machine]:
    """The machine that tests share. It is cleared after each test, which undoes whatever else it
    has changed. A test that fails takes the machine with it, and the next starts another."""
    machine = idle.pop() if idle else Machine(image, tmp_path / "machine", DEVICES)
    failed = request.session.testsfailed
    yield machine
    try:
        if request.session.testsfailed == failed and machine.has_room():
            machine.clear()
            idle.append(machine)
    finally:
        if not idle:
            machine.close()


@pytest.fixture
def plug(machine: Machine, tmp_path: Path) -> Plug:
    """Plugs endpoints of a lab into the shared machine, a new lab each time."""

    def begin(lab: str, *endpoints: str) -> list[str]:
        folder = tmp_path / f"lab{len(machine.labs)}"
        return machine.plug(ServedLab(PROGRAMS["crosslane"], folder, lab, endpoints))

    return begin


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
