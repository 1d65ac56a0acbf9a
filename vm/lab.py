# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Endpoints of a lab as PCI devices of a virtual machine."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from packages import VmError

# Seconds until the server's sockets are there.
START_SECONDS = 60
# Guest addresses of the root ports that served devices stand behind begin with this slot.
FIRST_SLOT = 8


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
        for index, socket in enumerate(self.sockets):
            slot = f"0x{FIRST_SLOT + index:x}"
            port = f"port{index}"
            options.append(
                {"driver": "pcie-root-port", "id": port, "addr": slot, "chassis": index + 1}
            )
            options.append(
                {
                    "driver": "vfio-user-pci",
                    "id": f"card{index}",
                    "bus": port,
                    "socket": {"type": "unix", "path": str(socket)},
                }
            )
        return options

    def said(self) -> str:
        """What the server has printed."""
        return self.log_path.read_text(errors="replace")

    def close(self) -> None:
        """Ends the server."""
        self.process.kill()
        self.process.wait()
        self.log.close()
