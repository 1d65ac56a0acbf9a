# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page of the nights, with today's steps beside those run before, and what `make soak` runs."""

import os
import re
import subprocess

import soak


def rows_of(*targets: str, result: str, commit: str) -> dict[str, str]:
    """Lines of the table for some steps."""
    rows = {}
    for step, words in soak.STEPS.items():
        if step.target in targets:
            step.passed, step.process = result == "passed", None
            rows[step.target] = soak.row(step, words, "2026-01-02", commit)
    return rows


def test_steps_that_were_not_run_keep_their_rows():
    """A step that is run again has only its new row, in place; one that never ran has none."""
    first = rows_of("miri", "mutations", result="passed", commit="aaa")
    page = soak.page("", first)
    assert "test-gateware" not in page
    second = rows_of("miri", result="failed", commit="bbb")
    page = soak.page(page, second)
    assert first["mutations"] in page
    assert first["miri"] not in page
    assert second["miri"] in page
    assert "**failed**" in second["miri"]
    assert page.index("`make mutations`") < page.index("`make miri`")
    assert soak.page(page, {}) == page


def test_seeds_are_named():
    """A row says which seeds were run, so that they can be run again."""
    words = next(words for step, words in soak.STEPS.items() if step.target == "torture")
    assert f"{soak.FIRST_SEED}..{soak.FIRST_SEED + 100_000}" in words


def test_ci_installs_without_asking():
    """Nobody answers in CI."""
    command = ["make", "--dry-run", "--assume-old=.venv/installed", "soak"]
    environment = os.environ | {"CROSSLANE_CI": "1"}
    done = subprocess.run(
        command, cwd=soak.ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert "tools/setup.sh soak --yes\n" in done.stdout


def test_a_night_of_the_public_ci_runs_every_step_once():
    """Parts of a night are named in its workflow by hand."""
    workflow = (soak.ROOT / ".github/workflows/ci.yml").read_text()
    parts = re.findall(r"\{ part: \w+, steps: ([\w -]+?) \}", workflow)
    steps = [step for part in parts for step in part.split()]
    assert sorted(steps) == sorted(step.target for step in soak.STEPS)
