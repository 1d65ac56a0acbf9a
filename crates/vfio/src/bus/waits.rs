// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for time, memory and interrupts.

use std::future::{pending, poll_fn};
use std::hint::spin_loop;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use crosslane_host::{BusError, BusResult, DmaMemory, Waiting, lock};
use crosslane_pcie::units::{Picoseconds, RoutingId};

use super::{VfioBus, lost};
use crate::dma_memory::VfioMemory;
use crate::monitor::UserMonitor;
use crate::stores::keep_order;

/// Number of looks at a word before other tasks and threads get a turn: some microseconds.
const LOOKS: u32 = 500;
/// Time that a core rests before other tasks get a turn, clocks of its time-stamp counter: some
/// tens of microseconds.
const REST_TICKS: u64 = 100_000;

/// Time to wait awake for an interrupt.
const SPIN: Duration = Duration::from_micros(20);

/// Lets other threads run, then other tasks of this one.
fn turn<T>(context: &mut Context<'_>) -> Poll<T> {
    thread::yield_now();
    context.waker().wake_by_ref();
    Poll::Pending
}

async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { turn(context) }
    })
    .await;
}

impl VfioBus {
    pub(super) async fn sleep(&self, time: Picoseconds) {
        match self.moment(time) {
            Some(moment) => self.shared.reactor.until(moment).await,
            None => pending().await,
        }
    }

    /// Returns the processor's monitor if `waiting` needs it.
    pub(super) fn waiting(&self, waiting: Waiting) -> BusResult<Option<UserMonitor>> {
        let refused = |why: String| Err(BusError::CannotWait { waiting, why });
        match waiting {
            Waiting::Polling => Ok(None),
            Waiting::KernelPolling => {
                refused("the driver is a program, and no kernel module polls for it".to_owned())
            }
            Waiting::Monitor => match UserMonitor::find() {
                Ok(monitor) => Ok(Some(monitor)),
                Err(missing) => refused(missing.to_string()),
            },
        }
    }

    pub(super) async fn poll_memory(
        &self,
        memory: &VfioMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
        monitor: Option<UserMonitor>,
    ) -> BusResult<u32> {
        memory.check(offset_bytes, 4)?;
        let word = memory.pages().mapped().word(offset_bytes);
        let look = || u32::from_le(word.load(Ordering::Acquire));
        poll_fn(|context| {
            // At least once, even if the deadline has passed.
            let mut value = look();
            match monitor {
                Some(monitor) if value == seen => {
                    let until = monitor.ticks().saturating_add(REST_TICKS);
                    value = u32::from_le(monitor.wait(word, seen.to_le(), until));
                }
                Some(_) => {}
                None => {
                    for _ in 0..LOOKS {
                        if value != seen {
                            break;
                        }
                        spin_loop();
                        value = look();
                    }
                }
            }
            if value != seen {
                keep_order();
                return Poll::Ready(Ok(value));
            }
            if let Some(error) = self.lost_writer(memory) {
                return Poll::Ready(Err(error));
            }
            if self.time() >= deadline {
                let what = format!(
                    "the word at {offset_bytes:#x} of memory to become another than {seen:#x}"
                );
                return Poll::Ready(Err(BusError::Deadline { what, deadline }));
            }
            turn(context)
        })
        .await
    }

    /// Returns the error of a lost function that may write a memory.
    fn lost_writer(&self, memory: &VfioMemory) -> Option<BusError> {
        let mut gone = self
            .shared
            .functions
            .iter()
            .filter(|held| held.lost.load(Ordering::Relaxed))
            .peekable();
        gone.peek()?;
        let mappings = lock(&self.shared.mappings);
        gone.find(|held| mappings.is_pinned(&held.function, memory.id())).map(|held| lost(held))
    }

    pub(super) async fn interrupts(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> BusResult<u64> {
        let held = self.present(function)?;
        let token = {
            let vectors = lock(&self.shared.vectors);
            let tokens = vectors.get(&function).map_or(&[][..], Vec::as_slice);
            let have = tokens.len() as u16;
            let token = tokens.get(usize::from(vector)).copied();
            token.ok_or(BusError::NoSuchVector { function, vector, have })?
        };
        // A device that answers at once is faster than sleeping and waking.
        let begin = Instant::now();
        let until = self.moment(deadline);
        while begin.elapsed() < SPIN && until.is_none_or(|until| Instant::now() < until) {
            match self.shared.reactor.take(token) {
                0 => yield_once().await,
                count => return Ok(count),
            }
        }
        if let Some(count) = self.shared.reactor.counted(token, until).await {
            return Ok(count);
        }
        if held.look() {
            return Err(lost(held));
        }
        let what = format!("interrupt {vector} of {}", held.function.name());
        Err(BusError::Deadline { what, deadline })
    }
}
