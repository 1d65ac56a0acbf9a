// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients and servers that mean harm: what they get, and what they cost others.

use crate::support;

use crosslane_bridge::messages::{
    Hello, PeerTarget, Reply, Request, TransferRequest, Welcome, decode, encode,
};
use crosslane_bridge::{Client, Guard, Identity, Key, Mode, Path, Policy};
use crosslane_host::{
    Clock, DmaMemory, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaListener, RdmaRegion,
    RemoteAccess, RemoteMemory,
};
use crosslane_pcie::units::Picoseconds;
use futures_util::join;

use support::network::{Connection, Fault};
use support::{CARD, SECOND_PS, Scene, options, pattern, place};

/// Address of a server that means harm.
const STRANGER: &str = "127.0.0.1:9";

/// Accepts one connection as a server without keys would; returns it with its transfer.
async fn be_asked(scene: &Scene) -> (Connection, TransferRequest) {
    let listener = scene.network.listen(STRANGER).await.expect("it is free");
    let connection = listener.accept().await.expect("somebody comes");
    let hello = connection.receive().await.expect("a greeting");
    decode::<Hello>("a greeting", &hello).expect("it is one");
    let welcome = encode(&Welcome::Yes(Vec::new())).expect("it is short");
    connection.send(&welcome).await.expect("it is sent");
    let request = connection.receive().await.expect("a request");
    let Request::Transfer(transfer) = decode("a request", &request).expect("it is one") else {
        panic!("no transfer")
    };
    (connection, *transfer)
}

/// Reads all memory that another node offers.
async fn read_all(scene: &Scene, connection: &Connection, memory: RemoteMemory) -> Vec<u8> {
    let own = scene.network.allocate(memory.bytes, PageSize::Small).expect("there is memory");
    let region = scene.network.register(&own, RemoteAccess::NONE).await.expect("it can be");
    let near = NearEnd { region, offset_bytes: 0 };
    let far = FarEnd { memory, offset_bytes: 0 };
    connection.read(&near, far, memory.bytes).await.expect("it is offered");
    let mut bytes = vec![0; memory.bytes as usize];
    own.read(0, &mut bytes).expect("it lies within");
    bytes
}

fn to_stranger() -> PeerTarget {
    PeerTarget { server: STRANGER.to_owned(), card: "far".to_owned(), address: 0 }
}

#[test]
fn a_copy_shows_no_other_clients_data() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let bytes = 64 << 10;
        let (one, other) = (scene.client().await, scene.client().await);
        let source = scene.empty(bytes).await;
        source.region.memory().write(0, &[0xa5; 64 << 10]).expect("it lies within");
        scene.put(&one, &source, 0).await;
        // The secret goes through every slot of the ring.
        scene.get(&one, 0, bytes).await;
        let (from, options) = (place(CARD, 1 << 20), options());
        let copying = other.copy(&from, to_stranger(), bytes, &options, |_| {});
        let spying = async {
            let (connection, transfer) = be_asked(&scene).await;
            let source = transfer.source.expect("memory to read");
            let seen = read_all(&scene, &connection, source).await;
            assert!(!seen.contains(&0xa5), "another client's data");
            connection.close().await;
        };
        let (copied, ()) = join!(copying, spying);
        copied.expect_err("the stranger has gone");
        other.close().await;
        one.close().await;
    });
}

#[test]
fn a_server_connects_only_to_peers_of_its_policy() {
    let key = |byte| Key::new([byte; 32]);
    let allow = format!("[[client.allow]]\ncard = '{CARD}'\nbytes = 8192\naccess = 'read-write'\n");
    let text = format!("[[client]]\nname = 'rnode'\nkey = '{}'\n{allow}", key(1).to_hex());
    let policy = Policy::parse("policy", &text, key(9), |_| Ok(key(3))).expect("it is right");
    let scene = Scene::new(100);
    let identity = Identity { name: "one".to_owned(), key: Some(key(4)) };
    let server = Scene::small().with_guard(Guard::Keys(policy)).with_identity(identity);
    scene.with_server(&[CARD], server, async || {
        let identity = Identity { name: "rnode".to_owned(), key: Some(key(1)) };
        let client = scene.client_as(&identity).await.expect("its key");
        let options = options();
        let copying = client.copy(&place(CARD, 0), to_stranger(), 4096, &options, |_| {}).await;
        let error = copying.expect_err("nobody has named it");
        assert!(error.why.to_string().contains("the policy has to name that server"), "{error}");
        client.close().await;
    });
    // Without a policy it asks nobody beyond this machine.
    scene.with_server(&[CARD], Scene::small(), async || {
        let client = scene.client().await;
        let peer = PeerTarget { server: "10.0.0.1:22".to_owned(), ..to_stranger() };
        let error = client.copy(&place(CARD, 0), peer, 4096, &options(), |_| {}).await;
        let error = error.expect_err("it is beyond this machine");
        assert!(error.why.to_string().contains("need a policy file that names it"), "{error}");
        client.close().await;
    });
}

