# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Building a lab in the browser, and looking into its runs: `make check-web` runs it as it does
`test_lab_page.py`, whose page, server and checks it shares.
"""

import csv
import json
import os
import tempfile
import unittest
from pathlib import Path

import test_lab_page as base
from playwright.sync_api import Locator, Page, expect


def add(page: Page, part: str, below: str | None = None) -> None:
    """Adds a part of the palette by keyboard."""
    page.fill("#palette-filter", part)
    option = page.locator(f"#palette-part-{part}")
    expect(option).to_have_attribute("aria-selected", "true")
    if below:
        page.select_option("#palette-below", below)
    page.press("#palette-filter", "ArrowDown")
    page.keyboard.press("Enter")


def drag(page: Page, start: Locator, end: Locator) -> None:
    """Drags one element onto another."""
    start.scroll_into_view_if_needed()
    source, target = start.bounding_box(), end.bounding_box()
    page.mouse.move(source["x"] + 20, source["y"] + 12)
    page.mouse.down()
    page.mouse.move(source["x"] + 40, source["y"] + 30, steps=3)
    page.mouse.move(target["x"] + target["width"] / 2, target["y"] + target["height"] / 2, steps=5)
    expect(page.locator(".tree .is-target")).to_have_count(1)
    page.mouse.up()


def node(page: Page, name: str) -> Locator:
    """The card of a node in the drawing."""
    return page.locator(f'.tree [data-node="{name}"]')


def expect_below(page: Page, name: str, upper: str) -> None:
    """Looks into a node's panel for the node above it."""
    node(page, name).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#part-title")).to_have_text(name)
    expect(page.locator("#part-below")).to_have_value(upper)


