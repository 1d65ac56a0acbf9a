// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A peer channel and a receive queue of another engine, with one account of bytes between them.
//!
//! Both ends count bytes from 0, absolutely. So neither end is ever restarted alone: a receive
//! queue restarted under a running sender would promise room that it does not have.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crosslane_host::ErrorKind::{Busy, Failed, InvalidArgument, Unsupported};
use crosslane_host::{Bus, Topology, lock, setters};
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};
use crosslane_regs::engine::{self, channel, lane};
use smart_default::SmartDefault;

use crate::access::REGISTER_BAR;
use crate::channel::{ChannelKind, DescriptorSource, Target, payload_on_the_way};
use crate::device::{Device, WINDOW_BAR};
use crate::error::{DriverError, Result};
use crate::plan::{Addressing, PathEnd, Plan, PlanError};
use crate::shared::channel_registers;
use crate::user::Check;

/// Longest wait for data and credits in flight between two engines before both are restarted.
/// Longer than any path takes that is not blocked; data in a blocked receive queue would never
/// leave.
const SETTLING: Picoseconds = Picoseconds::from_us(50);
/// Restarts of a receive queue that keeps getting data, before that is an error.
const RESTARTS: u32 = 16;

/// Behaviour of a receive queue whose FIFO is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveQueuePolicy {
    /// Holds the link's credits, which blocks all later traffic.
    Stall,
    /// Drops data that do not fit, and reports it.
    Drop,
}

/// Options of a connection between two engines. By default: channel 0, with credits.
#[derive(Clone, Copy, Debug, SmartDefault, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerOptions {
    /// Number of the sender's peer channel.
    pub channel: u8,
    /// Keep a credit window as large as the receive queue's FIFO. Without one the sender never
    /// stops, like the rosta paper's engine.
    #[default(true)]
    pub credits: bool,
    /// Behaviour when the receive queue is full.
    #[default(ReceiveQueuePolicy::Stall)]
    pub policy: ReceiveQueuePolicy,
}

setters!(PeerOptions {
    with_channel(channel: u8),
    with_credits(credits: bool),
    with_policy(policy: ReceiveQueuePolicy),
});

/// Counters of a receive queue. Times are in clocks of its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveQueueCounters {
    /// Bytes received, modulo 2^32.
    pub received_bytes: u32,
    /// Bytes taken out, modulo 2^32.
    pub drained_bytes: u32,
    /// Bytes in the FIFO.
    pub fill_bytes: u32,
    /// Whether data were lost.
    pub overflow: bool,
    /// Time of the first TLP received.
    pub first_clocks: u64,
    /// Time of the last TLP received.
    pub last_clocks: u64,
}

/// A receive queue in use until this is dropped.
struct Lane {
    target: Device,
    number: u8,
}

impl Lane {
    fn take(target: &Device) -> Result<Self> {
        let shared = target.shared();
        let mut given = lock(&shared.given);
        let Some(free) = given.lanes.iter().position(|&taken| !taken) else {
            let problem = format!("all {} receive queues are in use", given.lanes.len());
            return Err(shared.refused(Busy, problem));
        };
        given.lanes[free] = true;
        drop(given);
        Ok(Self { target: target.clone(), number: free as u8 })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        lock(&self.target.shared().given).lanes[usize::from(self.number)] = false;
    }
}

/// A sender's peer channel and the receive queue that it writes to.
pub(crate) struct Connection {
    sender: Device,
    /// Number of the sender's peer channel.
    channel: u8,
    lane: Lane,
    address: BusAddress,
    /// Bus address of the sender's registers as the receive queue sees it, to which it writes
    /// credits.
    credit_base: BusAddress,
    /// BARs pinned for the traffic between the two: function, peer, number of the BAR.
    pinned: Mutex<Vec<(RoutingId, RoutingId, u8)>>,
    window_bytes: u64,
    credits: bool,
    /// Value of the queue's control register.
    control: AtomicU32,
    /// Whether both ends must restart before the next transfer.
    begins_anew: AtomicBool,
}

impl Connection {
    /// Name for messages: `lane 2 of fpga3`.
    pub fn place(&self) -> String {
        format!("receive queue {} of {}", self.lane.number, self.lane.target.function().name)
    }

