// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers between engines.

use crosslane_driver::{
    Channel, ChannelKind, ChannelOptions, Check, CompletionLevel, DescriptorSource, Device,
    PathEnd, Peer, PeerOptions, ReceiveQueuePolicy, StreamSource, set_max_payload_on_path,
};
use crosslane_pcie::units::Picoseconds;

use crate::lab::setup::*;

/// Opens a peer channel that takes its descriptors from the command port.
async fn commanded(device: &Device) -> Channel {
    let descriptors = DescriptorSource::CommandPort;
    let options = ChannelOptions::default().with_descriptors(descriptors);
    device.channel(ChannelKind::Peer, 0, options).await.unwrap()
}

#[test]
fn a_peer_takes_what_the_generator_sends_at_both_levels() {
    for credits in [true, false] {
        for lab in ["rosta", "rosta:crosslane"] {
            run_on(lab, ["fpga1", "fpga6"], async |[from, to_]| {
                let options = PeerOptions::default().with_credits(credits);
                let peer = from.connect(&to_, options).await.unwrap();
                from.user().seed(3).await.unwrap();
                peer.check(3).await.unwrap();
                let mut channel = channel(&from, ChannelKind::Peer).await;
                let sent = to(peer.target(MEGABYTE), CompletionLevel::Sent);
                assert_eq!(channel.transfer(sent).await.unwrap().bytes, MEGABYTE);
                let acknowledged = channel.transfer(to(peer.target(MEGABYTE), ACKNOWLEDGED)).await;
                if credits {
                    acknowledged.unwrap();
                    // Acknowledged data have been taken out.
                    let counters = peer.counters().await.unwrap();
                    assert_eq!(u64::from(counters.drained_bytes), 2 * MEGABYTE);
                } else {
                    fails(
                        acknowledged,
                        "fpga1 peer 0: the level acknowledged cannot be promised: it is not \
                         connected to a peer with credits; sent is possible",
                    );
                    sleep(&from, us(100)).await;
                }
                assert_eq!(peer.check_result().await.unwrap(), Check::default());
                let counters = peer.counters().await.unwrap();
                let expected = if credits { 2 * MEGABYTE } else { MEGABYTE };
                assert_eq!(u64::from(counters.received_bytes), expected);
                assert!(!counters.overflow);
                assert!(counters.last_clocks > counters.first_clocks);
                // A check begun in the middle: both ends restart, and so must the generator.
                from.user().seed(4).await.unwrap();
                peer.check(4).await.unwrap();
                channel.transfer(to(peer.target(MEGABYTE), CompletionLevel::Sent)).await.unwrap();
                sleep(&from, us(100)).await;
                assert_eq!(peer.check_result().await.unwrap(), Check::default());
                channel.close().await.unwrap();
                peer.close().await.unwrap();
            });
        }
    }
}

#[test]
fn a_checker_that_expects_something_else_says_which_word_was_wrong_first() {
    run_on("rosta:crosslane", ["fpga1", "fpga2"], async |[from, to_]| {
        let peer = from.connect(&to_, PeerOptions::default()).await.unwrap();
        peer.check(1).await.unwrap();
        from.user().seed(2).await.unwrap();
        let mut channel = channel(&from, ChannelKind::Peer).await;
        channel.transfer(to(peer.target(PAGE), ACKNOWLEDGED)).await.unwrap();
        let wrong = Check { errors: 1024, first_word: Some(0) };
        assert_eq!(peer.check_result().await.unwrap(), wrong);
        // Closing the sender's channel keeps the receive queue's account; opening it resets the
        // account.
        channel.close().await.unwrap();
        assert_eq!(peer.check_result().await.unwrap(), wrong);
        assert_eq!(u64::from(peer.counters().await.unwrap().drained_bytes), PAGE);
        let _channel = crate::lab::setup::channel(&from, ChannelKind::Peer).await;
        assert_eq!(peer.check_result().await.unwrap(), Check::default());
        assert_eq!(peer.counters().await.unwrap().drained_bytes, 0);
    });
}

