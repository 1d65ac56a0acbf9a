// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: their modes, counters, generator and checker, training; plain register accesses.

use crosslane_driver::network_processor::*;
use crosslane_host::Bus;
use crosslane_regs::network_processor as map;

use crate::network_processor::stand::*;

#[test]
fn a_loop_brings_back_what_is_sent() {
    let stand = Stand::new(&[2], Modes::default());
    let node = &stand.nodes[0];
    stand.run(async {
        // Loopback works on a disabled link.
        node.disable_link(0).await.unwrap();
        node.set_link_mode(0, LinkMode::Loopback).await.unwrap();
        for bytes in [0, 1, 128, 5000] {
            let data = pattern(bytes, bytes);
            let (source, target) = (filled(node, &data).await, node.buffer(5000).await.unwrap());
            let credit = node.credit(message(node, key(0, 1, 0), &target, bytes)).await.unwrap();
            let get = node.nget(message(node, key(0, 1, 0), &source, bytes)).await.unwrap();
            node.wait(&get, late(node)).await.unwrap();
            assert_eq!(node.wait(&credit, late(node)).await.unwrap().bytes, bytes);
            assert!(contents(&target, bytes) == data);
        }
        let target = node.buffer(64).await.unwrap();
        let credit = node.credit(message(node, key(0, 1, 0), &target, 64)).await.unwrap();
        node.put(key(0, 1, 0), &pattern(1, 64), late(node)).await.unwrap();
        node.wait(&credit, late(node)).await.unwrap();
        assert!(contents(&target, 64) == pattern(1, 64));
    });
}

#[test]
fn a_sink_takes_everything_and_counts_it() {
    let stand = Stand::new(&[2], Modes::default().with_buffers(Buffers::Mapped));
    let node = &stand.nodes[0];
    stand.run(async {
        node.set_link_mode(0, LinkMode::Sink).await.unwrap();
        let source = node.buffer(1 << 20).await.unwrap();
        for tag in 0..4 {
            let get = node.nget(message(node, key(0, 0, tag), &source, 1 << 20)).await.unwrap();
            assert_eq!(node.wait(&get, late(node)).await.unwrap().bytes, 1 << 20);
        }
        node.put_drained(0, 0, late(node)).await.unwrap();
        let counters = node.link_counters(0).await.unwrap();
        // The last of them may still be in the staging memory.
        node.bus().sleep_until(node.bus().now() + ns(10_000)).await;
        let settled = node.link_counters(0).await.unwrap();
        assert!(counters.sent <= settled.sent);
        assert_eq!((settled.sent, settled.delivered), (4 * 8192, 0));
    });
}

#[test]
fn generator_and_checker_agree_and_leave_other_channels_alone() {
    let stand = Stand::new(&[2], Modes::default());
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    stand.run(async {
        to.soak_link(1, false, true).await.unwrap();
        from.soak_link(0, true, false).await.unwrap();
        from.bus().sleep_until(from.bus().now() + ns(50_000)).await;
        carry(&stand.nodes, (0, 0), &pattern(1, 20_000)).await;
        from.soak_link(0, false, false).await.unwrap();
        from.bus().sleep_until(from.bus().now() + ns(50_000)).await;
        let (sent, taken) =
            (from.link_counters(0).await.unwrap(), to.link_counters(1).await.unwrap());
        assert_eq!((taken.wrong, taken.delivered), (0, sent.sent));
        assert_eq!(taken.checked, sent.sent - 20_000_u32.div_ceil(128));
        // 50 us at 34 ns a datagram, plus those sent beside the message.
        assert!(taken.checked > 1400, "{} datagrams", taken.checked);
    });
}

#[test]
fn a_link_that_trains_anew_loses_nothing() {
    let stand = Stand::new(&[2], Modes::default().with_buffers(Buffers::Mapped));
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    let bytes = 1 << 20;
    stand.run(async {
        let before = from.link_counters(0).await.unwrap();
        let source = filled(from, &pattern(1, bytes)).await;
        let target = to.buffer(bytes).await.unwrap();
        let credit = to.credit(message(to, key(1, 0, 0), &target, bytes)).await.unwrap();
        let get = from.nget(message(from, key(0, 0, 0), &source, bytes)).await.unwrap();
        for _ in 0..3 {
            from.bus().sleep_until(from.bus().now() + ns(30_000)).await;
            from.retrain_link(0).await.unwrap();
            assert_eq!(from.link_state(0).await.unwrap(), LinkState::Training);
            from.wait_link_up(0, late(from)).await.unwrap();
        }
        from.wait(&get, late(from)).await.unwrap();
        assert_eq!(to.wait(&credit, late(to)).await.unwrap().bytes, bytes);
        assert!(contents(&target, bytes) == pattern(1, bytes));
        let after = from.link_counters(0).await.unwrap();
        assert_eq!(after.trainings - before.trainings, 3);
        assert_eq!(after.sent - before.sent, bytes as u32 / 128);
        assert_eq!(to.link_counters(1).await.unwrap().delivered, bytes as u32 / 128);
    });
}

#[test]
fn registers_are_read_and_written_as_the_mode_has_it() {
    let mut took = Vec::new();
    for requests in [Requests::Stores(crosslane_host::Mapping::Uncached), Requests::SystemCall] {
        let stand = Stand::new(&[2], Modes::default().with_requests(requests));
        let node = &stand.nodes[0];
        took.push(stand.run(async {
            let begun = node.bus().now();
            assert_eq!(node.read(map::ID).await.unwrap(), map::ID_RESET);
            let read = node.bus().now().0 - begun.0;
            let at = map::DIMENSIONS.at(3);
            node.write(at, 5).await.unwrap();
            assert_eq!(node.read(at).await.unwrap(), 5);
            let error = node.read(4096).await.unwrap_err();
            assert_eq!(
                error.to_string(),
                "fpga1: 4 B at 01:00.0 BAR0 + 0x1000 are not in a BAR: it has 4096 B"
            );
            read
        }));
    }
    assert!((took[1] - took[0]).abs_diff(200_000) <= 2, "{took:?} ps");
}

#[test]
fn buffers_that_were_made_ready_cost_no_message_anything() {
    let took = |is_ready| {
        let modes = Modes::default().with_buffers(Buffers::Copied);
        let stand = Stand::new(&[2], modes);
        let node = &stand.nodes[0];
        stand.run(async {
            if is_ready {
                node.prepare_copies(4096, 1).await.unwrap();
            }
            let source = filled(node, &pattern(1, 4096)).await;
            let begun = node.bus().now();
            let get = node.nget(message(node, key(0, 0, 0), &source, 4096)).await.unwrap();
            node.wait(&get, late(node)).await.unwrap();
            node.bus().now().0 - begun.0
        })
    };
    // A system call and one page.
    let saved = took(false) - took(true);
    assert!(saved.abs_diff(200_000 + 100_000) <= 2, "{saved} ps");
}
