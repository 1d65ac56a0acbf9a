#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Installs each of `target/packages` into a clean root without a network, as its users do, and does
there what the README's first minutes do. The root has Debian's essential packages and no others.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from build import ROOT, TARGET, cache, run
from debian import Apt, check_tools

PACKAGES = TARGET / "packages"
# Beside what is essential: the package adds a user.
ROOT_PACKAGES = ("?essential", "passwd")
# Raised when roots that are kept have to be made again.
FORMAT = 2
FIRST = "bench traffic --lab rosta --flow fpga1:fpga2:write:64K"
EXAMPLE = ROOT / "examples" / "c" / "first_transfer.c"


class PackageError(Exception):
    """The reason why a package is not as it should be: one sentence."""


def make_root(into: Path) -> None:
    """A root with Debian's essential packages, as dpkg sees it too, in the folder `root`."""
    check_tools("apt-get", "dpkg-deb", "tar")
    root = into / "root"
    # The folders of bookworm's `/usr`-merge, into which packages are unpacked.
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    status = ""
    with tempfile.TemporaryDirectory() as folder:
        apt = Apt(Path(folder), ("bookworm",))
        apt.run("update")
        apt.run("-y", "--download-only", "install", *ROOT_PACKAGES)
        for archive in apt.archives():
            content = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=-1)
            into = ["tar", "-x", "--keep-directory-symlink", "-C", root]
            subprocess.run(into, stdin=content.stdout, check=True)
            status += f"{run('dpkg-deb', '-f', archive).strip()}\nStatus: install ok installed\n\n"
    (root / "var/lib/dpkg/status").write_text(status)
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)