#[test]
fn a_naive_round_trip_ignores_its_address() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let part = scene.filled(40_000, 3).await;
        let region = Some(part.region.remote());
        for mode in [Mode::Naive, Mode::Pipelined] {
            let end = Picoseconds(SECOND_PS);
            let connection = scene.network.connect(support::SERVER, end).await.expect("there");
            let identity = Identity::default();
            let hello = support::hello(&identity.name);
            connection.send(&hello).await.expect("it is sent");
            connection.receive().await.expect("a welcome");
            let request = TransferRequest::new(Path::RoundTrip, CARD, u64::MAX, 40_000);
            let (source, destination) = (region, region);
            let request =
                TransferRequest { mode, source, destination, time_ps: SECOND_PS, ..request };
            let request = encode(&Request::Transfer(Box::new(request))).expect("it is short");
            connection.send(&request).await.expect("it is sent");
            loop {
                let reply = connection.receive().await.expect("a reply");
                match decode::<Reply>("a reply", &reply).expect("it is one") {
                    Reply::Ready => {
                        let ready = encode(&Request::Ready).expect("it is short");
                        connection.send(&ready).await.expect("it is sent");
                    }
                    Reply::Done(report) => break assert_eq!(report.bytes, 40_000),
                    Reply::Failed(failure) => panic!("{failure:?}"),
                    _ => {}
                }
            }
            assert!(support::bytes_of(&part) == pattern(40_000, 3));
            connection.close().await;
        }
    });
}

#[test]
fn a_silent_client_loses_its_slots() {
    let scene = Scene::new(100);
    let server = Scene::small().with_patience(Picoseconds(SECOND_PS / 2));
    let ((), events) = scene.with_server(&[CARD], server, async || {
        let (silent, client) = (scene.client().await, scene.client().await);
        let source = scene.filled(1 << 20, 1).await;
        let (to, mine) = (place(CARD, 0), options());
        let month = Picoseconds(30 * 86_400 * SECOND_PS);
        let long = options().with_time(month).with_chunk_bytes(Some((512, 512)));
        scene.network.set_fault(Fault::SilentFrom(9));
        let holding = silent.put(&source, &to, &long, |_| {});
        let moving = async {
            scene.clock().sleep_until(Picoseconds(scene.bus_now() + SECOND_PS / 100)).await;
            scene.network.set_fault(Fault::None);
            client.put(&source, &place(CARD, 1 << 20), &mine, |_| {}).await
        };
        let (held, moved) = join!(holding, moving);
        assert_eq!(moved.expect("it gets slots").report.bytes, 1 << 20);
        let error = held.expect_err("it was silent");
        assert!(error.why.to_string().contains("has done nothing for too long"), "{error}");
        client.close().await;
    });
    assert!(events.iter().any(|event| event.contains("too long")), "{events:?}");
}

#[test]
fn a_naive_client_that_is_never_ready_is_left() {
    let scene = Scene::new(100);
    let server = Scene::small().with_patience(Picoseconds(SECOND_PS / 2));
    scene.with_server(&[CARD], server, async || {
        let part = scene.filled(40_000, 3).await;
        let end = Picoseconds(SECOND_PS);
        let connection = scene.network.connect(support::SERVER, end).await.expect("there");
        connection.send(&support::hello("x")).await.expect("it is sent");
        connection.receive().await.expect("a welcome");
        let request = TransferRequest::new(Path::FromFpga, CARD, 0, 40_000);
        let (mode, destination) = (Mode::Naive, Some(part.region.remote()));
        let time_ps = 30 * 86_400 * SECOND_PS;
        let request = TransferRequest { mode, destination, time_ps, ..request };
        let request = encode(&Request::Transfer(Box::new(request))).expect("it is short");
        connection.send(&request).await.expect("it is sent");
        let begun = scene.bus_now();
        while connection.receive().await.is_ok() {}
        assert!(scene.bus_now() - begun < 2 * SECOND_PS, "the server has closed it");
    });
}

