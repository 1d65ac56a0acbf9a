// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The timing simulator: a PCI Express fabric at the level of TLPs and DLLPs, exact to the byte
//! on the wire, in deterministic simulated time.
//!
//! A [`FabricBuilder`] takes root complexes, switches, endpoints and links. The [`Fabric`] that it
//! builds is configured by writes to configuration space, moves data by [`Flow`]s of its generic
//! requesters or through a [`Device`], and accounts for the time in [`LinkCounters`]. Read
//! `docs/fabric.md` for the modelled rules, their sources and their checks.

#![forbid(unsafe_code)]

/// Like `assert!`, for the hot path of TLPs: copies the values in the message only on failure.
/// `assert!` takes their addresses, which forces them into memory even on success.
macro_rules! assert_of {
    ($holds:expr, [$($value:ident),+], $($message:tt)+) => {
        if !$holds {
            $(let $value = $value;)+
            panic!($($message)+);
        }
    };
}

mod cache;
mod checks;
mod completer;
mod configuration;
mod counters;
mod cpu;
mod crossbar;
mod cutting;
mod device;
mod direction;
mod egress;
mod errors;
mod events;
mod fabric;
mod flow;
mod flow_state;
mod generic;
mod host_access;
mod injection;
mod iommu;
mod link_state;
mod memory;
mod memory_fault;
mod outside;
mod packet;
pub mod parameters;
mod pattern;
mod peer_reads;
mod processor;
mod receiver;
mod ring;
mod root_complex;
mod routing;
mod sockets;
mod topology;
pub mod trace;
mod translation;
mod transmit;
mod wire;

pub use configuration::NO_FUNCTION;
pub use counters::{IdleReason, LinkCounters};
pub use cpu::{CoreWork, INTERRUPT_ADDRESSES, Interrupt};
pub use device::{
    ChannelKind, ChannelWaits, Consumed, Device, DevicePort, Intake, Received, bar_offset_bytes,
};
pub use errors::{ErrorKind, ErrorRecord, MAX_ERRORS};
pub use fabric::{Fabric, RunEnd};
pub use flow::{Flow, FlowId, FlowKind, FlowReport, FlowSource};
pub use flow_state::{FlowError, MAX_LOADS_IN_FLIGHT, MAX_STORE_BYTES};
pub use host_access::{
    COMPLETION_TIMEOUT, HostAccessError, HostEvent, HostRun, LoadError, MAX_HOST_ACCESSES,
    MAX_HOST_STORE_BYTES, Region, StoreRun,
};
pub use injection::{Injected, MAX_INJECTED, Moment, TlpFault};
pub use iommu::{
    IO_LARGE_PAGE_BYTES, IO_PAGE_BYTES, IommuCounters, IommuError, MAX_IO_WALKS, MAX_IOTLB_ENTRIES,
};
pub use memory::{Backing, Memory};
pub use memory_fault::MemoryFault;
pub use outside::OutsideMemory;
pub use peer_reads::MAX_PEER_READS;
pub use root_complex::MMIO_HOLE;
pub use sockets::MAX_SOCKETS;
pub use topology::{
    BuildError, DirectionId, FabricBuilder, Link, LinkDirection, LinkId, MAX_DOWNSTREAM_PORTS,
    MAX_NODES, MAX_ROOT_PORTS, Node, NodeId, NodeKind, Port, PortId,
};
