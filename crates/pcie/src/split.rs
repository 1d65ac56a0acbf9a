// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits transfers into requests and read requests into completions.
//!
//! Read first: base specification 2.2.7 (a request stays within 4 KiB), 2.2.2 (payload and
//! read sizes) and 2.3.1.1 (the Read Completion Boundary). The iterators do not allocate; each
//! yields pieces as (address of the first byte, length in bytes), in ascending order.
//!
//! ```
//! use crosslane_pcie::BusAddress;
//! use crosslane_pcie::split;
//!
//! // 200 bytes at 0x60, boundary 128, payloads of at most 128 bytes.
//! let lengths: Vec<u32> =
//!     split::completions(BusAddress(0x60), 200, 128, 128).map(|(_, length)| length).collect();
//! assert_eq!(lengths, [32, 128, 40]);
//! ```

use crate::link::PAGE_BYTES;
use crate::units::BusAddress;
use std::iter::FusedIterator;

/// Bytes of a double word.
const DW_BYTES: u64 = 4;

mod single_units;
#[cfg(test)]
mod tests;

pub use single_units::SingleUnits;

/// Iterator over the requests of a transfer; see [`requests`] and [`requests_aligned`].
#[derive(Clone, Debug)]
pub struct RequestCuts {
    address: u64,
    remaining_bytes: u64,
    max_bytes: u64,
    /// Multiple at which a piece must end at the latest: 4 KiB, or a divisor of it.
    boundary_bytes: u64,
}

impl Iterator for RequestCuts {
    type Item = (BusAddress, u32);

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining_bytes == 0 {
            return None;
        }
        let to_boundary = self.boundary_bytes - self.address % self.boundary_bytes;
        // The length on the wire counts whole double words, including unused bytes of the first.
        let longest = self.max_bytes - self.address % DW_BYTES;
        let length = longest.min(to_boundary).min(self.remaining_bytes);
        let piece = (BusAddress(self.address), length as u32);
        // The last piece may end at the end of the address space.
        self.address = self.address.wrapping_add(length);
        self.remaining_bytes -= length;
        Some(piece)
    }
}

impl FusedIterator for RequestCuts {}

/// Cuts a transfer into requests: each as long as possible, at most `max_bytes`, and within 4 KiB
/// boundaries (PCIe 6.x 2.2.7). An empty transfer has no requests.
///
/// The limit holds for the whole double words of a packet (PCIe 6.x 2.2.2), so a piece that begins
/// one to three bytes into a double word is shorter by those bytes.
///
/// # Panics
/// If `max_bytes` is not a multiple of four above 0, or the transfer runs past the last address.
pub fn requests(address: BusAddress, length_bytes: u64, max_bytes: u32) -> RequestCuts {
    assert!(max_bytes > 0 && max_bytes.is_multiple_of(4), "requests of {max_bytes} bytes");
    assert!(
        length_bytes == 0 || address.0.checked_add(length_bytes - 1).is_some(),
        "{length_bytes} bytes at {address} run past the last address"
    );
    RequestCuts {
        address: address.0,
        remaining_bytes: length_bytes,
        max_bytes: max_bytes.into(),
        boundary_bytes: PAGE_BYTES,
    }
}

/// Cuts a transfer into requests at the address multiples of `max_bytes`: the first and the last
/// one may be short; all others are `max_bytes` long and aligned.
///
/// # Panics
/// If `max_bytes` is not a power of two from 4 to 4096, or the transfer runs past the last address.
pub fn requests_aligned(address: BusAddress, length_bytes: u64, max_bytes: u32) -> RequestCuts {
    let boundary_bytes = u64::from(max_bytes);
    assert!(
        max_bytes.is_power_of_two() && boundary_bytes <= PAGE_BYTES,
        "aligned requests of {max_bytes} bytes; a power of two from 4 to 4096 is needed"
    );
    RequestCuts { boundary_bytes, ..requests(address, length_bytes, max_bytes) }
}

/// Iterator over the completions of a read request; see [`completions`] and
/// [`completions_aligned`].
#[derive(Clone, Debug)]
pub struct CompletionCuts {
    address: u64,
    remaining_bytes: u32,
    max_bytes: u32,
    rule: CutRule,
    /// Set before the first completion, since a read of no bytes is answered too.
    begins: bool,
}

#[derive(Clone, Copy, Debug)]
enum CutRule {
    /// Cuts at the last multiple of these bytes within reach of one payload.
    LastReached(u32),
    /// Cuts at every multiple of the longest payload.
    EveryMultiple,
}

impl Iterator for CompletionCuts {
    type Item = (BusAddress, u32);

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining_bytes == 0 && !self.begins {
            return None;
        }
        self.begins = false;
        let past = |bytes: u32| (self.address % u64::from(bytes)) as u32;
        let length = match self.rule {
            CutRule::EveryMultiple => {
                self.remaining_bytes.min(self.max_bytes - past(self.max_bytes))
            }
            // Everything left, if its whole double words fit.
            CutRule::LastReached(_)
                if past(DW_BYTES as u32) + self.remaining_bytes <= self.max_bytes =>
            {
                self.remaining_bytes
            }
            CutRule::LastReached(rcb_bytes) => self.max_bytes - past(rcb_bytes),
        };
        let piece = (BusAddress(self.address), length);
        self.address = self.address.wrapping_add(length.into());
        self.remaining_bytes -= length;
        Some(piece)
    }
}

impl FusedIterator for CompletionCuts {}

