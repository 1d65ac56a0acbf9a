// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection: its slots, waiting operations, and received messages.
//!
//! Messages, questions, and reads and writes each have separate slots. An operation without a slot
//! waits in order. If the provider gives an initiator no error for an invalid key, or ends the
//! connection for it (tcp and shm do), the other end is asked once for each key.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crosslane_host::{ErrorKind, RdmaError, RdmaResult, Reason};
use futures_channel::oneshot;
use strum::{Display, IntoStaticStr};

use super::endpoint::{Completion, Far, Part, RawEndpoint, What};
use super::library::{FiError, Result};
use super::message::{BUFFER_BYTES, Body, Grant, MAX_QUESTIONS, Packet, RECEIVES, SENDS};
use super::raw::Registration;
use crate::inbox::{Inbox, WINDOW};

/// Most reads and writes in flight on one connection.
pub const TRANSFERS: u32 = 128;
/// Slots of an endpoint.
pub const SLOTS: u32 = RECEIVES + SENDS + TRANSFERS;
/// Registered memory for messages, bytes.
pub const MESSAGES_BYTES: u64 = (RECEIVES + SENDS) as u64 * BUFFER_BYTES;
/// Most messages that wait for the window, to bound the memory.
pub const MAX_WAITING_MESSAGES: usize = 1 << 14;
/// Most grants remembered.
const MAX_GRANTS: usize = 1 << 12;

/// Reason for the loss of a connection without an error of the provider.
pub const OTHER_END_GONE: &str = "the other end has closed it, or is gone";

pub type Reply<T> = oneshot::Sender<RdmaResult<T>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Direction {
    Read,
    Write,
}

/// A read or write, split into pieces if the provider cannot take it at once.
pub struct Transfer {
    pub direction: Direction,
    pub near: Arc<Registration>,
    pub near_offset: u64,
    pub far: Far,
    pub bytes: u64,
    /// Bytes of the pieces that have ended.
    pub done: u64,
    /// Bytes of the piece in flight.
    pub piece: u64,
    pub reply: Reply<()>,
}

impl Transfer {
    fn refuse(self, peer: &str, why: String) {
        let (peer, operation) = (peer.to_owned(), self.direction.into());
        let why = Reason::new(ErrorKind::Denied, why);
        // A caller that has gone need not know.
        let _ = self.reply.send(Err(RdmaError::Refused { peer, operation, why }));
    }
}

/// A question to the other end: which memory has this key?
pub struct Question {
    pub id: u32,
    pub key: u64,
}

/// Phase of a connection's setup.
pub enum Phase {
    /// This end connects.
    Connecting(Reply<()>),
    /// The other end has connected to a listener.
    Accepting(u64),
    Open,
}

pub struct Connection {
    pub endpoint: RawEndpoint,
    pub phase: Phase,
    pub peer: String,
    pub inbox: Arc<Inbox>,
    /// Whether something was begun that the other end must look for, or could not begin until it
    /// does.
    pub has_begun: bool,
    /// Count of operations ended and messages received.
    pub ended: u64,
    messages: Arc<Registration>,
    most_piece: u64,
    free_sends: Vec<u32>,
    free_transfers: Vec<u32>,
    transfers: BTreeMap<u32, Transfer>,
    waiting: VecDeque<Transfer>,
    /// Grants by key; `None` if the adapter checks access itself.
    grants: Option<BTreeMap<u64, Grant>>,
    unsure: BTreeMap<u64, Vec<Transfer>>,
    unasked: VecDeque<u64>,
    asked: BTreeMap<u32, u64>,
    last_question: u32,
    control: VecDeque<Body>,
    outbox: VecDeque<(Vec<u8>, Reply<()>)>,
    /// Number of the next message out, and how many the other program has taken.
    next_out: u32,
    taken_there: u32,
    /// Number of the next message in, and messages that arrived early.
    next_in: u32,
    early: BTreeMap<u32, Vec<u8>>,
    completions: Vec<Completion>,
}

/// Parameters of a new connection.
pub struct Settings {
    pub most_piece: u64,
    pub transfers: u32,
    pub asks: bool,
}

