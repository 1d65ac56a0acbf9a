// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams to and from a card: pieces that overlap with the network, resumption, and failures of
//! either side.

use crate::support;

use std::cell::RefCell;
use std::io::{self, Read, Write};

use crosslane_bridge::files::{FileClient, FileError, FileOptions, Watch};
use crosslane_bridge::{BridgeError, Identity, Stage};
use crosslane_lab::LabBus;
use crosslane_pcie::units::Picoseconds;

use support::network::{Fault, Network};
use support::{CARD, SECOND_PS, SERVER, Scene, pattern, place};

/// Size of a piece, bytes: eight slots of the server.
const PIECE: u64 = 128 << 10;

fn client(scene: &Scene) -> FileClient<Network, LabBus> {
    let options = FileOptions::default()
        .with_piece_bytes(PIECE)
        .with_retries(2)
        .with_time(Picoseconds(SECOND_PS));
    FileClient::new(scene.network.clone(), scene.clock(), SERVER, Identity::default(), options)
}

/// An event of a call: the stream's position, or the bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Stream(u64),
    Arrived(u64),
    Resumed,
}

/// The events of a call, in order.
#[derive(Default)]
struct Log(RefCell<Vec<Event>>);

impl Log {
    fn note(&self, event: Event) {
        self.0.borrow_mut().push(event);
    }

    #[track_caller]
    fn index(&self, event: Event) -> usize {
        let events = self.0.borrow();
        events.iter().position(|it| *it == event).unwrap_or_else(|| panic!("{event:?}: {events:?}"))
    }
}

impl Watch for Log {
    fn arrived(&self, bytes: u64) {
        self.note(Event::Arrived(bytes));
    }

    fn resumed(&self, _: &BridgeError) {
        self.note(Event::Resumed);
    }
}

/// A stream that notes its position, gives or takes at most 1,000 bytes at a time, and fails at a
/// position.
struct Stream<'a> {
    log: &'a Log,
    data: Vec<u8>,
    at: u64,
    fails_at: u64,
}

impl<'a> Stream<'a> {
    fn new(log: &'a Log, data: Vec<u8>) -> Self {
        Self { log, data, at: 0, fails_at: u64::MAX }
    }

    fn step(&mut self, bytes: usize) -> io::Result<usize> {
        if self.at >= self.fails_at {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let bytes = bytes.min(1000).min((PIECE - self.at % PIECE) as usize);
        self.at += bytes as u64;
        self.log.note(Event::Stream(self.at));
        Ok(bytes)
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.data[self.at as usize..].to_vec();
        let bytes = self.step(into.len().min(rest.len()))?;
        into[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let bytes = self.step(from.len())?;
        self.data.extend(&from[..bytes]);
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn pieces_overlap_with_the_stream_and_two_are_in_memory() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let (mut client, to) = (client(&scene), place(CARD, 5));
        let bytes = 3 * PIECE + 1;
        let sent = pattern(bytes, 1);
        let log = Log::default();
        let mut stream = Stream::new(&log, sent.clone());
        let put = client.put(&mut stream, 0..bytes, &to, &log).await.expect("it is put");
        assert_eq!((put.bytes, put.checksum), (bytes, Some(crc32fast::hash(&sent))));
        assert_eq!((put.retries, put.reports.len()), (0, 4));
        // The second piece has been read before the first has arrived, and the third has not.
        for piece in 1..3 {
            let arrived = log.index(Event::Arrived(piece * PIECE));
            assert!(log.index(Event::Stream((piece + 1) * PIECE)) < arrived, "piece {piece}");
            let further = ((piece + 1) * PIECE + 1000).min(bytes);
            assert!(log.index(Event::Stream(further)) > arrived, "piece {piece}");
        }

        let log = Log::default();
        let mut stream = Stream::new(&log, Vec::new());
        let got = client.get(&to, bytes, &mut stream, &log).await.expect("it is got");
        assert!(stream.data == sent);
        assert_eq!(got.checksum, put.checksum);
        // The first piece is written while the second one arrives.
        for piece in 1..3 {
            let written = log.index(Event::Stream(piece * PIECE));
            assert!(log.index(Event::Arrived(piece * PIECE)) < written, "piece {piece}");
            assert!(written < log.index(Event::Arrived((piece + 1) * PIECE)), "piece {piece}");
        }
        client.close().await;
    });
}

#[test]
fn pieces_grow_and_shrink() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let options = FileOptions::default().with_piece_bytes(PIECE).with_least_piece_bytes(16_384);
        let (network, clock) = (scene.network.clone(), scene.clock());
        let mut client = FileClient::new(network, clock, SERVER, Identity::default(), options);
        let (sent, to) = (pattern(5 * PIECE + 9, 3), place(CARD, 77));
        let bytes = sent.len() as u64;
        let mut from = sent.as_slice();
        let put = client.put(&mut from, 0..bytes, &to, &()).await.expect("it is put");
        let sizes: Vec<u64> = put.reports.iter().map(|report| report.bytes >> 10).collect();
        assert_eq!(sizes, [16, 32, 64, 128, 128, 128, 72, 36, 16, 20]);
        let mut back = Vec::new();
        let got = client.get(&to, bytes, &mut back, &()).await.expect("it is got");
        assert!(back == sent);
        assert_eq!(got.checksum, put.checksum);
        client.close().await;
    });
}

