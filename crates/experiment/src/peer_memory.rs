// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of a card that another card reads or writes over PCI Express. What is read was filled
//! with the pattern that the reader's checker compares; what was written is compared at the end.

use crosslane_driver::{
    Buffer, CARD_MEMORY_BAR, Channel, ChannelKind, ChannelOptions, CompletionLevel,
    DescriptorSource, Device, PeerMemory, Target, Transfer,
};
use crosslane_host::{AnyBus, PageSize};
use crosslane_results::quantity::size_words;

use crate::error::{ExperimentError, Result};
use crate::measured::DataErrors;
use crate::options::{Options, Registration};
use crate::pattern::{WORD_BYTES, compare, fill};
use crate::transfer::Source;

/// Most bytes of a card's memory that a run reads or writes.
const MOST_MEMORY_BYTES: u64 = 256 << 20;
/// Bytes of one transfer that fills it, or that looks at it.
const PIECE_BYTES: u64 = 1 << 20;

/// Whether others can reach a card's memory: through a window into it.
pub(crate) fn shows_memory(card: &Device) -> bool {
    let window = usize::from(CARD_MEMORY_BAR);
    card.description().card_memory && card.function().bars.iter().any(|bar| bar.index == window)
}

/// A card's memory, each transfer at its own place in it, one behind the other.
pub(crate) struct PeerFlow {
    /// `fpga2 reads fpga1`.
    pub name: String,
    /// The card that has the memory.
    pub owner: Device,
    /// The card whose engine moves the data.
    pub mover: Device,
    /// H2C if the mover reads, C2H if it writes.
    pub kind: ChannelKind,
    pub memory: PeerMemory,
    pub options: Options,
}

impl PeerFlow {
    /// Opens the memory of a card for the card that reads it, and fills what is to be read.
    pub async fn reading(owner: &Device, mover: &Device, options: &Options) -> Result<Self> {
        Self::open(owner, mover, ChannelKind::H2c, options).await
    }

    /// Opens the memory of a card for the card that writes it, and fills it with other data than
    /// are written.
    pub async fn writing(mover: &Device, owner: &Device, options: &Options) -> Result<Self> {
        Self::open(owner, mover, ChannelKind::C2h, options).await
    }

    async fn open(
        owner: &Device,
        mover: &Device,
        kind: ChannelKind,
        options: &Options,
    ) -> Result<Self> {
        let (own, other) = (&mover.function().name, &owner.function().name);
        let (verb, seed) = match kind {
            ChannelKind::H2c => ("read", options.seed),
            _ => ("write", !options.seed),
        };
        let name = format!("{own} {verb}s {other}");
        options.check(&name)?;
        let refused = |problem: String| Err(ExperimentError::refused(&name, problem));
        if options.descriptors == DescriptorSource::CommandPort {
            return refused("the command port starts writes into receive queues alone".to_owned());
        }
        if options.registration == Registration::Within {
            return refused(format!("no memory is registered for a {verb} of a peer"));
        }
        if !shows_memory(owner) {
            return refused(format!(
                "{other} has no memory that others could {verb}: its engine needs one, and a \
                 window into it in BAR{CARD_MEMORY_BAR} (tables card_memory and \
                 bar{CARD_MEMORY_BAR} of its part in a lab)"
            ));
        }
        let memory = mover.peer_memory(owner.function().id, CARD_MEMORY_BAR).await?;
        let total = options.size_bytes.saturating_mul(options.iterations);
        let most = memory.size_bytes().min(MOST_MEMORY_BYTES);
        if total > most {
            let (total, most) = (size_words(total), size_words(most));
            memory.close().await?;
            return refused(format!(
                "each transfer {verb}s other memory, and all need {total} of {other}, where {most} \
                 can be reached: make fewer (--iterations) or smaller ones"
            ));
        }
        let (owner, mover) = (owner.clone(), mover.clone());
        let of = Self { name, owner, mover, kind, memory, options: *options };
        match of.fill(seed).await {
            Ok(()) => Ok(of),
            Err(error) => {
                let _ = of.memory.close().await;
                Err(error)
            }
        }
    }

    /// Bytes of the memory that all transfers take together.
    const fn bytes(&self) -> u64 {
        self.options.size_bytes * self.options.iterations
    }

    /// Begin and length of the pieces in which it is filled and looked at.
    fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let bytes = self.bytes();
        let begins = (0..bytes).step_by(PIECE_BYTES as usize);
        begins.map(move |begin| (begin, PIECE_BYTES.min(bytes - begin)))
    }

    /// Returns a buffer for a piece, and the owner's channel between its memory and that.
    async fn piecewise(&self, kind: ChannelKind) -> Result<(Buffer, Channel)> {
        let buffer = self.owner.buffer(PIECE_BYTES.min(self.bytes()), PageSize::Huge).await?;
        let options = ChannelOptions::default().with_card_memory(true);
        Ok((buffer, self.owner.channel(kind, 0, options).await?))
    }

    fn piece(&self, buffer: &Buffer, (begin, bytes): (u64, u64)) -> Transfer {
        let target = Target::Card(buffer.clone(), 0..bytes, begin);
        Transfer::new(target, self.options.deadline(self.bus()))
    }

    /// Writes the pattern into the card's memory by its own engine.
    async fn fill(&self, seed: u32) -> Result<()> {
        let (buffer, mut channel) = self.piecewise(ChannelKind::H2c).await?;
        for (begin, bytes) in self.pieces() {
            fill(&buffer, 0, bytes, seed, begin / WORD_BYTES)?;
            channel.transfer(self.piece(&buffer, (begin, bytes))).await?;
        }
        channel.close().await?;
        Ok(buffer.unregister().await.map(drop)?)
    }

    /// Waits until what was written has arrived: reads the last word, as a read passes no write.
    pub async fn arrived(&self) -> Result<()> {
        let mut channel =
            self.mover.channel(ChannelKind::H2c, 0, ChannelOptions::default()).await?;
        let end = self.bytes();
        let last = self.memory.target(end - WORD_BYTES..end);
        channel.transfer(Transfer::new(last, self.options.deadline(self.bus()))).await?;
        Ok(channel.close().await?)
    }

    /// Compares what was written with the pattern, read by the card's own engine, and gives the
    /// memory back.
    pub async fn compared(self) -> Result<DataErrors> {
        let mut errors = DataErrors::default();
        let (buffer, mut channel) = self.piecewise(ChannelKind::C2h).await?;
        for (begin, bytes) in self.pieces() {
            channel.transfer(self.piece(&buffer, (begin, bytes))).await?;
            compare(&buffer, 0, bytes, self.options.seed, begin / WORD_BYTES, &mut errors)?;
        }
        channel.close().await?;
        buffer.unregister().await?;
        self.memory.close().await?;
        Ok(errors)
    }
}

impl Source for PeerFlow {
    fn bus(&self) -> &AnyBus {
        self.mover.bus()
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn transfer(&mut self, index: u64) -> Result<Transfer> {
        let start = index * self.options.size_bytes;
        let level = match self.kind {
            ChannelKind::H2c => CompletionLevel::Visible,
            _ => CompletionLevel::Sent,
        };
        let target = self.memory.target(start..start + self.options.size_bytes);
        Ok(Transfer { target, level, deadline: self.options.deadline(self.bus()) })
    }
}
