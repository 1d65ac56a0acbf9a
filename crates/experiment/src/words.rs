// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of sentences: kinds of flows, and sizes.

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

/// A size in the largest binary unit that keeps it whole: `64 B`, `4 KiB`, `16 GiB`.
#[must_use]
pub fn size_words(bytes: u64) -> String {
    for (unit, scale) in
        [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
    {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{} {unit}", bytes / scale);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_in_their_unit() {
        for (bytes, words) in
            [(100, "100 B"), (1536, "1536 B"), (4096, "4 KiB"), (16 << 30, "16 GiB")]
        {
            assert_eq!(size_words(bytes), words);
        }
    }
}
