// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults while data move: each is reported exactly, with how much was moved, and the channel works
//! again without a reset.

use crosslane_driver::{
    ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Device, Notification, PathEnd,
    PeerOptions, PortErrors, StreamSource, Target, TransferFault, set_max_payload_on_path,
};
use crosslane_fabric::MemoryFault;
use crosslane_host::{Bus, PageSize, Topology};
use crosslane_pcie::config::registers;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};

use crate::lab::setup::*;
use crate::network_processor::small_torus::limited;

#[test]
fn a_deadline_cancels_and_what_was_moved_is_exact() {
    for options in every_way() {
        run_on("rosta", ["fpga1"], async |[device]| {
            device.user().seed(21).await.unwrap();
            let buffer = empty(&device, 2 * MEGABYTE).await;
            let behind = empty(&device, PAGE).await;
            let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
            let first = within(&device, us(500), whole(&buffer, VISIBLE));
            let deadline = first.deadline;
            let tickets = c2h.post(&[first, whole(&behind, VISIBLE)]).await.unwrap();
            let error = c2h.wait(tickets[0]).await.unwrap_err();
            assert_eq!(error.fault, TransferFault::Deadline { deadline, detected: vec![] });
            let moved = error.moved_bytes;
            assert!((100_000..1_000_000).contains(&moved), "{error}");
            assert_eq!(
                error.to_string(),
                format!(
                    "fpga1 C2H 0: not complete at the deadline, {deadline}: {moved} of 2097152 B \
                     were moved"
                )
            );
            let after = c2h.wait(tickets[1]).await.unwrap_err();
            assert_eq!((after.fault, after.moved_bytes), (TransferFault::Cancelled, 0));
            let bytes = contents(&buffer);
            let (data, rest) = bytes.split_at(moved as usize);
            assert!(data == pattern(21, 0, moved));
            assert!(rest.iter().all(|&byte| byte == 0), "more was moved than was said");
            // The stream continues where it stopped.
            c2h.transfer(whole(&behind, VISIBLE)).await.unwrap();
            assert!(contents(&behind) == pattern(21, (moved / 4) as u32, PAGE));
            let statistics = c2h.statistics();
            assert_eq!((statistics.failed, statistics.completed, statistics.restarts), (2, 1, 1));
        });
    }
}

/// A channel that missed the stop would move more than is reported.
#[test]
fn a_cancel_whose_register_write_is_lost_says_exactly_what_was_moved() {
    run_in("rosta", ["fpga1"], async |simulation, [device]| {
        device.user().seed(1).await.unwrap();
        let buffer = device.buffer(16 * MEGABYTE, PageSize::Huge).await.unwrap();
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let ticket = post(&mut c2h, whole(&buffer, VISIBLE)).await;
        sleep(&device, us(50)).await;
        lose_writes(simulation, "fpga1", 1);
        c2h.cancel().await.unwrap();
        let error = c2h.wait(ticket).await.unwrap_err();
        assert_eq!(error.fault, TransferFault::Cancelled);
        sleep(&device, us(100)).await;
        let bytes = contents(&buffer);
        let (moved, rest) = bytes.split_at(error.moved_bytes as usize);
        assert!(*moved == pattern(1, 0, error.moved_bytes));
        assert!(rest.iter().all(|&byte| byte == 0));
    });
}

#[test]
fn an_earlier_deadline_counts_behind_a_transfer_that_has_none() {
    run_on("rosta:crosslane", ["fpga1"], async |[device]| {
        // This receive queue never gets data.
        device.user().route(StreamSource::ReceiveQueue(3), StreamSource::Generator).await.unwrap();
        let buffer = empty(&device, 2 * PAGE).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let last = within(&device, us(50), part(&buffer, PAGE, 2 * PAGE, VISIBLE));
        let deadline = last.deadline;
        let tickets = c2h.post(&[part(&buffer, 0, PAGE, VISIBLE), last]).await.unwrap();
        let error = c2h.wait(tickets[1]).await.unwrap_err();
        assert_eq!(error.fault, TransferFault::Deadline { deadline, detected: vec![] });
        let before = c2h.wait(tickets[0]).await.unwrap_err();
        assert_eq!(before.fault, TransferFault::Cancelled);
    });
}

