// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State that all handles of one engine share: resources given out, or waiting to be given back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use crosslane_host::ErrorKind::{Busy, InvalidArgument};
use crosslane_host::{AnyBus, AnyMemory, Bus, BusError, ErrorKind, FunctionInfo, lock};
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine;

use crate::access::Access;
use crate::buffer::{Claim, Retired};
use crate::channel::{ChannelKind, ChannelOptions, Notification};
use crate::connection::Connection;
use crate::device::Description;
use crate::error::{DriverError, Result};

/// Kind and number of a channel.
pub(crate) type ChannelKey = (ChannelKind, u8);

/// Resources of a channel that was dropped without a close: the device may use them until the
/// channel has been restarted.
pub(crate) struct Abandoned {
    /// Ring and status block.
    pub memories: Vec<AnyMemory>,
    /// Claimed parts of buffers.
    pub claims: Vec<Claim>,
}

/// Resources that are given out.
pub(crate) struct GivenOut {
    /// Open channels with their options.
    pub channels: HashMap<ChannelKey, ChannelOptions>,
    /// Interrupt vectors in use.
    pub vectors: Vec<bool>,
    /// Receive queues in use.
    pub lanes: Vec<bool>,
    /// Connection of each peer channel.
    pub connections: Vec<Weak<Connection>>,
    /// Channels that were dropped without a close.
    pub abandoned: HashMap<ChannelKey, Abandoned>,
    pub command_port: CommandPort,
}

/// The driver's knowledge of the command port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandPort {
    /// Address and length in its registers, as read back.
    pub holds: Option<[u32; 3]>,
    /// Count of finished commands once the last one started has finished.
    pub due: u32,
    /// Whether that one is known to have ended, with none started since.
    pub is_idle: bool,
}

/// State shared by all handles of one engine.
pub(crate) struct Shared {
    bus: AnyBus,
    pub access: Access,
    pub description: Description,
    /// Every function of the tree when the device was opened.
    pub functions: Vec<FunctionInfo>,
    pub given: Mutex<GivenOut>,
    pub retired: Retired,
}

impl Shared {
    pub fn new(
        bus: AnyBus,
        access: Access,
        description: Description,
        functions: Vec<FunctionInfo>,
    ) -> Self {
        let given = GivenOut {
            channels: HashMap::new(),
            vectors: vec![false; usize::from(description.vectors)],
            lanes: vec![false; usize::from(description.lanes)],
            connections: (0..description.peer_channels).map(|_| Weak::new()).collect(),
            abandoned: HashMap::new(),
            command_port: CommandPort::default(),
        };
        let retired = Retired::default();
        Self { bus, access, description, functions, given: Mutex::new(given), retired }
    }

    /// Returns the number of channels of a kind.
    pub const fn channels(&self, kind: ChannelKind) -> u8 {
        match kind {
            ChannelKind::H2c => self.description.h2c_channels,
            ChannelKind::C2h => self.description.c2h_channels,
            ChannelKind::Peer => self.description.peer_channels,
        }
    }

    /// Name for messages: `fpga1 C2H 0`.
    pub fn place(&self, (kind, number): ChannelKey) -> String {
        format!("{} {kind} {number}", self.access.function.name)
    }

    pub fn refused(&self, kind: ErrorKind, problem: impl Into<String>) -> DriverError {
        self.access.refused(kind, problem)
    }

    pub fn bus_error(&self, source: BusError) -> DriverError {
        self.access.failed(source)
    }

    /// Returns the options of a channel if it is open.
    pub fn open_channel(&self, key: ChannelKey) -> Option<ChannelOptions> {
        lock(&self.given).channels.get(&key).copied()
    }

    /// Returns the connection of a peer channel.
    pub fn connection(&self, number: u8) -> Option<Arc<Connection>> {
        lock(&self.given).connections.get(usize::from(number))?.upgrade()
    }

