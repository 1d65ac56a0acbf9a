// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive engine: matches the datagrams delivered by the links to credits, writes them into host
//! memory, and forwards those for other nodes.

use std::collections::VecDeque;

use crosslane_fabric::DevicePort;
use crosslane_regs::network_notification::NetworkStatus;
use crosslane_regs::network_processor as map;
use crosslane_torus_link::frame::{Channel, Datagram, Kind, Payload};

use crosslane_torus_link::routing::{Hop, ROUTED, ROUTED_BEHIND_EDGE};

use super::NetworkProcessor;
use super::link::Link;
use super::outbound::Outbound;
use super::request::{Key, Party, Request, Routing, short_bytes};

/// Host memory for all or part of a message.
struct Run {
    index: u32,
    address: u64,
    bytes: u32,
}

/// Credit: host memory for one message.
pub(super) struct Credit {
    token: u16,
    notify: u64,
    runs: Vec<Run>,
    /// Whether more runs follow; no datagram is taken before the last.
    is_open: bool,
    next_index: u32,
    taken: Taken,
    /// Bytes taken.
    bytes: u32,
    is_too_long: bool,
}

/// Progress of taking a message.
#[derive(Clone, Copy, Default)]
pub(super) struct Taken {
    datagrams: u32,
    /// Total number of datagrams, once the last has arrived.
    of: Option<u32>,
}

impl Taken {
    fn is_whole(self) -> bool {
        self.of == Some(self.datagrams)
    }

    fn count(&mut self, part: &Part) {
        self.datagrams += 1;
        if part.is_last {
            self.of = Some(part.index + 1);
        }
    }

    /// Counts a datagram. Returns whether its message has ended.
    fn ends_with(&mut self, part: &Part) -> bool {
        self.count(part);
        part.is_abort || self.is_whole()
    }
}

/// Content of a datagram, direct or routed.
struct Part {
    index: u32,
    /// Bytes of the message, and their offset in the payload.
    bytes: usize,
    lead: usize,
    is_last: bool,
    is_abort: bool,
}

impl Part {
    fn of(datagram: &Datagram) -> Self {
        let payload = &datagram.payload;
        let index = u32::from(datagram.header.index);
        let part = |bytes, is_last| Self { index, bytes, lead: 0, is_last, is_abort: false };
        match datagram.header.kind {
            Kind::Middle => part(payload.len(), false),
            Kind::Last => part(payload.len(), true),
            Kind::Short => match short_bytes(payload) {
                None => Self { is_abort: true, ..part(0, true) },
                Some(bytes) => part(bytes, true),
            },
            Kind::Routed => {
                let routing = Routing::from_payload(payload);
                let bytes = (routing.bytes as usize).min(payload.len() - 8);
                let (is_last, is_abort) = (routing.is_last, routing.is_last && bytes == 0);
                Self { index: routing.index, bytes, lead: 8, is_last, is_abort }
            }
        }
    }
}

/// Datagrams of a key that wait for a credit.
#[derive(Default)]
pub(super) struct Waiting {
    /// Oldest first, each with the link that delivered it.
    datagrams: VecDeque<(u8, Datagram)>,
    /// Progress of the last message among them.
    last: Taken,
}

/// Messages of a key that are dropped as they come.
pub(super) struct Remainder {
    /// Higher for younger ones.
    age: u64,
    /// Progress of the message that comes; `None` between two.
    dropped: Option<Taken>,
    /// Messages that were lost for want of a credit, whose credits have not come yet.
    lost: u8,
}

impl NetworkProcessor {
    // --- Credits -------------------------------------------------------------------------------

