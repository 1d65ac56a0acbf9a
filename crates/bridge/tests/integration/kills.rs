// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers of every way in which something dies: the client, the server, the network between
//! them, or a byte. What a call says must be true, and the next client is served.
//!
//! Each seed is one transfer. `CROSSLANE_KILLS=FIRST..END` runs others than the first 200.

use crate::support;

use std::pin::pin;

use crosslane_bridge::files::{FileClient, FileError, FileOptions, FileOutcome};
use crosslane_bridge::messages::PeerTarget;
use crosslane_bridge::{Client, Identity};
use crosslane_host::Clock;
use crosslane_lab::LabBus;
use crosslane_pcie::units::Picoseconds;
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use futures_util::join;

use support::network::{Fault, Network};
use support::{CARD, Events, SECOND_PS, SERVER, Scene, bytes_of, options, place, serve_while};

/// Seeds of a plain run.
const SEEDS: std::ops::Range<u64> = 0..200;
/// Address of the server that copies go to.
const OTHER: &str = "127.0.0.1:9";
const PIECE: u64 = 64 << 10;
/// Bytes of most transfers, and of some whose data are within the messages.
const BYTES: u64 = 2 * PIECE + 12_345;
const FEW_BYTES: u64 = 3001;
/// Time of a transfer to which nothing happens, about.
const TRANSFER_PS: u64 = SECOND_PS / 20_000;

