// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening a channel: checks the options, then restarts the channel and sets it up.

use std::collections::VecDeque;
use std::sync::Arc;

use crosslane_host::ErrorKind::{InvalidArgument, Unsupported};
use crosslane_host::{PageSize, Topology, lock};
use crosslane_pcie::units::RoutingId;
use crosslane_regs::engine::{self, channel, global};
use crosslane_regs::{ring_descriptor, table_descriptor};

use super::completion::Results;
use super::descriptors::{Descriptors, Pinned, StatusBlock};
use super::options::{ChannelKind, ChannelOptions, DescriptorSource, Statistics};
use super::recovery::stop_and_wait;
use super::{Channel, State, packets, push};
use crate::connection::{self, Connection};
use crate::device::Device;
use crate::error::{DriverError, Result};
use crate::plan::{self, PathEnd, PlanError};
use crate::ports::Port;
use crate::shared::{Abandoned, ChannelKey, OpenChannel};

/// Allowed number of descriptors in a ring (register `ring_entries`).
const RING_ENTRIES: std::ops::RangeInclusive<u32> = 16..=65_536;
/// Smallest payload: a TLP carries whole double words.
const LEAST_PAYLOAD_BYTES: u32 = 4;
/// Names of the TLPs that a payload size applies to.
const READS: &str = "read requests";
const WRITES: &str = "payloads";

impl Channel {
    /// See [`Device::channel`].
    pub(crate) async fn open(
        device: Device,
        key: ChannelKey,
        options: ChannelOptions,
    ) -> Result<Self> {
        let shared = Arc::clone(device.shared());
        let slot = OpenChannel::take(&shared, key, options)?;
        check_source(&device, key, options.descriptors)?;
        check_memory(&device, key, options)?;
        packets::check(&device, key, options)?;
        check_payload(&device, key, options).await?;
        let connection = match key {
            (ChannelKind::Peer, number) => shared.connection(number),
            _ => None,
        };
        payload_on_the_way(&device, key, options, connection.as_deref())?;
        // Stopped before the restart, in case its last user left it running.
        if lock(&shared.given).abandoned.contains_key(&key) {
            // A read in flight may arrive after the answers to this device's registers.
            stop_and_wait(&device, slot.registers(), 0).await?;
        } else {
            device.write(slot.registers() + channel::CONTROL, 0).await?;
        }
        connection::restart(&device, key, connection.as_deref()).await?;
        // From here on the device uses nothing of a previous owner.
        let abandoned = lock(&shared.given).abandoned.remove(&key);
        if let Some(Abandoned { memories, claims }) = abandoned {
            drop(claims);
            lock(&shared.retired).extend(memories);
        }
        device.unpin_retired().await?;
        let place = shared.place(key);
        let status = StatusBlock::new(&device, &place).await?;
        let descriptors = match options.descriptors {
            DescriptorSource::Ring { entries } => {
                let bytes = u64::from(entries) * u64::from(ring_descriptor::BYTES);
                let memory = Pinned::new(&device, &place, bytes, PageSize::Huge).await?;
                Descriptors::Ring { memory, entries }
            }
            DescriptorSource::Table => table(&device, key),
            DescriptorSource::CommandPort => Descriptors::CommandPort,
        };
        status.clear().map_err(|error| shared.bus_error(error))?;
        let line = push::open(&device, key, options);
        let mut channel = Self {
            baseline: error_baseline(device.bus()).map_err(|e| shared.bus_error(e.into()))?,
            device,
            slot,
            options,
            descriptors,
            status,
            state: State::Running,
            applied: connection.as_ref().map(Arc::downgrade),
            posted: 0,
            completed: 0,
            seen: 0,
            doorbell_due: false,
            line,
            line_due: None,
            unwritten: Vec::new(),
            has_unposted: false,
            is_closed: false,
            pending: VecDeque::new(),
            quarantine: Vec::new(),
            results: Results::default(),
            received: packets::Received::default(),
            next_ticket: 0,
            statistics: Statistics::default(),
        };
        channel.program().await?;
        if let Descriptors::CommandPort = channel.descriptors {
            channel.device.user().look_at_command_port().await?;
        }
        Ok(channel)
    }

