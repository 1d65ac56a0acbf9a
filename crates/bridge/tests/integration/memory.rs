// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards that are memory of the server's node, or nothing, beside one with an engine.

use crate::support;

use crosslane_bridge::messages::{CardKind, CardState, PeerTarget};
use crosslane_bridge::{Mode, Served, Server, Stage, TransferOptions};
use crosslane_driver::Device;
use crosslane_host::{AnyMemory, Bus, ErrorKind, PageSize};
use crosslane_lab::LabBus;

use support::network::Network;
use support::{CARD, SERVER, Scene, bytes_of, options, pattern, place, serve_while};

const MEMORY_BYTES: u64 = 1 << 20;

type LabServer = Server<Network, LabBus>;

/// Runs a program beside a server with an engine, memory that stands for a card, and nothing.
fn beside<T>(scene: &Scene, program: impl AsyncFnOnce() -> T) -> T {
    let run = scene.simulation.run("test", async {
        let device = Device::open_by_name(scene.bus.clone(), CARD).await.expect("an engine");
        let memory = scene.bus.allocate(MEMORY_BYTES, PageSize::Small).expect("there is memory");
        let cards = vec![
            (CARD.to_owned(), Served::Engine(device)),
            ("memory".to_owned(), Served::Memory(AnyMemory::new(memory))),
            ("null".to_owned(), Served::Null),
        ];
        let server: LabServer =
            Server::new(cards, scene.network.clone(), scene.clock(), Scene::small(), |_| {})
                .await
                .expect("there is memory");
        serve_while(server, SERVER, program).await
    });
    let result = run.expect("nothing hangs");
    assert_eq!(scene.network.registrations(), 0, "registrations are given back");
    result
}

fn naive() -> TransferOptions {
    options().with_mode(Mode::Naive)
}

#[test]
fn memory_takes_data_without_slots() {
    let scene = Scene::new(100);
    beside(&scene, async || {
        let client = scene.client().await;
        for (bytes, address) in [(1, 0), (3, 5), (300_001, 77), (MEMORY_BYTES, 0)] {
            let data = pattern(bytes, bytes as u8);
            let (source, back) = (scene.filled(bytes, bytes as u8).await, scene.empty(bytes).await);
            let (to, checked) = (place("memory", address), options().with_checksum(true));
            let checked = checked.with_carried_bytes(0);
            let put = client.put(&source, &to, &checked, |_| {}).await.expect("it is put").report;
            let got = client.get(&to, &back, &checked, |_| {}).await.expect("it is got").report;
            assert!(bytes_of(&back) == data, "{bytes} B");
            let stages = |stages: &[crosslane_bridge::StageStatistics]| {
                stages.iter().map(|stage| (stage.stage, stage.bytes)).collect::<Vec<_>>()
            };
            assert_eq!(stages(&put.stages), [(Stage::RdmaRead, bytes)]);
            assert_eq!(stages(&got.stages), [(Stage::RdmaWrite, bytes)]);
            let checksum = Some(crc32fast::hash(&data));
            assert_eq!([put.checksum, got.checksum], [checksum; 2]);
            assert_eq!([put.card_bytes, got.card_bytes], [bytes; 2]);
            let waits = put.stages.iter().chain(&got.stages);
            assert!(waits.into_iter().all(|stage| stage.waiting_for_slot_ps == 0));
        }
        client.close().await;
    });
}

#[test]
fn memory_is_naive_and_a_loop_too() {
    let scene = Scene::new(100);
    beside(&scene, async || {
        let client = scene.client().await;
        let bytes = 300_000;
        let (source, back) = (scene.filled(bytes, 3).await, scene.empty(bytes).await);
        let to = place("memory", 4096);
        client.put(&source, &to, &naive(), |_| {}).await.expect("it is put");
        client.get(&to, &back, &naive(), |_| {}).await.expect("it is got");
        assert!(bytes_of(&back) == pattern(bytes, 3));
        for mode in [options(), naive()] {
            let back = scene.empty(bytes).await;
            let checked = mode.with_checksum(true);
            let trip = client.round_trip("memory", &source, &back, &checked, |_| {}).await;
            assert_eq!(trip.expect("it comes back").report.bytes, bytes);
            assert!(bytes_of(&back) == pattern(bytes, 3));
        }
        client.close().await;
    });
}

