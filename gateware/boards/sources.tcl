# SPDX-License-Identifier: Apache-2.0 OR MIT
# The files that a top needs, each behind those that it names: Quartus reads packages in this order.
# Returns the paths; `files` are the candidates, each named after its module or package.
proc sources_of {top files} {
    foreach path $files {
        dict set paths [file rootname [file tail $path]] $path
    }
    set found [dict create]
    set order {}
    visit_source $top $paths found order
    return $order
}

proc visit_source {name paths found_name order_name} {
    upvar 1 $found_name found $order_name order
    dict set found $name 1
    set channel [open [dict get $paths $name]]
    set text [read $channel]
    close $channel
    regsub -all {//[^\n]*} $text {} text
    foreach word [lsort -unique [regexp -all -inline {\m[A-Za-z]\w+\M} $text]] {
        if {[dict exists $paths $word] && ![dict exists $found $word]} {
            visit_source $word $paths found order
        }
    }
    lappend order [dict get $paths $name]
}
