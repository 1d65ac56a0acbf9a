# SPDX-License-Identifier: Apache-2.0 OR MIT
# Adds the constraints of all clock crossings to a project of Vivado's: each file is for every instance of
# the module that it is named as, wherever that is. Read after the clocks are defined.
#   source gateware/constraints/scoped.tcl
foreach file [glob [file dirname [file normalize [info script]]]/*.xdc] {
    add_files -fileset constrs_1 -norecurse $file
    set added [get_files [file tail $file]]
    set_property SCOPED_TO_REF [file rootname [file tail $file]] $added
    set_property PROCESSING_ORDER LATE $added
}
