// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-fabric` from outside, in one program.

mod acks;
mod bad_tlps;
mod closed_form;
mod completion_splits;
mod copies;
mod crossbar;
mod determinism;
mod device;
mod device_status;
mod dllps_free;
mod host_access;
mod injection;
mod iommu;
mod late_dllps;
mod link_down;
mod link_errors;
mod loads;
mod ordering;
mod outside;
mod peer_reads;
mod root_complex;
mod sharing;
mod sockets;
mod support;
mod write_combining;