    pub fn address(&self) -> BusAddress {
        self.address
    }

    /// Function that has the receive queue.
    pub fn target_id(&self) -> RoutingId {
        self.lane.target.function().id
    }

    pub fn has_credits(&self) -> bool {
        self.credits
    }

    pub fn contains(&self, address: BusAddress) -> bool {
        (self.address.0..self.address.0 + self.window_bytes).contains(&address.0)
    }

    pub async fn read(&self, register: u32) -> Result<u32> {
        let base = engine::LANES.at(self.lane.number.into());
        self.lane.target.read(base + register).await
    }

    async fn write(&self, register: u32, value: u32) -> Result<()> {
        let base = engine::LANES.at(self.lane.number.into());
        self.lane.target.write(base + register, value).await
    }

    pub async fn read_pair(&self, low: u32, high: u32) -> Result<u64> {
        let base = engine::LANES.at(self.lane.number.into());
        self.lane.target.read_pair(base + low, base + high).await
    }

    /// Tells the receive queue its sender's address, and lets it take data.
    async fn set_up_queue(&self) -> Result<()> {
        let registers = channel_registers((ChannelKind::Peer, self.channel));
        let credit = self.credit_base.offset(u64::from(registers + channel::CREDIT));
        self.write(lane::CONTROL, 0).await?;
        let lanes = engine::LANES.at(self.lane.number.into());
        let low = (lanes + lane::CREDIT_LOW, credit.0 as u32);
        let high = (lanes + lane::CREDIT_HIGH, (credit.0 >> 32) as u32);
        self.lane.target.set(&[low, high]).await?;
        self.restart_queue().await
    }

    /// Waits until everything sent has arrived and been taken out, at most for [`SETTLING`].
    /// Returns the bytes that have not arrived by then; 0 without credits, as the two ends then
    /// share no account. The sender must be idle.
    pub async fn settle(&self) -> Result<u32> {
        if !self.credits {
            return Ok(0);
        }
        let registers = channel_registers((ChannelKind::Peer, self.channel));
        let sent = self.sender.read(registers + channel::SENT).await?;
        let bus = self.sender.bus();
        let end = Picoseconds(bus.now().0.saturating_add(SETTLING.0));
        loop {
            let drained = self.read(lane::DRAINED).await?;
            if drained == sent || bus.now() >= end {
                return Ok(sent.wrapping_sub(self.read(lane::RECEIVED).await?));
            }
        }
    }

    /// Empties the receive queue and restarts its account. The sender must be idle.
    pub async fn restart_queue(&self) -> Result<()> {
        let control = self.control.load(Ordering::Acquire);
        let quiet = control & !lane::control::RETURN_CREDITS.mask();
        for _ in 0..RESTARTS {
            // It must send no credits of the old account while it is emptied.
            self.write(lane::CONTROL, quiet | lane::control::RESTART.put(1)).await?;
            let lanes = engine::LANES.at(self.lane.number.into());
            self.lane.target.set(&[(lanes + lane::CONTROL, control)]).await?;
            if self.read(lane::RECEIVED).await? == 0 {
                return Ok(());
            }
        }
        let problem = "data keep arriving while it is restarted";
        Err(DriverError::StillArriving { place: self.place(), kind: Busy, problem })
    }

    /// Writes the sender's credit window and aperture.
    pub async fn set_up_sender(&self) -> Result<()> {
        let window = if self.credits { self.lane.target.description().lane_fifo_bytes } else { 0 };
        set_window(&self.sender, self.channel, window, self.window_bytes as u32).await
    }

    /// Compares the data that the receive queue drains with the pattern of `seed`. Its checker
    /// starts at word 0 when the queue is restarted, so if the queue has taken data the whole
    /// account restarts.
    pub async fn check(&self, seed: u32) -> Result<()> {
        self.write(lane::CHECK_SEED, seed).await?;
        self.control.fetch_or(lane::control::CHECK.mask(), Ordering::AcqRel);
        if !self.credits || self.read(lane::RECEIVED).await? == 0 {
            return self.restart_queue().await;
        }
        self.begins_anew.store(true, Ordering::Release);
        self.begin_at_command_port().await
    }

