// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same calls for programs that wait in them.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;

use crate::error::TorusError;
use crate::node::{Message, Node, Receiving, Sending};
use crate::place::Peer;
use crosslane_driver::network_processor::Ended;

/// Runs a future to its end, and the caller waits: an executor of the program's. A lab's is its
/// simulation, in which time goes on meanwhile.
pub trait Run {
    /// Runs it.
    fn run<F: Future>(&self, future: F) -> F::Output;
}

/// Polls without a pause but for yielding to other threads, as a core does that waits for memory:
/// for buses of real machines, whose futures look for themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin;

impl Run for Spin {
    fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::yield_now(),
            }
        }
    }
}

/// A node whose calls wait. Each is as that of [`Node`].
pub struct Blocking<B: Bus, R: Run> {
    node: Node<B>,
    run: R,
}

impl<B: Bus, R: Run> Blocking<B, R> {
    /// The same node.
    pub const fn new(node: Node<B>, run: R) -> Self {
        Self { node, run }
    }

    /// The node, for calls that do not wait.
    pub const fn node(&self) -> &Node<B> {
        &self.node
    }

    /// Begins to send.
    ///
    /// # Errors
    /// As [`Node::tx_i`].
    pub fn tx_i(&self, message: Message<B>) -> Result<Sending<B>, TorusError> {
        self.run.run(self.node.tx_i(message))
    }

    /// Waits until a message has left its buffer.
    ///
    /// # Errors
    /// As [`Node::tx_f`].
    pub fn tx_f(&self, sending: &Sending<B>) -> Result<Ended, TorusError> {
        self.run.run(self.node.tx_f(sending))
    }

    /// Sends a message and waits.
    ///
    /// # Errors
    /// As [`Node::tx`].
    pub fn tx(&self, message: Message<B>) -> Result<Ended, TorusError> {
        self.run.run(self.node.tx(message))
    }

    /// Makes room.
    ///
    /// # Errors
    /// As [`Node::rx_i`].
    pub fn rx_i(&self, message: Message<B>) -> Result<Receiving<B>, TorusError> {
        self.run.run(self.node.rx_i(message))
    }

    /// Waits until a message is there.
    ///
    /// # Errors
    /// As [`Node::rx_f`].
    pub fn rx_f(&self, receiving: &Receiving<B>) -> Result<Ended, TorusError> {
        self.run.run(self.node.rx_f(receiving))
    }

    /// Makes room for a message and waits for it.
    ///
    /// # Errors
    /// As [`Node::rx`].
    pub fn rx(&self, message: Message<B>) -> Result<Ended, TorusError> {
        self.run.run(self.node.rx(message))
    }

    /// Stores a short message into a link.
    ///
    /// # Errors
    /// As [`Node::put`].
    pub fn put(
        &self,
        peer: Peer,
        tag: u8,
        bytes: &[u8],
        deadline: Picoseconds,
    ) -> Result<(), TorusError> {
        self.run.run(self.node.put(peer, tag, bytes, deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_polls_until_the_end() {
        let mut left = 5;
        let counted = std::future::poll_fn(move |_| {
            left -= 1;
            if left == 0 { Poll::Ready("done") } else { Poll::Pending }
        });
        assert_eq!(Spin.run(counted), "done");
    }
}