#[test]
fn a_lane_that_nobody_empties_is_never_overrun_by_a_sender_with_credits() {
    run_on("rosta", ["fpga1", "fpga2"], async |[from, to_]| {
        let peer = from.connect(&to_, PeerOptions::default()).await.unwrap();
        // Routed to a C2H channel that is not open: nothing is drained.
        let lane = StreamSource::ReceiveQueue(peer.receive_queue());
        to_.user().route(lane, StreamSource::Generator).await.unwrap();
        let mut channel = channel(&from, ChannelKind::Peer).await;
        let transfer = to(peer.target(3 * PAGE), ACKNOWLEDGED);
        let error = channel.transfer(within(&from, us(200), transfer)).await.unwrap_err();
        // The receive queue holds a page.
        assert_eq!((error.moved_bytes, error.total_bytes), (PAGE, 3 * PAGE));
        // Both ends have restarted, so data move once the queue is drained.
        let counters = peer.counters().await.unwrap();
        assert_eq!((counters.received_bytes, counters.fill_bytes), (0, 0));
        assert!(!counters.overflow);
        to_.user().route(StreamSource::Generator, StreamSource::Generator).await.unwrap();
        assert_eq!(
            channel.transfer(to(peer.target(MEGABYTE), ACKNOWLEDGED)).await.unwrap().bytes,
            MEGABYTE
        );
        let counters = peer.counters().await.unwrap();
        assert_eq!(u64::from(counters.drained_bytes), MEGABYTE);
    });
}

#[test]
fn without_credits_a_full_lane_drops_if_it_is_told_to() {
    run_on("rosta", ["fpga1", "fpga2"], async |[from, to_]| {
        let options =
            PeerOptions::default().with_credits(false).with_policy(ReceiveQueuePolicy::Drop);
        let peer = from.connect(&to_, options).await.unwrap();
        let lane = StreamSource::ReceiveQueue(peer.receive_queue());
        to_.user().route(lane, StreamSource::Generator).await.unwrap();
        let mut channel = channel(&from, ChannelKind::Peer).await;
        channel.transfer(to(peer.target(3 * PAGE), CompletionLevel::Sent)).await.unwrap();
        sleep(&from, us(50)).await;
        let counters = peer.counters().await.unwrap();
        assert!(counters.overflow);
        assert_eq!(u64::from(counters.fill_bytes), PAGE);
    });
}

#[test]
fn data_go_from_the_host_through_eight_engines_and_back() {
    let names = ["fpga1", "fpga2", "fpga3", "fpga4", "fpga5", "fpga6", "fpga7", "fpga8"];
    for lab in ["rosta", "rosta:crosslane"] {
        run_on(lab, names, async |devices| {
            let mut peers = Vec::new();
            for pair in devices.windows(2) {
                peers.push(pair[0].connect(&pair[1], PeerOptions::default()).await.unwrap());
            }
            let generator = StreamSource::Generator;
            for (n, device) in devices.iter().enumerate() {
                let lane =
                    n.checked_sub(1).map(|n| StreamSource::ReceiveQueue(peers[n].receive_queue()));
                let (c2h, peer) = match (n, lane) {
                    (7, Some(lane)) => (lane, generator),
                    (_, Some(lane)) => (generator, lane),
                    (_, None) => (generator, StreamSource::H2c),
                };
                device.user().route(c2h, peer).await.unwrap();
            }
            let out = filled(&devices[0], MEGABYTE, 11).await;
            let back = empty(&devices[7], MEGABYTE).await;
            let mut c2h = channel(&devices[7], ChannelKind::C2h).await;
            let arrived = post(&mut c2h, whole(&back, VISIBLE)).await;
            let mut sending = Vec::new();
            for (device, peer) in devices.iter().zip(&peers) {
                let mut channel = channel(device, ChannelKind::Peer).await;
                let ticket = post(&mut channel, to(peer.target(MEGABYTE), ACKNOWLEDGED)).await;
                sending.push((channel, ticket));
            }
            let mut h2c = channel(&devices[0], ChannelKind::H2c).await;
            h2c.transfer(whole(&out, VISIBLE)).await.unwrap();
            for (channel, ticket) in &mut sending {
                assert_eq!(channel.wait(*ticket).await.unwrap().bytes, MEGABYTE);
            }
            c2h.wait(arrived).await.unwrap();
            assert!(contents(&back) == pattern(11, 0, MEGABYTE), "data changed on the way");
            for peer in peers {
                peer.close().await.unwrap();
            }
        });
    }
}

