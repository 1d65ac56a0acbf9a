# SPDX-License-Identifier: Apache-2.0 OR MIT
# For each crosslane_fifo_resets (scoped.tcl). Single bits that settle: each is a level that stays until
# it is answered, so only the delay is bounded.
set_max_delay -datapath_only -from [get_cells {a_is_reset_reg}] \
    -to [get_cells {a_to_b/settling_reg[0][*]}] \
    [get_property -min PERIOD [get_clocks -of_objects [get_ports {a_clk b_clk}]]]
set_max_delay -datapath_only -from [get_cells {b_is_reset_reg}] \
    -to [get_cells {b_to_a/settling_reg[0][*]}] \
    [get_property -min PERIOD [get_clocks -of_objects [get_ports {a_clk b_clk}]]]
