// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open board with an engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crosslane_host::ErrorKind::{Failed, InvalidArgument, NotFound, Unsupported};
use crosslane_host::{Bus, DmaMemory, FunctionInfo, PageSize, RegisterAddress, TopologyError};
use crosslane_pcie::config::{PortType, registers as reg};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_regs::engine::{self, global};

use crate::buffer::{Buffer, lock};
use crate::channel::{Channel, ChannelKind, ChannelOptions};
use crate::connection;
use crate::error::DriverError;
use crate::peer::{Peer, PeerOptions};
use crate::ports::LOW_HALF;
use crate::shared::Shared;
use crate::user::User;

/// BAR of the registers.
pub(crate) const REGISTER_BAR: u8 = 0;
/// BAR of the receive queues.
pub(crate) const WINDOW_BAR: usize = 1;
/// Major version of the register map that this driver supports.
const MAJOR: u32 = global::version::MAJOR.get(global::VERSION_RESET);

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
pub struct Device<B: Bus> {
    bus: B,
    shared: Arc<Shared<B>>,
}

impl<B: Bus> Clone for Device<B> {
    fn clone(&self) -> Self {
        Self { bus: self.bus.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<B: Bus> fmt::Debug for Device<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} at {})", self.function().name, self.function().id)
    }
}

/// Lists the names of the endpoints of a tree.
fn endpoints(functions: &[FunctionInfo]) -> String {
    let names: Vec<&str> = functions
        .iter()
        .filter(|info| info.port_type == PortType::Endpoint)
        .map(|info| info.name.as_str())
        .collect();
    if names.is_empty() {
        "there are no endpoints".to_owned()
    } else {
        format!("endpoints are {}", names.join(", "))
    }
}

impl<B: Bus> Device<B> {
    /// Opens the engine of a function: checks that it is one and that its version matches, then
    /// enables memory space, bus mastering and interrupts. Open a function only once: clones of a
    /// device know each other's channels, two openings do not.
    ///
    /// # Errors
    /// No such function, no engine there, another version, or a refusal by the platform.
    pub async fn open(bus: B, function: RoutingId) -> Result<Self, DriverError> {
        let tree = |error: TopologyError| DriverError::Bus {
            device: function.to_string(),
            source: error.into(),
        };
        let functions = bus.functions().map_err(tree)?;
        let Some(info) = functions.iter().find(|info| info.id == function).cloned() else {
            let problem = format!("there is no such function; {}", endpoints(&functions));
            return Err(DriverError::refused(function.to_string(), NotFound, problem));
        };
        let refused = |kind, problem| DriverError::refused(&info.name, kind, problem);
        let bar = info.bars.iter().find(|bar| bar.index == usize::from(REGISTER_BAR));
        let bar_bytes = bar.map_or(0, |bar| bar.size_bytes);
        if bar_bytes < u64::from(engine::BYTES) {
            let need = engine::BYTES;
            return Err(refused(
                Unsupported,
                format!(
                    "it is no engine: BAR{REGISTER_BAR} has {bar_bytes} B, the register map needs \
                     {need} B"
                ),
            ));
        }
        let before = bus.config_read(function, reg::COMMAND).map_err(tree)?;
        let enabled = before | reg::COMMAND_MEMORY_SPACE | reg::COMMAND_BUS_MASTER;
        let on = before | reg::COMMAND_MEMORY_SPACE;
        bus.config_write(function, reg::COMMAND, on, LOW_HALF).map_err(tree)?;
        let description = match describe(&bus, &info).await {
            Ok(description) => description,
            Err(error) => {
                bus.config_write(function, reg::COMMAND, before, LOW_HALF).map_err(tree)?;
                return Err(error);
            }
        };
        bus.config_write(function, reg::COMMAND, enabled, LOW_HALF).map_err(tree)?;
        let shared = Arc::new(Shared::new(bus.clone(), info, description, functions));
        bus.enable_interrupts(function, description.vectors)
            .await
            .map_err(|source| shared.bus_error(source))?;
        Ok(Self { bus, shared })
    }

