// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A flow of transfers by one channel: between a card and host memory, or to another card.
//!
//! Read first: [`Prepared`], a flow that is set up; [`run_posted`], which keeps its channel full.

use std::collections::VecDeque;
use std::ops::Range;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, Completed, CompletionLevel, DescriptorSource, Device,
    DriverError, PathEnd, Peer, PeerOptions, Plan, StreamSource, Target, Ticket, Transfer,
};
use crosslane_host::{AnyBus, AnyMemory, Bus, HostWork};
use crosslane_pcie::units::Picoseconds;

use crate::error::{ExperimentError, Result};
use crate::measured::{DataErrors, EngineTime, Measured, Measuring, channel_of, lane};
use crate::options::{Options, Registration};
use crate::pattern::{WORD_BYTES, compare, fill};
use crate::peer_memory::PeerFlow;

/// Time between the first two questions whether all has arrived in a receive queue; it doubles
/// with each.
const FIRST_ARRIVAL_POLL: Picoseconds = Picoseconds::from_ns(1000);
/// The longest that it becomes.
const LAST_ARRIVAL_POLL: Picoseconds = Picoseconds::from_ns(1_000_000);

/// Card to host: the generator's pattern is written to host memory, where every byte is compared.
///
/// # Errors
/// An invalid request, and a failure of the run.
pub fn write<'a>(device: &'a Device, options: &'a Options) -> Measuring<'a> {
    Box::pin(async { Prepared::host(device, ChannelKind::C2h, options).await?.measured().await })
}

/// Host to card: the pattern is read from host memory, and compared by the card's checker.
///
/// # Errors
/// As [`write`](write()).
pub fn read<'a>(device: &'a Device, options: &'a Options) -> Measuring<'a> {
    Box::pin(async { Prepared::host(device, ChannelKind::H2c, options).await?.measured().await })
}

/// Card to card: the generator of one engine writes into a receive queue of the other, whose
/// checker compares. By the command port a transfer ends when the engine has sent it; by the ring
/// when the peer has taken it if `credits` are kept, else when it is sent. The workload ends when
/// all has arrived.
///
/// # Errors
/// An invalid request, and a failure of the run.
pub fn peer_write<'a>(from: &'a Device, to: &'a Device, options: &'a Options) -> Measuring<'a> {
    Box::pin(async { Prepared::peer(from, to, options).await?.measured().await })
}

/// Card to card, by reads: the engine of `to` reads the memory of the card `from`, which is filled
/// first, and its checker compares. Each transfer reads another part of it.
///
/// # Errors
/// An invalid request, a card without memory that others can read, and a failure of the run.
pub fn peer_read<'a>(from: &'a Device, to: &'a Device, options: &'a Options) -> Measuring<'a> {
    Box::pin(async {
        let flow = PeerFlow::reading(from, to, options).await?;
        Prepared::peer_memory(flow).await?.measured().await
    })
}

/// Card to card, into its memory: the generator of one engine writes, each transfer another part,
/// and a transfer ends when it is sent. Every byte is compared when all has arrived.
///
/// # Errors
/// An invalid request, a card without memory that others can write, and a failure of the run.
pub fn peer_memory_write<'a>(
    from: &'a Device,
    to: &'a Device,
    options: &'a Options,
) -> Measuring<'a> {
    Box::pin(async {
        let flow = PeerFlow::writing(from, to, options).await?;
        Prepared::peer_memory(flow).await?.measured().await
    })
}

/// A flow that is set up and has not begun.
pub(crate) struct Prepared {
    name: String,
    time: EngineTime,
    reset_at_clocks: u64,
    channel: Channel,
    timing: Timing,
    end: End,
}

/// The end of a flow that is not the stream of the card with the channel.
enum End {
    Host(HostMemory),
    Card(Receiver),
    Memory(PeerFlow),
}

