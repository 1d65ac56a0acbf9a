// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completer with scripted answers to reads, right or wrong.

use std::collections::BTreeMap;

use crosslane_fabric::*;
use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, RoutingId};

/// Scripted answer to a read. Its index is the offset in the BAR divided by 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Two completions with the data of `byte_at`.
    Right,
    Refuse(CompletionStatus),
    /// The second completion is poisoned.
    Poison,
    Never,
    /// The second completion comes this much later (ps).
    Late(u64),
    /// The second completion counts four bytes too few.
    WrongCount,
    /// The second completion's lower address is off by 4.
    WrongAddress,
    /// The first completion ends off a read completion boundary.
    OddCut,
    /// More data than requested.
    TooMuch,
    /// Successful completion without data.
    Empty,
}

/// Bytes of the address range of each answer.
pub const WINDOW: u64 = 1 << 16;

/// Returns the script's byte at an address.
pub fn byte_at(address: u64) -> u8 {
    (address ^ address >> 8) as u8
}

/// Completer with one answer per 64 KiB of its second BAR, in order.
#[derive(Default)]
pub struct Script {
    pub answers: Vec<Answer>,
    waiting: BTreeMap<u32, (Header, u64, u32)>,
    next: u32,
    /// Number of reads received.
    pub reads: u64,
}

impl Script {
    pub fn new(answers: &[Answer]) -> Self {
        Self { answers: answers.to_vec(), ..Self::default() }
    }

    fn complete(&mut self, at_ps: u64, header: Header, address: u64, port: &mut DevicePort<'_>) {
        self.waiting.insert(self.next, (header, address, header.payload_bytes()));
        port.timer(at_ps, self.next);
        self.next += 1;
    }
}

impl Device for Script {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let request = port.header(tlp);
        if request.kind != TlpKind::MemoryRead {
            return Consumed::Now;
        }
        self.reads += 1;
        let (address, bytes) = (request.address.0, request.request_bytes());
        let number = (address % super::BAR1_BYTES / WINDOW) as usize;
        let answer = self.answers.get(number).copied().unwrap_or(Answer::Right);
        let id = port.routing_id();
        let now_ps = port.now_ps() + 100_000;
        let half = if answer == Answer::OddCut { 12 } else { 64 - (address % 64) as u32 };
        let half = half.min(bytes);
        let data = |at: u32, length: u32| {
            let place = BusAddress(address + u64::from(at));
            Header::completion_data(&request, id, place, length, bytes - at)
        };
        match answer {
            Answer::Never => {}
            Answer::Refuse(status) => {
                self.complete(now_ps, Header::completion_error(&request, id, status), 0, port);
            }
            Answer::Empty => {
                let status = CompletionStatus::Successful;
                self.complete(now_ps, Header::completion_error(&request, id, status), 0, port);
            }
            Answer::TooMuch => self.complete(now_ps, data(0, bytes + 4), address, port),
            _ => {
                self.complete(now_ps, data(0, half), address, port);
                if half == bytes {
                    return Consumed::Now;
                }
                let mut second = data(half, bytes - half);
                let mut at_ps = now_ps + 100_000;
                match answer {
                    Answer::Poison => second.poisoned = true,
                    Answer::Late(ps) => at_ps += ps,
                    Answer::WrongCount => second.byte_count -= 4,
                    Answer::WrongAddress => second.address.0 ^= 4,
                    _ => {}
                }
                self.complete(at_ps, second, address + u64::from(half), port);
            }
        }
        Consumed::Now
    }

    fn transmit_ready(&mut self, _port: &mut DevicePort<'_>) {}

    fn timer(&mut self, token: u32, port: &mut DevicePort<'_>) {
        let Some((header, address, _)) = self.waiting.remove(&token) else { return };
        port.send(header, |payload| {
            for (at, byte) in (address..).zip(payload) {
                *byte = byte_at(at);
            }
        });
    }
}

/// Sends given TLPs in sequence: header, payload and time in between.
pub struct Thrower {
    pub tlps: Vec<(Header, Vec<u8>)>,
    pub apart_ps: u64,
}

impl Device for Thrower {
    fn receive(&mut self, _tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        // The first write from outside starts it.
        port.timer(port.now_ps() + 1, 0);
        Consumed::Now
    }

    fn transmit_ready(&mut self, _port: &mut DevicePort<'_>) {}

    fn timer(&mut self, _token: u32, port: &mut DevicePort<'_>) {
        let Some((mut header, bytes)) = self.tlps.pop() else { return };
        if header.requester == RoutingId(0) {
            header.requester = port.routing_id();
        }
        port.send(header, |payload| {
            for (byte, from) in payload.iter_mut().zip(bytes.iter().cycle()) {
                *byte = *from;
            }
        });
        port.timer(port.now_ps() + self.apart_ps, 0);
    }
}
