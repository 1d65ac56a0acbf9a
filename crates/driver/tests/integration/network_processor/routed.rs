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
