// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic for both engines.

use std::sync::Arc;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Device,
    Notification, Packet, PeerOptions, StreamSource, Transfer,
};
use crosslane_fabric::{DirectionId, LinkDirection};
use crosslane_host::{Bus, FunctionInfo, PageSize, Topology};
use crosslane_lab::file::EndpointInstance;
use crosslane_lab::{EngineKind, Simulation, open};
use crosslane_pcie::link::{Generation, LinkRate, TICKS_PER_PS, Width};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::lab::setup::*;
use crate::same_tlps::seen::{Places, Recorder, Step};

const NEVER: Picoseconds = Picoseconds::NEVER;
/// Bytes of the buffer of each direction.
const BUFFER: u64 = 512 << 10;
/// Bytes that each of several channels moves.
const LONG: u64 = 128 << 10;

/// Upstream directions of the engines' links.
pub fn links_of(simulation: &Simulation, names: &[&str]) -> Vec<DirectionId> {
    let up = |link| DirectionId { link, heading: LinkDirection::Up };
    names.iter().map(|name| up(link_of(simulation, name))).collect()
}

/// BAR0 and BAR1 of an engine: base and size.
pub fn bars_of(functions: &[FunctionInfo], name: &str) -> [(u64, u64); 2] {
    let function = functions.iter().find(|info| info.name == name).unwrap();
    [0, 1].map(|at| (function.bars[at].base.0, function.bars[at].size_bytes))
}

/// Work of one channel in a step: its kind, and offset and length of each piece in its buffer.
#[derive(Clone, Debug)]
pub struct Batch {
    pub kind: ChannelKind,
    pub pieces: Vec<(u64, u64)>,
}

/// Destination of the H2C channel's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Nowhere,
    ToC2h,
    ToPeer,
}

/// Lab that a workload runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// `rosta:crosslane`, from `fpga1`; peer writes go to `fpga2`.
    Rosta,
    /// The same, with receive buffers for 72 completions.
    Buffer,
    /// `minimal`, as shipped, with no other engine.
    Minimal,
    /// `pciebench:crosslane`, as shipped, whose engine has a push aperture.
    Pushing,
}

impl Where {
    /// Time that a SKP ordered set takes on the engine's link, now and then: before a TLP on one
    /// side, after it on the other.
    pub fn skp_ps(self) -> i64 {
        let (generation, width) = match self {
            Self::Rosta | Self::Buffer => (Generation::Gen2, 4),
            Self::Minimal => (Generation::Gen3, 4),
            Self::Pushing => (Generation::Gen3, 8),
        };
        let rate = LinkRate { generation, width: Width::new(width).unwrap() };
        (rate.skp_rule().length_ticks / TICKS_PER_PS) as i64
    }
}

/// Consecutive steps; the work of one step runs at once.
#[derive(Clone, Debug)]
pub struct Workload {
    pub place: Where,
    /// Max_Payload_Size of all links, for writes to host memory, and Max_Read_Request_Size, for
    /// reads from it.
    pub payload_bytes: u32,
    pub read_bytes: u32,
    pub route: Route,
    pub credits: bool,
    pub h2c: ChannelOptions,
    pub writes: ChannelOptions,
    pub steps: Vec<Vec<Batch>>,
}

impl Workload {
    /// One transfer of `bytes`.
    pub fn single(kind: ChannelKind, options: ChannelOptions, bytes: u64) -> Self {
        Self {
            place: Where::Rosta,
            payload_bytes: 128,
            read_bytes: 4096,
            route: Route::Nowhere,
            credits: false,
            h2c: options,
            writes: options,
            steps: vec![vec![Batch { kind, pieces: vec![(0, bytes)] }]],
        }
    }

    /// Several channels at once for long enough to have rates: those of a route, or any without
    /// one.
    pub fn together(kinds: &[ChannelKind], route: Route, payload_bytes: u32) -> Self {
        let batch = |kind: &ChannelKind| Batch { kind: *kind, pieces: vec![(0, LONG)] };
        let steps = vec![kinds.iter().map(batch).collect()];
        let any = Self::single(kinds[0], ChannelOptions::default(), LONG);
        Self { payload_bytes, route, credits: true, steps, ..any }
    }

