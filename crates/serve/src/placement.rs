// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Placement of served functions on the lab's buses: at the addresses that their clients wrote, as
//! long as bridges can route them, with the windows of the bridges above.

use std::collections::BTreeMap;

use crosslane_fabric::INTERRUPT_ADDRESSES;
use crosslane_pcie::config::{Bar, BarKind};
use crosslane_pcie::units::RoutingId;

/// Granularity of bridge windows, bytes (PCIe 6.x 7.5.1.3.8).
const GRANULE: u64 = 1 << 20;
/// Addresses for 32-bit functions that cannot be placed where their clients want them: from the top
/// of a PC's device range, where no machine has memory.
const PARKING_32: std::ops::Range<u64> = 0xc000_0000..0xfec0_0000;
/// The same for 64-bit functions: above the device ranges of machines.
const PARKING_64: std::ops::Range<u64> = 1 << 50..1 << 51;
/// Attempts at parking a function.
const PARKING_TRIES: usize = 1024;

/// A range of addresses, inclusive.
type Span = (u64, u64);

/// The two windows of a bridge: 32-bit, and prefetchable.
pub(crate) type Windows = [Option<Span>; 2];

/// The bridges of a host, and the functions below them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bridges {
    /// The bridge above each function; `None` for a root port.
    pub parents: BTreeMap<RoutingId, Option<RoutingId>>,
}

impl Bridges {
    /// Returns all bridges above a function, nearest first.
    fn above(&self, function: RoutingId) -> impl Iterator<Item = RoutingId> {
        let parent = |id: &RoutingId| self.parents.get(id).copied().flatten();
        std::iter::successors(parent(&function), parent)
    }
}

/// A function to be placed.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub function: RoutingId,
    /// BARs of the function, at the addresses that the client wrote.
    pub bars: Vec<Bar>,
}

/// The positions of functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// First address of each BAR, by function and number.
    pub bars: BTreeMap<(RoutingId, usize), u64>,
    /// Windows of the bridges above; bridges not listed are closed.
    pub windows: BTreeMap<RoutingId, Windows>,
    /// Functions placed elsewhere than requested, each with the function in the way (itself if its
    /// addresses are impossible).
    pub parked: Vec<(RoutingId, RoutingId)>,
    /// Functions that could not be placed at all.
    pub nowhere: Vec<RoutingId>,
}

/// Returns the bridge window of a BAR: only 64-bit prefetchable memory may lie above 4 GiB (PCIe
/// 6.x 7.5.1.3.8).
const fn space_of(kind: BarKind) -> usize {
    (kind.is_64_bit() && kind.is_prefetchable()) as usize
}

fn hull(a: Option<Span>, b: Span) -> Option<Span> {
    Some(a.map_or(b, |a| (a.0.min(b.0), a.1.max(b.1))))
}

fn touch(a: Span, b: Span) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

/// Places functions, in order of priority.
pub(crate) fn place(bridges: &Bridges, wanted: &[Wanted]) -> Placement {
    let mut placement = Placement::default();
    let mut placed: Vec<Wanted> = Vec::new();
    // Functions that fit where requested come before those that do not.
    let mut homeless = Vec::new();
    for function in wanted {
        match fits(bridges, &placed, function) {
            Ok(()) => placed.push(function.clone()),
            Err(in_the_way) => homeless.push((function, in_the_way)),
        }
    }
    for (function, in_the_way) in homeless {
        match park(bridges, &placed, function) {
            Some(parked) => {
                placement.parked.push((function.function, in_the_way));
                placed.push(parked);
            }
            None => placement.nowhere.push(function.function),
        }
    }
    for function in &placed {
        for bar in &function.bars {
            placement.bars.insert((function.function, bar.index), bar.base.0);
        }
    }
    placement.windows = windows(bridges, &placed);
    placement
}

/// Returns the range of a function's BARs in each space, in granules.
fn spans(function: &Wanted) -> Windows {
    let mut spans = [None; 2];
    for bar in &function.bars {
        let first = bar.base.0 & !(GRANULE - 1);
        let last = bar.base.0.saturating_add(bar.size_bytes - 1) | (GRANULE - 1);
        let space = space_of(bar.kind);
        spans[space] = hull(spans[space], (first, last));
    }
    spans
}

