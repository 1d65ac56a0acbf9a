# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the cocotb tests of a Python file on a module.

A test file has cocotb tests and, for pytest, functions that call `simulate`. A run that passed is
remembered by the hash of the model, the Python files, the tools, the seed and the environment, and
is not repeated; `CROSSLANE_IGNORE_PASSES=1` repeats it.
"""

import ast
import functools
import os
import re
import resource
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import cocotb_tools.config
import cocotb_tools.runner
from cocotb_tools.check_results import get_results
from model import BUILD, GATEWARE, ROOT, RTL, Model, cache

TB = GATEWARE / "tb"
# With GATEWARE_ALL=1 tests run with everything; otherwise with the set that CI has time for.
ALL = bool(os.environ.get("GATEWARE_ALL"))
# Seed of the tests' random numbers.
SEED = int(os.environ.get("SEED", "1"))
# Texts that bench modules read when they are imported.
MAPS = [ROOT / "registers" / name for name in ("engine.rdl", "values.rdl")]
DATA = [*MAPS, RTL / "crosslane_pkg.sv"]
WHEELS = [GATEWARE / "requirements.txt", ROOT / "registers" / "requirements.txt"]


@dataclass
class Spent:
    """Resources that the current test has used so far."""

    # Processor seconds.
    build_s: float = 0
    run_s: float = 0
    # Simulations and proofs that ran, and those skipped because they had passed before.
    runs: int = 0
    remembered: int = 0


# conftest.py reads it after each test, and clears it before.
SPENT = Spent()


def widths(*few: int) -> tuple[int, ...]:
    """Widths of the datapath to test with: these few, or all."""
    return (64, 128, 256, 512) if ALL else few


@functools.cache
def tools() -> str:
    """Versions of Python and of the wheels that tests use, as installed."""
    names = [n for file in WHEELS for n in re.findall(r"^([\w-]+)==", file.read_text(), re.M)]
    return "\n".join([sys.version, *(f"{name} {metadata.version(name)}" for name in names)])


def bench_files(test_file: Path) -> list[Path]:
    """A test file and the bench modules that it imports, directly or not."""
    found, to_read = {test_file}, [test_file]
    while to_read:
        names: list[str] = []
        for node in ast.walk(ast.parse(to_read.pop().read_text())):
            if isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
            elif isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
        beside = {
            path
            for name in names
            for folder in (test_file.parent, TB)
            if (path := folder / f"{name}.py").exists()
        }
        to_read += beside - found
        found |= beside
    return sorted(found)


def settings(files: list[Path]) -> list[str]:
    """The environment variables that these files read, and cocotb's."""
    text = "".join(path.read_text() for path in files)
    names = set(re.findall(r"environ(?:\.get\(|\[)\s*[\"'](\w+)[\"']", text))
    names |= {name for name in os.environ if name.startswith("COCOTB_")}
    return [f"{name}={os.environ.get(name)}" for name in sorted(names)]


def has_passed(key: str) -> bool:
    """Whether the running test has passed before with these inputs, by their key."""
    if cache.remembered(key):
        SPENT.remembered += 1
        return True
    SPENT.runs += 1
    return False


def processor_s() -> float:
    """Processor seconds of ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def simulate(
    test_file: str,
    top: str,
    parameters: dict[str, int | str] | None = None,
    *,
    tests: str | None = None,
    environment: dict[str, str] | None = None,
    beside: tuple[Path, ...] = (),
) -> None:
    """Runs the cocotb tests of `test_file` (all, or those that match `tests`, or `ONLY`) on module
    `top`, which is beside the file, in `tops/`, in `rtl/` or in a folder of `beside`.

    The tests find the parameters in the environment as well. `GATEWARE_TRACE=1` writes an FST file,
    `GATEWARE_COVERAGE=1` coverage data, into a folder of `gateware/build/`.
    """
    path = Path(test_file).resolve()
    parameters, tests = parameters or {}, tests or os.environ.get("ONLY")
    places = (path.parent.glob, (TB / "tops").glob, RTL.rglob, *(it.glob for it in beside))
    model = Model(
        top,
        next(file for find in places for file in find(f"{top}.sv")),
        parameters,
        trace=bool(os.environ.get("GATEWARE_TRACE")),
        coverage=bool(os.environ.get("GATEWARE_COVERAGE")),
        beside=beside,
    )
    # Libraries draw the same random numbers each time, too.
    chosen = {"COCOTB_RANDOM_SEED": os.environ.get("SEED", "1")}
    chosen |= {name: str(value) for name, value in parameters.items()} | (environment or {})
    files = bench_files(path)
    parts = [model.key, tools(), *settings(files), str(tests), str(sorted(chosen.items()))]
    key = cache.key(*parts, *(file.name for file in files), *files, *DATA)
    # A run that is to write a file must happen.
    keeps = not (model.trace or model.coverage)
    if keeps and has_passed(key):
        return
    begun_s = processor_s()
    program = model.program()
    SPENT.build_s += processor_s() - begun_s
    begun_s = processor_s()
    run(model, program, BUILD / f"{path.stem}-{top}-{key[:12]}", path, tests, chosen)
    SPENT.run_s += processor_s() - begun_s
    if keeps:
        cache.remember(key, f"{path.stem} {top} {model.parameters} {chosen}")


def run(
    model: Model,
    program: Path,
    folder: Path,
    test_file: Path,
    tests: str | None,
    environment: dict[str, str],
) -> None:
    """Runs the cocotb tests of a file in a folder; fails if one fails, or none has run."""
    # Another process may run the same at the same time.
    results = folder / f"results-{os.getpid()}.xml"
    for place in (TB, test_file.parent):
        if str(place) not in sys.path:
            sys.path.insert(0, str(place))
    runner = cocotb_tools.runner.get_runner("verilator")
    runner.test(
        test_module=test_file.stem,
        hdl_toplevel=model.top,
        hdl_toplevel_lang="verilog",
        build_dir=program.parent,
        test_dir=folder,
        test_filter=tests,
        test_args=["--trace"] if model.trace else [],
        results_xml=str(results),
        extra_env={
            "COCOTB_LOG_LEVEL": "WARNING",
            "LD_LIBRARY_PATH": str(cocotb_tools.config.libs_dir),
            **environment,
        },
    )
    number, failed = get_results(results)
    results.unlink()
    assert number > 0, f"no test of {test_file.name} matches {tests}"
    assert failed == 0
