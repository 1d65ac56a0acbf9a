// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bottlenecks in IOMMUs: a working set beyond the IOTLB.

use crosslane_experiment::{Scenario, TrafficWork};
use crosslane_fabric::parameters::IommuParameters;
use crosslane_fabric::{FlowKind, IO_LARGE_PAGE_BYTES, IO_PAGE_BYTES};
use crosslane_lab::Lab;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind::{Iotlb, MemoryLatency};
use crosslane_results::{Explanation, IommuUse, Use};

use crate::planted::runs::{generic, reads, switched_peers, with_host, writes};
use crate::planted::{Planted, explained};

const SMALL: u64 = IO_PAGE_BYTES;
const LARGE: u64 = IO_LARGE_PAGE_BYTES;

/// Returns the lab with an IOMMU that makes one walk at a time.
fn with_iommu(iotlb_entries: u32, walk_ns: u64, largest_page_bytes: u64) -> Lab {
    with_host(|part| {
        part.parameters.iommu = Some(IommuParameters {
            iotlb_entries,
            hit: Picoseconds::ZERO,
            walk: Picoseconds::from_ns(walk_ns),
            walks: 1,
            largest_page_bytes,
            map_page: Picoseconds::ZERO,
            invalidate: Picoseconds::ZERO,
            reads_in_order: false,
        });
    })
}

/// Each page of the buffers misses an IOTLB of four: a walk of 4 us for 4 KiB. Pages of 2 MiB, with
/// all else the same, fit into it.
#[test]
fn pages_that_the_iotlb_does_not_hold() {
    for run in [reads, writes] {
        let base = explained(&run(with_iommu(4, 4000, LARGE)));
        let case = run(with_iommu(4, 4000, SMALL));
        let outcome = case.run(&(), None).unwrap();
        let planted = Planted { case, without: run(with_iommu(4, 0, SMALL)), base: &base };
        let words = "misses of host0's IOTLB of 4 pages, walks of 4 us for them, one at once";
        let found = planted.is_named(Iotlb, "host0", words);
        assert_eq!(found.steps[0].limits[0].lifted, "every page held");
        // The rate is that of the walks, some of them for descriptors; the link waited for them.
        let of_walks = found.figure.value * 4e-6 / 4096.0;
        assert!((0.85..=1.0).contains(&of_walks), "{of_walks}");
        let account = outcome.account.unwrap();
        assert!(account.share(Use::Translation) > 0.4, "{account:?}");
        let [iommu] = &account.iommus[..] else { panic!("{account:?}") };
        check_evidence(iommu);
        assert!(iommu.walks_at_once > 0.95 && iommu.misses >= 250, "{iommu:?}");
    }
}

/// Checks the invariants of any evidence.
fn check_evidence(iommu: &IommuUse) {
    assert_eq!((iommu.host.as_str(), iommu.iotlb_entries, iommu.walks), ("host0", 4, 1));
    assert!(iommu.misses + iommu.joined <= iommu.requests, "{iommu:?}");
    assert!(iommu.walking_ps <= iommu.misses * iommu.walk_ps, "{iommu:?}");
    assert!(iommu.waited_ps >= iommu.queued_ps + iommu.walking_ps, "{iommu:?}");
    // A walk counts from its request on.
    assert!(iommu.walks_at_once <= f64::from(iommu.walks) * 1.05, "{iommu:?}");
}

/// A page in the IOTLB costs the time of a hit, which adds to the memory's latency.
#[test]
fn hits_are_a_latency_of_the_memory() {
    let run = |hit_ns| {
        let lab = with_iommu(4, 1000, SMALL).edited(|file| {
            let part = std::sync::Arc::make_mut(&mut file.hosts[0].part);
            part.parameters.iommu.as_mut().unwrap().hit = Picoseconds::from_ns(hit_ns);
        });
        one_read_at_a_time(lab.unwrap())
    };
    let latency = |why: &Explanation| {
        let trial = why.trials.iter().find(|trial| trial.limit.kind == MemoryLatency);
        trial.unwrap().clone()
    };
    let (slow, without) = (latency(&explained(&run(5000))), latency(&explained(&run(0))));
    assert_eq!(slow.limit.place, "host0");
    assert!(slow.gain > without.gain + 2.0, "{slow:?} {without:?}");
    // The run is the same if a hit takes no time either.
    assert!((slow.value / without.value - 1.0).abs() < 0.002, "{slow:?} {without:?}");
}

fn one_read_at_a_time(lab: Lab) -> Scenario<TrafficWork> {
    let mut run = generic(lab, 100, &[("card5", "host0", FlowKind::Read, 64)]);
    run.work.choices.outstanding = Some(1);
    run
}

/// Requests that a switch forwards between its ports never meet the IOMMU, and stores of a core are
/// not translated.
#[test]
fn it_is_no_limit_of_what_it_does_not_translate() {
    let lab = || with_iommu(4, 4000, SMALL);
    for run in [
        generic(lab(), 50, &[("card1", "card2", FlowKind::Write, 1024)]),
        generic(lab(), 50, &[("host0", "card5", FlowKind::Write, 64)]),
    ] {
        let why = explained(&run);
        assert!(why.trials.iter().all(|trial| trial.limit.kind != Iotlb), "{why:?}");
        let outcome = run.run(&(), None).unwrap();
        assert_eq!(outcome.account.unwrap().iommus, []);
    }
    // An engine's status is still written to memory.
    let why = explained(&switched_peers(lab()));
    let trial = why.trials.iter().find(|trial| trial.limit.kind == Iotlb).unwrap();
    assert!(why.steps.iter().flat_map(|step| &step.limits).all(|limit| limit.kind != Iotlb));
    assert!(trial.gain < 0.05, "{trial:?}");
}
