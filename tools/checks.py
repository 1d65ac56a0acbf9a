#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the checks of `make test`, two at a time, and prints how long each took.

Each check is a make target and can be run alone. Cargo locks the folder in which it builds, and
test programs use the same files, so steps that write one folder run one after the other. The
gateware's run beside them with a lower priority, one at a time, and two when no other is left to
begin: they use the remaining time of the cores. Every step's output goes to
`target/checks/STEP.log`; that of a failed step is printed when it ends. A step that hangs is
stopped and fails. A step that needs a failed one is not run, all others are, and the exit status
is 1.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
LOGS = TARGET / "checks"
# Largest part of a failed step's output that is printed, in bytes; the rest is in its log.
SHOWN_BYTES = 60_000
# Steps at a time, and in the background.
LANES, BACKGROUND_LANES = 2, 1
# Increase of the nice value of a step in the background.
NICE = 15


@dataclass(eq=False)
class Step:
    """A make target, the steps that must have passed before it, and the way to run it."""

    target: str
    after: tuple[str, ...] = ()
    # Folder below `target` that it alone writes meanwhile: one that cargo builds in, or the tests'.
    writes: str | None = None
    background: bool = False
    # Limit after which it counts as hanging.
    limit_seconds: float | None = 45 * 60
    seconds: float = 0.0
    # Of all processors, by it and the processes that it has waited for.
    cpu_seconds: float = 0.0
    # `None` until it has run; then whether it has passed.
    passed: bool | None = None
    process: subprocess.Popen | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        """The file with all of its output."""
        return LOGS / f"{self.target}.log"


# In the order in which they are started, other things being equal: long ones first.
STEPS = [
    Step("check-lint", writes="debug"),
    Step("build-tests", writes="debug"),
    Step("check-tests", after=("build-tests",), writes="tmp"),
    Step("check-format"),
    Step("check-gateware-lint"),
    Step("check-tools"),
    Step("check-registers"),
    Step("check-run", writes="release"),
    Step("check-vm", after=("build-tests", "check-run")),
    Step("check-rtl", after=("build-tests",), writes="tmp"),
    Step("check-python", after=("build-tests",), writes="debug", limit_seconds=15 * 60),
    Step("check-report", after=("check-tests", "check-run")),
    Step("check-web", after=("build-tests",), writes="web", limit_seconds=15 * 60),
    Step("check-doc", writes="debug"),
    # It takes in what `check-doc` has made.
    Step("check-site", after=("check-run", "check-doc", "check-web"), writes="release"),
    # Programs that run while it builds are the host's, in the same folder.
    Step("check-arm", writes="debug"),
    Step("check-gateware", background=True, limit_seconds=75 * 60),
    Step("check-area", background=True, limit_seconds=75 * 60),
    # From what `check-area` has synthesised, and one row more.
    Step("check-timing", after=("check-area",), background=True, limit_seconds=75 * 60),
    Step("check-link-board", background=True, limit_seconds=75 * 60),
    # It builds the program anew, with MPI, in the place where these look for it.
    Step(
        "check-mpi",
        after=("check-tests", "check-rtl", "check-vm", "check-report", "check-python"),
        writes="debug",
        limit_seconds=15 * 60,
    ),
    Step("check-speed", writes="release"),
    Step("check-packages", after=("check-run",), writes="release"),
    Step("check-crates"),
    Step("check-deny"),
]

