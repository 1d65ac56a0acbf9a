// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams of 256 B: messages cut at other places, with the same promises.

use std::sync::Arc;

use crosslane_driver::network_processor::*;
use crosslane_lab::Lab;

use crate::network_processor::stand::*;

/// The small torus with long datagrams on all cards and cables.
pub fn long(sizes: &[u16]) -> Lab {
    let lab = lab(sizes).edited(|file| {
        for endpoint in &mut file.endpoints {
            let part = Arc::make_mut(&mut endpoint.part);
            part.network_processor.as_mut().unwrap().long_datagrams = true;
            part.parameters.bars[4].as_mut().unwrap().size_bytes *= 2;
        }
        file.tori[0].parameters.long_datagrams = true;
    });
    lab.unwrap()
}

fn stand(sizes: &[u16]) -> Stand {
    Stand::of_seed(&long(sizes), sizes, mapped(), 1)
}

async fn sent(node: &Processor) -> u64 {
    u64::from(node.link_counters(0).await.unwrap().sent)
}

#[test]
fn messages_of_every_length_arrive_in_long_datagrams() {
    stand(&[2]).on_pair(async |[from, to]| {
        assert_eq!(from.sizes().payload_bytes(), 256);
        for bytes in (0..10).chain(120..136).chain(246..266).chain([511, 512, 513, 4095, 70_000]) {
            let before = sent(from).await;
            carry([from, to], ((bytes % 8) as u8, 3), &pattern(bytes, bytes)).await;
            assert_eq!(sent(from).await - before, bytes.div_ceil(256).max(1), "{bytes} B");
        }
        carry([from, to], (1, 1), &pattern(1, 1 << 20)).await;
        assert_eq!(from.counters().await.unwrap().refused, 0);
        let buffer = from.buffer((1 << 20) + 1).await.unwrap();
        let message = message(from, key(0, 0, 0), &buffer, (1 << 20) + 1);
        let error = from.nget(message).await.map(drop).unwrap_err().to_string();
        assert!(error.ends_with("a message of 1048577 B; it has 1048576 B at most"), "{error}");
    });
}

#[test]
fn puts_of_every_length_arrive_in_long_datagrams() {
    stand(&[2]).on_pair(async |[from, to]| {
        for bytes in (1..5).chain(125..131).chain(252..260).chain([600, 2048]) {
            let data = pattern(bytes, bytes);
            let (channel, tag) = ((bytes % 8) as u8, (bytes % 64) as u8);
            let receiving = receive(to, key(1, channel, tag), bytes).await;
            from.put(key(0, channel, tag), &data, late(from)).await.unwrap();
            arrives(to, &receiving, &data).await;
        }
        assert_eq!(from.counters().await.unwrap().refused, 0);
    });
}

#[test]
fn routed_messages_have_248_bytes_in_each_datagram() {
    let stand = stand(&[4]);
    stand.run(async {
        place(&stand, &[4]).await;
        // Two hops: node 1 forwards.
        let (from, to) = (&stand.nodes[0], &stand.nodes[2]);
        let mut datagrams = 0;
        for bytes in (1..4).chain(118..124).chain(245..252).chain([495, 496, 497, 50_000]) {
            let receiving = receive(to, Key::Routed { node: 0, tag: 5 }, bytes).await;
            let data = pattern(bytes, bytes);
            let (_source, get) = send(from, Key::Routed { node: 2, tag: 5 }, &data).await;
            assert_eq!(ended(from, &get).await.bytes, bytes);
            arrives(to, &receiving, &data).await;
            datagrams += bytes.div_ceil(248);
        }
        let counters = stand.nodes[1].counters().await.unwrap();
        assert_eq!((u64::from(counters.forwarded), counters.misrouted), (datagrams, 0));
    });
}

#[test]
fn an_abort_of_long_datagrams_ends_the_message() {
    stand(&[2]).on_pair(async |[from, to]| {
        let bytes = 512 * 1024;
        let (_target, credit) = receive(to, key(1, 0, 0), bytes).await;
        let (_source, get) = send(from, key(0, 0, 0), &pattern(1, bytes)).await;
        pause(from, 20_000).await;
        from.cancel(&get).await.unwrap();
        assert_eq!(failed(from, &get).await.fault, NetworkFault::Cancelled);
        assert_eq!(failed(to, &credit).await.fault, NetworkFault::FarEnd);
        // 255 B make a last byte of 0xff, and are no abort.
        carry([from, to], (0, 0), &pattern(2, 255)).await;
        carry([from, to], (0, 0), &[]).await;
    });
}

#[test]
fn cards_with_and_without_long_datagrams_make_no_torus() {
    let mixed = long(&[2]).edited(|file| {
        let part = Arc::make_mut(&mut file.endpoints[1].part);
        part.network_processor.as_mut().unwrap().long_datagrams = false;
    });
    let error = mixed.map(drop).unwrap_err().to_string();
    assert!(error.contains("fpga2 has datagrams of 128 B"), "{error}");
}
