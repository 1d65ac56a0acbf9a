# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs in the gateware that its tests must find.

Each mutation of `*.toml` replaces a piece of text in a copy of a file of `gateware/`, which tests
then have in place of that file; the test that it names must fail: a copy that does not compile is
an error here. CI runs the quick ones, `make test-gateware` all. A mutation that was found is
remembered like a pass.
"""

import functools
import importlib
import sys
import tomllib
from pathlib import Path

import pytest

GATEWARE = Path(__file__).resolve().parent.parent
LISTS = Path(__file__).resolve().parent
COPIES = GATEWARE / "build" / "mutations"
for folder in ("tb", "formal", "boards"):
    sys.path.insert(0, str(GATEWARE / folder))
import model  # noqa: E402
from simulate import ALL, has_passed, tools  # noqa: E402

LISTED = [
    mutation
    for file in sorted(LISTS.glob("*.toml"))
    for mutation in tomllib.loads(file.read_text())["mutation"]
]
CHOSEN = [mutation for mutation in LISTED if ALL or mutation.get("quick")]


def mutated(mutation: dict) -> Path:
    """The file with the mutation in it."""
    original = GATEWARE / mutation["file"]
    copy = COPIES / mutation["name"] / original.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(original.read_text().replace(mutation["find"], mutation["replace"]))
    return copy


def key_of(mutation: dict) -> str:
    """The hash of everything that the outcome depends on."""
    folders = {"rtl", "tb", mutation["bench"].split("/")[0]}
    files = [path for folder in folders for path in (GATEWARE / folder).rglob("*")]
    sources = sorted(path for path in files if path.suffix in (".sv", ".py"))
    return model.cache.key(tools(), str(sorted(mutation.items())), Path(__file__), *sources)


@pytest.mark.parametrize("mutation", LISTED, ids=lambda mutation: mutation["name"])
def test_mutations_apply(mutation):
    text = (GATEWARE / mutation["file"]).read_text()
    assert text.count(mutation["find"]) == 1


@pytest.mark.parametrize("mutation", CHOSEN, ids=lambda mutation: mutation["name"])
def test_mutations_are_found(mutation, monkeypatch):
    key = key_of(mutation)
    if has_passed(key):
        return
    bench = importlib.import_module(Path(mutation["bench"]).stem)
    original, copy, sources = GATEWARE / mutation["file"], mutated(mutation), model.sources

    def with_copy(*places: Path) -> list[Path]:
        return [copy if path == original else path for path in sources(*places)]

    monkeypatch.setattr(model, "sources", with_copy)
    if mutation["bench"].startswith("formal"):
        monkeypatch.setattr(bench, "sources", with_copy)
        monkeypatch.setattr(bench, "FOLDER", f"{bench.FOLDER}/{mutation['name']}")
    elif "test" in mutation:
        narrowed = functools.partial(narrow, bench.simulate, mutation["test"])
        monkeypatch.setattr(bench, "simulate", narrowed)
    # Failed tests end a simulation by an exit, and assertions of the SystemVerilog its program; a
    # checker of models says that an assertion failed.
    with pytest.raises((AssertionError, RuntimeError, SystemExit)) as found:
        getattr(bench, mutation["run"])(*mutation["arguments"])
    why = str(found.value)
    if mutation["bench"].startswith("formal"):
        assert "Status: FAILED" in why, why
    else:
        assert found.type is SystemExit or why.startswith("Command failed"), why
    model.cache.remember(key, f"mutation {mutation['name']}")


def narrow(run, test, *given, **others):
    """Runs one of the cocotb tests of a bench."""
    run(*given, **(others | {"tests": test}))
