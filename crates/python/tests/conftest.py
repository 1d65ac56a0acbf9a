# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Shared by the tests: the program, and labs."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crosslane import Card, RemoteCard

#: The program of the same build.
PROGRAM = Path(os.environ.get("CROSSLANE_PROGRAM", "crosslane"))


#: The tree.
ROOT = Path(__file__).parents[3]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page of the tree that are in a language."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def program(*arguments: str) -> Any:
    """The program's output with `--json`."""
    command = [str(PROGRAM), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def still_works(card: Card | RemoteCard) -> None:
    """Whether a card, of this node or another, moves data as before."""
    back = bytearray(64)
    card.to_card(b"\x55" * 64, 0).wait()
    card.from_card(back, 0).wait()
    assert back == b"\x55" * 64


def mpirun(ranks: int, *arguments: str) -> str:
    """The output of Python programs that are the ranks of an MPI job on this machine."""
    if shutil.which("mpirun") is None and "CROSSLANE_CI" not in os.environ:
        pytest.skip("there is no mpirun: install openmpi-bin")
    # `root` runs them, and they may be more than the cores.
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    command += [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass
class Server:
    """A bridge's server."""

    process: subprocess.Popen[str]
    address: str


@contextlib.contextmanager
def served(
    *arguments: str, network: str = "tls", device: str = "lab:sbdt:crosslane"
) -> Iterator[Server]:
    """A bridge's server with a card of a lab, and more arguments of the program."""
    command = [str(PROGRAM), "bridge", "serve", "--device", device]
    command += ["--listen", "127.0.0.1:0", "--network", network, *arguments]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdout=pipe, stderr=null, text=True) as process:
        try:
            assert process.stdout is not None
            # It says where it is when it is ready.
            yield Server(process, process.stdout.readline().split()[-1])
        finally:
            process.kill()


def in_child(call: Callable[[], None]) -> int:
    """Exit status of a forked child that makes a call and drops what it has."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            call()
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def numpy() -> Any:
    """The package numpy, where it is installed."""
    return pytest.importorskip("numpy")
