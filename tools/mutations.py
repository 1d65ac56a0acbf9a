#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Breaks driver, engine and fabric on purpose, and checks that the torture finds it.

`crates/torture/mutations/` lists mutations: a text in a file, what to put in its place, and a
seed that goes red with it. This makes a copy of the tree below the target folder, checks that every
named seed is green there, and then tries one mutation after the other: apply, build, run its seed,
take back. The result goes into the table of `docs/torture.md`.

  tools/mutations.py                        all of them; writes the table
  tools/mutations.py --only NAME ...        some of them; writes nothing
  tools/mutations.py --find NAME ... --seeds 0..500
                                            the first seed that goes red with each (all, for `all`;
                                            those without a seed, for `new`)
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "crates/torture/mutations"
TABLE = ROOT / "docs/torture.md"
BEGIN, END = "<!-- mutations -->", "<!-- /mutations -->"
# Files and folders that a build needs.
COPIED = ["Cargo.toml", "Cargo.lock", "crates", "examples", "labs", "registers"]
# Seconds after which a run with a mutation counts as hanging.
LONGEST_RUN_S = 120
LONGEST_SEARCH_S = 300
# Fast to rebuild, nearly as fast as a release; assertions stay on.
BUILD = {
    "CARGO_PROFILE_DEV_OPT_LEVEL": "2",
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_INCREMENTAL": "1",
}


class BrokenError(Exception):
    """A mutation that cannot be made, or a tree that does not build."""


def target() -> Path:
    """The folder of build output."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mutations"


def same(one: Path, other: Path) -> bool:
    """Whether two files have the same content."""
    return other.is_file() and one.read_bytes() == other.read_bytes()


def copy_tree(tree: Path) -> None:
    """Brings the copy up to date. Unchanged files keep their times, so they are not rebuilt."""
    wanted = set()
    for name in COPIED:
        for file in [ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"):
            place = tree / file.relative_to(ROOT)
            # Crates have links to folders of the tree.
            if file.is_symlink():
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.is_symlink():
                    place.symlink_to(file.readlink())
            elif file.is_file():
                wanted.add(file.relative_to(ROOT))
    for name in wanted:
        if not same(ROOT / name, tree / name):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    for file in [file for file in tree.rglob("*") if file.is_file()]:
        if file.relative_to(tree) not in wanted:
            file.unlink()


def build(tree: Path) -> Path:
    """Builds the program that runs seeds, and returns its path."""
    environment = {**os.environ, **BUILD, "CARGO_TARGET_DIR": str(target() / "build")}
    command = [os.environ.get("CARGO", "cargo"), "build", "--quiet", "--locked"]
    command += ["-p", "crosslane-torture", "--example", "mutant"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise BrokenError("does not build:\n" + done.stderr[-2000:])
    return target() / "build/debug/examples/mutant"


def run(program: Path, words: list[str], longest_s: float) -> list[tuple[int, str, str]]:
    """Runs seeds: number, checker and finding of each red one. -1 stands for an unknown seed."""
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=longest_s)
    except subprocess.TimeoutExpired:
        return [(-1, "no end", f"it is not over after {longest_s} s")]
    red = re.findall(r"^red (\d+) ([^:]+): (.*)$", done.stdout, re.MULTILINE)
    found = [(int(seed), check, what) for seed, check, what in red]
    if not done.stdout.endswith("end\n"):
        found.append((-1, "crash", (done.stderr.strip().splitlines() or ["no word"])[-1]))
    return found


def apply(mutation: dict, tree: Path) -> None:
    """Applies a mutation in the copy."""
    file = tree / mutation["file"]
    text = (ROOT / mutation["file"]).read_text()
    count = text.count(mutation["find"])
    if count != 1:
        raise BrokenError(f"its text is {count} times in {mutation['file']}, and not once")
    file.write_text(text.replace(mutation["find"], mutation["replace"]))


def take_back(mutation: dict, tree: Path) -> None:
    """Undoes it."""
    shutil.copyfile(ROOT / mutation["file"], tree / mutation["file"])


def words_of(mutation: dict) -> list[str]:
    """Arguments of the program besides seeds."""
    flags = [("--twice", "twice"), ("--tori", "tori")]
    return [flag for flag, key in flags if mutation.get(key)]


def attempt(mutation: dict, tree: Path, seeds: list[str], longest_s: float) -> list:
    """The red seeds with a mutation, among these seeds."""
    try:
        apply(mutation, tree)
        return run(build(tree), words_of(mutation) + seeds, longest_s)
    finally:
        take_back(mutation, tree)


def check_green(mutations: list[dict], tree: Path) -> None:
    """Checks that every named seed is green without mutations."""
    program = build(tree)
    for words in [[], ["--twice"], ["--tori"]]:
        of_kind = [m for m in mutations if "seed" in m and words_of(m) == words]
        if not of_kind:
            continue
        seeds = sorted({str(m["seed"]) for m in of_kind}, key=int)
        red = run(program, words + seeds, LONGEST_RUN_S)
        if red:
            lines = [f"  seed {seed}: {check}: {what}" for seed, check, what in red]
            raise BrokenError("red without any mutation:\n" + "\n".join(lines))


def find(mutations: list[dict], tree: Path, seeds: str) -> int:
    """Searches for the first red seed of each."""
    missing = 0
    for mutation in mutations:
        begun = time.monotonic()
        try:
            red = attempt(mutation, tree, ["--first", seeds], LONGEST_SEARCH_S)
        except BrokenError as why:
            red = [(-1, "broken", str(why))]
        spent = time.monotonic() - begun
        missing += not red
        first = sorted(red)[:1] or [(-1, "-", "no seed finds it")]
        seed, check, what = first[0]
        print(f"{mutation['name']}: seed {seed} by {check} ({spent:.0f} s): {what}", flush=True)
    return missing


def prove(mutations: list[dict], tree: Path) -> tuple[list[str], int]:
    """Runs the named seed of each mutation. Returns the table's rows, and the number missed."""
    rows, missed = [], 0
    for mutation in mutations:
        begun = time.monotonic()
        seed = mutation.get("seed")
        try:
            red = attempt(mutation, tree, [str(seed)], LONGEST_RUN_S) if seed is not None else []
        except BrokenError as why:
            print(f"{mutation['name']}: {why}", flush=True)
            missed += 1
            continue
        check, what = (red[0][1], red[0][2]) if red else ("-", "nothing")
        good = bool(red) and check == mutation.get("found_by", check)
        missed += not good
        verdict = "red" if good else "NOT AS THE LIST SAYS"
        spent = time.monotonic() - begun
        print(
            f"{mutation['name']}: seed {seed}: {verdict}: {check}: {what[:150]} ({spent:.0f} s)",
            flush=True,
        )
        proves = ", ".join(mutation["proves"])
        rows.append(f"| {proves} | {mutation['must']} | {mutation['what']} | {seed} | {check} |")
    return rows, missed


