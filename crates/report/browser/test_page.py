# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pages in a browser: the sample, and every page named in CROSSLANE_PAGES (parted by colons).

`make check-report` writes the sample and runs this. Every page is opened from disk; an error on
its console, and a request for anything but the page, fail the test. A page that has passed all
tests is not opened again by the same tests in the same browser (tools/cache.py).
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, Playwright, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
import cache

TREE = Path(__file__).resolve().parents[3]
TARGET = TREE / os.environ.get("CARGO_TARGET_DIR", "target")
SAMPLE = TARGET / "report-sample" / "index.html"
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
# Text of a table's cell without a value.
NO_NUMBER = "\u2013"
WIDTHS = [360, 768, 1280]
THEMES = ["light", "dark"]
# WCAG 2 AA: of text, and of text of at least 24 px or bold 18.66 px.
LEAST_CONTRAST = 4.5
LEAST_CONTRAST_LARGE = 3.0

# Every text that is seen, with its contrast: colours as the browser computed them.
CONTRASTS = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")

# The element that has the focus, and how that is shown.
FOCUSED = """(() => {
  const { tagName, className, type } = document.activeElement;
  const { outlineStyle } = getComputedStyle(document.activeElement);
  return `${tagName}.${className} ${type ?? ""} ${outlineStyle}`;
})()"""


