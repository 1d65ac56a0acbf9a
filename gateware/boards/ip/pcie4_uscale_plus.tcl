# SPDX-License-Identifier: Apache-2.0 OR MIT
# The core for boards with PCIE4: its settings are those of both.
create_ip -name pcie4_uscale_plus -vendor xilinx.com -library ip -module_name crosslane_pcie
source [file dirname [file normalize [info script]]]/pcie4_settings.tcl
