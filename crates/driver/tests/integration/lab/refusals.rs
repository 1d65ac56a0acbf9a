// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Impossible requests: each error names the device, channel or buffer, and nothing is half done.

use crosslane_driver::{
    Channel, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Device, Notification,
    PeerOptions, StreamSource, Target, Transfer,
};
use crosslane_host::{Bus, ErrorKind, PageSize};
use crosslane_lab::LabBus;
use crosslane_pcie::units::{BusAddress, RoutingId};

use crate::lab::setup::*;

async fn refused(channel: &mut Channel<LabBus>, transfer: Transfer<LabBus>) -> String {
    let before = channel.statistics();
    // A good transfer ahead of the bad one is not posted either.
    let error = channel.post(std::slice::from_ref(&transfer)).await.unwrap_err();
    assert_eq!(channel.statistics(), before, "something was posted");
    let also = channel.transfer(transfer).await.unwrap_err();
    assert_eq!((also.to_string(), also.moved_bytes), (error.to_string(), 0));
    error.to_string()
}

#[test]
fn transfers_of_buffers() {
    run_on("rosta", ["fpga1", "fpga2"], async |[device, other]| {
        let buffer = empty(&device, 2 * PAGE).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        for (start, end, sentence) in [
            (0, 0, "fpga1 C2H 0: 0 B at byte 0 of a buffer"),
            (7, 7, "fpga1 C2H 0: 0 B at byte 7 of a buffer"),
            (8190, 8193, "a buffer of fpga1: bytes 8190 to 8193 are not in its 8192 B"),
            (8188, 8196, "a buffer of fpga1: bytes 8188 to 8196 are not in its 8192 B"),
            (
                1 << 40,
                (1 << 40) + 4,
                "a buffer of fpga1: bytes 1099511627776 to 1099511627780 are \
                                      not in its 8192 B",
            ),
        ] {
            let transfer = part(&buffer, start, end, VISIBLE);
            assert_eq!(refused(&mut c2h, transfer).await, sentence);
        }
        assert_eq!(
            refused(&mut c2h, whole(&buffer, ACKNOWLEDGED)).await,
            "fpga1 C2H 0: the level acknowledged cannot be promised: no peer takes part; visible \
             is possible"
        );
        let elsewhere = empty(&other, PAGE).await;
        assert_eq!(
            refused(&mut c2h, whole(&elsewhere, VISIBLE)).await,
            "fpga1 C2H 0: the buffer is registered for another device"
        );
        let target = Target::Bus(BusAddress(0x1000), 64);
        assert_eq!(
            refused(&mut c2h, to(target, VISIBLE)).await,
            "fpga1 C2H 0: it moves buffers; bus addresses are for peers"
        );
        // The engine was not touched: it starts with the first word.
        device.user().seed(1).await.unwrap();
        c2h.transfer(whole(&buffer, VISIBLE)).await.unwrap();
        assert!(contents(&buffer) == pattern(1, 0, 2 * PAGE));
        let fetched = c2h.counters().await.unwrap().fetched;
        assert_eq!(c2h.statistics().descriptors, u64::from(fetched));
    });
}

#[test]
fn typed_views_of_buffers() {
    run_on("rosta", ["fpga1", "fpga2"], async |[device, _]| {
        let buffer = empty(&device, PAGE).await;
        buffer.copy_from_slice(8, &[1.5_f64, -2.0]).unwrap();
        assert_eq!(buffer.to_vec::<f64>(8..24).unwrap(), [1.5, -2.0]);
        assert_eq!(buffer.to_vec::<u64>(16..24).unwrap(), [(-2.0_f64).to_bits()]);
        assert_eq!(buffer.to_vec::<[u16; 2]>(0..0).unwrap(), [[0; 2]; 0]);
        for (part, sentence) in [
            (0..6, "a buffer of fpga1: 6 B are not a whole number of values of 4 B"),
            (4096..4100, "a buffer of fpga1: bytes 4096 to 4100 are not in its 4096 B"),
        ] {
            let error = buffer.to_vec::<u32>(part).unwrap_err();
            assert_eq!(
                (error.to_string(), error.kind()),
                (sentence.to_owned(), ErrorKind::InvalidArgument)
            );
        }
    });
}