    /// Writes the registers that keep their values through restarts, and starts the channel.
    async fn program(&mut self) -> Result<()> {
        let base = self.slot.registers();
        let mut registers = vec![(base + channel::VECTOR, self.slot.vector.unwrap_or(0).into())];
        if let Descriptors::Ring { memory, entries } = &self.descriptors {
            let ring = memory.address.0;
            registers.push((base + channel::RING_LOW, ring as u32));
            registers.push((base + channel::RING_HIGH, (ring >> 32) as u32));
            registers.push((base + channel::RING_ENTRIES, *entries));
        }
        let status = self.status.memory.address.0;
        registers.push((base + channel::STATUS_LOW, status as u32));
        registers.push((base + channel::STATUS_HIGH, (status >> 32) as u32));
        self.device.set(&registers).await?;
        let connection = self.connection();
        self.let_run(connection.as_deref()).await
    }

    /// Starts a channel that has been restarted.
    pub(super) async fn let_run(&self, connection: Option<&Connection>) -> Result<()> {
        let payload_bytes = payload_on_the_way(&self.device, self.key(), self.options, connection)?;
        let base = self.slot.registers();
        let control = (base + channel::CONTROL, self.running());
        self.device.set(&[(base + channel::PAYLOAD, payload_bytes), control]).await
    }

    /// Value of the control register while the channel runs.
    pub(super) fn running(&self) -> u32 {
        let source = match self.options.descriptors {
            DescriptorSource::Table => engine::DescriptorSource::Table,
            DescriptorSource::Ring { .. } => engine::DescriptorSource::Ring,
            DescriptorSource::CommandPort => engine::DescriptorSource::CommandPort,
        };
        channel::control::RUN.put(1)
            | channel::control::SOURCE.put(source.bits())
            | channel::control::STATUS_ENABLE.put(1)
            | channel::control::INTERRUPT_ENABLE.put(self.slot.vector.is_some().into())
            | channel::control::RELAXED_ORDERING.put(self.options.relaxed_ordering.into())
            | channel::control::OVERSIZE.put(self.options.oversize.into())
            | channel::control::CARD_MEMORY.put(self.options.card_memory.into())
            | channel::control::PACKETS.put(self.options.packets.into())
            | channel::control::DROP_PACKETS.put(self.options.drop_packets.into())
    }
}

/// Returns a channel's table in the engine.
fn table(device: &Device, (kind, _): ChannelKey) -> Descriptors {
    let memory = if kind == ChannelKind::H2c { engine::H2C_TABLE } else { engine::C2H_TABLE };
    let room = memory.bytes / table_descriptor::BYTES;
    let entries = device.description().table_entries.min(room);
    Descriptors::Table { base: memory.base, entries }
}

fn check_source(device: &Device, key: ChannelKey, source: DescriptorSource) -> Result<()> {
    let problem = match (source, key) {
        (DescriptorSource::Ring { entries }, _)
            if !entries.is_power_of_two() || !RING_ENTRIES.contains(&entries) =>
        {
            format!(
                "a ring of {entries} descriptors was asked for: powers of two from {} to {} are \
                 possible",
                RING_ENTRIES.start(),
                RING_ENTRIES.end()
            )
        }
        (DescriptorSource::Table, (ChannelKind::Peer, _) | (_, 1..)) => {
            "it has no descriptor table: H2C 0 and C2H 0 have one".to_owned()
        }
        (DescriptorSource::Table, _) if device.description().table_entries == 0 => {
            let problem = "its descriptor table has no entries";
            return Err(DriverError::refused(device.shared().place(key), Unsupported, problem));
        }
        (DescriptorSource::CommandPort, (kind, number))
            if (kind, number) != (ChannelKind::Peer, 0) =>
        {
            "the command port belongs to peer channel 0".to_owned()
        }
        _ => return Ok(()),
    };
    Err(DriverError::refused(device.shared().place(key), InvalidArgument, problem))
}

