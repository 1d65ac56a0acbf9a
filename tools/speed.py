#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Speed of the simulator: TLP-hops a second on this machine, beside those of cocotbext-pcie with
the same workload, and instructions a hop, which no other work on the machine changes.

`speed.py` prints both; `--write` also writes them into docs/fabric.md. `--check` counts the
instructions alone, and fails where a scenario takes over 5 % more than the page says.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from checks import ROOT

DOCUMENT = ROOT / "docs" / "fabric.md"
# Scenarios whose instructions are counted, and the divisor of their length: valgrind takes some 50
# times as long.
COUNTED = {"10 endpoints, peer to peer": 20, "10 endpoints, to and from the host": 20}
# Parts of the fabric, by the names of their functions; the first that fits counts.
REST = "endpoints and memory"
PARTS = {
    "events": r"::Events::|::Arena::|Fabric::(handle\w*|run)$",
    "choosing and sending": r"::(pick\w*|send\w*|stay_idle|note_idle|note_use|enqueue\w*)$"
    r"|::Egress::",
    "DLLPs": r"::(settle\w*|refresh|\w*release|take_inbound|arrange_wake|wake)$"
    r"|::(Receiver|Outbound|Ring<T>)::",
    "arrival": r"::(take_arrival|arrive|deliver|check_order|root_receive)$|::Routes::",
    REST: r"$",
}
# Part by which a count may exceed the page's: compilers differ a little.
TOLERANCE = 0.05
REPEATS = 9
# Functions that the page lists.
LARGEST = 16
PYTHON = ROOT / ".venv" / "bin" / "python"
PEERS_BENCH = ROOT / "gateware" / "tb" / "peers_bench.py"


def build() -> str:
    """Builds the benchmark and returns the path of its program.

    `PRODUCTS` chooses other crates beside it, whose build has compiled most of it already.
    """
    command = [os.environ.get("CARGO", "cargo"), "build", "--release", "--locked"]
    command += os.environ.get("PRODUCTS", "").split()
    command += ["-p", "crosslane-fabric", "--bench", "hops", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "hops":
            return message["executable"]
    raise SystemExit("cargo names no program of the benchmark hops")


@dataclass(frozen=True)
class Count:
    """Counts of a scenario."""

    # Instructions a hop.
    instructions: int
    # Shares of them, by part of the fabric.
    parts: dict[str, float]
    # Functions: name, calls a hop, instructions of a call without those of other functions.
    functions: list[tuple[str, float, float]] = field(default_factory=list)


def instructions_and_hops(collected: str, table: str) -> tuple[int, int]:
    """Instructions and hops, from what valgrind and the benchmark have printed."""
    instructions = re.search(r"Collected : (\d+)", collected)
    hops = re.search(r" (\d+)$", table.strip())
    if not instructions or not hops or int(instructions[1]) == 0:
        raise SystemExit(f"valgrind has counted nothing:\n{collected}\n{table}")
    return int(instructions[1]), int(hops[1])


def by_function(profile: str) -> dict[str, tuple[int, int]]:
    """Instructions and calls of each function in a callgrind profile, without its callees."""
    names: dict[str, str] = {}
    found: dict[str, tuple[int, int]] = {}

    def add(name: str, instructions: int, calls: int) -> None:
        before = found.get(name, (0, 0))
        found[name] = (before[0] + instructions, before[1] + calls)

    function, callee, skip = "", "", False
    for line in profile.splitlines():
        if match := re.match(r"(c?)fn=\((\d+)\)(?: (.+))?$", line):
            # The first mention of a number has the name.
            name = names.setdefault(match[2], match[3] or "")
            function, callee = (function, name) if match[1] else (name, callee)
        elif match := re.match(r"calls=(\d+) ", line):
            # The next line has what the callee took.
            add(callee, 0, int(match[1]))
            skip = True
        elif match := re.match(r"(?:0x[0-9a-f]+|[+-]?\d+|\*) (\d+)$", line):
            add(function, 0 if skip else int(match[1]), 0)
            skip = False
    return found


def by_part(functions: dict[str, tuple[int, int]]) -> dict[str, float]:
    """Shares of the instructions, by part of the fabric."""
    shares = dict.fromkeys(PARTS, 0.0)
    total = sum(instructions for instructions, _ in functions.values())
    for name, (instructions, _) in functions.items():
        part = next(part for part, words in PARTS.items() if re.search(words, name))
        shares[part] += instructions / total
    return shares


def short(name: str) -> str:
    """A function's name with its type, without modules."""
    name = re.sub(r"<impl [^>]*?(\w+)>", r"\1", name)
    name = re.sub(r"<\S*?(\w+) as [^>]+>", r"\1", name)
    return "::".join(re.sub(r"<.*?>", "", name).split("::")[-2:])


def largest(functions: dict[str, tuple[int, int]], hops: int) -> list[tuple[str, float, float]]:
    """The functions that take most, with their calls a hop and instructions a call."""
    rows = sorted(functions.items(), key=lambda row: -row[1][0])[:LARGEST]
    # The loop is called only a few times, for many events each.
    return [
        (short(name), calls / hops, instructions / calls)
        for name, (instructions, calls) in rows
        if calls * 50 > hops
    ]


def count(program: str, scenario: str) -> Count:
    """Counts the instructions that a scenario takes for each hop."""
    with tempfile.NamedTemporaryFile("r") as profile:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile.name}"]
        command += ["--collect-atstart=no", "--toggle-collect=*Fabric*run*", program, "1", scenario]
        command.append(str(COUNTED[scenario]))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        instructions, hops = instructions_and_hops(done.stderr, done.stdout)
        functions = by_function(profile.read())
        return Count(round(instructions / hops), by_part(functions), largest(functions, hops))