def write_table(rows: list[str]) -> None:
    """Writes the table between its two marks."""
    text = TABLE.read_text()
    head = "| fault or checker | what must happen | mutation that proves it | seed | found by |"
    table = "\n".join([head, "|---|---|---|---|---|", *sorted(rows)])
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    TABLE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def chosen(mutations: list[dict], names: list[str]) -> list[dict]:
    """The mutations with these names."""
    if names == ["new"]:
        return [mutation for mutation in mutations if "seed" not in mutation]
    known = {mutation["name"]: mutation for mutation in mutations}
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown:
        sys.exit(f"no mutation has the name {', '.join(unknown)}")
    return mutations if names == ["all"] else [known[name] for name in names]


def main() -> int:
    """See the module."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--find", nargs="+", metavar="NAME")
    parser.add_argument("--seeds", default="0..500", metavar="A..B")
    arguments = parser.parse_args()
    lists = [tomllib.loads(file.read_text()) for file in sorted(LISTS.glob("*.toml"))]
    mutations = [mutation for one in lists for mutation in one["mutation"]]
    # Those of a crate one after the other: the rest stays built.
    mutations.sort(key=lambda mutation: mutation["file"])
    tree = target() / "tree"
    copy_tree(tree)
    begun = time.monotonic()
    try:
        if arguments.find:
            return int(find(chosen(mutations, arguments.find), tree, arguments.seeds) > 0)
        some = chosen(mutations, arguments.only or ["all"])
        check_green(some, tree)
    except BrokenError as why:
        print(why, file=sys.stderr)
        return 1
    rows, missed = prove(some, tree)
    spent = time.monotonic() - begun
    print(f"{len(some)} mutations, {missed} not found as the list says, {spent:.0f} s")
    if not arguments.only and missed == 0:
        write_table(rows)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
