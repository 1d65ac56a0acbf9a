// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies one after the other to another server: the connection and the registered memory are kept
//! for the next one, and given up as soon as anything else needs them.

use std::rc::Rc;

use crate::support;

use crosslane_bridge::messages::PeerTarget;
use crosslane_bridge::{CardChanges, Client, Identity, Mode};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;

use support::{
    CARD, Events, LabClient, SECOND_PS, SERVER, Scene, bytes_of, options, pattern, place,
    serve_while,
};

const OTHER: &str = "127.0.0.1:9";
const BYTES: u64 = 100_000;

/// A server and its client, and what another server tells.
struct Two<'a> {
    scene: &'a Scene,
    client: LabClient,
    changes: CardChanges,
    events: Events,
}

impl Two<'_> {
    /// Copies new data from one server's card to the other's and compares them; returns the time.
    async fn copy(&self, seed: u8) -> Picoseconds {
        let address = u64::from(seed) << 20;
        let source = self.scene.filled(BYTES, seed).await;
        let other = self.scene.client().await;
        self.scene.put(&other, &source, address).await;
        other.close().await;
        let peer = PeerTarget { server: OTHER.to_owned(), card: "second".to_owned(), address };
        let from = place(CARD, address);
        let copied = self.client.copy(&from, peer, BYTES, &options(), |_| {}).await;
        let (network, clock) = (self.scene.network.clone(), self.scene.clock());
        let end = Picoseconds(SECOND_PS);
        let there = Client::connect(network, clock, OTHER, &Identity::default(), end).await;
        let (there, back) = (there.expect("it is there"), self.scene.empty(BYTES).await);
        let got = there.get(&place("second", address), &back, &options(), |_| {}).await;
        got.expect("it is got");
        there.close().await;
        assert!(bytes_of(&back) == pattern(BYTES, seed));
        copied.expect("it is copied").elapsed
    }

    /// Counts the copies for which the first server has connected to the other one: each copy is
    /// looked at by a client of its own.
    fn links(&self, copies: usize) -> usize {
        let events = self.events.borrow();
        events.iter().filter(|event| event.ends_with("is connected")).count() - copies
    }

    /// Whether the first server keeps memory registered for the next copy.
    fn is_kept(&self, without: usize) -> bool {
        let now = self.scene.network.registrations();
        assert!((without..=without + 1).contains(&now), "{now} registrations of {without}");
        now > without
    }

    async fn wait(&self, time_ps: u64) {
        let until = Picoseconds(self.scene.bus_now() + time_ps);
        Bus::sleep_until(&self.scene.bus, until).await;
    }
}

/// Runs a program beside two servers of a card each; also gives it the registrations there are.
fn beside(program: impl AsyncFnOnce(&Two<'_>, usize)) {
    let scene = Scene::new(100);
    let events = Events::default();
    let run = scene.simulation.run("test", async {
        let first = scene.server(&[CARD], Scene::small(), Events::default()).await;
        let changes = first.changes();
        let second = scene.server(&["second"], Scene::small(), Rc::clone(&events)).await;
        let without = scene.network.registrations();
        let program = async || {
            let client = scene.client().await;
            let two = Two { scene: &scene, client, changes, events };
            program(&two, without).await;
            two.client.close().await;
        };
        let with_first = async || serve_while(first, SERVER, program).await;
        serve_while(second, OTHER, with_first).await;
    });
    run.expect("nothing hangs");
    scene.check_empty();
}

#[test]
fn copies_one_after_the_other_connect_and_register_once() {
    beside(async |two, without| {
        let first = two.copy(1).await;
        assert!(two.is_kept(without));
        for seed in 2..6 {
            assert!(two.copy(seed).await < first, "nothing is set up");
            assert!(two.is_kept(without));
        }
        assert_eq!(two.links(5), 1);
    });
}

#[test]
fn what_is_kept_is_given_up_for_anything_else() {
    beside(async |two, without| {
        two.copy(1).await;
        assert!(two.is_kept(without));
        // Questions are none of it.
        two.client.survey().await.expect("it answers");
        assert!(two.is_kept(without));
        two.scene.put(&two.client, &two.scene.filled(99, 1).await, 0).await;
        assert!(!two.is_kept(without), "the session does something else");
        two.copy(2).await;
        let peer = PeerTarget { server: OTHER.to_owned(), card: "third".to_owned(), address: 0 };
        let copied = two.client.copy(&place(CARD, 0), peer, 4096, &options(), |_| {}).await;
        copied.expect_err("there is no third card");
        assert!(!two.is_kept(without), "a copy has failed");
    });
}

#[test]
fn what_is_kept_is_not_kept_for_long() {
    beside(async |two, without| {
        two.copy(1).await;
        // The server has patience for 30 s.
        two.wait(29 * SECOND_PS).await;
        assert!(two.is_kept(without));
        two.wait(2 * SECOND_PS).await;
        assert!(!two.is_kept(without));
        two.copy(2).await;
        assert_eq!(two.links(2), 2);
    });
}

#[test]
fn what_is_kept_gives_way_to_others() {
    beside(async |two, without| {
        two.copy(1).await;
        assert!(two.is_kept(without));
        // This takes all the memory that the server has beside its rings.
        let other = two.scene.client().await;
        let bytes = 1 << 20;
        let (source, back) = (two.scene.filled(bytes, 3).await, two.scene.empty(bytes).await);
        let naive = options().with_mode(Mode::Naive);
        let trip = other.round_trip(CARD, &source, &back, &naive, |_| {}).await;
        trip.expect("it has the memory");
        drop((source, back));
        other.close().await;
        assert!(!two.is_kept(without));
        two.copy(2).await;
        // The card can be removed although a copy could still come.
        two.changes.remove(CARD).await.expect("it is removed");
        assert_eq!(two.links(2), 2);
    });
}

#[test]
fn a_server_that_was_restarted_takes_the_next_copy() {
    let scene = Scene::new(100);
    let run = scene.simulation.run("test", async {
        let first = scene.server(&[CARD], Scene::small(), Events::default()).await;
        let changes = first.changes();
        let program = async || {
            let client = scene.client().await;
            let events = Events::default();
            let two = Two { scene: &scene, client, changes, events };
            for seed in 1..4 {
                let told = Rc::clone(&two.events);
                let second = scene.server(&["second"], Scene::small(), told).await;
                let copying = async || two.copy(seed).await;
                serve_while(second, OTHER, copying).await;
                assert_eq!(two.links(usize::from(seed)), usize::from(seed));
            }
            two.client.close().await;
        };
        serve_while(first, SERVER, program).await;
    });
    run.expect("nothing hangs");
    scene.check_empty();
}
