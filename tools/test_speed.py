# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The speed of the simulator: what is read from the programs, and what counts as slower."""

import pytest
import speed


def test_the_page_says_what_was_counted():
    shares = {part: 0.2 for part in speed.PARTS}
    counts = {"ten": speed.Count(1_234, shares), "a thousand": speed.Count(900, shares)}
    page = "a\n<!-- instructions -->\nold\n<!-- /instructions -->\nb"
    assert speed.part(page, "instructions") == "old\n"
    page = speed.part(page, "instructions", speed.table(counts))
    assert page.startswith("a\n") and page.endswith("\nb")
    assert speed.committed(page) == {"ten": 1_234, "a thousand": 900}
    with pytest.raises(SystemExit):
        speed.part(page, "nothing")


def test_five_percent_more_is_slower():
    assert speed.slower({"ten": 1_050, "few": 10}, {"ten": 1_000, "few": 100}) == []
    (sentence,) = speed.slower({"ten": 1_051}, {"ten": 1_000})
    assert "1,051 instructions a hop, and docs/fabric.md has 1,000" in sentence


def test_instructions_belong_to_parts():
    profile = """fn=(1) fabric::events::Events::schedule
7 30
fn=(2) fabric::transmit::<impl fabric::Fabric>::pick_now
+2 10
cfn=(3) memcpy
calls=2 5
* 5000
fn=(1)
8 20
fn=(3)
9 40
"""
    functions = speed.by_function(profile)
    assert functions["memcpy"] == (40, 2)
    shares = speed.by_part(functions)
    assert shares["events"] == 0.5
    assert shares["choosing and sending"] == 0.1
    assert shares["DLLPs"] == 0
    assert shares[speed.REST] == 0.4


def test_functions_have_their_types_names():
    fabric = "crosslane_fabric::transmit::<impl crosslane_fabric::fabric::Fabric>::pick"
    assert speed.short(fabric) == "Fabric::pick"
    assert speed.short("<a::Endpoint as a::device::Device>::receive") == "Endpoint::receive"
    assert speed.short("a::ring::Ring<T>::sift") == "Ring::sift"
    assert speed.short("memcpy") == "memcpy"
    (row,) = speed.largest({fabric: (3_000, 20), "run": (9_000, 1)}, 100)
    assert row == ("Fabric::pick", 0.2, 150)
    assert "| `Fabric::pick` | 0.20 | 150 | 30 |" in speed.function_table([row])


def test_nothing_counted_is_an_error():
    collected = "==7== Collected : 2278000\n"
    table = "head\nten   7.2  0.1   1000\n"
    assert speed.instructions_and_hops(collected, table) == (2_278_000, 1_000)
    for wrong in ("==7== Collected : 0\n", "nothing"):
        with pytest.raises(SystemExit):
            speed.instructions_and_hops(wrong, "ten   7.2  0.1   1000\n")


def test_the_committed_page_has_every_scenario():
    page = speed.DOCUMENT.read_text()
    assert set(speed.committed(page)) == set(speed.COUNTED)
    speed.part(page, "bench")
    assert "`Fabric::pick`" in speed.part(page, "functions")