/// Cuts the answer to a read of `length_bytes` at `address` into the fewest legal completions: each
/// but the last ends at the last multiple of `rcb_bytes` within reach of `max_bytes` (PCIe 6.x
/// 2.3.1.1). `max_bytes` is the smaller of Max_Payload_Size and the completer's usual length.
///
/// The limit holds for the whole double words of a payload, as with [`requests`]. A read of no
/// bytes (a flush, PCIe 6.x 2.2.5) is answered by one piece of length 0; its completion carries one
/// meaningless double word.
///
/// # Panics
/// If `rcb_bytes` is not 64 or 128, `max_bytes` is not a power of two of at least `rcb_bytes`, or
/// the read crosses a 4 KiB boundary.
pub fn completions(
    address: BusAddress,
    length_bytes: u32,
    rcb_bytes: u32,
    max_bytes: u32,
) -> CompletionCuts {
    assert_legal_read(address, length_bytes, rcb_bytes);
    assert!(
        max_bytes.is_power_of_two() && max_bytes >= rcb_bytes,
        "completions of {max_bytes} bytes with a boundary of {rcb_bytes}"
    );
    CompletionCuts {
        address: address.0,
        remaining_bytes: length_bytes,
        max_bytes,
        rule: CutRule::LastReached(rcb_bytes),
        begins: true,
    }
}

/// Cuts the answer to a read at every address multiple of `max_bytes`, for a completer that works
/// in aligned pieces such as cache lines of 64 bytes. Legal, since `max_bytes` is a multiple of
/// `rcb_bytes`.
///
/// # Panics
/// As [`completions`].
pub fn completions_aligned(
    address: BusAddress,
    length_bytes: u32,
    rcb_bytes: u32,
    max_bytes: u32,
) -> CompletionCuts {
    CompletionCuts {
        rule: CutRule::EveryMultiple,
        ..completions(address, length_bytes, rcb_bytes, max_bytes)
    }
}

/// Whether completions with payloads of these lengths, in this order, are a legal answer to the
/// read (PCIe 6.x 2.3.1.1): together they cover it; none is empty or longer, in whole double words,
/// than `max_payload_bytes`; all but the last end at multiples of `rcb_bytes`.
///
/// # Panics
/// If `rcb_bytes` is not 64 or 128, or the read crosses a 4 KiB boundary.
pub fn is_legal_completion_cut(
    address: BusAddress,
    length_bytes: u32,
    rcb_bytes: u32,
    max_payload_bytes: u32,
    lengths: &[u32],
) -> bool {
    assert_legal_read(address, length_bytes, rcb_bytes);
    let end = address.0.wrapping_add(length_bytes.into());
    let mut at = address.0;
    for (index, &length) in lengths.iter().enumerate() {
        if length == 0 && length_bytes > 0 {
            return false;
        }
        let double_words_bytes = at % DW_BYTES + u64::from(length);
        if double_words_bytes > max_payload_bytes.into() {
            return false;
        }
        at = at.wrapping_add(length.into());
        let is_last = index + 1 == lengths.len();
        if !is_last && !at.is_multiple_of(rcb_bytes.into()) {
            return false;
        }
    }
    at == end && (length_bytes > 0 || lengths.len() == 1)
}

/// Most boundaries inside a read that [`all_legal_completions`] accepts; each doubles the number of
/// answers.
pub const EXHAUSTIVE_BOUNDARIES: u32 = 12;

/// Lists every legal answer to a read, each as the lengths of its payloads: cuts at every subset of
/// the boundaries inside it, less those with a payload above `max_payload_bytes`. For tests: the
/// number of answers doubles with each boundary.
///
/// # Panics
/// If the read has more than [`EXHAUSTIVE_BOUNDARIES`] boundaries inside it, `rcb_bytes` is not 64
/// or 128, or the read crosses a 4 KiB boundary.
pub fn all_legal_completions(
    address: BusAddress,
    length_bytes: u32,
    rcb_bytes: u32,
    max_payload_bytes: u32,
) -> Vec<Vec<u32>> {
    assert_legal_read(address, length_bytes, rcb_bytes);
    let skip = (address.0 % u64::from(rcb_bytes)) as u32;
    // Distances from the start to each boundary inside the read.
    let boundaries: Vec<u32> = (1..)
        .map(|index| index * rcb_bytes - skip)
        .take_while(|&distance| distance < length_bytes)
        .collect();
    let count = boundaries.len() as u32;
    assert!(count <= EXHAUSTIVE_BOUNDARIES, "{count} boundaries: too many ways to list");
    (0_u32..1 << count)
        .map(|subset| {
            let chosen = boundaries.iter().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1);
            let ends = chosen.map(|(_, &distance)| distance).chain([length_bytes]);
            ends.scan(0, |start, end| Some(end - std::mem::replace(start, end))).collect()
        })
        .filter(|lengths: &Vec<u32>| {
            is_legal_completion_cut(address, length_bytes, rcb_bytes, max_payload_bytes, lengths)
        })
        .collect()
}

fn assert_legal_read(address: BusAddress, length_bytes: u32, rcb_bytes: u32) {
    assert!(matches!(rcb_bytes, 64 | 128), "a read completion boundary of {rcb_bytes} bytes");
    assert!(
        address.0 % PAGE_BYTES + u64::from(length_bytes) <= PAGE_BYTES,
        "a read of {length_bytes} bytes at {address} crosses a 4 KiB boundary"
    );
}
