# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A kernel with iommufd, which none of Debian's has: built of Debian's source by `iommufd.config`.

It lies in the cache (`tools/cache.py`), with its configuration and what the build has said. What
the build needs beside a compiler comes from Debian's packages too, unpacked.
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
# What configures the kernel, and what `objtool` is linked with.
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
        """Runs the kernel's own makefile."""
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
        """Whether all that was asked for is on: what depends on something else may not be."""
        made = set((self.source / ".config").read_text().splitlines())
        asked = re.findall(r"^CONFIG_\w+=\w+$", CONFIG.read_text(), re.MULTILINE)
        missing = [option for option in asked if option not in made]
        if missing:
            raise VmError(f"the kernel cannot have {', '.join(missing)}")


def build(into: Path) -> None:
    """Fetches the source, configures and builds it, and keeps the kernel alone."""
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
    """The kernel as an ELF file, built if it is not there or `iommufd.config` is another."""
    check_tools("apt-get", "dpkg-deb", "bc", "gcc", "make", "perl", "tar", "xz")
    version = hashlib.sha256(CONFIG.read_bytes()).hexdigest()[:8]
    return made_once(f"kernel-{SOURCE}-{version}", build) / "vmlinux"
