#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Extends the fuzz corpus, which plain tests replay, with inputs that reach new code.

A fuzz target is a test with a `bolero::check!`. This builds the test programs with libFuzzer in
them (on stable Rust; it needs a C++ compiler), fuzzes each target for some seconds, beginning with
the committed corpus, and writes the inputs that together reach most to `__fuzz__/TARGET/corpus`,
beside the target's source file: as many as the limits below allow, named by their hash. They
replace the earlier ones; committed inputs stay if they are still among the best.

  tools/corpus.py                               every target
  tools/corpus.py --seconds 600 fuzz_decode     the targets with this in their names
  tools/corpus.py --packages crosslane-pcie     those of one crate

An input that fails goes to `__fuzz__/TARGET/crashes`, where plain tests replay it too, and the exit
status is 1.
"""

import argparse
import hashlib
import heapq
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "corpus"
# Limits of a target's corpus; `crates/cli/tests/tidy.rs` checks the first two too.
MOST_FILES = 60
MOST_BYTES = 60_000
# Most milliseconds that a corpus takes with coverage, which is slower than without: a plain run of
# a target ends after a second, with random inputs.
MOST_MS = 500
# Inputs whose paths are passed to one process.
MOST_PATHS = 200
# Longest input, as in bolero's random ones.
INPUT_BYTES = 4096
# Growth of inputs: libFuzzer's 100 keeps those of short runs at a few bytes, 0 grows at once.
LENGTH_CONTROL = 10
# Seconds after which an input counts as hanging.
LONGEST_INPUT_S = 30
# Inputs that may fail while coverage is measured.
MOST_FAILURES = 10
FLAGS = [
    "--cfg fuzzing",
    "--cfg fuzzing_libfuzzer",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
]
# Files that a target starts with, if its input is a file's bytes.
SEEDS = {
    "fuzz_fit::fuzz_any_file_of_measurements": "labs/published/*.csv",
    "fuzz_dumps::fuzz_listings": "crates/twin/tests/dumps/server.txt",
    "fuzz_dumps::fuzz_trees": "crates/twin/tests/dumps/tree.txt",
    "fuzz_dumps::fuzz_topologies_in_words": "crates/twin/tests/dumps/lstopo*.txt",
    "fuzz_dumps::fuzz_matrices": "crates/twin/tests/dumps/topo-m.txt",
}


@dataclass(frozen=True)
class FuzzTarget:
    """A fuzz test: its program, its crate's folder, its name and its `__fuzz__` folder."""

    program: Path
    crate: Path
    name: str
    folder: Path

    @property
    def corpus(self) -> Path:
        """The folder of its committed inputs."""
        return self.folder / "corpus"

    def run(self, arguments: list[object]) -> subprocess.CompletedProcess:
        """Runs libFuzzer on it."""
        environment = os.environ | {"BOLERO_LIBFUZZER_ARGS": " ".join(map(str, arguments))}
        command = [self.program, self.name, "--exact", "--nocapture", "--test-threads", "1"]
        return subprocess.run(
            command,
            cwd=self.crate,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )


