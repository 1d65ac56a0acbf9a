# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Projects of boards without the vendor's tool: what the build's script would have it do, and
whether core, pins, SystemVerilog and register map agree.
"""

import hashlib
import json
import re
import stat
from pathlib import Path

import boards
import pytest
from model import GATEWARE, sources
from register_map import MSIX_TABLE
from vendor_core import ports

NAMES = pytest.mark.parametrize("name", boards.NAMES)
VIVADO = pytest.mark.parametrize(
    "name", [name for name in boards.NAMES if boards.tool(name) is boards.VIVADO]
)
QUARTUS = pytest.mark.parametrize(
    "name", [name for name in boards.NAMES if boards.tool(name) is boards.QUARTUS]
)
# Of the register map: engine.rdl.
MSIX_PENDING = 0x1800
REGISTER_BYTES = 1 << 16
# Completions that the core's receive buffer takes, and their data: the engine must not have more
# outstanding, since it promises infinite credit (PCIe 6.x 2.6.1). 7-series: c_fc_cplh and c_fc_cpld
# of cores with a payload of 256 B, less than with 512 B (docs/boards.md); UltraScale+: PG213,
# "Completion Space"; pcie3_7x: the same of PG156, and corundum's limit of data (docs/boards.md);
# P-Tile: rtl/shim_ptile/README.md.
BUFFERS = {"pcie_7x": (72, 370 * 16), "pcie3_7x": (64, 960 * 16)}
BUFFERS |= dict.fromkeys(boards.PCIE4, (128, 32768)) | {boards.PTILE: (1144, 2888 * 16)}
# Bytes of a place in the buffer, if it is larger than a credit's 16 B.
PLACES = {boards.PTILE: 32}
BUILD = "0123456789abcdef"
WITH_HBM, WITH_DDR4 = ["u50"], ["u250", "vcu118"]
WITH_MEMORY = WITH_HBM + WITH_DDR4


def run(name: str, folder: str = "out") -> list[list[str]]:
    """The commands of a board's build."""
    tool = boards.tool(name)
    return boards.commands(tool, tool.script, name, BUILD, folder)


def pins(name: str) -> dict[str, str]:
    """The pin of each port, by the board's constraints."""
    found = {}
    for words in run(name):
        if words[0] == "set_location_assignment":
            pin, port = words[1].removeprefix("PIN_"), words[3]
            assert port not in found, f"{port} has two pins"
            found[port] = pin
        port = re.fullmatch(r"get_ports \{?([^}]*)\}?", words[-1])
        if words[0] != "set_property" or port is None:
            continue
        settings = words[2].split() if words[1] == "-dict" else words[1:3]
        pairs = dict(zip(settings[::2], settings[1::2], strict=True))
        if pin := pairs.get("PACKAGE_PIN"):
            assert port[1] not in found, f"{port[1]} has two pins"
            found[port[1]] = pin
    return found


@VIVADO
def test_a_build_makes_a_core_and_a_bitstream(name):
    found = run(name, "results")
    order = [words[0] for words in found]
    steps = ["create_project", "create_ip", "add_files", "launch_runs", "report_timing_summary"]
    assert sorted(steps, key=order.index) == steps
    assert ["set_property", "generic", f"BUILD_ID=64'h{BUILD}", "current_fileset"] in found
    bitstream = f"results/crosslane-{name}-{BUILD}.bit"
    assert found[-1] == ["file", "copy", "-force", f"/runs/impl_1/crosslane_{name}.bit", bitstream]


@QUARTUS
def test_a_quartus_build_makes_a_core_and_a_bitstream(name, tmp_path):
    """Timing is looked at after the compilation and before there is a bitstream."""
    found = run(name, str(tmp_path))
    order = [words[0] if words[0] != "exec" else words[2] for words in found]
    steps = ["project_new", "qsys-script", "add_instance", "execute_flow", "quartus_sta"]
    assert sorted(steps, key=order.index) == steps
    made = f"{tmp_path}/project/output_files/crosslane_{name}"
    bitstream = f"{tmp_path}/crosslane-{name}-{BUILD}.sof"
    assert found[-1] == ["file", "copy", "-force", f"{made}.sof", bitstream]
    assert boards.board(name, BUILD).core.serial_number == int(BUILD, 16)
    systems = {words[1] for words in found if words[0] == "save_system"}
    added = {words[3] for words in found if words[2:3] == ["IP_FILE"]}
    assert added == {f"ip/{system}.ip" for system in systems}


