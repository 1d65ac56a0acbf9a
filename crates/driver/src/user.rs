// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user circuit: sources of the streams, the command port, ping-pong.

use crosslane_host::ErrorKind::{Busy, Failed, InvalidArgument};
use crosslane_host::{Bus, BusError, ErrorKind, lock};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_regs::engine::{self, ChannelState, channel, user};

use crate::channel::{ChannelKind, DescriptorSource};
use crate::device::Device;
use crate::error::{DriverError, Result, TransferFault};
use crate::shared::{CommandPort, channel_registers};

/// Channel of the command port.
const COMMAND_CHANNEL: (ChannelKind, u8) = (ChannelKind::Peer, 0);
/// Registers for the address, lower half first, and the length.
const COMMAND_REGISTERS: [u32; 3] = [user::COMMAND_LOW, user::COMMAND_HIGH, user::COMMAND_BYTES];
/// Longest time between two polls of the command port. Each takes link time from the data:
/// back-to-back polling costs nearly 1 % of a Gen2 x4 link.
const MOST_BETWEEN_LOOKS: Picoseconds = Picoseconds::from_us(10);
/// Divisor of the time waited so far that gives the time to the next poll, so that the end of a
/// short wait is noticed early.
const LOOK_AFTER_PART: u64 = 16;
/// Polls of the command port between two checks of its channel's state.
const LOOKS_PER_STATE: u32 = 16;

/// Source of an outgoing stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamSource {
    /// The generator.
    Generator,
    /// H2C channel 0.
    H2c,
    /// A receive queue, by number.
    ReceiveQueue(u8),
}

impl StreamSource {
    const fn bits(self) -> u32 {
        match self {
            Self::Generator => engine::StreamSource::Generator.bits(),
            Self::H2c => engine::StreamSource::H2c.bits(),
            Self::ReceiveQueue(_) => engine::StreamSource::Lane.bits(),
        }
    }

    const fn receive_queue(self) -> Option<u8> {
        match self {
            Self::ReceiveQueue(lane) => Some(lane),
            Self::Generator | Self::H2c => None,
        }
    }
}

/// Returns word `n` of the generator's pattern.
pub const fn pattern_word(seed: u32, n: u32) -> u32 {
    seed.wrapping_add(n.wrapping_mul(0x9e37_79b1))
}

/// Writes the generator's pattern from word `n` on; the last word may be cut off.
pub fn fill_pattern(out: &mut [u8], seed: u32, n: u32) {
    let (words, last) = out.as_chunks_mut();
    let mut number = n;
    for word in words {
        *word = pattern_word(seed, number).to_le_bytes();
        number = number.wrapping_add(1);
    }
    last.copy_from_slice(&pattern_word(seed, number).to_le_bytes()[..last.len()]);
}

/// Returns whether whole words are the generator's pattern from word `n` on.
pub fn is_pattern(words: &[[u8; 4]], seed: u32, n: u32) -> bool {
    // Many are compared at once.
    let mut differs = 0;
    let mut number = n;
    for word in words {
        differs |= u32::from_le_bytes(*word) ^ pattern_word(seed, number);
        number = number.wrapping_add(1);
    }
    differs == 0
}

/// Result of a checker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Number of wrong words.
    pub errors: u32,
    /// Position of the first wrong word, if any.
    pub first_word: Option<u32>,
}

impl Check {
    pub(crate) fn new(errors: u32, first_word: u32) -> Self {
        Self { errors, first_word: (errors > 0).then_some(first_word) }
    }
}

/// Round trips of a ping-pong, as measured by the initiator's hardware timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingPong {
    /// Number of round trips.
    pub rounds: u32,
    /// Sum of their times, in clocks.
    pub sum_clocks: u64,
    /// Shortest time, in clocks.
    pub least_clocks: u32,
    /// Longest time, in clocks.
    pub most_clocks: u32,
}

/// A handle on the user circuit of an engine.
#[derive(Clone)]
pub struct User {
    device: Device,
}

impl User {
    pub(crate) fn new(device: Device) -> Self {
        Self { device }
    }

    /// Returns word `n` of the generator's pattern.
    pub const fn pattern(seed: u32, n: u32) -> u32 {
        pattern_word(seed, n)
    }

    fn refused(&self, kind: ErrorKind, problem: impl Into<String>) -> DriverError {
        let place = format!("{} user circuit", self.device.function().name);
        DriverError::refused(place, kind, problem)
    }

    async fn read(&self, register: u32) -> Result<u32> {
        self.device.read(engine::USER + register).await
    }

    async fn write(&self, register: u32, value: u32) -> Result<()> {
        self.device.write(engine::USER + register, value).await
    }

