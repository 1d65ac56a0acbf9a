# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pages that list all of the C library and of the Python package: made of small ones, and whether
those of the tree leave nothing out."""

import re

import book
import pytest
import reference

HEADER = """\
// About the file.

#ifndef H

// No deadline.
#define CROSSLANE_FOREVER 18446744073709551615ull

// Cards that are open.
typedef struct crosslane_session crosslane_session;

// A card | of a session.
typedef struct crosslane_card {
  // Size of this structure, in bytes.
  size_t size;
  // Its name, of
  // crosslane_session_card.
  const char *name;
  // Beats.
  uint32_t beats[16];
} crosslane_card;

// Returns the version.
const char *crosslane_version(void);

// Describes a card.
// See crosslane_version().
//
// @param card  Gets it, until
// CROSSLANE_FOREVER.
// @return 1 if there is one, else 0; -EBUSY if it is used.
int crosslane_session_card(const struct crosslane_session *session,
                           struct crosslane_card *card);

// Closes it.
//
// @return 0, or a negative number of errno.h.
int crosslane_session_close(struct crosslane_session *session);
"""
INIT = '__all__ = ["Lab", "LabError", "Rows", "__version__", "go"]\n'
STUBS = '''\
class Lab:
    """A lab. See `Lab.run` and `Lab.name`."""

    def __new__(cls, text: str) -> Self: ...
    @property
    def name(self) -> str | None:
        """Its name."""
    def run(self, *flows: str, kind: Literal["a", "b"] = "a", data: _Bytes | None = None) -> int:
        """Runs it;
        `go` does so too."""

class _Own: ...
def go(
    first: Sequence[int], second: int = 1, /, *, a_long_name: dict[str, Any] = ..., **more: Any
) -> Rows:
    """Goes."""
def text(outcome: str) -> str: ...
'''
RESULTS = '''\
class Rows(list[dict[str, Any]]):
    """Rows."""
    def __init__(self, rows: int) -> None: ...
'''
ERRORS = '''\
class _Moved(Exception):
    #: Bytes that
    #: were moved.
    moved: int

class LabError(_Moved, ValueError):
    """A bad lab."""
'''
MODULE = '"""Joins a core."""\nclass Part:\n    """A part."""\n    def drive(self) -> None:\n'
MODULE += '        """Drives."""\n'


@pytest.fixture
def package(tmp_path):
    """A package with a stub of each kind."""
    files = {"__init__.py": INIT, "_native.pyi": STUBS, "_results.py": RESULTS, "_sweep.py": ""}
    files |= {"_errors.py": ERRORS, "cocotb.py": MODULE, "cocotb_pcie.py": '"""Empty."""\n'}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def section(page: str, heading: str) -> str:
    """The text of a page below a heading, up to the next one."""
    return re.split(r"\n#+ ", page.partition(f" {heading}\n")[2])[0]


def test_functions_have_parameters_and_results():
    text = section(reference.c_page(HEADER), "crosslane_session_card")
    aligned = "int crosslane_session_card(const crosslane_session *session,\n" + " " * 27
    assert f"{aligned}crosslane_card *card);" in text
    assert "Describes a card. See [`crosslane_version`](#crosslane_version)." in text
    assert "* `card`: Gets it, until `CROSSLANE_FOREVER`." in text
    assert "Returns 1 if there is one, else 0; `-EBUSY` if it is used." in text
    assert "See [`crosslane_card`](#crosslane_card)." in text


def test_what_belongs_to_a_handle_stands_below_it():
    page = reference.c_page(HEADER)
    headings = re.findall(r"^#+ (.*)$", page, re.M)
    own = ["Session", "crosslane_session_card", "crosslane_session_close", "crosslane_card"]
    assert headings == ["C reference", reference.GENERAL, "crosslane_version", *own, "Constants"]
    assert "Handle `crosslane_session *`. Cards that are open." in section(page, "Session")
    assert "Returns" not in section(page, "crosslane_session_close")
    assert "About the file" not in page


def test_members_and_constants_are_tables():
    page = reference.c_page(HEADER)
    text = section(page, "crosslane_card")
    link = "[`crosslane_session_card`](#crosslane_session_card)"
    assert f"| `name` | `const char *` | Its name, of {link}. |" in text
    assert "| `beats` | `uint32_t[16]` | Beats. |" in text
    assert "| `CROSSLANE_FOREVER` | 18446744073709551615ull | No deadline. |" in page


def test_functions_have_manual_pages():
    pages = reference.man_pages(HEADER, "1.2.3")
    assert sorted(pages) == [
        *(f"crosslane_session_{it}" for it in ("card", "close")),
        "crosslane_version",
    ]
    page = pages["crosslane_session_card"]
    assert page.startswith('.TH crosslane_session_card 3 "" "crosslane 1.2.3"')
    assert "crosslane_session_card \\- describes a card\n" in page
    assert "#include <crosslane.h>\n.PP\nint crosslane_session_card(" in page
    assert ".TP\n\\fIcard\\fR\nGets it, until CROSSLANE_FOREVER.\n" in page
    assert ".SS crosslane_card\n" in page and "const char * \\fIname\\fR" in page
    assert "0; \\-EBUSY if it is used." in page
    assert "\\fBcrosslane_session_close\\fR(3)" in page
    assert "RETURN VALUE" not in pages["crosslane_version"]


def test_texts_of_manual_pages_are_no_requests():
    assert reference.roff(".TH \\ a-b\n'x\n\ny") == "\\&.TH \\e a\\-b\n\\&'x\n.PP\ny"


def test_a_header_without_functions_is_refused():
    with pytest.raises(reference.PageError, match="no functions"):
        reference.c_page("// Nothing.\n")


def test_signatures_are_those_of_the_stubs(package):
    page = reference.python_page(package)
    assert 'Lab.run(*flows: str, kind: "a" | "b" = "a", data: Buffer | None = None) -> int' in page
    assert "\nLab(text: str)\n" in page
    lines = ["go(", "    first: Sequence[int],", "    second: int = 1,", "    *,"]
    lines += ["    a_long_name: dict[str, Any] = ...,", "    **more: Any,", ") -> Rows"]
    assert "\n".join(lines) in page


def test_attributes_and_exceptions_are_tables(package):
    page = reference.python_page(package)
    assert r"| `name` | `str \| None` | Its name. |" in page
    row = "| `LabError` | `Exception`, `ValueError` | A bad lab. `moved`: Bytes that were moved. |"
    assert row in page
    assert "See [`Lab.run`](#labrun) and `Lab.name`." in page
    assert "Runs it; [`go`](#go) does so too." in page


def test_what_is_not_public_is_left_out(package):
    page = reference.python_page(package)
    assert "_Own" not in page and "outcome" not in page and "Rows(" not in page
    assert "### Part\n" in page and "#### Part.drive" not in page and "### Part.drive" in page


def test_a_public_name_without_a_stub_is_refused(package):
    (package / "__init__.py").write_text('__all__ = ["Lab", "Gone"]\n')
    with pytest.raises(reference.PageError, match="Gone"):
        reference.python_page(package)


def test_the_pages_of_the_tree_say_something_about_each_name():
    header = book.C_HEADER.read_text()
    page = reference.c_page(header)
    functions = re.findall(r"\b(crosslane_\w+)\((?!\))", header)
    assert len(functions) > 80
    for name in functions:
        assert section(page, name).partition("```\n\n")[2].strip(), name
    page = reference.python_page(book.PYTHON_PACKAGE)
    assert not re.findall(r"^.*\|  \|$", page, re.M), "an attribute without a docstring"
    silent = re.findall(r"^### (.*)\n\n```python\n[^`]*```\n\n\n", page, re.M)
    assert not silent, "a function without a docstring"
