// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to the reads of a device, cut into completions, in the order of the reads.

use std::collections::VecDeque;

use crosslane_fabric::{Consumed, DevicePort, Received};
use crosslane_pcie::split;
use crosslane_pcie::tlp::{Class, CompletionStatus, Header};

use super::{Function, Timer};

/// Read completion boundary of an endpoint (PCIe 6.x 2.3.1.1), bytes.
const READ_COMPLETION_BOUNDARY_BYTES: u32 = 128;

/// Answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This word in each double word: the value of a register, or 0 for all bytes of an aperture.
    Word(u32),
    /// The bytes asked for.
    Data(Vec<u8>),
    /// No data.
    Refused(CompletionStatus),
}

/// Request whose receive buffer is held.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    tlp: Received,
    /// Header of the request.
    pub header: Header,
    data_credits: u32,
}

impl Held {
    /// Holds a request, for which the device returns `Consumed::Held`.
    pub fn new(tlp: Received, port: &DevicePort<'_>) -> Self {
        Self { tlp, header: port.header(tlp), data_credits: port.data_credits(tlp) }
    }

    /// Frees the receive buffer.
    pub fn release(&self, port: &mut DevicePort<'_>) {
        port.release(self.tlp, &self.header, self.data_credits);
    }
}

/// Completion to be sent.
#[derive(Debug)]
pub struct Completion {
    /// Header.
    pub header: Header,
    ready_ps: u64,
    /// Word that fills the payload where there are no `data`.
    word: u32,
    data: Vec<u8>,
    /// Read whose last completion this is.
    ends: Option<Held>,
}

impl Completion {
    /// Writes the payload, whole double words.
    pub fn fill(&self, payload: &mut [u8]) {
        payload.as_chunks_mut::<4>().0.fill(self.word.to_le_bytes());
        let skip = (self.header.address.0 & 3) as usize;
        if !self.data.is_empty() {
            payload[skip..skip + self.data.len()].copy_from_slice(&self.data);
        }
    }

    /// Frees the read's receive buffer if this is its last completion.
    pub fn release(&self, port: &mut DevicePort<'_>) {
        if let Some(read) = self.ends {
            read.release(port);
        }
    }
}

/// Completions waiting to be sent.
#[derive(Debug, Default)]
pub struct Completer {
    waiting: VecDeque<Completion>,
}

impl Completer {
    /// Adds the answer to a read, to be sent from `ready_ps` on. The read's receive buffer is held
    /// until then, so the port's credits limit the reads in flight.
    pub fn answer(
        &mut self,
        read: Held,
        answer: Answer,
        ready_ps: u64,
        function: &Function,
        port: &DevicePort<'_>,
    ) {
        let last_ps = self.waiting.back().map_or(0, |before| before.ready_ps);
        assert!(ready_ps >= last_ps, "an answer of {ready_ps} ps comes behind {last_ps} ps");
        let request = &read.header;
        let id = port.routing_id();
        let (word, data) = match answer {
            Answer::Word(word) => (word, Vec::new()),
            Answer::Data(data) => (0, data),
            Answer::Refused(status) => {
                let header = Header::completion_error(request, id, status);
                let (word, data, ends) = (0, Vec::new(), Some(read));
                self.waiting.push_back(Completion { header, ready_ps, word, data, ends });
                return;
            }
        };
        let bytes = request.request_bytes();
        let (boundary, most) = (READ_COMPLETION_BOUNDARY_BYTES, function.max_payload_bytes);
        let mut left = bytes;
        for (at, length) in split::completions(request.address, bytes, boundary, most) {
            let header = Header::completion_data(request, id, at, length, left);
            let begin = (bytes - left) as usize;
            let data = data.get(begin..begin + length as usize).unwrap_or_default().to_vec();
            left -= length;
            let ends = (left == 0).then_some(read);
            self.waiting.push_back(Completion { header, ready_ps, word, data, ends });
        }
        assert!(left == 0, "a read of {bytes} B is answered without {left} B");
    }

    /// Adds the answer to a TLP that has arrived, if it has one: see [`answer`](Self::answer).
    /// Returns when the TLP's receive buffer becomes free.
    pub fn reply(
        &mut self,
        tlp: Received,
        answer: Option<Answer>,
        ready_ps: u64,
        function: &Function,
        port: &DevicePort<'_>,
    ) -> Consumed {
        let Some(answer) = answer else { return Consumed::Now };
        self.answer(Held::new(tlp, port), answer, ready_ps, function, port);
        Consumed::Held
    }

    /// Returns the number of completions that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no completion waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns when the next completion is ready; `u64::MAX` if none waits.
    pub fn next_ps(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |next| next.ready_ps)
    }

    /// Takes out the next completion if it is ready.
    pub fn take(&mut self, now_ps: u64) -> Option<Completion> {
        if self.next_ps() > now_ps { None } else { self.waiting.pop_front() }
    }

    /// Sends the next completion if it is ready and the link has room; asks for a call when it will
    /// be ready. Returns whether it sent one.
    pub fn send(&mut self, timer: &mut Timer, port: &mut DevicePort<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        if self.next_ps() > port.now_ps() {
            timer.at(self.next_ps(), port);
            return false;
        }
        if !port.has_room_for(Class::Completion) {
            return false;
        }
        let Some(completion) = self.waiting.pop_front() else { return false };
        port.send(completion.header, |payload| completion.fill(payload));
        completion.release(port);
        true
    }
}
