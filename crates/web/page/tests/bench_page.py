# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How the page of the lab feels: `make bench-web`, never a test.

Of the page by itself and of `crosslane ui`: the time from a fresh load to the first result, with
one click, as a share of the 3 s that it may take; and the frames that are drawn while a run of a
lab of 1,000 endpoints goes on, as a ratio to 60 a second.
"""

import subprocess
import sys
import time
import unittest
from pathlib import Path

import test_lab_page as base
from playwright.sync_api import Page, expect

# Hosts of the large lab, and endpoints of each.
HOSTS, CARDS = 40, 25
# Seconds in which frames are counted, and frames of a second that are drawn in time.
COUNTED_S, FULL = 5, 60
# Seconds until the first result may be there.
FIRST_S = 3
# Counts frames while the drawing is scrolled, so that each frame has something to draw.
COUNT = """(seconds) => new Promise((resolve) => {
  const box = document.querySelector('#tree');
  const begin = performance.now();
  let [frames, longest, before] = [0, 0, begin];
  const frame = (now) => {
    frames += 1;
    longest = Math.max(longest, now - before);
    before = now;
    box.scrollTop = 200 + 200 * Math.sin(now / 300);
    if (now - begin < 1000 * seconds) requestAnimationFrame(frame);
    else resolve([(1000 * frames) / (now - begin), longest]);
  };
  requestAnimationFrame(frame);
})"""
# The address of a state, as the page makes it.
FRAGMENT = "async (state) => (await import('./share.js')).fragmentOf(state)"


def large_lab(text: str) -> str:
    """The lab `minimal` with many hosts and cards."""
    last = HOSTS * CARDS - 1
    for old, new in [
        ('name = "host0"', f'name = "host{{0..{HOSTS - 1}}}"'),
        ('name = "card0"', f'name = "card{{0..{last}}}"'),
        ('upper = "host0" ', f'upper = "host{{0..{HOSTS - 1}}}"'),
        ('lower = "card0" ', f'lower = "card{{0..{last}}}"'),
    ]:
        if text.count(old) != 1:
            raise ValueError(f"the lab minimal has {text.count(old)} lines {old}")
        text = text.replace(old, new)
    return text


def said(what: str) -> None:
    """A line of the result."""
    print(what, flush=True)


class Measured:
    """What is measured of a page, wherever it is."""

    def first_result(self: base.PageCase, name: str) -> None:
        """The time from a fresh load to the first result."""
        context = self.browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        begun = time.monotonic()
        page.goto(self.address)
        page.click("#run:enabled", timeout=base.PATIENCE_MS)
        page.wait_for_selector("#rate", timeout=base.PATIENCE_MS)
        taken = time.monotonic() - begun
        context.close()
        said(f"{name}: first result after {taken:.2f} s, {taken / FIRST_S:.2f} of {FIRST_S} s")

    def frames(self: base.PageCase, name: str) -> None:
        """The frames that are drawn, before and during a run."""
        with self.opened() as page:
            text = page.input_value("#text")
            page.select_option("#lab", "minimal")
            expect(page.locator("#from")).to_have_value("card0")
            expect(page.locator("#text")).not_to_have_value(text)
            flows = [
                {"from": "*", "to": f"host{host}", "kind": "write", "size": "4K"}
                for host in range(HOSTS)
            ]
            state = {
                "name": "large.toml",
                "text": large_lab(page.input_value("#text")),
                "variant": None,
                "mover": "generic",
                "flows": flows,
                "operations": 1_000_000,
                "what_if": {},
            }
            fragment = page.evaluate(FRAGMENT, state)
        with self.opened(fragment=f"#{fragment}") as page:
            count = page.locator("#tree [data-node]").count()
            said(f"{name}: frames of 60 a second with {count} nodes drawn")
            said(f"  idle            {ratio(page)}")
            page.click("#run")
            status = page.locator("#status")
            expect(status).to_contain_text("simulated time", timeout=base.PATIENCE_MS)
            # The drawing of loads is made once, and then updated.
            said(f"  a run begins    {ratio(page)}")
            said(f"  during a run    {ratio(page)}")
            page.click("#stop")
            expect(status).to_have_text("Stopped.")


def ratio(page: Page) -> str:
    """The frames that are drawn, in words."""
    rate, longest = page.evaluate(COUNT, COUNTED_S)
    return f"{rate / FULL:.2f}, the longest took {longest:.0f} ms"


class BenchPage(Measured, base.PageCase):
    """The page by itself."""

    def test_page(self) -> None:
        """Both of them."""
        self.first_result("page")
        self.frames("page")


class BenchServed(Measured, base.PageCase):
    """The page of the program whose path is the argument."""

    program: Path

    @classmethod
    def serve(cls) -> str:
        """Starts the program; its address."""
        words = [cls.program, "ui", "--page", base.SITE]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(process.communicate)
        cls.addClassCleanup(process.kill)
        return process.stdout.readline().strip()

    def test_program(self) -> None:
        """Both of them."""
        self.first_result("crosslane ui")
        self.frames("crosslane ui")


if __name__ == "__main__":
    BenchServed.program = Path(sys.argv.pop(1))
    unittest.main()
