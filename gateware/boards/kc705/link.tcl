# SPDX-License-Identifier: Apache-2.0 OR MIT
# KC705: the cage of SFP+, GTX X0Y10, the third of quad 117, with the 125 MHz of the board at that
# quad's first reference (Bedrock of BerkeleyLab, 69aa033, board_support/kc705/gtx_wrap.v: q2_clk0;
# litex-boards, 2f06d08, xilinx_kc705.py: sfp, sgmii_clock).
set link {
    core        gtwizard
    type        gtx
    channel     10
    refclk      REFCLK0_Q2
    refclk_mhz  125
}
