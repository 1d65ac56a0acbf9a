// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes from one card to another.

use crosslane_driver::{
    Channel, ChannelKind, CompletionLevel, DescriptorSource, Device, Peer, PeerOptions,
    StreamSource, Transfer,
};
use crosslane_host::{Bus, HostWork};
use crosslane_pcie::units::Picoseconds;

use crate::error::{ExperimentError, Result};
use crate::measured::{EngineTime, Measured, channel, lane};
use crate::options::{Options, Registration};
use crate::posting::{Source, Timing, run_posted};

/// Time between the first two questions whether all has arrived in a receive queue; it doubles
/// with each.
const FIRST_ARRIVAL_POLL: Picoseconds = Picoseconds::from_ns(1000);
/// The longest that it becomes.
const LAST_ARRIVAL_POLL: Picoseconds = Picoseconds::from_ns(1_000_000);

/// Card to card: the generator of one engine writes into a receive queue of the other, whose
/// checker compares. By the command port a transfer ends when the engine has sent it; by the ring
/// when the peer has taken it if `credits` are kept, else when it is sent. The workload ends when
/// all has arrived.
///
/// # Errors
/// An invalid request, and a failure on the way.
pub async fn peer_write<B: Bus>(
    from: &Device<B>,
    to: &Device<B>,
    options: &Options,
) -> Result<Measured> {
    let mut prepared = PeerWrite::prepare(from, to, options).await?;
    prepared.run().await?;
    prepared.finish().await
}

/// A peer write that is set up and has not begun.
pub(crate) struct PeerWrite<B: Bus> {
    from: Device<B>,
    to: Device<B>,
    options: Options,
    name: String,
    time: EngineTime,
    reset_at_clocks: u64,
    peer: Peer<B>,
    channel: Channel<B>,
    timing: Timing,
}

impl<B: Bus> PeerWrite<B> {
    /// Sets up receive queue, channel and user circuits.
    pub(crate) async fn prepare(
        from: &Device<B>,
        to: &Device<B>,
        options: &Options,
    ) -> Result<Self> {
        let name = format!("{} -> {}", from.function().name, to.function().name);
        check(&name, options)?;
        let credits = PeerOptions::default().with_credits(options.credits);
        let peer = from.connect(to, credits).await?;
        let channel = from.channel(ChannelKind::Peer, 0, options.channel()).await?;
        for device in [from, to] {
            device.user().route(StreamSource::Generator, StreamSource::Generator).await?;
        }
        from.user().seed(options.seed).await?;
        peer.check(options.seed).await?;
        let time = EngineTime::of(from).await?;
        for device in [from, to] {
            device.reset_counters().await?;
        }
        let reset_at_clocks = from.time_clocks().await?;
        Ok(Self {
            from: from.clone(),
            to: to.clone(),
            options: *options,
            name,
            time,
            reset_at_clocks,
            peer,
            channel,
            timing: Timing::default(),
        })
    }

    /// Sends everything, and waits until the receive queue has taken it.
    pub(crate) async fn run(&mut self) -> Result<()> {
        if self.options.descriptors == DescriptorSource::CommandPort {
            self.run_commands().await?;
        } else {
            let mut source =
                PeerTransfers { bus: self.from.bus(), peer: &self.peer, options: &self.options };
            self.timing = run_posted(&mut self.channel, &mut source).await?;
        }
        let place =
            format!("receive queue {} of {}", self.peer.receive_queue(), self.to.function().name);
        let sent_bytes = self.options.size_bytes * self.options.iterations;
        wait_drained(self.from.bus(), &self.peer, &place, sent_bytes, self.options.timeout).await
    }

