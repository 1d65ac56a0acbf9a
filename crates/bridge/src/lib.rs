// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Software-bridged transfers: data go between a remote node's memory and an FPGA's through a ring
//! of host buffers that both the network and the FPGA reach.

#![forbid(unsafe_code)]
