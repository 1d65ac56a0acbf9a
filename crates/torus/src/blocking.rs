// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocking versions of the calls, for programs that wait.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;

use crate::coordinates::Peer;
use crate::error::TorusError;
use crate::node::{Message, Node, Receiving, Sending};
use crosslane_driver::network_processor::Ended;

/// Executor that runs a future to its end while the caller waits. A lab's executor is its
/// simulation, in which time advances meanwhile.
pub trait Run {
    /// Runs a future and returns its output.
    fn run<F: Future>(&self, future: F) -> F::Output;
}

/// Executor that polls without a pause, except to yield to other threads, like a core that waits
/// for memory. Suited to buses of real machines, whose futures check for themselves.
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

/// Node with blocking calls; each corresponds to one of [`Node`].
pub struct Blocking<B: Bus, R: Run> {
    node: Node<B>,
    run: R,
}

impl<B: Bus, R: Run> Blocking<B, R> {
    /// Wraps a node with an executor.
    pub const fn new(node: Node<B>, run: R) -> Self {
        Self { node, run }
    }

    /// Returns the node, for calls that do not wait.
    pub const fn node(&self) -> &Node<B> {
        &self.node
    }

    /// Begins to send a message.
    ///
    /// # Errors
    /// Returns the errors of [`Node::tx_i`].
    pub fn tx_i(&self, message: Message<B>) -> Result<Sending<B>, TorusError> {
        self.run.run(self.node.tx_i(message))
    }

    /// Waits until a message has left its buffer.
    ///
    /// # Errors
    /// Returns the errors of [`Node::tx_f`].
    pub fn tx_f(&self, sending: &Sending<B>) -> Result<Ended, TorusError> {
        self.run.run(self.node.tx_f(sending))
    }

    /// Sends a message and waits.
    ///
    /// # Errors
    /// Returns the errors of [`Node::tx`].
    pub fn tx(&self, message: Message<B>) -> Result<Ended, TorusError> {
        self.run.run(self.node.tx(message))
    }

    /// Makes room for a message.
    ///
    /// # Errors
    /// Returns the errors of [`Node::rx_i`].
    pub fn rx_i(&self, message: Message<B>) -> Result<Receiving<B>, TorusError> {
        self.run.run(self.node.rx_i(message))
    }

    /// Waits until a message has arrived.
    ///
    /// # Errors
    /// Returns the errors of [`Node::rx_f`].
    pub fn rx_f(&self, receiving: &Receiving<B>) -> Result<Ended, TorusError> {
        self.run.run(self.node.rx_f(receiving))
    }

    /// Makes room for a message and waits for it.
    ///
    /// # Errors
    /// Returns the errors of [`Node::rx`].
    pub fn rx(&self, message: Message<B>) -> Result<Ended, TorusError> {
        self.run.run(self.node.rx(message))
    }

    /// Stores a short message into a link.
    ///
    /// # Errors
    /// Returns the errors of [`Node::put`].
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
