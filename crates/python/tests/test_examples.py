# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The examples run, and say what is true."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import crosslane
import pytest
from conftest import blocks, mpirun, served

EXAMPLES = Path(__file__).parents[3] / "examples/python"
NOTEBOOK = EXAMPLES / "what_will_my_topology_give.ipynb"


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook, executed here."""
    pytest.importorskip("nbclient")
    from notebook import executed

    return executed(NOTEBOOK)


def test_the_guide_runs(numpy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pieces = blocks("docs/python.md", "python")
    elsewhere = [it for it in pieces if "node7" in it or "another" in it]
    assert len(pieces) == 8 and len(elsewhere) == 2
    # Its prose before the code.
    names = {"crosslane": crosslane, "numpy": numpy}
    names |= {"data": numpy.arange(1024, dtype="u1"), "back": numpy.zeros(1024, dtype="u1")}
    names["executor"] = ThreadPoolExecutor()
    for piece in pieces:
        if piece not in elsewhere:
            own = {**names, "lab": crosslane.Lab.load("minimal")}
            exec(piece, own)
            if "route(" in piece:
                assert (own["back"] == names["data"]).all()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("3642.26") and "limited by the link card0" in printed[0]
    assert printed[-1].startswith("<crosslane.Tlp MWr")


def test_notebook_shows_what_it_gives(executed: Any) -> None:
    import nbformat

    # `make notebook` writes its outputs anew.
    assert nbformat.writes(executed) + "\n" == NOTEBOOK.read_text()


def test_notebook_is_sane(executed: Any) -> None:
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.get("name") == "stdout")
    data = [output.data for output in outputs if "data" in output]
    pictures = [one["image/svg+xml"] for one in data if "image/svg+xml" in one]
    assert {output.output_type for output in outputs} == {"stream", "execute_result"}
    assert "stderr" not in {output.get("name") for output in outputs}
    alone, together = re.findall(r"^(?:one|all) cards?: ([\d.]+) MB/s; (.*)", printed, re.M)
    # The card's own link, then the uplink that four of them share.
    assert "card0 -> switch0" in alone[1]
    assert "switch0.up -> host0" in together[1]
    assert 1.9 < float(together[0]) / float(alone[0]) < 2.1
    errors = re.findall(r"measured [\d.]+ GB/s, lab [\d.]+ \(([-+.\d]+)%\)", printed)
    assert len(errors) == 3
    assert all(-10 < float(error) < 10 for error in errors)
    found = re.findall(r"uplink x(\d+), payloads of (\d+) B: ([\d.]+) MB/s", printed)
    rates = {(width, payload): float(rate) for width, payload, rate in found}
    assert rates["4", "256"] < rates["8", "128"] < rates["8", "256"] < rates["16", "256"]
    assert rates["8", "256"] == float(together[0])
    topology, loads = (ElementTree.fromstring(picture) for picture in pictures)
    assert topology.tag.endswith("svg")
    assert "%" in "".join(loads.itertext())


def test_stencil_equals_numpy() -> None:
    pytest.importorskip("numpy")
    command = [sys.executable, str(EXAMPLES / "stencil.py"), "--steps", "6", "--size", "128"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "128 x 128 cells on 4 cards: equal to NumPy to the bit" in done.stdout
    step = re.search(r"([\d.]+) us a step", done.stdout)
    share = re.search(r"([\d.]+) % of it for the exchange", done.stdout)
    assert step and share
    # 1024 clocks of 4 ns for the cells of a card, and the exchange.
    computing = 128 * 128 / 4 / 4 * 0.004
    assert float(step[1]) * (1 - float(share[1]) / 100) == pytest.approx(computing, rel=0.01)
    assert "path of a border: fpga2 -> rc47a.down1 -> rc47a.down0 -> fpga1\n" in done.stdout
    # Four at once take little longer than one alone.
    alone = re.search(r"a border of 2048 B alone: ([\d.]+) us; limited by \S", done.stdout)
    assert alone
    assert 1 < float(step[1]) * float(share[1]) / 100 / float(alone[1]) < 2


def test_stencil_refuses_strips_that_do_not_fit() -> None:
    pytest.importorskip("numpy")
    command = [sys.executable, str(EXAMPLES / "stencil.py"), "--size", "126"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "126 rows" in done.stderr


def test_card_example() -> None:
    command = [sys.executable, str(EXAMPLES / "card_in_python.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "register 0x10 is 42, read in 463173 ps\n"


def two_nodes(*arguments: str) -> None:
    """Runs the example on two ranks, which compare what they get."""
    program = str(EXAMPLES / "two_nodes.py")
    printed = mpirun(2, "-m", "mpi4py", program, "--network", "tls", "--mib", "2", *arguments)
    moved = re.findall(r"rank (\d): (.*): (\d+) B, (?:\d+\.\d) MB/s\n", printed)
    # The lines of a rank come in its order.
    assert sorted(moved, key=lambda it: it[0]) == [
        ("0", "array to the card of node 1", str(2 << 20)),
        ("0", "array from the own card", str(2 << 20)),
        ("1", "array from the own card", str(2 << 20)),
        ("1", "from card to card", str(2 << 20)),
    ]
    assert printed.count("every number is as it should be\n") == 2, printed


def test_two_nodes_example() -> None:
    two_nodes()
    with served() as first, served() as second:
        two_nodes(first.address, second.address)
