# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs commands of yosys, separated by semicolons, in a process of its own: `yosys.py COMMANDS`.

Its wheel is a native library for Python and has no program. Output of yosys goes to standard
output, and a command that fails ends the process with status 1.
"""

import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

VERSION = metadata.version("pyosys")
# A distributed memory of UltraScale+ that its library describes with 2^16 words; the part, and the
# map that takes its place, have 2^9. Folder, file, what is wrong and right.
MENDED = ("xilinx", "lutrams_xcu.txt", ('"ABITS" 16 {', "abits 16;"), ('"ABITS" 9 {', "abits 9;"))


def run(commands: str, folder: Path) -> None:
    """Runs the commands in a folder; raises RuntimeError, with the end of the output, if one
    fails."""
    begun = [sys.executable, "-B", __file__, commands]
    done = subprocess.run(begun, cwd=folder, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        said = done.stdout[-4000:] + done.stderr[-4000:]
        raise RuntimeError(f"yosys has failed ({done.returncode}) at: {commands}\n{said}")


def mend(share: Path, mended: Path) -> None:
    """Fills a folder with links to yosys's libraries, but for the one that is mended."""
    folder, name, wrong, right = MENDED
    (mended / folder).mkdir()
    for path in [*share.iterdir(), *(share / folder).iterdir()]:
        if path not in (share / folder, share / folder / name):
            (mended / path.relative_to(share)).symlink_to(path)
    text = (share / folder / name).read_text()
    for old, new in zip(wrong, right, strict=True):
        text = text.replace(old, new)
    (mended / folder / name).write_text(text)


def main() -> None:
    """Runs the commands of the command line in this process."""
    import pyosys

    with tempfile.TemporaryDirectory() as mended:
        mend(Path(pyosys.__file__).parent / "share", Path(mended))
        # It is read when the library is loaded.
        sys._pyosys_share_dirname = f"{mended}/"
        from pyosys import libyosys

        libyosys.run_pass(sys.argv[1], libyosys.Design())


if __name__ == "__main__":
    main()
