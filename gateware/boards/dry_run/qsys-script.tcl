# SPDX-License-Identifier: Apache-2.0 OR MIT
# Commands of Platform Designer for dry_run.tcl, whose first argument is what --cmd gives.
are_recorded {
    add_instance create_system save_system set_instance_parameter_value set_interface_property
    set_module_property set_project_property set_use_testbench_naming_pattern
    sync_sysinfo_parameters
}
rename package real_package
proc package {args} {
    if {[lrange $args 0 end-1] ne {require -exact qsys}} {
        real_package {*}$args
    }
}
uplevel #0 [lindex $argv 0]
