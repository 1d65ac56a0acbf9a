// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chains, loopbacks, ping-pong, and transfers as the driver of the rosta paper makes them.

use crosslane_driver::{DescriptorSource, Notification};
use crosslane_experiment::{
    Loopback, Options, Registration, chain, latency, loopback, peer_write, write,
};
use crosslane_host::PageSize;
use crosslane_pcie::units::Picoseconds;

use crate::rosta::scene::{LARGE_BYTES, Scene};

#[test]
fn a_chain_brings_everything_back() {
    for lab in ["rosta", "rosta:crosslane"] {
        for credits in [true, false] {
            let scene = Scene::new(lab);
            let options = Options::default()
                .with_size_bytes(1 << 20)
                .with_iterations(3)
                .with_credits(credits);
            let measured = scene.run_well(async {
                let cards = scene.devices(&[1, 2, 3, 4, 5, 6, 7, 8]).await;
                chain(&cards, &options).await
            });
            assert_eq!(measured.data_errors.words, 0);
            assert_eq!((measured.channels.len(), measured.lanes.len()), (9, 7));
            for channel in &measured.channels {
                assert_eq!(channel.bytes, 3 << 20, "{}", channel.device);
            }
            let kinds = [0, 1, 8].map(|index: usize| measured.channels[index].kind.as_str());
            assert_eq!(kinds, ["h2c", "peer", "c2h"]);
        }
    }
}

#[test]
fn both_loopbacks_bring_everything_back() {
    let scene = Scene::new("rosta");
    let in_turn = Options::default().with_size_bytes(4096).with_iterations(100);
    let measured = scene.run_well(async {
        loopback(&scene.devices(&[1]).await[0], Loopback::InTurn, &in_turn).await
    });
    assert_eq!(measured.data_errors.words, 0);
    assert_eq!(measured.latencies.len(), 100);
    // Both directions through FIFOs of 4 KiB.
    let at_once = Options::default().with_size_bytes(LARGE_BYTES);
    let measured = scene.run_well(async {
        loopback(&scene.devices(&[1]).await[0], Loopback::AtOnce, &at_once).await
    });
    assert_eq!(measured.data_errors.words, 0);
    // The second direction does not wait for the first: 4 MiB take 2.4 ms on the link.
    let time = measured.latencies[0];
    assert!((2_400_000_000..4_000_000_000).contains(&time.0), "{time}");
}

/// Transfers beyond the card's room do not come back; the deadline reports them.
#[test]
fn more_in_turn_than_the_card_holds_ends_at_the_deadline() {
    let scene = Scene::new("rosta");
    let timeout = Picoseconds::from_ns(1_000_000);
    let options = Options::default().with_size_bytes(1 << 20).with_timeout(timeout);
    let error = scene
        .run(async { loopback(&scene.devices(&[1]).await[0], Loopback::InTurn, &options).await });
    let sentence = error.unwrap_err().to_string();
    assert!(sentence.starts_with("fpga1 H2C 0: not complete at the deadline"), "{sentence}");
}

/// Every switch more adds the same: two of them on the way to the other board and none beside it.
#[test]
fn latency_grows_with_the_switches() {
    let one_way = |to: usize| {
        let scene = Scene::new("rosta");
        let options = Options::ping_pong().with_iterations(100);
        let trips = scene.run_well(async {
            let cards = scene.devices(&[1, to]).await;
            latency(&cards[0], &cards[1], &options).await
        });
        assert_eq!((trips.round_trips.len(), trips.data_errors.words), (100, 0));
        let one_way = trips.one_way();
        assert!(one_way.max_ps - one_way.min_ps < 20_000, "{one_way:?}");
        one_way.typical_ps
    };
    let (near, far) = (one_way(2), one_way(5));
    assert_eq!([one_way(2), one_way(5)], [near, far], "the same lab, the same times");
    // 150 ns in each of two more switches, and the time on two more links.
    assert!((300_000..360_000).contains(&(far - near)), "{near} {far}");
}

#[test]
fn messages_of_every_fitting_size_come_back() {
    for size_bytes in [4, 8, 64, 128, 256, 1024] {
        let scene = Scene::new("rosta:crosslane");
        let options = Options::ping_pong().with_size_bytes(size_bytes).with_iterations(20);
        let trips = scene.run_well(async {
            let cards = scene.devices(&[1, 2]).await;
            latency(&cards[0], &cards[1], &options).await
        });
        assert_eq!((trips.round_trips.len(), trips.data_errors.words), (20, 0));
    }
}

/// As the driver of the rosta paper does it: a system call that pins the pages of 4 KiB,
/// fills the table, sleeps until the interrupt.
#[test]
fn registering_within_the_transfer_is_in_its_time() {
    let scene = Scene::new("rosta");
    let before = Options::default()
        .with_size_bytes(1 << 20)
        .with_iterations(2)
        .with_descriptors(DescriptorSource::Table)
        .with_notification(Notification::Interrupt)
        .with_pages(PageSize::Small);
    let within = before.with_registration(Registration::Within).with_system_call(true);
    let (registered, registering) = scene.run_well(async {
        let card = &scene.devices(&[1]).await[0];
        Ok((write(card, &before).await?, write(card, &within).await?))
    });
    assert_eq!(registered.data_errors.words + registering.data_errors.words, 0);
    // 150 ns for each of 256 pages of two transfers, and 300 ns for each of the system calls.
    let pinned = registering.registration.unwrap();
    assert!(pinned.0 >= 2 * 256 * 150_000, "{pinned}");
    let longer = registering.latencies[0].since(registered.latencies[0]);
    assert!(longer.0 >= pinned.0 / 2 + 300_000, "{longer} for {pinned}");
    // The engine's own time is as it was.
    let difference = registering.hardware.unwrap().last.since(registering.hardware.unwrap().first);
    assert!(difference.0 > 0);
}

/// The command port and the ring move the same, with and without credits.
#[test]
fn peers_by_command_and_by_ring() {
    for credits in [true, false] {
        for descriptors in [DescriptorSource::CommandPort, DescriptorSource::Ring { entries: 16 }] {
            let scene = Scene::new("rosta:crosslane");
            let size_bytes = 64 << 10;
            let options = Options::default()
                .with_size_bytes(size_bytes)
                .with_iterations(8)
                .with_descriptors(descriptors)
                .with_credits(credits);
            let measured = scene.run_well(async {
                let cards = scene.devices(&[3, 8]).await;
                peer_write(&cards[0], &cards[1], &options).await
            });
            assert_eq!(measured.name, "fpga3 -> fpga8");
            assert_eq!((measured.bytes, measured.data_errors.words), (512 << 10, 0));
            assert_eq!(measured.lanes[0].received_bytes, 512 << 10);
            assert!(!measured.lanes[0].overflow);
        }
    }
}
