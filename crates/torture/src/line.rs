// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A channel in a seed: opened, posted to, waited for, cancelled, dropped and reopened at random.
//! `endings.rs` checks its reports against the faults, `words.rs` every byte that it moves or must
//! not move.

use std::ops::Range;
use std::rc::Rc;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Device,
    DriverError, INLINE_BYTES, Notification, Peer, PeerOptions, StreamSource, Target, Ticket,
    Transfer,
};
use crosslane_fabric::MemoryFault;
use crosslane_host::{Bus, PageSize};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use crosslane_random::Random;

use crate::check::{Check, check};
use crate::endings::Outcome;
use crate::fault::{Engines, Fault};
use crate::scene::{World, us};
use crate::stream;

/// Attempts until a channel runs again: far longer than any fault of a seed lasts.
pub(crate) const TRIES: u32 = 3_000;
/// Target of a peer channel without a peer: no device has this address.
pub(crate) const NOWHERE: BusAddress = BusAddress(0x9000_0000);
/// Length of that range: longer than any transfer to it.
const NOWHERE_BYTES: u64 = 1 << 24;

/// Whether an address lies in that range.
pub(crate) fn is_nowhere(address: BusAddress) -> bool {
    (NOWHERE.0..NOWHERE.0 + NOWHERE_BYTES).contains(&address.0)
}

/// The target of a peer channel.
pub(crate) struct Far {
    pub receiver: Device,
    pub options: PeerOptions,
    /// The receiver's route for the receive queue.
    pub route: FarRoute,
    pub peer: Option<Peer>,
}

/// Route of the data of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarRoute {
    /// Drained by the engine.
    Drained,
    /// Into host memory.
    C2h,
    /// To the next engine.
    Peer,
}

/// Memory with a fault under an H2C transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BadWord {
    /// The transfer's index in the batch, and the byte in it.
    pub index: usize,
    pub offset: u64,
    pub address: u64,
    /// The memory address; differs behind an IOMMU.
    pub target: u64,
    pub fault: Fault,
    /// Number of the fault in the diary.
    entry: usize,
}

/// A channel, and the state of its stream.
pub(crate) struct Line {
    pub world: Rc<World>,
    pub device: Device,
    pub key: (ChannelKind, u8),
    pub rng: Random,
    /// Seed of its stream.
    pub seed: u32,
    /// Engine of the channel.
    pub own: Engines,
    /// All engines on the path of its stream.
    pub touches: Engines,
    /// Whether it needs progress elsewhere to end: every deadline is then finite.
    pub depends: bool,
    /// Whether the engine's checker compares what an H2C channel reads.
    pub checked: bool,
    /// Longest pause between two rounds, for slow readers.
    pub pause: Picoseconds,
    pub far: Option<Far>,
    pub channel: Option<Channel>,
    /// Whether its descriptors are stored into the engine.
    pub has_table: bool,
    pub buffer: Option<Buffer>,
    /// Size of its buffer, bytes; the longest transfer depends on it.
    pub buffer_bytes: u64,
    /// Next word of the stream.
    pub position: u32,
    /// Whether that position is certain.
    pub exact: bool,
    /// Tickets of the open channel.
    pub tickets: u64,
    /// Bytes known to be complete, and whether all ends were known.
    pub whole_bytes: u64,
    pub all_known: bool,
    /// A time after which the channel was seen to run.
    pub proven: Picoseconds,
    /// Whether a cancel of this line may have ended transfers in flight.
    pub cancelled: bool,
    pub bad: Option<BadWord>,
    /// Times that the channel was restarted.
    pub upsets: u64,
    pub words: u64,
    pub transfers: u64,
}

impl Line {
    pub fn new(
        world: &Rc<World>,
        device: &Device,
        key: (ChannelKind, u8),
        rng: &mut Random,
        seed: u32,
    ) -> Self {
        let own = world.engine(&device.function().name);
        Self {
            world: Rc::clone(world),
            device: device.on_core(rng.u16(..)),
            key,
            rng: rng.fork(),
            seed,
            own,
            touches: own,
            depends: false,
            checked: false,
            pause: Picoseconds::ZERO,
            far: None,
            channel: None,
            has_table: false,
            buffer: None,
            buffer_bytes: [16 << 10, 64 << 10, 256 << 10][rng.usize(..3)],
            position: 0,
            exact: true,
            tickets: 0,
            whole_bytes: 0,
            all_known: true,
            proven: Picoseconds::ZERO,
            cancelled: false,
            bad: None,
            upsets: 0,
            words: 0,
            transfers: 0,
        }
    }