    /// Restarts the account if the sender's channel takes commands, since no post to it could do
    /// so. Other channels do it before their next transfer, or when they are opened.
    async fn begin_at_command_port(&self) -> Result<()> {
        let key = (ChannelKind::Peer, self.channel);
        let Some(options) = self.sender.shared().open_channel(key) else { return Ok(()) };
        if options.descriptors != DescriptorSource::CommandPort {
            return Ok(());
        }
        let payload_bytes = payload_on_the_way(&self.sender, key, options, Some(self))?;
        let control_at = channel_registers(key) + channel::CONTROL;
        let control = self.sender.read(control_at).await?;
        self.sender.write(control_at, control & !channel::control::RUN.mask()).await?;
        restart(&self.sender, key, Some(self)).await?;
        let payload = (channel_registers(key) + channel::PAYLOAD, payload_bytes);
        self.sender.set(&[payload, (control_at, control)]).await
    }

    /// Closes the receive queue once all data in flight have arrived.
    pub async fn close(&self) -> Result<()> {
        let key = (ChannelKind::Peer, self.channel);
        let source = self.sender.shared().open_channel(key).map(|options| options.descriptors);
        // A closed channel waited before it forgot its account.
        if source.is_some() {
            self.settle().await?;
        }
        self.write(lane::CONTROL, 0).await?;
        // A channel with another descriptor source notices the disconnection at its next transfer.
        if source == Some(DescriptorSource::CommandPort) {
            set_window(&self.sender, self.channel, 0, 0).await?;
        }
        self.unpin().await
    }

    /// Maps the BARs behind an IOMMU, for data and for returned credits, and takes over the
    /// addresses that the engines must use.
    async fn pin(&mut self, plan: &Plan) -> Result<()> {
        let (from, to) = (self.sender.function().id, self.target_id());
        if plan.addressing == Addressing::Mapped {
            let offset_bytes = self.window_bytes * u64::from(self.lane.number);
            let base = self.pin_bar((from, to, WINDOW_BAR as u8)).await?;
            self.address = base.offset(offset_bytes);
        }
        if !self.credits {
            return Ok(());
        }
        let bus = self.sender.bus();
        let is_translated = bus.is_translated(to).map_err(PlanError::Topology)?;
        if is_translated {
            let back = Plan::new(bus, PathEnd::Function(to), PathEnd::Function(from))?;
            if back.addressing == Addressing::Mapped {
                self.credit_base = self.pin_bar((to, from, REGISTER_BAR)).await?;
            }
        }
        Ok(())
    }

    async fn pin_bar(
        &self,
        (function, peer, bar): (RoutingId, RoutingId, u8),
    ) -> Result<BusAddress> {
        let base = self.sender.bus().pin_bar(function, peer, bar).await;
        let base = base.map_err(|error| self.sender.shared().bus_error(error))?;
        lock(&self.pinned).push((function, peer, bar));
        Ok(base)
    }

    /// Unmaps the pinned BARs. A dropped connection leaves them mapped.
    async fn unpin(&self) -> Result<()> {
        let pinned = std::mem::take(&mut *lock(&self.pinned));
        for (function, peer, bar) in pinned {
            let unpinned = self.sender.bus().unpin_bar(function, peer, bar).await;
            unpinned.map_err(|error| self.sender.shared().bus_error(error))?;
        }
        Ok(())
    }
}

/// Writes credit window and aperture of a peer channel.
async fn set_window(
    sender: &Device,
    number: u8,
    window_bytes: u32,
    aperture_bytes: u32,
) -> Result<()> {
    let registers = channel_registers((ChannelKind::Peer, number));
    let window = (registers + channel::CREDIT_WINDOW, window_bytes);
    sender.set(&[window, (registers + channel::APERTURE, aperture_bytes)]).await
}

/// Value of the control register of a channel that was restarted and has not run since. No other
/// state has it, as a channel that is set up has `status_enable`.
const RESTARTED: u32 = channel::control::RELAXED_ORDERING.mask();