/// Checks that the channel can reach the card's memory, if asked to.
fn check_memory(device: &Device, key: ChannelKey, options: ChannelOptions) -> Result<()> {
    let (kind, problem) = match key {
        _ if !options.card_memory => return Ok(()),
        (ChannelKind::Peer, _) | (_, 1..) => {
            (InvalidArgument, "H2C 0 and C2H 0 reach the card's memory")
        }
        _ if !device.description().card_memory => {
            (Unsupported, "its engine does not reach the card's memory")
        }
        _ => return Ok(()),
    };
    Err(DriverError::refused(device.shared().place(key), kind, problem))
}

/// Checks the payload asked for against the engine's limits and the read size in force;
/// [`payload_on_the_way`] checks writes against their path.
async fn check_payload(device: &Device, key: ChannelKey, options: ChannelOptions) -> Result<()> {
    let place = device.shared().place(key);
    let refused = |kind, problem| Err(DriverError::refused(place, kind, problem));
    let Some(bytes) = options.payload_bytes else {
        if options.oversize {
            return refused(InvalidArgument, "oversize needs payload_bytes".to_owned());
        }
        return Ok(());
    };
    let description = device.description();
    let (what, most_bytes) = match key.0 {
        ChannelKind::H2c => (READS, description.max_read_bytes),
        ChannelKind::C2h | ChannelKind::Peer => (WRITES, description.max_write_bytes),
    };
    if !bytes.is_power_of_two() || bytes < LEAST_PAYLOAD_BYTES {
        return refused(
            InvalidArgument,
            format!(
                "{what} of {bytes} B were asked for: powers of two from {LEAST_PAYLOAD_BYTES} on \
                 are possible"
            ),
        );
    }
    if bytes > most_bytes {
        return refused(
            Unsupported,
            format!(
                "{what} of {bytes} B were asked for, and the engine builds up to {most_bytes} B"
            ),
        );
    }
    if key.0 == ChannelKind::H2c && !options.oversize {
        let in_force = device.read(engine::GLOBAL + global::IN_FORCE).await?;
        let in_force_bytes = global::in_force::MAX_READ_REQUEST.get(in_force);
        if bytes > in_force_bytes {
            return refused(
                Unsupported,
                format!(
                    "{what} of {bytes} B were asked for, and Max_Read_Request_Size is set to \
                     {in_force_bytes} B"
                ),
            );
        }
    }
    Ok(())
}

/// Returns the value for the payload register. A longer payload than some port of the path takes
/// would be lost there without a word to the host.
pub(crate) fn payload_on_the_way(
    device: &Device,
    key: ChannelKey,
    options: ChannelOptions,
    connection: Option<&Connection>,
) -> Result<u32> {
    let asked_bytes = options.payload_bytes;
    if key.0 == ChannelKind::H2c || options.oversize {
        return Ok(asked_bytes.unwrap_or(0));
    }
    let bus = device.bus();
    let here = PathEnd::Function(device.function().id);
    let ports = match (key.0, connection) {
        (ChannelKind::Peer, Some(connection)) => {
            plan::path(bus, here, PathEnd::Function(connection.target_id()))?
        }
        // It may write anywhere except behind a link that is down.
        (ChannelKind::Peer, None) => {
            let functions = bus.functions().map_err(PlanError::from)?;
            functions.into_iter().filter(|info| Port::new(bus, info).is_ok()).collect()
        }
        _ => plan::path(bus, here, PathEnd::HostMemory)?,
    };
    let (most_bytes, port) = plan::least_payload(bus, &ports).map_err(PlanError::from)?;
    match asked_bytes {
        Some(bytes) if bytes > most_bytes => Err(DriverError::refused(
            device.shared().place(key),
            Unsupported,
            format!(
                "{WRITES} of {bytes} B were asked for, and Max_Payload_Size of {port} is set to \
                 {most_bytes} B"
            ),
        )),
        asked_bytes => Ok(asked_bytes.unwrap_or(most_bytes)),
    }
}

/// Returns the error bits of every port of the tree that answers: a link that is down must not
/// block channels elsewhere.
fn error_baseline(
    topology: &dyn Topology,
) -> Result<Vec<(RoutingId, u32)>, crosslane_host::TopologyError> {
    let functions = topology.functions()?;
    let bits = |info| Port::new(topology, info).and_then(|port| port.detected_errors());
    Ok(functions.iter().filter_map(|info| Some((info.id, bits(info).ok()?))).collect())
}
