# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pages of the site that list all of the C library and all of the Python package, and manual pages
of the library's functions.

Those of C are made of the header, as cbindgen writes it; that of Python of the package's stubs,
without running it. A name in the text of a page leads to its heading there.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Longest line of a declaration that is not broken.
COLUMNS = 88
CONSTANT = re.compile(r"#define (CROSSLANE_\w+) (\S+)$")
HANDLE = re.compile(r"typedef struct (\w+) (\w+);$")
STRUCTURE = re.compile(r"typedef struct (\w+) {$")
MEMBER = re.compile(r"  (?P<type>.*?[ *])(?P<name>\w+)(?P<bounds>\[\w+\])?;$")
FUNCTION = re.compile(r"\b(crosslane_\w+)\(")
PARAMETER = re.compile(r"@param (?P<name>\w+)  (?P<text>.*)")
# The result of most functions, which the page says once.
USUAL = "0, or a negative number of errno.h."
# Functions and structures that belong to no handle.
GENERAL = "Errors, version, pattern"


class PageError(Exception):
    """A sentence that says what a page cannot be made of."""


# --- C -------------------------------------------------------------------------------------------
@dataclass
class Item:
    """A declaration of the header, with the lines of the comment before it."""

    name: str
    comment: list[str]
    code: str = ""
    # Of a structure: type, name and comment of each member.
    members: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass
class Header:
    """The declarations of the header, in its order."""

    constants: list[Item] = field(default_factory=list)
    handles: list[Item] = field(default_factory=list)
    structures: list[Item] = field(default_factory=list)
    functions: list[Item] = field(default_factory=list)


def header_of(text: str) -> Header:
    """Reads a header that cbindgen has written."""
    header = Header()
    comment: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("//"):
            comment.append(line.removeprefix("//").removeprefix(" "))
            continue
        if found := CONSTANT.match(line):
            header.constants.append(Item(found[1], comment, found[2]))
        elif found := HANDLE.match(line):
            header.handles.append(Item(found[1], comment))
        elif found := STRUCTURE.match(line):
            header.structures.append(Item(found[1], comment, members=list(members(lines))))
        elif found := FUNCTION.search(line):
            code = [line]
            while not code[-1].endswith(";"):
                code.append(next(lines))
            header.functions.append(Item(found[1], comment, without_struct("\n".join(code))))
        comment = []
    if not header.functions:
        raise PageError("the C header has no functions")
    return header


def without_struct(code: str) -> str:
    """A declaration by the names that programs use, its parameters still below each other."""
    code = re.sub(r"\bstruct ", "", code)
    first, *others = code.split("\n")
    column = first.find("(") + 1
    return "\n".join([first, *(" " * column + line.strip() for line in others)])


