// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of a card that another card reads over PCI Express, filled with the pattern that the
//! reader's checker compares.

use crosslane_driver::{
    CARD_MEMORY_BAR, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Device,
    PeerMemory, Target, Transfer,
};
use crosslane_host::{AnyBus, PageSize};
use crosslane_results::quantity::size_words;

use crate::error::{ExperimentError, Result};
use crate::options::{Options, Registration};
use crate::pattern::{WORD_BYTES, fill};
use crate::transfer::Source;

/// Most bytes of a card's memory that a run reads.
const MOST_MEMORY_BYTES: u64 = 256 << 20;
/// Bytes of one transfer that fills it.
const FILL_BYTES: u64 = 1 << 20;

/// Whether others can reach a card's memory: through a window into it.
pub(crate) fn shows_memory(card: &Device) -> bool {
    let window = usize::from(CARD_MEMORY_BAR);
    card.description().card_memory && card.function().bars.iter().any(|bar| bar.index == window)
}

/// A card's memory, each transfer at its own place in it, one behind the other.
pub(crate) struct PeerSource {
    /// `fpga2 reads fpga1`.
    pub name: String,
    pub from: Device,
    pub reader: Device,
    pub memory: PeerMemory,
    pub options: Options,
}

impl PeerSource {
    /// Opens the memory of a card for the card that reads it, and fills what is to be read.
    pub async fn new(from: &Device, reader: &Device, options: &Options) -> Result<Self> {
        let name = format!("{} reads {}", reader.function().name, from.function().name);
        options.check(&name)?;
        let refused = |problem: String| Err(ExperimentError::refused(&name, problem));
        if options.descriptors == DescriptorSource::CommandPort {
            return refused("the command port starts writes, no reads".to_owned());
        }
        if options.registration == Registration::Within {
            return refused("no memory is registered for a read of a peer".to_owned());
        }
        let source = from.function();
        if !shows_memory(from) {
            return refused(format!(
                "{} has no memory that others could read: its engine needs one, and a window into \
                 it in BAR{CARD_MEMORY_BAR} (tables card_memory and bar{CARD_MEMORY_BAR} of its \
                 part in a lab)",
                source.name
            ));
        }
        let memory = reader.peer_memory(source.id, CARD_MEMORY_BAR).await?;
        let total = options.size_bytes.saturating_mul(options.iterations);
        let most = memory.size_bytes().min(MOST_MEMORY_BYTES);
        if total > most {
            let (total, most) = (size_words(total), size_words(most));
            memory.close().await?;
            return refused(format!(
                "each transfer reads other memory, and all need {total} of {}, where {most} can be \
                 read: make fewer (--iterations) or smaller ones",
                source.name
            ));
        }
        let (from, reader) = (from.clone(), reader.clone());
        let of = Self { name, from, reader, memory, options: *options };
        match of.fill(total).await {
            Ok(()) => Ok(of),
            Err(error) => {
                let _ = of.memory.close().await;
                Err(error)
            }
        }
    }

    /// Writes the pattern into the card's memory by its own engine.
    async fn fill(&self, total: u64) -> Result<()> {
        let from = &self.from;
        let buffer = from.buffer(FILL_BYTES.min(total), PageSize::Huge).await?;
        let options = ChannelOptions::default().with_card_memory(true);
        let mut channel = from.channel(ChannelKind::H2c, 0, options).await?;
        let mut done = 0;
        while done < total {
            let bytes = FILL_BYTES.min(total - done);
            fill(&buffer, 0, bytes, self.options.seed, done / WORD_BYTES)?;
            let target = Target::Card(buffer.clone(), 0..bytes, done);
            let deadline = self.options.deadline(from.bus());
            channel.transfer(Transfer::new(target, deadline)).await?;
            done += bytes;
        }
        channel.close().await?;
        Ok(buffer.unregister().await.map(drop)?)
    }
}

impl Source for PeerSource {
    fn bus(&self) -> &AnyBus {
        self.reader.bus()
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn transfer(&mut self, index: u64) -> Result<Transfer> {
        let start = index * self.options.size_bytes;
        Ok(Transfer {
            target: self.memory.target(start..start + self.options.size_bytes),
            level: CompletionLevel::Visible,
            deadline: self.options.deadline(self.bus()),
        })
    }
}
