// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behavioural model of a NIC: an RDMA adapter as an endpoint, joined to another one by a network
//! link. Programs and the NIC communicate through host memory and doorbells, see [`layout`].
//! `docs/nic.md` describes its behaviour.
//!
//! Read first: `layout.rs`, then `pair.rs`; `request.rs` for its own work, `place.rs` for received
//! packets, `control.rs` for the commands of a kernel's driver.

mod control;
mod ending;
pub mod layout;
mod link;
mod packet;
mod pair;
mod parameters;
mod place;
mod regions;
mod request;
mod send;

use std::any::Any;
use std::collections::VecDeque;

use crosslane_fabric::trace::HeaderLine;
use crosslane_fabric::{Consumed, Device, DevicePort, ErrorKind, Received};
use crosslane_pcie::config::ConfigSpace;
use crosslane_pcie::split;
use crosslane_pcie::tlp::{Class, CompletionStatus, Header, TlpKind};

use crate::engine::{READ_COMPLETION_BOUNDARY_BYTES, Window};
use crate::reads::Reads;
pub use control::{NicError, PairNumber};
use layout::{DOORBELL_BYTES, Entry, RECEIVE_DOORBELL, Status};
use link::Link;
pub use link::NetworkCounters;
use packet::Packet;
use pair::{QueuePair, Role};
pub use parameters::{NetworkParameters, NicParameters};
use regions::Regions;
pub use regions::{Access, Runs};
use request::{Making, Target};

/// Timer token: look for work.
const STEP: u32 = 0;
/// Timer token: check for completion time-outs.
const TIMEOUT: u32 = 1;
/// Timer token: check for connection time-outs.
const RETRY: u32 = 2;

/// Most queue pairs of a NIC: numbers of 16 bits, next to a count of uses.
pub const MAX_QUEUE_PAIRS: usize = 1 << 16;

/// Settings of the function's configuration space.
#[derive(Clone, Copy, Debug)]
struct Function {
    doorbells: Window,
    max_payload_bytes: u32,
    max_read_request_bytes: u32,
    is_bus_master: bool,
}

/// Slot of a queue pair, and the number of its uses.
#[derive(Default)]
struct Slot {
    turn: u16,
    pair: Option<Box<QueuePair>>,
}

/// Completion waiting to be sent, and the read whose receive buffer is freed with it.
struct Answer {
    header: Header,
    frees: Option<(Received, Header, u32)>,
}

/// Packet being built.
struct Made {
    pair: u32,
    role: Role,
    packet: Packet,
    /// Bytes of its payload still to come from host memory.
    missing: u32,
}

/// NIC as an endpoint's device, with its doorbells in BAR 0.
pub struct Nic {
    parameters: NicParameters,
    function: Function,
    link: Option<Link>,
    regions: Regions,
    slots: Vec<Slot>,
    reads: Reads<Target>,
    /// Packets being built, and free indices in `made`.
    made: Vec<Option<Made>>,
    made_free: Vec<u32>,
    /// Payload bytes of the packets in `made`.
    made_bytes: u32,
    /// Packet whose data are being requested.
    making: Option<Making>,
    /// Roles waiting to build packets and to send them, in turn, so that all connections advance.
    make_line: VecDeque<(u32, Role)>,
    send_line: VecDeque<(u32, Role)>,
    /// Queue pairs whose next work request is not ready yet.
    young: Vec<u32>,
    fetch_line: VecDeque<u32>,
    flush_line: VecDeque<u32>,
    acknowledge_line: VecDeque<u32>,
    /// Packets about queue pairs themselves, which are sent first.
    notices: VecDeque<Packet>,
    /// Completion entries for the host, in order.
    entries: VecDeque<(u32, Entry)>,
    answers: VecDeque<Answer>,
    /// Earliest time to begin the next work request.
    next_request_ps: u64,
    timer_ps: u64,
    deadline_ps: u64,
    retry_ps: u64,
}

