// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open board with an engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crosslane_host::ErrorKind::InvalidArgument;
use crosslane_host::{AnyBus, AnyMemory, Bus, Call, DmaMemory, FunctionInfo, PageSize};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_regs::engine::{self, global};

use crate::access::{Access, Circuit, REGISTER_BAR, find_endpoint, find_function};
use crate::buffer::Buffer;
use crate::channel::{Channel, ChannelKind, ChannelOptions};
use crate::connection::{self, Peer, PeerOptions};
use crate::error::Result;
use crate::peer_memory::{self, PeerMemory};
use crate::shared::Shared;
use crate::user::User;

/// BAR of the receive queues.
pub(crate) const WINDOW_BAR: usize = 1;
/// BAR of the window into the card's memory, where an engine has one (`docs/engine.md`).
pub const CARD_MEMORY_BAR: u8 = 2;
/// The parts of every engine.
const ENGINE: Circuit = Circuit {
    name: "engine",
    bars: &[(REGISTER_BAR, engine::BYTES as u64)],
    id: (engine::GLOBAL + global::ID, global::ID_RESET),
    version: (engine::GLOBAL + global::VERSION, global::VERSION_RESET),
    major: global::version::MAJOR,
};

/// Capabilities of an engine, as its registers `global` report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Number of H2C channels.
    pub h2c_channels: u8,
    /// Number of C2H channels.
    pub c2h_channels: u8,
    /// Number of peer channels.
    pub peer_channels: u8,
    /// Number of receive queues.
    pub lanes: u8,
    /// Number of interrupt vectors.
    pub vectors: u16,
    /// Number of tags: the most reads in flight.
    pub tags: u16,
    /// Number of descriptors in each table.
    pub table_entries: u32,
    /// Most descriptors that one fetch asks for.
    pub fetch_batch: u32,
    /// Whether H2C and C2H channel 0 can reach the card's memory.
    pub card_memory: bool,
    /// Whether C2H channel 0 can copy within the card's memory.
    pub card_copy: bool,
    /// Whether H2C and C2H channel 0 have a packet mode.
    pub packets: bool,
    /// Whether each channel has a line into which descriptors are pushed with their doorbell.
    pub push: bool,
    /// Longest payload that it can build, bytes.
    pub max_write_bytes: u32,
    /// Longest read that it can ask for, bytes.
    pub max_read_bytes: u32,
    /// Size of each receive queue's FIFO, bytes.
    pub lane_fifo_bytes: u32,
    /// Part of BAR 1 for each receive queue, bytes.
    pub lane_window_bytes: u64,
    /// Duration of one clock of engine time.
    pub clock: Picoseconds,
}

/// An open engine. Clones are the same engine. Channels, receive queues and buffers are given out
/// once each and come back when they are dropped; close them if the device may need to be told, or
/// the next one opened tells it.
#[derive(Clone)]
pub struct Device {
    bus: AnyBus,
    shared: Arc<Shared>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} at {})", self.function().name, self.function().id)
    }
}

impl Device {
    /// Opens the engine of a function: checks that it is one and that its version matches, then
    /// enables memory space, bus mastering and interrupts. Open a function only once: clones of a
    /// device know each other's channels, two openings do not.
    ///
    /// # Errors
    /// No such function, no engine there, another version, or a refusal by the platform.
    pub async fn open(bus: impl Bus, function: RoutingId) -> Result<Self> {
        Self::on(AnyBus::new(bus), function).await
    }

