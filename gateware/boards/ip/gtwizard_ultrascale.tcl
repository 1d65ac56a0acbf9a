# SPDX-License-Identifier: Apache-2.0 OR MIT
# A quad of GTY for crosslane_link_gty, by the settings in `link`: raw words of 20 bits at 2.5 Gb/s,
# buffers on, clocks and their buffers outside, PLL and the reset controller inside.
#
# Names and values of properties are those of projects that others use:
# * xfcp (alexforencich), 2416986, example/VCU118/fpga_gty/ip/gtwizard_ultrascale_0.tcl: channels,
#   rates, raw data, references, txelecidle_in.
# * riscq, gty_wr_ip (a White Rabbit PHY): words of 20 bits, QPLL0, no commas, no slide. Its PLL makes
#   10 GHz for 1.25 Gb/s with a divider of 8.
# * Places of helper blocks, and TXPROGDIV_*: lists of all properties of such cores.
# A core of the vendor's PCS/PMA at 1.25 Gb/s has TXPROGDIVCLK at twice the clock of its words, and
# halves it outside (C_TXPROGDIV_FREQ_VAL 125.0, C_TX_OUTCLK_BUFG_GT_DIV 2). That the wizard takes that
# of a tenth of 2.5 Gb/s is an assumption.
# The PLL runs at 10 GHz, 64 times the reference, and the line at a quarter of that.

set channels [dict get $link channels]
set source {}
foreach channel $channels {
    lappend source $channel [dict get $link refclk]
}

create_ip -name gtwizard_ultrascale -vendor xilinx.com -library ip -module_name crosslane_gty

set_property -dict [list \
    CONFIG.GT_TYPE {GTY} \
    CONFIG.CHANNEL_ENABLE $channels \
    CONFIG.TX_MASTER_CHANNEL [lindex $channels 0] \
    CONFIG.RX_MASTER_CHANNEL [lindex $channels 0] \
    CONFIG.FREERUN_FREQUENCY {100} \
    CONFIG.TX_LINE_RATE {2.5} \
    CONFIG.RX_LINE_RATE {2.5} \
    CONFIG.TX_PLL_TYPE {QPLL0} \
    CONFIG.RX_PLL_TYPE {QPLL0} \
    CONFIG.TX_REFCLK_FREQUENCY {156.25} \
    CONFIG.RX_REFCLK_FREQUENCY {156.25} \
    CONFIG.TX_REFCLK_SOURCE $source \
    CONFIG.RX_REFCLK_SOURCE $source \
    CONFIG.TX_DATA_ENCODING {RAW} \
    CONFIG.RX_DATA_DECODING {RAW} \
    CONFIG.TX_USER_DATA_WIDTH {20} \
    CONFIG.RX_USER_DATA_WIDTH {20} \
    CONFIG.TX_INT_DATA_WIDTH {20} \
    CONFIG.RX_INT_DATA_WIDTH {20} \
    CONFIG.TX_BUFFER_MODE {1} \
    CONFIG.RX_BUFFER_MODE {1} \
    CONFIG.TX_OUTCLK_SOURCE {TXPROGDIVCLK} \
    CONFIG.TXPROGDIV_FREQ_ENABLE {true} \
    CONFIG.TXPROGDIV_FREQ_SOURCE {QPLL0} \
    CONFIG.TXPROGDIV_FREQ_VAL {250} \
    CONFIG.RX_OUTCLK_SOURCE {RXOUTCLKPMA} \
    CONFIG.RX_EQ_MODE {LPM} \
    CONFIG.RX_SLIDE_MODE {OFF} \
    CONFIG.RX_COMMA_PRESET {NONE} \
    CONFIG.RX_COMMA_P_ENABLE {false} \
    CONFIG.RX_COMMA_M_ENABLE {false} \
    CONFIG.LOCATE_COMMON {CORE} \
    CONFIG.LOCATE_RESET_CONTROLLER {CORE} \
    CONFIG.LOCATE_USER_DATA_WIDTH_SIZING {CORE} \
    CONFIG.LOCATE_TX_USER_CLOCKING {EXAMPLE_DESIGN} \
    CONFIG.LOCATE_RX_USER_CLOCKING {EXAMPLE_DESIGN} \
    CONFIG.ENABLE_OPTIONAL_PORTS {txelecidle_in} \
] [get_ips crosslane_gty]
