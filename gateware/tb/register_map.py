# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Offsets and fields of the engine's registers, read from registers/engine.rdl.

`OFFSETS["h2c[0].control"]` is a byte offset in BAR 0; `field("h2c[0].control", run=1, source=1)`
is a value with these fields.
"""

from pathlib import Path

from systemrdl import RDLCompiler
from systemrdl.node import RegNode

SOURCE = Path(__file__).resolve().parent.parent.parent / "registers" / "engine.rdl"

OFFSETS: dict[str, int] = {}
# Low bit and width of each register's fields.
FIELDS: dict[str, dict[str, tuple[int, int]]] = {}
# The bits of each register that hold a value written by software.
WRITABLE: dict[str, int] = {}


def _read_map() -> None:
    compiler = RDLCompiler()
    compiler.compile_file(str(SOURCE))
    root = compiler.elaborate(top_def_name="engine")
    for node in root.descendants(unroll=True):
        if isinstance(node, RegNode):
            path = node.get_path().removeprefix("engine.")
            OFFSETS[path] = node.absolute_address
            FIELDS[path] = {part.inst_name: (part.low, part.width) for part in node.fields()}
            WRITABLE[path] = sum(
                ((1 << part.width) - 1) << part.low
                for part in node.fields()
                if part.is_sw_writable
                and (part.get_property("we") or not part.is_hw_writable)
                and not part.get_property("singlepulse")
            )


_read_map()

# Memories in the map.
MSIX_TABLE = 0x1000
MSIX_PENDING = 0x1800
H2C_TABLE = 0x8000
C2H_TABLE = 0xC000


def field(register: str, **values: int) -> int:
    """The value of a register with these fields; the others are 0."""
    word = 0
    for name, value in values.items():
        low, width = FIELDS[register][name]
        assert 0 <= value < 1 << width, f"{register}.{name}: {value:#x} does not fit"
        word |= value << low
    return word


def fields_of(register: str, word: int) -> dict[str, int]:
    """The fields of a register's value."""
    parts = FIELDS[register].items()
    return {name: word >> low & ((1 << width) - 1) for name, (low, width) in parts}
