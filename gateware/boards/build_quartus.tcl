# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds a board's bitstream: `make board BOARD=NAME` runs it in Quartus' shell with the board's name,
# the build's identity (16 hexadecimal digits) and the folder for results.
lassign $quartus(args) name build_id folder
set here [file dirname [file normalize [info script]]]
set folder [file normalize $folder]
set threads 4

load_package flow
source $here/$name/board.tcl
source $here/sources.tcl
file mkdir $folder/project
cd $folder/project
project_new crosslane_$name -overwrite
set_global_assignment -name FAMILY [dict get $board family]
set_global_assignment -name DEVICE [dict get $board part]
set_global_assignment -name TOP_LEVEL_ENTITY crosslane_$name
set_global_assignment -name PROJECT_OUTPUT_DIRECTORY output_files
set_global_assignment -name NUM_PARALLEL_PROCESSORS $threads
source $here/ip/[dict get $board core].tcl

set files [glob $here/../rtl/*.sv $here/../rtl/*/*.sv $here/rtl/*.sv $here/$name/*.sv]
foreach path [sources_of crosslane_$name $files] {
    set_global_assignment -name SYSTEMVERILOG_FILE $path
}
source $here/$name/pins.tcl
set_global_assignment -name SDC_FILE $here/$name/timing.sdc
export_assignments
# An error if one of its steps fails.
execute_flow -compile
project_close

exec -ignorestderr quartus_sta -t $here/check_timing.tcl crosslane_$name $folder >@stdout
set made $folder/project/output_files/crosslane_$name
file copy -force $made.fit.rpt $folder/utilization.txt
file copy -force $made.sof $folder/crosslane-$name-$build_id.sof
