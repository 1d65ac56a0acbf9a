# SPDX-License-Identifier: Apache-2.0 OR MIT
# For each crosslane_reset_pair (scoped.tcl). Single bits that settle: each is a level that stays until
# it is answered, so only the delay is bounded.
set_max_delay -datapath_only -from [get_cells {a_side/asks_reg a_side/holds_reg}] \
    -to [get_cells {b_side/seen/settling_reg[0][*]}] \
    [get_property -min PERIOD [get_clocks -of_objects [get_ports {a_clk b_clk}]]]
set_max_delay -datapath_only -from [get_cells {b_side/asks_reg b_side/holds_reg}] \
    -to [get_cells {a_side/seen/settling_reg[0][*]}] \
    [get_property -min PERIOD [get_clocks -of_objects [get_ports {a_clk b_clk}]]]
