# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs commands of yosys, separated by semicolons, in a process of its own: `yosys.py COMMANDS`.

Its wheel is a native library for Python and has no program. Output of yosys goes to standard
output, and a command that fails ends the process with status 1.
"""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

VERSION = metadata.version("pyosys")


def run(commands: str, folder: Path) -> None:
    """Runs the commands in a folder; raises RuntimeError, with the end of the output, if one
    fails."""
    begun = [sys.executable, "-B", __file__, commands]
    done = subprocess.run(begun, cwd=folder, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        said = done.stdout[-4000:] + done.stderr[-4000:]
        raise RuntimeError(f"yosys has failed ({done.returncode}) at: {commands}\n{said}")


def main() -> None:
    """Runs the commands of the command line in this process."""
    from pyosys import libyosys

    libyosys.run_pass(sys.argv[1], libyosys.Design())


if __name__ == "__main__":
    main()
