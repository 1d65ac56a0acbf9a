// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages in flight: their slots, keys, tokens and notification words, and the memory that
//! belongs to the device until each has ended.

use std::collections::{BTreeMap, HashSet, VecDeque};

use crosslane_pcie::units::Picoseconds;
use crosslane_regs::network_notification::{self, NetworkStatus, word};

use super::options::Key;
use super::request::Piece;
use crate::buffer::{Buffer, Claim};

/// Distance between notification words: a line, so that a core watching one is not woken for
/// another.
pub(super) const WORD_STRIDE: u64 = 64;
pub(super) const NOTIFICATION_BYTES: usize = network_notification::BYTES as usize;
/// Notification words for each slot: a word is kept a little longer than its message's slots, until
/// all waiters have read it.
pub(super) const WORDS_FOR_EACH_PLACE: u32 = 2;

/// Most unused copy buffers kept by the driver.
pub(super) const POOL: usize = 512;

/// Engine that a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// The get engine, which reads host memory.
    Get,
    /// The engine of credits, which writes host memory.
    Credit,
}

/// Progress of writing a message's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Nothing,
    Some,
    All,
}

/// End of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Status of the notification.
    pub status: u32,
    pub bytes: u64,
    pub ended: Picoseconds,
}

/// The program's buffer to which received data are copied, the pieces of the message in it, and the
/// claims on them.
pub(super) struct Target {
    pub buffer: Buffer,
    pub pieces: Vec<Piece>,
    pub claims: Vec<Claim>,
}

/// The driver's own memory in place of the program's, for all of a message or for the payloads that
/// lie in several places.
pub(super) struct Bounce {
    pub own: Buffer,
    /// Target of the copy of received data.
    pub target: Option<Target>,
}

/// Memory of a message that the device may reach.
pub(super) struct Held {
    /// Claimed parts of the program's buffer, which are free when the message has ended.
    pub claims: Vec<Claim>,
    pub bounce: Option<Bounce>,
}

/// One message.
pub(super) struct Flight {
    pub kind: Kind,
    pub key: Key,
    pub token: u16,
    pub places: u32,
    /// Number of the notification word.
    pub word: u32,
    pub written: Written,
    /// Whether a cancel must be written.
    pub cancel_due: bool,
    /// Whether the handle was dropped, so that no one will ask for the outcome.
    is_abandoned: bool,
    /// Number of tasks waiting for the notification word.
    waiters: u32,
    pub posted: Picoseconds,
    pub total_bytes: u64,
    pub held: Held,
    pub outcome: Option<Outcome>,
}

/// Reason for which a message cannot begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNow {
    /// Another message uses its key.
    KeyInUse,
    /// The last message with the key is about to end.
    KeyEnding,
    /// Too few free slots, no notification word, or earlier messages in line.
    NoPlace,
}

/// A message that waits for slots of an engine.
struct Waiting {
    turn: u64,
    places: u32,
}

/// All messages of a network processor.
pub(super) struct Flights {
    by_id: BTreeMap<u64, Flight>,
    /// Keys of messages in flight.
    keys: HashSet<(Kind, Key)>,
    tokens: HashSet<u16>,
    next_id: u64,
    next_token: u16,
    /// Free slots for gets and for credits.
    free_places: [u32; 2],
    slots: [u32; 2],
    next_slot: [u32; 2],
    free_words: Vec<u32>,
    /// The driver's own copy buffers that are unused.
    pool: Vec<Buffer>,
    /// Messages waiting for slots of each engine, in order of arrival.
    waiting: [VecDeque<Waiting>; 2],
    next_turn: u64,
}

const fn of(kind: Kind) -> usize {
    match kind {
        Kind::Get => 0,
        Kind::Credit => 1,
    }
}

impl Flights {
    /// Starts without messages, with this many slots for gets and credits.
    pub fn new(slots: [u32; 2]) -> Self {
        Self {
            by_id: BTreeMap::new(),
            keys: HashSet::new(),
            tokens: HashSet::new(),
            next_id: 0,
            next_token: 0,
            free_places: slots,
            slots,
            next_slot: [0; 2],
            // The lowest word is taken first.
            free_words: (0..words(slots)).rev().collect(),
            pool: Vec::new(),
            waiting: Default::default(),
            next_turn: 0,
        }
    }

    /// Returns the number of slots of an engine.
    pub const fn slots(&self, kind: Kind) -> u32 {
        self.slots[of(kind)]
    }

