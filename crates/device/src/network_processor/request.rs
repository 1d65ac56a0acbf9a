// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores of the host into the apertures, reassembled into requests and puts. Stores may have any
//! order and any width.

use crosslane_regs::{network_request as layout, put_control};
use crosslane_torus_link::frame::{Kind, LONG_PAYLOAD_BYTES, PAYLOAD_BYTES, Payload};

use super::parameters::put_stride_bytes;
use crate::little_endian::{long, word};

/// Distance of slots in a request aperture, bytes: one combining buffer.
const REQUEST_STRIDE: u64 = 64;
/// Offset of the credit slots in BAR 2, after the get slots.
const CREDITS_BASE: u64 = 0x4000;
/// Bytes of the request apertures in BAR 2.
pub const REQUEST_WINDOW_BYTES: u64 = 0x8000;
/// Longest run of a request, bytes.
const MAX_RUN_BYTES: u32 = 1 << 20;
/// Bytes of a request.
const REQUEST_BYTES: usize = layout::BYTES as usize;
/// Bytes of a put's control word.
const CONTROL_BYTES: usize = put_control::BYTES as usize;
/// Most bytes of a put slot that can be stored.
const PUT_BYTES: usize = CONTROL_BYTES + LONG_PAYLOAD_BYTES;

/// Aperture of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Get,
    Credit,
}

/// Destination or source of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Party {
    /// Other end of a link, by one of its channels.
    Neighbour { link: u8, channel: u8 },
    /// Node of the torus, by its number.
    Node(u16),
}

/// Key that distinguishes the messages of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub party: Party,
    pub tag: u8,
}

/// Request for a run of host memory of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub window: Window,
    pub key: Key,
    pub is_cancel: bool,
    pub is_last: bool,
    /// Position in the message, in payloads.
    pub index: u32,
    pub bytes: u32,
    pub address: u64,
    pub notify: u64,
    pub token: u16,
    /// Value of the channel's field, in a routed request as well.
    pub channel: u8,
    /// Value of the reserved word.
    pub reserved: u32,
}

/// Channel that a routed request names.
const ROUTED_CHANNEL: u8 = 6;

impl Request {
    /// Decodes a slot.
    fn from_bytes(window: Window, bytes: &[u8; REQUEST_BYTES]) -> Self {
        let word = |at: u32| word(bytes, at as usize);
        let long = |at: u32| long(bytes, at as usize);
        let (what, party) = (word(layout::WHAT), word(layout::PARTY));
        let party_of = match layout::what::ROUTED.get(what) {
            0 => Party::Neighbour {
                link: layout::what::LINK.get(what) as u8,
                channel: layout::what::CHANNEL.get(what) as u8,
            },
            _ => Party::Node(layout::party::NODE.get(party) as u16),
        };
        Self {
            window,
            key: Key { party: party_of, tag: layout::what::TAG.get(what) as u8 },
            is_cancel: layout::what::CANCEL.get(what) != 0,
            is_last: layout::what::LAST.get(what) != 0,
            index: layout::what::INDEX.get(what),
            bytes: layout::length::BYTES.get(word(layout::LENGTH)),
            address: long(layout::BUFFER_LOW),
            notify: long(layout::NOTIFY_LOW),
            token: layout::party::TOKEN.get(party) as u16,
            channel: layout::what::CHANNEL.get(what) as u8,
            reserved: word(layout::RESERVED),
        }
    }

    /// Returns the bytes of the message in each full datagram.
    pub fn unit(&self, payload_bytes: u32) -> u32 {
        self.key.party.unit(payload_bytes)
    }

