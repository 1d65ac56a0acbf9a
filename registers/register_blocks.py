# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes a register file of a map as a block of the gateware: a module and its package.

An access takes one clock: a read has its answer in it, a write shows from the next one on. Where
software and hardware write a field in the same clock, software's value stays. Only the properties
that the maps use are supported; others are refused.
"""

from rust_constants import MAX_COLUMNS, REGISTER_BITS, MapError, header
from systemrdl.node import AddrmapNode, FieldNode, RegfileNode, RegNode

# Names of registers that are words of SystemVerilog. Verilator reports any other.
KEYWORDS = frozenset({"interconnect"})
# Properties of fields that change their behaviour and have no meaning here.
REFUSED = "anded counter hwenable hwmask hwset intr onread onwrite ored swwel wel xored".split()


class Block:
    """One register file and what its fields need."""

    def __init__(
        self, top: AddrmapNode, variants: dict[str, AddrmapNode], name: str, source: str
    ) -> None:
        """Takes the register file of `top`, which has only one, and by the names of the block's
        parameters what it is with one of them set.
        """
        self.name, self.options = name, list(variants)
        self.start = header(source)
        # Fields by register and name, and the variants that have them.
        fields: dict[tuple[int, int, str], FieldNode] = {}
        self.variants: dict[str, set[str]] = {}
        for variant, (file,) in [
            (option, node.children(unroll=True)) for option, node in {"": top, **variants}.items()
        ]:
            if not isinstance(file, RegfileNode):
                raise MapError(f"{file.get_path()}: a block is one register file")
            self.address_bits = (file.size - 1).bit_length()
            for item in [item for register in file.registers() for item in register.fields()]:
                fields.setdefault((item.parent.address_offset, item.low, place(item)), item)
                self.variants.setdefault(place(item), set()).add(variant)
        self.fields = [fields[key] for key in sorted(fields)]
        for item in self.fields:
            refused = [name for name in REFUSED if item.get_property(name)]
            if refused:
                raise MapError(f"{item.get_path()}: `{refused[0]}` is not supported in a block")
        # Fields of each register.
        self.registers: dict[str, list[FieldNode]] = {}
        for item in self.fields:
            self.registers.setdefault(name_of(item.parent), []).append(item)
        # Registers whose accesses the gateware sees.
        self.accessed = [item for item in self.fields if kind_of_access(item)]

    def address(self, item: FieldNode) -> str:
        """The address of a field's register in the block."""
        return f"{self.address_bits}'h{item.parent.address_offset:02x}"

    def variants_with(self, item: FieldNode) -> list[str]:
        """The condition on the parameters under which the block has a field, if it is one."""
        variants = self.variants[place(item)]
        if "" in variants:
            return [f"!{option}" for option in self.options if option not in variants]
        return [" || ".join(option for option in self.options if option in variants)]

    def package(self) -> str:
        """The package: the wires into the block and out of it."""
        lines = [*self.start, f"package {self.name}_pkg;"]
        for title, type_name, members in (
            ("Readings and commands of the gateware.", "in_t", wires_in),
            ("Values that the gateware reads.", "out_t", wires_out),
        ):
            lines += ["", f"  // {title}", "  typedef struct {"]
            for name, fields in self.registers.items():
                lines += structure(name, fields, members)
            lines.append(f"  }} {type_name};")
        lines += ["", "  // Registers that software reads or writes in this clock."]
        lines += ["  typedef struct {"]
        lines += [f"    logic {name_of(item.parent)};" for item in self.accessed]
        return "\n".join([*lines, "  } accessed_t;", "endpackage", ""])

    def module(self) -> str:
        """The module: what a write, a clock and a reset do to the fields, and what a read gives."""
        parameters = ", ".join(f"parameter bit {option} = 0" for option in self.options)
        lines = [
            *self.start,
            # Some bits of what software writes are unused.
            "// verilator lint_off UNUSEDSIGNAL",
            *self.head(parameters),
            "    input logic clk,",
            "    input logic rst,",
            "    input logic access_valid,",
            "    input logic access_write,",
            f"    input logic [{self.address_bits - 1}:2] access_address,",
            "    input logic [31:0] access_data,",
            "    output logic [31:0] read_data,  // in the clock of the access",
            f"    input {self.name}_pkg::in_t in,",
            f"    output {self.name}_pkg::out_t out,",
            f"    output {self.name}_pkg::accessed_t accessed",
            ");",
            f"  logic [{self.address_bits - 1}:0] address;",
            "  assign address = {access_address, 2'b00};",
            "  logic reads, writes;",
            "  assign reads = access_valid && !access_write;",
            "  assign writes = access_valid && access_write;",
        ]
        kept = [item for item in self.fields if item.implements_storage]
        for item in kept:
            if not item.is_hw_readable:
                lines.append(f"  logic {vector(item)}{stored(item)};")
        for item in self.accessed:
            terms = [*self.variants_with(item), kind_of_access(item)]
            condition = " && ".join([*terms, f"address == {self.address(item)}"])
            lines.append(f"  assign accessed.{name_of(item.parent)} = {condition};")
        lines += ["", "  always_ff @(posedge clk) begin"]
        for item in kept:
            for terms, statement in by_hardware(item):
                lines.append(f"    {when([*self.variants_with(item), *terms], statement)}")
        writes = self.by_register(by_software)
        lines += ["    if (writes) begin", *(f"  {line}" for line in writes), "    end"]
        lines += ["    if (rst) begin"]
        lines += [f"      {stored(item)} <= {reset(item)};" for item in kept]
        lines += ["    end", "  end", ""]
        lines += ["  always_comb begin", "    read_data = '0;", *self.by_register(by_reading)]
        lines += ["  end", "endmodule", "// verilator lint_on UNUSEDSIGNAL", ""]
        return "\n".join(lines)

    def head(self, parameters: str) -> list[str]:
        """The beginning of the module, in as many lines as it takes."""
        line = f"module {self.name} #({parameters}) (" if parameters else f"module {self.name} ("
        if len(line) <= MAX_COLUMNS:
            return [line]
        each = [f"    {parameter}," for parameter in parameters.split(", ")]
        each[-1] = each[-1].removesuffix(",")
        return [f"module {self.name} #(", *each, ") ("]

    def by_register(self, statements_of) -> list[str]:
        """Cases of the registers by address, with the statements for their fields."""
        lines = ["    case (address)"]
        for fields in self.registers.values():
            statements = [
                when([*self.variants_with(item), *terms], statement)
                for item in fields
                for terms, statement in statements_of(item)
            ]
            label = f"      {self.address(fields[0])}:"
            if len(statements) == 1 and len(f"{label} {statements[0]}") <= MAX_COLUMNS:
                lines.append(f"{label} {statements[0]}")
            elif statements:
                lines += [
                    f"{label} begin",
                    *(f"        {line}" for line in statements),
                    "      end",
                ]
        return [*lines, "      default: ;", "    endcase"]


