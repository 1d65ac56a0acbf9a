# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The JSON Schema of lab files takes every shipped lab, and refuses what the reader refuses."""

import copy
import json
import tomllib
from functools import reduce
from operator import getitem
from pathlib import Path

import fastjsonschema
import pytest

LABS = Path(__file__).resolve().parent.parent / "labs"
CHECK = fastjsonschema.compile(json.loads((LABS / "lab.schema.json").read_text()))


def lab(name: str) -> dict:
    """A shipped lab."""
    return tomllib.loads((LABS / f"{name}.toml").read_text())


@pytest.mark.parametrize("name", sorted(path.stem for path in LABS.glob("*.toml")))
def test_shipped_labs_fit(name: str) -> None:
    CHECK(lab(name))


SOURCE = {"source": "assumption: any"}
WRONG = {
    "an unknown key": (("part", "card", "requester", "tag"), {"value": 1, **SOURCE}),
    "no source": (("part", "card", "requester", "tags"), {"value": 64}),
    "no kind of source": (("part", "card", "requester", "tags"), {"value": 64, "source": "mine"}),
    "beyond its bounds": (("part", "card", "requester", "tags"), {"value": 1025, **SOURCE}),
    "no power of two": (("part", "card", "port", "max_payload_bytes"), {"value": 192, **SOURCE}),
    "no lanes": (("part", "slot", "width"), {"value": 3, **SOURCE}),
    "a word of no meaning": (
        ("part", "card", "memory", "completion_cut"),
        {"value": "x", **SOURCE},
    ),
    "a time below 0": (("part", "card", "port", "receive_latency_ns"), {"value": -1, **SOURCE}),
    "no identity": (("part", "card", "identity"), {"value": "12:34", **SOURCE}),
    "a key of another device": (("part", "card", "engine", "outstanding_reads"), SOURCE),
    "a range of one end": (("part", "card", "requester", "tags"), {"value": 8, "low": 1, **SOURCE}),
    "a range of a word": (
        ("part", "host", "peer_to_peer", "allowed"),
        {"value": True, "low": 0, "high": 1, **SOURCE},
    ),
    "a kind of no part": (("part", "card", "kind"), "cards"),
    "a table in a table's place": (("host",), {}),
}


@pytest.mark.parametrize("what", WRONG)
def test_mistakes_are_refused(what: str) -> None:
    wrong = copy.deepcopy(lab("minimal"))
    (*path, key), value = WRONG[what]
    reduce(getitem, path, wrong)[key] = value
    with pytest.raises(fastjsonschema.JsonSchemaException):
        CHECK(wrong)


def test_a_number_has_a_range() -> None:
    ranged = copy.deepcopy(lab("minimal"))
    tags = ranged["part"]["card"]["requester"]["tags"]
    ranged["part"]["card"]["requester"]["tags"] = {**tags, "low": 32, "high": 256}
    CHECK(ranged)


@pytest.mark.parametrize("path", ["lab", "part.card.port", "part.card.requester.tags", "host"])
def test_what_is_needed_is_missed(path: str) -> None:
    short = lab("minimal")
    *path, key = path.split(".")
    del reduce(getitem, path, short)[key]
    with pytest.raises(fastjsonschema.JsonSchemaException):
        CHECK(short)
