// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks on the providers that every machine has, within one process.

mod support;

use crosslane_host::{
    DmaMemory, MAX_RDMA_MESSAGE_BYTES, Rdma, RdmaConnection, RdmaError, RdmaListener, RdmaRegion,
    RemoteAccess, RemoteMemory,
};
use crosslane_libfabric::{Provider, providers};
use futures_util::future::join_all;
use support::{
    EVERYWHERE, Pair, contents, exchange, far_end, far_of, near_end, open, pair, pattern, region,
    run,
};

#[test]
fn data_of_all_sizes_and_offsets() {
    const MEMORY_BYTES: u64 = 5 << 20;
    for provider in EVERYWHERE {
        let Pair { networks: [one, other], near, far: _far } = pair(provider);
        let (near_memory, near_region) = region(&one, MEMORY_BYTES, RemoteAccess::NONE);
        let (far_memory, far_region) = region(&other, MEMORY_BYTES, RemoteAccess::READ_WRITE);
        let mut expected = vec![0; MEMORY_BYTES as usize];
        let mut rng = fastrand::Rng::with_seed(7);
        let sizes = [0, 1, 3, 7, 8, 63, 64, 192, 193, 4095, 4096, 4097, 65_536, 1 << 20, 4 << 20];
        let random: Vec<u64> = (0..50).map(|_| rng.u64(..20_000)).collect();
        for bytes in sizes.into_iter().chain(random) {
            let from = rng.u64(..=MEMORY_BYTES - bytes);
            let to = rng.u64(..=MEMORY_BYTES - bytes);
            let data = pattern(bytes, bytes as usize);
            near_memory.write(from, &data).unwrap();
            let (here, there) = (near_end(&near_region, from), far_end(&far_region, to));
            run("a write", near.write(&here, there, bytes)).unwrap();
            expected[to as usize..(to + bytes) as usize].copy_from_slice(&data);
            near_memory.write(from, &vec![0; bytes as usize]).unwrap();
            run("a read", near.read(&here, there, bytes)).unwrap();
            let mut back = vec![0; bytes as usize];
            near_memory.read(from, &mut back).unwrap();
            assert!(back == data, "{provider}: {bytes} B from {from} to {to}");
        }
        assert!(contents(&far_memory) == expected, "{provider}: nothing else was written");
    }
}

#[test]
fn many_at_once() {
    const PIECES: u64 = 300;
    const PIECE_BYTES: u64 = 10_007;
    for provider in EVERYWHERE {
        let Pair { networks: [one, other], near, far } = pair(provider);
        let bytes = PIECES * PIECE_BYTES;
        let (near_memory, near_region) = region(&one, bytes, RemoteAccess::READ_WRITE);
        let (far_memory, far_region) = region(&other, bytes, RemoteAccess::READ_WRITE);
        let data = pattern(1, bytes as usize);
        near_memory.write(0, &data).unwrap();
        run("300 writes at once", async {
            let writes = (0..PIECES).map(|piece| {
                let (near, near_region, far_region) = (&near, &near_region, &far_region);
                async move {
                    let at = piece * PIECE_BYTES;
                    let to = far_end(far_region, bytes - PIECE_BYTES - at);
                    near.write(&near_end(near_region, at), to, PIECE_BYTES).await
                }
            });
            for result in join_all(writes).await {
                result.unwrap();
            }
            // From both sides at once.
            let reads = (0..PIECES).map(|piece| {
                let (near, far) = (&near, &far);
                let (near_region, far_region) = (&near_region, &far_region);
                async move {
                    let (here, there) =
                        (piece * PIECE_BYTES, bytes - PIECE_BYTES - piece * PIECE_BYTES);
                    let (connection, from, to) = match piece % 2 {
                        0 => (near, near_end(near_region, here), far_end(far_region, there)),
                        _ => (far, near_end(far_region, there), far_end(near_region, here)),
                    };
                    connection.read(&from, to, PIECE_BYTES).await
                }
            });
            for result in join_all(reads).await {
                result.unwrap();
            }
        });
        let turned = contents(&far_memory);
        let turned = turned.chunks(PIECE_BYTES as usize).rev().flatten();
        assert!(turned.eq(&data), "{provider}");
        assert!(contents(&near_memory) == data, "{provider}");
    }
}

