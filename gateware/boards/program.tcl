# SPDX-License-Identifier: Apache-2.0 OR MIT
# Loads a bitstream into the board on this machine's JTAG cable, until its power goes off:
#   vivado -mode batch -source program.tcl -tclargs FILE.bit
lassign $argv bitstream
open_hw_manager
connect_hw_server
open_hw_target
set device [lindex [get_hw_devices xc*] 0]
if {$device eq ""} {
    error "no Xilinx device on the JTAG cable"
}
current_hw_device $device
set_property PROGRAM.FILE $bitstream $device
program_hw_devices $device