#[test]
fn round_trips_are_compared_or_written() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let mut client = client(&scene);
        let bytes = 2 * PIECE + 4000;
        let sent = pattern(bytes, 2);
        let trip = client.round_trip(CARD, &mut &sent[..], bytes, None, &()).await;
        assert_eq!(trip.expect("it is equal").checksum, Some(crc32fast::hash(&sent)));
        let mut back = Vec::new();
        let trip = client.round_trip(CARD, &mut &sent[..], bytes, Some(&mut back), &()).await;
        assert_eq!(trip.expect("it comes back").checksum, None);
        assert!(back == sent);
        // A byte is changed behind the server's checksum.
        scene.network.set_fault(Fault::ChangeAt(40));
        let error = client.round_trip(CARD, &mut &sent[..], bytes, None, &()).await;
        let error = error.expect_err("a byte is wrong");
        assert!(matches!(error, FileError::Changed { .. } | FileError::Differs { .. }), "{error}");
        scene.network.set_fault(Fault::None);
    });
}

#[test]
fn lost_connections_are_replaced_and_a_put_resumes() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let (mut client, to) = (client(&scene), place(CARD, 0));
        let bytes = 2 * PIECE;
        let sent = pattern(bytes, 3);
        for fault in [Fault::CutAt(9), Fault::RefuseAt(9)] {
            let log = Log::default();
            scene.network.set_fault(fault);
            let put = client.put(&mut &sent[..], 0..bytes, &to, &log).await.expect("it is put");
            assert_eq!(put.retries, 1, "{fault:?}");
            log.index(Event::Resumed);
            scene.network.set_fault(fault);
            let mut back = Vec::new();
            let got = client.get(&to, bytes, &mut back, &()).await.expect("it is got");
            assert_eq!(got.retries, 1, "{fault:?}");
            assert!(back == sent, "{fault:?}");
        }
        // By hand: the first bytes have arrived before.
        let (first, other) = (PIECE / 2 + 3, pattern(bytes, 4));
        let put = client.put(&mut &other[first as usize..], first..bytes, &to, &()).await;
        assert_eq!(put.expect("it is put").bytes, bytes - first);
        let mut back = Vec::new();
        client.get(&to, bytes, &mut back, &()).await.expect("it is got");
        assert!(back[..first as usize] == sent[..first as usize]);
        assert!(back[first as usize..] == other[first as usize..]);
        client.close().await;
    });
}

#[test]
fn changed_data_and_failing_streams_are_errors() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let (mut client, to) = (client(&scene), place(CARD, 0));
        let (bytes, log) = (2 * PIECE, Log::default());
        let sent = pattern(bytes, 5);
        scene.network.set_fault(Fault::ChangeAt(2));
        let error = client.put(&mut &sent[..], 0..bytes, &to, &()).await.expect_err("it differs");
        assert!(matches!(error, FileError::Changed { from: 0, .. }), "{error}");
        scene.network.set_fault(Fault::None);

        let mut short = &sent[..bytes as usize - 1];
        let error = client.put(&mut short, 0..bytes, &to, &()).await.expect_err("it ends early");
        assert_eq!(
            error.to_string(),
            format!("the data to send end at byte {} of {bytes}", bytes - 1)
        );
        let mut full = Stream { fails_at: PIECE + 1000, ..Stream::new(&log, Vec::new()) };
        let error = client.get(&to, bytes, &mut full, &()).await.expect_err("it is full");
        assert!(matches!(error, FileError::Write(_)), "{error}");
        assert_eq!(full.data.len() as u64, PIECE + 1000);

        // A refusal of the card is not tried again, and the client can be used after it.
        let beyond = place(CARD, (1 << 30) - PIECE);
        let error = client.put(&mut &sent[..], 0..bytes, &beyond, &()).await.expect_err("beyond");
        assert!(matches!(&error, FileError::Bridge(it) if it.stage == Stage::Dma), "{error}");
        let put = client.put(&mut &sent[..], 0..bytes, &to, &()).await.expect("it is put");
        assert_eq!((put.bytes, put.retries), (bytes, 0));
        client.close().await;
    });
}

