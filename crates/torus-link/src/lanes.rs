// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A whole port of a network processor at the level of symbols: lanes with their training, and the
//! data link above them.
//!
//! Read first: `docs/torus-link.md`, all of it.
//!
//! A [`Port`] has two clocks: [`Port::transmit`] is called once per local symbol time,
//! [`Port::receive`] once per symbol time recovered from the line. Received bits may begin anywhere
//! within a symbol, and some columns earlier or later in each lane.

mod align;
mod bring_up;
mod deframe;
mod training;

pub use align::{Aligner, MAX_SKEW_COLUMNS, Received};
pub use bring_up::{BringUp, Change, PortState, Progress, TIMEOUTS};
pub use deframe::{Deframer, Event, Events};
pub use training::{SET_COLUMNS, TrainingSet, VERSION};

use crate::code::{COMMA, COMMAND, Code, Encoder, IDLE, SKIP, Symbol};
use crate::end::{EndParameters, LinkEnd};
use crate::frame::{Damaged, Datagram, FrameBytes};

/// Most lanes of a port.
pub const MAX_LANES: usize = 8;
/// Columns from one skip set to the next due time.
pub const SKIP_INTERVAL_COLUMNS: u32 = 1_280;
/// Columns of a skip set.
pub const SKIP_COLUMNS: u32 = 3;

/// Idle columns at the start of a link.
const LEADING_IDLE_COLUMNS: u32 = 8;

/// Ten line bits of each lane, lane 0 first; `None` without a signal.
pub type Column = [Option<Code>; MAX_LANES];

/// Contents of the columns being sent.
#[derive(Clone, Debug)]
enum Sending {
    Nothing,
    Frame { bytes: Box<FrameBytes>, at: usize },
    Set { set: TrainingSet, at: usize },
    Skip { at: u32 },
}

/// One end of a cable.
#[derive(Clone, Debug)]
pub struct Port {
    lanes: usize,
    bring_up: BringUp,
    end: LinkEnd,
    aligner: Aligner,
    deframer: Deframer,
    encoders: [Encoder; MAX_LANES],
    sending: Sending,
    columns_since_skip: u32,
    leading_idle: u32,
}

impl Port {
    /// Creates a disabled port with 1, 4 or 8 lanes. `session` must differ from that before the
    /// last power-on; any running counter will do.
    ///
    /// # Panics
    /// If `lanes` is another number, or the parameters fail [`EndParameters::check`].
    pub fn new(lanes: usize, parameters: EndParameters, session: u16) -> Self {
        assert!([1, 4, 8].contains(&lanes), "a link has 1, 4 or 8 lanes, not {lanes}");
        Self {
            lanes,
            bring_up: BringUp::new(lanes, parameters.channel_datagrams, session),
            end: LinkEnd::new(parameters),
            aligner: Aligner::new(lanes),
            deframer: Deframer::new(lanes),
            encoders: [Encoder::default(); MAX_LANES],
            sending: Sending::Nothing,
            columns_since_skip: 0,
            leading_idle: 0,
        }
    }

    /// Sends and takes datagrams of 256 B, not of 128 B, as the other end must; before it is
    /// enabled.
    #[must_use]
    pub fn with_long_datagrams(mut self) -> Self {
        self.bring_up = self.bring_up.with_long_datagrams();
        self.deframer = self.deframer.with_long_datagrams();
        self
    }

    /// Enables the port, which starts training.
    pub fn enable(&mut self) {
        self.bring_up.enable();
    }

    /// Disables the port and clears its state.
    pub fn disable(&mut self) {
        self.end.reset();
        self.bring_up.disable();
        self.sending = Sending::Nothing;
        self.encoders = [Encoder::default(); MAX_LANES];
        self.aligner.restart();
        self.deframer.restart();
    }

    /// Trains again if the link is up, as after a loss of the lanes.
    pub fn retrain(&mut self) {
        if self.bring_up.retrain().is_some() {
            self.end.down();
        }
    }

    /// Current training state.
    pub const fn state(&self) -> PortState {
        self.bring_up.state()
    }

    /// Times that the link was lost while up.
    pub const fn losses(&self) -> u64 {
        self.bring_up.losses()
    }

    /// The data link above the lanes. Only the port calls its `up`, `down` and `reset`.
    pub const fn end(&self) -> &LinkEnd {
        &self.end
    }

    /// Mutable access to [`Port::end`], to submit datagrams and free buffers.
    pub const fn end_mut(&mut self) -> &mut LinkEnd {
        &mut self.end
    }

