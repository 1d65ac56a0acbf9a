# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page that `crosslane ui` serves, in a browser: runs, cards and bridges of this machine."""

import json
import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from playwright.sync_api import expect
from test_lab_page import PATIENCE_MS, PROGRAM, SITE, PageCase, check_contrasts

# An event of a bridge server, as it logs them.
EVENT = {
    "time": 1_700_000_000.5,
    "text": "rnode: 1048576 B remote -> FPGA",
    "report": {
        "path": "ToFpga",
        "bytes": 1 << 20,
        "elapsed_ps": 1_000_000_000,
        "stages": [
            {"stage": "RdmaRead", "bytes": 1 << 20, "busy_ps": 900_000_000},
            {"stage": "Dma", "bytes": 1 << 20, "busy_ps": 500_000_000},
        ],
    },
}


class ServedPage(PageCase):
    """The page of the program, used as a user does."""

    folder: Path
    log: Path

    @classmethod
    def serve(cls) -> str:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        for stage in EVENT["report"]["stages"]:
            stage["waiting_for_slot_ps"] = 0
        log = cls.folder / "bridge.log"
        log.write_text(json.dumps(EVENT) + "\n")
        cls.log = log
        words = [PROGRAM, "ui", "rosta:crosslane", "--page", SITE, "--bridge", log]
        return cls.started(words).stdout.readline().strip()

    @classmethod
    def started(cls, words: list) -> subprocess.Popen:
        """A program that runs until the tests end."""
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

        def end() -> None:
            process.kill()
            process.communicate()

        cls.addClassCleanup(end)
        return process

    def test_the_lab_that_was_named_gives_the_programs_rate(self) -> None:
        with self.opened() as page:
            fetched: list[str] = []
            page.on("request", lambda it: fetched.append(it.url))
            expect(page.locator("#lab")).to_have_value("rosta")
            expect(page.locator("#variant")).to_have_value("crosslane")
            expect(page.locator("#where")).to_contain_text("on this machine")
            rate = self.run_lab(page)
            words = page.locator("#command").inner_text().split()
            self.assertIn("rosta:crosslane", words)
            flow = self.program(*words[1:])["scenarios"][0]["flows"][0]
            self.assertEqual(rate, f"{flow['bytes_per_second'] / 1e6:.1f} MB/s")
            self.assertEqual({url.rsplit("/", 1)[1] for url in fetched}, {"ask"})
            page.locator("#time > summary").click()
            expect(page.locator("#time-line canvas")).to_be_visible(timeout=PATIENCE_MS)

    def test_a_run_without_end_is_stopped(self) -> None:
        with self.opened() as page:
            page.fill("#operations", "100000000")
            page.press("#operations", "Tab")
            page.click("#run")
            expect(page.locator("#status")).to_contain_text("simulated time")
            # Loads of links are drawn while it goes on.
            expect(page.locator(".tree .way").first).to_be_attached()
            page.click("#stop")
            expect(page.locator("#status")).to_have_text("Stopped.")
            page.fill("#operations", "16")
            page.press("#operations", "Tab")
            self.assertRegex(self.run_lab(page), r"MB/s$")

    def test_a_card_of_a_server_is_measured(self) -> None:
        socket = self.folder / "card.sock"
        self.started(
            [PROGRAM, "lab", "serve", "kc705:crosslane", "--device", "kc705", "--socket", socket]
        )
        end = time.monotonic() + PATIENCE_MS / 1000
        while not socket.exists():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        with self.opened() as page:
            page.locator("#machine > summary").click()
            page.fill("#card", "vfio-user:/nosuch")
            page.click("#card-run")
            expect(page.locator("#cards .fault").last).to_contain_text("/nosuch")
            page.fill("#card", f"vfio-user:{socket}")
            page.click("#card-run")
            expect(page.locator("#card-rate")).to_contain_text("MB/s", timeout=PATIENCE_MS)

    def log_moving(self, megabytes: int) -> None:
        """Logs how far a transfer of 4 MiB is, as a bridge server does while it goes on."""
        report = {**EVENT["report"], "bytes": megabytes << 20}
        event = {**EVENT, "event": "moving", "session": 1, "of_bytes": 4 << 20, "report": report}
        with self.log.open("a") as log:
            log.write(json.dumps({**event, "time": time.time(), "client": "rnode"}) + "\n")

    def test_bridges_and_cards_fit_and_can_be_read(self) -> None:
        for width, theme in [(1280, "light"), (390, "dark")]:
            with self.subTest(width=width), self.opened(width, theme) as page:
                page.locator("#machine > summary").click()
                bridges = page.locator("#bridges")
                expect(bridges).to_contain_text("RDMA read busy 90.0 %; DMA busy 50.0 %")
                expect(bridges).to_contain_text("1 MiB in 1.000 ms, 1048.6 MB/s")
                for megabytes in [2, 3]:
                    self.log_moving(megabytes)
                    expect(bridges).to_contain_text(f"{megabytes} MiB of 4 MiB in 1.000 ms")
                bar = bridges.get_by_role("progressbar", name="transfer of rnode")
                expect(bar).to_have_attribute("value", str(3 << 20))
                seen = page.evaluate("document.scrollingElement.scrollWidth")
                self.assertLessEqual(seen, width)
                check_contrasts(self, page)
                if shots := os.environ.get("SHOTS"):
                    page.screenshot(path=Path(shots) / f"ui-{width}-{theme}.png", full_page=True)


if __name__ == "__main__":
    unittest.main()