    /// One command at a time, as the user circuit has one port.
    async fn run_commands(&mut self) -> Result<()> {
        let bus = self.from.bus().clone();
        let user = self.from.user();
        self.timing.started = bus.now();
        for _ in 0..self.options.iterations {
            let begun = bus.now();
            if self.options.system_call {
                bus.work(HostWork::SystemCall).await;
            }
            self.timing.first_post.get_or_insert(bus.now());
            user.command(self.peer.address(), self.options.size_bytes as u32).await?;
            user.command_done(self.options.deadline(&bus)).await?;
            self.timing.latencies.push(bus.now().since(begun));
        }
        self.timing.ended = bus.now();
        Ok(())
    }

    /// Reads the counters and gives everything back.
    pub(crate) async fn finish(self) -> Result<Measured> {
        let counters = self.channel.counters().await?;
        let read_at = self.from.time_clocks().await?;
        let counters_of_lane = self.peer.counters().await?;
        let check = self.peer.check_result().await?;
        let plan = self.peer.plan().clone();
        let lanes = vec![lane(&self.to, self.peer.receive_queue(), counters_of_lane)];
        self.channel.close().await?;
        self.peer.close().await?;
        let hardware = self.time.span(&counters);
        let counted = read_at.saturating_sub(self.reset_at_clocks);
        let kind = ChannelKind::Peer;
        let channels = vec![channel(&self.from, kind, counters, counted)];
        let timing = self.timing;
        let measured =
            Measured::new(self.name, &self.options, timing, hardware, plan, check.into());
        Ok(Measured { channels, lanes, ..measured })
    }
}

/// Rejects option combinations that a peer write does not support.
fn check(place: &str, options: &Options) -> Result<()> {
    options.check(place)?;
    let by_command = options.descriptors == DescriptorSource::CommandPort;
    let problem = if by_command && options.outstanding > 1 {
        format!("the command port takes one transfer at a time, not {}", options.outstanding)
    } else if by_command && u32::try_from(options.size_bytes).is_err() {
        let (size, most) = (options.size_bytes, u32::MAX - 3);
        format!("one command moves up to {most} B, {size} B were asked for")
    } else if options.registration == Registration::Within {
        "no memory is registered for a peer write".to_owned()
    } else {
        return Ok(());
    };
    Err(ExperimentError::refused(place, problem))
}

/// Waits until a receive queue has passed on so many bytes since it was claimed.
pub(crate) async fn wait_drained<B: Bus>(
    bus: &B,
    peer: &Peer<B>,
    place: &str,
    sent_bytes: u64,
    timeout: Picoseconds,
) -> Result<()> {
    let deadline = bus.now().0.saturating_add(timeout.0);
    let mut interval = FIRST_ARRIVAL_POLL;
    loop {
        // The receive queue counts modulo 2^32.
        let counters = peer.counters().await?;
        if counters.drained_bytes == sent_bytes as u32 {
            return Ok(());
        }
        if bus.now().0 >= deadline {
            let missing = (sent_bytes as u32).wrapping_sub(counters.received_bytes);
            return Err(ExperimentError::Lost {
                place: place.to_owned(),
                received_bytes: sent_bytes.saturating_sub(u64::from(missing)),
                sent_bytes,
                waited_us: timeout.0 / 1_000_000,
            });
        }
        bus.sleep_until(Picoseconds((bus.now().0 + interval.0).min(deadline))).await;
        interval = Picoseconds((interval.0 * 2).min(LAST_ARRIVAL_POLL.0));
    }
}

/// Ring descriptors to a receive queue.
struct PeerTransfers<'a, B: Bus> {
    bus: &'a B,
    peer: &'a Peer<B>,
    options: &'a Options,
}

impl<B: Bus> Source<B> for PeerTransfers<'_, B> {
    fn bus(&self) -> &B {
        self.bus
    }

    fn options(&self) -> &Options {
        self.options
    }

    fn transfer(&mut self, _index: u64) -> Result<Transfer<B>> {
        let level = if self.options.credits {
            CompletionLevel::Acknowledged
        } else {
            CompletionLevel::Sent
        };
        Ok(Transfer {
            target: self.peer.target(self.options.size_bytes),
            level,
            deadline: self.options.deadline(self.bus),
        })
    }
}