    pub fn random(seed: u64) -> Self {
        let mut rng = Random::with_seed(seed);
        let route = [Route::Nowhere, Route::ToC2h, Route::ToPeer][rng.usize(..3)];
        let options = |rng: &mut Random, payloads: &[Option<u32>]| {
            ChannelOptions::default()
                .with_descriptors(match rng.usize(..3) {
                    0 => DescriptorSource::Table,
                    1 => DescriptorSource::Ring { entries: 64 },
                    _ => DescriptorSource::Ring { entries: 1024 },
                })
                .with_notification([Notification::Poll, Notification::Interrupt][rng.usize(..2)])
                .with_payload_bytes(payloads[rng.usize(..payloads.len())])
                .with_oversize(false)
                .with_relaxed_ordering(rng.bool())
                .with_card_memory(false)
        };
        let read_bytes = [128, 256, 512, 1024, 4096][rng.usize(..5)];
        let mut reads = vec![None, Some(128), Some(256), Some(512), Some(1024)];
        reads.retain(|bytes| bytes.is_none_or(|bytes| bytes <= read_bytes));
        let h2c = options(&mut rng, &reads);
        let writes = options(&mut rng, &[None, Some(64), Some(128)]);
        let payload_bytes = [128, 256][rng.usize(..2)];
        let (credits, steps) = (rng.bool(), Vec::new());
        let place = Where::Rosta;
        let mut workload =
            Self { place, payload_bytes, read_bytes, route, credits, h2c, writes, steps };
        for _ in 0..rng.usize(1..=2) {
            let step = workload.random_step(&mut rng);
            workload.steps.push(step);
        }
        workload
    }

    /// A random workload with one channel at work in each step.
    pub fn random_alone(place: Where, seed: u64) -> Self {
        let (route, steps) = (Route::Nowhere, Vec::new());
        let mut workload = Self { place, route, steps, ..Self::random(seed) };
        let mut rng = Random::with_seed(seed ^ 0x5eed);
        for _ in 0..rng.usize(1..=3) {
            let mut step = workload.random_step(&mut rng);
            if place == Where::Minimal {
                step.retain(|batch| batch.kind != ChannelKind::Peer);
            }
            if step.is_empty() {
                continue;
            }
            let kept = step.swap_remove(rng.usize(..step.len()));
            workload.steps.push(vec![kept]);
        }
        workload
    }

    /// Random packets from H2C to C2H, which has just enough places for them.
    pub fn packets(seed: u64) -> Self {
        let mut rng = Random::with_seed(seed ^ 0x9ac);
        let alone = Self::random_alone(Where::Minimal, seed);
        let ring = DescriptorSource::Ring { entries: [64, 1024][rng.usize(..2)] };
        let of = |options: ChannelOptions| options.with_descriptors(ring).with_packets(true);
        // Interrupts without status blocks: how many descriptors one covers is a matter of clocks,
        // and it takes its place among the records.
        let writes = of(alone.writes).with_notification(Notification::Poll);
        let h2c = of(alone.h2c);
        let mut workload = Self { route: Route::ToC2h, h2c, writes, steps: Vec::new(), ..alone };
        for _ in 0..rng.usize(1..=2) {
            let most = [40, 300, 2_000][rng.usize(..3)];
            let most_place = [64, 500, 4_000][rng.usize(..3)];
            let lengths: Vec<u64> = (0..rng.usize(1..=24)).map(|_| rng.u64(1..=most)).collect();
            let mut places = Vec::new();
            for mut left in lengths.iter().copied() {
                while left > 0 && places.len() < 60 {
                    let bytes = rng.u64(1..=most_place);
                    places.push((rng.u64(..4096), bytes));
                    left = left.saturating_sub(bytes);
                }
            }
            let (count, taken) = Self::fitting(&lengths, &places);
            places.truncate(taken);
            let packets = lengths[..count].iter().map(|bytes| (rng.u64(..8192), *bytes)).collect();
            let batch = |kind, pieces| Batch { kind, pieces };
            workload
                .steps
                .push(vec![batch(ChannelKind::C2h, places), batch(ChannelKind::H2c, packets)]);
        }
        workload.steps.retain(|step| step.iter().all(|batch| !batch.pieces.is_empty()));
        workload
    }

    /// Returns how many of the packets are whole in the places, and how many places they take.
    fn fitting(lengths: &[u64], places: &[(u64, u64)]) -> (usize, usize) {
        let (mut taken, mut rest) = (0, places.iter());
        for (count, length) in lengths.iter().enumerate() {
            let mut left = *length;
            while left > 0 {
                let Some((_, bytes)) = rest.next() else { return (count, taken) };
                left = left.saturating_sub(*bytes);
            }
            taken = places.len() - rest.len();
        }
        (lengths.len(), taken)
    }

