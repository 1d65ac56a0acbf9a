# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A virtual machine with a virtual IOMMU, and a way to run commands in it."""

import base64
import hashlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from image import file_system, kernel
from lab import ServedLab, bus_of, card_on
from own_kernel import own_kernel
from packages import VmError, prepare

# Seconds from the start of QEMU until the guest takes commands; about 5 on an idle machine.
BOOT_SECONDS = 120
# Default limit of a command in seconds.
COMMAND_SECONDS = 120
# Times that a command is sent: a busy host loses characters of a serial line now and then.
SENDINGS = 5
MEMORY_MIB = 1024
# Root ports of a machine that many tests share. A port takes one device in the machine's life: QEMU
# 11 ends by an assertion when a vfio-user device is unplugged.
PORTS = 20
# Most of them that a test takes.
PORTS_OF_A_TEST = 2


class Image:
    """Emulator, kernel and file system, built once for many machines."""

    def __init__(self, folder: Path, programs: dict[str, Path], *, iommufd: bool = False) -> None:
        self.emulator, guest = prepare()
        self.file_system = folder / "initrd"
        if iommufd:
            self.kernel = own_kernel()
            self.file_system.write_bytes(file_system(guest, programs, modules=()))
            return
        self.kernel = folder / "vmlinux"
        self.kernel.write_bytes(kernel(guest))
        self.file_system.write_bytes(file_system(guest, programs))

    def command(self) -> list[str]:
        """QEMU started by its loader, with its libraries and firmware."""
        root = self.emulator
        libraries = root / "usr/lib/x86_64-linux-gnu"
        return [
            str(root / "usr/lib64/ld-linux-x86-64.so.2"),
            *("--library-path", str(libraries), str(root / "usr/bin/qemu-system-x86_64")),
            *("-L", str(root / "usr/share/qemu"), "-L", str(root / "usr/share/seabios")),
        ]


def memory_of(nodes: int) -> list[str]:
    """QEMU's options of the board and its memory, in files that other processes can map."""
    board, memory = "q35,kernel-irqchip=split", "memory-backend-memfd,share=on"
    if nodes == 1:
        backend = f"{memory},id=mem,size={MEMORY_MIB}M"
        return ["-machine", f"{board},memory-backend=mem", "-object", backend]
    options = ["-machine", board]
    for node in range(nodes):
        cores = ",cpus=0" if node == 0 else ""
        options += ["-object", f"{memory},id=mem{node},size={MEMORY_MIB // nodes}M"]
        options += ["-numa", f"node,nodeid={node},memdev=mem{node}{cores}"]
    return options


class CommandError(AssertionError):
    """A command in the guest that ended differently than expected."""


