// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls from Python into Rust: without the GIL, with signals and panics as exceptions.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use crosslane::experiment::Progress;
use pyo3::prelude::*;

use crate::error::Failure;

/// Longest time between two looks for signals, such as that of Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);
/// Polls of a future between two looks at the clock, which takes a tenth of a microsecond: short
/// calls end without one.
const POLLS: u32 = 8;

/// Makes a call without the GIL.
pub fn without_gil<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let outcome = py.detach(|| caught(call));
    Ok(outcome?)
}

/// Makes a panic an error.
fn caught<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| Err(Failure::panic(&*payload)))
}

/// Looks for signals in the thread that calls.
fn look_for_signals() -> Result<(), Failure> {
    Ok(Python::attach(|py| py.check_signals())?)
}

/// Runs a future, and ends it at a signal.
pub async fn until_signal<T, E>(future: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let mut future = pin!(future);
    let (mut polls, mut looked) = (0_u32, None);
    poll_fn(|context| {
        if let Poll::Ready(outcome) = future.as_mut().poll(context) {
            return Poll::Ready(outcome.map_err(Failure::from));
        }
        polls = polls.wrapping_add(1);
        if !polls.is_multiple_of(POLLS) {
            return Poll::Pending;
        }
        let now = Instant::now();
        if now - *looked.get_or_insert(now) < SIGNALS {
            return Poll::Pending;
        }
        looked = Some(now);
        match look_for_signals() {
            Ok(()) => Poll::Pending,
            Err(failure) => Poll::Ready(Err(failure)),
        }
    })
    .await
}

/// Tells long work that a signal has come.
#[derive(Default)]
pub struct Watch(AtomicBool);

impl Progress for Watch {
    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does work that uses every core, without the GIL. Its threads end with it: a child that this
/// process forks later begins with none of them.
pub fn at_work<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Watch) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let watch = Watch::default();
    let pool = rayon::ThreadPoolBuilder::new().build();
    let pool = pool.map_err(|error| Failure::argument(format!("no threads: {error}")))?;
    without_gil(py, || {
        thread::scope(|scope| {
            let (done, ended) = mpsc::channel();
            let (watch, pool) = (&watch, &pool);
            scope.spawn(move || {
                // The receiver waits for it.
                let _ = done.send(caught(|| pool.install(|| work(watch))));
            });
            let mut signal = Ok(());
            loop {
                match ended.recv_timeout(SIGNALS) {
                    Ok(outcome) => return signal.and(outcome),
                    Err(RecvTimeoutError::Timeout) if signal.is_ok() => {
                        signal = look_for_signals();
                        watch.0.store(signal.is_err(), Ordering::Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        return signal.and(Err(Failure::argument("the work has no outcome")));
                    }
                }
            }
        })
    })
}
