# SPDX-License-Identifier: Apache-2.0 OR MIT
# Writes the timing reports of a compiled project, and fails if timing is not met in one of the
# operating conditions: build_quartus.tcl runs it in Quartus' timing analyser with the project's name
# and the folder for reports.
lassign $quartus(args) project folder
file delete -force $folder/timing.txt
project_open $project
create_timing_netlist
read_sdc
update_timing_netlist
report_clock_transfers -file $folder/clock_crossings.txt
report_ucp -file $folder/unconstrained.txt

# Of the first negative slack that was found.
set failed {}
proc check_slack {slack analysis conditions} {
    # "-0.000" is a violation of less than a picosecond.
    if {[string match -* $slack] && $::failed eq ""} {
        set ::failed "worst slack $slack ns ($analysis, $conditions)"
    }
}
foreach_in_collection conditions [get_available_operating_conditions] {
    set_operating_conditions $conditions
    update_timing_netlist
    foreach analysis {setup hold recovery removal} {
        set count 0
        foreach_in_collection path [get_timing_paths -$analysis -npaths 1] {
            check_slack [get_path_info $path -slack] $analysis $conditions
            incr count
        }
        # A design may have no asynchronous resets, but it has paths between registers.
        if {$count == 0 && $analysis in {setup hold}} {
            error "no paths to analyse ($analysis, $conditions): are there clocks?"
        }
        report_timing -$analysis -npaths 20 -detail full_path -file $folder/timing.txt -append
    }
    foreach pulse [get_min_pulse_width -nworst 1] {
        check_slack [lindex $pulse 0] {pulse width} $conditions
    }
    report_min_pulse_width -nworst 20 -file $folder/timing.txt -append
}
project_close
if {$failed ne ""} {
    error "timing is not met: $failed; $folder/timing.txt has the paths. The bitstream stays in\
        $folder/project/output_files and must not be used"
}
