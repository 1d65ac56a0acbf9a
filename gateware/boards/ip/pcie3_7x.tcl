# SPDX-License-Identifier: Apache-2.0 OR MIT
# The Gen3 block of Virtex-7 (pcie3_7x, PG023) for crosslane_board_v7, by the settings in `board`.
#
# Names and encodings of properties are those of cores that others have generated and use:
# * corundum, fpga/mqnic/NetFPGA_SUME/fpga/ip: pcie3_7x_0.xci (105a834) lists all properties;
#   pcie3_7x_0.tcl (1ca0151) has MSI-X.
# * connectal, scripts/connectal-synth-pcie.tcl, of a VC709 too: optional ports, serial number.
# axisten_if_enable_client_tag means the opposite of its name: false becomes the block's attribute
# AXISTEN_IF_ENABLE_CLIENT_TAG TRUE (that .xci), and PG156 says the same of UltraScale ("Tag
# Management for Non-Posted Transactions"). The card chooses its tags.

create_ip -name pcie3_7x -vendor xilinx.com -library ip -module_name crosslane_pcie

set_property -dict [list \
    CONFIG.mode_selection {Advanced} \
    CONFIG.pcie_blk_locn [dict get $board block] \
    CONFIG.PL_LINK_CAP_MAX_LINK_SPEED [dict get $board link] \
    CONFIG.PL_LINK_CAP_MAX_LINK_WIDTH X[dict get $board lanes] \
    CONFIG.AXISTEN_IF_RC_STRADDLE {true} \
    CONFIG.axisten_if_enable_client_tag {false} \
    CONFIG.axisten_if_width [dict get $board width_bits]_bit \
    CONFIG.axisten_freq [dict get $board clock_mhz] \
    CONFIG.extended_tag_field {true} \
    CONFIG.pf0_dev_cap_max_payload [dict get $board payload]_bytes \
    CONFIG.aspm_support {No_ASPM} \
    CONFIG.vendor_id {10ee} \
    CONFIG.PF0_DEVICE_ID [dict get $board device] \
    CONFIG.PF0_REVISION_ID {00} \
    CONFIG.PF0_SUBSYSTEM_VENDOR_ID {10ee} \
    CONFIG.PF0_SUBSYSTEM_ID [dict get $board subsystem] \
    CONFIG.PF0_Use_Class_Code_Lookup_Assistant {false} \
    CONFIG.pf0_class_code_base {05} \
    CONFIG.pf0_class_code_sub {80} \
    CONFIG.pf0_class_code_interface {00} \
    CONFIG.pf0_bar0_64bit {false} \
    CONFIG.pf0_bar0_prefetchable {false} \
    CONFIG.pf0_bar0_scale {Kilobytes} \
    CONFIG.pf0_bar0_size {64} \
    CONFIG.pf0_bar1_enabled {true} \
    CONFIG.pf0_bar1_type {Memory} \
    CONFIG.pf0_bar1_scale {Megabytes} \
    CONFIG.pf0_bar1_size {4} \
    CONFIG.PF0_INTERRUPT_PIN {NONE} \
    CONFIG.pf0_msi_enabled {false} \
    CONFIG.pf0_msix_enabled {true} \
    CONFIG.PF0_MSIX_CAP_TABLE_SIZE {007} \
    CONFIG.PF0_MSIX_CAP_TABLE_BIR {BAR_0} \
    CONFIG.PF0_MSIX_CAP_TABLE_OFFSET {00001000} \
    CONFIG.PF0_MSIX_CAP_PBA_BIR {BAR_0} \
    CONFIG.PF0_MSIX_CAP_PBA_OFFSET {00001800} \
    CONFIG.pf0_dsn_enabled {true} \
    CONFIG.cfg_mgmt_if {true} \
    CONFIG.cfg_ctl_if {true} \
    CONFIG.cfg_status_if {true} \
    CONFIG.cfg_fc_if {true} \
    CONFIG.cfg_ext_if {false} \
    CONFIG.cfg_tx_msg_if {false} \
    CONFIG.rcv_msg_if {false} \
    CONFIG.tx_fc_if {false} \
    CONFIG.per_func_status_if {false} \
    CONFIG.en_ext_clk {false} \
    CONFIG.shared_logic_in_core {false} \
] [get_ips crosslane_pcie]
