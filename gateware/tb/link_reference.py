# SPDX-License-Identifier: Apache-2.0 OR MIT
"""End, lanes and code of crate `torus-link` as processes: the reference of the gateware's.

The programs, examples of the crate, are built by cargo and kept in the cache (tools/cache.py)
by the hash of their sources.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from model import ROOT, cache

CRATE = ROOT / "crates" / "torus-link"
END, CODES, LANES = EXAMPLES = ("end_by_lines", "codes", "lanes_by_lines")
# Counters in the order of the answer.
COUNTERS = (
    "sent delivered repeated damaged nacks restarts timeouts trainings commands doubles discarded "
    "stale overruns"
).split()


def key() -> str:
    """The hash of everything that goes into the reference."""
    files = [CRATE / "Cargo.toml", *(CRATE / "examples" / f"{name}.rs" for name in EXAMPLES)]
    return cache.key(*files, *sorted((CRATE / "src").rglob("*.rs")))


def build(folder: Path) -> None:
    """Builds the programs into a folder."""
    command = [os.environ.get("CARGO", "cargo"), "build", "--locked", "--quiet"]
    command += ["--package", "crosslane-torus-link"]
    command += [word for name in EXAMPLES for word in ("--example", name)]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for name in EXAMPLES:
        shutil.copy(target / "debug" / "examples" / name, folder / name)


def program(name: str) -> Path:
    """Path of an example, built if it is missing."""
    return cache.made("reference", f"torus-link-{key()[:20]}", build) / name


def codes(kind: str) -> list[tuple[int, ...]]:
    """The lines `encode` or `decode` of crates/torus-link/examples/codes.rs."""
    shown = subprocess.run([program(CODES)], capture_output=True, text=True, check=True)
    lines = [line.split() for line in shown.stdout.splitlines()]
    return [tuple(int(word) for word in words[1:]) for words in lines if words[0] == kind]


def lanes(first: str, lines: list[str]) -> list[str]:
    """The answers of crates/torus-link/examples/lanes_by_lines.rs, one a line."""
    said = "\n".join([first, *lines]) + "\n"
    shown = subprocess.run([program(LANES)], input=said, capture_output=True, text=True, check=True)
    answers = shown.stdout.splitlines()
    assert len(answers) == len(lines)
    return answers


@dataclass
class Answer:
    """An end's doings in a clock, and its state then."""

    # The frame that it sends, with its CRC.
    frame: bytes | None
    # Header and payload of the datagram that it delivers.
    delivered: bytes | None
    # In error, settled, unacknowledged, expected, time-outs in a row, credits, counters.
    state: list[int]


class Reference:
    """An end; times are clocks."""

    def __init__(self, lanes: int, **sizes: int):
        names = ("channel_datagrams", "retry_datagrams", "queue_datagrams")
        names += ("acknowledge_datagrams", "acknowledge_within", "retry_timeout", "refresh")
        names += ("long",)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [program(END)], stdin=pipe, stdout=pipe, text=True, bufsize=1
        )
        self._say(" ".join(str(number) for number in (lanes, *(sizes[name] for name in names))))

    def _say(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def clock(self, now: int, events: list[str]) -> Answer:
        """Lets the events of a clock happen (crates/torus-link/examples/end_by_lines.rs)."""
        self._say(" ".join([str(now), *events]))
        words = self.process.stdout.readline().split()
        assert words, f"the reference has ended at clock {now}: {events}"
        frame, delivered = (None if word == "-" else bytes.fromhex(word) for word in words[:2])
        return Answer(frame, delivered, [int(word) for word in words[2:]])

    def close(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