class Building(base.PageCase):
    """The page, used as one does who builds a lab."""

    def shot(self, page: Page, name: str) -> None:
        """Keeps a picture, if pictures are kept."""
        if shots := os.environ.get("SHOTS"):
            page.screenshot(path=Path(shots) / f"{name}.png", full_page=True)

    def built(self, page: Page) -> None:
        """Builds a lab of four nodes by hand."""
        page.click("#new")
        expect(page.locator("#tree")).to_contain_text("Nothing is here yet")
        add(page, "intel-haswell-ep")
        expect(node(page, "host0")).to_be_visible()
        page.fill("#palette-filter", "pex8700")
        drag(page, page.locator("#palette-part-plx-pex8700"), node(page, "host0"))
        expect(node(page, "switch0")).to_be_visible()
        add(page, "nvidia-connectx-6", "switch0")
        expect(node(page, "card0")).to_be_visible()
        add(page, "nvidia-connectx-3", "switch0")
        expect(node(page, "card1")).to_be_visible()

    def test_a_lab_built_by_hand_is_the_programs(self) -> None:
        with self.opened() as page, tempfile.TemporaryDirectory() as folder:
            self.built(page)
            expect(page.locator("#from")).to_have_value("card0")
            page.click("#mode-flows")
            page.select_option("#to", "card1")
            rate = self.run_lab(page)
            self.shot(page, "lab-built")
            words = page.locator("#command").inner_text().split()
            files = {}
            for kind in ("toml", "json"):
                with page.expect_download() as download:
                    page.click(f"#export-{kind}")
                files[kind] = Path(folder) / f"mine.{kind}"
                download.value.save_as(files[kind])
            words[words.index("--lab") + 1] = str(files["toml"])
            outcome = self.program(*words[1:])
            flow = outcome["scenarios"][0]["flows"][0]
            self.assertEqual(rate, f"{flow['bytes_per_second'] / 1e6:.1f} MB/s")
            self.assertEqual(json.loads(files["json"].read_text()), outcome)
            self.program("lab", "check", str(files["toml"]))

    def test_subtrees_move_and_come_back(self) -> None:
        with self.opened() as page:
            page.click("#mode-build")
            drag(page, node(page, "fpga2"), node(page, "rc47b"))
            expect(page.locator("#status")).to_have_text("fpga2 is below rc47b.")
            expect_below(page, "fpga2", "rc47b")
            # By keyboard, with all that is below it.
            expect_below(page, "rc47a", "rha25")
            page.select_option("#part-below", "rc47b")
            expect(page.locator("#status")).to_have_text("rc47a is below rc47b.")
            page.keyboard.press("Escape")
            expect(page.locator("#part")).to_be_hidden()
            self.assertEqual(page.evaluate("document.activeElement.dataset.node"), "rc47a")
            node(page, "fpga8").focus()
            page.keyboard.press("Delete")
            expect(node(page, "fpga8")).to_have_count(0)
            node(page, "fpga7").focus()
            page.keyboard.press("Control+z")
            expect(node(page, "fpga8")).to_have_count(1)
            page.keyboard.press("Control+Shift+z")
            expect(node(page, "fpga8")).to_have_count(0)
            for _ in range(3):
                page.click("#undo")
            expect(page.locator("#undo")).to_be_disabled()
            expect_below(page, "fpga2", "rc47a")

    def test_keys_of_a_part_are_changed(self) -> None:
        with self.opened() as page:
            page.click("#mode-build")
            node(page, "fpga2").click()
            tags = page.locator("#key-requester\\.tags")
            before = tags.input_value()
            tags.fill("4")
            tags.press("Enter")
            expect(page.locator("#status")).to_contain_text("requester.tags of fpga2 is 4.")
            expect(page.locator("#key-requester\\.tags-source")).to_have_value(
                "assumption: set by hand"
            )
            width = page.locator("#key-link\\.width")
            width.select_option("1")
            expect(page.locator("#tree")).to_contain_text("Gen2 x1")
            node(page, "fpga1").click()
            expect(page.locator("#part-title")).to_have_text("fpga1")
            expect(tags).to_have_value(before)
            # For all nodes of the part.
            page.locator("#scope-part").check()
            tags.fill("8")
            tags.press("Enter")
            expect(page.locator("#status")).to_contain_text("requester.tags of fpga1 is 8.")
            self.assertIn("[part.v7.requester]", page.input_value("#text"))
            node(page, "fpga8").click()
            expect(page.locator("#part-title")).to_have_text("fpga8")
            expect(tags).to_have_value("8")
            self.shot(page, "lab-part")

    def test_an_error_is_beside_its_part(self) -> None:
        with self.opened() as page:
            page.click("#mode-build")
            node(page, "fpga3").click()
            tags = page.locator("#key-requester\\.tags")
            tags.fill("0")
            tags.press("Enter")
            note = page.locator(".part-note")
            expect(note).to_be_visible()
            expect(note).to_contain_text("tags")
            expect(page.locator("#part-fault")).to_be_visible()
            expect(tags).to_have_attribute("aria-invalid", "true")
            faults = page.locator(".tree .is-fault")
            expect(faults).to_have_count(1)
            self.assertEqual(faults.get_attribute("data-node"), "fpga3")
            self.shot(page, "lab-part-fault")
            tags.fill("16")
            tags.press("Enter")
            expect(note).to_have_count(0)
            expect(page.locator("#part-fault")).to_be_hidden()

    def test_links_are_loaded_while_a_run_goes_on(self) -> None:
        with self.opened() as page:
            page.fill("#operations", "100000000")
            page.press("#operations", "Tab")
            page.click("#run")
            busy = page.locator(".tree .way:not(.load0)")
            expect(busy.first).to_be_visible()
            expect(page.locator("#status")).to_contain_text("simulated time")
            expect(page.locator("#stop")).to_be_enabled()
            words = page.locator(".tree .load-words").first
            page.click("#stop")
            expect(page.locator("#status")).to_have_text("Stopped.")
            self.assertRegex(words.text_content(), r"% · \d+(\.\d+)? MB/s")

    def test_one_tlp_is_stepped_through(self) -> None:
        with self.opened() as page:
            page.fill("#operations", "16")
            page.press("#operations", "Tab")
            self.run_lab(page)
            page.locator("#time > summary").click()
            said = page.locator("#lesson-said")
            expect(said).to_contain_text("sends #0 MWr")
            expect(said).to_contain_text("1 posted header and 8 data credits")
            sender = page.locator("#ledger tbody tr").first.locator("td").first
            first = sender.inner_text()
            seen = [said.inner_text()]
            while page.get_attribute("#lesson-next", "aria-disabled") == "false":
                page.click("#lesson-next")
                seen.append(said.inner_text())
            text = "\n".join(seen)
            self.assertRegex(text, r"has arrived at rc47a\.down0")
            self.assertIn("acknowledges #0", text)
            self.assertIn("may use the credits of #0 again", text)
            self.assertNotEqual(sender.inner_text(), first)
            self.assertLessEqual(page.evaluate("document.scrollingElement.scrollWidth"), 1280)
            expect(page.locator("#lesson-next")).to_have_attribute("aria-disabled", "true")
            self.shot(page, "lab-lesson")

    def test_a_sweep_is_what_the_program_prints(self) -> None:
        with self.opened() as page, tempfile.TemporaryDirectory() as folder:
            page.locator("#sweep > summary").click()
            page.fill("#sweep-values", "128, 1K")
            page.click("#sweep-run")
            expect(page.locator("#sweep-said")).to_have_text("2 runs.")
            expect(page.locator("#sweep-plot svg.wide")).to_be_visible()
            with page.expect_download() as download:
                page.click("#sweep-csv")
            file = Path(folder) / "sweep.csv"
            download.value.save_as(file)
            rows = list(csv.reader(file.read_text().splitlines()))
            self.assertEqual(rows[0], ["Bytes of an operation (B)", "fpga1 → fpga5 (B/s)"])
            self.shot(page, "lab-sweep")
            for size, rate in rows[1:]:
                flow = f"fpga1:fpga5:write:{size}"
                said = self.program("bench", "traffic", "--lab", "rosta", "--flow", flow)
                ours = said["scenarios"][0]["flows"][0]["bytes_per_second"]
                self.assertEqual(float(rate), ours)
            page.select_option("#sweep-over", "constant")
            page.fill("#sweep-path", "part.v7.requester.tags")
            page.press("#sweep-path", "Tab")
            page.fill("#sweep-values", "1, 2, 300000")
            page.click("#sweep-run")
            expect(page.locator("#sweep-said")).to_contain_text("tags 300000:")

    def test_a_lab_of_10000_parts_is_named(self) -> None:
        with self.opened() as page:
            page.select_option("#lab", "minimal")
            expect(page.locator("#from")).to_have_value("card0")
            page.locator("#file > summary").click()
            text = page.input_value("#text")
            page.fill("#text", text.replace('"card0"', '"card{1..10000}"'))
            expect(page.locator("#fault")).to_contain_text("more than the 31 that are possible")
            page.click("#undo")
            expect(page.locator("#fault")).to_be_hidden()
            self.assertRegex(self.run_lab(page), r"MB/s$")

    def test_every_view_of_building_fits(self) -> None:
        for width, theme in base.VIEWS:
            with self.subTest(width=width, theme=theme), self.opened(width, theme) as page:
                page.click("#mode-build")
                node(page, "fpga1").focus()
                page.keyboard.press("Enter")
                expect(page.locator("#part-title")).to_have_text("fpga1")
                seen = page.evaluate("document.scrollingElement.scrollWidth")
                self.assertLessEqual(seen, width)
                base.check_contrasts(self, page)
                self.assertEqual(page.evaluate(UNNAMED), [])
                self.shot(page, f"lab-build-{width}-{theme}")


# Controls without a name for screen readers.
UNNAMED = (
    "() => [...document.querySelectorAll('button, select, input, textarea, summary')]"
    ".filter((it) => !(it.textContent.trim() || it.ariaLabel || it.labels?.length))"
    ".map((it) => it.outerHTML)"
)


if __name__ == "__main__":
    unittest.main()