    /// Tells the end that the link came up or was lost.
    fn follow(&mut self, change: Option<Change>, now_ps: u64) {
        match change {
            Some(Change::Up { channel_datagrams }) => {
                self.leading_idle = LEADING_IDLE_COLUMNS;
                self.end.up(channel_datagrams, now_ps);
            }
            Some(Change::Down) => self.end.down(),
            None => {}
        }
    }

    /// Returns the column to send in the symbol time that begins at `now_ps`.
    pub fn transmit(&mut self, now_ps: u64) -> Column {
        if self.state() == PortState::Disabled {
            return [None; MAX_LANES];
        }
        if self.state() == PortState::Up && self.end.timeouts_in_a_row() >= TIMEOUTS {
            self.retrain();
        }
        self.columns_since_skip = self.columns_since_skip.saturating_add(1);
        if matches!(self.sending, Sending::Nothing) {
            self.sending = self.next_to_send(now_ps);
        }
        let mut symbols = [IDLE; MAX_LANES];
        let is_done = match &mut self.sending {
            Sending::Nothing => true,
            Sending::Frame { bytes, at } => {
                let all = bytes.as_slice();
                let here = &all[*at..*at + self.lanes];
                for (symbol, byte) in symbols.iter_mut().zip(here) {
                    *symbol = Symbol::Data(*byte);
                }
                if *at == 0 && bytes.begins_with_control() {
                    symbols[0] = COMMAND;
                }
                *at += self.lanes;
                *at == all.len()
            }
            Sending::Set { set, at } => {
                for (lane, symbol) in symbols.iter_mut().enumerate() {
                    let byte = set.encode(lane as u8)[*at];
                    *symbol = if *at == 0 { COMMA } else { Symbol::Data(byte) };
                }
                *at += 1;
                *at == SET_COLUMNS
            }
            Sending::Skip { at } => {
                symbols = [if *at == 0 { COMMA } else { SKIP }; MAX_LANES];
                *at += 1;
                *at == SKIP_COLUMNS
            }
        };
        if is_done {
            self.has_sent(now_ps);
        }
        let mut column = [None; MAX_LANES];
        for lane in 0..self.lanes {
            column[lane] = Some(self.encoders[lane].encode(symbols[lane]));
        }
        column
    }

    fn has_sent(&mut self, now_ps: u64) {
        let sent = std::mem::replace(&mut self.sending, Sending::Nothing);
        if let Sending::Set { set, .. } = sent {
            let change = self.bring_up.set_sent(set.stage);
            self.follow(change, now_ps);
        }
    }

    fn next_to_send(&mut self, now_ps: u64) -> Sending {
        if self.columns_since_skip > SKIP_INTERVAL_COLUMNS {
            self.columns_since_skip = 1;
            return Sending::Skip { at: 0 };
        }
        if self.state() != PortState::Up {
            return Sending::Set { set: self.bring_up.training_set(), at: 0 };
        }
        if self.leading_idle > 0 {
            self.leading_idle -= 1;
            return Sending::Nothing;
        }
        match self.end.next_frame(now_ps) {
            Some(frame) => Sending::Frame { bytes: Box::new(frame.encode()), at: 0 },
            None => Sending::Nothing,
        }
    }

    /// Takes the column received in one symbol time of the other end, at `now_ps`. A returned
    /// datagram occupies its channel's receive buffer until it is freed.
    pub fn receive(&mut self, column: &Column, now_ps: u64) -> Option<Datagram> {
        if matches!(self.state(), PortState::Disabled | PortState::Failed) {
            return None;
        }
        let column = self.aligner.take(column);
        let is_whole = column.map(|column| column[..self.lanes].iter().all(Option::is_some));
        let (restarts, change) = self.bring_up.column(is_whole);
        self.follow(change, now_ps);
        let mut delivered = None;
        let events = column.map_or([None, None], |column| self.deframer.take(&column));
        for event in events.into_iter().flatten() {
            delivered = self.event(event, now_ps).or(delivered);
        }
        if restarts {
            self.aligner.restart();
            self.deframer.restart();
        }
        delivered
    }

    fn event(&mut self, event: Event, now_ps: u64) -> Option<Datagram> {
        let was_up = self.state() == PortState::Up;
        let change = self.bring_up.event(&event);
        let delivered = match event {
            Event::Frame(frame) if was_up => self.end.receive(frame, now_ps),
            // The damaged set may have been a frame.
            Event::Set(None) if was_up => self.end.receive(Err(Damaged::Begin), now_ps),
            _ => None,
        };
        self.follow(change, now_ps);
        delivered
    }
}
