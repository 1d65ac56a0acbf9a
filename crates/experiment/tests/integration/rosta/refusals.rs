// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A workload that cannot run is refused in a sentence; errors on the way are found.

use std::convert::Infallible;
use std::pin::pin;

use crosslane_driver::{DescriptorSource, User};
use crosslane_experiment::{
    ExperimentError, Options, Registration, chain, latency, peer_write, read, write,
};
use crosslane_fabric::Fabric;
use crosslane_host::Bus;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use futures_util::future::{Either, select};

use crate::rosta::scene::Scene;

#[test]
fn options_that_cannot_be_are_refused() {
    let scene = Scene::new("rosta");
    let good = Options::default().with_size_bytes(4096);
    let by_command = good.with_descriptors(DescriptorSource::CommandPort);
    let within = good.with_registration(Registration::Within);
    let mut said = Vec::new();
    for options in [
        good.with_size_bytes(0),
        good.with_size_bytes(6),
        good.with_iterations(0),
        within.with_outstanding(2).with_iterations(2),
        good.with_size_bytes(1 << 31).with_outstanding(4),
    ] {
        said.push(scene.refusal(async { write(&scene.devices(&[1]).await[0], &options).await }));
    }
    let outstanding = by_command.with_outstanding(2).with_iterations(2);
    said.push(scene.refusal(async {
        let cards = scene.devices(&[1, 2]).await;
        peer_write(&cards[0], &cards[1], &outstanding).await
    }));
    said.push(scene.refusal(async { chain(&scene.devices(&[1, 2, 1]).await, &good).await }));
    insta::assert_snapshot!(said.join("\n"));
    // Nothing was left half done.
    let measured = scene.run_well(async { write(&scene.devices(&[1]).await[0], &good).await });
    assert_eq!(measured.data_errors.words, 0);
}

#[test]
fn messages_that_cannot_come_back_are_refused() {
    let scene = Scene::new("rosta");
    let messages = [(0, 1), (96, 1), (192, 1), (64, 0), (1 << 20, 5000)];
    let said = messages.map(|(size_bytes, iterations)| {
        let options = Options::ping_pong().with_size_bytes(size_bytes).with_iterations(iterations);
        scene.refusal(async {
            let cards = scene.devices(&[1, 2]).await;
            latency(&cards[0], &cards[1], &options).await
        })
    });
    insta::assert_snapshot!(said.join("\n"));
}

/// Packets that a port refuses never arrive: the receive queue has not counted them, and the driver
/// finds the port.
#[test]
fn what_never_arrives_is_found() {
    let options = Options::default()
        .with_size_bytes(4096)
        .with_payload_bytes(Some(256))
        .with_oversize(true)
        .with_timeout(Picoseconds::from_ns(1_000_000));
    let peers = async |scene: &Scene, options: Options| {
        let cards = scene.devices(&[1, 2]).await;
        peer_write(&cards[0], &cards[1], &options).await
    };
    let unpaced = options.with_credits(false);
    let by_command = unpaced.with_descriptors(DescriptorSource::CommandPort);
    let scene = Scene::new("rosta");
    let lost = ExperimentError::Lost {
        place: "receive queue 0 of fpga2".to_owned(),
        received_bytes: 0,
        sent_bytes: 4096,
        waited_us: 1000,
    };
    assert_eq!(scene.run(peers(&scene, by_command)), Err(lost));
    for options in [options, unpaced] {
        let scene = Scene::new("rosta");
        let sentence = scene.run(peers(&scene, options)).unwrap_err().to_string();
        assert!(sentence.contains("rc47a.down0: fatal error detected"), "{sentence}");
    }
    let scene = Scene::new("rosta");
    let error = scene.run(async { write(&scene.devices(&[1]).await[0], &options).await });
    let sentence = error.unwrap_err().to_string();
    assert!(sentence.contains("rc47a.down0: fatal error detected"), "{sentence}");
}

/// Host memory's first huge page: where the first buffer is.
const FIRST_BUFFER: BusAddress = BusAddress(2 << 20);

/// Turns over the last word of 64 KiB, once it is what the pattern of seed 1 has there.
fn spoil(fabric: &mut Fabric) {
    let address = FIRST_BUFFER.offset((64 << 10) - 4);
    let mut word = [0; 4];
    assert!(fabric.peek(HostId(0), address, &mut word));
    if word == User::pattern(1, 16_383).to_le_bytes() {
        fabric.poke(HostId(0), address, &word.map(|byte| !byte));
    }
}

/// A word that somebody else writes over the data is counted and named. The engine asks for it
/// 38 us after the post; it is changed after 1 us.
#[test]
fn wrong_data_are_counted() {
    let scene = Scene::new("rosta:crosslane");
    let options = Options::default().with_size_bytes(64 << 10);
    let intruder = async || -> Infallible {
        let bus = scene.bus();
        loop {
            bus.sleep_until(Picoseconds(bus.now().0 + 1_000_000)).await;
            scene.simulation.with_fabric(spoil);
        }
    };
    let measured = scene
        .run(async {
            let card = &scene.devices(&[1]).await[0];
            match select(pin!(read(card, &options)), pin!(intruder())).await {
                Either::Left((measured, _)) => measured,
                Either::Right((never, _)) => match never {},
            }
        })
        .unwrap();
    assert_eq!((measured.data_errors.words, measured.data_errors.first_word), (1, Some(16_383)));
}
