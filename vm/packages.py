# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Parts of a virtual machine from Debian's packages: an emulator, a kernel, a shell.

All of them are unpacked in the cache (`tools/cache.py`) and nothing is installed, so no rights are
needed. The kernel, its modules and the shell are those of Debian 12; the emulator is that of a
newer release (vfio-user needs QEMU 10.1), which brings all of its libraries and its loader.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import cache

CACHE = cache.folder("vm")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"
# Raised when the unpacked packages have to be fetched again.
VERSION = 1

# Suites that packages come from.
GUEST_SUITES = ("bookworm",)
EMULATOR_SUITES = ("trixie", "trixie-backports")
# A shell, and the packages needed to create and use a software RDMA device.
GUEST_PACKAGES = ("busybox-static", "iproute2", "ibverbs-providers", "libfabric1")


class VmError(Exception):
    """The reason why a virtual machine cannot be made or run: one sentence."""


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
    """Apt with separate lists and state, for some suites: it sees nothing as installed."""

    def __init__(self, folder: Path, suites: tuple[str, ...]) -> None:
        self.folder = folder
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        lines = [f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n" for suite in suites]
        (folder / "sources.list").write_text("".join(lines))
        self.options = [
            *("-o", f"Dir::Etc::sourcelist={folder}/sources.list"),
            *("-o", "Dir::Etc::sourceparts=-", "-o", "Dir::Etc::preferencesparts=-"),
            *(
                "-o",
                f"Dir::State::lists={folder}/lists",
                "-o",
                f"Dir::State::status={folder}/status",
            ),
            *("-o", f"Dir::Cache={folder}/cache", "-o", "APT::Install-Recommends=false"),
            *("-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true"),
            *("-o", "Acquire::Retries=3", "-o", "APT::Architecture=amd64"),
        ]

    def run(self, *arguments: str, tool: str = "apt-get") -> str:
        """Output of an apt command."""
        command = [tool, "-q", *self.options, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise VmError(f"{tool} {' '.join(arguments)} failed: {' '.join(lines[-3:])}")
        return done.stdout

    def download(self, into: Path, *names: str) -> list[Path]:
        """Downloads packages alone, without dependencies."""
        into.mkdir(exist_ok=True)
        command = ["apt-get", "-q", *self.options, "download", *names]
        done = subprocess.run(command, cwd=into, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise VmError(f"{', '.join(names)} cannot be had: {done.stderr.strip()}")
        return sorted(into.glob("*.deb"))

    def archives(self) -> list[Path]:
        """Packages that have been fetched."""
        return sorted((self.folder / "cache" / "archives").glob("*.deb"))


def unpack(archives: list[Path], into: Path) -> None:
    """Unpacks packages into one tree."""
    into.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        subprocess.run(["dpkg-deb", "-x", str(archive), str(into)], check=True)


def fetch_emulator(into: Path) -> None:
    """QEMU, its firmware and every library that it needs."""
    apt = Apt(CACHE / "apt-emulator", EMULATOR_SUITES)
    apt.run("update")
    suite = EMULATOR_SUITES[-1]
    apt.run("-y", "--download-only", "-t", suite, "install", "qemu-system-x86")
    unpack(apt.archives(), into)
    shutil.rmtree(apt.folder)


def fetch_guest(into: Path) -> None:
    """Kernel, modules and programs of the guest."""
    apt = Apt(CACHE / "apt-guest", GUEST_SUITES)
    apt.run("update")
    depends = apt.run("depends", "linux-image-amd64", tool="apt-cache")
    kernel = re.search(r"Depends: (linux-image-\S+)", depends)
    if kernel is None:
        raise VmError(f"linux-image-amd64 names no kernel: {depends.strip()}")
    # The kernel alone: its dependencies make an initramfs and a boot menu.
    kernels = apt.download(apt.folder / "kernel", kernel.group(1))
    apt.run("-y", "--download-only", "install", *GUEST_PACKAGES)
    unpack([*kernels, *apt.archives()], into)
    shutil.rmtree(apt.folder)


def check_tools(*tools: str) -> None:
    """Checks that this machine has the required tools."""
    for tool in tools:
        if shutil.which(tool) is None:
            raise VmError(f"{tool} is not there: the virtual machine is made of Debian's packages")
    if not KEYRING.exists():
        raise VmError(f"{KEYRING} is not there: install debian-archive-keyring")


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, made if it is missing."""
    folder = CACHE / name
    with cache.alone(CACHE / f"{name}.lock"):
        if not folder.exists():
            # Under another name until it is complete; an earlier process may have been interrupted.
            partial = CACHE / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            print(f"making the virtual machine's {name}", flush=True)
            make(partial)
            partial.rename(folder)
    return folder


def prepare() -> tuple[Path, Path]:
    """Folders of the emulator and of the guest, fetched if they are missing."""
    check_tools("apt-get", "dpkg-deb")
    packages = cache.key(str(VERSION), *EMULATOR_SUITES, *GUEST_SUITES, *GUEST_PACKAGES)[:10]
    return (
        made_once(f"emulator-{packages}", fetch_emulator),
        made_once(f"guest-{packages}", fetch_guest),
    )
