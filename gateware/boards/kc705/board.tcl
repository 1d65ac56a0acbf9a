# SPDX-License-Identifier: Apache-2.0 OR MIT
# KC705: XC7K325T, edge connector x8. A core of Gen2 x8 has 128 bits at 250 MHz and a payload of at
# most 256 B: settings of LitePCIe's core for this link (litepcie/phy/s7pciephy.py, 0047f4b).
set board {
    name        kc705
    part        xc7k325tffg900-2
    core        pcie_7x
    link        5.0_GT/s
    lanes       8
    width_bits  128
    clock_mhz   250
    payload     256
    device      7028
    subsystem   c705
}
