# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ecp5.py: reports of nextpnr that it accepts and refuses; pins and clocks of the board."""

import copy
import re

import ecp5
import pytest

RATE = 2500


def report(links: int = ecp5.LINKS) -> dict:
    """One whose clocks and crossings are all as fast as they must be."""
    fmax = {
        f"$glbnet${net}": {"achieved": mhz, "constraint": mhz}
        for net, mhz in ecp5.clocks(RATE, links).items()
    }
    paths = [
        {
            "from": f"posedge $glbnet${crossing.source}",
            "to": f"posedge $glbnet${crossing.sink}",
            "path": [{"delay": crossing.most_ns / 2}, {"delay": crossing.most_ns / 2}],
        }
        for crossing in ecp5.crossings(RATE, links)
    ]
    return {"fmax": fmax, "critical_paths": paths}


@pytest.mark.parametrize("links", [1, 2])
def test_a_report_that_meets_all_is_accepted(links):
    lines = ecp5.check(report(links), RATE, links)
    assert len(lines) == 3 + 2 * links + 1 + links


def test_a_link_that_is_not_there_is_missed():
    with pytest.raises(ecp5.TimingError, match=re.escape("rx_pclk[1] has no constraint")):
        ecp5.check(report(1), RATE)


@pytest.mark.parametrize("net", ecp5.clocks(RATE))
def test_a_slow_clock_is_refused(net):
    slow = report()
    slow["fmax"][f"$glbnet${net}"]["achieved"] *= 0.999
    with pytest.raises(ecp5.TimingError, match=re.escape(f"{net}: ")):
        ecp5.check(slow, RATE)


@pytest.mark.parametrize("net", ecp5.clocks(RATE))
def test_a_clock_without_its_constraint_is_refused(net):
    for change in ("gone", "other"):
        wrong = copy.deepcopy(report())
        if change == "gone":
            del wrong["fmax"][f"$glbnet${net}"]
        else:
            wrong["fmax"][f"$glbnet${net}"]["constraint"] = 1.0
        with pytest.raises(ecp5.TimingError, match="has no constraint"):
            ecp5.check(wrong, RATE)


def test_a_clock_that_nobody_named_is_refused():
    more = report()
    more["fmax"]["extra"] = {"achieved": 500.0, "constraint": 12.0}
    with pytest.raises(ecp5.TimingError, match="extra"):
        ecp5.check(more, RATE)


@pytest.mark.parametrize("at", range(3))
def test_a_slow_or_missing_crossing_is_refused(at):
    slow = report()
    slow["critical_paths"][at]["path"].append({"delay": 0.1})
    with pytest.raises(ecp5.TimingError, match="timing is not met"):
        ecp5.check(slow, RATE)
    del slow["critical_paths"][at]
    with pytest.raises(ecp5.TimingError, match="no path"):
        ecp5.check(slow, RATE)


def test_each_port_of_the_top_has_a_pin():
    folder = ecp5.FOLDER / ecp5.BOARD
    top = (folder / f"{ecp5.TOP}.sv").read_text()
    ports = {
        f"{name}[{n}]" if width else name
        for width, name in re.findall(
            r"^ +(?:in|out)put +logic +(?:\[ *(\d+):0\])? *(\w+)", top, re.M
        )
        for n in range(int(width or 0) + 1)
    }
    lpf = (folder / "pins.lpf").read_text()
    pins = dict(re.findall(r'^LOCATE COMP "(\S+)" SITE "(\w+)";', lpf, re.M))
    assert pins.keys() == ports
    assert len(set(pins.values())) == len(pins)
    assert set(re.findall(r'^IOBUF PORT "(\S+)"', lpf, re.M)) == ports


def test_each_clock_is_a_net_of_the_top():
    top = (ecp5.FOLDER / ecp5.BOARD / f"{ecp5.TOP}.sv").read_text()
    kept = re.findall(r"keep = \"true\" \*\) *logic (?:\[1:0\] )?(\w+);", top)
    assert {net.removesuffix("[0]").removesuffix("[1]") for net in ecp5.clocks(RATE)} == {
        *kept,
        "clk12",
    }


def test_what_nobody_has_chosen_is_left_to_nextpnr():
    cell = {"type": "DCUA", "parameters": {"CH0_PROTOCOL": "10BSER", "CH0_WA_MODE": "DONTCARE"}}
    netlist = {"modules": {"top": {"cells": {"dcu": cell}}}}
    made = ecp5.with_chosen_parameters(netlist)
    assert made["modules"]["top"]["cells"]["dcu"]["parameters"] == {"CH0_PROTOCOL": "10BSER"}