@QUARTUS
def test_a_quartus_build_has_the_files_that_its_top_needs(name):
    """Each behind those that it names."""
    added = [
        Path(words[3]).resolve() for words in run(name) if words[2:3] == ["SYSTEMVERILOG_FILE"]
    ]
    top = boards.FOLDER / name / f"crosslane_{name}.sv"
    assert added[-1] == top and len(set(added)) == len(added)
    assert set(added) == set(sources(top, *boards.folders(name)))
    seen = set()
    for path in added:
        text = re.sub(r"//.*", "", path.read_text())
        named = {one.stem for one in added if re.search(rf"\b{one.stem}\b", text)}
        assert named - {path.stem} <= seen, path.name
        seen.add(path.stem)


@VIVADO
def test_a_build_has_every_file_of_its_top(name):
    added = {
        Path(path).resolve()
        for words in run(name)
        if words[0] == "add_files"
        for path in words[-1].split()
    }
    tops = {path for folder in boards.folders(name) for path in folder.glob("*.sv")}
    crossings = set(GATEWARE.glob("constraints/*.xdc")) if name in WITH_MEMORY else set()
    pins = {boards.FOLDER / name / "pins.xdc"}
    assert added == tops | set(GATEWARE.glob("rtl/**/*.sv")) | pins | crossings


def core_settings(name: str, core: str) -> dict[str, str]:
    """What a board's build sets of one of the vendor's cores."""
    (words,) = (words for words in run(name) if words[-1] == f"get_ips {core}")
    flat = words[2].split()
    return dict(zip(flat[::2], flat[1::2], strict=True))


@pytest.mark.parametrize("name", WITH_HBM)
def test_hbm_and_engine_agree(name):
    """Ports of the vendor's core are on where the top joins them, and the engine has its size."""
    settings = core_settings(name, "crosslane_hbm")
    on = {key[-2:] for key, value in settings.items() if "SAXI" in key and value == "true"}
    text = (boards.FOLDER / name / f"crosslane_{name}_memory.sv").read_text()
    assert on == set(re.findall(r"\.AXI_(\d\d)_ACLK\(", text))
    gigabytes = int(settings["CONFIG.USER_HBM_DENSITY"].removesuffix("GB"))
    assert gigabytes << 30 == 1 << boards.parameters(name)["MEMORY_BITS"]


@pytest.mark.parametrize("name", WITH_DDR4)
def test_ddr4_and_engine_agree(name):
    """The core has the engine's size, and the frequency that its pin is said to have."""
    settings = core_settings(name, f"crosslane_ddr4_{name}")
    bits, engine = int(settings["CONFIG.C0.DDR4_AxiAddressWidth"]), boards.parameters(name)
    assert bits == engine["MEMORY_BITS"]
    text = (boards.FOLDER / name / f"crosslane_{name}_memory.sv").read_text()
    assert f"localparam int unsigned MEMORY_BITS = {bits};" in text
    # All of a memory with ECC is cleared, and no other: 64 bits have none.
    has_ecc = settings.get("CONFIG.C0.DDR4_DataWidth") != "64"
    assert re.findall(r"CLEARED_BITS = (\d+)", text) == ([str(bits)] if has_ecc else [])
    (period,) = (
        words[4] for words in run(name) if words[:3] == ["create_clock", "-name", "sysclk"]
    )
    assert abs(float(period) * 1000 - int(settings["CONFIG.C0.DDR4_InputClockPeriod"])) < 2
    assert int(settings["CONFIG.C0.DDR4_AxiDataWidth"]) == engine["DATA_BITS"]


@NAMES
def test_each_port_has_one_pin(name):
    found = pins(name)
    wanted = {
        port if bits == 1 else f"{port}[{bit}]"
        for port, bits in boards.ports(name).items()
        for bit in range(bits)
    }
    assert set(found) == wanted
    assert len(set(found.values())) == len(found), "a pin has two ports"


