# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Changes of the C header and of the Python stubs that programs of a release notice, or not."""

import compatible
import pytest
import reference

HEADER = """\
// At most.
#define CROSSLANE_MOST 4

// Options.
typedef struct crosslane_attr {
  // Size.
  size_t size;
  // Must be 0.
  uint32_t reserved;
  // Room.
  uint64_t bytes;
} crosslane_attr;

// Opens.
int crosslane_open(const char *name,
                   const struct crosslane_attr *attr);
"""
STUBS = """\
class Card:
    @property
    def name(self) -> str: ...
    def move(self, data: bytes, /, to: int, size: int = 0, *, deadline: float = 1.0) -> None: ...
    def all(self, *names: str) -> None: ...
def go(first: int, **options: int) -> None: ...
"""
INIT = '__all__ = ["Card", "go"]\n'


def c(old: str, new: str, text: str = HEADER) -> list[str]:
    """Differences of the header from itself with a text in place of another."""
    assert old in text
    changed = reference.header_of(text.replace(old, new))
    return list(compatible.c_differences(reference.header_of(text), changed))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("// Opens.", "// Opens it."),
        ("const char *name,\n                   ", "const char *name, "),
        ("reserved;", "seed;"),
        ("uint64_t bytes;", "uint64_t bytes;\n  // Later.\n  uint64_t pages;"),
        ("// Opens.", "#define CROSSLANE_NEW 5\n\nint crosslane_new(void);\n\n// Opens."),
    ],
)
def test_programs_do_not_notice(old, new):
    assert c(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("crosslane_open(", "crosslane_start(", "crosslane_open is gone"),
        ("const char *name", "char *name", "crosslane_open was"),
        ("_MOST 4", "_MOST 5", "CROSSLANE_MOST was `4` and is `5`"),
        ("_MOST 4", "_LEAST 4", "CROSSLANE_MOST is gone"),
        ("uint32_t reserved;", "uint64_t reserved;", "is no longer member 1"),
        ("size_t size;", "size_t size;\n  // New.\n  uint32_t new;", "is no longer member 2"),
        ("uint64_t bytes;", "uint64_t room;", "`uint64_t bytes` is no longer member 2"),
        ("  // Room.\n  uint64_t bytes;\n", "", "`uint64_t bytes` is no longer member 2"),
    ],
)
def test_programs_in_c_notice(old, new, words):
    assert any(words in found for found in c(old, new)), c(old, new)


def python(tmp_path, old: str, new: str) -> list[str]:
    """Differences of the stubs from themselves with a text in place of another."""
    assert old in STUBS
    for name, text in (("then", STUBS), ("now", STUBS.replace(old, new))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(INIT)
        (tmp_path / name / "_native.pyi").write_text(text)
        for file in ("_results.py", "_sweep.py", "_errors.py"):
            (tmp_path / name / file).write_text("")
    return list(compatible.python_differences(tmp_path / "then", tmp_path / "now"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-> str", "-> str | None"),
        ("data: bytes, /", "memory: bytes | bytearray, /"),
        ("size: int = 0", "size: int = 0, end: int = 1"),
        ("deadline: float = 1.0", "deadline: float = 1.0, seed: int = 1"),
        ("    def all", "    def more(self) -> None: ...\n    def all"),
    ],
)
def test_callers_do_not_notice(tmp_path, old, new):
    assert python(tmp_path, old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def all(", "def every(", "Card.all is gone"),
        ("size: int = 0, *, ", "*, size: int = 0, ", "Card.move takes size only by name"),
        ("to: int, size", "target: int, size", "Card.move takes no argument to by name any more"),
        ("to: int, size: int = 0", "size: int, to: int", "Card.move: to is at another place"),
        ("deadline: float = 1.0", "deadline: float", "Card.move needs the argument deadline"),
        (", *, deadline: float = 1.0", "", "takes no argument deadline by name"),
        ("*names: str", "names: str", "Card.all takes no further arguments"),
        ("    @property\n", "", "Card.name is no longer the same kind of name"),
        ("first: int, **options: int", "first: int, /, **options: int", "takes no argument first"),
    ],
)
def test_callers_notice(tmp_path, old, new, words):
    found = python(tmp_path, old, new)
    assert any(words in one for one in found), found


def test_versions_are_major_and_minor():
    assert compatible.version_of('[workspace.package]\nversion = "1.23.4"\n') == (1, 23)
