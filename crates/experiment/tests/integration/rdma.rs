// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RDMA reads and writes in the lab `sbdt`, by the node with the FPGA: every byte is compared, and
//! in simulated time rates are exact.

use crosslane_experiment::{
    ExperimentError, RdmaDirection, RdmaMeasured, RdmaOptions, rdma, rdma_target,
};
use crosslane_host::{Rdma, RdmaError, RdmaListener};
use crosslane_lab::{Simulation, open};
use crosslane_pcie::units::{HostId, Picoseconds};

const ADDRESS: &str = "rnode:18515";

/// Runs with each of these options, one after the other over one connection; `given` is what the
/// far end gives of what is needed.
fn run(
    options: &[RdmaOptions],
    given: impl Fn(u64) -> u64,
) -> Result<Vec<RdmaMeasured>, ExperimentError> {
    let simulation = Simulation::new(open("sbdt").unwrap().build_engines(1).unwrap());
    let near = simulation.rdma(HostId(0), "fnic").unwrap();
    let far = simulation.rdma(HostId(1), "rnic").unwrap();
    let clock = simulation.bus(HostId(0));
    let bytes: Vec<u64> = options.iter().map(|options| given(options.memory_bytes())).collect();
    let listener = simulation.run("listen", far.listen(ADDRESS)).unwrap().unwrap();
    let target = simulation.spawn("far end", async move {
        let connection = listener.accept().await?;
        for bytes in bytes {
            rdma_target(&far, &connection, bytes).await?;
        }
        Ok::<_, ExperimentError>(())
    });
    let measured = simulation.run("near end", async {
        let connection = near.connect(ADDRESS, Picoseconds::NEVER).await?;
        let mut all = Vec::new();
        for options in options {
            all.push(rdma(&near, &connection, &clock, options).await?);
        }
        target.await?;
        Ok(all)
    });
    let measured = measured.unwrap();
    simulation.finish().unwrap();
    assert_eq!(simulation.with_fabric(|fabric| fabric.errors().len()), 0);
    measured
}

#[test]
fn every_size_of_perftest() {
    for direction in RdmaDirection::ALL {
        let options: Vec<_> = RdmaOptions::perftest_sizes()
            .map(|size| RdmaOptions::like_perftest(direction, size, 3).with_iterations(100))
            .map(|options| match options.size_bytes > 1 << 20 {
                true => options.with_iterations(4),
                false => options,
            })
            .chain([1, 3, 4097, 70_001].map(|size| {
                RdmaOptions::like_perftest(direction, size, 9).with_iterations(40).with_in_flight(7)
            }))
            .collect();
        let all = run(&options, |bytes| bytes).unwrap();
        for measured in &all {
            let size = measured.options.size_bytes;
            assert_eq!(measured.data_errors.words, 0, "{direction:?} of {size} B");
            let latencies = &measured.latencies;
            assert!(latencies.min_ps > 0 && latencies.max_ps <= measured.time.0);
        }
        let fastest = all.iter().map(RdmaMeasured::bytes_per_second).fold(0.0, f64::max);
        for measured in all.iter().filter(|measured| measured.options.size_bytes >= 8192) {
            // 100 operations fill and empty the way once.
            let share = measured.bytes_per_second() / fastest;
            let size = measured.options.size_bytes;
            assert!(share > 0.93 || measured.options.in_flight == 7, "{share} of {size} B");
        }
    }
}

#[test]
fn what_cannot_be_run() {
    let good = RdmaOptions::like_perftest(RdmaDirection::Write, 4096, 1);
    for bad in [good.with_size_bytes(0), good.with_iterations(0), good.with_in_flight(0)] {
        let error = run(&[bad], |_| 4096).unwrap_err().to_string();
        assert!(error.contains("have to be above 0"), "{error}");
    }
    let error = run(&[good], |bytes| bytes - 1).unwrap_err().to_string();
    assert!(error.contains("the other end gives 524287 B, and 524288 B are needed"), "{error}");
    let hasty = good.with_timeout(Picoseconds::from_ns(30_000));
    let what = "RDMA write".to_owned();
    assert_eq!(run(&[hasty], |bytes| bytes), Err(RdmaError::Deadline { what }.into()));
}