impl Connection {
    /// Makes a connection and posts its receives.
    pub fn new(
        endpoint: RawEndpoint,
        messages: Arc<Registration>,
        peer: String,
        inbox: Arc<Inbox>,
        settings: &Settings,
    ) -> Result<Self> {
        let first_transfer = RECEIVES + SENDS;
        let mut connection = Self {
            endpoint,
            phase: Phase::Open,
            peer,
            inbox,
            has_begun: false,
            ended: 0,
            messages,
            most_piece: settings.most_piece,
            free_sends: (RECEIVES..first_transfer).collect(),
            free_transfers: (first_transfer..first_transfer + settings.transfers).collect(),
            transfers: BTreeMap::new(),
            waiting: VecDeque::new(),
            grants: settings.asks.then(BTreeMap::new),
            unsure: BTreeMap::new(),
            unasked: VecDeque::new(),
            asked: BTreeMap::new(),
            last_question: 0,
            control: VecDeque::new(),
            outbox: VecDeque::new(),
            next_out: 0,
            taken_there: 0,
            next_in: 0,
            early: BTreeMap::new(),
            completions: Vec::new(),
        };
        for slot in 0..RECEIVES {
            connection.post_receive(slot)?;
        }
        Ok(connection)
    }

    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Returns whether anything is in flight or waits to be sent.
    pub fn has_work(&self) -> bool {
        !self.transfers.is_empty() || self.free_sends.len() < SENDS as usize || self.is_stalled()
    }

    /// Returns whether an operation with a free slot still waits, because the provider said
    /// "again".
    pub fn is_stalled(&self) -> bool {
        let messages = !self.control.is_empty() || self.may_send();
        messages && !self.free_sends.is_empty()
            || !self.waiting.is_empty() && !self.free_transfers.is_empty()
    }

    /// Returns whether operations of this node that use a program's memory are in flight.
    pub fn has_transfers(&self) -> bool {
        !self.transfers.is_empty()
    }

    fn may_send(&self) -> bool {
        !self.outbox.is_empty() && self.next_out.wrapping_sub(self.taken_there) < WINDOW
    }

