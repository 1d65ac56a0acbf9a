#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the checks that only a night has time for, and writes docs/soak.md: commit, day and result
of each step.

`soak.py STEP...` runs only those steps; the page keeps the rows of the others. Seeds are new every
day: they begin at the number of days since 1970 times a million, so that two nights share none, and
a seed that fails is replayed by its number. Passes remembered from earlier runs are ignored.
"""

import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from checks import LOGS, ROOT, Run, Step, counts_in, named

DOCUMENT = ROOT / "docs" / "soak.md"
SEEDS_A_DAY = 1_000_000
FIRST_SEED = int(time.time() // 86_400) * SEEDS_A_DAY
TORTURE_SEEDS, TORI_SEEDS, RTL_SEEDS = 100_000, 50_000, 5_000
RTL_TORI_SEEDS = 2_000
KILL_SEEDS, PROCESS_KILL_SEEDS = 5_000, 500
BRIDGE_SECONDS = 2 * 3600
LINK_SECONDS = 2 * 3600


def seeds(count: int) -> str:
    """Seeds of today, as the program takes them."""
    return f"{FIRST_SEED}..{FIRST_SEED + count}"


# Each with its description in the table.
STEPS = {
    Step("test-gateware"): "every width, size and seed of the gateware's tests and proofs; "
    "levels of LUTs at every width; both links on an ECP5-5G at 2.5 and 5 Gb/s",
    Step("test-rtl", writes="debug"): "driver, comparison TLP by TLP and the reproductions rosta, "
    "nget and kc705 with engines of our own, on the gateware; torture on it, seeds "
    f"{seeds(RTL_SEEDS)}; tori on it, seeds {seeds(RTL_TORI_SEEDS)}",
    Step("test-long", writes="debug"): "a gibibyte over a bridge; what the constants of the lab "
    "pciebench:iommu move; every state of two ends of a torus link, 86 million of them",
    Step("torture", writes="debug"): f"torture, seeds {seeds(TORTURE_SEEDS)}; "
    f"tori, seeds {seeds(TORI_SEEDS)}",
    Step("kills", writes="debug"): "bridged transfers in which something dies, seeds "
    f"{seeds(KILL_SEEDS)}, and of processes over real networks, {seeds(PROCESS_KILL_SEEDS)}",
    Step("bridge-hours", writes="debug"): "a bridge's server over tls and over shared memory, each "
    f"for {BRIDGE_SECONDS // 3600} hours, at the same time: at least 10,000 connections and 30,000 "
    "bad messages, 200 clients at once, a client killed in each round; memory, descriptors and "
    "threads stay as they were",
    Step("mutations", writes="debug"): "every mutation, each found by its seed",
    Step("fuzz", writes="debug"): "every fuzz target for 10 minutes",
    Step("test-wasm", writes="debug"): "unit and integration tests of the simulator's crates as "
    "WebAssembly under Node",
    Step("link-hours"): "ends, ports and blocks of torus links in gateware beside crate "
    f"torus-link, every symbol and state, seed after seed for {LINK_SECONDS // 3600} hours",
    Step("miri", writes="debug"): "the pure crates under miri",
    Step("tsan", writes="debug"): "threads that share a card through the C library, under "
    "ThreadSanitizer",
    Step("check-dist", writes="release"): "what users install, built with the profile of releases: "
    "the program has less than 15 MB",
    Step(
        "check-packages-arm64", writes="release"
    ): "what users of 64-bit Arm install, cross compiled, "
    "on an emulated processor: the same results as here",
    Step("test-vm", writes="debug"): "the driver on a real kernel, with its assertions",
    Step("test-vm-iommufd", writes="debug"): "cards by iommufd, on a kernel that is built for it",
}

PAGE = """<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
# Nightly results

Written by `make soak`, which runs all of these, and by `tools/soak.py STEP...`, which runs some.
Nothing is left out because it passed before. Minutes are those of a machine with {cores} cores,
which runs up to two steps at a time.

| step | what it runs | result | tests | minutes | day | commit |
|---|---|---|--:|--:|---|---|
{rows}
"""
ROW = re.compile(r"^\| `make (?P<target>[\w-]+)` \|.*$", re.MULTILINE)


def row(step: Step, words: str, day: str, commit: str) -> str:
    """A step's line of the page."""
    passed, failed = counts_in(step.log) if step.process else (0, 0)
    result = "passed" if step.passed else "**failed**"
    tests = f"{passed} passed" + (f", {failed} failed" if failed else "") if passed + failed else ""
    cells = [f"`make {step.target}`", words, result, tests, f"{step.seconds / 60:.0f}"]
    return f"| {' | '.join([*cells, day, f'`{commit}`'])} |"


def page(text: str, rows: dict[str, str]) -> str:
    """The page with new rows; other steps keep their rows of `text`."""
    old = {match["target"]: match[0] for match in ROW.finditer(text)}
    lines = (rows.get(step.target) or old.get(step.target) for step in STEPS)
    return PAGE.format(cores=os.cpu_count(), rows="\n".join(filter(None, lines)))


def main() -> int:
    """Runs the steps and writes the page; the exit status says whether all have passed."""
    run = Run(named(STEPS, __doc__.splitlines()[0]))
    for step in run.steps:
        step.limit_seconds = None
    os.environ |= {
        "CROSSLANE_IGNORE_PASSES": "1",
        "FIRST_SEED": str(FIRST_SEED),
        "TORTURE_SEEDS": str(TORTURE_SEEDS),
        "TORI_SEEDS": str(TORI_SEEDS),
        "RTL_SEEDS": str(RTL_SEEDS),
        "RTL_TORI_SEEDS": str(RTL_TORI_SEEDS),
        "KILL_SEEDS": str(KILL_SEEDS),
        "PROCESS_KILL_SEEDS": str(PROCESS_KILL_SEEDS),
        "BRIDGE_SECONDS": str(BRIDGE_SECONDS),
        "LINK_SECONDS": str(LINK_SECONDS),
        "FUZZ_SECONDS": "600",
    }
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    commit, day = done.stdout.strip(), datetime.datetime.now(datetime.UTC).date().isoformat()
    LOGS.mkdir(parents=True, exist_ok=True)
    passed = run.all()
    rows = {step.target: row(step, STEPS[step], day, commit) for step in run.steps}
    DOCUMENT.write_text(page(DOCUMENT.read_text(), rows))
    print(f"{Path(DOCUMENT).relative_to(ROOT)} is written")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
