// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI-X: the message of each vector of each function, and the interrupts that have arrived (PCIe
//! 6.x 7.7.2).

use std::collections::BTreeMap;

use crosslane_fabric::{INTERRUPT_ADDRESSES, NodeId};
use crosslane_pcie::config::MSIX_ENTRY_BYTES;
use crosslane_pcie::units::RoutingId;

/// A vector: its host, function and number.
type Vector = (usize, RoutingId, u16);

#[derive(Clone, Debug, Default)]
struct Counter {
    /// Data of its message.
    data: u32,
    /// Interrupts not yet taken.
    count: u64,
    /// Tokens of the waits.
    waiting: Vec<u64>,
}

/// All enabled vectors of a lab.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupts {
    vectors: BTreeMap<Vector, Counter>,
    /// The vector of each message at a root complex.
    messages: BTreeMap<(u32, u32), Vector>,
    /// The last message data assigned.
    last_data: u32,
}

impl Interrupts {
    /// Gives the first vectors of a function their own messages and forgets past interrupts.
    /// Returns the entries of the function's table, unmasked.
    pub fn enable(
        &mut self,
        host: usize,
        root_complex: NodeId,
        function: RoutingId,
        vectors: u16,
    ) -> Vec<u8> {
        let mut table = Vec::with_capacity(usize::from(vectors) * MSIX_ENTRY_BYTES as usize);
        for number in 0..vectors {
            let vector = (host, function, number);
            let last_data = &mut self.last_data;
            let counter = self.vectors.entry(vector).or_insert_with(|| {
                *last_data += 1;
                Counter { data: *last_data, ..Counter::default() }
            });
            counter.count = 0;
            self.messages.insert((root_complex.0, counter.data), vector);
            for word in [INTERRUPT_ADDRESSES.start as u32, 0, counter.data, 0] {
                table.extend(word.to_le_bytes());
            }
        }
        table
    }

    /// Returns the number of enabled vectors of a function.
    pub fn enabled(&self, host: usize, function: RoutingId) -> u16 {
        let of_function = (host, function, 0)..=(host, function, u16::MAX);
        self.vectors.range(of_function).count() as u16
    }

    /// Takes the interrupts that have arrived at a vector.
    pub fn take(&mut self, host: usize, function: RoutingId, vector: u16) -> u64 {
        let counter = self.vectors.get_mut(&(host, function, vector));
        counter.map_or(0, |counter| std::mem::take(&mut counter.count))
    }

    pub fn wait(&mut self, host: usize, function: RoutingId, vector: u16, token: u64) {
        if let Some(counter) = self.vectors.get_mut(&(host, function, vector)) {
            counter.waiting.push(token);
        }
    }

    pub fn wait_no_longer(&mut self, host: usize, function: RoutingId, vector: u16, token: u64) {
        if let Some(counter) = self.vectors.get_mut(&(host, function, vector)) {
            counter.waiting.retain(|other| *other != token);
        }
    }

    #[cfg(test)]
    pub fn wait_count(&self) -> usize {
        self.vectors.values().map(|counter| counter.waiting.len()).sum()
    }

    /// Counts a message that has arrived; returns the tokens of the waits for it.
    pub fn arrived(&mut self, root_complex: NodeId, data: u32) -> Vec<u64> {
        let vector = self.messages.get(&(root_complex.0, data));
        let Some(counter) = vector.and_then(|vector| self.vectors.get_mut(vector)) else {
            return Vec::new();
        };
        counter.count += 1;
        std::mem::take(&mut counter.waiting)
    }
}
