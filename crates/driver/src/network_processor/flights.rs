// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that are on their way: their places, keys, tokens and notification words, and the
//! memory that belongs to the device until each has ended.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Range;

use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::network_notification::{self, NetworkStatus, word};

use super::options::Key;
use crate::buffer::{Buffer, Claim};

/// Bytes from one notification word to the next: a line, so that a core which watches one is not
/// woken for another.
pub(super) const WORD_STRIDE: u64 = 64;
/// Bytes of a notification.
pub(super) const NOTIFICATION_BYTES: usize = network_notification::BYTES as usize;
/// Notification words for each place: a word is kept a little longer than its message's places,
/// until all who wait for it have looked.
pub(super) const WORDS_FOR_EACH_PLACE: u32 = 2;

/// Which of the two engines a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Host memory is read.
    Get,
    /// Host memory is written.
    Credit,
}

/// How many of a message's requests have been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Nothing,
    Some,
    All,
}

/// How a message has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// A status of a notification.
    pub status: u32,
    pub bytes: u64,
    pub ended: Picoseconds,
}

/// Memory of the driver's own that stands for the program's.
pub(super) struct Bounce<B: Bus> {
    pub own: Buffer<B>,
    /// Where what comes is to be copied.
    pub target: Option<(Buffer<B>, Range<u64>, Claim<B>)>,
}

/// Memory of a message: what the device may reach of it.
pub(super) struct Held<B: Bus> {
    /// The program's, which the device reaches itself.
    pub claim: Option<Claim<B>>,
    pub bounce: Option<Bounce<B>>,
}

/// One message.
pub(super) struct Flight<B: Bus> {
    pub kind: Kind,
    pub key: Key,
    pub token: u16,
    pub places: u32,
    /// Number of its notification word.
    pub word: u32,
    pub written: Written,
    /// A cancel is to be written.
    pub cancel_due: bool,
    /// Nobody will ask for its outcome.
    is_abandoned: bool,
    /// Who waits for its word at the moment.
    waiters: u32,
    pub posted: Picoseconds,
    pub total_bytes: u64,
    pub held: Held<B>,
    pub outcome: Option<Outcome>,
}

/// Why a message cannot begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNow {
    /// Another message has its key.
    KeyInUse,
    /// The key's last message is about to end.
    KeyEnding,
    /// Not enough places, or no notification word, or others have waited for longer.
    NoPlace,
}

/// A message that waits for places of an engine.
struct Waiting {
    turn: u64,
    places: u32,
}

/// All messages of a network processor.
pub(super) struct Flights<B: Bus> {
    by_id: BTreeMap<u64, Flight<B>>,
    /// Keys of messages that have not ended.
    keys: HashSet<(Kind, Key)>,
    tokens: HashSet<u16>,
    next_id: u64,
    next_token: u16,
    /// For gets and credits.
    free_places: [u32; 2],
    slots: [u32; 2],
    next_slot: [u32; 2],
    free_words: Vec<u32>,
    /// Who waits for places of each engine, in the order in which they came.
    waiting: [VecDeque<Waiting>; 2],
    next_turn: u64,
}

const fn of(kind: Kind) -> usize {
    match kind {
        Kind::Get => 0,
        Kind::Credit => 1,
    }
}

