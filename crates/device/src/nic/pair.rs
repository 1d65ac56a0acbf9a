// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queue pairs, one per connection.

use std::collections::VecDeque;

use super::layout::{QueueLayout, Status, WorkRequest};
use super::regions::Runs;

/// Most work requests fetched and not begun.
pub(super) const FETCHED_AHEAD: usize = 16;
/// Most places of the ring in one fetch.
pub(super) const FETCH_BATCH: u32 = 8;

/// Sending role of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Sends its own work requests.
    Requester = 0,
    /// Answers the reads of the other end.
    Responder = 1,
}

/// Work request that has been fetched.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub work: WorkRequest,
    /// Message within the request.
    pub message: Vec<u8>,
    /// Earliest time to begin it.
    pub ready_ps: u64,
    /// Bytes for which packets have been built.
    pub prepared: u64,
    /// Set once it has succeeded and waits for those before it.
    pub is_done: bool,
}

/// Read of the other end that is being answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub message: u64,
    pub key: u32,
    pub address: u64,
    pub bytes: u64,
    pub prepared: u64,
}

/// Life-cycle state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not connected yet.
    New,
    Connected,
    /// Ended with this status; reads for it may still be in flight.
    Ending(Status),
    /// The pair's last entry has been made.
    Ended,
}

pub(super) struct QueuePair {
    pub state: State,
    /// Number of the other end's queue pair.
    pub far: u32,
    pub layout: QueueLayout,
    /// Memory of its rings.
    pub memory: Runs,
    /// Reads of host memory in flight.
    pub reads: u32,
    /// Completion entries written so far.
    pub entries: u32,

    // Requester.
    /// Places of work requests posted, and fetched or being fetched.
    pub posted: u32,
    pub fetched: u32,
    /// Bytes of a request whose last places are still to be fetched, and of the current fetch so
    /// far behind them; where those begin; and whether a fetch is in progress.
    pub fetch: Vec<u8>,
    pub fetch_begin: usize,
    pub is_fetching: bool,
    /// Work requests fetched and not completed, in order.
    pub requests: VecDeque<Request>,
    /// Number of `requests` that are begun and have all packets built.
    pub begun: usize,
    /// Number of the first of `requests`.
    pub first_message: u64,
    /// Reads waiting for data, and their limit.
    pub reading: u16,
    pub reads_allowed: u16,
    /// Messages sent, and the total that may be sent.
    pub sent: u32,
    pub may_send: u32,
    /// Time of the last sign of the other end, or of the last moment with nothing to wait for.
    pub sign_ps: u64,

    // Responder.
    pub responses: VecDeque<Response>,
    /// Messages received, and the total that may be received.
    pub received: u32,
    pub may_receive: u32,
    /// `may_receive` as last told to the other end.
    pub told: u32,
    /// Last write or message of the other end that was handed to the host, that the current flush
    /// covers (0 without a flush), and that was acknowledged.
    pub placed: u64,
    pub flushing: u64,
    pub acknowledged: u64,
    /// Bus address of the last bytes placed.
    pub placed_address: u64,
    /// Whether any placed write is not covered by a flush yet.
    pub is_unflushed: bool,

    /// Packets built for each role, in order.
    pub made: [VecDeque<u32>; 2],
    /// Whether each role is in line to build packets, and to send them.
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
            fetch_begin: 0,
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

    /// Whether begun work requests wait for the other end.
    pub fn waits_for_far(&self) -> bool {
        self.requests.front().is_some_and(|first| self.begun > 0 && !first.is_done)
    }

    /// Returns the number of places of the ring that may be fetched now.
    pub fn fetchable(&self) -> u32 {
        if self.is_fetching || !self.is_connected() {
            return 0;
        }
        let room = FETCHED_AHEAD.saturating_sub(self.requests.len() - self.begun) as u32;
        let to_end = self.layout.requests - self.fetched % self.layout.requests;
        let posted = self.posted.wrapping_sub(self.fetched);
        posted.min(room).min(to_end).min(FETCH_BATCH)
    }

    /// Returns the request with a number if it is not completed.
    pub fn request(&mut self, message: u64) -> Option<&mut Request> {
        let at = message.checked_sub(self.first_message)?;
        self.requests.get_mut(usize::try_from(at).ok()?)
    }

    /// Whether the next message must wait for a slot at the other end.
    pub fn lacks_slot(&self, work: &WorkRequest) -> bool {
        work.operation.is_message() && self.sent == self.may_send
    }
}
