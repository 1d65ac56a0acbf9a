# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the lines and bits of the gateware that its tests reach: writes
docs/gateware-coverage.md for the engine and docs/gateware-coverage-links.md for torus links and
network processors (`--part`).

Runs the tests of `tb/` at one width, each in a separate process, with Verilator's line and toggle
coverage, and adds up the counts. `--resume` reuses the data that an earlier run has left in
`build/coverage/`; `--only TEXT` runs the tests whose name contains this text, and prints instead of
writing. `coverage_reasons.toml` says why something is not reached.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

GATEWARE = Path(__file__).resolve().parent
ROOT = GATEWARE.parent
RTL = GATEWARE / "rtl"
BUILD = GATEWARE / "build"
DATA = BUILD / "coverage"
REASONS = GATEWARE / "coverage_reasons.toml"
# The narrowest: it is built soonest, and a TLP has most beats.
WIDTH = "64"
PYTEST = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]


@dataclass(frozen=True)
class Part:
    """A page, and what it counts."""

    page: Path
    title: str
    # Whether it has the folders of `rtl/` and the tests (files) that match, or the others.
    is_links: bool

    def has_file(self, path: Path) -> bool:
        """Whether a file of `rtl/` is of this part."""
        return (path.parent.name in {"torus_link", "network_processor"}) == self.is_links

    def has_test(self, name: str) -> bool:
        """Whether a test, as pytest names it, is of this part."""
        return (LINK_TESTS.search(name) is not None) == self.is_links


LINK_TESTS = re.compile(
    r"/test_(link|torus_link|network|get_engine|receive_engine|rout|through)\w*\.py::"
)
PARTS = {
    "engine": Part(
        ROOT / "docs" / "gateware-coverage.md", "Coverage of the gateware's tests", False
    ),
    "links": Part(
        ROOT / "docs" / "gateware-coverage-links.md",
        "Coverage of the tests of links and network processors",
        True,
    ),
}
# Two whole cards below a switch: test_card and test_shim_us cover the same modules. And tests of
# the bench itself, which simulate nothing of the gateware.
LEFT_OUT = {"test_card_us"}
LEFT_OUT_FILE = "test_simulate.py"
# The bounded set has each kind of channel at a different width.
OF_EVERY_KIND = {"test_writer"}
NO_REASON = "not looked into"
# A pattern without a match.
NEVER = "(?!)"


# --- Running the tests ---------------------------------------------------------------------------
def collected(everything: bool) -> dict[str, list[str]]:
    """Names of tests by function: the bounded set, or everything."""
    command = [*PYTEST, "--collect-only", str(GATEWARE / "tb")]
    environment = {name: value for name, value in os.environ.items() if name != "GATEWARE_ALL"}
    environment |= {"GATEWARE_ALL": "1"} if everything else {}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    of_function: dict[str, list[str]] = defaultdict(list)
    for name in re.findall(r"^\S+\.py::.*$", done.stdout, re.MULTILINE):
        of_function[name.split("[")[0]].append(name)
    return of_function


def chosen_tests(part: Part, only: str | None, bounded: dict[str, list[str]]) -> list[str]:
    """Names of the tests of a part, as pytest has them, of one width: of the bounded set if it has
    that width. All of the bounded set if a test has no width."""

    def wide(names: list[str]) -> list[str]:
        return [name for name in names if WIDTH in re.split(r"[\[\]\- ]", name)]

    chosen = []
    for function, names in collected(True).items():
        name = function.split("::")[1]
        is_left_out = name in LEFT_OUT or function.split("::")[0].endswith(LEFT_OUT_FILE)
        if is_left_out or not part.has_test(function + "::"):
            continue
        few = [] if name in OF_EVERY_KIND else wide(bounded[function])
        chosen += few or wide(names) or bounded[function]
    # The whole card covers most of all: first.
    chosen.sort(key=lambda name: "test_card" not in name and "test_rates" not in name)
    return [name for name in chosen if not only or only in name]


def data_file(test: str) -> Path:
    """Path of a test's data."""
    return DATA / (re.sub(r"\W+", "_", test.split("::")[1]).strip("_") + ".dat")


