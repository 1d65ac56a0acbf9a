// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checkers that run beside the fabric and share nothing with its queues.

use crosslane_pcie::ordering::{Passing, may_pass};
use crosslane_pcie::tlp::{Class, Header};

use crate::trace::HeaderLine;

/// Number and header of an arrival.
type Newest = (u64, Header);

/// Holds every arrival against the transaction ordering table, end to end.
///
/// Each node numbers the TLPs that it makes. If a TLP arrives with a smaller number than one
/// that arrived before from the same source, that one has passed it; the table says whether it
/// was allowed to.
pub(crate) struct OrderingChecker {
    /// By destination node, then by source node: the newest arrival of each class that had
    /// neither relaxed nor ID-based ordering.
    newest: Vec<Vec<[Option<Newest>; 3]>>,
}

impl OrderingChecker {
    pub fn new(nodes: usize) -> Self {
        Self { newest: vec![Vec::new(); nodes] }
    }

    /// Notes an arrival; says what rule it breaks, if any.
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
            sources.resize(source as usize + 1, [None; 3]);
        }
        let newest = &mut sources[source as usize];
        let mut broken = None;
        for class in Class::ALL {
            if let Some((other, passed)) = &newest[class.index()]
                && sequence <= *other
                && (sequence == *other || may_pass(passed, header) == Passing::No)
            {
                broken = Some(describe(*other, passed, sequence, header));
            }
        }
        let attributes = header.attributes;
        let plain = !attributes.relaxed_ordering && !attributes.id_based_ordering;
        let slot = &mut newest[header.class().index()];
        if plain && slot.as_ref().is_none_or(|(other, _)| *other < sequence) {
            *slot = Some((sequence, *header));
        }
        broken
    }
}

#[cold]
fn describe(other: u64, passed: &Header, sequence: u64, header: &Header) -> String {
    if other == sequence {
        return format!("{} arrived twice", HeaderLine(header));
    }
    format!(
        "{} (number {other}) passed {} (number {sequence})",
        HeaderLine(passed),
        HeaderLine(header)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_pcie::units::{BusAddress, RoutingId, Tag};

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
