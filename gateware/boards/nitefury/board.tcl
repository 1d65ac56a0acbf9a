# SPDX-License-Identifier: Apache-2.0 OR MIT
# NiteFury II: the LiteFury's board with an XC7A200T. Part: the maker's projects (RHSResearchLLC/
# NiteFury-and-LiteFury, 6d1b851, Sample-Projects/Project-0/FPGA/Nitefury-II/project/project.xpr).
set board {
    name        nitefury
    part        xc7a200tfbg484-2
    core        pcie_7x
    link        5.0_GT/s
    lanes       4
    width_bits  128
    clock_mhz   125
    payload     512
    device      7024
    subsystem   f200
}