/// Restarts an idle channel, and with a peer channel its receive queue, so that both count from 0.
/// On return everything that the device sent before has arrived in host memory. The channel does
/// not run.
pub(crate) async fn restart(
    device: &Device,
    (kind, number): (ChannelKind, u8),
    connection: Option<&Connection>,
) -> Result<()> {
    let registers = channel_registers((kind, number));
    let with_credits = connection.filter(|connection| connection.credits);
    if let Some(connection) = with_credits {
        connection.settle().await?;
        connection.restart_queue().await?;
    }
    if kind == ChannelKind::Peer {
        match connection {
            Some(connection) => connection.set_up_sender().await?,
            None => set_window(device, number, 0, 0).await?,
        }
    }
    for _ in 0..RESTARTS {
        let restart = channel::control::RESTART.put(1) | RESTARTED;
        device.write(registers + channel::CONTROL, restart).await?;
        // The answer pushes everything that the engine sent before it into memory.
        if device.read(registers + channel::CONTROL).await? != RESTARTED {
            // A link was down for a moment and lost the restart.
            continue;
        }
        let Some(connection) = with_credits else { return Ok(()) };
        if device.read(registers + channel::CREDIT).await? == 0 {
            connection.begins_anew.store(false, Ordering::Release);
            return Ok(());
        }
        // A credit write of the old account was still in flight: restart again to forget it.
    }
    let place = device.shared().place((kind, number));
    let problem = "it does not restart, or credits keep arriving";
    Err(DriverError::StillArriving { place, kind: Failed, problem })
}

/// A connection from one engine's peer channel to a receive queue of another. The queue is free
/// again when this is closed, or when this and every transfer to it are gone.
pub struct Peer {
    connection: Arc<Connection>,
    plan: Plan,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({} at {})", self.connection.place(), self.address())
    }
}

impl Peer {
    /// Returns the address of the receive queue, for the command port of the sender's user circuit.
    pub fn address(&self) -> BusAddress {
        self.connection.address()
    }

    /// Returns the number of the receive queue at the target.
    pub fn receive_queue(&self) -> u8 {
        self.connection.lane.number
    }

    /// Returns the target for a transfer of `bytes` on the sender's peer channel.
    pub fn target(&self, bytes: u64) -> Target {
        Target::Bus(self.address(), bytes)
    }

    /// Returns the plan: the path, and the expected rate.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Starts comparing the data that the receive queue drains with the generator's pattern of this
    /// seed. If the sender's channel is restarted, by `cancel`, `restart`, a deadline or a new
    /// opening, the queue is emptied with it and the comparison restarts at word 0.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check(&self, seed: u32) -> Result<()> {
        self.connection.check(seed).await
    }

    /// Reads the number of wrong words since [`check`](Self::check), and the position of the first.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check_result(&self) -> Result<Check> {
        let errors = self.connection.read(lane::CHECK_ERRORS).await?;
        Ok(Check::new(errors, self.connection.read(lane::CHECK_FIRST).await?))
    }

    /// Reads the receive queue's counters.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn counters(&self) -> Result<ReceiveQueueCounters> {
        let lane = &self.connection;
        Ok(ReceiveQueueCounters {
            received_bytes: lane.read(lane::RECEIVED).await?,
            drained_bytes: lane.read(lane::DRAINED).await?,
            fill_bytes: lane.read(lane::FILL).await?,
            overflow: lane::status::OVERFLOW.get(lane.read(lane::STATUS).await?) != 0,
            first_clocks: lane.read_pair(lane::FIRST_LOW, lane::FIRST_HIGH).await?,
            last_clocks: lane.read_pair(lane::LAST_LOW, lane::LAST_HIGH).await?,
        })
    }

    /// Gives the receive queue back once all data in flight have arrived.
    ///
    /// # Errors
    /// A device does not answer, or a transfer to the queue is in flight: the queue is then freed
    /// when that has ended.
    pub async fn close(self) -> Result<()> {
        // Transfers in flight hold the connection too.
        if Arc::strong_count(&self.connection) > 1 {
            let problem = "a transfer to it is in flight";
            return Err(DriverError::refused(self.connection.place(), Busy, problem));
        }
        self.connection.close().await
    }
}

