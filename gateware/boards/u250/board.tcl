# SPDX-License-Identifier: Apache-2.0 OR MIT
# Alveo U250: XCU250, edge connector x16. Part: verilog-pcie, 25156a9,
# example/Alveo/fpga/fpga_AU250/Makefile.
set board {
    name        u250
    part        xcu250-figd2104-2-e
    core        pcie4_uscale_plus
    link        8.0_GT/s
    lanes       16
    width_bits  512
    clock_mhz   250
    payload     512
    device      903f
    subsystem   a250
    memory      ddr4
    aperture    256
    dram {
        MemoryType      RDIMMs
        MemoryPart      MTA18ASF2G72PZ-2G3
        AxiAddressWidth 34
        TimePeriod      833
        InputClockPeriod 3332
        CasLatency      17
        CasWriteLatency 12
    }
}
