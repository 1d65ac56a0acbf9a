# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps, on any executor."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import crosslane
import pytest
from conftest import mpirun
from crosslane import Lab, Rows, sweep

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


def bits(rows: Any) -> str:
    """Rows as text: equal for equal bits of all numbers."""
    return json.dumps(rows)


@pytest.fixture(scope="module")
def here() -> Rows:
    """The rows of a sweep in this process."""
    return sweep(Lab.load("minimal"), GRID)


@contextlib.contextmanager
def dask() -> Iterator[Any]:
    """A client of a cluster of two processes on this machine."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


class Meddling(Executor):
    """Calls something before a point is submitted, with the futures of those before it."""

    def __init__(self, executor: Any, meddle: Callable[[list[Any]], None]) -> None:
        self.executor, self.meddle = executor, meddle
        self.futures: list[Any] = []

    def submit(self, call: Any, /, *arguments: Any, **options: Any) -> Any:
        self.meddle(self.futures)
        self.futures.append(self.executor.submit(call, *arguments, **options))
        return self.futures[-1]


def test_dask_has_the_rows_of_this_process(here: Rows) -> None:
    with dask() as client:
        lab = Lab.load("minimal")
        assert bits(sweep(lab, GRID, client)) == bits(here)
        pids: dict[str, int] = client.run(os.getpid)
        assert len(set(pids.values()) - {os.getpid()}) == 2

        def kill(futures: list[Any]) -> None:
            if len(futures) == 2:
                futures[0].result()
                os.kill(pids.popitem()[1], signal.SIGKILL)

        # Other runs than before, which Dask would remember. It makes those of the killed one again.
        other = {**GRID, "operations": 65}
        assert bits(sweep(lab, other, Meddling(client, kill))) == bits(sweep(lab, other))
        with pytest.raises(crosslane.LabError, match=r"no\.such"):
            sweep(lab, {"flow": "card0:host:write:4K", "no.such": [1]}, client)


def test_mpi_ranks_have_the_rows_of_this_process(here: Rows) -> None:
    program = Path(__file__).parent / "mpi_sweep.py"
    printed = json.loads(mpirun(2, "-m", "mpi4py.futures", str(program), json.dumps(GRID)))
    assert bits(printed["rows"]) == bits(here)
    assert set(printed["ranks"]) == {1}


def test_killed_workers_points_are_named_and_run_again(here: Rows) -> None:
    lab, context = Lab.load("minimal"), multiprocessing.get_context("spawn")

    def stop(futures: list[Any]) -> None:
        if len(futures) == 2:
            assert all(future.result() for future in futures)
            for pid in pool._processes:
                os.kill(pid, signal.SIGSTOP)

    def kill_half(futures: list[Any]) -> None:
        stop(futures)
        if len(futures) == 3:
            first, second = pool._processes
            os.kill(first, signal.SIGKILL)
            assert isinstance(futures[2].exception(20), BrokenProcessPool)
            os.kill(second, signal.SIGCONT)

    with (
        ProcessPoolExecutor(2, mp_context=context) as pool,
        pytest.raises(crosslane.SweepError) as caught,
    ):
        sweep(lab, GRID, Meddling(pool, kill_half))
    error = pickle.loads(pickle.dumps(caught.value))
    words = str(error)
    assert words.startswith("the executor failed (BrokenProcessPool: A process"), words
    assert "2 of 4 points have no row: flow='card0:host:read:4K' outstanding=1; " in words
    assert error.missing == [{**GRID, "flow": GRID["flow"][1], "outstanding": n} for n in (1, 16)]
    assert bits(error.rows) == bits(here[:2])
    inline = Inline()
    assert bits(sweep(lab, GRID, inline, done=error.rows)) == bits(here)
    assert inline.calls == 2


def test_executor_that_ends_early_is_an_error() -> None:
    pool = ProcessPoolExecutor(1)
    pool.shutdown()
    grid = {"flow": "card0:host:write:4K", "seed": range(7)}
    with pytest.raises(crosslane.SweepError, match=r"7 of 7 points .*seed=4; and 2 more\. sweep"):
        sweep(Lab.load("minimal"), grid, pool)
    with pytest.raises(TypeError, match="unexpected keyword"):
        sweep(Lab.load("minimal"), {"flow": "card0:host:write:4K", "no_such": 1}, Inline())


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
    with pytest.raises(crosslane.ArgumentError, match="either 'flow' or 'bench'") as refused:
        sweep(lab, {"size": [1]})
    assert refused.value.kind == "invalid_argument"
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
