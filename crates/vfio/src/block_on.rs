// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs host code on the calling thread, without an async runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wakes the thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread, which sleeps between wakes. To wait for several, join
/// or select them in one future.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // Returns at once if the waker was called meanwhile, and may return spuriously.
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_future_that_another_thread_wakes() {
        let done = Arc::new(AtomicBool::new(false));
        let mut started = false;
        let value = block_on(poll_fn(|context| {
            if done.load(Ordering::Acquire) {
                return Poll::Ready(7);
            }
            if !started {
                started = true;
                let (done, waker) = (Arc::clone(&done), context.waker().clone());
                thread::spawn(move || {
                    done.store(true, Ordering::Release);
                    waker.wake();
                });
            }
            Poll::Pending
        }));
        assert_eq!(value, 7);
    }
}