    /// Begins a message if possible now, and only then calls `held`. `turn` comes from
    /// [`wait_in_line`](Self::wait_in_line).
    pub fn begin(
        &mut self,
        (kind, key): (Kind, Key),
        places: u32,
        total_bytes: u64,
        turn: Option<u64>,
        held: impl FnOnce() -> Held,
    ) -> Result<u64, NotNow> {
        if self.keys.contains(&(kind, key)) {
            // A dropped message ends without further action.
            return Err(if self.is_abandoned(kind, key) {
                NotNow::KeyEnding
            } else {
                NotNow::KeyInUse
            });
        }
        // Leaves enough for earlier messages too: small ones would otherwise pass large ones for
        // ever.
        let is_before = |other: &&Waiting| turn.is_none_or(|turn| other.turn < turn);
        let before = self.waiting[of(kind)].iter().take_while(is_before);
        let (messages, wanted) =
            before.fold((0, places), |(count, sum), other| (count + 1, sum + other.places));
        if self.free_places[of(kind)] < wanted || self.free_words.len() <= messages {
            return Err(NotNow::NoPlace);
        }
        let word = self.free_words.pop().ok_or(NotNow::NoPlace)?;
        // Ends, as words are far fewer than tokens.
        while !self.tokens.insert(self.next_token) {
            self.next_token = self.next_token.wrapping_add(1);
        }
        let token = self.next_token;
        self.next_token = token.wrapping_add(1);
        let is_new = self.keys.insert((kind, key));
        assert!(is_new, "two messages have {key}");
        self.free_places[of(kind)] -= places;
        let flight = Flight {
            kind,
            key,
            token,
            places,
            word,
            written: Written::Nothing,
            cancel_due: false,
            is_abandoned: false,
            waiters: 0,
            posted: Picoseconds::ZERO,
            total_bytes,
            held: held(),
            outcome: None,
        };
        let id = self.next_id;
        self.next_id += 1;
        self.by_id.insert(id, flight);
        let (tokens, keys) = (self.tokens.len(), self.keys.len());
        assert!(tokens == keys, "{tokens} tokens are in use, for {keys} messages");
        Ok(id)
    }