#[test]
fn a_thousand_restarts_need_no_reset() {
    run_on("rosta:crosslane", ["fpga1"], async |[device]| {
        let user = device.user();
        user.seed(1).await.unwrap();
        let (big, small) = (empty(&device, MEGABYTE).await, empty(&device, PAGE).await);
        let source = filled(&device, MEGABYTE, 1).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let mut h2c = channel(&device, ChannelKind::H2c).await;
        let mut word = 0;
        for n in 0..1000 {
            let given_up = post(&mut c2h, whole(&big, VISIBLE)).await;
            let reading = post(&mut h2c, whole(&source, VISIBLE)).await;
            // From before the first descriptor is fetched to the middle of the data.
            sleep(&device, crosslane_pcie::units::Picoseconds::from_ns(n * 37)).await;
            c2h.cancel().await.unwrap();
            h2c.cancel().await.unwrap();
            let error = c2h.wait(given_up).await.unwrap_err();
            assert_eq!(error.fault, TransferFault::Cancelled);
            word += error.moved_bytes / 4;
            assert_eq!(h2c.wait(reading).await.unwrap_err().fault, TransferFault::Cancelled);
            if n % 10 == 0 {
                c2h.transfer(whole(&small, VISIBLE)).await.unwrap();
                assert!(contents(&small) == pattern(1, word as u32, PAGE), "restart {n}");
                word += PAGE / 4;
                user.check_h2c(1).await.unwrap();
                h2c.transfer(part(&source, 0, PAGE, VISIBLE)).await.unwrap();
                assert_eq!(user.h2c_check_result().await.unwrap().errors, 0, "restart {n}");
            }
        }
        assert_eq!(c2h.statistics().restarts, 1000);
    });
}

#[test]
fn a_peer_channel_and_its_lane_begin_anew_together() {
    run_on("rosta", ["fpga1", "fpga5"], async |[from, to_]| {
        let peer = from.connect(&to_, PeerOptions::default()).await.unwrap();
        let mut channel = channel(&from, ChannelKind::Peer).await;
        for n in 0..100 {
            let big = to(peer.target(MEGABYTE), ACKNOWLEDGED);
            let ticket = post(&mut channel, big).await;
            sleep(&from, crosslane_pcie::units::Picoseconds::from_ns(n * 211)).await;
            channel.cancel().await.unwrap();
            channel.wait(ticket).await.unwrap_err();
            let small = to(peer.target(2 * PAGE), ACKNOWLEDGED);
            channel.transfer(within(&from, us(1000), small)).await.unwrap();
            let counters = peer.counters().await.unwrap();
            assert_eq!(u64::from(counters.drained_bytes), 2 * PAGE, "restart {n}");
        }
    });
}

/// Makes a switch believe that all addresses below the hole for devices are behind one of its
/// ports, so that its other devices' requests for host memory go there, where nothing claims the
/// address. Or restores the port's address range.
fn set_window(bus: &impl Topology, name: &str, window: u32) -> u32 {
    let id = function(bus, name);
    let before = bus.config_read(id, registers::MEMORY_BASE_LIMIT).unwrap();
    bus.config_write(id, registers::MEMORY_BASE_LIMIT, window, 0b1111).unwrap();
    before
}

#[test]
fn a_read_that_is_refused_stops_its_channel_only() {
    for notification in [Notification::Poll, Notification::Interrupt] {
        run_on("rosta", ["fpga1"], async |[device]| {
            let bus = device.bus();
            let source = filled(&device, MEGABYTE, 1).await;
            let options = ChannelOptions::default().with_notification(notification);
            let mut h2c = device.channel(ChannelKind::H2c, 0, options).await.unwrap();
            device.user().check_h2c(1).await.unwrap();
            let batch = [whole(&source, VISIBLE), part(&source, 0, PAGE, VISIBLE)];
            let tickets = h2c.post(&batch).await.unwrap();
            sleep(&device, us(300)).await;
            let window = set_window(bus, "rc47a.down1", 0x7ff0_0000);
            sleep(&device, us(100)).await;
            set_window(bus, "rc47a.down1", window);
            // The status write did not get through either; a check of the registers finds the
            // fault.
            let error = h2c.wait(tickets[0]).await.unwrap_err();
            assert_eq!(error.fault, TransferFault::UnsupportedRequest, "{error}");
            assert!((PAGE..MEGABYTE).contains(&error.moved_bytes), "{error}");
            let sentence = error.to_string();
            assert!(sentence.starts_with("fpga1 H2C 0: Unsupported Request at 0x"), "{sentence}");
            assert!(sentence.ends_with(" of 1048576 B were moved"), "{sentence}");
            let behind = h2c.wait(tickets[1]).await.unwrap_err();
            assert_eq!((behind.fault, behind.moved_bytes), (TransferFault::Cancelled, 0));
            // The moved data were right.
            assert_eq!(device.user().h2c_check_result().await.unwrap().errors, 0);
            fails(
                h2c.post(&batch).await,
                "fpga1 H2C 0: it has stopped (Unsupported Request) and has to be restarted first",
            );
            // Another channel is not affected, and this one works after a restart.
            let buffer = empty(&device, PAGE).await;
            let mut c2h = channel(&device, ChannelKind::C2h).await;
            c2h.transfer(whole(&buffer, VISIBLE)).await.unwrap();
            h2c.restart().await.unwrap();
            device.user().check_h2c(1).await.unwrap();
            h2c.transfer(whole(&source, VISIBLE)).await.unwrap();
            assert_eq!(device.user().h2c_check_result().await.unwrap().errors, 0);
        });
    }
}