def kind_of_access(item: FieldNode) -> str:
    """The kind of access to a field that the gateware sees, or nothing."""
    kinds = {"swmod": "writes", "swacc": "reads"}
    return next((kind for name, kind in kinds.items() if item.get_property(name)), "")


def name_of(register: RegNode) -> str:
    """A register's name in SystemVerilog."""
    name = register.inst_name
    return f"{name}_" if name in KEYWORDS else name


def place(item: FieldNode) -> str:
    """Register and field as members of the structures."""
    return f"{name_of(item.parent)}.{item.inst_name}"


def vector(item: FieldNode) -> str:
    """The range of a signal as wide as a field, if it has one."""
    return f"[{item.width - 1}:0] " if item.width > 1 else ""


def bits(item: FieldNode) -> str:
    """The range of a field in its register."""
    if item.width == REGISTER_BITS:
        return ""
    return f"[{item.high}:{item.low}]" if item.width > 1 else f"[{item.low}]"


def stored(item: FieldNode) -> str:
    """The variable with a field's value: an output if the gateware reads it."""
    if item.is_hw_readable:
        return f"out.{place(item)}.value"
    return place(item).replace(".", "_")


def reset(item: FieldNode) -> str:
    """A field's value after a reset."""
    return f"{item.width}'h{item.get_property('reset') or 0:x}"


def wires_in(item: FieldNode) -> list[str]:
    """Wires from the gateware to a field."""
    wires = [f"logic {vector(item)}next;"] if item.is_hw_writable else []
    return wires + [f"logic {name};" for name in ("we", "swwe", "hwclr") if item.get_property(name)]


def wires_out(item: FieldNode) -> list[str]:
    """Wires from a field to the gateware."""
    is_read = item.implements_storage and item.is_hw_readable
    return [f"logic {vector(item)}value;"] if is_read else []


def structure(name: str, items: list[FieldNode], members) -> list[str]:
    """A register's member of a structure, with a structure for each field that has `members`."""
    fields = [
        f"struct {{ {' '.join(members(item))} }} {item.inst_name};"
        for item in items
        if members(item)
    ]
    if not fields:
        return []
    if len(fields) == 1:
        return [f"    struct {{ {fields[0]} }} {name};"]
    return ["    struct {", *(f"      {line}" for line in fields), f"    }} {name};"]


# A statement and the conditions under which it is executed.
Statement = tuple[list[str], str]


def by_hardware(item: FieldNode) -> list[Statement]:
    """Statements that change a field in a clock without a write of software."""
    value = stored(item)
    if item.get_property("singlepulse"):
        return [([], f"{value} <= '0;")]
    statements = []
    if item.is_hw_writable:
        terms = [f"in.{place(item)}.we"] if item.get_property("we") else []
        statements.append((terms, f"{value} <= in.{place(item)}.next;"))
    # A field that is cleared and written in the same clock is cleared.
    if item.get_property("hwclr"):
        statements.append(([f"in.{place(item)}.hwclr"], f"{value} <= '0;"))
    return statements


def by_software(item: FieldNode) -> list[Statement]:
    """Statements that apply a write of a field's register to the field."""
    if not item.is_sw_writable:
        return []
    terms = [f"in.{place(item)}.swwe"] if item.get_property("swwe") else []
    return [(terms, f"{stored(item)} <= access_data{bits(item)};")]


def by_reading(item: FieldNode) -> list[Statement]:
    """Statements that put a field into the answer to a read of its register."""
    value = reset(item)
    if item.implements_storage:
        value = stored(item)
    elif item.is_hw_writable:
        value = f"in.{place(item)}.next"
    return [([], f"read_data{bits(item)} = {value};")]


def when(terms: list[str], statement: str) -> str:
    """A statement under conditions, if there are any."""
    return f"if ({' && '.join(terms)}) {statement}" if terms else statement
