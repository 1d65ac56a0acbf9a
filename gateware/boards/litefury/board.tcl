# SPDX-License-Identifier: Apache-2.0 OR MIT
# LiteFury: XC7A100T on an M.2 card, x4. Part: the maker's projects (RHSResearchLLC/
# NiteFury-and-LiteFury, 6d1b851, Sample-Projects/Project-0/FPGA/LiteFury/project/project.xpr).
set board {
    name        litefury
    part        xc7a100tfgg484-2L
    core        pcie_7x
    link        5.0_GT/s
    lanes       4
    width_bits  128
    clock_mhz   125
    payload     512
    device      7024
    subsystem   f100
}
