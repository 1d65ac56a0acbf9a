# SPDX-License-Identifier: Apache-2.0 OR MIT
# Stratix 10 DX development kit. Pins and configuration: corundum, 1ca0151,
# fpga/lib/pcie/example/S10DX_DK/fpga/fpga.qsf, and ndk-fpga, d2c22dc,
# cards/intel/dk-dev-1sdx-p/constr/pcie.qsf and general.qsf, which agree.

foreach {lane rx_p rx_n tx_p tx_n} {
     0  BJ52  BJ51   BJ48  BJ47
     1  BH54  BH53   BH50  BH49
     2  BG52  BG51   BG48  BG47
     3  BF54  BF53   BF50  BF49
     4  BE52  BE51   BE48  BE47
     5  BD54  BD53   BD50  BD49
     6  BC52  BC51   BC48  BC47
     7  BB54  BB53   BB50  BB49
     8  BA52  BA51   BA48  BA47
     9  AY54  AY53   AY50  AY49
    10  AW52  AW51   AW48  AW47
    11  AV54  AV53   AV50  AV49
    12  AU52  AU51   AU48  AU47
    13  AT54  AT53   AT50  AT49
    14  AR52  AR51   AR48  AR47
    15  AP54  AP53   AP50  AP49
} {
    foreach port {rx_p rx_n tx_p tx_n} {
        set_location_assignment PIN_[set $port] -to "pcie_$port\[$lane\]"
    }
}
foreach port {pcie_rx_p pcie_tx_p} {
    set_instance_assignment -name IO_STANDARD "HSSI DIFFERENTIAL I/O" -to $port
}

# The second pin of a pair follows from the first.
set_location_assignment PIN_AT45 -to {refclk_p[0]}
set_location_assignment PIN_AP45 -to {refclk_p[1]}
set_instance_assignment -name IO_STANDARD HCSL -to refclk_p

set_location_assignment PIN_BB39 -to perst_n
set_instance_assignment -name IO_STANDARD "1.8 V" -to perst_n

set_location_assignment PIN_A37 -to {led[0]}
set_location_assignment PIN_C38 -to {led[1]}
set_location_assignment PIN_A35 -to {led[2]}
set_instance_assignment -name IO_STANDARD "1.8 V" -to led

# Configuration by the board's controller.
set_global_assignment -name STRATIXV_CONFIGURATION_SCHEME "AVST X8"
set_global_assignment -name USE_CONFIGURATION_DEVICE OFF
set_global_assignment -name USE_CONF_DONE SDM_IO16
set_global_assignment -name USE_CVP_CONFDONE SDM_IO5

# SmartVID: the part asks a regulator on PMBus for its core voltage.
set_global_assignment -name VID_OPERATION_MODE "PMBUS MASTER"
set_global_assignment -name USE_PWRMGT_SCL SDM_IO0
set_global_assignment -name USE_PWRMGT_SDA SDM_IO12
set_global_assignment -name PWRMGT_BUS_SPEED_MODE "100 KHZ"
set_global_assignment -name PWRMGT_SLAVE_DEVICE_TYPE ED8401
set_global_assignment -name PWRMGT_SLAVE_DEVICE0_ADDRESS 49
foreach device {1 2 3 4 5 6 7} {
    set_global_assignment -name PWRMGT_SLAVE_DEVICE${device}_ADDRESS 00
}
set_global_assignment -name PWRMGT_VOLTAGE_OUTPUT_FORMAT "LINEAR FORMAT"
set_global_assignment -name PWRMGT_LINEAR_FORMAT_N "-13"
set_global_assignment -name PWRMGT_TRANSLATED_VOLTAGE_VALUE_UNIT VOLTS
set_global_assignment -name PWRMGT_PAGE_COMMAND_ENABLE OFF

set_global_assignment -name MIN_CORE_JUNCTION_TEMP 0
set_global_assignment -name MAX_CORE_JUNCTION_TEMP 100
set_global_assignment -name PRESERVE_UNUSED_XCVR_CHANNEL ON
