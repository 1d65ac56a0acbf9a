# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page of the nights: today's steps beside those run before."""

import os
import subprocess
import unittest

import soak


class PageTest(unittest.TestCase):
    """Rows that are written, kept and left out."""

    def rows_of(self, *targets: str, result: str, commit: str) -> dict[str, str]:
        """Lines of the table for some steps."""
        rows = {}
        for step, words in soak.STEPS.items():
            if step.target in targets:
                step.passed, step.process = result == "passed", None
                rows[step.target] = soak.row(step, words, "2026-01-02", commit)
        return rows

    def test_steps_that_were_not_run_keep_their_rows(self) -> None:
        """A step that is run again has only its new row, in place; one that never ran has none."""
        first = self.rows_of("miri", "mutations", result="passed", commit="aaa")
        page = soak.page("", first)
        self.assertNotIn("test-gateware", page)
        second = self.rows_of("miri", result="failed", commit="bbb")
        page = soak.page(page, second)
        self.assertIn(first["mutations"], page)
        self.assertNotIn(first["miri"], page)
        self.assertIn(second["miri"], page)
        self.assertIn("**failed**", second["miri"])
        self.assertLess(page.index("`make mutations`"), page.index("`make miri`"))
        self.assertEqual(soak.page(page, {}), page)

    def test_seeds_are_named(self) -> None:
        """A row says which seeds were run, so that they can be run again."""
        words = next(words for step, words in soak.STEPS.items() if step.target == "torture")
        self.assertIn(f"{soak.FIRST_SEED}..{soak.FIRST_SEED + 100_000}", words)


class MakeTest(unittest.TestCase):
    """What `make soak` runs first."""

    def test_ci_installs_without_asking(self) -> None:
        """Nobody answers in CI."""
        command = ["make", "--dry-run", "--assume-old=.venv/installed", "soak"]
        environment = os.environ | {"CROSSLANE_CI": "1"}
        done = subprocess.run(
            command, cwd=soak.ROOT, env=environment, capture_output=True, text=True, check=True
        )
        self.assertIn("tools/setup.sh soak --yes\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
