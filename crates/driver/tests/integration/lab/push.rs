// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pushed descriptors: which posts are pushed, and what a lost or split line costs.

use crosslane_driver::{
    Channel, ChannelKind, ChannelOptions, DescriptorSource, Device, INLINE_BYTES, Notification,
    StreamSource,
};
use crosslane_host::Bus;
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::units::Picoseconds;

use crate::lab::setup::*;

const LAB: &str = "pciebench:push";
const CARD: [&str; 1] = ["nfp"];

/// Descriptors that a channel has pushed, and doorbells that it has rung.
fn ways(channel: &Channel) -> (u64, u64) {
    let statistics = channel.statistics();
    (statistics.pushed, statistics.doorbells)
}

#[test]
fn single_transfers_are_pushed_both_ways() {
    run_on(LAB, CARD, async |[device]: [Device; 1]| {
        device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
        for notification in [Notification::Poll, Notification::Interrupt] {
            let options = ChannelOptions::default().with_notification(notification);
            let mut h2c = channel_with(&device, ChannelKind::H2c, options).await;
            let mut c2h = channel_with(&device, ChannelKind::C2h, options).await;
            assert!(h2c.pushes() && c2h.pushes());
            let mut descriptors = 0;
            // Inline, and not: at the edges of both.
            for bytes in [4, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1, 4096, 3 * PAGE] {
                let all = bytes.next_multiple_of(4);
                let (out, back) = (filled(&device, all, 7).await, empty(&device, all).await);
                let transfers = [part(&out, 0, bytes, VISIBLE), part(&back, 0, bytes, VISIBLE)];
                out_and_back([&mut h2c, &mut c2h], transfers, bytes).await;
                let end = bytes as usize;
                assert_eq!(contents(&back)[..end], contents(&out)[..end], "{bytes}");
                descriptors = h2c.statistics().descriptors;
                for buffer in [out, back] {
                    buffer.unregister().await.unwrap();
                }
            }
            let (pushed, rung) = ways(&h2c);
            let counters = h2c.counters().await.unwrap();
            assert_eq!((u64::from(counters.pushed), counters.pushes_dropped), (pushed, 0));
            assert!(pushed >= 5 && rung == 6 && descriptors >= 6, "{pushed} {rung}");
            // None of the pushed ones was fetched.
            assert_eq!(u64::from(counters.fetched), descriptors - pushed);
            h2c.close().await.unwrap();
            c2h.close().await.unwrap();
            device.reset_counters().await.unwrap();
        }
    });
}

#[test]
fn posts_behind_others_ring_the_doorbell() {
    run_on(LAB, CARD, async |[device]: [Device; 1]| {
        let buffer = filled(&device, 256, 1).await;
        let at = |n: u64| part(&buffer, n * 64, n * 64 + 64, VISIBLE);
        let mut h2c = channel(&device, ChannelKind::H2c).await;
        let first = post(&mut h2c, at(0)).await;
        let second = post(&mut h2c, at(1)).await;
        assert_eq!(ways(&h2c), (1, 2));
        for ticket in [first, second] {
            h2c.wait(ticket).await.unwrap();
        }
        let tickets = h2c.post(&[at(2), at(3)]).await.unwrap();
        assert_eq!(ways(&h2c), (1, 3));
        for ticket in tickets {
            h2c.wait(ticket).await.unwrap();
        }
        h2c.transfer(at(0)).await.unwrap();
        assert_eq!(ways(&h2c), (2, 4));
        assert_eq!(h2c.counters().await.unwrap().fetched, 3);
    });
}

#[test]
fn channels_that_do_not_push_say_so() {
    let table = ChannelOptions::default().with_descriptors(DescriptorSource::Table);
    let off = ChannelOptions::default().with_push(false);
    run_on(LAB, CARD, async |[device]: [Device; 1]| {
        assert!(device.description().push);
        for options in [table, off] {
            let mut h2c = channel_with(&device, ChannelKind::H2c, options).await;
            let buffer = filled(&device, 64, 1).await;
            h2c.transfer(whole(&buffer, VISIBLE)).await.unwrap();
            assert_eq!((h2c.pushes(), ways(&h2c)), (false, (0, 1)));
            h2c.close().await.unwrap();
        }
    });
    run_on("pciebench", CARD, async |[device]: [Device; 1]| {
        assert!(!device.description().push);
        assert!(!channel(&device, ChannelKind::H2c).await.pushes());
    });
}

