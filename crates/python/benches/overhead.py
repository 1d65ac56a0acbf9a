#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Host time of a posted transfer of 64 B through the package, beside that through the Rust crates.

`make bench-python` runs it with the program of the C library's bench, which makes the same
transfers in the same lab. The two run in turns; times are those of the processor.
"""

import argparse
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import crosslane

LAB = "lab:rosta:crosslane/fpga1"
BYTES = 64
TRANSFERS = 2000
ROUNDS = 15


def package() -> Callable[[], float]:
    """Makes transfers through the package: microseconds for each."""
    session = crosslane.open(LAB)
    card = session.card()
    card.route("generator")
    buffer = card.buffer(BYTES)

    def run() -> float:
        begun = time.thread_time()
        for _ in range(TRANSFERS):
            card.from_card(buffer).wait()
        return 1e6 * (time.thread_time() - begun) / TRANSFERS

    return run


def rust(program: Path) -> Callable[[], float]:
    """Makes the same transfers in a process of the other bench: microseconds for each."""
    command = [str(program), "--rust-only"]
    return lambda: float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Prints the difference and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="bench `overhead` of crosslane-capi")
    of_rust, of_package = rust(parser.parse_args().program), package()
    pairs = sorted((of_package() - of_rust(), of_rust()) for _ in range(ROUNDS))
    more = [difference for difference, _ in pairs]
    base = statistics.median(time for _, time in pairs)
    middle = statistics.median(more)
    print(
        f"Python - Rust: {middle:.2f} us (from {more[0]:.2f} to {more[-1]:.2f}), "
        f"{base:.2f} us through Rust, ratio {1 + middle / base:.2f}"
    )


if __name__ == "__main__":
    main()
