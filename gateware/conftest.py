# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Orders the gateware's tests, and summarises their times at the end."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

GATEWARE = Path(__file__).resolve().parent
sys.path.insert(0, str(GATEWARE / "tb"))
import simulate  # noqa: E402

# Processor seconds of each test, longest first.
TIMES = GATEWARE / "build" / "times.txt"
SPENT = "spent"
# These begin first, so that two workers end together: the longest according to `TIMES`.
LONGEST = [
    "test_properties_hold",
    "test_card_us",
    "test_board",
    "test_card_memory",
    "test_card",
    "test_reads_of_several",
    "test_lanes",
    "test_card_s7",
    "test_registers",
    "test_reads",
    "test_engine_axis",
    "test_h2c",
    "test_memory",
    "test_lint_passes",
    "test_bare",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest tests first; the others stay in their order."""
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.name.split("[")[0], len(order)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Clears the counts before a test."""
    simulate.SPENT.__init__()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Attaches a test's processor time to its report, so that it also arrives from a worker."""
    report = yield
    if report.when == "call":
        report.user_properties.append((SPENT, asdict(simulate.SPENT)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints how many tests were remembered, and the time of the others."""
    spent = {
        report.nodeid: dict(report.user_properties)[SPENT]
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call" and SPENT in dict(report.user_properties)
    }
    if not spent:
        return
    remembered = sum(1 for s in spent.values() if s["remembered"] and not s["runs"])
    build_s, run_s = (sum(s[name] for s in spent.values()) for name in ("build_s", "run_s"))
    terminalreporter.write_line(
        f"{remembered} of {len(spent)} tests remembered; processors were busy for {build_s:.0f} s "
        f"with building models and {run_s:.0f} s with running them"
    )
    rows = sorted(spent.items(), key=lambda row: -row[1]["build_s"] - row[1]["run_s"])
    TIMES.parent.mkdir(parents=True, exist_ok=True)
    TIMES.write_text(
        "build run test\n"
        + "".join(f"{s['build_s']:5.1f} {s['run_s']:5.1f} {name}\n" for name, s in rows)
    )