impl Nic {
    /// Creates a NIC in its reset state, without a network.
    ///
    /// # Panics
    /// Panics if [`NicParameters::check`] rejects the parameters.
    #[must_use]
    pub fn new(parameters: NicParameters) -> Self {
        if let Err(error) = parameters.check() {
            panic!("the parameters of a NIC are checked before: {error}");
        }
        Self {
            reads: Reads::new(parameters.tags),
            parameters,
            function: Function {
                doorbells: Window::default(),
                max_payload_bytes: 128,
                max_read_request_bytes: 128,
                is_bus_master: false,
            },
            link: None,
            regions: Regions::default(),
            slots: Vec::new(),
            made: Vec::new(),
            made_free: Vec::new(),
            made_bytes: 0,
            making: None,
            make_line: VecDeque::new(),
            send_line: VecDeque::new(),
            young: Vec::new(),
            fetch_line: VecDeque::new(),
            flush_line: VecDeque::new(),
            acknowledge_line: VecDeque::new(),
            notices: VecDeque::new(),
            entries: VecDeque::new(),
            answers: VecDeque::new(),
            next_request_ps: 0,
            timer_ps: u64::MAX,
            deadline_ps: u64::MAX,
            retry_ps: u64::MAX,
        }
    }

    /// Returns a queue pair by its number; `None` if it no longer exists.
    fn pair(&mut self, number: u32) -> Option<&mut QueuePair> {
        let slot = self.slots.get_mut((number & 0xffff) as usize)?;
        if u32::from(slot.turn) != number >> 16 {
            return None;
        }
        slot.pair.as_deref_mut()
    }

    /// Schedules [`STEP`] at a time.
    fn wake_at(&mut self, time_ps: u64, port: &mut DevicePort<'_>) {
        if time_ps < self.timer_ps {
            self.timer_ps = time_ps;
            port.timer(time_ps, STEP);
        }
    }

    /// Does all that can be done now.
    fn go_on(&mut self, port: &mut DevicePort<'_>) {
        loop {
            let mut goes_on = self.build_answer(port);
            if self.function.is_bus_master {
                // One of each in turn, because writes to the host and reads of it share the link.
                goes_on |= self.write_entry(port);
                goes_on |= self.place(port);
                goes_on |= self.ask(port);
            }
            goes_on |= self.make(port);
            goes_on |= self.send(port);
            if !goes_on {
                return;
            }
        }
    }

    // --- The function's own registers ----------------------------------------------------------

    fn take_write(&mut self, tlp: Received, header: &Header, port: &mut DevicePort<'_>) {
        let what = || HeaderLine(header).to_string();
        if header.poisoned {
            port.report(ErrorKind::PoisonedWrite { what: what() });
            return;
        }
        let (address, bytes) = (header.address.0, header.request_bytes());
        let Some(offset) = self.function.doorbells.offset(address, bytes) else {
            port.report(ErrorKind::Unrouted { what: what(), address: header.address });
            return;
        };
        let payload = port.payload(tlp);
        // Doorbells take whole words only.
        if !offset.is_multiple_of(4) || !bytes.is_multiple_of(4) {
            return;
        }
        let words: Vec<u32> =
            payload.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        for (at, word) in (0_u64..).zip(words) {
            self.ring(offset + at * 4, word);
        }
    }

    /// Takes a doorbell.
    fn ring(&mut self, offset: u64, word: u32) {
        let slot = (offset / DOORBELL_BYTES) as usize;
        let Some(turn) = self.slots.get(slot).map(|slot| slot.turn) else { return };
        let number = u32::from(turn) << 16 | slot as u32;
        if offset % DOORBELL_BYTES == RECEIVE_DOORBELL {
            self.free_messages(number, word);
            return;
        }
        let Some(pair) = self.pair(number) else { return };
        // Ignore a count above the ring's length: those requests have been overwritten.
        let more = word.wrapping_sub(pair.fetched);
        if more <= pair.layout.requests {
            pair.posted = word;
            self.line_up_fetch(number);
        }
    }

