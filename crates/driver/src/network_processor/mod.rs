// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host side of the network processor (`docs/network-processor.md`): gets, credits and puts
//! between host memory and torus links.
//!
//! Read first: [`NetworkProcessor`], [`Message`], [`Modes`]; crate `crosslane-torus` has sends and
//! receives on top.

mod error;
mod flights;
mod links;
mod memory;
mod messages;
mod options;
mod put;
mod request;
mod shared;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crosslane_host::ErrorKind::{InvalidArgument, Timeout, Unsupported};
use crosslane_host::{
    AnyBus, AnyMemory, Bus, Call, DmaMemory, FunctionInfo, HostWork, Mapping, PageSize, lock,
};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::network_processor as map;

pub use error::{NetworkError, NetworkFault};
pub use links::{LinkCounters, LinkMargins, LinkStatus, TorusDimension};
pub use messages::InFlight;
pub use options::{
    Buffers, CHANNELS, Ended, Key, LONG_PAYLOAD_BYTES, MAX_MESSAGE_BYTES, MAX_PAYLOADS, Message,
    Modes, PAYLOAD_BYTES, Requests, ScatteredMessage, TAGS,
};

pub use crosslane_regs::network_processor::{LinkMode, LinkState};

use crate::access::{Access, Circuit, REGISTER_BAR, find_endpoint};
use crate::buffer::{Buffer, Retired};
use crate::error::Result;
use shared::{Pinned, Shared};

const REQUEST_BAR: u8 = 2;
/// Offset of the credit slots in that BAR.
const CREDIT_WINDOW: u64 = 0x4000;
/// Most slots of a request aperture.
const MAX_SLOTS: u32 = 256;
const PUT_BAR: u8 = 4;
/// The parts of every network processor.
const NETWORK_PROCESSOR: Circuit = Circuit {
    name: "network processor",
    bars: &[(REGISTER_BAR, map::BYTES as u64), (REQUEST_BAR, 2 * CREDIT_WINDOW), (PUT_BAR, 1)],
    id: (map::ID, map::ID_RESET),
    version: (map::VERSION, map::VERSION_RESET),
    major: map::version::MAJOR,
};
/// Longest duration of a reset: unanswered reads of host memory time out within it.
const RESET_PATIENCE: Picoseconds = Picoseconds::from_ms(200);
/// First pause between two polls of a register; doubled each time.
const FIRST_LOOK: Picoseconds = Picoseconds::from_us(1);
/// Longest pause between two polls.
const LONGEST_LOOK: Picoseconds = Picoseconds::from_ms(1);

/// Capabilities of a network processor, as its registers report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkSizes {
    /// Number of links.
    pub links: u8,
    /// Most get requests in flight.
    pub get_slots: u32,
    /// Most credits in flight.
    pub credit_slots: u32,
    /// Most put datagrams of each channel in the aperture.
    pub put_slots: u32,
    /// Whether datagrams carry 256 B, not 128 B.
    pub long_datagrams: bool,
}

impl NetworkSizes {
    /// Returns the bytes of a datagram's payload, 128 or 256.
    pub const fn payload_bytes(&self) -> u64 {
        if self.long_datagrams { LONG_PAYLOAD_BYTES } else { PAYLOAD_BYTES }
    }

    /// Returns the distance between slots of the put aperture, bytes.
    const fn put_stride_bytes(&self) -> u64 {
        2 * self.payload_bytes()
    }
}

/// Counters of a network processor since its reset; they wrap at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Get messages taken.
    pub gets: u32,
    /// Credits taken.
    pub credits: u32,
    /// Put datagrams taken.
    pub puts: u32,
    /// Requests and puts refused.
    pub refused: u32,
    /// Datagrams passed on to another node.
    pub forwarded: u32,
    /// Routed datagrams dropped.
    pub misrouted: u32,
    /// Datagrams that currently wait for a credit.
    pub waiting: u32,
}

/// An open network processor. Clones are the same device.
///
/// Memory of a message belongs to the device until the driver has seen its notification. Futures
/// and handles may be dropped at any time: a get then runs to its end, a credit is taken back with
/// the next call, and the memory of both is kept until the device has finished with it. Stores in
/// progress when their future is dropped are completed.
#[derive(Clone)]
pub struct NetworkProcessor {
    bus: AnyBus,
    shared: Arc<Shared>,
    /// Whether stores of this handle's core may still be in its combining buffers: only a fence of
    /// the same core flushes them.
    fence_due: Arc<AtomicBool>,
}

impl fmt::Debug for NetworkProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FunctionInfo { name, id, .. } = &self.shared.access.function;
        write!(f, "NetworkProcessor({name} at {id}, {:?})", self.shared.modes)
    }
}

