// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The opened session, and what was opened and posted in it.
#![allow(unsafe_code)]

mod commands;
mod packets;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::time::Duration;

use crosslane::driver::network_processor::{InFlight, NetworkProcessor};
use crosslane::driver::{
    Channel, ChannelOptions, Device, DriverError, ReceivedPacket, StreamSource, Ticket, Transfer,
    TransferError,
};
use crosslane::host::{Bus, BusError, FunctionInfo, Topology};
use crosslane::open::{AnyBus, Session as Opened};
use crosslane::pcie::units::Picoseconds;
use futures_util::future::{Either, select, select_all};

use crate::call::until_signal;
use crate::error::Failure;
use crate::posted::{ChannelKey, Line, LineKey, Message, Outcome, Posted, Waited, outcome};

use commands::Command;
pub use packets::{Arrived, Receiver, STRIDE_BYTES};

/// Turns of a coroutine after which time moves although another has still to be told of an end: it
/// may wait for something else before it looks.
const MOST_TURNS: u32 = 1000;

/// A session that one thread after the other uses.
struct Owned(Opened);

// SAFETY: of a session's parts only the simulation is not `Send`, because of cells and of futures
// that were spawned in it. The mutex of `Shared` lets one thread at a time use the cells, and
// nothing in this crate, driver or experiment spawns a future in the session of this module.
unsafe impl Send for Owned {}

impl Deref for Owned {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        &self.0
    }
}

/// The session and what was opened in it.
pub struct State {
    session: Owned,
    devices: Vec<Option<Device>>,
    options: BTreeMap<ChannelKey, ChannelOptions>,
    lines: BTreeMap<LineKey, Line>,
    messages: BTreeMap<u64, Message>,
    /// Commands of the cards, by their numbers.
    commands: BTreeMap<usize, Command>,
    processors: BTreeMap<u64, NetworkProcessor>,
    /// Cards whose memory space is enabled.
    enabled: BTreeSet<usize>,
    /// Number of the last message, peer, peer's memory, or network processor.
    last: u64,
}

impl State {
    /// Takes a session that was just opened.
    pub fn new(session: Opened) -> Self {
        let devices = session.cards().iter().map(|_| None).collect();
        Self {
            session: Owned(session),
            devices,
            options: BTreeMap::new(),
            lines: BTreeMap::new(),
            messages: BTreeMap::new(),
            commands: BTreeMap::new(),
            processors: BTreeMap::new(),
            enabled: BTreeSet::new(),
            last: 0,
        }
    }

    /// Closes every channel. In a lab what programs have left runs to its end, unless they have
    /// failed.
    pub fn close(mut self, is_failed: bool) -> Result<(), Failure> {
        let mut closed = Ok(());
        self.messages.clear();
        self.commands.clear();
        // Their links would never be quiet.
        for (_, processor) in std::mem::take(&mut self.processors) {
            closed = closed.and(self.run(processor.release()));
        }
        for (_, line) in std::mem::take(&mut self.lines) {
            closed = closed.and(self.run(line.channel.close()));
        }
        match is_failed {
            true => Ok(()),
            false => closed.and_then(|()| Ok(self.session.finish()?)),
        }
    }