#[test]
fn memory_that_answers_badly_stops_one_channel_at_that_byte() {
    for (memory, fault) in [
        (MemoryFault::Poisoned, TransferFault::Poisoned),
        (MemoryFault::CompleterAbort, TransferFault::CompleterAbort),
        (MemoryFault::NoAnswer, TransferFault::CompletionTimeout),
        // The time-out is 50 ms, to within a 128th.
        (MemoryFault::Late(us(51_000)), TransferFault::CompletionTimeout),
    ] {
        for (lab, notification) in [
            ("rosta", Notification::Interrupt),
            ("rosta:crosslane", Notification::Poll),
            ("rosta:crosslane", Notification::Interrupt),
        ] {
            let simulation = simulation(lab);
            run(&simulation, async |bus| {
                let [device] = open_all(&bus, ["fpga3"]).await;
                let source = filled(&device, MEGABYTE, 1).await;
                let options = ChannelOptions::default().with_notification(notification);
                let mut h2c = device.channel(ChannelKind::H2c, 0, options).await.unwrap();
                device.user().check_h2c(1).await.unwrap();
                // The 77th page, from its middle on.
                let bad = source.segments()[76].address.0 + 2048;
                let set = |fault| {
                    simulation.with_fabric(|fabric| {
                        assert!(fabric.set_memory_fault(HostId(0), bad..bad + 4, fault));
                    });
                };
                set(Some(memory));
                let error = h2c.transfer(whole(&source, VISIBLE)).await.unwrap_err();
                assert_eq!(error.fault, fault, "{error}");
                assert_eq!(error.total_bytes, MEGABYTE);
                // Up to the completion, or the read, that has the bad byte.
                let least = 76 * PAGE;
                assert!((least..=least + 2048).contains(&error.moved_bytes), "{lab}: {error}");
                assert_eq!(device.user().h2c_check_result().await.unwrap().errors, 0);
                let buffer = empty(&device, PAGE).await;
                let mut c2h = channel(&device, ChannelKind::C2h).await;
                c2h.transfer(whole(&buffer, VISIBLE)).await.unwrap();
                set(None);
                h2c.restart().await.unwrap();
                device.user().check_h2c(1).await.unwrap();
                h2c.transfer(whole(&source, VISIBLE)).await.unwrap();
                assert_eq!(device.user().h2c_check_result().await.unwrap().errors, 0);
            });
            simulation.finish().unwrap();
            assert_eq!(simulation.with_fabric(|fabric| fabric.check_quiet()), [""; 0]);
        }
    }
}

