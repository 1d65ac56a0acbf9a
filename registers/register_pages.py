# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the register maps as a Markdown page, `docs/registers.md`."""

from rust_constants import camel_case, collect_files, is_plain, reset_value
from systemrdl.node import AddrmapNode, FieldNode, Node, RegNode

HEAD = """\
<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
# Registers and descriptors

Every register of the cards, and the structures that driver and card share in memory. The page is
made from the SystemRDL in `registers/` by `make registers`, as are the Rust constants
(crate `crosslane-regs`), the C headers (`registers/generated/`) and the register blocks of the
gateware. Registers have 32 bits and are little-endian; what is not listed reads as 0.

*rw* is read and written by software, *r* only read; *pulse* acts once when a 1 is written, and
reads as 0. Resets are 0 unless they are given. Offsets of a group's registers count from the start
of the group.
"""
# Title of each map, and the page that says how its parts work together.
TITLES = {
    "engine": ("DMA engine", "engine.md"),
    "memory_card": ("Memory card", "memory-card.md"),
    "network_processor": ("Network processor", "network-processor.md"),
    "table_descriptor": ("Entry of a descriptor table", "engine.md"),
    "ring_descriptor": ("Entry of a descriptor ring", "engine.md"),
    "push_line": ("Line of the push aperture", "engine.md"),
    "status_block": ("Status block of a channel", "engine.md"),
    "network_request": ("Request of the network processor", "network-processor.md"),
    "network_notification": ("Notification of the network processor", "network-processor.md"),
    "put_control": ("Control word of a put", "network-processor.md"),
}


def described(node: Node) -> str:
    """The description of a node on one line, with nothing that ends a table's cell."""
    text = " ".join((node.get_property("desc") or "").split())
    return text.replace("|", "\\|").replace("<", "\\<")


def access(item: FieldNode) -> str:
    """The access of software to a field."""
    if item.get_property("singlepulse"):
        return "pulse"
    return "rw" if item.is_sw_writable else "r"


def bits(item: FieldNode) -> str:
    """The place of a field in its register."""
    return f"{item.high}:{item.low}" if item.width > 1 else str(item.low)


def field_text(item: FieldNode, encodings: dict) -> str:
    """The description of a field, with the name of its values."""
    text = described(item)
    if (encoding := item.get_property("encode")) is not None:
        encodings[encoding.type_name] = encoding
        anchor = camel_case(encoding.type_name).lower()
        text += f" Values: [{camel_case(encoding.type_name)}](#{anchor})."
    return text


def register_rows(register: RegNode, encodings: dict) -> list[str]:
    """The rows of one register: its own, and one of each field unless it is one value."""
    fields = list(register.fields())
    whole = access(fields[0]) if is_plain(register) else ""
    reset = reset_value(register)
    text = described(register) + (f" Reset: {reset:#x}." if reset else "")
    offset = f"0x{register.raw_address_offset:02x}"
    rows = [f"| {offset} | `{register.inst_name}` | {'31:0' if whole else ''} | {whole} | {text} |"]
    if not whole:
        rows += [
            f"| | `.{item.inst_name}` | {bits(item)} | {access(item)} "
            f"| {field_text(item, encodings)} |"
            for item in fields
        ]
    return rows


def table(registers: list[RegNode], encodings: dict) -> list[str]:
    """The table of some registers."""
    rows = [row for register in registers for row in register_rows(register, encodings)]
    return [
        "| offset | name | bits | access | what it is |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]


def map_page(top: AddrmapNode, source: str, written: set[str]) -> list[str]:
    """The part of the page for one map; encodings that `written` names have been described."""
    title, page = TITLES[top.inst_name]
    encodings: dict = {}
    lines = ["", f"## {title}", "", f"`{source}`; explained in [{page}]({page})."]
    own = [node for node in top.children(unroll=False) if isinstance(node, RegNode)]
    if own:
        lines += ["", *table(own, encodings)]
    for name, file in collect_files(top).items():
        places = [
            f"`{node.inst_name}` at 0x{node.raw_address_offset:x}"
            + (f", {node.array_dimensions[0]} of them" if node.is_array else "")
            for node in top.children(unroll=False)
            if not isinstance(node, RegNode) and node.inst_name.upper() in file.instances
        ]
        heading = f"{title}: {name.replace('_', ' ')}"
        text = described(file.first)
        lines += ["", f"### {heading}", "", f"{'; '.join(places)}.{' ' + text if text else ''}", ""]
        registers = sorted(file.registers.values(), key=lambda it: it.raw_address_offset)
        lines += table(registers, encodings)
    for name, encoding in encodings.items():
        if name in written:
            continue
        written.add(name)
        lines += ["", f"### {camel_case(name)}", ""]
        lines += ["| value | name | meaning |", "| --- | --- | --- |"]
        lines += [
            f"| {member.value} | `{member.name}` | {member.rdl_desc or ''} |" for member in encoding
        ]
    return lines


def page(maps: list[tuple[AddrmapNode, str]]) -> str:
    """The whole page of maps with their sources."""
    written: set[str] = set()
    lines = [line for top, source in maps for line in map_page(top, source, written)]
    return HEAD + "\n".join(lines) + "\n"
