# SPDX-License-Identifier: Apache-2.0 OR MIT
# The reset release IP, for qsys-script: it tells when the whole device is configured (corundum,
# 1ca0151, fpga/lib/pcie/example/S10DX_DK/fpga/ip/reset_release.tcl).
package require -exact qsys 21.3

create_system crosslane_reset_release
set_project_property DEVICE $board(part)
set_project_property DEVICE_FAMILY $board(family)
set_project_property HIDE_FROM_IP_CATALOG {true}
set_use_testbench_naming_pattern 0 {}
add_instance release altera_s10_user_rst_clkgate
set_instance_parameter_value release outputType {Conduit Interface}
set_interface_property ninit_done EXPORT_OF release.ninit_done
set_module_property FILE {crosslane_reset_release.ip}
set_module_property GENERATION_ID {0x00000000}
set_module_property NAME {crosslane_reset_release}
sync_sysinfo_parameters
save_system crosslane_reset_release
