// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One pass over all events, and the descriptors to wait for.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::connection::{OTHER_END_GONE, Phase};
use super::state::{Entrance, State};

/// Time for a visitor that has rung to send its hello.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);
/// Time for the other process to confirm that it no longer uses this one's memory.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// Delay before retrying an operation that the provider refused, or a ring after many fruitless
/// ones.
const AGAIN: Duration = Duration::from_millis(1);
/// Rings without any operation ending, after which the next ring is delayed.
const FRUITLESS_RINGS: u32 = 256;

impl State {
    /// Checks everything once. Returns true if the caller may now wait for the descriptors, and
    /// false if more has happened already.
    pub fn pass(&mut self) -> bool {
        // Bounded, as programs make requests meanwhile.
        const EVENTS: usize = 64;
        let mut is_quiet = true;
        for number in 0..EVENTS {
            match self.network.event_fd().map(|_| self.network.next_event()) {
                Some(Ok(Some(event))) => self.take_event(event),
                _ => break,
            }
            is_quiet = number + 1 < EVENTS;
        }
        self.see_visitors();
        self.say_farewell();
        let ids: Vec<u64> = self.members.keys().copied().collect();
        for id in ids {
            self.listen_at(id);
        }
        for retired in &mut self.retired {
            // Only memory that this program no longer uses.
            if !retired.is_empty && std::sync::Arc::strong_count(&retired.mapping) == 1 {
                retired.mapping.empty();
                retired.is_empty = true;
            }
        }
        is_quiet
            && self.network.may_wait()
            && self.members.values().all(|member| member.connection.endpoint.may_wait())
    }

    fn see_visitors(&mut self) {
        let listeners: Vec<u64> = self.listeners.keys().copied().collect();
        for id in listeners {
            self.welcome(id);
        }
        for visitor in std::mem::take(&mut self.visitors) {
            let is_late = visitor.since.elapsed() > HELLO_PATIENCE;
            if let (Some(visitor), false) = (self.hear(visitor), is_late) {
                self.visitors.push(visitor);
            }
        }
    }

    fn say_farewell(&mut self) {
        self.farewells.retain_mut(|farewell| {
            let is_gone = farewell.door.listen().gone;
            if is_gone || farewell.since.elapsed() > CLOSE_PATIENCE {
                for reply in farewell.replies.drain(..) {
                    let _ = reply.send(());
                }
            }
            // Memory that the other process may still use stays mapped.
            !is_gone
        });
    }

    /// Handles one connection, and its door if it has one.
    fn listen_at(&mut self, id: u64) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(door) = &member.door else { return self.look_after(id) };
        if matches!(member.connection.phase, Phase::Connecting(_)) {
            if let Err(why) = self.go_on_connecting(id) {
                self.refuse(id, &why);
            }
            return;
        }
        let rung = door.listen();
        member.is_gone |= rung.gone;
        self.look_after(id);
        let Some(member) = self.members.get_mut(&id) else { return };
        if rung.gone {
            return self.lose(id, OTHER_END_GONE.into());
        }
        let Some(door) = &member.door else { return };
        if rung.ring {
            door.ring_done();
        }
        let rings = &mut member.rings;
        if !(member.connection.is_open() && member.connection.has_work()) {
            rings.is_late = false;
        } else if rung.done || rings.is_late {
            let ended = member.connection.ended;
            rings.fruitless = if ended == rings.ended { rings.fruitless + 1 } else { 0 };
            rings.ended = ended;
            if rung.done && rings.fruitless > FRUITLESS_RINGS {
                rings.is_late = true;
            } else {
                rings.is_late = false;
                door.ring();
            }
        }
    }

    /// Returns the descriptors to wait for.
    pub fn descriptors(&self) -> Vec<(RawFd, PollFlags)> {
        let mut all: Vec<(RawFd, PollFlags)> = Vec::new();
        all.extend(self.network.event_fd().map(|fd| (fd, PollFlags::IN)));
        for listener in self.listeners.values() {
            if let Entrance::Porch(porch) = &listener.entrance {
                // A full backlog is checked again at the next event.
                if listener.backlog.length() < crate::inbox::MAX_BACKLOG {
                    all.push((porch.as_fd().as_raw_fd(), PollFlags::IN));
                }
            }
        }
        let doors = self.visitors.iter().map(|visitor| &visitor.door);
        let doors = doors.chain(self.farewells.iter().map(|farewell| &farewell.door));
        all.extend(doors.map(|door| (door.as_fd().as_raw_fd(), PollFlags::IN)));
        for member in self.members.values() {
            all.extend(member.connection.endpoint.wait_fd().map(|fd| (fd, PollFlags::IN)));
            if let Some(door) = &member.door {
                let flags = match door.is_connecting() {
                    true => PollFlags::OUT,
                    false => PollFlags::IN,
                };
                all.push((door.as_fd().as_raw_fd(), flags));
            }
        }
        all
    }

    /// Returns the longest time to wait.
    pub fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let again = self.members.values().any(|member| {
            member.rings.is_late || member.connection.is_open() && member.connection.is_stalled()
        });
        let left = |since: Instant, patience: Duration| {
            (since + patience).saturating_duration_since(now).max(AGAIN)
        };
        let visitors = self.visitors.iter().map(|visitor| left(visitor.since, HELLO_PATIENCE));
        let farewells = self.farewells.iter().filter(|farewell| !farewell.replies.is_empty());
        let farewells = farewells.map(|farewell| left(farewell.since, CLOSE_PATIENCE));
        again.then_some(AGAIN).into_iter().chain(visitors).chain(farewells).min()
    }
}
