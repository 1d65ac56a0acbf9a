// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of sentences: kinds of flows.

use crosslane_fabric::FlowKind;

/// A kind of flow: `write`, `read`, `writeread`.
#[must_use]
pub const fn kind_word(kind: FlowKind) -> &'static str {
    match kind {
        FlowKind::Write => "write",
        FlowKind::Read => "read",
        FlowKind::WriteRead => "writeread",
    }
}
