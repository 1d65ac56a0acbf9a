# SPDX-License-Identifier: Apache-2.0 OR MIT
# A GTX or GTH for crosslane_link_gtx, by the settings in `link`: raw words of 20 bits at ten times
# the reference, buffers on, clocks and their buffers outside, the reset controller inside.
#
# Names and values of properties are those of projects that others use: LCLS's core (till-s/
# lcls-timing-core, f3feab4, LCLS-II/7Series/coregen/genTimingGtx.tcl) and PandABlocks' (ip_defs/
# sfp_panda_sync.tcl), both of gtwizard 3.6. Bedrock (BerkeleyLab, 69aa033,
# board_support/kc705/gtx_wrap.v) has such a core on the KC705, with words of 20 bits at 1.25 Gb/s
# from 125 MHz. The PLL of the channel runs at 20 times the reference, and the line at twice that,
# divided by four (GTXChannelPLL of LiteICLink, 04aa139, liteiclink/serdes/gtx_7series.py).
# A core of GTH has the same properties (CPCC_QWN of JasperZihanWeng, b22bed2, clock_test.xci, on
# the VC709; nf_sume_qth_gtwizard.tcl of NetFPGA-SUME-live, junganghu, 48f0f6a, for the same FPGA),
# and is here without the two optional ports of resets that Bedrock's GTX has.

set type [dict get $link type]
set is_gtx [expr {$type eq "gtx" ? "true" : "false"}]
set number [dict get $link channel]
set reference [dict get $link refclk]
set refclk_mhz [format %.3f [dict get $link refclk_mhz]]
set rate [expr {$refclk_mhz / 100}]

create_ip -name gtwizard -vendor xilinx.com -library ip -module_name crosslane_$type

set_property -dict [list \
    CONFIG.gt0_val [expr {$number == 0 ? "true" : "false"}] \
    CONFIG.gt${number}_val {true} \
    CONFIG.gt${number}_val_tx_refclk $reference \
    CONFIG.gt${number}_val_rx_refclk $reference \
    CONFIG.gt0_usesharedlogic {0} \
    CONFIG.gt0_val_drp_clock {100} \
    CONFIG.gt_val_tx_pll {CPLL} \
    CONFIG.gt_val_rx_pll {CPLL} \
    CONFIG.identical_val_tx_line_rate $rate \
    CONFIG.identical_val_rx_line_rate $rate \
    CONFIG.identical_val_tx_reference_clock $refclk_mhz \
    CONFIG.identical_val_rx_reference_clock $refclk_mhz \
    CONFIG.gt0_val_tx_line_rate $rate \
    CONFIG.gt0_val_rx_line_rate $rate \
    CONFIG.gt0_val_tx_reference_clock $refclk_mhz \
    CONFIG.gt0_val_rx_reference_clock $refclk_mhz \
    CONFIG.gt0_val_encoding {None} \
    CONFIG.gt0_val_decoding {None} \
    CONFIG.gt0_val_tx_data_width {20} \
    CONFIG.gt0_val_rx_data_width {20} \
    CONFIG.gt0_val_tx_int_datawidth {20} \
    CONFIG.gt0_val_rx_int_datawidth {20} \
    CONFIG.gt0_val_cpll_fbdiv {4} \
    CONFIG.gt0_val_cpll_fbdiv_45 {5} \
    CONFIG.gt0_val_cpll_txout_div {4} \
    CONFIG.gt0_val_cpll_rxout_div {4} \
    CONFIG.gt0_val_txbuf_en {true} \
    CONFIG.gt0_val_rxbuf_en {true} \
    CONFIG.gt0_val_rxusrclk {RXOUTCLK} \
    CONFIG.gt0_val_dfe_mode {LPM-Auto} \
    CONFIG.gt0_val_rxcomma_deten {false} \
    CONFIG.gt0_val_port_rxslide {false} \
    CONFIG.gt0_val_rxslide_mode {OFF} \
    CONFIG.gt0_val_port_rxpmareset $is_gtx \
    CONFIG.gt0_val_port_rxdfereset $is_gtx \
    CONFIG.gt0_val_port_txelecidle {true} \
] [get_ips crosslane_$type]
