# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LiteX: the SoC of simulate_soc.py moves data, a project for Vivado is complete, and PHYs that the
engine does not fit are refused."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "tb")]
import simulate  # noqa: E402
from crosslane_litex import DRIVEN, READ, CrosslaneEngine, core_settings, sources  # noqa: E402
from litepcie.phy.s7pciephy import S7PCIEPHY  # noqa: E402
from litex.build.generic_platform import IOStandard, Pins, Subsignal  # noqa: E402
from litex.build.xilinx import XilinxPlatform  # noqa: E402
from litex.soc.integration.builder import Builder  # noqa: E402
from model import VERILATOR_ROOT, cache  # noqa: E402
from model import tools as model_tools  # noqa: E402

SNIPPET = re.search(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)[1]


@pytest.mark.parametrize("width", simulate.widths(64)[:2])
def test_data_go_through_a_circuit_and_back(width, tmp_path):
    """Through the simulation that LiteX's builder makes."""
    bench = sorted({*FOLDER.glob("*.py"), *simulate.bench_files(FOLDER / "simulate_soc.py")})
    bench += [FOLDER.parent / "boards" / "ip" / "pcie_7x.tcl", FOLDER.parent / "crosslane.core"]
    wheels = re.findall(r"^([\w-]+)==", (FOLDER / "requirements.txt").read_text(), re.M)
    versions = [f"{name} {metadata.version(name)}" for name in wheels]
    parts = [model_tools(), simulate.tools(), *versions, str(width)]
    key = cache.key(*parts, *bench, *sources(), *simulate.DATA)
    if simulate.has_passed(key):
        return
    begun_s = simulate.processor_s()
    path = f"{VERILATOR_ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-B", "simulate_soc.py", str(tmp_path), "--width", str(width)],
        cwd=FOLDER,
        env={**os.environ, "VERILATOR_ROOT": str(VERILATOR_ROOT), "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    simulate.SPENT.build_s += simulate.processor_s() - begun_s
    shown = [line for line in done.stdout.splitlines() if not line.startswith(("%Warning", " "))]
    assert done.returncode == 0, "\n".join(shown[-12:])
    cache.remember(key, f"gateware/litex {width}")


def pins(count: int) -> Pins:
    """Pins without places."""
    return Pins(" ".join(["X"] * count))


def test_the_readmes_soc_is_a_project_for_vivado(tmp_path):
    """With the engine's files in their order, the core's settings, and no port left as it was."""
    lanes = [Subsignal(name, pins(4)) for name in ("rx_p", "rx_n", "tx_p", "tx_n")]
    clock = [Subsignal(name, pins(1)) for name in ("clk_p", "clk_n", "rst_n")]
    io = [("clk200", 0, pins(1), IOStandard("LVCMOS33")), ("pcie_x4", 0, *clock, *lanes)]
    names: dict = {}
    exec(SNIPPET, names)
    soc = names["InvertingSoC"](XilinxPlatform("xc7a100tfgg484-2", io, toolchain="vivado"))
    builder = Builder(soc, output_dir=str(tmp_path), compile_software=False)
    builder.build(run=False, build_name="soc")
    script = (tmp_path / "gateware" / "soc.tcl").read_text()
    read = re.findall(r"^read_verilog .*?\{?([^\s{}]+\.sv)\}?$", script, re.M)
    assert read == [str(path) for path in sources()]
    assert "constraints/scoped.tcl" in script
    settings = dict(re.findall(r"CONFIG\.(\w+) \{(.*?)\}", script))
    assert settings.items() >= core_settings(0, 524288, 8).items()
    assert (settings["Bar0_Scale"], settings["Bar0_Size"]) == ("Kilobytes", "64")
    text = (tmp_path / "gateware" / "soc.v").read_text()
    block, engine = (
        dict(re.findall(r"\.(\w+)\s*\((.*?)\)", re.search(rf"^{top} .*?;$", text, re.M | re.S)[0]))
        for top in ("pcie_s7", "crosslane_engine_s7")
    )
    for name in [*READ, *DRIVEN]:
        assert block[name] == engine[name], name


def test_receive_queues_are_bar_1():
    settings = core_settings(8, 524288, 8)
    assert (settings["Bar1_Scale"], settings["Bar1_Size"]) == ("Megabytes", "4")
    settings = core_settings(2, 65536, 16)
    assert (settings["Bar1_Scale"], settings["Bar1_Size"]) == ("Kilobytes", "128")
    assert settings["MSIx_Table_Size"] == "10"


def test_other_phys_and_interrupts_are_refused():
    other = SimpleNamespace(pcie_phy_params={"i_s_axis_rq_tvalid": 0}, msi_type="msi-x")
    with pytest.raises(ValueError, match="only S7PCIEPHY"):
        CrosslaneEngine(other)
    lanes = [Subsignal(name, pins(1)) for name in ("rx_p", "rx_n", "tx_p", "tx_n")]
    clock = [Subsignal(name, pins(1)) for name in ("clk_p", "clk_n")]
    platform = XilinxPlatform("xc7a35t", [("pcie_x1", 0, *clock, *lanes)], toolchain="vivado")
    phy = S7PCIEPHY(platform, platform.request("pcie_x1"), cd="pcie")
    with pytest.raises(ValueError, match="msi-x"):
        CrosslaneEngine(phy)
