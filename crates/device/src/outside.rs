// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An endpoint whose logic is outside of the lab: a core in a simulator, or a program. The fabric
//! brings it TLPs and takes those that it sends, with the rules that a hard block enforces.
//!
//! Code outside runs between two steps of simulated time: it takes what has arrived
//! ([`OutsideDevice::take`]), frees the receive buffer when the core has taken it
//! ([`OutsideDevice::release`]), and sends ([`OutsideDevice::send`]). It reaches the device by
//! [`Fabric::command`](crosslane_fabric::Fabric::command).

use std::collections::{BTreeMap, VecDeque};

use crosslane_fabric::trace::HeaderLine;
use crosslane_fabric::{Consumed, Device, DevicePort, Received};
use crosslane_pcie::config::ConfigSpace;
use crosslane_pcie::kinds;
use crosslane_pcie::tlp::layout::LayoutError;
use crosslane_pcie::tlp::{Class, CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use thiserror::Error;

use crate::kit::{Function, Held, Place, report_unexpected, unfinished};

/// Boundary at which completions of an endpoint may be cut (PCIe 6.x 2.3.1.1), bytes.
const READ_COMPLETION_BOUNDARY_BYTES: u64 = 128;

/// A TLP that the code outside cannot send.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Its bytes are not a TLP.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The link has no credits for it, or is busy: its queue is full.
    #[error("cannot send {tlp} now: the queue to the link is full")]
    NoRoom {
        /// The TLP.
        tlp: String,
    },
    /// The link is down.
    #[error("cannot send {tlp}: the link is down")]
    LinkDown {
        /// The TLP.
        tlp: String,
    },
    /// It has another function's number.
    #[error("cannot send {tlp}: it comes from {found}, and the endpoint is {own}")]
    WrongFunction {
        /// The TLP.
        tlp: String,
        /// Its requester, or the completer of a completion.
        found: RoutingId,
        /// Number of the endpoint.
        own: RoutingId,
    },
    /// The host has not enabled requests of the function.
    #[error("cannot send {tlp}: Bus Master Enable is off")]
    NotBusMaster {
        /// The TLP.
        tlp: String,
    },
    /// It is longer than a register of the function allows.
    #[error("cannot send {tlp}: {bytes} B are more than {register}, {most} B")]
    TooLong {
        /// The TLP.
        tlp: String,
        /// Its payload, or the length of a read.
        bytes: u32,
        /// Name of the register.
        register: &'static str,
        /// Its value, bytes.
        most: u32,
    },
    /// A read has a tag that another one has, or that the host has not enabled.
    #[error("cannot send {tlp}: {problem}")]
    Tag {
        /// The TLP.
        tlp: String,
        /// The problem, with the numbers.
        problem: String,
    },
    /// A completion that does not continue the answer to a read.
    #[error("cannot send {tlp}: {problem}")]
    WrongAnswer {
        /// The TLP.
        tlp: String,
        /// The problem, with the numbers.
        problem: String,
    },
    /// A TLP that begins after it ends.
    #[error("cannot send {tlp}: it begins at {begun}, and it is {now}")]
    NotBegun {
        /// The TLP.
        tlp: String,
        /// Time of its first byte.
        begun: Picoseconds,
        /// The time now.
        now: Picoseconds,
    },
}

kinds!(SendError {
    Self::Layout(error) => error.kind(),
    Self::NoRoom { .. } => Busy,
    Self::LinkDown { .. } => LinkDown,
    Self::NotBusMaster { .. } => Denied,
    Self::WrongFunction { .. }
    | Self::TooLong { .. }
    | Self::Tag { .. }
    | Self::WrongAnswer { .. }
    | Self::NotBegun { .. } => InvalidArgument,
});

/// TLP that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number, by which its receive buffer is [released](OutsideDevice::release).
    pub number: u64,
    /// Time at which it reached the logic of the endpoint.
    pub time: Picoseconds,
    /// Header.
    pub header: Header,
    /// Payload, whole DW.
    pub payload: Vec<u8>,
    /// BAR of a request, and the offset of its first byte there.
    pub place: Option<Place>,
}

/// TLPs that code outside asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The oldest.
    #[default]
    Any,
    /// The oldest request.
    Requests,
    /// The oldest completion, if no posted request came before it that was not taken: it must not
    /// pass one, unless it has relaxed ordering (PCIe 6.x 2.4.1).
    Completions,
}

/// Read of the host that the core has to answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    address: u64,
    left_bytes: u32,
}

/// Device whose logic is outside of the lab.
#[derive(Debug, Default)]
pub struct OutsideDevice {
    function: Function,
    most_tags: u16,
    /// TLPs that were not taken yet; their receive buffers are held, which bounds them.
    waiting: VecDeque<Arrived>,
    /// Receive buffers of TLPs, by their numbers.
    held: BTreeMap<u64, Held>,
    last_number: u64,
    /// Reads to be answered, by requester and tag.
    asked: BTreeMap<(RoutingId, u16), Asked>,
    /// Bytes that reads of the core lack, by tag.
    reads: BTreeMap<u16, u32>,
}

