#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Looks at the site in a browser: nothing is fetched, nothing is wider than the window.

`make check-site` runs it after `make site`. `--shots FOLDER` keeps a picture of each view.
"""

import argparse
import sys
from pathlib import Path

from book import TARGET
from playwright.sync_api import Browser, Page, TimeoutError, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "crates/report/browser"))
from test_page import CONTRASTS, LEAST_CONTRAST, LEAST_CONTRAST_LARGE, browser_path

SITE = TARGET / "site"
PAGES = [
    "index.html",
    "five-minutes.html",
    "tutorials/own-topology.html",
    "how-to/slow.html",
    "commands/crosslane-bench-write.html",
    "lab-keys.html",
    "c-reference.html",
    "python-reference.html",
    "registers.html",
    "tree/examples/first_transfer.rs.html",
]
WIDTHS = [1280, 390]
THEMES = ["light", "dark"]
# Words that the search has to find, and the page that has most of them.
SOUGHT = ("huge pages", "how-to/huge-pages.html")


def faults(page: Page, width: int) -> list[str]:
    """The faults of the page that is shown."""
    found = []
    if (seen := page.evaluate("document.scrollingElement.scrollWidth")) > width:
        found.append(f"is {seen} px wide")
    if not page.locator("main h1").count():
        found.append("has no heading")
    for text in page.evaluate(CONTRASTS):
        least = LEAST_CONTRAST_LARGE if text["isLarge"] else LEAST_CONTRAST
        if text["contrast"] < least:
            found.append(f"has too little contrast: {text}")
    return found


def look(browser: Browser, name: str, width: int, theme: str, shots: Path | None) -> list[str]:
    """Opens a page, and returns what is wrong with it."""
    view = f"{name}, {width} px, {theme}"
    found: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    page = context.new_page()
    page.on("console", lambda message: found.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: found.append(f"error: {error}"))
    inside = SITE.resolve().as_uri()
    page.on(
        "request",
        lambda it: (
            found.append(f"fetches {it.url}") if not it.url.startswith((inside, "data:")) else None
        ),
    )
    page.goto((SITE / name).resolve().as_uri())
    found += faults(page, width)
    if shots:
        page.screenshot(path=shots / f"{name.replace('/', '-')}-{width}-{theme}.png")
    context.close()
    return [f"{view}: {what}" for what in found]


def search(browser: Browser) -> list[str]:
    """Types words into the search of the first page."""
    words, expected = SOUGHT
    page = browser.new_page()
    page.goto((SITE / "index.html").resolve().as_uri())
    page.keyboard.press("s")
    page.locator("#mdbook-searchbar:focus").wait_for(timeout=10_000)
    page.keyboard.type(words)
    results = page.locator("#mdbook-searchresults a")
    results.first.wait_for(timeout=10_000)
    links = [link.get_attribute("href") or "" for link in results.all()]
    page.close()
    return [] if any(expected in link for link in links) else [f"the search for {words}: {links}"]


def lab_from_disk(browser: Browser) -> list[str]:
    """Opens the page of the lab as a file, where it cannot run: it has to say so."""
    page = browser.new_page()
    page.goto((SITE / "lab/index.html").resolve().as_uri())
    try:
        page.get_by_text("from servers only").wait_for(timeout=10_000)
    except TimeoutError:
        return ["the page of the lab does not say why it stays empty"]
    finally:
        page.close()
    return []


def main() -> int:
    """Looks at some pages of each kind, in each width and theme."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shots", type=Path, help="keep pictures in this folder")
    shots = parser.parse_args().shots
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path())
        wrong = search(browser) + lab_from_disk(browser)
        for name in PAGES:
            for width in WIDTHS:
                for theme in THEMES:
                    wrong += look(browser, name, width, theme, shots)
        browser.close()
    for what in wrong:
        print(f"error: {what}", file=sys.stderr)
    print(f"{len(PAGES) * len(WIDTHS) * len(THEMES)} views, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
