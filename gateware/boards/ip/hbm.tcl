# SPDX-License-Identifier: Apache-2.0 OR MIT
# Both stacks of HBM, 4 GiB each, with a port of 256 bits each at 300 MHz, that reaches all of its stack
# through the core's switch. Names of settings: corundum, 1ca0151, fpga/mqnic/Alveo/fpga_100g/ip/hbm_0.tcl,
# and block designs of Vivado 2020 to 2023 that set the others.
create_ip -name hbm -vendor xilinx.com -library ip -module_name crosslane_hbm
set settings {
    CONFIG.USER_HBM_DENSITY 8GB
    CONFIG.USER_HBM_STACK 2
    CONFIG.USER_AXI_CLK_FREQ 300
    CONFIG.USER_AXI_CLK1_FREQ 300
    CONFIG.USER_AXI_INPUT_CLK_FREQ 300
    CONFIG.USER_AXI_INPUT_CLK1_FREQ 300
    CONFIG.USER_CLK_SEL_LIST0 AXI_00_ACLK
    CONFIG.USER_CLK_SEL_LIST1 AXI_16_ACLK
}
for {set port 0} {$port < 32} {incr port} {
    set is_used [expr {$port in {0 16} ? "true" : "false"}]
    lappend settings CONFIG.USER_SAXI_[format %02d $port] $is_used
}
set_property -dict $settings [get_ips crosslane_hbm]
