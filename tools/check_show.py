#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks the output of `make run`: the tables are complete, everything is within its tolerance,
lines fit, and the page that it names has been written. The program has no more than some bytes.

Usage: tools/check_show.py FILE PROGRAM
"""

import sys
from pathlib import Path

PARTS = [
    "\nnetworks: tls",
    "9. Our own engine",
    "\nFPGA to FPGA, case 8.2",
    "all within",
    "Where to go next",
]
COLUMNS = 100
PAGE = "reports/rosta/index.html"
PROGRAM_BYTES = 30_000_000


def problems(shown: str) -> list[str]:
    """Describes the problems in the output; empty if there are none."""
    found = [f"there is no {part.strip()!r}" for part in PARTS if part not in shown]
    tables = shown[shown.find("$ crosslane reproduce") :]
    pages = [line.strip() for line in tables.splitlines() if line.strip().endswith(PAGE)]
    # The page's path may have any length.
    lines = [line for line in tables.splitlines() if PAGE not in line]
    long = [line for line in lines if len(line) > COLUMNS]
    found += [f"more than {COLUMNS} columns: {line}" for line in long]
    if not pages:
        found.append("it names no page")
    found += [f"there is no page {page}" for page in pages[-1:] if not Path(page).is_file()]
    return found


def too_large(program: Path) -> list[str]:
    """Describes a program that has become too large; empty if it has not."""
    size = program.stat().st_size
    if size <= PROGRAM_BYTES:
        return []
    return [f"{program.name} has {size} bytes, more than {PROGRAM_BYTES}: is it stripped?"]


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]).read_text()) + too_large(Path(sys.argv[2]))
    print("\n".join(wrong) or "what `make run` shows is whole")
    sys.exit(1 if wrong else 0)