#[test]
fn buffers_in_flight() {
    run_on("rosta", ["fpga1"], async |[device]| {
        let buffer = filled(&device, 64 * PAGE, 1).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let mut h2c = channel(&device, ChannelKind::H2c).await;
        let half = 32 * PAGE;
        let writing = post(&mut c2h, part(&buffer, 0, half, VISIBLE)).await;
        let overlap = refused(&mut h2c, part(&buffer, half - 4, half + 4, VISIBLE)).await;
        assert_eq!(
            overlap,
            "a buffer of fpga1: bytes 131068 to 131076 are wanted while a transfer of bytes 0 to \
             131072 is in flight"
        );
        assert!(buffer.read(half - 1, &mut [0]).is_err());
        assert!(buffer.write(half - 1, &[0]).is_err());
        buffer.read(half, &mut [0]).unwrap();
        // Two transfers that read may share a part, which may be read meanwhile, but not written.
        let batch =
            [part(&buffer, half, 2 * half, VISIBLE), part(&buffer, half, half + 4, VISIBLE)];
        let reading = h2c.post(&batch).await.unwrap();
        buffer.read(half, &mut [0]).unwrap();
        assert!(buffer.write(half, &[0]).is_err());
        for ticket in reading {
            h2c.wait(ticket).await.unwrap();
        }
        c2h.wait(writing).await.unwrap();
        buffer.write(0, &[0; 8]).unwrap();
        // Within one batch too.
        let batch = [part(&buffer, 0, PAGE, VISIBLE), part(&buffer, PAGE - 4, PAGE, VISIBLE)];
        fails_with(c2h.post(&batch).await, "is in flight");
        buffer.write(0, &[0; 8]).unwrap();
        let gone = buffer.clone();
        buffer.unregister().await.unwrap();
        assert_eq!(
            refused(&mut c2h, whole(&gone, VISIBLE)).await,
            "a buffer of fpga1: it is not registered any more"
        );
        assert!(gone.read(64 * PAGE - 1, &mut [0, 0]).is_err());
    });
}

#[test]
fn batches_that_are_too_large() {
    run_on("rosta", ["fpga1"], async |[device]| {
        let buffer = empty(&device, 40 * PAGE).await;
        let options =
            ChannelOptions::default().with_descriptors(DescriptorSource::Ring { entries: 16 });
        let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
        let pieces = buffer.segments().len();
        assert!(pieces > 16, "small pages lie anywhere");
        assert_eq!(
            refused(&mut c2h, whole(&buffer, VISIBLE)).await,
            format!("fpga1 C2H 0: {pieces} descriptors were posted at once, its ring has 16")
        );
        let batch: Vec<_> = (0..17).map(|n| part(&buffer, n * 4, n * 4 + 4, VISIBLE)).collect();
        fails(
            c2h.post(&batch).await,
            "fpga1 C2H 0: 17 descriptors were posted at once, its ring has 16",
        );
        assert_eq!(c2h.post(&batch[..16]).await.unwrap().len(), 16);
        assert_eq!(c2h.post(&[]).await.unwrap(), []);
        let mut table = device
            .channel(ChannelKind::H2c, 0, options.with_descriptors(DescriptorSource::Table))
            .await
            .unwrap();
        let words = empty(&device, 4 * 1025).await;
        let batch: Vec<_> = (0..1025).map(|n| part(&words, n * 4, n * 4 + 4, VISIBLE)).collect();
        fails(
            table.post(&batch).await,
            "fpga1 H2C 0: 1025 descriptors were posted at once, its table has 1024",
        );
    });
}