impl<B: Bus> Flights<B> {
    /// None under way, with so many places for gets and credits.
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
            // From the lowest on.
            free_words: (0..words(slots)).rev().collect(),
            waiting: Default::default(),
            next_turn: 0,
        }
    }

    /// Places of an engine.
    pub const fn slots(&self, kind: Kind) -> u32 {
        self.slots[of(kind)]
    }

    /// Begins a message, if it can be now; `held` is called when it does. `turn` is that of a
    /// message that [waits](Self::wait_in_line).
    pub fn begin(
        &mut self,
        (kind, key): (Kind, Key),
        places: u32,
        total_bytes: u64,
        turn: Option<u64>,
        held: impl FnOnce() -> Held<B>,
    ) -> Result<u64, NotNow> {
        if self.keys.contains(&(kind, key)) {
            // What was dropped ends without anybody's doing.
            return Err(if self.is_abandoned(kind, key) {
                NotNow::KeyEnding
            } else {
                NotNow::KeyInUse
            });
        }
        // There must be enough for those before it, too: small messages would pass large ones for
        // ever.
        let is_before = |other: &&Waiting| turn.is_none_or(|turn| other.turn < turn);
        let before = self.waiting[of(kind)].iter().take_while(is_before);
        let (messages, wanted) =
            before.fold((0, places), |(count, sum), other| (count + 1, sum + other.places));
        if self.free_places[of(kind)] < wanted || self.free_words.len() <= messages {
            return Err(NotNow::NoPlace);
        }
        let word = self.free_words.pop().ok_or(NotNow::NoPlace)?;
        // There are far fewer words than tokens.
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

    /// A message waits for places from now on, behind all that do. Its turn, to be given to
    /// [`begin`](Self::begin) and [`leave_line`](Self::leave_line).
    pub fn wait_in_line(&mut self, kind: Kind, places: u32) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.waiting[of(kind)].push_back(Waiting { turn, places });
        turn
    }

    /// And no longer: it has begun, or was given up.
    pub fn leave_line(&mut self, kind: Kind, turn: u64) {
        self.waiting[of(kind)].retain(|waiting| waiting.turn != turn);
    }

    /// Whether nobody asks any more for the message that has a key.
    fn is_abandoned(&self, kind: Kind, key: Key) -> bool {
        let has_it = |flight: &&Flight<B>| {
            flight.outcome.is_none() && (flight.kind, flight.key) == (kind, key)
        };
        self.by_id.values().find(has_it).is_some_and(|flight| flight.is_abandoned)
    }

    /// The slot for the next request of an engine: whichever, as each is copied out when it is
    /// complete.
    pub const fn take_slot(&mut self, kind: Kind) -> u32 {
        let slot = self.next_slot[of(kind)];
        self.next_slot[of(kind)] = (slot + 1) % self.slots[of(kind)];
        slot
    }

    pub fn get(&self, id: u64) -> Option<&Flight<B>> {
        self.by_id.get(&id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Flight<B>> {
        self.by_id.get_mut(&id)
    }

    /// Messages that have not ended.
    pub fn under_way(&self) -> usize {
        self.keys.len()
    }

    /// Notification words of messages that have not ended.
    pub fn words_under_way(&self) -> Vec<u32> {
        let open = self.by_id.values().filter(|flight| flight.outcome.is_none());
        open.map(|flight| flight.word).collect()
    }

    /// Whether a message that was dropped is still being taken back.
    pub fn is_taking_back(&self) -> bool {
        self.by_id.values().any(|flight| {
            let goes_on = (flight.written, flight.kind) == (Written::All, Kind::Get);
            flight.is_abandoned && flight.outcome.is_none() && !goes_on
        })
    }

    /// Whether a message is to be taken back.
    pub fn is_cancel_due(&self) -> bool {
        self.by_id.values().any(|flight| flight.cancel_due && flight.outcome.is_none())
    }

    /// A message that is to be taken back; the caller writes its cancel at once.
    pub fn take_cancel(&mut self) -> Option<(Kind, Key, u16, u32)> {
        let due = |flight: &&mut Flight<B>| flight.cancel_due && flight.outcome.is_none();
        let flight = self.by_id.values_mut().find(due)?;
        flight.cancel_due = false;
        Some((flight.kind, flight.key, flight.token, flight.word))
    }

    /// Looks at the notification words of all messages that have not ended.
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

    /// Ends a message: its memory and places are free.
    fn end(&mut self, id: u64, outcome: Outcome) {
        let Some(flight) = self.by_id.get_mut(&id) else { return };
        let before = flight.outcome.replace(outcome);
        assert!(before.is_none(), "message {id} ends twice: {before:?}, then {outcome:?}");
        flight.held.claim = None;
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
    }

    /// No notification word is given back twice.
    fn assert_words(&self) {
        let (free, all) = (self.free_words.len(), words(self.slots) as usize);
        assert!(free <= all, "{free} notification words are free, of {all}");
    }

    /// Ends all that is under way: the device has forgotten it and is quiet.
    pub fn end_all(&mut self, now: Picoseconds) {
        let status = NetworkStatus::Reset.bits();
        let open: Vec<u64> = self.open().collect();
        for id in open {
            self.end(id, Outcome { status, bytes: 0, ended: now });
        }
        self.next_slot = [0; 2];
    }

    /// Somebody waits for a message's word from now on. False where it has ended.
    pub fn begin_waiting(&mut self, id: u64) -> bool {
        match self.by_id.get_mut(&id) {
            Some(flight) if flight.outcome.is_none() => {
                flight.waiters += 1;
                true
            }
            _ => false,
        }
    }

    /// And no longer.
    pub fn end_waiting(&mut self, id: u64) {
        let Some(flight) = self.by_id.get_mut(&id) else { return };
        assert!(flight.waiters > 0, "nobody waits for message {id}, and one ends that");
        flight.waiters -= 1;
        if flight.waiters == 0 && flight.outcome.is_some() {
            self.free_words.push(flight.word);
            self.assert_words();
        }
    }

    /// Nobody asks for it any more. What the device has of it goes on without: a get to its end,
    /// a credit or a message that is not whole is taken back.
    pub fn abandon(&mut self, id: u64) {
        let Some(flight) = self.by_id.get_mut(&id) else { return };
        if flight.outcome.is_some() {
            self.by_id.remove(&id);
            return;
        }
        flight.is_abandoned = true;
        match (flight.written, flight.kind) {
            // The device knows nothing of it.
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

/// Notification words for so many places.
pub(super) const fn words([gets, credits]: [u32; 2]) -> u32 {
    WORDS_FOR_EACH_PLACE * (gets + credits)
}
