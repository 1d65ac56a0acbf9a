// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory that a server allocates beside its rings: of naive transfers, and of copies to other
//! servers. All transfers together have a fixed number of bytes; the next one waits for its part.
//! Parts that are only kept for a next time are called back while one waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use futures_channel::oneshot;

struct State {
    free_bytes: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Held>)>,
    /// Dropped as soon as a transfer waits.
    kept: Vec<oneshot::Sender<()>>,
}

/// Bytes that transfers may allocate together.
pub(super) struct Budget {
    total_bytes: u64,
    state: Rc<RefCell<State>>,
}

/// A transfer's part of the budget, until it is dropped.
pub(super) struct Held {
    bytes: u64,
    state: Rc<RefCell<State>>,
}

impl Budget {
    pub fn new(total_bytes: u64) -> Self {
        let state = State { free_bytes: total_bytes, waiting: VecDeque::new(), kept: Vec::new() };
        Self { total_bytes, state: Rc::new(RefCell::new(state)) }
    }

    /// Waits for a part, first come, first served. Whoever needs more than there is gets all of it.
    pub async fn take(&self, bytes: u64) -> Held {
        let (sender, receiver) = oneshot::channel();
        let bytes = bytes.min(self.total_bytes);
        self.state.borrow_mut().waiting.push_back((bytes, sender));
        hand_out(&self.state);
        match receiver.await {
            Ok(held) => held,
            Err(oneshot::Canceled) => unreachable!("a budget outlives those who wait for it"),
        }
    }

    /// Waits until a transfer waits for its part.
    pub async fn is_wanted(&self) {
        let wanted = {
            let mut state = self.state.borrow_mut();
            if !state.waiting.is_empty() {
                return;
            }
            let (sender, wanted) = oneshot::channel();
            state.kept.retain(|kept| !kept.is_canceled());
            state.kept.push(sender);
            wanted
        };
        let _ = wanted.await;
    }

    /// Counts all bytes, and the free ones.
    pub fn counts(&self) -> (u64, u64) {
        (self.total_bytes, self.state.borrow().free_bytes)
    }
}

/// Gives parts to those who have waited longest, while there is enough.
fn hand_out(state: &Rc<RefCell<State>>) {
    loop {
        let (sender, held) = {
            let mut now = state.borrow_mut();
            let Some((bytes, sender)) = now.waiting.front() else { return };
            let bytes = if sender.is_canceled() { 0 } else { *bytes };
            if bytes > now.free_bytes {
                now.kept.clear();
                return;
            }
            now.free_bytes -= bytes;
            let Some((_, sender)) = now.waiting.pop_front() else { return };
            (sender, Held { bytes, state: Rc::clone(state) })
        };
        // A part whose receiver is gone comes back by its drop.
        let _ = sender.send(held);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.state.borrow_mut().free_bytes += self.bytes;
        hand_out(&self.state);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn kept_parts_are_called_back_while_one_waits() {
        let budget = Budget::new(100);
        let kept = budget.take(70).now_or_never().expect("it is free");
        let mut wanted = Box::pin(budget.is_wanted());
        assert!(wanted.as_mut().now_or_never().is_none());
        let small = budget.take(30).now_or_never().expect("it is free");
        assert!(wanted.as_mut().now_or_never().is_none(), "nobody waits");
        let mut next = Box::pin(budget.take(10));
        assert!(next.as_mut().now_or_never().is_none());
        assert!(wanted.as_mut().now_or_never().is_some());
        assert!(budget.is_wanted().now_or_never().is_some(), "it still waits");
        drop(kept);
        assert!(next.as_mut().now_or_never().is_some());
        assert!(budget.is_wanted().now_or_never().is_none());
        drop(small);
    }

    #[test]
    fn parts_are_handed_out_in_turn_and_come_back() {
        let budget = Budget::new(100);
        let one = budget.take(70).now_or_never().expect("it is free");
        let (mut large, mut small) = (Box::pin(budget.take(900)), Box::pin(budget.take(10)));
        assert!(large.as_mut().now_or_never().is_none());
        assert!(small.as_mut().now_or_never().is_none(), "the large one came first");
        drop(one);
        let all = large.as_mut().now_or_never().expect("it gets all of it");
        assert_eq!(budget.counts().1, 0);
        drop(all);
        let ten = small.as_mut().now_or_never().expect("it is free");
        // One that no longer waits is passed over.
        let mut gone = Box::pin(budget.take(95));
        assert!(gone.as_mut().now_or_never().is_none());
        drop(gone);
        assert!(budget.take(90).now_or_never().is_some());
        drop(ten);
        assert_eq!(budget.counts().1, 100);
    }
}
