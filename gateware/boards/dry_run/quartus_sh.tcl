# SPDX-License-Identifier: Apache-2.0 OR MIT
# Commands of Quartus' shell for dry_run.tcl. Timing constraints and the scripts that it gives to
# other programs of Quartus are run as well, each with the vocabulary of its program.
are_recorded {
    cd export_assignments load_package project_close project_new set_instance_assignment
    set_location_assignment
}
set quartus(args) $argv
proc in_program {program script args} {
    puts -nonewline [real_exec tclsh $::dry_run $program $script {*}$args]
}
proc set_global_assignment {args} {
    record [list set_global_assignment {*}$args]
    lassign $args option name value
    if {$option ne "-name"} {
        error "set_global_assignment $option: expected -name"
    }
    # A file of IP is made by qsys-script.
    if {[string match *_FILE $name] && $name ne "IP_FILE"} {
        must_exist $value
    }
    if {$name eq "SDC_FILE"} {
        in_program quartus_sta $value
    }
}
proc execute_flow {args} {
    record [list execute_flow {*}$args]
    if {[dict get $::properties FLOW] ne "done"} {
        error [dict get $::properties FLOW]
    }
}
rename exec real_exec
proc exec {args} {
    record [list exec {*}$args]
    # Without options and redirections.
    set words [lsearch -all -inline -not -glob $args >*]
    set words [lsearch -all -inline -not -exact $words -ignorestderr]
    set arguments [lassign $words program]
    switch -- $program {
        qsys-script {
            set given [dict create]
            foreach argument $arguments {
                if {![regexp -- {^--(cmd|script)=(.*)$} $argument -> name value]} {
                    error "qsys-script: unknown argument $argument"
                }
                dict set given $name $value
            }
            in_program qsys-script [dict get $given script] [dict get $given cmd]
        }
        quartus_sta {
            if {[lindex $arguments 0] ne "-t"} {
                error "quartus_sta: expected -t"
            }
            in_program quartus_sta {*}[lrange $arguments 1 end]
        }
        default { error "$program: no program of Quartus" }
    }
}
