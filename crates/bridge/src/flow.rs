// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One stage of a pipeline.

use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesOrdered, Stream, StreamExt};

use crate::error::BridgeError;

enum Event<T, U> {
    Item(Option<T>),
    Ended(Option<(u64, Result<U, BridgeError>)>),
}

/// Processes items concurrently, up to `window_bytes` together but always at least one, and hands
/// results on in the order of the input.
///
/// # Errors
/// The first error; operations in flight are then dropped.
pub(crate) async fn stage<T, U, F>(
    window_bytes: u64,
    input: impl Stream<Item = T>,
    bytes_of: impl Fn(&T) -> u64,
    begin: impl Fn(T) -> F,
    mut hand_on: impl FnMut(U),
) -> Result<(), BridgeError>
where
    F: Future<Output = Result<U, BridgeError>>,
{
    let mut input = pin!(input.fuse());
    let mut under_way = FuturesOrdered::new();
    let (mut under_way_bytes, mut next) = (0, None);
    loop {
        if let Some(item) = next.take() {
            let bytes = bytes_of(&item);
            if under_way.is_empty() || under_way_bytes + bytes <= window_bytes {
                under_way_bytes += bytes;
                let work = begin(item);
                under_way.push_back(async move { (bytes, work.await) });
            } else {
                next = Some(item);
            }
        }
        let wants_item = next.is_none() && !input.is_done();
        let event = match (wants_item, under_way.is_empty()) {
            (false, true) => return Ok(()),
            (true, true) => Event::Item(input.next().await),
            (false, false) => Event::Ended(under_way.next().await),
            (true, false) => match select(under_way.next(), input.next()).await {
                Either::Left((ended, _)) => Event::Ended(ended),
                Either::Right((item, _)) => Event::Item(item),
            },
        };
        match event {
            Event::Item(item) => next = item,
            Event::Ended(Some((bytes, result))) => {
                under_way_bytes -= bytes;
                hand_on(result?);
            }
            Event::Ended(None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use futures_util::FutureExt;
    use futures_util::stream;

    use super::*;

    /// Yields once.
    async fn turn() {
        let mut polled = false;
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            match std::mem::replace(&mut polled, true) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }

    #[test]
    fn a_window_bounds_what_is_under_way_and_the_order_is_kept() {
        let (now, most, done) = (Cell::new(0), Cell::new(0), RefCell::new(Vec::new()));
        let work = |item: u64| {
            let (now, most) = (&now, &most);
            async move {
                now.set(now.get() + item);
                most.set(most.get().max(now.get()));
                // Yield to the others before continuing; later items yield fewer times.
                for _ in 0..20 - item {
                    turn().await;
                }
                now.set(now.get() - item);
                Ok(item)
            }
        };
        let all = stage(
            10,
            stream::iter(1..=9),
            |item| *item,
            work,
            |item| {
                done.borrow_mut().push(item);
            },
        );
        let mut all = Box::pin(all);
        let mut polls = 0;
        while all.as_mut().now_or_never().is_none() {
            polls += 1;
            assert!(polls < 1000, "it ends");
        }
        assert_eq!(*done.borrow(), (1..=9).collect::<Vec<_>>());
        assert_eq!(most.get(), 10, "1 + 2 + 3 + 4");
    }

    #[test]
    fn an_item_larger_than_the_window_goes_alone_and_an_error_ends_all() {
        let done = RefCell::new(Vec::new());
        let work = |item: u64| async move {
            match item {
                70 => Err(BridgeError::new(
                    crate::Stage::Dma,
                    crosslane_host::ErrorKind::Failed,
                    "no",
                )),
                item => Ok(item),
            }
        };
        let items = stream::iter([50, 60, 70, 80]);
        let all = stage(10, items, |item| *item, work, |item| done.borrow_mut().push(item));
        let result = all.now_or_never().expect("nothing waits");
        assert_eq!(result.expect_err("70 fails").why.to_string(), "no");
        assert_eq!(*done.borrow(), [50, 60]);
    }
}
