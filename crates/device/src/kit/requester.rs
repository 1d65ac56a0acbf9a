// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads of host memory in flight: the purpose of each, and the effect of its completions.

use crosslane_fabric::{DevicePort, ErrorKind};
use crosslane_pcie::link::PAGE_BYTES;
use crosslane_pcie::tlp::{Class, Header};
use crosslane_pcie::units::{BusAddress, Picoseconds};

use super::function::report_unexpected;
use super::{Answered, Function, TagState, Tags, Timer};

/// Effect of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed<T> {
    /// None.
    Nothing,
    /// Good data: bytes to skip in the payload, offset in the read, length, and whether they are
    /// the last.
    Data {
        /// Purpose of the read.
        target: T,
        /// Bytes to skip in the payload.
        skip: u32,
        /// Offset in the read.
        offset: u32,
        /// Length.
        bytes: u32,
        /// Whether the read has ended.
        ends: bool,
    },
    /// The read has failed, and has ended for its user.
    Failed(T),
    /// A read that was given up has ended.
    Dropped(T),
}

/// Reads in flight. `T` is the purpose of a read.
#[derive(Debug)]
pub struct Requester<T> {
    /// A read without a purpose was given up, and its user told.
    tags: Tags<Option<T>>,
    max_read_bytes: u32,
    timeout: Picoseconds,
    check: Timer,
}

impl<T: Copy> Requester<T> {
    /// Creates a requester with `tags` tags, whose reads have up to `max_read_bytes` and time out.
    /// `Device::timer` gets `token` when [`time_out`](Self::time_out) is due.
    pub fn new(tags: u16, max_read_bytes: u32, timeout: Picoseconds, token: u32) -> Self {
        Self {
            tags: Tags::new(0, tags),
            max_read_bytes,
            timeout,
            check: Timer::of_deadlines(token),
        }
    }

    /// Returns the longest read that the function may send.
    pub fn limit_bytes(&self, function: &Function) -> u32 {
        self.max_read_bytes.min(function.max_read_request_bytes)
    }

    /// Whether a tag is free and the link takes a read.
    pub fn can_read(&self, port: &DevicePort<'_>) -> bool {
        self.tags.free_ps() == 0 && port.has_room_for(Class::NonPosted)
    }

    /// Returns the number of tags in use: reads in flight, and tags kept back after a time-out.
    pub fn in_use(&self) -> usize {
        self.tags.in_use()
    }

    /// Sends a read. A tag must be free.
    pub fn read(
        &mut self,
        target: T,
        address: u64,
        bytes: u32,
        function: &Function,
        port: &mut DevicePort<'_>,
    ) {
        let most = self.limit_bytes(function);
        assert!(bytes <= most, "a read of {bytes} B, and {most} B are allowed");
        let in_page = address % PAGE_BYTES + u64::from(bytes);
        assert!(in_page <= PAGE_BYTES, "{bytes} B at {address:#x} cross a boundary of 4 KiB");
        let deadline_ps = port.now_ps() + self.timeout.0;
        let tag = self.tags.take(Some(target), address, bytes, deadline_ps);
        self.check.at(deadline_ps, port);
        let tag = self.tags.on_the_wire(tag);
        let header = Header::memory_read(port.routing_id(), tag, BusAddress(address), bytes);
        port.send(header, |_| {});
    }

    /// Takes a completion.
    pub fn complete(&mut self, header: &Header, port: &mut DevicePort<'_>) -> Completed<T> {
        let answered = match header.requester == port.routing_id() {
            true => self.tags.complete(header),
            false => Answered::Unexpected,
        };
        let (tag, part) = match answered {
            Answered::Unexpected => {
                report_unexpected(header, port);
                return Completed::Nothing;
            }
            Answered::Dropped(target) => {
                return target.flatten().map_or(Completed::Nothing, Completed::Dropped);
            }
            Answered::Taken(tag, part) => (tag, part),
        };
        let read = self.tags.get_mut(tag);
        let (ends, offset) = (read.state == TagState::Answered, read.good);
        let purpose = match part {
            Some(_) => read.purpose,
            // Its remaining data have no user.
            None => read.purpose.take(),
        };
        if ends || part.is_none() {
            self.tags.abandon(tag);
        }
        match (purpose, part) {
            (Some(target), Some((skip, bytes))) => {
                Completed::Data { target, skip, offset: offset - bytes, bytes, ends }
            }
            (Some(target), None) => Completed::Failed(target),
            (None, _) => Completed::Nothing,
        }
    }

    /// Gives up the reads for which `is_meant` returns true: completions are dropped.
    pub fn abandon(&mut self, is_meant: impl Fn(&T) -> bool) {
        self.tags.abandon_all(|target| target.as_ref().is_some_and(&is_meant));
    }

    /// Times out overdue reads, and reports those that were not given up. Returns the purposes of
    /// all of them.
    pub fn time_out(&mut self, port: &mut DevicePort<'_>) -> Vec<T> {
        let timeout = self.timeout;
        let mut ended = Vec::new();
        let next = self.tags.time_out(
            port.now_ps(),
            timeout.0,
            |_| false,
            |tag, read| {
                if read.state == TagState::Waiting {
                    port.report(ErrorKind::CompletionTimeout { tag: tag.0, timeout });
                }
                ended.extend(read.purpose);
            },
        );
        self.check.reset();
        if let Some(next_ps) = next {
            self.check.at(next_ps, port);
        }
        ended
    }

    /// Drops all reads in flight, whose completions are lost with the link. Returns their purposes.
    pub fn lose_all(&mut self, now_ps: u64) -> Vec<T> {
        let mut lost = Vec::new();
        self.tags.lose_all(now_ps + self.timeout.0, |target| lost.extend(*target));
        lost
    }
}