def browser_path() -> str:
    """The system's browser."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    raise unittest.SkipTest.failureException(
        f"no browser is installed: one of {', '.join(BROWSERS)} is needed (Debian: chromium)"
    )


def show(target: Locator) -> None:
    """Scrolls to an element and waits until the page knows: a page that scrolls hides read-outs."""
    target.scroll_into_view_if_needed()
    target.page.evaluate(
        "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"
    )


class InBrowser(unittest.TestCase):
    """Opens pages and watches what they do."""

    playwright: Playwright
    browser: Browser

    @classmethod
    def setUpClass(cls) -> None:
        path = browser_path()
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = cls.playwright.chromium.launch(executable_path=path)
        cls.addClassCleanup(cls.browser.close)

    @contextmanager
    def opened(
        self,
        path: Path = SAMPLE,
        width: int = 1280,
        theme: str = "light",
        javascript: bool = True,
        reduced_motion: bool = True,
    ) -> Iterator[Page]:
        """The page in a browser of that width; afterwards nothing may have gone wrong."""
        wrong: list[str] = []
        address = path.as_uri()
        context = self.browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=theme,
            java_script_enabled=javascript,
            reduced_motion="reduce" if reduced_motion else "no-preference",
        )
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: wrong.append(request.url))
        page.goto(address)
        try:
            yield page
        finally:
            context.close()
        # The browser asks for the page itself, again where a test loads it anew.
        self.assertEqual([what for what in wrong if what.split("#")[0] != address], [])


class EveryPage(InBrowser):
    """Checks that hold for any page."""

    # The sample and those that are named.
    pages = tuple(
        Path(name).resolve()
        for name in [SAMPLE, *os.environ.get("CROSSLANE_PAGES", "").split(":")]
        if name
    )

    def test_no_page_scrolls_sideways(self) -> None:
        for path in self.pages:
            for width in WIDTHS:
                with self.subTest(page=str(path)), self.opened(path, width) as page:
                    self.assertLessEqual(
                        page.evaluate("document.scrollingElement.scrollWidth"), width
                    )

    def test_text_has_contrast_in_both_themes(self) -> None:
        for path in self.pages:
            for theme in THEMES:
                with self.subTest(page=str(path)), self.opened(path, theme=theme) as page:
                    page.evaluate(
                        "for (const d of document.querySelectorAll('details')) d.open = true"
                    )
                    texts = page.evaluate(CONTRASTS)
                    self.assertGreater(len(texts), 10)
                    for text in texts:
                        least = LEAST_CONTRAST_LARGE if text["isLarge"] else LEAST_CONTRAST
                        self.assertGreaterEqual(text["contrast"], least, f"{theme}: {text}")

    def test_print_has_pages_on_white(self) -> None:
        for path in self.pages:
            with self.subTest(page=str(path)), self.opened(path, theme="dark") as page:
                pdf = page.pdf(format="A4", print_background=True)
                sheets = len(re.findall(rb"/Type\s*/Page\b", pdf))
                # The sample is longer than one, other pages may be short.
                self.assertGreaterEqual(sheets, 2 if path == SAMPLE.resolve() else 1)
                page.emulate_media(media="print")
                background = "getComputedStyle(document.body).backgroundColor"
                self.assertEqual(page.evaluate(background), "rgb(255, 255, 255)")
                self.assertFalse(page.locator("#theme").is_visible())

    def test_headings_and_landmarks(self) -> None:
        for path in self.pages:
            with self.subTest(page=str(path)), self.opened(path) as page:
                levels = page.evaluate(
                    "[...document.querySelectorAll('h1, h2, h3')].map((h) => Number(h.tagName[1]))"
                )
                self.assertEqual(levels[0], 1)
                self.assertEqual(levels.count(1), 1)
                for above, below in itertools.pairwise(levels):
                    self.assertLessEqual(below, above + 1, levels)
                for landmark in ["banner", "main"]:
                    self.assertEqual(page.get_by_role(landmark).count(), 1, landmark)
                unnamed = "svg[role=img]:not([aria-label]):not([aria-labelledby])"
                self.assertEqual(page.locator(unnamed).count(), 0)

    def test_all_can_be_read_without_javascript(self) -> None:
        for path in self.pages:
            with self.subTest(page=str(path)), self.opened(path, javascript=False) as page:
                self.assertFalse(page.locator("#theme").is_visible())
                self.assertEqual(page.locator(".legend button, th button").count(), 0)
                for section in page.locator("main > section").all():
                    self.assertTrue(section.is_visible())
                for details in page.locator("details").all():
                    details.locator("summary").click()
                    self.assertTrue(details.locator("table").is_visible())
                if page.locator("svg").count() > 0:
                    self.assertTrue(page.locator("svg").first.is_visible())


class Plots(InBrowser):
    """Legends and read-outs."""

    def test_a_legend_hides_and_shows_a_series(self) -> None:
        with self.opened() as page:
            figure = page.locator("figure.plot").first
            button = figure.get_by_role("button", name="write", exact=True)
            line = figure.locator(".chart.wide .series.ours.c0 .stroke")
            self.assertTrue(line.is_visible())
            button.click()
            self.assertFalse(line.is_visible())
            self.assertEqual(button.get_attribute("aria-pressed"), "false")
            self.assertTrue(figure.locator(".chart.wide .series.ours.c1 .stroke").is_visible())
            # By keyboard.
            button.focus()
            page.keyboard.press("Space")
            self.assertTrue(line.is_visible())
            self.assertEqual(button.get_attribute("aria-pressed"), "true")

    def test_a_pointer_reads_the_nearest_value(self) -> None:
        for width, which in [(1280, "wide"), (360, "narrow")]:
            with self.subTest(width=width), self.opened(width=width) as page:
                figure = page.locator("figure.plot").first
                chart = figure.locator(f".chart.{which}")
                self.assertTrue(chart.is_visible())
                show(chart)
                mark = chart.locator(".series.ours.c1 .mark").nth(9).bounding_box()
                page.mouse.move(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
                tip = page.locator(".tip")
                self.assertTrue(tip.is_visible())
                self.assertIn("read\n32 KiB: ", tip.inner_text())
                self.assertNotIn("write", tip.inner_text())
                self.assertIn("MB/s", tip.inner_text())
                self.assertEqual(chart.locator(".ring").count(), 1)
                page.mouse.move(2, 2)
                self.assertFalse(tip.is_visible())
                self.assertEqual(chart.locator(".ring").count(), 0)

    def test_values_in_one_place_are_read_together(self) -> None:
        with self.opened() as page:
            chart = page.locator("figure.plot").nth(2).locator(".chart.wide")
            show(chart)
            mark = chart.locator(".series.ours .mark").nth(3).bounding_box()
            page.mouse.move(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
            said = page.locator(".tip").inner_text()
            self.assertIn("simulated\n8 FPGAs: 6102.4 MB/s", said)
            self.assertIn("simulated, published\n8 FPGAs: 6090 MB/s", said)

    def test_a_hidden_series_is_not_read(self) -> None:
        with self.opened() as page:
            figure = page.locator("figure.plot").first
            figure.get_by_role("button", name="read", exact=True).click()
            chart = figure.locator(".chart.wide")
            show(chart)
            box = chart.bounding_box()
            page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.5)
            self.assertNotIn("read\n", page.locator(".tip").inner_text())

    def test_arrow_keys_go_from_value_to_value(self) -> None:
        with self.opened() as page:
            stage = page.locator("figure.plot .stage").first
            show(stage)
            stage.focus()
            said = []
            tip = page.locator(".tip")
            for key in ["ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"]:
                page.keyboard.press(key)
                self.assertTrue(tip.is_visible(), key)
                said.append(tip.inner_text())
            self.assertEqual(len(set(said)), 4, said)
            page.keyboard.press("Escape")
            self.assertFalse(tip.is_visible())

    def test_bars_and_links_are_read(self) -> None:
        with self.opened() as page:
            tip = page.locator(".tip")
            piece = page.locator(".bar .piece").first
            show(piece)
            piece.hover()
            self.assertTrue(tip.is_visible())
            self.assertEqual(tip.inner_text(), "64 B\npayload: 11.0 %")
            page.mouse.move(2, 2)
            way = page.locator(".tree-box .way.load4").first
            show(way)
            # A direction ends on a straight line, at one end of its box.
            at = "(way) => { const at = way.getPointAtLength(way.getTotalLength() - 20);"
            at += " const to = at.matrixTransform(way.getScreenCTM()); return [to.x, to.y]; }"
            page.mouse.move(*way.evaluate(at))
            self.assertIn("busy 96.8 %", tip.inner_text())
            self.assertIn("headers: ", tip.inner_text())


class Tables(InBrowser):
    """Sorting and searching."""

    @staticmethod
    def column(page: Page, number: int) -> list[str]:
        """The cells of a column that are seen."""
        rows = page.locator("#all-figures tbody tr:visible")
        return rows.locator(f"td:nth-child({number})").all_inner_texts()

    def test_a_heading_sorts(self) -> None:
        with self.opened() as page:
            before = self.column(page, 5)
            heading = page.locator("#all-figures th", has_text="MB/s")
            heading.get_by_role("button").click()
            self.assertEqual(heading.get_attribute("aria-sort"), "ascending")
            up = self.column(page, 5)
            # Cells without a number stay at the end.
            self.assertEqual(up[-1], NO_NUMBER)
            self.assertEqual(up[:-1], sorted((t for t in before if t != NO_NUMBER), key=float))
            heading.get_by_role("button").press("Enter")
            self.assertEqual(heading.get_attribute("aria-sort"), "descending")
            self.assertEqual(self.column(page, 5)[:-1], up[-2::-1])
            heading.get_by_role("button").press("Enter")
            self.assertEqual(self.column(page, 5), before)

    def test_sizes_and_words_sort_as_they_read(self) -> None:
        with self.opened() as page:
            page.locator("#all-figures th", has_text="Size").get_by_role("button").click()
            sizes = list(dict.fromkeys(self.column(page, 6)))
            self.assertEqual(sizes, ["64 B", "256 B", "4 KiB", "1 MiB"])
            page.locator("#all-figures th", has_text="Figure").get_by_role("button").click()
            self.assertEqual(self.column(page, 1), [f"figure {n}" for n in range(1, 61)])

    def test_a_search_leaves_what_it_finds(self) -> None:
        with self.opened() as page:
            field = page.locator("#all-figures input[type=search]")
            field.fill("FPGA3 write")
            found = page.locator("#all-figures tbody tr:visible").all_inner_texts()
            self.assertGreater(len(found), 0)
            self.assertTrue(all("fpga3" in row and "write" in row for row in found), found)
            count = page.locator("#all-figures .search output").inner_text()
            self.assertEqual(count, f"{len(found)} of 60 rows")
            field.fill("")
            self.assertEqual(page.locator("#all-figures tbody tr:visible").count(), 60)
            self.assertEqual(page.locator("input[type=search]").count(), 1, "of no other table")

    def test_bad_cells_are_told_without_colour(self) -> None:
        with self.opened() as page:
            cell = page.locator("td.bad").first
            self.assertIn("▲", cell.inner_text())
            self.assertIn("to look at: ", cell.text_content())


class Frame(InBrowser):
    """Theme, contents, keyboard."""

    BACKGROUND = "getComputedStyle(document.body).backgroundColor"

    def test_the_theme_is_the_systems_until_it_is_chosen(self) -> None:
        with self.opened(theme="dark") as page:
            dark = page.evaluate(self.BACKGROUND)
            page.emulate_media(color_scheme="light")
            light = page.evaluate(self.BACKGROUND)
            self.assertNotEqual(dark, light)
            button = page.get_by_role("button", name="Use dark colours")
            button.click()
            self.assertEqual(page.evaluate(self.BACKGROUND), dark)
            page.reload()
            self.assertEqual(page.evaluate(self.BACKGROUND), dark, "the choice is kept")
            page.get_by_role("button", name="Use light colours").press("Enter")
            self.assertEqual(page.evaluate(self.BACKGROUND), light)

    def test_contents_lead_to_sections(self) -> None:
        with self.opened() as page:
            links = page.get_by_role("navigation", name="Contents").get_by_role("link").all()
            self.assertEqual(len(links), page.locator("main > section").count())
            for link in links:
                link.click()
                target = page.locator(f"section{link.get_attribute('href')}")
                # The end of a page has no room to scroll a heading to its top.
                top = target.locator("h2").bounding_box()["y"]
                self.assertTrue(0 <= top < 800, f"{link.inner_text()}: {top}")

    def test_a_keyboard_reaches_everything(self) -> None:
        with self.opened() as page:
            focused: list[str] = []
            for _ in range(120):
                page.keyboard.press("Tab")
                focused.append(page.evaluate(FOCUSED))
            self.assertTrue(focused[0].startswith("A.skip"), focused[0])
            for wanted in ["BUTTON. button", "A. ", "DIV.stage", "DIV.scroll", "INPUT. search"]:
                seen = [what for what in focused if what.startswith(wanted)]
                self.assertTrue(seen, f"{wanted} in {focused}")
                for what in seen:
                    self.assertNotIn("none", what, "focus is seen")

    def test_large_trees_scroll_in_their_box(self) -> None:
        with self.opened() as page:
            box = page.locator(".tree-box").nth(1)
            inner, outer = box.evaluate("(box) => [box.scrollHeight, box.clientHeight]")
            self.assertGreater(inner, 2 * outer)
            self.assertLessEqual(outer, 800)


def main() -> None:
    """Runs all tests, or those named, on the pages that have not passed all of them before."""
    version = subprocess.run([browser_path(), "--version"], capture_output=True, check=True).stdout
    keys = {page: cache.key(page, Path(__file__), CONTRASTS, version) for page in EveryPage.pages}
    EveryPage.pages = tuple(page for page, key in keys.items() if not cache.remembered(key))
    print(f"{len(keys) - len(EveryPage.pages)} of {len(keys)} pages remembered")
    # The other tests look at the sample.
    default = None if SAMPLE.resolve() in EveryPage.pages else "EveryPage"
    done = unittest.main(defaultTest=default, exit=False)
    if not done.result.wasSuccessful():
        sys.exit(1)
    if set(sys.argv[1:]) <= {"--quiet"}:
        for page in EveryPage.pages:
            cache.remember(keys[page], f"page {page.parent.name}")


if __name__ == "__main__":
    main()
