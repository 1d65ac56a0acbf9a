# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The choice of the inputs that are committed."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

import corpus
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


class ChoiceTest(unittest.TestCase):
    """Inputs of a folder."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for size, name in enumerate(["less", "more", "other"], 1):
            (self.folder / name).write_bytes(bytes(size))
        self.inputs = parse_control(CONTROL.format(self.folder))

    def chosen(self, **limits: float) -> list[str]:
        """Names of the inputs chosen within other limits; each takes 100 ms."""
        for one in self.inputs:
            one.cost_ms = 100
        with mock.patch.multiple(corpus, **{"MOST_FILES": 60} | limits):
            return [one.path.name for one in choose(self.inputs)]

    def test_a_control_file_says_what_each_input_reaches(self) -> None:
        self.assertEqual([len(one.features) for one in self.inputs], [1, 3, 1])
        self.assertEqual([len(one.edges) for one in self.inputs], [1, 2, 1])

    def test_an_input_that_adds_nothing_is_left_out(self) -> None:
        self.assertEqual(self.chosen(), ["more", "other"])

    def test_limits_leave_out_what_adds_least(self) -> None:
        self.assertEqual(self.chosen(MOST_FILES=1), ["more"])
        self.assertEqual(self.chosen(MOST_MS=150), ["more"])

    def test_an_input_that_is_too_large_leaves_room(self) -> None:
        self.assertEqual(self.chosen(MOST_BYTES=1), ["less"])


if __name__ == "__main__":
    unittest.main()
