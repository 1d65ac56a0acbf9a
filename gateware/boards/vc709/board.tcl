# SPDX-License-Identifier: Apache-2.0 OR MIT
# VC709: XC7VX690T, edge connector x8. Part: taxi, 2f2fe72,
# src/eth/example/VC709/fpga/syn/pcie.xdc. The connector's lanes 0 to 7 are transceivers X1Y23 to X1Y16
# (there), which are those of block X0Y1 (FPGA_NTP_SERVER of Netnod, 3103424, for this board: the
# constraints of its core, ..._pcie3_ip-PCIE_X0Y1.xdc).
set board {
    name        vc709
    part        xc7vx690tffg1761-2
    core        pcie3_7x
    block       X0Y1
    link        8.0_GT/s
    lanes       8
    width_bits  256
    clock_mhz   250
    payload     512
    device      7038
    subsystem   c709
}
