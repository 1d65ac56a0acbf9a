# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Results of runs: dicts that equal the JSON of the program, columns, and explanations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from crosslane import _native
from crosslane._errors import ExperimentError, ExplainError

#: Parts of a row that are lists or trees, or say why there is none.
_LEFT_OUT = ("why_not_faster", "not_explained")


class Why(dict[str, Any]):
    """Why a run was not faster: `why_not_faster` of its result."""

    @property
    def bottleneck(self) -> list[str]:
        """The limit of the run, in words; empty if nothing that can be lifted gains."""
        steps = self["steps"]
        return [limit["words"] for limit in steps[0]["limits"]] if steps else []

    @property
    def kinds(self) -> list[str]:
        """Kinds of what limits the run: `link`, `tags`, ...."""
        steps = self["steps"]
        return [limit["kind"] for limit in steps[0]["limits"]] if steps else []

    @property
    def gain(self) -> float:
        """Gain of a run without the bottleneck, as a fraction."""
        steps = self["steps"]
        return float(steps[0]["gain"]) if steps else 0.0

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The bottleneck, then the next one without it."""
        return list(self["steps"])

    @property
    def trials(self) -> list[dict[str, Any]]:
        """Every limit that was lifted alone, the best first."""
        return list(self["trials"])

    @property
    def shares(self) -> dict[str, float]:
        """Time of the busiest link, by its use, as fractions."""
        account = self["account"]
        uses = account["uses"] if account else []
        return {use["use"]: float(use["share"]) for use in uses}

    def __str__(self) -> str:
        words = " and ".join(self.bottleneck) or "nothing that can be lifted"
        return f"{words}; {100 * self.gain:+.1f} % without" if self.bottleneck else words


class Rows(list[dict[str, Any]]):
    """Rows of values by their names."""

    def columns(self) -> dict[str, Any]:
        """The values of all rows by their names: NumPy arrays, or lists without numpy."""
        return _columns(self)


class Result(dict[str, Any]):
    """The outcome of a command: equal to what the program prints with `--json`."""

    def __init__(
        self, outcome: Mapping[str, Any], lab: _native.Lab, figures: list[dict[str, Any] | None]
    ) -> None:
        super().__init__(outcome)
        self.lab = lab
        self._figures = figures

    def __reduce__(self) -> tuple[Any, ...]:
        return Result, (dict(self), self.lab, self._figures)

    def __repr__(self) -> str:
        return f"<crosslane.Result: {self['bench']} in {self.lab.name}>"

    @property
    def rows(self) -> Rows:
        """One row for each flow of each run, with nested values under dotted names."""
        if "scenarios" not in self:
            return Rows(_flat(row) for row in self["rows"])
        rows = Rows()
        for number, scenario in enumerate(self["scenarios"]):
            for flow in scenario["flows"]:
                rows.append({"run": number, **_flat(flow)})
        return rows

    def columns(self) -> dict[str, Any]:
        """The values of all rows by their names: NumPy arrays, or lists without numpy."""
        return self.rows.columns()

    def figure(self, run: int = -1) -> float:
        """The figure of a run: bytes a second of all flows together, as the application sees them,
        or picoseconds one way."""
        figure = self._figures[run]
        if figure is None:
            errors = self["scenarios"][run]["errors"]
            raise ExperimentError(f"the run has no figure: {'; '.join(errors) or 'it failed'}")
        return float(figure["value"])

    def why(self, run: int = -1) -> Why | None:
        """Why a run was not faster; `None` if that was not asked for."""
        scenario = self["scenarios"][run]
        if scenario["why_not_faster"] is not None:
            return Why(scenario["why_not_faster"])
        if scenario["not_explained"] is not None:
            raise ExplainError(scenario["not_explained"])
        return None

    def text(self) -> str:
        """The outcome as the program prints it."""
        return _native.text(json.dumps(self))

    def _last(self) -> dict[str, Any]:
        scenarios: list[dict[str, Any]] = self.get("scenarios") or [{"flows": [], "link_loads": []}]
        return scenarios[-1]

    def _repr_svg_(self) -> str:
        """The lab's topology with the load of every link in the last run."""
        return self.lab._loads_svg(json.dumps(self._last()["link_loads"]))


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values under dotted names; lists are left out."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            if name not in _LEFT_OUT:
                flat.update(_flat(value, f"{prefix}{name}."))
        elif not isinstance(value, list) and name not in _LEFT_OUT:
            flat[prefix + name] = value
    return flat


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    try:
        import numpy
    except ImportError:
        return dict(columns)
    return {name: _array(numpy, values) for name, values in columns.items()}


def _array(numpy: Any, values: list[Any]) -> Any:
    """An array of numbers, NaN where there is none; of objects if they are no numbers."""
    numbers = [value for value in values if value is not None]
    if numbers and all(type(value) is bool for value in numbers) and len(numbers) == len(values):
        return numpy.array(values, dtype=bool)
    if not numbers or not all(type(value) in (int, float) for value in numbers):
        return numpy.array(values, dtype=object)
    if len(numbers) < len(values) or any(type(value) is float for value in numbers):
        known = [float("nan") if value is None else float(value) for value in values]
        return numpy.array(known, dtype=numpy.float64)
    return numpy.array(values, dtype=numpy.int64)