    fn on(bus: AnyBus, function: RoutingId) -> Call<'static, Result<Self>> {
        Box::pin(async move {
            let (access, functions) = find_function(&bus, function)?;
            let description = access.open(&bus, &ENGINE, describe(&bus, &access)).await?;
            access.change_command(&bus, reg::COMMAND_BUS_MASTER, 0)?;
            let shared = Arc::new(Shared::new(bus.clone(), access, description, functions));
            bus.enable_interrupts(function, description.vectors)
                .await
                .map_err(|source| shared.bus_error(source))?;
            Ok(Self { bus, shared })
        })
    }

    /// Opens an engine by its function's name in the tree.
    ///
    /// # Errors
    /// See [`open`](Self::open); for an unknown name the error lists the endpoints.
    pub async fn open_by_name(bus: impl Bus, name: &str) -> Result<Self> {
        let bus = AnyBus::new(bus);
        let id = find_endpoint(&bus, name)?.function.id;
        Self::on(bus, id).await
    }

    /// Returns the same device with register accesses made by another core of the host.
    pub fn on_core(&self, core: u16) -> Self {
        Self { bus: self.bus.on_core(core), shared: Arc::clone(&self.shared) }
    }

    /// Returns the bus that it was opened on.
    pub fn bus(&self) -> &AnyBus {
        &self.bus
    }

    /// Returns the engine's function.
    pub fn function(&self) -> &FunctionInfo {
        &self.shared.access.function
    }

    /// Returns the engine's capabilities.
    pub fn description(&self) -> Description {
        self.shared.description
    }

    /// Returns the time that is `span` from now by the clock of the bus: a deadline.
    pub fn deadline(&self, span: Duration) -> Picoseconds {
        self.bus.after(span)
    }

    /// Reads the engine time, in clocks.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn time_clocks(&self) -> Result<u64> {
        self.read_pair(engine::GLOBAL + global::TIME_LOW, engine::GLOBAL + global::TIME_HIGH).await
    }

    /// Allocates and registers memory.
    ///
    /// # Errors
    /// No memory, or it cannot be pinned.
    pub async fn buffer(&self, bytes: u64, pages: PageSize) -> Result<Buffer> {
        if bytes == 0 {
            return Err(self.shared.refused(InvalidArgument, "a buffer of 0 B is not possible"));
        }
        // Memory given back goes first: the new buffer may need its room.
        self.unpin_retired().await?;
        self.register_any(self.shared.access.allocate(&self.bus, bytes, pages)?).await
    }

    /// Registers memory: pins it and lets this device reach it. Memory registered with several
    /// devices is a separate buffer for each, and those do not know each other's transfers.
    ///
    /// # Errors
    /// The memory cannot be pinned, or has no bytes.
    pub async fn register(&self, memory: impl DmaMemory) -> Result<Buffer> {
        self.register_any(AnyMemory::new(memory)).await
    }

    async fn register_any(&self, memory: AnyMemory) -> Result<Buffer> {
        if memory.size_bytes() == 0 {
            return Err(self.shared.refused(InvalidArgument, "memory of 0 B cannot be registered"));
        }
        self.unpin_retired().await?;
        self.shared.access.buffer(&self.bus, memory, &self.shared.retired).await
    }

    /// Opens a channel: restarts it, sets it up and starts it.
    ///
    /// # Errors
    /// No such channel, one that is already open, or options that it does not support.
    pub fn channel(
        &self,
        kind: ChannelKind,
        number: u8,
        options: ChannelOptions,
    ) -> Call<'static, Result<Channel>> {
        Box::pin(Channel::open(self.clone(), (kind, number), options))
    }

    /// Claims a receive queue of `target` for this device's peer channel `number` and sets up the
    /// credits between them.
    ///
    /// # Errors
    /// No free receive queue, no path (with the plan's reason), or a target in another host.
    pub fn connect<'a>(&'a self, target: &'a Self, options: PeerOptions) -> Call<'a, Result<Peer>> {
        Box::pin(connection::connect(self, target, options))
    }

    /// Opens memory behind a BAR of another function, such as the window into the memory of a card
    /// ([`CARD_MEMORY_BAR`]), so that H2C channels of this device can read it, and C2H channels
    /// write it. What is behind the BAR must be memory: it is read in long requests, and a part may
    /// be read twice. Its function must have been opened, by this driver or another.
    ///
    /// # Errors
    /// No such function or BAR below the same host, or no path (with the plan's reason).
    pub fn peer_memory(&self, function: RoutingId, bar: u8) -> Call<'_, Result<PeerMemory>> {
        Box::pin(peer_memory::open(self, function, bar))
    }

    /// Returns a handle on the user circuit.
    pub fn user(&self) -> User {
        User::new(self.clone())
    }

    /// Clears the counters and hardware timers of all channels and receive queues.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn reset_counters(&self) -> Result<()> {
        let reset = global::control::RESET_COUNTERS.put(1);
        self.write(engine::GLOBAL + global::CONTROL, reset).await
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) async fn read(&self, offset: u32) -> Result<u32> {
        self.shared.access.read(&self.bus, offset).await
    }

    pub(crate) async fn write(&self, offset: u32, value: u32) -> Result<()> {
        self.shared.access.write(&self.bus, offset, value).await
    }

    /// Writes registers and reads them back.
    pub(crate) async fn set(&self, registers: &[(u32, u32)]) -> Result<()> {
        self.shared.access.set(&self.bus, registers).await
    }

    /// Reads a value of two registers: the read of the lower one latches the upper one.
    pub(crate) async fn read_pair(&self, low: u32, high: u32) -> Result<u64> {
        let low = self.read(low).await?;
        Ok(u64::from(low) | u64::from(self.read(high).await?) << 32)
    }

    /// Unpins the memory of dropped buffers and channels.
    pub(crate) async fn unpin_retired(&self) -> Result<()> {
        self.shared.access.unpin_retired(&self.bus, &self.shared.retired).await
    }
}

/// Reads an engine's capabilities.
async fn describe(bus: &AnyBus, access: &Access) -> Result<Description> {
    let read = async |register: u32| access.read(bus, engine::GLOBAL + register).await;
    let (counts, sizes) = (read(global::COUNTS).await?, read(global::SIZES).await?);
    let description = Description {
        h2c_channels: global::counts::H2C.get(counts).min(engine::H2C.count) as u8,
        c2h_channels: global::counts::C2H.get(counts).min(engine::C2H.count) as u8,
        peer_channels: global::counts::PEER.get(counts).min(engine::PEER.count) as u8,
        lanes: global::counts::LANES.get(counts).min(engine::LANES.count) as u8,
        vectors: global::counts::VECTORS.get(counts) as u16,
        tags: global::sizes::TAGS.get(sizes) as u16,
        table_entries: global::sizes::TABLE_ENTRIES.get(sizes),
        card_memory: global::sizes::CARD_MEMORY.get(sizes) != 0,
        card_copy: global::sizes::CARD_COPY.get(sizes) != 0,
        packets: global::sizes::PACKETS.get(sizes) != 0,
        push: global::sizes::PUSH.get(sizes) != 0,
        fetch_batch: read(global::FETCH_BATCH).await?,
        max_write_bytes: read(global::MAX_WRITE).await?,
        max_read_bytes: read(global::MAX_READ).await?,
        lane_fifo_bytes: read(global::LANE_FIFO).await?,
        lane_window_bytes: read(global::LANE_WINDOW).await?.into(),
        clock: Picoseconds(read(global::CLOCK).await?.into()),
    };
    Ok(description)
}
