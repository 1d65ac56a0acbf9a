// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients and servers that mean harm: what they get, and what they cost others.

use crate::support;

use crosslane_bridge::messages::{
    Hello, PeerTarget, Reply, Request, TransferRequest, Welcome, decode, encode,
};
use crosslane_bridge::{Guard, Identity, Key, Policy};
use crosslane_host::{
    DmaMemory, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaListener, RdmaRegion,
    RemoteAccess, RemoteMemory,
};
use crosslane_pcie::units::Picoseconds;
use futures_util::join;

use support::network::Connection;
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
    (connection, transfer)
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
        for mode in [crosslane_bridge::Mode::Naive, crosslane_bridge::Mode::Pipelined] {
            let end = Picoseconds(SECOND_PS);
            let connection = scene.network.connect(support::SERVER, end).await.expect("there");
            let identity = Identity::default();
            let hello = support::hello(&identity.name);
            connection.send(&hello).await.expect("it is sent");
            connection.receive().await.expect("a welcome");
            let path = crosslane_bridge::Path::RoundTrip;
            let request = TransferRequest::new(path, CARD, u64::MAX, 40_000);
            let (source, destination) = (region, region);
            let request =
                TransferRequest { mode, source, destination, time_ps: SECOND_PS, ..request };
            let request = encode(&Request::Transfer(request)).expect("it is short");
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