    /// Puts a message at the end of the line for slots. Returns its turn, for
    /// [`begin`](Self::begin) and [`leave_line`](Self::leave_line).
    pub fn wait_in_line(&mut self, kind: Kind, places: u32) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.waiting[of(kind)].push_back(Waiting { turn, places });
        turn
    }

    /// Takes a message out of the line, because it has begun or was given up.
    pub fn leave_line(&mut self, kind: Kind, turn: u64) {
        self.waiting[of(kind)].retain(|waiting| waiting.turn != turn);
    }

    /// Returns whether the handle of the message that uses a key was dropped.
    fn is_abandoned(&self, kind: Kind, key: Key) -> bool {
        let has_it =
            |flight: &&Flight| flight.outcome.is_none() && (flight.kind, flight.key) == (kind, key);
        self.by_id.values().find(has_it).is_some_and(|flight| flight.is_abandoned)
    }

    /// Takes the slot for an engine's next request: any will do, as each is copied out when
    /// complete.
    pub const fn take_slot(&mut self, kind: Kind) -> u32 {
        let slot = self.next_slot[of(kind)];
        self.next_slot[of(kind)] = (slot + 1) % self.slots[of(kind)];
        slot
    }

    pub fn get(&self, id: u64) -> Option<&Flight> {
        self.by_id.get(&id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Flight> {
        self.by_id.get_mut(&id)
    }

    /// Returns the number of messages in flight.
    pub fn under_way(&self) -> usize {
        self.keys.len()
    }

    /// Returns the notification words of messages in flight.
    pub fn words_under_way(&self) -> Vec<u32> {
        let open = self.by_id.values().filter(|flight| flight.outcome.is_none());
        open.map(|flight| flight.word).collect()
    }

    /// Returns whether a dropped message is still being taken back.
    pub fn is_taking_back(&self) -> bool {
        self.by_id.values().any(|flight| {
            let goes_on = (flight.written, flight.kind) == (Written::All, Kind::Get);
            flight.is_abandoned && flight.outcome.is_none() && !goes_on
        })
    }

    /// Returns whether a message must be taken back.
    pub fn is_cancel_due(&self) -> bool {
        self.by_id.values().any(|flight| flight.cancel_due && flight.outcome.is_none())
    }

    /// Takes a message that must be taken back; the caller writes its cancel at once.
    pub fn take_cancel(&mut self) -> Option<(Kind, Key, u16, u32)> {
        let due = |flight: &&mut Flight| flight.cancel_due && flight.outcome.is_none();
        let flight = self.by_id.values_mut().find(due)?;
        flight.cancel_due = false;
        Some((flight.kind, flight.key, flight.token, flight.word))
    }

    /// Reads the notification words of all messages in flight.
    pub fn reap(&mut self, now: Picoseconds, read: impl Fn(u32) -> [u8; NOTIFICATION_BYTES]) {
        let open: Vec<u64> = self.open().collect();
        for id in open {
            let flight = &self.by_id[&id];
            let bytes = read(flight.word);
            let (first, second) = bytes.split_at(4);
            let whole = |half: &[u8]| u32::from_le_bytes(half.try_into().unwrap_or_default());
            let (first, bytes) = (whole(first), whole(second));
            let status = word::STATUS.get(first);
            let is_its_own = word::TOKEN.get(first) == u32::from(flight.token);
            if status != NetworkStatus::None.bits() && is_its_own {
                self.end(id, Outcome { status, bytes: bytes.into(), ended: now });
            }
        }
    }

    fn open(&self) -> impl Iterator<Item = u64> {
        self.by_id.iter().filter(|(_, flight)| flight.outcome.is_none()).map(|(&id, _)| id)
    }

    /// Keeps a copy buffer that the device does not reach any more.
    pub fn keep(&mut self, own: Buffer) {
        if self.pool.len() < POOL {
            self.pool.push(own);
        }
    }

    /// Takes the smallest unused copy buffer with at least this many bytes.
    pub fn take_kept(&mut self, bytes: u64) -> Option<Buffer> {
        let fitting = self.pool.iter().enumerate().filter(|(_, own)| own.size_bytes() >= bytes);
        let best = fitting.min_by_key(|(_, own)| own.size_bytes()).map(|(index, _)| index);
        best.map(|index| self.pool.swap_remove(index))
    }

    /// Gives up all unused copy buffers.
    pub fn clear_kept(&mut self) {
        self.pool.clear();
    }

    /// Ends a message and frees its memory and slots.
    fn end(&mut self, id: u64, outcome: Outcome) {
        let Some(flight) = self.by_id.get_mut(&id) else { return };
        let before = flight.outcome.replace(outcome);
        assert!(before.is_none(), "message {id} ends twice: {before:?}, then {outcome:?}");
        flight.held.claims.clear();
        // Of a message that failed it is not known which data have come.
        let has_come = [NetworkStatus::Done, NetworkStatus::TooLong]
            .map(NetworkStatus::bits)
            .contains(&outcome.status);
        let is_wanted = has_come && !flight.is_abandoned;
        let unused = flight.held.bounce.take_if(|it| it.target.is_none() || !is_wanted);
        let (kind, key, token) = (flight.kind, flight.key, flight.token);
        self.free_places[of(kind)] += flight.places;
        let (free, slots) = (self.free_places[of(kind)], self.slots[of(kind)]);
        assert!(free <= slots, "{free} places for {kind:?} are free, of {slots}");
        let had_key = self.keys.remove(&(kind, key));
        assert!(had_key, "{key} is given back by message {id}, and nobody has it");
        let had_token = self.tokens.remove(&token);
        assert!(had_token, "token {token} is given back by message {id}, and nobody has it");
        if flight.waiters == 0 {
            self.free_words.push(flight.word);
            self.assert_words();
        }
        if self.by_id.get(&id).is_some_and(|flight| flight.is_abandoned) {
            self.by_id.remove(&id);
        }
        if let Some(Bounce { own, .. }) = unused {
            self.keep(own);
        }
    }

    /// Asserts that no notification word is freed twice.
    fn assert_words(&self) {
        let (free, all) = (self.free_words.len(), words(self.slots) as usize);
        assert!(free <= all, "{free} notification words are free, of {all}");
    }

    /// Ends all messages in flight: the device has forgotten them and is quiet.
    pub fn end_all(&mut self, now: Picoseconds) {
        let status = NetworkStatus::Reset.bits();
        let open: Vec<u64> = self.open().collect();
        for id in open {
            self.end(id, Outcome { status, bytes: 0, ended: now });
        }
        self.next_slot = [0; 2];
    }

    /// Registers a waiter for a message's word; false if the message has ended.
    pub fn begin_waiting(&mut self, id: u64) -> bool {
        match self.by_id.get_mut(&id) {
            Some(flight) if flight.outcome.is_none() => {
                flight.waiters += 1;
                true
            }
            _ => false,
        }
    }

    /// Removes a waiter.
    pub fn end_waiting(&mut self, id: u64) {
        let Some(flight) = self.by_id.get_mut(&id) else { return };
        assert!(flight.waiters > 0, "nobody waits for message {id}, and one ends that");
        flight.waiters -= 1;
        if flight.waiters == 0 && flight.outcome.is_some() {
            self.free_words.push(flight.word);
            self.assert_words();
        }
    }

    /// Gives up interest in a message. A get whose requests are all written runs to its end; a
    /// credit or a partly written message is taken back.
    pub fn abandon(&mut self, id: u64) {
        let Some(flight) = self.by_id.get_mut(&id) else { return };
        if flight.outcome.is_some() {
            let unread = flight.held.bounce.take();
            self.by_id.remove(&id);
            if let Some(Bounce { own, .. }) = unread {
                self.keep(own);
            }
            return;
        }
        flight.is_abandoned = true;
        match (flight.written, flight.kind) {
            // The device does not know it.
            (Written::Nothing, _) => {
                let outcome = Outcome {
                    status: NetworkStatus::Cancelled.bits(),
                    bytes: 0,
                    ended: Picoseconds::ZERO,
                };
                self.end(id, outcome);
            }
            (Written::All, Kind::Get) => {}
            (Written::Some, _) | (Written::All, Kind::Credit) => flight.cancel_due = true,
        }
    }
}

/// Returns the number of notification words for these slots.
pub(super) const fn words([gets, credits]: [u32; 2]) -> u32 {
    WORDS_FOR_EACH_PLACE * (gets + credits)
}
