// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory through a row of cards and back to host memory.

use crosslane_driver::{
    Buffer, Channel, ChannelKind, CompletionLevel, DescriptorSource, Device, DriverError, PathEnd,
    Peer, PeerOptions, Plan, StreamSource, Target, Transfer,
};
use crosslane_host::{Bus, HostWork};
use crosslane_pcie::units::Picoseconds;

use crate::error::{ExperimentError, Result};
use crate::measured::{
    DataErrors, EngineTime, HardwareTime, Measured, Measuring, channel_of, lane,
};
use crate::options::{Options, Registration};
use crate::pattern::{WORD_BYTES, compare, fill};
use crate::transfer::Timing;

/// Runs a chain: the first card reads host memory and writes to the second, that to the third, and
/// the last writes to host memory, where what has come is compared. A transfer's time is from its
/// post to its completion in host memory. One transfer is under way at a time.
///
/// # Errors
/// No card, a card twice, and a failure of the run.
pub fn chain<'a>(devices: &'a [Device], options: &'a Options) -> Measuring<'a> {
    through(devices, Loopback::AtOnce, options)
}

/// Order of the two directions of a loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loopback {
    /// All is written to the card, then all is read back: no more than its FIFOs hold.
    InTurn,
    /// Both are posted, and the card passes on what comes in: any size.
    AtOnce,
}

/// Runs a loopback: the card writes back what it reads; the host compares. One transfer is under
/// way at a time.
///
/// # Errors
/// More [`InTurn`](Loopback::InTurn) than the card holds (at the deadline), and what fails on the
/// way.
pub fn loopback<'a>(device: &'a Device, order: Loopback, options: &'a Options) -> Measuring<'a> {
    through(std::slice::from_ref(device), order, options)
}

fn through<'a>(devices: &'a [Device], order: Loopback, options: &'a Options) -> Measuring<'a> {
    Box::pin(async move {
        let mut chain = Chain::prepare(devices, options).await?;
        chain.run(order).await?;
        chain.finish().await
    })
}

/// One card, or a row of them, set up from host memory to host memory.
pub(crate) struct Chain {
    devices: Vec<Device>,
    options: Options,
    name: String,
    plan: Plan,
    /// Peer path from each card to the next.
    peers: Vec<Peer>,
    peer_channels: Vec<Channel>,
    reading: Channel,
    writing: Channel,
    source: Buffer,
    target: Buffer,
    registration: Picoseconds,
    /// Engine time of the reset of each card.
    reset_at_clocks: Vec<u64>,
    timing: Timing,
    data_errors: DataErrors,
}

impl Chain {
    /// Sets up memory, channels, receive queues and routes.
    pub(crate) async fn prepare(devices: &[Device], options: &Options) -> Result<Self> {
        let names: Vec<&str> =
            devices.iter().map(|device| device.function().name.as_str()).collect();
        let name = format!("host -> {} -> host", names.join(" -> "));
        let (Some(first), Some(last)) = (devices.first(), devices.last()) else {
            let problem = "a chain needs at least one card".to_owned();
            return Err(ExperimentError::refused("chain", problem));
        };
        check(&name, &names, options)?;
        let bus = first.bus();
        let plan = Plan::new(bus, PathEnd::HostMemory, PathEnd::Function(first.function().id))
            .map_err(DriverError::from)?;
        let begun = bus.now();
        let source = first.buffer(options.size_bytes, options.pages).await?;
        let target = last.buffer(options.size_bytes, options.pages).await?;
        let registration = bus.now().since(begun);
        let mut peers = Vec::new();
        let mut peer_channels = Vec::new();
        for pair in devices.windows(2) {
            let credits = PeerOptions::default().with_credits(options.credits);
            peers.push(pair[0].connect(&pair[1], credits).await?);
            let channel = options.channel().with_descriptors(DescriptorSource::CommandPort);
            peer_channels.push(pair[0].channel(ChannelKind::Peer, 0, channel).await?);
        }
        // The payload is that of writes: reads are asked for as long as they may be.
        let reads = options.channel().with_payload_bytes(None).with_oversize(false);
        let reading = first.channel(ChannelKind::H2c, 0, reads).await?;
        let writing = last.channel(ChannelKind::C2h, 0, options.channel()).await?;
        route(devices, &peers).await?;
        let mut reset_at_clocks = Vec::new();
        for device in devices {
            device.reset_counters().await?;
            reset_at_clocks.push(device.time_clocks().await?);
        }
        Ok(Self {
            devices: devices.to_vec(),
            options: *options,
            name,
            plan,
            peers,
            peer_channels,
            reading,
            writing,
            source,
            target,
            registration,
            reset_at_clocks,
            timing: Timing::default(),
            data_errors: DataErrors::default(),
        })
    }

