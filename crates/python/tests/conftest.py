# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Shared by the tests: the program, and labs."""

from __future__ import annotations

import gc
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: The program of the same build.
PROGRAM = Path(os.environ.get("CROSSLANE_PROGRAM", "crosslane"))


def program(*arguments: str) -> Any:
    """The program's output with `--json`."""
    command = [str(PROGRAM), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


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
