// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flow-control credits.
//!
//! Read first: base specification 2.6.1. A TLP takes one header credit, and one data credit for
//! each started 16 bytes of payload.

use crate::tlp::Header;

/// Bytes of payload per data credit (PCIe 6.x 2.6.1).
pub const DATA_CREDIT_BYTES: u32 = 16;

/// Longest time between two UpdateFCs of a class with finite credits (PCIe 6.x 2.6.1.2).
pub const UPDATE_FC_LIMIT_PS: u64 = 30_000_000;

/// Header and data credits of one class: the cost of a TLP, or the room in a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credits {
    /// Header credits.
    pub header: u32,
    /// Data credits, 16 bytes each.
    pub data: u32,
}

impl Credits {
    /// Infinite credits, advertised as 0; more than any run uses.
    pub const INFINITE: Self = Self { header: u32::MAX, data: u32::MAX };

    /// Credits that a TLP with this header uses.
    #[inline]
    pub const fn of(header: &Header) -> Self {
        Self { header: 1, data: header.payload_bytes().div_ceil(DATA_CREDIT_BYTES) }
    }

    /// Fewest credits that a receiver may advertise for posted requests at this Max_Payload_Size
    /// (PCIe 6.x table 2-44): one header, and data for one payload.
    pub const fn minimum_posted(max_payload_bytes: u32) -> Self {
        Self { header: 1, data: max_payload_bytes / DATA_CREDIT_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlp::CompletionStatus;
    use crate::{BusAddress, RoutingId, Tag};

    const ID: RoutingId = RoutingId::new(1, 0, 0);

    #[test]
    fn credits_of_packets() {
        let of_write =
            |address, length| Credits::of(&Header::memory_write(ID, BusAddress(address), length));
        for (length, data) in [(1, 1), (4, 1), (16, 1), (17, 2), (32, 2), (128, 8), (4096, 256)] {
            assert_eq!(of_write(0, length), Credits { header: 1, data }, "{length} bytes");
        }
        // Credits count whole double words: 16 bytes at address 1 touch five of them.
        assert_eq!(of_write(1, 16).data, 2);
        let read = Header::memory_read(ID, Tag(0), BusAddress(0), 4096);
        assert_eq!(Credits::of(&read), Credits { header: 1, data: 0 });
        let part = Header::completion_data(&read, ID, BusAddress(0), 64, 4096);
        assert_eq!(Credits::of(&part), Credits { header: 1, data: 4 });
        let status = CompletionStatus::UnsupportedRequest;
        let refused = Header::completion_error(&read, ID, status);
        assert_eq!(Credits::of(&refused), Credits { header: 1, data: 0 });
    }

    #[test]
    fn the_least_advertisement_takes_one_payload() {
        for payload in [128, 256, 512, 1024, 2048, 4096] {
            let write = Header::memory_write(ID, BusAddress(0), payload);
            assert_eq!(Credits::minimum_posted(payload), Credits::of(&write));
        }
    }
}