#[test]
fn a_link_that_goes_down_while_data_move_is_named() {
    let (h2c, c2h) = (ChannelKind::H2c, ChannelKind::C2h);
    for (kind, port) in
        [(h2c, "rc47a.down0"), (h2c, "rha25.down0"), (c2h, "rc47a.down0"), (c2h, "rha25.down0")]
    {
        for notification in [Notification::Poll, Notification::Interrupt] {
            run_in("rosta:crosslane", ["fpga1"], async |simulation, [device]| {
                let link = link_of(simulation, port);
                let until = us(200_000);
                let bus = device.bus();
                let buffer = filled(&device, MEGABYTE, 1).await;
                let options = ChannelOptions::default().with_notification(notification);
                let mut channel = device.channel(kind, 0, options).await.unwrap();
                let batch = [whole(&buffer, VISIBLE)];
                let ticket = channel.post(&batch).await.unwrap()[0];
                sleep(&device, us(200)).await;
                simulation.with_fabric(|fabric| fabric.take_link_down(link, Some(until)));
                let error = channel.wait(ticket).await.unwrap_err();
                let down = TransferFault::LinkDown { port: port.to_owned() };
                assert_eq!(error.fault, down, "{error}");
                assert!(error.moved_bytes < MEGABYTE, "{error}");
                assert!(bus.now() < until, "it was found while it was down");
                fails(
                    channel.post(&batch).await,
                    &format!(
                        "fpga1 {kind} 0: it has stopped (the link below {port} is down) and has to \
                         be restarted first"
                    ),
                );
                assert!(channel.restart().await.is_err());
                bus.sleep_until(until + us(100_000)).await;
                channel.restart().await.unwrap();
                assert_eq!(
                    channel.transfer(whole(&buffer, VISIBLE)).await.unwrap().bytes,
                    MEGABYTE
                );
            });
        }
    }
}

#[test]
fn writes_that_a_short_outage_further_up_has_swallowed_are_not_called_complete() {
    for (port, outage_us) in [("rha25.down0", 1), ("rha25.down0", 30), ("host0.port0", 2)] {
        run_in("rosta:crosslane", ["fpga1"], async |simulation, [device]| {
            let link = link_of(simulation, port);
            let bus = device.bus();
            let buffer = empty(&device, MEGABYTE).await;
            let mut c2h = channel(&device, ChannelKind::C2h).await;
            let ticket = post(&mut c2h, whole(&buffer, VISIBLE)).await;
            sleep(&device, us(200)).await;
            let until = bus.now() + us(outage_us);
            simulation.with_fabric(|fabric| fabric.take_link_down(link, Some(until)));
            let error = c2h.wait(ticket).await.unwrap_err();
            assert_eq!(error.fault, TransferFault::LinkLost, "{error}");
            c2h.restart().await.unwrap();
            c2h.transfer(whole(&buffer, VISIBLE)).await.unwrap();
        });
    }
}

#[test]
fn a_short_outage_completes_no_transfer_whose_data_it_has_swallowed() {
    // Many small transfers: the engine counts them as complete when it has handed them to the link.
    for at_ns in (0..3_000).step_by(97) {
        run_in("rosta:crosslane", ["fpga1"], async |simulation, [device]| {
            let link = link_of(simulation, "rha25.down0");
            let bus = device.bus();
            device.user().seed(5).await.unwrap();
            let buffer = empty(&device, 64 * PAGE).await;
            let mut c2h = channel(&device, ChannelKind::C2h).await;
            let batch: Vec<_> =
                (0..64).map(|n| part(&buffer, n * PAGE, (n + 1) * PAGE, VISIBLE)).collect();
            let tickets = c2h.post(&batch).await.unwrap();
            sleep(&device, Picoseconds::from_ns(20_000 + at_ns)).await;
            let until = bus.now() + us(1);
            simulation.with_fabric(|fabric| fabric.take_link_down(link, Some(until)));
            let (mut good, mut bad) = (0, 0);
            for ticket in tickets {
                match c2h.wait(ticket).await {
                    Ok(_) => good += 1,
                    Err(_) => bad += 1,
                }
            }
            assert!(good > 0 && bad > 0, "{good} complete, {bad} not");
            let bytes = contents(&buffer);
            let whole = (good * PAGE) as usize;
            assert!(
                bytes[..whole] == pattern(5, 0, good * PAGE)[..],
                "{at_ns} ns: {good} complete"
            );
        });
    }
}

#[test]
fn bus_mastering_that_ends_in_the_middle_of_a_descriptor_stops_there() {
    for kind in [ChannelKind::C2h, ChannelKind::H2c] {
        run_on("rosta:crosslane", ["fpga4"], async |[device]| {
            let buffer = device.buffer(MEGABYTE, PageSize::Huge).await.unwrap();
            assert_eq!(buffer.segments().len(), 1);
            let mut channel = channel(&device, kind).await;
            let ticket = post(&mut channel, whole(&buffer, VISIBLE)).await;
            sleep(&device, us(200)).await;
            set_bus_master(device.bus(), "fpga4", false);
            sleep(&device, us(5)).await;
            let moved = device.bus().now();
            let error = channel.wait(ticket).await.unwrap_err();
            assert_eq!(error.fault, TransferFault::NotBusMaster, "{error} after {moved}");
            assert!((1..MEGABYTE / 2).contains(&error.moved_bytes), "{error}");
            set_bus_master(device.bus(), "fpga4", true);
            channel.restart().await.unwrap();
            channel.transfer(whole(&buffer, VISIBLE)).await.unwrap();
        });
    }
}

