// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions: ends of transfers that were posted, polled for or waited for.

use std::ffi::c_int;

use crosslane::blocking::Error;
use crosslane::driver::{Completed, CompletionLevel, TransferError};
use crosslane::pcie::units::Picoseconds;

use crate::channel::{
    CROSSLANE_LEVEL_ACCEPTED, CROSSLANE_LEVEL_ACKNOWLEDGED, CROSSLANE_LEVEL_SENT,
    CROSSLANE_LEVEL_VISIBLE, ChannelObject, Held, Request, State, crosslane_channel,
    crosslane_completion,
};
use crate::error::{Result, guard, remember};
use crate::handle;
use crate::structs::Array;

impl ChannelObject {
    /// Takes what is complete, oldest first, without waiting.
    pub fn reap(&self, into: &Array<crosslane_completion>, mut taken: usize) -> Result<usize> {
        self.check_completes()?;
        let session = &self.device.session;
        let mut state = self.state.borrow_mut();
        if let Some(event) = &mut state.event {
            event.arm()?;
        }
        let State { channel, pending, .. } = &mut *state;
        while let Some(&(ticket, _)) = pending.front()
            && taken < into.len()
        {
            let outcome = match session.session.run(channel.poll(ticket)) {
                Ok(None) => break,
                Ok(Some(completed)) => Ok(completed),
                Err(Error::Transfer(error)) => Err(*error),
                // The caller gets those that were taken; the next call fails again.
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error.into()),
            };
            if let Some((_, request)) = pending.pop_front() {
                into.put(taken, completed(&request, outcome));
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// Waits until the oldest transfer has ended, at most until a time, and takes all that have.
    pub fn wait(&self, into: &Array<crosslane_completion>, until: Picoseconds) -> Result<usize> {
        self.check_completes()?;
        let session = &self.device.session;
        loop {
            let mut state = self.state.borrow_mut();
            let State { channel, pending, .. } = &mut *state;
            // Another thread that shares the channel may have taken what this one has waited for.
            let first = pending.front().filter(|_| into.len() > 0);
            let Some(&(ticket, _)) = first else { return Ok(0) };
            let ended = session.run_slice(until, channel.wait(ticket))?;
            let Some(outcome) = ended else {
                drop(state);
                if session.has_time(until)? {
                    continue;
                }
                return Ok(0);
            };
            if let Some((_, request)) = pending.pop_front() {
                into.put(0, completed(&request, outcome));
            }
            if pending.is_empty() || into.len() == 1 {
                return Ok(1);
            }
            break;
        }
        self.reap(into, 1)
    }
}

/// Makes the caller's completion of the driver's. A failure becomes the thread's last error.
pub(crate) fn completed(
    request: &Request,
    outcome: Result<Completed, TransferError>,
) -> crosslane_completion {
    let mut made = crosslane_completion {
        size: 0,
        wr_id: request.wr_id,
        status: 0,
        kind: 0,
        level: 0,
        reserved: 0,
        bytes: 0,
        total_bytes: request.bytes,
        posted_ps: 0,
        completed_ps: 0,
    };
    let copied = || match &request.held {
        Held::Buffer { buffer, part, is_written: true } => buffer.copy_out(part),
        _ => Ok(()),
    };
    let failure = match outcome {
        Ok(completed) => match copied() {
            Ok(()) => {
                made.bytes = completed.bytes;
                made.level = level_number(request.level);
                made.posted_ps = completed.posted.0;
                made.completed_ps = completed.completed.0;
                return made;
            }
            Err(failure) => failure,
        },
        Err(error) => {
            made.bytes = error.moved_bytes;
            error.into()
        }
    };
    made.kind = failure.kind() as u32;
    made.status = remember("a transfer", &failure);
    made
}

const fn level_number(level: CompletionLevel) -> u32 {
    match level {
        CompletionLevel::Accepted => CROSSLANE_LEVEL_ACCEPTED,
        CompletionLevel::Sent => CROSSLANE_LEVEL_SENT,
        CompletionLevel::Visible => CROSSLANE_LEVEL_VISIBLE,
        CompletionLevel::Acknowledged => CROSSLANE_LEVEL_ACKNOWLEDGED,
    }
}

/// Takes the completions of transfers that have ended, in the order in which they were posted,
/// without waiting. In a lab a call that finds none takes simulated time: poll_ns of the session.
///
/// @param completions  Gets up to `capacity` completions; the size of the first is set.
/// @return The number of completions, or a negative number of errno.h.
///
/// # Safety
/// `completions` is NULL or has `capacity` of the size that the first begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_poll(
    channel: *const crosslane_channel,
    completions: *mut crosslane_completion,
    capacity: usize,
) -> c_int {
    guard("crosslane_channel_poll", || {
        let object = handle::get::<ChannelObject>(channel)?;
        // SAFETY: as the caller promises.
        let into = unsafe { Array::new(completions, capacity.min(MOST_COMPLETIONS))? };
        let taken = object.reap(&into, 0)?;
        if taken == 0 {
            object.device.session.spend_poll()?;
        }
        Ok(taken as c_int)
    })
}

/// Waits until the oldest transfer has ended, and takes it and all that have ended then.
///
/// @param completions  Gets up to `capacity` completions; the size of the first is set.
/// @param timeout_ns  Longest wait, in ns; CROSSLANE_FOREVER for the transfer's own deadline.
/// @return The number of completions: 0 if the time is over or nothing is posted; or a negative
/// number of errno.h.
///
/// # Safety
/// `completions` is NULL or has `capacity` of the size that the first begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_wait(
    channel: *const crosslane_channel,
    completions: *mut crosslane_completion,
    capacity: usize,
    timeout_ns: u64,
) -> c_int {
    guard("crosslane_channel_wait", || {
        let object = handle::get::<ChannelObject>(channel)?;
        // SAFETY: as the caller promises.
        let into = unsafe { Array::new(completions, capacity.min(MOST_COMPLETIONS))? };
        let until = object.device.session.until(timeout_ns);
        Ok(object.wait(&into, until)? as c_int)
    })
}

/// Most completions of one call: they are counted by an int.
pub(crate) const MOST_COMPLETIONS: usize = 1 << 30;
