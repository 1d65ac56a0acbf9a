// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates beside ceilings, and the time to the first TLP. The ceiling is:
//! 2 GB/s x (1 - 4/1538) less the DLLPs of the run, x 128 / 148.

use crosslane_driver::DescriptorSource;
use crosslane_experiment::{
    DataTlps, ExperimentError, LinkLoad, Measured, Options, least_ceiling, peer_write, read, write,
};
use crosslane_fabric::LinkCounters;
use crosslane_pcie::units::Picoseconds;

use crate::rosta::scene::{LARGE_BYTES, Scene, leaving};

const LAB: &str = "rosta:crosslane";

/// A rate as a share of the ceiling, with the DLLPs that `port` sent in the whole run taken off as
/// if they had been sent while data moved: they are fewer then, so the share is no less.
fn share(scene: &Scene, measured: &Measured, port: &str) -> f64 {
    let (rate, counters): (_, LinkCounters) = scene.simulation.with_fabric(|fabric| {
        let direction = leaving(fabric, port);
        (fabric.link(direction.link).parameters.rate, fabric.counters(direction))
    });
    let time = measured.hardware.unwrap();
    // All TLPs carry 128 B; of a read the completions do.
    let tlps = DataTlps {
        tlps: time.bytes / 128,
        data_bytes: time.bytes,
        wire_payload_bytes: time.bytes,
        header_dw: 3,
    };
    let span = time.last.since(time.first);
    let load = LinkLoad { link: (), rate, dllp_bytes: counters.dllp_bytes, span };
    let ceiling = least_ceiling([load], tlps).unwrap();
    assert!((ceiling.bytes_per_second - 2.0e9 * (1.0 - 4.0 / 1538.0) * 128.0 / 148.0).abs() < 1.0);
    time.bytes_per_second() / ceiling.less_dllps_bytes_per_second
}

fn checked(measured: &Measured, options: &Options) {
    assert_eq!(measured.data_errors.words, 0);
    assert_eq!(measured.bytes, options.size_bytes * options.iterations);
    assert_eq!(measured.hardware.unwrap().bytes, measured.bytes);
    assert_eq!(measured.latencies.len() as u64, options.iterations);
    assert_eq!(measured.plan.max_payload_bytes, 128);
}

fn measure(options: Options) -> [(f64, Measured); 3] {
    let scene = Scene::new(LAB);
    let written = scene.run_well(async { write(&scene.devices(&[1]).await[0], &options).await });
    let write_share = share(&scene, &written, "fpga1");
    let scene = Scene::new(LAB);
    let taken = scene.run_well(async { read(&scene.devices(&[1]).await[0], &options).await });
    let read_share = share(&scene, &taken, "rc47a.down0");
    let scene = Scene::new(LAB);
    let passed = scene.run_well(async {
        let cards = scene.devices(&[1, 5]).await;
        peer_write(&cards[0], &cards[1], &options).await
    });
    let peer_share = share(&scene, &passed, "fpga1");
    let results = [(write_share, written), (read_share, taken), (peer_share, passed)];
    for (_, measured) in &results {
        checked(measured, &options);
    }
    results
}

/// 4 MiB: at least 99 % of the ceiling for writes, 98 % for reads with 128 B completions.
#[test]
fn large_transfers_fill_the_link() {
    let options = Options::default().with_size_bytes(LARGE_BYTES);
    let [(written, _), (taken, _), (passed, _)] = measure(options);
    assert!((0.99..=1.001).contains(&written), "write: {written}");
    assert!((0.98..=1.001).contains(&taken), "read: {taken}");
    assert!((0.99..=1.001).contains(&passed), "p2p: {passed}");
}

/// 4 KiB each with the ring kept full: at least 90 %.
#[test]
fn small_transfers_nearly_fill_the_link() {
    let options =
        Options::default().with_size_bytes(4096).with_iterations(1000).with_outstanding(64);
    for (share, measured) in measure(options) {
        assert!((0.9..=1.001).contains(&share), "{}: {share}", measured.name);
    }
}

/// Registered buffers: at most 5 us from the post to the first TLP, by ring, table and command.
#[test]
fn the_first_tlp_follows_the_post() {
    let ring = Options::default().with_size_bytes(4096);
    let table = ring.with_descriptors(DescriptorSource::Table);
    let command = ring.with_descriptors(DescriptorSource::CommandPort);
    let first = |measured: &Measured| measured.post_to_first_tlp.unwrap();
    for options in [ring, table] {
        let scene = Scene::new(LAB);
        let (written, taken) = scene.run_well(async {
            let card = &scene.devices(&[1]).await[0];
            Ok::<_, ExperimentError>((write(card, &options).await?, read(card, &options).await?))
        });
        for measured in [&written, &taken] {
            let time = first(measured);
            assert!((100_000..=5_000_000).contains(&time.0), "{}: {time}", measured.name);
            let registration = measured.registration.unwrap();
            assert!(registration > Picoseconds::ZERO, "it is measured apart");
        }
    }
    for options in [ring, command] {
        let scene = Scene::new(LAB);
        let passed = scene.run_well(async {
            let cards = scene.devices(&[1, 2]).await;
            peer_write(&cards[0], &cards[1], &options).await
        });
        let time = first(&passed);
        assert!((100_000..=5_000_000).contains(&time.0), "{}: {time}", passed.name);
        assert_eq!(passed.registration, None);
    }
}
