// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets from host memory through the card's stream and back, with every boundary kept.

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, DescriptorSource, Device, Notification, Packet,
    ReceivedPacket, StreamSource, Ticket, TransferFault,
};
use crosslane_host::{Bus, PageSize};
use crosslane_lab::{EngineKind, Simulation, open};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::lab::setup::*;

const NEVER: Picoseconds = Picoseconds::NEVER;

fn options() -> ChannelOptions {
    ChannelOptions::default().with_packets(true)
}

/// Runs host code on `minimal` with packets, on the gateware if it is wanted.
fn run_packets<T>(code: impl AsyncFnOnce(Device) -> T) -> T {
    let is_rtl = std::env::var("CROSSLANE_ENGINE").is_ok_and(|engine| engine == "rtl");
    let kind = if is_rtl { EngineKind::Rtl } else { EngineKind::Model };
    let lab = open("minimal").unwrap();
    let simulation = Simulation::new(lab.with_engines(kind).build_engines(1).unwrap());
    simulation.set_time_limit(Some(us(10_000_000)));
    run(&simulation, async |bus| {
        let device = Device::open_by_name(bus, "card0").await.unwrap();
        device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
        code(device).await
    })
}

/// Channels of the loop, and buffers to send from and receive into.
struct Loop {
    device: Device,
    h2c: Channel,
    c2h: Channel,
    out: Buffer,
    back: Buffer,
}

impl Loop {
    async fn open(device: Device, c2h: ChannelOptions) -> Self {
        let out = device.buffer(MEGABYTE, PageSize::Huge).await.unwrap();
        out.write(0, &pattern(7, 0, MEGABYTE)).unwrap();
        let back = device.buffer(MEGABYTE, PageSize::Huge).await.unwrap();
        let h2c = device.channel(ChannelKind::H2c, 0, options()).await.unwrap();
        let c2h = device.channel(ChannelKind::C2h, 0, c2h).await.unwrap();
        Self { device, h2c, c2h, out, back }
    }

    /// Posts places of `bytes` each to receive into, `gap` bytes apart.
    async fn post(&mut self, count: u64, bytes: u64, gap: u64) {
        let place = |n| part(&self.back, n * (bytes + gap), n * (bytes + gap) + bytes, VISIBLE);
        let places: Vec<_> = (0..count).map(place).collect();
        self.c2h.post(&places).await.unwrap();
    }

    fn packet(&self, start: u64, bytes: u64, user: u16) -> Packet {
        Packet::new(self.out.clone(), start..start + bytes).with_user(user)
    }

    async fn send(&mut self, lengths: &[u64]) {
        let packets: Vec<_> = lengths
            .iter()
            .zip(0..)
            .map(|(&bytes, n)| self.packet(n * 100, bytes, n as u16))
            .collect();
        self.h2c.send_packets(&packets, NEVER).await.unwrap();
    }

    async fn receive(&mut self, count: usize) -> Vec<ReceivedPacket> {
        let deadline = self.device.bus().now() + us(1_000);
        let mut packets = Vec::new();
        while packets.len() < count {
            let more = self.c2h.recv_packets(count - packets.len(), deadline).await.unwrap();
            assert!(!more.is_empty(), "{} of {count} packets have come", packets.len());
            packets.extend(more);
        }
        packets
    }

    /// Checks that received packets are those that were sent with these lengths.
    fn check(packets: &[ReceivedPacket], lengths: &[u64]) {
        assert_eq!(packets.iter().map(ReceivedPacket::bytes).collect::<Vec<_>>(), lengths);
        let sent = pattern(7, 0, MEGABYTE);
        for (n, packet) in packets.iter().enumerate() {
            assert!(packet.is_whole, "packet {n}");
            assert_eq!(packet.user, n as u16);
            let at = n * 100;
            assert!(packet.read().unwrap() == sent[at..at + packet.bytes() as usize], "packet {n}");
        }
    }
}