def beside(rates: str) -> str:
    """A sentence with the rate of cocotbext-pcie in the first scenario, and ours beside it."""
    command = [PYTHON, "-B", PEERS_BENCH]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{PEERS_BENCH.name} failed:\n{done.stdout}{done.stderr}")
    rate, hops = (int(word) for word in done.stdout.split())
    own = next(re.finditer(r"^10 endpoints, peer to peer +([\d.]+)", rates, re.MULTILINE))
    times = float(own[1]) * 1e6 / rate
    return (
        f"cocotbext-pcie, 10 endpoints, peer to peer: {rate:,} hops/s ({hops:,} hops); "
        f"this fabric makes {times:,.0f} times as many"
    )


def table(counts: dict[str, Count]) -> str:
    """The counts as they stand in the page."""
    rows = [
        "| ".join(
            [
                f"| {scenario} ",
                f"{count.instructions:,} ",
                *(f"{share * count.instructions:,.0f} " for share in count.parts.values()),
            ]
        )
        + "|"
        for scenario, count in counts.items()
    ]
    head = f"| scenario | instructions a hop | {' | '.join(PARTS)} |"
    return "\n".join([head, "|---|--:" + "|--:" * len(PARTS) + "|", *rows])


def function_table(functions: list[tuple[str, float, float]]) -> str:
    """The functions that take most, as they stand in the page."""
    rows = [
        f"| `{name}` | {calls:.2f} | {each:,.0f} | {calls * each:,.0f} |"
        for name, calls, each in functions
    ]
    head = "| function | calls a hop | instructions a call | a hop |"
    return "\n".join([head, "|---|--:|--:|--:|", *rows])


def committed(page: str) -> dict[str, int]:
    """The counts that the page has."""
    rows = re.findall(r"^\| ([^|]+?) \| ([\d,]+) \|", part(page, "instructions"), re.MULTILINE)
    return {scenario: int(number.replace(",", "")) for scenario, number in rows}


def part(page: str, name: str, new: str | None = None) -> str:
    """The text between two marks of the page; with `new`, the page with that text instead."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = page.partition(begin)
    old, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{DOCUMENT.relative_to(ROOT)} has no part {begin.strip()}")
    return old if new is None else f"{before}{begin}{new}\n{end}{after}"


def slower(counts: dict[str, int], before: dict[str, int]) -> list[str]:
    """A sentence for each scenario that takes more instructions than it may."""
    return [
        f"{scenario}: {number:,} instructions a hop, and docs/fabric.md has {before[scenario]:,}"
        for scenario, number in counts.items()
        if number > before[scenario] * (1 + TOLERANCE)
    ]


def machine() -> str:
    """Processor and compiler, for the page."""
    models = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    return f"({os.cpu_count()} core(s) of {models[0]}, {rustc.stdout.strip()})"


def main() -> int:
    """Measures; the exit status says whether all counts are within their limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the instructions alone")
    parser.add_argument("--write", action="store_true", help="write the page anew")
    arguments = parser.parse_args()
    page = DOCUMENT.read_text()
    program = build()
    if not arguments.check:
        done = subprocess.run(
            [program, str(REPEATS)], stdout=subprocess.PIPE, text=True, check=True
        )
        rates = f"```text\n{done.stdout}{beside(done.stdout)}\n```\n{machine()}"
        print(rates)
        page = part(page, "bench", rates)
    counts = {scenario: count(program, scenario) for scenario in COUNTED}
    functions = function_table(next(iter(counts.values())).functions)
    print(f"{table(counts)}\n\n{functions}")
    if arguments.write:
        page = part(page, "instructions", table(counts))
        DOCUMENT.write_text(part(page, "functions", functions))
        return 0
    found = slower({name: count.instructions for name, count in counts.items()}, committed(page))
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
