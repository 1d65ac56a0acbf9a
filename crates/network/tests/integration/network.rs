// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks between two processes, over the providers that every machine has.

use crate::support;

use crosslane_host::{
    DmaMemory, ErrorKind, MAX_RDMA_MESSAGE_BYTES, Rdma, RdmaConnection, RdmaError, RdmaListener,
    RdmaRegion, RemoteAccess, RemoteMemory,
};
use crosslane_network::{Connection, MachineClock, Network, Provider, providers};
use futures_util::future::join_all;
use support::{
    EVERYWHERE, Over, Pair, contents, far, far_of, hash, near_end, open, pair, pattern, region, run,
};

#[test]
fn data_of_all_sizes_and_offsets() {
    const MEMORY_BYTES: u64 = 5 << 20;
    for over in EVERYWHERE {
        let Pair { network, near, mut peer, .. } = pair(over);
        let (memory, near_region) = region(&network, MEMORY_BYTES, RemoteAccess::NONE);
        let there = peer.region(MEMORY_BYTES, RemoteAccess::READ_WRITE);
        let mut expected = vec![0; MEMORY_BYTES as usize];
        let mut rng = crosslane_random::Random::with_seed(7);
        let sizes = [0, 1, 3, 7, 8, 63, 64, 192, 193, 4095, 4096, 4097, 65_536, 1 << 20, 4 << 20];
        let random: Vec<u64> = (0..50).map(|_| rng.u64(..20_000)).collect();
        for bytes in sizes.into_iter().chain(random) {
            let from = rng.u64(..=MEMORY_BYTES - bytes);
            let to = rng.u64(..=MEMORY_BYTES - bytes);
            let data = pattern(bytes, bytes as usize);
            memory.write(from, &data).unwrap();
            let (here, there) = (near_end(&near_region, from), far_of(there, to));
            run("a write", near.write(&here, there, bytes)).unwrap();
            expected[to as usize..(to + bytes) as usize].copy_from_slice(&data);
            memory.write(from, &vec![0; bytes as usize]).unwrap();
            run("a read", near.read(&here, there, bytes)).unwrap();
            let mut back = vec![0; bytes as usize];
            memory.read(from, &mut back).unwrap();
            assert!(back == data, "{over}: {bytes} B from {from} to {to}");
        }
        assert_eq!(peer.hash(0), hash(&expected), "{over}: nothing else was written");
    }
}

#[test]
fn many_at_once_from_both_ends() {
    const PIECES: u64 = 300;
    const PIECE_BYTES: u64 = 10_007;
    const BYTES: u64 = PIECES * PIECE_BYTES;
    for over in EVERYWHERE {
        let Pair { network, near, mut peer, .. } = pair(over);
        // Each end writes its first memory to the other's second.
        let (memory, first) = region(&network, BYTES, RemoteAccess::READ_WRITE);
        let (second_memory, second) = region(&network, BYTES, RemoteAccess::READ_WRITE);
        let data = pattern(1, BYTES as usize);
        memory.write(0, &data).unwrap();
        peer.region(BYTES, RemoteAccess::READ_WRITE);
        peer.ask("fill 0 2");
        let there = peer.region(BYTES, RemoteAccess::READ_WRITE);
        let turned = |data: &[u8]| -> Vec<u8> {
            data.chunks(PIECE_BYTES as usize).rev().flatten().copied().collect()
        };
        let RemoteMemory { key, address, bytes } = second.remote();
        peer.begin(&format!("write 0 {key} {address} {bytes} {PIECES}"));
        let writes = (0..PIECES).map(|piece| {
            let (near, first) = (&near, &first);
            async move {
                let at = piece * PIECE_BYTES;
                let to = far_of(there, BYTES - PIECE_BYTES - at);
                near.write(&near_end(first, at), to, PIECE_BYTES).await
            }
        });
        for result in run("300 writes at once", join_all(writes)) {
            result.unwrap();
        }
        assert_eq!(peer.answer(), "done", "{over}");
        assert!(contents(&second_memory) == turned(&pattern(2, BYTES as usize)), "{over}");
        assert_eq!(peer.hash(1), hash(&turned(&data)), "{over}");
        // Back by reads.
        let RemoteMemory { key, address, bytes } = first.remote();
        peer.begin(&format!("read 0 {key} {address} {bytes} {PIECES}"));
        let reads = (0..PIECES).map(|piece| {
            let (near, second) = (&near, &second);
            async move {
                let at = piece * PIECE_BYTES;
                let from = far_of(there, BYTES - PIECE_BYTES - at);
                near.read(&near_end(second, at), from, PIECE_BYTES).await
            }
        });
        for result in run("300 reads at once", join_all(reads)) {
            result.unwrap();
        }
        assert_eq!(peer.answer(), "done", "{over}");
        assert!(contents(&second_memory) == data, "{over}");
        assert_eq!(peer.hash(0), hash(&turned(&data)), "{over}");
    }
}

