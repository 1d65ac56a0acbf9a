#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs what a night has the time for, and writes docs/soak.md: the commit and each result.

Seeds are new every day: they begin at the number of days since 1970 times a million, so that two
nights share none, and a seed that fails is replayed by its number. What earlier runs remember
as passed is run all the same.
"""

import datetime
import os
import subprocess
import sys
import time
from pathlib import Path

from checks import LOGS, ROOT, Run, Step, counts_in

DOCUMENT = ROOT / "docs" / "soak.md"
SEEDS_A_DAY = 1_000_000

# Each with the words of the table for what it runs.
STEPS = {
    Step("test-gateware"): "every width, size and seed of the gateware's tests and proofs",
    Step("test-rtl", cargo=True): "driver, comparison TLP by TLP, 5,000 torture seeds and the "
    "reproduction with engines of our own, on the gateware",
    Step("torture", cargo=True): "100,000 torture seeds and 50,000 tori that have never run",
    Step("mutations", cargo=True): "every mutation, each found by its seed",
    Step("fuzz", cargo=True): "every fuzz target for 10 minutes",
    Step("miri", cargo=True): "the pure crates under miri",
    Step("test-vm-iommufd", cargo=True): "cards by iommufd, on a kernel that is built for it",
}

PAGE = """<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
# What the last night showed

Written by `make soak`. Nothing is left out because it passed before.

{date}, commit `{commit}`, {cores} cores, {minutes:.0f} minutes.

| step | what it runs | result | tests | minutes |
|---|---|---|--:|--:|
{rows}

Torture seeds: {seeds}..{seeds_end}; tori: {seeds}..{tori_end}; on the gateware: {seeds}..{rtl_end}.
"""
TORTURE_SEEDS, TORI_SEEDS, RTL_SEEDS = 100_000, 50_000, 5_000


def row(step: Step, words: str) -> str:
    """A step's line of the page."""
    passed, failed = counts_in(step.log) if step.process else (0, 0)
    result = "passed" if step.passed else "**failed**"
    tests = f"{passed} passed" + (f", {failed} failed" if failed else "") if passed + failed else ""
    return f"| `make {step.target}` | {words} | {result} | {tests} | {step.seconds / 60:.0f} |"


def main() -> int:
    """Runs all steps and writes the page; whether all have passed is the exit status."""
    seeds = int(time.time() // 86_400) * SEEDS_A_DAY
    os.environ |= {
        "CROSSLANE_IGNORE_PASSES": "1",
        "FIRST_SEED": str(seeds),
        "TORTURE_SEEDS": str(TORTURE_SEEDS),
        "TORI_SEEDS": str(TORI_SEEDS),
        "RTL_SEEDS": str(RTL_SEEDS),
        "FUZZ_SECONDS": "600",
    }
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    LOGS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    run = Run(list(STEPS))
    passed = run.all()
    text = PAGE.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        commit=commit.strip(),
        cores=os.cpu_count(),
        minutes=(time.monotonic() - began) / 60,
        rows="\n".join(row(step, words) for step, words in STEPS.items()),
        seeds=seeds,
        seeds_end=seeds + TORTURE_SEEDS,
        tori_end=seeds + TORI_SEEDS,
        rtl_end=seeds + RTL_SEEDS,
    )
    DOCUMENT.write_text(text)
    print(f"{Path(DOCUMENT).relative_to(ROOT)} is written")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
