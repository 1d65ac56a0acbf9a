# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps of a lab's constants and of a run's options, on any executor."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from crosslane._errors import ArgumentError, SweepError
from crosslane._native import Lab
from crosslane._results import Result, Rows

#: Most points of a sweep.
MAX_POINTS = 10_000
#: Most points that an error names.
MAX_NAMED = 5


def _values(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return [values]
    found = list(values)
    if not found:
        raise SweepError(f"{name}: it has no values", "invalid_argument")
    return found


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value


def _point(lab: Lab, point: Mapping[str, Any]) -> Result:
    """Makes the run of a point."""
    constants = {name: float(value) for name, value in point.items() if "." in name}
    options = {name: value for name, value in point.items() if "." not in name}
    changed = lab.with_(constants) if constants else lab
    options.setdefault("why", False)
    if "bench" in options:
        bench = options.pop("bench")
        return changed.bench(bench, **options)
    flows = options.pop("flow")
    return changed.run(*([flows] if isinstance(flows, str) else flows), **options)


def points(grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the values of a grid; a value that is no list stays the same."""
    if ("flow" in grid) == ("bench" in grid):
        raise ArgumentError("a grid has either 'flow' or 'bench', which says what is run")
    axes = {name: [_plain(it) for it in _values(name, values)] for name, values in grid.items()}
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MAX_POINTS:
        problem = f"{count} points: a sweep has at most {MAX_POINTS}"
        raise SweepError(problem, "invalid_argument")
    return [dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values())]


def sweep(
    lab: Lab,
    grid: Mapping[str, Any],
    executor: Executor | None = None,
    *,
    done: Iterable[Mapping[str, Any]] = (),
) -> Rows:
    """Makes a run for every combination of the values of `grid`.

    Names with a dot are constants of the lab file, by their paths. `flow` is a flow of
    `Lab.run`, or a tuple of flows at once; `bench` is a workload of `Lab.bench`; all other names
    are options of that call. Each row has the values of its point, the figure of the run (see
    `Result.figure`), and its result.

    `executor` is any `concurrent.futures.Executor`. Its processes get the text of the lab. Without
    one, threads of this process share its cores.

    If the executor fails, as when a worker is killed, `SweepError` names the points without a row,
    and has the rows of the others. `done` are rows of the same lab that are there already: their
    points are not run again.
    """
    wanted = points(grid)
    if executor is not None:
        return _sweep(lab, wanted, executor, done)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return _sweep(lab, wanted, threads, done)


def _tried(lab: Lab, point: Mapping[str, Any]) -> Result | Exception:
    """Makes the run of a point, in the executor's process. An error of the run is returned: one
    that is raised is the executor's."""
    try:
        return _point(lab, point)
    except Exception as error:
        return error


def _key(row: Mapping[str, Any], names: Iterable[str]) -> str:
    """Values of a point, to compare it with others."""
    return repr([row.get(name) for name in names])


def _sweep(
    lab: Lab,
    wanted: list[dict[str, Any]],
    executor: Executor,
    done: Iterable[Mapping[str, Any]],
) -> Rows:
    names = list(wanted[0])
    there = {_key(row, names): dict(row) for row in done}
    by_key = {_key(point, names): point for point in wanted}
    futures = _submitted(lab, {key: it for key, it in by_key.items() if key not in there}, executor)
    missing: list[dict[str, Any]] = []
    failed: Exception | None = None
    try:
        for key, future in futures.items():
            try:
                outcome = future.result()
            except Exception as error:
                failed = failed or error
                missing.append(by_key[key])
                continue
            if isinstance(outcome, Exception):
                raise outcome
            there[key] = {**by_key[key], "figure": outcome.figure(), "result": outcome}
    except BaseException:
        for future in futures.values():
            future.cancel()
        raise
    rows = Rows(there[key] for point in wanted if (key := _key(point, names)) in there)
    if failed is not None:
        raise SweepError(_words(wanted, missing, failed), rows=rows, missing=missing) from failed
    return rows


def _submitted(
    lab: Lab, wanted: Mapping[str, dict[str, Any]], executor: Executor
) -> dict[str, Future[Result | Exception]]:
    """Futures of the points; an executor that takes no more of them has failed at the rest."""
    futures: dict[str, Future[Result | Exception]] = {}
    submit = executor.submit
    refused: Exception | None = None
    for key, point in wanted.items():
        if refused is None:
            try:
                futures[key] = submit(_tried, lab, point)
                continue
            except Exception as error:
                refused = error
        futures[key] = Future()
        futures[key].set_exception(refused)
    return futures


def _words(wanted: list[dict[str, Any]], missing: list[dict[str, Any]], failed: Exception) -> str:
    """Sentence about an executor that has failed."""
    several = [name for name in wanted[0] if len({repr(point[name]) for point in wanted}) > 1]
    named = [
        " ".join(f"{name}={point[name]!r}" for name in several or point)
        for point in missing[:MAX_NAMED]
    ]
    if len(missing) > MAX_NAMED:
        named.append(f"and {len(missing) - MAX_NAMED} more")
    reason = f"{type(failed).__name__}: {failed}".removesuffix(": ").removesuffix(".")
    counts = f"{len(missing)} of {len(wanted)} points have no row"
    again = "sweep(…, done=error.rows) makes the rest"
    return f"the executor failed ({reason}); {counts}: {'; '.join(named)}. {again}"