#[test]
fn idle_clients_give_way_to_a_new_one() {
    let scene = Scene::new(100);
    let ((), events) = scene.with_server(&[CARD], Scene::small(), async || {
        let source = scene.filled(4096, 1).await;
        let mut idle = Vec::new();
        for _ in 0..300 {
            idle.push(scene.client().await);
        }
        let client = scene.client().await;
        scene.put(&client, &source, 0).await;
        // The one that came last has a place, the one that came first has not.
        scene.put(&idle[299], &source, 0).await;
        assert!(idle[0].cards().await.is_err(), "it has made room");
        for client in idle {
            client.close().await;
        }
        client.close().await;
    });
    assert!(events.iter().any(|event| event.contains("has made room for others")), "{events:?}");
}

#[test]
fn connections_without_a_greeting_hold_up_nobody() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let end = Picoseconds(SECOND_PS);
        let mut strangers = Vec::new();
        for _ in 0..600 {
            strangers.push(scene.network.connect(support::SERVER, end).await.expect("there"));
        }
        let begun = scene.bus_now();
        let client = scene.client().await;
        let source = scene.filled(4096, 1).await;
        scene.put(&client, &source, 0).await;
        let took = scene.bus_now() - begun;
        // All before it had the time to say who they are, 128 at once.
        assert!(took < SECOND_PS, "{took} ps");
        client.close().await;
    });
}

#[test]
fn a_greeting_sent_again_is_no_client() {
    let key = |byte| Key::new([byte; 32]);
    let text = format!("[[client]]\nname = 'rnode'\nkey = '{}'\n", key(1).to_hex());
    let policy = Policy::parse("policy", &text, key(9), |_| Ok(key(3))).expect("it is right");
    let scene = Scene::new(100);
    let server = Scene::small().with_guard(Guard::Keys(policy));
    let ((), events) = scene.with_server(&[CARD], server, async || {
        let identity = Identity { name: "rnode".to_owned(), key: Some(key(1)) };
        let end = Picoseconds(SECOND_PS);
        // Somebody hears a greeting on its way.
        let listener = scene.network.listen(STRANGER).await.expect("it is free");
        let (network, clock) = (scene.network.clone(), scene.clock());
        let greeting = Client::connect(network, clock, STRANGER, &identity, end);
        let hearing = async {
            let connection = listener.accept().await.expect("somebody comes");
            let hello = connection.receive().await.expect("a greeting");
            connection.close().await;
            hello
        };
        let (greeted, hello) = join!(greeting, hearing);
        assert!(greeted.is_err());
        let mut again = Vec::new();
        for _ in 0..300 {
            let connection = scene.network.connect(support::SERVER, end).await.expect("there");
            connection.send(&hello).await.expect("it is sent");
            connection.receive().await.expect("a welcome");
            again.push(connection);
        }
        let client = scene.client_as(&identity).await.expect("its key");
        assert_eq!(client.cards().await.expect("it answers"), [CARD]);
        client.close().await;
    });
    let connected = events.iter().filter(|event| event.ends_with("is connected")).count();
    assert_eq!(connected, 1, "{events:?}");
}

#[test]
fn names_of_clients_cannot_forge_a_log() {
    let scene = Scene::new(100);
    let ((), events) = scene.with_server(&[CARD], Scene::small(), async || {
        let name = "a\u{1b}[2J\nroot at 10.0.0.1 is connected".to_owned();
        let client = scene.client_as(&Identity { name, key: None }).await.expect("it is open");
        let part = scene.filled(1, 1).await;
        let refused = client.put(&part, &place("no\u{202e}\n", 0), &options(), |_| {}).await;
        refused.expect_err("there is no such card");
        client.close().await;
    });
    assert_eq!(events.len(), 2, "{events:?}");
    for event in events {
        let is_plain = event.chars().all(|c| !c.is_control() && c != '\u{202e}');
        assert!(is_plain && event.starts_with(r"a\u{1b}[2J\nroot"), "{event}");
    }
}

#[test]
fn a_read_beyond_the_card_names_the_cards_address() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let (bytes, end) = (64 << 10, 1 << 30);
        let part = scene.filled(bytes, 5).await;
        let from = place(CARD, end - bytes / 2);
        for is_put in [true, false] {
            let client = scene.client().await;
            let moved = match is_put {
                true => client.put(&part, &from, &options(), |_| {}).await,
                false => client.get(&from, &part, &options(), |_| {}).await,
            };
            let error = moved.expect_err("it lies behind the memory").to_string();
            assert!(error.contains("refused it at 0x40000000:"), "{error}");
        }
    });
}
