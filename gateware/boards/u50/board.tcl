# SPDX-License-Identifier: Apache-2.0 OR MIT
# Alveo U50: XCU50, edge connector x16. Part: verilog-pcie, 25156a9,
# example/Alveo/fpga/fpga_AU50/Makefile.
set board {
    name        u50
    part        xcu50-fsvh2104-2-e
    core        pcie4c_uscale_plus
    link        8.0_GT/s
    lanes       16
    width_bits  512
    clock_mhz   250
    payload     512
    device      903f
    subsystem   a050
    memory      hbm
    aperture    256
}
