// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: their modes, counters, generator and checker, training; plain register accesses.

use crosslane_driver::network_processor::*;
use crosslane_host::Bus;
use crosslane_regs::network_processor as map;

use crate::network_processor::stand::*;

#[test]
fn a_loop_brings_back_what_is_sent() {
    on_pair(Modes::default(), async |_, [node, _]| {
        // Loopback works on a disabled link.
        node.disable_link(0).await.unwrap();
        node.set_link_mode(0, LinkMode::Loopback).await.unwrap();
        for bytes in [0, 1, 128, 5000] {
            let data = pattern(bytes, bytes);
            let receiving = receive(node, key(0, 1, 0), bytes).await;
            let (_source, get) = send(node, key(0, 1, 0), &data).await;
            ended(node, &get).await;
            arrives(node, &receiving, &data).await;
        }
        let receiving = receive(node, key(0, 1, 0), 64).await;
        node.put(key(0, 1, 0), &pattern(1, 64), late(node)).await.unwrap();
        arrives(node, &receiving, &pattern(1, 64)).await;
    });
}

#[test]
fn a_sink_takes_everything_and_counts_it() {
    on_pair(mapped(), async |_, [node, _]| {
        node.set_link_mode(0, LinkMode::Sink).await.unwrap();
        let source = node.buffer(1 << 20).await.unwrap();
        for tag in 0..4 {
            let get = node.nget(message(node, key(0, 0, tag), &source, 1 << 20)).await.unwrap();
            assert_eq!(ended(node, &get).await.bytes, 1 << 20);
        }
        node.put_drained(0, 0, late(node)).await.unwrap();
        let counters = node.link_counters(0).await.unwrap();
        // The last of them may still be in the staging memory.
        pause(node, 10_000).await;
        let settled = node.link_counters(0).await.unwrap();
        assert!(counters.sent <= settled.sent);
        assert_eq!((settled.sent, settled.delivered), (4 * 8192, 0));
    });
}

#[test]
fn generator_and_checker_agree_and_leave_other_channels_alone() {
    on_pair(Modes::default(), async |_, [from, to]| {
        to.soak_link(1, false, true).await.unwrap();
        from.soak_link(0, true, false).await.unwrap();
        pause(from, 50_000).await;
        carry([from, to], (0, 0), &pattern(1, 20_000)).await;
        from.soak_link(0, false, false).await.unwrap();
        pause(from, 50_000).await;
        let (sent, taken) =
            (from.link_counters(0).await.unwrap(), to.link_counters(1).await.unwrap());
        assert_eq!((taken.wrong, taken.delivered), (0, sent.sent));
        assert_eq!(taken.checked, sent.sent - 20_000_u32.div_ceil(128));
        // 50 us at 34 ns a datagram, plus those sent beside the message.
        assert!(taken.checked > 1400, "{} datagrams", taken.checked);
        to.reset().await.unwrap();
        assert_eq!(to.link_counters(1).await.unwrap(), LinkCounters::default());
    });
}

/// Each wrong bit is counted on its lane until a reset.
#[test]
fn lanes_count_their_errors() {
    on_pair(mapped(), async |stand, [from, to]| {
        stand.damage(1e-5);
        let before = to.link_margins(1).await.unwrap();
        carry([from, to], (0, 0), &pattern(1, 1 << 20)).await;
        let margins = to.link_margins(1).await.unwrap().since(&before);
        let damaged = to.link_counters(1).await.unwrap().damaged;
        let errors: u32 = margins.lane_errors.iter().sum();
        assert!(damaged > 50 && errors >= damaged, "{damaged} frames, {margins:?}");
        assert!(margins.lane_errors.iter().all(|lane| *lane > errors / 32), "{margins:?}");
        assert_eq!((margins.dropped, margins.doubled, margins.slipped), (0, 0, 0));
        to.reset().await.unwrap();
        assert_eq!(to.link_margins(1).await.unwrap(), LinkMargins::default());
    });
}

#[test]
fn a_link_that_trains_anew_loses_nothing() {
    on_pair(mapped(), async |_, [from, to]| {
        let bytes = 1 << 20;
        let before = from.link_counters(0).await.unwrap();
        let receiving = receive(to, key(1, 0, 0), bytes).await;
        let (_source, get) = send(from, key(0, 0, 0), &pattern(1, bytes)).await;
        for _ in 0..3 {
            pause(from, 30_000).await;
            from.retrain_link(0).await.unwrap();
            assert_eq!(from.link_state(0).await.unwrap(), LinkState::Training);
            from.wait_link_up(0, late(from)).await.unwrap();
        }
        let status = from.link_status(0).await.unwrap();
        assert_eq!((status.state, status.lanes), (LinkState::Up, 8));
        assert_eq!(status.line_bits_per_second(), 8 * 5_000_000_000);
        assert!(status.far_datagrams > 0);
        ended(from, &get).await;
        arrives(to, &receiving, &pattern(1, bytes)).await;
        let after = from.link_counters(0).await.unwrap();
        assert_eq!(after.trainings - before.trainings, 3);
        assert_eq!(after.sent - before.sent, bytes as u32 / 128);
        assert_eq!(to.link_counters(1).await.unwrap().delivered, bytes as u32 / 128);
    });
}

#[test]
fn registers_are_read_and_written_as_the_mode_has_it() {
    let requests = [Requests::Stores(crosslane_host::Mapping::Uncached), Requests::SystemCall];
    let took = requests.map(|requests| {
        on_pair(Modes::default().with_requests(requests), async |_, [node, _]| {
            let begun = node.bus().now();
            assert_eq!(node.read(map::ID).await.unwrap(), map::ID_RESET);
            let read = node.bus().now().0 - begun.0;
            let at = map::DIMENSIONS.at(3);
            node.write(at, 5).await.unwrap();
            assert_eq!(node.read(at).await.unwrap(), 5);
            fails(
                node.read(4096).await,
                "fpga1: 4 B at 01:00.0 BAR0 + 0x1000 are not in a BAR: it has 4096 B",
            );
            read
        })
    });
    assert!((took[1] - took[0]).abs_diff(200_000) <= 2, "{took:?} ps");
}

#[test]
fn buffers_that_were_made_ready_cost_no_message_anything() {
    let took = |is_ready| {
        on_pair(Modes::default().with_buffers(Buffers::Copied), async |_, [node, _]| {
            if is_ready {
                node.prepare_copies(4096, 1).await.unwrap();
            }
            let source = filled(node, &pattern(1, 4096)).await;
            let begun = node.bus().now();
            let get = node.nget(message(node, key(0, 0, 0), &source, 4096)).await.unwrap();
            ended(node, &get).await;
            node.bus().now().0 - begun.0
        })
    };
    // A system call and one page.
    let saved = took(false) - took(true);
    assert!(saved.abs_diff(200_000 + 100_000) <= 2, "{saved} ps");
}
