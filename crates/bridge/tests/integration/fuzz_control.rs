// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random input for the control protocol: invalid bytes, messages with any numbers, in any order. A
//! server answers or closes the connection, serves the next client, and leaves nothing behind;
//! memory that a client has not offered is not touched.

use crate::support;

use bolero::TypeGenerator;
use crosslane_bridge::messages::{
    Carried, Hello, MAGIC, PeerTarget, ReloadRequest, Reply, Request, TransferRequest, VERSION,
    Welcome, decode, encode,
};
use crosslane_bridge::{Mode, Path};
use crosslane_host::{Clock, Rdma, RdmaConnection, RdmaRegion, RemoteMemory};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, select};

use sha2::{Digest, Sha256};

use crate::reload::Bench;
use support::{Events, SECOND_PS, SERVER, Scene, bytes_of, pattern, serve_while};

/// Inputs of a plain run; `make fuzz` sets another number.
const ITERATIONS: usize = 2000;
/// Inputs among them for which a lab is built.
const SESSIONS: usize = 60;
/// Messages of one client.
const MOST_MESSAGES: usize = 8;
/// Length of the client's memory, bytes.
const OWN_BYTES: u64 = 50_000;
/// Cards in requests, most of which are there.
const CARDS: [&str; 4] = ["kc705", "kc705", "kc705", "other"];

/// Numbers that are easy to forget.
#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Number {
    Zero,
    Small(u16),
    PowerOfTwo(u8),
    BelowPowerOfTwo(u8),
    Any(u64),
}

impl Number {
    fn value(self) -> u64 {
        match self {
            Self::Zero => 0,
            Self::Small(number) => number.into(),
            Self::PowerOfTwo(bit) => 1 << (bit % 64),
            Self::BelowPowerOfTwo(bit) => u64::MAX >> (bit % 64),
            Self::Any(number) => number,
        }
    }
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Memory {
    None,
    /// The client's registered region, unchanged.
    Own,
    /// The same with another address or size.
    Wrong {
        address: Number,
        bytes: Number,
    },
    Any {
        address: Number,
        key: Number,
        bytes: Number,
    },
}

/// Data within the messages.
#[derive(Clone, Copy, Debug, TypeGenerator)]
enum InMessages {
    No,
    Get,
    /// So many bytes, as long as a message takes them.
    Put(u16),
    /// As many as the transfer has.
    PutAll,
}

#[derive(Clone, Debug, TypeGenerator)]
enum Message {
    Bytes(Vec<u8>),
    Cards,
    Ready,
    Cancel,
    Chunk { offset_bytes: Number, bytes: Number },
    Transfer(Box<Transfer>),
    Survey,
    Reload(Box<Reload>),
}

#[derive(Clone, Debug, TypeGenerator)]
struct Reload {
    card: u8,
    ending: Option<String>,
    bytes: Number,
    /// As long as the memory.
    is_whole: bool,
    /// With the right checksum.
    is_same: bool,
    source: Memory,
    waits: bool,
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
struct Transfer {
    path: u8,
    is_naive: bool,
    card: u8,
    address: Number,
    bytes: Number,
    first: Number,
    source: Memory,
    destination: Memory,
    is_announced: bool,
    peer: Option<(bool, Number)>,
    chunk_bytes: Option<(Number, Number)>,
    checksum: bool,
    carried: InMessages,
    /// Waits for the answer before the next message.
    waits: bool,
}

impl Memory {
    fn region(self, own: RemoteMemory) -> Option<RemoteMemory> {
        match self {
            Self::None => None,
            Self::Own => Some(own),
            Self::Wrong { address, bytes } => Some(RemoteMemory {
                address: own.address.wrapping_add(address.value()),
                bytes: bytes.value(),
                ..own
            }),
            Self::Any { address, key, bytes } => Some(RemoteMemory {
                address: address.value(),
                key: key.value(),
                bytes: bytes.value(),
            }),
        }
    }
}

impl Transfer {
    fn request(&self, own: RemoteMemory) -> TransferRequest {
        let paths = [Path::ToFpga, Path::FromFpga, Path::RoundTrip, Path::ToPeer, Path::WithinNode];
        let bytes = self.bytes.value();
        let data = |bytes: u64| Carried::Put(vec![7; bytes.min(3900) as usize]);
        let path = paths[usize::from(self.path) % paths.len()];
        let here = (path == Path::WithinNode).then_some("");
        TransferRequest {
            path,
            mode: if self.is_naive { Mode::Naive } else { Mode::Pipelined },
            card: CARDS[usize::from(self.card) % CARDS.len()].to_owned(),
            address: self.address.value(),
            bytes,
            carried: match self.carried {
                InMessages::No => None,
                InMessages::Get => Some(Carried::Get),
                InMessages::Put(bytes) => Some(data(bytes.into())),
                InMessages::PutAll => Some(data(bytes)),
            },
            first: self.first.value(),
            source: self.source.region(own),
            is_announced: self.is_announced,
            destination: self.destination.region(own),
            peer: self.peer.map(|(is_there, address)| PeerTarget {
                server: here.unwrap_or(if is_there { SERVER } else { "127.0.0.1:1" }).to_owned(),
                card: "kc705".to_owned(),
                address: address.value(),
            }),
            chunk_bytes: self.chunk_bytes.map(|(least, most)| (least.value(), most.value())),
            // Short, so that transfers that cannot end are soon over.
            time_ps: SECOND_PS / 1000,
            checksum: self.checksum,
        }
    }
}

impl Reload {
    fn request(&self, own: RemoteMemory) -> ReloadRequest {
        let bytes = if self.is_whole { OWN_BYTES } else { self.bytes.value() };
        let sum = Sha256::digest(pattern(OWN_BYTES, 1));
        ReloadRequest {
            card: CARDS[usize::from(self.card) % CARDS.len()].to_owned(),
            ending: self.ending.clone().unwrap_or_default().chars().take(20).collect(),
            bytes,
            sha256: if self.is_same { sum.into() } else { [7; 32] },
            source: self.source.region(own).unwrap_or(own),
            time_ps: SECOND_PS / 1000,
        }
    }
}

#[test]
fn fuzz_decode() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        let _ = decode::<Hello>("a greeting", bytes);
        let _ = decode::<Welcome>("a welcome", bytes);
        if let Ok(request) = decode::<Request>("a request", bytes) {
            match &request {
                Request::Transfer(transfer) => drop(transfer.check()),
                Request::Reload(reload) => drop(reload.check()),
                _ => {}
            }
            // A decoded message can be encoded again, if it is not too long.
            if let Ok(again) = encode(&request) {
                assert_eq!(decode::<Request>("a request", &again), Ok(request));
            }
        }
        if let Ok(reply) = decode::<Reply>("a reply", bytes)
            && let Ok(again) = encode(&reply)
        {
            assert_eq!(decode::<Reply>("a reply", &again), Ok(reply));
        }
    });
}