#[test]
fn messages_come_whole_and_in_order() {
    for provider in EVERYWHERE {
        let Pair { near, far, .. } = pair(provider);
        let lengths = [0, 1, 100, MAX_RDMA_MESSAGE_BYTES - 1, MAX_RDMA_MESSAGE_BYTES];
        let length = |number: u64| lengths[number as usize % lengths.len()];
        run("1,000 messages each way", async {
            let all: Vec<u64> = (0..1000).collect();
            let send = |connection| {
                join_all(all.iter().map(move |number| async move {
                    let connection: &crosslane_libfabric::Connection = connection;
                    connection.send(&pattern(*number, length(*number))).await.unwrap();
                }))
            };
            let receive = |connection: crosslane_libfabric::Connection| async move {
                for number in 0..1000 {
                    let message = connection.receive().await.unwrap();
                    assert!(message == pattern(number, length(number)), "{provider}: {number}");
                }
            };
            let there = receive(far.clone());
            let back = receive(near.clone());
            futures_util::join!(send(&near), send(&far), there, back);
        });
        let error = run("a long one", near.send(&[0; MAX_RDMA_MESSAGE_BYTES + 1])).unwrap_err();
        assert_eq!(error.to_string(), "a message of 4097 B: at most 4096 B are possible");
    }
}

#[test]
fn what_is_not_allowed() {
    for provider in EVERYWHERE {
        let Pair { networks: [one, other], near, far } = pair(provider);
        let (_, near_region) = region(&one, 4096, RemoteAccess::NONE);
        let (kept, far_region) = region(&other, 4096, RemoteAccess::READ_WRITE);
        let read_only = RemoteAccess { read: true, write: false };
        let (_, for_reading) = region(&other, 4096, read_only);
        let (_, for_nobody) = region(&other, 4096, RemoteAccess::NONE);
        let remote = far_region.remote();
        let write = |offset: u64, far: RemoteMemory, far_offset: u64, bytes: u64| {
            let (near, near_region) = (near.clone(), near_region.clone());
            run("a bad write", async move {
                near.write(&near_end(&near_region, offset), far_of(far, far_offset), bytes).await
            })
            .unwrap_err()
        };
        let error = write(4000, remote, 0, 97);
        assert_eq!(error.to_string(), "97 B at offset 4000 reach beyond the near memory of 4096 B");
        let error = write(0, remote, 4096, 1);
        assert_eq!(error.to_string(), "1 B at offset 4096 reach beyond the far memory of 4096 B");
        assert!(matches!(write(0, remote, u64::MAX, 2), RdmaError::BeyondMemory { .. }));
        // What a peer says of its memory need not be true.
        let refused = |error: RdmaError, words: &str| {
            let text = error.to_string();
            assert!(matches!(error, RdmaError::Refused { .. }), "{provider}: {text}");
            assert!(text.contains(words) && text.contains(&near.peer()), "{provider}: {text}");
        };
        let larger = RemoteMemory { bytes: 8192, ..remote };
        refused(write(0, larger, 4090, 7), "7 B at 0xffa are not within its memory");
        let moved = RemoteMemory { address: u64::MAX - 8192, ..remote };
        refused(write(0, moved, 0, 1), "are not within its memory");
        let no_key = RemoteMemory { key: remote.key ^ 1, ..remote };
        refused(write(0, no_key, 0, 64), "no memory there has the key");
        refused(write(0, for_nobody.remote(), 0, 64), "no memory there has the key");
        refused(write(0, for_reading.remote(), 0, 64), "not registered for a remote write");
        run("what goes on", async {
            let near_end = near_end(&near_region, 0);
            near.read(&near_end, far_of(for_reading.remote(), 0), 64).await.unwrap();
            near.write(&near_end, far_of(larger, 4090), 6).await.unwrap();
            exchange(&far, &near, b"still here").await;
        });
        assert_eq!(contents(&kept), [0; 4096]);
    }
}

#[test]
fn dropped_futures_lose_nothing() {
    for provider in EVERYWHERE {
        let Pair { networks: [one, other], near, far } = pair(provider);
        let (memory, near_region) = region(&one, 1 << 20, RemoteAccess::NONE);
        let (far_memory, far_region) = region(&other, 1 << 20, RemoteAccess::READ_WRITE);
        let data = pattern(3, 1 << 20);
        memory.write(0, &data).unwrap();
        run("what was dropped", async {
            // Begun and dropped, with its region and memory: it goes on all the same.
            let near_end = near_end(&near_region, 0);
            let mut write = Box::pin(near.write(&near_end, far_end(&far_region, 0), 1 << 20));
            assert!(futures_util::poll!(&mut write).is_pending() || provider == Provider::Shm);
            drop(write);
            drop((near_end, near_region, memory));
            let mut receive = Box::pin(far.receive());
            assert!(futures_util::poll!(&mut receive).is_pending());
            drop(receive);
            exchange(&near, &far, b"first").await;
            exchange(&near, &far, b"second").await;
        });
        let begin = std::time::Instant::now();
        while contents(&far_memory) != data {
            assert!(begin.elapsed().as_secs() < 20, "{provider}: the write never ended");
        }
    }
}

