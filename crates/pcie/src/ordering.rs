// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transaction ordering table (PCIe 6.x 2.4.1, table 2-42).

use crate::tlp::{Class, Header};

/// May a later TLP pass an earlier one in the same queue?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// It must not.
    No,
    /// It may, and need not.
    Allowed,
    /// It must be able to, or the fabric can deadlock.
    Required,
}

/// The entry of the table for `second`, which came later, against `first`.
///
/// A message counts as posted; a configuration write as a non-posted request with data, whose
/// row and column equal those of a read but for relaxed ordering, which it may use.
#[must_use]
pub fn may_pass(second: &Header, first: &Header) -> Passing {
    let ido = second.attributes.id_based_ordering && second.requester != first.requester;
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
