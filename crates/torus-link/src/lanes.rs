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
mod deframe;
mod training;

pub use align::{MAX_SKEW_COLUMNS, Received};
pub use deframe::{Deframer, Event, Events};
pub use training::{SET_COLUMNS, TrainingSet, VERSION};

use crate::code::{COMMA, COMMAND, Code, Encoder, IDLE, SKIP, Symbol};
use crate::end::{EndParameters, LinkEnd, MAX_CHANNEL_DATAGRAMS};
use crate::frame::{Datagram, FrameBytes};
use align::Aligner;

/// Most lanes of a port.
pub const MAX_LANES: usize = 8;
/// Columns from one skip set to the next due time.
pub const SKIP_INTERVAL_COLUMNS: u32 = 1_280;
/// Columns of a skip set.
pub const SKIP_COLUMNS: u32 = 3;

/// Good sets needed to leave a state of training.
const GOOD_SETS: u32 = 8;
/// Fewest sets of stage 2 to send.
const SENT_SETS: u32 = 16;
/// Idle columns at the start of a link, and the number of columns after which one follows it.
const LEADING_IDLE_COLUMNS: u32 = 8;
const FOLLOWING_IDLE_COLUMNS: u32 = 4;
/// Columns until alignment restarts, and until `confirm` is abandoned.
const ALIGN_COLUMNS: u32 = 128;
const CONFIRM_COLUMNS: u32 = 2_048;
/// Consecutive unsuitable sets after which the link fails.
const MISFITS: u32 = 2;
/// Loss: weight of a column with an error (and the limit).
const ERROR_WEIGHT: u32 = 8;
const ERROR_LIMIT: u32 = 128;
/// Loss: consecutive skewed skip sets (and damaged frames).
const SKEWED_SETS: u32 = 4;
const DAMAGED_FRAMES: u32 = 32;
/// Loss: consecutive time-outs without an acknowledgement.
pub const TIMEOUTS: u32 = 4;

/// Ten line bits of each lane, lane 0 first; `None` without a signal.
pub type Column = [Option<Code>; MAX_LANES];

/// Training state of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Off; sends nothing.
    Disabled,
    /// Searching for alignment.
    Align,
    /// Waiting for the other end to be aligned.
    Confirm,
    /// Exchanging frames.
    Up,
    /// Stopped because the other end is incompatible.
    Failed,
}

/// Contents of the columns being sent.
#[derive(Clone, Debug)]
enum Sending {
    Nothing,
    Frame { bytes: FrameBytes, at: usize },
    Set { set: TrainingSet, at: usize },
    Skip { at: u32 },
}

