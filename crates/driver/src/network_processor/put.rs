// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts: datagrams that the processor stores directly into a link.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

use crosslane_host::ErrorKind::{InvalidArgument, Unsupported};
use crosslane_host::{Bus, BusError, Mapping, RegisterAddress, Stores, lock};
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::put_control as layout;
use crosslane_regs::put_control::{length, what};

use super::error::{NetworkError, NetworkFault};
use super::options::{CHANNELS, Key};
use super::{NetworkProcessor, PUT_BAR};
use crate::error::{DriverError, Result};

/// Bytes before a datagram's payload.
const CONTROL_BYTES: usize = layout::BYTES as usize;
const COUNT_BYTES: u64 = 4;
/// Bytes of the counts of all channels of eight links.
pub(super) const COUNTS_BYTES: u64 = 8 * CHANNELS as u64 * COUNT_BYTES;

/// Datagrams of one key, so that messages do not interleave.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Vec<u8>>,
    /// Number of datagrams that have left the queue.
    taken: u64,
}

/// Queued puts, and counts of those stored.
pub(super) struct Puts {
    /// Datagrams stored, for each channel of each link.
    stored: Vec<u32>,
    queues: HashMap<Key, Queue>,
}

impl Puts {
    pub fn new(links: u8) -> Self {
        let stored = vec![0; usize::from(links) * usize::from(CHANNELS)];
        Self { stored, queues: HashMap::new() }
    }

    /// Forgets everything after a reset of the device.
    pub fn clear(&mut self) {
        self.stored.fill(0);
        self.queues.clear();
    }

    /// Forgets the queued datagrams of a link that has gone down.
    pub fn forget_link(&mut self, number: u8) {
        self.queues.retain(|key, _| !matches!(key, Key::Neighbour { link, .. } if *link == number));
    }

    /// Adds a message to the queue of its key. Returns how many datagrams of the key will have been
    /// taken when all of this message have been, or `None` while another message waits.
    fn push(&mut self, key: Key, datagrams: impl Iterator<Item = Vec<u8>>) -> Option<u64> {
        let queue = self.queues.entry(key).or_default();
        if !queue.waiting.is_empty() {
            return None;
        }
        queue.waiting.extend(datagrams);
        Some(queue.taken + queue.waiting.len() as u64)
    }

    /// Returns how many datagrams of a key have been taken, and whether none waits.
    fn state(&self, key: Key) -> (u64, bool) {
        self.queues.get(&key).map_or((0, true), |queue| (queue.taken, queue.waiting.is_empty()))
    }
}

/// Lays out a datagram for its slot.
fn datagram(tag: u8, index: u32, is_last: bool, payload: &[u8]) -> Vec<u8> {
    let first = what::TAG.put(tag.into())
        | what::LAST.put(u32::from(is_last))
        | what::VALID.put(1)
        | what::INDEX.put(index);
    let second = length::BYTES.put(payload.len() as u32);
    let mut bytes = Vec::with_capacity(CONTROL_BYTES + payload.len());
    bytes.extend(first.to_le_bytes());
    bytes.extend(second.to_le_bytes());
    bytes.extend(payload);
    bytes
}

impl NetworkProcessor {
    /// Stores a message into a link, datagram by datagram, waiting for room in the aperture until
    /// the deadline. On return all of it is on its way to the device. Messages of one key keep
    /// their order: the rest of a put that missed its deadline, or whose future was dropped, is
    /// stored by the next put of the key before its own.
    ///
    /// # Errors
    /// An impossible message, or no room in time: then the stored bytes count as moved.
    pub async fn put(
        &self,
        key: Key,
        bytes: &[u8],
        deadline: Picoseconds,
    ) -> Result<(), NetworkError> {
        let at = self.check_put(key, bytes)?;
        let total_bytes = bytes.len() as u64;
        let failed = |error| self.put_failed(key, error, total_bytes);
        self.settle().await.map_err(failed)?;
        let payload_bytes = self.shared.sizes.payload_bytes();
        let last = bytes.len().div_ceil(payload_bytes as usize) - 1;
        let chunks = bytes.chunks(payload_bytes as usize).enumerate();
        let datagrams = chunks
            .map(|(index, payload)| datagram(key.tag(), index as u32, index == last, payload));
        let mut datagrams = Some(datagrams);
        let mut end = None;
        loop {
            let (taken, is_empty) = {
                let mut puts = lock(&self.shared.puts);
                if end.is_none() && puts.state(key).1 {
                    end = datagrams.take().and_then(|datagrams| puts.push(key, datagrams));
                }
                puts.state(key)
            };
            let left = end.map_or(last as u64 + 1, |end| end.saturating_sub(taken));
            if left == 0 {
                return self.settle().await.map_err(failed);
            }
            let stored = (last as u64 + 1 - left) * payload_bytes;
            if is_empty {
                // Its datagrams are gone without having been stored.
                return Err(self.failure(key, NetworkFault::Reset, 0, total_bytes));
            }
            let ended = |error| self.put_ended(key, error, total_bytes, stored);
            self.put_one(key, at, deadline).await.map_err(ended)?;
        }
    }

