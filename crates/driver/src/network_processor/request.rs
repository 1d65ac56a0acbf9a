// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Layout of requests in their aperture, and of a message in its memory, without any bus.

use std::ops::Range;

use crosslane_pcie::units::BusAddress;
use crosslane_regs::network_request as layout;
use crosslane_regs::network_request::{length, party, what};

use super::options::{Key, MAX_PAYLOADS, ROUTED_CHANNEL};

pub(super) const REQUEST_BYTES: usize = layout::BYTES as usize;
/// Bytes of a slot in the request apertures: a line of a processor's combining buffers.
pub(super) const SLOT_BYTES: usize = 64;

/// Content that all requests of a message share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Of {
    pub key: Key,
    pub token: u16,
    pub notify: BusAddress,
}

/// A part of the program's buffer that holds whole payloads of a message, or some of the bytes of
/// one that lies in several places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Bytes of the buffer.
    pub part: Range<u64>,
    /// Address by which the device reaches it, or `None` if the driver copies it.
    pub address: Option<BusAddress>,
}

impl Piece {
    /// Returns its length, bytes.
    pub const fn bytes(&self) -> u64 {
        self.part.end - self.part.start
    }
}

/// Cuts the places of a message of `bytes` so that the device reaches whole payloads of
/// `unit_bytes` there: each payload that lies in several of them is copied.
pub(super) fn cut(
    unit_bytes: u64,
    bytes: u64,
    places: impl Iterator<Item = (Range<u64>, BusAddress)>,
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    for (part, address) in places {
        let end = begin + part.end - part.start;
        let first = begin.next_multiple_of(unit_bytes).min(end);
        let last = if end == bytes { end } else { (end - end % unit_bytes).max(first) };
        for (from, to, is_copied) in [(begin, first, true), (first, last, false), (last, end, true)]
        {
            if from < to {
                let part = part.start + from - begin..part.start + to - begin;
                let address = (!is_copied).then(|| address.offset(from - begin));
                pieces.push(Piece { part, address });
            }
        }
        begin = end;
    }
    pieces
}

/// Groups pieces by their runs: copied ones that follow each other share one.
pub(super) fn by_run(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    pieces.chunk_by(|one, next| one.address.is_none() && next.address.is_none())
}

/// A contiguous piece of host memory, and its position in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub address: BusAddress,
    pub bytes: u32,
    /// Position in the message, in payloads.
    pub index: u32,
    pub is_last: bool,
}

/// Error of memory that runs cannot describe: a cut at byte `at` of the message, within a payload.
/// Only the driver's own memory can lie like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutWithin {
    pub at: u64,
}

/// Returns the runs of a message that lies in these places and is cut every `unit_bytes`.
pub(super) fn runs(
    unit_bytes: u64,
    places: impl Iterator<Item = (BusAddress, u32)>,
) -> Result<Vec<Run>, CutWithin> {
    let mut runs: Vec<Run> = Vec::new();
    let mut at = 0_u64;
    for (address, bytes) in places {
        if !at.is_multiple_of(unit_bytes) {
            return Err(CutWithin { at });
        }
        runs.push(Run { address, bytes, index: (at / unit_bytes) as u32, is_last: false });
        at += u64::from(bytes);
    }
    debug_assert!(at <= MAX_PAYLOADS * unit_bytes, "the caller has looked at the length");
    match runs.last_mut() {
        Some(last) => last.is_last = true,
        // A message of no bytes has a request, too.
        None => runs.push(Run { address: BusAddress(0), bytes: 0, index: 0, is_last: true }),
    }
    Ok(runs)
}

/// Encodes the request of a run.
pub(super) fn request(of: Of, run: Run) -> [u8; REQUEST_BYTES] {
    let flags = what::LAST.put(u32::from(run.is_last)) | what::INDEX.put(run.index);
    encode(of, flags, run)
}

/// Encodes a request that cancels a message.
pub(super) fn cancel(of: Of) -> [u8; REQUEST_BYTES] {
    let nothing = Run { address: BusAddress(0), bytes: 0, index: 0, is_last: false };
    encode(of, what::CANCEL.put(1), nothing)
}

