# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The choice of the inputs that are committed."""

import corpus
import pytest
from corpus import choose, parse_control

# Features of three inputs, eight to an edge: the first is part of the second.
CONTROL = """3
0
{0}/less
{0}/more
{0}/other
STARTED 0 1
FT 0 8
COV 0 1
STARTED 1 2
FT 1 8 9 16
COV 1 2
STARTED 2 3
FT 2 24
COV 2 3
"""


@pytest.fixture
def inputs(tmp_path):
    """Inputs of a folder; each takes 100 ms."""
    for size, name in enumerate(["less", "more", "other"], 1):
        (tmp_path / name).write_bytes(bytes(size))
    found = parse_control(CONTROL.format(tmp_path))
    for one in found:
        one.cost_ms = 100
    return found


def test_a_control_file_says_what_each_input_reaches(inputs):
    assert [len(one.features) for one in inputs] == [1, 3, 1]
    assert [len(one.edges) for one in inputs] == [1, 2, 1]


LIMITS = [
    # An input that adds nothing is left out.
    ({}, ["more", "other"]),
    # Limits leave out what adds least.
    ({"MOST_FILES": 1}, ["more"]),
    ({"MOST_MS": 150}, ["more"]),
    # An input that is too large leaves room.
    ({"MOST_BYTES": 1}, ["less"]),
]


@pytest.mark.parametrize(("limits", "names"), LIMITS)
def test_inputs_are_chosen_within_limits(inputs, monkeypatch, limits, names):
    for limit, value in limits.items():
        monkeypatch.setattr(corpus, limit, value)
    assert [one.path.name for one in choose(inputs)] == names