    /// Opens an engine by its function's name in the tree.
    ///
    /// # Errors
    /// See [`open`](Self::open); for an unknown name the error lists the endpoints.
    pub async fn open_by_name(bus: B, name: &str) -> Result<Self, DriverError> {
        let functions = bus
            .functions()
            .map_err(|error| DriverError::Bus { device: name.to_owned(), source: error.into() })?;
        let found =
            functions.iter().find(|info| info.name == name && info.port_type == PortType::Endpoint);
        let Some(found) = found else {
            let problem = format!("there is no such endpoint; {}", endpoints(&functions));
            return Err(DriverError::refused(name, NotFound, problem));
        };
        let id = found.id;
        Self::open(bus, id).await
    }

    /// Returns the same device with register accesses made by another core of the host.
    #[must_use]
    pub fn on_core(&self, core: u16) -> Self {
        Self { bus: self.bus.on_core(core), shared: Arc::clone(&self.shared) }
    }

    /// Returns the bus that it was opened on.
    #[must_use]
    pub fn bus(&self) -> &B {
        &self.bus
    }

    /// Returns the engine's function.
    #[must_use]
    pub fn function(&self) -> &FunctionInfo {
        &self.shared.function
    }

    /// Returns the engine's capabilities.
    #[must_use]
    pub fn description(&self) -> Description {
        self.shared.description
    }

    /// Returns the time that is `span` from now by the clock of the bus: a deadline.
    #[must_use]
    pub fn deadline(&self, span: Duration) -> Picoseconds {
        self.bus.after(span)
    }