impl NetworkProcessor {
    /// Opens the network processor of a function: checks that it is one and that its version
    /// matches, enables memory space and bus mastering, resets it and gives it memory for counts.
    /// Open a function only once: two openings do not know of each other.
    ///
    /// Puts are stored write-combined if their aperture can be mapped like that, else uncached; see
    /// [`put_mapping`](Self::put_mapping).
    ///
    /// # Errors
    /// No such endpoint, one of another kind or version, modes that the host does not support, or a
    /// refusal by the platform.
    pub async fn init(bus: impl Bus, name: &str, modes: Modes) -> Result<Self> {
        Self::on(AnyBus::new(bus), name, modes).await
    }

    fn on(bus: AnyBus, name: &str, modes: Modes) -> Call<'_, Result<Self>> {
        Box::pin(async move {
            let access = find_endpoint(&bus, name)?;
            let function = access.function.id;
            access.check_bars(&NETWORK_PROCESSOR)?;
            let failed = |error| access.failed(error);
            bus.check_waiting(modes.waiting).map_err(failed)?;
            if let Requests::Stores(mapping) = modes.requests {
                bus.check_mapping(function, REQUEST_BAR, mapping).map_err(failed)?;
            }
            let combined = bus.check_mapping(function, PUT_BAR, Mapping::WriteCombined);
            let put_mapping =
                if combined.is_ok() { Mapping::WriteCombined } else { Mapping::Uncached };
            let sizes = access.open(&bus, &NETWORK_PROCESSOR, describe(&bus, &access)).await?;
            access.change_command(&bus, reg::COMMAND_BUS_MASTER, 0)?;
            // Nothing from an earlier use may write into memory pinned now.
            reset_and_wait(&bus, &access).await?;
            let slots = [sizes.get_slots, sizes.credit_slots];
            let words_bytes = u64::from(flights::words(slots)) * flights::WORD_STRIDE;
            let words = Pinned::new(&bus, &access, words_bytes).await?;
            let counts = Pinned::new(&bus, &access, put::COUNTS_BYTES).await?;
            let shared = Shared::new(bus.clone(), access, sizes, modes, put_mapping, words, counts);
            let shared = Arc::new(shared);
            let opened = Self { bus, shared, fence_due: Arc::default() };
            opened.set_up().await?;
            Ok(opened)
        })
    }

    /// Tells the device the address of the counts of puts.
    async fn set_up(&self) -> Result<()> {
        let at = self.shared.counts.address(0);
        let registers =
            [(map::PUT_COUNTS_LOW, at.0 as u32), (map::PUT_COUNTS_HIGH, (at.0 >> 32) as u32)];
        self.shared.access.set(&self.bus, &registers).await
    }

    /// Resets the device: all messages end with [`NetworkFault::Reset`], links go down, and the
    /// node loses its position in a torus.
    ///
    /// # Errors
    /// The device does not answer, or does not become quiet: then the memory of messages in flight
    /// is kept.
    pub async fn reset(&self) -> Result<()> {
        self.send_off().await.map_err(|error| self.shared.access.failed(error))?;
        reset_and_wait(&self.bus, &self.shared.access).await?;
        self.reap();
        lock(&self.shared.flights).end_all(self.bus.now());
        *lock(&self.shared.place) = None;
        self.shared.counts.clear();
        lock(&self.shared.puts).clear();
        self.set_up().await
    }

    /// Resets the device, disables its bus mastering and unpins all of its memory that is no longer
    /// in use. Other clones are useless from then on.
    ///
    /// # Errors
    /// See [`reset`](Self::reset).
    pub async fn release(self) -> Result<()> {
        self.reset().await?;
        self.write_raw(map::PUT_COUNTS_LOW, 0).await?;
        self.write_raw(map::PUT_COUNTS_HIGH, 0).await?;
        reset_and_wait(&self.bus, &self.shared.access).await?;
        self.shared.access.change_command(&self.bus, 0, reg::COMMAND_BUS_MASTER)?;
        lock(&self.shared.flights).clear_kept();
        self.unpin_retired().await?;
        for pinned in [&self.shared.words, &self.shared.counts] {
            if pinned.take_registration() {
                self.shared.access.unpin(&self.bus, &pinned.memory).await?;
            }
        }
        Ok(())
    }

    /// Returns the same device with stores and waits made by another core of the host.
    pub fn on_core(&self, core: u16) -> Self {
        let shared = Arc::clone(&self.shared);
        Self { bus: self.bus.on_core(core), shared, fence_due: Arc::default() }
    }

    /// Returns the bus that it was opened on.
    pub fn bus(&self) -> &AnyBus {
        &self.bus
    }

    /// Returns its name in the tree.
    pub fn name(&self) -> &str {
        &self.shared.access.function.name
    }

    /// Returns its capabilities.
    pub fn sizes(&self) -> NetworkSizes {
        self.shared.sizes
    }

    /// Returns the driver's modes.
    pub fn modes(&self) -> Modes {
        self.shared.modes
    }

    /// Returns the mapping by which puts are stored.
    pub fn put_mapping(&self) -> Mapping {
        self.shared.put_mapping
    }

    /// Allocates memory for messages according to [`Modes::buffers`]: registered pages, pages that
    /// no device reaches, or one contiguous piece if possible.
    ///
    /// # Errors
    /// No memory, or it cannot be pinned.
    pub async fn buffer(&self, bytes: u64) -> Result<Buffer> {
        self.unpin_retired().await?;
        let pages = match self.shared.modes.buffers {
            Buffers::User | Buffers::Copied => PageSize::Small,
            Buffers::Mapped => PageSize::Huge,
        };
        self.register_any(self.shared.access.allocate(&self.bus, bytes, pages)?).await
    }

    /// Makes the program's memory usable for messages: registers it, unless [`Modes::buffers`] is
    /// [`Buffers::Copied`].
    ///
    /// # Errors
    /// The memory cannot be pinned, or has no bytes.
    pub async fn register(&self, memory: impl DmaMemory) -> Result<Buffer> {
        self.register_any(AnyMemory::new(memory)).await
    }

    async fn register_any(&self, memory: AnyMemory) -> Result<Buffer> {
        if memory.size_bytes() == 0 {
            return Err(self
                .shared
                .access
                .refused(InvalidArgument, "memory of 0 B is not possible"));
        }
        let access = &self.shared.access;
        if self.shared.modes.buffers == Buffers::Copied {
            // Not registered, so never to be unpinned.
            let (bus, function) = (self.bus.clone(), &access.function);
            return Ok(Buffer::new(bus, function, memory, Vec::new(), Retired::default()));
        }
        access.buffer(&self.bus, memory, &self.shared.retired).await
    }

    /// Unpins the memory of dropped buffers.
    async fn unpin_retired(&self) -> Result<()> {
        self.shared.access.unpin_retired(&self.bus, &self.shared.retired).await
    }

    /// Reads a register, by a system call if requests are made by one.
    ///
    /// # Errors
    /// No such register, or no answer.
    pub async fn read(&self, offset: u32) -> Result<u32> {
        self.call().await;
        self.read_raw(offset).await
    }

    /// Writes a register, by a system call if requests are made by one.
    ///
    /// # Errors
    /// No such register.
    pub async fn write(&self, offset: u32, value: u32) -> Result<()> {
        self.call().await;
        self.write_raw(offset, value).await
    }

    /// Reads its counters.
    ///
    /// # Errors
    /// No answer.
    pub async fn counters(&self) -> Result<NetworkCounters> {
        self.call().await;
        Ok(NetworkCounters {
            gets: self.read_raw(map::GETS).await?,
            credits: self.read_raw(map::CREDITS).await?,
            puts: self.read_raw(map::PUTS).await?,
            refused: self.read_raw(map::REFUSED).await?,
            forwarded: self.read_raw(map::FORWARDED).await?,
            misrouted: self.read_raw(map::MISROUTED).await?,
            waiting: self.read_raw(map::WAITING).await?,
        })
    }

    /// Spends the time of a system call if the mode has one.
    async fn call(&self) {
        if self.shared.modes.requests == Requests::SystemCall {
            self.bus.work(HostWork::SystemCall).await;
        }
    }

    async fn read_raw(&self, offset: u32) -> Result<u32> {
        self.shared.access.read(&self.bus, offset).await
    }

    async fn write_raw(&self, offset: u32, value: u32) -> Result<()> {
        self.shared.access.write(&self.bus, offset, value).await
    }
}

