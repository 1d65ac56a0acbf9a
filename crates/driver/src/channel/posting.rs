// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Posting: every transfer of a batch is checked, and its part of a buffer claimed, before the
//! first descriptor is written.

use std::sync::Arc;

use crosslane_host::Bus;
use crosslane_host::ErrorKind::{Failed, InvalidArgument, Unsupported};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_regs::engine::channel;

use super::completion::Watch;
use super::descriptors::{Descriptor, Descriptors, pieces};
use super::options::{
    ChannelKind, CompletionLevel, DescriptorSource, Notification, Target, Ticket, Transfer,
};
use super::recovery::Cause;
use super::{Channel, Pending, State, payload_on_the_way};
use crate::buffer::{Claim, check_placed};
use crate::connection::{self, Connection};
use crate::error::{DriverError, Result};

/// A checked transfer, ready to be posted.
pub(super) struct Ready {
    pub transfer: Transfer,
    pieces: Vec<(BusAddress, u32)>,
    claim: Option<Claim>,
    connection: Option<Arc<Connection>>,
}

impl Channel {
    pub(super) async fn post_batch(
        &mut self,
        transfers: &[Transfer],
        users: &[u16],
        is_reported: bool,
    ) -> Result<Vec<Ticket>> {
        self.finish_what_was_begun().await;
        self.reap_unasked();
        self.check_running()?;
        if transfers.is_empty() {
            return Ok(Vec::new());
        }
        if self.options.descriptors == DescriptorSource::CommandPort {
            let problem = "it is open for the command port: nothing can be posted to it";
            return Err(self.refused(InvalidArgument, problem));
        }
        let connection = self.connection();
        let mut batch = Vec::with_capacity(transfers.len());
        let mut needed: u64 = 0;
        for transfer in transfers {
            let ready = self.check(transfer, connection.clone())?;
            needed += ready.pieces.len() as u64;
            batch.push(ready);
        }
        self.wait_for_room(needed).await?;
        self.begin_anew_if_needed(connection.as_ref()).await?;
        let mut head = self.build(&batch, users, is_reported);
        let count = head.len();
        assert!(count as u64 == needed, "{needed} descriptors were checked and {count} are built");
        let (open, capacity) = (self.posted - self.completed, self.descriptors.capacity());
        assert!(
            open + needed <= u64::from(capacity),
            "{needed} descriptors behind {open} that are not complete, in a ring of {capacity}"
        );
        let tail = head.split_off(self.head_length(count));
        self.has_unposted = true;
        self.descriptors.write(&self.device, self.posted, &head).await?;
        let line = if tail.is_empty() { self.line_of(&batch, &head).await? } else { None };
        let tickets = self.enter(batch);
        self.line_due = line;
        self.has_unposted = false;
        self.unwritten = tail;
        // From here on the transfers are posted, even if this future is dropped.
        let told = self.statistics.doorbells + self.statistics.pushed;
        if let Err(error) = self.ring_doorbell().await {
            if self.statistics.doorbells + self.statistics.pushed == told {
                self.retract(tickets.len());
                return Err(error);
            }
            // The engine knows of some: all are posted, and all have failed.
            self.stop_unanswered(error);
        }
        self.statistics.descriptors += count as u64;
        Ok(tickets)
    }

    /// Returns how many descriptors to write before the first doorbell: for a long batch as many as
    /// the engine fetches ahead, so that it starts while the others are written.
    fn head_length(&self, count: usize) -> usize {
        match self.descriptors {
            Descriptors::Ring { .. } => {
                count.min(2 * self.device.description().fetch_batch as usize)
            }
            Descriptors::Table { .. } | Descriptors::CommandPort => count,
        }
    }

    /// Takes back the last transfers, of which the engine does not know.
    fn retract(&mut self, transfers: usize) {
        let (all, posted) = (self.pending.len(), self.statistics.posted);
        assert!(
            transfers <= all && transfers as u64 <= posted,
            "{transfers} transfers are taken back, of {all} on their way and {posted} posted"
        );
        let stays = all - transfers;
        if let Some(pending) = self.pending.get(stays) {
            self.posted = pending.first;
        }
        self.pending.truncate(stays);
        self.next_ticket -= transfers as u64;
        self.statistics.posted -= transfers as u64;
        self.doorbell_due = false;
        self.unwritten.clear();
        self.line_due = None;
        self.has_unposted = true;
    }

    /// Connection of a peer channel.
    pub(super) fn connection(&self) -> Option<Arc<Connection>> {
        match self.key() {
            (ChannelKind::Peer, number) => self.slot.shared.connection(number),
            _ => None,
        }
    }

