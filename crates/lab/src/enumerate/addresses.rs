// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Address allocation: largest alignment first, so that powers of two leave no gaps.

use std::ops::Range;

use super::tree::Function;
use super::{WINDOWS_32, WINDOWS_64_END};

/// A range not yet placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Length, bytes.
    pub size: u64,
    /// Alignment of its base, a power of two.
    pub align: u64,
}

impl Room {
    /// The empty range.
    pub const NONE: Self = Self { size: 0, align: 1 };

    /// Rounds up to whole granules; an empty range stays empty. `None` beyond 64 bits.
    pub fn rounded(self, granule: u64) -> Option<Self> {
        if self.size == 0 {
            return Some(Self::NONE);
        }
        let size = self.size.checked_next_multiple_of(granule)?;
        Some(Self { size, align: self.align.max(granule) })
    }
}

/// Returns the ranges within a function's range in one of the two spaces: a bridge's children, or
/// an endpoint's BARs (empty for those of the other space).
pub(super) fn items(function: &Function, rooms: &[[Room; 2]], space: usize) -> Vec<Room> {
    if function.port_type.is_bridge() {
        return function.children.iter().map(|&child| rooms[child][space]).collect();
    }
    let room = |bar: &crosslane_pcie::config::Bar| match space_of(bar.kind) == space {
        true => Room { size: bar.size_bytes, align: bar.size_bytes },
        false => Room::NONE,
    };
    function.bars.iter().map(room).collect()
}

/// Returns the index of the space for a kind of BAR. Only 64-bit prefetchable memory may lie above
/// 4 GiB: the other window of a bridge has 32 bits (PCIe 6.x 7.5.1.3.8).
pub(super) const fn space_of(kind: crosslane_pcie::config::BarKind) -> usize {
    (kind.is_64_bit() && kind.is_prefetchable()) as usize
}

/// Packs ranges: returns their offsets, and the range that holds them all. `None` beyond 64 bits.
pub(super) fn pack(items: &[Room]) -> Option<(Vec<u64>, Room)> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(items[index].align));
    let mut offsets = vec![0; items.len()];
    let mut whole = Room::NONE;
    for index in order {
        let item = items[index];
        if item.size == 0 {
            continue;
        }
        let offset = whole.size.checked_next_multiple_of(item.align)?;
        offsets[index] = offset;
        whole.size = offset.checked_add(item.size)?;
        whole.align = whole.align.max(item.align);
    }
    Some((offsets, whole))
}

/// Places a range as high as possible below 4 GiB; `None` if it does not fit.
pub(super) fn as_high_as_possible(room: Room) -> Option<Range<u64>> {
    let base = WINDOWS_32.end.checked_sub(room.size)? & !(room.align - 1);
    (base >= WINDOWS_32.start).then(|| base..base + room.size)
}

/// Places a range at or after `start`; `None` if it does not fit.
pub(super) fn from(start: u64, room: Room) -> Option<Range<u64>> {
    let base = start.checked_next_multiple_of(room.align)?;
    let end = base.checked_add(room.size)?;
    (end <= WINDOWS_64_END).then_some(base..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(bits: u32) -> Room {
        Room { size: 1 << bits, align: 1 << bits }
    }

    #[test]
    fn powers_of_two_leave_no_gap() {
        let (offsets, whole) = pack(&[power(12), power(20), Room::NONE, power(16)]).unwrap();
        assert_eq!(offsets, [(1 << 20) + (1 << 16), 0, 0, 1 << 20]);
        assert_eq!(whole, Room { size: (1 << 20) + (1 << 16) + (1 << 12), align: 1 << 20 });
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(pack(&[power(63), power(63)]), None);
        assert_eq!(as_high_as_possible(power(31)), None);
        assert_eq!(as_high_as_possible(power(30)), Some(0x8000_0000..0xc000_0000));
        assert_eq!(as_high_as_possible(Room::NONE), Some(0xfec0_0000..0xfec0_0000));
        assert_eq!(from(1 << 32, power(52)), None);
        assert_eq!(from(3, power(4)), Some(16..32));
    }
}
