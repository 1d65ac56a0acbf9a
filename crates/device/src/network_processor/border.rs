// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals on a cable, and cables whose other end is in another part of a divided torus. Plain
//! data, so that any transport may carry it from part to part.

use std::sync::{Arc, Mutex, PoisonError};

use crosslane_fabric::NodeId;
use crosslane_torus_link::frame::{Damaged, Frame};
use crosslane_torus_link::lanes::MAX_LANES;

/// A signal on a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A frame, as it arrives.
    Frame(Result<Frame, Damaged>),
    /// Symbols (64b/66b: sync headers) of the next frame that arrive wrong, of each lane.
    LaneErrors([u16; MAX_LANES]),
    /// The sending end is down, and trains if it says since when.
    Training(Option<Wish>),
}

/// Readiness of an end to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Time since which it is ready, ps.
    pub since_ps: u64,
    /// Its session.
    pub session: u32,
    /// Session of the other end that it was last joined to.
    pub far_session: Option<u32>,
}

/// An end of a cable of a torus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CableEnd {
    /// Number of the node in the torus.
    pub node: u16,
    /// Link of the node.
    pub link: u8,
}

/// A signal for an end in another part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableMessage {
    /// The end.
    pub to: CableEnd,
    /// Time at which the signal arrives there, ps: at least the cable's latency after it was sent.
    pub arrives_ps: u64,
    /// The signal.
    pub signal: Signal,
}

/// Signals for ends in other parts, in the order of sending; shared by all cables of a part.
#[derive(Clone, Debug, Default)]
pub struct Outbox(Arc<Mutex<Vec<CableMessage>>>);

impl Outbox {
    fn with<R>(&self, access: impl FnOnce(&mut Vec<CableMessage>) -> R) -> R {
        access(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a signal.
    pub(super) fn send(&self, message: CableMessage) {
        self.with(|messages| messages.push(message));
    }

    /// Hands all of them to `take`.
    pub fn empty(&self, take: impl FnMut(CableMessage)) {
        self.with(|messages| messages.drain(..).for_each(take));
    }
}

/// The other end of a cable.
#[derive(Clone, Debug)]
pub(super) enum Far {
    /// A network processor of the same fabric, and its link.
    Here(NodeId, u8),
    /// An end in another part.
    Away(CableEnd, Outbox),
}