#[test]
fn the_command_port_sends_and_messages_go_to_and_fro() {
    run_on("rosta", ["fpga1", "fpga2"], async |[a, b]| {
        let deadline = us(50_000);
        let there = a.connect(&b, PeerOptions::default()).await.unwrap();
        let channel_a = commanded(&a).await;
        let mut channel_b = commanded(&b).await;
        // Connected before the channel was opened, and after.
        let back = b.connect(&a, PeerOptions::default()).await.unwrap();
        there.check(8).await.unwrap();
        a.user().seed(8).await.unwrap();
        for n in 1..=3 {
            a.user().command(there.address(), 10_000).await.unwrap();
            a.user().command_done(deadline).await.unwrap();
            sleep(&a, us(20)).await;
            assert_eq!(there.counters().await.unwrap().drained_bytes, n * 10_000);
        }
        assert_eq!(there.check_result().await.unwrap(), Check::default());
        fails(
            channel_b.post(&[to(back.target(4), CompletionLevel::Sent)]).await,
            "fpga2 peer 0: it is open for the command port: nothing can be posted to it",
        );
        let rounds = 5;
        let generator = StreamSource::Generator;
        b.user().route(generator, StreamSource::ReceiveQueue(there.receive_queue())).await.unwrap();
        for _ in 0..2 {
            b.user().command(back.address(), 128 * rounds).await.unwrap();
            let rounds = rounds as u16;
            let made = a.user().ping_pong(there.address(), 128, rounds, deadline).await.unwrap();
            b.user().command_done(deadline).await.unwrap();
            assert_eq!(made.rounds, 5);
            assert!(made.least_clocks > 0 && made.least_clocks <= made.most_clocks);
            let (least, most) = (5 * u64::from(made.least_clocks), 5 * u64::from(made.most_clocks));
            assert!((least..=most).contains(&made.sum_clocks), "{made:?}");
        }
        // A ping-pong whose far end does not answer meets its deadline.
        fails_with(
            a.user().ping_pong(there.address(), 128, 1, a_while(&a)).await,
            "the end of a ping-pong",
        );
        channel_a.close().await.unwrap();
        fails(
            a.user().command(there.address(), 4).await,
            "fpga1 peer 0: it is not open for the command port",
        );
    });
}

#[test]
fn the_command_port_sends_the_payloads_that_its_way_takes() {
    let simulation = simulation("rosta");
    run(&simulation, async |bus| {
        let place = |name| PathEnd::Function(function(&bus, name));
        set_max_payload_on_path(&bus, place("fpga1"), place("fpga2"), 256).unwrap();
        let [a, b] = open_all(&bus, ["fpga1", "fpga2"]).await;
        let channel = commanded(&a).await;
        let there = a.connect(&b, PeerOptions::default()).await.unwrap();
        a.user().command(there.address(), PAGE as u32).await.unwrap();
        a.user().command_done(us(10_000)).await.unwrap();
        assert_eq!(channel.counters().await.unwrap().tlps, 16);
    });
}

fn a_while(device: &Device) -> Picoseconds {
    use crosslane_host::Bus;
    device.bus().now() + us(100)
}