    /// Moves everything, one transfer at a time, and compares what comes back.
    pub(crate) async fn run(&mut self, order: Loopback) -> Result<()> {
        let bus = self.devices[0].bus().clone();
        self.timing.started = bus.now();
        for index in 0..self.options.iterations {
            let words = index * self.options.size_bytes / WORD_BYTES;
            let (size, seed) = (self.options.size_bytes, self.options.seed);
            fill(&self.source, 0, size, seed, words)?;
            let begun = bus.now();
            if self.options.system_call {
                bus.work(HostWork::SystemCall).await;
            }
            match order {
                Loopback::InTurn => {
                    self.timing.first_post.get_or_insert(bus.now());
                    self.reading.transfer(self.transfer(&self.source)).await?;
                    self.writing.transfer(self.transfer(&self.target)).await?;
                }
                Loopback::AtOnce => self.transfer_at_once().await?,
            }
            self.timing.latencies.push(bus.now().since(begun));
            if self.options.check {
                compare(&self.target, 0, size, seed, words, &mut self.data_errors)?;
            }
        }
        self.timing.ended = bus.now();
        Ok(())
    }

    /// Transfers all at once, set up from the end to the beginning, so that data find their path
    /// open.
    async fn transfer_at_once(&mut self) -> Result<()> {
        let deadline = self.options.deadline(self.devices[0].bus());
        let write = self.transfer(&self.target);
        let written = self.writing.post(std::slice::from_ref(&write)).await?;
        for (device, peer) in self.devices.iter().zip(&self.peers).rev() {
            device.user().command(peer.address(), self.options.size_bytes as u32).await?;
        }
        let read = self.transfer(&self.source);
        self.timing.first_post.get_or_insert(self.devices[0].bus().now());
        self.reading.transfer(read).await?;
        for ticket in written {
            self.writing.wait(ticket).await?;
        }
        for device in self.devices.iter().take(self.peers.len()) {
            device.user().command_done(deadline).await?;
        }
        Ok(())
    }

    fn transfer(&self, buffer: &Buffer) -> Transfer {
        Transfer {
            target: Target::Buffer(buffer.clone(), 0..self.options.size_bytes),
            level: CompletionLevel::Visible,
            deadline: self.options.deadline(self.devices[0].bus()),
        }
    }

    /// Reads the counters and gives everything back.
    pub(crate) async fn finish(self) -> Result<Measured> {
        let last = self.devices.len() - 1;
        let read_time = EngineTime::of(&self.devices[0]).await?;
        let write_time = EngineTime::of(&self.devices[last]).await?;
        let read = self.reading.counters().await?;
        let written = self.writing.counters().await?;
        let mut counted_clocks = Vec::new();
        for (device, reset_at) in self.devices.iter().zip(&self.reset_at_clocks) {
            counted_clocks.push(device.time_clocks().await?.saturating_sub(*reset_at));
        }
        let mut channels =
            vec![channel_of(&self.devices[0], ChannelKind::H2c, read, counted_clocks[0])];
        for ((device, peer), counted) in
            self.devices.iter().zip(self.peer_channels).zip(&counted_clocks)
        {
            let counters = peer.counters().await?;
            channels.push(channel_of(device, ChannelKind::Peer, counters, *counted));
            peer.close().await?;
        }
        let writer = &self.devices[last];
        channels.push(channel_of(writer, ChannelKind::C2h, written, counted_clocks[last]));
        let mut lanes = Vec::new();
        for (device, peer) in self.devices.iter().skip(1).zip(self.peers) {
            lanes.push(lane(device, peer.receive_queue(), peer.counters().await?));
            peer.close().await?;
        }
        self.reading.close().await?;
        self.writing.close().await?;
        self.source.unregister().await?;
        self.target.unregister().await?;
        let hardware = HardwareTime {
            bytes: written.bytes,
            first: read_time.host(read.first_clocks),
            last: write_time.host(written.last_clocks),
        };
        let (timing, errors) = (self.timing, self.data_errors);
        let measured =
            Measured::new(self.name, &self.options, timing, Some(hardware), self.plan, errors);
        Ok(Measured { channels, lanes, registration: Some(self.registration), ..measured })
    }
}

/// Sets the interconnect modes: host to next card, card to next card, card to host.
async fn route(devices: &[Device], peers: &[Peer]) -> Result<()> {
    let last = devices.len() - 1;
    for (position, device) in devices.iter().enumerate() {
        let arriving = match position.checked_sub(1) {
            None => StreamSource::H2c,
            Some(before) => StreamSource::ReceiveQueue(peers[before].receive_queue()),
        };
        let (c2h, peer) = if position == last {
            (arriving, StreamSource::Generator)
        } else {
            (StreamSource::Generator, arriving)
        };
        device.user().route(c2h, peer).await?;
    }
    Ok(())
}

/// Rejects option combinations that a chain does not support.
fn check(name: &str, names: &[&str], options: &Options) -> Result<()> {
    options.check(name)?;
    let twice = names.iter().enumerate().find(|(at, card)| names[..*at].contains(card));
    let problem = if let Some((_, card)) = twice {
        format!("{card} stands in the chain twice")
    } else if options.outstanding > 1 {
        format!("one transfer is under way at a time, not {}", options.outstanding)
    } else if options.registration == Registration::Within {
        "memory is registered before the run".to_owned()
    } else if options.descriptors == DescriptorSource::CommandPort {
        "transfers with host memory need a table or a ring, not the command port".to_owned()
    } else if u32::try_from(options.size_bytes).is_err() {
        format!("one command moves up to {} B, not {}", u32::MAX - 3, options.size_bytes)
    } else {
        return Ok(());
    };
    Err(ExperimentError::refused(name, problem))
}
