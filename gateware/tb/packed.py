# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packed structs of crosslane_pkg.sv as vectors, as they are on a module's ports.

`pack("due_t", status_due=1)` is the vector's value, `unpack("due_t", value)` a namespace of the
fields. Enumerations are numbers; `CONSTANTS["ERROR_LINK_DOWN"]` has their names.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

PACKAGE = Path(__file__).resolve().parent.parent / "rtl" / "crosslane_pkg.sv"

CONSTANTS: dict[str, int] = {}
# Names and widths of each type's fields, the highest bits first.
STRUCTS: dict[str, list[tuple[str, int]]] = {}


def _read_package() -> None:
    text = re.sub(r"//.*", "", PACKAGE.read_text())
    widths = {}
    for bits, body, name in re.findall(
        r"typedef enum logic\s*\[(\d+):0\]\s*\{(.*?)\}\s*(\w+);", text, re.S
    ):
        widths[name] = int(bits) + 1
        for key, value in re.findall(r"(\w+)\s*=\s*\d+'d(\d+)", body):
            CONSTANTS[key] = int(value)
    for body, name in re.findall(r"typedef struct packed\s*\{(.*?)\}\s*(\w+);", text, re.S):
        fields = []
        for kind, bits, field in re.findall(r"(\w+)\s*(?:\[(\d+):0\])?\s*(\w+);", body):
            fields.append((field, widths.get(kind, int(bits or 0) + 1)))
        STRUCTS[name] = fields


_read_package()


def width(struct: str) -> int:
    """Bits of a struct."""
    return sum(bits for _, bits in STRUCTS[struct])


def pack(struct: str, **values: int) -> int:
    """The vector of a struct with these fields; the others are 0."""
    vector = 0
    for field, bits in STRUCTS[struct]:
        value = int(values.pop(field, 0))
        assert 0 <= value < 1 << bits, f"{struct}.{field}: {value:#x} does not fit"
        vector = vector << bits | value
    assert not values, f"{struct} has no {sorted(values)}"
    return vector


def pack_all(struct: str, items: Iterable[dict[str, int]]) -> int:
    """The vector of a packed array of structs."""
    return sum(pack(struct, **item) << width(struct) * n for n, item in enumerate(items))


def part(vector: int, bits: int, number: int) -> int:
    """An item of a packed array of items of so many bits."""
    return int(vector) >> bits * number & ((1 << bits) - 1)


def unpack_one(struct: str, vector: int, number: int) -> SimpleNamespace:
    """The fields of an item of a packed array of structs."""
    return unpack(struct, part(vector, width(struct), number))


def unpack(struct: str, vector: int) -> SimpleNamespace:
    """The fields of a struct's vector."""
    vector = int(vector)
    found = {}
    for field, bits in reversed(STRUCTS[struct]):
        found[field] = vector & ((1 << bits) - 1)
        vector >>= bits
    return SimpleNamespace(**found)
