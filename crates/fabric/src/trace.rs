// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one event schema: for logs, trace files and the snapshots of tests.

use std::fmt;

use crosslane_pcie::tlp::{Class, CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::Picoseconds;

use crate::counters::IdleReason;
use crate::topology::DirectionId;

/// A kind of DLLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DllpKind {
    /// All TLPs up to the sequence number have arrived.
    Ack,
    /// The same, and the one behind it has not.
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

/// Something that happened on one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it began.
    pub time: Picoseconds,
    /// Where.
    pub direction: DirectionId,
    /// What.
    pub event: TraceEvent,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A TLP took the wire.
    Tlp {
        /// Its header.
        header: Header,
        /// Its number on this direction, from 0 (not modulo 4096).
        sequence: u64,
        /// Bytes on the wire.
        wire_bytes: u32,
        /// Since when it could have been sent: from then on it waited for the wire or for credits.
        ready: Picoseconds,
        /// When its last byte has left.
        end: Picoseconds,
        /// Whether it was sent before.
        replay: bool,
        /// Whether it arrives corrupt.
        corrupt: bool,
        /// Flow it belongs to, if any.
        flow: Option<u32>,
    },
    /// A DLLP took the wire.
    Dllp {
        /// What it is.
        kind: DllpKind,
        /// When its last byte has left.
        end: Picoseconds,
        /// Whether it arrives corrupt.
        corrupt: bool,
    },
    /// From here on the transmitter has nothing on the wire, for this reason.
    Idle {
        /// Why.
        reason: IdleReason,
    },
    /// The link retrains until `end`.
    Retrain {
        /// When it is up again.
        end: Picoseconds,
    },
}

/// Takes trace records as they come. Records of one direction come in the order of time; those
/// of different directions may come a little out of order, since DLLPs are worked out late.
pub trait TraceSink: Send {
    /// Takes one record.
    fn record(&mut self, record: &TraceRecord);
}

impl<F: FnMut(&TraceRecord) + Send> TraceSink for F {
    fn record(&mut self, record: &TraceRecord) {
        self(record);
    }
}

/// A header in one line: `MWr 0x1000 128 B`, `CplD 00:01.0 tag 3 64 B (64 left)`.
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

/// One line of a log: time, event.
impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.direction.way {
            crate::topology::Way::Down => "down",
            crate::topology::Way::Up => "up",
        };
        write!(f, "{:>12.3} ns link {} {way:<4} ", self.time.as_ns(), self.direction.link.0)?;
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
