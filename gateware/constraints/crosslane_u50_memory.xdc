# SPDX-License-Identifier: Apache-2.0 OR MIT
# For crosslane_u50_memory (scoped.tcl). Levels of the vendor's cores, each by itself: it does not matter
# when one comes.
set_false_path -to [get_cells {seen/settling_reg[0][*]}]
