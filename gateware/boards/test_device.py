# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`crosslane device test` on the top of a board in simulation: the steps that a board must pass, by
the program that its owner runs, over vfio-user.
"""

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

import boards
import cocotb
import pytest
from board_hosts import host
from board_model import BUILD_ID, simulate_board
from cocotb.triggers import ClockCycles
from simulate import ALL, simulate
from vfio_user import Server

# Steps of a card behind an IOMMU, and those that need board memory.
STEPS, MEMORY_STEPS = 20, 3
# Bytes of the longest transfer of the steps: no longer ones than all cards get.
LARGEST = "4K"
# A step that takes longer has failed, s: a hundred times what it takes.
TIMEOUT = "300"
# Clocks between two looks at the socket, and after which a card that moves nothing is idle.
CLOCKS, IDLE_CLOCKS = 16, 400
# Waits for the program while the card is idle, s.
PATIENCE = 0.002


async def serve(machine, server: Server, process: subprocess.Popen) -> None:
    """Runs the card and answers the program until that ends. The clock of a card that has nothing
    to do runs slower, to leave the processor to the program."""
    idle, moved = 0, 0
    while process.poll() is None:
        if server.waits(PATIENCE if idle > IDLE_CLOCKS else 0):
            await server.step()
            idle = 0
            continue
        await ClockCycles(machine.dut.clk, CLOCKS)
        now = (machine.moved, len(machine.reads))
        idle, moved = (idle + CLOCKS, moved) if now == moved else (0, now)


def check_card(cards: list[dict], board: boards.Board) -> None:
    """A report says which board, which bitstream and which link it is about."""
    (card,) = cards
    core, engine = board.core, boards.parameters(board.name)
    assert card["board"] == board.name
    assert card["serial_number"] == f"{BUILD_ID:016x}"
    assert card["identity"] == f"{core.vendor:04x}:{core.device:04x}"
    assert card["subsystem"] == "{:04x}:{:04x}".format(*core.subsystem)
    assert card["link"] == card["link_capability"] == f"Gen{core.generation} x{core.lanes}"
    assert card["engine"]["tags"] == engine["TAGS"]
    assert card["engine"]["max_write_bytes"] == core.max_payload_bytes


@cocotb.test()
async def a_board_passes_all_steps(dut):
    machine = host(dut)
    await machine.start()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        server = Server(path, machine)
        machine.interrupt = server.interrupt
        command = [os.environ["CROSSLANE_PROGRAM"], "device", "test", f"vfio-user:{path}"]
        command += ["--json", "--largest", LARGEST, "--timeout", TIMEOUT]
        with (Path(folder) / "report").open("w+") as report:
            process = subprocess.Popen(command, stdout=report)
            await serve(machine, server, process)
            report.seek(0)
            text = report.read()
    assert process.returncode == 0, text
    found = json.loads(text)
    failed = [step for step in found["steps"] if step["error"]]
    assert not failed and found["failed"] == 0
    if machine.board:
        check_card(found["cards"], machine.board)
    names = [step["what"] for step in found["steps"]]
    has_memory = machine.board and boards.parameters(machine.board.name).get("MEMORY")
    assert len(names) == STEPS + (MEMORY_STEPS if has_memory else 0), names
    assert names[-1] == "reset while it writes"


@pytest.mark.parametrize("board", boards.NAMES if ALL else ["kc705"])
def test_device(board):
    simulate_board(__file__, board)


def test_device_behind_a_shell():
    program = Path(os.environ["CROSSLANE_PROGRAM"])
    environment = {
        "BOARD": boards.AWS_F2,
        "PROGRAM": hashlib.sha256(program.read_bytes()).hexdigest(),
    }
    beside = (boards.FOLDER / boards.AWS_F2,)
    simulate(__file__, "crosslane_aws_f2", environment=environment, beside=beside)
