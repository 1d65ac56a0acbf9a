// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver on one side of a socket, devices of a lab on the other: transfers between them.

use crate::support;

use std::sync::Arc;

use crosslane_driver::{
    ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Notification, PeerOptions,
    StreamSource, Target, Transfer,
};
use crosslane_host::{Bus, PageSize, RegisterAddress, Topology};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_vfio::{Function, Pages, VfioBus, block_on};

use support::*;

const SECOND: Picoseconds = Picoseconds::from_ns(1_000_000_000);

#[test]
fn data_go_out_and_come_back_in_every_way() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let bus = served.bus();
    on_device(&bus, async |device| {
        for notification in [Notification::Poll, Notification::Interrupt] {
            for descriptors in [DescriptorSource::Ring { entries: 64 }, DescriptorSource::Table] {
                let options = ChannelOptions::default()
                    .with_notification(notification)
                    .with_descriptors(descriptors);
                for bytes in [PAGE, 40 * PAGE, MIB] {
                    loop_back(&device, options, bytes).await;
                }
            }
        }
    });
    assert_eq!(served.told(), ["fpga1: a client has come"]);
}

#[test]
fn sixty_four_mib_at_once() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let bus = served.bus();
    on_device(&bus, async |device| {
        device.user().seed(99).await.unwrap();
        device.user().route(StreamSource::Generator, StreamSource::Generator).await.unwrap();
        let memory = buffer(&device, 64 * MIB).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let done = c2h.transfer(whole(&device, &memory)).await.unwrap();
        assert_eq!(done.bytes, 64 * MIB);
        assert!(contents(&memory) == pattern(99, 64 * MIB), "what was written is not there");
        // In the other direction the card compares.
        let mut h2c = channel(&device, ChannelKind::H2c).await;
        device.user().check_h2c(99).await.unwrap();
        h2c.transfer(whole(&device, &memory)).await.unwrap();
        let check = device.user().h2c_check_result().await.unwrap();
        assert_eq!(check.errors, 0);
    });
}

/// Two devices below different switches, each with a separate socket, on one fabric.
#[test]
fn one_device_writes_into_another() {
    for pair in [["fpga1", "fpga2"], ["fpga1", "fpga5"]] {
        let served = Served::start("rosta:crosslane", &pair);
        let bus = served.bus();
        block_on(async {
            let devices = open_all(&bus).await;
            let (from, into) = (&devices[0], &devices[1]);
            let peer = from.connect(into, PeerOptions::default()).await.unwrap();
            let lane = StreamSource::ReceiveQueue(peer.receive_queue());
            into.user().route(lane, StreamSource::Generator).await.unwrap();
            from.user().route(StreamSource::Generator, StreamSource::H2c).await.unwrap();
            let (out, back) = (buffer(from, MIB).await, buffer(into, MIB).await);
            out.write(0, &pattern(11, MIB)).unwrap();
            let mut c2h = channel(into, ChannelKind::C2h).await;
            let arrived = c2h.post(&[whole(into, &back)]).await.unwrap()[0];
            let mut sender = channel(from, ChannelKind::Peer).await;
            let transfer = to(from, peer.target(MIB), CompletionLevel::Acknowledged);
            let sent = sender.post(&[transfer]).await.unwrap()[0];
            let mut h2c = channel(from, ChannelKind::H2c).await;
            h2c.transfer(whole(from, &out)).await.unwrap();
            assert_eq!(sender.wait(sent).await.unwrap().bytes, MIB);
            assert_eq!(c2h.wait(arrived).await.unwrap().bytes, MIB);
            assert!(contents(&back) == pattern(11, MIB), "{pair:?}: data changed on the way");
        });
        assert_eq!(served.told().len(), 2, "{:?}", served.told());
    }
}

/// Two independent clients choose the same addresses: both devices work, and at the address given
/// to the second one, a client still sees its memory.
#[test]
fn two_clients_at_the_same_addresses() {
    let served = Served::start("rosta:crosslane", &["fpga1", "fpga2"]);
    let (function, first) = function(&served.sockets[0]);
    let second = bus(&served.sockets[1..]);
    served.wait_for("fpga2: the addresses that its client wrote share a window of 1 MiB");
    served.wait_for("with those of fpga1");
    block_on(async {
        let own = open_all(&first).await.remove(0);
        let other = open_all(&second).await.remove(0);
        for device in [&own, &other, &own] {
            loop_back(device, ChannelOptions::default(), 40 * PAGE).await;
        }
        // All addresses that the other device may have been given, each page mapped to the same
        // memory.
        let memory = Arc::new(Pages::allocate(PAGE, PageSize::Small).unwrap());
        let places = (0xfe00_0000..0xfec0_0000_u64).step_by(PAGE as usize);
        for place in places.clone() {
            function.map_dma(place, &memory, 0, PAGE).unwrap();
        }
        own.user().seed(3).await.unwrap();
        own.user().route(StreamSource::Generator, StreamSource::Generator).await.unwrap();
        let mut peer = channel(&own, ChannelKind::Peer).await;
        let expected = pattern(3, 3 * PAGE);
        let ends = [0xfe00_0000, 0xfe80_0000, 0xfebf_f000];
        for (place, expected) in ends.into_iter().zip(expected.chunks(PAGE as usize)) {
            let target = Target::Bus(BusAddress(place), PAGE);
            peer.transfer(to(&own, target, CompletionLevel::Sent)).await.unwrap();
            // A read completes behind the earlier writes.
            own.user().h2c_check_result().await.unwrap();
            let mut there = vec![0; PAGE as usize];
            let begun = std::time::Instant::now();
            while there != expected && begun.elapsed().as_secs() < 20 {
                memory.mapped().copy_out(0, &mut there);
            }
            assert!(there == expected, "{place:#x}");
        }
        loop_back(&other, ChannelOptions::default(), 40 * PAGE).await;
    });
}

