// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behavioural model of the DMA engine, as `docs/engine.md` describes it, at the level of TLPs:
//! everything within a TLP's clocks on the datapath happens at their beginning.
//!
//! Read first: `channel.rs` for the channels, `arbiter.rs` for the order of transmission.

mod arbiter;
mod channel;
mod descriptors;
mod lanes;
mod memory;
mod packets;
mod push;
mod read;
mod registers;
mod status;
mod user;
mod write;

use std::collections::VecDeque;

use crosslane_fabric::parameters::Parameters;
use crosslane_fabric::{ChannelWaits, Consumed, Device, DevicePort, Received};
use crosslane_pcie::config::{ConfigSpace, MsixRequest};
use crosslane_regs::engine::{ChannelError, MSIX_PENDING, MSIX_TABLE};

use crate::kit::{Answer, Arrival, Completer, Function, Held, Msix, Timer, whole_words};
use crate::parameters::EngineParameters;
use channel::{Channel, Fault, Kind};
use lanes::{Fifo, Lane, Payload, Stalled};
use memory::Board;
use packets::Ends;
pub use push::{PUSH_BAR, PUSH_BYTES};
use read::Tags;
use user::User;

/// BAR of the window into the card's memory, if the engine has one.
pub const WINDOW_BAR: usize = 2;
/// Timer token: look for work.
const STEP: u32 = 0;
/// Timer token: check for completion time-outs.
const TIMEOUT: u32 = 1;

/// DMA engine as an endpoint's device: registers in BAR 0, receive queues in BAR 1 or the next BAR
/// present.
pub struct Engine {
    parameters: EngineParameters,
    function: Function,
    /// Bytes of the receive queues' aperture for each of them.
    lane_window_bytes: u64,
    /// Channels in the order H2C, C2H, peer.
    channels: Vec<Channel>,
    /// Channels that are running, and those that were last noted to wait, one bit each.
    running: u32,
    waiting: u32,
    tags: Tags,
    /// Card memory, if the engine has that mode.
    board: Option<Board>,
    /// Data read by H2C channel 0, on their way to their target.
    stream: Fifo,
    /// Ends of packets in that stream.
    ends: Ends,
    lanes: Vec<Lane>,
    /// Time at which the next credit write is due; `u64::MAX` if no time is known.
    credit_ps: u64,
    /// Receive queues whose time is known, one bit each.
    crediting: u32,
    /// TLPs waiting behind a full receive queue, in order.
    stalled: VecDeque<Stalled>,
    /// Buffers of earlier stalled TLPs, for reuse.
    spare: Vec<Vec<u8>>,
    user: User,
    msix: Msix,
    /// Descriptor tables of H2C channel 0 and C2H channel 0.
    tables: [Vec<u8>; 2],
    /// Words stored in each table entry since it was taken up, one bit each.
    stored: [Vec<u8>; 2],
    completer: Completer,
    /// Time at which the last read of the card's window has its data.
    window_ps: u64,
    /// High word of the engine time, latched when the low one was read.
    latched_time: u32,
    /// Arbiter slot that is served next.
    turn: usize,
    /// Channel to fetch descriptors for next, and receive queue and channel to write for next.
    fetch_turn: usize,
    credit_turn: usize,
    status_turn: usize,
    /// Time at which the last status block or message has been handed on whole.
    status_free_ps: u64,
    engine_free_ps: u64,
    /// Time at which the receive buffer for completions had room again.
    buffer_room_ps: u64,
    timer_ps: u64,
    /// Check for completion time-outs.
    time_outs: Timer,
    /// Set if something has changed that may let the engine proceed.
    wake: bool,
}

