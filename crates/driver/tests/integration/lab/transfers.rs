// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers between host memory and an engine.

use crosslane_driver::{
    ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, StreamSource,
};
use crosslane_host::{Bus, PageSize};

use crate::lab::setup::*;

/// Writes through the loop H2C -> C2H and reads back, with both directions at once.
async fn loop_back(device: &crosslane_driver::Device, options: ChannelOptions, bytes: u64) {
    device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
    device.reset_counters().await.unwrap();
    let (out, back) = (filled(device, bytes, 7).await, empty(device, bytes).await);
    let mut h2c = device.channel(ChannelKind::H2c, 0, options).await.unwrap();
    let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
    let transfers = [whole(&out, VISIBLE), whole(&back, VISIBLE)];
    out_and_back([&mut h2c, &mut c2h], transfers, bytes).await;
    assert!(contents(&back) == pattern(7, 0, bytes), "{bytes} B came back changed: {options:?}");
    let counters = c2h.counters().await.unwrap();
    assert_eq!(counters.bytes, bytes);
    assert_eq!(h2c.statistics().bytes, bytes);
    // A long ring batch rings the doorbell twice.
    let is_long = bytes > 32 * PAGE && options.descriptors != DescriptorSource::Table;
    assert_eq!(h2c.statistics().doorbells, 1 + u64::from(is_long));
    h2c.close().await.unwrap();
    c2h.close().await.unwrap();
}

#[test]
fn four_kb_are_written_and_read_back_in_every_way() {
    for lab in ["rosta", "rosta:crosslane"] {
        run_on(lab, ["fpga1"], async |[device]| {
            for options in every_way() {
                loop_back(&device, options, PAGE).await;
            }
        });
    }
}

#[test]
fn four_mb_go_out_and_back_at_once_through_fifos_of_four_kb() {
    for options in every_way() {
        run_on("rosta", ["fpga8"], async |[device]| loop_back(&device, options, MEGABYTES_4).await);
    }
}

#[test]
fn the_generator_and_the_checker_agree_with_memory() {
    run_on("rosta:crosslane", ["fpga3"], async |[device]| {
        let user = device.user();
        user.seed(99).await.unwrap();
        user.route(StreamSource::Generator, StreamSource::Generator).await.unwrap();
        let buffer = device.buffer(1 << 20, PageSize::Huge).await.unwrap();
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        c2h.transfer(whole(&buffer, VISIBLE)).await.unwrap();
        assert!(contents(&buffer) == pattern(99, 0, 1 << 20));
        let mut h2c = channel(&device, ChannelKind::H2c).await;
        user.check_h2c(99).await.unwrap();
        h2c.transfer(whole(&buffer, VISIBLE)).await.unwrap();
        assert_eq!(user.h2c_check_result().await.unwrap().errors, 0);
        // A checker that expects another seed reports it.
        user.check_h2c(98).await.unwrap();
        h2c.transfer(whole(&buffer, VISIBLE)).await.unwrap();
        let check = user.h2c_check_result().await.unwrap();
        assert_eq!((check.errors, check.first_word), (1 << 18, Some(0)));
    });
}

/// Transfers of bytes begin and end anywhere, and change nothing else.
#[test]
fn any_bytes_go_out_and_come_back() {
    for lab in ["rosta", "rosta:crosslane"] {
        run_on(lab, ["fpga1"], async |[device]| {
            let size = 40 * PAGE;
            let (out, back) = (filled(&device, size, 7).await, empty(&device, size).await);
            let all = pattern(7, 0, size);
            for options in every_way() {
                device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
                let mut h2c = device.channel(ChannelKind::H2c, 0, options).await.unwrap();
                let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
                // Source offset, length and target offset.
                for (from, bytes, to) in [
                    (0, 1, 3),
                    (3, 2, 4095),
                    (4093, 7, 130),
                    (1, 4096, 2),
                    (2, 127, 5),
                    (5, 3 * PAGE + 1, 4094),
                    (4095, 30 * PAGE - 3, 1),
                ] {
                    back.write(0, &vec![0xa5; size as usize]).unwrap();
                    let read = part(&out, from, from + bytes, VISIBLE);
                    let written = part(&back, to, to + bytes, VISIBLE);
                    out_and_back([&mut h2c, &mut c2h], [read, written], bytes).await;
                    let mut expected = vec![0xa5; size as usize];
                    expected[to as usize..(to + bytes) as usize]
                        .copy_from_slice(&all[from as usize..(from + bytes) as usize]);
                    let place = format!("{bytes} B from {from} to {to}, {options:?}");
                    assert!(contents(&back) == expected, "{place}");
                }
                h2c.close().await.unwrap();
                c2h.close().await.unwrap();
            }
        });
    }
}

