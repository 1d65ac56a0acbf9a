// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queue pairs: one for each connection.

use std::collections::VecDeque;

use super::layout::{Operation, QueueLayout, Status, WorkRequest};
use super::regions::Runs;

/// Work requests that are fetched and have not been begun, at most.
pub(super) const FETCHED_AHEAD: usize = 16;
/// Work requests of one fetch, at most.
pub(super) const FETCH_BATCH: u32 = 8;

/// Who of a queue pair has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Its own work requests.
    Requester = 0,
    /// The reads of the other end.
    Responder = 1,
}

/// A work request that has been fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub work: WorkRequest,
    /// It is not begun before.
    pub ready_ps: u64,
    /// Bytes for which packets are made.
    pub prepared: u64,
    /// Set once it has ended well and waits for those before it.
    pub is_done: bool,
}

/// A read of the other end that is being answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub message: u64,
    pub key: u32,
    pub address: u64,
    pub bytes: u64,
    pub prepared: u64,
}

/// Where a queue pair is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has no other end yet.
    New,
    Connected,
    /// It has ended so; reads for it may still be under way.
    Ending(Status),
    /// Its last entry is on its way or there.
    Ended,
}

pub(super) struct QueuePair {
    pub state: State,
    /// The queue pair of the other end.
    pub far: u32,
    pub layout: QueueLayout,
    /// Its memory.
    pub memory: Runs,
    /// Reads of host memory for it that are under way.
    pub reads: u32,
    /// Completion entries that have been made.
    pub entries: u32,

    // Requester.
    /// Work requests posted, and fetched or being fetched.
    pub posted: u32,
    pub fetched: u32,
    /// What a fetch has brought so far, and whether one is under way.
    pub fetch: Vec<u8>,
    pub is_fetching: bool,
    /// Work requests that have been fetched and not completed, in order.
    pub requests: VecDeque<Request>,
    /// How many of them are begun and have all packets made.
    pub begun: usize,
    /// Number of the first of them.
    pub first_message: u64,
    /// Reads that wait for data, and how many may.
    pub reading: u16,
    pub reads_allowed: u16,
    /// Messages sent, and how many may be in all.
    pub sent: u32,
    pub may_send: u32,
    /// When there was a sign of the other end, or nothing to wait for.
    pub sign_ps: u64,

    // Responder.
    pub responses: VecDeque<Response>,
    /// Messages that have come, and how many may in all.
    pub received: u32,
    pub may_receive: u32,
    /// What the other end has been told of that.
    pub told: u32,
    /// Last of the other end's writes and messages that has been handed to the host, that a flush
    /// is under way for (0: none is), and that is acknowledged.
    pub placed: u64,
    pub flushing: u64,
    pub acknowledged: u64,
    /// Where the last of them went.
    pub placed_address: u64,
    /// Whether writes have been placed that no flush has covered.
    pub is_unflushed: bool,

    /// Packets made, of each role, in order.
    pub made: [VecDeque<u32>; 2],
    /// Whether each role is in line to make packets, and to send them.
    pub in_make_line: [bool; 2],
    pub in_send_line: [bool; 2],
    pub in_fetch_line: bool,
    pub in_flush_line: bool,
    pub in_acknowledge_line: bool,
}

impl QueuePair {
    pub fn new(layout: QueueLayout, memory: Runs) -> Self {
        Self {
            state: State::New,
            far: 0,
            layout,
            memory,
            reads: 0,
            entries: 0,
            posted: 0,
            fetched: 0,
            fetch: Vec::new(),
            is_fetching: false,
            requests: VecDeque::new(),
            begun: 0,
            first_message: 1,
            reading: 0,
            reads_allowed: 1,
            sent: 0,
            may_send: 0,
            sign_ps: 0,
            responses: VecDeque::new(),
            received: 0,
            may_receive: layout.messages,
            told: 0,
            placed: 0,
            flushing: 0,
            acknowledged: 0,
            placed_address: 0,
            is_unflushed: false,
            made: Default::default(),
            in_make_line: [false; 2],
            in_send_line: [false; 2],
            in_fetch_line: false,
            in_flush_line: false,
            in_acknowledge_line: false,
        }
    }

    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Whether work requests are begun that wait for the other end.
    pub fn waits_for_far(&self) -> bool {
        self.requests.front().is_some_and(|first| self.begun > 0 && !first.is_done)
    }

    /// Work requests that may be fetched now.
    pub fn fetchable(&self) -> u32 {
        if self.is_fetching || !self.is_connected() {
            return 0;
        }
        let room = FETCHED_AHEAD.saturating_sub(self.requests.len() - self.begun) as u32;
        let to_end = self.layout.requests - self.fetched % self.layout.requests;
        let posted = self.posted.wrapping_sub(self.fetched);
        posted.min(room).min(to_end).min(FETCH_BATCH)
    }

    /// The request of this number, if it has not been completed.
    pub fn request(&mut self, message: u64) -> Option<&mut Request> {
        let at = message.checked_sub(self.first_message)?;
        self.requests.get_mut(usize::try_from(at).ok()?)
    }

    /// Whether the next message must wait for a slot at the other end.
    pub fn lacks_slot(&self, work: &WorkRequest) -> bool {
        work.operation == Operation::Send && self.sent == self.may_send
    }
}
