# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Endpoints of a lab as PCI devices of a virtual machine."""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from packages import VmError

# Seconds until the server's sockets exist.
START_SECONDS = 60
# The root ports of served devices have guest addresses from this slot on.
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

    def devices(self) -> list[str | dict]:
        """QEMU's options: a root port for each endpoint, and the endpoint below it."""
        options: list[str | dict] = []
        for index in range(len(self.sockets)):
            slot, port = f"0x{FIRST_SLOT + index:x}", f"root{index}"
            options.append(
                {"driver": "pcie-root-port", "id": port, "addr": slot, "chassis": index + 1}
            )
            options.append(self._device(index, port))
        return options

    def devices_below_a_switch(self) -> list[str | dict]:
        """The same with one root port, a switch below it, and the endpoints below that: it has no
        Access Control Services, so their peer-to-peer traffic stays in the switch."""
        options: list[str | dict] = [
            {"driver": "pcie-root-port", "id": "root", "addr": f"0x{FIRST_SLOT:x}", "chassis": 1},
            {"driver": "x3130-upstream", "id": "up", "bus": "root"},
        ]
        for index in range(len(self.sockets)):
            port = f"down{index}"
            options.append(
                {"driver": "xio3130-downstream", "id": port, "bus": "up", "chassis": index + 2}
            )
            options.append(self._device(index, port))
        return options

    def _device(self, index: int, port: str) -> dict:
        socket = {"type": "unix", "path": str(self.sockets[index])}
        return {"driver": "vfio-user-pci", "id": f"card{index}", "bus": port, "socket": socket}

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