/// Memory taken from a device: the device and the lab report it.
#[test]
fn memory_that_is_not_mapped_is_an_error() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let (function, bus) = function(&served.sockets[0]);
    on_device(&bus, async |device| {
        device.user().check_h2c(5).await.unwrap();
        let memory = buffer(&device, 16 * PAGE).await;
        memory.write(0, &pattern(5, 16 * PAGE)).unwrap();
        let mut h2c = channel(&device, ChannelKind::H2c).await;
        h2c.transfer(whole(&device, &memory)).await.unwrap();
        // Everything: ring, status and data.
        function.unmap_dma(0, 1 << 63).unwrap();
        let transfer = whole(&device, &memory);
        let within = Transfer { deadline: bus.now() + SECOND, ..transfer };
        let error = h2c.transfer(within).await.unwrap_err();
        assert!(error.to_string().contains("Unsupported Request at 0x"), "{error}");
        assert_eq!((error.moved_bytes, error.total_bytes), (0, 16 * PAGE));
        let error = function.unmap_dma(5, 0).unwrap_err();
        assert!(error.to_string().contains("Invalid argument"), "{error}");
    });
    served.wait_for("in the lab");
    served.wait_for("Unsupported Request");
}

/// Runs as a separate process for the test below: ends in the middle of a transfer.
#[test]
fn client_that_dies() {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    let bus = bus(&[socket.into()]);
    on_device(&bus, async |device| {
        let memory = buffer(&device, 64 * MIB).await;
        let mut c2h = channel(&device, ChannelKind::C2h).await;
        let posted = c2h.post(&[whole(&device, &memory)]).await.unwrap();
        assert_eq!(posted.len(), 1);
        std::process::exit(DIED);
    });
}

#[test]
fn the_next_client_finds_the_device_as_after_a_reset() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    for round in 0..2 {
        die("served::client_that_dies", &served.sockets[0]);
        let bus = served.bus();
        block_on(async {
            let id = bus.own_functions().next().unwrap();
            let control = bus.config_read(id, 0x80).unwrap();
            assert_eq!(control as u8, reg::CAPABILITY_MSIX);
            assert_eq!(control & reg::MSIX_ENABLE, 0, "round {round}");
            let device = open(&bus).await;
            for notification in [Notification::Poll, Notification::Interrupt] {
                loop_back_by(&device, notification, 40 * PAGE).await;
            }
        });
        drop(bus);
        for _ in 0..2 {
            served.wait_for("the client has gone");
        }
    }
}

#[test]
fn a_reset_keeps_addresses_and_interrupts() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let bus = served.bus();
    block_on(async {
        let id = bus.own_functions().next().unwrap();
        {
            let device = open(&bus).await;
            loop_back(&device, ChannelOptions::default(), PAGE).await;
        }
        let config = |bus: &VfioBus| -> Vec<u32> {
            (0..64).map(|dw| bus.config_read(id, dw * 4).unwrap()).collect()
        };
        let before = config(&bus);
        bus.reset(id).unwrap();
        assert_eq!(config(&bus), before);
        let register = RegisterAddress { function: id, bar: 0, offset_bytes: 0 };
        bus.read_register(register).await.unwrap();
        let device = open(&bus).await;
        loop_back_by(&device, Notification::Interrupt, 40 * PAGE).await;
    });
}

/// The server handles MSI-X: a client reads back what it writes there, and interrupts arrive.
#[test]
fn msi_x_registers_are_kept_and_do_nothing() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let (function, bus) = function(&served.sockets[0]);
    let mut place = [0; 4];
    function.config_read(0x84, &mut place).unwrap();
    let place = u32::from_le_bytes(place);
    let (bar, table) = ((place & reg::MSIX_BAR) as u8, u64::from(place & !reg::MSIX_BAR));
    let last = table + u64::from(function.vectors()) * 16 - 8;
    for (at, value) in [(table, 0x1234_5678_9abc_def0_u64), (last, u64::MAX)] {
        function.write(bar, at, &value.to_le_bytes()).unwrap();
        let mut back = [0; 8];
        function.read(bar, at, &mut back).unwrap();
        assert_eq!(u64::from_le_bytes(back), value, "{at:#x}");
    }
    // Masked as a whole, and not enabled.
    let mut control = [0; 4];
    function.config_write(0x82, &0x4000_u16.to_le_bytes()).unwrap();
    function.config_read(0x80, &mut control).unwrap();
    let control = u32::from_le_bytes(control);
    assert_eq!(control & (reg::MSIX_ENABLE | reg::MSIX_FUNCTION_MASK), reg::MSIX_FUNCTION_MASK);
    assert_eq!(control as u8, reg::CAPABILITY_MSIX);
    on_device(&bus, async |device| {
        loop_back_by(&device, Notification::InterruptOnly, 40 * PAGE).await;
    });
}
