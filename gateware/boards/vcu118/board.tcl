# SPDX-License-Identifier: Apache-2.0 OR MIT
# VCU118: XCVU9P, edge connector x16. Part: verilog-pcie, 25156a9,
# example/VCU118/fpga/fpga/Makefile.
set board {
    name        vcu118
    part        xcvu9p-flga2104-2L-e
    core        pcie4_uscale_plus
    link        8.0_GT/s
    lanes       16
    width_bits  512
    clock_mhz   250
    payload     512
    device      903f
    subsystem   c118
    memory      ddr4
    aperture    256
    dram {
        MemoryType      Components
        MemoryPart      MT40A256M16GE-075E
        DataWidth       64
        DataMask        DM_NO_DBI
        AxiAddressWidth 31
        TimePeriod      750
        InputClockPeriod 4000
        CasLatency      18
        CasWriteLatency 14
    }
}
