# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The site: its table of contents, the links of its pages, and the check of what is built."""

import tomllib

import book
import pytest

INDEX = """\
<!-- SPDX -->
# Docs

A sentence
on two lines.

## Start

| page | what |
| --- | --- |
| [One](one.md) | the *first* |
| [Out](../OUT.md) | of docs |

## Reference

| page | what |
| --- | --- |
| [Two](a/README.md) | more |
"""


@pytest.fixture
def tree(tmp_path):
    """A tree with pages that link to each other, to a file and to a folder."""
    files = {
        "docs/README.md": INDEX,
        "docs/one.md": "[two](a/README.md#x), [code](../src/x.rs), [all](../.hidden)\n"
        "[lab](../crates/web/page/index.html)\n"
        "```text\n[kept](nowhere.md)\n```\n[out](https://example.org)\n",
        "docs/a/README.md": "# X\n[one](../one.md)\n",
        "crates/web/page/index.html": "<!doctype html>",
        "OUT.md": "[one](docs/one.md)\n",
        "src/x.rs": "// ```\nfn main() {}\n",
        ".hidden/b.txt": "b\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def staged(tree):
    """The tree's pages in the folder of the book."""
    stage = book.Stage(tree / "book", tree)
    stage.add("docs/README.md")
    stage.write()
    return stage


def test_published_crates_have_what_registries_show():
    for name in book.crates():
        folder = name.removeprefix("crosslane-")
        package = tomllib.loads((book.ROOT / f"crates/{folder}/Cargo.toml").read_text())["package"]
        assert package["documentation"] == f"https://docs.rs/{name}"
        assert package["keywords"] == package["categories"] == {"workspace": True}
        assert package["metadata"]["docs"]["rs"]["targets"] == ["x86_64-unknown-linux-gnu"]


def test_parts_are_headings_with_tables():
    parts = book.parts_of(INDEX)
    assert [(part.title, len(part.entries)) for part in parts] == [("Start", 2), ("Reference", 1)]
    assert [entry.path for entry in parts[0].entries] == ["one.md", "tree/OUT.md"]
    assert parts[1].entries[0].path == "a/index.md"


def test_links_lead_to_places_in_the_site(tree):
    staged(tree)
    text = (tree / "book/one.md").read_text()
    assert "[two](a/index.md#x), [code](tree/src/x.rs.md), [all](tree/hidden.md)" in text
    assert "[lab](lab/index.html)" in text
    assert not (tree / "book/lab").exists()
    assert "[kept](nowhere.md)" in text and "(https://example.org)" in text
    assert "](../../one.md)" not in (tree / "book/tree/OUT.md").read_text()
    assert (tree / "book/tree/OUT.md").read_text() == "[one](../one.md)\n"


def test_files_and_folders_become_pages(tree):
    staged(tree)
    assert "````rust\n// ```\n" in (tree / "book/tree/src/x.rs.md").read_text()
    assert "* [b.txt](hidden/b.txt.md)" in (tree / "book/tree/hidden.md").read_text()
    assert "```text\nb\n```" in (tree / "book/tree/hidden/b.txt.md").read_text()


def test_notebooks_become_pages_with_pictures(tmp_path):
    outputs = [
        {"output_type": "stream", "text": ["1 GB/s\n"]},
        {"data": {"image/svg+xml": ["<svg>", "</svg>"], "text/plain": ["a lab"]}},
        {"data": {"text/plain": ["7"]}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["lab"], "outputs": outputs},
    ]
    text = book.notebook_page({"cells": cells}, tmp_path / "a.ipynb.md")
    assert text == (
        "# Title\ntext\n\n```python\nlab\n```\n\n```text\n1 GB/s\n```\n\n"
        "![a lab](a.ipynb.1.svg)\n\n```text\n7\n```\n"
    )
    assert (tmp_path / "a.ipynb.1.svg").read_text() == "<svg></svg>"


def test_link_to_missing_file_is_refused(tree):
    (tree / "OUT.md").write_text("[gone](gone.md)")
    with pytest.raises(book.BookError, match=r"OUT.md: gone.md does not exist"):
        staged(tree)


def test_commands_nest_as_their_list():
    page = "- [crosslane bench](crosslane-bench.md): Measure\n" + (
        "  - [crosslane bench write](crosslane-bench-write.md): Write\n"
    )
    levels = [(entry.level, entry.path) for entry in book.commands_of(page)]
    assert levels[1:] == [
        (1, "commands/crosslane-bench.md"),
        (2, "commands/crosslane-bench-write.md"),
    ]
    text = book.summary([book.Part("Reference", book.commands_of(page))])
    assert "\n    - [crosslane bench write](commands/crosslane-bench-write.md)\n" in text


def test_llms_lists_every_page_in_plain_text():
    text = book.llms(INDEX, book.parts_of(INDEX))
    assert text.startswith("# Crosslane\n\n> A sentence on two lines.\n\n## Start\n")
    assert "- [Two](a/index.md): more\n" in text


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="b.html#there">', None),
        ('<a href="https://example.org">', None),
        ('<img src="data:image/png;base64,A">', None),
        ('<a href="b.html#7-9">', None),
        ('<a href="b.html#8-9">', "b.html#8-9: there is no such heading"),
        ('<a href="b.html#gone">', "b.html#gone: there is no such heading"),
        ('<a href="c.html">', "c.html does not exist"),
        ('<a href="/b.html">', "is not relative"),
        ('<a href="../b.html">', "leads out of the site"),
        ('<script src="https://cdn.example.org/x.js">', "loads https://cdn"),
        ('<link rel="stylesheet" href="//cdn.example.org/x.css">', "loads //cdn"),
        ('<img srcset="https://cdn.example.org/x.png 2x">', "loads https://cdn"),
        ("<style></style>", None),
    ],
)
def test_bad_links_and_foreign_resources_are_found(tmp_path, body, fault):
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.html").write_text(f"<html>{body}</html>")
    (site / "b.html").write_text('<h1 id="there">B</h1><a id=7>7</a>')
    found = book.problems(site)
    assert len(found) == (fault is not None)
    assert fault is None or fault in found[0]


def test_foreign_fonts_and_missing_markdown_are_found(tmp_path):
    (tmp_path / "a.css").write_text('@import "https://x.org/f.css"; /* url(no) */ a{b:url(c.svg)}')
    (tmp_path / "a.md").write_text("[x](gone.md)\n`[y](z)`\n")
    found = sorted(book.problems(tmp_path))
    assert "a.css: <css> loads https://x.org/f.css from elsewhere" in found
    assert "a.css: c.svg does not exist" in found
    assert "a.md: gone.md does not exist" in found
