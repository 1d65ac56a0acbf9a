// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-lab` from outside, in one program.

mod checked_run;
mod errors;
mod executor;
mod fuzz_lab_file;
mod fuzz_wire;
mod iommu;
mod keys;
mod lab_bus;
mod library;
mod network;
mod peer_reads;
mod random_trees;
mod ranges;
mod scenes;
mod shipped_labs;
mod sockets;
mod topologies;
mod tori;
mod waiting;