/// Reads the device's capabilities.
async fn describe(bus: &AnyBus, access: &Access) -> Result<NetworkSizes> {
    let read = async |offset: u32| access.read(bus, offset).await;
    let (sizes, puts) = (read(map::SIZES).await?, read(map::PUT_SIZES).await?);
    let sizes = NetworkSizes {
        links: map::sizes::LINKS.get(sizes).min(map::LINKS.count) as u8,
        get_slots: map::sizes::GET_SLOTS.get(sizes).min(MAX_SLOTS),
        credit_slots: map::sizes::CREDIT_SLOTS.get(sizes).min(MAX_SLOTS),
        put_slots: map::put_sizes::SLOTS.get(puts),
        long_datagrams: map::put_sizes::LONG.get(puts) != 0,
    };
    if sizes.get_slots == 0 || sizes.credit_slots == 0 || sizes.links == 0 {
        return Err(access.refused(Unsupported, format!("it says that it has no use: {sizes:?}")));
    }
    Ok(sizes)
}

/// Resets the device, and waits until it writes nothing more.
async fn reset_and_wait(bus: &AnyBus, access: &Access) -> Result<()> {
    access.write(bus, map::CONTROL, map::control::RESET.put(1)).await?;
    let deadline = Picoseconds(bus.now().0.saturating_add(RESET_PATIENCE.0));
    let mut pause = FIRST_LOOK;
    loop {
        if map::status::QUIET.get(access.read(bus, map::STATUS).await?) != 0 {
            return Ok(());
        }
        if bus.now() >= deadline {
            let problem = format!("it is not quiet {RESET_PATIENCE} after a reset");
            return Err(access.refused(Timeout, problem));
        }
        bus.sleep_until(bus.now() + pause).await;
        pause = Picoseconds(2 * pause.0).min(LONGEST_LOOK);
    }
}
