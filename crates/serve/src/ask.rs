// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the thread of a socket asks of the thread of the lab.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use futures_channel::mpsc::UnboundedSender;
use rustix::io::Errno;

/// What is to be done with a device.
#[derive(Debug)]
pub(crate) enum What {
    /// Reads configuration space.
    ConfigRead { offset: u16, bytes: usize },
    /// Writes it.
    ConfigWrite { offset: u16, data: Vec<u8> },
    /// Reads a BAR.
    Read { bar: u8, offset: u64, bytes: usize },
    /// Writes one.
    Write { bar: u8, offset: u64, data: Vec<u8> },
    /// Interrupts from `start` on signal these from now on, or nothing.
    SetVectors { start: usize, eventfds: Vec<Option<OwnedFd>> },
    /// No interrupt signals anything.
    VectorsOff,
    /// Signals as if these interrupts had come.
    Trigger { start: usize, are_meant: Vec<bool> },
    /// Resets the device; BARs and interrupts are as before.
    Reset,
    /// The client has gone: all is as at first.
    End,
}

/// Something to be done, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Ask {
    pub what: What,
    pub answer: SyncSender<Result<Vec<u8>, Errno>>,
}

/// A device, for the thread of its socket.
#[derive(Clone, Debug)]
pub(crate) struct Asker(pub UnboundedSender<Ask>);

impl Asker {
    /// Has something done and waits for the answer. The lab ends everything that it begins, so
    /// there is no deadline here; `EIO` where the lab is gone.
    pub fn ask(&self, what: What) -> Result<Vec<u8>, Errno> {
        let (answer, answered): (_, Receiver<_>) = sync_channel(1);
        self.0.unbounded_send(Ask { what, answer }).map_err(|_| Errno::IO)?;
        answered.recv().map_err(|_| Errno::IO)?
    }
}
