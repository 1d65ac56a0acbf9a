#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds the documentation site with mdBook: `book.py PROGRAM API` makes `target/site`.

`docs/README.md` is its first page and its table of contents: each heading with a table of pages is
a part. Pages of commands are made by the program, those that list all of the C library and all of
the Python package by `reference.py`. The reference of the Rust crates, which cargo has made in the
folder API, becomes the folder `rust`. Files of the tree that pages link to become pages
too. Beside each HTML page lies its Markdown, and `llms.txt` lists them. At the end every link,
anchor and resource is checked: nothing may lead nowhere, and nothing may be loaded from elsewhere.
"""

import argparse
import html
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import cache
import reference

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
# The version of mdBook that cargo builds once: one and a half minutes on two cores.
MDBOOK = "0.5.4"
# The index of the pages, and the folder whose files keep their places.
INDEX = "docs/README.md"
DOCS = "docs/"
# Folder of the site for what lies outside docs.
TREE = "tree"
# The part that has the pages of commands, and the first of these.
REFERENCE = "Reference"
COMMANDS = "commands/crosslane.md"
# The page that lists the Rust crates, and the folder with their reference.
API = "rust-api.md"
RUST = "rust"
# The page of the lab, where it is in the tree, and in the site with all that `web.py` has built.
LAB = "crates/web/page/index.html"
LAB_PLACE = "lab/index.html"
# Endings of files that are copied as they are, not shown on a page.
RAW = (".json", ".svg")
LANGUAGES = {".rs": "rust", ".toml": "toml", ".py": "python", ".sv": "verilog", ".cu": "cpp"}

LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
ROW = re.compile(r"^\| \[(?P<title>[^\]]+)\]\((?P<path>[^)]+)\) \| (?P<text>.*) \|$")
# Lines of a source file, which rustdoc's script marks: only the first is an anchor.
LINES = re.compile(r"(\d+)-\d+")
COMMAND = re.compile(r"^(?P<indent> *)- \[(?P<title>[^\]]+)\]\((?P<path>[^)]+)\): (?P<text>.*)$")


class BookError(Exception):
    """A sentence that says why the site cannot be built."""


@dataclass
class Entry:
    """A page in the table of contents."""

    title: str
    # Place in the site, ending in .md.
    path: str
    description: str
    level: int = 0


@dataclass
class Part:
    """A part of the book and its pages."""

    title: str
    entries: list[Entry] = field(default_factory=list)


# Each page of a library, the page that lists all of it, which stands behind that one, and the
# words about it.
REFERENCES = {
    "rust.md": Entry("Rust reference", API, "every public item of the crates"),
    "c.md": Entry("C reference", "c-reference.md", "every function, structure and constant"),
    "python.md": Entry("Python reference", "python-reference.md", "every class, method and error"),
}
C_HEADER = ROOT / "crates/capi/include/crosslane.h"
PYTHON_PACKAGE = ROOT / "crates/python/python/crosslane"


def place_of(path: str) -> str:
    """Place in the site of the page of a file: `docs/a/README.md` is `a/index.md`."""
    if path == LAB:
        return LAB_PLACE
    if path.startswith(DOCS):
        place = PurePosixPath(path.removeprefix(DOCS))
    else:
        # mdBook leaves hidden folders out.
        place = PurePosixPath(TREE, *(part.lstrip(".") for part in PurePosixPath(path).parts))
    if place.name == "README.md":
        return str(place.with_name("index.md"))
    return str(place) if place.suffix in (".md", *RAW) else f"{place}.md"


def resolved(page: str, target: str) -> str:
    """The path in the tree to which a link of a page leads."""
    return os.path.normpath(PurePosixPath(page).parent / target)


def relative(place: str, other: str) -> str:
    """The link from one place in the site to another."""
    return os.path.relpath(other, PurePosixPath(place).parent)


def parts_of(index: str) -> list[Part]:
    """The parts that the index lists: headings, and the rows of the tables below them."""
    parts: list[Part] = []
    for line in index.splitlines():
        if line.startswith("## "):
            parts.append(Part(line.removeprefix("## ")))
        elif (row := ROW.match(line)) and parts:
            place = place_of(resolved(INDEX, row["path"]))
            parts[-1].entries.append(Entry(row["title"], place, row["text"]))
    return [part for part in parts if part.entries]


def commands_of(page: str) -> list[Entry]:
    """The entries of the commands, by the list on the first one's page."""
    entries = [Entry("Commands", COMMANDS, "every command of the program: the text of `--help`")]
    for line in page.splitlines():
        if row := COMMAND.match(line):
            place = f"commands/{row['path']}"
            entries.append(Entry(row["title"], place, row["text"], 1 + len(row["indent"]) // 2))
    return entries


def crates() -> dict[str, str]:
    """The crates that are published, as their manifests say, with their descriptions."""
    found = {}
    for path in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        package = tomllib.loads(path.read_text())["package"]
        if "publish" not in package:
            found[package["name"]] = package["description"]
    return dict(sorted(found.items()))


def api_page(found: dict[str, str]) -> str:
    """The page that lists crates, each with a link to its reference."""
    words = "A program needs the first only; it has the others as modules."
    lines = ["# Rust reference", "", words, "", "| crate | what it has |", "| --- | --- |"]
    for name, description in found.items():
        place = f"{RUST}/{name.replace('-', '_')}/index.html"
        lines.append(f"| [{name}]({place}) | {description} |")
    return "\n".join([*lines, ""])


def with_references(entries: list[Entry]) -> list[Entry]:
    """The entries of a part, behind each library the page that lists all of it."""
    found = []
    for entry in entries:
        found.append(entry)
        if entry.path in REFERENCES:
            found.append(REFERENCES[entry.path])
    return found


def pieces(text: str) -> Iterator[tuple[bool, str]]:
    """The lines of a page, each with whether it is code."""
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = re.match(r" *(```+)", line)
        if mark and not fence:
            fence = mark[1]
            yield True, line
        elif mark and mark[1] == fence:
            fence = ""
            yield True, line
        else:
            yield bool(fence), line


class Stage:
    """Writes the source of the book: pages of docs, and what they link to."""

    def __init__(self, source: Path, root: Path = ROOT) -> None:
        self.source = source
        self.root = root
        # Files of the tree that are to become pages.
        self.waiting: list[str] = []
        self.staged: set[str] = set()

    def add(self, path: str) -> None:
        """Remembers that a file of the tree is to have a page."""
        if path not in self.staged and path != LAB:
            self.staged.add(path)
            self.waiting.append(path)

    def write(self) -> None:
        """Writes the pages of all files added so far, and of those that they link to."""
        while self.waiting:
            path = self.waiting.pop(0)
            file, place = self.root / path, place_of(path)
            target = self.source / place
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.is_dir():
                self.waiting += [f"{path}/{one.name}" for one in sorted(file.iterdir())]
                target.write_text(self.folder_page(path, place))
            elif file.suffix in RAW:
                shutil.copy(file, target)
            elif file.suffix == ".md":
                target.write_text(self.with_links(file.read_text(), path, place))
            elif file.suffix == ".ipynb":
                target.write_text(notebook_page(json.loads(file.read_text()), target))
            else:
                target.write_text(file_page(path, file.read_text()))

    def folder_page(self, path: str, place: str) -> str:
        """The page of a folder: a list of its files."""
        lines = [f"# {path}", ""]
        for file in sorted((self.root / path).iterdir()):
            name = f"{path}/{file.name}"
            self.staged.add(name)
            lines.append(f"* [{file.name}]({relative(place, place_of(name))})")
        return "\n".join([*lines, ""])

    def with_links(self, text: str, path: str, place: str) -> str:
        """The text of a page whose links lead to places in the site."""

        def link(found: re.Match) -> str:
            target, hash_sign, anchor = found[1].partition("#")
            if not target or "://" in target or target.startswith("mailto:"):
                return found[1]
            other = resolved(path, target)
            if not (self.root / other).exists():
                raise BookError(f"{path}: {target} does not exist")
            self.add(other)
            return relative(place, place_of(other)) + hash_sign + anchor

        return "".join(line if is_code else LINK.sub(link, line) for is_code, line in pieces(text))


def file_page(path: str, text: str) -> str:
    """The page that shows a file of the tree."""
    fence = "`" * (3 + max((len(run) for run in re.findall("`+", text)), default=0))
    language = LANGUAGES.get(PurePosixPath(path).suffix, "text")
    return f"# {path}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def notebook_page(notebook: dict[str, Any], target: Path) -> str:
    """The page of a notebook with its outputs; pictures are written beside it."""
    blocks = []
    for number, cell in enumerate(notebook["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(text)
            continue
        blocks.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", [])})
            if "image/svg+xml" in data:
                picture = target.with_suffix(f".{number}.svg")
                picture.write_text("".join(data["image/svg+xml"]))
                blocks.append(f"![{''.join(data['text/plain'])}]({picture.name})")
            else:
                blocks.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(blocks) + "\n"


def summary(parts: list[Part]) -> str:
    """The table of contents as mdBook reads it."""
    lines = ["# Summary", "", "[Crosslane](index.md)", ""]
    for part in parts:
        lines += [f"# {part.title}", ""]
        for entry in part.entries:
            lines.append(f"{'  ' * entry.level}- [{entry.title}]({entry.path})")
        lines.append("")
    return "\n".join(lines)


def llms(index: str, parts: list[Part]) -> str:
    """The list of the Markdown pages for programs that read."""
    paragraphs = [text for text in index.split("\n\n") if not text.lstrip().startswith(("#", "<"))]
    lines = ["# Crosslane", "", "> " + " ".join(plain(paragraphs[0]).split()), ""]
    for part in parts:
        lines += [f"## {part.title}", ""]
        for entry in part.entries:
            text = f": {plain(entry.description)}" if entry.description else ""
            lines.append(f"- [{plain(entry.title)}]({entry.path}){text}")
        lines.append("")
    return "\n".join(lines)


def plain(text: str) -> str:
    """Text of a table's cell without links, comments and escapes."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S).strip()
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"\\(.)", r"\1", text)


# --- Checks --------------------------------------------------------------------------------------
class Page(HTMLParser):
    """The anchors of a page and what it links to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        # Tag and address.
        self.links: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects what one tag says."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif name in ("href", "src", "data", "poster", "action"):
                self.links.append((tag, value or ""))
            elif name == "srcset":
                self.links += [(tag, one.split()[0]) for one in (value or "").split(",")]


def problems(site: Path) -> list[str]:
    """One sentence for each link that leads nowhere, and each resource from elsewhere."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    named = [(path, *link) for path, page in pages.items() for link in page.links]
    for path in sorted(site.rglob("*.css")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        found = re.findall(r"(?:url\(|@import )\s*[\"']?([^\"')\s;]+)", text)
        named += [(path, "css", address) for address in found]
    for path in sorted(site.rglob("*.md")):
        text = "".join(line for is_code, line in pieces(path.read_text()) if not is_code)
        named += [(path, "a", address.partition("#")[0]) for address in LINK.findall(text)]
    # The reference of the crates is rustdoc's, which checks its links itself and names scripts that
    # need not be there. From elsewhere it may load nothing either.
    own = site / RUST
    named = [link for link in named if "//" in link[2] or not link[0].is_relative_to(own)]
    return [
        f"{path.relative_to(site)}: {wrong}"
        for path, tag, address in named
        if (wrong := problem(site, pages, path, tag, address))
    ]


def problem(site: Path, pages: dict[Path, Page], path: Path, tag: str, address: str) -> str | None:
    """The fault of an address on a page of the site, if it has one."""
    parts = urlsplit(html.unescape(address))
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return None if tag == "a" else f"<{tag}> loads {address} from elsewhere"
    if parts.path.startswith("/"):
        return f"{address} is not relative: it leads nowhere in a folder or on disk"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(site.resolve()):
        return f"{address} leads out of the site"
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return f"{address} does not exist"
    anchor = unquote(parts.fragment)
    if lines := LINES.fullmatch(anchor):
        anchor = lines[1]
    if anchor and tag == "a" and target in pages and anchor not in pages[target].anchors:
        return f"{address}: there is no such heading"
    return None


# --- Building ------------------------------------------------------------------------------------
def mdbook() -> Path:
    """The program, built when it is first needed."""

    def build(folder: Path) -> None:
        print(f"building mdBook {MDBOOK}, once", flush=True)
        with tempfile.TemporaryDirectory() as target:
            settings = {"CARGO_TARGET_DIR": target, "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1"}
            subprocess.run(
                [
                    *(os.environ.get("CARGO", "cargo"), "install", "mdbook", "--version", MDBOOK),
                    *("--locked", "--no-default-features", "--features", "search"),
                    *("--quiet", "--root", str(folder)),
                ],
                env=os.environ | settings,
                check=True,
            )

    name = f"{MDBOOK}-{cache.key(MDBOOK, platform.machine(), platform.libc_ver()[1])[:16]}"
    return cache.made("mdbook", name, build) / "bin" / "mdbook"


def stage(program: Path, book: Path) -> list[Part]:
    """Writes the source of the book into a folder; the parts with all pages."""
    source = book / "src"
    index = (ROOT / INDEX).read_text()
    parts = parts_of(index)
    if REFERENCE not in [part.title for part in parts]:
        raise BookError(f"{INDEX} has no part {REFERENCE}")
    stage = Stage(source)
    stage.add(INDEX)
    stage.write()
    listed = {entry.path for part in parts for entry in part.entries}
    commands = source / COMMANDS
    made = [program, "manual", "--markdown", commands.parent]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    for part in parts:
        if part.title == REFERENCE:
            part.entries = commands_of(commands.read_text()) + with_references(part.entries)
    (source / API).write_text(api_page(crates()))
    header = reference.c_page(C_HEADER.read_text())
    (source / REFERENCES["c.md"].path).write_text(header)
    package = reference.python_page(PYTHON_PACKAGE)
    (source / REFERENCES["python.md"].path).write_text(package)
    # At the end: pages that others link to and nothing lists.
    others = sorted(path for path in stage.staged if path.endswith("/") or path != INDEX)
    files = [Entry(f"`{path}`", place_of(path), "") for path in others]
    files = [it for it in files if it.path.endswith(".md") and it.path not in listed]
    parts.append(Part("Files of the tree", files))
    (source / "SUMMARY.md").write_text(summary(parts))
    for name in ("book.toml", "book.css"):
        shutil.copy(ROOT / DOCS / name, book)
    return parts


def build(program: Path, api: Path, site: Path) -> int:
    """Builds the site in place of an earlier one, and checks it; the number of its pages."""
    book = TARGET / "book"
    for folder in (book, site):
        shutil.rmtree(folder, ignore_errors=True)
    parts = stage(program, book)
    subprocess.run([mdbook(), "build", book, "--dest-dir", site], check=True)
    for page in (book / "src").rglob("*.md"):
        if page.name != "SUMMARY.md":
            shutil.copy(page, site / page.relative_to(book / "src"))
    shutil.copytree(api, site / RUST, ignore=shutil.ignore_patterns(".lock"))
    if not (TARGET / "lab" / "index.html").exists():
        raise BookError("the lab's page is not built: make web")
    shutil.copytree(TARGET / "lab", (site / LAB_PLACE).parent)
    (site / "llms.txt").write_text(llms((ROOT / INDEX).read_text(), parts))
    if wrong := problems(site):
        raise BookError("\n".join(["the site has bad links:", *wrong]))
    return len(list(site.rglob("*.html")))


def main() -> int:
    """Builds the site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="the program whose commands have pages")
    parser.add_argument("api", type=Path, help="folder with the reference that cargo has made")
    arguments = parser.parse_args()
    site = TARGET / "site"
    try:
        pages = build(arguments.program.resolve(), arguments.api, site)
    except (BookError, reference.PageError, subprocess.CalledProcessError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{pages} pages: {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
