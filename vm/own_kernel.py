# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds a kernel with iommufd, which Debian's kernels lack, from Debian's source with
`iommufd.config`.

It is kept in the cache (`tools/cache.py`), with its configuration and the build's output. Build
tools other than the compiler come from Debian's packages, unpacked.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from packages import GUEST_SUITES, Apt, VmError, check_tools, made_once, unpack

CONFIG = Path(__file__).resolve().parent / "iommufd.config"
SOURCE, SOURCE_SUITES = "linux-source-6.12", ("trixie",)
# Tools that configure the kernel, and the libraries that `objtool` is linked with.
TOOLS = ("bison", "flex", "m4", "libelf-dev", "zlib1g-dev")
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class Build:
    """The source, and the programs that build it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "build.log"
        self.tools = folder / "tools"
        apt = Apt(folder / "apt-tools", GUEST_SUITES)
        apt.run("update")
        unpack(apt.download(folder / "tool-packages", *TOOLS), self.tools)
        apt = Apt(folder / "apt-source", SOURCE_SUITES)
        apt.run("update")
        unpack(apt.download(folder / "source-packages", SOURCE), folder)
        archive = folder / "usr" / "src" / f"{SOURCE}.tar.xz"
        subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
        self.source = folder / SOURCE

    def make(self, *arguments: str) -> None:
        """Runs the kernel's makefile."""
        tools = self.tools
        libraries = [str(tools / LIBRARIES / name) for name in ("libelf.a", "libz.a")]
        command = [
            *("make", "-s", *arguments),
            *(f"LIBELF_FLAGS=-I{tools}/usr/include", f"LIBELF_LIBS={' '.join(libraries)}"),
        ]
        environment = {
            **os.environ,
            "PATH": f"{tools}/usr/bin:{os.environ['PATH']}",
            "BISON_PKGDATADIR": str(tools / "usr/share/bison"),
            "M4": str(tools / "usr/bin/m4"),
        }
        with self.log.open("a") as log:
            done = subprocess.run(
                command, cwd=self.source, env=environment, stdout=log, stderr=log, check=False
            )
        if done.returncode != 0:
            lines = self.log.read_text(errors="replace").strip().splitlines()[-20:]
            raise VmError("the kernel cannot be built:\n" + "\n".join(lines))

    def check_config(self) -> None:
        """Checks that all requested options are on: an option may lack a dependency."""
        made = set((self.source / ".config").read_text().splitlines())
        asked = re.findall(r"^CONFIG_\w+=\w+$", CONFIG.read_text(), re.MULTILINE)
        missing = [option for option in asked if option not in made]
        if missing:
            raise VmError(f"the kernel cannot have {', '.join(missing)}")


def build(into: Path) -> None:
    """Fetches the source, configures and builds it, and keeps only the kernel."""
    into.mkdir(parents=True)
    work = Build(into)
    work.make(f"KCONFIG_ALLCONFIG={CONFIG}", "allnoconfig")
    work.check_config()
    work.make(f"-j{os.cpu_count() or 1}", "vmlinux")
    for name in ("vmlinux", ".config"):
        (work.source / name).rename(into / name.lstrip("."))
    for folder in (path for path in into.iterdir() if path.is_dir()):
        shutil.rmtree(folder)


def own_kernel() -> Path:
    """The kernel as an ELF file, built if it is missing or `iommufd.config` has changed."""
    check_tools("apt-get", "dpkg-deb", "bc", "gcc", "make", "perl", "tar", "xz")
    version = hashlib.sha256(CONFIG.read_bytes()).hexdigest()[:8]
    return made_once(f"kernel-{SOURCE}-{version}", build) / "vmlinux"