#[test]
fn fuzz_session() {
    bolero::check!()
        .with_type::<(bool, Vec<Message>)>()
        .with_iterations(SESSIONS)
        .for_each(|(greets, messages)| session(*greets, messages));
}

fn session(greets: bool, messages: &[Message]) {
    let scene = Scene::new(10);
    let program = async || {
        let own = scene.filled(OWN_BYTES, 1).await;
        let foreign = scene.filled(50_000, 2).await;
        let end = Picoseconds(SECOND_PS);
        let connection = scene.network.connect(SERVER, end).await.expect("it is there");
        let clock = scene.clock();
        let soon = || Picoseconds(clock.now().0 + SECOND_PS / 100);
        if greets {
            let name = "x".to_owned();
            let hello = Hello { magic: MAGIC, version: VERSION, name, handshake: Vec::new() };
            let _ = connection.send(&encode(&hello).expect("it is short")).await;
            let _ = connection.receive().await;
        }
        let region = own.region.remote();
        for message in messages.iter().take(MOST_MESSAGES) {
            let (bytes, waits) = match message {
                Message::Bytes(bytes) => (bytes.clone(), false),
                Message::Cards => (encode(&Request::Cards).expect("short"), true),
                Message::Ready => (encode(&Request::Ready).expect("short"), false),
                Message::Cancel => (encode(&Request::Cancel).expect("short"), false),
                Message::Chunk { offset_bytes, bytes } => {
                    let (offset_bytes, bytes) = (offset_bytes.value(), bytes.value());
                    (encode(&Request::Chunk { offset_bytes, bytes }).expect("short"), false)
                }
                Message::Survey => (encode(&Request::Survey).expect("short"), true),
                Message::Reload(reload) => {
                    let request = Request::Reload(Box::new(reload.request(region)));
                    (encode(&request).expect("short"), reload.waits)
                }
                Message::Transfer(transfer) => {
                    let request = Request::Transfer(Box::new(transfer.request(region)));
                    (encode(&request).expect("short"), transfer.waits)
                }
            };
            if connection.send(&bytes).await.is_err() {
                break;
            }
            if waits {
                let (answer, late) = (connection.receive(), clock.sleep_until(soon()));
                let (answer, late) = (std::pin::pin!(answer), std::pin::pin!(late));
                if let Either::Left((Ok(answer), _)) = select(answer, late).await
                    && greets
                {
                    decode::<Reply>("a reply", &answer).expect("a server speaks well");
                }
            }
        }
        connection.close().await;
        drop(connection);
        assert!(bytes_of(&foreign) == pattern(50_000, 2), "nobody has offered this memory");
        // The next client is served.
        let client = scene.client().await;
        scene.put(&client, &foreign, 0).await;
        assert!(scene.get(&client, 0, 50_000).await == pattern(50_000, 2));
    };
    let run = scene.simulation.run("test", async {
        let options = Scene::small().with_closed_network(true);
        let server = scene.server(&["kc705"], options, Events::default()).await;
        let server = server.with_reloader(Bench::new(scene.bus.clone()));
        serve_while(server, SERVER, program).await;
    });
    run.expect("nothing hangs");
    scene.check_empty();
}
