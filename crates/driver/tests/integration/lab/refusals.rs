// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Impossible requests: each error names the device, channel or buffer, and nothing is half done.
//! The sentences of each test are in its snapshot, in the order of the requests.

use crosslane_driver::{
    Channel, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Device, MemoryCard,
    Notification, PeerOptions, StreamSource, Target, Transfer,
};
use crosslane_host::{Bus, ErrorKind, PageSize};
use crosslane_pcie::units::{BusAddress, RoutingId};

use crate::lab::setup::*;

async fn refused(channel: &mut Channel, transfer: Transfer) -> String {
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
        let mut said = Vec::new();
        for (start, end) in [(0, 0), (7, 7), (8190, 8193), (8188, 8196), (1 << 40, (1 << 40) + 4)] {
            said.push(refused(&mut c2h, part(&buffer, start, end, VISIBLE)).await);
        }
        said.push(refused(&mut c2h, whole(&buffer, ACKNOWLEDGED)).await);
        let elsewhere = empty(&other, PAGE).await;
        said.push(refused(&mut c2h, whole(&elsewhere, VISIBLE)).await);
        let target = Target::Bus(BusAddress(0x1000), 64);
        said.push(refused(&mut c2h, to(target, VISIBLE)).await);
        insta::assert_snapshot!(said.join("\n"));
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
        let errors = [0..6, 4096..4100].map(|part| buffer.to_vec::<u32>(part).unwrap_err());
        assert_eq!(errors.each_ref().map(|error| error.kind()), [ErrorKind::InvalidArgument; 2]);
        insta::assert_snapshot!(errors.map(|error| error.to_string()).join("\n"));
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
        let mut said = vec![refused(&mut h2c, part(&buffer, half - 4, half + 4, VISIBLE)).await];
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
        said.push(failure(c2h.post(&batch).await));
        buffer.write(0, &[0; 8]).unwrap();
        let gone = buffer.clone();
        buffer.unregister().await.unwrap();
        said.push(refused(&mut c2h, whole(&gone, VISIBLE)).await);
        insta::assert_snapshot!(said.join("\n"));
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
        let mut said = Vec::new();
        for transfer in [bus(end - 64, 128), bus(0x1002, 0), bus(u64::MAX - 3, 8)] {
            said.push(refused(&mut channel, transfer).await);
        }
        let peer = device.connect(&other, PeerOptions::default()).await.unwrap();
        let lane = peer.address().0;
        for transfer in
            [bus(0x1000, 4), bus(lane + 2, 4), bus(lane, 6), to(peer.target(4), VISIBLE)]
        {
            said.push(refused(&mut channel, transfer).await);
        }
        let buffer = empty(&device, PAGE).await;
        said.push(refused(&mut channel, whole(&buffer, CompletionLevel::Sent)).await);
        said.push(failure(device.connect(&device, PeerOptions::default()).await));
        let options = PeerOptions::default().with_channel(1);
        said.push(failure(device.connect(&other, options).await));
        insta::assert_snapshot!(said.join("\n"));
    });
}

#[test]
fn devices() {
    let simulation = simulation("rosta");
    run(&simulation, async |bus| {
        let mut said = Vec::new();
        for name in ["fpga9", "rc47a.up"] {
            said.push(failure(Device::open_by_name(bus.clone(), name).await));
        }
        for function in [RoutingId::new(77, 0, 0), function(&bus, "rc47a.up")] {
            said.push(failure(Device::open(bus.clone(), function).await));
        }
        let [device] = open_all(&bus, ["fpga1"]).await;
        said.push(failure(device.buffer(0, PageSize::Small).await));
        said.push(failure(device.buffer(1 << 40, PageSize::Huge).await));
        let memory = bus.allocate(PAGE, PageSize::Small).unwrap();
        let registered = device.register(memory.clone()).await.unwrap();
        said.push(failure(device.register(memory).await));
        drop(registered);
        insta::assert_snapshot!(said.join("\n"));
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
fn an_engine_that_is_taken_for_a_memory_card() {
    run(&simulation("rosta:crosslane"), async |bus| {
        let opened = MemoryCard::open_by_name(bus, "fpga1").await;
        let error = opened.err().expect("it is an engine");
        let sentence = "fpga1: it has no memory card: its first register is 0x584c4e45, that of \
                        an engine, and not 0x4d4c5243";
        assert_eq!(error.to_string(), sentence);
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
        let mut said = Vec::new();
        for (kind, number, options) in [
            (c2h, 1, default),
            (h2c, 0, command),
            (peer, 0, table),
            (c2h, 0, oversize),
            (c2h, 0, ring(8)),
            (c2h, 0, ring(48)),
            (c2h, 0, payload(96)),
            (c2h, 0, payload(512)),
            (peer, 0, payload(256)),
            (h2c, 0, payload(8192)),
        ] {
            said.push(failure(device.channel(kind, number, options).await));
        }
        // The refused calls took nothing; an open channel is open once.
        let open = device.channel(c2h, 0, default).await.unwrap();
        said.push(failure(device.channel(c2h, 0, table).await));
        drop(open);
        device.channel(c2h, 0, table).await.unwrap();
        insta::assert_snapshot!(said.join("\n"));
    });
}

#[test]
fn user_circuits() {
    run_on("rosta", ["fpga1"], async |[device]| {
        let user = device.user();
        let queue = StreamSource::ReceiveQueue;
        let mut said = Vec::new();
        for (c2h, peer) in [(queue(0), queue(1)), (queue(8), StreamSource::H2c)] {
            said.push(failure(user.route(c2h, peer).await));
        }
        let options = ChannelOptions::default()
            .with_descriptors(DescriptorSource::CommandPort)
            .with_notification(Notification::Poll);
        let _channel = device.channel(ChannelKind::Peer, 0, options).await.unwrap();
        said.push(failure(user.command(BusAddress(0x1000), 0).await));
        said.push(failure(user.ping_pong(BusAddress(0x1000), 4, 0, us(1)).await));
        insta::assert_snapshot!(said.join("\n"));
    });
}