fn windows(bridges: &Bridges, placed: &[Wanted]) -> BTreeMap<RoutingId, Windows> {
    let mut windows: BTreeMap<RoutingId, Windows> = BTreeMap::new();
    for function in placed {
        let spans = spans(function);
        for bridge in bridges.above(function.function) {
            let of_bridge = windows.entry(bridge).or_default();
            for space in 0..2 {
                if let Some(span) = spans[space] {
                    of_bridge[space] = hull(of_bridge[space], span);
                }
            }
        }
    }
    windows
}

/// Checks whether a function fits at its BARs' addresses beside those placed; else returns the
/// function in the way.
fn fits(bridges: &Bridges, placed: &[Wanted], function: &Wanted) -> Result<(), RoutingId> {
    let own = function.function;
    let is_possible = function.bars.iter().all(|bar| {
        let last = bar.base.0.checked_add(bar.size_bytes - 1);
        let below_4_gib = last.is_some_and(|last| last < 1 << 32);
        bar.base.0 >= GRANULE && last.is_some() && (below_4_gib || space_of(bar.kind) == 1)
    });
    let interrupts = (INTERRUPT_ADDRESSES.start, INTERRUPT_ADDRESSES.end - 1);
    let spans = spans(function);
    let all: Vec<Span> = spans.into_iter().flatten().collect();
    let is_apart = !matches!(&all[..], [a, b] if touch(*a, *b));
    if !is_possible || !is_apart || all.iter().any(|span| touch(*span, interrupts)) {
        return Err(own);
    }
    let mut with: Vec<Wanted> = placed.to_vec();
    with.push(function.clone());
    let windows = windows(bridges, &with);
    // Bridges on one bus, including root ports on that of the root complex, must not share an
    // address; nor may the two windows of one bridge.
    let all: Vec<(RoutingId, Span)> = windows
        .iter()
        .flat_map(|(bridge, windows)| windows.iter().flatten().map(|span| (*bridge, *span)))
        .collect();
    for (number, (bridge, span)) in all.iter().enumerate() {
        for (other, other_span) in &all[..number] {
            let is_one_bus = bridges.parents.get(bridge) == bridges.parents.get(other);
            if is_one_bus && touch(*span, *other_span) {
                let is_below = |function: &&Wanted, bridge: RoutingId| {
                    bridges.above(function.function).any(|above| above == bridge)
                };
                let other = placed.iter().find(|function| {
                    let (one, two) = (is_below(function, *bridge), is_below(function, *other));
                    one || two
                });
                return Err(other.map_or(own, |other| other.function));
            }
        }
    }
    Ok(())
}

