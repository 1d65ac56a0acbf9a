# SPDX-License-Identifier: Apache-2.0 OR MIT
# For each crosslane_gt_lanes (scoped.tcl). Single levels of its reset's clock. Words stay within
# clocks from one source, `clk` and `tx_usrclk`, `rx_usrclk` and `rx_clk`, whose paths the tool
# times.
set_false_path -to [get_cells {tx_seen/settling_reg[0][*] rx_seen/settling_reg[0][*]}]
set_false_path -to [get_cells {runs_seen/settling_reg[0][*]}]
