// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages to any node of a torus.

use crosslane_driver::network_processor::*;

use crate::network_processor::stand::*;

#[test]
fn every_node_reaches_every_other() {
    let sizes = [3, 3];
    let stand = Stand::new(&sizes, mapped());
    let bytes = 1000;
    stand.run(async {
        place(&stand, &sizes).await;
        for from in 0..9_u16 {
            let others: Vec<u16> = (0..9).filter(|&node| node != from).collect();
            let source = &stand.nodes[usize::from(from)];
            let mut credits = Vec::new();
            for &to in &others {
                let target = stand.nodes[usize::from(to)].clone();
                let key = Key::Routed { node: from, tag: 1 };
                let receiving = receive(&target, key, bytes).await;
                credits.push((target, receiving));
            }
            let mut gets = Vec::new();
            for &to in &others {
                let data = pattern(u64::from(from * 16 + to), bytes);
                gets.push(send(source, Key::Routed { node: to, tag: 1 }, &data).await);
            }
            for (_, get) in &gets {
                ended(source, get).await;
            }
            for (&to, (target, receiving)) in others.iter().zip(&credits) {
                arrives(target, receiving, &pattern(u64::from(from * 16 + to), bytes)).await;
            }
        }
        let mut forwarded = 0;
        for node in &stand.nodes {
            let counters = node.counters().await.unwrap();
            assert_eq!((counters.misrouted, counters.refused, counters.waiting), (0, 0, 0));
            forwarded += counters.forwarded;
        }
        // Four of the eight others are one hop beyond a neighbour; 1000 B are nine datagrams.
        assert_eq!(forwarded, 9 * 4 * 9);
    });
}

#[test]
fn what_cannot_be_routed_is_refused_before_it_is_written() {
    on_pair(Modes::default(), async |stand, [from, _]| {
        let buffer = from.buffer(16_384).await.unwrap();
        let routed = |node| Key::Routed { node, tag: 0 };
        let refusal = async |key, bytes| {
            from.nget(message(from, key, &buffer, bytes)).await.map(drop).unwrap_err().to_string()
        };
        let mut said = vec![refusal(routed(1), 8).await];
        place(stand, &[2]).await;
        for (key, bytes) in [(routed(0), 8), (routed(2), 8), (routed(1), 0), (key(0, 6, 0), 8)] {
            said.push(refusal(key, bytes).await);
        }
        insta::assert_snapshot!(said.join("\n"));
        let counters = from.counters().await.unwrap();
        assert_eq!((counters.gets, counters.refused), (0, 0));
    });
}

/// Datagrams of a routed message between the nodes of these tests.
const UNIT: u64 = 120;
/// Those that may wait for credits in a receive buffer: half of the lab's places.
const MAY_WAIT: u64 = 32;

/// Sends messages of these numbers of datagrams, of one key or with the tags from 0 on, from node 0
/// by node 1 to node 2, which has no credits.
async fn sent_too_early(stand: &Stand, datagrams: &[u64], is_one_key: bool) {
    let from = &stand.nodes[0];
    for (number, count) in (0..).zip(datagrams) {
        let tag = if is_one_key { 0 } else { number };
        let data = pattern(number.into(), count * UNIT);
        let (_source, get) = send(from, Key::Routed { node: 2, tag }, &data).await;
        ended(from, &get).await;
    }
    pause(from, 50_000).await;
}

/// Sends a message of 100 datagrams from one node to another, which has the credit.
async fn passes(stand: &Stand, from: u16, to: u16, tag: u8) {
    let [source, target] = [from, to].map(|node| &stand.nodes[usize::from(node)]);
    let data = pattern(u64::from(tag), 100 * UNIT);
    let receiving = receive(target, Key::Routed { node: from, tag }, 100 * UNIT).await;
    let (_source, get) = send(source, Key::Routed { node: to, tag }, &data).await;
    ended(source, &get).await;
    arrives(target, &receiving, &data).await;
}

