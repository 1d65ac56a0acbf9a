// SPDX-License-Identifier: Apache-2.0 OR MIT

use proptest::prelude::*;

use super::*;

const F: RoutingId = RoutingId(0x100);
const G: RoutingId = RoutingId(0x200);
const PAGE: u64 = IO_PAGE_BYTES;
const LARGE: u64 = IO_LARGE_PAGE_BYTES;
const HIT_PS: u64 = 5_000;
const WALK_PS: u64 = 200_000;

fn iommu(iotlb_entries: u32, walks: u32, largest_page_bytes: u64) -> Iommu {
    Iommu::new(IommuParameters {
        iotlb_entries,
        hit: Picoseconds(HIT_PS),
        walk: Picoseconds(WALK_PS),
        walks,
        largest_page_bytes,
        reads_in_order: false,
        map_page: Picoseconds::ZERO,
        invalidate: Picoseconds::ZERO,
    })
}

fn at(address: u64) -> BusAddress {
    BusAddress(address)
}

#[test]
fn a_mapping_leads_to_its_target_and_to_nothing_else() {
    let mut iommu = iommu(8, 1, LARGE);
    assert_eq!(iommu.map(F, at(0x10_000), at(0x90_000), 3 * PAGE), Ok(3));
    assert_eq!(iommu.translate(F, at(0x10_000), 64), Some(at(0x90_000)));
    assert_eq!(iommu.translate(F, at(0x12_fc0), 64), Some(at(0x92_fc0)));
    for (function, address, bytes) in
        [(F, 0x13_000, 1), (F, 0xffff, 1), (F, 0x12_fc0, 65), (G, 0x10_000, 64)]
    {
        assert_eq!(iommu.translate(function, at(address), bytes), None, "{function} {address:#x}");
    }
    // Another function may map other memory at the same address.
    assert_eq!(iommu.map(G, at(0x10_000), at(0x50_000), PAGE), Ok(1));
    assert_eq!(iommu.translate(G, at(0x10_010), 4), Some(at(0x50_010)));
    assert_eq!(iommu.unmap(F, at(0x10_000)), Ok(3));
    assert_eq!(iommu.translate(F, at(0x10_000), 64), None);
    assert_eq!(iommu.translate(G, at(0x10_010), 4), Some(at(0x50_010)));
}

#[test]
fn what_cannot_be_mapped_is_refused_with_its_values() {
    let mut iommu = iommu(8, 1, LARGE);
    for (address, target, bytes) in [
        (0x10_001, 0, PAGE),
        (0x10_000, 0x800, PAGE),
        (0x10_000, 0, 100),
        (0x10_000, 0, 0),
        (!(PAGE - 1), 0, PAGE),
        (0, !(PAGE - 1), PAGE),
    ] {
        let refused = iommu.map(F, at(address), at(target), bytes);
        assert!(matches!(refused, Err(IommuError::NoPages { .. })), "{address:#x} {refused:?}");
    }
    iommu.map(F, at(0x10_000), at(0), 4 * PAGE).unwrap();
    for (address, bytes) in [(0x10_000, PAGE), (0x13_000, 2 * PAGE), (0xf_000, 2 * PAGE)] {
        let refused = iommu.map(F, at(address), at(0x80_000), bytes).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "{bytes} B at {} of {F} overlap what is mapped at {}",
                at(address),
                at(0x10_000)
            )
        );
    }
    assert!(iommu.map(F, at(0xf_000), at(0), PAGE).is_ok());
    assert!(iommu.map(F, at(0x14_000), at(0), PAGE).is_ok());
    assert_eq!(
        iommu.unmap(F, at(0x11_000)),
        Err(IommuError::NotMapped { function: F, address: at(0x11_000) })
    );
}

#[test]
fn a_page_is_walked_for_once_and_then_held() {
    let mut iommu = iommu(8, 1, LARGE);
    iommu.map(F, at(0), at(0), 2 * PAGE).unwrap();
    assert_eq!(iommu.look_up(1_000, F, at(64)), 1_000 + WALK_PS + HIT_PS);
    // A request before the end of the walk waits for it; later ones hit.
    assert_eq!(iommu.look_up(1_000 + WALK_PS / 2, F, at(128)), 1_000 + WALK_PS + HIT_PS);
    assert_eq!(iommu.look_up(1_000 + WALK_PS, F, at(128)), 1_000 + WALK_PS + HIT_PS);
    assert_eq!(iommu.look_up(900_000, F, at(4095)), 900_000 + HIT_PS);
    assert_eq!(iommu.look_up(900_000, F, at(4096)), 900_000 + WALK_PS + HIT_PS);
    let IommuCounters { hits, misses, joined, .. } = iommu.counters;
    assert_eq!((hits, misses, joined), (2, 2, 1));
}

#[test]
fn walks_are_so_many_at_once_and_the_rest_wait() {
    let mut iommu = iommu(64, 2, LARGE);
    iommu.map(F, at(0), at(0), 16 * PAGE).unwrap();
    let ends: Vec<u64> = (0..5).map(|page| iommu.look_up(0, F, at(page * PAGE))).collect();
    let walk = |number: u64| number * WALK_PS + HIT_PS;
    assert_eq!(ends, [walk(1), walk(1), walk(2), walk(2), walk(3)]);
    // 0 + 0 + 1 + 1 + 2 walks.
    assert_eq!(iommu.counters.queued, Picoseconds(4 * WALK_PS));
}

