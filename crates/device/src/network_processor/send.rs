// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfer from the send channels to the queues of the links: gets, puts and forwarded datagrams
//! in turn, as room permits.
//!
//! Read first: [`SendChannel`].

use std::collections::VecDeque;

use crosslane_fabric::DevicePort;
use crosslane_torus_link::frame::{Channel, Datagram, Kind, Payload};

use super::request::{Key, Put};
use super::{LinkMode, NetworkProcessor};

/// Datagram of a message on its way from host memory to a link.
pub(super) struct Piece {
    pub key: Key,
    pub number: u64,
    pub kind: Kind,
    pub index: u16,
    pub payload: Payload,
    /// Bytes still to come.
    pub missing: u32,
    /// Earliest time to send it once all bytes have arrived.
    pub ready_ps: u64,
    /// Whether its message has failed, so that it is dropped.
    pub is_void: bool,
}

/// Data waiting for one channel of one link, and messages still to be read for it.
#[derive(Default)]
pub(super) struct SendChannel {
    /// Messages with runs not yet requested whole, in order.
    pub messages: VecDeque<(Key, u64)>,
    pub in_line: bool,
    /// Staging memory: datagrams in the order of their messages.
    pub pieces: VecDeque<Piece>,
    /// Number of the first of `pieces`.
    pub base: u64,
    /// Abort datagrams of messages that failed after some of their datagrams were sent.
    pub aborts: VecDeque<(u8, Kind, Payload)>,
    /// Slots of the put aperture from the first whose datagram has not left; they leave in order.
    puts: VecDeque<PutSlot>,
    /// Number of put datagrams that have left the put aperture.
    pub put_count: u32,
    /// Whether `put_count` is due to be reported to the host.
    pub is_count_due: bool,
    /// Datagrams of other nodes, each with the link that delivered it.
    pub through: VecDeque<(u8, Datagram)>,
    /// Source that is served next.
    pub turn: u8,
}

/// Slot of the put aperture.
enum PutSlot {
    /// Its datagram is not complete.
    Waits,
    /// Its datagram is not sent, and leaves when those before it have left.
    Refused,
    Whole(Put),
}

impl SendChannel {
    /// Discards all data for the link, except forwarded datagrams, which hold entries of receive
    /// buffers.
    pub fn forget(&mut self) {
        self.base += self.pieces.len() as u64;
        self.pieces.clear();
        self.aborts.clear();
        for slot in self.puts.iter_mut().filter(|slot| matches!(slot, PutSlot::Whole(_))) {
            *slot = PutSlot::Refused;
        }
    }

    /// Takes the complete datagram of a slot of the `slots`; none if it is refused. Returns whether
    /// the slot was free: what is in it until its datagram leaves stays.
    pub fn complete_put(&mut self, slot: usize, slots: usize, put: Option<Put>) -> bool {
        let at = (slot + slots - self.put_count as usize % slots) % slots;
        while self.puts.len() <= at {
            self.puts.push_back(PutSlot::Waits);
        }
        let is_free = matches!(self.puts[at], PutSlot::Waits);
        if is_free {
            self.puts[at] = put.map_or(PutSlot::Refused, PutSlot::Whole);
        }
        is_free
    }

    /// Lets the refused puts that come next leave. Returns whether one did.
    pub fn pass_refused(&mut self) -> bool {
        let before = self.put_count;
        while let Some(PutSlot::Refused) = self.puts.front() {
            self.puts.pop_front();
            self.put_count = self.put_count.wrapping_add(1);
        }
        self.put_count != before
    }

    /// Whether the next put can be sent.
    pub fn has_put(&self) -> bool {
        matches!(self.puts.front(), Some(PutSlot::Whole(_)))
    }

    /// Forgets all puts, and how many have left.
    pub fn reset_puts(&mut self) {
        self.puts.clear();
        (self.put_count, self.is_count_due) = (0, false);
    }

    pub fn waiting(&self) -> usize {
        let puts = self.puts.iter().filter(|slot| matches!(slot, PutSlot::Whole(_)));
        self.aborts.len() + self.pieces.len() + puts.count() + self.through.len()
    }
}

/// Next datagram of a channel for its link.
enum Next {
    Datagram {
        kind: Kind,
        tag: u8,
        index: u16,
        payload: Payload,
        from: Source,
    },
    /// One may be ready at this time.
    At(u64),
    Nothing,
}

/// Source of a datagram for a link.
enum Source {
    Get { key: Key, number: u64 },
    Abort,
    Put,
    Through { link: u8, channel: crosslane_torus_link::frame::Channel },
}

