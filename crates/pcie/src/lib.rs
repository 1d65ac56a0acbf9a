// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts of the PCI Express protocol: units and addresses, link rates, TLPs, credits, timers,
//! completion splitting, ordering and configuration space. All of it is pure: no I/O, no clock, no
//! allocation on a hot path. As the lowest crate it also has the [kinds of errors](kind) of all.
//!
//! Read first: the header and flow-control sections of the PCI Express base specification
//! (chapters 2 and 3); each rule below names its clause or its source.

#![forbid(unsafe_code)]

pub mod ceiling;
pub mod config;
pub mod credits;
pub mod kind;
pub mod link;
pub mod ordering;
pub mod split;
pub mod timers;
pub mod tlp;
pub mod units;

pub use units::{BusAddress, HostAddress, HostId, Picoseconds, RoutingId, Tag};
