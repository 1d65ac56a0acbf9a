// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small messages through an aperture onto memory, in any mapping. Combined writes arrive in any
//! order and in pieces, so the protocol does not rely on order: message `n` goes to slot `n` modulo
//! the number of slots, and each 8 B of a slot carry the number of the lap. The reader has the
//! message when all of them do. `docs/memory-card.md` has the layout.

use crosslane_host::ErrorKind::{InvalidArgument, Timeout};
use crosslane_host::{Bus, Mapping};
use crosslane_pcie::units::Picoseconds;

use crate::error::{DriverError, Result};
use crate::window::{LINE_BYTES, Window};

/// Bytes of a slot: a line, which leaves the core as one write if possible.
pub const SLOT_BYTES: u64 = LINE_BYTES;
/// 8 B words of a slot.
const WORDS: usize = 8;
/// Payload bytes of each word, beside its lap.
const WORD_PAYLOAD: usize = 6;
/// The longest message, bytes: one byte holds the length.
pub const MAX_MESSAGE_BYTES: usize = WORDS * WORD_PAYLOAD - 1;
/// Largest lap number; the next one is 1 again, and 0 marks a slot that was never written.
const LAPS: u64 = 0xffff;

/// Returns the lap of message `number` in a ring of `slots` slots.
const fn lap(number: u64, slots: u64) -> u16 {
    (number / slots % LAPS + 1) as u16
}

fn packed(message: &[u8], lap: u16) -> [u8; SLOT_BYTES as usize] {
    let mut payload = [0; WORDS * WORD_PAYLOAD];
    payload[0] = message.len() as u8;
    payload[1..=message.len()].copy_from_slice(message);
    let mut slot = [0; SLOT_BYTES as usize];
    for (word, part) in slot.chunks_exact_mut(8).zip(payload.chunks_exact(WORD_PAYLOAD)) {
        word[..WORD_PAYLOAD].copy_from_slice(part);
        word[WORD_PAYLOAD..].copy_from_slice(&lap.to_le_bytes());
    }
    slot
}

/// Unpacks the message of a slot if all of its words have the lap.
fn unpacked(slot: &[u8; SLOT_BYTES as usize], lap: u16) -> Option<Vec<u8>> {
    let mut payload = [0; WORDS * WORD_PAYLOAD];
    for (word, part) in slot.chunks_exact(8).zip(payload.chunks_exact_mut(WORD_PAYLOAD)) {
        if word[WORD_PAYLOAD..] != lap.to_le_bytes() {
            return None;
        }
        part.copy_from_slice(&word[..WORD_PAYLOAD]);
    }
    let length = usize::from(payload[0]);
    payload.get(1..=length).map(<[u8]>::to_vec)
}

/// A ring in memory: the slots, then 8 B with the number of messages that the reader has finished
/// with.
struct Ring {
    window: Window,
    slots: u64,
}

impl Ring {
    fn new(window: Window) -> Result<Self> {
        let slots = (window.size_bytes() / SLOT_BYTES).saturating_sub(1);
        if slots == 0 {
            let (place, size) = (format!("{window:?}"), window.size_bytes());
            let problem = format!("{size} B have no room for a slot and its count, 128 B");
            return Err(DriverError::refused(place, InvalidArgument, problem));
        }
        Ok(Self { window, slots })
    }

    const fn offset(&self, number: u64) -> u64 {
        number % self.slots * SLOT_BYTES
    }

    const fn count_offset(&self) -> u64 {
        self.slots * SLOT_BYTES
    }
}

/// The sending end, which stores messages.
pub struct SlotSender {
    ring: Ring,
    /// Messages sent so far.
    sent: u64,
    /// Messages that the reader had finished with at the last look.
    done: u64,
}

impl SlotSender {
    /// Makes a sender that fills a window with slots; the reader must be recreated too. The memory
    /// is cleared of any earlier ring.
    ///
    /// # Errors
    /// A window too small, or one that cannot be written.
    pub async fn new(window: Window) -> Result<Self> {
        let ring = Ring::new(window)?;
        let bytes = vec![0; ((ring.slots + 1) * SLOT_BYTES) as usize];
        ring.window.copy(0, &bytes).await?;
        ring.window.flush().await?;
        Ok(Self { ring, sent: 0, done: 0 })
    }

    /// Returns the number of messages that the ring has room for.
    pub fn slots(&self) -> u64 {
        self.ring.slots
    }

