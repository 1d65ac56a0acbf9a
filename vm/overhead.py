# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the cost of an access and of a transfer in a lab, over a socket and in a virtual
machine, one after the other, and writes the table into docs/vm.md.
"""

import json
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from lab import ServedLab
from machine import Image, Machine

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "vm.md"
BEGIN, END = "<!-- overhead -->", "<!-- end of overhead -->"
LAB, ENDPOINT = "rosta:crosslane", "fpga1"
CARD = "0000:01:00.0"
LARGE = "1M"
PICOSECONDS_OF_US = 1_000_000


def measure(program: Path, device: str) -> list[dict]:
    """Rows of `bench overhead` of one card, measured here."""
    command = [str(program), "bench", "overhead", "--device", device, "--large", LARGE, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["rows"]


def table(lab: list[dict], socket: list[dict], machine: list[dict]) -> str:
    """The three measurements side by side, microseconds each."""
    lines = [
        "| each | bytes | lab, simulated | lab, real time | vfio-user | virtual machine |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for in_lab, over_socket, in_machine in zip(lab, socket, machine, strict=True):
        times = (
            in_lab["bus_ps"],
            in_lab["machine_ps"],
            over_socket["machine_ps"],
            in_machine["machine_ps"],
        )
        cells = [f"{time / PICOSECONDS_OF_US:.1f}" for time in times]
        size = in_lab["bytes"] or "-"
        lines.append(f"| {in_lab['what']} | {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(program: Path) -> None:
    """Measures one after the other and writes the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_lab = measure(program, f"lab:{LAB}/{ENDPOINT}")
        with closing(ServedLab(program, folder / "socket", LAB, [ENDPOINT])) as lab:
            over_socket = measure(program, f"vfio-user:{lab.sockets[0]}")
        stripped = folder / "crosslane"
        subprocess.run(["strip", "-o", str(stripped), str(program)], check=True)
        with closing(ServedLab(program, folder / "served", LAB, [ENDPOINT])) as lab:
            image = Image(folder, {"crosslane": stripped})
            with Machine(image, folder / "machine", lab.devices()) as machine:
                machine.run(f"crosslane device bind {CARD}")
                told = machine.run(
                    f"crosslane bench overhead --device vfio:{CARD} --large {LARGE} --json", 400
                )
    text = table(in_lab, over_socket, json.loads(told)["rows"])
    print(text)
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