@dataclass(eq=False)
class Input:
    """One input, and the code that it reaches: libFuzzer's features, eight for each edge, one for
    each range of how often the edge is passed."""

    path: Path
    features: frozenset[int]
    cost_ms: float = 0

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.path.stat().st_size

    @property
    def edges(self) -> frozenset[int]:
        """The edges of the code that it passes."""
        return frozenset(feature // 8 for feature in self.features)


def crates() -> list[str]:
    """The crates that have fuzz targets."""
    found = set()
    for path in ROOT.glob("crates/*/tests/integration/**/*.rs"):
        if "bolero::check!" in path.read_text():
            found.add("crosslane-" + path.relative_to(ROOT / "crates").parts[0])
    return sorted(found)


def build(packages: list[str]) -> list[tuple[Path, Path]]:
    """The test programs, each with its crate's folder."""
    if " " in str(TARGET):
        sys.exit(f"cannot fuzz below {TARGET}: bolero splits libFuzzer's arguments at blanks")
    host = re.search(r"host: (\S+)", subprocess.check_output(["rustc", "-vV"], text=True))
    # With a target named, build scripts are not instrumented.
    command = [os.environ.get("CARGO", "cargo"), "test", "--locked", "--profile", "fuzz"]
    command += ["--target", host[1], "--target-dir", TARGET, "--test", "integration", "--no-run"]
    command += ["--message-format", "json-render-diagnostics"]
    for package in packages:
        command += ["--package", package]
    environment = os.environ | {"RUSTFLAGS": " ".join(FLAGS), "BOLERO_FUZZER": "libfuzzer"}
    built = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit("cannot build the fuzz targets: see above")
    programs = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["kind"] == ["test"]:
            crate = Path(message["manifest_path"]).parent
            programs.append((Path(message["executable"]), crate))
    return programs


def targets(program: Path, crate: Path) -> list[FuzzTarget]:
    """The fuzz targets in a test program, which bolero lists."""
    command = [program, "fuzz", "--nocapture", "--test-threads", "1"]
    environment = os.environ | {"CARGO_BOLERO_SELECT": "all"}
    listed = subprocess.check_output(command, cwd=crate, env=environment, text=True)
    found = []
    for line in listed.splitlines():
        if "__bolero_target" in line:
            target = json.loads(line[line.index("{") :])
            folder = Path(target["work_dir"])
            found.append(FuzzTarget(program, crate, target["test_name"], folder))
    return found


def parse_control(text: str) -> list[Input]:
    """The inputs in libFuzzer's control file of a merge, with the features that each reaches."""
    lines = text.splitlines()
    count = int(lines[0])
    paths, results = lines[2 : 2 + count], lines[2 + count :]
    inputs = []
    for line in results:
        what, number, *features = line.split()
        if what == "FT":
            inputs.append(Input(Path(paths[int(number)]), frozenset(map(int, features))))
    return inputs


def choose(inputs: list[Input]) -> list[Input]:
    """The inputs that together reach most edges, then most features, within the limits.

    An input's gain only shrinks while others are chosen: it is counted again when it comes up.
    """
    chosen: list[Input] = []
    features: set[int] = set()
    edges: set[int] = set()
    size, milliseconds = 0, 0.0
    waiting = [
        (-len(one.edges), -len(one.features), one.size, one.path.name, one) for one in inputs
    ]
    heapq.heapify(waiting)
    while waiting and len(chosen) < MOST_FILES:
        entry = heapq.heappop(waiting)
        one = entry[-1]
        added = (-len(one.edges - edges), -len(one.features - features))
        if added != entry[:2]:
            if added != (0, 0):
                heapq.heappush(waiting, (*added, *entry[2:]))
        elif size + one.size <= MOST_BYTES and milliseconds + one.cost_ms <= MOST_MS:
            chosen.append(one)
            features |= one.features
            edges |= one.edges
            size, milliseconds = size + one.size, milliseconds + one.cost_ms
    return chosen


def measure(target: FuzzTarget, scratch: Path) -> list[Input]:
    """The inputs of the folder `queue`, with the features that they reach and their cost.

    This is libFuzzer's merge without its outer process, which would start the test program without
    a named test: all tests would run.
    """
    control, log = scratch / "control", scratch / "merge-log"
    paths = sorted((scratch / "queue").iterdir(), key=lambda path: (path.stat().st_size, path.name))
    control.write_text("\n".join([str(len(paths)), "0", *map(str, paths), ""]))
    # Features of each input, not only those that no earlier one has.
    arguments = ["-merge_inner=2", f"-merge_control_file={control}"]
    arguments += [f"-timeout={LONGEST_INPUT_S}", f"-artifact_prefix={scratch}/"]
    # A failing input ends the process; the next one continues after it.
    for _ in range(MOST_FAILURES):
        merged = target.run(arguments)
        log.write_text(merged.stdout)
        if merged.returncode == 0:
            inputs = parse_control(control.read_text())
            break
    else:
        sys.exit(f"cannot measure the inputs of {target.name}: see {log}")
    # All paths go into one environment variable, which has a limit.
    for at in range(0, len(inputs), MOST_PATHS):
        some = inputs[at : at + MOST_PATHS]
        output = target.run([*(one.path for one in some), "-runs=1"]).stdout
        executed = dict(re.findall(r"Executed (\S+) in (\d+) ms", output))
        for one in some:
            one.cost_ms = float(executed.get(str(one.path), 0))
    return inputs


def write_corpus(target: FuzzTarget, scratch: Path) -> None:
    """Writes the best of the folder `queue` to the target's corpus."""
    inputs = measure(target, scratch)
    chosen = choose(inputs)
    shutil.rmtree(target.corpus, ignore_errors=True)
    target.corpus.mkdir(parents=True)
    for one in chosen:
        content = one.path.read_bytes()
        (target.corpus / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)
    edges, reached = ({edge for one in some for edge in one.edges} for some in (chosen, inputs))
    print(
        f"{target.crate.name} {target.name}: {len(chosen)} of {len(inputs)} inputs, "
        f"{sum(one.size for one in chosen)} B, {sum(one.cost_ms for one in chosen):.0f} ms, "
        f"{len(edges)} of {len(reached)} edges",
        flush=True,
    )


def fuzz(target: FuzzTarget, seconds: int) -> bool:
    """Fuzzes a target and writes its corpus; returns False if an input has failed."""
    scratch = TARGET / "inputs" / target.crate.name / target.name.replace("::", "__")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    queue, failed = scratch / "queue", scratch / "failed"
    queue.mkdir()
    failed.mkdir()
    seeds = [path.read_bytes() for path in target.corpus.glob("*")]
    seeds += [path.read_bytes() for path in ROOT.glob(SEEDS.get(target.name, "no seeds"))]
    for seed in seeds:
        (queue / hashlib.sha256(seed).hexdigest()).write_bytes(seed)
    fuzzed = target.run(
        [
            queue,
            f"-max_total_time={seconds}",
            f"-max_len={INPUT_BYTES}",
            f"-len_control={LENGTH_CONTROL}",
            f"-timeout={LONGEST_INPUT_S}",
            f"-artifact_prefix={failed}/",
        ]
    )
    (scratch / "log").write_text(fuzzed.stdout)
    crashes = list(failed.iterdir())
    if fuzzed.returncode:
        print(f"{target.name}: an input fails, see {scratch / 'log'}", flush=True)
        for path in crashes:
            (target.folder / "crashes").mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target.folder / "crashes" / path.name)
    write_corpus(target, scratch)
    return fuzzed.returncode == 0


def main() -> int:
    """Fuzzes the targets named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a target's name")
    parser.add_argument("--seconds", type=int, default=30, help="of fuzzing, for each target")
    parser.add_argument("--packages", nargs="+", metavar="CRATE", help="only these crates' targets")
    options = parser.parse_args()
    all_well = True
    for program, crate in build(options.packages or crates()):
        for target in targets(program, crate):
            if not options.names or any(name in target.name for name in options.names):
                all_well &= fuzz(target, options.seconds)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
