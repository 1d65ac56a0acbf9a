// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores into the window of the lab `aws-f1`: what the card counts, what is there afterwards, and
//! how long it takes.

use crosslane_driver::MemoryCard;
use crosslane_experiment::{MmioMeasured, MmioOptions, Program, mmio};
use crosslane_host::{Mapping, Routines};
use crosslane_lab::{Simulation, open};
use crosslane_pcie::units::HostId;

fn routines() -> Routines {
    open("aws-f1").unwrap().file().hosts[0].part.routines.unwrap()
}

fn measure(size_bytes: u64, passes: u64, program: Program, mapping: Mapping) -> MmioMeasured {
    let simulation = Simulation::new(open("aws-f1").unwrap().build_engines(1).unwrap());
    let options = MmioOptions::new(size_bytes, program, mapping).with_passes(passes).with_seed(7);
    let measured = simulation.run("mmio", async {
        let card = MemoryCard::open_by_name(simulation.bus(HostId(0)), "f1").await?;
        mmio(&card, &options).await
    });
    let measured = measured.unwrap().unwrap();
    assert_eq!(measured.data_errors.words, 0);
    simulation.finish().unwrap();
    measured
}

/// As the metrics command of the aws-f1 paper shows: 16 integers are 16 beats, or one.
#[test]
fn sixteen_integers_are_sixteen_beats_or_one() {
    let uncached = measure(64, 1, Program::Burst, Mapping::Uncached);
    assert_eq!(
        uncached.metrics.beats.iter().map(|beats| beats.0).collect::<Vec<_>>(),
        [16, 0, 0, 0]
    );
    assert_eq!(uncached.metrics.sizes.iter().find(|size| size.1 > 0), Some(&(4, 16, 0)));
    let combined = measure(64, 1, Program::Burst, Mapping::WriteCombined);
    assert_eq!(combined.metrics.beats[0].0, 1);
    assert_eq!(combined.metrics.sizes.iter().find(|size| size.1 > 0), Some(&(64, 1, 0)));
    let shown = combined.metrics.to_string();
    assert!(shown.starts_with("DDR0\n   write-count=1\n"), "{shown}");
}

/// Uncached, a store takes as long whatever its width: 143.92 ns.
#[test]
fn an_uncached_store_takes_its_time() {
    for (program, stores) in [(Program::Burst, 1024), (Program::Copy, 128)] {
        let measured = measure(4096, 3, program, Mapping::Uncached);
        assert_eq!(measured.elapsed.0, 3 * stores * 143_920);
    }
    // 8 B up to 128 B; 32 B and a tail of 128 B once more; byte by byte from 2 KiB on.
    for (size_bytes, stores) in [(64, 8), (128, 16), (256, 12), (1024, 36), (2048, 2048)] {
        let measured = measure(size_bytes, 2, Program::Library(routines()), Mapping::Uncached);
        assert_eq!(measured.elapsed.0, 2 * (stores * 143_920 + 118_000), "{size_bytes}");
    }
}

/// Combined, words are as fast as the processor stores them, and wide stores as fast as the card
/// takes lines.
#[test]
fn combined_stores_are_bound_by_the_processor_or_the_card() {
    let words = measure(64 << 10, 2, Program::Burst, Mapping::WriteCombined);
    let rate = words.bytes_per_second() / 1e9;
    assert!((rate - 4.0 / 2.366).abs() < 0.01, "{rate}");
    let wide = measure(1 << 20, 2, Program::Copy, Mapping::WriteCombined);
    let rate = wide.bytes_per_second() / 1e9;
    assert!((rate - 64.0 / 33.85).abs() < 0.03, "{rate}");
    assert_eq!(wide.metrics.sizes.iter().find(|size| size.1 > 0), Some(&(64, 1 << 15, 0)));
}

#[test]
fn odd_sizes_are_refused() {
    let simulation = Simulation::new(open("aws-f1").unwrap().build_engines(1).unwrap());
    let (program, mapping) = (Program::Burst, Mapping::Uncached);
    let options = MmioOptions::new(6, program, mapping).with_seed(7);
    let refused = simulation.run("mmio", async {
        let card = MemoryCard::open_by_name(simulation.bus(HostId(0)), "f1").await?;
        mmio(&card, &options).await
    });
    let error = refused.unwrap().unwrap_err().to_string();
    assert_eq!(error, "stores into a window: 1 passes of 6 B; at least one of a multiple of 4 B");
}