#[test]
fn a_working_set_beyond_the_entries_thrashes() {
    for (pages, hits_of_later_rounds) in [(8, 8), (9, 0)] {
        let mut iommu = iommu(8, 1, LARGE);
        iommu.map(F, at(0), at(0), 16 * PAGE).unwrap();
        let mut now_ps = 0;
        for round in 0..4 {
            let before = iommu.counters.hits;
            for page in 0..pages {
                now_ps = iommu.look_up(now_ps, F, at(page * PAGE));
            }
            let expected = if round == 0 { 0 } else { hits_of_later_rounds };
            assert_eq!(iommu.counters.hits - before, expected, "{pages} pages, round {round}");
        }
    }
}

#[test]
fn large_pages_take_one_entry_where_both_ends_are_aligned() {
    // Half a large page in small pages on each side of two large ones.
    let begin = LARGE / 2;
    let small = LARGE / 2 / PAGE;
    let mut aligned = iommu(8, 1, LARGE);
    assert_eq!(aligned.map(F, at(begin), at(LARGE * 8 + begin), 3 * LARGE), Ok(2 * small + 2));
    let mut now_ps = aligned.look_up(0, F, at(LARGE));
    now_ps = aligned.look_up(now_ps, F, at(2 * LARGE - 64));
    now_ps = aligned.look_up(now_ps, F, at(begin));
    aligned.look_up(now_ps, F, at(begin + PAGE));
    assert_eq!((aligned.counters.hits, aligned.counters.misses), (1, 3));
    assert_eq!(aligned.translate(F, at(LARGE + 5), 4), Some(at(9 * LARGE + 5)));

    let mut unaligned = iommu(8, 1, LARGE);
    assert_eq!(unaligned.map(F, at(LARGE), at(PAGE), LARGE), Ok(2 * small));
    let mut without = iommu(8, 1, PAGE);
    assert_eq!(without.map(F, at(LARGE), at(LARGE), LARGE), Ok(2 * small));
}

#[test]
fn what_is_unmapped_is_not_held_even_if_it_was_on_its_way() {
    let mut iommu = iommu(8, 1, LARGE);
    for (address, now_ps) in [(0, 0), (PAGE, WALK_PS)] {
        iommu.map(F, at(address), at(0x80_000), PAGE).unwrap();
        iommu.look_up(now_ps, F, at(address));
    }
    // The first page is held; the second is being walked.
    iommu.unmap(F, at(0)).unwrap();
    iommu.unmap(F, at(PAGE)).unwrap();
    iommu.map(F, at(0), at(0x40_000), 2 * PAGE).unwrap();
    for address in [0, PAGE] {
        iommu.look_up(4 * WALK_PS, F, at(address));
    }
    assert_eq!((iommu.counters.hits, iommu.counters.misses), (0, 4));
    assert_eq!(iommu.translate(F, at(PAGE), 4), Some(at(0x41_000)));
}

#[test]
fn what_is_not_mapped_is_walked_for_each_time() {
    let mut iommu = iommu(8, 1, LARGE);
    let mut now_ps = 0;
    for _ in 0..3 {
        let done_ps = iommu.look_up(now_ps, F, at(0x5000));
        assert_eq!(done_ps - now_ps, WALK_PS + HIT_PS);
        now_ps = done_ps;
    }
    assert_eq!(iommu.counters.misses, 3);
}

proptest! {
    /// Compares with a plain list of pages: the same translations, and the same misses as a
    /// least-recently-used list.
    #[test]
    fn agrees_with_a_list_of_pages(
        steps in prop::collection::vec((0u8..3, 0u64..24, 1u64..6), 1..200),
        entries in 0u32..6,
    ) {
        let mut iommu = iommu(entries, 1, PAGE);
        let mut table: BTreeMap<u64, u64> = BTreeMap::new();
        let mut begins: BTreeMap<u64, u64> = BTreeMap::new();
        let mut recent: Vec<u64> = Vec::new();
        let (mut now_ps, mut misses) = (0, 0);
        for (number, (what, page, pages)) in (0u64..).zip(steps) {
            let address = at(page * PAGE);
            match what {
                0 => {
                    let target = 1000 + number * 8;
                    let free = (page..page + pages).all(|page| !table.contains_key(&page));
                    let mapped = iommu.map(F, address, at(target * PAGE), pages * PAGE);
                    prop_assert_eq!(mapped.is_ok(), free);
                    if free {
                        table.extend((0..pages).map(|step| (page + step, target + step)));
                        begins.insert(page, pages);
                    }
                }
                1 => {
                    let begun = begins.remove(&page);
                    prop_assert_eq!(iommu.unmap(F, address).ok(), begun);
                    for page in page..page + begun.unwrap_or(0) {
                        table.remove(&page);
                        recent.retain(|held| *held != page);
                    }
                }
                _ => {
                    let to = iommu.translate(F, address, 4);
                    prop_assert_eq!(to, table.get(&page).map(|target| at(target * PAGE)));
                    now_ps = iommu.look_up(now_ps, F, address);
                    iommu.settle(now_ps);
                    let held = recent.iter().position(|held| *held == page);
                    misses += u64::from(held.is_none());
                    if let Some(place) = held {
                        recent.remove(place);
                    }
                    if to.is_some() {
                        recent.push(page);
                    }
                    if recent.len() > entries as usize {
                        recent.remove(0);
                    }
                    prop_assert_eq!(iommu.counters.misses, misses);
                }
            }
        }
    }
}
