// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behavioural model of the DMA engine, as `docs/engine.md` describes it, at the level of TLPs:
//! everything within a TLP's clocks on the datapath happens at their beginning.
//!
//! Read first: `channel.rs` for the channels, `arbiter.rs` for the order of transmission.

mod answers;
mod arbiter;
mod channel;
mod descriptors;
mod fifo;
mod lanes;
mod memory;
mod pattern;
mod read;
mod registers;
mod status;
mod tags;
mod user;
mod waits;
mod write;

use std::any::Any;
use std::collections::VecDeque;

use crosslane_fabric::{ChannelWaits, Consumed, Device, DevicePort, ErrorKind, Received};
use crosslane_pcie::config::{ConfigSpace, MsixRequest};
use crosslane_pcie::tlp::{Header, TlpKind};
use crosslane_regs::engine::{ChannelError, MSIX_PENDING, MSIX_TABLE};

use crate::parameters::EngineParameters;
use answers::Answer;
use channel::{Channel, Fault, Kind};
use fifo::Fifo;
use lanes::{Lane, Stalled};
use memory::Board;
use status::Msix;
use tags::Tags;
use user::User;

pub(crate) use answers::READ_COMPLETION_BOUNDARY_BYTES;

/// Timer token: look for work.
const STEP: u32 = 0;
/// Timer token: check for completion time-outs.
const TIMEOUT: u32 = 1;

/// A BAR: base address and size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub base: u64,
    pub bytes: u64,
}

impl Window {
    /// Returns the offset in the BAR of `bytes` at `address` if it contains them all.
    pub fn offset(&self, address: u64, bytes: u32) -> Option<u64> {
        let offset = address.checked_sub(self.base)?;
        (offset.checked_add(u64::from(bytes))? <= self.bytes).then_some(offset)
    }
}

/// Settings of the function's configuration space.
#[derive(Clone, Copy, Debug, Default)]
struct Function {
    registers: Window,
    receive: Window,
    max_payload_bytes: u32,
    max_read_request_bytes: u32,
    relaxed_ordering: bool,
    bus_master: bool,
}

/// DMA engine as an endpoint's device: registers in BAR 0, receive queues in BAR 1 or the next BAR
/// present.
pub struct Engine {
    parameters: EngineParameters,
    function: Function,
    /// Channels in the order H2C, C2H, peer.
    channels: Vec<Channel>,
    tags: Tags,
    /// Card memory, if the engine has that mode.
    board: Option<Board>,
    /// Data read by H2C channel 0, on their way to their target.
    stream: Fifo,
    lanes: Vec<Lane>,
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
    answers: VecDeque<Answer>,
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
    timer_ps: u64,
    deadline_ps: u64,
    /// Set if something has changed that may let the engine proceed.
    wake: bool,
}

