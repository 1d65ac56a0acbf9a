// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every pair of nodes of many tori: each route is a shortest one, and no buffers wait for each
//! other in a cycle.

use crosslane_torus_link::Channel;
use crosslane_torus_link::routing::*;
use std::collections::BTreeSet;

/// Tori of 1 to 4 dimensions with these sizes in every order, up to `max_nodes` nodes.
fn tori(max_nodes: u32) -> Vec<Torus> {
    let sizes = [1, 2, 3, 4, 5, 6, 7, 8];
    let mut all = Vec::new();
    let mut lists: Vec<Vec<u16>> = vec![Vec::new()];
    for _ in 0..4 {
        let longer = |list: &Vec<u16>| {
            let list = list.clone();
            sizes.map(|size| [&list[..], &[size]].concat())
        };
        lists = lists.iter().flat_map(longer).collect();
        lists.retain(|list| list.iter().map(|size| u32::from(*size)).product::<u32>() <= max_nodes);
        for list in &lists {
            for wrap in [true, false] {
                all.push(Torus::new(list, wrap).expect("it can be"));
            }
        }
    }
    let ring = |size| Dimension { size, wraps: true };
    let row = |size| Dimension { size, wraps: false };
    for mixed in [&[ring(4), row(3)][..], &[row(5), ring(5)], &[row(2), ring(2), row(3), ring(3)]] {
        all.push(Torus::of(mixed).expect("it can be"));
    }
    all
}

/// Steps between two positions, by trial.
fn distance(dimension: Dimension, from: u16, to: u16) -> u16 {
    let direct = from.abs_diff(to);
    if dimension.wraps { direct.min(dimension.size - direct) } else { direct }
}

/// Follows a datagram and returns the buffers on its route.
fn route(torus: &Torus, source: u16, to: u16) -> Vec<Buffer> {
    let mut here = source;
    let mut buffers = Vec::new();
    loop {
        match torus.next_hop(source, here, to).expect("it is on its way") {
            Hop::Arrived => return buffers,
            Hop::Link { link, channel } => {
                buffers.push(Buffer { node: here, link, channel });
                here = torus.neighbour(here, link).expect("a cable").0;
            }
        }
        assert!(buffers.len() <= 64, "from {source} to {to} in {torus:?}");
    }
}

#[test]
fn positions_and_neighbours() {
    let torus = Torus::new(&[3, 1, 4, 2], true).unwrap();
    assert_eq!(torus.nodes(), 24);
    assert_eq!(torus.position(1), [1, 0, 0, 0], "the first dimension counts fastest");
    assert_eq!(torus.position(3), [0, 0, 1, 0]);
    assert_eq!(torus.node(&[2, 0, 3, 1]), Some(23));
    assert_eq!(torus.node(&[3, 0, 0, 0]), None);
    for node in 0..24 {
        assert_eq!(torus.node(&torus.position(node)), Some(node));
        for link in 0..8 {
            let Some((there, far)) = torus.neighbour(node, link) else {
                assert!([2, 3].contains(&link), "a size of 1 has no cable");
                continue;
            };
            assert_eq!(torus.neighbour(there, far), Some((node, link)));
            assert_ne!((there, far / 2), (node, link), "no cable leads to its own node");
            assert_eq!(far, link ^ 1, "up meets down");
        }
    }
    // Two cables join a pair; one if the dimension is open.
    assert_eq!(torus.cables().count(), 24 * 3);
    assert_eq!(Torus::new(&[2], true).unwrap().cables().count(), 2);
    assert_eq!(Torus::new(&[2], false).unwrap().cables().count(), 1);
    assert_eq!(Torus::new(&[5], false).unwrap().cables().count(), 4);
}

#[test]
fn tori_that_cannot_be() {
    assert_eq!(Torus::new(&[], true), Err(TorusError::Dimensions(0)));
    assert_eq!(Torus::new(&[2; 5], true), Err(TorusError::Dimensions(5)));
    assert_eq!(Torus::new(&[2, 0], true), Err(TorusError::Empty(1)));
    assert_eq!(Torus::new(&[256, 257], true), Err(TorusError::Nodes(65_792)));
    assert!(Torus::new(&[256, 256], true).is_ok());
}

#[test]
fn every_way_is_the_shortest_by_dimension_order() {
    for torus in tori(48) {
        for source in 0..torus.nodes() as u16 {
            for to in 0..torus.nodes() as u16 {
                let buffers = route(&torus, source, to);
                let (from, at) = (torus.position(source), torus.position(to));
                let steps = torus.dimensions().iter().zip(from.iter().zip(at));
                let wanted: u16 = steps.map(|(size, (from, at))| distance(*size, *from, at)).sum();
                assert_eq!(buffers.len(), usize::from(wanted), "{source} to {to} in {torus:?}");
                let dimensions: Vec<u8> = buffers.iter().map(|buffer| buffer.link / 2).collect();
                assert!(dimensions.is_sorted(), "{source} to {to} in {torus:?}");
            }
        }
    }
}