def members(lines: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """Members of a structure, up to its end."""
    comment: list[str] = []
    for line in lines:
        if line.startswith("}"):
            return
        if line.startswith("  //"):
            comment.append(line.removeprefix("  //").strip())
        elif found := MEMBER.match(line):
            of_type = without_struct(found["type"]).strip() + (found["bounds"] or "")
            yield of_type, found["name"], " ".join(comment)
            comment = []


def parts_of(comment: list[str]) -> tuple[str, list[tuple[str, str]], str]:
    """Text, parameters and result of a function's comment."""
    text: list[str] = []
    parameters: list[tuple[str, list[str]]] = []
    result: list[str] = []
    into = text
    for line in comment:
        if found := PARAMETER.match(line):
            into = [found["text"]]
            parameters.append((found["name"], into))
        elif line.startswith("@return"):
            into = result
            into.append(line.removeprefix("@return").strip())
        else:
            into.append(line)
    named = [(name, joined(words)) for name, words in parameters]
    return joined(text), named, joined(result)


def joined(lines: list[str]) -> str:
    """Lines of a comment as paragraphs."""
    paragraphs = "\n".join(lines).strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def owner_of(item: Item, handles: Iterable[str]) -> str | None:
    """The handle that a function or a structure belongs to: by its name, or by what it takes."""
    longest = sorted(handles, key=len, reverse=True)
    for handle in longest:
        if item.name.startswith(f"{handle}_"):
            return handle
    taken = re.search(r"\((?:const )?(\w+) \*", item.code)
    return taken[1] if taken and taken[1] in longest else None


def c_page(text: str) -> str:
    """The page of the C library."""
    header = header_of(text)
    names = [handle.name for handle in header.handles]
    owners = {function.name: owner_of(function, names) for function in header.functions}
    for structure in header.structures:
        word = re.compile(rf"\b{structure.name}\b")
        users = [owners[it.name] for it in header.functions if word.search(it.code)]
        owners[structure.name] = owner_of(structure, names) or next(iter(users), None)
    anchors = {it.name for kind in (header.functions, header.structures) for it in kind}
    lines = [
        "# C reference",
        "",
        "Every function, structure and constant of `crosslane.h`, from the header itself.",
        "[From C and C++](c.md) says how they go together. A function returns 0, and a negative "
        "number of `errno.h` on failure, if nothing else is said. A structure begins with its "
        "`size`, which the caller sets.",
        "",
    ]
    order = [None, *dict.fromkeys(owners[it.name] for it in header.functions if owners[it.name])]
    about = {handle.name: joined(handle.comment) for handle in header.handles}
    for owner in order:
        title = GENERAL if owner is None else words_of(owner)
        lines += [f"## {title}", ""]
        if owner is not None:
            lines += [f"Handle `{owner} *`. {linked(about[owner], anchors)}", ""]
        for function in header.functions:
            if owners[function.name] == owner:
                lines += c_function(function, anchors)
        for structure in header.structures:
            if owners[structure.name] == owner:
                lines += c_structure(structure, anchors)
    return "\n".join([*lines, *c_constants(header.constants, anchors)])


def words_of(handle: str) -> str:
    """The heading of a handle: `crosslane_memory_card` is "Memory card"."""
    return handle.removeprefix("crosslane_").replace("_", " ").capitalize()


def linked(text: str, anchors: set[str], but: str = "") -> str:
    """Text in which the names of functions and structures lead to their headings."""

    def link(found: re.Match) -> str:
        name = found[0].removesuffix("()")
        return f"[`{name}`](#{name})" if name in anchors and name != but else found[0]

    # Names of constants keep their underscores and stars.
    text = re.sub(r"(?<!`)\bCROSSLANE_\w+\*?|-E[A-Z0-9]+\b", lambda it: f"`{it[0]}`", text)
    return re.sub(r"(?<![`\w])crosslane_\w+(?:\(\))?", link, text)


def c_function(function: Item, anchors: set[str]) -> list[str]:
    """Lines of a function."""
    text, parameters, result = parts_of(function.comment)
    lines = [f"### {function.name}", "", "```c", function.code, "```", ""]
    lines += [linked(text, anchors, function.name), ""]
    types = set(re.findall(r"crosslane_\w+", function.code)) & anchors - {function.name}
    for name, words in parameters:
        lines.append(f"* `{name}`: {linked(words, anchors, function.name)}")
    if parameters:
        lines.append("")
    if result and result != USUAL:
        lines += [f"Returns {lowered(linked(result, anchors, function.name))}", ""]
    if types:
        shown = ", ".join(f"[`{name}`](#{name})" for name in sorted(types))
        lines += [f"See {shown}.", ""]
    return lines


def lowered(text: str) -> str:
    """Text that goes on a sentence."""
    return re.sub(r"^The ", "the ", text)


def c_structure(structure: Item, anchors: set[str]) -> list[str]:
    """Lines of a structure: a table of its members."""
    lines = [f"### {structure.name}", "", linked(joined(structure.comment), anchors), ""]
    lines += ["| member | type | meaning |", "| --- | --- | --- |"]
    for of_type, name, words in structure.members:
        lines.append(f"| `{name}` | `{of_type}` | {cell(linked(words, anchors))} |")
    return [*lines, ""]


def c_constants(constants: list[Item], anchors: set[str]) -> list[str]:
    """Lines of all constants."""
    lines = ["## Constants", "", "| constant | value | meaning |", "| --- | --- | --- |"]
    for constant in constants:
        words = cell(linked(joined(constant.comment), anchors))
        lines.append(f"| `{constant.name}` | {constant.code} | {words} |")
    return [*lines, ""]


def cell(text: str) -> str:
    """Text in a cell of a table."""
    return text.replace("|", r"\|").replace("\n\n", " ")


def man_pages(text: str, version: str) -> dict[str, str]:
    """A manual page of each function (section 3) by its name, with the structures that it takes."""
    header = header_of(text)
    names = {function.name for function in header.functions}
    structures = {structure.name: structure for structure in header.structures}
    return {it.name: man_page(it, names, structures, version) for it in header.functions}


def man_page(function: Item, names: set[str], structures: dict[str, Item], version: str) -> str:
    """The manual page of a function."""
    text, parameters, result = parts_of(function.comment)
    first, _, rest = text.partition(". ")
    lines = [f'.TH {function.name} 3 "" "crosslane {version}" Crosslane', ".SH NAME"]
    lines += [f"{function.name} \\- {roff(lowered_first(first.rstrip('.')))}", ".SH SYNOPSIS"]
    lines += [".nf", "#include <crosslane.h>", ".PP", roff(function.code), ".fi"]
    lines += [".PP", r"Link with \fI\-lcrosslane\fR."]
    lines.append(".SH DESCRIPTION")
    lines.append(roff(text if rest else first))
    for name, words in parameters:
        lines += [".TP", rf"\fI{name}\fR", roff(words)]
    for name in dict.fromkeys(re.findall(r"crosslane_\w+", function.code)):
        if name in structures:
            lines += [f".SS {name}", roff(joined(structures[name].comment))]
            for of_type, member, words in structures[name].members:
                lines += [".TP", rf"{roff(of_type)} \fI{member}\fR", roff(words)]
    if result:
        lines += [".SH RETURN VALUE", roff(result)]
    handle = function.name.split("_")[1]
    others = sorted(it for it in names if it.startswith(f"crosslane_{handle}_"))
    others = [it for it in ("crosslane_last_error", *others) if it != function.name]
    lines += [".SH SEE ALSO", ", ".join(rf"\fB{it}\fR(3)" for it in others)]
    return "\n".join([*lines, ""])


def roff(text: str) -> str:
    """Text in which nothing is a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("\n\n", "\n.PP\n")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return re.sub(r"(?m)^(['.])(?!PP$)", r"\\&\1", text)


def lowered_first(text: str) -> str:
    """Text that does not begin a sentence."""
    return text[:1].lower() + text[1:]


# --- Python --------------------------------------------------------------------------------------
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Names of the stubs' own types, as a reader knows them.
READABLE = {
    "_Bytes": "Buffer",
    "_DlPack": "DLPack",
    "_Level": '"accepted" | "sent" | "visible" | "acknowledged"',
    "_Kind": '"h2c" | "c2h" | "peer"',
    "_Source": '"generator" | "h2c" | int',
    "_T": "T",
    "_native.Lab": "Lab",
}
# Modules that programs import by themselves.
MODULES = ("cocotb", "cocotb_pcie")


@dataclass
class Names:
    """The names of the package, with their definitions and the lines of their files."""

    found: dict[str, ast.ClassDef | Function]
    lines: dict[str, list[str]]
    anchors: set[str] = field(default_factory=set)

    def linked(self, text: str) -> str:
        """Text in which names lead to their headings."""

        def link(found: re.Match) -> str:
            anchor = anchor_of(found[1])
            return f"[{found[0]}](#{anchor})" if found[1] in self.anchors else found[0]

        return re.sub(r"`([\w.]+)`", link, text)

    def text(self, item: ast.ClassDef | Function | ast.Module) -> str:
        """The docstring of a name, as paragraphs."""
        return self.linked(joined((ast.get_docstring(item) or "").splitlines()))


def anchor_of(heading: str) -> str:
    """The anchor that mdBook gives a heading."""
    return re.sub(r"[^\w-]", "", heading).lower()


def python_page(package: Path) -> str:
    """The page of the Python package."""
    names = names_of(package)
    functions = {it: made for it, made in names.found.items() if isinstance(made, Function)}
    classes = {it: made for it, made in names.found.items() if isinstance(made, ast.ClassDef)}
    errors = exceptions(classes)
    names.anchors = set(names.found) - errors
    for name, item in classes.items():
        names.anchors |= {f"{name}.{it.name}" for it in methods_of(item)}
    lines = [
        "# Python reference",
        "",
        "Every name of the package `crosslane`, from its stubs. [Python](python.md) says how they "
        "go together. `Buffer` is whatever has the buffer protocol, `DLPack` whatever exports its "
        "memory by DLPack.",
        "",
        "## Functions",
        "",
    ]
    for name, item in sorted(functions.items()):
        lines += [f"### {name}", "", *python_function(item, name, names)]
    for name, item in classes.items():
        if name not in errors and name[0] != "_":
            lines += python_class(item, names)
    lines += ["## Exceptions", "", "| exception | of | meaning |", "| --- | --- | --- |"]
    for name, item in classes.items():
        if name in errors and name[0] != "_":
            lines.append(python_exception(item, classes, names))
    lines.append("")
    for name in MODULES:
        lines += python_module(package / f"{name}.py", f"crosslane.{name}", names)
    return "\n".join(lines)


def names_of(package: Path) -> Names:
    """The public names of the package, and the classes that they stand on."""
    public = exported((package / "__init__.py").read_text())
    names = Names({}, {})
    for file in ("_native.pyi", "_results.py", "_sweep.py", "_errors.py"):
        text = (package / file).read_text()
        for item in ast.parse(text).body:
            if isinstance(item, ast.ClassDef) or (
                isinstance(item, Function) and item.name in public
            ):
                names.found[item.name] = item
                names.lines[item.name] = text.splitlines()
    if missing := [it for it in public if it not in names.found and it[0] != "_"]:
        raise PageError(f"no stub of the Python package has {', '.join(missing)}")
    return names


def exported(text: str) -> list[str]:
    """The names in `__all__` of a module."""
    for item in ast.parse(text).body:
        if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "__all__":
            return ast.literal_eval(item.value)
    raise PageError("the Python package has no __all__")


def exceptions(classes: dict[str, ast.ClassDef]) -> set[str]:
    """The classes among these that are exceptions; bases stand before them."""
    errors = {"Exception"}
    for name, item in classes.items():
        if errors & {ast.unparse(it) for it in item.bases}:
            errors.add(name)
    return errors


def python_exception(item: ast.ClassDef, classes: dict[str, ast.ClassDef], names: Names) -> str:
    """The row of an exception, with the attributes of a base that has no name for users."""
    bases, told = [], list(remarks(item, names.lines[item.name]))
    for base in map(ast.unparse, item.bases):
        if base[0] == "_":
            told += remarks(classes[base], names.lines[base])
            bases += map(ast.unparse, classes[base].bases)
        else:
            bases.append(base)
    shown = ", ".join(f"`{base}`" for base in bases)
    words = " ".join([names.text(item), *told])
    return f"| `{item.name}` | {shown} | {cell(words)} |"


def remarks(item: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """The attributes of an exception, with the remarks (`#:`) before them."""
    for it in item.body:
        if isinstance(it, ast.AnnAssign):
            first = last = it.lineno - 1
            while lines[first - 1].lstrip().startswith("#:"):
                first -= 1
            words = " ".join(line.strip().removeprefix("#: ") for line in lines[first:last])
            yield f"`{ast.unparse(it.target)}`: {words}"


def python_module(path: Path, name: str, names: Names) -> list[str]:
    """Lines of a module that programs import by itself."""
    module = ast.parse(path.read_text())
    lines = [f"## {name}", "", names.text(module), ""]
    for item in module.body:
        if isinstance(item, ast.ClassDef) and item.name[0] != "_":
            for line in python_class(item, names):
                lines.append(f"#{line}" if line.startswith("## ") else line)
    return lines


def methods_of(item: ast.ClassDef) -> list[Function]:
    """The methods of a class that programs call by name."""
    named = (it for it in item.body if isinstance(it, Function) and it.name[0] != "_")
    return [it for it in named if not is_property(it)]


def is_property(item: Function) -> bool:
    """Whether a function of a class is an attribute."""
    return "property" in [ast.unparse(it) for it in item.decorator_list]


def python_class(item: ast.ClassDef, names: Names) -> list[str]:
    """Lines of a class: its attributes as a table, then its methods."""
    lines = [f"## {item.name}", "", names.text(item), ""]
    functions = [it for it in item.body if isinstance(it, Function)]
    # Classes that are dicts or lists are made by runs.
    made_by_runs = any(ast.unparse(it).startswith(("dict", "list")) for it in item.bases)
    for it in functions:
        if it.name in ("__init__", "__new__") and not made_by_runs:
            lines += ["```python", signature(it, item.name, returns=False), "```", ""]
    if attributes := [it for it in functions if is_property(it)]:
        lines += ["| attribute | type | meaning |", "| --- | --- | --- |"]
        for it in attributes:
            of_type = cell(readable(it.returns)) if it.returns else ""
            lines.append(f"| `{it.name}` | `{of_type}` | {cell(names.text(it))} |")
        lines.append("")
    for it in methods_of(item):
        name = f"{item.name}.{it.name}"
        lines += [f"### {name}", "", *python_function(it, name, names)]
    return lines


def python_function(item: Function, name: str, names: Names) -> list[str]:
    """Lines of a function or method, without its heading."""
    return ["```python", signature(item, name), "```", "", names.text(item), ""]


def signature(item: Function, name: str, returns: bool = True) -> str:
    """The call of a function, with types; parameters below each other if they are many."""
    given = item.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
    parts = [parameter(*pair) for pair in zip(positional, defaults, strict=True)]
    if positional and positional[0].arg in ("self", "cls"):
        parts = parts[1:]
    if given.vararg:
        parts.append(f"*{parameter(given.vararg)}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += [parameter(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        parts.append(f"**{parameter(given.kwarg)}")
    after = f" -> {readable(item.returns)}" if item.returns and returns else ""
    line = f"{name}({', '.join(parts)}){after}"
    if len(line) <= COLUMNS:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){after}"])


def parameter(item: ast.arg, default: ast.expr | None = None) -> str:
    """A parameter with its type and its default."""
    of_type = f": {readable(item.annotation)}" if item.annotation else ""
    return f"{item.arg}{of_type}" + (f" = {readable(default)}" if default else "")


def readable(expression: ast.expr) -> str:
    """A type or a value as a reader knows it."""
    code = ast.unparse(expression).replace("'", '"')
    for name, known in READABLE.items():
        code = re.sub(rf"(?<![\w.]){re.escape(name)}\b", known, code)
    return re.sub(r"Literal\[([^\]]*)\]", lambda it: it[1].replace(", ", " | "), code)
