# SPDX-License-Identifier: Apache-2.0 OR MIT
# The P-Tile's core and the reset release IP for crosslane_board_ptile, by the settings in `board`:
# qsys-script makes both, and the project gets them. Without a `build_id` the serial number is 0.
if {![info exists build_id]} {
    set build_id [string repeat 0 16]
}
# Its double words, as numbers: the Tcl of qsys-script may have integers of 32 bits, and no `dict`.
set serial_number [list serial_1 [expr 0x[string range $build_id 8 15]] \
    serial_2 [expr 0x[string range $build_id 0 7]]]
set ip [file dirname [file normalize [info script]]]
file mkdir ip
cd ip
foreach {system script} {crosslane_pcie ptile_system crosslane_reset_release reset_release_system} {
    exec -ignorestderr qsys-script "--cmd=array set board {[list {*}$board {*}$serial_number]}" \
        --script=$ip/$script.tcl >@stdout
    set_global_assignment -name IP_FILE ip/$system.ip
}
cd ..
