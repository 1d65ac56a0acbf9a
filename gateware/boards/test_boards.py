# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Projects of boards without the vendor's tool: what build.tcl would have it do, and whether core,
pins, SystemVerilog and register map agree.
"""

import hashlib
import json
import re
import stat
from pathlib import Path

import boards
import pytest
from model import GATEWARE
from register_map import MSIX_TABLE
from vendor_core import ports

NAMES = pytest.mark.parametrize("name", boards.NAMES)
# Of the register map: engine.rdl.
MSIX_PENDING = 0x1800
REGISTER_BYTES = 1 << 16
# Completions that the core's receive buffer takes, and their data: the engine must not have more
# outstanding, since it promises infinite credit (PCIe 6.x 2.6.1). 7-series: c_fc_cplh and c_fc_cpld
# of cores with a payload of 256 B, less than with 512 B (docs/boards.md); UltraScale+: PG213,
# "Completion Space"; pcie3_7x: the same of PG156, and corundum's limit of data (docs/boards.md).
BUFFERS = {"pcie_7x": (72, 370 * 16), "pcie3_7x": (64, 960 * 16)}
BUFFERS |= dict.fromkeys(boards.PCIE4, (128, 32768))
BUILD = "0123456789abcdef"


def run(name: str, folder: str = "out") -> list[list[str]]:
    """The commands of a board's build."""
    return boards.commands("build.tcl", name, BUILD, folder)


def pins(name: str) -> dict[str, str]:
    """The pin of each port, by the board's constraints."""
    found = {}
    for words in run(name):
        port = re.fullmatch(r"get_ports \{?([^}]*)\}?", words[-1])
        if words[0] != "set_property" or port is None:
            continue
        settings = words[2].split() if words[1] == "-dict" else words[1:3]
        pairs = dict(zip(settings[::2], settings[1::2], strict=True))
        if pin := pairs.get("PACKAGE_PIN"):
            assert port[1] not in found, f"{port[1]} has two pins"
            found[port[1]] = pin
    return found


@NAMES
def test_a_build_makes_a_core_and_a_bitstream(name):
    found = run(name, "results")
    order = [words[0] for words in found]
    steps = ["create_project", "create_ip", "add_files", "launch_runs", "report_timing_summary"]
    assert sorted(steps, key=order.index) == steps
    assert ["set_property", "generic", f"BUILD_ID=64'h{BUILD}", "current_fileset"] in found
    bitstream = f"results/crosslane-{name}-{BUILD}.bit"
    assert found[-1] == ["file", "copy", "-force", f"/runs/impl_1/crosslane_{name}.bit", bitstream]


@NAMES
def test_a_build_has_every_file_of_its_top(name):
    added = {
        Path(path).resolve()
        for words in run(name)
        if words[0] == "add_files"
        for path in words[-1].split()
    }
    tops = {path for folder in boards.folders(name) for path in folder.glob("*.sv")}
    assert added == tops | set(GATEWARE.glob("rtl/**/*.sv")) | {boards.FOLDER / name / "pins.xdc"}


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
    assert core.bars == {0: REGISTER_BYTES, 1: engine["LANES"] * engine["LANE_WINDOW"]}
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
    known = re.findall(r"\(0x([0-9a-f]{4}), \"(\w+)\"\)", text)
    ours = {name: boards.board(name).core for name in boards.NAMES}
    assert dict((name, int(digits, 16)) for digits, name in known) == {
        name: core.subsystem[1] for name, core in ours.items()
    }
    assert {(core.vendor, core.subsystem[0]) for core in ours.values()} == {(0x10EE, 0x10EE)}


def test_a_board_that_does_not_exist_is_refused():
    with pytest.raises(boards.BoardError, match=r"no board 'ac701'; there are .*kc705"):
        boards.board("ac701")


def test_an_error_of_tcl_is_shown(tmp_path):
    script = tmp_path / "wrong.tcl"
    script.write_text("set_property TOP x [current_design]\nplace_desing\n")
    with pytest.raises(boards.BoardError, match='invalid command name "place_desing"'):
        boards.commands(str(script))


def fake(folder: Path, **values: str) -> None:
    """A `vivado` that runs the script in tclsh; its objects have these properties."""
    given = "".join(f"dict set properties {key} {{{value}}}\n" for key, value in values.items())
    script = folder / "fake.tcl"
    script.write_text(given)
    program = folder / "vivado"
    program.write_text(
        "#!/bin/sh\n"
        "# vivado -mode batch -source SCRIPT -tclargs BOARD BUILD FOLDER\n"
        f"export FAKE={script}\n"
        f'tclsh {boards.FOLDER}/dry_run.tcl "$4" "$6" "$7" "$8" > commands || exit 1\n'
        'echo bits > "$8/crosslane-$6-$7.bit"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_a_build_describes_its_bitstream(tmp_path, monkeypatch):
    """With a program in the vendor's place."""
    fake(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(boards, "RESULTS", tmp_path / "results")
    described = boards.build("litefury")
    found = json.loads(described.read_text())
    bitstream = described.parent / found["bitstream"]
    assert bitstream.name == f"crosslane-litefury-{boards.identity('litefury')}.bit"
    assert found["sha256"] == hashlib.sha256(bitstream.read_bytes()).hexdigest()
    assert (found["identity"], found["subsystem"]) == ("10ee:7024", "10ee:f100")
    assert (found["link"], found["build"]) == ("Gen2 x4", boards.identity("litefury"))


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"SLACK": "-0.31"}, "timing is not met: worst slack -0.31 ns"),
        ({"PROGRESS": "42%", "STATUS": "synth_design ERROR"}, "synth_1 has failed: synth_design"),
    ],
)
def test_a_build_that_fails_leaves_no_bitstream(tmp_path, monkeypatch, capfd, properties, error):
    fake(tmp_path, **properties)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(boards, "RESULTS", tmp_path / "results")
    with pytest.raises(boards.BoardError, match="cannot build litefury"):
        boards.build("litefury")
    assert error in capfd.readouterr().err
    assert not list((tmp_path / "results").glob("**/*.bit"))


def test_without_the_vendors_tool_it_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(boards.shutil, "which", lambda _: None)
    monkeypatch.setattr(boards.sys, "argv", ["boards.py", "kc705"])
    assert boards.main() == 1
    message = capsys.readouterr().err
    assert "`vivado` is not on PATH" in message and "xc7k325tffg900-2" in message


def test_a_board_is_programmed_over_its_cable():
    found = boards.commands("program.tcl", "some.bit")
    device = "get_hw_devices"
    assert found[-1] == ["program_hw_devices", device]
    assert ["set_property", "PROGRAM.FILE", "some.bit", device] in found
