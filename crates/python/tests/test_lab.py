# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Labs: loaded, changed, run like the program does, explained and drawn."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import crosslane
import pytest
from conftest import program
from crosslane import Lab

FLOW = "card0:host:write:4K"


def test_flow_has_the_json_of_the_program() -> None:
    result = Lab.load("minimal").run(FLOW, operations=256)
    assert result == program(
        "bench", "traffic", "--lab", "minimal", "--flow", FLOW, "--operations", "256"
    )


def test_workloads_have_the_json_of_the_program() -> None:
    lab = Lab.load("rosta:crosslane")
    benches: dict[str, dict[str, Any]] = {
        "write": {"size": "64..4K", "iterations": 4},
        "p2p": {"from_": "fpga1", "to": "fpga5", "size": "16K", "iterations": 4, "mps": 256},
        "latency": {"iterations": 20},
    }
    for bench, options in benches.items():
        words = []
        for name, value in options.items():
            words += [f"--{name.strip('_')}", str(value)]
        result = lab.bench(bench, why=False, **options)  # type: ignore[arg-type]
        command = ["bench", bench, "--lab", "rosta:crosslane", "--no-why", *words]
        assert result == program(*command), bench


def test_overhead_has_the_simulated_times_of_the_program() -> None:
    result = Lab.load("kc705:crosslane").overhead(rounds=3, large=4096)
    device = "lab:kc705:crosslane"
    printed = program("bench", "overhead", "--device", device, "--rounds", "3", "--large", "4K")
    times = [row["bus_ps"] for row in result["rows"]]
    assert times == [row["bus_ps"] for row in printed["rows"]]
    assert list(result.columns()["bus_ps"]) == times


def test_a_lab_is_loaded_by_name_path_and_text(tmp_path: Path) -> None:
    text = Lab.load("minimal").text
    path = tmp_path / "mine.toml"
    path.write_text(text)
    rates = {
        lab.run(FLOW, operations=64, why=False).figure()
        for lab in (Lab.load("minimal"), Lab.load(path), Lab.load(text))
    }
    assert len(rates) == 1
    assert "rosta" in Lab.shipped()


def test_constants_change_another_lab() -> None:
    lab = Lab.load("minimal")
    slower = lab.with_({"part.card.requester.tags": 2})
    reads = "card0:host:read:4K"
    rates = [it.run(reads, operations=64, why=False).figure() for it in (slower, lab)]
    assert rates[0] < 0.7 * rates[1]
    again = pickle.loads(pickle.dumps(slower))
    assert again.constants == slower.constants != lab.constants


def test_variants_are_labs() -> None:
    lab = Lab.load("rosta")
    assert "crosslane" in lab.variants
    assert lab.with_variant("crosslane").variant == "crosslane"
    assert pickle.loads(pickle.dumps(lab.with_variant("crosslane"))).variant == "crosslane"


def test_why_is_an_object() -> None:
    result = Lab.load("minimal").run(FLOW, operations=256)
    why = result.why()
    assert why is not None
    assert why == result["scenarios"][0]["why_not_faster"]
    assert why.kinds == ["link"]
    assert "Gen3 x4" in why.bottleneck[0]
    assert 0.9 < why.gain < 1.0
    assert "Gen3 x4" in str(why)
    assert sum(why.shares.values()) == pytest.approx(1.0)
    assert Lab.load("minimal").run(FLOW, operations=64, why=False).why() is None


def test_columns_are_arrays(numpy: Any) -> None:
    result = Lab.load("minimal").run("card0:host:write:64..1K", operations=64, why=False)
    columns = result.columns()
    assert columns["bytes"].tolist() == [64, 128, 256, 512, 1024]
    assert columns["bytes"].dtype == numpy.int64
    assert columns["bytes_per_second"].dtype == numpy.float64
    assert (numpy.diff(columns["latency.typical_ps"]) > 0).all()
    assert columns["from"].tolist() == ["card0"] * 5