impl Engine {
    /// Creates an engine in its reset state.
    ///
    /// # Panics
    /// Panics if [`Parameters::check`] rejects the parameters.
    pub fn new(parameters: EngineParameters) -> Self {
        parameters.assert_valid();
        let p = &parameters;
        let kinds = [
            (Kind::H2c, p.h2c_channels),
            (Kind::C2h, p.c2h_channels),
            (Kind::Peer, p.peer_channels),
        ];
        let channels = kinds.into_iter().flat_map(|(kind, count)| {
            (0..usize::from(count)).map(move |number| Channel::new(kind, number))
        });
        let stream_latency_ps = p.clocks_ps(p.stream_latency_clocks);
        let table = || vec![0; usize::from(p.table_descriptors) * TABLE_ENTRY_BYTES];
        Self {
            function: Function::default(),
            lane_window_bytes: 0,
            channels: channels.collect(),
            running: 0,
            waiting: 0,
            tags: Tags::new(p),
            board: p.card_memory.map(Board::new),
            stream: Fifo::new(p.staging_bytes, stream_latency_ps),
            ends: Ends::default(),
            lanes: (0..p.lanes).map(|_| Lane::new(p)).collect(),
            credit_ps: u64::MAX,
            crediting: 0,
            stalled: VecDeque::new(),
            spare: Vec::new(),
            user: User::new(),
            msix: Msix::new(status::VECTORS, MSIX_TABLE.bytes),
            tables: [table(), table()],
            stored: [(); 2].map(|()| vec![0; usize::from(p.table_descriptors)]),
            completer: Completer::default(),
            window_ps: 0,
            latched_time: 0,
            turn: 0,
            fetch_turn: 0,
            credit_turn: 0,
            status_turn: 0,
            status_free_ps: 0,
            engine_free_ps: 0,
            buffer_room_ps: 0,
            timer_ps: u64::MAX,
            time_outs: Timer::of_deadlines(TIMEOUT),
            wake: false,
            parameters,
        }
    }

    /// Returns the engine's MSI-X capability, with table and pending bits in BAR 0.
    pub const fn msix_request() -> MsixRequest {
        MsixRequest {
            vectors: status::VECTORS as u16,
            table_bar: 0,
            table_offset_bytes: MSIX_TABLE.base,
            pending_bar: 0,
            pending_offset_bytes: MSIX_PENDING.base,
        }
    }

    /// Returns the number of tags in use, for data and descriptors: reads waiting for completions,
    /// reads whose data wait, and tags kept out of use after a time-out.
    pub fn tags_in_use(&self) -> usize {
        self.tags.table.in_use()
    }

    /// Reads card memory without taking time. Returns false if the engine lacks some of it.
    pub fn peek_memory(&self, address: u64, out: &mut [u8]) -> bool {
        self.board.as_ref().is_some_and(|board| board.peek(address, out))
    }

    /// Converts simulated time to engine time, in clocks.
    fn clocks(&self, time_ps: u64) -> u64 {
        time_ps / self.parameters.clock.0
    }

    fn index(&self, kind: Kind, number: usize) -> usize {
        let p = &self.parameters;
        number
            + match kind {
                Kind::H2c => 0,
                Kind::C2h => usize::from(p.h2c_channels),
                Kind::Peer => usize::from(p.h2c_channels + p.c2h_channels),
            }
    }

