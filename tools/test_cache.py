# SPDX-License-Identifier: Apache-2.0 OR MIT
"""cache.py: entries that are found, built again, and thrown away."""

import os
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cache


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """A cache for each test."""
    monkeypatch.setenv("CROSSLANE_CACHE", str(tmp_path / "kept"))
    monkeypatch.delenv("CROSSLANE_IGNORE_PASSES", raising=False)
    return tmp_path / "kept"


def write(text):
    """A function to cache: it writes a file with this text, and counts its calls."""

    def make(folder):
        make.calls += 1
        (folder / "file").write_text(text)

    make.calls = 0
    return make


def test_folder_is_where_the_environment_says(kept, tmp_path, monkeypatch):
    assert cache.folder("passes") == kept / "passes"
    monkeypatch.delenv("CROSSLANE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert cache.folder("passes") == tmp_path / "user" / "crosslane" / "passes"
    assert cache.folder("passes").is_dir()


def test_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CROSSLANE_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"cannot make .*/file/passes.*CROSSLANE_CACHE"):
        cache.folder("passes")


def test_key_tells_parts_and_their_order(tmp_path):
    keys = [cache.key("ab", "c"), cache.key("a", "bc"), cache.key("c", "ab"), cache.key("abc")]
    assert len(set(keys)) == len(keys)


def test_key_of_a_file_is_that_of_its_content(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("text")
    other.write_text("text")
    assert cache.key(one) == cache.key(other) == cache.key("text")
    other.write_text("texts")
    assert cache.key(one) != cache.key(other)


def test_pass_is_remembered_by_its_key():
    one, other = cache.key("one"), cache.key("other")
    assert not cache.remembered(one)
    cache.remember(one, "a test")
    assert cache.remembered(one)
    assert not cache.remembered(other)


def test_passes_can_be_ignored(monkeypatch):
    cache.remember(cache.key("one"), "a test")
    monkeypatch.setenv("CROSSLANE_IGNORE_PASSES", "1")
    assert not cache.remembered(cache.key("one"))


@pytest.mark.parametrize("damaged", [b"", b"\xff\xfe", b"0123\na test\n"])
def test_damaged_pass_is_ignored(kept, damaged):
    passed = cache.key("one")
    cache.remember(passed, "a test")
    (kept / "passes" / passed).write_bytes(damaged)
    assert not cache.remembered(passed)
    cache.remember(passed, "a test")
    assert cache.remembered(passed)


def test_older_half_of_the_passes_goes(kept, monkeypatch):
    monkeypatch.setattr(cache, "PASSES_MOST", 6)
    keys = [cache.key(str(n)) for n in range(7)]
    for age, passed in enumerate(keys[:6]):
        cache.remember(passed, "a test")
        os.utime(kept / "passes" / passed, (1000 + age, 1000 + age))
    # Used: it counts as new.
    assert cache.remembered(keys[0])
    cache.remember(keys[6], "a test")
    assert [cache.remembered(k) for k in keys] == [True, False, False, False, True, True, True]


def test_thing_is_made_once():
    make = write("text")
    places = [cache.made("things", "one", make) for _ in range(2)]
    assert places[0] == places[1]
    assert (places[0] / "file").read_text() == "text"
    assert make.calls == 1


def test_thing_can_be_made_again():
    make = write("text")
    for again in (False, True):
        cache.made("things", "one", make, again=again)
    assert make.calls == 2


def test_thing_is_found_once_it_is_made():
    assert cache.found("things", "one") is None
    place = cache.made("things", "one", write("text"))
    assert cache.found("things", "one") == place
    (place / "file").write_text("tex")
    assert cache.found("things", "one") is None


def test_thing_is_made_once_for_two_at_a_time():
    """The second waits until the first has ended."""
    begun, ends = threading.Event(), threading.Event()
    calls = []

    def make(folder):
        calls.append(folder)
        begun.set()
        ends.wait(5)
        (folder / "file").touch()

    threads = [threading.Thread(target=cache.made, args=("things", "one", make)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(5)
    ends.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_thing_that_fails_leaves_nothing(kept):
    def fail(folder):
        (folder / "file").touch()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.made("things", "one", fail)
    assert [path.name for path in (kept / "things").iterdir()] == ["one.lock"]
    make = write("text")
    cache.made("things", "one", make)
    assert make.calls == 1


@pytest.mark.parametrize("damage", ["file", cache.MANIFEST])
def test_damaged_thing_is_made_again(damage):
    make = write("text")
    place = cache.made("things", "one", make)
    (place / damage).write_text("tex")
    assert cache.made("things", "one", make) == place
    assert make.calls == 2
    assert (place / "file").read_text() == "text"


def test_thing_without_a_file_is_made_again():
    make = write("text")
    (cache.made("things", "one", make) / "file").unlink()
    assert (cache.made("things", "one", make) / "file").exists()


def test_oldest_things_go_beyond_the_limit(kept, monkeypatch):
    monkeypatch.setattr(cache, "MADE_MOST_BYTES", 3000)
    for age, name in enumerate(["a", "b", "c"]):
        os.utime(cache.made("things", name, write("x" * 800)), (1000 + age, 1000 + age))
    # Used: it counts as new.
    cache.made("things", "a", write(""))
    cache.made("things", "d", write("x" * 800))
    assert {path.name for path in (kept / "things").iterdir() if path.is_dir()} == {"a", "c", "d"}


def test_what_an_interrupted_process_left_goes(kept):
    things = cache.folder("things")
    for name in ("old.part", "new.part"):
        (things / name).mkdir()
    os.utime(things / "old.part", (1000, 1000))
    cache.made("things", "one", write("text"))
    assert {path.name for path in things.iterdir()} == {"new.part", "one", "one.lock"}