/// Places a function at addresses of our choice.
fn park(bridges: &Bridges, placed: &[Wanted], function: &Wanted) -> Option<Wanted> {
    let mut bases = [PARKING_32.end, PARKING_64.end];
    let mut parked = function.clone();
    // Largest first, downwards, so that each is aligned; functions do not share granules.
    parked.bars.sort_by_key(|bar| std::cmp::Reverse(bar.size_bytes));
    for _ in 0..PARKING_TRIES {
        for (space, base) in bases.iter_mut().enumerate() {
            let of_space = parked.bars.iter_mut().filter(|bar| space_of(bar.kind) == space);
            for bar in of_space {
                *base = base.checked_sub(bar.size_bytes)? & !(bar.size_bytes - 1);
                bar.base.0 = *base;
            }
            *base &= !(GRANULE - 1);
        }
        if bases[0] < PARKING_32.start || bases[1] < PARKING_64.start {
            return None;
        }
        if fits(bridges, placed, &parked).is_ok() {
            return Some(parked);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_pcie::units::BusAddress;

    const MIB: u64 = 1 << 20;

    fn id(bus: u8) -> RoutingId {
        RoutingId::new(bus, 0, 0)
    }

    fn port(number: u8) -> RoutingId {
        RoutingId::new(2, number, 0)
    }

    /// A root port, a switch's upstream port below it, two downstream ports with functions 10 and
    /// 11; and a root port with function 12.
    fn bridges() -> Bridges {
        let root = |number| RoutingId::new(0, number, 0);
        let parents = [
            (root(1), None),
            (root(2), None),
            (id(1), Some(root(1))),
            (port(0), Some(id(1))),
            (port(1), Some(id(1))),
            (id(10), Some(port(0))),
            (id(11), Some(port(1))),
            (id(12), Some(root(2))),
        ];
        Bridges { parents: parents.into() }
    }

    fn wanted(bus: u8, bars: &[(u64, u64)]) -> Wanted {
        let bar = |(index, (base, size_bytes)): (usize, &(u64, u64))| {
            let kind = match *base >= 1 << 32 {
                true => BarKind::Memory64 { prefetchable: true },
                false => BarKind::Memory32 { prefetchable: false },
            };
            Bar { index, base: BusAddress(*base), size_bytes: *size_bytes, kind }
        };
        Wanted { function: id(bus), bars: bars.iter().enumerate().map(bar).collect() }
    }

    #[test]
    fn windows_are_the_hull_of_what_is_below() {
        let all = [
            wanted(10, &[(0xe000_0000, 0x1_0000), (0xe010_0000, 4 * MIB)]),
            wanted(11, &[(0xe080_0000, 0x1_0000), (1 << 40, MIB)]),
            wanted(12, &[(0xd000_0000, MIB)]),
        ];
        let placement = place(&bridges(), &all);
        assert_eq!((placement.parked.len(), placement.nowhere.len()), (0, 0));
        let upper = Some((1 << 40, (1 << 40) + MIB - 1));
        let windows = &placement.windows;
        assert_eq!(windows[&port(0)], [Some((0xe000_0000, 0xe04f_ffff)), None]);
        assert_eq!(windows[&port(1)], [Some((0xe080_0000, 0xe08f_ffff)), upper]);
        for above in [id(1), RoutingId::new(0, 1, 0)] {
            assert_eq!(windows[&above], [Some((0xe000_0000, 0xe08f_ffff)), upper]);
        }
        assert_eq!(windows[&RoutingId::new(0, 2, 0)], [Some((0xd000_0000, 0xd00f_ffff)), None]);
        assert_eq!(placement.bars[&(id(11), 1)], 1 << 40);
    }

    #[test]
    fn who_comes_later_gives_way() {
        let first = wanted(10, &[(0xe000_0000, 0x1_0000)]);
        // The same address, the same granule, and around the other's.
        for bars in [
            &[(0xe000_0000, 0x1_0000)][..],
            &[(0xe008_0000, 0x1_0000)],
            &[(0xdff0_0000, 0x1_0000), (0xe010_0000, 0x1_0000)],
        ] {
            for bus in [11, 12] {
                let placement = place(&bridges(), &[first.clone(), wanted(bus, bars)]);
                assert_eq!(placement.parked, [(id(bus), id(10))], "{bars:x?}");
                assert_eq!(placement.bars[&(id(10), 0)], 0xe000_0000);
                let base = placement.bars[&(id(bus), 0)];
                assert!(PARKING_32.contains(&base) && !(0xe000_0000..0xe010_0000).contains(&base));
                let of_first = placement.windows[&port(0)][0].unwrap();
                assert_eq!(of_first, (0xe000_0000, 0xe00f_ffff));
            }
        }
    }

    #[test]
    fn addresses_that_cannot_be_are_not_taken() {
        for bars in [&[(0xfee0_0000, 0x1000)][..], &[(0, 0x1000)], &[(0xffff_f000, 0x10_0000)]] {
            let placement = place(&bridges(), &[wanted(12, bars)]);
            assert_eq!(placement.parked, [(id(12), id(12))], "{bars:x?}");
        }
        // More than the space available.
        let placement = place(&bridges(), &[wanted(12, &[(0, 1 << 31)])]);
        assert_eq!(placement.nowhere, [id(12)]);
        assert_eq!(placement.windows, BTreeMap::new());
    }

    /// Eight machines, each with one device, all at the same address.
    #[test]
    fn each_gets_a_place_of_its_own() {
        let mut bridges = Bridges::default();
        let mut all = Vec::new();
        for number in 1..9 {
            let root = RoutingId::new(0, number, 0);
            bridges.parents.insert(root, None);
            bridges.parents.insert(id(number), Some(root));
            let bars = [(0xfe00_0000, 0x1_0000), (0xfe40_0000, 4 * MIB), (1 << 38, 1 << 30)];
            all.push(wanted(number, &bars));
        }
        let placement = place(&bridges, &all);
        assert_eq!((placement.parked.len(), placement.nowhere.len()), (7, 0));
        let spans: Vec<Span> = placement
            .windows
            .values()
            .flat_map(|windows| windows.iter().flatten())
            .copied()
            .collect();
        assert_eq!(spans.len(), 16);
        for (number, span) in spans.iter().enumerate() {
            assert!(spans[..number].iter().all(|other| !touch(*span, *other)));
        }
        for ((_, index), base) in &placement.bars {
            assert!(base.is_multiple_of([0x1_0000, 4 * MIB, 1 << 30][*index]));
        }
    }
}