    /// Reads the engine time, in clocks.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn time_clocks(&self) -> Result<u64, DriverError> {
        self.read_pair(engine::GLOBAL + global::TIME_LOW, engine::GLOBAL + global::TIME_HIGH).await
    }

    /// Allocates and registers memory.
    ///
    /// # Errors
    /// No memory, or it cannot be pinned.
    pub async fn buffer(&self, bytes: u64, pages: PageSize) -> Result<Buffer<B>, DriverError> {
        if bytes == 0 {
            return Err(self.shared.refused(InvalidArgument, "a buffer of 0 B is not possible"));
        }
        // Memory given back goes first: the new buffer may need its room.
        self.unpin_retired().await?;
        let memory = self.bus.allocate(bytes, pages);
        self.register(memory.map_err(|source| self.shared.bus_error(source))?).await
    }

    /// Registers memory: pins it and lets this device reach it. Memory registered with several
    /// devices is a separate buffer for each, and those do not know each other's transfers.
    ///
    /// # Errors
    /// It cannot be pinned, or has no bytes.
    pub async fn register(&self, memory: B::Memory) -> Result<Buffer<B>, DriverError> {
        if memory.size_bytes() == 0 {
            return Err(self.shared.refused(InvalidArgument, "memory of 0 B cannot be registered"));
        }
        self.unpin_retired().await?;
        let function = self.function();
        let segments = self.bus.pin(function.id, &memory).await;
        let segments = segments.map_err(|source| self.shared.bus_error(source))?;
        Ok(Buffer::new(
            self.bus.clone(),
            function.name.clone(),
            function.id,
            memory,
            segments,
            Arc::clone(&self.shared.retired),
        ))
    }

    /// Opens a channel: restarts it, sets it up and starts it.
    ///
    /// # Errors
    /// No such channel, one that is already open, or options that it does not support.
    pub async fn channel(
        &self,
        kind: ChannelKind,
        number: u8,
        options: ChannelOptions,
    ) -> Result<Channel<B>, DriverError> {
        Channel::open(self.clone(), (kind, number), options).await
    }

    /// Claims a receive queue of `target` for this device's peer channel `number` and sets up the
    /// credits between them.
    ///
    /// # Errors
    /// No free receive queue, no path (with the plan's reason), or a target in another host.
    pub async fn connect(
        &self,
        target: &Self,
        options: PeerOptions,
    ) -> Result<Peer<B>, DriverError> {
        connection::connect(self, target, options).await
    }

    /// Returns a handle on the user circuit.
    #[must_use]
    pub fn user(&self) -> User<B> {
        User::new(self.clone())
    }

    /// Clears the counters and hardware timers of all channels and receive queues.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn reset_counters(&self) -> Result<(), DriverError> {
        let reset = global::control::RESET_COUNTERS.put(1);
        self.write(engine::GLOBAL + global::CONTROL, reset).await
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<B>> {
        &self.shared
    }

    pub(crate) fn at(&self, offset: u32) -> RegisterAddress {
        let function = self.shared.function.id;
        RegisterAddress { function, bar: REGISTER_BAR, offset_bytes: offset.into() }
    }

    pub(crate) async fn read(&self, offset: u32) -> Result<u32, DriverError> {
        let read = self.bus.read_register(self.at(offset)).await;
        read.map_err(|source| self.shared.bus_error(source))
    }

    pub(crate) async fn write(&self, offset: u32, value: u32) -> Result<(), DriverError> {
        let written = self.bus.write_register(self.at(offset), value).await;
        written.map_err(|source| self.shared.bus_error(source))
    }

    /// Writes registers and reads them back: a write is posted, and nothing else would notice that
    /// a link lost it.
    pub(crate) async fn set(&self, registers: &[(u32, u32)]) -> Result<(), DriverError> {
        for &(register, value) in registers {
            self.write(register, value).await?;
        }
        for &(register, value) in registers {
            let held = self.read(register).await?;
            if held != value {
                let problem =
                    format!("register {register:#x} was set to {value:#x} and holds {held:#x}");
                return Err(self.shared.refused(Failed, problem));
            }
        }
        Ok(())
    }

    /// Reads a value of two registers: the read of the lower one latches the upper one.
    pub(crate) async fn read_pair(&self, low: u32, high: u32) -> Result<u64, DriverError> {
        let low = self.read(low).await?;
        Ok(u64::from(low) | u64::from(self.read(high).await?) << 32)
    }

    /// Unpins the memory of dropped buffers and channels.
    pub(crate) async fn unpin_retired(&self) -> Result<(), DriverError> {
        loop {
            let next = lock(&self.shared.retired).pop();
            let Some(memory) = next else { return Ok(()) };
            let unpinned = self.bus.unpin(self.function().id, &memory).await;
            unpinned.map_err(|source| self.shared.bus_error(source))?;
        }
    }
}

/// Reads an engine's capabilities.
async fn describe<B: Bus>(bus: &B, info: &FunctionInfo) -> Result<Description, DriverError> {
    let bus_error = |source| DriverError::Bus { device: info.name.clone(), source };
    let refused = |kind, problem| DriverError::refused(&info.name, kind, problem);
    let read = async |register: u32| {
        let offset_bytes = u64::from(engine::GLOBAL + register);
        let at = RegisterAddress { function: info.id, bar: REGISTER_BAR, offset_bytes };
        bus.read_register(at).await.map_err(bus_error)
    };
    let id = read(global::ID).await?;
    if id != global::ID_RESET {
        let want = global::ID_RESET;
        return Err(refused(
            Unsupported,
            format!("it is no engine: its first register is {id:#x} and not {want:#x}"),
        ));
    }
    let major = global::version::MAJOR.get(read(global::VERSION).await?);
    if major != MAJOR {
        return Err(refused(
            Unsupported,
            format!("its register map has version {major}, this driver is written for {MAJOR}"),
        ));
    }
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
        fetch_batch: read(global::FETCH_BATCH).await?,
        max_write_bytes: read(global::MAX_WRITE).await?,
        max_read_bytes: read(global::MAX_READ).await?,
        lane_fifo_bytes: read(global::LANE_FIFO).await?,
        lane_window_bytes: read(global::LANE_WINDOW).await?.into(),
        clock: Picoseconds(read(global::CLOCK).await?.into()),
    };
    Ok(description)
}