    pub fn name(&self) -> String {
        format!("{} {} {}", self.device.function().name, self.key.0, self.key.1)
    }

    pub fn note(&self, line: impl FnOnce() -> String) {
        self.world.note(|| format!("{}: {}", self.name(), line()));
    }

    /// Whether an engine on the path of its stream is gone for good.
    pub fn is_over(&self) -> bool {
        self.world.is_gone(self.touches)
    }

    /// Checks that an error was caused by a fault, or is an expected refusal.
    pub fn expect(&self, error: &DriverError) {
        let is_refusal = matches!(
            error,
            DriverError::TooManyDescriptors { .. }
                | DriverError::StillArriving { .. }
                | DriverError::Stopped { .. }
        );
        let is_known = is_refusal || self.world.has_lately(self.touches, Fault::cuts_off);
        check!(
            Check::RightError,
            is_known,
            "{}: nothing was done to it, and yet: {error}",
            self.name()
        );
    }

    pub fn channel(&mut self) -> &mut Channel {
        self.channel.as_mut().expect("the line is open")
    }

    fn random_options(&mut self) -> ChannelOptions {
        let rng = &mut self.rng;
        let (kind, number) = self.key;
        let has_table = kind != ChannelKind::Peer && number == 0;
        let descriptors = match rng.u8(..4) {
            0 if has_table => DescriptorSource::Table,
            0 | 1 => DescriptorSource::Ring { entries: 16 },
            2 => DescriptorSource::Ring { entries: 64 },
            _ => DescriptorSource::Ring { entries: 1024 },
        };
        let notification = if rng.bool() { Notification::Poll } else { Notification::Interrupt };
        let payload_bytes = rng.bool().then(|| 1 << rng.u32(4..=7));
        // Data into a receive queue must stay in order.
        let relaxed_ordering = kind != ChannelKind::Peer && rng.bool();
        ChannelOptions::default()
            .with_descriptors(descriptors)
            .with_notification(notification)
            .with_payload_bytes(payload_bytes)
            .with_relaxed_ordering(relaxed_ordering)
    }

    /// Opens the channel, retrying for as long as faults prevent it. It stays closed if an engine
    /// of its stream is gone.
    pub async fn open(&mut self) {
        self.upsets += 1;
        self.connect().await;
        self.take_buffer().await;
        for _ in 0..TRIES {
            if self.is_over() {
                return;
            }
            let options = self.random_options();
            let begun = self.world.bus.now();
            match self.device.channel(self.key.0, self.key.1, options).await {
                Ok(channel) => {
                    self.note(|| format!("open: {options:?}"));
                    self.has_table = options.descriptors == DescriptorSource::Table;
                    self.channel = Some(channel);
                    (self.tickets, self.whole_bytes, self.all_known) = (0, 0, true);
                    self.proven = begun;
                    return;
                }
                Err(error) => self.expect(&error),
            }
            self.world.sleep(us(300)).await;
        }
        Check::NoHang.fail(format!("{}: it cannot be opened any more", self.name()));
    }

    /// Allocates and registers a buffer if the line has none. An engine that is gone accepts no
    /// registration.
    async fn take_buffer(&mut self) {
        if self.key.0 == ChannelKind::Peer || self.buffer.is_some() {
            return;
        }
        for _ in 0..TRIES {
            let pages = if self.rng.bool() { PageSize::Small } else { PageSize::Huge };
            match self.device.buffer(self.buffer_bytes, pages).await {
                Ok(buffer) => {
                    let guard = stream::guard(self.seed, self.buffer_bytes);
                    buffer.write(0, &guard).expect("nothing is in flight");
                    self.buffer = Some(buffer);
                    return;
                }
                Err(error) => self.expect(&error),
            }
            if self.is_over() {
                return;
            }
            self.world.sleep(us(300)).await;
        }
        Check::NoHang.fail(format!("{}: nothing can be registered any more", self.name()));
    }

