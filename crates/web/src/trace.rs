// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of a run: the hash of all events, and a bounded number of them for a time line.

use std::sync::{Arc, Mutex};

use crosslane::experiment::direction_name;
use crosslane::fabric::DirectionId;
use crosslane::fabric::trace::{DllpKind, HeaderLine, TraceEvent, TraceRecord, TraceSink};
use crosslane::host::lock;
use crosslane::lab::RunningLab;
use crosslane::lab::parts::{TraceHash, TraceHasher};
use crosslane::pcie::credits::Credits;
use serde::Serialize;

use crate::question::TraceWish;

/// Most events of an answer: some 100 MB in a browser.
pub const MAX_EVENTS: usize = 1 << 20;

/// The trace of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traced {
    /// Hash of the whole trace, in hexadecimal.
    pub hash: String,
    /// Events of the whole trace.
    pub count: u64,
    /// Directions of links that events name by their index: `fpga1 -> sw1.p1`.
    pub directions: Vec<String>,
    /// The events that were asked for, in the order of each direction.
    pub events: Vec<Event>,
    /// Of each event its values, if these were asked for.
    pub values: Vec<Values>,
    /// Of each direction the credits that its receiver has at the start, if values were asked for:
    /// headers and data of posted requests, non-posted requests, and completions; `None` for
    /// infinite ones.
    pub credits: Vec<[Option<u32>; 6]>,
    /// Of each direction the time from its transmitter to its receiver, picoseconds, if values were
    /// asked for.
    pub flights_ps: Vec<u64>,
}

/// Values of an event as an array: class (0 posted, 1 non-posted, 2 completion, 3 none), and two
/// numbers. Of a TLP these are its number and its data credits, of an UpdateFC the header and data
/// credits granted since the start, of an Ack or Nak the TLPs that had arrived and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Values(u8, u64, u64);

/// Class of events that have none.
const NO_CLASS: u8 = 3;

/// An event as an array: time, direction, time on the wire (both picoseconds), kind, words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event(u64, usize, u64, EventKind, String);

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A TLP.
    Tlp,
    /// A TLP that is sent again.
    Replay,
    /// A DLLP.
    Dllp,
    /// The direction becomes idle.
    Idle,
    /// The link retrains.
    Retrain,
}

/// Records a trace.
pub struct Recorder {
    wish: TraceWish,
    hash: Arc<Mutex<TraceHash>>,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    directions: Vec<DirectionId>,
    events: Vec<Event>,
    values: Vec<Values>,
}

/// Keeps what is wished of a trace.
struct Keeper {
    wish: TraceWish,
    kept: Arc<Mutex<Kept>>,
    /// Whether the last record was kept.
    is_kept: bool,
}

impl TraceSink for Keeper {
    fn record(&mut self, record: &TraceRecord) {
        let TraceWish { most, from_ps, values } = self.wish;
        let mut kept = lock(&self.kept);
        self.is_kept = record.time.0 >= from_ps && kept.events.len() < most.min(MAX_EVENTS);
        if self.is_kept {
            kept.add(record);
            if values {
                kept.values.push(Values::of(&record.event));
            }
        }
    }

    fn says(&mut self, count: u64, amount: u64) {
        if !self.is_kept {
            return;
        }
        if let Some(Values(_, first, second)) = lock(&self.kept).values.last_mut() {
            (*first, *second) = (count, amount);
        }
    }
}

impl Values {
    /// Returns those that the event itself has.
    fn of(event: &TraceEvent) -> Self {
        match event {
            TraceEvent::Tlp { header, sequence, .. } => {
                let data = Credits::of(header).data;
                Self(header.class().index() as u8, *sequence, data.into())
            }
            TraceEvent::Dllp { kind: DllpKind::UpdateFc(class), .. } => {
                Self(class.index() as u8, 0, 0)
            }
            _ => Self(NO_CLASS, 0, 0),
        }
    }
}

impl Kept {
    fn add(&mut self, record: &TraceRecord) {
        let found = self.directions.iter().position(|known| *known == record.direction);
        let direction = found.unwrap_or_else(|| {
            self.directions.push(record.direction);
            self.directions.len() - 1
        });
        let (kind, end, words) = match &record.event {
            TraceEvent::Tlp { header, sequence, wire_bytes, end, replay, corrupt, .. } => {
                let kind = if *replay { EventKind::Replay } else { EventKind::Tlp };
                let corrupt = if *corrupt { ", corrupt" } else { "" };
                let header = HeaderLine(header);
                (kind, *end, format!("#{sequence} {header} ({wire_bytes} B on the wire{corrupt})"))
            }
            TraceEvent::Dllp { kind, end, corrupt } => {
                let corrupt = if *corrupt { ", corrupt" } else { "" };
                (EventKind::Dllp, *end, format!("{kind}{corrupt}"))
            }
            TraceEvent::Idle { reason } => (EventKind::Idle, record.time, reason.to_string()),
            TraceEvent::Retrain { end } => (EventKind::Retrain, *end, String::new()),
        };
        let (time, on_wire) = (record.time.0, end.since(record.time).0);
        self.events.push(Event(time, direction, on_wire, kind, words));
    }
}

impl Recorder {
    /// Makes a recorder of what is wished.
    pub fn new(wish: TraceWish) -> Self {
        Self { wish, hash: Arc::default(), kept: Arc::default() }
    }

    /// Returns the sink of a run's trace.
    pub fn sink(&self) -> Box<dyn TraceSink> {
        let keeper = Keeper { wish: self.wish, kept: self.kept.clone(), is_kept: false };
        Box::new(TraceHasher::new(self.hash.clone(), None, Some(Box::new(keeper))))
    }

    /// Returns what was recorded; `lab` is one like that which ran, to name its links.
    pub fn traced(&self, lab: &RunningLab) -> Traced {
        let (hash, mut kept) = (*lock(&self.hash), lock(&self.kept));
        let names = kept.directions.iter().map(|id| direction_name(&lab.fabric, *id));
        let credits = |id: &DirectionId| {
            let (_, receiver) = lab.fabric.direction_ends(*id);
            let pools = &lab.fabric.port(receiver).parameters.receive_credits;
            let counts = pools.iter().flat_map(|pool| [pool.header, pool.data]);
            let mut counts =
                counts.map(|count| (count != Credits::INFINITE.header).then_some(count));
            std::array::from_fn(|_| counts.next().flatten())
        };
        let flight = |id: &DirectionId| lab.fabric.link(id.link).parameters.flight.0;
        let (mut all_credits, mut flights_ps) = (Vec::new(), Vec::new());
        if self.wish.values {
            all_credits.extend(kept.directions.iter().map(credits));
            flights_ps.extend(kept.directions.iter().map(flight));
        }
        Traced {
            directions: names.collect(),
            hash: format!("{:016x}", hash.sum),
            count: hash.records,
            values: std::mem::take(&mut kept.values),
            credits: all_credits,
            flights_ps,
            events: std::mem::take(&mut kept.events),
        }
    }
}