/// One end of a cable.
#[derive(Clone, Debug)]
pub struct Port {
    lanes: usize,
    state: PortState,
    end: LinkEnd,
    session: u16,
    /// Session of the other end, if the link has been up since the last reset.
    far_session: Option<u16>,
    /// The last good set.
    seen: Option<TrainingSet>,
    aligner: Aligner,
    deframer: Deframer,
    encoders: [Encoder; MAX_LANES],
    sending: Sending,
    columns_since_skip: u32,
    leading_idle: u32,
    good_sets: u32,
    knowing_sets: u32,
    sent_sets: u32,
    idle_in_a_row: u32,
    misfits: u32,
    columns_in_state: u32,
    columns_since_good: u32,
    errors: u32,
    skewed: u32,
    damaged_in_a_row: u32,
    losses: u64,
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
            state: PortState::Disabled,
            end: LinkEnd::new(parameters),
            session: session.max(1),
            far_session: None,
            seen: None,
            aligner: Aligner::new(lanes),
            deframer: Deframer::new(lanes),
            encoders: [Encoder::default(); MAX_LANES],
            sending: Sending::Nothing,
            columns_since_skip: 0,
            leading_idle: 0,
            good_sets: 0,
            knowing_sets: 0,
            sent_sets: 0,
            idle_in_a_row: 0,
            misfits: 0,
            columns_in_state: 0,
            columns_since_good: 0,
            errors: 0,
            skewed: 0,
            damaged_in_a_row: 0,
            losses: 0,
        }
    }

    /// Enables the port, which starts training.
    pub fn enable(&mut self) {
        if self.state == PortState::Disabled {
            self.enter(PortState::Align);
        }
    }

    /// Disables the port and clears its state.
    pub fn disable(&mut self) {
        self.end.reset();
        self.session = self.session.wrapping_add(1).max(1);
        self.far_session = None;
        self.seen = None;
        self.sending = Sending::Nothing;
        self.encoders = [Encoder::default(); MAX_LANES];
        self.aligner.restart();
        self.enter(PortState::Disabled);
    }

    /// Trains again if the link is up, as after a loss of the lanes.
    pub fn retrain(&mut self) {
        if self.state == PortState::Up {
            self.losses += 1;
            self.end.down();
            self.seen = None;
            self.enter(PortState::Align);
        }
    }

    /// Current training state.
    pub const fn state(&self) -> PortState {
        self.state
    }

    /// Times that the link was lost while up.
    pub const fn losses(&self) -> u64 {
        self.losses
    }

    /// The data link above the lanes. Only the port calls its `up`, `down` and `reset`.
    pub const fn end(&self) -> &LinkEnd {
        &self.end
    }

    /// Mutable access to [`Port::end`], to submit datagrams and free buffers.
    pub const fn end_mut(&mut self) -> &mut LinkEnd {
        &mut self.end
    }

    fn enter(&mut self, state: PortState) {
        self.state = state;
        self.good_sets = 0;
        self.knowing_sets = 0;
        self.sent_sets = 0;
        self.idle_in_a_row = 0;
        self.misfits = 0;
        self.columns_in_state = 0;
        self.columns_since_good = 0;
        self.errors = 0;
        self.skewed = 0;
        self.damaged_in_a_row = 0;
    }

    /// Returns the column to send in the symbol time that begins at `now_ps`.
    pub fn transmit(&mut self, now_ps: u64) -> Column {
        if self.state == PortState::Disabled {
            return [None; MAX_LANES];
        }
        if self.state == PortState::Up && self.end.timeouts_in_a_row() >= TIMEOUTS {
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
        let is_stage_2 = matches!(sent, Sending::Set { set, .. } if set.stage == 2);
        if is_stage_2 && self.state == PortState::Confirm {
            self.sent_sets += 1;
            self.come_up_if_known(now_ps);
        }
    }

    fn next_to_send(&mut self, now_ps: u64) -> Sending {
        if self.columns_since_skip > SKIP_INTERVAL_COLUMNS {
            self.columns_since_skip = 1;
            return Sending::Skip { at: 0 };
        }
        if self.state != PortState::Up {
            return Sending::Set { set: self.training_set(), at: 0 };
        }
        if self.leading_idle > 0 {
            self.leading_idle -= 1;
            return Sending::Nothing;
        }
        match self.end.next_frame(now_ps) {
            Some(frame) => Sending::Frame { bytes: frame.encode(), at: 0 },
            None => Sending::Nothing,
        }
    }

    fn training_set(&self) -> TrainingSet {
        let seen = self.seen.filter(|_| self.state != PortState::Failed);
        TrainingSet {
            version: VERSION,
            lanes: self.lanes as u8,
            channel_datagrams: self.end.parameters().channel_datagrams,
            session: self.session,
            seen: seen.map_or(0, |set| set.session),
            stage: if self.state == PortState::Confirm { 2 } else { 1 },
            is_in_order: true,
        }
    }

    /// Takes the column received in one symbol time of the other end, at `now_ps`. A returned
    /// datagram occupies its channel's receive buffer until it is freed.
    pub fn receive(&mut self, column: &Column, now_ps: u64) -> Option<Datagram> {
        if matches!(self.state, PortState::Disabled | PortState::Failed) {
            return None;
        }
        self.count_column();
        let column = self.aligner.take(column);
        if self.state == PortState::Up {
            let is_whole =
                column.is_some_and(|column| column[..self.lanes].iter().all(Option::is_some));
            self.count_error(!is_whole);
        }
        let column = column?;
        let mut delivered = None;
        for event in self.deframer.take(&column).into_iter().flatten() {
            delivered = self.event(event, now_ps).or(delivered);
        }
        delivered
    }

    fn count_column(&mut self) {
        if self.state == PortState::Up {
            return;
        }
        self.columns_in_state += 1;
        self.columns_since_good += 1;
        if self.state == PortState::Confirm && self.columns_in_state >= CONFIRM_COLUMNS {
            self.enter(PortState::Align);
        }
        if self.columns_since_good >= ALIGN_COLUMNS {
            self.columns_since_good = 0;
            // The link cannot come up after losing alignment.
            self.good_sets = 0;
            self.knowing_sets = 0;
            self.aligner.restart();
            self.deframer.restart();
        }
    }

    fn count_error(&mut self, is_error: bool) {
        if is_error {
            self.errors += ERROR_WEIGHT;
            if self.errors >= ERROR_LIMIT {
                self.retrain();
            }
        } else {
            self.errors = self.errors.saturating_sub(1);
        }
    }

    fn event(&mut self, event: Event, now_ps: u64) -> Option<Datagram> {
        if event == Event::Idle {
            self.idle_in_a_row += 1;
            self.come_up_if_known(now_ps);
            return None;
        }
        self.idle_in_a_row = 0;
        let is_up = self.state == PortState::Up;
        match event {
            Event::Set(Some(set)) => self.good_set(set, now_ps),
            Event::Comma(is_whole) if is_up => {
                self.skewed = if is_whole { 0 } else { self.skewed + 1 };
                if self.skewed >= SKEWED_SETS {
                    self.retrain();
                }
            }
            Event::Frame(frame) if is_up => {
                self.damaged_in_a_row = if frame.is_ok() { 0 } else { self.damaged_in_a_row + 1 };
                let delivered = self.end.receive(frame, now_ps);
                if self.damaged_in_a_row >= DAMAGED_FRAMES {
                    self.retrain();
                }
                return delivered;
            }
            Event::Set(None) if is_up => {
                // The damaged set may have been a frame.
                self.end.receive(Err(crate::frame::Damaged::Begin), now_ps);
            }
            _ => {}
        }
        None
    }

    fn fits(&self, set: &TrainingSet) -> bool {
        set.version == VERSION
            && usize::from(set.lanes) == self.lanes
            && set.is_in_order
            && (1..=MAX_CHANNEL_DATAGRAMS).contains(&set.channel_datagrams)
            && set.session != 0
            && self.far_session.is_none_or(|session| session == set.session)
    }

    fn good_set(&mut self, set: TrainingSet, now_ps: u64) {
        self.columns_since_good = 0;
        let knows_me = set.stage == 2 && set.seen == self.session;
        if self.state == PortState::Up {
            if knows_me && self.fits(&set) {
                return;
            }
            self.retrain();
        }
        if !self.fits(&set) {
            self.misfits += 1;
            if self.misfits >= MISFITS {
                self.enter(PortState::Failed);
            }
            return;
        }
        self.misfits = 0;
        if self.seen.is_some_and(|seen| seen.session != set.session) {
            self.enter(PortState::Align);
        }
        self.seen = Some(set);
        self.good_sets += 1;
        match self.state {
            PortState::Align if self.good_sets >= GOOD_SETS => self.enter(PortState::Confirm),
            PortState::Confirm if knows_me => {
                self.knowing_sets += 1;
                self.come_up_if_known(now_ps);
            }
            _ => {}
        }
    }

    /// Moves from `confirm` to `up` once the other end is known to be ready or to follow.
    fn come_up_if_known(&mut self, now_ps: u64) {
        let is_known = self.knowing_sets >= GOOD_SETS && self.sent_sets >= SENT_SETS;
        let is_up_there = self.knowing_sets > 0 && self.idle_in_a_row >= FOLLOWING_IDLE_COLUMNS;
        let Some(set) = self.seen else { return };
        if self.state == PortState::Confirm && (is_known || is_up_there) {
            self.enter(PortState::Up);
            self.far_session = Some(set.session);
            self.leading_idle = LEADING_IDLE_COLUMNS;
            self.end.up(set.channel_datagrams, now_ps);
        }
    }
}