#[test]
fn messages_come_whole_and_in_order() {
    for over in EVERYWHERE {
        let Pair { near, mut peer, .. } = pair(over);
        let lengths = [0, 1, 100, MAX_RDMA_MESSAGE_BYTES - 1, MAX_RDMA_MESSAGE_BYTES];
        let length = |number: u64| lengths[number as usize % lengths.len()];
        peer.begin("echo 1000");
        run("1,000 messages and back", async {
            let send = join_all((0..1000).map(|number| {
                let near = &near;
                async move { near.send(&pattern(number, length(number))).await.unwrap() }
            }));
            let receive = async {
                for number in 0..1000 {
                    let message = near.receive().await.unwrap();
                    assert!(message == pattern(number, length(number)), "{over}: {number}");
                }
            };
            futures_util::join!(send, receive);
        });
        assert_eq!(peer.answer(), "done");
        let error = run("a long one", near.send(&[0; MAX_RDMA_MESSAGE_BYTES + 1])).unwrap_err();
        assert_eq!(error.to_string(), "cannot send a message of 4097 B: the limit is 4096 B");
    }
}

/// A peer that receives nothing stops its sender, and nothing is lost.
#[test]
fn messages_that_nobody_takes() {
    for over in EVERYWHERE {
        let Pair { network, near, mut peer, .. } = pair(over);
        let (_memory, near_region) = region(&network, 1 << 16, RemoteAccess::NONE);
        let there = peer.region(1 << 16, RemoteAccess::READ_WRITE);
        run("200 messages", async {
            let mut sends: Vec<_> =
                (0..200).map(|number| Box::pin(near.send_number(number))).collect();
            let mut sent = 0;
            for send in &mut sends {
                sent += usize::from(futures_util::poll!(send).is_ready());
            }
            assert!(sent <= 64, "{over}: {sent} went although nobody took one");
            // Reads and writes continue.
            let far = far_of(there, 0);
            near.write(&near_end(&near_region, 0), far, 1 << 16).await.unwrap();
            // Dropped sends are still sent.
            drop(sends);
        });
        for number in 0..200 {
            assert_eq!(peer.ask("receive"), number.to_string(), "{over}");
        }
    }
}

/// A send whose future owns its message.
trait SendNumber {
    async fn send_number(&self, number: u32);
}

impl SendNumber for Connection {
    async fn send_number(&self, number: u32) {
        self.send(number.to_string().as_bytes()).await.unwrap();
    }
}

