#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a test program for cargo, unless the same program has passed before.

Cargo calls it (`CARGO_TARGET_..._RUNNER`) with the program and its arguments, in the folder of the
program's crate. A pass is remembered (`cache.py`) by the hash of the program, which holds all code,
of its arguments, of the files that it may read, and of what it finds on the machine. A failure is
never remembered. `CROSSLANE_IGNORE_PASSES=1` runs everything. A program that is WebAssembly runs
under Node.
"""

import ctypes.util
import os
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cache

# Crates whose tests read sources of other crates: rules of the tree, texts of mutations.
READ_ALL = {"cli", "torture"}
# A crate whose sources name one of these may read files outside its folder.
READ_OUTSIDE = re.compile(r"CARGO_MANIFEST_DIR|\.\./\.\.")
# A crate whose sources name one of these starts programs that cargo has built beside the tests.
STARTS_PROGRAMS = re.compile(r'CARGO_BIN_EXE|"examples"')
# A crate whose sources name this links programs with an archive that cargo has built beside the
# tests.
ARCHIVE = "libcrosslane_capi-"
# Variables of the environment that tests look at, by the beginning of their names.
VARIABLES = ("BOLERO_", "CROSSLANE_", "INSTA_", "PROPTEST_", "RUST_")
OF_THE_CACHE = ("CROSSLANE_CACHE", "CROSSLANE_IGNORE_PASSES")
# Runs a program that is WebAssembly.
UNDER_NODE = Path("crates/web/page/tools/tests.ts")
# Time for the output of a program that has ended, seconds: a process that it has left behind would
# hold it open for ever.
OUTPUT_SECONDS = 10
RESULT = re.compile(r"^test result: ok\. (\d+) passed; 0 failed", re.M)


def tracked(root: Path) -> list[Path]:
    """The files that git knows below a folder, as they are in the working tree."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    paths = (root / name for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if path.is_file()]


def built_beside(program: Path) -> list[Path]:
    """Programs and examples of the same build, without those whose names end in a hash."""
    profile = program.parent.parent
    found = [*profile.glob("*"), *(profile / "examples").glob("*")]
    is_named = re.compile(r"[a-z_]+").fullmatch
    return sorted(path for path in found if path.is_file() and is_named(path.name))


def read_by(program: Path, crate: Path, root: Path) -> list[Path]:
    """The files that a test program of a crate may read, or start, when it runs."""
    own = tracked(crate)
    sources = "\n".join(path.read_text() for path in own if path.suffix == ".rs")
    files = built_beside(program) if STARTS_PROGRAMS.search(sources) else []
    if ARCHIVE in sources:
        files += sorted(program.parent.glob(f"{ARCHIVE}*.a"))
    if crate.name in READ_ALL:
        return files + tracked(root)
    files += [path for path in own if path.suffix != ".rs"]
    if READ_OUTSIDE.search(sources):
        crates = root / "crates"
        files += [path for path in tracked(root) if crates not in path.parents]
    return files


def machine() -> Iterable[str]:
    """What programs find here: kernel, C library, network library, variables."""
    yield platform.platform()
    yield ctypes.util.find_library("fabric") or "no libfabric"
    for name, value in sorted(os.environ.items()):
        if name.startswith(VARIABLES) and name not in OF_THE_CACHE:
            yield f"{name}={value}"


def key(program: Path, arguments: list[str], crate: Path, root: Path) -> str:
    """The hash of everything that a run of a test program depends on."""
    files = read_by(program, crate, root)
    if program.suffix == ".wasm":
        files.append(root / UNDER_NODE)
    names = [os.path.relpath(path, root) for path in files]
    return cache.key(Path(__file__), program, *arguments, *machine(), *names, *files)


def command(program: Path, root: Path) -> list[str | Path]:
    """The command that starts a test program."""
    if program.suffix != ".wasm":
        return [program]
    # Its wheel is there where such programs are built, not for every Python.
    from web import NODE

    return [NODE, "--no-warnings", root / UNDER_NODE, root, program]


def run(program: Path, arguments: list[str], crate: Path, root: Path) -> int:
    """Runs a test program, or says how many of its tests have passed before; its exit status."""
    name = f"{crate.name} {program.name.rsplit('-', 1)[0]} {' '.join(arguments)}".strip()
    known = key(program, arguments, crate, root)
    if cache.remembered(known):
        passed = (cache.folder("passes") / known).read_text().splitlines()[1].split()[0]
        print(f"test result: ok. {passed} passed; 0 failed; remembered: nothing has changed")
        return 0
    process = subprocess.Popen([*command(program, root), *arguments], stdout=subprocess.PIPE)
    shown = bytearray()

    def show() -> None:
        for line in process.stdout:
            shown.extend(line)
            sys.stdout.buffer.write(line)
            sys.stdout.flush()

    showing = threading.Thread(target=show, daemon=True)
    showing.start()
    status = process.wait()
    showing.join(OUTPUT_SECONDS)
    if showing.is_alive():
        print(f"{name}: a process that it has started still runs", flush=True)
        return status or 1
    result = RESULT.search(shown.decode(errors="replace"))
    if status == 0 and result:
        cache.remember(known, f"{result[1]} tests: {name}")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parent.parent
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:], Path.cwd(), ROOT))