    /// Takes a read of BAR 0. Doorbells read as zero.
    fn take_read(&mut self, tlp: Received, request: &Header, port: &mut DevicePort<'_>) {
        let frees = (tlp, *request, port.data_credits(tlp));
        let (id, bytes) = (port.routing_id(), request.request_bytes());
        if self.function.doorbells.offset(request.address.0, bytes).is_none() {
            let what = HeaderLine(request).to_string();
            port.report(ErrorKind::Unrouted { what, address: request.address });
            let status = CompletionStatus::UnsupportedRequest;
            let header = Header::completion_error(request, id, status);
            self.answers.push_back(Answer { header, frees: Some(frees) });
            return;
        }
        let (mut left, most) = (bytes, self.function.max_payload_bytes);
        let boundary = READ_COMPLETION_BOUNDARY_BYTES;
        for (at, length) in split::completions(request.address, bytes, boundary, most) {
            let header = Header::completion_data(request, id, at, length, left);
            left -= length;
            self.answers.push_back(Answer { header, frees: (left == 0).then_some(frees) });
        }
    }

    fn build_answer(&mut self, port: &mut DevicePort<'_>) -> bool {
        if self.answers.is_empty() || !port.has_room_for(Class::Completion) {
            return false;
        }
        let Some(Answer { header, frees }) = self.answers.pop_front() else { return false };
        port.send(header, |payload| payload.fill(0));
        if let Some((tlp, request, data_credits)) = frees {
            port.release(tlp, &request, data_credits);
        }
        true
    }
}

impl Device for Nic {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let mut consumed = Consumed::Now;
        match header.kind {
            TlpKind::MemoryWrite => self.take_write(tlp, &header, port),
            TlpKind::MemoryRead => {
                self.take_read(tlp, &header, port);
                consumed = Consumed::Held;
            }
            TlpKind::Completion | TlpKind::CompletionData => {
                self.take_completion(tlp, &header, port);
            }
            // Configuration requests take no simulated time; messages have no effect.
            TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite | TlpKind::Message => {}
        }
        self.go_on(port);
        consumed
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        self.go_on(port);
    }

    fn link_down(&mut self, port: &mut DevicePort<'_>) {
        let deadline_ps = port.now_ps() + self.parameters.completion_timeout.0;
        let mut lost = Vec::new();
        self.reads.lose_all(deadline_ps, |target| lost.push(target.pair));
        for number in lost {
            self.read_ended(number);
        }
        self.end_all(Status::LinkDown, port);
        self.go_on(port);
    }

    fn timer(&mut self, token: u32, port: &mut DevicePort<'_>) {
        match token {
            TIMEOUT => self.time_out_reads(port),
            RETRY => self.time_out_pairs(port),
            _ => {
                if self.timer_ps <= port.now_ps() {
                    self.timer_ps = u64::MAX;
                }
                self.line_up_grown();
            }
        }
        self.go_on(port);
    }

    fn configured(&mut self, config: &ConfigSpace) {
        let bar = config.bar(0).filter(|_| config.memory_enabled());
        self.function = Function {
            doorbells: bar.map_or(Window::default(), |bar| Window {
                base: bar.base.0,
                bytes: bar.size_bytes,
            }),
            max_payload_bytes: config.max_payload_bytes(),
            max_read_request_bytes: config.max_read_request_bytes(),
            is_bus_master: config.bus_master_enabled(),
        };
    }

    fn unfinished(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |count: usize, what: &str| {
            if count > 0 {
                lines.push(format!("{count} {what}"));
            }
        };
        add(self.made.len() - self.made_free.len(), "packets wait for data or the network");
        add(self.link.as_ref().map_or(0, |link| link.inbound.len()), "packets have come");
        add(self.entries.len(), "completion entries wait");
        add(self.answers.len(), "completions wait");
        lines
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