def test_columns_are_lists_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    columns = Lab.load("minimal").run(FLOW, operations=64, why=False).columns()
    assert columns["bytes"] == [4096]


def test_topologies_and_runs_are_pictures() -> None:
    lab = Lab.load("rosta")
    plain = ElementTree.fromstring(lab._repr_svg_())
    result = lab.run("fpga1:host:write:4K", operations=64, why=False)
    loaded = ElementTree.fromstring(result._repr_svg_())
    words = "".join(plain.itertext())
    assert all(f"fpga{number}" in words for number in range(1, 9))
    busy = [it for it in loaded.iter() if it.get("class", "").startswith("way load")]
    assert {"way load0", "way load3"} <= {it.get("class") for it in busy}
    assert lab.topology()["hosts"][0]["functions"]


def test_text_is_that_of_the_program() -> None:
    text = Lab.load("minimal").run(FLOW, operations=64, why=False).text()
    assert "\x1b" not in text
    assert "card0 -> host0" in text
    assert "MB/s" in text


def test_errors_say_where() -> None:
    with pytest.raises(crosslane.LabError, match="no-such-lab") as caught:
        Lab.load("no-such-lab")
    assert caught.value.kind == "not_found"
    with pytest.raises(crosslane.LabError, match=r"mine\.toml:"):
        Lab.load("[lab]\nname = 1\n", name="mine.toml")
    lab = Lab.load("minimal")
    with pytest.raises(crosslane.Error, match="nothing"):
        lab.run("nothing:host:write:4K")
    with pytest.raises(crosslane.ArgumentError, match="a flow is FROM:TO"):
        lab.run("nonsense")
    with pytest.raises(crosslane.ArgumentError, match="needs a flow"):
        lab.run()
    with pytest.raises(crosslane.LabError, match=r"part\.nothing"):
        lab.with_({"part.nothing": 1})
    with pytest.raises(crosslane.ArgumentError, match='bench "nothing"'):
        lab.bench("nothing")  # type: ignore[arg-type]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"size": 3}, "multiple of 4 B"),
        ({"size": "x"}, "x is not a size"),
        ({"iterations": 0}, "iterations 0: it is from 1"),
        ({"outstanding": 1 << 20}, "outstanding 1048576: it is from 1 to 16384"),
        ({"flows": 0}, "flows 0"),
        ({"payload": 3}, "payload: "),
        ({"mps": 1}, "mps: "),
        ({"descriptors": "command"}, "command port"),
        ({"notify": "never"}, "there are poll, interrupt"),
    ]
    for options, words in wrong:
        with pytest.raises(crosslane.ArgumentError, match=words):
            Lab.load("rosta:crosslane").bench("write", **options)
    with pytest.raises(crosslane.ArgumentError, match="mps: "):
        lab.run(FLOW, mps=1)
    with pytest.raises(crosslane.ExperimentError, match="engine"):
        Lab.load("aws-f1").bench("write")
    with pytest.raises(crosslane.ArgumentError, match="'model' or 'rtl'"):
        lab.with_engine("fast")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        lab.run(FLOW, operations="many")  # type: ignore[arg-type]


def test_errors_cross_processes() -> None:
    with pytest.raises(crosslane.LabError) as caught:
        Lab.load("no-such-lab")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.kind) == (
        crosslane.LabError,
        str(caught.value),
        "not_found",
    )


def test_results_cross_processes() -> None:
    result = Lab.load("minimal").run(FLOW, operations=64, why=False)
    again = pickle.loads(pickle.dumps(result))
    assert again == result == json.loads(json.dumps(result))
    assert again.lab.name == "minimal"


def test_threads_run_labs_at_once() -> None:
    lab = Lab.load("minimal")
    found: list[float] = []

    def run() -> None:
        found.append(lab.run(FLOW, operations=256, why=False).figure())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_a_signal_ends_a_run() -> None:
    lab = Lab.load("rosta")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        lab.run("fpga1:host:write:64", operations=100_000_000)
    assert time.monotonic() - begun < 5