impl Prepared {
    /// Sets up memory, channel and user circuit for transfers with host memory, by the channel of
    /// that kind.
    pub(crate) async fn host(
        device: &Device,
        kind: ChannelKind,
        options: &Options,
    ) -> Result<Self> {
        let function = device.function();
        let card = PathEnd::Function(function.id);
        let (name, from, to) = match kind {
            ChannelKind::H2c => (format!("host -> {}", function.name), PathEnd::HostMemory, card),
            _ => (format!("{} -> host", function.name), card, PathEnd::HostMemory),
        };
        options.check(&name)?;
        let plan = Plan::new(device.bus(), from, to).map_err(DriverError::from)?;
        let slots = u64::from(options.outstanding).min(options.iterations);
        let plan = plan.streaming(slots * options.size_bytes, options.pages);
        let memory = device.bus().allocate(slots * options.size_bytes, options.pages)?;
        let channel = device.channel(kind, 0, options.channel()).await?;
        let time = EngineTime::of(device).await?;
        let mut host = HostMemory {
            device: device.clone(),
            kind,
            options: *options,
            plan,
            memory: Some(memory),
            buffer: None,
            registration: Picoseconds::ZERO,
            data_errors: DataErrors::default(),
        };
        if options.registration == Registration::Before {
            host.register().await?;
        }
        set_up_user(device, kind, options.seed).await?;
        device.reset_counters().await?;
        let reset_at_clocks = device.time_clocks().await?;
        let (timing, end) = (Timing::default(), End::Host(host));
        Ok(Self { name, time, reset_at_clocks, channel, timing, end })
    }

    /// Sets up receive queue, channel and user circuits for writes to another card.
    pub(crate) async fn peer(from: &Device, to: &Device, options: &Options) -> Result<Self> {
        let name = format!("{} -> {}", from.function().name, to.function().name);
        check_peer(&name, options)?;
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
        let receiver = Receiver { from: from.clone(), to: to.clone(), options: *options, peer };
        let (timing, end) = (Timing::default(), End::Card(receiver));
        Ok(Self { name, time, reset_at_clocks, channel, timing, end })
    }

    /// Sets up channel and user circuit of a card that reads or writes another card's memory.
    pub(crate) async fn peer_memory(flow: PeerFlow) -> Result<Self> {
        let PeerFlow { name, owner, mover, kind, options, .. } = &flow;
        let name = name.clone();
        let channel = mover.channel(*kind, 0, options.channel()).await?;
        let time = EngineTime::of(mover).await?;
        set_up_user(mover, *kind, options.seed).await?;
        for device in [owner, mover] {
            device.reset_counters().await?;
        }
        let reset_at_clocks = mover.time_clocks().await?;
        let (timing, end) = (Timing::default(), End::Memory(flow));
        Ok(Self { name, time, reset_at_clocks, channel, timing, end })
    }

    /// The cards whose counters it reads, that of its channel first.
    pub(crate) fn devices(&self) -> Vec<&Device> {
        match &self.end {
            End::Host(host) => vec![&host.device],
            End::Card(receiver) => vec![&receiver.from, &receiver.to],
            End::Memory(flow) => vec![&flow.mover, &flow.owner],
        }
    }

    /// Notes when its card's counters were reset, which another flow has done since.
    pub(crate) async fn counters_were_reset(&mut self) -> Result<()> {
        self.reset_at_clocks = self.devices()[0].time_clocks().await?;
        Ok(())
    }

    /// Moves everything: compares what came to the host, or waits until a receive queue or another
    /// card's memory has taken it.
    pub(crate) async fn run(&mut self) -> Result<()> {
        self.timing = match &mut self.end {
            End::Host(host) => host.run(&mut self.channel).await?,
            End::Card(receiver) => receiver.run(&mut self.channel).await?,
            End::Memory(flow) => {
                let timing = run_posted(&mut self.channel, flow).await?;
                if flow.kind == ChannelKind::C2h {
                    flow.arrived().await?;
                }
                timing
            }
        };
        Ok(())
    }

