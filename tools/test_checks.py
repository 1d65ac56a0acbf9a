# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The runner of the checks: order, failures, and counts."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import checks
from checks import STEPS, Run, Step, counts_in

MAKEFILE = """
one: ; @echo 'test result: ok. 7 passed; 0 failed; 2 ignored; 0 measured'
two: ; @echo '==== 1 failed, 3 passed in 0.50s ====' && false
three: ; @touch three-has-run
five: ; @echo 'it waits for good' && sleep 1000
four: ; @test -e first-was-there || touch four-has-run
"""


class RunnerTest(unittest.TestCase):
    """Runs of small makefiles."""

    def run_steps(self, *steps: Step) -> tuple[bool, str, Path]:
        """Whether all have passed, the output, and the folder they ran in."""
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "Makefile").write_text(MAKEFILE)
        self.enterContext(mock.patch.object(checks, "ROOT", folder))
        self.enterContext(mock.patch.object(checks, "LOGS", folder))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            passed = Run(list(steps)).all()
        return passed, printed.getvalue(), folder

    def test_all_passed(self) -> None:
        """The counts of a step that passed are in the table and in the last line."""
        passed, printed, _ = self.run_steps(Step("one"), Step("four", cargo=True))
        self.assertTrue(passed)
        self.assertIn("\n7 passed, 0 failed\n", printed)
        self.assertRegex(printed, r"one +\d+   7\n")

    def test_failure_stops_what_needs_it(self) -> None:
        """A failed step's output is shown, and the steps that need it are not run; the rest is."""
        steps = (Step("two"), Step("three", after=("two",)), Step("four"))
        passed, printed, folder = self.run_steps(*steps)
        self.assertFalse(passed)
        self.assertIn("==== two FAILED", printed)
        self.assertIn("\n3 passed, 1 failed\n", printed)
        self.assertFalse((folder / "three-has-run").exists())
        self.assertTrue((folder / "four-has-run").exists())

    def test_what_hangs_is_ended(self) -> None:
        """A step that runs for too long fails, with its output, and the others run."""
        passed, printed, _ = self.run_steps(Step("five", limit_seconds=0.2), Step("one"))
        self.assertFalse(passed)
        self.assertIn("it waits for good", printed)
        self.assertIn("\n7 passed, 0 failed\n", printed)

    def test_unknown_target_fails(self) -> None:
        """A step without a make target does not count as passed."""
        passed, printed, _ = self.run_steps(Step("nowhere"))
        self.assertFalse(passed)
        self.assertIn("nowhere FAILED", printed)

    def test_counts(self) -> None:
        """Closing lines of cargo, pytest and unittest are added up; other lines are not."""
        text = (
            "test result: FAILED. 5 passed; 2 failed; 0 ignored\n"
            "===== 4 passed, 1 skipped in 12.00s =====\n"
            "1 failed in 3.10s\n"
            "Ran 19 tests in 88.011s\n"
            "12 passed through here\n"
        )
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "log").write_text(text)
        self.assertEqual(counts_in(folder / "log"), (28, 3))


class StepsTest(unittest.TestCase):
    """The list of steps beside the Makefile and its document."""

    ROOT = Path(__file__).resolve().parent.parent

    def test_steps_are_targets_and_documented(self) -> None:
        """Every step is a make target, and docs/checks.md explains it."""
        makefile = (self.ROOT / "Makefile").read_text()
        document = (self.ROOT / "docs" / "checks.md").read_text()
        for step in STEPS:
            self.assertRegex(makefile, rf"(?m)^{step.target}:.* ## ")
            self.assertIn(f"| `{step.target}` |", document)

    def test_what_is_needed_comes_before(self) -> None:
        """A step needs only steps listed before it."""
        names = [step.target for step in STEPS]
        for number, step in enumerate(STEPS):
            self.assertLessEqual(set(step.after), set(names[:number]))


if __name__ == "__main__":
    unittest.main()
