// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Order of transmission: completions of register reads first, then in turn credit writes, status
//! blocks and interrupts, descriptor fetches, and each channel. The datapath carries one TLP at a
//! time to the link.

use crosslane_fabric::{DevicePort, ErrorKind, IdleReason};
use crosslane_pcie::tlp::{Class, Header};
use crosslane_regs::engine::{ChannelError, DescriptorSource};

use super::channel::{Fault, Kind, Next, Wait, floor_power};
use super::{Engine, STEP};

/// Arbiter slots before those of the channels.
const CREDITS: usize = 0;
const STATUS: usize = 1;
const FETCHES: usize = 2;
const CHANNELS: usize = 3;

/// Reason to pause transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// The datapath is occupied.
    Datapath,
    /// The link has no room.
    Link,
    /// Nothing can be sent before this time unless something else changes.
    Until(u64),
}

/// Outcome of looking for a TLP in one place.
pub(super) enum Built {
    /// One has been sent.
    Tlp,
    /// None can be sent before this time by the passage of time alone; `u64::MAX` if no time is
    /// known.
    Nothing(u64),
}

/// Next action of a channel, and the next time at which the passage of time alone lets it begin a
/// descriptor or a fetch, or take data; `u64::MAX` if no time is known.
pub(super) struct Outlook {
    pub next: Next,
    pub change_ps: u64,
}

/// Returns the numbers in a set, one bit each: those from `first` on, and then those before it.
pub(super) fn in_turn(first: usize, set: u32) -> impl Iterator<Item = usize> {
    let mut rest = set.rotate_right(first as u32);
    std::iter::from_fn(move || {
        let ahead = (rest != 0).then_some(rest.trailing_zeros() as usize)?;
        rest &= rest - 1;
        Some((first + ahead) % u32::BITS as usize)
    })
}

/// Returns the set of the numbers below `count`.
pub(super) const fn below(count: usize) -> u32 {
    (1 << count) - 1
}

/// Returns a time in the future, or `u64::MAX`.
pub(super) fn later(time_ps: u64, now_ps: u64) -> u64 {
    if time_ps > now_ps { time_ps } else { u64::MAX }
}

impl Engine {
    /// Looks for work if something has changed that may permit it.
    pub(super) fn go_on(&mut self, port: &mut DevicePort<'_>) {
        if self.wake {
            self.step(port);
        }
    }

    /// Sends all it can, and schedules the next look.
    pub(super) fn step(&mut self, port: &mut DevicePort<'_>) {
        if self.board.is_some() {
            self.settle_memory(port.now_ps());
            self.copy_on(port);
        }
        let pause = loop {
            self.wake = false;
            if self.engine_free_ps > port.now_ps() {
                break Pause::Datapath;
            }
            if !port.has_room_for(Class::Posted) {
                break Pause::Link;
            }
            // Room for a stalled TLP may have come with a TLP or a register access.
            if !self.stalled.is_empty() {
                self.take_stalled(port);
            }
            if let Built::Nothing(next_ps) = self.build_next(port)
                && !self.wake
            {
                break Pause::Until(next_ps.min(self.next_confirmed_ps()));
            }
        };
        self.note_waits(pause, port);
        self.arm(pause, port);
    }

    /// Sends the next TLP in turn. The link has room for posted requests.
    fn build_next(&mut self, port: &mut DevicePort<'_>) -> Built {
        if self.build_answer(port) {
            return Built::Tlp;
        }
        let mut next_ps = self.completer.next_ps();
        for place in in_turn(self.turn, below(CHANNELS) | self.running << CHANNELS) {
            let built = match place {
                CREDITS => self.build_credit(port),
                STATUS => self.build_status(port),
                // The channels know the time of their next fetch.
                FETCHES if port.has_room() && self.build_fetch(port) => Built::Tlp,
                FETCHES => Built::Nothing(u64::MAX),
                _ => self.build_data(place - CHANNELS, port),
            };
            match built {
                Built::Tlp => {
                    self.turn = place + 1;
                    return Built::Tlp;
                }
                Built::Nothing(ps) => next_ps = next_ps.min(ps),
            }
        }
        Built::Nothing(next_ps)
    }