    /// Takes a valid request of the credit aperture.
    pub(super) fn take_credit(&mut self, request: &Request) {
        let run = Run { index: request.index, address: request.address, bytes: request.bytes };
        let next_index = request.index + request.bytes.div_ceil(self.unit_of(request.key.party));
        let key = request.key;
        self.credit_places += 1;
        let open = |credit: &&mut Credit| credit.is_open && credit.token == request.token;
        if let Some(credit) = self.credits.get_mut(&key).filter(open) {
            credit.notify = request.notify;
            if request.index != credit.next_index {
                self.counters.refuse();
                credit.runs.push(run);
                self.end_credit(key, NetworkStatus::Refused);
                return;
            }
            credit.runs.push(run);
            (credit.is_open, credit.next_index) = (!request.is_last, next_index);
        } else {
            let credit = Credit {
                token: request.token,
                notify: request.notify,
                runs: vec![run],
                is_open: !request.is_last,
                next_index,
                taken: Taken::default(),
                bytes: 0,
                is_too_long: false,
            };
            self.credits.insert(key, credit);
        }
        if request.is_last {
            self.counters.credits = self.counters.credits.wrapping_add(1);
            self.take_waiting(key);
            self.tell_loss(key);
        }
    }

    /// Whether the request is the next run of the credit with its key; `None` without such a
    /// credit.
    pub(super) fn credit_of(&self, request: &Request) -> Option<bool> {
        let credit = self.credits.get(&request.key)?;
        Some(credit.is_open && credit.token == request.token)
    }

    pub(super) fn cancel_credit(&mut self, request: &Request) {
        let credit = self.credits.get(&request.key);
        if credit.is_some_and(|credit| credit.token == request.token) {
            self.end_credit(request.key, NetworkStatus::Cancelled);
        }
    }

    /// Passes waiting datagrams to the credit of their key until its message is complete.
    fn take_waiting(&mut self, key: Key) {
        while self.credits.contains_key(&key) {
            let Some(waiting) = self.waiting.get_mut(&key) else { return };
            let Some((link, datagram)) = waiting.datagrams.pop_front() else { return };
            if waiting.datagrams.is_empty() {
                self.waiting.remove(&key);
            }
            self.count_waiting(key, link, datagram.header.channel, false);
            self.take(key, link, datagram);
        }
    }

    /// Ends a credit whose message was lost before it came.
    fn tell_loss(&mut self, key: Key) {
        if !self.credits.contains_key(&key) {
            return;
        }
        let Some(remainder) = self.remainders.get_mut(&key).filter(|it| it.lost > 0) else {
            return;
        };
        remainder.lost -= 1;
        if remainder.lost == 0 && remainder.dropped.is_none() {
            self.remainders.remove(&key);
        }
        self.end_credit(key, NetworkStatus::Dropped);
    }

    pub(super) fn end_credit(&mut self, key: Key, status: NetworkStatus) {
        let Some(credit) = self.credits.remove(&key) else { return };
        let (places, taken) = (credit.runs.len() as u32, self.credit_places);
        assert!(places <= taken, "a credit gives back {places} places, of {taken} that are taken");
        self.credit_places -= places;
        let is_begun = credit.taken.datagrams > 0 && !credit.taken.is_whole();
        if is_begun && matches!(status, NetworkStatus::Cancelled | NetworkStatus::Refused) {
            self.remember(key, credit.taken, 0);
        }
        let Credit { notify, token, bytes, .. } = credit;
        self.outbound.push_back(Outbound::Notify { address: notify, token, status, bytes });
    }

    /// Marks the remaining datagrams of a message to be dropped.
    fn remember(&mut self, key: Key, taken: Taken, lost: u8) {
        let is_routed = |key: &Key| matches!(key.party, Party::Node(_));
        let limit = usize::from(self.parameters.credit_slots);
        if is_routed(&key) && self.remainders.keys().filter(|key| is_routed(key)).count() >= limit {
            let oldest = self.remainders.iter().filter(|(key, _)| is_routed(key));
            if let Some(key) = oldest.min_by_key(|(_, it)| it.age).map(|(key, _)| *key) {
                let removed = self.remainders.remove(&key);
                if let Some(waiting) = self.waiting.get_mut(&key) {
                    waiting.last = removed.and_then(|it| it.dropped).unwrap_or_default();
                }
            }
        }
        self.messages_begun += 1;
        let remainder = Remainder { age: self.messages_begun, dropped: Some(taken), lost };
        self.remainders.insert(key, remainder);
    }

    /// Ends all credits of a link, or of all links.
    pub(super) fn end_credits(&mut self, link: Option<u8>, status: NetworkStatus) {
        let is_meant = |key: &&Key| match key.party {
            Party::Neighbour { link: of, .. } => link.is_none_or(|link| link == of),
            Party::Node(_) => link.is_none(),
        };
        let keys: Vec<Key> = self.credits.keys().filter(is_meant).copied().collect();
        for key in keys {
            self.end_credit(key, status);
        }
        self.remainders.retain(|key, _| !is_meant(&key));
    }

