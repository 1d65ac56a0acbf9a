// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets from host memory through a card's stream and back, in seeds that have them.

use std::rc::Rc;

use crosslane_driver::{
    ChannelKind, ChannelOptions, DescriptorSource, Device, DriverError, Notification, Packet,
    StreamSource, Target, Transfer,
};
use crosslane_host::{Bus, PageSize};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::check::{Check, check};
use crate::fault::{Engines, Fault};
use crate::scene::{World, us};

/// One seed in this many has packets, in all engines of a generated lab: those that leave
/// [`PACKET_SEED`].
const PACKET_SEEDS: u64 = 8;
/// See [`PACKET_SEEDS`].
const PACKET_SEED: u64 = 5;

/// Time allowed for the packets of one attempt: far longer than they take, and longer than any
/// fault that ends.
const SPAN: Picoseconds = us(20_000);
/// Bytes from one place to the next: a page, so that each is one piece on the bus.
const PAGE_BYTES: u64 = 4096;
/// Most places of an attempt.
const MOST_PLACES: u64 = 48;

/// Whether a seed has packets.
pub(crate) const fn has_packets(seed: u64) -> bool {
    seed % PACKET_SEEDS == PACKET_SEED
}

/// An engine that sends packets to itself.
pub(crate) struct Packeteer {
    world: Rc<World>,
    device: Device,
    touches: Engines,
    rng: Random,
    /// Words of packets compared after their return.
    pub words: u64,
    /// Number of attempts.
    pub attempts: u64,
}

impl Packeteer {
    pub fn new(world: &Rc<World>, device: &Device, rng: &mut Random) -> Self {
        Self {
            world: Rc::clone(world),
            device: device.on_core(rng.u16(..)),
            touches: world.engine(&device.function().name),
            rng: rng.fork(),
            words: 0,
            attempts: 0,
        }
    }

    /// Makes some attempts, each from opening the channels to closing them.
    pub async fn play(&mut self, attempts: u32) {
        for _ in 0..attempts {
            self.attempt().await;
            let pause = Picoseconds(self.rng.u64(..300_000_000));
            self.world.sleep(pause).await;
        }
        for kind in [ChannelKind::H2c, ChannelKind::C2h] {
            self.world.give_back(&self.device, kind).await;
        }
    }

    async fn attempt(&mut self) {
        self.attempts += 1;
        let begun = self.world.bus.now();
        match self.packets().await {
            Ok(wrong) => {
                let is_known = self.world.has(self.touches, begun, Fault::loses_writes);
                check!(
                    Check::Data,
                    wrong == 0 || is_known,
                    "{wrong} packets came back wrong to {}",
                    self.device.function().name
                );
            }
            Err(error) => {
                self.world.note(|| format!("packets: {error}"));
                let is_known = self.world.has(self.touches, begun, |_| true);
                check!(Check::RightError, is_known, "packets, and nothing was done: {error}");
            }
        }
    }

    /// Exchanges packets. Returns the number of those that are not as they were sent.
    async fn packets(&mut self) -> Result<u32, String> {
        let text = |error: DriverError| error.to_string();
        let (device, rng) = (&self.device, &mut self.rng);
        let (h2c, generator) = (StreamSource::H2c, StreamSource::Generator);
        device.user().route(h2c, generator).await.map_err(text)?;
        let mut options = || {
            let notification = [Notification::Poll, Notification::Interrupt][rng.usize(..2)];
            ChannelOptions::default()
                .with_packets(true)
                .with_descriptors(DescriptorSource::Ring { entries: [64, 256][rng.usize(..2)] })
                .with_notification(notification)
        };
        let (sending, receiving) = (options(), options());
        let mut h2c = device.channel(ChannelKind::H2c, 0, sending).await.map_err(text)?;
        let mut c2h = device.channel(ChannelKind::C2h, 0, receiving).await.map_err(text)?;
        let place_bytes = rng.u64(32..=PAGE_BYTES);
        let (mut lengths, mut places) = (Vec::new(), 0);
        let most = [40, 600, 6_000][rng.usize(..3)];
        for _ in 0..rng.usize(1..=12) {
            let bytes: u64 = rng.u64(1..=most);
            let taken = bytes.div_ceil(place_bytes);
            if places + taken <= MOST_PLACES {
                places += taken;
                lengths.push(bytes);
            }
        }
        if lengths.is_empty() {
            return Ok(0);
        }
        let sum: u64 = lengths.iter().sum();
        let out = device.buffer(sum, PageSize::Small).await.map_err(text)?;
        let back = device.buffer(places * PAGE_BYTES, PageSize::Small).await.map_err(text)?;
        let data: Vec<u8> = (0..sum).map(|_| rng.u8(..)).collect();
        out.write(0, &data).map_err(text)?;
        let deadline = self.world.bus.now() + SPAN;
        let place = |n: u64| {
            let part = n * PAGE_BYTES..n * PAGE_BYTES + place_bytes;
            Transfer::new(Target::Buffer(back.clone(), part), deadline)
        };
        c2h.post(&(0..places).map(place).collect::<Vec<_>>()).await.map_err(text)?;
        let (mut packets, mut at) = (Vec::new(), 0);
        for (bytes, user) in lengths.iter().zip(0..) {
            packets.push(Packet::new(out.clone(), at..at + bytes).with_user(user));
            at += bytes;
        }
        let (now, later) = packets.split_at(rng.usize(..=packets.len()));
        let mut tickets = Vec::new();
        for batch in [now, later] {
            tickets.extend(h2c.send_packets(batch, deadline).await.map_err(text)?);
        }
        // A lost doorbell is rung again by who waits for it.
        for ticket in tickets {
            h2c.wait(ticket).await.map_err(|error| error.to_string())?;
        }
        let (mut wrong, mut at) = (0, 0);
        for (bytes, user) in lengths.iter().zip(0..) {
            let packet = c2h.recv_packet(deadline).await.map_err(|error| error.to_string())?;
            let packet = packet.ok_or_else(|| format!("packet {user} has not come"))?;
            let found = packet.read().map_err(text)?;
            let is_same = packet.is_whole
                && packet.user == user
                && found == data[at as usize..(at + bytes) as usize];
            wrong += u32::from(!is_same);
            at += bytes;
            self.words += bytes / 4;
        }
        let is_mine = self.world.has_lately(self.touches, |_| true);
        let counters = c2h.counters().await.map_err(text)?;
        check!(
            Check::Registers,
            is_mine || counters.packets_truncated == 0 && counters.packets_dropped == 0,
            "packets are lost, and nothing was done: {counters:?}"
        );
        if rng.bool() {
            h2c.close().await.map_err(text)?;
            c2h.close().await.map_err(text)?;
        }
        Ok(wrong)
    }
}