/// See [`Device::connect`].
pub(crate) async fn connect(
    sender: &Device,
    target: &Device,
    options: PeerOptions,
) -> Result<Peer> {
    let number = options.channel;
    let (shared, wanted) = (sender.shared(), target.function());
    let have = shared.description.peer_channels;
    if number >= have {
        let problem = format!("there is no peer channel {number}: it has {have}, from 0 on");
        return Err(shared.refused(InvalidArgument, problem));
    }
    let functions = sender.bus().functions();
    let functions = functions.map_err(|error| shared.bus_error(error.into()))?;
    if !functions.contains(wanted) {
        let problem = format!("{} ({}) is not below the same host", wanted.name, wanted.id);
        return Err(shared.refused(Unsupported, problem));
    }
    if wanted.id == sender.function().id {
        return Err(shared.refused(InvalidArgument, "it cannot be connected to itself"));
    }
    let from = PathEnd::Function(sender.function().id);
    let mut plan = Plan::new(sender.bus(), from, PathEnd::Function(wanted.id))?;
    refuse_second_connection(sender, number)?;
    let mut connection = claim(sender, target, options)?;
    if plan.addressing == Addressing::Bus {
        // Another BAR of the target may be larger, and above 4 GiB.
        plan.expected_bytes_per_second = plan.expected_at(connection.address);
    }
    let pinned = connection.pin(&plan).await;
    let connection = Arc::new(connection);
    let begun = match pinned {
        Ok(()) => begin(sender, number, &connection).await,
        Err(error) => Err(error),
    };
    if let Err(error) = begun {
        // The first failure is the one to report.
        let _ = connection.unpin().await;
        return Err(error);
    }
    Ok(Peer { connection, plan })
}

/// Sets up both ends of a new connection.
async fn begin(sender: &Device, number: u8, connection: &Arc<Connection>) -> Result<()> {
    let shared = sender.shared();
    if let Some(options) = shared.open_channel((ChannelKind::Peer, number)) {
        payload_on_the_way(sender, (ChannelKind::Peer, number), options, Some(connection))?;
    }
    connection.set_up_queue().await?;
    refuse_second_connection(sender, number)?;
    lock(&shared.given).connections[usize::from(number)] = Arc::downgrade(connection);
    connection.begin_at_command_port().await
}

fn refuse_second_connection(sender: &Device, number: u8) -> Result<()> {
    let Some(connection) = sender.shared().connection(number) else { return Ok(()) };
    let place = sender.shared().place((ChannelKind::Peer, number));
    let problem = format!("it is connected to {} already", connection.place());
    Err(DriverError::refused(place, Busy, problem))
}

/// Claims a receive queue of the target.
fn claim(sender: &Device, target: &Device, options: PeerOptions) -> Result<Connection> {
    let lane = Lane::take(target)?;
    let window_bytes = target.description().lane_window_bytes;
    let bar = target.function().bars.iter().find(|bar| bar.index == WINDOW_BAR);
    let end = window_bytes * (u64::from(lane.number) + 1);
    let Some(bar) = bar.filter(|bar| window_bytes > 0 && end <= bar.size_bytes) else {
        let problem = format!("receive queue {} is not in its BAR{WINDOW_BAR}", lane.number);
        return Err(target.shared().refused(Unsupported, problem));
    };
    let control = lane::control::ENABLE.put(1)
        | lane::control::DROP_WHEN_FULL.put(u32::from(options.policy == ReceiveQueuePolicy::Drop))
        | lane::control::RETURN_CREDITS.put(u32::from(options.credits));
    let registers = &sender.function().bars;
    let registers = registers.iter().find(|bar| bar.index == usize::from(REGISTER_BAR));
    Ok(Connection {
        sender: sender.clone(),
        channel: options.channel,
        // An open sender has that BAR.
        credit_base: registers.map_or(BusAddress(0), |bar| bar.base),
        pinned: Mutex::default(),
        address: bar.base.offset(window_bytes * u64::from(lane.number)),
        lane,
        window_bytes,
        credits: options.credits,
        control: AtomicU32::new(control),
        begins_anew: AtomicBool::new(false),
    })
}

/// Returns whether a channel is now connected to something else, or must restart its account.
pub(crate) fn has_changed(
    applied: Option<&Weak<Connection>>,
    current: Option<&Arc<Connection>>,
) -> bool {
    match (applied, current) {
        (None, None) => false,
        (Some(applied), Some(current)) => {
            !std::ptr::eq(applied.as_ptr(), Arc::as_ptr(current))
                || current.begins_anew.load(Ordering::Acquire)
        }
        _ => true,
    }
}