    /// Whether the run is valid.
    pub fn is_possible(&self, payload_bytes: u32) -> bool {
        let unit = self.unit(payload_bytes);
        let last_byte = self.address.checked_add(u64::from(self.bytes.saturating_sub(1)));
        let is_routed = matches!(self.key.party, Party::Node(_));
        // Only a message between neighbours may have no bytes, and then has one run.
        let may_be_empty = self.is_last && self.index == 0 && !is_routed;
        let has_length = match self.bytes {
            0 => may_be_empty,
            bytes => self.is_last || bytes.is_multiple_of(unit),
        };
        let payloads = self.index + self.bytes.div_ceil(unit);
        let is_told = self.notify != 0 && self.notify.is_multiple_of(8);
        let has_channel = !is_routed || self.channel == ROUTED_CHANNEL;
        has_length
            && has_channel
            && is_told
            && self.reserved == 0
            && self.bytes <= MAX_RUN_BYTES
            && last_byte.is_some()
            && payloads <= MAX_PAYLOADS
    }
}

/// Most payloads of a message: 13-bit indices.
const MAX_PAYLOADS: u32 = 1 << 13;

impl Party {
    /// Returns the bytes of a message in each full datagram.
    pub const fn unit(self, payload_bytes: u32) -> u32 {
        payload_bytes - self.lead() as u32
    }

    /// Returns the bytes in the payload before those of the message.
    pub const fn lead(self) -> usize {
        match self {
            Self::Neighbour { .. } => 0,
            Self::Node(_) => ROUTING_BYTES as usize,
        }
    }
}

/// Bytes of the word before a routed payload.
const ROUTING_BYTES: u32 = 8;

/// Word before a routed payload (`docs/network-processor.md`, *Get engine*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Routing {
    pub destination: u16,
    pub source: u16,
    /// Position in the message, in payloads.
    pub index: u32,
    /// Number of valid bytes. An abort has none and is the last.
    pub bytes: u32,
    pub is_last: bool,
}

impl Routing {
    /// Returns the bits of the index in the upper half of the word for a payload of this length;
    /// those of `bytes` follow, up to the last.
    const fn index_bits(payload_bytes: usize) -> u32 {
        if payload_bytes > PAYLOAD_BYTES { 23 } else { 24 }
    }

    /// Writes the word into the beginning of a payload.
    pub fn put(self, payload: &mut [u8]) {
        let bits = Self::index_bits(payload.len());
        let low = u32::from(self.source) << 16 | u32::from(self.destination);
        let last = u32::from(self.is_last) << 31;
        let bytes = self.bytes << bits & 0x7fff_ffff;
        let high = last | bytes | self.index & ((1 << bits) - 1);
        let word = u64::from(high) << 32 | u64::from(low);
        payload[..ROUTING_BYTES as usize].copy_from_slice(&word.to_le_bytes());
    }

    pub fn from_payload(payload: &[u8]) -> Self {
        let bits = Self::index_bits(payload.len());
        let (low, high) = (word(payload, 0), word(payload, 4));
        Self {
            destination: low as u16,
            source: (low >> 16) as u16,
            index: high & ((1 << bits) - 1),
            bytes: (high & 0x7fff_ffff) >> bits,
            is_last: high >> 31 != 0,
        }
    }
}

/// Last byte of the payload of a short datagram that aborts its message; of a long payload the one
/// before, and the last is 0.
const ABORT: u8 = 0xff;

/// Writes the end of a short datagram's payload: how many bytes count, or `None` for an abort.
pub(super) fn put_short(payload: &mut [u8], bytes: Option<usize>) {
    let is_long = payload.len() > PAYLOAD_BYTES;
    let last = payload.len() - 1;
    match bytes {
        Some(bytes) => payload[last] = bytes as u8,
        None => payload[last - usize::from(is_long)] = ABORT,
    }
}

/// Returns how many bytes of a short datagram's payload count; `None` for an abort.
pub(super) fn short_bytes(payload: &[u8]) -> Option<usize> {
    let is_long = payload.len() > PAYLOAD_BYTES;
    let last = payload.len() - 1;
    match payload[last] {
        0 if is_long && payload[last - 1] == ABORT => None,
        ABORT if !is_long => None,
        bytes => Some(usize::from(bytes).min(last)),
    }
}

/// Slot of an aperture: the bytes stored into it, and which of them are valid.
#[derive(Clone, Debug)]
struct Slot<const BYTES: usize> {
    bytes: [u8; BYTES],
    there: [bool; BYTES],
}