    fn build_data(&mut self, index: usize, port: &mut DevicePort<'_>) -> Built {
        let channel = &self.channels[index];
        if channel.may_change() {
            self.prepare(index, port);
        }
        if self.parameters.packets {
            self.drop_packets(index, port.now_ps());
        }
        if self.channels[index].kind == Kind::C2h && self.board.is_some() {
            self.look_ahead(index, port);
        }
        let Outlook { next, change_ps } = self.look(index, port);
        let channel = &mut self.channels[index];
        channel.next = next;
        let is_read = channel.kind == Kind::H2c;
        // Writes do not wait for reads.
        if next != Next::Tlp || is_read && !port.has_room() {
            return Built::Nothing(change_ps);
        }
        if !self.function.is_bus_master {
            // Stop in the middle of the descriptor: the function may no longer send.
            port.report(ErrorKind::NotBusMaster { requester: port.routing_id() });
            let (error, address) =
                (ChannelError::NotBusMaster, self.channels[index].next_address());
            self.stop(index, Fault { error, address }, port.now_ps());
            return Built::Nothing(u64::MAX);
        }
        match is_read {
            true => self.build_read(index, port),
            false => self.build_write(index, port),
        }
        Built::Tlp
    }

    /// Computes a channel's longest TLP for its current settings, and the length of its next write.
    pub(super) fn settle_lengths(&mut self, index: usize, port: &DevicePort<'_>) {
        let channel = &mut self.channels[index];
        if channel.limit_bytes == 0 {
            let (p, function) = (&self.parameters, &self.function);
            let (own, allowed) = match channel.kind {
                Kind::H2c => (p.max_read_bytes, function.max_read_request_bytes),
                Kind::C2h | Kind::Peer => {
                    let own = p.max_write_bytes.min(floor_power(port.largest_payload_bytes()));
                    (own, function.max_payload_bytes)
                }
            };
            channel.limit_bytes = channel.longest_bytes(own, allowed);
        }
        if let (Kind::C2h | Kind::Peer, Some(current)) = (channel.kind, channel.current) {
            self.channels[index].next_bytes = self.next_write_bytes(index, &current);
        }
    }

    pub(super) fn look(&mut self, index: usize, port: &DevicePort<'_>) -> Outlook {
        let channel = &self.channels[index];
        if !channel.is_running() {
            return Outlook { next: Next::Nothing, change_ps: u64::MAX };
        }
        let is_writing = channel.kind != Kind::H2c && channel.current.is_some();
        if channel.limit_bytes == 0 || is_writing && channel.next_bytes == 0 {
            self.settle_lengths(index, port);
        }
        let channel = &self.channels[index];
        let now_ps = port.now_ps();
        let Outlook { next, change_ps } = match &channel.current {
            Some(current) if channel.kind == Kind::H2c => {
                let reads_ps = self.reads_ps(index, current);
                let next = if reads_ps > now_ps { Next::Wait(Wait::Tag) } else { Next::Tlp };
                Outlook { next, change_ps: later(reads_ps, now_ps) }
            }
            Some(current) => self.look_at_write(index, current, now_ps),
            None => self.look_at_descriptor(index, now_ps),
        };
        let change_ps = change_ps.min(self.drops_ps(index, now_ps));
        if channel.doorbell == channel.requested {
            return Outlook { next, change_ps };
        }
        Outlook { next, change_ps: change_ps.min(later(self.fetches_ps(index), now_ps)) }
    }

    /// Looks at a channel that has taken up no descriptor.
    fn look_at_descriptor(&self, index: usize, now_ps: u64) -> Outlook {
        let channel = &self.channels[index];
        let Some(begins_ps) = self.begins_ps(index) else {
            let wait = if self.is_posted(index) { Wait::Descriptor } else { Wait::Post };
            return Outlook { next: Next::Wait(wait), change_ps: u64::MAX };
        };
        let next = match () {
            () if self.reads_enough(index) => Next::Wait(Wait::Tag),
            () if begins_ps > now_ps => Next::Wait(Wait::Descriptor),
            () => Next::Nothing,
        };
        // Commands have no gap before them.
        let is_command = channel.source() == Some(DescriptorSource::CommandPort);
        let gap_ps = if is_command { 0 } else { channel.gap_until_ps };
        Outlook { next, change_ps: later(gap_ps.max(begins_ps), now_ps) }
    }

