// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card's memory: data go into it, are copied within it and come back, in labs whose cards have
//! one.

use std::ops::Range;
use std::rc::Rc;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Device,
    DriverError, Notification, Target, Transfer,
};
use crosslane_host::{Bus, PageSize};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::check::{Check, check};
use crate::fault::{Engines, Fault};
use crate::scene::{World, us};

/// One seed in this many gives all cards of a generated lab a memory: those that leave
/// [`MEMORY_SEED`]. No older seed that proves a mutation or once failed is among them. Random
/// numbers are a stream of their own.
const MEMORY_SEEDS: u64 = 29;
/// See [`MEMORY_SEEDS`].
const MEMORY_SEED: u64 = 15;

/// Time allowed for one batch: far longer than it takes, and longer than any fault that ends.
const SPAN: Picoseconds = us(20_000);
/// Bytes of the memory that are used: a batch reads one half and writes the other.
const USED_BYTES: usize = 128 << 10;
const HALF: usize = USED_BYTES / 2;
/// Bytes that are read at once at the end.
const PART: usize = HALF / 2;
/// Bytes of the host's buffer, and of the guard that it holds before it is written.
const BUFFER_BYTES: u64 = HALF as u64;
const GUARD: u8 = 0xa5;

/// Whether the cards of a seed's generated lab have a memory.
pub(crate) const fn has_card_memory(seed: u64) -> bool {
    seed % MEMORY_SEEDS == MEMORY_SEED
}

/// Transfer of a batch, and its places in the card's memory and in the host's buffer.
#[derive(Clone, Debug)]
enum Piece {
    ToCard { slot: Range<usize>, to: usize },
    FromCard { from: usize, slot: Range<usize> },
    Copy { from: usize, to: usize, bytes: usize },
}

/// An engine whose channels move data of its card's memory.
pub(crate) struct Vault {
    world: Rc<World>,
    device: Device,
    touches: Engines,
    rng: Random,
    /// Content of the card's memory, as far as it is known.
    card: Vec<Option<u8>>,
    /// Words compared.
    pub words: u64,
    /// Number of attempts.
    pub attempts: u64,
}

impl Vault {
    pub fn new(world: &Rc<World>, device: &Device, rng: &mut Random) -> Self {
        Self {
            world: Rc::clone(world),
            device: device.on_core(rng.u16(..)),
            touches: world.engine(&device.function().name),
            rng: rng.fork(),
            card: vec![None; USED_BYTES],
            words: 0,
            attempts: 0,
        }
    }

    /// Makes some attempts, each from opening the channels to closing them.
    pub async fn play(&mut self, attempts: u32) {
        for _ in 0..attempts {
            self.attempt().await;
            let pause = Picoseconds(self.rng.u64(..300_000_000));
            self.world.sleep(pause).await;
        }
        for kind in [ChannelKind::H2c, ChannelKind::C2h] {
            self.world.give_back(&self.device, kind).await;
        }
    }

    async fn attempt(&mut self) {
        self.attempts += 1;
        let begun = self.world.bus.now();
        if let Err(error) = self.batches(begun).await {
            self.world.note(|| format!("card memory: {error}"));
            let was_cancelled = |fault| fault == Fault::Cancel;
            let is_known = self.world.has(self.touches, begun, |_| true)
                || self.world.has_lately(self.touches, was_cancelled);
            check!(Check::RightError, is_known, "card memory, and nothing was done: {error}");
        }
    }

