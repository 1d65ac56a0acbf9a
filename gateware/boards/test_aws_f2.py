# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_aws_f2 behind the ports of the shell, and a dry run of its build. `crosslane device
test` is in test_device.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import aws_f2
import boards
import cocotb
import pytest
from board_f2_bench import VECTORS, BoardHost, Padded
from cocotb.triggers import with_timeout
from cocotbext.axi import AxiBus, AxiMaster
from engine_host import (
    INTERRUPT,
    STATUS,
    STREAM_H2C,
    Channel,
    Descriptor,
    check_identity,
    opened,
    route,
    there_and_back,
)
from simulate import simulate
from tlp_stream import until


async def card_of(dut) -> BoardHost:
    """A card with memory, and bus mastering."""
    card = BoardHost(dut)
    await card.start()
    card.give_memory(0x10_0000_0000, 1 << 20)
    card.config.write(4, b"\x06\x00")
    return card


@cocotb.test()
async def data_and_interrupts_come_through_the_shell(dut):
    card = await card_of(dut)
    await check_identity(card)
    await route(card, c2h=STREAM_H2C)
    reader, writer = await opened(card, "h2c[0]", "c2h[0]")
    await there_and_back(card, card.seed, reader, writer, 6000)
    found = []
    card.interrupt = found.append
    await card.set_vectors(VECTORS)
    await route(card)
    channel = Channel(card, "c2h[0]")
    await channel.open(interrupt_enable=1)
    await channel.set("vector", VECTORS - 1)
    await channel.post([Descriptor(card.allocate(4096, 4096), 4000, STATUS | INTERRUPT)])
    await until(card.dut, lambda: found, 2000)
    assert found == [VECTORS - 1]


@cocotb.test()
async def what_leads_nowhere_is_answered(dut):
    """The shell stops for good if an access of BAR 4 takes longer than 8 us."""
    card = await card_of(dut)
    absent = {"awaddr": 64, "awlen": 8, "awsize": 3, "awburst": 2, "wdata": 512, "wstrb": 64}
    absent |= {"araddr": 64, "arsize": 3, "arburst": 2}
    ports = Padded(card.dut, {f"dma_pcis_{name}": bits for name, bits in absent.items()})
    bus = AxiBus.from_prefix(ports, "dma_pcis")
    master = AxiMaster(bus, card.dut.clk, card.dut.rst)
    for address, count in ((0, 4), (0x1234_5678_9A, 300), (1 << 36, 4096)):
        await with_timeout(master.write(address, bytes(count)), 1000, "ns")
        found = await with_timeout(master.read(address, count), 1000, "ns")
        assert found.data == bytes(count)


def test_aws_f2():
    simulate(__file__, "crosslane_aws_f2", beside=(boards.FOLDER / "aws_f2",))


def hdk_of(folder: Path, ends_with: int) -> Path:
    """An HDK whose template has a build script that tells what it was given."""
    hdk = folder / "hdk"
    scripts = hdk / aws_f2.TEMPLATE / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "synth_CL_TEMPLATE.tcl").write_text("")
    (hdk / aws_f2.TEMPLATE / "constraints").mkdir()
    (scripts / "aws_build_dcp_from_cl.py").write_text(
        "import os, pathlib, sys\n"
        "pathlib.Path(os.environ['CL_DIR'], 'told').write_text(' '.join(sys.argv[1:]))\n"
        f"sys.exit({ends_with})\n"
    )
    (folder / "vivado").write_text("#!/bin/sh\n")
    (folder / "vivado").chmod(0o755)
    return hdk


def test_a_build_has_the_designs_sources(tmp_path, monkeypatch):
    """By the HDK's own scripts, in a folder as they expect it."""
    monkeypatch.setattr(aws_f2, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("HDK_DIR", str(hdk_of(tmp_path, 0)))
    monkeypatch.setenv("HDK_SHELL_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    folder = aws_f2.build().parent.parent
    assert (folder / "told").read_text() == "--cl cl_crosslane"
    names = {path.name for path in (folder / "design").iterdir()}
    assert names >= {"cl_crosslane.sv", "cl_id_defines.vh", "crosslane_aws_f2.sv"}
    assert names >= {"crosslane_card_f2.sv", "crosslane_pkg.sv"} and "cl_ports.vh" not in names
    scripts = [path.name for path in (folder / "build" / "scripts").glob("synth_*")]
    assert scripts == ["synth_cl_crosslane.tcl"]


def test_make_board_knows_it():
    program = [sys.executable, "-B", str(boards.FOLDER / "boards.py"), boards.AWS_F2]
    lacking = {name: text for name, text in os.environ.items() if name != "HDK_DIR"}
    done = subprocess.run(program, env=lacking, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("cannot build aws_f2: HDK_DIR")
    done = subprocess.run([*program, "--identity"], capture_output=True, text=True, check=True)
    assert done.stdout == aws_f2.identity() + "\n"


def test_what_a_build_lacks_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(aws_f2, "RESULTS", tmp_path / "results")
    monkeypatch.delenv("HDK_DIR", raising=False)
    with pytest.raises(boards.BoardError, match="HDK_DIR or HDK_SHELL_DIR is not set"):
        aws_f2.build()
    monkeypatch.setenv("HDK_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HDK_SHELL_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(boards.BoardError, match="`vivado` is not on PATH"):
        aws_f2.build()
    hdk = hdk_of(tmp_path, 1)
    with pytest.raises(boards.BoardError, match=r"nowhere/.* is not there"):
        aws_f2.build()
    monkeypatch.setenv("HDK_DIR", str(hdk))
    with pytest.raises(boards.BoardError, match="see above"):
        aws_f2.build()