    /// Unregisters the buffer; the next opening or round takes another.
    async fn give_buffer(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        if self.rng.bool() {
            return;
        }
        match buffer.unregister().await {
            Ok(memory) if self.rng.bool() => {
                let registered = self.device.register(memory).await;
                self.buffer = registered.ok();
            }
            Ok(_) => {}
            Err(error) => Check::Buffers.fail(format!("{}: {error}", self.name())),
        }
    }

    /// Connects a peer channel that is not connected.
    pub async fn connect(&mut self) {
        for _ in 0..TRIES {
            let is_over = self.is_over();
            let Some(far) = &mut self.far else { return };
            if far.peer.is_some() || is_over {
                return;
            }
            let connected = self.device.connect(&far.receiver, far.options).await;
            let routed = match connected {
                Ok(peer) => {
                    let lane = StreamSource::ReceiveQueue(peer.receive_queue());
                    far.peer = Some(peer);
                    let user = far.receiver.user();
                    match far.route {
                        FarRoute::Drained => return,
                        FarRoute::C2h => user.route(lane, StreamSource::Generator).await,
                        FarRoute::Peer => user.route(StreamSource::Generator, lane).await,
                    }
                }
                Err(error) => Err(error),
            };
            match routed {
                Ok(()) => return,
                Err(error) => self.expect(&error),
            }
            if let Some(far) = &mut self.far {
                far.peer = None;
            }
            self.world.sleep(us(300)).await;
        }
        Check::NoHang.fail(format!("{}: it cannot be connected any more", self.name()));
    }

    /// Returns parts of the buffer that do not overlap, in order; for a peer channel, only their
    /// lengths matter.
    fn random_parts(&mut self) -> Vec<Range<u64>> {
        let (rng, buffer_bytes) = (&mut self.rng, self.buffer_bytes);
        let mut parts = Vec::new();
        let mut at = 4 * rng.u64(..1024);
        for _ in 0..rng.u8(1..=6) {
            let most_words = [4, 64, 1024, 4096, 16_384][rng.usize(..5)].min(buffer_bytes / 8);
            let bytes = 4 * rng.u64(1..=most_words);
            if at + bytes > buffer_bytes {
                break;
            }
            parts.push(at..at + bytes);
            at += bytes + 4 * [0, 1, rng.u64(..2048)][rng.usize(..3)];
        }
        parts
    }

    fn random_level(&mut self) -> CompletionLevel {
        let has_credits = self.far.as_ref().is_some_and(|far| far.options.credits);
        match (self.rng.u8(..5), self.key.0) {
            (0, _) => CompletionLevel::Accepted,
            (1 | 2, ChannelKind::Peer) if has_credits => CompletionLevel::Acknowledged,
            (_, ChannelKind::Peer) | (1, _) => CompletionLevel::Sent,
            _ => CompletionLevel::Visible,
        }
    }

    fn random_deadline(&mut self) -> Picoseconds {
        let now = self.world.bus.now();
        match self.rng.u8(..8) {
            0 => Picoseconds(now.0 + self.rng.u64(..30_000_000)),
            1 | 2 => now + us(self.rng.u64(30..500)),
            3.. if self.depends => now + us(self.rng.u64(500..8_000)),
            _ => Picoseconds::NEVER,
        }
    }

    /// Fills the parts: with the stream for reads, or with guards for writes.
    fn prepare(&mut self, parts: &[Range<u64>]) {
        let Some(buffer) = &self.buffer else { return };
        let mut position = self.position;
        for part in parts {
            let bytes = part.end - part.start;
            let data = match self.key.0 {
                ChannelKind::H2c => stream::words(self.seed, position, bytes),
                _ => stream::guard(self.seed, bytes),
            };
            position += (bytes / 4) as u32;
            buffer.write(part.start, &data).expect("nothing is in flight");
        }
        if self.key.0 == ChannelKind::H2c && !parts.is_empty() && self.rng.u8(..12) == 0 {
            self.spoil(parts);
        }
    }

