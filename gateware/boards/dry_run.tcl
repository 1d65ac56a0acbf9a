# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a script of Vivado's in an ordinary tclsh and writes the commands that Vivado would get: each
# word behind a unit separator, each command behind a record separator. A command that is not here
# ends it with Tcl's own error. Constraints of added files are run as well.
#   tclsh dry_run.tcl SCRIPT ARGUMENTS...
set recorded {
    add_files connect_hw_server create_clock create_ip create_project current_hw_device launch_runs
    open_hw_manager open_hw_target open_run program_hw_devices report_cdc report_timing_summary
    report_utilization set_false_path set_max_delay set_bus_skew set_property update_compile_order
    wait_on_run
}
# Commands that stand for objects: their result is the command itself.
set objects {
    current_design current_fileset get_cells get_clocks get_files get_hw_devices get_ips get_pins
    get_ports get_runs get_timing_paths
}
proc record {words} {
    puts -nonewline "\x1e[join $words \x1f]"
}
foreach name $recorded {
    proc $name {args} "record \[list $name {*}\$args\]"
}
foreach name $objects {
    proc $name {args} "return \[list $name {*}\$args\]"
}
# What objects answer: a file that FAKE names may say otherwise.
set properties {PROGRESS 100% STATUS done DIRECTORY /runs/impl_1 SLACK 0.125 PERIOD 4.000}
if {[info exists env(FAKE)]} {
    source $env(FAKE)
}
proc get_property {args} {
    # NAME OBJECT, or -min NAME OBJECTS.
    return [dict get $::properties [lindex $args end-1]]
}
rename file real_file
proc file {command args} {
    if {$command eq "copy"} {
        record [list file copy {*}$args]
    } else {
        real_file $command {*}$args
    }
}
rename add_files record_files
proc add_files {args} {
    record_files {*}$args
    foreach name [lindex $args end] {
        if {![real_file exists $name]} {
            error "$name: there is no such file"
        }
        if {[real_file extension $name] eq ".xdc"} {
            uplevel #0 [list source $name]
        }
    }
}

set script [lindex $argv 0]
set argv [lrange $argv 1 end]
set argc [llength $argv]
source $script
