#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Installs each of `target/packages` into a clean root without a network, as its users do, and runs
there the commands of the five minutes. The root has Debian's essential packages and no others.

Packages for another machine (`CROSS`) run on an emulated processor, one program at a time: it
cannot start another, so the Debian package is unpacked and its scripts do not run. The wheel goes
into a folder, as pip does it for another machine, where the root's Python finds it.
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
from collections.abc import Callable
from functools import partial
from pathlib import Path

from build import (
    ARCHITECTURE,
    CROSS,
    MACHINE,
    PACKAGES,
    PROFILE,
    ROOT,
    TARGET,
    TOOLCHAIN,
    cache,
    emulated,
    run,
)
from debian import Apt, check_tools

# Beside what is essential: the package adds a user.
ROOT_PACKAGES = ("?essential", "passwd")
# A release of Debian with the newest Python that the wheel is tried with, 3.13. The oldest is that
# of the tools, or Debian 12's on an emulated processor: 3.11.
NEWEST = "trixie"
# The oldest C library that the wheel is made for, as pip calls it.
PLATFORM = f"manylinux_2_34_{MACHINE}"
# Raised when roots that are kept have to be made again.
FORMAT = 2
SEARCH = "/usr/bin:/usr/sbin:/bin:/sbin"
# The page whose commands every program runs, and the dump of a machine that it is about.
PAGE = ROOT / "docs/five-minutes.md"
DUMP = ROOT / "crates/twin/tests/dumps/server.txt"
# A command that the Python package makes, too.
FIRST = "bench traffic --lab rosta --flow fpga1:fpga2:write:64K"
# The same through the Python package.
MODULE = f"""import crosslane
print(crosslane.Lab.load("rosta").run({FIRST.rsplit(" ", 1)[1]!r}).text(), end="")"""
PIP = ("--no-index", "--quiet", "--disable-pip-version-check")
# Needs libfabric.
KEYS_OF_TCP = "tests/test_bridge.py::test_keys_and_rights_are_those_of_the_policy[tcp]"
EXAMPLE = "share/doc/crosslane/examples/c/first_transfer.c"
# Most bytes of the program on x86-64, by profile.
PROGRAM_BYTES = {"dist": 15_000_000, "release": 22_000_000}


class PackageError(Exception):
    """The reason why a package is not as it should be: one sentence."""


def clean(suite: str, *packages: str) -> Path:
    """A root with packages of a release of Debian, as dpkg sees it too, made now or earlier."""
    name = f"root-{cache.key(str(FORMAT), suite, ARCHITECTURE, *packages)[:10]}"
    return cache.made("packages", name, lambda into: make_root(into, suite, packages)) / "root"


def make_root(into: Path, suite: str, packages: tuple[str, ...]) -> None:
    """Makes such a root, in the folder `root`."""
    check_tools("apt-get", "dpkg-deb", "tar")
    root = into / "root"
    # The folders of Debian's `/usr`-merge, into which packages are unpacked.
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    status = ""
    with tempfile.TemporaryDirectory() as folder:
        apt = Apt(Path(folder), (suite,), ARCHITECTURE)
        apt.run("update")
        apt.run("-y", "--download-only", "install", *packages)
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

    def start(self, *command: str | Path, **environment: str) -> str:
        """Output of a command without a network, as root, in the root's folder, with that
        environment beside ours."""
        rights = [] if os.geteuid() == 0 else ["--map-root-user"]
        words = ["unshare", *rights, "--net", *command]
        said = {"PATH": SEARCH, "HOME": "/root", "LC_ALL": "C.UTF-8", **environment}
        done = subprocess.run(
            words, cwd=self.folder, env=said, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            text = (done.stderr or done.stdout).strip()
            shown = " ".join(str(word) for word in command)
            raise PackageError(f"{shown} ended with {done.returncode}: {text}")
        return done.stdout

    def run(self, program: str, *arguments: str, **environment: str) -> str:
        """Output of a program in the root, by its path there."""
        emulator = emulated(self.folder)
        if emulator:
            return self.start(*emulator, f"{self.folder}{program}", *arguments, **environment)
        return self.start("chroot", self.folder, program, *arguments, **environment)


def fail_unless(holds: bool, sentence: str) -> None:
    """An error with that sentence, unless it holds."""
    if not holds:
        raise PackageError(sentence)


def commands() -> list[str]:
    """The arguments of the commands of the page, and of `FIRST`."""
    text = PAGE.read_text().replace("\\\n", "")
    found = re.findall(r"^\$ crosslane ([^|\n]*)", text, re.MULTILINE)
    fail_unless(len(found) >= 4, f"{PAGE} has no more than {len(found)} commands")
    return [FIRST, *found]


def outputs(start: Callable[..., str], folder: Path) -> dict[str, str]:
    """What each command prints in a folder, which has the dump meanwhile."""
    dump, lab = folder / DUMP.name, (folder / DUMP.name).with_suffix(".toml")
    shutil.copy(DUMP, dump)
    printed = {command: start(*command.split()) for command in commands()}
    fail_unless(lab.exists(), f"{lab.name} was not written")
    dump.unlink()
    lab.unlink()
    return printed


def check_program(
    root: Root, expected: dict[str, str], program: str = "/usr/bin/crosslane"
) -> None:
    """Whether the program does in the root what it does here."""
    check_outputs(program, outputs(partial(root.run, program), root.folder), expected)


def check_outputs(program: str, got: dict[str, str], expected: dict[str, str]) -> None:
    """Whether a program has printed what is expected."""
    for command, printed in expected.items():
        words = f"{program} {command} prints in the root:\n{got[command]}\nnot\n{printed}"
        fail_unless(got[command] == printed, words)


def check_library(root: Root, prefix: str) -> None:
    """Whether the C program of the package is compiled with what pkg-config says, and runs in the
    root."""
    folder = next((root.folder / prefix).glob("lib/**/pkgconfig"))
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(folder)}
    if prefix == "usr":
        environment["PKG_CONFIG_SYSROOT_DIR"] = str(root.folder)
    options = ["pkg-config", "--cflags", "--libs", "crosslane"]
    flags = run(*options, env=environment).split()
    made = root.folder / "tmp" / "first_transfer"
    made.parent.mkdir(exist_ok=True)
    example = root.folder / prefix / EXAMPLE
    run(f"{TOOLCHAIN}gcc", "-std=c11", example, "-o", made, *flags)
    library = "/" + str(folder.parent.relative_to(root.folder))
    said = root.run("/tmp/first_transfer", LD_LIBRARY_PATH=library)
    fail_unless(re.search(r"\d", said) is not None, f"the C example says nothing: {said!r}")