#[test]
fn what_is_not_allowed() {
    for over in EVERYWHERE {
        let Pair { network, near, mut peer, .. } = pair(over);
        let (_, near_region) = region(&network, 4096, RemoteAccess::NONE);
        let remote = peer.region(4096, RemoteAccess::READ_WRITE);
        let for_reading = peer.region(4096, RemoteAccess { read: true, write: false });
        let for_nobody = peer.region(4096, RemoteAccess::NONE);
        let write = |offset: u64, far: RemoteMemory, far_offset: u64, bytes: u64| {
            let here = near_end(&near_region, offset);
            let what = format!("a bad write over {over}");
            run(&what, near.write(&here, far_of(far, far_offset), bytes)).unwrap_err()
        };
        let error = write(4000, remote, 0, 97);
        assert_eq!(error.to_string(), "97 B at offset 4000 reach beyond the near memory of 4096 B");
        let error = write(0, remote, 4096, 1);
        assert_eq!(error.to_string(), "1 B at offset 4096 reach beyond the far memory of 4096 B");
        assert!(matches!(write(0, remote, u64::MAX, 2), RdmaError::BeyondMemory { .. }));
        // A peer may give false information on its memory.
        let refused = |error: RdmaError, words: &str| {
            let text = error.to_string();
            assert!(matches!(error, RdmaError::Refused { .. }), "{over}: {text}");
            assert!(text.contains(words) && text.contains(&near.peer()), "{over}: {text}");
        };
        let larger = RemoteMemory { bytes: 8192, ..remote };
        refused(write(0, larger, 4090, 7), "7 B at 0xffa are not within its memory");
        let moved = RemoteMemory { address: u64::MAX - 8192, ..remote };
        refused(write(0, moved, 0, 1), "are not within its memory");
        let no_key = RemoteMemory { key: remote.key ^ 1, ..remote };
        refused(write(0, no_key, 0, 64), "no memory there has the key");
        refused(write(0, for_nobody, 0, 64), "no memory there has the key");
        refused(write(0, for_reading, 0, 64), "not registered for a remote write");
        run("what goes on", async {
            let here = near_end(&near_region, 0);
            near.read(&here, far_of(for_reading, 0), 64).await.unwrap();
            near.write(&here, far_of(larger, 4090), 6).await.unwrap();
            near.send(b"still").await.unwrap();
        });
        assert_eq!(peer.ask("receive"), "still");
        assert_eq!(peer.hash(0), hash(&[0; 4096]), "{over}: nothing was written");
        // Memory that was unregistered.
        let gone = peer.region(64, RemoteAccess::READ_WRITE);
        peer.ask("forget");
        refused(write(0, gone, 0, 64), "no memory there has the key");
    }
}

#[test]
fn dropped_futures_lose_nothing() {
    const BYTES: u64 = 1 << 20;
    for over in EVERYWHERE {
        let Pair { network, near, mut peer, .. } = pair(over);
        let (memory, near_region) = region(&network, BYTES, RemoteAccess::NONE);
        let there = peer.region(BYTES, RemoteAccess::READ_WRITE);
        let data = pattern(3, BYTES as usize);
        memory.write(0, &data).unwrap();
        run("what was dropped", async {
            // A write that is dropped after its start, with its region and memory, continues.
            let here = near_end(&near_region, 0);
            let mut write = Box::pin(near.write(&here, far_of(there, 0), BYTES));
            let _ = futures_util::poll!(&mut write);
            drop(write);
            drop((here, near_region, memory));
            let mut receive = Box::pin(near.receive());
            assert!(futures_util::poll!(&mut receive).is_pending());
            drop(receive);
            for word in ["one", "two"] {
                near.send(word.as_bytes()).await.unwrap();
                assert_eq!(peer.ask("receive"), word);
                peer.ask(&format!("send {word}"));
                assert_eq!(near.receive().await.unwrap(), word.as_bytes());
            }
        });
        let begin = std::time::Instant::now();
        while peer.hash(0) != hash(&data) {
            assert!(begin.elapsed().as_secs() < 20, "{over}: the write never ended");
        }
    }
}

/// Makes 64 writes at once, which one of the ends, or a signal, interrupts.
fn interrupted(over: Over, interrupt: impl AsyncFnOnce(&mut support::Peer, &Connection)) {
    const PIECE_BYTES: u64 = 1 << 20;
    let Pair { network, near, mut peer, .. } = pair(over);
    let (_memory, near_region) = region(&network, 64 * PIECE_BYTES, RemoteAccess::NONE);
    let there = peer.region(64 * PIECE_BYTES, RemoteAccess::READ_WRITE);
    peer.ask("send last");
    run("what was interrupted", async {
        // Each repeats until it gets an error.
        let transfers = join_all((0..64).map(|piece| {
            let (near, near_region) = (&near, &near_region);
            async move {
                let at = piece * PIECE_BYTES;
                loop {
                    let here = near_end(near_region, at);
                    let written = near.write(&here, far_of(there, at), PIECE_BYTES).await;
                    if let Err(error) = written {
                        return error;
                    }
                }
            }
        }));
        let (errors, ()) = futures_util::join!(transfers, interrupt(&mut peer, &near));
        for error in errors {
            let is_lost = matches!(&error, RdmaError::Lost { peer, .. } if *peer == near.peer());
            assert!(is_lost, "{over}: {error}");
        }
        let mut last = near.receive().await;
        if let Ok(message) = &last {
            assert_eq!(message, b"last");
            last = near.receive().await;
        }
        assert!(matches!(last, Err(RdmaError::Lost { .. })), "{over}: {last:?}");
        let sent = near.send(b"nobody hears it").await;
        assert!(matches!(sent, Err(RdmaError::Lost { .. })), "{over}: {sent:?}");
        near.close().await;
    });
}