    fn buffer(&self, slot: u32, bytes: u64) -> Part<'_> {
        let offset = u64::from(slot) * BUFFER_BYTES;
        Part { registration: &self.messages, offset, bytes }
    }

    fn post_receive(&mut self, slot: u32) -> Result<()> {
        let messages = self.messages.clone();
        let offset = u64::from(slot) * BUFFER_BYTES;
        let part = Part { registration: &messages, offset, bytes: BUFFER_BYTES };
        self.endpoint.begin(slot, What::Receive, part)
    }

    // --- Requests of programs -----------------------------------------------------------------

    pub fn send(&mut self, message: Vec<u8>, reply: Reply<()>) {
        if self.outbox.len() >= MAX_WAITING_MESSAGES {
            let (peer, operation) = (self.peer.clone(), "message");
            let why = format!("{MAX_WAITING_MESSAGES} messages wait already");
            let why = Reason::new(ErrorKind::Busy, why);
            let _ = reply.send(Err(RdmaError::Refused { peer, operation, why }));
            return;
        }
        self.outbox.push_back((message, reply));
    }

    pub fn tell_taken(&mut self) {
        // A waiting one will carry this count too, as it is filled in on sending.
        if !self.control.contains(&Body::Taken) {
            self.control.push_back(Body::Taken);
        }
    }

    pub fn transfer(&mut self, transfer: Transfer) {
        let key = transfer.far.key;
        let Some(grants) = &self.grants else { return self.waiting.push_back(transfer) };
        if let Some(grant) = grants.get(&key).copied() {
            return self.granted(transfer, grant);
        }
        if !self.unsure.contains_key(&key) {
            self.unasked.push_back(key);
        }
        self.unsure.entry(key).or_default().push(transfer);
    }

    fn granted(&mut self, transfer: Transfer, grant: Grant) {
        let Far { address, .. } = transfer.far;
        let allowed = match transfer.direction {
            Direction::Read => grant.read,
            Direction::Write => grant.write,
        };
        let (first, end) = (u128::from(address), u128::from(address) + u128::from(transfer.bytes));
        let grant_end = u128::from(grant.address) + u128::from(grant.bytes);
        let why = if !allowed {
            format!("its memory is not registered for a remote {}", transfer.direction)
        } else if first < u128::from(grant.address) || end > grant_end {
            format!(
                "{} B at {address:#x} are not within its memory, {} B at {:#x}",
                transfer.bytes, grant.bytes, grant.address
            )
        } else {
            return self.waiting.push_back(transfer);
        };
        transfer.refuse(&self.peer, why);
    }

    /// Answers a question of the other end; false if it asks more than it may.
    pub fn answer(&mut self, id: u32, grant: Option<Grant>) -> bool {
        self.control.push_back(Body::Answer { id, grant });
        self.control.len() <= 4 * MAX_QUESTIONS
    }

    // --- In flight --------------------------------------------------------------------------

    /// Begins all operations that can begin.
    pub fn flush(&mut self) -> Result<(), String> {
        if !self.is_open() {
            return Ok(());
        }
        while self.asked.len() < MAX_QUESTIONS {
            let Some(key) = self.unasked.pop_front() else { break };
            self.last_question = self.last_question.wrapping_add(1);
            self.asked.insert(self.last_question, key);
            self.control.push_back(Body::Question { id: self.last_question, key });
        }
        let stalled = self.flush_messages().and_then(|()| self.flush_transfers());
        match stalled {
            Ok(()) => Ok(()),
            Err(FiError::AGAIN) => {
                self.has_begun = true;
                Ok(())
            }
            Err(error) => Err(error.text()),
        }
    }

    fn flush_messages(&mut self) -> Result<()> {
        while let Some(&slot) = self.free_sends.last() {
            if let Some(body) = self.control.pop_front() {
                let body = self.begin_send(slot, body);
                body.map_err(|(error, body)| {
                    self.control.push_front(body);
                    error
                })?;
                continue;
            }
            if !self.may_send() {
                break;
            }
            let Some((message, reply)) = self.outbox.pop_front() else { break };
            let body = Body::Data { number: self.next_out, message };
            match self.begin_send(slot, body) {
                Ok(()) => {
                    self.next_out = self.next_out.wrapping_add(1);
                    let _ = reply.send(Ok(()));
                }
                Err((error, Body::Data { message, .. })) => {
                    self.outbox.push_front((message, reply));
                    return Err(error);
                }
                Err((error, _)) => return Err(error),
            }
        }
        Ok(())
    }

    fn begin_send(&mut self, slot: u32, body: Body) -> Result<(), (FiError, Body)> {
        let packet = Packet { taken: self.inbox.tell_taken(), body };
        let bytes = packet.encode();
        let messages = self.messages.clone();
        let part = Part { registration: &messages, ..self.buffer(slot, bytes.len() as u64) };
        messages.mapping().write(part.offset as usize, &bytes);
        match self.endpoint.begin(slot, What::Send, part) {
            Ok(()) => {
                self.has_begun = true;
                self.free_sends.pop();
                Ok(())
            }
            Err(error) => Err((error, packet.body)),
        }
    }

    fn flush_transfers(&mut self) -> Result<()> {
        while let Some(&slot) = self.free_transfers.last() {
            let Some(transfer) = self.waiting.pop_front() else { break };
            match self.begin_piece(slot, transfer) {
                Ok(()) => {
                    self.free_transfers.pop();
                }
                Err((error, transfer)) => {
                    self.waiting.push_front(transfer);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn begin_piece(
        &mut self,
        slot: u32,
        mut transfer: Transfer,
    ) -> Result<(), (FiError, Transfer)> {
        transfer.piece = (transfer.bytes - transfer.done).min(self.most_piece);
        let Far { address, key } = transfer.far;
        let far = Far { address: address + transfer.done, key };
        let what = match transfer.direction {
            Direction::Read => What::Read(far),
            Direction::Write => What::Write(far),
        };
        let offset = transfer.near_offset + transfer.done;
        let near = Part { registration: &transfer.near, offset, bytes: transfer.piece };
        match self.endpoint.begin(slot, what, near) {
            Ok(()) => {
                self.has_begun = true;
                self.transfers.insert(slot, transfer);
                Ok(())
            }
            Err(error) => Err((error, transfer)),
        }
    }

    // --- Completions ------------------------------------------------------------------------

    /// Takes in completions and received packets, and returns the questions among them. An error
    /// ends the connection.
    pub fn reap(&mut self) -> Result<Vec<Question>, String> {
        let mut completions = std::mem::take(&mut self.completions);
        let read = self.endpoint.completions(&mut completions);
        let mut questions = Vec::new();
        let mut lost = None;
        for completion in completions.drain(..) {
            if let Err(why) = self.completed(completion, &mut questions) {
                // Everything received before is still good.
                lost.get_or_insert(why);
            }
        }
        self.completions = completions;
        read.map_err(FiError::text)?;
        lost.map_or(Ok(questions), Err)
    }

    fn completed(
        &mut self,
        completion: Completion,
        questions: &mut Vec<Question>,
    ) -> Result<(), String> {
        let Completion { slot, mut error, bytes } = completion;
        if let Some((FiError::CANCELED, why)) = &mut error {
            OTHER_END_GONE.clone_into(why);
        }
        self.ended += 1;
        if slot < RECEIVES {
            if let Some((_, why)) = error {
                return Err(why);
            }
            let mut packet = vec![0; bytes.min(BUFFER_BYTES) as usize];
            self.messages.mapping().read((u64::from(slot) * BUFFER_BYTES) as usize, &mut packet);
            // Repost the buffer before anything else is sent, so that a receive is always ready.
            self.post_receive(slot).map_err(FiError::text)?;
            return self.received(&packet, questions);
        }
        if slot < RECEIVES + SENDS {
            self.free_sends.push(slot);
            return error.map_or(Ok(()), |(_, why)| Err(why));
        }
        let Some(mut transfer) = self.transfers.remove(&slot) else { return Ok(()) };
        if let Some((error, why)) = error {
            self.free_transfers.push(slot);
            if !is_refusal(error) {
                // All operations of a connection end with the same error.
                self.waiting.push_back(transfer);
                return Err(why);
            }
            transfer.refuse(&self.peer, why);
            return Ok(());
        }
        transfer.done += transfer.piece;
        if transfer.done < transfer.bytes {
            self.waiting.push_front(transfer);
        } else {
            let _ = transfer.reply.send(Ok(()));
        }
        self.free_transfers.push(slot);
        Ok(())
    }

    fn received(&mut self, packet: &[u8], questions: &mut Vec<Question>) -> Result<(), String> {
        let Some(Packet { taken, body }) = Packet::decode(packet) else {
            return Err("it sends what no program of this kind does".into());
        };
        // Packets may overtake each other: only a newer count matters, at most as many as were
        // sent.
        let (news, open) =
            (taken.wrapping_sub(self.taken_there), self.next_out.wrapping_sub(self.taken_there));
        if news <= open {
            self.taken_there = taken;
        }
        match body {
            Body::Taken => {}
            Body::Question { id, key } => questions.push(Question { id, key }),
            Body::Answer { id, grant } => self.answered(id, grant),
            Body::Data { number, message } => {
                if number.wrapping_sub(self.next_in) >= WINDOW {
                    return Err("it sends more messages than were agreed on".into());
                }
                self.early.insert(number, message);
                while let Some(message) = self.early.remove(&self.next_in) {
                    self.next_in = self.next_in.wrapping_add(1);
                    if self.inbox.is_full() {
                        return Err("it sends more messages than were agreed on".into());
                    }
                    self.inbox.push(message);
                }
            }
        }
        Ok(())
    }

    fn answered(&mut self, id: u32, grant: Option<Grant>) {
        let Some(key) = self.asked.remove(&id) else { return };
        let transfers = self.unsure.remove(&key).unwrap_or_default();
        if let (Some(grant), Some(grants)) = (grant, &mut self.grants) {
            if grants.len() >= MAX_GRANTS {
                grants.clear();
            }
            grants.insert(key, grant);
        }
        for transfer in transfers {
            match grant {
                Some(grant) => self.granted(transfer, grant),
                None => {
                    transfer.refuse(&self.peer, format!("no memory there has the key {key:#x}"));
                }
            }
        }
    }

    /// Ends the connection: all waiting operations get the reason given to its inbox. Returns the
    /// memory that the other end, if another process, may still reach.
    pub fn end(self, why: RdmaError) -> Vec<Arc<Registration>> {
        self.inbox.lose(why.clone());
        if let Phase::Connecting(reply) = self.phase {
            let _ = reply.send(Err(why));
        }
        // Dropping the queues drops all replies.
        self.endpoint.close()
    }
}

/// Returns whether an error refuses one operation and leaves the connection open.
fn is_refusal(error: FiError) -> bool {
    /// Not permitted, no entry, permission denied, bad address, invalid argument, key rejected,
    /// message too long.
    const REFUSALS: [i32; 7] = [1, 2, 13, 14, 22, 129, 90];
    REFUSALS.contains(&error.0)
}
