# SPDX-License-Identifier: Apache-2.0 OR MIT
# The UltraScale+ integrated block (PG213) for crosslane_board_us, by the settings in `board`.
#
# Names and encodings of properties are those of projects that others use:
# * verilog-pcie, 25156a9, example/Alveo/fpga/ip/pcie4_uscale_plus_0.tcl, pcie4c_uscale_plus_0.tcl.
# * blue-rdma, backend/ips/pcie/pcie.tcl: BARs of 32 bits, and the device ID of Gen3 x16.
# * PG213, "MSI-X Capabilities Tab": the table's size is the number of vectors less one.

# BAR 2 is an aperture onto board memory.
set aperture {}
if {[dict exists $board aperture]} {
    set aperture [list \
        CONFIG.pf0_bar2_enabled {true} \
        CONFIG.pf0_bar2_type {Memory} \
        CONFIG.pf0_bar2_64bit {true} \
        CONFIG.pf0_bar2_prefetchable {true} \
        CONFIG.pf0_bar2_scale {Megabytes} \
        CONFIG.pf0_bar2_size [dict get $board aperture] \
    ]
}

set_property -dict [list \
    CONFIG.mode_selection {Advanced} \
    CONFIG.PL_LINK_CAP_MAX_LINK_SPEED [dict get $board link] \
    CONFIG.PL_LINK_CAP_MAX_LINK_WIDTH X[dict get $board lanes] \
    CONFIG.AXISTEN_IF_EXT_512_CQ_STRADDLE {false} \
    CONFIG.AXISTEN_IF_EXT_512_RQ_STRADDLE {false} \
    CONFIG.AXISTEN_IF_EXT_512_RC_4TLP_STRADDLE {true} \
    CONFIG.axisten_if_enable_client_tag {true} \
    CONFIG.axisten_if_width [dict get $board width_bits]_bit \
    CONFIG.axisten_freq [dict get $board clock_mhz] \
    CONFIG.extended_tag_field {true} \
    CONFIG.pf0_dev_cap_max_payload [dict get $board payload]_bytes \
    CONFIG.vendor_id {10ee} \
    CONFIG.PF0_DEVICE_ID [dict get $board device] \
    CONFIG.PF0_REVISION_ID {00} \
    CONFIG.PF0_SUBSYSTEM_VENDOR_ID {10ee} \
    CONFIG.PF0_SUBSYSTEM_ID [dict get $board subsystem] \
    CONFIG.PF0_Use_Class_Code_Lookup_Assistant {false} \
    CONFIG.PF0_CLASS_CODE {058000} \
    CONFIG.pf0_bar0_64bit {false} \
    CONFIG.pf0_bar0_prefetchable {false} \
    CONFIG.pf0_bar0_scale {Kilobytes} \
    CONFIG.pf0_bar0_size {64} \
    CONFIG.pf0_bar1_enabled {true} \
    CONFIG.pf0_bar1_type {Memory} \
    CONFIG.pf0_bar1_scale {Megabytes} \
    CONFIG.pf0_bar1_size {4} \
    CONFIG.pf0_msi_enabled {false} \
    CONFIG.pf0_msix_enabled {true} \
    CONFIG.MSI_X_OPTIONS {MSI-X_External} \
    CONFIG.PF0_MSIX_CAP_TABLE_SIZE {007} \
    CONFIG.PF0_MSIX_CAP_TABLE_BIR {BAR_0} \
    CONFIG.PF0_MSIX_CAP_TABLE_OFFSET {00001000} \
    CONFIG.PF0_MSIX_CAP_PBA_BIR {BAR_0} \
    CONFIG.PF0_MSIX_CAP_PBA_OFFSET {00001800} \
    CONFIG.pf0_dsn_enabled {true} \
    {*}$aperture \
] [get_ips crosslane_pcie]
