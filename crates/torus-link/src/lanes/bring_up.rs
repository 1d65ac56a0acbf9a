// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Training states of a port: from alignment to a link that is up, and back when it is lost.
//!
//! Read first: `docs/torus-link.md`, *Bring-up and loss*.

use super::deframe::Event;
use super::training::{TrainingSet, VERSION};
use crate::block::ROW_COLUMNS;
use crate::end::MAX_CHANNEL_DATAGRAMS;

/// Good sets needed to leave a state of training.
const GOOD_SETS: u32 = 8;
/// Fewest sets of stage 2 to send.
const SENT_SETS: u32 = 16;
/// Number of idle columns in a row after which a link is known to be up at the other end.
const FOLLOWING_IDLE_COLUMNS: u32 = 4;
/// Columns until alignment restarts, and until `confirm` is abandoned.
const ALIGN_COLUMNS: u32 = 128;
const CONFIRM_COLUMNS: u32 = 2_048;
/// Columns in `align` behind a loss before this end confirms: more than a round trip, so that the
/// other end has seen it, and nothing that it sent before is still on its way.
const HOLD_COLUMNS: u32 = 512;
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

/// Change of the link of which the end above is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The link is up; the other end's receive buffers have this size.
    Up {
        /// Datagrams of each receive buffer at the other end.
        channel_datagrams: u16,
    },
    /// The link was lost.
    Down,
}

/// Counts since the current state was entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Good sets since alignment began.
    pub good_sets: u32,
    /// Those of stage 2 that know this end's session, without another between them.
    pub knowing_sets: u32,
    /// Sets of stage 2 sent.
    pub sent_sets: u32,
    /// Idle columns in a row, at most as many as matter.
    pub idle_in_a_row: u32,
    /// Sets in a row that do not fit.
    pub misfits: u32,
    /// Columns in this state, while the link is not up.
    pub columns_in_state: u32,
    /// Columns since the last good set, while the link is not up.
    pub columns_since_good: u32,
    /// Weight of columns with errors, while the link is up.
    pub errors: u32,
    /// Skewed skip sets in a row.
    pub skewed: u32,
    /// Damaged frames in a row.
    pub damaged_in_a_row: u32,
}

/// Training of one port, without its lanes and its end.
#[derive(Clone, Debug)]
pub struct BringUp {
    lanes: usize,
    channel_datagrams: u16,
    has_long_datagrams: bool,
    /// Columns of what [`BringUp::column`] counts.
    step_columns: u32,
    state: PortState,
    session: u16,
    /// Session of the other end, if the link has been up since the last reset.
    far_session: Option<u16>,
    /// The last good set.
    seen: Option<TrainingSet>,
    progress: Progress,
    /// Whether the link has been lost, and this end has not confirmed since.
    has_lost: bool,
    losses: u64,
}

impl BringUp {
    /// Creates the training of a disabled port.
    pub fn new(lanes: usize, channel_datagrams: u16, session: u16) -> Self {
        Self {
            lanes,
            channel_datagrams,
            has_long_datagrams: false,
            step_columns: 1,
            state: PortState::Disabled,
            session: session.max(1),
            far_session: None,
            seen: None,
            progress: Progress::default(),
            has_lost: false,
            losses: 0,
        }
    }

    /// Trains only with an end of long datagrams.
    #[must_use]
    pub const fn with_long_datagrams(self) -> Self {
        Self { has_long_datagrams: true, ..self }
    }

    /// Counts rows of 64b/66b in place of columns, each as eight.
    #[must_use]
    pub const fn with_blocks(self) -> Self {
        Self { step_columns: ROW_COLUMNS as u32, ..self }
    }

    /// Starts training if the port is disabled.
    pub fn enable(&mut self) {
        if self.state == PortState::Disabled {
            self.enter(PortState::Align);
        }
    }

    /// Disables the port, forgets the other end and takes the next session.
    pub fn disable(&mut self) {
        self.session = self.session.wrapping_add(1).max(1);
        self.far_session = None;
        self.seen = None;
        self.has_lost = false;
        self.enter(PortState::Disabled);
    }

    /// Trains again if the link is up.
    pub fn retrain(&mut self) -> Option<Change> {
        if self.state != PortState::Up {
            return None;
        }
        self.losses += 1;
        self.seen = None;
        self.has_lost = true;
        self.enter(PortState::Align);
        Some(Change::Down)
    }

    /// Current state.
    pub const fn state(&self) -> PortState {
        self.state
    }

    /// Times that the link was lost while up.
    pub const fn losses(&self) -> u64 {
        self.losses
    }

    /// Counts since the current state was entered.
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The training set that is sent while the link is not up.
    pub fn training_set(&self) -> TrainingSet {
        let seen = self.seen.filter(|_| self.state != PortState::Failed);
        TrainingSet {
            version: VERSION,
            lanes: self.lanes as u8,
            channel_datagrams: self.channel_datagrams,
            session: self.session,
            seen: seen.map_or(0, |set| set.session),
            stage: if self.state == PortState::Confirm { 2 } else { 1 },
            has_long_datagrams: self.has_long_datagrams,
            is_in_order: true,
        }
    }

    fn enter(&mut self, state: PortState) {
        self.state = state;
        self.progress = Progress::default();
    }