class Machine:
    """A running virtual machine; it ends with the `with` block.

    `devices` are QEMU options, one `-device` each, which also set the PCI addresses. If they have
    an empty `root_port` for each bus from 1 to `PORTS`, others can be plugged in there. Memory is
    shared evenly by the NUMA nodes; the processor is at the first.
    """

    def __init__(
        self, image: Image, folder: Path, devices: Sequence[str | dict] = (), *, nodes: int = 1
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.console = folder / "console.log"
        # The last bus that was given a device, the devices, and labs that end with the machine.
        self.buses = 0
        self.plugged: list[str] = []
        self.labs: list[ServedLab] = []
        command = [
            *image.command(),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", f"{MEMORY_MIB}M"),
            *memory_of(nodes),
            *("-device", "intel-iommu,intremap=on,caching-mode=on"),
            *("-kernel", str(image.kernel), "-initrd", str(image.file_system)),
            # On a busy host the kernel's test of its timer may report a broken one. What is plugged
            # in is found by `plug_device` only, which has the kernel make room for its BARs.
            *(
                "-append",
                "console=ttyS0 intel_iommu=on no_timer_check acpiphp.disable=1 quiet panic=-1",
            ),
            *("-serial", f"file:{self.console}"),
            *("-chardev", f"socket,id=commands,path={folder}/commands,server=on,wait=off"),
            *("-serial", "chardev:commands"),
            *("-qmp", f"unix:{folder}/qmp,server=on,wait=off"),
        ]
        for device in devices:
            text = device if isinstance(device, str) else json.dumps(device)
            command += ["-device", text]
        self.log = (folder / "qemu.log").open("w")
        # QEMU's libraries must not search the host's paths.
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=environment
        )
        try:
            self.commands = self._connect("commands")
            self.unread = b""
            self._read_until(b"ready\n", BOOT_SECONDS, "booting")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Machine":
        """The machine, already running."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the machine, however the block ended."""
        self.close()

    def close(self) -> None:
        """Ends the machine."""
        self.process.kill()
        self.process.wait()
        self.log.close()
        for lab in self.labs:
            lab.close()

    def _said(self) -> str:
        """The last lines of the guest's console and of QEMU, for messages."""
        lines = []
        for name in ("console.log", "qemu.log"):
            path = self.folder / name
            text = path.read_text(errors="replace") if path.exists() else ""
            lines += [f"{name}: {line}" for line in text.strip().splitlines()[-25:]]
        return "\n".join(lines)

    def _connect(self, name: str) -> socket.socket:
        path = str(self.folder / name)
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                line.connect(path)
                return line
            except OSError as error:
                line.close()
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise VmError(f"QEMU did not start\n{self._said()}") from error
                time.sleep(0.02)

    def _read_until(self, mark: bytes, seconds: float, what: str) -> bytes:
        deadline = time.monotonic() + seconds
        while mark not in self.unread:
            left = deadline - time.monotonic()
            if left <= 0:
                raise VmError(f"{what} took longer than {seconds} s\n{self._said()}")
            self.commands.settimeout(left)
            try:
                part = self.commands.recv(1 << 16)
            except TimeoutError:
                continue
            except ConnectionResetError:
                part = b""
            if not part:
                raise VmError(f"the machine ended while {what}\n{self._said()}")
            self.unread += part
        found, self.unread = self.unread.split(mark, 1)
        return found

    def attempt(self, script: str, seconds: float = COMMAND_SECONDS) -> tuple[int, str]:
        """Runs a shell script in the guest; returns its exit code and output."""
        checksum = hashlib.md5(script.encode(), usedforsecurity=False).hexdigest()
        sent = f"{checksum} ".encode() + base64.b64encode(script.encode()) + b"\n"
        for _ in range(SENDINGS):
            self.commands.settimeout(seconds)
            self.commands.sendall(sent)
            output = self._read_until(b"exit ", seconds, f"running {script!r}")
            code = self._read_until(b"\n", seconds, f"running {script!r}")
            if code != b"again":
                return int(code), base64.b64decode(output).decode(errors="replace")
        raise VmError(f"the serial line has lost a part of {script!r} {SENDINGS} times")

    def run(self, script: str, seconds: float = COMMAND_SECONDS) -> str:
        """The same for a script that must succeed."""
        code, output = self.attempt(script, seconds)
        if code != 0:
            raise CommandError(f"{script!r} ended with {code}:\n{output}\n{self._said()}")
        return output

    def until(self, condition: str) -> None:
        """Waits until a command in the guest succeeds."""
        self.run(f"for i in $(seq 1000); do {condition} && exit; sleep 0.1; done; exit 1")

    def monitor(self, command: str, **arguments: object) -> object:
        """Sends a command to QEMU's monitor (QMP)."""
        line = self._connect("qmp")
        with line, line.makefile("rwb") as file:
            line.settimeout(COMMAND_SECONDS)
            file.readline()
            for name, values in (("qmp_capabilities", {}), (command, arguments)):
                file.write(json.dumps({"execute": name, "arguments": values}).encode() + b"\n")
                file.flush()
                answer = json.loads(file.readline())
                while "event" in answer:
                    answer = json.loads(file.readline())
                if "error" in answer:
                    raise VmError(f"{name}: {answer['error']['desc']}")
        return answer["return"]

    def plug_device(self, device: dict) -> str:
        """Plugs a device in below the next root port; returns its address in the guest."""
        self.buses += 1
        self.monitor("device_add", bus=f"port{self.buses}", **device)
        card = card_on(self.buses)
        self.plugged.append(card)
        self.rescan(card)
        return card

    def rescan(self, card: str) -> None:
        """Has the guest scan the bus of a device: others may have the devices of earlier tests."""
        self.run(f"echo 1 >/sys/class/pci_bus/{card.removesuffix(':00.0')}/rescan")

    def plug(self, lab: ServedLab) -> list[str]:
        """The same for all endpoints of a lab, which ends with the machine."""
        self.labs.append(lab)
        return [self.plug_device(card) for card in lab.cards()]

    def clear(self) -> None:
        """Kills a test's programs and removes its devices, files and kernel messages."""
        # A device is released when its program has ended.
        script = "while killall -q -9 crosslane edu; do sleep 0.1; done\nrm -rf /tmp/*"
        for card in self.plugged:
            script += f" && echo 1 >/sys/bus/pci/devices/{card}/remove"
        self.run(f"{script} && dmesg -c >/dev/null")
        self.plugged = []

    def has_room(self) -> bool:
        """Whether there are ports for another test."""
        return self.buses + PORTS_OF_A_TEST <= PORTS

    def inject(self, card: str, error: str) -> None:
        """Has the root port above a card report an error of its link (AER), by QEMU's name."""
        port = f"port{bus_of(card)}"
        said = self.monitor(
            "human-monitor-command", **{"command-line": f"pcie_aer_inject_error {port} {error}"}
        )
        if not str(said).startswith("OK"):
            raise VmError(f"{port} reports no {error}: {said}")


# Plugs endpoints of a lab into the shared machine; returns their addresses in the guest.
Plug = Callable[..., list[str]]
