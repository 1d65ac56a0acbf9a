# SPDX-License-Identifier: Apache-2.0 OR MIT
# VCU118: the cage of QSFP28 1, quad 231, with 156.25 MHz at its first reference (xfcp, 2416986,
# example/VCU118/fpga_gty/ip/gtwizard_ultrascale_0.tcl).
set link {
    core        gtwizard_ultrascale
    channels    {X1Y48 X1Y49 X1Y50 X1Y51}
    refclk      clk0
}
