# SPDX-License-Identifier: Apache-2.0 OR MIT
"""simulate.py itself: the tests that it runs, the passes that it remembers, and the changes that
make it run again.
"""

import sys
import textwrap
from pathlib import Path

import pytest
from model import RTL, Model
from simulate import SPENT, bench_files, simulate

TOP = "crosslane_reset_pair"
BENCH = """\
    import os
    from pathlib import Path

    import cocotb


    @cocotb.test()
    async def one(dut):
        from bench_part import WIDTH
        with Path(__file__).with_name("runs").open("a") as log:
            log.write(f"{os.environ.get('SEED')} ")
        assert len(dut.a_rst) == WIDTH
    """


@pytest.fixture(scope="module")
def program():
    """The model, built once for these tests."""
    return Model(TOP, RTL / "stream" / f"{TOP}.sv").program()


@pytest.fixture
def bench(tmp_path, monkeypatch, program):
    """A test file, the module that it imports, and a separate memory of passes."""
    monkeypatch.setenv("CROSSLANE_CACHE", str(tmp_path / "cache"))
    for name in ("CROSSLANE_IGNORE_PASSES", "GATEWARE_TRACE", "GATEWARE_COVERAGE", "SEED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Model, "program", lambda model: program)
    monkeypatch.setattr("simulate.BUILD", tmp_path / "build")
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "bench_part.py").write_text("WIDTH = 1\n")
    file = tmp_path / "bench.py"
    file.write_text(textwrap.dedent(BENCH))
    return file


def runs(bench: Path) -> int:
    """Number of runs of the cocotb test."""
    log = bench.with_name("runs")
    return len(log.read_text().split()) if log.exists() else 0


def test_pass_is_not_run_again(bench):
    simulate(str(bench), TOP)
    simulate(str(bench), TOP)
    assert runs(bench) == 1
    assert (SPENT.runs, SPENT.remembered) == (1, 1)


def test_pass_runs_again_when_passes_are_ignored(bench, monkeypatch):
    simulate(str(bench), TOP)
    monkeypatch.setenv("CROSSLANE_IGNORE_PASSES", "1")
    simulate(str(bench), TOP)
    assert runs(bench) == 2


def test_failure_is_never_remembered(bench):
    bench.with_name("bench_part.py").write_text("WIDTH = 2\n")
    for _ in range(2):
        with pytest.raises(SystemExit):
            simulate(str(bench), TOP)
    assert runs(bench) == 2


def test_changed_bench_module_runs_again(bench):
    simulate(str(bench), TOP)
    bench.with_name("bench_part.py").write_text("WIDTH = 2\n")
    with pytest.raises(SystemExit):
        simulate(str(bench), TOP)
    bench.with_name("bench_part.py").write_text("WIDTH = 1\n")
    simulate(str(bench), TOP)
    assert runs(bench) == 2


@pytest.mark.parametrize(("name", "value"), [("SEED", "7"), ("COCOTB_RESOLVE_X", "zeros")])
def test_changed_environment_runs_again(bench, monkeypatch, name, value):
    simulate(str(bench), TOP)
    monkeypatch.setenv(name, value)
    simulate(str(bench), TOP)
    simulate(str(bench), TOP)
    assert runs(bench) == 2


def test_changed_setting_of_a_test_runs_again(bench):
    simulate(str(bench), TOP)
    simulate(str(bench), TOP, environment={"DEPTH": "3"})
    simulate(str(bench), TOP, tests="one")
    assert runs(bench) == 3


def test_changed_parameter_or_top_is_another_model():
    keys = {
        Model(TOP, RTL / "stream" / f"{TOP}.sv").key,
        Model(TOP, RTL / "stream" / f"{TOP}.sv", {"WIDTH": 2}).key,
        Model(TOP, RTL / "stream" / f"{TOP}.sv", coverage=True).key,
        Model("crosslane_reset_side", RTL / "stream" / "crosslane_reset_side.sv").key,
    }
    assert len(keys) == 4


def test_changed_source_is_another_model(tmp_path, monkeypatch):
    text = "module changed (input logic clk);\nendmodule\n"
    monkeypatch.setattr("model.GATEWARE", tmp_path)
    monkeypatch.setattr("model.RTL", tmp_path)
    file = tmp_path / "changed.sv"
    file.write_text(text)
    before = Model("changed", file).key
    file.write_text(text + "// more\n")
    assert Model("changed", file).key != before


def test_filter_that_matches_no_test_fails(bench):
    with pytest.raises((AssertionError, SystemExit)):
        simulate(str(bench), TOP, tests="none_such")


def test_bench_files_are_followed_through_imports():
    names = {path.name for path in bench_files(Path(__file__).with_name("test_card.py"))}
    assert {"test_card.py", "card_bus.py", "completer.py", "tlp_stream.py"} <= names
    assert "writer_bench.py" not in names


def test_model_that_does_not_compile_shows_why(tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSLANE_CACHE", str(tmp_path))
    with pytest.raises(RuntimeError, match="Parameters from the command line"):
        Model(TOP, RTL / "stream" / f"{TOP}.sv", {"NONE_SUCH": 1}).program()