    /// Reads the counters and gives everything back but memory whose contents are to be compared.
    pub(crate) async fn finish(self) -> Result<Finished> {
        let Self { name, time, reset_at_clocks, channel, timing, end } = self;
        let (device, kind, options) = match &end {
            End::Host(host) => (host.device.clone(), host.kind, host.options),
            End::Card(receiver) => (receiver.from.clone(), ChannelKind::Peer, receiver.options),
            End::Memory(flow) => (flow.mover.clone(), flow.kind, flow.options),
        };
        let counters = channel.counters().await?;
        let counted = device.time_clocks().await?.saturating_sub(reset_at_clocks);
        let hardware = time.span(&counters);
        let channels = vec![channel_of(&device, kind, counters, counted)];
        let measured = |plan, errors| {
            let measured = Measured::new(name, &options, timing, Some(hardware), plan, errors);
            Measured { channels, ..measured }
        };
        match end {
            End::Host(host) => {
                channel.close().await?;
                let errors = match kind {
                    // All is compared: a channel stops when its staging memory is empty.
                    ChannelKind::H2c => device.user().h2c_check_result().await?.into(),
                    _ => host.data_errors,
                };
                if let Some(buffer) = host.buffer {
                    buffer.unregister().await?;
                }
                let registration = Some(host.registration);
                Ok(Measured { registration, ..measured(host.plan, errors) }.into())
            }
            End::Memory(flow) if flow.kind == ChannelKind::C2h => {
                channel.close().await?;
                let plan = flow.memory.write_plan().clone();
                Ok(Finished {
                    measured: measured(plan, DataErrors::default()),
                    written: Some(flow),
                })
            }
            End::Memory(PeerFlow { memory, .. }) => {
                channel.close().await?;
                let check = device.user().h2c_check_result().await?;
                let plan = memory.plan().clone();
                memory.close().await?;
                Ok(measured(plan, check.into()).into())
            }
            End::Card(Receiver { to, peer, .. }) => {
                let lanes = vec![lane(&to, peer.receive_queue(), peer.counters().await?)];
                let check = peer.check_result().await?;
                let plan = peer.plan().clone();
                channel.close().await?;
                peer.close().await?;
                Ok(Measured { lanes, ..measured(plan, check.into()) }.into())
            }
        }
    }

    async fn measured(mut self) -> Result<Measured> {
        self.run().await?;
        self.finish().await?.compared().await
    }
}

/// Has a card's user circuit compare what an H2C channel brings, or generate what another sends.
async fn set_up_user(device: &Device, kind: ChannelKind, seed: u32) -> Result<()> {
    let user = device.user();
    user.route(StreamSource::Generator, StreamSource::Generator).await?;
    match kind {
        ChannelKind::H2c => user.check_h2c(seed).await?,
        _ => user.seed(seed).await?,
    }
    Ok(())
}

/// A flow that has ended.
pub(crate) struct Finished {
    measured: Measured,
    /// The memory that it has written.
    written: Option<PeerFlow>,
}

impl From<Measured> for Finished {
    fn from(measured: Measured) -> Self {
        Self { measured, written: None }
    }
}

impl Finished {
    /// Compares what it has written into another card's memory, by the other card's channels: no
    /// flow may use these any more.
    pub(crate) async fn compared(self) -> Result<Measured> {
        match self.written {
            Some(flow) => Ok(Measured { data_errors: flow.compared().await?, ..self.measured }),
            None => Ok(self.measured),
        }
    }
}

/// Host memory at one end of a flow, with a slot for each transfer that may be posted at once.
struct HostMemory {
    device: Device,
    /// H2C if the card reads it.
    kind: ChannelKind,
    options: Options,
    plan: Plan,
    /// Memory that is registered within each transfer, while it is not.
    memory: Option<AnyMemory>,
    /// Buffer of the memory while it is registered.
    buffer: Option<Buffer>,
    registration: Picoseconds,
    data_errors: DataErrors,
}

impl HostMemory {
    async fn register(&mut self) -> Result<()> {
        if let Some(memory) = self.memory.take() {
            let begun = self.device.bus().now();
            self.buffer = Some(self.device.register(memory).await?);
            self.registration.0 += self.device.bus().now().since(begun).0;
        }
        Ok(())
    }

    async fn unregister(&mut self) -> Result<()> {
        if let Some(buffer) = self.buffer.take() {
            self.memory = Some(buffer.unregister().await?);
        }
        Ok(())
    }

    fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("memory is registered before a transfer")
    }

    async fn run(&mut self, channel: &mut Channel) -> Result<Timing> {
        match self.options.registration {
            Registration::Before => run_posted(channel, self).await,
            Registration::Within => self.run_registering(channel).await,
        }
    }

    /// One transfer at a time, its memory registered and given back within it.
    async fn run_registering(&mut self, channel: &mut Channel) -> Result<Timing> {
        let bus = self.device.bus().clone();
        let mut timing = Timing::begin(&bus);
        for index in 0..self.options.iterations {
            let begun = bus.now();
            if self.options.system_call {
                bus.work(HostWork::SystemCall).await;
            }
            self.register().await?;
            let transfer = self.transfer(index)?;
            let posted = bus.now();
            channel.transfer(transfer).await?;
            self.completed(index)?;
            timing.first_post.get_or_insert(posted);
            self.unregister().await?;
            timing.latencies.push(bus.now().since(begun));
        }
        timing.ended = bus.now();
        Ok(timing)
    }

    fn slot(&self, index: u64) -> Range<u64> {
        let size = self.options.size_bytes;
        let start = index % (self.buffer().size_bytes() / size) * size;
        start..start + size
    }

    fn first_word(&self, index: u64) -> u64 {
        index * self.options.size_bytes / WORD_BYTES
    }
}

impl Source for HostMemory {
    fn bus(&self) -> &AnyBus {
        self.device.bus()
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn transfer(&mut self, index: u64) -> Result<Transfer> {
        let (slot, buffer) = (self.slot(index), self.buffer());
        if self.kind == ChannelKind::H2c {
            let (size, seed) = (self.options.size_bytes, self.options.seed);
            fill(buffer, slot.start, size, seed, self.first_word(index))?;
        }
        Ok(Transfer {
            target: Target::Buffer(buffer.clone(), slot),
            level: CompletionLevel::Visible,
            deadline: self.options.deadline(self.bus()),
        })
    }

    fn completed(&mut self, index: u64) -> Result<()> {
        if self.kind == ChannelKind::C2h && self.options.check {
            let (start, first) = (self.slot(index).start, self.first_word(index));
            let (size, seed) = (self.options.size_bytes, self.options.seed);
            let buffer = self.buffer.as_ref().expect("memory is registered in a transfer");
            compare(buffer, start, size, seed, first, &mut self.data_errors)?;
        }
        Ok(())
    }
}

/// The receive queue of a card that another one writes to.
struct Receiver {
    from: Device,
    to: Device,
    options: Options,
    peer: Peer,
}

impl Receiver {
    async fn run(&mut self, channel: &mut Channel) -> Result<Timing> {
        let timing = match self.options.descriptors {
            DescriptorSource::CommandPort => self.run_commands().await?,
            _ => run_posted(channel, self).await?,
        };
        let place =
            format!("receive queue {} of {}", self.peer.receive_queue(), self.to.function().name);
        let sent_bytes = self.options.size_bytes * self.options.iterations;
        let timeout = self.options.timeout;
        wait_drained(self.from.bus(), &self.peer, &place, sent_bytes, timeout).await?;
        Ok(timing)
    }