@NAMES
def test_core_and_engine_agree(name):
    core, engine = boards.board(name).core, boards.parameters(name)
    bars = {0: REGISTER_BYTES, 1: engine["LANES"] * engine["LANE_WINDOW"]}
    if engine.get("WINDOW"):
        bars[2] = 1 << engine["WINDOW_BITS"]
        assert engine["WINDOW_BITS"] <= engine["MEMORY_BITS"]
    assert core.bars == bars
    assert core.wide_bars == bars.keys() - {0, 1}
    assert core.msix == boards.Msix(engine.get("VECTORS", 8), MSIX_TABLE, MSIX_PENDING)
    assert core.width_bits == engine["DATA_BITS"]
    assert core.lanes == engine["LINK_LANES"]
    assert core.max_payload_bytes == engine["MAX_WRITE"]
    assert core.extended_tags and core.has_serial_number
    assert core.clock_mhz * engine["CLOCK_PS"] == 1_000_000
    # Completion time-out of 50 ms, the most that Device Control 2 means by default.
    assert engine["TIMEOUT_CLOCKS"] * engine["CLOCK_PS"] == 50 * 10**9


@NAMES
def test_the_interface_keeps_up_with_the_link(name):
    core = boards.board(name).core
    gigatransfers = {1: 2.5, 2: 5, 3: 8, 4: 16}[core.generation]
    coding = 8 / 10 if core.generation < 3 else 128 / 130
    link_bits = gigatransfers * 1e9 * core.lanes * coding
    assert core.width_bits * core.clock_mhz * 1e6 >= link_bits


