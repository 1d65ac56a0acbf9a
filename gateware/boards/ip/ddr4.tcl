# SPDX-License-Identifier: Apache-2.0 OR MIT
# A channel of DDR4 with a port of 512 bits, for the memory that the board has (`dram` of its board.tcl).
# Settings: corundum, 1ca0151, fpga/mqnic/*/fpga_100g/ip/ddr4_0.tcl.
set memory_core crosslane_ddr4_[dict get $board name]
create_ip -name ddr4 -vendor xilinx.com -library ip -module_name $memory_core
set settings {
    CONFIG.C0.DDR4_AxiSelection true
    CONFIG.C0.DDR4_AxiDataWidth 512
    CONFIG.C0.DDR4_AxiIDWidth 8
    CONFIG.C0.DDR4_AxiArbitrationScheme RD_PRI_REG
    CONFIG.C0.DDR4_AUTO_AP_COL_A3 true
    CONFIG.C0.DDR4_Mem_Add_Map ROW_COLUMN_BANK_INTLV
}
dict for {setting value} [dict get $board dram] {
    lappend settings CONFIG.C0.DDR4_$setting $value
}
set_property -dict $settings [get_ips $memory_core]