#[test]
fn thousands_of_transfers_go_round_a_small_ring() {
    run_on("rosta:crosslane", ["fpga1"], async |[device]| {
        let options =
            ChannelOptions::default().with_descriptors(DescriptorSource::Ring { entries: 16 });
        device.user().seed(5).await.unwrap();
        let buffer = device.buffer(64 * 256, PageSize::Huge).await.unwrap();
        let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
        for round in 0..100 {
            let mut tickets = Vec::new();
            for n in 0..64 {
                let transfer = part(&buffer, n * 256, (n + 1) * 256, VISIBLE);
                tickets.push(post(&mut c2h, transfer).await);
            }
            for ticket in tickets {
                assert_eq!(c2h.wait(ticket).await.unwrap().bytes, 256);
            }
            assert!(contents(&buffer) == pattern(5, round * 64 * 64, 64 * 256), "round {round}");
        }
        let statistics = c2h.statistics();
        assert_eq!((statistics.posted, statistics.completed), (6400, 6400));
        assert_eq!((statistics.descriptors, statistics.doorbells), (6400, 6400));
        assert_eq!((statistics.failed, statistics.restarts), (0, 0));
    });
}

#[test]
fn of_a_long_batch_the_engine_hears_before_all_of_it_is_written() {
    run_on("rosta:crosslane", ["fpga2"], async |[device]| {
        let buffer = empty(&device, 1024 * PAGE).await;
        assert_eq!(buffer.segments().len(), 1024, "small pages lie apart");
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        device.user().seed(1).await.unwrap();
        device.reset_counters().await.unwrap();
        let begin_ns = device.bus().now().0 / 1000;
        c2h.transfer(whole(&buffer, VISIBLE)).await.unwrap();
        let statistics = c2h.statistics();
        assert_eq!((statistics.descriptors, statistics.doorbells), (1024, 2));
        // The copy of 1024 descriptors alone takes 5.5 us.
        let first_ns = c2h.counters().await.unwrap().first_clocks * 4 - begin_ns;
        assert!((2_000..3_000).contains(&first_ns), "{first_ns} ns to the first data");
        assert!(contents(&buffer) == pattern(1, 0, 1024 * PAGE));
    });
}

#[test]
fn a_batch_has_one_doorbell_and_its_transfers_complete_in_any_order_of_asking() {
    run_on("rosta", ["fpga2"], async |[device]| {
        device.user().seed(1).await.unwrap();
        let buffer = empty(&device, 8 * PAGE).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let batch: Vec<_> =
            (0..8).map(|n| part(&buffer, n * PAGE, (n + 1) * PAGE, VISIBLE)).collect();
        let posted = device.bus().now();
        let tickets = c2h.post(&batch).await.unwrap();
        assert_eq!(c2h.poll(tickets[7]).await.unwrap(), None);
        for &n in &[7, 0, 3, 1, 2, 6, 5, 4] {
            let completed = c2h.wait(tickets[n]).await.unwrap();
            assert!(completed.posted >= posted && completed.completed > completed.posted);
        }
        assert_eq!(c2h.statistics().doorbells, 1);
        assert!(contents(&buffer) == pattern(1, 0, 8 * PAGE));
        fails(c2h.wait(tickets[3]).await, "fpga2 C2H 0: the result of transfer 3 has been given");
        fails(
            c2h.wait(crosslane_driver::Ticket(8)).await,
            "fpga2 C2H 0: transfer 8 has not been posted",
        );
    });
}

#[test]
fn accepted_returns_at_once_and_the_buffer_stays_in_flight() {
    run_on("rosta", ["fpga2"], async |[device]| {
        device.user().seed(1).await.unwrap();
        let buffer = empty(&device, PAGE).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let tickets = c2h.post(&[whole(&buffer, CompletionLevel::Accepted)]).await.unwrap();
        let before = device.bus().now();
        c2h.wait(tickets[0]).await.unwrap();
        assert_eq!(device.bus().now(), before);
        fails(
            buffer.read(0, &mut [0; 4]),
            "a buffer of fpga2: bytes 0 to 4 are wanted while a transfer of bytes 0 to 4096 is in \
             flight",
        );
        // The next transfer's completion covers this one too.
        let other = empty(&device, PAGE).await;
        c2h.transfer(whole(&other, VISIBLE)).await.unwrap();
        assert!(contents(&buffer) == pattern(1, 0, PAGE));
        assert!(contents(&other) == pattern(1, 1024, PAGE));
    });
}
