// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of a run: the hash of all events, and a bounded number of them for a time line.

use std::sync::{Arc, Mutex};

use crosslane::experiment::direction_name;
use crosslane::fabric::DirectionId;
use crosslane::fabric::trace::{HeaderLine, TraceEvent, TraceRecord, TraceSink};
use crosslane::host::lock;
use crosslane::lab::RunningLab;
use crosslane::lab::parts::{TraceHash, TraceHasher};
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
}

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
        let (kept, TraceWish { most, from_ps }) = (self.kept.clone(), self.wish);
        let keeps = move |record: &TraceRecord| {
            let mut kept = lock(&kept);
            if record.time.0 >= from_ps && kept.events.len() < most.min(MAX_EVENTS) {
                kept.add(record);
            }
        };
        Box::new(TraceHasher::new(self.hash.clone(), None, Some(Box::new(keeps))))
    }

    /// Returns what was recorded; `lab` is one like that which ran, to name its links.
    pub fn traced(&self, lab: &RunningLab) -> Traced {
        let (hash, mut kept) = (*lock(&self.hash), lock(&self.kept));
        let names = kept.directions.iter().map(|id| direction_name(&lab.fabric, *id));
        Traced {
            directions: names.collect(),
            hash: format!("{:016x}", hash.sum),
            count: hash.records,
            events: std::mem::take(&mut kept.events),
        }
    }
}