impl OutsideDevice {
    /// Creates a device.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the settings of its function.
    pub const fn function(&self) -> &Function {
        &self.function
    }

    /// Returns the number of tags that the host has enabled.
    pub const fn tags(&self) -> u16 {
        self.most_tags
    }

    /// Takes a TLP that has arrived. Its receive buffer is held until it is
    /// [released](Self::release).
    pub fn take(&mut self, which: Which) -> Option<Arrived> {
        let class = |it: &Arrived| it.header.class();
        let index = match which {
            Which::Any => 0,
            Which::Requests => self.waiting.iter().position(|it| class(it) != Class::Completion)?,
            Which::Completions => {
                let index = self.waiting.iter().position(|it| class(it) == Class::Completion)?;
                let may_pass = self.waiting[index].header.attributes.relaxed_ordering;
                let mut before = self.waiting.iter().take(index);
                if !may_pass && before.any(|it| class(it) == Class::Posted) {
                    return None;
                }
                index
            }
        };
        self.waiting.remove(index)
    }

    /// Returns the number of TLPs that were not taken yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Frees the receive buffer of a TLP, which returns its credits. Returns false if it is free.
    pub fn release(&mut self, number: u64, port: &mut DevicePort<'_>) -> bool {
        let held = self.held.remove(&number);
        held.inspect(|held| held.release(port)).is_some()
    }

    /// Whether a TLP of a class can be sent now.
    pub fn has_room(class: Class, port: &DevicePort<'_>) -> bool {
        port.has_room_for(class)
    }

    /// Sends a TLP whose first byte left the core at `begun`, by default now, and whose last byte
    /// leaves it now.
    ///
    /// # Errors
    /// [`SendError`]; nothing is sent then.
    pub fn send(
        &mut self,
        header: Header,
        payload: &[u8],
        begun: Option<Picoseconds>,
        port: &mut DevicePort<'_>,
    ) -> Result<(), SendError> {
        let tlp = || HeaderLine(&header).to_string();
        let now = Picoseconds(port.now_ps());
        let begun = begun.unwrap_or(now);
        if begun > now {
            return Err(SendError::NotBegun { tlp: tlp(), begun, now });
        }
        self.check_function(&header, port.routing_id())?;
        let answered = match header.kind {
            TlpKind::Completion | TlpKind::CompletionData => Some(self.check_answer(&header)?),
            _ => None,
        };
        if header.kind == TlpKind::MemoryRead {
            self.check_tag(&header)?;
        }
        if !Self::has_room(header.class(), port) {
            // A queue that is full while nothing moves belongs to a link that is down.
            return Err(match port.is_link_up() {
                true => SendError::NoRoom { tlp: tlp() },
                false => SendError::LinkDown { tlp: tlp() },
            });
        }
        match (header.kind, answered) {
            (_, Some(left)) => self.answered(&header, left),
            (TlpKind::MemoryRead, _) => {
                self.reads.insert(header.tag.0, header.request_bytes());
            }
            _ => {}
        }
        port.send_begun(header, begun.0, |place| place.copy_from_slice(payload));
        Ok(())
    }

    /// Checks the number of the function, and the lengths that it allows.
    fn check_function(&self, header: &Header, own: RoutingId) -> Result<(), SendError> {
        let tlp = || HeaderLine(header).to_string();
        let is_request = header.kind.is_routed_by_address();
        let found = if is_request { header.requester } else { header.completer };
        if found != own {
            return Err(SendError::WrongFunction { tlp: tlp(), found, own });
        }
        if is_request && !self.function.is_bus_master {
            return Err(SendError::NotBusMaster { tlp: tlp() });
        }
        let (bytes, register, most) = match header.kind {
            TlpKind::MemoryRead => {
                let bytes = u32::from(header.length_dw) * 4;
                (bytes, "Max_Read_Request_Size", self.function.max_read_request_bytes)
            }
            _ => (header.payload_bytes(), "Max_Payload_Size", self.function.max_payload_bytes),
        };
        if bytes > most {
            return Err(SendError::TooLong { tlp: tlp(), bytes, register, most });
        }
        Ok(())
    }

    fn check_tag(&self, header: &Header) -> Result<(), SendError> {
        let (tag, most) = (header.tag.0, self.most_tags);
        let problem = if tag >= most {
            format!("the host has enabled {most} tags")
        } else if let Some(left) = self.reads.get(&tag) {
            format!("a read with this tag lacks {left} B of its answer")
        } else {
            return Ok(());
        };
        Err(SendError::Tag { tlp: HeaderLine(header).to_string(), problem })
    }

