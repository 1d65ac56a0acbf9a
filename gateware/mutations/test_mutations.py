# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs in the gateware that its tests must find.

Each mutation of `*.toml` replaces a piece of text in a copy of `rtl/`; then the test that it names
must fail: a copy that does not compile is an error here. CI runs the quick ones, `make
test-gateware` all. A mutation that was found is remembered like a pass.
"""

import functools
import importlib
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

GATEWARE = Path(__file__).resolve().parent.parent
LISTS = Path(__file__).resolve().parent
COPIES = GATEWARE / "build" / "mutations"
for folder in ("tb", "formal"):
    sys.path.insert(0, str(GATEWARE / folder))
import model  # noqa: E402
import simulate  # noqa: E402
from simulate import ALL, has_passed, tools  # noqa: E402

LISTED = [
    mutation
    for file in sorted(LISTS.glob("*.toml"))
    for mutation in tomllib.loads(file.read_text())["mutation"]
]
CHOSEN = [mutation for mutation in LISTED if ALL or mutation.get("quick")]


def mutated(mutation: dict) -> Path:
    """A copy of `rtl/` with the mutation in it."""
    copy = COPIES / mutation["name"]
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(model.RTL, copy)
    file = copy / mutation["file"]
    file.write_text(file.read_text().replace(mutation["find"], mutation["replace"]))
    return copy


def key_of(mutation: dict) -> str:
    """The hash of everything that the outcome depends on."""
    files = [path for folder in ("rtl", "tb", "formal") for path in (GATEWARE / folder).rglob("*")]
    sources = sorted(path for path in files if path.suffix in (".sv", ".py"))
    return model.cache.key(tools(), str(sorted(mutation.items())), Path(__file__), *sources)


@pytest.mark.parametrize("mutation", LISTED, ids=lambda mutation: mutation["name"])
def test_mutations_apply(mutation):
    text = (model.RTL / mutation["file"]).read_text()
    assert text.count(mutation["find"]) == 1


@pytest.mark.parametrize("mutation", CHOSEN, ids=lambda mutation: mutation["name"])
def test_mutations_are_found(mutation, monkeypatch):
    key = key_of(mutation)
    if has_passed(key):
        return
    bench = importlib.import_module(Path(mutation["bench"]).stem)
    copy = mutated(mutation)
    for module in (model, simulate):
        monkeypatch.setattr(module, "RTL", copy)
    if mutation["bench"].startswith("formal"):
        monkeypatch.setattr(bench, "FOLDER", f"{bench.FOLDER}/{mutation['name']}")
    elif "test" in mutation:
        narrowed = functools.partial(narrow, bench.simulate, mutation["test"])
        monkeypatch.setattr(bench, "simulate", narrowed)
    # Failed tests end a simulation by an exit; a checker of models says that an assertion failed.
    with pytest.raises((AssertionError, SystemExit)) as found:
        getattr(bench, mutation["run"])(*mutation["arguments"])
    is_proof = mutation["bench"].startswith("formal")
    why = str(found.value)
    assert "Status: FAILED" in why if is_proof else found.type is SystemExit, why
    model.cache.remember(key, f"mutation {mutation['name']}")


def narrow(run, test, *given, **others):
    """Runs one of the cocotb tests of a bench."""
    run(*given, **(others | {"tests": test}))