    /// Runs a call of the driver to its end.
    pub fn run<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        // Pinned where they are made: futures are too large to be handed on by value.
        self.session.block_on(pin!(until_signal(pin!(call))))?
    }

    /// Returns a number that nothing else of the session has.
    pub const fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns the bus of the cards' host.
    pub fn bus(&self) -> &AnyBus {
        self.session.bus()
    }

    /// Returns the bus of the host that has an endpoint: in a lab any of its hosts.
    pub fn bus_of(&self, endpoint: &str) -> AnyBus {
        let found = self.session.simulation().and_then(|simulation| {
            let mut hosts = simulation.hosts().iter();
            Some((simulation, hosts.find(|host| host.tree.find(endpoint).is_some())?.id))
        });
        found.map_or_else(
            || self.bus().clone(),
            |(simulation, host)| AnyBus::new(simulation.bus(host)),
        )
    }

    /// Returns the name of a card's function in the tree.
    pub fn endpoint(&self, card: usize) -> Result<String, Failure> {
        let found = self.session.cards().get(card);
        let missing = || Failure::argument(format!("there is no card {card}"));
        Ok(found.ok_or_else(missing)?.endpoint.clone())
    }

    /// Finds a function of the cards' host by its name in the tree.
    pub fn function(&self, name: &str) -> Result<FunctionInfo, Failure> {
        let mut functions = self.bus().functions().map_err(BusError::from)?;
        let is_it = |one: &FunctionInfo| one.name == name || one.id.to_string() == name;
        if let Some(found) = functions.iter().position(is_it) {
            return Ok(functions.swap_remove(found));
        }
        let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
        let problem = format!("there is no function {name:?}: there are {}", names.join(", "));
        Err(Failure::argument(problem))
    }

    /// Returns the engine of a card, opened if it was not.
    pub fn device(&mut self, card: usize) -> Result<Device, Failure> {
        if let Some(Some(device)) = self.devices.get(card) {
            return Ok(device.clone());
        }
        if card >= self.devices.len() {
            return Err(Failure::argument(format!("there is no card {card}")));
        }
        let device = self.run(self.session.device(card))?;
        self.devices[card] = Some(device.clone());
        self.enabled.insert(card);
        Ok(device)
    }

    /// Notes that a card was opened as something else than an engine.
    pub fn set_enabled(&mut self, card: usize) {
        self.enabled.insert(card);
    }

    /// Opens the engine of a card, unless the card was opened as something else.
    pub fn enable(&mut self, card: usize) -> Result<(), Failure> {
        match self.enabled.contains(&card) {
            true => Ok(()),
            false => self.device(card).map(|_| ()),
        }
    }

    /// Takes a network processor that was just opened, and returns its number.
    pub fn add_processor(&mut self, processor: NetworkProcessor) -> u64 {
        let number = self.next_number();
        self.processors.insert(number, processor);
        number
    }

    /// Returns a network processor.
    pub fn processor(&self, number: u64) -> Result<NetworkProcessor, Failure> {
        let closed = || Failure::closed("the network processor is closed");
        self.processors.get(&number).cloned().ok_or_else(closed)
    }

    /// Resets a network processor, and closes it.
    pub fn close_processor(&mut self, number: u64) -> Result<(), Failure> {
        match self.processors.remove(&number) {
            Some(processor) => self.run(processor.release()),
            None => Ok(()),
        }
    }

    /// Sets the options with which a channel is opened. One that is open is closed before.
    pub fn set_options(&mut self, key: ChannelKey, options: ChannelOptions) -> Result<(), Failure> {
        for card_memory in [false, true] {
            self.close_idle((key, card_memory), "have other options")?;
        }
        self.options.insert(key, options);
        Ok(())
    }

    /// Closes a channel if it is open and nothing is in flight on it.
    fn close_idle(&mut self, key: LineKey, purpose: &str) -> Result<(), Failure> {
        let Some(mut line) = self.lines.remove(&key) else { return Ok(()) };
        self.settle(&mut line)?;
        if line.open.is_empty() && line.receiver.is_none() {
            return self.run(line.channel.close());
        }
        let (count, receives) = (line.open.len(), line.receiver.is_some());
        self.lines.insert(key, line);
        let ChannelKey { card, kind, number } = key.0;
        let name = self.endpoint(card)?;
        if receives {
            let problem =
                format!("{name} {kind} {number}: a packet receiver is open, so it cannot");
            return Err(Failure::busy(format!("{problem} {purpose}")));
        }
        let transfers =
            if count == 1 { "1 transfer is" } else { &format!("{count} transfers are") };
        let problem = format!("{name} {kind} {number}: {transfers} in flight, so it cannot");
        Err(Failure::busy(format!("{problem} {purpose}")))
    }

    /// Returns a channel, opened if it was not. A channel of the same number that moves other data
    /// gives its place up when nothing is in flight.
    fn line(&mut self, key: LineKey) -> Result<&mut Line, Failure> {
        if !self.lines.contains_key(&key) {
            let (channel, card_memory) = key;
            let device = self.device(channel.card)?;
            let purpose =
                if card_memory { "turn to the card's memory" } else { "turn to its stream" };
            self.close_idle((channel, !card_memory), purpose)?;
            let options = self.options.get(&channel).copied().unwrap_or_default();
            let options = options.with_card_memory(card_memory);
            let opened = self.run(device.channel(channel.kind, channel.number, options))?;
            self.lines.insert(key, Line::new(opened));
        }
        self.lines.get_mut(&key).ok_or_else(closed)
    }

    /// Takes in the outcomes of a channel that are known.
    fn settle(&self, line: &mut Line) -> Result<(), Failure> {
        let open: Vec<u64> = line.open.keys().copied().collect();
        for ticket in open {
            let polled = self.session.block_on(line.channel.poll(Ticket(ticket)))?;
            if let Some(outcome) = polled.transpose() {
                line.open.remove(&ticket);
                line.ended.insert(ticket, outcome.map_err(Failure::from));
            }
        }
        Ok(())
    }

    /// Whether a transfer is in flight that stands on a peer or on a peer's memory.
    pub fn is_in_use(&mut self, stands_on: u64) -> Result<bool, Failure> {
        let mut lines = std::mem::take(&mut self.lines);
        let uses = |line: &Line| line.open.values().any(|on| *on == Some(stands_on));
        let mut settled = Ok(());
        for line in lines.values_mut().filter(|line| uses(line)) {
            settled = settled.and(self.settle(line));
        }
        let is_in_use = lines.values().any(uses);
        self.lines = lines;
        settled?;
        Ok(is_in_use || self.commands_use(stands_on)?)
    }

    /// Posts a transfer. A channel that has stopped at a fault, which is that of an earlier
    /// transfer, is restarted.
    pub fn post(
        &mut self,
        key: LineKey,
        transfer: Transfer,
        stands_on: Option<u64>,
    ) -> Result<Posted, Failure> {
        self.post_by(key, transfer, stands_on, true)
    }

    /// Posts a transfer as [`post`](Self::post) does, with an interrupt at its end or without.
    pub fn post_by(
        &mut self,
        key: LineKey,
        transfer: Transfer,
        stands_on: Option<u64>,
        is_reported: bool,
    ) -> Result<Posted, Failure> {
        self.check_no_packets(key)?;
        self.line(key)?;
        let State { session, lines, .. } = self;
        let line = lines.get_mut(&key).ok_or_else(closed)?;
        let channel = &mut line.channel;
        let posted = pin!(async {
            let transfer = std::slice::from_ref(&transfer);
            let post = async |channel: &mut Channel| match is_reported {
                true => channel.post(transfer).await,
                false => channel.post_unreported(transfer).await,
            };
            match post(channel).await {
                Err(DriverError::Stopped { .. }) => {
                    channel.restart().await?;
                    post(channel).await
                }
                posted => posted,
            }
        });
        let tickets = session.block_on(pin!(until_signal(posted)))??;
        let Some(&Ticket(ticket)) = tickets.first() else {
            return Err(Failure::argument("nothing was posted"));
        };
        line.open.insert(ticket, stands_on);
        Ok(Posted::Transfer(key, ticket))
    }

    /// Takes a message that was posted.
    pub fn add_message(&mut self, processor: NetworkProcessor, message: InFlight) -> Posted {
        let number = self.next_number();
        let in_flight = Some(message);
        let message = Message { processor, in_flight, is_awaited: false, ended: None };
        self.messages.insert(number, message);
        Posted::Message(number)
    }

    /// Waits for something, at most until a time of the bus.
    pub fn wait(&mut self, posted: Posted, until: Option<Picoseconds>) -> Result<Waited, Failure> {
        if let Some(outcome) = self.take(posted)? {
            return Ok(Some(outcome));
        }
        let waited = match posted {
            Posted::Transfer(key, ticket) => self.wait_transfer(key, ticket, until)?,
            Posted::Message(number) => self.wait_message(number, until)?,
            Posted::Command(card, number) => self.wait_command(card, number, until)?,
            Posted::Packets(key) => {
                return self.wait_packets(key, until.unwrap_or(Picoseconds::NEVER));
            }
        };
        if waited.is_some() {
            self.forget(posted);
        }
        Ok(waited)
    }

    fn wait_transfer(
        &mut self,
        key: LineKey,
        ticket: u64,
        until: Option<Picoseconds>,
    ) -> Result<Waited, Failure> {
        let State { session, lines, .. } = self;
        let channel = &mut lines.get_mut(&key).ok_or_else(closed)?.channel;
        let bus = session.bus().clone();
        let waited = pin!(async move {
            let waiting = pin!(channel.wait(Ticket(ticket)));
            let ended = match until {
                None => Some(waiting.await),
                Some(until) => match select(waiting, pin!(bus.sleep_until(until))).await {
                    Either::Left((outcome, _)) => Some(outcome),
                    Either::Right(_) => None,
                },
            };
            Ok::<_, Failure>(ended.map(|outcome| outcome.map_err(Failure::from)))
        });
        session.block_on(pin!(until_signal(waited)))?
    }

    fn wait_message(&self, number: u64, until: Option<Picoseconds>) -> Result<Waited, Failure> {
        let (processor, message) = self.message(number)?;
        self.session.block_on(until_signal(async {
            let Some(until) = until else {
                return Ok(Some(outcome(processor.wait(message, Picoseconds::NEVER).await)));
            };
            loop {
                // A wait for the message itself would take it back in the end.
                let ended = Message::look(processor, message).await;
                if ended.is_some() || processor.bus().now() >= until {
                    return Ok::<_, Failure>(ended);
                }
                processor.any_ends(until).await;
            }
        }))?
    }

    fn message(&self, number: u64) -> Result<(&NetworkProcessor, &InFlight), Failure> {
        let found = self.messages.get(&number);
        let found = found.and_then(|it| Some((&it.processor, it.in_flight.as_ref()?)));
        found.ok_or_else(|| Failure::closed("the message is no longer in flight"))
    }

    /// Returns the outcome of something if it has ended and was seen.
    fn take(&mut self, posted: Posted) -> Result<Waited, Failure> {
        match posted {
            Posted::Transfer(key, ticket) => {
                Ok(self.lines.get_mut(&key).ok_or_else(closed)?.take(ticket))
            }
            Posted::Message(number) => {
                let message = self.messages.get_mut(&number);
                let ended = message.and_then(|message| message.ended.take());
                if ended.is_some() {
                    self.messages.remove(&number);
                }
                Ok(ended)
            }
            Posted::Command(card, number) => self.command_known(card, number),
            Posted::Packets(key) => self.packets_known(key),
        }
    }

    /// Keeps the outcome of something until it is asked for.
    fn keep(&mut self, posted: Posted, outcome: Outcome) {
        match posted {
            Posted::Transfer(key, ticket) => {
                if let Some(line) = self.lines.get_mut(&key) {
                    line.open.remove(&ticket);
                    line.ended.insert(ticket, outcome);
                }
            }
            Posted::Message(number) => {
                if let Some(message) = self.messages.get_mut(&number) {
                    message.in_flight = None;
                    message.ended = Some(outcome);
                }
            }
            Posted::Command(card, _) => self.keep_command(card, outcome),
            // They are kept where they were received.
            Posted::Packets(_) => {}
        }
    }

    /// Forgets something whose outcome was given.
    fn forget(&mut self, posted: Posted) {
        match posted {
            Posted::Transfer(key, ticket) => {
                if let Some(line) = self.lines.get_mut(&key) {
                    line.end(ticket);
                }
            }
            Posted::Message(number) => {
                self.messages.remove(&number);
            }
            Posted::Command(card, _) => {
                self.commands.remove(&card);
            }
            Posted::Packets(_) => {}
        }
    }

    /// Forgets something that nobody waits for: a transfer runs to its end, room for a message is
    /// taken back.
    pub fn abandon(&mut self, posted: Posted) {
        match posted {
            Posted::Transfer(key, ticket) => {
                if let Some(line) = self.lines.get_mut(&key) {
                    line.ended.remove(&ticket);
                }
            }
            Posted::Message(number) => {
                self.messages.remove(&number);
            }
            Posted::Command(..) | Posted::Packets(_) => {}
        }
    }

    /// Notes whether a coroutine waits for something.
    pub fn set_awaited(&mut self, posted: Posted, is_awaited: bool) {
        match posted {
            Posted::Transfer(key, ticket) => {
                let Some(line) = self.lines.get_mut(&key) else { return };
                if is_awaited {
                    line.awaited.insert(ticket);
                } else {
                    line.awaited.remove(&ticket);
                }
            }
            Posted::Message(number) => {
                if let Some(message) = self.messages.get_mut(&number) {
                    message.is_awaited = is_awaited;
                }
            }
            Posted::Command(card, number) => {
                self.set_command_awaited(card, number, is_awaited);
            }
            Posted::Packets(key) => self.set_packets_awaited(key, is_awaited),
        }
    }

    /// Returns the outcome of something if it has ended, without waiting.
    fn look(&mut self, posted: Posted) -> Result<Waited, Failure> {
        let waited = match posted {
            Posted::Transfer(key, ticket) => {
                let State { session, lines, .. } = self;
                let line = lines.get_mut(&key).ok_or_else(closed)?;
                let polled = session.block_on(line.channel.poll(Ticket(ticket)))?;
                // An outcome that was given before is an error of the channel.
                polled.transpose().map(|outcome| outcome.map_err(Failure::from))
            }
            Posted::Message(number) => {
                let (processor, message) = self.message(number)?;
                self.session.block_on(Message::look(processor, message))?
            }
            Posted::Command(card, number) => {
                self.look_at_command(card)?;
                return self.command_known(card, number);
            }
            Posted::Packets(key) => return self.look_at_packets(key),
        };
        if waited.is_some() {
            self.forget(posted);
        }
        Ok(waited)
    }

    fn is_open(&self, posted: Posted) -> bool {
        match posted {
            Posted::Transfer(key, ticket) => {
                self.lines.get(&key).is_some_and(|line| line.open.contains_key(&ticket))
            }
            Posted::Message(number) => self.messages.contains_key(&number),
            Posted::Command(card, _) => self.commands.contains_key(&card),
            Posted::Packets(key) => self.has_receiver(key),
        }
    }

    /// Takes a coroutine's turn: see `Shared::step`.
    pub fn step(&mut self, posted: Posted, is_lab: bool, turn: u32) -> Result<Waited, Failure> {
        if let Some(outcome) = self.take(posted)? {
            return Ok(Some(outcome));
        }
        if !is_lab || !self.is_open(posted) {
            return self.look(posted);
        }
        self.set_awaited(posted, true);
        let is_told = |message: &Message| message.is_awaited && message.ended.is_some();
        let has_news = self.lines.values().any(Line::has_news)
            || self.messages.values().any(is_told)
            || self.commands.values().any(Command::has_news);
        if turn == 0 || has_news && !turn.is_multiple_of(MOST_TURNS) {
            return Ok(None);
        }
        self.keep_first_end()?;
        self.take(posted)
    }

    /// Waits for the end of the first of all that coroutines wait for, and keeps it.
    fn keep_first_end(&mut self) -> Result<(), Failure> {
        enum End {
            Transfer(Posted, Outcome),
            Message(u64),
            Command(usize, Outcome),
            Packets(LineKey, Result<Vec<ReceivedPacket>, TransferError>),
        }
        type Wait<'a> = Pin<Box<dyn Future<Output = End> + 'a>>;
        let State { session, lines, messages, commands, .. } = self;
        let mut waits: Vec<Wait<'_>> = Vec::new();
        for (key, line) in lines.iter_mut() {
            let (key, first) = (*key, line.first_awaited());
            let channel = &mut line.channel;
            if let Some(first) = first {
                waits.push(Box::pin(async move {
                    let ended = channel.wait(Ticket(first)).await;
                    End::Transfer(Posted::Transfer(key, first), ended.map_err(Failure::from))
                }));
            } else if line.receiver.as_ref().is_some_and(Receiver::is_awaited) {
                waits.push(Box::pin(async move {
                    End::Packets(key, channel.recv_packets(1, Picoseconds::NEVER).await)
                }));
            }
        }
        for (number, message) in messages.iter().filter(|(_, message)| message.is_awaited) {
            let Some(in_flight) = &message.in_flight else { continue };
            let processor = &message.processor;
            waits.push(Box::pin(async move {
                while matches!(processor.poll(in_flight), Ok(None)) {
                    processor.any_ends(Picoseconds::NEVER).await;
                }
                // Its data are copied afterwards: this wait is dropped if another ends as well.
                End::Message(*number)
            }));
        }
        for (card, command) in Self::awaited_commands(commands) {
            waits.push(Box::pin(async move { End::Command(card, command.first_end().await) }));
        }
        let first = async { Ok::<_, Failure>(select_all(waits).await.0) };
        match session.block_on(until_signal(first))?? {
            End::Transfer(posted, outcome) => self.keep(posted, outcome),
            End::Message(number) => {
                let (processor, message) = self.message(number)?;
                let ended = self.session.block_on(Message::look(processor, message))?;
                self.keep(Posted::Message(number), ended.ok_or_else(closed)?);
            }
            End::Command(card, outcome) => self.keep_command(card, outcome),
            End::Packets(key, came) => self.take_packets(key, came)?,
        }
        Ok(())
    }

    /// Cancels a message, or everything that is in flight on a transfer's channel.
    pub fn cancel(&mut self, posted: Posted) -> Result<(), Failure> {
        match posted {
            Posted::Transfer(key, _) => {
                let State { session, lines, .. } = self;
                match lines.get_mut(&key) {
                    Some(line) => session.block_on(until_signal(line.channel.cancel()))?,
                    None => Ok(()),
                }
            }
            Posted::Packets(_) => Ok(()),
            Posted::Command(..) => Err(commands::no_cancel()),
            Posted::Message(number) => match self.message(number) {
                Ok((processor, message)) => self.run(processor.cancel(message)),
                Err(_) => Ok(()),
            },
        }
    }

    /// Looks at the open channel of a key.
    pub fn with_channel<T>(
        &mut self,
        key: ChannelKey,
        look: impl AsyncFnOnce(&Channel) -> Result<T, DriverError>,
    ) -> Result<T, Failure> {
        let is_card_memory = self.lines.contains_key(&(key, true));
        self.line((key, is_card_memory))?;
        let line = self.lines.get(&(key, is_card_memory)).ok_or_else(closed)?;
        self.run(look(&line.channel))
    }

    /// Sets the sources of a card's outgoing streams.
    pub fn route(
        &mut self,
        card: usize,
        c2h: StreamSource,
        peer: StreamSource,
    ) -> Result<(), Failure> {
        let device = self.device(card)?;
        self.run(device.user().route(c2h, peer))
    }

    /// Resets a card. It has to be opened anew afterwards.
    pub fn reset(&mut self, card: usize) -> Result<(), Failure> {
        let Some(found) = self.session.cards().get(card) else {
            return Err(Failure::argument(format!("there is no card {card}")));
        };
        let function = found.function;
        self.lines.retain(|(of, _), _| of.card != card);
        self.commands.remove(&card);
        self.devices[card] = None;
        self.enabled.remove(&card);
        self.run(self.session.reset(function))
    }

    /// In a lab, runs what the program has left to its end.
    pub fn finish(&self) -> Result<(), Failure> {
        Ok(self.session.finish()?)
    }

    /// Lets time pass.
    pub fn sleep(&self, span: Duration) -> Result<(), Failure> {
        let bus = self.session.bus().clone();
        self.run(async move {
            bus.sleep_until(bus.after(span)).await;
            Ok::<_, Failure>(())
        })
    }
}

fn closed() -> Failure {
    Failure::closed("the channel is closed")
}