    async fn batches(&mut self, begun: Picoseconds) -> Result<(), String> {
        let text = |error: DriverError| error.to_string();
        let mut channels = Vec::new();
        for kind in [ChannelKind::H2c, ChannelKind::C2h] {
            let options = self.random_options();
            channels.push(self.device.channel(kind, 0, options).await.map_err(text)?);
        }
        let pages = if self.rng.bool() { PageSize::Small } else { PageSize::Huge };
        let buffer = self.device.buffer(BUFFER_BYTES, pages).await.map_err(text)?;
        let mut batches: Vec<_> = (0..self.rng.usize(1..=6)).map(|_| self.random_batch()).collect();
        // All that is there, at last; a part takes no more descriptors than a small ring has.
        let parts = (0..USED_BYTES).step_by(PART);
        batches.extend(parts.map(|from| vec![Piece::FromCard { from, slot: 0..PART }]));
        for pieces in batches {
            let data = self.prepare(&buffer, &pieces)?;
            let is_written = matches!(pieces[0], Piece::ToCard { .. });
            let channel = &mut channels[usize::from(!is_written)];
            let outcome = self.batch(channel, &buffer, &pieces, &data).await?;
            self.compare(&buffer, &pieces, &outcome, begun)?;
        }
        if self.rng.bool() {
            for channel in channels {
                channel.close().await.map_err(text)?;
            }
        }
        Ok(())
    }

    fn random_options(&mut self) -> ChannelOptions {
        let entries = [16, 64, 1024][self.rng.usize(..3)];
        let notification = [Notification::Poll, Notification::Interrupt][self.rng.usize(..2)];
        let payload_bytes = self.rng.bool().then(|| 1 << self.rng.u32(4..=7));
        ChannelOptions::default()
            .with_card_memory(true)
            .with_descriptors(DescriptorSource::Ring { entries })
            .with_notification(notification)
            .with_payload_bytes(payload_bytes)
    }

    /// Makes up the transfers of one channel. Targets do not overlap, and nothing is read that the
    /// batch writes: the engine reads ahead.
    fn random_batch(&mut self) -> Vec<Piece> {
        let rng = &mut self.rng;
        let (kind, most) = (rng.u8(..4), [40, 600, 6_000, 20_000][rng.usize(..4)]);
        let (read, written) = if rng.bool() { (0, HALF) } else { (HALF, 0) };
        let (mut slots, mut targets) = (rng.usize(..64), rng.usize(..64));
        let mut pieces = Vec::new();
        for _ in 0..rng.usize(1..=12) {
            let bytes = rng.usize(1..=most);
            let gap = [0, 0, 1, rng.usize(..100)][rng.usize(..4)];
            if slots.max(targets) + gap + bytes > HALF {
                break;
            }
            let from = read + rng.usize(..=HALF - bytes);
            let is_copy = kind == 2 || (kind == 3 && rng.bool());
            let (slot, to) = (slots + gap..slots + gap + bytes, written + targets + gap);
            pieces.push(match kind {
                _ if is_copy => Piece::Copy { from, to, bytes },
                0 => Piece::ToCard { slot, to },
                _ => Piece::FromCard { from, slot },
            });
            (slots, targets) = (slots + gap + bytes, targets + gap + bytes);
        }
        if pieces.is_empty() {
            pieces.push(Piece::FromCard { from: read, slot: 0..4 });
        }
        pieces
    }

    /// Fills the host's buffer: with data for the card, or with guards. Returns its content.
    fn prepare(&mut self, buffer: &Buffer, pieces: &[Piece]) -> Result<Vec<u8>, String> {
        let mut content = vec![GUARD; BUFFER_BYTES as usize];
        for piece in pieces {
            if let Piece::ToCard { slot, .. } = piece {
                content[slot.clone()].fill_with(|| self.rng.u8(..));
            }
        }
        buffer.write(0, &content).map_err(|error| error.to_string())?;
        Ok(content)
    }