/// A number that depends on a seed and a position.
fn mixed(seed: u64, at: u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at);
    for _ in 0..2 {
        word = (word ^ (word >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    word ^ (word >> 29)
}

/// Data of which no two blocks are equal.
fn content(seed: u64) -> Vec<u8> {
    let bytes = if mixed(seed, 6).is_multiple_of(5) { FEW_BYTES } else { BYTES };
    let words = (0..bytes.div_ceil(8)).flat_map(|at| mixed(seed, 1000 + at).to_le_bytes());
    words.take(bytes as usize).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Put,
    Get,
    RoundTrip,
    Copy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// Of the network, or of a byte.
    Network(Fault),
    Client(Picoseconds),
    Server(Picoseconds),
}

/// Returns the way and the death of a seed.
fn deal(seed: u64) -> (Way, Death) {
    let ways = [Way::Put, Way::Get, Way::RoundTrip, Way::Copy];
    let number = mixed(seed, 2) % 30;
    // Of a small transfer a part of the time, so that it is hit as often.
    let bytes = content(seed).len() as u64;
    let after = Picoseconds(mixed(seed, 3) % (TRANSFER_PS * bytes / BYTES));
    let death = match mixed(seed, 4) % 8 {
        0 => Death::Network(Fault::CutAt(number)),
        1 => Death::Network(Fault::RefuseAt(number)),
        2 => Death::Network(Fault::StallAt(number)),
        3 => Death::Network(Fault::ChangeAt(number)),
        4 => Death::Network(Fault::AwayAt(number, 1 + number % 3)),
        5 => Death::Network(Fault::CutAndChangeAt(number, number + 1 + mixed(seed, 5) % 9)),
        6 => Death::Client(after),
        _ => Death::Server(after),
    };
    (ways[(mixed(seed, 1) % 4) as usize], death)
}

fn files(scene: &Scene, server: &str) -> FileClient<Network, LabBus> {
    let options = FileOptions::default()
        .with_piece_bytes(PIECE)
        .with_time(Picoseconds(SECOND_PS))
        .with_retries(3);
    let (network, clock) = (scene.network.clone(), scene.clock());
    FileClient::new(network, clock, server, Identity::default(), options)
}

/// Reads the memory of a card at a server, undisturbed.
async fn read(scene: &Scene, server: &str, card: &str, bytes: u64) -> Vec<u8> {
    let (network, clock) = (scene.network.clone(), scene.clock());
    let second = Picoseconds(SECOND_PS);
    let client = Client::connect(network, clock, server, &Identity::default(), second).await;
    let client = client.expect("the next client is served");
    let back = scene.empty(bytes).await;
    client.get(&place(card, 0), &back, &options(), |_| {}).await.expect("it is served");
    client.close().await;
    bytes_of(&back)
}

/// Makes the transfer; also returns the data that came back.
async fn transfer(
    scene: &Scene,
    way: Way,
    sent: &[u8],
) -> (Result<FileOutcome, FileError>, Vec<u8>) {
    let (mut client, mut back, here) = (files(scene, SERVER), Vec::new(), place(CARD, 0));
    let bytes = sent.len() as u64;
    let moved = match way {
        Way::Put => client.put(&mut &*sent, 0..bytes, &here, &()).await,
        Way::Get => client.get(&here, bytes, &mut back, &()).await,
        Way::RoundTrip => client.round_trip(CARD, &mut &*sent, bytes, None, &()).await,
        Way::Copy => {
            let (server, card) = (OTHER.to_owned(), "second".to_owned());
            let peer = PeerTarget { server, card, address: 0 };
            client.copy(&here, &peer, bytes, &()).await
        }
    };
    client.close().await;
    (moved, back)
}

/// Looks whether what a transfer said is true.
async fn check(
    scene: &Scene,
    (way, death): (Way, Death),
    sent: &[u8],
    (moved, back): (Result<FileOutcome, FileError>, Vec<u8>),
) {
    let is_put = matches!(way, Way::Put | Way::Copy);
    let (server, card) = if way == Way::Copy { (OTHER, "second") } else { (SERVER, CARD) };
    match moved {
        Ok(outcome) => {
            let sum = Some(crc32fast::hash(sent));
            let bytes = sent.len() as u64;
            assert_eq!((outcome.bytes, outcome.checksum), (bytes, sum));
            assert!(way != Way::Get || back == sent);
            assert!(!is_put || read(scene, server, card, bytes).await == sent);
        }
        Err(FileError::Bridge(error)) => {
            let arrived = error.arrived_bytes;
            assert!(back == sent[..back.len()], "{error}");
            // The byte that was changed is in what arrived, which nobody has compared.
            let is_changed =
                matches!(death, Death::Network(Fault::ChangeAt(_) | Fault::CutAndChangeAt(..)));
            if is_put && arrived > 0 && !is_changed {
                let there = read(scene, server, card, arrived).await;
                assert!(there == sent[..arrived as usize], "{error}");
            }
        }
        // Nobody was there from the beginning: nothing has moved.
        Err(FileError::NeverConnected(_)) => assert!(back.is_empty()),
        Err(error) => {
            let is_changed =
                matches!(death, Death::Network(Fault::ChangeAt(_) | Fault::CutAndChangeAt(..)));
            assert!(is_changed, "{error}");
        }
    }
}

/// Serves the first card until `stopped` ends; with a time, a server is stopped then, and another
/// one started.
async fn serve(
    scene: &Scene,
    ready: oneshot::Sender<()>,
    mut dies: oneshot::Receiver<Picoseconds>,
    stopped: oneshot::Receiver<()>,
) {
    let options = || Scene::small().with_patience(Picoseconds(SECOND_PS / 4));
    let server = scene.server(&[CARD], options(), Events::default()).await;
    let listener = server.listen(SERVER).await.expect("it is free");
    let _ = ready.send(());
    let mut stopped = stopped;
    let dying = async {
        match (&mut dies).await {
            Ok(at) => scene.clock().sleep_until(at).await,
            Err(_) => std::future::pending().await,
        }
    };
    let ending = async {
        select(pin!(dying), &mut stopped).await;
    };
    server.serve(listener, ending).await.expect("it ends well");
    scene.clock().sleep_until(Picoseconds(scene.bus_now() + SECOND_PS / 5)).await;
    let server = scene.server(&[CARD], options(), Events::default()).await;
    let listener = server.listen(SERVER).await.expect("it is free");
    let ending = async {
        // It may have ended before.
        let _ = stopped.await;
    };
    server.serve(listener, ending).await.expect("it ends well");
}

fn play(seed: u64) {
    let (scene, sent) = (Scene::new(100), content(seed));
    let (way, death) = deal(seed);
    let program = async || {
        let (ready, is_ready) = oneshot::channel();
        let (kill, dies) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let moving = async {
            is_ready.await.expect("a server");
            if way != Way::Put {
                let mut client = files(&scene, SERVER);
                let put =
                    client.put(&mut &sent[..], 0..sent.len() as u64, &place(CARD, 0), &()).await;
                put.expect("nothing has happened yet");
                client.close().await;
            }
            let soon = |after: Picoseconds| Picoseconds(scene.bus_now() + after.0);
            let mut kill = Some(kill);
            match death {
                Death::Network(fault) => scene.network.set_fault(fault),
                Death::Server(after) => {
                    let _ = kill.take().map(|kill| kill.send(soon(after)));
                }
                Death::Client(_) => {}
            }
            let moved = match death {
                Death::Client(after) => {
                    let clock = scene.clock();
                    let dying = pin!(clock.sleep_until(soon(after)));
                    match select(pin!(transfer(&scene, way, &sent)), dying).await {
                        Either::Left((moved, _)) => Some(moved),
                        Either::Right(_) => None,
                    }
                }
                _ => Some(transfer(&scene, way, &sent).await),
            };
            scene.network.set_fault(Fault::None);
            // A server that has just died is started again.
            scene.clock().sleep_until(soon(Picoseconds(SECOND_PS))).await;
            if let Some(moved) = moved {
                check(&scene, (way, death), &sent, moved).await;
            }
            read(&scene, SERVER, CARD, 4096).await;
            drop((kill, stop));
        };
        join!(serve(&scene, ready, dies, stopped), moving);
    };
    let ended = scene.simulation.run("kills", async {
        let options = Scene::small().with_patience(Picoseconds(SECOND_PS / 4));
        let second = scene.server(&["second"], options, Events::default()).await;
        serve_while(second, OTHER, program).await;
    });
    ended.expect("nothing hangs");
    assert_eq!(scene.network.registrations(), 0, "registrations are given back");
}

#[test]
fn whatever_dies_a_transfer_says_what_is_true() {
    let seeds = std::env::var("CROSSLANE_KILLS").ok().and_then(|text| {
        let (first, end) = text.split_once("..")?;
        Some(first.parse().ok()?..end.parse().ok()?)
    });
    for seed in seeds.unwrap_or(SEEDS) {
        let (way, death) = deal(seed);
        let played = std::panic::catch_unwind(|| play(seed));
        assert!(
            played.is_ok(),
            "{way:?}, {death:?}: CROSSLANE_KILLS={seed}..{} cargo test -p crosslane-bridge \
             --test integration kills",
            seed + 1
        );
    }
}
