# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The lab's page in a browser: `make check-web` runs it on `target/lab`, served as it is.

`SHOTS=FOLDER` keeps pictures. A request for anything but the page's own files, and an error on its
console, fail the test.
"""

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "report/browser"))
from test_page import CONTRASTS, LEAST_CONTRAST, LEAST_CONTRAST_LARGE, browser_path

TREE = Path(__file__).resolve().parents[4]
TARGET = TREE / os.environ.get("CARGO_TARGET_DIR", "target")
SITE = TARGET / "lab"
PROGRAM = TARGET / "debug/crosslane"
DUMP = TREE / "crates/twin/tests/dumps/server.txt"
VIEWS = [(width, theme) for width in (1280, 390) for theme in ("light", "dark")]
# Milliseconds until a slow machine's run is there.
PATIENCE_MS = 60_000


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def check_contrasts(case: unittest.TestCase, page: Page) -> None:
    """Fails the case if a text of the page can hardly be read."""
    for text in page.evaluate(CONTRASTS):
        least = LEAST_CONTRAST_LARGE if text["isLarge"] else LEAST_CONTRAST
        case.assertGreaterEqual(text["contrast"], least, text)


class PageCase(unittest.TestCase):
    """The page in a browser: that of `target/lab`, unless a class serves another one."""

    playwright: Playwright
    browser: Browser
    address: str

    @classmethod
    def serve(cls) -> str:
        """Serves the page; its address."""
        handler = functools.partial(Quiet, directory=str(SITE))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}/"

    @classmethod
    def setUpClass(cls) -> None:
        cls.address = cls.serve()
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = cls.playwright.chromium.launch(executable_path=browser_path())
        cls.addClassCleanup(cls.browser.close)

    @contextmanager
    def opened(self, width: int = 1280, theme: str = "light", fragment: str = "") -> Iterator[Page]:
        """The page, ready; afterwards nothing may have gone wrong."""
        wrong: list[str] = []
        context = self.browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, accept_downloads=True
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        own = (self.address, "data:", "blob:")
        page.on(
            "request",
            lambda it: None if it.url.startswith(own) else wrong.append(f"fetches {it.url}"),
        )
        page.goto(f"{self.address}{fragment}")
        page.wait_for_selector("#page[data-ready]")
        try:
            yield page
        finally:
            context.close()
        self.assertEqual(wrong, [])

    def run_lab(self, page: Page) -> str:
        """Runs, and returns the rate."""
        page.click("#run")
        expect(page.locator("#verdict")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.locator("#run")).to_be_enabled(timeout=PATIENCE_MS)
        return page.locator("#rate").inner_text()

    def program(self, *words: str) -> dict:
        """What the program prints as JSON."""
        said = subprocess.run(
            [PROGRAM, *words, "--json"], check=True, capture_output=True, text=True
        )
        return json.loads(said.stdout)


class LabPage(PageCase):
    """The page by itself, used as a user does."""

    def test_one_click_gives_the_programs_rate(self) -> None:
        with self.opened() as page:
            rate = self.run_lab(page)
            words = page.locator("#command").inner_text().split()
            self.assertEqual(words[0], "crosslane")
            flow = self.program(*words[1:])["scenarios"][0]["flows"][0]
            self.assertEqual(rate, f"{flow['bytes_per_second'] / 1e6:.1f} MB/s")
            self.assertGreater(page.locator(".tree .way").count(), 10)
            self.assertGreater(page.locator(".tree .is-limit").count(), 0)

    def test_cards_are_joined_by_keyboard(self) -> None:
        with self.opened() as page:
            page.locator('[data-node="fpga2"]').focus()
            page.keyboard.press("Enter")
            expect(page.locator("#status")).to_contain_text("From fpga2")
            page.locator('[data-node="fpga3"]').focus()
            page.keyboard.press("Space")
            expect(page.locator("#from")).to_have_value("fpga2")
            expect(page.locator("#to")).to_have_value("fpga3")
            page.click("#undo")
            expect(page.locator("#from")).to_have_value("fpga1")

    def test_the_driver_moves_what_the_program_moves(self) -> None:
        with self.opened() as page:
            page.select_option("#variant", "crosslane")
            page.locator("#engine").check()
            rate = self.run_lab(page)
            words = page.locator("#command").inner_text().split()
            self.assertEqual(words[2], "p2p")
            flow = self.program(*words[1:])["scenarios"][0]["flows"][0]
            self.assertEqual(rate, f"{flow['hardware']['bytes_per_second'] / 1e6:.1f} MB/s")

    def test_a_run_without_end_is_stopped(self) -> None:
        with self.opened() as page:
            page.fill("#operations", "100000000")
            page.press("#operations", "Tab")
            page.click("#run")
            expect(page.locator("#status")).to_contain_text("simulated time")
            page.click("#stop")
            expect(page.locator("#status")).to_have_text("Stopped.")
            page.fill("#operations", "")
            page.press("#operations", "Tab")
            self.assertRegex(self.run_lab(page), r"MB/s$")

    def test_an_error_is_beside_its_line(self) -> None:
        with self.opened() as page:
            page.locator("#file > summary").click()
            text = page.input_value("#text")
            page.fill("#text", text.replace("[part.v7.requester]", "[part.v7.requester]\ntagz = 3"))
            fault = page.locator("#fault")
            expect(fault).to_contain_text("part.v7.requester")
            expect(fault).to_contain_text("no key tagz; did you mean tags?")
            line = int(re.search(r"line (\d+)", fault.inner_text())[1])
            fault.get_by_role("button").click()
            chosen = page.evaluate(
                "() => { const t = document.querySelector('#text');"
                " return [t.value.slice(0, t.selectionStart).split('\\n').length,"
                " t.value.slice(t.selectionStart, t.selectionEnd)]; }"
            )
            self.assertEqual(chosen, [line, "tagz"])
            expect(page.locator(".line-note")).to_be_visible()
            page.fill("#text", text)
            expect(fault).to_be_hidden()

    def test_a_dump_becomes_a_lab_that_the_program_opens(self) -> None:
        with self.opened() as page, tempfile.TemporaryDirectory() as folder:
            page.click("#paste")
            page.fill("#dump", "Dear Sir,")
            page.click("#import-read")
            expect(page.locator("#import-said")).to_contain_text("it is neither a listing of")
            page.fill("#dump", DUMP.read_text())
            page.click("#import-read")
            expect(page.locator("#import")).to_be_hidden()
            expect(page.locator("#status")).to_contain_text("endpoint")
            rate = self.run_lab(page)
            words = page.locator("#command").inner_text().split()
            with page.expect_download() as download:
                page.click("#export-toml")
            file = Path(folder) / "twin.toml"
            download.value.save_as(file)
            words[words.index("--lab") + 1] = str(file)
            flow = self.program(*words[1:])["scenarios"][0]["flows"][0]
            self.assertEqual(rate, f"{flow['bytes_per_second'] / 1e6:.1f} MB/s")

    def test_a_slider_shows_before_and_after(self) -> None:
        with self.opened() as page:
            self.run_lab(page)
            page.locator("#slider-width").focus()
            page.keyboard.press("ArrowLeft")
            table = page.locator("#compared table")
            expect(table).to_be_visible()
            before, after, change = table.locator("tbody td.number").all_inner_texts()
            self.assertEqual(before, page.locator("#rate").inner_text())
            self.assertLess(float(after.split()[0]), 0.6 * float(before.split()[0]))
            self.assertTrue(change.startswith("\u2212"), change)

    def test_tlps_are_stepped_through(self) -> None:
        with self.opened() as page:
            page.fill("#operations", "16")
            page.press("#operations", "Tab")
            self.run_lab(page)
            page.locator("#time > summary").click()
            canvas = page.locator("#time-line canvas")
            expect(canvas).to_be_visible()
            canvas.focus()
            page.keyboard.press("n")
            said = page.locator("#time-line [role=status]")
            expect(said).to_contain_text("fpga1 -> rc47a.down0: #0 MWr")
            page.get_by_role("button", name="Next event").click()
            expect(said).not_to_contain_text("#0 MWr")
            drawn = page.evaluate(
                "() => { const c = document.querySelector('#time-line canvas');"
                " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                " let [bars, blue] = [0, 0];"
                " for (let at = 0; at < d.length; at += 4) {"
                "   bars += d[at + 3] > 0; blue += d[at + 3] > 0 && d[at + 2] > d[at] + 60; }"
                " return [bars, blue]; }"
            )
            self.assertGreater(drawn[0], 1000)
            self.assertGreater(drawn[1], 1000)
            if shots := os.environ.get("SHOTS"):
                page.screenshot(path=Path(shots) / "lab-time-line.png", full_page=True)

    def test_an_address_holds_the_lab_and_the_flows(self) -> None:
        with self.opened() as page:
            page.select_option("#lab", "minimal")
            expect(page.locator("#from")).to_have_value("card0")
            page.click("#share")
            expect(page.locator("#status")).to_contain_text("address")
            fragment = "#" + page.evaluate("location.hash").lstrip("#")
        with self.opened(fragment=fragment) as page:
            expect(page.locator("#lab")).to_have_value("minimal")
            expect(page.locator("#from")).to_have_value("card0")

    def test_results_and_drawings_are_saved(self) -> None:
        with self.opened() as page:
            self.run_lab(page)
            for kind, begin in [
                ("json", '{\n  "bench": "traffic"'),
                ("svg", "<svg xmlns="),
                ("html", "<!DOCTYPE html>"),
            ]:
                with page.expect_download() as download:
                    page.click(f"#export-{kind}")
                text = Path(download.value.path()).read_text()
                self.assertTrue(text.startswith(begin), text[:60])

    def test_every_view_fits_and_can_be_read(self) -> None:
        shots = os.environ.get("SHOTS")
        for width, theme in VIEWS:
            with self.subTest(width=width, theme=theme), self.opened(width, theme) as page:
                for state in ("begun", "ran"):
                    if state == "ran":
                        self.run_lab(page)
                    seen = page.evaluate("document.scrollingElement.scrollWidth")
                    self.assertLessEqual(seen, width)
                    check_contrasts(self, page)
                    if shots:
                        name = f"lab-{state}-{width}-{theme}.png"
                        page.screenshot(path=Path(shots) / name, full_page=True)

    def test_every_control_has_a_name(self) -> None:
        with self.opened() as page:
            unnamed = page.evaluate(
                "() => [...document.querySelectorAll('button, select, input, textarea, summary')]"
                ".filter((it) => !(it.textContent.trim() || it.ariaLabel || it.labels?.length))"
                ".map((it) => it.outerHTML)"
            )
            self.assertEqual(unnamed, [])


if __name__ == "__main__":
    unittest.main()
