# SPDX-License-Identifier: Apache-2.0 OR MIT
# Stratix 10 DX development kit. The core's own constraints have its clock for the engine.
create_clock -name refclk0 -period 10.000 [get_ports {refclk_p[0]}]
create_clock -name refclk1 -period 10.000 [get_ports {refclk_p[1]}]
derive_clock_uncertainty

# The slot's clocks end in the block.
set_clock_groups -asynchronous -group [get_clocks {refclk0 refclk1}]

set_false_path -from [get_ports perst_n]
set_false_path -to [get_ports {led[*]}]