impl NetworkProcessor {
    /// Gives a link the datagrams that it has room for.
    pub(super) fn feed(&mut self, number: u8, port: &mut DevicePort<'_>) {
        let Some(link) = self.links.get(usize::from(number)) else { return };
        let mut left = link.sendable;
        while left != 0 {
            let channel = left.trailing_zeros() as u8;
            left &= left - 1;
            self.feed_channel(number, channel, port);
        }
    }

    fn feed_channel(&mut self, number: u8, channel: u8, port: &mut DevicePort<'_>) {
        let out = usize::from(number) * 8 + usize::from(channel);
        let wire_channel = Channel::from_bits(channel.into());
        loop {
            let Some(link) = self.links.get_mut(usize::from(number)) else { return };
            let sinks = link.mode == LinkMode::Sink;
            let room = link.cable.as_ref().map_or(0, |cable| cable.end.room(wire_channel));
            if !sinks && room == 0 {
                return;
            }
            let (kind, tag, index, payload, from) = match self.next_of(out, port.now_ps()) {
                Next::Datagram { kind, tag, index, payload, from } => {
                    (kind, tag, index, payload, from)
                }
                Next::At(ready_ps) => {
                    if let Some(link) = self.links.get_mut(usize::from(number)) {
                        link.timer.at(ready_ps, port);
                    }
                    return;
                }
                Next::Nothing => {
                    if let Some(link) = self.links.get_mut(usize::from(number)) {
                        link.sendable &= !(1 << channel);
                    }
                    return;
                }
            };
            let Some(link) = self.links.get_mut(usize::from(number)) else { return };
            match link.cable.as_mut() {
                Some(cable) if !sinks => {
                    cable.end.submit(wire_channel, kind, tag, index, payload);
                }
                _ => link.sunk = link.sunk.wrapping_add(1),
            }
            match from {
                Source::Get { key, number } => {
                    let sending = self.sending.get_mut(&key);
                    if let Some(sending) = sending.filter(|found| found.number == number) {
                        sending.is_begun = true;
                    }
                    self.line_up(out);
                }
                Source::Abort => {}
                Source::Put => {
                    let channel = &mut self.channels[out];
                    channel.put_count = channel.put_count.wrapping_add(1);
                    channel.pass_refused();
                    self.count_puts(out);
                }
                Source::Through { link, channel } => {
                    self.counters.forwarded = self.counters.forwarded.wrapping_add(1);
                    self.free(link, channel);
                }
            }
        }
    }

    /// Drops failed datagrams at the head of the staging memory to make room.
    fn drop_void(&mut self, out: usize) {
        let channel = &mut self.channels[out];
        let mut dropped = 0;
        while channel.pieces.front().is_some_and(|piece| piece.is_void) {
            channel.pieces.pop_front();
            dropped += 1;
        }
        channel.base += dropped;
        if dropped > 0 {
            self.line_up(out);
        }
    }

    /// Returns the next datagram of a channel, taking its sources in turn.
    fn next_of(&mut self, out: usize, now_ps: u64) -> Next {
        self.drop_void(out);
        let channel = &mut self.channels[out];
        if let Some((tag, kind, payload)) = channel.aborts.pop_front() {
            return Next::Datagram { kind, tag, index: 0, payload, from: Source::Abort };
        }
        let head = channel.pieces.front().filter(|piece| piece.missing == 0);
        let ready_ps = head.map(|piece| piece.ready_ps);
        let is_ready = ready_ps.is_some_and(|ready_ps| ready_ps <= now_ps);
        for step in 1..=3 {
            let turn = (channel.turn + step) % 3;
            let next = match turn {
                0 if is_ready => {
                    let Some(piece) = channel.pieces.pop_front() else { continue };
                    channel.base += 1;
                    let Piece { key, number, kind, index, payload, .. } = piece;
                    let from = Source::Get { key, number };
                    Next::Datagram { kind, tag: key.tag, index, payload, from }
                }
                1 if channel.has_put() => {
                    let Some(PutSlot::Whole(put)) = channel.puts.pop_front() else { continue };
                    let Put { kind, tag, index, payload } = put;
                    Next::Datagram { kind, tag, index, payload, from: Source::Put }
                }
                2 if !channel.through.is_empty() => {
                    let Some((link, datagram)) = channel.through.pop_front() else { continue };
                    let Datagram { header, payload } = datagram;
                    let from = Source::Through { link, channel: header.channel };
                    let (kind, tag, index) = (header.kind, header.tag, header.index);
                    Next::Datagram { kind, tag, index, payload, from }
                }
                _ => continue,
            };
            channel.turn = turn;
            return next;
        }
        ready_ps.map_or(Next::Nothing, Next::At)
    }
}
