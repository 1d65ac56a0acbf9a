# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps of a lab's constants and of a run's options, on any executor."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from crosslane._errors import ArgumentError, SweepError
from crosslane._native import Lab
from crosslane._results import Result, Rows

#: Most points of a sweep.
MAX_POINTS = 10_000


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
    """Makes the run of a point; it is called in the executor's process."""
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


def sweep(lab: Lab, grid: Mapping[str, Any], executor: Executor | None = None) -> Rows:
    """Makes a run for every combination of the values of `grid`.

    Names with a dot are constants of the lab file, by their paths. `flow` is a flow of
    `Lab.run`, or a tuple of flows at once; `bench` is a workload of `Lab.bench`; all other names
    are options of that call. Each row has the values of its point, the figure of the run (see
    `Result.figure`), and its result.

    `executor` is any `concurrent.futures.Executor`. Its processes get the text of the lab. Without
    one, threads of this process share its cores.
    """
    wanted = points(grid)
    if executor is not None:
        return _sweep(lab, wanted, executor)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return _sweep(lab, wanted, threads)


def _sweep(lab: Lab, wanted: list[dict[str, Any]], executor: Executor) -> Rows:
    futures = [executor.submit(_point, lab, point) for point in wanted]
    rows = Rows()
    try:
        for point, future in zip(wanted, futures, strict=True):
            result = future.result()
            rows.append({**point, "figure": result.figure(), "result": result})
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return rows
