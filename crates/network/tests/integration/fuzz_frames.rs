// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames that nobody should send, to a listener of `tls` without keys.

use crate::support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::AssertUnwindSafe;

use crosslane_host::{Rdma, RdmaConnection, RdmaListener, RdmaRegion, RemoteAccess};
use support::{Over, contents, far, open, region, run};

/// Length of a header, and of the memory that is lent.
const HEADER_BYTES: usize = 32;
const LENT_BYTES: usize = 4096;

/// Makes a frame's header of its parts.
fn header(kind: u8, flags: u8, bytes: u32, [id, key, address]: [u64; 3]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&[kind, flags]);
    header[4..8].copy_from_slice(&bytes.to_le_bytes());
    for (at, word) in [(8, id), (16, key), (24, address)] {
        header[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// Frames made of 8 B each: those that could be right, and at the end bytes as they are.
fn frames(input: &[u8], key: u64) -> Vec<u8> {
    let mut sent = Vec::new();
    let (pieces, rest) = input.as_chunks::<8>();
    for &[kind, flags, low, high, at, place, id, which] in pieces {
        let (bytes, address) = (u32::from(low) | u32::from(high % 32) << 8, u64::from(at) * 64);
        let key = if which % 4 == 0 { u64::from(which) } else { key };
        let address = if place == 255 { u64::MAX - address } else { address };
        sent.extend(header(kind % 9, flags % 5, bytes, [id.into(), key, address]));
        if matches!(kind % 9, 2 | 4 | 6) {
            sent.resize(sent.len() + bytes as usize, 0xa5);
        }
    }
    sent.extend(rest);
    sent
}

#[test]
fn fuzz_frames() {
    let (network, clock) = open(Over::Plain);
    let (client, _) = open(Over::Plain);
    let listener = run("listening", network.listen("127.0.0.1:0")).unwrap();
    let address = listener.address();
    let (_lent_memory, lent) = region(&network, LENT_BYTES as u64, RemoteAccess::READ_WRITE);
    let (own_memory, _own) = region(&network, LENT_BYTES as u64, RemoteAccess::NONE);
    let key = lent.remote().key;
    let scene = AssertUnwindSafe((&listener, &own_memory));
    bolero::check!().with_iterations(300).for_each(move |input: &[u8]| {
        let (listener, own_memory) = *scene;
        let mut stranger = TcpStream::connect(listener.address()).unwrap();
        // One stream, the first.
        stranger.write_all(&header(0, 0, 0, [1, 2, 1 << 32])).unwrap();
        let here = run("accepting", listener.accept()).unwrap();
        // The connection may be ended in the middle.
        let _ = stranger.write_all(&frames(input, key));
        let _ = stranger.shutdown(Shutdown::Write);
        let mut answers = Vec::new();
        let _ = stranger.read_to_end(&mut answers);
        // Each answer is a frame, or a part of one where the connection was ended in it.
        let mut left = &answers[..];
        while left.len() >= HEADER_BYTES {
            assert!(matches!(left[0], 1 | 3 | 6 | 7), "an answer of kind {}", left[0]);
            let bytes = u32::from_le_bytes([left[4], left[5], left[6], left[7]]) as usize;
            left = &left[(HEADER_BYTES + bytes).min(left.len())..];
        }
        run("closing", here.close());
        assert!(contents(own_memory).iter().all(|byte| *byte == 0), "own memory is reached");
    });
    let near = run("one who is welcome", client.connect(&address, far(&clock))).unwrap();
    run("a word", async {
        let here = listener.accept().await.unwrap();
        near.send(b"a word").await.unwrap();
        assert_eq!(here.receive().await.unwrap(), b"a word");
    });
}