fn encode(of: Of, flags: u32, run: Run) -> [u8; REQUEST_BYTES] {
    let (place, node) = match of.key {
        Key::Neighbour { link, channel, .. } => {
            (what::LINK.put(link.into()) | what::CHANNEL.put(channel.into()), 0)
        }
        Key::Routed { node, .. } => {
            (what::ROUTED.put(1) | what::CHANNEL.put(ROUTED_CHANNEL.into()), node)
        }
    };
    let mut bytes = [0; REQUEST_BYTES];
    let mut put = |offset: u32, word: u32| {
        bytes[offset as usize..offset as usize + 4].copy_from_slice(&word.to_le_bytes());
    };
    put(layout::WHAT, place | what::TAG.put(of.key.tag().into()) | flags);
    put(layout::LENGTH, length::BYTES.put(run.bytes));
    put(layout::BUFFER_LOW, run.address.0 as u32);
    put(layout::BUFFER_HIGH, (run.address.0 >> 32) as u32);
    put(layout::NOTIFY_LOW, of.notify.0 as u32);
    put(layout::NOTIFY_HIGH, (of.notify.0 >> 32) as u32);
    put(layout::PARTY, party::TOKEN.put(of.token.into()) | party::NODE.put(node.into()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEIGHBOUR: Key = Key::Neighbour { link: 5, channel: 3, tag: 41 };
    const ROUTED: Key = Key::Routed { node: 0x1234, tag: 63 };

    fn words(bytes: [u8; REQUEST_BYTES]) -> [u32; 8] {
        std::array::from_fn(|n| u32::from_le_bytes(bytes[4 * n..4 * n + 4].try_into().unwrap()))
    }

    #[test]
    fn requests_are_as_the_document_of_the_network_processor_has_them() {
        let of = Of { key: NEIGHBOUR, token: 0xabcd, notify: BusAddress(0x9_0000_0008) };
        let run =
            Run { address: BusAddress(0x1_2345_6789), bytes: 0x10_0000, index: 0, is_last: true };
        let what = 5 | 3 << 3 | 41 << 6 | 1 << 12;
        let want = [what, 0x10_0000, 0x2345_6789, 1, 8, 9, 0xabcd, 0];
        assert_eq!(words(request(of, run)), want);
        let of = Of { key: ROUTED, ..of };
        let run = Run { bytes: 120, index: 8191, is_last: false, ..run };
        let what = 6 << 3 | 63 << 6 | 1 << 13 | 8191 << 16;
        let want = [what, 120, 0x2345_6789, 1, 8, 9, 0x1234_abcd, 0];
        assert_eq!(words(request(of, run)), want);
        let what = 6 << 3 | 63 << 6 | 1 << 13 | 1 << 14;
        assert_eq!(words(cancel(of)), [what, 0, 0, 0, 8, 9, 0x1234_abcd, 0]);
    }

    /// Cuts a routed message in pages of 4 KiB that do not follow each other, by the message's
    /// bytes, its part of the buffer and whether each run is copied.
    fn cut_in_pages(part: Range<u64>, unit_bytes: u64) -> Vec<(u64, bool)> {
        let ends = (part.start / 4096..=(part.end - 1) / 4096).map(|page| {
            let begin = part.start.max(page << 12);
            (begin..part.end.min((page + 1) << 12), BusAddress((page << 20) + begin % 4096))
        });
        let pieces = cut(unit_bytes, part.end - part.start, ends);
        let mut at = part.start;
        for piece in &pieces {
            assert_eq!(piece.part.start, at);
            let there = BusAddress((at >> 12 << 20) + at % 4096);
            assert!(piece.address.is_none_or(|address| address == there), "{piece:?}");
            at = piece.part.end;
        }
        assert_eq!(at, part.end);
        let run =
            |pieces: &[Piece]| (pieces.iter().map(Piece::bytes).sum(), pieces[0].address.is_none());
        by_run(&pieces).map(run).collect()
    }

    #[test]
    fn payloads_that_lie_in_two_pages_are_copied() {
        assert_eq!(cut_in_pages(0..8192, 128), [(4096, false), (4096, false)]);
        let unaligned = [(3968, false), (128, true), (3968, false), (36, true)];
        assert_eq!(cut_in_pages(100..8200, 128), unaligned, "the last payload is short");
        let routed = [(4080, false), (120, true), (3960, false), (120, true), (20, false)];
        assert_eq!(cut_in_pages(0..8300, 120), routed);
        assert_eq!(cut_in_pages(4000..4100, 120), [(100, true)]);
        assert_eq!(cut_in_pages(4000..4090, 120), [(90, false)]);
    }

    #[test]
    fn copied_payloads_that_follow_each_other_are_one_run() {
        let blocks = (0..100).map(|at| (40 * at..40 * at + 24, BusAddress(40 * at)));
        let pieces = cut(128, 2400, blocks);
        assert_eq!(by_run(&pieces).count(), 1);
        assert_eq!(pieces.iter().map(Piece::bytes).sum::<u64>(), 2400);
        assert_eq!(pieces.last(), Some(&Piece { part: 3960..3984, address: None }));
    }

    #[test]
    fn runs_begin_where_a_payload_does() {
        let piece = |page: u64, bytes: u32| (BusAddress(page << 12), bytes);
        let pieces = [piece(7, 4096), piece(3, 4096), piece(9, 100)];
        let made = runs(NEIGHBOUR.unit_bytes(128), pieces.into_iter()).unwrap();
        let indices: Vec<_> = made.iter().map(|run| (run.index, run.is_last)).collect();
        assert_eq!(indices, [(0, false), (32, false), (64, true)]);
        let cut = [piece(7, 4000), piece(3, 4096)];
        assert_eq!(runs(NEIGHBOUR.unit_bytes(128), cut.into_iter()), Err(CutWithin { at: 4000 }));
        // A page is not a multiple of a routed datagram's payload.
        assert_eq!(runs(ROUTED.unit_bytes(128), pieces.into_iter()), Err(CutWithin { at: 4096 }));
        assert_eq!(runs(ROUTED.unit_bytes(128), [piece(1, 4096)].into_iter()).unwrap().len(), 1);
        let none = runs(NEIGHBOUR.unit_bytes(128), std::iter::empty()).unwrap();
        assert_eq!(
            none,
            [Run { address: BusAddress(0), bytes: 0, index: 0, is_last: true }],
            "a message of no bytes"
        );
    }
}
