# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds a board's bitstream: `make board BOARD=NAME` runs it in Vivado's batch mode with the board's
# name, the build's identity (16 hexadecimal digits) and the folder for results.
lassign $argv name build_id folder
set here [file dirname [file normalize [info script]]]
set threads 4

source $here/$name/board.tcl
create_project crosslane_$name $folder/project -part [dict get $board part] -force
source $here/ip/[dict get $board core].tcl
if {[dict exists $board memory]} {
    source $here/ip/[dict get $board memory].tcl
    source $here/../constraints/scoped.tcl
}

set sources [glob $here/../rtl/*.sv $here/../rtl/*/*.sv $here/rtl/*.sv $here/$name/*.sv]
add_files -norecurse $sources
add_files -fileset constrs_1 -norecurse $here/$name/pins.xdc
# Before the constraints of the vendor's core, which place its transceivers.
set_property PROCESSING_ORDER EARLY [get_files pins.xdc]
set_property top crosslane_$name [current_fileset]
set_property generic "BUILD_ID=64'h$build_id" [current_fileset]
update_compile_order -fileset sources_1

foreach {run step} {synth_1 {} impl_1 write_bitstream} {
    if {$step eq ""} {
        launch_runs $run -jobs $threads
    } else {
        launch_runs $run -to_step $step -jobs $threads
    }
    wait_on_run $run
    if {[get_property PROGRESS [get_runs $run]] ne "100%"} {
        error "$run has failed: [get_property STATUS [get_runs $run]]; its log is in\
            [get_property DIRECTORY [get_runs $run]]/runme.log"
    }
}

open_run impl_1
report_timing_summary -file $folder/timing.txt
report_utilization -hierarchical -file $folder/utilization.txt
report_cdc -details -file $folder/clock_crossings.txt
foreach kind {max min} {
    set slack [get_property SLACK [get_timing_paths -delay_type $kind]]
    if {$slack < 0} {
        error "timing is not met: worst slack $slack ns ($kind); $folder/timing.txt has the paths.\
            The bitstream stays in [get_property DIRECTORY [get_runs impl_1]] and must not be used"
    }
}
file copy -force [get_property DIRECTORY [get_runs impl_1]]/crosslane_$name.bit \
    $folder/crosslane-$name-$build_id.bit
