# SPDX-License-Identifier: Apache-2.0 OR MIT
# LiteFury. Pins, transceivers, configuration: the maker's constraints, RHSResearchLLC/NiteFury-and-LiteFury,
# 6d1b851, Sample-Projects/Project-0/FPGA/common/Constraints/early.xdc and normal.xdc. Read before the
# core's own constraints (PROCESSING_ORDER EARLY), as there: the lanes are not in the order of the
# transceivers.

set_property LOC GTPE2_CHANNEL_X0Y6 [get_cells -hierarchical -filter {NAME =~ *pipe_lane[0].gt_wrapper_i/gtp_channel.gtpe2_channel_i}]
set_property LOC GTPE2_CHANNEL_X0Y4 [get_cells -hierarchical -filter {NAME =~ *pipe_lane[1].gt_wrapper_i/gtp_channel.gtpe2_channel_i}]
set_property LOC GTPE2_CHANNEL_X0Y5 [get_cells -hierarchical -filter {NAME =~ *pipe_lane[2].gt_wrapper_i/gtp_channel.gtpe2_channel_i}]
set_property LOC GTPE2_CHANNEL_X0Y7 [get_cells -hierarchical -filter {NAME =~ *pipe_lane[3].gt_wrapper_i/gtp_channel.gtpe2_channel_i}]

set_property PACKAGE_PIN B10 [get_ports {pcie_rx_p[0]}]
set_property PACKAGE_PIN B8 [get_ports {pcie_rx_p[1]}]
set_property PACKAGE_PIN D11 [get_ports {pcie_rx_p[2]}]
set_property PACKAGE_PIN D9 [get_ports {pcie_rx_p[3]}]
set_property PACKAGE_PIN A10 [get_ports {pcie_rx_n[0]}]
set_property PACKAGE_PIN A8 [get_ports {pcie_rx_n[1]}]
set_property PACKAGE_PIN C11 [get_ports {pcie_rx_n[2]}]
set_property PACKAGE_PIN C9 [get_ports {pcie_rx_n[3]}]
set_property PACKAGE_PIN B6 [get_ports {pcie_tx_p[0]}]
set_property PACKAGE_PIN B4 [get_ports {pcie_tx_p[1]}]
set_property PACKAGE_PIN D5 [get_ports {pcie_tx_p[2]}]
set_property PACKAGE_PIN D7 [get_ports {pcie_tx_p[3]}]
set_property PACKAGE_PIN A6 [get_ports {pcie_tx_n[0]}]
set_property PACKAGE_PIN A4 [get_ports {pcie_tx_n[1]}]
set_property PACKAGE_PIN C5 [get_ports {pcie_tx_n[2]}]
set_property PACKAGE_PIN C7 [get_ports {pcie_tx_n[3]}]

set_property PACKAGE_PIN F6 [get_ports refclk_p]
set_property PACKAGE_PIN E6 [get_ports refclk_n]
create_clock -name refclk -period 10.000 [get_ports refclk_p]

set_property -dict {PACKAGE_PIN J1 IOSTANDARD LVCMOS33} [get_ports perst_n]
set_false_path -from [get_ports perst_n]
set_property -dict {PACKAGE_PIN G1 IOSTANDARD LVCMOS33} [get_ports clkreq_n]

set_property -dict {PACKAGE_PIN G3 IOSTANDARD LVCMOS33 PULLUP true DRIVE 8} [get_ports {led[0]}]
set_property -dict {PACKAGE_PIN H3 IOSTANDARD LVCMOS33 PULLUP true DRIVE 8} [get_ports {led[1]}]
set_property -dict {PACKAGE_PIN G4 IOSTANDARD LVCMOS33 PULLUP true DRIVE 8} [get_ports {led[2]}]
set_property -dict {PACKAGE_PIN H4 IOSTANDARD LVCMOS33 PULLUP true DRIVE 8} [get_ports {led[3]}]
set_false_path -to [get_ports {led[*]}]

set_property CFGBVS VCCO [current_design]
set_property CONFIG_VOLTAGE 3.3 [current_design]
set_property CONFIG_MODE SPIx4 [current_design]
set_property BITSTREAM.CONFIG.SPI_BUSWIDTH 4 [current_design]
set_property BITSTREAM.CONFIG.SPI_FALL_EDGE YES [current_design]
set_property BITSTREAM.CONFIG.EXTMASTERCCLK_EN Div-1 [current_design]
set_property BITSTREAM.CONFIG.OVERTEMPPOWERDOWN ENABLE [current_design]
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]
