#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Says which programs of a release no longer work with this tree: `compatible.py REVISION`.

It compares the C library's header with that revision's, as the dynamic linker and C see it: a
program must find each function with the same parameters, each constant with the same value, and
each member of a structure at the same place. And it compares the Python package's stubs, as a
caller sees them: each name must be there, and take the same arguments. What was added is no
difference. A new major version of the C library has another file name, and may break both; before
version 1 a new minor version may break Python's.
"""

import argparse
import ast
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parent.parent
C_HEADER = "crates/capi/include/crosslane.h"
PYTHON_PACKAGE = "crates/python/python/crosslane"
RESERVED = "reserved"


def c_differences(old: reference.Header, new: reference.Header) -> Iterator[str]:
    """One sentence for each declaration on which programs of the old header cannot rely."""
    for kind in ("functions", "constants"):
        later = {item.name: " ".join(item.code.split()) for item in getattr(new, kind)}
        for item in getattr(old, kind):
            code = " ".join(item.code.split())
            if item.name not in later:
                yield f"{item.name} is gone"
            elif later[item.name] != code:
                yield f"{item.name} was `{code}` and is `{later[item.name]}`"
    structures = {item.name: item for item in new.structures}
    for item in old.structures:
        if item.name not in structures:
            yield f"{item.name} is gone"
            continue
        there = [member[:2] for member in structures[item.name].members]
        for place, (of_type, name, _) in enumerate(item.members):
            # A reserved member may get a meaning: programs have left it 0, or ignored it.
            wanted = (of_type, there[place][1] if name == RESERVED and place < len(there) else name)
            if place >= len(there) or there[place] != wanted:
                yield f"{item.name}: `{of_type} {name}` is no longer member {place}"


def python_differences(old: Path, new: Path) -> Iterator[str]:
    """One sentence for each name that callers of the old package can no longer use as before."""
    later = callables(new)
    for name, item in callables(old).items():
        if name not in later:
            yield f"{name} is gone"
            continue
        other = later[name]
        if isinstance(item, ast.ClassDef) or isinstance(other, ast.ClassDef):
            if type(item) is not type(other):
                yield f"{name} is no longer the same kind of name"
            continue
        if reference.is_property(item) != reference.is_property(other):
            yield f"{name} is no longer the same kind of name"
            continue
        yield from argument_differences(name, item.args, other.args)


def callables(package: Path) -> dict[str, ast.ClassDef | reference.Function]:
    """The public names of the package and those of its classes, by dotted name."""
    found = reference.names_of(package).found
    public = {name: item for name, item in found.items() if name[0] != "_"}
    for name, item in list(public.items()):
        for it in item.body if isinstance(item, ast.ClassDef) else ():
            if isinstance(it, reference.Function) and (it.name[0] != "_" or it.name == "__new__"):
                public[f"{name}.{it.name}"] = it
    return public


def argument_differences(name: str, old: ast.arguments, new: ast.arguments) -> Iterator[str]:
    """One sentence for each argument of old calls that is not understood, or that they lack."""
    places = [it.arg for it in [*new.posonlyargs, *new.args]]
    by_name = {it.arg for it in [*new.args, *new.kwonlyargs]}
    for place, it in enumerate([*old.posonlyargs, *old.args]):
        if place >= len(places) and not new.vararg:
            yield f"{name} takes {it.arg} only by name, or not any more"
        elif it.arg in places and places[place] != it.arg:
            yield f"{name}: {it.arg} is at another place"
    for it in [*old.args, *old.kwonlyargs]:
        if it.arg not in by_name and (not new.kwarg or it.arg in places):
            yield f"{name} takes no argument {it.arg} by name any more"
    if old.vararg and not new.vararg:
        yield f"{name} takes no further arguments any more"
    lacking = required(new) - required(old) - {it.arg for it in old.posonlyargs}
    yield from (f"{name} needs the argument {it}" for it in sorted(lacking))


def required(arguments: ast.arguments) -> set[str]:
    """Names of the arguments that have no default; of one that has no name for callers its
    place."""
    unnamed = [f"number {place}" for place, _ in enumerate(arguments.posonlyargs)]
    places = [*unnamed, *(it.arg for it in arguments.args)]
    without = places[: len(places) - len(arguments.defaults)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {*without, *(it.arg for it, default in pairs if default is None)}


def of_revision(revision: str, path: str, into: Path) -> Path:
    """The files of a folder, or one file, as they were, below another folder."""
    archive = subprocess.run(
        ["git", "archive", revision, path], cwd=ROOT, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", into], input=archive.stdout, check=True)
    return into / path


def version_of(text: str) -> tuple[int, int]:
    """Major and minor version of the workspace."""
    version = tomllib.loads(text)["workspace"]["package"]["version"]
    major, minor = re.match(r"(\d+)\.(\d+)", version).groups()
    return int(major), int(minor)


def differences(revision: str, into: Path) -> list[str]:
    """What programs of a revision cannot rely on, and the versions do not say."""
    then = version_of(of_revision(revision, "Cargo.toml", into).read_text())
    now = version_of((ROOT / "Cargo.toml").read_text())
    found: list[str] = []
    if now[0] == then[0]:
        old = reference.header_of(of_revision(revision, C_HEADER, into).read_text())
        new = reference.header_of((ROOT / C_HEADER).read_text())
        found += [f"C: {words}" for words in c_differences(old, new)]
    if now == then or (now[0] == then[0] and now[0] > 0):
        package = of_revision(revision, PYTHON_PACKAGE, into)
        words = python_differences(package, ROOT / PYTHON_PACKAGE)
        found += [f"Python: {it}" for it in words]
    return found


def main() -> int:
    """Prints what has broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="the release, or any commit")
    revision = parser.parse_args().revision
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = differences(revision, Path(folder))
    except subprocess.CalledProcessError as error:
        words = (error.stderr or b"").decode().strip() or str(error)
        print(f"error: {revision} cannot be read: {words}", file=sys.stderr)
        return 2
    except reference.PageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for words in found:
        print(f"error: {words}", file=sys.stderr)
    if not found:
        print(f"C and Python: programs of {revision} work as before")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
