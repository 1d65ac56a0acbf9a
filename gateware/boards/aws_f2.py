# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds the card for AWS F2 by Amazon's HDK: a folder of a design as the HDK's scripts expect it,
made from its template and our sources, and the checkpoint that `aws ec2 create-fpga-image` takes.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from boards import AWS_F2 as NAME
from boards import FOLDER, GATEWARE, RESULTS, BoardError, identity_of

DESIGN = "cl_crosslane"
# Of the HDK's template: what every design has beside its sources.
TEMPLATE = Path("cl/examples/CL_TEMPLATE/build")
SETUP = "get github.com/aws/aws-fpga, branch f2, and source its hdk_setup.sh first"
SYNTHESIS = """\
# Synthesis of {design}, between what the HDK does before and after it.
source ${{HDK_SHELL_DIR}}/build/scripts/synth_cl_header.tcl
read_verilog -sv [lsort [glob ${{src_post_enc_dir}}/*.sv]]
foreach name {{cl_synth_user.xdc cl_timing_user.xdc}} {{
  read_xdc ${{constraints_dir}}/$name
  set_property PROCESSING_ORDER LATE [get_files $name]
}}
update_compile_order -fileset sources_1
synth_design -mode out_of_context -top ${{CL}} -part ${{DEVICE_TYPE}}
source ${{HDK_SHELL_DIR}}/build/scripts/synth_cl_footer.tcl
"""


def sources() -> list[Path]:
    """All files of the design: the engine's, and those of this folder."""
    own = [path for path in (FOLDER / NAME).iterdir() if path.suffix in (".sv", ".vh")]
    return [*GATEWARE.glob("rtl/**/*.sv"), *own]


def identity() -> str:
    """The identity of a build: the first digits of the SHA-256 of all that it is made from."""
    return identity_of([Path(__file__).resolve(), *sources()])


def prepare(hdk: Path, folder: Path) -> Path:
    """Lays out the design in an empty folder; returns the folder of its scripts."""
    template = hdk / TEMPLATE
    if not template.is_dir():
        raise BoardError(f"cannot build {NAME}: {template} is not there; {SETUP}")
    # The template's scripts are links into the HDK: these become files.
    shutil.copytree(template, folder / "build")
    scripts = folder / "build" / "scripts"
    for script in scripts.glob("synth_*.tcl"):
        script.unlink()
    (scripts / f"synth_{DESIGN}.tcl").write_text(SYNTHESIS.format(design=DESIGN))
    (folder / "design").mkdir()
    for path in sources():
        shutil.copy(path, folder / "design")
    return scripts


def build() -> Path:
    """Builds the checkpoint; returns the folder that it lies in."""
    hdk = os.environ.get("HDK_DIR")
    if hdk is None or "HDK_SHELL_DIR" not in os.environ:
        raise BoardError(f"cannot build {NAME}: HDK_DIR or HDK_SHELL_DIR is not set; {SETUP}")
    if shutil.which("vivado") is None:
        raise BoardError(f"cannot build {NAME}: `vivado` is not on PATH; {SETUP}")
    folder = RESULTS / f"{NAME}-{identity()}" / DESIGN
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scripts = prepare(Path(hdk), folder)
    command = [sys.executable, "aws_build_dcp_from_cl.py", "--cl", DESIGN]
    environment = {**os.environ, "CL_DIR": str(folder)}
    if subprocess.run(command, cwd=scripts, env=environment).returncode != 0:
        raise BoardError(f"cannot build {NAME}: see above, and {folder}/build/scripts")
    return folder / "build" / "checkpoints"


def main() -> int:
    """Builds it, or with --identity prints the identity of the build."""
    try:
        print(identity() if "--identity" in sys.argv[1:] else build())
    except BoardError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