#[test]
fn channel_7_is_from_the_edge_on() {
    let ring = Torus::new(&[6], true).unwrap();
    let channels = |from, to| -> Vec<(u8, u8)> {
        let buffers = route(&ring, from, to);
        buffers.iter().map(|buffer| (buffer.link, buffer.channel.number())).collect()
    };
    assert_eq!(channels(0, 3), [(0, 6); 3], "up where both ways are as long");
    assert_eq!(channels(4, 1), [(0, 6), (0, 7), (0, 7)]);
    assert_eq!(channels(1, 5), [(1, 6), (1, 7)]);
    assert_eq!(channels(0, 4), [(1, 7), (1, 7)]);
    // The next dimension begins on the first channel again.
    let torus = Torus::new(&[3, 3], true).unwrap();
    let buffers = route(&torus, 2, 3);
    let channels: Vec<u8> = buffers.iter().map(|buffer| buffer.channel.number()).collect();
    assert_eq!(channels, [7, 6]);
}

#[test]
fn what_is_off_its_way_is_told() {
    let torus = Torus::new(&[5, 4], true).unwrap();
    assert_eq!(torus.next_hop(0, 0, 20), Err(Misrouted::NoNode(20)));
    assert_eq!(torus.next_hop(99, 0, 1), Err(Misrouted::NoNode(99)));
    for source in 0..20 {
        for to in 0..20 {
            let on_the_way: BTreeSet<u16> =
                route(&torus, source, to).iter().map(|buffer| buffer.node).collect();
            for here in 0..20 {
                match torus.next_hop(source, here, to) {
                    Ok(Hop::Arrived) => assert_eq!(here, to),
                    Ok(Hop::Link { .. }) => assert!(on_the_way.contains(&here)),
                    Err(_) => assert!(!on_the_way.contains(&here) && here != to),
                }
            }
        }
    }
}

/// The graph found by following every pair, each edge once.
fn by_pairs(torus: &Torus) -> BTreeSet<(Buffer, Buffer)> {
    let mut edges = BTreeSet::new();
    for source in 0..torus.nodes() as u16 {
        for to in 0..torus.nodes() as u16 {
            let buffers = route(torus, source, to);
            edges.extend(buffers.windows(2).map(|pair| (pair[0], pair[1])));
        }
    }
    edges
}

/// Whether repeatedly removing the buffers that wait for nothing removes all of them.
fn is_acyclic(mut edges: BTreeSet<(Buffer, Buffer)>) -> bool {
    loop {
        let waiting: BTreeSet<Buffer> = edges.iter().map(|edge| edge.0).collect();
        let before = edges.len();
        edges.retain(|edge| waiting.contains(&edge.1));
        if edges.len() == before {
            return edges.is_empty();
        }
    }
}

#[test]
fn the_graph_is_that_of_all_pairs_and_has_no_cycle() {
    for torus in tori(48) {
        let waits = Waits::of(&torus);
        let edges: BTreeSet<(Buffer, Buffer)> = waits
            .buffers()
            .flat_map(|buffer| waits.waits_for(buffer).map(move |next| (buffer, next)))
            .collect();
        let pairs = by_pairs(&torus);
        assert_eq!(edges, pairs, "{torus:?}");
        assert_eq!(waits.cycle(), None, "{torus:?}");
        assert!(is_acyclic(pairs), "{torus:?}");
    }
}

#[test]
fn no_cycle_in_large_tori() {
    for sizes in [&[8, 8, 8, 8][..], &[4096], &[64, 64], &[16, 16, 16], &[5, 5, 5, 5], &[65535]] {
        let torus = Torus::new(sizes, true).unwrap();
        assert_eq!(Waits::of(&torus).cycle(), None, "{sizes:?}");
    }
}

/// With one channel instead of two, rings of 4 and more have a cycle, so the test above can fail.
#[test]
fn one_channel_would_not_do() {
    for (size, is_enough) in [(2, true), (3, true), (4, false), (5, false), (8, false)] {
        let torus = Torus::new(&[size], true).unwrap();
        let merged = |buffer: Buffer| Buffer { channel: Channel::ALL[6], ..buffer };
        let edges = by_pairs(&torus).into_iter().map(|(from, to)| (merged(from), merged(to)));
        assert_eq!(is_acyclic(edges.collect()), is_enough, "{size}");
    }
}