    /// Stores a message if a slot is free, and returns whether it was. The message may stay in the
    /// core's combining buffers until [`flush`](Self::flush) or until other stores push it out.
    ///
    /// # Errors
    /// A message of more than 47 B, or a window that fails.
    pub async fn try_send(&mut self, message: &[u8]) -> Result<bool> {
        let window = &self.ring.window;
        if message.len() > MAX_MESSAGE_BYTES {
            let (place, length) = (format!("{window:?}"), message.len());
            let problem = format!("a message of {length} B; {MAX_MESSAGE_BYTES} B fit in a slot");
            return Err(DriverError::refused(place, InvalidArgument, problem));
        }
        if self.sent - self.done == self.ring.slots {
            // The reader may be waiting for stores that are still in the core.
            window.flush().await?;
            let mut count = [0; 8];
            window.read(self.ring.count_offset(), &mut count).await?;
            self.done = u64::from_le_bytes(count);
            if self.sent.wrapping_sub(self.done) >= self.ring.slots {
                return Ok(false);
            }
        }
        let slot = packed(message, lap(self.sent, self.ring.slots));
        match window.mapping() {
            // Each word must be whole on its own.
            Mapping::Uncached => window.write(self.ring.offset(self.sent), &slot).await?,
            Mapping::WriteCombined => window.copy(self.ring.offset(self.sent), &slot).await?,
        }
        self.sent += 1;
        Ok(true)
    }

    /// Sends a message like [`try_send`](Self::try_send), waiting for a slot until the deadline and
    /// checking every `pause`.
    ///
    /// # Errors
    /// See [`try_send`](Self::try_send); also a missed deadline.
    pub async fn send(
        &mut self,
        message: &[u8],
        pause: Picoseconds,
        deadline: Picoseconds,
    ) -> Result<()> {
        while !self.try_send(message).await? {
            let bus = self.ring.window.bus();
            if bus.now() >= deadline {
                let place = format!("{:?}", self.ring.window);
                let problem = format!("no slot was free until the deadline, {deadline}");
                return Err(DriverError::refused(place, Timeout, problem));
            }
            bus.sleep_until(Picoseconds((bus.now() + pause).0.min(deadline.0))).await;
        }
        Ok(())
    }

    /// Makes all messages sent so far visible to the reader.
    ///
    /// # Errors
    /// See [`Window::flush`].
    pub async fn flush(&self) -> Result<()> {
        self.ring.window.flush().await
    }
}

/// The receiving end. On a card it is a circuit beside the memory; here a program loads the
/// messages through an uncached window.
pub struct SlotReceiver {
    ring: Ring,
    taken: u64,
}

impl SlotReceiver {
    /// Makes a receiver for a new ring.
    ///
    /// # Errors
    /// A window too small, or not uncached.
    pub fn new(window: Window) -> Result<Self> {
        if window.mapping() != Mapping::Uncached {
            let problem = "slots are read through an uncached window";
            return Err(DriverError::refused(format!("{window:?}"), InvalidArgument, problem));
        }
        Ok(Self { ring: Ring::new(window)?, taken: 0 })
    }

    /// Takes the next message if it has arrived in whole, and frees its slot.
    ///
    /// # Errors
    /// A window that fails.
    pub async fn try_receive(&mut self) -> Result<Option<Vec<u8>>> {
        let mut slot = [0; SLOT_BYTES as usize];
        self.ring.window.read(self.ring.offset(self.taken), &mut slot).await?;
        let Some(message) = unpacked(&slot, lap(self.taken, self.ring.slots)) else {
            return Ok(None);
        };
        self.taken += 1;
        let count = self.taken.to_le_bytes();
        self.ring.window.write(self.ring.count_offset(), &count).await?;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_there_when_all_of_its_words_are() {
        let message: Vec<u8> = (0..MAX_MESSAGE_BYTES as u8).collect();
        let (old, new) = (packed(b"old", 7), packed(&message, 8));
        assert_eq!(unpacked(&new, 8), Some(message));
        assert_eq!(unpacked(&old, 7), Some(b"old".to_vec()));
        assert_eq!(unpacked(&old, 8), None);
        // A mix of new and old words is no message of either lap.
        for arrived in 1..255_u32 {
            let mut slot = old;
            for word in (0..8).filter(|word| arrived >> word & 1 != 0) {
                slot[word * 8..word * 8 + 8].copy_from_slice(&new[word * 8..word * 8 + 8]);
            }
            assert_eq!(unpacked(&slot, 8), None, "{arrived:#b}");
            assert_eq!(unpacked(&slot, 7), None, "{arrived:#b}");
        }
    }

    #[test]
    fn a_slot_of_nonsense_is_no_message() {
        let mut slot = packed(b"", 1);
        slot[0] = 48;
        assert_eq!(unpacked(&slot, 1), None);
    }

    #[test]
    fn laps_are_never_zero_and_differ_from_the_one_before() {
        for number in [0, 3, 4, 4 * 0xfffe, 4 * 0xffff, 4 * 0x1_0000] {
            assert_ne!(lap(number, 4), 0);
            assert_ne!(lap(number, 4), lap(number + 4, 4));
        }
    }
}