    /// Checks that a completion continues the answer to a read (PCIe 6.x 2.3.1.1). Returns the
    /// bytes that are left behind it.
    fn check_answer(&self, header: &Header) -> Result<u32, SendError> {
        let wrong = |problem| {
            let tlp = HeaderLine(header).to_string();
            Err(SendError::WrongAnswer { tlp, problem })
        };
        let Some(asked) = self.asked.get(&(header.requester, header.tag.0)) else {
            let (requester, tag) = (header.requester, header.tag.0);
            return wrong(format!("no read of {requester} with tag {tag} waits for an answer"));
        };
        let (left, count) = (asked.left_bytes, u32::from(header.byte_count));
        // A read of no bytes has a byte count of one.
        if count != left.max(1) {
            return wrong(format!("byte count {count}, and {left} B are left of the read"));
        }
        if header.kind == TlpKind::Completion {
            return match header.status {
                CompletionStatus::ConfigurationRetry => {
                    wrong("this status is for configuration requests".to_owned())
                }
                _ => Ok(0),
            };
        }
        let (lower, expected) = (header.address.0, asked.address & 0x7f);
        if lower != expected {
            return wrong(format!("lower address {lower:#x}, and {expected:#x} is next"));
        }
        let skip = (asked.address & 3) as u32;
        let bytes = (header.payload_bytes() - skip.min(header.payload_bytes())).min(left);
        let end = asked.address + u64::from(bytes);
        if bytes < left && (bytes == 0 || end % READ_COMPLETION_BOUNDARY_BYTES != 0) {
            return wrong(format!(
                "it ends at {end:#x}, neither with the read nor at a multiple of \
                 {READ_COMPLETION_BOUNDARY_BYTES} B"
            ));
        }
        let payload = (skip + bytes).next_multiple_of(4).max(4);
        if header.payload_bytes() != payload {
            let found = header.payload_bytes();
            return wrong(format!("{found} B of payload, and {payload} B hold its bytes"));
        }
        Ok(left - bytes)
    }

    /// Notes a completion that was sent, with the bytes left behind it.
    fn answered(&mut self, header: &Header, left_bytes: u32) {
        let key = (header.requester, header.tag.0);
        if left_bytes == 0 {
            self.asked.remove(&key);
        } else if let Some(asked) = self.asked.get_mut(&key) {
            asked.address += u64::from(asked.left_bytes - left_bytes);
            asked.left_bytes = left_bytes;
        }
    }

    /// Notes a completion that has arrived. Returns false if no read waits for it.
    fn note_completion(&mut self, header: &Header, own: RoutingId) -> bool {
        let Some(left) = self.reads.get_mut(&header.tag.0).filter(|_| header.requester == own)
        else {
            return false;
        };
        let skip = header.address.0 as u32 & 3;
        let bytes = header.payload_bytes().saturating_sub(skip);
        if header.kind == TlpKind::Completion || bytes >= *left {
            self.reads.remove(&header.tag.0);
        } else {
            *left -= bytes;
        }
        true
    }
}

impl Device for OutsideDevice {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let place = match header.kind {
            TlpKind::MemoryWrite | TlpKind::MemoryRead => {
                let Some(place) = self.function.place(&header) else {
                    port.refuse(tlp);
                    return Consumed::Now;
                };
                Some(place)
            }
            TlpKind::Completion | TlpKind::CompletionData => {
                if !self.note_completion(&header, port.routing_id()) {
                    report_unexpected(&header, port);
                    return Consumed::Now;
                }
                None
            }
            // Configuration requests take no simulated time; messages have no effect.
            TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite | TlpKind::Message => {
                return Consumed::Now;
            }
        };
        if header.kind == TlpKind::MemoryRead {
            let asked = Asked { address: header.address.0, left_bytes: header.request_bytes() };
            self.asked.insert((header.requester, header.tag.0), asked);
        }
        self.last_number += 1;
        let (number, time) = (self.last_number, Picoseconds(port.now_ps()));
        self.held.insert(number, Held::new(tlp, port));
        let payload = port.payload(tlp).to_vec();
        self.waiting.push_back(Arrived { number, time, header, payload, place });
        Consumed::Held
    }

    fn transmit_ready(&mut self, _port: &mut DevicePort<'_>) {}

    /// Forgets all reads: their answers are lost.
    fn link_down(&mut self, _port: &mut DevicePort<'_>) {
        self.asked.clear();
        self.reads.clear();
    }

    fn timer(&mut self, _token: u32, _port: &mut DevicePort<'_>) {}

    fn configured(&mut self, config: &ConfigSpace) {
        self.function = config.into();
        self.most_tags = match (config.ten_bit_tags_enabled(), config.extended_tags_enabled()) {
            (true, _) => 1024,
            (false, true) => 256,
            (false, false) => 32,
        };
    }

    fn unfinished(&self) -> Vec<String> {
        unfinished(&[
            (self.waiting.len(), "TLPs wait for the code outside"),
            (self.held.len().saturating_sub(self.waiting.len()), "TLPs are in the code outside"),
            (self.asked.len(), "reads wait for the code outside to answer"),
            (self.reads.len(), "reads of the code outside wait for completions"),
        ])
    }
}