def run(test: str, everything: bool) -> bool:
    """Runs a test, of everything or of the bounded set, and keeps its data; returns whether it has
    passed."""
    for old in BUILD.glob("*/coverage.dat"):
        old.unlink()
    environment = {**os.environ, "GATEWARE_COVERAGE": "1"}
    environment |= {"GATEWARE_ALL": "1"} if everything else {}
    began = time.monotonic()
    done = subprocess.run(
        [*PYTEST, test], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    passed = done.returncode == 0
    print(
        f"{test}: {'passed' if passed else 'FAILED'}, {time.monotonic() - began:.0f} s", flush=True
    )
    if not passed:
        print("\n".join(done.stdout.splitlines()[-3:]), flush=True)
        return False
    # A simulation writes this file when it ends, into its working directory.
    DATA.mkdir(parents=True, exist_ok=True)
    (written,) = BUILD.glob("*/coverage.dat")
    written.rename(data_file(test))
    return True


# --- Counts --------------------------------------------------------------------------------------
@dataclass
class Counts:
    """Lines and changes of bits of one file, each reached or not."""

    # Line: reached by all of its blocks and branches, or not.
    lines: dict[int, bool] = field(default_factory=dict)
    # Signal with bit and direction: whether it was seen.
    toggles: dict[str, bool] = field(default_factory=dict)


def numbers(ranges: str) -> list[int]:
    """Line numbers of `3-5,8`."""
    found: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def read(part: Part, files: list[Path]) -> dict[Path, Counts]:
    """The joined counts of all files of `rtl/` that are of a part.

    A record is `C 'name^Bvalue^Aname^Bvalue...' count`: f file, l line, n column, t kind, o object,
    S its lines.
    """
    points: dict[tuple, int] = defaultdict(int)
    for file in files:
        for record in file.read_text().splitlines():
            if not record.startswith("C "):
                continue
            text, count = record[3:].rsplit("' ", 1)
            fields = dict(part.split("\x02", 1) for part in text.split("\x01") if "\x02" in part)
            # Models are built in this folder, from paths relative to it.
            path = GATEWARE / fields["f"]
            if not path.is_relative_to(RTL) or not part.has_file(path):
                continue
            lines = fields.get("S") or fields["l"]
            key = (path, fields["t"], fields["l"], fields["n"], fields["o"], lines)
            points[key] += int(count)
    counts: dict[Path, Counts] = defaultdict(Counts)
    for (path, kind, _, _, what, lines), count in points.items():
        of_file = counts[path]
        if kind == "toggle":
            of_file.toggles[what] = of_file.toggles.get(what, False) or count > 0
        else:
            for line in numbers(lines):
                of_file.lines[line] = of_file.lines.get(line, True) and count > 0
    return dict(sorted(counts.items()))


# --- The document --------------------------------------------------------------------------------
@dataclass
class Reason:
    """Explains why matching lines or bits are not reached."""

    text: str
    module: re.Pattern
    # Of a line: its source. Of a bit: its name, as `header.address[40]`.
    line: re.Pattern
    signal: re.Pattern


def reasons(part: Part) -> list[Reason]:
    """All reasons of a part in their order: the first that matches counts."""
    return [
        Reason(
            entry["text"],
            re.compile(entry.get("module", ".*")),
            re.compile(entry.get("line", NEVER)),
            re.compile(entry.get("signal", NEVER)),
        )
        for entry in tomllib.loads(REASONS.read_text())["reason"]
        if entry.get("part", "engine") == ("links" if part.is_links else "engine")
    ]


def reason(known: list[Reason], path: Path, kind: str, text: str) -> str:
    """Text of the first reason for a line or a signal of a module."""
    for of_group in known:
        if of_group.module.fullmatch(path.stem) and getattr(of_group, kind).search(text):
            return of_group.text
    return NO_REASON


def share(hits: list[bool]) -> str:
    """As `95.0 % of 200`."""
    if not hits:
        return "none"
    return f"{100 * sum(hits) / len(hits):.1f} % of {len(hits):,}"


def row(name: str, files: Collection[Counts], mark: str = "") -> str:
    """A row of the table: what is reached in these files, between marks."""
    hits = [[hit for one in files for hit in one.lines.values()]]
    hits += [[hit for one in files for hit in one.toggles.values()]]
    return "| " + " | ".join(f"{mark}{cell}{mark}" for cell in (name, *map(share, hits))) + " |"


def uncovered_lines(counts: dict[Path, Counts], known: list[Reason]) -> dict[str, list[str]]:
    """Lines that are not reached, with their source, by reason."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, of_file in counts.items():
        source = path.read_text().splitlines()
        for number in sorted(n for n, hit in of_file.lines.items() if not hit):
            text = source[number - 1].strip()
            why = reason(known, path, "line", text)
            found[why].append(f"{path.relative_to(RTL)}:{number}: `{text}`")
    return found


def ranges(found: set[int]) -> str:
    """Bits as `63:40, 1`."""
    parts, bits = [], sorted(found, reverse=True)
    while bits:
        top = low = bits.pop(0)
        while bits and bits[0] == low - 1:
            low = bits.pop(0)
        parts.append(f"{top}:{low}" if top != low else str(top))
    return ", ".join(parts)


def uncovered_bits(
    counts: dict[Path, Counts], known: list[Reason]
) -> tuple[dict[str, int], dict[str, dict[str, list[str]]]]:
    """Number of changes not seen, and the signals and modules that they belong to, by reason."""
    number: dict[str, int] = defaultdict(int)
    bits: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for path, of_file in counts.items():
        for name, hit in of_file.toggles.items():
            if hit:
                continue
            bit = name.rsplit(":", 1)[0]
            why = reason(known, path, "signal", bit)
            number[why] += 1
            signal, index = re.fullmatch(r"(.*?)(?:\[(\d+)\])?", bit).groups()
            places = bits[why, path.stem, signal]
            if index:
                places.add(int(index))
    signals: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (why, module, signal), places in bits.items():
        signals[why][module].append(f"{signal}[{ranges(places)}]" if places else signal)
    return number, signals


def table(counts: dict[Path, Counts]) -> list[str]:
    """A row for each module, one for each folder, and the total of the handwritten modules."""
    rows = ["| module | lines | changes of bits |", "| --- | ---: | ---: |"]
    generated = {path: c for path, c in counts.items() if path.parent.name == "generated"}
    own = {path: c for path, c in counts.items() if path not in generated}
    rows += [row(str(path.relative_to(RTL).with_suffix("")), [c]) for path, c in own.items()]
    rows.append(row("all of these", own.values(), "**"))
    rows += [row("generated register blocks", generated.values(), "**")] if generated else []
    return rows


def document(part: Part, counts: dict[Path, Counts], tests: list[str], missing: list[str]) -> str:
    """The whole page: from these tests, and without the missing ones."""
    known = reasons(part)
    own = {path: c for path, c in counts.items() if path.parent.name != "generated"}
    all_files = {p for p in RTL.rglob("*.sv") if "generated" not in p.parts and part.has_file(p)}
    without = sorted(all_files - set(own))
    text = [
        f"# {part.title}",
        "",
        "Written by `make gateware-coverage` (gateware/coverage.py): line and toggle coverage as",
        f"Verilator counts them, in builds of {WIDTH} bits, from the tests listed below. A line is",
        "covered when all blocks and branches that begin in it have run, also an `else` that is",
        "not written; a bit has two changes, up and down. Joined over all instances of a module.",
        "Reasons are given to groups, by patterns of names (gateware/coverage_reasons.toml).",
        "",
        *table(counts),
        "",
    ]
    if without:
        names = ", ".join(f"`{p.stem}`" for p in without)
        text += [f"Nothing is counted in (packages of types, or not in these tests): {names}.", ""]
    text += ["## Lines that no test reaches", ""]
    for why, lines in sorted(uncovered_lines(own, known).items(), key=lambda e: e[0] == NO_REASON):
        text += [f"**{why}** ({len(lines)})", "", *(f"* {line}" for line in lines), ""]
    text += ["## Bits that do not change", ""]
    number, signals = uncovered_bits(own, known)
    text += ["| reason | changes not seen | in |", "| --- | ---: | --- |"]
    for why, n in sorted(number.items(), key=lambda entry: -entry[1]):
        modules = ", ".join(module.removeprefix("crosslane_") for module in signals[why])
        text += [f"| {why} | {n:,} | {modules} |"]
    text += [""]
    if NO_REASON in signals:
        text += [f"Those that are {NO_REASON}:", ""]
        text += [
            f"* `{module}`: {', '.join(names)}" for module, names in signals[NO_REASON].items()
        ]
        text += [""]
    text += ["## Tests", "", *(f"* `{test.split('::')[1]}`" for test in tests), ""]
    if missing:
        text += ["Not in this run (so they may reach some of the above):", ""]
        text += [*(f"* `{test.split('::')[1]}`" for test in missing), ""]
    return "\n".join(text)


def main() -> int:
    """Runs the requested tests, then writes or prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="engine")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--collected", action="store_true")
    arguments = parser.parse_args()
    part = PARTS[arguments.part]
    bounded = collected(False)
    tests = chosen_tests(part, arguments.only, bounded)
    takes_kept = arguments.resume or arguments.collected
    kept = [t for t in tests if takes_kept and data_file(t).exists()]
    missing = [t for t in tests if arguments.collected and t not in kept]
    tests = [t for t in tests if t not in missing]
    # Ten times the random cases of links take hours, and reach no more of their lines.
    few = {name for names in bounded.values() for name in names} if part.is_links else set()
    failed = [t for t in tests if t not in kept and not run(t, t not in few)]
    counts = read(part, [data_file(t) for t in tests if t not in failed])
    if arguments.only:
        print(document(part, counts, tests, missing))
    elif not failed:
        part.page.write_text(document(part, counts, tests, missing))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