@NAMES
def test_outstanding_reads_fit_the_receive_buffer(name):
    core, engine = boards.board(name).core, boards.parameters(name)
    most_headers, most_bytes = BUFFERS[core.name]
    # PG213, "PACKET_FC Method": what is pending stays below the space.
    assert 0 < engine["COMPLETION_HEADER_CREDITS"] < most_headers
    assert 0 < engine["COMPLETION_DATA_CREDITS"] < most_bytes // 16
    if place := PLACES.get(core.name):
        # A completion leaves at most half of its last place.
        halves = engine["COMPLETION_HEADER_CREDITS"] + engine["COMPLETION_DATA_CREDITS"]
        assert halves <= 2 * (most_bytes // place)


@NAMES
def test_all_inputs_of_the_core_are_connected(name):
    core = boards.board(name).core
    family = boards.FOLDER / "rtl" / f"crosslane_board_{boards.FAMILIES[core.name]}.sv"
    (instance,) = re.findall(r"crosslane_pcie pcie \((.*?)\n  \);", family.read_text(), re.S)
    connected = re.findall(r"^ +\.(\w+)", instance, re.M)
    assert len(set(connected)) == len(connected)
    found = ports(boards.board(name))
    assert set(connected) <= {port for _, port, _ in found}
    assert {port for direction, port, _ in found if direction == "in"} <= set(connected)


def test_boards_are_told_apart():
    ids = {(boards.board(name).core.subsystem) for name in boards.NAMES}
    assert len(ids) == len(boards.NAMES)
    assert len({boards.identity(name) for name in boards.NAMES}) == len(boards.NAMES)


def test_the_program_knows_all_boards():
    text = (GATEWARE.parent / "crates/crosslane/src/machine/describe.rs").read_text()
    vendors = re.findall(r"const (\w+): u16 = 0x([0-9a-f]{4});", text)
    numbers = {name: int(digits, 16) for name, digits in vendors}
    known = re.findall(r"\((\w+), 0x([0-9a-f]{4}), \"(\w+)\"\)", text)
    ours = {name: boards.board(name).core for name in boards.NAMES}
    assert {name: (numbers[vendor], int(digits, 16)) for vendor, digits, name in known} == {
        name: core.subsystem for name, core in ours.items()
    }
    assert all(core.vendor == core.subsystem[0] for core in ours.values())


def test_a_board_that_does_not_exist_is_refused():
    with pytest.raises(boards.BoardError, match=r"no board 'ac701'; there are .*kc705"):
        boards.board("ac701")


def test_an_error_of_tcl_is_shown(tmp_path):
    script = tmp_path / "wrong.tcl"
    script.write_text("set_property TOP x [current_design]\nplace_desing\n")
    with pytest.raises(boards.BoardError, match='invalid command name "place_desing"'):
        boards.commands(boards.VIVADO, str(script))


def fake(folder: Path, tool: boards.Tool, **values: str) -> None:
    """A program in the tool's place that runs the script in tclsh; its objects have these
    properties."""
    given = "".join(f"dict set properties {key} {{{value}}}\n" for key, value in values.items())
    script = folder / "fake.tcl"
    script.write_text(given)
    program = folder / tool.program
    options = len(tool.before_script)
    program.write_text(
        "#!/bin/sh\n"
        f"export FAKE={script}\n"
        f"shift {options}; build=$1; shift {1 + len(tool.before_arguments)}\n"
        f'tclsh {boards.FOLDER}/dry_run.tcl {tool.program} "$build" "$@" > commands || exit 1\n'
        f'echo bits > "$3/crosslane-$1-$2{tool.bitstream}"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("name", "ids", "link"),
    [
        ("litefury", ("10ee:7024", "10ee:f100"), "Gen2 x4"),
        ("s10dx", ("1172:0000", "1172:51d0"), "Gen3 x16"),
    ],
)
def test_a_build_describes_its_bitstream(tmp_path, monkeypatch, name, ids, link):
    """With a program in the vendor's place."""
    fake(tmp_path, boards.tool(name))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(boards, "RESULTS", tmp_path / "results")
    described = boards.build(name)
    found = json.loads(described.read_text())
    bitstream = described.parent / found["bitstream"]
    suffix = boards.tool(name).bitstream
    assert bitstream.name == f"crosslane-{name}-{boards.identity(name)}{suffix}"
    assert found["sha256"] == hashlib.sha256(bitstream.read_bytes()).hexdigest()
    assert (found["identity"], found["subsystem"]) == ids
    assert (found["link"], found["build"]) == (link, boards.identity(name))


@pytest.mark.parametrize(
    ("name", "properties", "error"),
    [
        ("litefury", {"SLACK": "-0.31"}, "timing is not met: worst slack -0.31 ns"),
        (
            "litefury",
            {"PROGRESS": "42%", "STATUS": "synth_design ERROR"},
            "synth_1 has failed: synth_design",
        ),
        ("s10dx", {"SLACK": "-0.31"}, "timing is not met: worst slack -0.31 ns (setup, slow)"),
        ("s10dx", {"SLACK": "-0.000"}, "timing is not met: worst slack -0.000 ns"),
        ("s10dx", {"EMPTY": "-hold"}, "no paths to analyse (hold, slow)"),
        ("s10dx", {"FLOW": "Quartus Prime Fitter was unsuccessful"}, "Fitter was unsuccessful"),
    ],
)
def test_a_build_that_fails_leaves_no_bitstream(
    tmp_path, monkeypatch, capfd, name, properties, error
):
    fake(tmp_path, boards.tool(name), **properties)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(boards, "RESULTS", tmp_path / "results")
    with pytest.raises(boards.BoardError, match=f"cannot build {name}"):
        boards.build(name)
    assert error in capfd.readouterr().err
    assert not list((tmp_path / "results").glob(f"**/*{boards.tool(name).bitstream}"))


@pytest.mark.parametrize(
    ("name", "program", "part"),
    [("kc705", "vivado", "xc7k325tffg900-2"), ("s10dx", "quartus_sh", "1SD280PT2F55E1VG")],
)
def test_without_the_vendors_tool_it_says_what_is_missing(monkeypatch, capsys, name, program, part):
    monkeypatch.setattr(boards.shutil, "which", lambda _: None)
    monkeypatch.setattr(boards.sys, "argv", ["boards.py", name])
    assert boards.main() == 1
    message = capsys.readouterr().err
    assert f"`{program}` is not on PATH" in message and part in message


def test_a_board_is_programmed_over_its_cable():
    found = boards.commands(boards.VIVADO, "program.tcl", "some.bit")
    device = "get_hw_devices"
    assert found[-1] == ["program_hw_devices", device]
    assert ["set_property", "PROGRAM.FILE", "some.bit", device] in found