    /// Sets a fault in the memory under one word of an H2C transfer.
    fn spoil(&mut self, parts: &[Range<u64>]) {
        let index = self.rng.usize(..parts.len());
        let part = &parts[index];
        // Data that go to the engine with their descriptor are not read.
        let pushes = self.channel.as_ref().is_some_and(Channel::pushes);
        if pushes && part.end - part.start <= INLINE_BYTES {
            return;
        }
        let offset = 4 * self.rng.u64(..(part.end - part.start) / 4);
        let number = self.own.trailing_zeros() as usize;
        // While its tag is kept out of use: even later, it might be taken for another read's
        // answer.
        let timeout = self.world.engines[number].timeout;
        let late = Picoseconds(timeout.0 + self.rng.u64(timeout.0 / 4..timeout.0 * 3 / 4));
        let (fault, memory) = [
            (Fault::Poisoned, MemoryFault::Poisoned),
            (Fault::CompleterAbort, MemoryFault::CompleterAbort),
            (Fault::Refused, MemoryFault::UnsupportedRequest),
            (Fault::NoAnswer, MemoryFault::NoAnswer),
            (Fault::Late, MemoryFault::Late(late)),
        ][self.rng.usize(..5)];
        let address = self.address_of(part.start + offset);
        let target = self.leads_to(address);
        self.set_memory(target, Some(memory));
        let entry = self.world.begin(fault, self.own);
        self.note(|| format!("{fault} at byte {offset} of transfer {index}, {address:#x}"));
        self.bad = Some(BadWord { index, offset, address, target, fault, entry });
    }

    fn set_memory(&self, address: u64, fault: Option<MemoryFault>) {
        self.world.fabric(|fabric| {
            fabric.set_memory_fault(HostId(0), address..address + 4, fault);
        });
    }

    /// Removes the memory fault.
    fn mend(&mut self) {
        if let Some(bad) = self.bad.take() {
            self.set_memory(bad.target, None);
            self.world.end(bad.entry);
        }
    }

    /// Returns the memory address behind an address of the line's engine; an IOMMU translates it.
    fn leads_to(&self, address: u64) -> u64 {
        let id = self.world.function(&self.world.engines[self.own.trailing_zeros() as usize].name);
        self.world.fabric(|fabric| {
            let target = fabric.translate_io(HostId(0), id, BusAddress(address));
            target.map_or(address, |target| target.0)
        })
    }

    /// Returns the address of a byte of the buffer as the engine sends it.
    fn address_of(&self, mut offset: u64) -> u64 {
        let buffer = self.buffer.as_ref().expect("the line has a buffer");
        for segment in buffer.segments() {
            if offset < segment.bytes {
                return segment.address.0 + offset;
            }
            offset -= segment.bytes;
        }
        unreachable!("the segments of a buffer hold all of it")
    }

    fn target(&self, part: &Range<u64>) -> Target {
        match (&self.buffer, &self.far) {
            (Some(buffer), _) => Target::Buffer(buffer.clone(), part.clone()),
            (None, Some(Far { peer: Some(peer), .. })) => peer.target(part.end - part.start),
            _ => Target::Bus(NOWHERE, part.end - part.start),
        }
    }

    /// Runs one batch from its posting to its end.
    pub async fn round(&mut self) {
        self.take_buffer().await;
        if self.channel.is_none() {
            self.open().await;
        }
        let has_buffer = self.key.0 == ChannelKind::Peer || self.buffer.is_some();
        if self.channel.is_none() || !has_buffer {
            return;
        }
        if self.pause > Picoseconds::ZERO {
            let span = Picoseconds(self.rng.u64(..self.pause.0));
            self.world.sleep(span).await;
        }
        let parts = self.random_parts();
        self.prepare(&parts);
        let begun = self.world.bus.now();
        self.cancelled = false;
        let mut transfers = Vec::new();
        for part in &parts {
            let (level, deadline) = (self.random_level(), self.random_deadline());
            transfers.push(Transfer { target: self.target(part), level, deadline });
        }
        let mut outcomes = vec![Outcome::Moved(0); parts.len()];
        if self.post(&transfers).await {
            outcomes.fill(Outcome::Unknown);
            if self.rng.u8(..10) == 0 {
                self.drop_in_flight(&parts).await;
            } else {
                self.resolve(&transfers, &mut outcomes).await;
            }
        }
        let levels: Vec<_> = transfers.iter().map(|transfer| transfer.level).collect();
        drop(transfers);
        self.settle().await;
        if self.is_over() {
            return;
        }
        self.mend();
        let lossy = self.world.has(self.touches, begun, Fault::loses_writes);
        // A write swallowed by a fault may leave a completed transfer without its data.
        if !self.world.has(self.touches, begun, Fault::swallows_unseen) {
            self.verify_visible(&parts, &outcomes, &levels);
        }
        self.verify(&parts, &outcomes, lossy).await;
        match self.rng.u8(..16) {
            0 => self.close().await,
            1 => self.channel = None,
            2 => self.give_buffer().await,
            _ => {}
        }
    }

