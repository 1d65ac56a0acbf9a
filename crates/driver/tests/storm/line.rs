// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A channel in a storm: it is opened, posted to, waited for, cancelled, dropped and opened again
//! at random, and every byte that it moves or must not move is looked at.

use std::ops::Range;
use std::rc::Rc;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Device,
    DriverError, Notification, Peer, PeerOptions, StreamSource, Target, Ticket, Transfer,
    TransferError, TransferFault,
};
use crosslane_host::{Bus, PageSize};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use fastrand::Rng;

use crate::scene::{World, us};
use crate::stream::{self, Word};
use crate::watched::WatchedBus;

/// Bytes of a line's buffer.
const BUFFER_BYTES: u64 = 256 << 10;
/// Tries until a channel runs again: far longer than any fault of a storm lasts.
const TRIES: u32 = 3_000;
/// What a peer channel without a peer writes to: nothing is there.
const NOWHERE: BusAddress = BusAddress(0xf000_0000);

/// How a transfer has ended, as far as the line knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Whole,
    /// So many bytes and no more.
    Moved(u64),
    Unknown,
}

/// Where a peer channel writes to.
pub struct Far {
    pub receiver: Device<WatchedBus>,
    pub options: PeerOptions,
    /// Whether the receiver's C2H channel takes what comes.
    pub routed: bool,
    pub peer: Option<Peer<WatchedBus>>,
}

/// A channel, and what is known of its stream.
pub struct Line {
    pub world: Rc<World>,
    pub device: Device<WatchedBus>,
    pub key: (ChannelKind, u8),
    pub rng: Rng,
    /// Seed of its stream.
    pub seed: u32,
    /// Whether somebody else must move for this to end: every deadline is then finite.
    pub depends: bool,
    /// Whether the engine's checker looks at what an H2C channel reads.
    pub checked: bool,
    pub far: Option<Far>,
    pub channel: Option<Channel<WatchedBus>>,
    buffer: Option<Buffer<WatchedBus>>,
    /// Next word of the stream.
    pub position: u32,
    /// Whether that is certain.
    exact: bool,
    /// Tickets of the channel that is open.
    tickets: u64,
    /// Bytes that are known to be complete, and whether that is all.
    whole_bytes: u64,
    all_known: bool,
    /// Times that the stream did not go on where it had been.
    pub jumps: u64,
    /// Times that the channel was begun anew.
    pub upsets: u64,
    pub words: u64,
}

impl Line {
    pub fn new(
        world: &Rc<World>,
        device: &Device<WatchedBus>,
        key: (ChannelKind, u8),
        rng: &mut Rng,
        seed: u32,
    ) -> Self {
        Self {
            world: Rc::clone(world),
            device: device.on_core(rng.u16(..)),
            key,
            rng: rng.fork(),
            seed,
            depends: false,
            checked: false,
            far: None,
            channel: None,
            buffer: None,
            position: 0,
            exact: true,
            tickets: 0,
            whole_bytes: 0,
            all_known: true,
            jumps: 0,
            upsets: 0,
            words: 0,
        }
    }

    fn name(&self) -> String {
        format!("{} {} {}", self.device.function().name, self.key.0, self.key.1)
    }

    fn note(&self, line: impl FnOnce() -> String) {
        self.world.note(|| format!("{}: {}", self.name(), line()));
    }

    /// An error is one that the storm has brought about, or a refusal that has to be.
    fn expect(&self, error: &DriverError) {
        let text = error.to_string();
        let is_refusal = text.contains("descriptors were posted at once");
        let is_known = self.world.faults.get() > 0
            || is_refusal
            || text.contains("keep arriving")
            || text.contains("has stopped");
        assert!(is_known, "{}: nothing was done to it, and yet: {text}", self.name());
    }

    pub fn channel(&mut self) -> &mut Channel<WatchedBus> {
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
        // Into a lane the order is the data's.
        let relaxed_ordering = kind != ChannelKind::Peer && rng.bool();
        ChannelOptions {
            descriptors,
            notification,
            payload_bytes,
            oversize: false,
            relaxed_ordering,
        }
    }