/// Small packets share no place, long ones span several.
#[test]
fn packets_keep_their_boundaries() {
    run_packets(async |device| {
        let mut both = Loop::open(device, options()).await;
        let lengths = [1, 2, 3, 64, 65, 255, 256, 257, 511, 512, 2048, 2049, 9000, 5, 4096, 1500];
        both.post(32, 2048, 3).await;
        both.send(&lengths).await;
        let packets = both.receive(lengths.len()).await;
        Loop::check(&packets, &lengths);
        let parts: Vec<_> = packets.iter().map(|packet| packet.parts.len()).collect();
        assert_eq!(parts, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 5, 1, 2, 1]);
        let (h2c, c2h) = (both.h2c.counters().await, both.c2h.counters().await);
        let (h2c, c2h) = (h2c.unwrap(), c2h.unwrap());
        let sum: u64 = lengths.iter().sum();
        assert_eq!((h2c.packets, c2h.packets, c2h.bytes), (16, 16, sum));
        assert_eq!((c2h.packets_dropped, c2h.packets_truncated), (0, 0));
    });
}

#[test]
fn a_batch_is_polled_without_register_reads() {
    run_packets(async |device| {
        let mut both = Loop::open(device, options()).await;
        both.post(64, 1024, 0).await;
        both.send(&[100; 40]).await;
        sleep(&both.device, us(50)).await;
        let before = both.c2h.statistics();
        let deadline = both.device.bus().now();
        // Time stands still: a register read would take some.
        let packets = both.c2h.recv_packets(100, deadline).await.unwrap();
        assert_eq!((packets.len(), both.device.bus().now()), (40, deadline));
        assert_eq!(both.c2h.statistics().doorbells, before.doorbells);
    });
}

#[test]
fn random_packets_survive_random_places() {
    for seed in 0..12 {
        run_packets(async |device| {
            let mut rng = Random::with_seed(seed);
            let notification = [Notification::Poll, Notification::Interrupt][rng.usize(..2)];
            let mut both = Loop::open(device, options().with_notification(notification)).await;
            for _ in 0..3 {
                let most = [16, 300, 3_000][rng.usize(..3)];
                let lengths: Vec<_> = (0..rng.usize(1..=24)).map(|_| rng.u64(1..=most)).collect();
                let bytes = rng.u64(200..4000);
                let count = lengths.iter().map(|length| length.div_ceil(bytes)).sum();
                both.post(count, bytes, rng.u64(..8)).await;
                both.send(&lengths).await;
                Loop::check(&both.receive(lengths.len()).await, &lengths);
            }
        });
    }
}

/// A packet longer than all that is posted waits for more to be posted.
#[test]
fn a_long_packet_waits_for_more_places() {
    run_packets(async |device| {
        let mut both = Loop::open(device, options()).await;
        both.post(2, 1000, 0).await;
        both.send(&[2500, 10]).await;
        let soon = both.device.bus().now() + us(50);
        let error = both.c2h.recv_packet(soon).await.unwrap_err().to_string();
        assert!(error.contains("longer than what was posted: 2000 B"), "{error}");
        assert_eq!(both.c2h.first_unreceived(), Ticket(0), "both have parts of a packet");
        let place = |start| part(&both.back, start, start + 1000, VISIBLE);
        let places = [place(2000), place(3000)];
        both.c2h.post(&places).await.unwrap();
        Loop::check(&both.receive(2).await, &[2500, 10]);
        assert_eq!(both.c2h.first_unreceived(), Ticket(4));
    });
}

#[test]
fn packets_without_a_place_are_dropped_and_counted() {
    run_packets(async |device| {
        let mut both = Loop::open(device, options().with_drop_packets(true)).await;
        both.send(&[100, 200, 300]).await;
        sleep(&both.device, us(20)).await;
        // The second one fits in part.
        both.post(2, 400, 0).await;
        both.send(&[64, 1000, 65]).await;
        sleep(&both.device, us(20)).await;
        let c2h = both.c2h.counters().await.unwrap();
        assert_eq!((c2h.packets, c2h.packets_dropped, c2h.packets_truncated), (1, 4, 1));
        let place = part(&both.back, 8000, 8400, VISIBLE);
        both.c2h.post(&[place]).await.unwrap();
        both.send(&[7]).await;
        let packets = both.receive(3).await;
        let seen: Vec<_> = packets.iter().map(|packet| (packet.bytes(), packet.is_whole)).collect();
        assert_eq!(seen, [(64, true), (400, false), (7, true)]);
    });
}