#[test]
fn an_open_channel_follows_its_connections() {
    run_on("rosta:crosslane", ["fpga1", "fpga2", "fpga7"], async |[from, near, far]| {
        let mut channel = channel(&from, ChannelKind::Peer).await;
        for target in [&near, &far, &near] {
            let peer = from.connect(target, PeerOptions::default()).await.unwrap();
            from.user().seed(6).await.unwrap();
            peer.check(6).await.unwrap();
            channel.transfer(to(peer.target(MEGABYTE), ACKNOWLEDGED)).await.unwrap();
            assert_eq!(peer.check_result().await.unwrap(), Check::default());
            assert_eq!(u64::from(peer.counters().await.unwrap().drained_bytes), MEGABYTE);
            let place = format!("receive queue 0 of {}", target.function().name);
            fails(
                from.connect(&far, PeerOptions::default()).await,
                &format!("fpga1 peer 0: it is connected to {place} already"),
            );
            peer.close().await.unwrap();
        }
    });
}

#[test]
fn each_sender_gets_a_lane_and_all_eight_come_back() {
    let names = ["fpga1", "fpga2", "fpga3", "fpga4", "fpga5", "fpga6", "fpga7", "fpga8"];
    run_on("rosta", names, async |devices| {
        for _ in 0..2 {
            let mut peers = Vec::new();
            for (n, device) in devices[1..].iter().enumerate() {
                let peer = device.connect(&devices[0], PeerOptions::default()).await.unwrap();
                assert_eq!(usize::from(peer.receive_queue()), n);
                peers.push(peer);
            }
            let mut sending = Vec::new();
            for (device, peer) in devices[1..].iter().zip(&peers) {
                device.user().seed(n_of(peer)).await.unwrap();
                peer.check(n_of(peer)).await.unwrap();
                let mut channel = channel(device, ChannelKind::Peer).await;
                let ticket = post(&mut channel, to(peer.target(MEGABYTE / 4), ACKNOWLEDGED)).await;
                sending.push((channel, ticket));
            }
            for ((channel, ticket), peer) in sending.iter_mut().zip(&peers) {
                channel.wait(*ticket).await.unwrap();
                assert_eq!(peer.check_result().await.unwrap(), Check::default());
            }
            // Some are closed, some are only dropped.
            for peer in peers.drain(..4) {
                peer.close().await.unwrap();
            }
        }
    });
}

fn n_of(peer: &Peer) -> u32 {
    u32::from(peer.receive_queue()) + 100
}

/// With half an address the card would write somewhere else in memory.
#[test]
fn command_with_a_lost_register_write_is_refused() {
    run_in("rosta", ["fpga1", "fpga2"], async |simulation, [a, b]| {
        let channel = commanded(&a).await;
        let there = a.connect(&b, PeerOptions::default()).await.unwrap();
        lose_writes(simulation, "fpga1", 2);
        fails_with(a.user().command(there.address(), 128).await, "was set to");
        lose_writes(simulation, "fpga1", 2);
        fails_with(a.user().ping_pong(there.address(), 128, 1, us(1_000)).await, "was set to");
        assert_eq!(channel.counters().await.unwrap().tlps, 0);
        a.user().command(there.address(), 128).await.unwrap();
        a.user().command_done(us(10_000)).await.unwrap();
        assert_eq!(channel.counters().await.unwrap().tlps, 1);
    });
}

/// A leftover count must not be taken for the result of a ping-pong whose start was lost.
#[test]
fn ping_pong_whose_start_is_lost_has_not_been_made() {
    run_in("rosta", ["fpga1", "fpga2"], async |simulation, [a, b]| {
        let there = a.connect(&b, PeerOptions::default()).await.unwrap();
        let back = b.connect(&a, PeerOptions::default()).await.unwrap();
        let _a = commanded(&a).await;
        let _b = commanded(&b).await;
        let generator = StreamSource::Generator;
        b.user().route(generator, StreamSource::ReceiveQueue(there.receive_queue())).await.unwrap();
        b.user().command(back.address(), 3 * 128).await.unwrap();
        a.user().ping_pong(there.address(), 128, 3, a_while(&a)).await.unwrap();
        b.user().command_done(a_while(&b)).await.unwrap();
        for lost in 1..=2 {
            lose_writes(simulation, "fpga1", lost);
            fails_with(a.user().ping_pong(there.address(), 128, 3, a_while(&a)).await, "ping-pong");
        }
    });
}
