# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The runner of the checks: order, failures, and counts."""

import re

import checks
import pytest
from checks import ROOT, STEPS, Run, Step, counts_in, failed_in

MAKEFILE = """
one: ; @sleep 0.3; echo 'test result: ok. 7 passed; 0 failed; 2 ignored; 0 measured'
two: ; @echo 'FAILED test_it.py::test_two' && echo '==== 1 failed, 3 passed in 0.50s ====' && false
three: ; @touch three-has-run
five: ; @echo 'it waits for good' && sleep 1000
six seven: ; @sleep 0.3
four: ; @test -e first-was-there || touch four-has-run
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs steps of a small makefile in a folder: whether all have passed, and the output."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    monkeypatch.setattr(checks, "LOGS", tmp_path)

    def run_steps(*steps: Step) -> tuple[bool, str]:
        passed = Run(list(steps)).all()
        return passed, capsys.readouterr().out

    return run_steps


def test_counts_of_a_step_are_in_the_table_and_the_last_line(run):
    passed, printed = run(Step("one"), Step("four", writes="debug"))
    assert passed
    assert "\n7 passed, 0 failed\n" in printed
    assert re.search(r"one +\d+   7\n", printed)


def test_failure_stops_what_needs_it(run, tmp_path):
    """A failed step's output is shown, and the steps that need it are not run; the rest is."""
    passed, printed = run(Step("two"), Step("three", after=("two",)), Step("four"))
    assert not passed
    assert "==== two FAILED" in printed
    assert "\n3 passed, 1 failed\n" in printed
    assert re.search(r"two .*FAILED \(1 tests\)\n    FAILED test_it.py::test_two\n", printed)
    assert not (tmp_path / "three-has-run").exists()
    assert (tmp_path / "four-has-run").exists()


def test_steps_that_write_one_folder_wait_for_each_other(run):
    """Of two steps that write one folder the second waits; one of another folder runs beside."""
    folders = (("one", "debug"), ("four", "debug"), ("three", "release"))
    passed, printed = run(*(Step(target, writes=folder) for target, folder in folders))
    assert passed
    assert printed.index("three ...") < printed.index("one: passed") < printed.index("four ...")


def test_background_takes_no_place_of_the_others(run):
    """Two run at a time, and one in the background beside them."""
    steps = [Step(name, background=True) for name in ("one", "three")]
    steps += [Step(name) for name in ("six", "seven", "four")]
    passed, printed = run(*steps)
    assert passed
    before_any_has_ended = printed.split("passed")[0]
    assert re.findall(r"(\w+) \.\.\.", before_any_has_ended) == ["one", "six", "seven"]


def test_background_has_all_places_when_no_other_step_is_left(run):
    """Two run at a time as soon as nothing else waits for a place."""
    steps = [Step(name, background=True) for name in ("one", "six", "seven")]
    passed, printed = run(*steps, Step("four"))
    assert passed
    begun_or_ended = re.findall(r"(\w+)(?: \.\.\.|: passed)", printed)
    assert begun_or_ended[:4] == ["one", "four", "four", "six"]
    assert begun_or_ended[4] in ("one", "six")


def test_what_hangs_is_ended(run):
    """A step that runs for too long fails, with its output, and the others run."""
    passed, printed = run(Step("five", limit_seconds=0.2), Step("one"))
    assert not passed
    assert "it waits for good" in printed
    assert "\n7 passed, 0 failed\n" in printed


def test_unknown_target_fails(run):
    passed, printed = run(Step("nowhere"))
    assert not passed
    assert "nowhere FAILED" in printed


def test_closing_lines_of_cargo_pytest_and_unittest_are_added_up(tmp_path):
    log = tmp_path / "log"
    log.write_text(
        "test result: FAILED. 5 passed; 2 failed; 0 ignored\n"
        "===== 4 passed, 1 skipped in 12.00s =====\n"
        "1 failed in 3.10s\n"
        "Ran 19 tests in 88.011s\n"
        "12 passed through here\n"
    )
    assert counts_in(log) == (28, 3)


def test_names_of_failed_tests_and_why(tmp_path):
    """The table repeats them, so that the end of a long output says what failed."""
    log = tmp_path / "log"
    log.write_text(
        "test bridge::one ... ok\n"
        "test bridge::two ... FAILED\n"
        "thread 'bridge::two' (6304) panicked at crates/cli/tests/two.rs:312:5:\n"
        "there is no card\n"
        "stack backtrace:\n"
    )
    assert failed_in(log) == log.read_text().splitlines()[1:4]
    log.write_text("FAILED test_it.py::test_it - assert 1 == 2\n" * 30)
    assert len(failed_in(log)) == checks.MOST_NAMED


def test_steps_are_targets_and_documented():
    makefile, document = ((ROOT / name).read_text() for name in ("Makefile", "docs/checks.md"))
    for step in STEPS:
        assert re.search(rf"(?m)^{step.target}:.* ## ", makefile), step
        assert f"| `{step.target}` |" in document, step


def test_what_is_needed_comes_before():
    names = [step.target for step in STEPS]
    for number, step in enumerate(STEPS):
        assert set(step.after) <= set(names[:number])