    fn check_running(&self) -> Result<()> {
        match &self.state {
            State::Stopped(fault) => {
                let fault = Box::new(fault.clone());
                Err(DriverError::Stopped { channel: self.place(), fault })
            }
            State::Running | State::Recovering(_) => Ok(()),
        }
    }

    /// Checks one transfer and claims its part of the buffer.
    fn check(&self, transfer: &Transfer, connection: Option<Arc<Connection>>) -> Result<Ready> {
        self.check_level(transfer, connection.as_deref())?;
        self.check_card(&transfer.target)?;
        let (kind, number) = self.key();
        let claim = match (&transfer.target, kind) {
            (
                Target::Buffer(buffer, part) | Target::Card(buffer, part, _),
                ChannelKind::H2c | ChannelKind::C2h,
            ) => {
                if buffer.registered().function != self.device.function().id {
                    return Err(self
                        .refused(InvalidArgument, "the buffer is registered for another device"));
                }
                let (start, bytes) = (part.start, transfer.target.bytes());
                if bytes == 0 {
                    return Err(
                        self.refused(InvalidArgument, format!("0 B at byte {start} of a buffer"))
                    );
                }
                Some(buffer.claim(part.clone(), kind == ChannelKind::C2h)?)
            }
            // Accepted by check_card.
            (Target::CardToCard { .. }, _) => None,
            (Target::Peer(..) | Target::PeerCard(..), _) if self.receives_packets() => {
                return Err(self.refused(InvalidArgument, "packets are received into buffers"));
            }
            (
                Target::Peer(memory, part) | Target::PeerCard(memory, part, _),
                ChannelKind::H2c | ChannelKind::C2h,
            ) => {
                memory.check(&self.device, part)?;
                None
            }
            (Target::Peer(..) | Target::PeerCard(..), ChannelKind::Peer) => {
                let problem = "H2C channels read a peer's memory, and C2H channels write it";
                return Err(self.refused(InvalidArgument, problem));
            }
            (Target::Bus(address, bytes), ChannelKind::Peer) => {
                self.slot.shared.check_peer_write(number, *address, *bytes)?;
                None
            }
            (Target::Buffer(..) | Target::Card(..), ChannelKind::Peer) => {
                return Err(
                    self.refused(InvalidArgument, "it writes to bus addresses, not to buffers")
                );
            }
            (Target::Bus(..), ChannelKind::H2c | ChannelKind::C2h) => {
                return Err(
                    self.refused(InvalidArgument, "it moves buffers; bus addresses are for peers")
                );
            }
        };
        let pieces = pieces(&transfer.target, connection.as_deref());
        let bytes = transfer.target.bytes();
        check_placed(&pieces, bytes).map_err(|problem| self.refused(Failed, problem))?;
        let is_table = matches!(self.descriptors, Descriptors::Table { .. });
        if self.options.card_memory && is_table && pieces.len() > 1 {
            return Err(self.refused(
                Unsupported,
                format!(
                    "the buffer is {} pieces on the bus, and each descriptor of a table means the \
                 card's address 0",
                    pieces.len()
                ),
            ));
        }
        self.check_packet(&pieces)?;
        if pieces.len() as u64 > u64::from(self.descriptors.capacity()) {
            return Err(self.too_large(pieces.len() as u64));
        }
        Ok(Ready { transfer: transfer.clone(), pieces, claim, connection })
    }

    /// Checks that the target has a card address if and only if the channel needs one.
    fn check_card(&self, target: &Target) -> Result<()> {
        let is_table = matches!(self.descriptors, Descriptors::Table { .. });
        let problem = match (target, self.options.card_memory) {
            (Target::PeerCard(..), true) if is_table => {
                "descriptors of a table mean card address 0: a peer's memory needs a ring".into()
            }
            (Target::Card(_, _, card), true) if is_table && *card != 0 => format!(
                "card address {card:#x} was asked for, and descriptors of a table mean address 0"
            ),
            (Target::Card(_, part, card) | Target::PeerCard(_, part, card), true)
                if card.checked_add(part.end.saturating_sub(part.start)).is_none() =>
            {
                let bytes = part.end.saturating_sub(part.start);
                format!("no card has memory behind address {card:#x} for {bytes} B")
            }
            (Target::Card(..) | Target::PeerCard(..), false) => {
                "it was not opened for the card's memory, and a card address was given".to_owned()
            }
            (Target::CardToCard { .. }, _) => return self.check_copy(target),
            (Target::Buffer(..) | Target::Peer(..), true) => {
                "it was opened for the card's memory, and no card address was given".to_owned()
            }
            _ => return Ok(()),
        };
        Err(self.refused(InvalidArgument, problem))
    }

