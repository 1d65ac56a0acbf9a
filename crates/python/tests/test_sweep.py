# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps, on any executor."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any

import crosslane
import pytest
from crosslane import Lab, sweep

GRID: dict[str, Any] = {
    "flow": ["card0:host:write:4K", "card0:host:read:4K"],
    "outstanding": [1, 16],
    "operations": 64,
}


class Inline(Executor):
    """An executor with nothing but `submit`."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, call: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        future.set_result(call(*arguments, **options))
        return future


def test_every_executor_has_the_same_rows() -> None:
    lab = Lab.load("minimal")
    rows = sweep(lab, GRID)
    assert [(row["flow"], row["outstanding"]) for row in rows] == [
        (flow, outstanding) for flow in GRID["flow"] for outstanding in (1, 16)
    ]
    assert rows[0]["figure"] < rows[1]["figure"]
    inline = Inline()
    assert sweep(lab, GRID, inline) == rows
    assert inline.calls == 4
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(2, mp_context=context) as processes:
            assert sweep(lab, GRID, executor=processes) == rows, method


def test_constants_and_arrays_are_swept(numpy: Any) -> None:
    lab = Lab.load("minimal")
    path = "part.card.requester.tags"
    grid = {"flow": "card0:host:read:4K", path: numpy.arange(1, 4), "operations": 64}
    columns = sweep(lab, grid).columns()
    assert columns[path].tolist() == [1, 2, 3]
    assert (numpy.diff(columns["figure"]) > 0).all()


def test_workloads_are_swept() -> None:
    grid = {"bench": "write", "size": ["4K", "64K"], "iterations": 4}
    rows = sweep(Lab.load("rosta:crosslane"), grid)
    assert rows[0]["figure"] < rows[1]["figure"]


def test_wrong_grids_are_refused() -> None:
    lab = Lab.load("minimal")
    with pytest.raises(crosslane.ArgumentError, match="either 'flow' or 'bench'"):
        sweep(lab, {"size": [1]})
    with pytest.raises(crosslane.SweepError, match="no values"):
        sweep(lab, {"flow": []})
    with pytest.raises(crosslane.SweepError, match="at most 10000"):
        sweep(lab, {"flow": "a", "seed": range(200), "operations": range(200)})
    with pytest.raises(crosslane.LabError, match=r"no\.such"):
        sweep(lab, {"flow": "card0:host:write:4K", "no.such": [1]})
    context = multiprocessing.get_context("fork")
    wrong = {"flow": "card0:host:write:4K", "no.such": [1]}
    with (
        ProcessPoolExecutor(1, mp_context=context) as processes,
        pytest.raises(crosslane.LabError, match=r"no\.such") as caught,
    ):
        sweep(lab, wrong, processes)
    assert caught.value.kind
