// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deadlines.

use std::future::Future;
use std::pin::pin;

use crosslane_host::Clock;
use crosslane_host::ErrorKind::Timeout;
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, select};

use crate::error::{BridgeError, Result};
use crate::stage::Stage;

/// Returns the point in time `time` from now.
pub(crate) fn after(clock: &impl Clock, time: Picoseconds) -> Picoseconds {
    Picoseconds(clock.now().0.saturating_add(time.0))
}

/// Waits for a future, but not beyond a deadline.
pub(crate) async fn by<T>(
    clock: &impl Clock,
    deadline: Picoseconds,
    stage: Stage,
    what: &str,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    let (future, end) = (pin!(future), pin!(clock.sleep_until(deadline)));
    match select(future, end).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => {
            Err(BridgeError::new(stage, Timeout, format!("the deadline passed while {what}")))
        }
    }
}
