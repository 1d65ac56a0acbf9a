// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts: data stored into a link arrive at its other end.

use crosslane_driver::network_processor::*;
use crosslane_host::{Bus, Mapping};

use crate::network_processor::stand::*;

#[test]
fn puts_of_every_length_arrive() {
    on_pair(Modes::default(), async |_, [from, to]| {
        assert_eq!(from.put_mapping(), Mapping::WriteCombined);
        for bytes in (1..300).chain([1000, 1024, 2048]) {
            let data = pattern(bytes, bytes);
            let (channel, tag) = ((bytes % 8) as u8, (bytes % 64) as u8);
            let receiving = receive(to, key(1, channel, tag), bytes).await;
            from.put(key(0, channel, tag), &data, late(from)).await.unwrap();
            arrives(to, &receiving, &data).await;
        }
        from.put_drained(0, 1, late(from)).await.unwrap();
        assert_eq!(from.counters().await.unwrap().refused, 0);
    });
}

#[test]
fn puts_of_one_key_are_taken_in_their_order() {
    on_pair(Modes::default(), async |_, [from, to]| {
        // More than the aperture has slots for; the credits come later.
        let messages: Vec<Vec<u8>> = (0..40).map(|number| pattern(number, 40)).collect();
        for message in &messages {
            from.put(key(0, 2, 5), message, late(from)).await.unwrap();
        }
        for put in &messages {
            let receiving = receive(to, key(1, 2, 5), 40).await;
            arrives(to, &receiving, put).await;
        }
    });
}

/// A message by get and one by put, from the sender's call to the receiver's data: the latency of
/// each in ps.
fn latencies(bytes: u64) -> (u64, u64) {
    on_pair(Modes::default(), async |_, [from, to]| {
        let (sent, got) = carry([from, to], (0, 0), &pattern(1, bytes)).await;
        assert!(sent < got);
        let receiving = receive(to, key(1, 0, 0), bytes).await;
        let begun = from.bus().now();
        from.put(key(0, 0, 0), &pattern(2, bytes), late(from)).await.unwrap();
        let put = arrives(to, &receiving, &pattern(2, bytes)).await;
        (got.0, put.ended.0 - begun.0)
    })
}

#[test]
fn a_put_is_faster_than_a_get_by_the_read_of_host_memory() {
    for bytes in [8, 56, 64] {
        let (got, put) = latencies(bytes);
        assert!(got < 1_800_000, "a get of {bytes} B takes {got} ps");
        assert!(put < 1_000_000, "a put of {bytes} B takes {put} ps");
        // A round trip through ports of 100 and 150 ns, and 132 ns of memory.
        assert!(got > put + 2 * (100 + 150) * 1000 + 132_000, "{bytes} B: {got} and {put} ps");
    }
}

#[test]
fn a_window_that_is_full_is_waited_for_until_the_deadline() {
    on_pair(Modes::default(), async |_, [from, to]| {
        // The link is taken down at the other end: puts stay in the aperture.
        to.disable_link(1).await.unwrap();
        from.retrain_link(0).await.unwrap();
        let deadline = from.bus().now() + ns(50_000);
        let error = from.put(key(0, 0, 0), &pattern(1, 64 * 1024), deadline).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::Deadline { deadline });
        assert!(error.moved_bytes > 0 && error.moved_bytes < error.total_bytes, "{error}");
        assert_eq!(from.bus().now(), deadline);
        let error = from.put_drained(0, 0, deadline + ns(10_000)).await.unwrap_err();
        assert!(matches!(error.fault, NetworkFault::Deadline { .. }), "{error}");
        // Another link of the same aperture works.
        let receiving = receive(to, key(0, 0, 0), 64).await;
        from.put(key(1, 0, 0), &pattern(3, 64), late(from)).await.unwrap();
        arrives(to, &receiving, &pattern(3, 64)).await;
        // A reset makes it usable again.
        from.reset().await.unwrap();
        from.put(key(0, 0, 0), &pattern(1, 200), late(from)).await.unwrap();
    });
}

#[test]
fn what_a_put_has_not_stored_in_time_the_next_one_stores() {
    on_pair(Modes::default(), async |_, [from, to]| {
        // More than the other end's buffer and the aperture hold.
        let bytes = 32 * 1024;
        let long = pattern(1, bytes);
        let deadline = from.bus().now() + ns(50_000);
        let error = from.put(key(0, 3, 1), &long, deadline).await.unwrap_err();
        assert!((1..bytes).contains(&error.moved_bytes), "{error}");
        let deadline = from.bus().now() + ns(5_000);
        let error = from.put(key(0, 3, 1), &pattern(2, 300), deadline).await.unwrap_err();
        assert_eq!((error.moved_bytes, error.total_bytes), (0, 300));
        let receiving = receive(to, key(1, 3, 1), bytes).await;
        from.put(key(0, 3, 1), &pattern(3, 300), late(from)).await.unwrap();
        arrives(to, &receiving, &long).await;
        // The one that was refused is not sent.
        let receiving = receive(to, key(1, 3, 1), 300).await;
        arrives(to, &receiving, &pattern(3, 300)).await;
    });
}

#[test]
fn a_reset_ends_a_put_that_waits() {
    on_pair(Modes::default(), async |stand, [from, _]| {
        let waiting = stand.simulation.spawn("put", {
            let from = from.clone();
            async move { from.put(key(0, 0, 0), &[0; 60_000], late(&from)).await }
        });
        pause(from, 50_000).await;
        from.reset().await.unwrap();
        let error = waiting.await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::Reset);
    });
}

#[test]
fn what_cannot_be_put_is_refused_before_it_is_stored() {
    on_pair(Modes::default(), async |_, [from, _]| {
        let mut said = Vec::new();
        for (key, bytes) in [
            (key(4, 0, 0), 1),
            (key(0, 8, 0), 1),
            (key(0, 0, 64), 1),
            (key(0, 0, 0), 0),
            (key(0, 0, 0), (1 << 20) + 1),
            (Key::Routed { node: 1, tag: 2 }, 1),
        ] {
            said.push(failure(from.put(key, &vec![0; bytes], late(from)).await));
        }
        insta::assert_snapshot!(said.join("\n"));
        let counters = from.counters().await.unwrap();
        assert_eq!((counters.puts, counters.refused), (0, 0));
    });
}