    /// One command at a time, as the user circuit has one port.
    async fn run_commands(&self) -> Result<Timing> {
        let (bus, user) = (self.from.bus(), self.from.user());
        let mut timing = Timing::begin(bus);
        for _ in 0..self.options.iterations {
            let begun = bus.now();
            if self.options.system_call {
                bus.work(HostWork::SystemCall).await;
            }
            timing.first_post.get_or_insert(bus.now());
            user.command(self.peer.address(), self.options.size_bytes as u32).await?;
            user.command_done(self.options.deadline(bus)).await?;
            timing.latencies.push(bus.now().since(begun));
        }
        timing.ended = bus.now();
        Ok(timing)
    }
}

impl Source for Receiver {
    fn bus(&self) -> &AnyBus {
        self.from.bus()
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn transfer(&mut self, _index: u64) -> Result<Transfer> {
        let level = match self.options.credits {
            true => CompletionLevel::Acknowledged,
            false => CompletionLevel::Sent,
        };
        Ok(Transfer {
            target: self.peer.target(self.options.size_bytes),
            level,
            deadline: self.options.deadline(self.bus()),
        })
    }
}

/// Rejects option combinations that a peer write does not support.
fn check_peer(place: &str, options: &Options) -> Result<()> {
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

/// Waits until a receive queue has passed on a number of bytes since it was claimed.
pub(crate) async fn wait_drained(
    bus: &AnyBus,
    peer: &Peer,
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

/// A run as the application has seen it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    /// Start of the run.
    pub(crate) started: Picoseconds,
    /// Time of the last completion.
    pub(crate) ended: Picoseconds,
    /// The first post began.
    pub(crate) first_post: Option<Picoseconds>,
    /// Time of each transfer, in order.
    pub(crate) latencies: Vec<Picoseconds>,
}

impl Timing {
    fn begin(bus: &impl Bus) -> Self {
        Self { started: bus.now(), ..Self::default() }
    }
}

/// Source of the transfers of a run.
pub(crate) trait Source {
    /// The bus of the core that posts.
    fn bus(&self) -> &AnyBus;

    /// Returns the options of the run.
    fn options(&self) -> &Options;

    /// Transfer number `index`, ready to be posted.
    fn transfer(&mut self, index: u64) -> Result<Transfer>;

    /// Called when the transfer with this index is complete.
    fn completed(&mut self, _index: u64) -> Result<()> {
        Ok(())
    }

    /// Returns the time of a transfer that the application began to post at `begun`.
    fn time(&self, begun: Picoseconds, completed: &Completed) -> Picoseconds {
        completed.completed.since(begun)
    }
}

/// A transfer on its way.
struct Posted {
    ticket: Ticket,
    index: u64,
    begun: Picoseconds,
}

/// Posts all transfers of a source and waits for them, with as many on their way as the options
/// say. Transfers that complete together are posted anew together, with one doorbell.
pub(crate) async fn run_posted<S: Source>(channel: &mut Channel, source: &mut S) -> Result<Timing> {
    let bus = source.bus().clone();
    let mut timing = Timing::begin(&bus);
    let iterations = source.options().iterations;
    let mut posted = VecDeque::new();
    let mut next = 0;
    while next < iterations || !posted.is_empty() {
        let room = u64::from(source.options().outstanding) - posted.len() as u64;
        let batch = room.min(iterations - next);
        if batch > 0 {
            post(channel, source, next..next + batch, &mut posted, &mut timing).await?;
            next += batch;
        }
        let Some(oldest) = posted.pop_front() else { break };
        let completed = channel.wait(oldest.ticket).await?;
        end(source, &oldest, completed, &mut timing)?;
        while let Some(front) = posted.front() {
            let Some(completed) = channel.poll(front.ticket).await? else { break };
            end(source, front, completed, &mut timing)?;
            posted.pop_front();
        }
    }
    timing.ended = bus.now();
    Ok(timing)
}

async fn post<S: Source>(
    channel: &mut Channel,
    source: &mut S,
    indices: Range<u64>,
    posted: &mut VecDeque<Posted>,
    timing: &mut Timing,
) -> Result<()> {
    let bus = source.bus().clone();
    let begun = bus.now();
    if source.options().system_call {
        for _ in indices.clone() {
            bus.work(HostWork::SystemCall).await;
        }
    }
    let transfers: Vec<Transfer> =
        indices.clone().map(|index| source.transfer(index)).collect::<Result<_, _>>()?;
    timing.first_post.get_or_insert(bus.now());
    let tickets = channel.post(&transfers).await?;
    posted.extend(tickets.into_iter().zip(indices).map(|(ticket, index)| Posted {
        ticket,
        index,
        begun,
    }));
    Ok(())
}

fn end<S: Source>(
    source: &mut S,
    posted: &Posted,
    completed: Completed,
    timing: &mut Timing,
) -> Result<()> {
    timing.latencies.push(source.time(posted.begun, &completed));
    source.completed(posted.index)
}
