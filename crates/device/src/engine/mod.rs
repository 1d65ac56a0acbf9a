// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The behavioural model of the DMA engine. It does what `docs/engine.md` says, at the level of
//! TLPs: what happens within a TLP's clocks on the datapath happens at its beginning.
//!
//! Read first: `channel.rs` for what a channel is, `arbiter.rs` for what is sent when.

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

use crosslane_fabric::{Consumed, Device, DevicePort, ErrorKind, Received};
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
pub use channel::Kind as ChannelKind;
pub use waits::ChannelWaits;

/// Timer token: the engine looks for work.
const STEP: u32 = 0;
/// Timer token: a completion time-out may have come.
const TIMEOUT: u32 = 1;

/// A BAR: base address and size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub base: u64,
    pub bytes: u64,
}

impl Window {
    /// The offset in it of `bytes` at `address`, if it holds them all.
    pub fn offset(&self, address: u64, bytes: u32) -> Option<u64> {
        let offset = address.checked_sub(self.base)?;
        (offset.checked_add(u64::from(bytes))? <= self.bytes).then_some(offset)
    }
}

/// What the function's configuration space says.
#[derive(Clone, Copy, Debug, Default)]
struct Function {
    registers: Window,
    receive: Window,
    max_payload_bytes: u32,
    max_read_request_bytes: u32,
    relaxed_ordering: bool,
    bus_master: bool,
}

/// A DMA engine, as an endpoint's device: BAR 0 has its registers, BAR 1 (or the next one that
/// there is) its receive lanes.
pub struct Engine {
    parameters: EngineParameters,
    function: Function,
    /// H2C, C2H, peer, in this order.
    channels: Vec<Channel>,
    tags: Tags,
    /// The card's memory, where the engine has that mode.
    board: Option<Board>,
    /// What H2C channel 0 has read, on its way to where it is routed.
    stream: Fifo,
    lanes: Vec<Lane>,
    /// TLPs behind a full lane, in order.
    stalled: VecDeque<Stalled>,
    /// Buffers of TLPs that were stalled, to be used again.
    spare: Vec<Vec<u8>>,
    user: User,
    msix: Msix,
    /// Descriptor tables of H2C channel 0 and C2H channel 0.
    tables: [Vec<u8>; 2],
    /// Which words of each of their entries have been stored since it was taken up, one bit each.
    stored: [Vec<u8>; 2],
    answers: VecDeque<Answer>,
    /// High word of the engine time, as it was when the low one was read.
    latched_time: u32,
    /// Slot of the arbiter that is served next.
    turn: usize,
    /// Channel whose descriptors are fetched next, lane and channel that write next.
    fetch_turn: usize,
    credit_turn: usize,
    status_turn: usize,
    /// When the last status block or message has been handed on whole.
    status_free_ps: u64,
    engine_free_ps: u64,
    timer_ps: u64,
    deadline_ps: u64,
    /// Something has changed that may let the engine go on.
    wake: bool,
}

impl Engine {
    /// An engine after reset.
    ///
    /// # Panics
    /// If no engine can be built like this: see [`EngineParameters::check`].
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

    /// The MSI-X capability that goes with an engine: its table and pending bits are in BAR 0.
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

    /// Tags in use, of data and of descriptors: reads that wait for answers or whose data wait, and
    /// tags that are kept out of use after a time-out.
    #[must_use]
    pub fn tags_in_use(&self) -> usize {
        self.tags.in_use()
    }

    /// Engine time at a simulated time.
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

    /// Takes in a posted TLP or a read, as if nothing were stalled. False: it finds its lane full
    /// and has not been taken.
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
            // Configuration requests take no simulated time and messages have no effect.
            TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite | TlpKind::Message => {
                Taken::Now
            }
        }
    }

    /// A memory write: registers, or a lane.
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

/// Bytes of a table's descriptor.
const TABLE_ENTRY_BYTES: usize = crosslane_regs::table_descriptor::BYTES as usize;

/// What has become of a TLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// It is worked off, and its buffer free.
    Now,
    /// It is worked off later, and its buffer freed then.
    Later,
    /// It must wait for room in a lane.
    Full,
}

impl Device for Engine {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let data_credits = port.data_credits(tlp);
        // The payload is the port's, which is needed meanwhile.
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
        // While the datapath is occupied the timer is set that looks when it is free.
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
            // A 64-bit BAR 0 takes two places.
            receive: (1..6).find_map(bar).unwrap_or_default(),
            max_payload_bytes: config.max_payload_bytes(),
            max_read_request_bytes: config.max_read_request_bytes(),
            relaxed_ordering: config.relaxed_ordering_enabled(),
            bus_master: config.bus_master_enabled(),
        };
        self.msix.configured(config);
    }

    fn unfinished(&self) -> Vec<String> {
        self.describe_unfinished()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
