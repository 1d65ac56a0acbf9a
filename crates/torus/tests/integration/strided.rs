// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages in blocks of memory at a stride, other ones at each end.

use crosslane_driver::Buffer;
use crosslane_torus::*;

use crate::communication::{LabNode, contents, down, filled, late, on_pair, up};
use crate::small_torus::pattern;

const BUFFERS: [Buffers; 3] = [Buffers::User, Buffers::Copied, Buffers::Mapped];

const fn blocks(begin_bytes: u64, block_bytes: u64, stride_bytes: u64, count: u64) -> Blocks {
    Blocks { begin_bytes, block_bytes, stride_bytes, count }
}

fn options(buffers: Buffers) -> NodeOptions {
    NodeOptions::default().with_modes(Modes::default().with_buffers(buffers))
}

fn strided(node: &LabNode, peer: Peer, tag: u8, buffer: &Buffer, blocks: Blocks) -> StridedMessage {
    StridedMessage { peer, tag, buffer: buffer.clone(), blocks, deadline: late(node) }
}

/// Offsets of a message's bytes in its buffer.
fn offsets(blocks: Blocks) -> impl Iterator<Item = usize> {
    let Blocks { begin_bytes, block_bytes, stride_bytes, count } = blocks;
    let begins = (0..count).map(move |number| begin_bytes + number * stride_bytes);
    begins.flat_map(move |begin| (begin..begin + block_bytes).map(|at| at as usize))
}

/// Sends messages at once, each with its tag, from the blocks of one buffer into those of another;
/// nothing else may change there.
async fn exchange([from, to]: [&LabNode; 2], peers: [Peer; 2], messages: &[[Blocks; 2]]) {
    let (data, before) = (pattern(1, 96 << 10), pattern(2, 96 << 10));
    let (source, target) = (filled(from, &data).await, filled(to, &before).await);
    let (mut receiving, mut sending) = (Vec::new(), Vec::new());
    let mut expected = before.clone();
    for (tag, [there, here]) in (0..).zip(messages) {
        let room = strided(to, peers[1], tag, &target, *here);
        receiving.push(to.rx_i_strided(room).await.unwrap());
        for (a, b) in offsets(*there).zip(offsets(*here)) {
            expected[b] = data[a];
        }
    }
    for (tag, [there, _]) in (0..).zip(messages) {
        let message = strided(from, peers[0], tag, &source, *there);
        sending.push(from.tx_i_strided(message).await.unwrap());
    }
    // Both ends post the pieces of long messages: they look in turn. Any may end first.
    let begun = sending.iter().rev().map(|begun| (from, begun));
    let mut open: Vec<_> = begun.chain(receiving.iter().map(|begun| (to, begun))).collect();
    let bytes: u64 = messages.iter().flatten().map(Blocks::bytes).sum();
    let mut moved = 0;
    while !open.is_empty() {
        let mut still = Vec::new();
        for (node, begun) in open {
            match node.test(begun).await.unwrap() {
                Some(ended) => moved += ended.bytes,
                None => still.push((node, begun)),
            }
        }
        open = still;
        from.processor().any_ends(late(from)).await;
    }
    assert_eq!(moved, bytes, "{messages:?}");
    assert!(contents(&target) == expected, "{messages:?}");
}

#[test]
fn strides_may_differ_at_both_ends() {
    for buffers in BUFFERS {
        on_pair(options(buffers), async |nodes| {
            for pair in [
                [blocks(0, 128, 384, 6), blocks(40, 256, 1000, 3)],
                [blocks(8, 384, 400, 2), blocks(64, 768, 768, 1)],
                [blocks(100, 1280, 1280, 1), blocks(0, 128, 132, 10)],
                // The last datagram is short.
                [blocks(0, 128, 128, 5), blocks(4, 640, 0, 1)],
            ] {
                exchange(nodes, [up(0), down(0)], &[pair]).await;
            }
        });
    }
}

/// Faces of one field interleave: what lies between a message's blocks may be another's.
#[test]
fn messages_whose_blocks_interleave_are_under_way_at_once() {
    for buffers in BUFFERS {
        on_pair(options(buffers), async |nodes| {
            let all = [0, 1, 2]
                .map(|at| [blocks(128 * at, 128, 384, 5), blocks(1024 + 256 * at, 128, 768, 5)]);
            exchange(nodes, [up(0), down(0)], &all).await;
        });
    }
}

#[test]
fn small_blocks_have_any_length_and_number() {
    for buffers in BUFFERS {
        // 2,000 sites of 24 B, in pieces of 4 KiB, which end within blocks.
        on_pair(options(buffers).with_piece_bytes(4096), async |nodes| {
            let all = [
                [blocks(0, 24, 40, 2000), blocks(7, 48, 50, 1000)],
                [blocks(24, 3, 40, 1), blocks(55, 1, 50, 3)],
            ];
            exchange(nodes, [up(0), down(0)], &all).await;
        });
    }
}

#[test]
fn blocks_need_not_be_whole_datagrams() {
    for buffers in BUFFERS {
        on_pair(options(buffers), async |nodes| {
            let all = [
                [blocks(1, 200, 300, 6), blocks(119, 600, 700, 2)],
                [blocks(7200, 777, 1000, 3), blocks(5063, 333, 334, 7)],
                [blocks(20_001, 2331, 2331, 1), blocks(24_575, 111, 128, 21)],
                // Whole datagrams of routed messages, of 120 B.
                [blocks(0, 120, 256, 6), blocks(40_000, 360, 400, 2)],
            ];
            exchange(nodes, [up(0), down(0)], &all).await;
            exchange(nodes, [Peer::Node(1), Peer::Node(0)], &all).await;
        });
    }
}

#[test]
fn pieces_of_long_messages_end_within_blocks() {
    for buffers in BUFFERS {
        on_pair(options(buffers).with_piece_bytes(1000), async |nodes| {
            let pair = [blocks(0, 640, 900, 16), blocks(16, 5120, 6000, 2)];
            exchange(nodes, [up(0), down(0)], &[pair]).await;
        });
    }
}

#[test]
fn blocks_that_do_not_fit_are_refused_with_reasons() {
    on_pair(options(Buffers::Mapped), async |[from, _]| {
        let buffer = from.buffer(64 << 10).await.unwrap();
        for (blocks, words) in [
            (blocks(0, 128, 64, 3), "blocks of 128 B overlap: each is 64 B on"),
            (blocks(0, 128, u64::MAX, 3), "3 blocks 18446744073709551615 B apart end beyond 2^64"),
            (blocks(0, 128, 256, 200), "its memory takes 200 requests, and there are "),
            (blocks(0, 128, 40_000, 3), "80128"),
        ] {
            for message in [strided(from, up(0), 0, &buffer, blocks)] {
                let sent = from.tx_i_strided(message.clone()).await.map(drop);
                let received = from.rx_i_strided(message).await.map(drop);
                for refused in [sent, received] {
                    let error = refused.unwrap_err().to_string();
                    assert!(error.contains(words), "{error}");
                }
            }
        }
        // Nothing was taken: key and memory are free.
        let message = strided(from, up(0), 0, &buffer, blocks(0, 128, 256, 3));
        from.tx_i_strided(message).await.map(drop).unwrap();
    });
}
