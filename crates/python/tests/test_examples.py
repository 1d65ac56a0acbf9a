# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The examples run, and say what is true."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

EXAMPLES = Path(__file__).parents[3] / "examples/python"


def test_topology_example(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "what_will_my_topology_give.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    alone, together = re.findall(r"cards?: ([\d.]+) MB/s; limited by (.*)", done.stdout)
    # The card's own link, then the uplink that four of them share.
    assert "card0 -> switch0" in alone[1]
    assert "switch0.up -> host0" in together[1]
    assert 1.9 < float(together[0]) / float(alone[0]) < 2.1
    with (tmp_path / "topology.csv").open() as file:
        rates = {
            (row["uplink_width"], row["max_payload_bytes"]): float(row["mb_per_s"])
            for row in csv.DictReader(file)
        }
    assert rates["4", "256"] < rates["8", "128"] < rates["8", "256"] < rates["16", "256"]
    assert ElementTree.parse(tmp_path / "topology.svg").getroot().tag.endswith("svg")


def test_card_example() -> None:
    command = [sys.executable, str(EXAMPLES / "card_in_python.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "register 0x10 is 42, read in 463173 ps\n"
