// SPDX-License-Identifier: Apache-2.0 OR MIT
//! End of queue pairs. An ended queue pair stays until its program has seen its last entry, which
//! is written when all reads and writes for it are over.

use crosslane_fabric::DevicePort;

use super::Nic;
use super::layout::{Entry, EntryKind, Status};
use super::packet::{Kind, Packet};
use super::pair::State;

impl Nic {
    /// Ends a queue pair, with an error for `request` if it is known.
    pub(super) fn end_with(
        &mut self,
        number: u32,
        request: Option<(u32, Status)>,
        port: &mut DevicePort<'_>,
    ) {
        let is_connected = self.pair(number).is_some_and(|pair| pair.is_connected());
        if let Some((id, status)) = request.filter(|_| is_connected) {
            let entry = Entry { kind: EntryKind::Request { id }, status };
            self.entries.push_back((number, entry));
        }
        let status = match request {
            // The other end refused the request and ended its queue pair.
            Some((_, Status::FarAccess | Status::FarBounds | Status::FarMemory)) => {
                Status::ClosedThere
            }
            Some((_, status)) => status,
            None => Status::HostMemory,
        };
        self.end_pair(number, status, port);
    }

    /// Ends a queue pair. Its open work requests get no outcome.
    pub(super) fn end_pair(&mut self, number: u32, status: Status, port: &mut DevicePort<'_>) {
        let Some(pair) = self.pair(number) else { return };
        let was_connected = pair.is_connected();
        if !was_connected && pair.state != State::New {
            return;
        }
        pair.state = State::Ending(status);
        pair.requests.clear();
        pair.begun = 0;
        pair.responses.clear();
        let far = pair.far;
        for index in pair.made.iter_mut().flat_map(std::mem::take).collect::<Vec<_>>() {
            if let Some(made) = self.made[index as usize].take() {
                let (bytes, all) = (made.packet.payload.len() as u32, self.made_bytes);
                assert!(bytes <= all, "a packet of {bytes} B goes, and {all} B are made");
                self.made_bytes -= bytes;
                self.made_free.push(index);
            }
        }
        self.making = self.making.filter(|making| making.pair != number);
        self.requester.abandon(|target| target.pair == number);
        let other_knows = matches!(status, Status::ClosedThere | Status::RefusedHere);
        if was_connected && !other_knows {
            let (kind, payload) = (Kind::Disconnect, Vec::new());
            self.notices.push_back(Packet { to: far, message: 0, kind, payload });
        }
        self.look_at_ending(number);
        // Others may wait for the resources that it held.
        let now_ps = port.now_ps();
        self.timer.at(now_ps, port);
    }

    pub(super) fn end_all(&mut self, status: Status, port: &mut DevicePort<'_>) {
        for number in self.numbers() {
            self.end_pair(number, status, port);
        }
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        let slots = (0_u32..).zip(&self.slots).filter(|(_, slot)| slot.pair.is_some());
        slots.map(|(at, slot)| u32::from(slot.turn) << 16 | at).collect()
    }

    /// Handles the end, good or bad, of a host memory read for a queue pair.
    pub(super) fn read_ended(&mut self, number: u32) {
        let Some(pair) = self.pair(number) else { return };
        assert!(pair.reads > 0, "a read of queue pair {number} ends, and none is under way");
        pair.reads -= 1;
        self.look_at_ending(number);
    }

    fn look_at_ending(&mut self, number: u32) {
        let Some(pair) = self.pair(number) else { return };
        if let State::Ending(status) = pair.state
            && pair.reads == 0
        {
            pair.state = State::Ended;
            self.entries.push_back((number, Entry { kind: EntryKind::Closed, status }));
        }
    }

    pub(super) fn time_out_pairs(&mut self, port: &mut DevicePort<'_>) {
        let (now_ps, timeout_ps) = (port.now_ps(), self.parameters.retry_timeout.0);
        self.retry.fired(now_ps);
        let down_ps = self.link.as_ref().and_then(|link| link.down_since_ps);
        let mut next_ps = u64::MAX;
        for number in self.numbers() {
            let Some(pair) = self.pair(number).filter(|pair| pair.is_connected()) else {
                continue;
            };
            let sign_ps = pair.waits_for_far().then_some(pair.sign_ps);
            let Some(since_ps) = sign_ps.into_iter().chain(down_ps).min() else { continue };
            let due_ps = since_ps + timeout_ps;
            if due_ps <= now_ps {
                self.end_pair(number, Status::TimedOut, port);
            } else {
                next_ps = next_ps.min(due_ps);
            }
        }
        if next_ps < u64::MAX {
            self.retry.at(next_ps, port);
        }
    }
}
