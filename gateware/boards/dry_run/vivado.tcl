# SPDX-License-Identifier: Apache-2.0 OR MIT
# Commands of Vivado for dry_run.tcl. Constraints of added files are run as well.
are_recorded {
    add_files connect_hw_server create_clock create_ip create_project current_hw_device launch_runs
    open_hw_manager open_hw_target open_run program_hw_devices report_cdc report_timing_summary
    report_utilization set_false_path set_max_delay set_bus_skew set_property update_compile_order
    wait_on_run
}
are_objects {
    current_design current_fileset get_cells get_clocks get_files get_hw_devices get_ips get_pins
    get_ports get_runs get_timing_paths
}
proc get_property {args} {
    # NAME OBJECT, or -min NAME OBJECTS.
    return [dict get $::properties [lindex $args end-1]]
}
rename add_files record_files
proc add_files {args} {
    record_files {*}$args
    foreach name [lindex $args end] {
        must_exist $name
        if {[real_file extension $name] eq ".xdc"} {
            uplevel #0 [list source $name]
        }
    }
}
