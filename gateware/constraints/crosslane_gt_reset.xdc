# SPDX-License-Identifier: Apache-2.0 OR MIT
# For each crosslane_gt_reset (scoped.tcl). Levels of the vendor's core and of other clocks, each by
# itself: it does not matter when one comes.
set_false_path -to [get_cells {seen/settling_reg[0][*]}]
