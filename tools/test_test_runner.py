# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Test programs are run again if anything that they depend on has changed, and else not."""

import subprocess
import time
from pathlib import Path

import pytest
import test_runner

PROGRAM = """#!/bin/sh
echo run >> "{log}"
echo "test result: {word}. 3 passed; {failed} failed; 0 ignored"
exit {status}
"""


class Tree:
    """A repository with a crate and a test program that counts its runs."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root.parent / "runs"
        self.crate = root / "crates" / "one"
        self.program = root.parent / "debug" / "deps" / "integration-0123"
        self.program.parent.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", root], check=True)
        self.write("crates/one/src/lib.rs", "fn one() {}")
        self.write("crates/one/tests/shown.snap", "1")
        self.write("crates/two/src/lib.rs", "fn two() {}")
        self.write("docs/page.md", "page")
        self.build()

    def write(self, name: str, text: str) -> None:
        """Writes a file of the tree."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def build(self, status: int = 0, comment: str = "") -> None:
        """Writes the test program."""
        words = {"word": "ok" if status == 0 else "FAILED", "failed": min(status, 1)}
        text = PROGRAM.format(log=self.log, status=status, **words) + comment
        self.program.write_text(text)
        self.program.chmod(0o755)

    def run(self, *arguments: str) -> int:
        """Runs it as cargo would; its exit status."""
        return test_runner.run(self.program, list(arguments), self.crate, self.root)

    def runs(self) -> int:
        """Times that the program has run."""
        return self.log.read_text().count("run")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setenv("CROSSLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CROSSLANE_IGNORE_PASSES", raising=False)
    return Tree(tmp_path / "tree")


def test_a_pass_is_remembered_with_its_count(tree, capfd):
    assert [tree.run(), tree.run()] == [0, 0]
    assert tree.runs() == 1
    first, second = capfd.readouterr().out.splitlines()
    assert first.startswith("test result: ok. 3 passed; 0 failed")
    assert second == "test result: ok. 3 passed; 0 failed; remembered: nothing has changed"


def test_a_failure_is_not(tree):
    tree.build(status=101)
    assert [tree.run(), tree.run(), tree.runs()] == [101, 101, 2]


def test_a_program_that_is_killed_has_failed(tree):
    tree.program.write_text("#!/bin/sh\necho 'test result: ok. 3 passed; 0 failed'\nkill -9 $$\n")
    assert tree.run() == 137


def test_a_process_that_is_left_behind_is_a_failure_and_not_waited_for(tree, capfd, monkeypatch):
    monkeypatch.setattr(test_runner, "OUTPUT_SECONDS", 1)
    text = tree.program.read_text().replace("exit 0", "sleep 30 &\nexit 0")
    tree.program.write_text(text)
    began = time.monotonic()
    assert tree.run() == 1
    assert time.monotonic() - began < 20
    assert "still runs" in capfd.readouterr().out


@pytest.mark.parametrize("name", ["crates/one/tests/shown.snap", "crates/one/tests/new.bin"])
def test_files_of_its_crate_count(tree, name):
    tree.run()
    tree.write(name, "2")
    tree.run()
    assert tree.runs() == 2


def test_program_arguments_and_variables_count(tree, monkeypatch):
    tree.run()
    tree.build(comment="# other code")
    tree.run()
    tree.run("lab::")
    monkeypatch.setenv("CROSSLANE_ENGINE", "rtl")
    tree.run("lab::")
    assert tree.runs() == 4


def test_other_folders_count_where_the_crate_names_them(tree):
    tree.run()
    tree.write("docs/page.md", "other")
    tree.run()
    assert tree.runs() == 1
    # The compiler has its sources; the program is the same here.
    tree.write("crates/one/src/lib.rs", 'const PAGE: &str = "../../docs/page.md";')
    tree.run()
    tree.write("docs/page.md", "a third one")
    tree.run()
    assert tree.runs() == 3


def test_programs_count_where_the_crate_starts_them(tree):
    beside = tree.program.parent.parent / "crosslane"
    tree.write("crates/one/src/lib.rs", 'const PROGRAM: &str = env!("CARGO_BIN_EXE_crosslane");')
    for text, runs in [("1", 1), ("2", 2), ("2", 2)]:
        beside.write_text(text)
        tree.run()
        assert tree.runs() == runs


def test_all_sources_count_for_those_that_read_them(tree, monkeypatch):
    monkeypatch.setattr(test_runner, "READ_ALL", {"one"})
    tree.run()
    tree.write("crates/two/src/lib.rs", "fn three() {}")
    tree.run()
    assert tree.runs() == 2


def test_nothing_is_remembered_where_passes_are_ignored(tree, monkeypatch):
    tree.run()
    monkeypatch.setenv("CROSSLANE_IGNORE_PASSES", "1")
    tree.run()
    assert tree.runs() == 2


def test_archive_that_a_crate_links_with_counts(tree):
    archive = tree.program.parent / "libcrosslane_capi-0f.a"
    archive.write_text("1")
    tree.run()
    archive.write_text("2")
    tree.run()
    assert tree.runs() == 1
    tree.write("crates/one/tests/link.rs", 'const NAME: &str = "libcrosslane_capi-";')
    tree.run()
    tree.run()
    assert tree.runs() == 2
    archive.write_text("3")
    tree.run()
    assert tree.runs() == 3


def test_web_assembly_runs_under_node(tree):
    """The smallest module has nothing to start: Node says so. The runner's script counts."""
    name = str(test_runner.UNDER_NODE)
    script = (Path(test_runner.__file__).parents[1] / name).read_text()
    tree.write(name, script)
    tree.program = tree.program.with_suffix(".wasm")
    tree.program.write_bytes(b"\0asm\1\0\0\0")
    assert tree.run() != 0
    before = test_runner.key(tree.program, [], tree.crate, tree.root)
    tree.write(name, f"{script}// longer")
    assert test_runner.key(tree.program, [], tree.crate, tree.root) != before
