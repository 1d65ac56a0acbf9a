# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page that says which call of the Rust library is which in C and Python: its names exist, and
it has all calls of the stubs that are for cards and for the bridge's client."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import crosslane
from conftest import ROOT

#: Classes whose calls and properties are all on the page, but for those below.
CLASSES = [
    "BridgeBuffer",
    "BridgeClient",
    "BridgeTransfer",
    "Buffer",
    "Card",
    "MemoryCard",
    "NetworkProcessor",
    "Peer",
    "PeerMemory",
    "RemoteCard",
    "Session",
    "SlotReceiver",
    "SlotSender",
    "Window",
]
#: Properties that need no row: lengths of what the caller has made.
PLAIN = {"BridgeTransfer.nbytes"}


def stubs() -> dict[str, set[str]]:
    """Members of the classes of the stubs, each with the names of its arguments."""
    text = (Path(crosslane.__file__).parent / "_native.pyi").read_text()
    members: dict[str, set[str]] = {}
    for found in ast.parse(text).body:
        inner = found.body if isinstance(found, ast.ClassDef) else [found]
        prefix = found.name if isinstance(found, ast.ClassDef) else "crosslane"
        for call in inner:
            if isinstance(call, ast.FunctionDef) and not call.name.startswith("__"):
                names = [*call.args.args, *call.args.kwonlyargs]
                members[f"{prefix}.{call.name}"] = {name.arg for name in names}
    return members


def on_page() -> set[str]:
    """Names of the page's column for Python."""
    page = (ROOT / "docs/languages.md").read_text()
    cells = [line.split("|")[3] for line in page.splitlines() if line.startswith("| ")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_names_of_the_page_exist() -> None:
    members = stubs()
    for name in on_page():
        match = re.fullmatch(r"(\w+)\.(\w+)(?:\((\w+)=\))?", name)
        if match is None:
            assert name in {"memoryview(buffer)", "await transfer", "deadline="}, name
            continue
        of, member, argument = match.groups()
        if of == "TransferError":
            assert hasattr(crosslane.TransferError(""), member), name
            continue
        assert hasattr(crosslane if of == "crosslane" else getattr(crosslane, of), member), name
        if argument is not None:
            assert argument in members[f"{of}.{member}"], name


def test_the_page_has_every_call_of_the_stubs() -> None:
    named = {name.split("(")[0] for name in on_page() if "." in name}
    of_cards = {name for name in stubs() if name.split(".")[0] in CLASSES} - PLAIN
    assert len(of_cards) > 80
    assert sorted(of_cards - named) == []