#[test]
fn a_connection_that_is_closed() {
    for provider in EVERYWHERE {
        for who in 0..2 {
            let Pair { networks: [one, other], near, far } = pair(provider);
            let (_, near_region) = region(&one, 64 << 20, RemoteAccess::NONE);
            let (_, far_region) = region(&other, 64 << 20, RemoteAccess::READ_WRITE);
            run("closing", async {
                exchange(&near, &far, b"one that is left").await;
                far.send(b"one that is left").await.unwrap();
                let closer = if who == 0 { near.clone() } else { far.clone() };
                let transfers = join_all((0..64).map(|piece| {
                    let (near, near_region, far_region) = (&near, &near_region, &far_region);
                    async move {
                        let at = piece << 20;
                        let near_end = near_end(near_region, at);
                        near.write(&near_end, far_end(far_region, at), 1 << 20).await
                    }
                }));
                let (results, ()) = futures_util::join!(transfers, closer.close());
                let lost = |result: &Result<(), RdmaError>| match result {
                    Ok(()) => false,
                    Err(RdmaError::Lost { peer, .. }) => *peer == near.peer(),
                    Err(error) => panic!("{provider}: {error}"),
                };
                assert!(results.iter().any(lost), "{provider}, {who}: {results:?}");
                for connection in [&near, &far] {
                    let mut last = connection.receive().await;
                    if last.is_ok() {
                        last = connection.receive().await;
                    }
                    assert!(matches!(last, Err(RdmaError::Lost { .. })), "{provider}: {last:?}");
                    let sent = connection.send(b"nobody hears it").await;
                    assert!(matches!(sent, Err(RdmaError::Lost { .. })), "{provider}: {sent:?}");
                    connection.close().await;
                }
            });
        }
    }
}

#[test]
fn addresses_where_nobody_is() {
    for provider in EVERYWHERE {
        let (network, clock) = open(provider);
        let connect = |address: &str| {
            run("connecting", network.connect(address, support::far(&clock))).unwrap_err()
        };
        let listener = run("listening", network.listen("127.0.0.1:0")).unwrap();
        let address = listener.address();
        let taken = run("listening", network.listen(&address));
        assert!(taken.is_err() || provider == Provider::Tcp, "TCP may reuse it");
        drop(listener);
        let error = connect(&address).to_string();
        assert!(error.starts_with(&format!("{address}: ")), "{provider}: {error}");
        let error = connect("127.0.0.1").to_string();
        assert!(error.contains("no port"), "{provider}: {error}");
        let error = connect("no such host:1").to_string();
        assert!(error.starts_with("no such host:1: "), "{provider}: {error}");
        let error = run("listening", network.listen("192.0.2.77:0")).unwrap_err().to_string();
        assert!(error.starts_with("192.0.2.77:0: "), "{provider}: {error}");
    }
}

#[test]
fn providers_are_listed() {
    let found = providers();
    let names: Vec<_> = found.iter().map(|found| found.provider).collect();
    assert_eq!(names, Provider::ALL);
    for state in &found {
        let works = EVERYWHERE.contains(&state.provider);
        assert!(!works || state.usable.is_ok(), "{state:?}");
        let text = match &state.usable {
            Ok(text) | Err(text) => text,
        };
        assert!(!text.is_empty());
        if let Err(why) = &state.usable {
            let error = crosslane_libfabric::Network::open(
                state.provider,
                &crosslane_libfabric::MachineClock::new(),
            );
            let error = error.unwrap_err().to_string();
            assert_eq!(error, format!("{} cannot be used: {why}", state.provider));
        }
    }
    assert_eq!(Provider::choose("127.0.0.1:7471").0, Provider::Shm);
    assert_ne!(Provider::choose("192.0.2.1:7471").0, Provider::Shm);
    let error = "ethernet".parse::<Provider>().unwrap_err().to_string();
    assert!(error.contains("there are verbs, efa, shm, tcp"), "{error}");
    for provider in EVERYWHERE {
        let (network, _) = open(provider);
        assert!(network.name().starts_with(&format!("{provider} (libfabric 1.")));
        assert!(!network.is_zero_copy());
    }
}
