// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A board with an engine, opened.

use crosslane_host::{Bus, FunctionInfo, PageSize};
use crosslane_pcie::units::{Picoseconds, RoutingId};

use crate::buffer::Buffer;
use crate::channel::{Channel, ChannelKind, ChannelOptions};
use crate::error::DriverError;
use crate::peer::{Peer, PeerOptions};
use crate::user::User;

/// What an engine says of itself (registers `global`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// H2C channels.
    pub h2c_channels: u8,
    /// C2H channels.
    pub c2h_channels: u8,
    /// Peer channels.
    pub peer_channels: u8,
    /// Receive lanes.
    pub lanes: u8,
    /// Interrupt vectors.
    pub vectors: u16,
    /// Tags.
    pub tags: u16,
    /// Descriptors of each table.
    pub table_entries: u32,
    /// Descriptors that one fetch asks for at most.
    pub fetch_batch: u32,
    /// Longest payload that it can build, bytes.
    pub max_write_bytes: u32,
    /// Longest read that it can ask for, bytes.
    pub max_read_bytes: u32,
    /// Bytes of each lane's FIFO.
    pub lane_fifo_bytes: u32,
    /// Bytes of BAR1 for each lane.
    pub lane_window_bytes: u64,
    /// One clock of engine time.
    pub clock: Picoseconds,
}

/// An engine, opened. Clones are the same engine. Channels, lanes and buffers are given out
/// once each and come back when they are dropped.
#[derive(Clone)]
pub struct Device<B: Bus> {
    _bus: B,
}

impl<B: Bus> Device<B> {
    /// Opens the engine of a function: checks that it is one and of this version, enables memory
    /// space, bus mastering and interrupts.
    ///
    /// # Errors
    /// No such function, no engine there, another version, or the platform's refusal.
    pub async fn open(bus: B, function: RoutingId) -> Result<Self, DriverError> {
        let _ = (bus, function);
        unimplemented!()
    }

    /// The same by the function's name in the tree.
    ///
    /// # Errors
    /// As [`open`](Self::open); a name that is not there is answered with those that are.
    pub async fn open_by_name(bus: B, name: &str) -> Result<Self, DriverError> {
        let _ = (bus, name);
        unimplemented!()
    }

    /// The same device with register accesses made from another core of the host.
    #[must_use]
    pub fn on_core(&self, core: u16) -> Self {
        let _ = core;
        unimplemented!()
    }

    /// The bus that it was opened on.
    #[must_use]
    pub fn bus(&self) -> &B {
        unimplemented!()
    }

    /// The function.
    #[must_use]
    pub fn function(&self) -> &FunctionInfo {
        unimplemented!()
    }

    /// What the engine says of itself.
    #[must_use]
    pub fn description(&self) -> Description {
        unimplemented!()
    }

    /// Engine time, in clocks.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn time_clocks(&self) -> Result<u64, DriverError> {
        unimplemented!()
    }

    /// Allocates and registers memory in one go.
    ///
    /// # Errors
    /// No memory, or it cannot be pinned.
    pub async fn buffer(&self, bytes: u64, pages: PageSize) -> Result<Buffer<B>, DriverError> {
        let _ = (bytes, pages);
        unimplemented!()
    }

    /// Registers memory: pins it and makes it reachable for this device.
    ///
    /// # Errors
    /// It cannot be pinned, or has no bytes.
    pub async fn register(&self, memory: B::Memory) -> Result<Buffer<B>, DriverError> {
        let _ = memory;
        unimplemented!()
    }

    /// Opens a channel: restarts it, sets it up and lets it run.
    ///
    /// # Errors
    /// No such channel, one that is open already, or options that it does not have.
    pub async fn channel(
        &self,
        kind: ChannelKind,
        number: u8,
        options: ChannelOptions,
    ) -> Result<Channel<B>, DriverError> {
        let _ = (kind, number, options);
        unimplemented!()
    }

    /// Claims a receive lane of `target` for this device's peer channel `number` and sets up the
    /// credits between them.
    ///
    /// # Errors
    /// No lane left, no path (with the plan's reason), or a target in another host.
    pub async fn connect(
        &self,
        target: &Self,
        options: PeerOptions,
    ) -> Result<Peer<B>, DriverError> {
        let _ = (target, options);
        unimplemented!()
    }

    /// The user circuit.
    #[must_use]
    pub fn user(&self) -> User<B> {
        unimplemented!()
    }

    /// Clears the counters and hardware timers of all channels and lanes.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn reset_counters(&self) -> Result<(), DriverError> {
        unimplemented!()
    }
}