    fn random_step(&self, rng: &mut Random) -> Vec<Batch> {
        let most = [64, 600, 5_000, 40_000][rng.usize(..4)];
        let count = if most > 5_000 { rng.usize(1..=3) } else { rng.usize(1..=24) };
        let batch = |rng: &mut Random, kind| {
            let piece = |_| {
                let bytes = rng.u64(1..=most);
                // A receive queue takes whole double words.
                let is_peer = kind == ChannelKind::Peer || self.route == Route::ToPeer;
                let bytes = if is_peer { bytes.div_ceil(4) * 4 } else { bytes };
                (rng.u64(..8192), bytes)
            };
            Batch { kind, pieces: (0..count).map(piece).collect() }
        };
        let h2c = batch(rng, ChannelKind::H2c);
        let sum = h2c.pieces.iter().map(|(_, bytes)| bytes).sum();
        let fed = |rng: &mut Random, kind| Batch { kind, pieces: vec![(rng.u64(..4096), sum)] };
        let (c2h, peer) = match self.route {
            Route::Nowhere => (batch(rng, ChannelKind::C2h), batch(rng, ChannelKind::Peer)),
            Route::ToC2h => (fed(rng, ChannelKind::C2h), batch(rng, ChannelKind::Peer)),
            Route::ToPeer => (batch(rng, ChannelKind::C2h), fed(rng, ChannelKind::Peer)),
        };
        let mut step = vec![c2h, peer, h2c];
        // Drop some of the independent channels.
        let must_stay = |kind: ChannelKind| match self.route {
            Route::Nowhere => false,
            Route::ToC2h => kind != ChannelKind::Peer,
            Route::ToPeer => kind != ChannelKind::C2h,
        };
        step.retain(|batch| must_stay(batch.kind) || rng.bool());
        if step.is_empty() {
            let kind = [ChannelKind::H2c, ChannelKind::C2h][rng.usize(..2)];
            step.push(batch(rng, kind));
        }
        step
    }

    /// Runs the workload. Returns the TLPs of each step, and the content of the written buffer.
    pub fn run(&self, kind: EngineKind) -> (Vec<Step>, Vec<u8>) {
        let (lab, names) = match self.place {
            Where::Rosta | Where::Buffer => ("rosta:crosslane", &["fpga1", "fpga2"][..]),
            Where::Minimal => ("minimal", &["card0"][..]),
            Where::Pushing => ("pciebench:crosslane", &["nfp"][..]),
        };
        let mut lab = open(lab).unwrap().with_engines(kind);
        if self.place != Where::Minimal {
            for (constant, value) in [
                ("part.i7.port.max_payload_bytes", self.payload_bytes),
                ("host.host0.max_read_request_bytes", self.read_bytes),
            ] {
                lab = lab.with_constant(constant, value.into()).unwrap();
            }
        }
        if self.place == Where::Buffer {
            lab = lab.edited(|file| file.endpoints.iter_mut().for_each(buffered)).unwrap();
        }
        let simulation = Simulation::new(lab.build_engines(1).unwrap());
        simulation.set_time_limit(Some(us(100_000)));
        let recorder = Recorder::of(&simulation);
        let links = links_of(&simulation, names);
        let (begins_ps, buffers, bars, contents) = run(&simulation, async |bus| {
            let functions = bus.functions().unwrap();
            let bars: Vec<_> = names.iter().map(|name| bars_of(&functions, name)).collect();
            let mut devices = Vec::new();
            for name in names {
                devices.push(Device::open_by_name(bus.clone(), name).await.unwrap());
            }
            let (begins_ps, buffers, contents) = self.drive(&devices).await;
            (begins_ps, buffers, bars, contents)
        });
        let places = Places::of(links, &bars, buffers);
        (recorder.steps(&places, &begins_ps), contents)
    }

