// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Channel 0 of one direction, which moves data to or from either the card's memory or its stream.

use crosslane_driver::{
    Channel, ChannelKind, ChannelOptions, DescriptorSource, Device, DriverError, Notification,
};

/// Least descriptors of a channel's ring: a piece of 4 MiB in small pages.
pub(crate) const LEAST_ENTRIES: u32 = 1024;

/// An open channel and its configuration.
struct Open {
    channel: Channel,
    card_memory: bool,
    entries: u32,
}

/// H2C 0 or C2H 0 of a card, opened as its next transfer needs it.
pub(crate) struct CardChannel {
    pub kind: ChannelKind,
    core: u16,
    notification: Notification,
    open: Option<Open>,
}

impl CardChannel {
    pub const fn new(kind: ChannelKind, core: u16, notification: Notification) -> Self {
        Self { kind, core, notification, open: None }
    }

    /// Whether it is open for the card's memory (else: for the stream).
    pub fn is_at(&self, card_memory: bool) -> bool {
        self.open.as_ref().is_some_and(|open| open.card_memory == card_memory)
    }

    /// Returns the channel, if it is open.
    pub fn channel(&mut self) -> Option<&mut Channel> {
        self.open.as_mut().map(|open| &mut open.channel)
    }

    pub async fn close(&mut self) -> Result<(), DriverError> {
        match self.open.take() {
            Some(open) => open.channel.close().await,
            None => Ok(()),
        }
    }

    /// Opens the channel, unless it is already open for this with as many descriptors; nothing may
    /// be in flight in it.
    pub async fn set_up(
        &mut self,
        device: &Device,
        card_memory: bool,
        entries: u32,
    ) -> Result<(), DriverError> {
        let has_entries = self.open.as_ref().is_some_and(|open| open.entries >= entries);
        if self.is_at(card_memory) && has_entries {
            return Ok(());
        }
        self.close().await?;
        let options = ChannelOptions::default()
            .with_descriptors(DescriptorSource::Ring { entries })
            .with_notification(self.notification)
            .with_card_memory(card_memory);
        let channel = device.on_core(self.core).channel(self.kind, 0, options).await?;
        self.open = Some(Open { channel, card_memory, entries });
        Ok(())
    }
}