    /// Discards the datagrams that a link, or any link, has delivered.
    pub(super) fn forget_arrived(&mut self, link: Option<u8>) {
        let is_meant = |of: u8| link.is_none_or(|link| link == of);
        self.arrived.retain(|(_, of, _)| !is_meant(*of));
        for waiting in self.waiting.values_mut() {
            waiting.datagrams.retain(|(of, _)| !is_meant(*of));
        }
        self.waiting.retain(|_, waiting| !waiting.datagrams.is_empty());
        for (of, counts) in (0..).zip(&mut self.routed_waiting) {
            if is_meant(of) {
                *counts = [0; 2];
            }
        }
        for channel in &mut self.channels {
            channel.through.retain(|(of, _)| !is_meant(*of));
        }
        // Data already taken are still written, but their buffer entry no longer exists.
        for outbound in &mut self.outbound {
            if let Outbound::Data { place, .. } = outbound
                && place.is_some_and(|(of, _)| is_meant(of))
            {
                *place = None;
            }
        }
    }

    // --- Datagrams -----------------------------------------------------------------------------

    /// Handles the datagrams that are due.
    pub(super) fn place(&mut self, port: &mut DevicePort<'_>) -> bool {
        let now_ps = port.now_ps();
        let mut goes_on = false;
        while self.arrived.front().is_some_and(|(ready_ps, ..)| *ready_ps <= now_ps) {
            let Some((_, link, datagram)) = self.arrived.pop_front() else { break };
            goes_on = true;
            let channel = datagram.header.channel;
            if datagram.header.kind == Kind::Routed {
                self.route(link, datagram);
                continue;
            }
            let party = Party::Neighbour { link, channel: channel.number() };
            let key = Key { party, tag: datagram.header.tag };
            self.match_up(key, link, datagram);
        }
        if let Some((ready_ps, ..)) = self.arrived.front() {
            self.timer.at(*ready_ps, port);
        }
        goes_on
    }

    fn route(&mut self, link: u8, datagram: Datagram) {
        let Routing { source, destination, .. } = Routing::from_payload(&datagram.payload);
        let channel = datagram.header.channel;
        let has_come = [ROUTED, ROUTED_BEHIND_EDGE].contains(&channel);
        let torus = self.torus.filter(|_| has_come);
        let hop = torus.and_then(|torus| torus.next_hop(source, self.node, destination).ok());
        let takes = |link: u8| self.links.get(usize::from(link)).is_some_and(Link::takes_datagrams);
        match hop {
            Some(Hop::Arrived) => {
                let key = Key { party: Party::Node(source), tag: datagram.header.tag };
                self.match_up(key, link, datagram);
            }
            Some(Hop::Link { link: next, channel }) if next != link && takes(next) => {
                let out = usize::from(next) * 8 + channel.index();
                self.channels[out].through.push_back((link, datagram));
                self.sendable(out);
            }
            Some(Hop::Link { .. }) | None => {
                self.counters.misrouted = self.counters.misrouted.wrapping_add(1);
                self.free(link, channel);
            }
        }
    }

    /// Handles a datagram for this node's host: passes it to a credit, drops it, or keeps it
    /// waiting.
    fn match_up(&mut self, key: Key, link: u8, datagram: Datagram) {
        if self.remainders.contains_key(&key) {
            self.drop_datagram(key, link, &datagram);
            return;
        }
        let has_waiting = self.waiting.contains_key(&key);
        let is_in_force = self.credits.get(&key).is_some_and(|credit| !credit.is_open);
        let channel = datagram.header.channel;
        if is_in_force && !has_waiting {
            self.take(key, link, datagram);
        } else if self.has_room(key, link, channel) {
            let part = Part::of(&datagram);
            let waiting = self.waiting.entry(key).or_default();
            if waiting.last.ends_with(&part) {
                waiting.last = Taken::default();
            }
            waiting.datagrams.push_back((link, datagram));
            self.count_waiting(key, link, channel, true);
        } else {
            let begun = self.waiting.get(&key).map(|waiting| waiting.last);
            self.remember(key, begun.unwrap_or_default(), 1);
            self.drop_datagram(key, link, &datagram);
        }
    }

