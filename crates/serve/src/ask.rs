// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests from the thread of a socket to the thread of the lab.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use futures_channel::mpsc::UnboundedSender;
use rustix::io::Errno;

/// A request for a device.
#[derive(Debug)]
pub(crate) enum What {
    /// Read configuration space.
    ConfigRead { offset: u16, bytes: usize },
    /// Write configuration space.
    ConfigWrite { offset: u16, data: Vec<u8> },
    /// Read a BAR.
    Read { bar: u8, offset: u64, bytes: usize },
    /// Write a BAR.
    Write { bar: u8, offset: u64, data: Vec<u8> },
    /// Signal these descriptors for interrupts from `start`; `None` signals nothing.
    SetVectors { start: usize, eventfds: Vec<Option<OwnedFd>> },
    /// Signal no interrupts.
    VectorsOff,
    /// Signal as if these interrupts had arrived.
    Trigger { start: usize, are_meant: Vec<bool> },
    /// Keep these interrupts back, or no longer.
    Mask { start: usize, are_meant: Vec<bool>, is_mask: bool },
    /// Reset the device; BARs and interrupts keep their settings.
    Reset,
    /// The client has disconnected: restore the initial state.
    End,
}

/// A request, and the channel for its answer.
#[derive(Debug)]
pub(crate) struct Ask {
    pub what: What,
    pub answer: SyncSender<Result<Vec<u8>, Errno>>,
}

/// Sends requests for a device, from the thread of its socket.
#[derive(Clone, Debug)]
pub(crate) struct Asker(pub UnboundedSender<Ask>);

impl Asker {
    /// Sends a request and waits for the answer. The lab completes every request, so no deadline is
    /// needed; `EIO` if the lab is gone.
    pub fn ask(&self, what: What) -> Result<Vec<u8>, Errno> {
        let (answer, answered): (_, Receiver<_>) = sync_channel(1);
        self.0.unbounded_send(Ask { what, answer }).map_err(|_| Errno::IO)?;
        answered.recv().map_err(|_| Errno::IO)?
    }
}