    /// Makes the transfers of a batch, or gives them up in the middle. Returns the end of each, or
    /// none if nothing was posted.
    async fn batch(
        &mut self,
        channel: &mut Channel,
        buffer: &Buffer,
        pieces: &[Piece],
        data: &[u8],
    ) -> Result<Vec<Result<(), String>>, String> {
        let deadline = self.world.bus.now() + SPAN;
        let part = |slot: &Range<usize>| slot.start as u64..slot.end as u64;
        let transfers: Vec<Transfer> = pieces
            .iter()
            .map(|piece| {
                let target = match piece {
                    Piece::ToCard { slot, to } => {
                        Target::Card(buffer.clone(), part(slot), *to as u64)
                    }
                    Piece::FromCard { from, slot } => {
                        Target::Card(buffer.clone(), part(slot), *from as u64)
                    }
                    Piece::Copy { from, to, bytes } => Target::CardToCard {
                        from: *from as u64,
                        to: *to as u64,
                        bytes: *bytes as u64,
                    },
                };
                Transfer { target, level: CompletionLevel::Visible, deadline }
            })
            .collect();
        // A byte that is not known to have arrived is not known at all.
        let sources = self.card.clone();
        for piece in pieces {
            if let Some(target) = piece.target() {
                self.card[target].fill(None);
            }
        }
        let tickets = match channel.post(&transfers).await {
            Ok(tickets) => tickets,
            // Buffers of small pages take more than a small ring has: nothing was posted.
            Err(DriverError::TooManyDescriptors { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error.to_string()),
        };
        if self.rng.u8(..8) == 0 {
            let number = self.world.begin(Fault::Cancel, self.touches);
            let pause = Picoseconds(self.rng.u64(..40_000_000));
            self.world.sleep(pause).await;
            let cancelled = channel.cancel().await;
            self.world.end(number);
            cancelled.map_err(|error| error.to_string())?;
        }
        let mut outcomes = Vec::new();
        for (piece, ticket) in pieces.iter().zip(tickets) {
            let (moved, outcome) = match channel.wait(ticket).await {
                Ok(done) => (done.bytes as usize, Ok(())),
                Err(error) => (error.moved_bytes as usize, Err(error.to_string())),
            };
            check!(Check::Whole, moved <= piece.bytes(), "{moved} B were moved by {piece:?}");
            match piece {
                Piece::ToCard { slot, to } => {
                    let sent = data[slot.start..slot.start + moved].iter().map(|&byte| Some(byte));
                    self.card.splice(*to..*to + moved, sent);
                }
                Piece::Copy { from, to, .. } => {
                    self.card[*to..*to + moved].copy_from_slice(&sources[*from..*from + moved]);
                }
                Piece::FromCard { .. } => {}
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// Compares what has come from the card, and that nothing else was written. The first failed
    /// transfer ends the attempt.
    fn compare(
        &mut self,
        buffer: &Buffer,
        pieces: &[Piece],
        outcomes: &[Result<(), String>],
        begun: Picoseconds,
    ) -> Result<(), String> {
        let mut found = vec![0; BUFFER_BYTES as usize];
        buffer.read(0, &mut found).map_err(|error| error.to_string())?;
        let mut wrong = 0;
        let mut at = 0;
        for (piece, outcome) in pieces.iter().zip(outcomes) {
            let Piece::FromCard { from, slot } = piece else { continue };
            wrong += found[at..slot.start].iter().filter(|&&byte| byte != GUARD).count();
            at = slot.end;
            if outcome.is_ok() {
                let known = &self.card[*from..*from + slot.len()];
                let pairs = known.iter().zip(&found[slot.clone()]);
                wrong += pairs.filter(|(known, byte)| known.is_some_and(|it| it != **byte)).count();
                self.words += slot.len() as u64 / 4;
            }
        }
        if !matches!(pieces[0], Piece::ToCard { .. }) {
            wrong += found[at..].iter().filter(|&&byte| byte != GUARD).count();
        }
        let is_known = self.world.has(self.touches, begun, Fault::loses_writes);
        let name = &self.device.function().name;
        check!(Check::Data, wrong == 0 || is_known, "{wrong} B of the memory of {name} are wrong");
        match outcomes.iter().find_map(|outcome| outcome.as_ref().err()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl Piece {
    fn bytes(&self) -> usize {
        match self {
            Self::ToCard { slot, .. } | Self::FromCard { slot, .. } => slot.len(),
            Self::Copy { bytes, .. } => *bytes,
        }
    }

    /// Place of the card's memory that it writes.
    fn target(&self) -> Option<Range<usize>> {
        match self {
            Self::ToCard { to, .. } | Self::Copy { to, .. } => Some(*to..*to + self.bytes()),
            Self::FromCard { .. } => None,
        }
    }
}