#[test]
fn a_device_that_is_no_bus_master_says_so() {
    run_on("rosta:crosslane", ["fpga4"], async |[device]| {
        let buffer = empty(&device, PAGE).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        set_bus_master(device.bus(), "fpga4", false);
        let error = c2h.transfer(whole(&buffer, VISIBLE)).await.unwrap_err();
        assert_eq!(error.fault, TransferFault::NotBusMaster, "{error}");
        set_bus_master(device.bus(), "fpga4", true);
        c2h.restart().await.unwrap();
        c2h.transfer(whole(&buffer, VISIBLE)).await.unwrap();
    });
}

/// Options for payloads longer than the path takes.
fn oversize(bytes: u32) -> ChannelOptions {
    ChannelOptions::default().with_payload_bytes(Some(bytes)).with_oversize(true)
}

#[test]
fn payloads_that_a_port_does_not_take_are_found_by_its_name() {
    run_on("rosta", ["fpga1", "fpga2"], async |[from, to_]| {
        let bus = from.bus();
        let place = |name| PathEnd::Function(function(bus, name));
        // The sender and its link take 256 B, the port to the target does not.
        set_max_payload_on_path(bus, place("fpga1"), place("fpga3"), 256).unwrap();
        let peer = from.connect(&to_, PeerOptions::default()).await.unwrap();
        let mut channel = from.channel(ChannelKind::Peer, 0, oversize(256)).await.unwrap();
        let transfer = to(peer.target(PAGE), ACKNOWLEDGED);
        let transfer = within(&from, us(300), transfer);
        let deadline = transfer.deadline;
        let error = channel.transfer(transfer).await.unwrap_err();
        let (port, errors) = ("fpga2".to_owned(), "fatal error".to_owned());
        let detected = vec![PortErrors { port, errors }];
        assert_eq!(error.fault, TransferFault::Deadline { deadline, detected });
        assert_eq!(error.moved_bytes, 0, "all of it was handed to the link and lost: {error}");
        channel.close().await.unwrap();
        // Asking for 256 B without `oversize` is refused, with the same name.
        let asked = ChannelOptions::default().with_payload_bytes(Some(256));
        fails(
            from.channel(ChannelKind::Peer, 0, asked).await,
            "fpga1 peer 0: payloads of 256 B were asked for, and Max_Payload_Size of rc47a.down1 \
             is set to 128 B",
        );
        // Without a size the longest payload that gets through is used.
        from.reset_counters().await.unwrap();
        let mut channel = crate::lab::setup::channel(&from, ChannelKind::Peer).await;
        let transfer = to(peer.target(PAGE), ACKNOWLEDGED);
        channel.transfer(within(&from, us(300), transfer)).await.unwrap();
        assert_eq!(channel.counters().await.unwrap().tlps, 32);
        set_max_payload_on_path(bus, place("fpga1"), place("fpga2"), 256).unwrap();
        channel.restart().await.unwrap();
        channel.transfer(to(peer.target(PAGE), ACKNOWLEDGED)).await.unwrap();
        assert_eq!(channel.counters().await.unwrap().tlps, 32 + 16);
    });
}

#[test]
fn oversize_payloads_are_lost_on_the_way_to_memory_and_that_is_said() {
    run_on("rosta", ["fpga1"], async |[device]| {
        let buffer = empty(&device, PAGE).await;
        let mut c2h = device.channel(ChannelKind::C2h, 0, oversize(256)).await.unwrap();
        fails(
            c2h.transfer(whole(&buffer, VISIBLE)).await,
            "fpga1 C2H 0: refused on the way (rc47a.down0: fatal error detected): 0 of 4096 B \
             were moved",
        );
        assert!(contents(&buffer).iter().all(|&byte| byte == 0));
        assert_eq!(c2h.statistics().failed, 1);
    });
}