#[test]
fn peers() {
    run_on("rosta", ["fpga1", "fpga2"], async |[device, other]| {
        let mut channel = channel(&device, ChannelKind::Peer).await;
        let bar = other.function().bars[1];
        let end = bar.base.0 + bar.size_bytes;
        let bus =
            |address, bytes| to(Target::Bus(BusAddress(address), bytes), CompletionLevel::Sent);
        assert_eq!(
            refused(&mut channel, bus(end - 64, 128)).await,
            format!(
                "fpga1 peer 0: 128 B at {:#x} reach beyond BAR1 of fpga2, which ends at {end:#x}",
                end - 64
            )
        );
        assert_eq!(refused(&mut channel, bus(0x1002, 0)).await, "fpga1 peer 0: 0 B at 0x1002");
        let sentence = refused(&mut channel, bus(u64::MAX - 3, 8)).await;
        assert!(sentence.ends_with("reach beyond 64 bits"), "{sentence}");
        let peer = device.connect(&other, PeerOptions::default()).await.unwrap();
        assert_eq!(
            refused(&mut channel, bus(0x1000, 4)).await,
            "fpga1 peer 0: 0x1000 is not in receive queue 0 of fpga2, which it is connected to"
        );
        let lane = peer.address();
        for (address, bytes) in [(lane.0 + 2, 4), (lane.0, 6)] {
            assert_eq!(
                refused(&mut channel, bus(address, bytes)).await,
                format!(
                    "fpga1 peer 0: {bytes} B at {address:#x}, in receive queue 0 of fpga2: a \
                     receive queue takes whole double words, so both are multiples of 4"
                )
            );
        }
        assert_eq!(
            refused(&mut channel, to(peer.target(4), VISIBLE)).await,
            "fpga1 peer 0: the level visible cannot be promised: this host cannot see what is at \
             a peer; sent and acknowledged are possible"
        );
        let buffer = empty(&device, PAGE).await;
        assert_eq!(
            refused(&mut channel, whole(&buffer, CompletionLevel::Sent)).await,
            "fpga1 peer 0: it writes to bus addresses, not to buffers"
        );
        fails(
            device.connect(&device, PeerOptions::default()).await,
            "fpga1: it cannot be connected to itself",
        );
        let options = PeerOptions::default().with_channel(1);
        fails(
            device.connect(&other, options).await,
            "fpga1: there is no peer channel 1: it has 1, from 0 on",
        );
    });
}

#[test]
fn devices() {
    let simulation = simulation("rosta");
    run(&simulation, async |bus| {
        fails(
            Device::open_by_name(bus.clone(), "fpga9").await,
            "fpga9: there is no such endpoint; endpoints are fpga1, fpga2, fpga3, fpga4, fpga5, \
             fpga6, fpga7, fpga8",
        );
        let error = Device::open_by_name(bus.clone(), "rc47a.up").await.unwrap_err();
        assert!(error.to_string().starts_with("rc47a.up: there is no such endpoint"), "{error}");
        let error = Device::open(bus.clone(), RoutingId::new(77, 0, 0)).await.unwrap_err();
        assert!(error.to_string().starts_with("4d:00.0: there is no such function"), "{error}");
        let switch = function(&bus, "rc47a.up");
        fails(
            Device::open(bus.clone(), switch).await,
            "rc47a.up: it has no engine: BAR0 has 0 B and needs 65536 B",
        );
        let [device] = open_all(&bus, ["fpga1"]).await;
        fails(device.buffer(0, PageSize::Small).await, "fpga1: a buffer of 0 B is not possible");
        fails_with(device.buffer(1 << 40, PageSize::Huge).await, "1099511627776 B requested");
        let memory = bus.allocate(PAGE, PageSize::Small).unwrap();
        let registered = device.register(memory.clone()).await.unwrap();
        fails_with(device.register(memory).await, "pinned for the function already");
        drop(registered);
    });
}