    /// Checks the target of a peer write.
    pub fn check_peer_write(&self, number: u8, address: BusAddress, bytes: u64) -> Result<()> {
        let place = self.place((ChannelKind::Peer, number));
        let refused = |kind, problem: String| Err(DriverError::refused(place, kind, problem));
        if bytes == 0 {
            return refused(InvalidArgument, format!("0 B at {address}"));
        }
        let Some(last) = address.0.checked_add(bytes - 1) else {
            return refused(
                InvalidArgument,
                format!("{bytes} B at {address} reach beyond 64 bits"),
            );
        };
        if let Some(connection) = self.connection(number) {
            let lane = connection.place();
            if !connection.contains(address) {
                return refused(
                    InvalidArgument,
                    format!("{address} is not in {lane}, which it is connected to"),
                );
            }
            if !bytes.is_multiple_of(4) || !address.0.is_multiple_of(4) {
                return refused(
                    InvalidArgument,
                    format!(
                        "{bytes} B at {address}, in {lane}: a receive queue takes whole \
                         double words, so both are multiples of 4"
                    ),
                );
            }
            // Addresses wrap within the receive queue's aperture, so any length fits.
            return Ok(());
        }
        let bars = self.functions.iter().flat_map(|info| info.bars.iter().map(move |b| (info, b)));
        for (info, bar) in bars {
            let end = bar.base.0 + bar.size_bytes;
            if bar.contains(address) && last >= end {
                return refused(
                    InvalidArgument,
                    format!(
                        "{bytes} B at {address} reach beyond BAR{} of {}, which ends at {end:#x}",
                        bar.index, info.name
                    ),
                );
            }
        }
        Ok(())
    }
}

impl Drop for Shared {
    /// Abandons memory that the device may still write, which is never given back.
    fn drop(&mut self) {
        let given = self.given.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (_, abandoned) in given.abandoned.drain() {
            self.bus.abandon(Box::new(abandoned));
        }
    }
}

/// A channel that is open until this is dropped.
pub(crate) struct OpenChannel {
    pub shared: Arc<Shared>,
    pub key: ChannelKey,
    /// Interrupt vector of the channel, if it has one.
    pub vector: Option<u16>,
}

impl OpenChannel {
    /// Takes a channel, and a vector for it.
    pub fn take(shared: &Arc<Shared>, key: ChannelKey, options: ChannelOptions) -> Result<Self> {
        let (kind, number) = key;
        let have = shared.channels(kind);
        if number >= have {
            let problem = format!("there is no {kind} channel {number}: it has {have}, from 0 on");
            return Err(shared.refused(InvalidArgument, problem));
        }
        let mut given = lock(&shared.given);
        let place = shared.place(key);
        if given.channels.contains_key(&key) {
            return Err(DriverError::refused(place, Busy, "it is open already"));
        }
        let mut vector = None;
        if options.notification != Notification::Poll {
            let Some(free) = given.vectors.iter().position(|&taken| !taken) else {
                let problem = format!("all {} interrupt vectors are in use", given.vectors.len());
                return Err(DriverError::refused(place, Busy, problem));
            };
            given.vectors[free] = true;
            vector = Some(free as u16);
        }
        let before = given.channels.insert(key, options);
        assert!(before.is_none(), "{place} is opened twice: {before:?}");
        drop(given);
        Ok(Self { shared: Arc::clone(shared), key, vector })
    }

    /// Returns the offset of the channel's registers.
    pub fn registers(&self) -> u32 {
        channel_registers(self.key)
    }
}

impl Drop for OpenChannel {
    fn drop(&mut self) {
        let mut given = lock(&self.shared.given);
        given.channels.remove(&self.key);
        if let Some(vector) = self.vector {
            given.vectors[usize::from(vector)] = false;
        }
    }
}

pub(crate) const fn channel_registers((kind, number): ChannelKey) -> u32 {
    let array = match kind {
        ChannelKind::H2c => engine::H2C,
        ChannelKind::C2h => engine::C2H,
        ChannelKind::Peer => engine::PEER,
    };
    array.at(number as u32)
}