#[test]
fn writes_to_nowhere_are_sent_and_the_port_that_refused_them_is_on_record() {
    run_on("rosta", ["fpga1"], async |[device]| {
        let mut channel = channel(&device, ChannelKind::Peer).await;
        let nowhere = Target::Bus(BusAddress(0xf000_0000), PAGE);
        // Posted writes have no completion: sent is all that can be known.
        channel.transfer(to(nowhere, CompletionLevel::Sent)).await.unwrap();
    });
}

#[test]
fn futures_may_be_dropped_at_any_point() {
    run_on("rosta", ["fpga1"], async |[device]| {
        device.user().seed(1).await.unwrap();
        let buffer = empty(&device, MEGABYTE).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        // Posting is dropped while the descriptors are written: nothing is posted.
        assert!(limited(1, c2h.post(&[whole(&buffer, VISIBLE)])).await.is_none());
        assert_eq!(c2h.statistics().posted, 0);
        assert!(contents(&buffer).iter().all(|&byte| byte == 0));
        // Waiting is dropped: the next one gets the result.
        let ticket = post(&mut c2h, whole(&buffer, VISIBLE)).await;
        assert!(limited(1, c2h.wait(ticket)).await.is_none());
        assert_eq!(c2h.wait(ticket).await.unwrap().bytes, MEGABYTE);
        assert!(contents(&buffer) == pattern(1, 0, MEGABYTE));
        // Cancelling is dropped half-way: the next call finishes it.
        let ticket = post(&mut c2h, whole(&buffer, VISIBLE)).await;
        assert!(limited(1, c2h.cancel()).await.is_none());
        assert_eq!(c2h.wait(ticket).await.unwrap_err().fault, TransferFault::Cancelled);
        c2h.transfer(part(&buffer, 0, PAGE, VISIBLE)).await.unwrap();
    });
}

/// Descriptors of a dropped posting may be in the table: none is ever used, even if the next ones
/// are lost on the link.
#[test]
fn descriptors_of_a_dropped_posting_are_never_used() {
    run_in("rosta", ["fpga1"], async |simulation, [device]| {
        let options = ChannelOptions::default().with_descriptors(DescriptorSource::Table);
        let (old, new) = (empty(&device, PAGE).await, empty(&device, PAGE).await);
        device.user().seed(1).await.unwrap();
        for lost in 1..=12 {
            let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
            // All of its descriptors are stored, and then it is dropped.
            assert!(limited(1, c2h.post(&[whole(&old, VISIBLE)])).await.is_none());
            assert_eq!(c2h.statistics().posted, 0);
            sleep(&device, us(10)).await;
            let direction = lose_writes(simulation, "fpga1", lost);
            // It may fail, as most of its stores are lost.
            let _ = c2h.transfer(within(&device, us(100), whole(&new, VISIBLE))).await;
            simulation.with_fabric(|fabric| fabric.clear_injections(direction));
            let untouched = contents(&old).iter().all(|&byte| byte == 0);
            assert!(untouched, "{lost} writes were lost");
            c2h.cancel().await.unwrap();
            c2h.transfer(whole(&new, VISIBLE)).await.unwrap();
        }
    });
}

/// More polls than any of these calls takes, except for waits.
const POLLS: u32 = 32;

