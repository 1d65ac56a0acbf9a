# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Boards and what is known of them without the vendor's tool: `board.tcl`, the core's settings, the
commands that the build's script gives, the identity of a build.

As a program: builds a board's bitstream, where the vendor's tool is installed.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
GATEWARE = FOLDER.parent
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/board.tcl"))
# Built by Amazon's HDK, without a core of ours.
AWS_F2 = "aws_f2"
ALL_NAMES = ", ".join([*NAMES, AWS_F2])
RESULTS = GATEWARE / "build" / "boards"
# Digits of a build's identity: as many as the serial number of configuration space has.
IDENTITY_DIGITS = 16
SCALES = {"Kilobytes": 1 << 10, "Megabytes": 1 << 20, "Gigabytes": 1 << 30}
BAR_32_BIT = "32-bit non-prefetchable memory"
GENERATIONS = {"2.5_GT/s": 1, "5.0_GT/s": 2, "8.0_GT/s": 3, "16.0_GT/s": 4}


class BoardError(Exception):
    """A board that does not exist, a script that fails, a tool that is missing."""


@dataclass(frozen=True)
class Tool:
    """A vendor's tool that builds bitstreams: `build` gives its command."""

    product: str
    # Asked of the user if it is missing.
    setup: str
    program: str
    # Options before the script, and before its arguments.
    before_script: tuple[str, ...]
    before_arguments: tuple[str, ...]
    script: str
    # Other scripts of a build, and the files with a board's constraints.
    scripts: tuple[str, ...]
    constraints: tuple[str, ...]
    # Suffix of a bitstream, and the logs in the folder of a build.
    bitstream: str
    logs: str

    def command(self, program: str, *arguments: str) -> list[str]:
        """Runs the script of a build."""
        script = [*self.before_script, str(FOLDER / self.script)]
        return [program, *script, *self.before_arguments, *arguments]


VIVADO = Tool(
    product="AMD's Vivado",
    setup="run its settings64.sh first",
    program="vivado",
    before_script=("-mode", "batch", "-source"),
    before_arguments=("-tclargs",),
    script="build.tcl",
    scripts=(),
    constraints=("pins.xdc",),
    bitstream=".bit",
    logs="vivado.log",
)
QUARTUS = Tool(
    product="Intel's Quartus Prime Pro",
    setup="put its quartus/bin and qsys/bin on PATH",
    program="quartus_sh",
    before_script=("-t",),
    before_arguments=(),
    script="build_quartus.tcl",
    scripts=("check_timing.tcl", "sources.tcl"),
    constraints=("pins.tcl", "timing.sdc"),
    bitstream=".sof",
    logs="project/output_files",
)