    /// Checks that a copy within the card's memory is possible.
    fn check_copy(&self, target: &Target) -> Result<()> {
        let Target::CardToCard { from, to, bytes } = *target else { return Ok(()) };
        let is_table = matches!(self.descriptors, Descriptors::Table { .. });
        let end = from.max(to).checked_add(bytes);
        let problem = match self.key().0 {
            ChannelKind::H2c | ChannelKind::Peer => {
                "within the card's memory C2H channels copy".to_owned()
            }
            ChannelKind::C2h if !self.options.card_memory => {
                "it was not opened for the card's memory, and card addresses were given".to_owned()
            }
            ChannelKind::C2h if !self.device.description().card_copy => {
                let problem = "its engine does not copy within the card's memory";
                return Err(self.refused(Unsupported, problem));
            }
            ChannelKind::C2h if is_table => {
                "descriptors of a table mean card address 0: copies need a ring".to_owned()
            }
            ChannelKind::C2h if bytes == 0 => format!("0 B at card address {from:#x}"),
            ChannelKind::C2h if end.is_none() => {
                let last = from.max(to);
                format!("no card has memory behind address {last:#x} for {bytes} B")
            }
            ChannelKind::C2h if from.abs_diff(to) < bytes => format!(
                "{bytes} B from card address {from:#x} overlap those from {to:#x}, to which they \
                 are to be copied"
            ),
            ChannelKind::C2h => return Ok(()),
        };
        Err(self.refused(InvalidArgument, problem))
    }

    fn check_level(&self, transfer: &Transfer, connection: Option<&Connection>) -> Result<()> {
        let (level, kind) = (transfer.level, self.key().0);
        let is_of_peer = matches!(transfer.target, Target::Peer(..) | Target::PeerCard(..));
        let why = match (level, kind) {
            (CompletionLevel::Visible, ChannelKind::C2h) if is_of_peer => {
                "the peer tells nobody what it has taken; sent is possible, and what this device \
                 reads of that memory from then on ends behind it"
            }
            (CompletionLevel::Visible, ChannelKind::Peer) => {
                "this host cannot see what is at a peer; sent and acknowledged are possible"
            }
            (CompletionLevel::Acknowledged, ChannelKind::H2c | ChannelKind::C2h) => {
                "no peer takes part; visible is possible"
            }
            (CompletionLevel::Acknowledged, ChannelKind::Peer)
                if !connection.is_some_and(Connection::has_credits) =>
            {
                "it is not connected to a peer with credits; sent is possible"
            }
            _ => return Ok(()),
        };
        Err(self.refused(Unsupported, format!("the level {level} cannot be promised: {why}")))
    }

    fn too_large(&self, needed: u64) -> DriverError {
        let store = match self.descriptors {
            Descriptors::Table { .. } => "table",
            Descriptors::Ring { .. } | Descriptors::CommandPort => "ring",
        };
        let capacity = self.descriptors.capacity();
        DriverError::TooManyDescriptors { channel: self.place(), needed, store, capacity }
    }

    /// Waits until `needed` more descriptors can be posted.
    async fn wait_for_room(&mut self, needed: u64) -> Result<()> {
        let capacity = u64::from(self.descriptors.capacity());
        if needed > capacity {
            return Err(self.too_large(needed));
        }
        let mut watch = Watch::default();
        while self.posted - self.completed + needed > capacity {
            self.advance(0, &mut watch, Picoseconds::NEVER).await;
            self.check_running()?;
        }
        Ok(())
    }

    /// Restarts the idle channel if needed: if a peer channel has been connected or disconnected
    /// (it starts a new account with the receive queue), or if a table holds descriptors that were
    /// never posted: an old one would be in force if a link lost the words of its successor.
    async fn begin_anew_if_needed(&mut self, connection: Option<&Arc<Connection>>) -> Result<()> {
        let is_stale = self.has_unposted && matches!(self.descriptors, Descriptors::Table { .. });
        if !is_stale && !connection::has_changed(self.applied.as_ref(), connection) {
            return Ok(());
        }
        payload_on_the_way(&self.device, self.key(), self.options, connection.map(|c| &**c))?;
        let mut watch = Watch::default();
        while !self.pending.is_empty() {
            self.advance(self.pending.len() - 1, &mut watch, Picoseconds::NEVER).await;
            self.check_running()?;
        }
        self.recover(Cause::Cancelled).await;
        self.check_recovered()
    }