impl<const BYTES: usize> Slot<BYTES> {
    const fn new() -> Self {
        Self { bytes: [0; BYTES], there: [false; BYTES] }
    }

    fn store(&mut self, at: usize, data: &[u8]) {
        for (offset, byte) in (at..BYTES).zip(data) {
            self.bytes[offset] = *byte;
            self.there[offset] = true;
        }
    }

    fn has(&self, bytes: usize) -> bool {
        self.there[..bytes].iter().all(|there| *there)
    }
}

/// Calls `store` for the part of a store in each slot, with its offset in the aperture and in the
/// slot.
fn for_each_slot(offset: u64, data: &[u8], stride: u64, mut store: impl FnMut(u64, usize, &[u8])) {
    let (mut at, mut left) = (offset, data);
    while !left.is_empty() {
        let within = at % stride;
        let (part, rest) = left.split_at(left.len().min((stride - within) as usize));
        store(at, within as usize, part);
        (at, left) = (at + part.len() as u64, rest);
    }
}

/// Apertures of gets and credits.
pub(super) struct RequestWindows {
    gets: Vec<Slot<REQUEST_BYTES>>,
    credits: Vec<Slot<REQUEST_BYTES>>,
}

impl RequestWindows {
    pub fn new(get_slots: u16, credit_slots: u16) -> Self {
        let slots = |count: u16| vec![Slot::new(); count.into()];
        Self { gets: slots(get_slots), credits: slots(credit_slots) }
    }

    /// Takes a store and calls `found` for each request that it completes, or with `None` for bytes
    /// outside all slots.
    pub fn store(&mut self, offset: u64, data: &[u8], mut found: impl FnMut(Option<Request>)) {
        for_each_slot(offset, data, REQUEST_STRIDE, |at, within, part| {
            let (window, slots, base) = match at < CREDITS_BASE {
                true => (Window::Get, &mut self.gets, 0),
                false => (Window::Credit, &mut self.credits, CREDITS_BASE),
            };
            match slots.get_mut(((at - base) / REQUEST_STRIDE) as usize) {
                Some(slot) if within < REQUEST_BYTES => {
                    slot.store(within, part);
                    if slot.has(REQUEST_BYTES) {
                        found(Some(Request::from_bytes(window, &slot.bytes)));
                        *slot = Slot::new();
                    }
                }
                // The rest of the line is filler of a combining buffer.
                Some(_) => {}
                None => found(None),
            }
        });
    }

    pub fn reset(&mut self) {
        for slot in self.gets.iter_mut().chain(&mut self.credits) {
            *slot = Slot::new();
        }
    }
}

/// Datagram put by the host.
pub(super) struct Put {
    pub kind: Kind,
    pub tag: u8,
    pub index: u16,
    pub payload: Payload,
}

/// Put aperture.
pub(super) struct PutWindow {
    payload_bytes: usize,
    stride_bytes: u64,
    /// Slots of each channel of each link, created by their first store.
    slots: Vec<Option<Box<Slot<PUT_BYTES>>>>,
}

impl PutWindow {
    pub fn new(links: u8, slots: u8, payload_bytes: u32) -> Self {
        let count = usize::from(links) * 8 * usize::from(slots);
        Self {
            payload_bytes: payload_bytes as usize,
            stride_bytes: put_stride_bytes(payload_bytes),
            slots: std::iter::repeat_with(|| None).take(count).collect(),
        }
    }

    /// Takes a store and calls `found` with the slot number of each datagram that it completes, and
    /// the datagram or `None` for an invalid one; without a slot for bytes outside all slots.
    pub fn store(
        &mut self,
        offset: u64,
        data: &[u8],
        mut found: impl FnMut(Option<(usize, Option<Put>)>),
    ) {
        let (stride, payload_bytes) = (self.stride_bytes, self.payload_bytes);
        let end = CONTROL_BYTES + payload_bytes;
        for_each_slot(offset, data, stride, |at, within, part| {
            let number = (at / stride) as usize;
            let Some(place) = self.slots.get_mut(number).filter(|_| within < end) else {
                found(None);
                return;
            };
            let slot = place.get_or_insert_with(|| Box::new(Slot::new()));
            slot.store(within, part);
            let put = match put_of(slot, payload_bytes) {
                Whole::Not => return,
                Whole::Wrong => None,
                Whole::Put(put) => Some(put),
            };
            *place = None;
            found(Some((number, put)));
        });
    }