def commands(tool: Tool, script: str, *arguments: str) -> list[list[str]]:
    """The commands that a script gives to a tool, each as its words, by dry_run.tcl.

    Raises BoardError with Tcl's message if the script fails.
    """
    dry_run = ["tclsh", str(FOLDER / "dry_run.tcl"), tool.program]
    command = [*dry_run, str(FOLDER / script), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise BoardError("there is no tclsh: install Debian's package tcl") from None
    if done.returncode != 0:
        raise BoardError(f"{script} {' '.join(arguments)}: {done.stderr.strip()}")
    return [record.split("\x1f") for record in done.stdout.split("\x1e")[1:]]


@dataclass(frozen=True)
class Msix:
    """The MSI-X capability."""

    vectors: int
    table_offset: int
    pending_offset: int


@dataclass(frozen=True)
class Core:
    """What the vendor's core is set to, in the specification's words."""

    name: str
    vendor: int
    device: int
    subsystem: tuple[int, int]
    class_code: int
    # Bytes of each BAR.
    bars: dict[int, int]
    msix: Msix
    max_payload_bytes: int
    extended_tags: bool
    has_serial_number: bool
    generation: int
    lanes: int
    width_bits: int
    clock_mhz: float
    # None: the top gives it to the core.
    serial_number: int | None = None
    # BARs of 64 bits, prefetchable; the others have 32.
    wide_bars: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Board:
    """A board: its part, its core's settings as the tool gets them, and the same decoded."""

    name: str
    part: str
    properties: dict[str, str]
    core: Core


def core_7x(properties: dict[str, str]) -> Core:
    """Decodes settings of pcie_7x; ip/pcie_7x.tcl says where the encodings are from."""
    bars = {
        number: int(properties[f"Bar{number}_Size"]) * SCALES[properties[f"Bar{number}_Scale"]]
        for number in range(6)
        if properties.get(f"Bar{number}_Enabled") == "true"
    }
    class_parts = (properties[f"Class_Code_{part}"] for part in ("Base", "Sub", "Interface"))
    return Core(
        name="pcie_7x",
        vendor=int(properties["Vendor_ID"], 16),
        device=int(properties["Device_ID"], 16),
        subsystem=(
            int(properties["Subsystem_Vendor_ID"], 16),
            int(properties["Subsystem_ID"], 16),
        ),
        class_code=int("".join(class_parts), 16),
        bars=bars,
        msix=Msix(
            vectors=int(properties["MSIx_Table_Size"], 16),
            table_offset=8 * int(properties["MSIx_Table_Offset"], 16),
            pending_offset=8 * int(properties["MSIx_PBA_Offset"], 16),
        ),
        max_payload_bytes=int(properties["Max_Payload_Size"].removesuffix("_bytes")),
        extended_tags=properties["Extended_Tag_Field"] == "true",
        has_serial_number=properties["DSN_Enabled"] == "true",
        generation=GENERATIONS[properties["Link_Speed"]],
        lanes=int(properties["Maximum_Link_Width"].removeprefix("X")),
        width_bits=int(properties["Interface_Width"].removesuffix("_bit")),
        clock_mhz=float(properties["User_Clk_Freq"]),
    )


def core_pcie4(name: str) -> Callable[[dict[str, str]], Core]:
    """Decoder of settings of the UltraScale+ cores and of pcie3_7x; ip/pcie4_settings.tcl and
    ip/pcie3_7x.tcl say where the encodings are from."""

    def decode(properties: dict[str, str]) -> Core:
        class_parts = (f"pf0_class_code_{part}" for part in ("base", "sub", "interface"))
        class_code = properties.get("PF0_CLASS_CODE") or "".join(map(properties.get, class_parts))
        enabled = {"pf0_bar0_enabled": "true", **properties}
        bars = {
            number: int(properties[f"pf0_bar{number}_size"])
            * SCALES[properties[f"pf0_bar{number}_scale"]]
            for number in range(6)
            if enabled.get(f"pf0_bar{number}_enabled") == "true"
        }
        return Core(
            name=name,
            vendor=int(properties["vendor_id"], 16),
            device=int(properties["PF0_DEVICE_ID"], 16),
            subsystem=(
                int(properties["PF0_SUBSYSTEM_VENDOR_ID"], 16),
                int(properties["PF0_SUBSYSTEM_ID"], 16),
            ),
            class_code=int(class_code, 16),
            bars=bars,
            msix=Msix(
                vectors=int(properties["PF0_MSIX_CAP_TABLE_SIZE"], 16) + 1,
                table_offset=int(properties["PF0_MSIX_CAP_TABLE_OFFSET"], 16),
                pending_offset=int(properties["PF0_MSIX_CAP_PBA_OFFSET"], 16),
            ),
            max_payload_bytes=int(properties["pf0_dev_cap_max_payload"].removesuffix("_bytes")),
            extended_tags=properties["extended_tag_field"] == "true",
            has_serial_number=properties["pf0_dsn_enabled"] == "true",
            generation=GENERATIONS[properties["PL_LINK_CAP_MAX_LINK_SPEED"]],
            lanes=int(properties["PL_LINK_CAP_MAX_LINK_WIDTH"].removeprefix("X")),
            width_bits=int(properties["axisten_if_width"].removesuffix("_bit")),
            clock_mhz=float(properties["axisten_freq"]),
            wide_bars=frozenset(
                number for number in bars if properties.get(f"pf0_bar{number}_64bit") == "true"
            ),
        )

    return decode


def core_ptile(properties: dict[str, str]) -> Core:
    """Decodes settings of the P-Tile; ip/ptile_system.tcl says where the encodings are from."""

    def number(name: str) -> int:
        return int(properties[f"core16_{name}_hwtcl"])

    topology = r"Gen(\d)x(\d+), Interface - (\d+) bit"
    found = re.fullmatch(topology, properties["top_topology_hwtcl"])
    if found is None:
        raise BoardError(f"unknown topology {properties['top_topology_hwtcl']!r}")
    generation, lanes, width = map(int, found.groups())
    bars = {
        bar: 1 << number(f"pf0_bar{bar}_address_width_user")
        for bar in range(6)
        if properties.get(f"core16_pf0_bar{bar}_type_user_hwtcl") == BAR_32_BIT
    }
    return Core(
        name=PTILE,
        vendor=number("pf0_pci_type0_vendor_id"),
        device=number("pf0_pci_type0_device_id"),
        subsystem=(number("pf0_subsys_vendor_id"), number("pf0_subsys_dev_id")),
        class_code=number("pf0_class_code"),
        bars=bars,
        msix=Msix(
            vectors=number("pf0_pci_msix_table_size") + 1,
            table_offset=8 * number("pf0_pci_msix_table_offset"),
            pending_offset=8 * number("pf0_pci_msix_pba_offset"),
        ),
        max_payload_bytes=number("virtual_maxpayload_size"),
        extended_tags=number("cap_ext_tag_supp_user") == 1,
        has_serial_number=number("virtual_sn_cap_enable") == 1,
        generation=generation,
        lanes=lanes,
        width_bits=width,
        clock_mhz=float(properties[f"g{generation}_pld_clkfreq_user_hwtcl"].removesuffix("MHz")),
        serial_number=number("sn_ser_num_reg_2_dw") << 32 | number("sn_ser_num_reg_1_dw"),
    )


PCIE4 = ("pcie4_uscale_plus", "pcie4c_uscale_plus")
PTILE = "intel_pcie_ptile_ast"
DECODERS = {"pcie_7x": core_7x, **{name: core_pcie4(name) for name in ("pcie3_7x", *PCIE4)}}
DECODERS |= {PTILE: core_ptile}
# Modules for boards with each core: crosslane_board_NAME.
FAMILIES = {"pcie_7x": "s7", "pcie3_7x": "v7", **dict.fromkeys(PCIE4, "us"), PTILE: "ptile"}


def tool(name: str) -> Tool:
    """The tool for the board of a folder, by its core."""
    if name not in NAMES:
        raise BoardError(f"there is no board {name!r}; there are {ALL_NAMES}")
    text = (FOLDER / name / "board.tcl").read_text()
    (core,) = re.findall(r"^ +core +(\w+)$", text, re.M)
    return QUARTUS if core == PTILE else VIVADO


@cache
def board(name: str, build_id: str = "0" * IDENTITY_DIGITS) -> Board:
    """The board of a folder, as a build of this identity makes it."""
    found = commands(tool(name), tool(name).script, name, build_id, "out")
    if tool(name) is QUARTUS:
        (part,) = (words[3] for words in found if words[2:3] == ["DEVICE"])
        ((instance, core),) = (
            words[1:3] for words in found if words[0] == "add_instance" and words[2] in DECODERS
        )
        properties = {
            words[2]: words[3]
            for words in found
            if words[:2] == ["set_instance_parameter_value", instance]
        }
        return Board(name, part, properties, DECODERS[core](properties))
    (part,) = (words[words.index("-part") + 1] for words in found if words[0] == "create_project")
    (core,) = (
        words[words.index("-name") + 1]
        for words in found
        if words[0] == "create_ip" and words[-1] == "crosslane_pcie"
    )
    # A flat list: none of its words has spaces.
    (settings,) = (words[2].split() for words in found if words[-1] == "get_ips crosslane_pcie")
    pairs = zip(settings[::2], settings[1::2], strict=True)
    properties = {key.removeprefix("CONFIG."): value for key, value in pairs}
    return Board(name, part, properties, DECODERS[core](properties))


def parameters(name: str) -> dict[str, int]:
    """The parameters of a board's engine: the defaults of the module for its family, and what the
    board's top gives it."""
    family = FOLDER / "rtl" / f"crosslane_board_{FAMILIES[board(name).core.name]}.sv"
    found = re.findall(r"parameter int unsigned (\w+) += (\d+)", family.read_text())
    top = (FOLDER / name / f"crosslane_{name}.sv").read_text()
    found += re.findall(r"localparam int unsigned (\w+) = (\d+)", top)
    found += re.findall(r"\.([A-Z_]+) *\((\d+)\)", top)
    return {key: int(value) for key, value in found}


def ports(name: str) -> dict[str, int]:
    """The ports of a board's top, with their bits."""
    text = (FOLDER / name / f"crosslane_{name}.sv").read_text()
    lanes = board(name).core.lanes
    bits = {"": 1, "LINK_LANES-1:0": lanes}
    found = re.findall(
        r"^ +(?:input|output|inout) +(?:logic|wire)(?: +\[ *([^\]]+)\])? +(\w+)", text, re.M
    )
    return {
        port: bits[width] if width in bits else int(width.split(":")[0]) + 1
        for width, port in found
    }


def folders(name: str) -> tuple[Path, ...]:
    """The folders with the modules of a board's top, without the engine's and the vendor's."""
    return (FOLDER / name, FOLDER / "rtl")


def identity_of(files: list[Path]) -> str:
    """The first digits of the SHA-256 of files, by their names."""
    digest = hashlib.sha256()
    for path in sorted(files):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(GATEWARE).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:IDENTITY_DIGITS]


