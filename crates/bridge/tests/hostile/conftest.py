# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Shared by the tests of hostile clients and servers: the program, and its server."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import wire

#: The program of the same build.
PROGRAM = os.environ.get("CROSSLANE_PROGRAM", "crosslane")
#: Name of the card that nobody means harm, and size of each.
OTHERS = "others"
CARD_BYTES = 1 << 20


@dataclass
class Resources:
    """Files, threads and memory of a process."""

    files: int
    threads: int
    memory_kib: int


@dataclass
class Server:
    """A bridge's server with memory for a card."""

    process: subprocess.Popen[str]
    address: str
    log: Path
    #: Its resources when nobody is there.
    idle: Resources = field(init=False)

    def __post_init__(self) -> None:
        """Has it serve a client first: it then has all threads that stay."""
        files = self.resources().files
        self.serves()
        while (now := self.resources()).files > files:
            time.sleep(0.01)
        self.idle = now

    def resources(self) -> Resources:
        """Its resources now."""
        of = Path(f"/proc/{self.process.pid}")
        files, threads = (sum(1 for _ in (of / name).iterdir()) for name in ("fd", "task"))
        line = next(it for it in (of / "status").read_text().splitlines() if "RssAnon" in it)
        return Resources(files, threads, int(line.split()[1]))

    def serves(self) -> None:
        """It moves a good client's data, and its own answers are right."""
        assert self.process.poll() is None, f"the server has ended: {self.log.read_text()}"
        data = bytes(at * 7 & 255 for at in range(50_000))
        length, checksum = len(data), zlib.crc32(data)
        with wire.greeted(self.address) as link:
            link.lent = {1: bytearray(data), 2: bytearray(length)}
            put, get = (wire.memory(0, key, length) for key in (1, 2))
            link.say(wire.Transfer(card=OTHERS, length=length, source=put).encode())
            assert link.reply(wire.REPLY_DONE, wire.REPLY_FAILED)[:1] == b"\4"
            from_card = wire.Transfer(wire.FROM_FPGA, card=OTHERS, length=length, destination=get)
            link.say(from_card.encode())
            done = link.reply(wire.REPLY_DONE, wire.REPLY_FAILED)
            assert done[:1] == b"\4"
            assert wire.number(checksum) in done
            assert link.lent[2] == data


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for everybody of this machine."""
    log = tmp_path_factory.mktemp("server") / "log"
    command = [PROGRAM, "bridge", "serve"]
    for name in ("card", OTHERS):
        command += ["--device", f"{name}=mem:{CARD_BYTES}"]
    command += ["--listen", "127.0.0.1:0", "--network", "tls"]
    # As on two cores, whatever this machine has; and large blocks go back to the system.
    environment = os.environ | {"MALLOC_ARENA_MAX": "16", "MALLOC_MMAP_THRESHOLD_": "131072"}
    with (
        log.open("w") as into,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=into, text=True, env=environment
        ) as process,
    ):
        try:
            yield Server(process, process.stdout.readline().split()[-1], log)
        finally:
            process.kill()


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A client of the program, until the end of the block."""
    pipe = subprocess.PIPE
    command = [PROGRAM, "bridge", *arguments]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def run(*arguments: str) -> tuple[int, str, str]:
    """Runs a client of the program to its end: exit code, output, errors."""
    with running(*arguments) as process:
        output, errors = process.communicate(timeout=30)
        return process.returncode, output, errors