#[test]
fn a_restart_of_the_source_cuts_its_packet() {
    run_packets(async |device| {
        let mut both = Loop::open(device, options()).await;
        both.post(2, MEGABYTE / 2, 0).await;
        let long = both.packet(0, MEGABYTE, 9);
        both.h2c.send_packets(&[long], NEVER).await.unwrap();
        sleep(&both.device, us(3)).await;
        both.h2c.cancel().await.unwrap();
        sleep(&both.device, us(20)).await;
        both.send(&[77]).await;
        let packets = both.receive(2).await;
        let cut = packets[0].bytes();
        assert!(!packets[0].is_whole && (1000..MEGABYTE / 2).contains(&cut), "{cut} B");
        assert_eq!((packets[1].bytes(), packets[1].is_whole), (77, true));
        assert_eq!(both.c2h.counters().await.unwrap().packets_truncated, 1);
    });
}

#[test]
fn a_restart_in_a_packet_leaves_it_not_whole() {
    run_packets(async |device| {
        let mut both = Loop::open(device, options()).await;
        both.post(1, MEGABYTE, 0).await;
        let long = both.packet(0, MEGABYTE / 8, 9);
        both.h2c.send_packets(&[long], NEVER).await.unwrap();
        sleep(&both.device, us(3)).await;
        both.c2h.restart().await.unwrap();
        let error = both.c2h.recv_packet(NEVER).await.unwrap_err();
        assert!(error.moved_bytes > 1000, "{error:?}");
        assert_eq!(both.c2h.first_unreceived(), Ticket(1));
        both.post(2, MEGABYTE / 2, 0).await;
        both.send(&[77]).await;
        let packets = both.receive(2).await;
        assert_eq!(packets[0].bytes() + error.moved_bytes, MEGABYTE / 8);
        assert!(!packets[0].is_whole);
        assert_eq!((packets[1].bytes(), packets[1].is_whole), (77, true));
    });
}

#[test]
fn impossible_packets_are_refused() {
    run_on("rosta:crosslane", ["fpga1"], async |[device]| {
        let open = async |kind, number, options| device.channel(kind, number, options).await;
        fails_with(
            open(ChannelKind::C2h, 0, options()).await,
            "fpga1 C2H 0: its engine has no packet mode",
        );
        fails_with(
            open(ChannelKind::Peer, 0, options()).await,
            "fpga1 peer 0: H2C 0 and C2H 0 have a packet mode",
        );
        let table = options().with_descriptors(DescriptorSource::Table);
        let problem = "fpga1 H2C 0: packets need a ring of descriptors";
        fails_with(open(ChannelKind::H2c, 0, table).await, problem);
        let problem = "fpga1 H2C 0: C2H channels in packet mode drop packets";
        let drops = options().with_drop_packets(true);
        fails_with(open(ChannelKind::H2c, 0, drops).await, problem);
        let mut bytes = open(ChannelKind::C2h, 0, ChannelOptions::default()).await.unwrap();
        let error = bytes.recv_packet(NEVER).await.unwrap_err();
        assert!(matches!(error.fault, TransferFault::Refused(_)), "{error}");
    });
    run_packets(async |device| {
        let mut both = Loop::open(device, options()).await;
        let error = both.c2h.recv_packet(NEVER).await.unwrap_err().to_string();
        assert!(error.contains("nothing is posted"), "{error}");
        let empty = Packet::new(both.out.clone(), 5..5);
        assert!(both.h2c.send_packets(&[empty], NEVER).await.is_err());
        let pieces = both.device.buffer(16 * PAGE, PageSize::Small).await.unwrap();
        if pieces.segments().len() > 1 {
            let error = both.c2h.post(&[whole(&pieces, VISIBLE)]).await.unwrap_err().to_string();
            assert!(error.contains("post smaller parts"), "{error}");
        }
    });
}
