# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks the SystemVerilog: Verilator with all warnings as errors, verible's rules and format.

`--format` formats the files instead of checking them. Files that passed are not checked again until
one of them or a tool changes (tools/cache.py).
"""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent / folder) for folder in ("tb", "boards")]
import boards  # noqa: E402
from board_model import STUBS, beside  # noqa: E402
from model import GATEWARE, ROOT, RTL, VERILATOR_ROOT, WARNINGS, cache, sources  # noqa: E402

FORMAT = ["verible-verilog-format", "--column_limit", "100"]
# Generated: Verilator checks them with the modules that use them; their style is not checked.
GENERATED = RTL / "generated"
# yosys reads them; only their style is checked here.
PROOFS = GATEWARE / "formal"


def tool(name: str) -> str:
    """Path of a program beside the running Python."""
    return str(Path(sys.executable).parent / name)


def own_files() -> list[Path]:
    """All handwritten files."""
    files = [
        *RTL.rglob("*.sv"),
        *(GATEWARE / "tb").rglob("*.sv"),
        *(GATEWARE / "syn").rglob("*.sv"),
        *PROOFS.glob("*.sv"),
        *boards.FOLDER.rglob("*.sv"),
        *(ROOT / "examples").rglob("*.sv"),
    ]
    return sorted(path for path in files if GENERATED not in path.parents)


def check_formatted(path: Path) -> bool:
    """Whether verible would leave a file as it is."""
    command = [tool(FORMAT[0]), *FORMAT[1:], str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    if shown.stdout != path.read_text():
        print(f"{path.relative_to(GATEWARE.parent)}: not formatted (make fmt)")
        return False
    return True


def check_style(files: list[Path]) -> bool:
    """Whether verible reports nothing."""
    rules = str(GATEWARE / "verible.rules")
    command = [tool("verible-verilog-lint"), "--rules_config", rules, *map(str, files)]
    return subprocess.run(command).returncode == 0


def check_module(path: Path) -> bool:
    """Whether Verilator reports nothing for a module and those below it; for a board's top with
    empty modules in place of the vendor's."""
    environment = {**os.environ, "VERILATOR_ROOT": str(VERILATOR_ROOT)}
    command = [str(VERILATOR_ROOT / "bin" / "verilator"), "--lint-only", "--quiet", *WARNINGS]
    command += ["--timescale", "1ns/1ps", "--top-module", path.stem, f"-I{RTL}"]
    name = path.parent.name
    folders = ()
    if name in boards.NAMES:
        folders = beside(name)
    elif boards.FOLDER in path.parents:
        own = [boards.FOLDER / folder for folder in ("evn_ecp5", "transceivers", boards.AWS_F2)]
        shell = STUBS / boards.AWS_F2
        folders = (STUBS, *own, shell, GATEWARE / "tb" / "tops")
        command += [f"-I{shell}", f"-I{boards.FOLDER / boards.AWS_F2}"]
    command += [str(source) for source in sources(path, *folders)]
    return subprocess.run(command, env=environment).returncode == 0


def main() -> int:
    """Formats, or checks everything; returns 1 on a failure."""
    files = own_files()
    if "--format" in sys.argv:
        command = [tool(FORMAT[0]), *FORMAT[1:], "--inplace", *map(str, files)]
        return subprocess.run(command).returncode
    versions = [metadata.version(name) for name in ("verilator", "verible")]
    read = [
        Path(__file__),
        GATEWARE / "tb" / "model.py",
        GATEWARE / "verible.rules",
        *sorted(path for ending in ("py", "tcl") for path in boards.FOLDER.rglob(f"*.{ending}")),
        *files,
        *sorted(GENERATED.glob("*.sv")),
    ]
    key = cache.key(*versions, *(str(path.relative_to(ROOT)) for path in read), *read)
    if cache.remembered(key):
        print("gateware/lint.py: remembered, nothing has changed since it passed")
        return 0
    # Modules that boards have in common are checked with each of them.
    left_out = [boards.FOLDER / "rtl", STUBS, PROOFS]
    modules = [path for path in files if not path.stem.endswith("_pkg")]
    modules = [path for path in modules if path.parent not in left_out]
    good = [check_style(files), *map(check_formatted, files), *map(check_module, modules)]
    if not all(good):
        return 1
    cache.remember(key, "gateware/lint.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