#[test]
fn memory_and_an_engine_copy_to_each_other() {
    let scene = Scene::new(100);
    beside(&scene, async || {
        let client = scene.client().await;
        let bytes = 200_000;
        let source = scene.filled(bytes, 9).await;
        let from = place("memory", 17);
        client.put(&source, &from, &options(), |_| {}).await.expect("it is put");
        let peer = |card: &str| PeerTarget {
            server: SERVER.to_owned(),
            card: card.to_owned(),
            address: 8192,
        };
        client.copy(&from, peer(CARD), bytes, &options(), |_| {}).await.expect("to the engine");
        assert!(scene.get(&client, 8192, bytes).await == pattern(bytes, 9));
        let from = place(CARD, 8192);
        client.copy(&from, peer("memory"), bytes, &options(), |_| {}).await.expect("and back");
        let back = scene.empty(bytes).await;
        let got = client.get(&place("memory", 8192), &back, &options(), |_| {}).await;
        got.expect("it is got");
        assert!(bytes_of(&back) == pattern(bytes, 9));
        client.close().await;
    });
}

#[test]
fn null_takes_all_and_gives_zeros() {
    let scene = Scene::new(100);
    beside(&scene, async || {
        let client = scene.client().await;
        let bytes = 300_000;
        let (source, back) = (scene.filled(bytes, 3).await, scene.filled(bytes, 4).await);
        for options in [options(), naive()] {
            let to = place("null", 1 << 60);
            let put = client.put(&source, &to, &options, |_| {}).await.expect("it is taken");
            assert_eq!(put.report.bytes, bytes);
            client.get(&to, &back, &options, |_| {}).await.expect("it is given");
            assert!(bytes_of(&back) == vec![0; bytes as usize], "nothing of other transfers");
        }
        let trip = client.round_trip("null", &source, &back, &options(), |_| {}).await;
        let error = trip.expect_err("nothing comes back");
        assert!(error.why.to_string().contains("null keeps nothing (null:)"), "{error}");
        client.close().await;
    });
}

#[test]
fn a_survey_tells_kinds_and_what_was_moved() {
    let scene = Scene::new(100);
    beside(&scene, async || {
        let client = scene.client().await;
        let source = scene.filled(8192, 3).await;
        client.put(&source, &place("memory", 0), &options(), |_| {}).await.expect("it is put");
        let survey = client.survey().await.expect("it answers");
        let card = |name: &str, kind, memory_bytes, moved_bytes| CardState {
            name: name.to_owned(),
            kind,
            memory_bytes,
            transfers: 0,
            moved_bytes,
            slots: 4,
            free_slots: [4, 4],
            outage: None,
        };
        let expected = [
            card(CARD, CardKind::Engine, None, 0),
            card("memory", CardKind::Memory, Some(MEMORY_BYTES), 8192),
            card("null", CardKind::Null, None, 0),
        ];
        assert_eq!(survey.cards, expected);
        // Twice the longest naive transfer, of which none is under way.
        assert_eq!((survey.memory_bytes, survey.free_memory_bytes), (2 << 20, 2 << 20));
        client.close().await;
    });
}

#[test]
fn beyond_memory_is_refused_with_its_size() {
    let scene = Scene::new(100);
    beside(&scene, async || {
        let client = scene.client().await;
        let source = scene.filled(4096, 3).await;
        for address in [MEMORY_BYTES - 4095, MEMORY_BYTES, u64::MAX - 4096] {
            let put = client.put(&source, &place("memory", address), &options(), |_| {}).await;
            let error = put.expect_err("it is too long").why.to_string();
            let end = format!("memory has 1048576 B, not 4096 B from {address:#x} on");
            assert!(error.ends_with(&end), "{error}");
        }
        // The connection is still good.
        let last = place("memory", MEMORY_BYTES - 4096);
        client.put(&source, &last, &options(), |_| {}).await.expect("it fits");
        client.close().await;
    });
}

#[test]
fn cards_that_cannot_be_served() {
    let scene = Scene::new(100);
    let memory = |bytes| {
        let memory = scene.bus.allocate(bytes, PageSize::Small).expect("some");
        Served::Memory(AnyMemory::new(memory))
    };
    for (cards, why) in [
        (vec![], "a server needs a card"),
        (vec![("a", Served::Null), ("b", Served::Null), ("a", Served::Null)], "two cards have"),
        (vec![("a", memory(0))], "a card with a memory of 0 B"),
    ] {
        let cards = cards.into_iter().map(|(name, card)| (name.to_owned(), card)).collect();
        let made = scene.simulation.run("test", async {
            let (network, clock) = (scene.network.clone(), scene.clock());
            let made: Result<LabServer, _> =
                Server::new::<Served>(cards, network, clock, Scene::small(), |_| {}).await;
            made.err()
        });
        let error = made.expect("nothing hangs").expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.why.to_string().starts_with(why), "{error}");
    }
}
