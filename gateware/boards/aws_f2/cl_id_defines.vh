// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// PCI identity of the image, as it is registered with it: device and vendor, subsystem and its
// vendor. Of Amazon's vendor ID designs may use the devices f000 to f0ff.

`ifndef CL_ID_DEFINES
`define CL_ID_DEFINES
`define CL_SH_ID0 32'hF0C1_1D0F
`define CL_SH_ID1 32'h0001_1D0F
`endif
