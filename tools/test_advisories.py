# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The look-up of advisories, in databases that are made up."""

import subprocess
import sys
from pathlib import Path

import advisories
import pytest

CARGO_DENY = advisories.CARGO_DENY


def database(folder: Path, patched: str) -> Path:
    """A database with one advisory for a crate that all of this stands on."""
    advisories.make_empty(folder)
    text = advisories.NONE.replace("RUSTSEC-2000-0001", "RUSTSEC-2026-9999")
    text = text.replace("crosslane-has-no-such-crate", "libc")
    (folder / "crates/libc").mkdir()
    advisory = folder / "crates/libc/RUSTSEC-2026-9999.md"
    advisory.write_text(text.replace("patched = []", f"patched = [{patched}]"))
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    advisories.git("-C", folder, "add", ".", check=True)
    advisories.git("-C", folder, *who, "commit", "-q", "-m", "one", check=True)
    return folder


def looked_up(
    monkeypatch: pytest.MonkeyPatch, named: Path, *arguments: str
) -> subprocess.CompletedProcess:
    monkeypatch.setenv("CROSSLANE_ADVISORY_DB", str(named))
    command = [sys.executable, "-B", advisories.__file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_advisory_for_a_crate_that_is_used_fails(tmp_path, monkeypatch):
    done = looked_up(monkeypatch, database(tmp_path, ""))
    assert done.returncode != 0
    assert "RUSTSEC-2026-9999" in done.stderr
    assert "libc" in done.stderr
    assert "none of those known" not in done.stdout


def test_an_advisory_that_is_mended_is_none(tmp_path, monkeypatch):
    done = looked_up(monkeypatch, database(tmp_path, '"> 0.2.0"'))
    assert done.returncode == 0, done.stderr
    assert "advisories: none of those known on 20" in done.stdout


def test_a_database_that_is_not_there_is_said(tmp_path, monkeypatch):
    done = looked_up(monkeypatch, tmp_path / "nowhere")
    assert done.returncode != 0
    assert "nowhere: no clone" in done.stderr


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--required"], 1)])
def test_without_a_database_advisories_are_not_looked_up(capsys, monkeypatch, arguments, code):
    monkeypatch.delenv("CROSSLANE_ADVISORY_DB", raising=False)
    monkeypatch.setattr(sys, "argv", ["advisories.py", *arguments])
    monkeypatch.setattr(advisories, "is_there", lambda variables: False)
    assert advisories.main() == code
    assert "advisories: not looked up" in capsys.readouterr().out