def check_debian(root: Root, expected: dict[str, str]) -> None:
    """The Debian package: installed, used, and removed without a trace."""
    package = next(PACKAGES.glob("*.deb"))
    before = sorted(str(path) for path in root.folder.rglob("*"))
    if CROSS:
        dpkg = ("dpkg", f"--root={root.folder}")
        root.start(*dpkg, "--force-architecture", "--unpack", package)
    else:
        shutil.copy(package, root.folder / "package.deb")
        dpkg = ("chroot", root.folder, "dpkg")
        root.start(*dpkg, "--install", "/package.deb")
    verified = root.start(*dpkg, "--verify", "crosslane")
    fail_unless(verified == "", f"files differ from the package's: {verified}")
    check_program(root, expected)
    check_library(root, "usr")
    for path in (
        "lib/systemd/system/crosslane-bridge.service",
        "lib/udev/rules.d/70-crosslane-vfio.rules",
        "usr/share/man/man1/crosslane.1.gz",
        "usr/share/man/man3/crosslane_channel_post.3.gz",
        "usr/share/bash-completion/completions/crosslane",
        "usr/share/crosslane/lab/index.html",
        "usr/share/doc/crosslane/docs/bridge.md",
    ):
        fail_unless((root.folder / path).exists(), f"{package.name} has no {path}")
    if CROSS:
        return
    root.run("/usr/bin/getent", "passwd", "crosslane")
    root.start(*dpkg, "--purge", "crosslane")
    # The user stays: files may be its own. What dpkg, ldconfig and shells write is theirs.
    own = re.compile(r"/(dev|etc|var)/|/tmp|/package.deb")
    after = {str(path) for path in root.folder.rglob("*")} - set(before)
    left = [path for path in sorted(after) if not own.match(path[len(str(root.folder)) :])]
    fail_unless(not left, f"{package.name} leaves behind: {' '.join(left[:5])}")


