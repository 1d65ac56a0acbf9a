// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event schema shared by logs, trace files and test snapshots.

use std::fmt;

use crosslane_pcie::tlp::{Class, CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::Picoseconds;

use crate::counters::IdleReason;
use crate::topology::{DirectionId, LinkDirection};

/// A kind of DLLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DllpKind {
    /// All TLPs up to the sequence number have arrived.
    Ack,
    /// All TLPs up to the sequence number have arrived; the next has not.
    Nak,
    /// Credits of a class.
    UpdateFc(Class),
}

impl fmt::Display for DllpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ack => "Ack",
            Self::Nak => "Nak",
            Self::UpdateFc(Class::Posted) => "UpdateFC-P",
            Self::UpdateFc(Class::NonPosted) => "UpdateFC-NP",
            Self::UpdateFc(Class::Completion) => "UpdateFC-Cpl",
        })
    }
}

/// An event on one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Time at which the event began.
    pub time: Picoseconds,
    /// Direction of the link.
    pub direction: DirectionId,
    /// The event itself.
    pub event: TraceEvent,
}

/// Event on one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A TLP took the wire.
    Tlp {
        /// Header of the TLP.
        header: Header,
        /// Number of the TLP on this direction, from 0 (not modulo 4096).
        sequence: u64,
        /// Bytes on the wire.
        wire_bytes: u32,
        /// Time from which it could have been sent; from then on it waited for the wire or for
        /// credits.
        ready: Picoseconds,
        /// Time at which its last byte left.
        end: Picoseconds,
        /// Whether this is a replay.
        replay: bool,
        /// Whether it arrives corrupt.
        corrupt: bool,
        /// Flow it belongs to, if any.
        flow: Option<u32>,
    },
    /// A DLLP took the wire.
    Dllp {
        /// Type of the DLLP.
        kind: DllpKind,
        /// Time at which its last byte left.
        end: Picoseconds,
        /// Whether it arrives corrupt.
        corrupt: bool,
    },
    /// The transmitter becomes idle.
    Idle {
        /// Reason for the idle time.
        reason: IdleReason,
    },
    /// The link retrains until `end`.
    Retrain {
        /// Time at which the link is up again.
        end: Picoseconds,
    },
}

/// Receiver of trace records. Records of one direction come in order of time; those of different
/// directions may be slightly out of order, since DLLPs are computed lazily.
pub trait TraceSink: Send {
    /// Takes one record.
    fn record(&mut self, record: &TraceRecord);

    /// Takes the values of the DLLP that was recorded last. Of an UpdateFC these are the header and
    /// data credits of its class granted since the start; of an Ack or a Nak the TLPs that had
    /// arrived in order since the start, and their wire bytes.
    fn says(&mut self, _count: u64, _amount: u64) {}
}

/// Sorts records by time, then by link, then down before up; those of one direction at one time
/// keep their order. Traces of one lab are equal in this order, however many threads ran it.
pub fn sort(records: &mut [TraceRecord]) {
    records.sort_by_key(|record| {
        let TraceRecord { time, direction: DirectionId { link, heading }, .. } = record;
        (*time, link.0, *heading != LinkDirection::Down)
    });
}

impl<F: FnMut(&TraceRecord) + Send> TraceSink for F {
    fn record(&mut self, record: &TraceRecord) {
        self(record);
    }
}

/// Formats a header in one line: `MWr 0x1000 128 B`, `CplD 00:01.0 tag 3 64 B (64 left)`.
pub struct HeaderLine<'a>(pub &'a Header);

impl fmt::Display for HeaderLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let h = self.0;
        match h.kind {
            TlpKind::MemoryWrite => write!(f, "MWr {} {} B", h.address, h.request_bytes())?,
            TlpKind::MemoryRead => {
                let bytes = h.request_bytes();
                write!(f, "MRd {} {bytes} B tag {}", h.address, h.tag.0)?;
            }
            TlpKind::CompletionData => {
                let (bytes, tag) = (h.payload_bytes(), h.tag.0);
                write!(f, "CplD {} tag {tag} {bytes} B ({} left)", h.requester, h.byte_count)?;
            }
            TlpKind::Completion => {
                let status = match h.status {
                    CompletionStatus::Successful => "SC",
                    CompletionStatus::UnsupportedRequest => "UR",
                    CompletionStatus::ConfigurationRetry => "CRS",
                    CompletionStatus::CompleterAbort => "CA",
                };
                write!(f, "Cpl {} tag {} {status}", h.requester, h.tag.0)?;
            }
            TlpKind::ConfigurationRead => write!(f, "CfgRd {}", h.completer)?,
            TlpKind::ConfigurationWrite => write!(f, "CfgWr {}", h.completer)?,
            TlpKind::Message => write!(f, "Msg {}", h.requester)?,
        }
        if h.attributes.relaxed_ordering {
            f.write_str(" RO")?;
        }
        if h.poisoned {
            f.write_str(" poisoned")?;
        }
        Ok(())
    }
}

/// Formats a record as a log line: time, event.
impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading = match self.direction.heading {
            LinkDirection::Down => "down",
            LinkDirection::Up => "up",
        };
        write!(f, "{:>12.3} ns link {} {heading:<4} ", self.time.as_ns(), self.direction.link.0)?;
        match &self.event {
            TraceEvent::Tlp { header, sequence, wire_bytes, replay, corrupt, .. } => {
                write!(f, "#{sequence} {} [{wire_bytes} B on the wire]", HeaderLine(header))?;
                if *replay {
                    f.write_str(" replay")?;
                }
                if *corrupt {
                    f.write_str(" corrupt")?;
                }
                Ok(())
            }
            TraceEvent::Dllp { kind, corrupt, .. } => {
                write!(f, "{kind}{}", if *corrupt { " corrupt" } else { "" })
            }
            TraceEvent::Idle { reason } => write!(f, "idle: {reason}"),
            TraceEvent::Retrain { end } => write!(f, "retrains until {end}"),
        }
    }
}