#[test]
fn closed_while_operations_are_under_way() {
    for over in EVERYWHERE {
        interrupted(over, async |peer, near| {
            near.close().await;
            let error = peer.ask("receive");
            assert!(error.contains("is lost: the other end has closed it"), "{over}: {error}");
            peer.ask("close");
        });
        interrupted(over, async |peer, _| {
            peer.ask("close");
            let error = peer.ask("receive");
            assert!(error.contains("is lost: it was closed at this end"), "{over}: {error}");
        });
    }
}

#[test]
fn the_other_process_is_killed() {
    for over in EVERYWHERE {
        interrupted(over, async |peer, _| peer.kill());
    }
}

#[test]
fn addresses_where_nobody_is() {
    for over in EVERYWHERE {
        let (network, clock) = open(over);
        let connect =
            |address: &str| run("connecting", network.connect(address, far(&clock))).unwrap_err();
        let listener = run("listening", network.listen("127.0.0.1:0")).unwrap();
        let address = listener.address();
        if over == Over::Shm {
            let taken = run("listening", network.listen(&address)).unwrap_err();
            assert_eq!(taken.kind(), ErrorKind::Busy);
            assert!(taken.to_string().starts_with(&format!("{address}: ")), "{taken}");
            let own = connect(&address).to_string();
            assert!(own.contains("shm joins two processes"), "{own}");
        }
        drop(listener);
        for (address, kind, begin) in [
            (&*address, ErrorKind::LinkDown, ""),
            ("127.0.0.1", ErrorKind::InvalidArgument, "no port"),
            ("no such host:1", ErrorKind::NotFound, ""),
        ] {
            let error = connect(address);
            assert_eq!(error.kind(), kind, "{over}: {error}");
            let begin = format!("{address}: {begin}");
            assert!(error.to_string().starts_with(&begin), "{over}: {error}");
        }
        let error = run("listening", network.listen("192.0.2.77:0")).unwrap_err().to_string();
        assert!(error.starts_with("192.0.2.77:0: "), "{over}: {error}");
    }
}

#[test]
fn a_connection_that_nobody_accepts_in_time() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (network, clock) = open(Over::Tcp);
    let deadline = clock.after(std::time::Duration::from_millis(50));
    let error = run("connecting", network.connect(&address, deadline)).unwrap_err();
    assert_eq!(error.to_string(), format!("the deadline passed while connecting to {address}"));
}

#[test]
fn providers_are_listed() {
    let found = providers();
    let names: Vec<_> = found.iter().map(|found| found.provider).collect();
    assert_eq!(names, Provider::ALL);
    for state in &found {
        let works = EVERYWHERE.iter().any(|over| over.provider() == state.provider);
        assert!(!works || state.usable.is_ok(), "{state:?}");
        if let Err(why) = &state.usable {
            let error = Network::open(state.provider, &MachineClock::new()).unwrap_err();
            let expected = format!("{} cannot be used: {why}", state.provider);
            assert_eq!(error.to_string(), expected);
        }
    }
    assert_eq!(Provider::choose("127.0.0.1:7471").0, Provider::Shm);
    assert_ne!(Provider::choose("192.0.2.1:7471").0, Provider::Shm);
    let error = "ethernet".parse::<Provider>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("there are verbs, efa, shm, tls, tcp"), "{error}");
    for over in EVERYWHERE {
        let (network, _) = open(over);
        let name = match over {
            Over::Sealed => "tls, sealed".to_owned(),
            Over::Plain => "tls, not sealed, within this machine".to_owned(),
            Over::Tcp | Over::Shm => format!("{} (libfabric 1.", over.provider()),
        };
        assert!(network.name().starts_with(&name), "{}", network.name());
        assert!(!network.is_zero_copy());
    }
}
