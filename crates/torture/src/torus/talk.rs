// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversations: one node sends messages of one key one after the other, another receives them.

use std::cell::Cell;
use std::rc::Rc;

use crosslane_driver::network_processor::{
    Buffers, Ended, InFlight, Key, Message, NetworkError, NetworkFault, NetworkProcessor,
};
use crosslane_host::{AnyBus, Bus};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::check::{Check, check};

/// Time limit of a message: cuts last microseconds, and some tori are slow.
const PATIENCE: Picoseconds = Picoseconds::from_ms(100);
/// Time after which a receiver cancels its credit if the sender has given up, unless the cables are
/// slower.
const SHORT_PATIENCE: Picoseconds = Picoseconds::from_us(300);
/// Interval of checking such a credit.
const LOOK: Picoseconds = Picoseconds::from_us(2);
/// Longest message, bytes.
const MAX_BYTES: u64 = 12_000;
/// Longest routed message, bytes: it fits into a page, as its payloads of 120 B or 248 B do not end
/// at page boundaries.
const MAX_ROUTED_BYTES: u64 = 2_500;
/// Messages of each node that sends round a ring.
const RING_LETTERS: usize = 3;
/// Longest put message, bytes.
const MAX_PUT_BYTES: u64 = 700;
/// Size of a page of scattered memory, bytes.
const PAGE_BYTES: u64 = 4096;
/// Guard bytes beside a message that must stay unchanged.
const MARGIN: u64 = 64;
/// Offsets of messages in their buffers lie below this, bytes.
const OFFSETS: u64 = 600;
/// Value of the guard bytes.
const UNTOUCHED: u8 = 0x5a;

/// Kind of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Get,
    Put,
    Routed,
}

/// One message, as both ends know it.
#[derive(Clone, Debug)]
struct Letter {
    bytes: u64,
    /// Room at the receiver, bytes.
    room: u64,
    /// Offsets in the two buffers.
    from: u64,
    into: u64,
    /// Delays of the sender before sending, and of the receiver before giving its credit.
    send_after: Picoseconds,
    take_after: Picoseconds,
    /// Delay after which the sender cancels it, if it does.
    cancel_after: Option<Picoseconds>,
}

/// State shared by both ends of a conversation.
#[derive(Clone)]
pub(super) struct Talk {
    pub number: u64,
    manner: Manner,
    letters: Rc<Vec<Letter>>,
    /// Whether the sender has cancelled its last letter.
    is_taken_back: Rc<Cell<bool>>,
    /// Whether the receiver therefore got nothing of it.
    is_given_up: Rc<Cell<bool>>,
    /// Letters for which the receiver has given a credit.
    credits: Rc<Cell<u64>>,
    /// Whether the sender waits for a letter's credit, as it must if credits wait for slots.
    waits_for_credits: bool,
    /// Whether letters of up to a page lie in two, and datagrams with them.
    lies_across_pages: bool,
    /// Whether nodes drop routed letters that come before their credits, when too many do.
    may_lose_routed: bool,
    /// Time within which the receiver hears of the sender's giving up.
    word_within: Picoseconds,
}

/// Results of one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    pub messages: u64,
    pub bytes: u64,
    pub cancels: u64,
    pub lost: u64,
    pub hash: u64,
}

impl Heard {
    fn note(&mut self, now: Picoseconds, what: u64) {
        self.hash = (self.hash ^ now.0 ^ what << 48).wrapping_mul(0x0100_0000_01b3).rotate_left(9);
    }
}

fn ns(time: u64) -> Picoseconds {
    Picoseconds::from_ns(time)
}