    /// Updates the counters of idle time.
    fn note_waits(&mut self, pause: Pause, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        let (mut lacks_tag, mut next_ps) = (false, u64::MAX);
        // The others have nothing to wait for, now as before.
        let active = self.running | std::mem::take(&mut self.waiting);
        for index in in_turn(0, active) {
            let next = match pause {
                // Nothing has changed since it was looked at.
                Pause::Until(_) if self.running & 1 << index == 0 => Next::Nothing,
                Pause::Until(_) => self.channels[index].next,
                Pause::Datapath | Pause::Link => {
                    let Outlook { next, change_ps } = self.look(index, port);
                    next_ps = next_ps.min(change_ps);
                    next
                }
            };
            let wait = match next {
                Next::Tlp => (pause != Pause::Datapath).then_some(Wait::Link),
                Next::Wait(wait) => Some(wait),
                Next::Nothing => None,
            };
            lacks_tag |= wait == Some(Wait::Tag);
            self.waiting |= u32::from(wait.is_some()) << index;
            let channel = &mut self.channels[index];
            // Between descriptors the gap comes first, and counts as a gap.
            let from_ps = if channel.current.is_none() { channel.gap_until_ps } else { now_ps };
            channel.note_wait(wait, from_ps, now_ps);
        }
        let time_ps = match pause {
            Pause::Datapath => self.engine_free_ps,
            Pause::Link => next_ps.min(self.next_other_ps(now_ps)),
            Pause::Until(next_ps) => next_ps,
        };
        port.set_idle_reason(match pause {
            Pause::Link | Pause::Until(_) if lacks_tag => IdleReason::NoTag,
            _ if time_ps != u64::MAX => IdleReason::RequesterGap,
            _ => IdleReason::NothingToSend,
        });
    }

    /// Returns the next time at which the passage of time alone lets something be sent that is not
    /// a channel's.
    fn next_other_ps(&self, now_ps: u64) -> u64 {
        let answer_ps = self.completer.next_ps();
        let credit_ps = if self.function.is_bus_master { self.credit_ps } else { u64::MAX };
        let times = [answer_ps, credit_ps, self.next_status_ps(now_ps), self.next_confirmed_ps()];
        times.into_iter().fold(u64::MAX, u64::min)
    }

    fn arm(&mut self, pause: Pause, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        let time_ps = match pause {
            Pause::Datapath => self.engine_free_ps,
            // The port calls when it has room; copies on the card do not wait for it.
            Pause::Link if self.next_copied_ps() == u64::MAX => return,
            Pause::Link => self.next_copied_ps(),
            Pause::Until(next_ps) => next_ps,
        };
        if time_ps != u64::MAX && (time_ps < self.timer_ps || self.timer_ps <= now_ps) {
            self.timer_ps = time_ps;
            port.timer(time_ps, STEP);
        }
    }

    /// Occupies the datapath with a TLP. Returns when the whole TLP has been handed on.
    pub(super) fn occupy(&mut self, header: &Header, now_ps: u64) -> u64 {
        let free_ps = self.engine_free_ps;
        assert!(
            free_ps <= now_ps,
            "a TLP at {now_ps} ps, and the datapath is free at {free_ps} ps"
        );
        let p = &self.parameters;
        let header_bytes = if p.header_on_datapath { header.header_dw() * 4 } else { 0 };
        let bytes = header_bytes + header.payload_bytes();
        let clocks = u64::from(bytes.div_ceil(p.datapath_bytes).max(1));
        let whole_ps = now_ps + clocks * p.clock.0;
        self.engine_free_ps = whole_ps + u64::from(p.idle_clocks_per_tlp) * p.clock.0;
        whole_ps
    }

    /// Sends a TLP. Returns when the whole TLP has been handed on.
    pub(super) fn send(
        &mut self,
        header: Header,
        port: &mut DevicePort<'_>,
        fill: impl FnOnce(&mut [u8]),
    ) -> u64 {
        let whole_ps = self.occupy(&header, port.now_ps());
        port.send(header, fill);
        whole_ps
    }

    /// Describes unfinished work, one sentence per line.
    pub(super) fn describe_unfinished(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let waiting = self.tags.waiting();
        if waiting > 0 {
            lines.push(format!("{waiting} reads wait for completions"));
        }
        for channel in self.channels.iter().filter(|channel| channel.is_running()) {
            let name = match channel.kind {
                Kind::H2c => "H2C",
                Kind::C2h => "C2H",
                Kind::Peer => "peer",
            };
            let open = channel.doorbell.wrapping_sub(channel.completed);
            if open > 0 {
                let number = channel.number;
                lines.push(format!("{name} channel {number}: {open} descriptors are not complete"));
            }
        }
        if self.user.is_busy {
            lines.push("a command of the user circuit is not finished".to_owned());
        }
        if !self.stalled.is_empty() {
            let count = self.stalled.len();
            lines.push(format!("{count} TLPs wait behind a full receive queue"));
        }
        lines
    }
}

#[test]
fn numbers_come_in_turn_from_the_first_on() {
    let turn = |first| in_turn(first, 0b1011).collect::<Vec<_>>();
    assert_eq!([turn(0), turn(2), turn(4)], [[0, 1, 3], [3, 0, 1], [0, 1, 3]]);
}
