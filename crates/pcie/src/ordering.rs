// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transaction ordering table (PCIe 6.x 2.4.1, table 2-42).

use crate::tlp::{Class, Header};
use crate::units::RoutingId;

/// Answer of the table: may a later TLP pass an earlier one in the same queue?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// The TLP must not pass.
    No,
    /// The TLP may pass but need not.
    Allowed,
    /// The TLP must be able to pass, or the fabric can deadlock.
    Required,
}

/// Looks up the table's entry for `second`, the later TLP, against `first`.
///
/// A message counts as posted. A configuration write counts as a non-posted request with data: its
/// row and column equal those of a read, except that it may use relaxed ordering.
pub fn may_pass(second: &Header, first: &Header) -> Passing {
    let ido = second.attributes.id_based_ordering && sender(second) != sender(first);
    let relaxed = second.attributes.relaxed_ordering || ido;
    let allowed_if = |condition: bool| if condition { Passing::Allowed } else { Passing::No };
    match (second.class(), first.class()) {
        (Class::Posted, Class::Posted) => allowed_if(relaxed),
        (Class::Posted | Class::Completion, Class::NonPosted) => Passing::Required,
        // Y/N in general; a bridge to conventional PCI would need Required.
        (Class::Posted, Class::Completion) => Passing::Allowed,
        (Class::NonPosted, Class::Posted) => allowed_if(ido || (relaxed && second.has_data())),
        (Class::NonPosted, _) => Passing::Allowed,
        (Class::Completion, Class::Posted) => allowed_if(relaxed),
        (Class::Completion, Class::Completion) => {
            allowed_if(second.requester != first.requester || second.tag != first.tag)
        }
    }
}

/// Sender for ID-based ordering, which compares a completion's completer and a request's requester
/// with the requester of the request in front (PCIe 6.x 2.4.1, entry D2b).
fn sender(header: &Header) -> RoutingId {
    match header.class() {
        Class::Completion => header.completer,
        Class::Posted | Class::NonPosted => header.requester,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlp::{Attributes, TlpKind};
    use crate::{BusAddress, RoutingId, Tag};

    const A: RoutingId = RoutingId::new(1, 0, 0);
    const B: RoutingId = RoutingId::new(2, 0, 0);
    const HOST: RoutingId = RoutingId::new(0, 0, 0);

    /// Packets of each row, sent by `sender`: posted, read, non-posted with data, completion.
    fn rows(sender: RoutingId, attributes: Attributes) -> [Header; 4] {
        let write = Header::memory_write(sender, BusAddress(0), 64);
        let read = Header::memory_read(sender, Tag(1), BusAddress(0), 64);
        let config = Header { kind: TlpKind::ConfigurationWrite, length_dw: 1, ..read };
        let asked = Header::memory_read(HOST, Tag(1), BusAddress(0), 64);
        let completion = Header::completion_data(&asked, sender, BusAddress(0), 64, 64);
        [write, read, config, completion].map(|header| Header { attributes, ..header })
    }

    /// The table for a second packet of `sender` with these attributes; the first packet is A's.
    fn table(sender: RoutingId, attributes: Attributes) -> [[Passing; 4]; 4] {
        let columns = rows(A, Attributes::default());
        rows(sender, attributes).map(|second| columns.map(|first| may_pass(&second, &first)))
    }

    const STRICT: Attributes =
        Attributes { relaxed_ordering: false, no_snoop: false, id_based_ordering: false };
    const RELAXED: Attributes = Attributes { relaxed_ordering: true, ..STRICT };
    const BY_ID: Attributes = Attributes { id_based_ordering: true, ..STRICT };

    #[test]
    fn the_table_row_by_row() {
        use Passing::{Allowed as Y, No as N, Required as R};
        // Columns: posted, read, non-posted with data, completion (of the same transaction).
        let strict = [[N, R, R, Y], [N, Y, Y, Y], [N, Y, Y, Y], [N, R, R, N]];
        assert_eq!(table(A, STRICT), strict);
        let relaxed = [[Y, R, R, Y], [N, Y, Y, Y], [Y, Y, Y, Y], [Y, R, R, N]];
        assert_eq!(table(A, RELAXED), relaxed);
        // By ID: strict against the same sender, while all may pass posted ones of another.
        assert_eq!(table(A, BY_ID), strict);
        let by_id = [[Y, R, R, Y], [Y, Y, Y, Y], [Y, Y, Y, Y], [Y, R, R, N]];
        assert_eq!(table(B, BY_ID), by_id);
        assert_eq!(table(B, STRICT), strict);
        // No snoop does not affect ordering.
        assert_eq!(table(B, Attributes { no_snoop: true, ..STRICT }), strict);
    }

    #[test]
    fn completions_of_different_transactions_may_pass() {
        let read = Header::memory_read(HOST, Tag(1), BusAddress(0), 64);
        let first = Header::completion_data(&read, A, BusAddress(0), 64, 64);
        let same = Header { byte_count: 32, ..first };
        let other_tag = Header { tag: Tag(2), ..first };
        let other_requester = Header { requester: B, ..first };
        assert_eq!(may_pass(&same, &first), Passing::No);
        assert_eq!(may_pass(&other_tag, &first), Passing::Allowed);
        assert_eq!(may_pass(&other_requester, &first), Passing::Allowed);
        // Relaxed ordering does not reorder the completions of one transaction.
        let relaxed = Header { attributes: RELAXED, ..same };
        assert_eq!(may_pass(&relaxed, &first), Passing::No);
    }

    #[test]
    fn messages_are_posted() {
        let write = Header::memory_write(A, BusAddress(0), 4);
        let message = Header { kind: TlpKind::Message, length_dw: 0, ..write };
        assert_eq!(may_pass(&message, &write), Passing::No);
        assert_eq!(may_pass(&write, &message), Passing::No);
    }

    #[test]
    fn a_completion_by_id_looks_at_its_completer() {
        // A wrote and then reads from B: the completion is B's, the write A's.
        let read = Header::memory_read(A, Tag(1), BusAddress(0), 64);
        let write = Header::memory_write(A, BusAddress(0), 64);
        let completion = Header::completion_data(&read, B, BusAddress(0), 64, 64);
        let by_id = Header { attributes: BY_ID, ..completion };
        assert_eq!(may_pass(&by_id, &write), Passing::Allowed);
        // B wrote and then answers: the write must arrive first.
        let write = Header::memory_write(B, BusAddress(0), 64);
        assert_eq!(may_pass(&by_id, &write), Passing::No);
    }
}