#[test]
fn a_resumed_transfer_is_compared_as_a_whole() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let (mut client, to) = (client(&scene), place(CARD, 0));
        let bytes = 2 * PIECE;
        let sent = pattern(bytes, 6);
        // Behind the cut, and before it: there the bytes are moved once more.
        for (cut, change) in [(9, 13), (9, 3)] {
            let fault = Fault::CutAndChangeAt(cut, change);
            scene.network.set_fault(fault);
            let put = client.put(&mut &sent[..], 0..bytes, &to, &()).await;
            scene.network.set_fault(Fault::None);
            match put {
                Ok(put) => {
                    assert_eq!((put.retries, change), (1, 3), "{fault:?}");
                    let mut back = Vec::new();
                    client.get(&to, bytes, &mut back, &()).await.expect("it is got");
                    assert!(back == sent, "{fault:?}");
                }
                Err(error) => assert!(matches!(error, FileError::Changed { .. }), "{error}"),
            }
            client.put(&mut &sent[..], 0..bytes, &to, &()).await.expect("it is put");
            scene.network.set_fault(fault);
            let mut back = Vec::new();
            let got = client.get(&to, bytes, &mut back, &()).await;
            match got {
                Ok(_) => assert!(back == sent && change == 3, "{fault:?}"),
                Err(error) => assert!(matches!(error, FileError::Changed { .. }), "{error}"),
            }
            scene.network.set_fault(fault);
            let mut back = Vec::new();
            let trip = client.round_trip(CARD, &mut &sent[..], bytes, Some(&mut back), &()).await;
            match trip {
                // The data that come back are no copy of those sent, and have no checksum.
                Ok(trip) => assert_eq!(trip.checksum, None, "{fault:?}"),
                Err(error) => assert!(matches!(error, FileError::Changed { .. }), "{error}"),
            }
            scene.network.set_fault(Fault::None);
        }
        client.close().await;
    });
}

#[test]
fn a_resume_begins_where_the_checksum_ends() {
    // A piece takes 1.3 s, and the server tells how far it is every 0.1 s.
    let scene = Scene::new(10_000_000);
    scene.with_server(&[CARD], Scene::small(), async || {
        let to = place(CARD, 0);
        let options = FileOptions::default().with_piece_bytes(PIECE).with_retries(1);
        let identity = Identity::default();
        let (network, clock) = (scene.network.clone(), scene.clock());
        let mut client = FileClient::new(network, clock, SERVER, identity, options);
        let sent = pattern(PIECE, 7);
        scene.network.set_fault(Fault::CutAt(9));
        let put = client.put(&mut &sent[..], 0..PIECE, &to, &()).await.expect("it is put");
        let moved: u64 = put.reports.iter().map(|report| report.bytes).sum();
        assert!((1..PIECE * 3 / 4).contains(&moved), "{moved} B of {PIECE} B were moved again");
        assert_eq!((put.retries, put.checksum), (1, Some(crc32fast::hash(&sent))));
        scene.network.set_fault(Fault::CutAndChangeAt(9, 11));
        let error = client.put(&mut &sent[..], 0..PIECE, &to, &()).await.expect_err("it differs");
        assert!(matches!(error, FileError::Changed { from: 0, .. }), "{error}");
        scene.network.set_fault(Fault::None);
        client.close().await;
    });
}

#[test]
fn a_server_that_is_away_is_waited_for() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let (bytes, to) = (3 * PIECE, place(CARD, 0));
        let sent = pattern(bytes, 8);
        // In the second piece: two attempts to connect fail, and the third one does not.
        for (retries, attempts) in [(3, 2), (2, 2)] {
            let options = FileOptions::default().with_piece_bytes(PIECE).with_retries(retries);
            let identity = Identity::default();
            let (network, clock) = (scene.network.clone(), scene.clock());
            let mut client = FileClient::new(network, clock, SERVER, identity, options);
            scene.network.set_fault(Fault::AwayAt(15, attempts));
            let begun = scene.bus_now();
            let put = client.put(&mut &sent[..], 0..bytes, &to, &()).await;
            let waited = (scene.bus_now() - begun) / (SECOND_PS / 10);
            scene.network.set_fault(Fault::None);
            if retries == 3 {
                let put = put.expect("it is put");
                assert_eq!((put.retries, put.checksum), (3, Some(crc32fast::hash(&sent))));
                assert_eq!(waited, 35, "0.5 s, 1 s and 2 s");
                client.close().await;
                continue;
            }
            let error = put.expect_err("it was away for longer");
            let FileError::Bridge(error) = error else { panic!("{error}") };
            assert_eq!(error.total_bytes, bytes, "of the file: {error}");
            assert!((PIECE..2 * PIECE).contains(&error.arrived_bytes), "{error}");
        }
    });
}

#[test]
fn a_client_that_never_connected_says_so() {
    let scene = Scene::new(100);
    let put = scene.simulation.run("test", async {
        let options = FileOptions::default();
        let (network, clock) = (scene.network.clone(), scene.clock());
        let mut client = FileClient::new(network, clock, SERVER, Identity::default(), options);
        client.put(&mut &[7; 100][..], 0..100, &place(CARD, 0), &()).await
    });
    let error = put.expect("nothing hangs").expect_err("nobody is there").to_string();
    let words = format!("connection: {SERVER}: nobody: never connected, so nothing has moved");
    assert_eq!(error, words);
}