def identity(name: str) -> str:
    """The identity of a build: the first digits of the SHA-256 of all sources of a bitstream."""
    files = [
        *GATEWARE.glob("rtl/**/*.sv"),
        *(path for folder in folders(name) for path in folder.iterdir()),
        *(FOLDER / script for script in (tool(name).script, *tool(name).scripts)),
        *FOLDER.glob("ip/*.tcl"),
    ]
    return identity_of(files)


def build(name: str) -> Path:
    """Builds a board's bitstream by its vendor's tool; returns the description that is written
    beside it."""
    target, by = board(name), tool(name)
    program = shutil.which(by.program)
    if program is None:
        raise BoardError(
            f"cannot build {name}: `{by.program}` is not on PATH. Install {by.product} with "
            f"support for {target.part} and its core {target.core.name}, and {by.setup}"
        )
    build_id = identity(name)
    folder = RESULTS / f"{name}-{build_id}"
    folder.mkdir(parents=True, exist_ok=True)
    command = by.command(program, name, build_id, str(folder))
    if subprocess.run(command, cwd=folder).returncode != 0:
        raise BoardError(f"cannot build {name}: see above, and {folder}/{by.logs}")
    bitstream = folder / f"crosslane-{name}-{build_id}{by.bitstream}"
    described = bitstream.with_suffix(".json")
    core = target.core
    description = {
        "board": name,
        "part": target.part,
        "build": build_id,
        "bitstream": bitstream.name,
        "sha256": hashlib.sha256(bitstream.read_bytes()).hexdigest(),
        "identity": f"{core.vendor:04x}:{core.device:04x}",
        "subsystem": "{:04x}:{:04x}".format(*core.subsystem),
        "link": f"Gen{core.generation} x{core.lanes}",
    }
    described.write_text(json.dumps(description, indent=2) + "\n")
    return described


def main() -> int:
    """Builds the board that is named, or prints the identity of its build."""
    arguments = sys.argv[1:]
    only_identity = "--identity" in arguments
    names = [argument for argument in arguments if argument != "--identity"]
    try:
        if len(names) != 1:
            raise BoardError(f"name one board: {ALL_NAMES}")
        if names == [AWS_F2]:
            program = [sys.executable, "-B", str(FOLDER / f"{AWS_F2}.py")]
            return subprocess.run([*program, *(["--identity"] if only_identity else [])]).returncode
        if only_identity:
            board(names[0])
            print(identity(names[0]))
        else:
            print(build(names[0]).read_text(), end="")
    except BoardError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