def check_archive(root: Root, expected: dict[str, str]) -> None:
    """The archive, unpacked anywhere."""
    archive = next(PACKAGES.glob("*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(root.folder / "opt", filter="tar")
    folder = f"/opt/{archive.name.removesuffix('.tar.gz')}"
    check_program(root, expected, f"{folder}/bin/crosslane")
    check_library(root, folder[1:])


def check_image(folder: Path, expected: dict[str, str]) -> None:
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
    fail_unless(config["architecture"] == ARCHITECTURE, f"the image is for {config}")
    check_program(Root(folder / "root"), expected, config["config"]["Entrypoint"][0])


def the_wheel() -> Path:
    """The wheel, if its tags are right."""
    wheel = next(PACKAGES.glob("*.whl"))
    fail_unless(wheel.name.endswith(f"-abi3-{PLATFORM}.whl"), f"{wheel.name} has other tags")
    return wheel


def check_module(said: str, expected: str) -> None:
    """Whether what the Python program `MODULE` says is what the program says."""
    fail_unless(
        said.split() == expected.split(), f"the wheel's module says:\n{said}\nnot\n{expected}"
    )


def check_wheel(folder: Path, expected: dict[str, str]) -> None:
    """The wheel, in a new environment of Python: module and program."""
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/pip", "install", *PIP, the_wheel())
    fail_unless((folder / "share/crosslane/lab/index.html").exists(), "the wheel has no page")
    program = partial(run, folder / "bin/crosslane", cwd=folder)
    check_outputs("the wheel's program", outputs(program, folder), expected)
    check_module(run(folder / "bin/python", "-c", MODULE, cwd=folder), expected[FIRST])


def check_wheel_in_root(root: Root, expected: dict[str, str]) -> None:
    """The wheel, in a root with another Python or for another machine: module and program."""
    options = ["--platform", PLATFORM, "--only-binary=:all:", "--target", root.folder / "opt"]
    run(sys.executable, "-m", "pip", "install", *PIP, *options, the_wheel())
    check_program(root, expected, "/opt/bin/crosslane")
    said = root.run("/usr/bin/python3", "-B", "-c", MODULE, PYTHONPATH="/opt")
    check_module(said, expected[FIRST])


def check_python(root: Root, expected: dict[str, str]) -> None:
    """The tests of the Python package, with the wheel and the newest Python."""
    check_wheel_in_root(root, expected)
    (tests := root.folder / "opt/tree/crates/python").mkdir(parents=True)
    shutil.copytree(ROOT / "crates/python/tests", tests / "tests")
    for folder in ("examples/own_core", "docs/how-to"):
        shutil.copytree(ROOT / folder, root.folder / "opt/tree" / folder)
    shutil.copy(ROOT / "docs/languages.md", root.folder / "opt/tree/docs")
    version = root.run("/usr/bin/python3", "--version").split()[1].rpartition(".")[0]
    target = root.folder / "opt/tools"
    options = ["--python-version", version, "--only-binary=:all:", "--target", target]
    for oldest in ("2_28", "2_27", "2_17"):
        options += ["--platform", f"manylinux_{oldest}_{MACHINE}"]
    for pinned in ("crates/python", "gateware"):
        options += ["--constraint", ROOT / pinned / "requirements.txt"]
    run(sys.executable, "-m", "pip", "install", *PIP[1:], *options, "numpy", "pytest")
    # MPI, Dask, libfabric and OpenSSL's program are not there.
    left_out = ["--ignore=tests/test_examples.py", "--ignore=tests/test_certificates.py"]
    left_out += ["--deselect", KEYS_OF_TCP]
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", *left_out, "tests"]
    enter = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && ip link set lo up'
    inside = "cd /opt/tree/crates/python && exec python3 -B " + " ".join(command)
    said = root.start(
        *("--mount", "--pid", "--fork"),
        *("sh", "-c", f'{enter} && exec chroot "$0" sh -c "$1"', root.folder, inside),
        PYTHONPATH="/opt:/opt/tools",
        CROSSLANE_PROGRAM="/opt/bin/crosslane",
    )
    print(f"Python {version}: {said.splitlines()[-1]}")


def check_sums() -> None:
    """Whether each package has the checksum that is written beside it."""
    for line in (PACKAGES / "SHA256SUMS").read_text().splitlines():
        expected, name = line.split("  ")
        digest = hashlib.sha256((PACKAGES / name).read_bytes()).hexdigest()
        fail_unless(digest == expected, f"{name} has another checksum")


def check_size() -> None:
    """Whether the program of the archive has no more bytes than its profile may have."""
    with tarfile.open(next(PACKAGES.glob("*.tar.gz"))) as packed:
        size = next(one.size for one in packed if one.name.endswith("/bin/crosslane"))
    print(f"the program has {size / 1e6:.1f} MB")
    most = PROGRAM_BYTES[PROFILE]
    fail_unless(CROSS or size <= most, f"the program has {size} bytes, more than {most}")


def main() -> None:
    """Checks all of them."""
    check_sums()
    check_size()
    with tempfile.TemporaryDirectory() as folder:
        here = partial(run, (TARGET / PROFILE / "crosslane").resolve(), cwd=folder)
        expected = outputs(here, Path(folder))
    plain = clean("bookworm", *ROOT_PACKAGES)
    with_python = clean("bookworm" if CROSS else NEWEST, *ROOT_PACKAGES, "python3")
    with tempfile.TemporaryDirectory() as folder:
        last = check_wheel_in_root if CROSS else check_python
        checks = [(check_debian, plain), (check_archive, plain), (last, with_python)]
        for number, (check, root) in enumerate(checks):
            copy = Path(folder) / str(number)
            subprocess.run(["cp", "-a", root, copy], check=True)
            check(Root(copy), expected)
            print(f"{check.__doc__} ok")
        others = [check_image] if CROSS else [check_image, check_wheel]
        for check in others:
            check(Path(folder) / check.__name__, expected)
            print(f"{check.__doc__} ok")


if __name__ == "__main__":
    try:
        main()
    except (PackageError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
