// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trace of a fabric kept in memory, for tests that inspect single packets.
#![allow(dead_code)] // Each test file uses its own part of this.

use std::sync::{Arc, Mutex};

use crosslane_fabric::trace::{DllpKind, TraceEvent, TraceRecord};
use crosslane_fabric::*;
use crosslane_pcie::tlp::Header;

/// Recorded events; the fabric writes to a clone.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<TraceRecord>>>);

/// A TLP in the trace.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub direction: DirectionId,
    pub header: Header,
    pub sequence: u64,
    pub wire_bytes: u32,
    pub start_ps: u64,
    pub end_ps: u64,
    pub replay: bool,
    pub corrupt: bool,
    pub flow: Option<u32>,
}

/// A DLLP in the trace.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    pub direction: DirectionId,
    pub kind: DllpKind,
    pub start_ps: u64,
    pub end_ps: u64,
    pub corrupt: bool,
}

impl Log {
    /// Starts recording everything that this fabric does.
    pub fn of(fabric: &mut Fabric) -> Self {
        let log = Self::default();
        let records = log.0.clone();
        fabric.set_trace(Box::new(move |record: &TraceRecord| {
            records.lock().unwrap().push(*record);
        }));
        log
    }

    pub fn records(&self) -> Vec<TraceRecord> {
        self.0.lock().unwrap().clone()
    }

    /// TLPs of one direction in order of time.
    pub fn tlps(&self, direction: DirectionId) -> Vec<Sent> {
        self.all_tlps().into_iter().filter(|tlp| tlp.direction == direction).collect()
    }

    pub fn all_tlps(&self) -> Vec<Sent> {
        let records = self.0.lock().unwrap();
        records.iter().filter_map(sent).collect()
    }

    /// DLLPs of one direction in order of time.
    pub fn dllps(&self, direction: DirectionId) -> Vec<Control> {
        let records = self.0.lock().unwrap();
        records.iter().filter(|record| record.direction == direction).filter_map(control).collect()
    }
}

fn sent(record: &TraceRecord) -> Option<Sent> {
    let (direction, start_ps) = (record.direction, record.time.0);
    match record.event {
        TraceEvent::Tlp { header, sequence, wire_bytes, end, replay, corrupt, flow, .. } => {
            let end_ps = end.0;
            Some(Sent {
                direction,
                header,
                sequence,
                wire_bytes,
                start_ps,
                end_ps,
                replay,
                corrupt,
                flow,
            })
        }
        _ => None,
    }
}

fn control(record: &TraceRecord) -> Option<Control> {
    let (direction, start_ps) = (record.direction, record.time.0);
    match record.event {
        TraceEvent::Dllp { kind, end, corrupt } => {
            Some(Control { direction, kind, start_ps, end_ps: end.0, corrupt })
        }
        _ => None,
    }
}

/// The other direction of the same link.
pub fn opposite(direction: DirectionId) -> DirectionId {
    let heading = match direction.heading {
        LinkDirection::Down => LinkDirection::Up,
        LinkDirection::Up => LinkDirection::Down,
    };
    DirectionId { heading, ..direction }
}
