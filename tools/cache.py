# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cache of checks between runs, outside the tree: things built, and tests that passed.

The folder is `CROSSLANE_CACHE`, or `crosslane` in the user's cache folder. Every entry has a key:
the hash of everything it was made from. It may be deleted at any time. Several processes and
several clones may use it at once: an entry is written beside its place and then renamed.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# Part of every key: a new number invalidates all entries.
FORMAT = 1
# Number of passes kept; beyond it the older half is deleted. A run of all gateware has some 300.
PASSES_MOST = 20_000
# Bytes kept of each kind of thing built; beyond it the oldest are deleted.
MADE_MOST_BYTES = 2 << 30
# Seconds after which the remains of an interrupted process are deleted.
LEFT_OVER_S = 24 * 3600
# In each built folder: its files with size and hash.
MANIFEST = "manifest.json"


def folder(kind: str) -> Path:
    """The folder for entries of a kind."""
    chosen = os.environ.get("CROSSLANE_CACHE")
    if not chosen:
        user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        chosen = Path(user) / "crosslane"
    path = Path(chosen).absolute() / kind
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"cannot make {path}: {error} (CROSSLANE_CACHE names another)") from error
    return path


def key(*parts: str | bytes | Path) -> str:
    """The hash of texts, bytes and contents of files, in this order."""
    joined = hashlib.sha256(str(FORMAT).encode())
    for part in parts:
        if isinstance(part, Path):
            part = part.read_bytes()
        elif isinstance(part, str):
            part = part.encode()
        joined.update(len(part).to_bytes(8, "little") + part)
    return joined.hexdigest()


def ignores_passes() -> bool:
    """Whether to run everything, even if it has passed before."""
    return os.environ.get("CROSSLANE_IGNORE_PASSES") == "1"


# --- Tests that have passed ----------------------------------------------------------------------
def remembered(passed: str) -> bool:
    """Whether a run with this key passed before; never with `CROSSLANE_IGNORE_PASSES=1`."""
    if ignores_passes():
        return False
    entry = folder("passes") / passed
    try:
        whole = entry.read_text().splitlines()[0] == passed
        os.utime(entry)
    except (OSError, UnicodeDecodeError, IndexError):
        return False
    return whole


def remember(passed: str, name: str) -> None:
    """Records that the run with this key has passed; `name` is for readers of the folder."""
    passes = folder("passes")
    entries = list(passes.iterdir())
    if len(entries) >= PASSES_MOST:
        for entry in sorted(entries, key=_modified)[: len(entries) // 2]:
            entry.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=passes, suffix=".part", delete=False) as part:
        part.write(f"{passed}\n{name}\n")
    os.replace(part.name, passes / passed)


# --- Things built --------------------------------------------------------------------------------
def found(kind: str, name: str) -> Path | None:
    """The folder built under this name, if it exists and is complete."""
    place = folder(kind) / name
    if not _is_whole(place):
        return None
    os.utime(place)
    return place


def made(kind: str, name: str, make: Callable[[Path], None], *, again: bool = False) -> Path:
    """The folder that `make` fills, now or earlier (`again`: now). `make` gets an empty folder.

    `name` ends in the key. If several processes ask for the same, one builds it.
    """
    place = folder(kind) / name
    with alone(place.with_name(f"{name}.lock")):
        if not again and found(kind, name):
            return place
        part = Path(tempfile.mkdtemp(dir=place.parent, prefix=f"{name}.", suffix=".part"))
        try:
            make(part)
            files = {str(path.relative_to(part)): _print_of(path) for path in _files(part)}
            (part / MANIFEST).write_text(json.dumps(files))
            shutil.rmtree(place, ignore_errors=True)
            part.rename(place)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    trim(place.parent, MADE_MOST_BYTES, place)
    return place


def trim(kept: Path, most_bytes: int, newest: Path | None = None) -> None:
    """Deletes the least recently used entries until at most `most_bytes` are left.

    `newest` stays. Remains of interrupted processes are deleted, too.
    """
    entries = []
    for entry in kept.iterdir():
        if entry.suffix in (".part", ".lock"):
            if time.time() - _modified(entry) > LEFT_OVER_S:
                _delete(entry)
        elif entry != newest:
            entries.append(entry)
    entries.sort(key=_modified, reverse=True)
    total = _bytes(newest) if newest else 0
    for entry in entries:
        total += _bytes(entry)
        if total > most_bytes:
            _delete(entry)


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Waits until no other process holds this lock."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_whole(place: Path) -> bool:
    """Whether a folder has every file with its original content."""
    try:
        files = json.loads((place / MANIFEST).read_text())
        return all(_print_of(place / name) == expected for name, expected in files.items())
    except (OSError, ValueError, AttributeError):
        return False


def _print_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]


def _bytes(entry: Path) -> int:
    """The size of a file or of a folder's files; files that vanish meanwhile count as 0."""
    total = 0
    for path in [entry, *entry.rglob("*")]:
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


def _modified(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0


def _delete(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