    /// Opens the channel, however long the storm keeps it from that.
    pub async fn open(&mut self) {
        self.upsets += 1;
        self.connect().await;
        if self.buffer.is_none() && self.key.0 != ChannelKind::Peer {
            let pages = if self.rng.bool() { PageSize::Small } else { PageSize::Huge };
            while self.buffer.is_none() {
                match self.device.buffer(BUFFER_BYTES, pages).await {
                    Ok(buffer) => {
                        buffer.write(0, &stream::guard(self.seed, BUFFER_BYTES)).unwrap();
                        self.buffer = Some(buffer);
                    }
                    Err(error) => {
                        self.expect(&error);
                        self.world.sleep(us(300)).await;
                    }
                }
            }
        }
        for _ in 0..TRIES {
            let options = self.random_options();
            match self.device.channel(self.key.0, self.key.1, options).await {
                Ok(channel) => {
                    self.note(|| format!("open: {options:?}"));
                    self.channel = Some(channel);
                    (self.tickets, self.whole_bytes, self.all_known) = (0, 0, true);
                    return;
                }
                Err(error) => self.expect(&error),
            }
            self.world.sleep(us(300)).await;
        }
        panic!("{}: it cannot be opened any more", self.name());
    }

    /// Connects a peer channel that is connected to nothing.
    pub async fn connect(&mut self) {
        for _ in 0..TRIES {
            let Some(far) = &mut self.far else { return };
            if far.peer.is_some() {
                return;
            }
            let connected = self.device.connect(&far.receiver, far.options).await;
            let routed = match connected {
                Ok(peer) => {
                    let lane = StreamSource::Lane(peer.lane());
                    far.peer = Some(peer);
                    if !far.routed {
                        return;
                    }
                    far.receiver.user().route(lane, StreamSource::Generator).await
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
        panic!("{}: it cannot be connected any more", self.name());
    }

    /// Parts of the buffer that do not overlap, in its order; of a peer only lengths.
    fn random_parts(&mut self) -> Vec<Range<u64>> {
        let rng = &mut self.rng;
        let mut parts = Vec::new();
        let mut at = 4 * rng.u64(..1024);
        for _ in 0..rng.u8(1..=6) {
            let most_words = [4, 64, 1024, 4096, 16_384][rng.usize(..5)];
            let bytes = 4 * rng.u64(1..=most_words);
            if at + bytes > BUFFER_BYTES {
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

    /// Fills the parts: with the stream that is to be read, or with what is not to be seen again.
    fn prepare(&self, parts: &[Range<u64>]) {
        let Some(buffer) = &self.buffer else { return };
        let mut position = self.position;
        for part in parts {
            let bytes = part.end - part.start;
            let data = match self.key.0 {
                ChannelKind::H2c => stream::words(self.seed, position, bytes),
                _ => stream::guard(self.seed, bytes),
            };
            position += (bytes / 4) as u32;
            buffer.write(part.start, &data).unwrap();
        }
    }

    fn target(&self, part: &Range<u64>) -> Target<WatchedBus> {
        match (&self.buffer, &self.far) {
            (Some(buffer), _) => Target::Buffer(buffer.clone(), part.clone()),
            (None, Some(Far { peer: Some(peer), .. })) => peer.target(part.end - part.start),
            _ => Target::Bus(NOWHERE, part.end - part.start),
        }
    }

    /// One batch from its posting to its end.
    pub async fn round(&mut self) {
        if self.channel.is_none() {
            self.open().await;
        }
        let parts = self.random_parts();
        self.prepare(&parts);
        let losses = self.world.losses.get();
        let mut transfers = Vec::new();
        for part in &parts {
            let (level, deadline) = (self.random_level(), self.random_deadline());
            transfers.push(Transfer { target: self.target(part), level, deadline });
        }
        let mut outcomes = vec![Outcome::Moved(0); parts.len()];
        if self.post(&transfers).await {
            outcomes.fill(Outcome::Unknown);
            if self.rng.u8(..10) == 0 {
                self.note(|| "dropped in flight".to_owned());
                let span = Picoseconds(self.rng.u64(..100_000_000));
                self.world.sleep(span).await;
                self.channel = None;
                self.world.sleep(span).await;
                self.open().await;
            } else {
                self.resolve(&transfers, &mut outcomes).await;
            }
        }
        self.settle().await;
        let lossy = self.world.losses.get() != losses || self.world.losing.get() > 0;
        self.verify(&parts, &outcomes, lossy).await;
        match self.rng.u8(..12) {
            0 => self.close().await,
            1 => self.channel = None,
            _ => {}
        }
    }

    /// Posts a batch. Says whether that has happened.
    async fn post(&mut self, transfers: &[Transfer<WatchedBus>]) -> bool {
        let (world, first) = (Rc::clone(&self.world), self.tickets);
        let span = Picoseconds(self.rng.u64(..20_000_000));
        let is_cut = self.rng.u8(..6) == 0;
        let channel = self.channel();
        let before = channel.statistics().posted;
        assert_eq!(before, first);
        let posted = match is_cut {
            true => world.within(span, channel.post(transfers)).await,
            false => Some(channel.post(transfers).await),
        };
        let count = channel.statistics().posted - before;
        match posted {
            Some(Ok(tickets)) => {
                let expected: Vec<Ticket> =
                    (first..first + transfers.len() as u64).map(Ticket).collect();
                assert_eq!(tickets, expected);
            }
            Some(Err(error)) => {
                self.note(|| format!("not posted: {error}"));
                assert_eq!(count, 0, "refused, and posted all the same");
                self.expect(&error);
            }
            None => {}
        }
        self.tickets += count;
        assert!(count == 0 || count == transfers.len() as u64, "a part of a batch was posted");
        self.note(|| format!("{count} posted"));
        count > 0
    }

    /// Waits for the transfers of a batch, each in its own way and in any order.
    async fn resolve(&mut self, transfers: &[Transfer<WatchedBus>], outcomes: &mut [Outcome]) {
        let first = self.tickets - transfers.len() as u64;
        let mut order: Vec<usize> = (0..transfers.len()).collect();
        self.rng.shuffle(&mut order);
        let mut unknown = transfers.len();
        for index in order {
            let ticket = Ticket(first + index as u64);
            let result = self.wait(ticket).await;
            let total = transfers[index].target.bytes();
            outcomes[index] = match &result {
                Ok(completed) => {
                    assert_eq!(completed.bytes, total);
                    match transfers[index].level {
                        CompletionLevel::Accepted => {
                            self.all_known = false;
                            Outcome::Unknown
                        }
                        _ => {
                            self.whole_bytes += total;
                            Outcome::Whole
                        }
                    }
                }
                Err(error) => {
                    assert_eq!(error.total_bytes, total, "{error}");
                    assert!(error.moved_bytes <= total, "{error}");
                    self.note(|| format!("transfer {index}: {error}"));
                    self.outcome_of(error, index, &mut unknown)
                }
            };
            if self.rng.u8(..4) == 0 {
                let again = self.channel().wait(ticket).await.unwrap_err().to_string();
                assert!(again.contains("has been given"), "{again}");
            }
        }
        // What stood behind one that ended nobody knows how ended so, too.
        outcomes.iter_mut().skip(unknown).for_each(|outcome| {
            if *outcome != Outcome::Whole {
                *outcome = Outcome::Unknown;
            }
        });
    }

    fn outcome_of(&self, error: &TransferError, index: usize, unknown: &mut usize) -> Outcome {
        let lossy = self.world.faults.get() > 0;
        match &error.fault {
            TransferFault::Deadline { .. } | TransferFault::Cancelled => {}
            TransferFault::NotBusMaster
            | TransferFault::UnsupportedRequest
            | TransferFault::CompletionTimeout => {
                // A short time-out can be over where a link is full.
                let is_time_out = error.fault == TransferFault::CompletionTimeout;
                assert!(lossy || is_time_out, "{error}");
            }
            TransferFault::LinkDown { .. }
            | TransferFault::LinkLost
            | TransferFault::NoAnswer(_)
            | TransferFault::Refused(_) => {
                assert!(lossy, "{error}");
                *unknown = index.min(*unknown);
                return Outcome::Unknown;
            }
            other => panic!("{error}: {other:?}"),
        }
        Outcome::Moved(error.moved_bytes)
    }

    async fn wait(&mut self, ticket: Ticket) -> Result<crosslane_driver::Completed, TransferError> {
        let world = Rc::clone(&self.world);
        let span = Picoseconds(self.rng.u64(..200_000_000));
        let style = self.rng.u8(..16);
        let channel = self.channel();
        match style {
            0..=2 => {
                for _ in 0..8 {
                    if let Some(completed) = channel.poll(ticket).await? {
                        return Ok(completed);
                    }
                    world.sleep(span).await;
                }
            }
            3..=5 => {
                if let Some(result) = world.within(span, channel.wait(ticket)).await {
                    return result;
                }
            }
            6 => {
                world.sleep(span).await;
                let is_whole = world.within(span, channel.cancel()).await.is_some();
                self.upsets += 1;
                self.note(|| format!("cancelled: {is_whole}"));
            }
            _ => {}
        }
        self.channel().wait(ticket).await
    }

    /// Lets the channel come to rest, running, with nothing on its way.
    pub async fn settle(&mut self) {
        let world = Rc::clone(&self.world);
        for n in 0..TRIES {
            let channel = self.channel();
            match channel.post(&[]).await {
                Ok(_) => {
                    let statistics = channel.statistics();
                    if statistics.completed + statistics.failed == statistics.posted {
                        return;
                    }
                    if n % 8 == 7 {
                        self.upsets += 1;
                        let _ = self.channel().cancel().await;
                    } else {
                        world.sleep(us(50)).await;
                    }
                }
                Err(error) => {
                    self.expect(&error);
                    self.upsets += 1;
                    if self.channel().restart().await.is_err() {
                        assert!(world.faults.get() > 0);
                        world.sleep(us(300)).await;
                    }
                }
            }
        }
        panic!("{}: it does not come to rest", self.name());
    }

    /// Looks at every byte of the buffer.
    pub async fn verify(&mut self, parts: &[Range<u64>], outcomes: &[Outcome], lossy: bool) {
        match self.key.0 {
            ChannelKind::C2h => self.verify_written(parts, outcomes, lossy),
            ChannelKind::H2c => self.verify_read(parts, outcomes).await,
            ChannelKind::Peer => {}
        }
    }

    async fn verify_read(&mut self, parts: &[Range<u64>], outcomes: &[Outcome]) {
        let mut delivered = 0;
        let mut is_known = true;
        for (part, outcome) in parts.iter().zip(outcomes) {
            match outcome {
                Outcome::Whole => delivered += part.end - part.start,
                Outcome::Moved(bytes) => delivered += bytes,
                Outcome::Unknown => is_known = false,
            }
        }
        if !self.checked {
            // Nothing is read twice: what the stream lacks then is seen as a jump.
            self.position +=
                parts.iter().map(|part| (part.end - part.start) as u32 / 4).sum::<u32>();
            return;
        }
        let is_whole = self.exact && is_known;
        self.position += (delivered / 4) as u32;
        self.exact = is_whole;
        let user = self.device.user();
        for _ in 0..TRIES {
            match user.h2c_check_result().await {
                Ok(check) => {
                    assert!(!is_whole || check.errors == 0, "{}: {check:?}", self.name());
                    self.words += delivered / 4;
                    break;
                }
                Err(error) => self.expect(&error),
            }
            self.world.sleep(us(300)).await;
        }
        while !self.exact {
            match user.check_h2c(self.seed).await {
                Ok(()) => (self.position, self.exact) = (0, self.is_checking().await),
                Err(error) => {
                    self.expect(&error);
                    self.world.sleep(us(300)).await;
                }
            }
        }
    }

    /// Whether the checker has begun anew: stores to a link that is down are lost.
    async fn is_checking(&self) -> bool {
        let losses = self.world.losses.get();
        let read = self.device.user().h2c_check_result().await;
        if read.is_err() || self.world.losing.get() > 0 || self.world.losses.get() != losses {
            self.world.sleep(us(300)).await;
            return false;
        }
        read.is_ok_and(|check| check.errors == 0)
    }

    fn verify_written(&mut self, parts: &[Range<u64>], outcomes: &[Outcome], lossy: bool) {
        let buffer = self.buffer.clone().expect("C2H has a buffer");
        let mut bytes = vec![0; BUFFER_BYTES as usize];
        buffer.read(0, &mut bytes).expect("nothing is in flight");
        let mut end = 0;
        for (part, outcome) in parts.iter().zip(outcomes) {
            self.all_guards(&bytes, end..part.start);
            end = part.end;
            let words = stream::places(self.seed, &bytes[part.start as usize..part.end as usize]);
            self.verify_words(&words, *outcome, lossy);
        }
        self.all_guards(&bytes, end..BUFFER_BYTES);
        for part in parts {
            let clean = stream::guard(self.seed, part.end - part.start);
            buffer.write(part.start, &clean).expect("nothing is in flight");
        }
    }

    /// Nothing but guards lies there, each as it was laid down.
    fn all_guards(&self, bytes: &[u8], gap: Range<u64>) {
        let words = stream::places(self.seed, &bytes[gap.start as usize..gap.end as usize]);
        let wrong = words.iter().position(|word| *word != Word::Guard);
        assert_eq!(wrong, None, "{}: written beside a transfer, in {gap:?}", self.name());
    }

    fn verify_words(&mut self, words: &[Word], outcome: Outcome, lossy: bool) {
        let name = self.name();
        let written = words.iter().rposition(|word| *word != Word::Guard).map_or(0, |n| n + 1);
        if !lossy {
            match outcome {
                Outcome::Whole => assert_eq!(written, words.len(), "{name}: data are missing"),
                Outcome::Moved(bytes) => {
                    assert_eq!(written as u64 * 4, bytes, "{name}: moved and said to be moved");
                }
                Outcome::Unknown => {}
            }
        }
        self.note(|| stream::runs(words));
        for word in &words[..written] {
            let Word::At(place) = *word else {
                assert!(lossy, "{name}: a hole in what was written");
                continue;
            };
            self.words += 1;
            if place != self.position {
                self.jumps += 1;
                assert!(place > self.position, "{name}: word {place} after {}", self.position);
                let may_jump = self.depends || lossy || !self.exact;
                assert!(may_jump, "{name}: word {place} where {} was to be", self.position);
            }
            self.position = place + 1;
        }
        if outcome == Outcome::Unknown || lossy {
            self.exact = false;
        } else if written > 0 {
            self.exact = true;
        }
    }

    /// Gives the channel back.
    pub async fn close(&mut self) {
        let statistics = self.channel().statistics();
        assert_eq!(statistics.completed + statistics.failed, statistics.posted);
        assert_eq!(statistics.posted, self.tickets);
        assert!(statistics.bytes >= self.whole_bytes);
        assert!(!self.all_known || statistics.bytes == self.whole_bytes, "{statistics:?}");
        let channel = self.channel.take().expect("the line is open");
        self.upsets += 1;
        if let Err(error) = channel.close().await {
            self.expect(&error);
        }
    }

    /// Counts a transfer that was made after the storm.
    pub fn note_last(&mut self, bytes: u64) {
        self.tickets += 1;
        self.whole_bytes += bytes;
    }
}
