# SPDX-License-Identifier: Apache-2.0 OR MIT
# Alveo U250: the cage of QSFP28 0, quad 231 (verilog-ethernet, c9a023c,
# example/AU250/fpga_10g/ip/gtwizard_ultrascale_0.tcl), with the board's Si570 at its first
# reference (fpga.xdc there), which makes 156.25 MHz unless it was set to another.
set link {
    core        gtwizard_ultrascale
    channels    {X1Y44 X1Y45 X1Y46 X1Y47}
    refclk      clk0
}
