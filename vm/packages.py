# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Parts of a virtual machine from Debian's packages: an emulator, a kernel, a shell.

All of them are unpacked in the cache (`tools/cache.py`) and nothing is installed, so no rights are
needed. The kernel, its modules and the shell are those of Debian 12; the emulator is that of a
newer release (vfio-user needs QEMU 10.1), which brings all of its libraries and its loader.
"""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import cache
from debian import Apt, DebianError, check_tools, unpack

CACHE = cache.folder("vm")
# Raised when the unpacked packages have to be fetched again.
VERSION = 1

# Suites that packages come from.
GUEST_SUITES = ("bookworm",)
EMULATOR_SUITES = ("trixie", "trixie-backports")
# A shell, and the packages needed to create and use a software RDMA device.
GUEST_PACKAGES = ("busybox-static", "iproute2", "ibverbs-providers", "libfabric1")


# The reason why a virtual machine cannot be made or run: one sentence.
VmError = DebianError


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
