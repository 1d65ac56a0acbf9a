# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Endpoints of a lab as PCI devices of a virtual machine."""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from packages import VmError

# Seconds until the server's sockets exist.
START_SECONDS = 60
# The root port of bus 1 is at this slot of bus 0, and those of the buses after it behind it.
FIRST_SLOT = 8
# The card of `aws-f1` with less memory: a kernel that maps a BAR maps it page by page.
BAR_BYTES, BANK_BYTES = 16 << 20, 2 << 20


def memory_card(folder: Path, bank_bytes: int = BANK_BYTES) -> Path:
    """The file of a lab with a memory card `f1`."""
    text = (Path(__file__).resolve().parent.parent / "labs/aws-f1.toml").read_text()
    for shipped, less in (("137_438_953_472", BAR_BYTES), ("17_179_869_184", bank_bytes)):
        if shipped not in text:
            raise VmError(f"lab aws-f1 has no {shipped}")
        text = text.replace(shipped, str(less))
    file = folder / "card.toml"
    file.write_text(text)
    return file


def root_port(bus: int) -> dict:
    """QEMU's option of a root port, named by the bus below it."""
    return {
        "driver": "pcie-root-port",
        "id": f"port{bus}",
        "addr": f"0x{FIRST_SLOT + bus - 1:x}",
        "chassis": bus,
    }


def card_on(bus: int) -> str:
    """The guest's address of a device below a root port."""
    return f"0000:{bus:02x}:00.0"


def bus_of(card: str) -> int:
    """The bus of such a device."""
    return int(card.split(":")[1], 16)


def port_above(card: str) -> str:
    """The guest's address of the root port above such a device."""
    return f"0000:00:{FIRST_SLOT + bus_of(card) - 1:02x}.0"


class ServedLab:
    """`crosslane lab serve`, with a socket for each endpoint."""

    def __init__(
        self, program: Path, folder: Path, lab: str, endpoints: Sequence[str], engine: str = "model"
    ) -> None:
        folder.mkdir(parents=True)
        self.sockets = [folder / f"{endpoint}.sock" for endpoint in endpoints]
        command = [str(program), "lab", "serve", lab, "--engine", engine]
        for endpoint, socket in zip(endpoints, self.sockets, strict=True):
            command += ["--device", endpoint, "--socket", str(socket)]
        self.log_path = folder / "serve.log"
        self.log = self.log_path.open("w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
        deadline = time.monotonic() + START_SECONDS
        while not all(socket.exists() for socket in self.sockets):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise VmError(f"the lab is not served:\n{self.said()}")
            time.sleep(0.02)

    def cards(self) -> list[dict]:
        """QEMU's options of the endpoints."""
        return [
            {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": str(socket)}}
            for socket in self.sockets
        ]

    def devices(self) -> list[dict]:
        """The same with a root port above each."""
        return [
            option
            for bus, card in enumerate(self.cards(), start=1)
            for option in (root_port(bus), card | {"bus": f"port{bus}"})
        ]

    def devices_below_a_switch(self) -> list[dict]:
        """The same with one root port, a switch below it, and the endpoints below that: it has no
        Access Control Services, so their peer-to-peer traffic stays in the switch."""
        options = [root_port(1), {"driver": "x3130-upstream", "id": "up", "bus": "port1"}]
        for chassis, card in enumerate(self.cards(), start=2):
            port = f"down{chassis}"
            options.append(
                {"driver": "xio3130-downstream", "id": port, "bus": "up", "chassis": chassis}
            )
            options.append(card | {"bus": port})
        return options

    def said(self) -> str:
        """The server's output."""
        return self.log_path.read_text(errors="replace")

    def close(self) -> None:
        """Ends the server."""
        self.process.kill()
        self.process.wait()
        self.log.close()


# Serves endpoints of a lab.
Serve = Callable[..., ServedLab]
