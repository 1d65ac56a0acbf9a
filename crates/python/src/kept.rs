// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Things that are open until they are closed or their session is, whatever Python code still has.

use std::sync::{Arc, Mutex};

use crosslane::host::lock;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::Failure;
use crate::session::{Held, Shared};
use crate::state::State;

/// An open thing of a session.
pub struct Kept<T: Send + Sync + 'static> {
    session: Arc<Shared>,
    /// Name for messages: `the peer`.
    name: &'static str,
    value: Arc<Value<T>>,
}

/// It is locked for a moment only: a call may need the GIL, and so may another thread that has it.
struct Value<T>(Mutex<Option<Arc<T>>>);

impl<T: Send + Sync> Held for Value<T> {
    fn release(&self) {
        // Not under the lock.
        let value = lock(&self.0).take();
        drop(value);
    }
}

impl<T: Send + Sync> Kept<T> {
    /// Keeps a thing that was just opened.
    pub fn new(session: &Arc<Shared>, name: &'static str, value: T) -> Self {
        let value = Arc::new(Value(Mutex::new(Some(Arc::new(value)))));
        session.hold(&value);
        Self { session: Arc::clone(session), name, value }
    }

    /// Returns its session.
    pub const fn session(&self) -> &Arc<Shared> {
        &self.session
    }

    /// Whether it or its session is closed.
    pub fn is_over(&self) -> bool {
        lock(&self.value.0).is_none()
    }

    /// Returns the thing.
    ///
    /// # Errors
    /// It is closed.
    pub fn get(&self) -> Result<Arc<T>, Failure> {
        let over = || Failure::closed(format!("{} has been given back", self.name));
        lock(&self.value.0).clone().ok_or_else(over)
    }

    /// Makes a call with the session's state and the thing, without the GIL.
    ///
    /// # Errors
    /// It or its session is closed, or those of the call.
    pub fn call<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut State, &T) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        self.session.call(py, |state| {
            let value = self.get()?;
            call(state, &value)
        })
    }

    /// Closes it, if it is open: by `close`, once `prepare` has not failed.
    ///
    /// # Errors
    /// Those of `prepare`, which leave it open, and those of `close`.
    pub fn close(
        &self,
        py: Python<'_>,
        prepare: impl FnOnce(&mut State, &T) -> Result<(), Failure> + Send,
        close: impl FnOnce(&mut State, T) -> Result<(), Failure> + Send,
    ) -> PyResult<()> {
        if self.is_over() {
            return Ok(());
        }
        self.session.call(py, |state| {
            let value = self.get()?;
            prepare(state, &value)?;
            drop(value);
            let taken = lock(&self.value.0).take();
            // No other call of the session is under way that could have it.
            taken.and_then(Arc::into_inner).map_or(Ok(()), |value| close(state, value))
        })
    }
}

impl<T: Send + Sync> Drop for Kept<T> {
    fn drop(&mut self) {
        if self.session.is_foreign() {
            // It belongs to the process that forked this one.
            std::mem::forget(Arc::clone(&self.value));
        }
    }
}

/// Returns the error of a close at the end of a `with` block, unless the block has failed: then
/// that is the error to be seen.
///
/// # Errors
/// That of the close.
pub fn leave(raised: &Bound<'_, PyTuple>, closed: PyResult<()>) -> PyResult<()> {
    let has_failed = raised.get_item(0).is_ok_and(|class| !class.is_none());
    if has_failed { Ok(()) } else { closed }
}