#[test]
fn whatever_is_dropped_half_way_the_channel_goes_on() {
    run_on("rosta:crosslane", ["fpga1", "fpga2"], async |[device, other]| {
        let peer = device.connect(&other, PeerOptions::default()).await.unwrap();
        let buffer = empty(&device, 8 * PAGE).await;
        for polls in 0..POLLS {
            let Some(opened) =
                limited(polls, device.channel(ChannelKind::C2h, 0, ChannelOptions::default()))
                    .await
            else {
                continue;
            };
            opened.unwrap();
        }
        for polls in 0..POLLS {
            for step in 0..4 {
                let mut c2h = channel(&device, ChannelKind::C2h).await;
                let mut sender = channel(&device, ChannelKind::Peer).await;
                let to_peer = to(peer.target(PAGE), ACKNOWLEDGED);
                let transfer = whole(&buffer, VISIBLE);
                if step > 0 {
                    // The first step drops the posting itself.
                    c2h.post(std::slice::from_ref(&transfer)).await.unwrap();
                    sender.post(std::slice::from_ref(&to_peer)).await.unwrap();
                }
                match step {
                    0 => {
                        limited(polls, c2h.post(std::slice::from_ref(&transfer))).await;
                        limited(polls, sender.post(std::slice::from_ref(&to_peer))).await;
                    }
                    1 => {
                        limited(polls, c2h.wait(crosslane_driver::Ticket(0))).await;
                        limited(polls, sender.wait(crosslane_driver::Ticket(0))).await;
                    }
                    2 => {
                        limited(polls, c2h.cancel()).await;
                        limited(polls, sender.cancel()).await;
                    }
                    _ => {
                        limited(polls, c2h.close()).await;
                        limited(polls, sender.close()).await;
                        c2h = channel(&device, ChannelKind::C2h).await;
                        sender = channel(&device, ChannelKind::Peer).await;
                    }
                }
                c2h.cancel().await.unwrap();
                device.user().seed(polls).await.unwrap();
                c2h.transfer(within(&device, us(10_000), transfer)).await.unwrap();
                assert!(contents(&buffer) == pattern(polls, 0, 8 * PAGE), "{polls}, step {step}");
                let to_peer = within(&device, us(10_000), to_peer);
                assert_eq!(sender.transfer(to_peer).await.unwrap().bytes, PAGE);
            }
        }
    });
}

#[test]
fn a_dropped_channel_leaves_the_device_its_memory_until_it_is_opened_again() {
    run_on("rosta", ["fpga1"], async |[device]| {
        device.user().seed(9).await.unwrap();
        let buffer = device.buffer(4 * MEGABYTE, PageSize::Huge).await.unwrap();
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        c2h.post(&[whole(&buffer, VISIBLE)]).await.unwrap();
        drop(c2h);
        // The channel has no owner, and the engine still writes.
        let error = buffer.read(0, &mut [0; 4]).unwrap_err();
        assert!(error.to_string().contains("in flight"), "{error}");
        fails_with(buffer.clone().unregister().await, "in flight");
        sleep(&device, us(4000)).await;
        assert!(buffer.read(0, &mut [0; 4]).is_err());
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        assert!(contents(&buffer) == pattern(9, 0, 4 * MEGABYTE));
        c2h.transfer(part(&buffer, 0, PAGE, VISIBLE)).await.unwrap();
        assert!(contents(&buffer)[..PAGE as usize] == pattern(9, 1 << 20, PAGE));
        c2h.close().await.unwrap();
        buffer.unregister().await.unwrap();
    });
}

#[test]
fn closing_and_dropping_give_all_memory_back() {
    run_on("rosta", ["fpga1"], async |[device]| {
        // Far more rings than memory has room for.
        for n in 0..2000 {
            let c2h = channel(&device, ChannelKind::C2h).await;
            let buffer = device.buffer(2 * MEGABYTE, PageSize::Huge).await.unwrap();
            if n % 2 == 0 {
                c2h.close().await.unwrap();
                buffer.unregister().await.unwrap();
            }
        }
    });
}

#[test]
fn futures_can_be_sent_to_other_threads() {
    const fn assert_send<T: Send>(_: &T) {}
    run_on("rosta", ["fpga1", "fpga2"], async |[device, other]: [Device; 2]| {
        let bus = device.bus().clone();
        assert_send(&Device::open_by_name(bus, "fpga1"));
        assert_send(&device.buffer(4, PageSize::Small));
        assert_send(&device.connect(&other, PeerOptions::default()));
        assert_send(&device.channel(ChannelKind::C2h, 0, ChannelOptions::default()));
        assert_send(&device.user().route(StreamSource::H2c, StreamSource::H2c));
        let user = device.user();
        assert_send(&user.ping_pong(BusAddress(0), 4, 1, us(1)));
        let buffer = empty(&device, PAGE).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let transfer = whole(&buffer, VISIBLE);
        assert_send(&c2h.post(std::slice::from_ref(&transfer)));
        assert_send(&c2h.wait(crosslane_driver::Ticket(0)));
        assert_send(&c2h.poll(crosslane_driver::Ticket(0)));
        assert_send(&c2h.transfer(transfer));
        assert_send(&c2h.cancel());
        assert_send(&c2h.counters());
        assert_send(&c2h.close());
        assert_send(&buffer.unregister());
        let peer = device.connect(&other, PeerOptions::default()).await.unwrap();
        assert_send(&peer.check(1));
        assert_send(&peer.counters());
        assert_send(&peer.close());
    });
}