/// Posts the credit of a message that came too early, and expects so many of its datagrams.
async fn has_lost(to: &Processor, tag: u8, bytes: u64, datagrams: u64) {
    let (_target, credit) = receive(to, Key::Routed { node: 0, tag }, bytes).await;
    let error = failed(to, &credit).await;
    assert_eq!((error.fault, error.moved_bytes), (NetworkFault::Dropped, datagrams * UNIT));
}

#[test]
fn what_comes_before_its_credit_lets_others_pass() {
    let stand = Stand::new(&[4], mapped());
    stand.run(async {
        place(&stand, &[4]).await;
        let to = &stand.nodes[2];
        let bytes = 10 * UNIT;
        for _ in 0..2 {
            sent_too_early(&stand, &[10; 7], false).await;
            assert_eq!(u64::from(to.counters().await.unwrap().waiting), MAY_WAIT);
            // By the same buffer, by one of the other channel, and through node 2.
            for (from, node, tag) in [(0, 2, 30), (1, 2, 31), (3, 1, 32), (1, 3, 33)] {
                passes(&stand, from, node, tag).await;
            }
            for tag in 0..3 {
                let receiving = receive(to, Key::Routed { node: 0, tag }, bytes).await;
                arrives(to, &receiving, &pattern(tag.into(), bytes)).await;
            }
            has_lost(to, 3, bytes, 2).await;
            for tag in 4..7 {
                has_lost(to, tag, bytes, 0).await;
            }
            assert_eq!(to.counters().await.unwrap().waiting, 0);
            passes(&stand, 0, 2, 3).await;
        }
    });
}

/// Losses are told to the credits of the lost messages, in their order; the next message is taken.
#[test]
fn losses_of_a_key_are_told_in_order() {
    let stand = Stand::new(&[4], mapped());
    stand.run(async {
        place(&stand, &[4]).await;
        let to = &stand.nodes[2];
        sent_too_early(&stand, &[10, 10, 20, 1, 5], true).await;
        for number in 0..2 {
            let receiving = receive(to, Key::Routed { node: 0, tag: 0 }, 10 * UNIT).await;
            arrives(to, &receiving, &pattern(number, 10 * UNIT)).await;
        }
        has_lost(to, 0, 20 * UNIT, MAY_WAIT - 20).await;
        has_lost(to, 0, UNIT, 0).await;
        // One more comes before the last loss has been told.
        sent_too_early(&stand, &[3], true).await;
        has_lost(to, 0, 5 * UNIT, 0).await;
        has_lost(to, 0, 3 * UNIT, 0).await;
        passes(&stand, 0, 2, 0).await;
    });
}

/// With `hold_routed` nothing is lost, and nothing else comes past.
#[test]
fn held_messages_fill_the_buffer_until_their_credits_come() {
    let stand = Stand::new(&[4], mapped());
    stand.run(async {
        place(&stand, &[4]).await;
        let to = &stand.nodes[2];
        to.hold_routed(true).await.unwrap();
        sent_too_early(&stand, &[10; 7], false).await;
        assert_eq!(u64::from(to.counters().await.unwrap().waiting), 2 * MAY_WAIT);
        let data = pattern(9, UNIT);
        let late_one = receive(to, Key::Routed { node: 0, tag: 9 }, UNIT).await;
        let (_source, get) = send(&stand.nodes[0], Key::Routed { node: 2, tag: 9 }, &data).await;
        ended(&stand.nodes[0], &get).await;
        pause(to, 50_000).await;
        assert_eq!(to.poll(&late_one.1).unwrap(), None);
        for tag in 0..7 {
            let receiving = receive(to, Key::Routed { node: 0, tag }, 10 * UNIT).await;
            arrives(to, &receiving, &pattern(tag.into(), 10 * UNIT)).await;
        }
        arrives(to, &late_one, &data).await;
    });
}
