// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards that are added to a server that runs, and removed from it.

use std::rc::Rc;

use crate::support;

use crosslane_bridge::messages::PeerTarget;
use crosslane_bridge::{BridgeError, CardChanges, Served, Stage};
use crosslane_driver::Device;
use crosslane_host::{AnyMemory, Bus, ErrorKind, PageSize};
use crosslane_pcie::units::Picoseconds;
use futures_util::join;

use support::{
    CARD, Events, LabClient, SERVER, Scene, bytes_of, options, pattern, place, serve_while,
};

const BYTES: u64 = 1_000_000;
/// A moment in the middle of a transfer, which takes at least 100 us.
const MOMENT: Picoseconds = Picoseconds::from_ns(40_000);

/// Runs a program beside a server with one card, and checks that nothing of any card is left.
fn beside(program: impl AsyncFnOnce(&Scene, CardChanges)) -> Vec<String> {
    let scene = Scene::new(100);
    let events = Events::default();
    let run = scene.simulation.run("test", async {
        let server = scene.server(&[CARD], Scene::small(), Rc::clone(&events)).await;
        let changes = server.changes();
        serve_while(server, SERVER, async || program(&scene, changes).await).await;
    });
    run.expect("nothing hangs");
    scene.check_empty();
    events.take()
}

/// Waits until a transfer that begins now is in its middle.
async fn moment(scene: &Scene) {
    let until = Picoseconds(scene.bus_now() + MOMENT.0);
    Bus::sleep_until(&scene.bus, until).await;
}

async fn second(scene: &Scene) -> Device {
    Device::open_by_name(scene.bus.clone(), "second").await.expect("an engine")
}

/// Puts data into a card and gets them back.
async fn is_served(scene: &Scene, client: &LabClient, card: &str, seed: u8) {
    let (source, back) = (scene.filled(5000, seed).await, scene.empty(5000).await);
    client.put(&source, &place(card, 99), &options(), |_| {}).await.expect("it is put");
    client.get(&place(card, 99), &back, &options(), |_| {}).await.expect("it is got");
    assert!(bytes_of(&back) == pattern(5000, seed), "{card}");
}

#[test]
fn a_removed_cards_transfers_end_and_others_go_on() {
    let events = beside(async |scene, changes| {
        let (one, other) = (scene.client().await, scene.client().await);
        changes.add("second", second(scene).await).await.expect("it is added");
        assert_eq!(one.cards().await.expect("it answers"), [CARD, "second"]);
        let (first, source) = (scene.filled(BYTES, 3).await, scene.filled(BYTES, 4).await);
        let (to_first, to_second) = (place(CARD, 0), place("second", 0));
        let settings = options();
        let removing = async {
            moment(scene).await;
            changes.remove("second").await
        };
        let (gone, fine, removed) = join!(
            one.put(&source, &to_second, &settings, |_| {}),
            other.put(&first, &to_first, &settings, |_| {}),
            removing
        );
        let error = gone.expect_err("its card is removed");
        assert_eq!(error.stage, Stage::Dma);
        assert_eq!(error.why.to_string(), "second was removed from this server");
        assert!(error.arrived_bytes < BYTES && error.total_bytes == BYTES, "{error}");
        assert_eq!(fine.expect("another card's").report.bytes, BYTES);
        removed.expect("it is removed");
        assert_eq!(other.cards().await.expect("it answers"), [CARD]);
        let error = other.put(&first, &to_second, &settings, |_| {}).await.expect_err("it is gone");
        // As the next piece of a file is told.
        let gone = format!("second was removed from this server, which has {CARD}");
        assert_eq!(error.why.to_string(), gone);
        is_served(scene, &other, CARD, 7).await;
        // Its name and its engine are free again.
        changes.add("second", second(scene).await).await.expect("it is added again");
        is_served(scene, &other, "second", 9).await;
        other.close().await;
    });
    let of_cards = ["second was added", "second was removed", "second was added"];
    let told: Vec<&String> = events.iter().filter(|it| it.starts_with("second was ")).collect();
    assert_eq!(told, of_cards);
}

#[test]
fn the_last_card_goes_and_memory_comes() {
    beside(async |scene, changes| {
        let client = scene.client().await;
        let changed = changes.remove(CARD).await;
        changed.expect("it is removed");
        let error = client.get(&place(CARD, 0), &scene.empty(4).await, &options(), |_| {}).await;
        let why = error.expect_err("no card is left").why.to_string();
        assert_eq!(why, format!("{CARD} was removed from this server, which has none"));
        let memory = scene.bus.allocate(1 << 16, PageSize::Small).expect("there is memory");
        changes.add("memory", Served::Memory(AnyMemory::new(memory))).await.expect("it is added");
        is_served(scene, &client, "memory", 1).await;
        let copied = client
            .copy(
                &place("memory", 99),
                PeerTarget { server: String::new(), card: "memory".to_owned(), address: 20_000 },
                5000,
                &options(),
                |_| {},
            )
            .await;
        copied.expect("it is copied");
        changes.remove("memory").await.expect("it is removed");
        client.close().await;
    });
}

#[test]
fn changes_that_cannot_be() {
    beside(async |scene, changes| {
        let why = |error: Result<(), BridgeError>| {
            let error = error.expect_err("it is refused");
            (error.kind(), error.why.to_string())
        };
        let (kind, text) = why(changes.remove("nosuch").await);
        assert_eq!(kind, ErrorKind::NotFound);
        assert_eq!(text, format!("there is no card nosuch: this server has {CARD}"));
        let (kind, text) = why(changes.add(CARD, second(scene).await).await);
        assert_eq!(kind, ErrorKind::InvalidArgument);
        assert_eq!(text, format!("two cards have the name {CARD}"));
        let (_, text) = why(changes.add(&"x".repeat(65), Served::Null).await);
        assert!(text.ends_with("a name has 1 to 64 B"), "{text}");
        // Nothing of the refused ones is in the way.
        changes.add("second", second(scene).await).await.expect("it is added");
        let client = scene.client().await;
        is_served(scene, &client, "second", 3).await;
        client.close().await;
    });
}

/// Copies between two cards end with either of them.
#[test]
fn a_copy_ends_with_the_card_that_it_goes_to() {
    beside(async |scene, changes| {
        changes.add("second", second(scene).await).await.expect("it is added");
        let client: LabClient = scene.client().await;
        let peer = PeerTarget { server: String::new(), card: "second".to_owned(), address: 0 };
        let removing = async {
            moment(scene).await;
            changes.remove("second").await
        };
        let settings = options();
        let from = place(CARD, 0);
        let copying = client.copy(&from, peer, BYTES, &settings, |_| {});
        let (copied, removed) = join!(copying, removing);
        let error = copied.expect_err("its card is removed");
        assert_eq!(error.why.to_string(), "second was removed from this server");
        removed.expect("it is removed");
    });
}
