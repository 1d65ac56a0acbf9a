// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checkers that run beside the fabric, independent of its queues.

use crosslane_pcie::ordering::{Passing, may_pass};
use crosslane_pcie::tlp::{Class, Header};
use crosslane_pcie::units::{BusAddress, RoutingId, Tag};

use crate::trace::HeaderLine;

/// Checks every arrival against the transaction ordering table, end to end.
///
/// Each node numbers its TLPs. A TLP that arrives after one with a higher number from the same
/// source has been passed by it; the table says whether that was allowed. (The requester checks
/// that completions of one read come in order.)
pub(crate) struct OrderingChecker {
    /// Highest number that has arrived of each class, of TLPs with neither relaxed nor ID-based
    /// ordering, by destination node and then source node; 0 for none.
    newest: Vec<Vec<[u64; 3]>>,
    /// Whether the table forbids passing, by class of the later and of the earlier TLP.
    forbidden: [[bool; 3]; 3],
}

impl OrderingChecker {
    pub fn new(nodes: usize) -> Self {
        let plain = Class::ALL.map(plain_header);
        let forbidden = plain.map(|second| {
            plain.map(|first| {
                let answers = [second.class(), first.class()] == [Class::Completion; 2];
                !answers && may_pass(&second, &first) == Passing::No
            })
        });
        Self { newest: vec![Vec::new(); nodes], forbidden }
    }

    /// Notes an arrival and returns the rule that it breaks, if any.
    #[inline]
    pub fn arrive(
        &mut self,
        destination: u32,
        source: u32,
        sequence: u64,
        header: &Header,
    ) -> Option<String> {
        let sources = &mut self.newest[destination as usize];
        if sources.len() <= source as usize {
            sources.resize(source as usize + 1, [0; 3]);
        }
        let newest = &mut sources[source as usize];
        let own = header.class().index();
        let mut broken = None;
        for class in Class::ALL {
            let other = newest[class.index()];
            // 0 marks a TLP outside the order.
            if sequence <= other
                && sequence != 0
                && (sequence == other || self.forbidden[class.index()][own])
            {
                broken = Some(describe(other, class, sequence, header));
            }
        }
        let attributes = header.attributes;
        if !attributes.relaxed_ordering && !attributes.id_based_ordering {
            newest[own] = newest[own].max(sequence);
        }
        broken
    }
}

/// A header of this class without attributes.
fn plain_header(class: Class) -> Header {
    let (id, address) = (RoutingId(0), BusAddress(0));
    let read = Header::memory_read(id, Tag(0), address, 4);
    match class {
        Class::Posted => Header::memory_write(id, address, 4),
        Class::NonPosted => read,
        Class::Completion => Header::completion_data(&read, id, address, 4, 4),
    }
}

#[cold]
fn describe(other: u64, class: Class, sequence: u64, header: &Header) -> String {
    let line = HeaderLine(header);
    if other == sequence {
        return format!("{line} arrived twice");
    }
    let class = ["posted request", "non-posted request", "completion"][class.index()];
    format!("a {class} (number {other}) passed {line} (number {sequence})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write() -> Header {
        Header::memory_write(RoutingId(8), BusAddress(0x1000), 64)
    }

    fn read() -> Header {
        Header::memory_read(RoutingId(8), Tag(1), BusAddress(0x1000), 64)
    }

    #[test]
    fn a_write_that_a_read_has_passed_is_found() {
        let mut checker = OrderingChecker::new(2);
        assert_eq!(checker.arrive(1, 0, 1, &write()), None);
        assert_eq!(checker.arrive(1, 0, 3, &read()), None);
        assert!(checker.arrive(1, 0, 2, &write()).is_some());
    }

    #[test]
    fn a_write_may_pass_a_read_and_a_relaxed_write_may_pass_a_write() {
        let mut checker = OrderingChecker::new(2);
        assert_eq!(checker.arrive(1, 0, 2, &write()), None);
        assert_eq!(checker.arrive(1, 0, 1, &read()), None);
        let mut relaxed = write();
        relaxed.attributes.relaxed_ordering = true;
        assert_eq!(checker.arrive(1, 0, 4, &relaxed), None);
        assert_eq!(checker.arrive(1, 0, 3, &write()), None);
        assert!(checker.arrive(1, 0, 3, &write()).is_some(), "doubled");
    }
}
