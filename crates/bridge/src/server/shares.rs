// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Equal shares of what a card moves: the measure that tells a client whether it had its own.

use std::cell::Cell;

/// Transfers under way on a card, and the equal share of each client.
#[derive(Debug, Default)]
pub(super) struct Shares {
    transfers: Cell<u64>,
    /// Bytes that it has moved.
    bytes: Cell<u64>,
    /// Bytes of a client that has had a transfer under way since the start, and an equal share.
    share_bytes: Cell<f64>,
}

/// A transfer that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a Shares);

impl Shares {
    /// Notes that a transfer is under way.
    pub fn begin(&self) -> UnderWay<'_> {
        self.transfers.set(self.transfers.get() + 1);
        UnderWay(self)
    }

    /// Notes that the card has moved bytes of one of the transfers.
    pub fn moved(&self, bytes: u64) {
        let transfers = self.transfers.get().max(1);
        self.bytes.set(self.bytes.get() + bytes);
        self.share_bytes.set(self.share_bytes.get() + bytes as f64 / transfers as f64);
    }

    /// Returns the number of transfers under way.
    pub fn under_way(&self) -> u64 {
        self.transfers.get()
    }

    /// Returns what the card has moved so far, and the share, bytes.
    pub fn so_far(&self) -> (u64, f64) {
        (self.bytes.get(), self.share_bytes.get())
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.transfers.set(self.0.transfers.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_by_those_under_way() {
        let shares = Shares::default();
        let one = shares.begin();
        shares.moved(100);
        {
            let _two = shares.begin();
            shares.moved(100);
            shares.moved(40);
        }
        shares.moved(10);
        assert_eq!(shares.so_far(), (250, 100.0 + 70.0 + 10.0));
        drop(one);
        assert_eq!(shares.transfers.get(), 0);
    }
}
