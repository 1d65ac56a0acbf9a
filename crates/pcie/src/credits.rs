// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flow-control credits.
//!
//! Read first: base specification 2.6.1. One header credit a TLP; one data credit for each
//! 16 bytes of payload, the last one perhaps partly used.

use crate::tlp::Header;

/// Bytes of payload that one data credit stands for (PCIe 6.x 2.6.1).
pub const DATA_CREDIT_BYTES: u32 = 16;

/// Longest time between two UpdateFC of a class that is not infinite (PCIe 6.x 2.6.1.2).
pub const UPDATE_FC_LIMIT_PS: u64 = 30_000_000;

/// Header and data credits of one class: a TLP's cost, or a receiver's room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credits {
    /// Header credits.
    pub header: u32,
    /// Data credits, 16 bytes each.
    pub data: u32,
}

impl Credits {
    /// More than any run uses: what an advertisement of 0 means (infinite).
    pub const INFINITE: Self = Self { header: u32::MAX, data: u32::MAX };

    /// What a TLP with this header uses.
    #[must_use]
    pub const fn of(header: &Header) -> Self {
        Self { header: 1, data: header.payload_bytes().div_ceil(DATA_CREDIT_BYTES) }
    }

    /// The least that a receiver may advertise for posted requests at this Max_Payload_Size
    /// (PCIe 6.x table 2-44): one header, and data for one payload.
    #[must_use]
    pub const fn minimum_posted(max_payload_bytes: u32) -> Self {
        Self { header: 1, data: max_payload_bytes / DATA_CREDIT_BYTES }
    }
}
