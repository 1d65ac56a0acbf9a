# SPDX-License-Identifier: Apache-2.0 OR MIT
# The 7-series integrated block (pcie_7x, PG054) for crosslane_board_s7, by the settings in `board`.
#
# Names and encodings of properties are those of cores that others have generated and use:
# * pcileech-fpga, c538c41, CaptainDMA/100t484-1/ip/pcie_7x_0.xci: the list of all properties and
#   ports, and MSIx_Table_Size, which is the number of vectors in hexadecimal digits (1 becomes
#   c_msix_table_size 000).
# * connectal, scripts/connectal-synth-pcie.tcl: MSIx_Table_Offset and MSIx_PBA_Offset are the
#   offsets divided by 8, in hexadecimal digits.

create_ip -name pcie_7x -vendor xilinx.com -library ip -module_name crosslane_pcie

set_property -dict [list \
    CONFIG.mode_selection {Advanced} \
    CONFIG.Device_Port_Type {PCI_Express_Endpoint_device} \
    CONFIG.PCIe_Blk_Locn {X0Y0} \
    CONFIG.Link_Speed [dict get $board link] \
    CONFIG.Trgt_Link_Speed {4'h2} \
    CONFIG.Maximum_Link_Width X[dict get $board lanes] \
    CONFIG.Interface_Width [dict get $board width_bits]_bit \
    CONFIG.User_Clk_Freq [dict get $board clock_mhz] \
    CONFIG.Ref_Clk_Freq {100_MHz} \
    CONFIG.Max_Payload_Size [dict get $board payload]_bytes \
    CONFIG.Extended_Tag_Field {true} \
    CONFIG.Vendor_ID {10EE} \
    CONFIG.Device_ID [dict get $board device] \
    CONFIG.Revision_ID {00} \
    CONFIG.Subsystem_Vendor_ID {10EE} \
    CONFIG.Subsystem_ID [dict get $board subsystem] \
    CONFIG.Use_Class_Code_Lookup_Assistant {false} \
    CONFIG.Class_Code_Base {05} \
    CONFIG.Class_Code_Sub {80} \
    CONFIG.Class_Code_Interface {00} \
    CONFIG.Bar0_Enabled {true} \
    CONFIG.Bar0_Type {Memory} \
    CONFIG.Bar0_64bit {false} \
    CONFIG.Bar0_Prefetchable {false} \
    CONFIG.Bar0_Scale {Kilobytes} \
    CONFIG.Bar0_Size {64} \
    CONFIG.Bar1_Enabled {true} \
    CONFIG.Bar1_Type {Memory} \
    CONFIG.Bar1_64bit {false} \
    CONFIG.Bar1_Scale {Megabytes} \
    CONFIG.Bar1_Size {4} \
    CONFIG.IntX_Generation {false} \
    CONFIG.Legacy_Interrupt {NONE} \
    CONFIG.MSI_Enabled {false} \
    CONFIG.MSIx_Enabled {true} \
    CONFIG.MSIx_Table_Size {8} \
    CONFIG.MSIx_Table_Offset {200} \
    CONFIG.MSIx_Table_BIR {BAR_0} \
    CONFIG.MSIx_PBA_Offset {300} \
    CONFIG.MSIx_PBA_BIR {BAR_0} \
    CONFIG.DSN_Enabled {true} \
    CONFIG.Buf_Opt_BMA {true} \
    CONFIG.Perf_Level {High} \
    CONFIG.Trans_Buf_Pipeline {None} \
    CONFIG.PCIe_Debug_Ports {false} \
    CONFIG.pl_interface {false} \
    CONFIG.cfg_mgmt_if {false} \
    CONFIG.cfg_ctl_if {true} \
    CONFIG.cfg_status_if {true} \
    CONFIG.cfg_fc_if {true} \
    CONFIG.err_reporting_if {true} \
    CONFIG.rcv_msg_if {false} \
    CONFIG.en_ext_clk {false} \
    CONFIG.shared_logic_in_core {false} \
] [get_ips crosslane_pcie]
