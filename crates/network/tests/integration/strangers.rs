// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Strangers that connect to a listener, and peers that are stopped.

use crate::support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crosslane_host::{Rdma, RdmaConnection, RdmaError, RdmaListener, RemoteAccess};
use futures_util::future::try_join;
use support::peer::{HELD, lock_offset};
use support::{EVERYWHERE, Over, Pair, far, far_of, near_end, open, pair, pattern, region, run};

#[test]
fn strangers_disturb_nobody() {
    for over in [Over::Sealed, Over::Plain, Over::Tcp] {
        strangers_disturb_nobody_over(over);
    }
}

fn strangers_disturb_nobody_over(over: Over) {
    let (network, clock) = open(over);
    let (client, _) = open(over);
    let listener = run("listening", network.listen("127.0.0.1:0")).unwrap();
    let address = listener.address();
    // A silent one stays connected all the time.
    let _silent = TcpStream::connect(&address).unwrap();
    let words: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\n\r\n", b"", &[0; 4096], &[0xff; 4096], &pattern(1, 100_000)];
    for words in words {
        let mut stranger = TcpStream::connect(&address).unwrap();
        // The listener may cut it off in the middle.
        let _ = stranger.write_all(words);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        let _ = stranger.read(&mut [0; 64]);
        let (near, here) = run("one who is welcome", async {
            let deadline = far(&clock);
            try_join(client.connect(&address, deadline), listener.accept()).await.unwrap()
        });
        run("a word", async {
            near.send(b"a word").await.unwrap();
            assert_eq!(here.receive().await.unwrap(), b"a word");
        });
    }
}

/// A peer that is stopped, not dead: only the caller can give up on it.
#[test]
fn a_peer_that_stands_still() {
    for over in EVERYWHERE {
        let Pair { network, near, mut peer, .. } = pair(over);
        let (_memory, near_region) = region(&network, 1 << 20, RemoteAccess::NONE);
        let there = peer.region(1 << 20, RemoteAccess::READ_WRITE);
        let here = near_end(&near_region, 0);
        run("a write", near.write(&here, far_of(there, 0), 1 << 20)).unwrap();
        peer.stop();
        run("closing", async {
            let mut write = Box::pin(near.write(&here, far_of(there, 0), 1 << 20));
            let mut read = Box::pin(near.read(&here, far_of(there, 0), 1 << 20));
            assert!(futures_util::poll!(&mut write).is_pending());
            assert!(futures_util::poll!(&mut read).is_pending());
            near.close().await;
            for result in [write.await, read.await] {
                assert!(matches!(result, Err(RdmaError::Lost { .. })), "{over}: {result:?}");
            }
        });
    }
}

/// Takes the lock of the first endpoint of another process, as libfabric does there. Returns false
/// if this libfabric has no such lock.
fn hold_lock(process: u32) -> bool {
    let path = format!("/dev/shm/crosslane-{process}-1");
    let file = File::options().read(true).write(true).open(path).unwrap();
    let Some(offset) = lock_offset(&file) else { return false };
    file.write_all_at(&HELD.to_ne_bytes(), offset).unwrap();
    true
}

/// A peer that is killed or stopped while it holds a lock that this end needs.
#[test]
fn a_lock_that_is_left_held() {
    for is_killed in [true, false] {
        let Pair { network, near, mut peer, .. } = pair(Over::Shm);
        let (_memory, near_region) = region(&network, 1 << 20, RemoteAccess::NONE);
        let there = peer.region(1 << 20, RemoteAccess::READ_WRITE);
        let here = near_end(&near_region, 0);
        run("a write", near.write(&here, far_of(there, 0), 1 << 20)).unwrap();
        if !is_killed {
            peer.stop();
        }
        if !hold_lock(peer.id()) {
            continue;
        }
        run("the end of a write", async {
            let mut write = Box::pin(near.write(&here, far_of(there, 0), 1 << 20));
            assert!(futures_util::poll!(&mut write).is_pending());
            // Time for the network's thread to block on the lock.
            std::thread::sleep(Duration::from_millis(50));
            assert!(futures_util::poll!(&mut write).is_pending());
            if is_killed {
                peer.kill();
            } else {
                near.close().await;
            }
            let result = write.await;
            assert!(matches!(result, Err(RdmaError::Lost { .. })), "{result:?}");
        });
    }
}
