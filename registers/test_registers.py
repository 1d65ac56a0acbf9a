# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the generator: its check fails when it must, and its files are usable."""

import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import generate

TREE = Path(__file__).resolve().parent.parent


class Copy(unittest.TestCase):
    """Tests on a copy of the files that the generator reads and writes."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        self.maps = self.tree / "registers"
        self.maps.mkdir()
        for path in (TREE / "registers").glob("*.rdl"):
            shutil.copy(path, self.maps)
        for part in (generate.RUST_FOLDER, generate.C_FOLDER, generate.BLOCK_FOLDER):
            shutil.copytree(TREE / part, self.tree / part)
        (self.tree / "docs").mkdir()
        shutil.copy(TREE / generate.PAGE, self.tree / generate.PAGE)

    def edit(self, file: str, old: str, new: str) -> None:
        """Replaces `old`, which the map has exactly once."""
        path = self.maps / file
        text = path.read_text(encoding="utf-8")
        self.assertEqual(text.count(old), 1, f"{file} has `{old}` once")
        path.write_text(text.replace(old, new), encoding="utf-8")

    def check(self) -> tuple[int, str]:
        """Exit status of `generate.py --check`, and its output."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status = generate.main(self.tree, ["--check"])
        return status, said.getvalue()

    def test_the_tree_is_what_the_maps_say(self) -> None:
        self.assertEqual(self.check(), (0, ""))

    def test_an_edited_register_is_found(self) -> None:
        self.edit("engine.rdl", "} doorbell @ 0x1c;", "} doorbell @ 0x38;")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertEqual(
            said.splitlines(),
            [
                "crates/regs/src/engine.rs: is not what registers/ says",
                "docs/registers.md: is not what registers/ says",
                "gateware/rtl/generated/crosslane_channel_block.sv: is not what registers/ says",
                "gateware/rtl/generated/crosslane_channel_block_pkg.sv: is not what "
                "registers/ says",
                "registers/generated/engine.h: is not what registers/ says",
                "error: run `make registers` and commit what it writes",
            ],
        )
        self.assertEqual(generate.main(self.tree, []), 0)
        self.assertEqual(self.check(), (0, ""))
        engine = (self.tree / generate.RUST_FOLDER / "engine.rs").read_text(encoding="utf-8")
        self.assertIn("DOORBELL = 0x38 (keeps 0xffffffff, acts 0x0);", engine)

    def test_an_edited_layout_is_found(self) -> None:
        self.edit("descriptors.rdl", " sequence @ 0x00;", " ordinal @ 0x00;")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("crates/regs/src/status_block.rs: is not", said)
        self.assertIn("registers/generated/descriptors.h: is not", said)
        self.assertNotIn("ring_descriptor.rs", said)

    def test_an_edited_output_is_found(self) -> None:
        path = self.tree / generate.RUST_FOLDER / "engine.rs"
        path.write_text(path.read_text(encoding="utf-8") + "// by hand\n", encoding="utf-8")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("crates/regs/src/engine.rs: is not", said)

    def test_a_missing_and_a_left_over_file_are_found(self) -> None:
        (self.tree / generate.C_FOLDER / "engine.h").unlink()
        (self.tree / generate.RUST_FOLDER / "old.rs").write_text("//\n", encoding="utf-8")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("registers/generated/engine.h: is missing", said)
        self.assertIn("crates/regs/src/old.rs: nothing generates it", said)

    def test_overlaps_are_refused(self) -> None:
        cases = [
            ("} doorbell @ 0x1c;", "} doorbell @ 0x18;", "overlaps with 'ring_entries'"),
            ("c2h[4] @ 0x3400", "c2h[4] @ 0x3300", "overlaps with 'h2c'"),
            ("} in_flight[31:16]", "} in_flight[31:6]", "overlaps with field 'error[7:4]'"),
            ("} in_flight[31:16]", "} in_flight[32:16]", "exceeds MSb of parent register"),
        ]
        original = (self.maps / "engine.rdl").read_text(encoding="utf-8")
        for old, new, complaint in cases:
            with self.subTest(new):
                (self.maps / "engine.rdl").write_text(original, encoding="utf-8")
                self.edit("engine.rdl", old, new)
                status, said = self.check()
                self.assertEqual(status, 1)
                self.assertIn(complaint, said)
                self.assertIn("error: the register maps cannot be used", said)

    def test_names_that_rust_keeps_are_refused(self) -> None:
        self.edit("engine.rdl", "} counts @ 0x08;", "} match @ 0x08;")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("engine.global.match: `match` cannot be the name of a Rust module", said)

    def test_properties_that_no_block_has_are_refused(self) -> None:
        self.edit("engine.rdl", "we; swwe; hwclr; } count", "we; swwe; hwset; } count")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("channel.doorbell.count: `hwset` is not supported in a block", said)


class Outputs(unittest.TestCase):
    """Tests of the tree's generated files with the tools that read them."""

    def test_c_takes_the_headers(self) -> None:
        for standard in ("c99", "c11"):
            command = ["cc", f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
            command += ["-I", str(TREE / generate.C_FOLDER), "-x", "c", "-"]
            source = '#include "engine.h"\n#include "descriptors.h"\n#include <stddef.h>\n'
            for expression in (
                "sizeof(engine_t) == 0x10000",
                "offsetof(engine_t, peer) == 0x3800",
                "sizeof(table_descriptor_t) == 16",
                "sizeof(ring_descriptor_t) == 32",
                "sizeof(status_block_t) == 32",
            ):
                source += f"extern char c[({expression}) ? 1 : -1];\n"
            result = subprocess.run(command, input=source, text=True, capture_output=True)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_exporter_is_a_command_of_peakrdl(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "engine.rs"
            command = [sys.executable, "-m", "peakrdl"]
            command += ["--peakrdl-cfg", str(TREE / "registers/peakrdl.toml"), "rust-constants"]
            command += [str(TREE / "registers/engine.rdl"), "-o", str(output)]
            subprocess.run(command, check=True)
            wanted = TREE / generate.RUST_FOLDER / "engine.rs"
            self.assertEqual(output.read_text("utf-8"), wanted.read_text("utf-8"))


if __name__ == "__main__":
    unittest.main()