    pub fn reset(&mut self) {
        self.slots.fill_with(|| None);
    }
}

enum Whole {
    Not,
    Wrong,
    Put(Put),
}

/// Returns the datagram of a slot if it is complete.
fn put_of(slot: &Slot<PUT_BYTES>, payload_bytes: usize) -> Whole {
    if !slot.has(CONTROL_BYTES) {
        return Whole::Not;
    }
    let word = |at: u32| word(&slot.bytes, at as usize);
    let (what, length) = (word(put_control::WHAT), word(put_control::LENGTH));
    let bytes = put_control::length::BYTES.get(length) as usize;
    let is_last = put_control::what::LAST.get(what) != 0;
    if put_control::what::VALID.get(what) == 0 || bytes > payload_bytes {
        return Whole::Wrong;
    }
    if !slot.has(CONTROL_BYTES + bytes) {
        return Whole::Not;
    }
    if bytes == 0 || (bytes < payload_bytes && !is_last) {
        return Whole::Wrong;
    }
    let mut payload = [0; LONG_PAYLOAD_BYTES];
    let payload = &mut payload[..payload_bytes];
    payload[..bytes].copy_from_slice(&slot.bytes[CONTROL_BYTES..CONTROL_BYTES + bytes]);
    let kind = match (is_last, bytes) {
        (false, _) => Kind::Middle,
        (true, _) if bytes == payload_bytes => Kind::Last,
        (true, _) => {
            put_short(payload, Some(bytes));
            Kind::Short
        }
    };
    Whole::Put(Put {
        kind,
        tag: put_control::what::TAG.get(what) as u8,
        index: put_control::what::INDEX.get(what) as u16,
        payload: Payload::from(&*payload),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_bytes() -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let what = layout::what::LINK.put(2)
            | layout::what::CHANNEL.put(5)
            | layout::what::TAG.put(33)
            | layout::what::LAST.put(1)
            | layout::what::INDEX.put(7);
        let words = [what, 300, 0x1000, 1, 0x2008, 2, 0xbeef, 0];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    #[test]
    fn a_request_is_whole_with_its_last_byte_wherever_that_is() {
        let bytes = request_bytes();
        let expected = Request {
            window: Window::Credit,
            key: Key { party: Party::Neighbour { link: 2, channel: 5 }, tag: 33 },
            is_cancel: false,
            is_last: true,
            index: 7,
            bytes: 300,
            address: 0x1_0000_1000,
            notify: 0x2_0000_2008,
            token: 0xbeef,
            channel: 5,
            reserved: 0,
        };
        for order in [[0_usize, 8, 16, 24], [24, 0, 16, 8], [8, 16, 24, 0]] {
            let mut windows = RequestWindows::new(4, 4);
            let mut found = Vec::new();
            for (number, at) in order.into_iter().enumerate() {
                let place = CREDITS_BASE + 3 * REQUEST_STRIDE + at as u64;
                windows.store(place, &bytes[at..at + 8], |request| found.push(request));
                assert_eq!(found.len(), usize::from(number == 3));
            }
            assert_eq!(found, [Some(expected)]);
            // The slot is free for the next request.
            windows.store(CREDITS_BASE + 3 * REQUEST_STRIDE, &bytes, |request| found.push(request));
            assert_eq!(found.len(), 2);
        }
        assert!(expected.is_possible(128));
        assert!(!Request { is_last: false, ..expected }.is_possible(128));
        assert!(Request { is_last: false, bytes: 256, ..expected }.is_possible(128));
        assert!(!Request { index: MAX_PAYLOADS - 2, ..expected }.is_possible(128));
        assert!(!Request { address: u64::MAX - 10, ..expected }.is_possible(128));
        assert!(Request { address: u64::MAX - 299, ..expected }.is_possible(128));
        assert!(!Request { bytes: 0, ..expected }.is_possible(128));
        assert!(Request { bytes: 0, index: 0, ..expected }.is_possible(128));
        assert!(!Request { notify: 0, ..expected }.is_possible(128));
        assert!(!Request { notify: 0x2004, ..expected }.is_possible(128));
        assert!(!Request { reserved: 1, ..expected }.is_possible(128));
        let key = Key { party: Party::Node(3), tag: 1 };
        assert!(Request { key, channel: 6, ..expected }.is_possible(128));
        assert!(!Request { key, ..expected }.is_possible(128));
        assert!(!Request { key, channel: 6, bytes: 0, index: 0, ..expected }.is_possible(128));
    }

    #[test]
    fn bytes_beside_the_slots_are_nobodys() {
        let mut windows = RequestWindows::new(4, 4);
        let mut found = Vec::new();
        for offset in [4 * REQUEST_STRIDE, CREDITS_BASE - 8, REQUEST_WINDOW_BYTES - 8] {
            windows.store(offset, &[1; 8], |request| found.push(request));
        }
        assert_eq!(found, [None; 3]);
        // The second half of a slot is ignored.
        windows.store(REQUEST_BYTES as u64, &[1; 8], |request| found.push(request));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn ends_of_short_datagrams_come_back() {
        for (payload_bytes, most) in [(128, 127), (256, 255)] {
            let mut payload = vec![0; payload_bytes];
            for bytes in 0..=most {
                put_short(&mut payload, Some(bytes));
                assert_eq!(short_bytes(&payload), Some(bytes));
            }
            payload.fill(0);
            put_short(&mut payload, None);
            assert_eq!(short_bytes(&payload), None);
            for bytes in 0..=payload_bytes as u32 - 8 {
                let (destination, source, index) = (0xabcd, 0x1234, 8_191);
                let routing =
                    Routing { destination, source, index, bytes, is_last: bytes % 2 == 1 };
                routing.put(&mut payload);
                assert_eq!(Routing::from_payload(&payload), routing);
            }
        }
    }

    #[test]
    fn a_put_is_whole_with_as_many_bytes_as_it_says() {
        let what = put_control::what::TAG.put(9)
            | put_control::what::LAST.put(1)
            | put_control::what::VALID.put(1)
            | put_control::what::INDEX.put(2);
        let mut bytes = [0xaa; PUT_BYTES];
        bytes[..4].copy_from_slice(&what.to_le_bytes());
        bytes[4..8].copy_from_slice(&20_u32.to_le_bytes());
        let mut window = PutWindow::new(1, 2, 128);
        let mut found = Vec::new();
        let stride = put_stride_bytes(128);
        let slot = stride * 3;
        window.store(slot + 16, &bytes[16..64], |put| found.push(put));
        window.store(slot, &bytes[..8], |put| found.push(put));
        assert!(found.is_empty());
        window.store(slot + 8, &bytes[8..16], |put| found.push(put));
        let (number, put) = found.pop().unwrap().unwrap();
        let put = put.unwrap();
        assert_eq!((number, put.tag, put.index, put.kind), (3, 9, 2, Kind::Short));
        assert_eq!(put.payload[..20], [0xaa; 20]);
        assert_eq!((put.payload[20], put.payload[127]), (0, 20));
        // A put that is not the last must be full, and its slot must exist.
        let what = put_control::what::VALID.put(1);
        bytes[..4].copy_from_slice(&what.to_le_bytes());
        window.store(slot, &bytes[..8], |put| found.push(put));
        assert!(found.is_empty());
        window.store(slot + 8, &bytes[8..28], |put| found.push(put));
        assert!(matches!(found.pop(), Some(Some((3, None)))));
        window.store(stride * 16, &bytes[..8], |put| found.push(put));
        assert!(matches!(found.pop(), Some(None)));
    }
}
