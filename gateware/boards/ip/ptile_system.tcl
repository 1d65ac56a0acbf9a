# SPDX-License-Identifier: Apache-2.0 OR MIT
# The P-Tile's core (683059, P-Tile Avalon Streaming) for crosslane_board_ptile, by the settings in
# `board`, for qsys-script.
#
# Names and encodings of parameters are those of projects that others use:
# * corundum, 1ca0151, fpga/lib/pcie/example/S10DX_DK/fpga/ip/pcie.tcl. A table of pending bits that
#   its model has at 0x8000 is 4096 there: offsets of MSI-X are in units of 8 B.
# * ndk-fpga, d2c22dc, cards/intel/dk-dev-1sdx-p/src/ip/ptile_pcie_1x16.ip: the serial number, and
#   1172:0000 as what the core has by default.
# * 683059, "Base Address Registers" and "MSI-X Capabilities": the table's size is the number of
#   vectors less one.
package require -exact qsys 21.3

create_system crosslane_pcie
set_project_property DEVICE $board(part)
set_project_property DEVICE_FAMILY $board(family)
set_project_property HIDE_FROM_IP_CATALOG {true}
set_use_testbench_naming_pattern 0 {}
add_instance ptile intel_pcie_ptile_ast

set topology "Gen$board(link)x$board(lanes)"
set settings [list \
    top_topology_hwtcl "$topology, Interface - $board(width_bits) bit" \
    virtual_rp_ep_mode_hwtcl {Native Endpoint} \
    virtual_tlp_bypass_en_user_hwtcl 0 \
    g3_pld_clkfreq_user_hwtcl ${board(clock_mhz)}MHz \
    core16_virtual_maxpayload_size_hwtcl $board(payload) \
    core16_cap_ext_tag_supp_user_hwtcl 1 \
    core16_total_pf_count_hwtcl 1 \
    core16_pf0_pci_type0_vendor_id_hwtcl [expr 0x1172] \
    core16_pf0_pci_type0_device_id_hwtcl [expr 0x$board(device)] \
    core16_pf0_revision_id_hwtcl 0 \
    core16_pf0_class_code_hwtcl [expr 0x058000] \
    core16_pf0_subsys_vendor_id_hwtcl [expr 0x1172] \
    core16_pf0_subsys_dev_id_hwtcl [expr 0x$board(subsystem)] \
    core16_pf0_bar0_type_user_hwtcl {32-bit non-prefetchable memory} \
    core16_pf0_bar0_address_width_user_hwtcl 16 \
    core16_pf0_bar1_type_user_hwtcl {32-bit non-prefetchable memory} \
    core16_pf0_bar1_address_width_user_hwtcl 22 \
    core16_virtual_pf0_msi_enable_user_hwtcl 0 \
    core16_virtual_pf0_msix_enable_user_hwtcl 1 \
    core16_pf0_pci_msix_table_size_hwtcl 7 \
    core16_pf0_pci_msix_bir_hwtcl 0 \
    core16_pf0_pci_msix_table_offset_hwtcl [expr 0x1000 / 8] \
    core16_pf0_pci_msix_pba_hwtcl 0 \
    core16_pf0_pci_msix_pba_offset_hwtcl [expr 0x1800 / 8] \
    core16_virtual_sn_cap_enable_hwtcl 1 \
    core16_sn_ser_num_reg_1_dw_hwtcl $board(serial_1) \
    core16_sn_ser_num_reg_2_dw_hwtcl $board(serial_2) \
]
# Interfaces that crosslane_board_ptile does not have.
foreach name {
    enable_10bit_tag_support_intf enable_apps_pm_xmt_turnoff enable_apps_ready_entr_l23
    enable_app_xfer_pending enable_cii enable_cpl_timeout enable_error_intf enable_hotplug
    enable_legacy_int enable_legacy_interrupt enable_multi_func enable_pld_warm_rst_rdy
    enable_power_mgnt_intf enable_prs_event enable_rx_buffer_limit_ports enable_sriov
    enable_test_intf enable_test_out enable_virtio flr_cap_user hip_reconfig_user use_ast_parity
} {
    lappend settings core16_${name}_hwtcl 0
}
foreach {name value} $settings {
    set_instance_parameter_value ptile $name $value
}

foreach interface {
    p0_rx_st p0_rx_st_misc p0_tx_st p0_tx_st_misc p0_tx_cred p0_config_tl p0_reset_status_n
    p0_pin_perst p0_hip_status hip_serial coreclkout_hip refclk0 refclk1 pin_perst ninit_done
} {
    set_interface_property $interface EXPORT_OF ptile.$interface
}
set_module_property FILE {crosslane_pcie.ip}
set_module_property GENERATION_ID {0x00000000}
set_module_property NAME {crosslane_pcie}
sync_sysinfo_parameters
save_system crosslane_pcie
