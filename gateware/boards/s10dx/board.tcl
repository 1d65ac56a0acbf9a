# SPDX-License-Identifier: Apache-2.0 OR MIT
# Stratix 10 DX development kit (DK-DEV-1SDX-P), edge connector x16 on a P-Tile. Part: corundum,
# 1ca0151, fpga/lib/pcie/example/S10DX_DK/fpga/fpga/Makefile, and ndk-fpga, d2c22dc,
# cards/intel/dk-dev-1sdx-p/src/Quartus.inc.tcl, which agree.
set board {
    name        s10dx
    family      {Stratix 10}
    part        1SD280PT2F55E1VG
    core        intel_pcie_ptile_ast
    link        3
    lanes       16
    width_bits  512
    clock_mhz   250
    payload     512
    device      0000
    subsystem   51d0
}