impl Engine {
    /// Creates an engine in its reset state.
    ///
    /// # Panics
    /// Panics if [`EngineParameters::check`] rejects the parameters.
    #[must_use]
    pub fn new(parameters: EngineParameters) -> Self {
        if let Err(error) = parameters.check() {
            panic!("the parameters of an engine are checked before: {error}");
        }
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
            function: Function {
                max_payload_bytes: 128,
                max_read_request_bytes: 128,
                ..Function::default()
            },
            channels: channels.collect(),
            tags: Tags::new(p),
            board: p.card_memory.map(Board::new),
            stream: Fifo::new(p.staging_bytes, stream_latency_ps),
            lanes: (0..p.lanes).map(|_| Lane::new(p)).collect(),
            stalled: VecDeque::new(),
            spare: Vec::new(),
            user: User::default(),
            msix: Msix::default(),
            tables: [table(), table()],
            stored: [(); 2].map(|()| vec![0; usize::from(p.table_descriptors)]),
            answers: VecDeque::new(),
            latched_time: 0,
            turn: 0,
            fetch_turn: 0,
            credit_turn: 0,
            status_turn: 0,
            status_free_ps: 0,
            engine_free_ps: 0,
            timer_ps: u64::MAX,
            deadline_ps: u64::MAX,
            wake: false,
            parameters,
        }
    }

    /// Returns the engine's MSI-X capability, with table and pending bits in BAR 0.
    #[must_use]
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
    #[must_use]
    pub fn tags_in_use(&self) -> usize {
        self.tags.in_use()
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

    /// Takes a posted TLP or a read as if nothing were stalled. Returns [`Taken::Full`] if its
    /// receive queue is full.
    fn take_request(
        &mut self,
        header: &Header,
        payload: &[u8],
        tlp: Option<Received>,
        data_credits: u32,
        port: &mut DevicePort<'_>,
    ) -> Taken {
        match header.kind {
            TlpKind::MemoryWrite => self.take_write(header, payload, port),
            TlpKind::MemoryRead => self.take_read(header, tlp, data_credits, port),
            TlpKind::Completion | TlpKind::CompletionData => {
                self.take_completion(header, payload, port);
                Taken::Now
            }
            // Configuration requests take no simulated time; messages have no effect.
            TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite | TlpKind::Message => {
                Taken::Now
            }
        }
    }

    /// Takes a memory write to the registers or a receive queue.
    fn take_write(&mut self, header: &Header, payload: &[u8], port: &mut DevicePort<'_>) -> Taken {
        let (address, bytes) = (header.address.0, header.request_bytes());
        if header.poisoned {
            let what = crosslane_fabric::trace::HeaderLine(header).to_string();
            port.report(ErrorKind::PoisonedWrite { what });
        }
        if let Some(offset) = self.function.registers.offset(address, bytes) {
            if !header.poisoned {
                self.write_registers(offset as u32, header, payload, port.now_ps());
                self.wake = true;
            }
            return Taken::Now;
        }
        if let Some(offset) = self.function.receive.offset(address, bytes) {
            return self.take_lane_write(offset, header, payload, port.now_ps());
        }
        let what = crosslane_fabric::trace::HeaderLine(header).to_string();
        port.report(ErrorKind::Unrouted { what, address: header.address });
        Taken::Now
    }
}

/// Bytes of a table descriptor.
const TABLE_ENTRY_BYTES: usize = crosslane_regs::table_descriptor::BYTES as usize;

/// Outcome of taking a TLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// It is done, and its receive buffer is free.
    Now,
    /// It will be done later, and its receive buffer freed then.
    Later,
    /// It must wait for room in a receive queue.
    Full,
}

impl Device for Engine {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let data_credits = port.data_credits(tlp);
        // The payload borrows the port, which the calls below need.
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.clear();
        payload.extend_from_slice(port.payload(tlp));
        let consumed = if self.must_wait_behind_stalled() {
            self.stall(Stalled { tlp, header, data_credits, payload });
            Consumed::Held
        } else {
            match self.take_request(&header, &payload, Some(tlp), data_credits, port) {
                Taken::Full => {
                    self.stall(Stalled { tlp, header, data_credits, payload });
                    Consumed::Held
                }
                taken => {
                    self.spare.push(payload);
                    if taken == Taken::Now { Consumed::Now } else { Consumed::Held }
                }
            }
        };
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
            let is_at_work = channel.posted() != 0 || channel.completed != 0;
            if channel.is_running() && (is_at_work || channel.current.is_some()) {
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
        let bar = |index| {
            let bar = config.bar(index).filter(|_| config.memory_enabled())?;
            Some(Window { base: bar.base.0, bytes: bar.size_bytes })
        };
        self.function = Function {
            registers: bar(0).unwrap_or_default(),
            // A 64-bit BAR 0 takes two BARs.
            receive: (1..6).find_map(bar).unwrap_or_default(),
            max_payload_bytes: config.max_payload_bytes(),
            max_read_request_bytes: config.max_read_request_bytes(),
            relaxed_ordering: config.relaxed_ordering_enabled(),
            bus_master: config.bus_master_enabled(),
        };
        self.msix.configured(config);
    }

    fn channel_waits(&self, kind: Kind) -> Option<ChannelWaits> {
        self.waits(kind)
    }

    fn unfinished(&self) -> Vec<String> {
        self.describe_unfinished()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
