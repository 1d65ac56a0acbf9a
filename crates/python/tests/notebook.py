#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Notebooks with their outputs: `notebook.py NOTEBOOK ...` executes and writes them anew."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

#: Longest time of a cell, seconds.
TIMEOUT_S = 60


def executed(path: Path) -> Any:
    """A notebook with its outputs, and without what differs from one machine to another."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook,
            timeout=TIMEOUT_S,
            record_timing=False,
            # Printed text comes in pieces, by time.
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


if __name__ == "__main__":
    for name in sys.argv[1:]:
        nbformat.write(executed(Path(name)), name)