    async fn drop_in_flight(&mut self, parts: &[Range<u64>]) {
        self.world.count(Fault::Dropped);
        self.note(|| "dropped in flight".to_owned());
        let span = Picoseconds(self.rng.u64(..100_000_000));
        self.world.sleep(span).await;
        self.channel = None;
        let free = self.take_back(parts);
        self.world.sleep(span).await;
        self.open().await;
        self.check_free(&free);
    }

    /// Posts a batch; returns whether that succeeded.
    async fn post(&mut self, transfers: &[Transfer]) -> bool {
        let (world, first) = (Rc::clone(&self.world), self.tickets);
        let span = Picoseconds(self.rng.u64(..20_000_000));
        let is_cut = self.rng.u8(..6) == 0;
        let channel = self.channel();
        let before = channel.statistics().posted;
        check!(Check::Registers, before == first, "{before} were posted and {first} tickets given");
        let posted = match is_cut {
            true => world.within(span, channel.post(transfers)).await,
            false => Some(channel.post(transfers).await),
        };
        let count = channel.statistics().posted - before;
        match posted {
            Some(Ok(tickets)) => {
                let expected: Vec<Ticket> =
                    (first..first + transfers.len() as u64).map(Ticket).collect();
                check!(Check::Registers, tickets == expected, "{tickets:?} are not {expected:?}");
            }
            Some(Err(error)) => {
                self.note(|| format!("not posted: {error}"));
                check!(Check::Whole, count == 0, "{}: {error}, and {count} posted", self.name());
                self.expect(&error);
            }
            None => world.count(Fault::Dropped),
        }
        self.tickets += count;
        let is_all = count == 0 || count == transfers.len() as u64;
        check!(Check::Whole, is_all, "{}: {count} of a batch were posted", self.name());
        self.note(|| format!("{count} posted"));
        self.transfers += count;
        count > 0
    }

    /// Ends the line if an engine of its stream is gone. Objects of a device that is gone are
    /// dropped; those of another are released in order.
    pub async fn farewell(&mut self) {
        self.mend();
        let is_gone = self.world.is_gone(self.own);
        if let Some(channel) = self.channel.take()
            && self.rng.bool()
        {
            let closed = channel.close().await;
            let is_lie = is_gone && closed.is_ok();
            check!(Check::RightError, !is_lie, "{}: closed, though it is gone", self.name());
            if let Err(error) = closed {
                self.expect_of_gone(&error);
            }
        }
        self.far = None;
        for _ in 0..TRIES {
            let options = self.random_options();
            let opened = self.device.channel(self.key.0, self.key.1, options).await;
            let is_lie = is_gone && opened.is_ok();
            check!(Check::RightError, !is_lie, "{}: opened, though it is gone", self.name());
            let closed = match opened {
                Ok(channel) => channel.close().await,
                Err(error) => Err(error),
            };
            match closed {
                Ok(()) => return,
                Err(error) if is_gone || self.world.is_gone(self.own) => {
                    self.expect_of_gone(&error);
                    return;
                }
                Err(error) => self.expect(&error),
            }
            self.world.sleep(us(300)).await;
        }
        Check::NoHang.fail(format!("{}: it cannot be given back", self.name()));
    }

    /// Checks an error of a line whose stream has ended for good.
    fn expect_of_gone(&self, error: &DriverError) {
        let is_known = self.world.has(self.touches, Picoseconds::ZERO, Fault::cuts_off);
        check!(Check::RightError, is_known, "{}: {error}", self.name());
    }
}