    /// Selects the sources of C2H channel 0 and peer channel 0. Only one receive queue can be
    /// routed. Call it while neither has anything to send: the rest of a TLP in progress may come
    /// from the new source.
    ///
    /// # Errors
    /// Two different receive queues, one that does not exist, or no answer.
    pub async fn route(&self, c2h: StreamSource, peer: StreamSource) -> Result<()> {
        if let (Some(one), Some(other)) = (c2h.receive_queue(), peer.receive_queue())
            && one != other
        {
            let problem =
                format!("receive queues {one} and {other} cannot both be routed: only one can");
            return Err(self.refused(InvalidArgument, problem));
        }
        let lane = c2h.receive_queue().or(peer.receive_queue()).unwrap_or(0);
        let lanes = self.device.description().lanes;
        if lane >= lanes && (c2h.receive_queue().is_some() || peer.receive_queue().is_some()) {
            let problem = format!("there is no receive queue {lane}: it has {lanes}, from 0 on");
            return Err(self.refused(InvalidArgument, problem));
        }
        let value = user::interconnect::C2H_SOURCE.put(c2h.bits())
            | user::interconnect::PEER_SOURCE.put(peer.bits())
            | user::interconnect::LANE.put(lane.into());
        self.device.set(&[(engine::USER + user::INTERCONNECT, value)]).await
    }

