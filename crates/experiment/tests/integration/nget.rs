// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The micro-benchmark of the network processor, in the lab of its document.

use crosslane_driver::network_processor::{Buffers, Modes, NetworkProcessor, Requests};
use crosslane_experiment::{ExperimentError, NgetMeasured, NgetOptions, nget};
use crosslane_host::Mapping;
use crosslane_lab::{Simulation, open};
use crosslane_pcie::units::{HostId, Picoseconds};

fn options(size_bytes: u64, in_flight: u32, per_loop: u32, loops: u64) -> NgetOptions {
    let timeout = Picoseconds::from_ns(1_000_000);
    NgetOptions::enough(size_bytes, in_flight, per_loop, 1).with_loops(loops).with_timeout(timeout)
}

fn run(lab: &str, modes: Modes, options: NgetOptions) -> Result<NgetMeasured, ExperimentError> {
    let simulation = Simulation::new(open(lab).unwrap().build_engines(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let result = simulation.run("nget", async {
        let processor = NetworkProcessor::init(bus, "fpga1", modes).await?;
        let measured = nget(&processor, &options).await?;
        processor.release().await?;
        Ok(measured)
    });
    simulation.finish().unwrap();
    result.unwrap()
}

/// One at a time the duration is the time from one get to the next; with many in flight it is
/// that times their number (Little's law), which lies between N - M and N.
#[test]
fn durations_and_intervals_fit_together() {
    let one = run("nget", Modes::FASTEST, options(1024, 1, 1, 100)).unwrap();
    assert_eq!(one.gets(), 100);
    assert_eq!((one.stamps.len(), one.datagrams), (100, 800));
    assert_eq!((one.compared, one.wrong), (1, 0));
    let typical = one.durations.typical_ps as f64;
    assert!((one.interval_ps() / typical - 1.0).abs() < 0.01, "{one:?}");
    let many = run("nget", Modes::FASTEST, options(1024, 16, 4, 200)).unwrap();
    assert_eq!(many.gets(), 12 + 800);
    assert_eq!((many.compared, many.wrong), (16, 0));
    let (average, interval) = (many.durations.average_ps as f64, many.interval_ps());
    // Between the end of the waits of a loop and its starts there are four fewer.
    assert!((12.0..=16.0).contains(&(average / interval)), "{average} {interval}");
    assert!(many.bytes_per_second() > 5.0 * one.bytes_per_second());
    assert!(many.stamps.is_sorted() && many.begun < many.stamps[0]);
    assert!(many.ended >= *many.stamps.last().unwrap());
}

/// Long datagrams bring the same bytes, half as many for a message.
#[test]
fn long_datagrams_are_half_as_many() {
    let counts = ["torus", "torus:dense"].map(|lab| {
        let found = run(lab, Modes::FASTEST, options(1000, 2, 1, 30)).unwrap();
        assert_eq!(found.wrong, 0);
        (found.gets(), found.datagrams)
    });
    let gets = counts[0].0;
    assert_eq!(counts, [(gets, 8 * gets), (gets, 4 * gets)]);
}

/// Same options, same lab: the same to the picosecond.
#[test]
fn runs_are_the_same() {
    let twice = [(); 2].map(|()| run("nget", Modes::FASTEST, options(4096, 8, 2, 50)).unwrap());
    assert_eq!(twice[0], twice[1]);
}

/// A system call for each get, and a copy of its bytes.
#[test]
fn modes_cost_what_the_lab_says() {
    let typical = |modes| {
        let found = run("nget", modes, options(1024, 1, 1, 50)).unwrap();
        found.durations.typical_ps as f64 / 1e3
    };
    let base = typical(Modes::FASTEST.with_requests(Requests::Stores(Mapping::Uncached)));
    // The kernel's stores are uncached.
    let call = typical(Modes::FASTEST.with_requests(Requests::SystemCall));
    assert!((call - base - 200.0).abs() < 5.0, "{call} {base}");
    let copied = typical(Modes::FASTEST.with_buffers(Buffers::Copied));
    assert!((copied - typical(Modes::FASTEST) - 204.8).abs() < 5.0, "{copied}");
}

#[test]
fn what_cannot_be_is_refused() {
    for (wrong, words) in [
        (options(0, 1, 1, 1), "gets of 0 B"),
        (options((1 << 20) + 1, 1, 1, 1), "1 B to 1 MiB"),
        (options(64, 65, 1, 1), "65 gets in flight"),
        (options(64, 2, 3, 1), "3 gets in each loop"),
        (options(64, 1, 1, 0), "no loop"),
    ] {
        let error = run("nget", Modes::FASTEST, wrong).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
