# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The model of a network processor as a process: the reference of the gateware's.

The program, an example of crate `device`, is built by cargo and kept in the cache (tools/cache.py)
by the hash of its sources.
"""

import os
import shutil
import subprocess
from pathlib import Path

from model import ROOT, cache

NAME = "network_node_by_lines"
# Of the node, in the order of the first line.
SIZES = {
    "links": 1,
    "put_slots": 2,
    "credit_slots": 2,
    "max_write": 128,
    "channel_datagrams": 8,
    "get_slots": 1,
    "max_read": 512,
    "long": int(os.environ.get("LONG", "0")),
}
CRATES = [ROOT / "crates" / name for name in ("device", "fabric", "torus-link", "pcie", "regs")]


def key() -> str:
    """The hash of everything that goes into the reference."""
    files = [CRATES[0] / "examples" / f"{NAME}.rs"]
    files += sorted((ROOT / "crates/fabric/tests/integration/support").glob("*.rs"))
    for crate in CRATES:
        files += [crate / "Cargo.toml", *sorted((crate / "src").rglob("*.rs"))]
    return cache.key(*files)


def build(folder: Path) -> None:
    """Builds the program into a folder."""
    command = [os.environ.get("CARGO", "cargo"), "build", "--locked", "--quiet"]
    command += ["--package", "crosslane-device", "--example", NAME]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    shutil.copy(target / "debug" / "examples" / NAME, folder / NAME)


def program() -> Path:
    """Path of the example, built if it is missing."""
    return cache.made("reference", f"network-{key()[:20]}", build) / NAME


class Reference:
    """A network processor; crates/device/examples/network_node_by_lines.rs has its language."""

    def __init__(self, **others: int):
        sizes = SIZES | others
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program()], stdin=pipe, stdout=pipe, text=True, bufsize=1)
        self._tell(" ".join(str(sizes[name]) for name in SIZES))

    def _tell(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _ask(self, line: str) -> list[list[str]]:
        self._tell(line)
        answer = self.process.stdout.readline()
        assert answer, f"the reference has ended at: {line}"
        return [word.split(":") for word in answer.split()]

    def store(self, bar: int, offset: int, data: bytes) -> list[list[str]]:
        """Lets the host store; returns writes and datagrams that this leads to."""
        return self._ask(f"w {bar} {offset} {data.hex()}")

    def deliver(self, link: int, header: int, payload: bytes) -> list[list[str]]:
        """Lets a datagram come; returns what this leads to."""
        return self._ask(f"d {link} {header:08x} {payload.hex()}")

    def read(self, offset: int) -> int:
        """A register."""
        ((_, value),) = self._ask(f"r {offset}")
        return int(value, 16)

    def close(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
