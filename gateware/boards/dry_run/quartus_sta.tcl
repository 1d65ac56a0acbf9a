# SPDX-License-Identifier: Apache-2.0 OR MIT
# Commands of Quartus' timing analyser for dry_run.tcl, with those of its constraints.
are_recorded {
    create_clock create_timing_netlist derive_clock_uncertainty project_close project_open read_sdc
    report_clock_transfers report_min_pulse_width report_timing report_ucp set_clock_groups
    set_false_path set_operating_conditions update_timing_netlist
}
are_objects {get_clocks get_ports}
set quartus(args) $argv
proc foreach_in_collection {variable collection body} {
    uplevel 1 [list foreach $variable $collection $body]
}
proc get_available_operating_conditions {} {
    return {slow fast}
}
proc get_timing_paths {args} {
    # Of an analysis that FAKE calls empty there is none.
    if {[dict exists $::properties EMPTY] && [dict get $::properties EMPTY] in $args} {
        return {}
    }
    return [list $args]
}
proc get_path_info {path option} {
    if {$option ne "-slack"} {
        error "get_path_info $option: expected -slack"
    }
    return [dict get $::properties SLACK]
}
proc get_min_pulse_width {args} {
    return [list [list [dict get $::properties SLACK] 1.0 0.5]]
}