    /// Waits until all puts of a channel have left the aperture for its queue to the link.
    ///
    /// # Errors
    /// A missed deadline.
    pub async fn put_drained(
        &self,
        link: u8,
        channel: u8,
        deadline: Picoseconds,
    ) -> Result<(), NetworkError> {
        let key = Key::Neighbour { link, channel, tag: 0 };
        self.check_put(key, &[0])?;
        self.settle().await.map_err(|error| self.put_failed(key, error, 0))?;
        loop {
            let (stored, left) = self.put_counts(link, channel);
            if stored == left {
                return Ok(());
            }
            let ended = |error| self.put_ended(key, error, 0, 0);
            self.wait_for_count(link, channel, left, deadline).await.map_err(ended)?;
        }
    }

    fn check_put(&self, key: Key, bytes: &[u8]) -> Result<(u8, u8), NetworkError> {
        let refused = |kind, problem: String| self.refuse(key, kind, problem);
        self.check_key(key).map_err(|problem| refused(InvalidArgument, problem))?;
        let Key::Neighbour { link, channel, .. } = key else {
            return Err(refused(InvalidArgument, "a put goes to a neighbour".to_owned()));
        };
        let (length, most) = (bytes.len() as u64, key.max_bytes(self.shared.sizes.payload_bytes()));
        if length == 0 || length > most {
            return Err(refused(
                InvalidArgument,
                format!("a put of {length} B; it has 1 to {most} B"),
            ));
        }
        if self.shared.sizes.put_slots == 0 {
            return Err(refused(Unsupported, "the device has no put window".to_owned()));
        }
        Ok((link, channel))
    }

    fn put_failed(&self, key: Key, error: DriverError, total_bytes: u64) -> NetworkError {
        self.failure(key, NetworkFault::NoAnswer(Box::new(error)), 0, total_bytes)
    }

    /// Returns the error of a put whose wait or store has failed.
    fn put_ended(&self, key: Key, error: BusError, total: u64, moved: u64) -> NetworkError {
        let fault = match error {
            BusError::Deadline { deadline, .. } => NetworkFault::Deadline { deadline },
            error => NetworkFault::NoAnswer(Box::new(self.shared.access.failed(error))),
        };
        self.failure(key, fault, moved, total)
    }

    const fn channel_index(link: u8, channel: u8) -> usize {
        link as usize * CHANNELS as usize + channel as usize
    }

    fn put_slot(&self, link: u8, channel: u8, slot: u32) -> RegisterAddress {
        let first =
            Self::channel_index(link, channel) as u64 * u64::from(self.shared.sizes.put_slots);
        RegisterAddress {
            function: self.shared.access.function.id,
            bar: PUT_BAR,
            offset_bytes: (first + u64::from(slot)) * self.shared.sizes.put_stride_bytes(),
        }
    }

    /// Returns how many datagrams of a channel were stored, and how many have left the aperture.
    fn put_counts(&self, link: u8, channel: u8) -> (u32, u32) {
        let index = Self::channel_index(link, channel);
        let left = self.shared.counts.read(index as u64 * COUNT_BYTES);
        (lock(&self.shared.puts).stored[index], u32::from_le_bytes(left))
    }

    /// Stores the next datagram of a key, if any, when a slot is free.
    async fn put_one(
        &self,
        key: Key,
        (link, channel): (u8, u8),
        deadline: Picoseconds,
    ) -> Result<(), BusError> {
        let (index, slots) = (Self::channel_index(link, channel), self.shared.sizes.put_slots);
        let (slot, datagram) = loop {
            let (_, left) = self.put_counts(link, channel);
            {
                let mut puts = lock(&self.shared.puts);
                let Puts { stored, queues } = &mut *puts;
                let queue = queues.entry(key).or_default();
                if queue.waiting.is_empty() {
                    return Ok(());
                }
                if stored[index].wrapping_sub(left) < slots
                    && let Some(datagram) = queue.waiting.pop_front()
                {
                    queue.taken += 1;
                    let slot = stored[index] % slots;
                    stored[index] = stored[index].wrapping_add(1);
                    break (slot, datagram);
                }
            }
            // Datagrams still in this core may be what the count waits for.
            self.send_off().await?;
            self.wait_for_count(link, channel, left, deadline).await?;
        };
        // No await since the slot was taken, and a store takes effect once polled.
        let stores = match self.shared.put_mapping {
            Mapping::WriteCombined => {
                self.fence_due.store(true, Ordering::Release);
                Stores::combined(self.bus().widest_store_bytes())
            }
            Mapping::Uncached => Stores::uncached(self.bus().widest_store_bytes()),
        };
        self.bus().store(self.put_slot(link, channel, slot), &datagram, stores).await
    }

    async fn wait_for_count(
        &self,
        link: u8,
        channel: u8,
        left: u32,
        deadline: Picoseconds,
    ) -> Result<(), BusError> {
        let offset_bytes = Self::channel_index(link, channel) as u64 * COUNT_BYTES;
        let memory = &self.shared.counts.memory;
        self.bus().wait_memory(memory, offset_bytes, left, deadline).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_has_its_control_word_before_its_payload() {
        let bytes = datagram(0x2a, 0x1fff, true, &[1, 2, 3]);
        let first: u32 = 0x2a | 1 << 6 | 1 << 7 | 0x1fff << 8;
        assert_eq!(bytes[..4], first.to_le_bytes());
        assert_eq!(bytes[4..], [3, 0, 0, 0, 1, 2, 3]);
        let bytes = datagram(0, 0, false, &[9; 128]);
        assert_eq!(bytes[..8], [1 << 7, 0, 0, 0, 128, 0, 0, 0]);
        assert_eq!(bytes.len(), 136);
    }
}