    /// Drops a datagram of a key that has a remainder. With losses untold a message that begins is
    /// lost too, so that credits get them in order.
    fn drop_datagram(&mut self, key: Key, link: u8, datagram: &Datagram) {
        self.free(link, datagram.header.channel);
        let Some(remainder) = self.remainders.get_mut(&key) else { return };
        let dropped = remainder.dropped.get_or_insert_with(|| {
            remainder.lost = remainder.lost.saturating_add(1);
            Taken::default()
        });
        if dropped.ends_with(&Part::of(datagram)) {
            remainder.dropped = None;
            if remainder.lost == 0 {
                self.remainders.remove(&key);
            }
        }
    }

    /// Whether a datagram without a credit may wait: a routed one in half of its receive buffer, so
    /// that others get past it.
    fn has_room(&self, key: Key, link: u8, channel: Channel) -> bool {
        let Some(waiting) = self.routed_waiting_of(key, link, channel) else { return true };
        let hold = map::routing::HOLD.get(self.registers.get(map::ROUTING)) != 0;
        let places = self.links[usize::from(link)].cable.as_ref();
        let places = places.map_or(0, |cable| cable.parameters.end.channel_datagrams);
        hold || self.routed_waiting[waiting.0][waiting.1] < places.div_ceil(2)
    }

    /// Counts a datagram that begins to wait, or does no longer.
    fn count_waiting(&mut self, key: Key, link: u8, channel: Channel, waits: bool) {
        let Some((link, at)) = self.routed_waiting_of(key, link, channel) else { return };
        let count = &mut self.routed_waiting[link][at];
        *count = if waits { *count + 1 } else { *count - 1 };
    }

    /// Place in `routed_waiting`; `None` between neighbours.
    fn routed_waiting_of(&self, key: Key, link: u8, channel: Channel) -> Option<(usize, usize)> {
        let is_routed = matches!(key.party, Party::Node(_));
        is_routed.then(|| (usize::from(link), usize::from(channel == ROUTED_BEHIND_EDGE)))
    }

    /// Takes a datagram into the memory of its credit.
    fn take(&mut self, key: Key, link: u8, datagram: Datagram) {
        let Some(credit) = self.credits.get_mut(&key) else { return };
        let part = Part::of(&datagram);
        let channel = datagram.header.channel;
        if part.is_abort {
            self.free(link, channel);
            self.end_credit(key, NetworkStatus::FarEnd);
            return;
        }
        credit.taken.count(&part);
        let unit = key.party.unit(self.parameters.payload_bytes());
        let run = credit.runs.iter().rev().find(|run| run.index <= part.index);
        let place = run.and_then(|run| {
            let offset = (part.index - run.index) * unit;
            let room = run.bytes.checked_sub(offset)?;
            Some((run.address + u64::from(offset), part.bytes.min(room as usize)))
        });
        let (address, bytes) = place.unwrap_or((0, 0));
        credit.is_too_long |= bytes < part.bytes;
        credit.bytes += bytes as u32;
        let is_whole = credit.taken.is_whole();
        let status = match credit.is_too_long {
            true => NetworkStatus::TooLong,
            false => NetworkStatus::Done,
        };
        match bytes {
            0 => self.free(link, channel),
            _ => {
                let payload = Payload::clone(&datagram.payload);
                let from = part.lead..part.lead + bytes;
                let place = Some((link, channel));
                let data = Outbound::Data { address, payload, from, place };
                self.outbound.push_back(data);
            }
        }
        if is_whole {
            self.end_credit(key, status);
        }
    }

    /// Frees an entry of a receive buffer.
    pub(super) fn free(&mut self, link: u8, channel: Channel) {
        if let Some(cable) = self.cable(link) {
            cable.end.free(channel);
        }
        self.work_on(link);
    }

    /// Returns the number of datagrams waiting for credits.
    pub(super) fn waiting_count(&self) -> u32 {
        self.waiting.values().map(|waiting| waiting.datagrams.len() as u32).sum()
    }
}
