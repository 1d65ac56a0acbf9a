// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks of data that are whole at every step.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a thread has panicked with it held: for data that are whole at every
/// step, to which that does no harm.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
