// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Order of transmission: completions of register reads first, then in turn credit writes, status
//! blocks and interrupts, descriptor fetches, and each channel. The datapath carries one TLP at a
//! time to the link.

use crosslane_fabric::{DevicePort, ErrorKind, IdleReason};
use crosslane_pcie::tlp::{Class, Header};
use crosslane_regs::engine::{ChannelError, DescriptorSource};

use super::channel::{Fault, Kind, Wait};
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
    /// Nothing can be sent.
    Nothing,
}

/// Next action of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Tlp,
    Wait(Wait),
    /// Nothing until another operation of the channel ends, or the channel is off.
    Nothing,
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
        self.settle_memory(port.now_ps());
        self.copy_on(port);
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
            if !self.build_next(port) && !self.wake {
                break Pause::Nothing;
            }
        };
        self.note_waits(pause, port);
        self.arm(pause, port);
    }

    fn build_next(&mut self, port: &mut DevicePort<'_>) -> bool {
        if self.build_answer(port) {
            return true;
        }
        let places = CHANNELS + self.channels.len();
        for ahead in 0..places {
            let place = (self.turn + ahead) % places;
            let is_sent = match place {
                CREDITS => self.build_credit(port),
                STATUS => self.build_status(port),
                FETCHES => port.has_room() && self.build_fetch(port),
                _ => self.build_data(place - CHANNELS, port),
            };
            if is_sent {
                self.turn = place + 1;
                return true;
            }
        }
        false
    }

    fn build_data(&mut self, index: usize, port: &mut DevicePort<'_>) -> bool {
        self.prepare(index, port);
        self.look_ahead(index, port);
        if self.next(index, port) != Next::Tlp || !self.has_room(index, port) {
            return false;
        }
        if !self.function.is_bus_master {
            // Stop in the middle of the descriptor: the function may no longer send.
            port.report(ErrorKind::NotBusMaster { requester: port.routing_id() });
            let (error, address) =
                (ChannelError::NotBusMaster, self.channels[index].next_address());
            self.stop(index, Fault { error, address }, port.now_ps());
            return false;
        }
        if self.channels[index].kind == Kind::H2c {
            self.build_read(index, port);
        } else {
            self.build_write(index, port);
        }
        true
    }

    /// Whether the link takes a TLP of a channel. Writes do not wait for reads.
    fn has_room(&self, index: usize, port: &DevicePort<'_>) -> bool {
        match self.channels[index].kind {
            Kind::H2c => port.has_room_for(Class::NonPosted),
            Kind::C2h | Kind::Peer => port.has_room_for(Class::Posted),
        }
    }

    fn next(&self, index: usize, port: &DevicePort<'_>) -> Next {
        let channel = &self.channels[index];
        if !channel.is_running() {
            return Next::Nothing;
        }
        let Some(current) = &channel.current else {
            return match self.has_descriptor(index) {
                true if self.reads_enough(index) => Next::Wait(Wait::Tag),
                true if self.begins_ps(index) > port.now_ps() => Next::Wait(Wait::Descriptor),
                true => Next::Nothing,
                false if self.is_posted(index) => Next::Wait(Wait::Descriptor),
                false => Next::Wait(Wait::Post),
            };
        };
        let wait = match channel.kind {
            Kind::H2c => self.read_waits(index, current, port.now_ps()),
            Kind::C2h | Kind::Peer => self.write_waits(index, current, port),
        };
        wait.map_or(Next::Tlp, Next::Wait)
    }

    /// Updates the counters of idle time.
    fn note_waits(&mut self, pause: Pause, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        let mut lacks_tag = false;
        for index in 0..self.channels.len() {
            let wait = match self.next(index, port) {
                Next::Tlp => {
                    let is_held = pause != Pause::Datapath && !self.has_room(index, port);
                    is_held.then_some(Wait::Link)
                }
                Next::Wait(wait) => Some(wait),
                Next::Nothing => None,
            };
            lacks_tag |= wait == Some(Wait::Tag);
            let channel = &mut self.channels[index];
            // Between descriptors the gap comes first, and counts as a gap.
            let from_ps = if channel.current.is_none() { channel.gap_until_ps } else { now_ps };
            channel.note_wait(wait, from_ps, now_ps);
        }
        port.set_idle_reason(match pause {
            Pause::Datapath => IdleReason::RequesterGap,
            _ if lacks_tag => IdleReason::NoTag,
            _ if self.next_time_ps(now_ps) != u64::MAX => IdleReason::RequesterGap,
            _ => IdleReason::NothingToSend,
        });
    }

    /// Returns the next time at which the passage of time alone lets something be sent.
    fn next_time_ps(&self, now_ps: u64) -> u64 {
        let answer_ps = self.completer.next_ps();
        let channels = (0..self.channels.len()).map(|index| self.next_channel_ps(index, now_ps));
        let credit_ps = if self.function.is_bus_master { self.next_credit_ps() } else { u64::MAX };
        let status_ps = self.next_status_ps(now_ps);
        let confirmed_ps = self.next_confirmed_ps();
        answer_ps
            .min(credit_ps)
            .min(status_ps)
            .min(confirmed_ps)
            .min(channels.min().unwrap_or(u64::MAX))
    }

    /// Returns the next time at which the passage of time alone lets a channel begin a descriptor
    /// or a fetch, or take data.
    fn next_channel_ps(&self, index: usize, now_ps: u64) -> u64 {
        let channel = &self.channels[index];
        if !channel.is_running() {
            return u64::MAX;
        }
        let later = |time_ps: u64| if time_ps > now_ps { time_ps } else { u64::MAX };
        let own_ps = match &channel.current {
            Some(current) => self.next_data_ps(index, current, now_ps),
            None if self.has_descriptor(index) => {
                // Commands have no gap before them.
                let is_command = channel.source() == Some(DescriptorSource::CommandPort);
                let gap_ps = if is_command { 0 } else { channel.gap_until_ps };
                later(gap_ps.max(self.begins_ps(index)))
            }
            None => u64::MAX,
        };
        match self.next_fetch(index) {
            Some(_) => own_ps.min(later(self.fetches_ps(index))),
            None => own_ps,
        }
    }

    fn arm(&mut self, pause: Pause, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        let time_ps = match pause {
            Pause::Datapath => self.engine_free_ps,
            // The port calls when it has room; copies on the card do not wait for it.
            Pause::Link if self.next_copied_ps() == u64::MAX => return,
            Pause::Link => self.next_copied_ps(),
            Pause::Nothing => self.next_time_ps(now_ps),
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