    async fn drive(&self, devices: &[Device]) -> (Vec<u64>, Vec<(u64, u64)>, Vec<u8>) {
        let card = &devices[0];
        let (out, back) = (
            filled(card, BUFFER, 7).await,
            // A place of a packet is one piece on the bus.
            match self.writes.packets {
                true => card.buffer(BUFFER, PageSize::Huge).await.unwrap(),
                false => empty(card, BUFFER).await,
            },
        );
        let segments = back.segments().iter();
        let buffers = segments.map(|segment| (segment.address.0, segment.bytes)).collect();
        let generator = StreamSource::Generator;
        let (c2h, peer) = match self.route {
            Route::Nowhere => (generator, generator),
            Route::ToC2h => (StreamSource::H2c, generator),
            Route::ToPeer => (generator, StreamSource::H2c),
        };
        card.user().route(c2h, peer).await.unwrap();
        let options = PeerOptions::default().with_credits(self.credits);
        let peer = match devices.get(1) {
            Some(other) => Some(card.connect(other, options).await.unwrap()),
            None => None,
        };
        let target = |bytes| peer.as_ref().expect("there is another card").target(bytes);
        let ring = DescriptorSource::Ring { entries: 64 };
        let of_peer = match self.writes.descriptors {
            DescriptorSource::Table => self.writes.with_descriptors(ring),
            _ => self.writes.with_packets(false),
        };
        let mut channels = [
            card.channel(ChannelKind::H2c, 0, self.h2c).await.unwrap(),
            card.channel(ChannelKind::C2h, 0, self.writes).await.unwrap(),
            card.channel(ChannelKind::Peer, 0, of_peer).await.unwrap(),
        ];
        let (mut begins_ps, mut told) = (Vec::new(), Vec::new());
        for step in &self.steps {
            sleep(card, us(20)).await;
            begins_ps.push(card.bus().now().0);
            let mut tickets = Vec::new();
            let count = step.iter().find(|batch| batch.kind == ChannelKind::H2c);
            let count = count.map_or(0, |batch| batch.pieces.len());
            for Batch { kind, pieces } in step {
                let transfers: Vec<_> = pieces
                    .iter()
                    .map(|&(offset, bytes)| match kind {
                        ChannelKind::H2c => part(&out, offset, offset + bytes, VISIBLE),
                        ChannelKind::C2h => part(&back, offset, offset + bytes, VISIBLE),
                        ChannelKind::Peer if self.credits => to(target(bytes), ACKNOWLEDGED),
                        ChannelKind::Peer => to(target(bytes), CompletionLevel::Sent),
                    })
                    .collect();
                let at = *kind as usize;
                // Transfers in flight must not overlap.
                let posted =
                    if *kind == ChannelKind::C2h { apart(pieces, &back) } else { transfers };
                if self.h2c.packets && *kind == ChannelKind::H2c {
                    let packet = |(n, transfer): (usize, Transfer)| Packet {
                        target: transfer.target,
                        user: n as u16,
                    };
                    let packets: Vec<_> = posted.into_iter().enumerate().map(packet).collect();
                    channels[at].send_packets(&packets, NEVER).await.unwrap();
                    continue;
                }
                tickets.push((at, channels[at].post(&posted).await.unwrap()));
            }
            for (at, tickets) in tickets {
                if self.writes.packets && at == ChannelKind::C2h as usize {
                    told.extend(receive(&mut channels[at], count).await);
                    continue;
                }
                for ticket in tickets {
                    channels[at].wait(ticket).await.unwrap();
                }
            }
            sleep(card, us(20)).await;
        }
        let mut written = contents(&back);
        written.extend(told);
        for channel in channels {
            channel.close().await.unwrap();
        }
        if let Some(peer) = peer {
            peer.close().await.unwrap();
        }
        (begins_ps, buffers, written)
    }
}

/// Gives an endpoint a receive buffer as small as the one of the 7-series block.
fn buffered(endpoint: &mut EndpointInstance) {
    for engine in Arc::make_mut(&mut endpoint.part).engine.iter_mut() {
        (engine.completion_header_credits, engine.completion_data_credits) = (72, 850);
    }
}

/// Receives packets. Returns what is known of them.
async fn receive(channel: &mut Channel, count: usize) -> Vec<u8> {
    let mut told = Vec::new();
    for _ in 0..count {
        let packet = channel.recv_packet(NEVER).await.unwrap().unwrap();
        assert!(packet.is_whole);
        told.extend(packet.bytes().to_le_bytes());
        told.extend(packet.user.to_le_bytes());
    }
    told
}

/// Consecutive pieces with the same lengths and page offsets.
fn apart(pieces: &[(u64, u64)], back: &Buffer) -> Vec<Transfer> {
    let mut next = 0;
    let mut place = |&(offset, bytes): &(u64, u64)| {
        let begin = next + offset % 128;
        next = begin + bytes;
        part(back, begin, begin + bytes, VISIBLE)
    };
    pieces.iter().map(&mut place).collect()
}
