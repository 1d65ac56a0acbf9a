// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work that can be ended before its time.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Does work, unless it has to end before its time; that is asked whenever the work has got on.
pub async fn unless_over<T>(
    work: impl Future<Output = T>,
    is_over: impl Fn() -> bool,
) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if is_over() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