#[test]
fn an_endpoint_that_is_no_engine() {
    let lab = crosslane_lab::open("rosta").unwrap();
    let simulation = crosslane_lab::Simulation::new(lab.build(1).unwrap());
    run(&simulation, async |bus| {
        set_bus_master(&bus, "fpga1", false);
        let error = Device::open_by_name(bus.clone(), "fpga1").await.unwrap_err();
        let sentence = error.to_string();
        assert!(sentence.starts_with("fpga1: it has no engine: its first register is 0x"));
        // The device is left unchanged.
        use crosslane_host::Topology;
        use crosslane_pcie::config::registers::{COMMAND, COMMAND_BUS_MASTER};
        let command = bus.config_read(function(&bus, "fpga1"), COMMAND).unwrap();
        assert_eq!(command & COMMAND_BUS_MASTER, 0);
    });
}

#[test]
fn channels() {
    run_on("rosta", ["fpga1"], async |[device]| {
        let default = ChannelOptions::default();
        let ring = |entries| default.with_descriptors(DescriptorSource::Ring { entries });
        let table = default.with_descriptors(DescriptorSource::Table);
        let command = default.with_descriptors(DescriptorSource::CommandPort);
        let payload = |bytes| default.with_payload_bytes(Some(bytes));
        let oversize = default.with_oversize(true);
        let (h2c, c2h, peer) = (ChannelKind::H2c, ChannelKind::C2h, ChannelKind::Peer);
        for (kind, number, options, sentence) in [
            (c2h, 1, default, "fpga1: there is no C2H channel 1: it has 1, from 0 on"),
            (h2c, 0, command, "fpga1 H2C 0: the command port belongs to peer channel 0"),
            (peer, 0, table, "fpga1 peer 0: it has no descriptor table: H2C 0 and C2H 0 have one"),
            (c2h, 0, oversize, "fpga1 C2H 0: oversize needs payload_bytes"),
        ] {
            fails(device.channel(kind, number, options).await, sentence);
        }
        let powers = ": powers of two from 16 to 65536 are possible";
        let port = ", and Max_Payload_Size of host0.port0 is set to 128 B";
        let reads = ", and the engine builds up to 4096 B";
        for (kind, options, asked, why) in [
            (c2h, ring(8), "a ring of 8 descriptors was", powers),
            (c2h, ring(48), "a ring of 48 descriptors was", powers),
            (c2h, payload(96), "payloads of 96 B were", ": powers of two from 4 on are possible"),
            (c2h, payload(512), "payloads of 512 B were", ", and the engine builds up to 256 B"),
            (peer, payload(256), "payloads of 256 B were", port),
            (h2c, payload(8192), "read requests of 8192 B were", reads),
        ] {
            fails(
                device.channel(kind, 0, options).await,
                &format!("fpga1 {kind} 0: {asked} asked for{why}"),
            );
        }
        // The refused calls took nothing; an open channel is open once.
        let open = device.channel(c2h, 0, default).await.unwrap();
        fails(device.channel(c2h, 0, table).await, "fpga1 C2H 0: it is open already");
        drop(open);
        device.channel(c2h, 0, table).await.unwrap();
    });
}

#[test]
fn user_circuits() {
    run_on("rosta", ["fpga1"], async |[device]| {
        let user = device.user();
        fails(
            user.route(StreamSource::ReceiveQueue(0), StreamSource::ReceiveQueue(1)).await,
            "fpga1 user circuit: receive queues 0 and 1 cannot both be routed: only one can",
        );
        fails(
            user.route(StreamSource::ReceiveQueue(8), StreamSource::H2c).await,
            "fpga1 user circuit: there is no receive queue 8: it has 8, from 0 on",
        );
        let options = ChannelOptions::default()
            .with_descriptors(DescriptorSource::CommandPort)
            .with_notification(Notification::Poll);
        let _channel = device.channel(ChannelKind::Peer, 0, options).await.unwrap();
        let error = user.command(BusAddress(0x1000), 0).await.unwrap_err();
        assert!(error.to_string().ends_with("0 B at 0x1000"), "{error}");
        fails_with(user.ping_pong(BusAddress(0x1000), 4, 0, us(1)).await, "0 round trips");
    });
}
