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

use std::collections::VecDeque;

use crosslane_fabric::parameters::Parameters;
use crosslane_fabric::{Consumed, Device, DevicePort, Received};
use crosslane_pcie::config::ConfigSpace;

use crate::kit::{self, Answer, Arrival, Completer, Function, Requester, Timer};
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

/// Slot of a queue pair, and the number of its uses.
#[derive(Default)]
struct Slot {
    turn: u16,
    pair: Option<Box<QueuePair>>,
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
    requester: Requester<Target>,
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
    completer: Completer,
    /// Earliest time to begin the next work request.
    next_request_ps: u64,
    timer: Timer,
    retry: Timer,
}

impl Nic {
    /// Creates a NIC in its reset state, without a network.
    ///
    /// # Panics
    /// Panics if [`Parameters::check`] rejects the parameters.
    pub fn new(parameters: NicParameters) -> Self {
        parameters.assert_valid();
        Self {
            requester: Requester::new(
                parameters.tags, parameters.max_read_bytes, parameters.completion_timeout, TIMEOUT,
            ),
            parameters,
            function: Function::default(),
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
            completer: Completer::default(),
            next_request_ps: 0,
            timer: Timer::new(STEP),
            retry: Timer::of_deadlines(RETRY),
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

    /// Does all that can be done now.
    fn go_on(&mut self, port: &mut DevicePort<'_>) {
        loop {
            let mut goes_on = self.completer.send(&mut self.timer, port);
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
}

impl Device for Nic {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let answer = match self.function.sort(&header, port) {
            Arrival::Write(place) => {
                for (offset, word) in kit::whole_words(place.offset, &header, port.payload(tlp)) {
                    self.ring(offset.into(), word);
                }
                None
            }
            Arrival::Completion => {
                self.take_completion(tlp, &header, port);
                None
            }
            Arrival::Registers(_) | Arrival::Read(_) => Some(Answer::Word(0)),
            Arrival::Answered(answer) => Some(answer),
            Arrival::Poisoned(_) | Arrival::Ignored => None,
        };
        let consumed = self.completer.reply(tlp, answer, port.now_ps(), &self.function, port);
        self.go_on(port);
        consumed
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        self.go_on(port);
    }

    fn link_down(&mut self, port: &mut DevicePort<'_>) {
        for target in self.requester.lose_all(port.now_ps()) {
            self.read_ended(target.pair);
        }
        self.end_all(Status::LinkDown, port);
        self.go_on(port);
    }

    fn timer(&mut self, token: u32, port: &mut DevicePort<'_>) {
        match token {
            TIMEOUT => self.time_out_reads(port),
            RETRY => self.time_out_pairs(port),
            _ => {
                self.timer.fired(port.now_ps());
                self.line_up_grown();
            }
        }
        self.go_on(port);
    }

    fn configured(&mut self, config: &ConfigSpace) {
        self.function = config.into();
    }

    fn unfinished(&self) -> Vec<String> {
        let inbound = self.link.as_ref().map_or(0, |link| link.inbound.len());
        kit::unfinished(&[
            (self.made.len() - self.made_free.len(), "packets wait for data or the network"),
            (inbound, "packets have come"),
            (self.entries.len(), "completion entries wait"),
            (self.completer.len(), "completions wait"),
        ])
    }
}
