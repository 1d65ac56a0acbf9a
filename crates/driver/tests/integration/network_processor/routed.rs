// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages to any node of a torus.

use crosslane_driver::network_processor::*;

use crate::network_processor::stand::*;

/// Sets every node's position, the first dimension counting fastest.
async fn place(stand: &Stand, sizes: &[u16]) {
    for (node, processor) in stand.nodes.iter().enumerate() {
        let mut rest = node as u16;
        let dimensions: Vec<TorusDimension> = sizes
            .iter()
            .map(|&size| {
                let position = rest % size;
                rest /= size;
                TorusDimension { size, position, is_open: false }
            })
            .collect();
        processor.place_in_torus(&dimensions).await.unwrap();
    }
}

#[test]
fn every_node_reaches_every_other() {
    let sizes = [3, 3];
    let modes = Modes::default().with_buffers(Buffers::Mapped);
    let stand = Stand::new(&sizes, modes);
    let bytes = 1000;
    stand.run(async {
        place(&stand, &sizes).await;
        for from in 0..9_u16 {
            let others: Vec<u16> = (0..9).filter(|&node| node != from).collect();
            let source = &stand.nodes[usize::from(from)];
            let mut credits = Vec::new();
            for &to in &others {
                let target = stand.nodes[usize::from(to)].clone();
                let room = target.buffer(bytes).await.unwrap();
                let key = Key::Routed { node: from, tag: 1 };
                let credit = target.credit(message(&target, key, &room, bytes)).await.unwrap();
                credits.push((target, credit, room));
            }
            let mut gets = Vec::new();
            for &to in &others {
                let data = pattern(u64::from(from * 16 + to), bytes);
                let buffer = filled(source, &data).await;
                let key = Key::Routed { node: to, tag: 1 };
                gets.push(source.nget(message(source, key, &buffer, bytes)).await.unwrap());
            }
            for get in &gets {
                source.wait(get, late(source)).await.unwrap();
            }
            for (&to, (target, credit, room)) in others.iter().zip(&credits) {
                let ended = target.wait(credit, late(target)).await.unwrap();
                assert_eq!(ended.bytes, bytes);
                let data = pattern(u64::from(from * 16 + to), bytes);
                assert!(contents(room, bytes) == data, "from {from} to {to}");
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
    let stand = Stand::new(&[2], Modes::default());
    let [from, _] = &stand.nodes[..] else { panic!("two nodes") };
    stand.run(async {
        let buffer = from.buffer(16_384).await.unwrap();
        let routed = |node| Key::Routed { node, tag: 0 };
        let refusal = async |key, bytes| {
            from.nget(message(from, key, &buffer, bytes)).await.map(drop).unwrap_err().to_string()
        };
        assert_eq!(
            refusal(routed(1), 8).await,
            "fpga1 node 1 tag 0: the node has no place in a torus, so nothing is routed"
        );
        place(&stand, &[2]).await;
        assert_eq!(refusal(routed(0), 8).await, "fpga1 node 0 tag 0: that is the node itself");
        assert_eq!(
            refusal(routed(2), 8).await,
            "fpga1 node 2 tag 0: the torus has 2 nodes, from 0 on"
        );
        assert_eq!(
            refusal(routed(1), 0).await,
            "fpga1 node 1 tag 0: a routed message has at least 1 B"
        );
        assert_eq!(
            refusal(routed(1), 16_384).await,
            "fpga1 node 1 tag 0: its memory goes on elsewhere after 4096 B, which is no multiple \
             of the 120 B of a datagram: copied or mapped buffers are contiguous"
        );
        assert_eq!(
            refusal(key(0, 6, 0), 8).await,
            "fpga1 link 0 channel 6 tag 0: in a torus channels 6 and 7 are for routed messages"
        );
        let counters = from.counters().await.unwrap();
        assert_eq!((counters.gets, counters.refused), (0, 0));
    });
}