/// The engine has lines, and the processor does not combine stores.
#[test]
fn channels_do_not_push_uncombined() {
    let text = Lab::load("pciebench").unwrap().file().text().to_owned();
    let (before, behind) = text.split_once("[variant.push.part.xeon.cpu]").unwrap();
    let (_, behind) = behind.split_once("[variant.push.part.nfp.bar4]").unwrap();
    let text = format!("{before}[variant.push.part.nfp.bar4]{behind}");
    let lab = Lab::from_text("pciebench", &text).unwrap().with_variant("push").unwrap();
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    run(&simulation, async |bus| {
        let device = Device::open_by_name(bus, "nfp").await.unwrap();
        assert!(device.description().push);
        assert!(!channel(&device, ChannelKind::H2c).await.pushes());
    });
}

#[test]
fn a_lost_line_costs_a_fetch() {
    run_in(LAB, CARD, async |simulation, [device]: [Device; 1]| {
        let buffer = filled(&device, 128, 1).await;
        let at = |n: u64| part(&buffer, n * 64, n * 64 + 64, VISIBLE);
        let mut h2c = channel(&device, ChannelKind::H2c).await;
        h2c.transfer(at(0)).await.unwrap();
        lose_writes(simulation, "nfp", 1);
        let begun = device.bus().now();
        h2c.transfer(at(0)).await.unwrap();
        assert!(device.bus().now().since(begun) < us(2));
        let counters = h2c.counters().await.unwrap();
        assert_eq!((counters.pushed, counters.fetched, counters.pushes_dropped), (1, 1, 0));
        // With the doorbell behind it: the doorbell of the next post tells of both.
        lose_writes(simulation, "nfp", 2);
        let begun = device.bus().now();
        let first = post(&mut h2c, at(0)).await;
        let second = post(&mut h2c, at(1)).await;
        for ticket in [first, second] {
            h2c.wait(ticket).await.unwrap();
        }
        assert!(device.bus().now().since(begun) < us(3));
        h2c.transfer(at(0)).await.unwrap();
        let counters = h2c.counters().await.unwrap();
        assert_eq!((counters.pushed, counters.fetched, counters.pushes_dropped), (2, 3, 0));
        assert_eq!(ways(&h2c), (4, 5));
    });
}

/// In shuffle mode a core sends some lines in parts.
#[test]
fn split_lines_cost_time_and_nothing_else() {
    run_in(LAB, CARD, async |simulation, [device]: [Device; 1]| {
        simulation.with_fabric(|fabric| fabric.set_shuffle(true));
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let mut h2c = channel(&device, ChannelKind::H2c).await;
        device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
        for round in 0..100 {
            let bytes = if round % 2 == 0 { 40 } else { 64 };
            let (out, back) = (filled(&device, bytes, round).await, empty(&device, bytes).await);
            let transfers = [whole(&out, VISIBLE), whole(&back, VISIBLE)];
            out_and_back([&mut h2c, &mut c2h], transfers, bytes).await;
            assert_eq!(contents(&back), contents(&out), "{round}");
        }
        let mut dropped = 0;
        for channel in [&h2c, &c2h] {
            let counters = channel.counters().await.unwrap();
            assert_eq!(ways(channel), (100, 100));
            assert_eq!(counters.pushed + counters.fetched, 100);
            assert!(counters.pushes_dropped >= 2 * counters.fetched);
            dropped += counters.fetched;
        }
        assert!((5..60).contains(&dropped), "{dropped} of 200 lines were split");
    });
}

/// Restarts at any moment of a pushed transfer leave nothing of it behind.
#[test]
fn pushed_transfers_are_cancelled_at_any_moment() {
    run_on(LAB, CARD, async |[device]: [Device; 1]| {
        let buffer = filled(&device, 64, 1).await;
        let mut h2c = channel(&device, ChannelKind::H2c).await;
        for step in 0..40 {
            let ticket = post(&mut h2c, whole(&buffer, VISIBLE)).await;
            sleep(&device, Picoseconds::from_ns(40 * step)).await;
            h2c.cancel().await.unwrap();
            let ended = h2c.wait(ticket).await;
            assert!(ended.is_ok() || step < 39, "{ended:?}");
            h2c.transfer(whole(&buffer, VISIBLE)).await.unwrap();
        }
        assert_eq!(ways(&h2c), (80, 80));
    });
}