    /// Counts a training set of this stage that has been sent.
    pub fn set_sent(&mut self, stage: u8) -> Option<Change> {
        if stage != 2 || self.state != PortState::Confirm {
            return None;
        }
        self.progress.sent_sets += 1;
        self.come_up_if_known()
    }

    /// Counts a symbol time of the other end, or the time of a row, before its events: whether the
    /// deskewed column or row is without error in all lanes, `None` without alignment. Returns
    /// whether alignment and framing begin anew behind it.
    pub fn column(&mut self, is_whole: Option<bool>) -> (bool, Option<Change>) {
        match self.state {
            PortState::Disabled | PortState::Failed => (false, None),
            PortState::Up => (false, self.count_error(is_whole != Some(true))),
            PortState::Align | PortState::Confirm => {
                self.progress.columns_in_state += self.step_columns;
                self.progress.columns_since_good += self.step_columns;
                if self.state == PortState::Confirm
                    && self.progress.columns_in_state >= CONFIRM_COLUMNS
                {
                    self.enter(PortState::Align);
                }
                let restarts = self.progress.columns_since_good >= ALIGN_COLUMNS;
                if restarts {
                    self.progress.columns_since_good = 0;
                    // The link cannot come up after losing alignment.
                    self.progress.good_sets = 0;
                    self.progress.knowing_sets = 0;
                }
                (restarts, None)
            }
        }
    }

    fn count_error(&mut self, is_error: bool) -> Option<Change> {
        if !is_error {
            self.progress.errors = self.progress.errors.saturating_sub(1);
            return None;
        }
        self.progress.errors += ERROR_WEIGHT;
        if self.progress.errors >= ERROR_LIMIT { self.retrain() } else { None }
    }

    /// Takes what a column ended. The end takes frames itself, if the link was up before.
    pub fn event(&mut self, event: &Event) -> Option<Change> {
        if matches!(self.state, PortState::Disabled | PortState::Failed) {
            return None;
        }
        if *event == Event::Idle {
            // More than are needed make no difference.
            self.progress.idle_in_a_row =
                FOLLOWING_IDLE_COLUMNS.min(self.progress.idle_in_a_row + 1);
            return self.come_up_if_known();
        }
        self.progress.idle_in_a_row = 0;
        let is_up = self.state == PortState::Up;
        match event {
            Event::Set(Some(set)) => self.good_set(*set),
            Event::Comma(is_whole) if is_up => {
                self.progress.skewed = if *is_whole { 0 } else { self.progress.skewed + 1 };
                if self.progress.skewed >= SKEWED_SETS { self.retrain() } else { None }
            }
            Event::Frame(frame) if is_up => {
                self.progress.damaged_in_a_row =
                    if frame.is_ok() { 0 } else { self.progress.damaged_in_a_row + 1 };
                if self.progress.damaged_in_a_row >= DAMAGED_FRAMES { self.retrain() } else { None }
            }
            _ => None,
        }
    }

    fn fits(&self, set: &TrainingSet) -> bool {
        set.version == VERSION
            && usize::from(set.lanes) == self.lanes
            && set.is_in_order
            && set.has_long_datagrams == self.has_long_datagrams
            && (1..=MAX_CHANNEL_DATAGRAMS).contains(&set.channel_datagrams)
            && set.session != 0
            && self.far_session.is_none_or(|session| session == set.session)
    }

    fn good_set(&mut self, set: TrainingSet) -> Option<Change> {
        self.progress.columns_since_good = 0;
        let knows_me = set.stage == 2 && set.seen == self.session;
        let mut change = None;
        if self.state == PortState::Up {
            if knows_me && self.fits(&set) {
                return None;
            }
            change = self.retrain();
        }
        if !self.fits(&set) {
            self.progress.misfits += 1;
            if self.progress.misfits >= MISFITS {
                self.enter(PortState::Failed);
            }
            return change;
        }
        self.progress.misfits = 0;
        if self.seen.is_some_and(|seen| seen.session != set.session) {
            self.enter(PortState::Align);
        }
        self.seen = Some(set);
        self.progress.good_sets += 1;
        match self.state {
            PortState::Align if self.progress.good_sets >= GOOD_SETS && !self.is_held() => {
                self.has_lost = false;
                self.enter(PortState::Confirm);
            }
            PortState::Confirm if knows_me => {
                self.progress.knowing_sets += 1;
                return self.come_up_if_known();
            }
            // The other end has begun anew.
            PortState::Confirm => self.progress.knowing_sets = 0,
            _ => {}
        }
        change
    }

    /// Whether the other end may not have seen yet that this one has begun anew.
    const fn is_held(&self) -> bool {
        self.has_lost && self.progress.columns_in_state < HOLD_COLUMNS
    }

    /// Moves from `confirm` to `up` once the other end is known to be ready or to follow.
    fn come_up_if_known(&mut self) -> Option<Change> {
        let is_known =
            self.progress.knowing_sets >= GOOD_SETS && self.progress.sent_sets >= SENT_SETS;
        let is_up_there =
            self.progress.knowing_sets > 0 && self.progress.idle_in_a_row >= FOLLOWING_IDLE_COLUMNS;
        let set = self.seen?;
        if self.state != PortState::Confirm || !(is_known || is_up_there) {
            return None;
        }
        self.enter(PortState::Up);
        self.far_session = Some(set.session);
        Some(Change::Up { channel_datagrams: set.channel_datagrams })
    }
}