/// Returns a byte of a letter.
fn byte(talk: u64, letter: u64, at: u64) -> u8 {
    let mixed = (talk << 40 ^ letter << 32 ^ (at / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (at % 8 * 8)) as u8
}

impl Talk {
    pub fn new(number: u64, manner: Manner, rng: &mut Random) -> Self {
        let count = rng.u32(1..6);
        let most = match manner {
            Manner::Get => MAX_BYTES,
            Manner::Put => MAX_PUT_BYTES,
            Manner::Routed => MAX_ROUTED_BYTES,
        };
        let most = [64, 700, most][rng.usize(..3)].min(most);
        let cancels = manner != Manner::Put && rng.u8(..6) == 0;
        let letters = (0..count).map(|letter| {
            // A put has at least one byte.
            let bytes = rng.u64(u64::from(manner == Manner::Put)..=most);
            let room = match rng.u8(..8) {
                0 => rng.u64(1..=bytes.max(1)),
                1 => bytes + rng.u64(1..500),
                _ => bytes.max(1),
            };
            let late =
                |rng: &mut Random| ns([0, 0, rng.u64(..3_000), rng.u64(..30_000)][rng.usize(..4)]);
            Letter {
                bytes,
                room,
                from: rng.u64(..OFFSETS),
                into: MARGIN + rng.u64(..OFFSETS),
                send_after: late(rng),
                take_after: late(rng),
                cancel_after: (cancels && letter + 1 == count).then(|| ns(rng.u64(..6_000))),
            }
        });
        Self::of(number, manner, letters.collect())
    }

    /// Makes routed messages of the longest size, one after the other without a pause.
    pub fn round_a_ring(number: u64) -> Self {
        let letter = Letter {
            bytes: MAX_ROUTED_BYTES,
            room: MAX_ROUTED_BYTES,
            from: 0,
            into: MARGIN,
            send_after: ns(0),
            take_after: ns(0),
            cancel_after: None,
        };
        Self::of(number, Manner::Routed, vec![letter; RING_LETTERS])
    }

    fn of(number: u64, manner: Manner, letters: Vec<Letter>) -> Self {
        let (is_taken_back, is_given_up, credits) = Default::default();
        let letters = Rc::new(letters);
        Self {
            number,
            manner,
            letters,
            is_taken_back,
            is_given_up,
            credits,
            waits_for_credits: false,
            lies_across_pages: false,
            may_lose_routed: false,
            word_within: SHORT_PATIENCE,
        }
    }

    /// Lays letters of up to a page across the end of one.
    pub const fn lie_across_pages(&mut self) {
        self.lies_across_pages = true;
    }

    /// Lets routed letters be lost that come before their credits.
    pub const fn may_lose_routed(&mut self) {
        self.may_lose_routed = true;
    }

    /// Waits at least so long for the word of a sender that has given up.
    pub fn wait_for_word(&mut self, within: Picoseconds) {
        self.word_within = self.word_within.max(within);
    }

    /// Whether a message lies across the end of a scattered page.
    fn is_across(&self, node: &NetworkProcessor, bytes: u64) -> bool {
        let is_scattered = node.modes().buffers == Buffers::User;
        is_scattered && self.lies_across_pages && bytes <= PAGE_BYTES
    }

    /// Returns where a message begins in its buffer. In scattered pages a long one begins where no
    /// datagram lies in two: it would take more requests than some nodes have slots.
    fn place(&self, node: &NetworkProcessor, wanted: u64, bytes: u64) -> u64 {
        match node.modes().buffers {
            Buffers::User if self.is_across(node, bytes) => PAGE_BYTES - OFFSETS + wanted,
            Buffers::User => wanted.next_multiple_of(node.sizes().payload_bytes()),
            Buffers::Copied | Buffers::Mapped => wanted,
        }
    }

    /// Makes the sender wait for each credit before it sends.
    pub const fn wait_for_credits(&mut self) {
        self.waits_for_credits = true;
    }

    /// Returns the most requests for one of its credits at a node: one for each page that may lie
    /// alone, and for each datagram between two.
    pub fn places(&self, node: &NetworkProcessor) -> u64 {
        let requests = |letter: &Letter| {
            let begin = self.place(node, letter.into, letter.room) % PAGE_BYTES;
            let pages = (begin + letter.room).div_ceil(PAGE_BYTES);
            if self.is_across(node, letter.room) { 2 * pages - 1 } else { pages }
        };
        match node.modes().buffers {
            Buffers::User => self.letters.iter().map(requests).max().unwrap_or(0),
            Buffers::Copied | Buffers::Mapped => 1,
        }
    }

    /// Waits for the credit of a letter, if the sender must.
    async fn credit_is_there(&self, letter: u64, bus: &AnyBus) {
        while self.waits_for_credits && self.credits.get() <= letter {
            Bus::sleep_until(bus, Bus::now(bus) + LOOK).await;
        }
    }

    /// Checks after both ends: only a cancelled message may be lost.
    pub fn last_look(&self) {
        check!(
            Check::RightError,
            self.is_taken_back.get() || !self.is_given_up.get(),
            "{}: nothing came of a message that was not taken back",
            self.number
        );
    }

    /// Runs the sender.
    pub async fn send(self, node: NetworkProcessor, key: Key) -> Heard {
        let mut heard = Heard::default();
        let bus = node.bus().clone();
        let buffer = node.buffer(1024 + MAX_BYTES).await;
        let buffer = buffer.unwrap_or_else(|error| Check::Setup.fail(error.to_string()));
        for (letter, one) in (0..).zip(self.letters.iter()) {
            Bus::sleep_until(&bus, Bus::now(&bus) + one.send_after).await;
            self.credit_is_there(letter, &bus).await;
            let data: Vec<u8> = (0..one.bytes).map(|at| byte(self.number, letter, at)).collect();
            let deadline = Bus::now(&bus) + PATIENCE;
            let ended = match self.manner {
                Manner::Put => node.put(key, &data, deadline).await.map(|()| one.bytes),
                Manner::Get | Manner::Routed => {
                    // A routed message has at least one byte.
                    let bytes = one.bytes.max(u64::from(self.manner == Manner::Routed));
                    let from = self.place(&node, one.from, bytes);
                    let written = buffer.write(from, &data);
                    written.unwrap_or_else(|error| Check::Setup.fail(error.to_string()));
                    let part = from..from + bytes;
                    let message = Message { key, buffer: buffer.clone(), part, deadline };
                    self.get(&node, message, one.cancel_after).await.map(|ended| ended.bytes)
                }
            };
            heard.note(Bus::now(&bus), letter);
            match ended {
                Ok(bytes) => {
                    let expected = one.bytes.max(u64::from(self.manner == Manner::Routed));
                    let who = self.number;
                    check!(Check::Whole, bytes == expected, "{who}: {bytes} of {expected} B sent");
                }
                Err(NetworkError { fault: NetworkFault::Cancelled, .. })
                    if one.cancel_after.is_some() =>
                {
                    self.is_taken_back.set(true);
                    heard.cancels += 1;
                }
                Err(error) => Check::RightError.fail(format!("sending {}: {error}", self.number)),
            }
        }
        let given_back = buffer.unregister().await;
        given_back.unwrap_or_else(|error| Check::Buffers.fail(error.to_string()));
        heard
    }

    async fn get(
        &self,
        node: &NetworkProcessor,
        message: Message,
        cancel_after: Option<Picoseconds>,
    ) -> Result<Ended, NetworkError> {
        let deadline = message.deadline;
        let get = node.nget(message).await?;
        if let Some(after) = cancel_after {
            let bus = node.bus();
            Bus::sleep_until(bus, Bus::now(bus) + after).await;
            node.cancel(&get).await?;
        }
        node.wait(&get, deadline).await
    }

    /// Runs the receiver.
    pub async fn take(self, node: NetworkProcessor, key: Key) -> Heard {
        let mut heard = Heard::default();
        let bus = node.bus().clone();
        let size = 1024 + MAX_BYTES + 512 + MARGIN;
        let buffer = node.buffer(size).await;
        let buffer = buffer.unwrap_or_else(|error| Check::Setup.fail(error.to_string()));
        for (letter, one) in (0..).zip(self.letters.iter()) {
            Bus::sleep_until(&bus, Bus::now(&bus) + one.take_after).await;
            let clean = buffer.write(0, &vec![UNTOUCHED; size as usize]);
            clean.unwrap_or_else(|error| Check::Setup.fail(error.to_string()));
            let may_be_taken_back = one.cancel_after.is_some();
            let begun = Bus::now(&bus);
            let into = self.place(&node, one.into, one.room);
            let part = into..into + one.room;
            let deadline = begun + PATIENCE;
            let message = Message { key, buffer: buffer.clone(), part: part.clone(), deadline };
            let ended = async {
                let credit = node.credit(message).await?;
                self.credits.set(letter + 1);
                if may_be_taken_back {
                    self.take_back_in_time(&node, &credit, deadline).await?;
                }
                node.wait(&credit, deadline).await
            };
            let ended = ended.await;
            heard.note(Bus::now(&bus), letter);
            let mut found = vec![0; size as usize];
            let read = buffer.read(0, &mut found);
            read.unwrap_or_else(|error| Check::Setup.fail(error.to_string()));
            let sent = one.bytes.max(u64::from(self.manner == Manner::Routed));
            let may_be_lost =
                self.may_lose_routed && self.manner == Manner::Routed && !self.waits_for_credits;
            let taken = match ended {
                Ok(ended) if sent <= one.room => ended.bytes,
                Err(NetworkError { fault: NetworkFault::TooLong, moved_bytes, .. })
                    if sent > one.room =>
                {
                    moved_bytes
                }
                Err(NetworkError {
                    fault: fault @ (NetworkFault::FarEnd | NetworkFault::Cancelled),
                    moved_bytes,
                    ..
                }) if may_be_taken_back => {
                    // If the message had begun, the sender's end must report it.
                    let is_told = moved_bytes == 0 || fault == NetworkFault::FarEnd;
                    let who = self.number;
                    check!(Check::RightError, is_told, "{who}: no word after {moved_bytes} B");
                    self.is_given_up.set(true);
                    heard.cancels += 1;
                    self.compare(letter, &part, &found, None);
                    break;
                }
                Err(NetworkError { fault: NetworkFault::Dropped, moved_bytes, .. })
                    if may_be_lost =>
                {
                    let who = self.number;
                    check!(Check::Whole, moved_bytes < sent.max(1), "{who}: all came, and is lost");
                    self.compare(letter, &part, &found, None);
                    heard.lost += 1;
                    continue;
                }
                other => {
                    let what = format!(
                        "taking {} letter {letter} ({one:?}, {:?}): {other:?}",
                        self.number,
                        node.modes()
                    );
                    Check::RightError.fail(what)
                }
            };
            let expected = sent.min(one.room);
            let who = self.number;
            check!(Check::Whole, taken == expected, "{who}: {taken} of {expected} B were taken");
            self.compare(letter, &part, &found, Some(taken));
            heard.messages += 1;
            heard.bytes += size;
        }
        let given_back = buffer.unregister().await;
        given_back.unwrap_or_else(|error| Check::Buffers.fail(error.to_string()));
        heard
    }

    /// Waits for a letter; if the sender has cancelled it, cancels the credit some time later.
    async fn take_back_in_time(
        &self,
        node: &NetworkProcessor,
        credit: &InFlight,
        deadline: Picoseconds,
    ) -> Result<(), NetworkError> {
        let bus = node.bus();
        let mut taken_back_at = None;
        while Bus::now(bus) < deadline {
            // The data are there once the wait has ended.
            if !matches!(node.poll(credit), Ok(None)) {
                break;
            }
            let now = Bus::now(bus);
            let is_over = |since: Picoseconds| now > since + self.word_within;
            if self.is_taken_back.get() && is_over(*taken_back_at.get_or_insert(now)) {
                return node.cancel(credit).await;
            }
            Bus::sleep_until(bus, now + LOOK).await;
        }
        Ok(())
    }

    /// Checks every byte: those of the letter (`taken` of them, or any), and those beside it.
    fn compare(&self, letter: u64, part: &std::ops::Range<u64>, found: &[u8], taken: Option<u64>) {
        for (at, found) in (0..).zip(found) {
            let within = part.contains(&at).then(|| at - part.start);
            // The one byte of an empty routed message may have any value.
            let sent = self.letters[letter as usize].bytes;
            let expected = match (within, taken) {
                (Some(within), Some(taken)) if within < taken.min(sent) => {
                    byte(self.number, letter, within)
                }
                (Some(within), Some(taken)) if within < taken => continue,
                (Some(_), None) => continue,
                _ => UNTOUCHED,
            };
            let who = self.number;
            check!(
                Check::Data,
                *found == expected,
                "{who} letter {letter}: byte {at} is {found:#x} and not {expected:#x}, of {part:?} \
                 with {taken:?} B"
            );
        }
    }
}
