# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a script of a vendor's tool in an ordinary tclsh and writes the commands that the tool would
# get: each word behind a unit separator, each command behind a record separator. A command that is
# not in the tool's vocabulary, dry_run/TOOL.tcl, ends it with Tcl's own error.
#   tclsh dry_run.tcl TOOL SCRIPT ARGUMENTS...
set dry_run [file normalize [info script]]
proc record {words} {
    puts -nonewline "\x1e[join $words \x1f]"
}
# Commands that have no result.
proc are_recorded {names} {
    foreach name $names {
        proc ::$name {args} "record \[list $name {*}\$args\]"
    }
}
# Commands that stand for objects: their result is the command itself.
proc are_objects {names} {
    foreach name $names {
        proc ::$name {args} "return \[list $name {*}\$args\]"
    }
}
proc must_exist {name} {
    if {![real_file exists $name]} {
        error "$name: there is no such file"
    }
}
# What objects answer, and how a flow ends: a file that FAKE names may say otherwise.
set properties {PROGRESS 100% STATUS done DIRECTORY /runs/impl_1 SLACK 0.125 PERIOD 4.000}
dict set properties FLOW done
if {[info exists env(FAKE)]} {
    source $env(FAKE)
}
rename file real_file
proc file {command args} {
    if {$command in {copy delete mkdir}} {
        record [list file $command {*}$args]
    } else {
        real_file $command {*}$args
    }
}

set argv [lassign $argv tool script]
set argc [llength $argv]
source [real_file dirname $dry_run]/dry_run/$tool.tcl
source $script