    /// Seeds the generator; both generated streams restart. The write is posted and not read back:
    /// a link that fails meanwhile may lose it, and the streams keep the seed that they had.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn seed(&self, seed: u32) -> Result<()> {
        self.write(user::GENERATOR_SEED, seed).await
    }

    /// Starts comparing the data of H2C channel 0 with the pattern of `seed`, while it feeds no
    /// stream. A transfer is complete when its data are in the channel's staging memory; those that
    /// still wait there are compared, too. [`Channel::restart`](crate::Channel::restart) ends when
    /// there are none. These writes are not read back either.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check_h2c(&self, seed: u32) -> Result<()> {
        self.write(user::H2C_CHECK_SEED, seed).await?;
        let on = user::h2c_check::ENABLE.put(1) | user::h2c_check::RESTART.put(1);
        self.write(user::H2C_CHECK, on).await
    }

    /// Reads the result of the H2C checker, of what it has compared so far.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn h2c_check_result(&self) -> Result<Check> {
        let errors = self.read(user::H2C_CHECK_ERRORS).await?;
        Ok(Check::new(errors, self.read(user::H2C_CHECK_FIRST).await?))
    }

    /// Starts a peer write at the command port; peer channel 0 must be open with
    /// [`CommandPort`](crate::DescriptorSource::CommandPort).
    ///
    /// # Errors
    /// A length of 0, one not of whole double words into a receive queue that the channel is
    /// connected to, a command that is still running, or no answer.
    pub async fn command(&self, address: BusAddress, bytes: u32) -> Result<()> {
        self.set_command(address, bytes).await?;
        self.knows(|port| (port.due, port.is_idle) = (port.due.wrapping_add(1), false));
        self.write(user::COMMAND, user::command::START.put(1)).await
    }

    /// Reads or updates the knowledge of the command port.
    fn knows<R>(&self, look: impl FnOnce(&mut CommandPort) -> R) -> R {
        look(&mut lock(&self.device.shared().given).command_port)
    }

    /// Reads the command port's registers and state, before any timing starts.
    pub(crate) async fn look_at_command_port(&self) -> Result<()> {
        let mut held = [0; 3];
        for (held, register) in held.iter_mut().zip(COMMAND_REGISTERS) {
            *held = self.read(register).await?;
        }
        self.knows(|port| port.holds = Some(held));
        self.find_idle().await.map(|_| ())
    }

    /// Returns whether no command is running.
    async fn find_idle(&self) -> Result<bool> {
        if self.knows(|port| port.is_idle) {
            return Ok(true);
        }
        if user::command_status::BUSY.get(self.read(user::COMMAND_STATUS).await?) != 0 {
            return Ok(false);
        }
        let done = self.read(user::COMMAND_DONE).await?;
        self.knows(|port| (port.due, port.is_idle) = (done, true));
        Ok(true)
    }

    /// Checks a command and writes it to the command port.
    async fn set_command(&self, address: BusAddress, bytes: u32) -> Result<()> {
        let shared = self.device.shared();
        let source = shared.open_channel(COMMAND_CHANNEL).map(|options| options.descriptors);
        if source != Some(DescriptorSource::CommandPort) {
            let place = shared.place(COMMAND_CHANNEL);
            let problem = "it is not open for the command port";
            return Err(DriverError::refused(place, InvalidArgument, problem));
        }
        shared.check_peer_write(COMMAND_CHANNEL.1, address, bytes.into())?;
        if !self.find_idle().await? {
            return Err(self.refused(Busy, "a command is still being worked off"));
        }
        // Changed registers are read back: with half an address the card would write somewhere
        // else.
        let wanted = [address.0 as u32, (address.0 >> 32) as u32, bytes];
        let held = self.knows(|port| port.holds.take());
        let changes: Vec<(u32, u32)> = (0..wanted.len())
            .filter(|&n| held.is_none_or(|held| held[n] != wanted[n]))
            .map(|n| (engine::USER + COMMAND_REGISTERS[n], wanted[n]))
            .collect();
        self.device.set(&changes).await?;
        self.knows(|port| port.holds = Some(wanted));
        Ok(())
    }

    /// Waits until the command has finished, by polling a register: only a deadline ends the wait
    /// for a command that never finishes.
    ///
    /// # Errors
    /// The deadline has passed, the peer channel has stopped, or the device does not answer.
    pub async fn command_done(&self, deadline: Picoseconds) -> Result<()> {
        let due = self.knows(|port| port.due);
        self.poll(user::COMMAND_DONE, due, "the end of a command", deadline).await?;
        self.knows(|port| port.is_idle = true);
        Ok(())
    }

    /// Polls a count until it has reached `due`.
    async fn poll(&self, register: u32, due: u32, what: &str, deadline: Picoseconds) -> Result<()> {
        let bus = self.device.bus();
        let begun = bus.now();
        let mut looks = 0_u32;
        loop {
            let count = self.read(register).await?;
            // Counts wrap at 2^32: one ahead of `due` by less than half of that has reached it.
            if count.wrapping_sub(due) < 1 << 31 {
                return Ok(());
            }
            looks = looks.wrapping_add(1);
            let now = bus.now();
            let has_passed = now >= deadline;
            if has_passed || looks.is_multiple_of(LOOKS_PER_STATE) {
                self.check_channel().await?;
            }
            if has_passed {
                let source = BusError::Deadline { what: what.to_owned(), deadline };
                return Err(self.device.shared().bus_error(source));
            }
            let pause = (now.since(begun).0 / LOOK_AFTER_PART).min(MOST_BETWEEN_LOOKS.0);
            bus.sleep_until(Picoseconds(now.0.saturating_add(pause)).min(deadline)).await;
        }
    }

    /// Returns an error if the command port's channel has stopped.
    async fn check_channel(&self) -> Result<()> {
        let status = self.device.read(channel_registers(COMMAND_CHANNEL) + channel::STATUS).await?;
        if channel::status::STATE.get(status) != ChannelState::Stopped.bits() {
            return Ok(());
        }
        let fault = TransferFault::from_code(channel::status::ERROR.get(status));
        let place = self.device.shared().place(COMMAND_CHANNEL);
        let problem = format!("it has stopped: {fault}");
        Err(DriverError::refused(place, fault.kind(), problem))
    }

    /// Makes round trips: messages of `bytes` to `address`, each sent when the one before has come
    /// back in the routed receive queue.
    ///
    /// # Errors
    /// See [`command`](Self::command) and [`command_done`](Self::command_done).
    pub async fn ping_pong(
        &self,
        address: BusAddress,
        bytes: u32,
        rounds: u16,
        deadline: Picoseconds,
    ) -> Result<PingPong> {
        if rounds == 0 {
            return Err(
                self.refused(InvalidArgument, "a ping-pong of 0 round trips is not possible")
            );
        }
        self.set_command(address, bytes).await?;
        self.knows(|port| port.is_idle = false);
        // A ping-pong of no rounds clears the last count: if a link lost the start that follows,
        // that count would be mistaken for this one's.
        self.write(user::PING, user::ping::START.put(1)).await?;
        let left = self.read(user::PING_DONE).await?;
        if left != 0 {
            return Err(
                self.refused(Failed, format!("the last ping-pong's count is still there: {left}"))
            );
        }
        let start = user::ping::START.put(1) | user::ping::ROUNDS.put(rounds.into());
        self.write(user::PING, start).await?;
        let due = u32::from(rounds);
        self.poll(user::PING_DONE, due, "the end of a ping-pong", deadline).await?;
        let [low, high] = [user::PING_SUM_LOW, user::PING_SUM_HIGH].map(|r| engine::USER + r);
        Ok(PingPong {
            rounds: due,
            sum_clocks: self.device.read_pair(low, high).await?,
            least_clocks: self.read(user::PING_LEAST).await?,
            most_clocks: self.read(user::PING_MOST).await?,
        })
    }
}