# Summary lines of the test runners in use, whose counts are added up.
COUNTS = (
    re.compile(r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed"),
    re.compile(r"^(?:(?P<failed>\d+) failed, )?(?P<passed>\d+) passed\b.* in [\d.]+"),
    re.compile(r"^(?P<failed>\d+) failed\b.* in [\d.]+"),
    re.compile(r"^Ran (?P<passed>\d+) tests? in "),
    # Node's marks are no letters.
    re.compile(r"^\W pass (?P<passed>\d+)$"),
    re.compile(r"^\W fail (?P<failed>\d+)$"),
)

# Lines that name a failed test, of the test runners in use, and the line before its reason.
FAILED_TEST = re.compile(r"^(test \S+ \.\.\. FAILED$|FAILED |ERROR |FAIL: |ERROR: |✖ )")
PANICKED = re.compile(r"^thread .* panicked at ")
# Most of these lines that the table repeats of a step.
MOST_NAMED = 20


def counts_in(log: Path) -> tuple[int, int]:
    """Tests that have passed and failed, by the summary lines of their runners."""
    passed = failed = 0
    for line in log.read_text(errors="replace").splitlines():
        for pattern in COUNTS:
            if found := pattern.match(line.strip("= ")):
                counts = found.groupdict()
                passed += int(counts.get("passed") or 0)
                failed += int(counts.get("failed") or 0)
                break
    return passed, failed


def failed_in(log: Path) -> list[str]:
    """The lines that name failed tests, and what their threads died of, at most `MOST_NAMED`."""
    lines = log.read_text(errors="replace").splitlines()
    named = []
    for number, line in enumerate(lines):
        if FAILED_TEST.match(line):
            named.append(line)
        elif PANICKED.match(line):
            named += lines[number : number + 2]
    return named[:MOST_NAMED]


class Run:
    """All steps, the threads that run them, and the state of each."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.changed = threading.Condition()
        self.begun = time.monotonic()

    def ready(self) -> Step | None:
        """The next step that may begin."""
        running = [step for step in self.steps if step.process and step.passed is None]
        behind = sum(step.background for step in running)
        others_wait = any(
            not (step.background or step.process) and step.passed is None for step in self.steps
        )
        free = {
            False: len(running) - behind < LANES,
            True: behind < BACKGROUND_LANES or (not others_wait and len(running) < LANES),
        }
        locked = {step.writes for step in running} - {None}
        by_name = {step.target: step for step in self.steps}
        for step in self.steps:
            if step.process or step.passed is not None or step.writes in locked:
                continue
            if not free[step.background]:
                continue
            before = [by_name[name].passed for name in step.after if name in by_name]
            if all(before):
                return step
            if any(passed is False for passed in before):
                step.passed = False
                print(f"---- {step.target} is not run: what it needs has failed", flush=True)
        return None

    def begin(self, step: Step) -> None:
        """Starts a step and the thread that waits for its end."""
        command = ["make", "--no-print-directory", step.target]
        if step.background:
            command = ["nice", "-n", str(NICE), *command]
        print(f"{self.clock()}  {step.target} ...", flush=True)
        began = time.monotonic()
        with step.log.open("wb") as log:
            step.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if step.background:
            # If the kernel groups processes by session, `nice` counts within the group only.
            with contextlib.suppress(OSError):
                Path(f"/proc/{step.process.pid}/autogroup").write_text(str(NICE))

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(step.process.pid, signal.SIGKILL)

        def wait() -> None:
            limit = threading.Timer(step.limit_seconds or threading.TIMEOUT_MAX, kill)
            limit.daemon = True
            limit.start()
            # Unlike `Popen.wait` it says what the processes have used.
            _, status, usage = os.wait4(step.process.pid, 0)
            limit.cancel()
            with self.changed:
                step.process.returncode = os.waitstatus_to_exitcode(status)
                step.seconds = time.monotonic() - began
                step.cpu_seconds = usage.ru_utime + usage.ru_stime
                step.passed = status == 0
                self.ended(step)
                self.changed.notify()

        threading.Thread(target=wait, daemon=True).start()

    def ended(self, step: Step) -> None:
        """Reports how a step has ended, with its output if it has failed."""
        if step.passed:
            took = f"{step.seconds:.0f} s, {step.cpu_seconds:.0f} CPU s"
            print(f"{self.clock()}  {step.target}: passed in {took}", flush=True)
            return
        self.show(step, f"FAILED after {step.seconds:.0f} s")

    def show(self, step: Step, what: str) -> None:
        """Prints the end of a step's output."""
        output = step.log.read_bytes()
        left_out = len(output) - SHOWN_BYTES
        print(f"\n==== {step.target} {what}", flush=True)
        if left_out > 0:
            print(f"(the first {left_out} bytes are left out: {step.log})")
        print(output[-SHOWN_BYTES:].decode(errors="replace"))
        print(f"==== end of {step.target}\n", flush=True)

    def clock(self) -> str:
        """Minutes and seconds since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self.begun), 60)
        return f"{minutes:3}:{seconds:02}"

    def all(self) -> bool:
        """Runs every step and prints the table; returns whether all have passed."""
        with self.changed:
            while any(step.passed is None for step in self.steps):
                if step := self.ready():
                    self.begin(step)
                elif any(step.passed is None for step in self.steps):
                    self.changed.wait()
        self.table()
        return all(step.passed for step in self.steps)

    def table(self) -> None:
        """Prints the seconds of every step and the number of tests."""
        print(f"\n{'check':<22}{'seconds':>8}   tests")
        totals = [0, 0]
        for step in self.steps:
            passed, failed = counts_in(step.log) if step.process else (0, 0)
            totals[0] += passed
            totals[1] += failed
            tests = str(passed) if passed + failed else "-"
            words = "" if step.passed else f"   FAILED ({failed} tests)" if failed else "   FAILED"
            print(f"{step.target:<22}{step.seconds:>8.0f}   {tests}{words}")
            if step.process and not step.passed:
                print("".join(f"    {line}\n" for line in failed_in(step.log)), end="")
        minutes = (time.monotonic() - self.begun) / 60
        usage = os.times()
        cpu = (usage.children_user + usage.children_system) / 60
        print(f"{minutes:.1f} minutes, {cpu:.1f} CPU minutes, {os.cpu_count()} cores")
        print(f"\n{totals[0]} passed, {totals[1]} failed", flush=True)

    def stop(self) -> None:
        """Stops running steps and shows their progress: on Ctrl-C and on a termination signal."""
        for step in self.steps:
            if step.process and step.passed is None:
                self.show(step, "is running")
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(step.process.pid, signal.SIGTERM)


def named(steps: Iterable[Step], description: str) -> list[Step]:
    """The steps named on the command line, or all."""
    steps = list(steps)
    known = [step.target for step in steps]
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("targets", nargs="*", metavar="STEP", help=f"one of {', '.join(known)}")
    names = parser.parse_args().targets
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return [step for step in steps if not names or step.target in names]


def main() -> int:
    """Runs all steps, or the named ones."""
    run = Run(named(STEPS, __doc__.splitlines()[0]))
    LOGS.mkdir(parents=True, exist_ok=True)
    # Cargo's builds at the upper level must not inherit a jobserver of `make`.
    os.environ.pop("MAKEFLAGS", None)
    os.environ.pop("MFLAGS", None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return 0 if run.all() else 1
    except KeyboardInterrupt:
        run.stop()
        run.table()
        return 130


if __name__ == "__main__":
    sys.exit(main())
