// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pushed descriptors: the descriptor of a small post goes to the engine with its doorbell, in one
//! line of 64 B, and is not fetched. `docs/engine.md`, "Pushed descriptors".
//!
//! The ring has each pushed descriptor too, and the doorbell is rung behind the line. So a line
//! that is lost, or that the processor sends in parts, costs the fetch that it would have saved and
//! nothing else: nobody waits for ever, neither for this channel nor for one that it feeds.

use crosslane_host::{Bus, DmaMemory, HostWork, Mapping};
use crosslane_regs::engine;
use crosslane_regs::push_line::{self, control};

use super::descriptors::{Descriptor, put};
use super::options::{ChannelKind, ChannelOptions, DescriptorSource, Target};
use super::{Channel, Ready};
use crate::device::Device;
use crate::error::Result;
use crate::shared::ChannelKey;
use crate::window::{Contents, LINE_BYTES, Window, WindowOptions};

/// BAR of the push aperture, where an engine has one.
const PUSH_BAR: u8 = 4;
/// Most bytes of data that go with a pushed descriptor in its line.
pub const INLINE_BYTES: u64 = push_line::DATA.bytes as u64;

/// A whole line.
pub(super) type Line = [u8; LINE_BYTES as usize];

/// Opens a channel's line, if the engine has one, the channel can use it, and the platform maps it
/// write-combined.
pub(super) fn open(device: &Device, key: ChannelKey, options: ChannelOptions) -> Option<Window> {
    let is_ring = matches!(options.descriptors, DescriptorSource::Ring { .. });
    let is_possible = device.description().push && is_ring;
    if !options.push || !is_possible || options.card_memory || options.packets {
        return None;
    }
    let (kind, number) = key;
    let before = match kind {
        ChannelKind::H2c => 0,
        ChannelKind::C2h => engine::H2C.count,
        ChannelKind::Peer => engine::H2C.count + engine::C2H.count,
    };
    let at = (u64::from(before) + u64::from(number)) * LINE_BYTES;
    let options = WindowOptions::new(PUSH_BAR, at..at + LINE_BYTES)
        .with_mapping(Mapping::WriteCombined)
        .with_contents(Contents::Fifo { decoded_bytes: LINE_BYTES });
    Window::open(device.bus().clone(), device.function().id, options).ok()
}

impl Descriptor {
    /// Returns the line that posts this descriptor as number `posted` less one.
    fn in_line(self, posted: u32, inline: Option<&[u8]>) -> Line {
        let mut line = [0; LINE_BYTES as usize];
        put(&mut line, push_line::POSTED, posted);
        let bits = control::INTERRUPT.put(self.interrupt.into())
            | control::STATUS.put(self.status.into())
            | control::AWAIT_CREDIT.put(self.await_credit.into())
            | control::INLINE.put(inline.is_some().into())
            | control::BYTES.put(self.bytes);
        put(&mut line, push_line::CONTROL, bits);
        put(&mut line, push_line::ADDRESS_LOW, self.address.0 as u32);
        put(&mut line, push_line::ADDRESS_HIGH, (self.address.0 >> 32) as u32);
        if let Some(data) = inline {
            let from = push_line::DATA.base as usize;
            line[from..from + data.len()].copy_from_slice(data);
        }
        line
    }
}

impl Channel {
    /// Whether the channel pushes descriptors: the engine has a line for it, the options allow it,
    /// and the platform maps the line write-combined. A post of one descriptor is then pushed while
    /// nothing else is in flight, up to 48 B of H2C data with it;
    /// [`Statistics::pushed`](crate::Statistics::pushed) counts them.
    pub const fn pushes(&self) -> bool {
        self.line.is_some()
    }

    /// Returns the line for a batch that is to be pushed: one descriptor, and nothing in flight.
    pub(super) async fn line_of(
        &self,
        batch: &[Ready],
        descriptors: &[Descriptor],
    ) -> Result<Option<Line>> {
        let ([ready], [descriptor]) = (batch, descriptors) else { return Ok(None) };
        let is_idle = self.posted == self.completed && self.pending.is_empty();
        let fits = control::BYTES.get(control::BYTES.put(descriptor.bytes)) == descriptor.bytes;
        if self.line.is_none() || !is_idle || !fits {
            return Ok(None);
        }
        let posted = self.posted as u32;
        let posted = posted.wrapping_add(1);
        let bytes = u64::from(descriptor.bytes);
        let is_inline = self.key().0 == ChannelKind::H2c && bytes <= INLINE_BYTES;
        let (Target::Buffer(buffer, part), true) = (&ready.transfer.target, is_inline) else {
            return Ok(Some(descriptor.in_line(posted, None)));
        };
        let mut data = [0; INLINE_BYTES as usize];
        let data = &mut data[..bytes as usize];
        let read = buffer.memory().read(part.start, data);
        read.map_err(|error| self.slot.shared.bus_error(error))?;
        self.device.bus().work(HostWork::Copy(bytes)).await;
        Ok(Some(descriptor.in_line(posted, Some(&*data))))
    }

    /// Pushes a line, which has left the processor when this returns.
    pub(super) async fn push(&self, line: &Line) -> Result<()> {
        let Some(window) = &self.line else { return Ok(()) };
        window.push(line).await?;
        window.flush().await
    }
}