    /// Builds the descriptors of a batch: only the last of each transfer is reported, with an
    /// interrupt if wanted.
    /// In packet mode `users` are the `tuser` values of the packets; fewer of them mean 0.
    fn build(&self, batch: &[Ready], users: &[u16], is_reported: bool) -> Vec<Descriptor> {
        let by_interrupt = is_reported && self.options.notification != Notification::Poll;
        let mut descriptors = Vec::new();
        let of_packet = self.sends_packets();
        let every = (self.options.report_every as usize).max(1);
        for (number, ready) in batch.iter().enumerate() {
            let user = users.get(number).copied().unwrap_or(0);
            // One report tells of a whole batch of packets; received ones have records.
            let is_asked = !of_packet || users.is_empty() || number + 1 == batch.len();
            let is_counted = (number + 1).is_multiple_of(every) || number + 1 == batch.len();
            let is_asked = is_asked && is_counted && !self.receives_packets();
            let await_credit = ready.transfer.level == CompletionLevel::Acknowledged;
            let last = ready.pieces.len().saturating_sub(1);
            let to_card = matches!(ready.transfer.target, Target::CardToCard { .. });
            let mut next = match ready.transfer.target {
                Target::Card(_, _, card)
                | Target::PeerCard(_, _, card)
                | Target::CardToCard { from: card, .. } => card,
                Target::Buffer(..) | Target::Peer(..) | Target::Bus(..) => 0,
            };
            let in_memory = self.options.card_memory;
            descriptors.extend(ready.pieces.iter().enumerate().map(|(n, &(address, bytes))| {
                let is_last = n == last;
                let card = next;
                next += if in_memory { u64::from(bytes) } else { 0 };
                Descriptor {
                    address,
                    card,
                    bytes,
                    interrupt: is_last && by_interrupt && is_counted,
                    status: is_last && is_asked,
                    await_credit: is_last && await_credit,
                    to_card,
                    packet_end: (is_last && of_packet).then_some(user),
                }
            }));
        }
        descriptors
    }

    /// Enters a batch whose descriptors are written, so that no part of it is released before the
    /// engine has reported it.
    fn enter(&mut self, batch: Vec<Ready>) -> Vec<Ticket> {
        let posted = self.device.bus().now();
        let mut tickets = Vec::with_capacity(batch.len());
        for ready in batch {
            let first = self.posted;
            let end = self.pending.back().map_or(first, |last| last.end);
            assert!(end == first, "descriptor {first} is posted behind those up to {end}");
            self.posted += ready.pieces.len() as u64;
            let Transfer { target, level, deadline } = ready.transfer;
            self.pending.push_back(Pending {
                total_bytes: target.bytes(),
                target,
                level,
                deadline,
                first,
                end: self.posted,
                posted,
                is_given: false,
                claim: ready.claim,
                connection: ready.connection,
            });
            tickets.push(Ticket(self.next_ticket));
            self.next_ticket += 1;
            self.statistics.posted += 1;
        }
        self.doorbell_due = true;
        tickets
    }

    /// Rings the doorbell if due, behind the line if there is one. Rings twice if some of the batch
    /// must still be written.
    pub(super) async fn ring_doorbell(&mut self) -> Result<()> {
        if !self.doorbell_due {
            return Ok(());
        }
        // Taken first: if this future is dropped the next one rings the doorbell, and a line that
        // comes late is not the next descriptor.
        if let Some(line) = self.line_due.take() {
            self.push(&line).await?;
            self.statistics.pushed += 1;
        }
        if !self.unwritten.is_empty() {
            let (unwritten, posted) = (self.unwritten.len() as u64, self.posted);
            assert!(unwritten <= posted, "{unwritten} descriptors to be written, of {posted}");
            let first = posted - unwritten;
            self.write(channel::DOORBELL, first as u32).await?;
            self.statistics.doorbells += 1;
            self.descriptors.write(&self.device, first, &self.unwritten).await?;
            self.unwritten.clear();
        }
        self.write(channel::DOORBELL, self.posted as u32).await?;
        self.doorbell_due = false;
        self.statistics.doorbells += 1;
        Ok(())
    }

    /// Returns the earliest deadline of the transfers up to `last`.
    pub(super) fn earliest_deadline(&self, last: usize) -> Picoseconds {
        let upto = self.pending.iter().take(last + 1);
        upto.map(|pending| pending.deadline).min().unwrap_or(Picoseconds::NEVER)
    }
}
