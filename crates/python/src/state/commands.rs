// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Peer writes that the circuit behind a card's engine starts at its command port, and ping-pong.

use std::collections::BTreeMap;
use std::pin::pin;

use crosslane::driver::{Completed, Device, DriverError, PingPong};
use crosslane::host::{Bus, BusError};
use crosslane::pcie::units::{BusAddress, Picoseconds};

use super::State;
use crate::call::until_signal;
use crate::error::Failure;
use crate::posted::{ChannelKey, Outcome, Posted, Waited};

/// The peer channel that the command port belongs to.
const COMMAND_CHANNEL: u8 = 0;

/// Command of a card that was started, until its outcome is given.
pub struct Command {
    /// Number in the session.
    number: u64,
    device: Device,
    bytes: u64,
    posted: Picoseconds,
    deadline: Picoseconds,
    /// Number of the peer that it writes to.
    stands_on: u64,
    is_awaited: bool,
    ended: Waited,
}

impl Command {
    /// Waits for its end, at most until a time; none if it has not ended then.
    async fn wait(&self, until: Picoseconds) -> Waited {
        let until = until.min(self.deadline);
        let ended = self.device.user().command_done(until).await;
        let now = self.device.bus().now();
        let outcome = match ended {
            Ok(()) => Ok(Completed { bytes: self.bytes, posted: self.posted, completed: now }),
            Err(DriverError::Bus { source: BusError::Deadline { .. }, .. })
                if until < self.deadline =>
            {
                return None;
            }
            Err(error) => Err(Failure::from(error)),
        };
        Some(outcome)
    }

    /// Whether a coroutine has still to be told of its end.
    pub const fn has_news(&self) -> bool {
        self.is_awaited && self.ended.is_some()
    }

    /// Waits for the end of a command that a coroutine waits for.
    pub async fn first_end(&self) -> Outcome {
        let late = || Err(Failure::deadline("the command has not ended at its deadline"));
        self.wait(self.deadline).await.unwrap_or_else(late)
    }
}

impl State {
    /// Returns the engine of a card whose peer channel 0 is open, and takes in what has become of
    /// its last command.
    fn commanded(&mut self, key: ChannelKey) -> Result<Device, Failure> {
        let ChannelKey { card, number, .. } = key;
        if number != COMMAND_CHANNEL {
            let problem = format!(
                "the command port is that of peer channel {COMMAND_CHANNEL}, and the peer is \
                 connected to channel {number}"
            );
            return Err(Failure::argument(problem));
        }
        self.line((key, false))?;
        if self.commands.get(&card).is_some_and(|command| command.ended.is_none()) {
            self.look_at_command(card)?;
        }
        self.device(card)
    }

    /// Starts a command of a card: a write of its peer stream to an address.
    pub fn command(
        &mut self,
        key: ChannelKey,
        (address, bytes): (u64, u32),
        deadline: Picoseconds,
        stands_on: u64,
    ) -> Result<Posted, Failure> {
        let device = self.commanded(key)?;
        if let Some(command) = self.commands.get(&key.card)
            && command.ended.is_none()
        {
            let name = self.endpoint(key.card)?;
            let bytes = command.bytes;
            let problem = format!("{name}: a command of {bytes} B is still being worked off");
            return Err(Failure::busy(problem));
        }
        self.run(device.user().command(BusAddress(address), bytes))?;
        let number = self.next_number();
        let posted = self.bus().now();
        let bytes = bytes.into();
        let (is_awaited, ended) = (false, None);
        let command =
            Command { number, device, bytes, posted, deadline, stands_on, is_awaited, ended };
        self.commands.insert(key.card, command);
        Ok(Posted::Command(key.card, number))
    }

    /// Makes round trips between a card and an address.
    pub fn ping_pong(
        &mut self,
        key: ChannelKey,
        (address, bytes): (u64, u32),
        rounds: u16,
        deadline: Picoseconds,
    ) -> Result<PingPong, Failure> {
        let device = self.commanded(key)?;
        self.run(device.user().ping_pong(BusAddress(address), bytes, rounds, deadline))
    }

    /// Returns a command whose outcome was not given.
    fn find_command(&mut self, card: usize, number: u64) -> Result<&mut Command, Failure> {
        let found = self.commands.get_mut(&card).filter(|command| command.number == number);
        let gone =
            || Failure::closed("the outcome of the command is gone: a later one was started since");
        found.ok_or_else(gone)
    }

    /// Takes in the end of a card's command, if it has ended.
    pub(super) fn look_at_command(&mut self, card: usize) -> Result<(), Failure> {
        let now = self.bus().now();
        let State { session, commands, .. } = self;
        if let Some(command) = commands.get_mut(&card).filter(|command| command.ended.is_none()) {
            command.ended = session.block_on(command.wait(now))?;
        }
        Ok(())
    }

    /// Waits for the end of a command, at most until a time.
    pub(super) fn wait_command(
        &mut self,
        card: usize,
        number: u64,
        until: Option<Picoseconds>,
    ) -> Result<Waited, Failure> {
        let until = until.unwrap_or(Picoseconds::NEVER);
        self.find_command(card, number)?;
        let Some(command) = self.commands.get(&card) else { return Ok(None) };
        let waited = async { Ok::<_, Failure>(command.wait(until).await) };
        self.session.block_on(pin!(until_signal(pin!(waited))))?
    }

    /// Returns the outcome of a command if it is known.
    pub(super) fn command_known(&mut self, card: usize, number: u64) -> Result<Waited, Failure> {
        let ended = self.find_command(card, number)?.ended.take();
        if ended.is_some() {
            self.commands.remove(&card);
        }
        Ok(ended)
    }

    /// Keeps the outcome of a command until it is asked for.
    pub(super) fn keep_command(&mut self, card: usize, outcome: Outcome) {
        if let Some(command) = self.commands.get_mut(&card) {
            command.ended = Some(outcome);
        }
    }

    /// Notes whether a coroutine waits for a command.
    pub(super) fn set_command_awaited(&mut self, card: usize, number: u64, is_awaited: bool) {
        if let Ok(command) = self.find_command(card, number) {
            command.is_awaited = is_awaited;
        }
    }

    /// Returns the commands that coroutines wait for and that have not ended.
    pub(super) fn awaited_commands(
        commands: &BTreeMap<usize, Command>,
    ) -> impl Iterator<Item = (usize, &Command)> {
        let awaited = commands.iter().filter(|(_, it)| it.is_awaited && it.ended.is_none());
        awaited.map(|(card, command)| (*card, command))
    }

    /// Whether a command that was started writes to a peer.
    pub(super) fn commands_use(&mut self, stands_on: u64) -> Result<bool, Failure> {
        let used = |command: &Command| command.stands_on == stands_on && command.ended.is_none();
        let cards: Vec<usize> =
            self.commands.iter().filter(|(_, it)| used(it)).map(|(card, _)| *card).collect();
        for card in cards {
            self.look_at_command(card)?;
        }
        Ok(self.commands.values().any(used))
    }
}

/// The failure of what a command cannot do.
pub fn no_cancel() -> Failure {
    Failure::unsupported("a command that was started cannot be cancelled: it ends by itself")
}