class Root:
    """A copy of a root, in which commands run without a network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *command: str, search: str = "/usr/bin:/usr/sbin") -> str:
        """Output of a command in the root."""
        rights = [] if os.geteuid() == 0 else ["--map-root-user"]
        words = ["unshare", *rights, "--net", "chroot", self.folder, *command]
        environment = {"PATH": f"{search}:/bin:/sbin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise PackageError(f"{' '.join(command)} ended with {done.returncode}: {said}")
        return done.stdout


def fail_unless(holds: bool, sentence: str) -> None:
    """An error with that sentence, unless it holds."""
    if not holds:
        raise PackageError(sentence)


def check_program(root: Root, expected: str, program: str = "crosslane", **options) -> None:
    """Whether the program does in the root what it does here."""
    got = root.run(program, *FIRST.split(), **options)
    fail_unless(got == expected, f"{program} {FIRST} prints in the root:\n{got}\nnot\n{expected}")


def check_library(root: Root, prefix: str) -> None:
    """Whether a C program is compiled with what pkg-config says, and runs in the root."""
    folder = next((root.folder / prefix).glob("lib/**/pkgconfig"))
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(folder)}
    if prefix == "usr":
        environment["PKG_CONFIG_SYSROOT_DIR"] = str(root.folder)
    options = ["pkg-config", "--cflags", "--libs", "crosslane"]
    flags = run(*options, env=environment).split()
    made = root.folder / "tmp" / "first_transfer"
    made.parent.mkdir(exist_ok=True)
    run("cc", "-std=c11", EXAMPLE, "-o", made, *flags)
    library = "/" + str(folder.parent.relative_to(root.folder))
    said = root.run("/usr/bin/env", f"LD_LIBRARY_PATH={library}", "/tmp/first_transfer")
    fail_unless(re.search(r"\d", said) is not None, f"the C example says nothing: {said!r}")


def check_debian(root: Root, expected: str) -> None:
    """The Debian package: installed, used, and removed without a trace."""
    package = next(PACKAGES.glob("*.deb"))
    before = sorted(str(path) for path in root.folder.rglob("*"))
    shutil.copy(package, root.folder / "package.deb")
    root.run("dpkg", "--install", "/package.deb")
    fail_unless(root.run("dpkg", "--verify", "crosslane") == "", "files differ from the package's")
    check_program(root, expected)
    check_library(root, "usr")
    for path in (
        "lib/systemd/system/crosslane-bridge.service",
        "lib/udev/rules.d/70-crosslane-vfio.rules",
        "usr/share/man/man1/crosslane.1.gz",
        "usr/share/bash-completion/completions/crosslane",
        "usr/share/crosslane/lab/index.html",
    ):
        fail_unless((root.folder / path).exists(), f"{package.name} has no {path}")
    root.run("getent", "passwd", "crosslane")
    root.run("dpkg", "--purge", "crosslane")
    # The user stays: files may be its own. What dpkg, ldconfig and shells write is theirs.
    own = re.compile(r"/(dev|etc|var)/|/tmp|/package.deb")
    after = {str(path) for path in root.folder.rglob("*")} - set(before)
    left = [path for path in sorted(after) if not own.match(path[len(str(root.folder)) :])]
    fail_unless(not left, f"{package.name} leaves behind: {' '.join(left[:5])}")


def check_archive(root: Root, expected: str) -> None:
    """The archive, unpacked anywhere."""
    archive = next(PACKAGES.glob("*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(root.folder / "opt", filter="tar")
    folder = f"/opt/{archive.name.removesuffix('.tar.gz')}"
    check_program(root, expected, search=f"{folder}/bin")
    check_library(root, folder[1:])


def check_image(folder: Path, expected: str) -> None:
    """The image: its layers, one over the other, are a root in which its entry point runs."""
    with tarfile.open(next(PACKAGES.glob("*.oci.tar"))) as packed:
        packed.extractall(folder / "image", filter="data")

    def blob(entry: dict) -> Path:
        path = folder / "image/blobs" / entry["digest"].replace(":", "/")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        fail_unless(entry["digest"].endswith(digest), f"{path.name} has the wrong content")
        return path

    index = json.loads((folder / "image/index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]).read_text())
    for entry in manifest["layers"]:
        with tarfile.open(blob(entry)) as packed:
            packed.extractall(folder / "root", filter="tar")
    config = json.loads(blob(manifest["config"]).read_text())
    check_program(Root(folder / "root"), expected, program=config["config"]["Entrypoint"][0])


def check_wheel(folder: Path, expected: str) -> None:
    """The wheel, in a new environment of Python: module and program."""
    run(sys.executable, "-m", "venv", folder)
    options = ["--no-index", "--quiet", "--disable-pip-version-check"]
    run(folder / "bin/pip", "install", *options, next(PACKAGES.glob("*.whl")))
    fail_unless((folder / "share/crosslane/lab/index.html").exists(), "the wheel has no page")
    got = run(folder / "bin/crosslane", *FIRST.split())
    fail_unless(got == expected, f"the wheel's program prints:\n{got}\nnot\n{expected}")
    flow = FIRST.rsplit(" ", 1)[1]
    program = f"import crosslane; print(crosslane.Lab.load('rosta').run({flow!r}).text(), end='')"
    got = run(folder / "bin/python", "-c", program, cwd=folder)
    fail_unless(
        got.split() == expected.split(), f"the wheel's module says:\n{got}\nnot\n{expected}"
    )


def check_sums() -> None:
    """Whether each package has the checksum that is written beside it."""
    for line in (PACKAGES / "SHA256SUMS").read_text().splitlines():
        expected, name = line.split("  ")
        digest = hashlib.sha256((PACKAGES / name).read_bytes()).hexdigest()
        fail_unless(digest == expected, f"{name} has another checksum")


def main() -> None:
    """Checks all of them."""
    expected = run(TARGET / "release" / "crosslane", *FIRST.split())
    check_sums()
    with tempfile.TemporaryDirectory() as folder:
        name = f"root-{cache.key(str(FORMAT), *ROOT_PACKAGES)[:10]}"
        clean = cache.made("packages", name, make_root) / "root"
        for number, check in enumerate((check_debian, check_archive)):
            copy = Path(folder) / str(number)
            subprocess.run(["cp", "-a", clean, copy], check=True)
            check(Root(copy), expected)
            print(f"{check.__doc__} ok")
        check_image(Path(folder) / "image", expected)
        print(f"{check_image.__doc__} ok")
        check_wheel(Path(folder) / "wheel", expected)
        print(f"{check_wheel.__doc__} ok")


if __name__ == "__main__":
    try:
        main()
    except (PackageError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
