# SPDX-License-Identifier: Apache-2.0 OR MIT
# For each crosslane_async_fifo (scoped.tcl). Gray pointers: one bit changes at a time, so their delay
# and its skew stay below one period of the faster clock.
set_max_delay -datapath_only -from [get_cells {head_gray_reg[*]}] \
    -to [get_cells {head_to_s/settling_reg[0][*]}] \
    [get_property -min PERIOD [get_clocks -of_objects [get_ports {s_clk m_clk}]]]
set_bus_skew -from [get_cells {head_gray_reg[*]}] \
    -to [get_cells {head_to_s/settling_reg[0][*]}] \
    [get_property -min PERIOD [get_clocks -of_objects [get_ports {s_clk m_clk}]]]
set_max_delay -datapath_only -from [get_cells {tail_gray_reg[*]}] \
    -to [get_cells {tail_to_m/settling_reg[0][*]}] \
    [get_property -min PERIOD [get_clocks -of_objects [get_ports {s_clk m_clk}]]]
set_bus_skew -from [get_cells {tail_gray_reg[*]}] \
    -to [get_cells {tail_to_m/settling_reg[0][*]}] \
    [get_property -min PERIOD [get_clocks -of_objects [get_ports {s_clk m_clk}]]]

# Words in distributed memory: written at least two clocks of m_clk before they are read. In block
# memory nothing crosses, and the register is part of it.
set_max_delay -quiet -datapath_only -from [get_clocks -of_objects [get_ports s_clk]] \
    -to [get_cells -quiet {m_data_reg[*]}] \
    [get_property -min PERIOD [get_clocks -of_objects [get_ports m_clk]]]
