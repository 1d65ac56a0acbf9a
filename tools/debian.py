# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Debian's packages, fetched and unpacked without installing any: no rights are needed."""

import re
import shutil
import subprocess
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"


class DebianError(Exception):
    """The reason why packages cannot be had: one sentence."""


def mirror() -> str:
    """Address of Debian's archive that this machine's apt uses."""
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(COMPONENT)",
        "Codename: bookworm",
    ]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"^(\S+/debian)/? main$", listed, re.MULTILINE)
    return found.group(1) if found else MIRROR


class Apt:
    """Apt with separate lists and state, for some suites and an architecture: it sees nothing as
    installed."""

    def __init__(self, folder: Path, suites: tuple[str, ...], architecture: str = "amd64") -> None:
        self.folder = folder
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        lines = [f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n" for suite in suites]
        (folder / "sources.list").write_text("".join(lines))
        self.options = [
            *("-o", f"Dir::Etc::sourcelist={folder}/sources.list"),
            *("-o", "Dir::Etc::sourceparts=-", "-o", "Dir::Etc::preferencesparts=-"),
            *("-o", f"Dir::State::lists={folder}/lists"),
            *("-o", f"Dir::State::status={folder}/status"),
            *("-o", f"Dir::Cache={folder}/cache", "-o", "APT::Install-Recommends=false"),
            *("-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true"),
            *("-o", "Acquire::Retries=3", "-o", f"APT::Architecture={architecture}"),
        ]

    def run(self, *arguments: str, tool: str = "apt-get") -> str:
        """Output of an apt command."""
        command = [tool, "-q", *self.options, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise DebianError(f"{tool} {' '.join(arguments)} failed: {' '.join(lines[-3:])}")
        return done.stdout

    def download(self, into: Path, *names: str) -> list[Path]:
        """Downloads packages alone, without dependencies."""
        into.mkdir(exist_ok=True)
        command = ["apt-get", "-q", *self.options, "download", *names]
        done = subprocess.run(command, cwd=into, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DebianError(f"{', '.join(names)} cannot be had: {done.stderr.strip()}")
        return sorted(into.glob("*.deb"))

    def archives(self) -> list[Path]:
        """Packages that have been fetched."""
        return sorted((self.folder / "cache" / "archives").glob("*.deb"))


def unpack(archives: list[Path], into: Path) -> None:
    """Unpacks packages into one tree."""
    into.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        subprocess.run(["dpkg-deb", "-x", str(archive), str(into)], check=True)


def check_tools(*tools: str) -> None:
    """Checks that this machine has the required tools."""
    for tool in tools:
        if shutil.which(tool) is None:
            raise DebianError(f"{tool} is not there: Debian's packages are used")
    if not KEYRING.exists():
        raise DebianError(f"{KEYRING} is not there: install debian-archive-keyring")