    /// Takes a TLP as if nothing were stalled. Returns [`Taken::Full`] if its queue is full.
    fn take(&mut self, held: &Held, payload: Payload<'_>, port: &mut DevicePort<'_>) -> Taken {
        let (header, now_ps) = (&held.header, port.now_ps());
        let answer = match self.function.sort(header, port) {
            Arrival::Write(place) if place.bar == 0 => {
                for (offset, word) in whole_words(place.offset, header, payload.bytes(port)) {
                    self.write_register(offset, word, now_ps);
                }
                self.wake = true;
                return Taken::Now;
            }
            Arrival::Write(place) if self.is_card_window(place.bar) => {
                self.write_card(place.offset, header, payload.bytes(port), now_ps);
                return Taken::Now;
            }
            Arrival::Write(place) | Arrival::Poisoned(place)
                if self.is_push_aperture(place.bar) =>
            {
                self.take_push(place.offset, header, payload.bytes(port), now_ps);
                return Taken::Now;
            }
            Arrival::Write(place) | Arrival::Poisoned(place) => {
                if place.bar == 0 || self.is_card_window(place.bar) {
                    return Taken::Now;
                }
                return self.take_lane_write(place.offset, header, payload.bytes(port), now_ps);
            }
            Arrival::Completion => {
                self.take_completion(header, payload, port);
                return Taken::Now;
            }
            Arrival::Ignored => return Taken::Now,
            Arrival::Registers(read) => read.answer(|offset| self.read_register(offset, now_ps)),
            Arrival::Read(place) if self.is_card_window(place.bar) => {
                self.read_card(place.offset, header.request_bytes(), now_ps)
            }
            // The receive aperture reads as zero.
            Arrival::Read(_) => Answer::Word(0),
            Arrival::Answered(answer) => answer,
        };
        // Answers leave in the order of the reads.
        let ready_ps = self.window_ps.max(now_ps + self.parameters.register_latency.0);
        self.completer.answer(*held, answer, ready_ps, &self.function, port);
        self.wake = true;
        Taken::Later
    }

    /// Sends the next completion if one is ready. Returns whether it sent one.
    fn build_answer(&mut self, port: &mut DevicePort<'_>) -> bool {
        let Some(completion) = self.completer.take(port.now_ps()) else { return false };
        self.send(completion.header, port, |payload| completion.fill(payload));
        completion.release(port);
        true
    }
}

/// Bytes of a table descriptor.
const TABLE_ENTRY_BYTES: usize = crosslane_regs::table_descriptor::BYTES as usize;

/// Outcome of taking a TLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// The TLP is done, and its receive buffer is free.
    Now,
    /// The TLP will be done later, and its receive buffer freed then.
    Later,
    /// The TLP must wait for room in a receive queue.
    Full,
}

impl Device for Engine {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let held = Held::new(tlp, port);
        let taken = match self.must_wait_behind_stalled() {
            true => Taken::Full,
            false => self.take(&held, Payload::Arrived(tlp), port),
        };
        if taken == Taken::Full {
            let mut payload = self.spare.pop().unwrap_or_default();
            payload.clear();
            payload.extend_from_slice(port.payload(tlp));
            self.stalled.push_back(Stalled { held, payload });
        }
        let consumed = if taken == Taken::Now { Consumed::Now } else { Consumed::Held };
        self.go_on(port);
        consumed
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        // While the datapath is occupied, a timer is already set for its end.
        if self.engine_free_ps <= port.now_ps() {
            self.step(port);
        }
    }

    fn link_down(&mut self, port: &mut DevicePort<'_>) {
        for index in 0..self.channels.len() {
            let channel = &self.channels[index];
            if channel.is_running() {
                let (error, address) = (ChannelError::LinkDown, channel.next_address());
                self.stop(index, Fault { error, address }, port.now_ps());
            }
        }
        self.step(port);
    }

    fn timer(&mut self, token: u32, port: &mut DevicePort<'_>) {
        match token {
            STEP => {
                if self.timer_ps <= port.now_ps() {
                    self.timer_ps = u64::MAX;
                }
                self.step(port);
            }
            _ => self.time_out(port),
        }
    }

    fn configured(&mut self, config: &ConfigSpace) {
        self.function = config.into();
        let mut others = self.function.bars.iter().skip(1);
        let bytes = others.find(|bar| bar.bytes > 0).map_or(0, |bar| bar.bytes);
        self.lane_window_bytes = bytes / self.lanes.len() as u64;
        for channel in &mut self.channels {
            (channel.limit_bytes, channel.next_bytes) = (0, 0);
        }
        self.msix.configured(config);
    }

    fn channel_waits(&self, kind: Kind) -> Option<ChannelWaits> {
        self.channels[self.find_channel(kind, 0)?].counters.waits()
    }

    fn unfinished(&self) -> Vec<String> {
        self.describe_unfinished()
    }
}
