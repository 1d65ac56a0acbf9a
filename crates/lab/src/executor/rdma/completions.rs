// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends of operations, by the completion entries that a NIC has written.

use std::task::Waker;

use crosslane_device::nic::Nic;
use crosslane_device::nic::layout::{Entry, EntryKind, Status};
use crosslane_host::{ErrorKind, RdmaError, RdmaResult, Reason};

use super::super::shared::{Outcome, State};
use super::connections::{Connection, Dead, Life};

impl State {
    /// Handles a change of watched memory: processes completion entries, if it belongs to a
    /// connection. Collects the wakers to wake.
    pub(in super::super) fn completed(&mut self, token: u64, wakers: &mut Vec<Waker>) -> bool {
        let Some(&id) = self.networks.watches.get(&token) else { return false };
        while let Some(bytes) = self.next_entry(id) {
            // A NIC writes no other kind.
            let Some(entry) = Entry::from_bytes(&bytes) else { continue };
            match entry.kind {
                EntryKind::Request { id: number } => {
                    self.request_ended(id, number, entry.status, wakers);
                }
                EntryKind::Message { bytes } => self.message_came(id, bytes, wakers),
                EntryKind::Closed => {
                    self.lost(id, entry.status, wakers);
                    return true;
                }
            }
        }
        self.post_queued(id);
        self.watch_entries(id);
        true
    }

    fn request_ended(&mut self, id: u64, number: u32, status: Status, wakers: &mut Vec<Waker>) {
        let Some(connection) = self.networks.connections.get_mut(&id) else { return };
        let peer = connection.peer.to_string();
        // Operations stay until they have ended, whoever waits for them.
        let Some(running) = connection.running.get_mut(&number) else { return };
        connection.ended = connection.ended.wrapping_add(running.places);
        connection.free_slots.extend(running.slot.take());
        let operation = running.operation;
        let refused = match status {
            Status::FarAccess => Some(ErrorKind::Denied),
            Status::FarBounds | Status::BadRequest => Some(ErrorKind::InvalidArgument),
            Status::FarMemory => Some(ErrorKind::Failed),
            _ => None,
        };
        let result = match (status, refused) {
            (Status::Done, _) => Ok(()),
            (_, Some(kind)) => {
                let why = Reason::new(kind, status.text());
                Err(RdmaError::Refused { peer, operation, why })
            }
            (_, None) => Err(RdmaError::Lost { peer, why: status.text().to_owned() }),
        };
        self.end_operation(id, number, result, wakers);
    }

    /// Gives an operation its result, or drops the result if no future waits for it.
    fn end_operation(
        &mut self,
        id: u64,
        number: u32,
        result: RdmaResult<()>,
        wakers: &mut Vec<Waker>,
    ) {
        let Some(connection) = self.networks.connections.get_mut(&id) else { return };
        let Some(running) = connection.running.get_mut(&number) else { return };
        let holds = running.holds.take();
        self.networks.dead.extend(holds.map(|_region| Dead::Region { _region }));
        match running.token {
            Some(token) => {
                running.result.get_or_insert(result);
                wakers.extend(self.give(token, Outcome::Happened));
            }
            None => drop(connection.running.remove(&number)),
        }
    }

    fn message_came(&mut self, id: u64, bytes: u32, wakers: &mut Vec<Waker>) {
        let Some(connection) = self.networks.connections.get_mut(&id) else { return };
        connection.messages.push_back(bytes);
        if let Some(token) = connection.receiving.take() {
            wakers.extend(self.give(token, Outcome::Happened));
        }
    }

    /// Handles the last entry of a connection: the NIC is done with it.
    fn lost(&mut self, id: u64, status: Status, wakers: &mut Vec<Waker>) {
        let mut saved = Vec::new();
        while let Some(message) = self.copy_message(id, saved.len()) {
            saved.push(message);
        }
        let Some(connection) = self.networks.connections.get_mut(&id) else { return };
        connection.life = Life::Lost(status.text().to_owned());
        connection.messages.clear();
        connection.saved.extend(saved);
        connection.forget_queued();
        let (watch, key, pair) = (connection.watch, connection.key, connection.pair);
        let adapter = connection.adapter.clone();
        let memory = connection.memory.take();
        let numbers: Vec<u32> = connection.running.keys().copied().collect();
        let tokens: Vec<u64> =
            connection.closing.drain(..).chain(connection.receiving.take()).collect();
        let loss = connection.loss();
        self.networks.watches.remove(&watch);
        self.fabric.cancel_host_watch(watch);
        self.fabric.command(adapter.node, |nic: &mut Nic, _| nic.destroy(pair));
        if let Some(memory) = memory {
            self.deregister(&adapter, memory.id(), key);
            self.networks.dead.push(Dead::Memory { _memory: memory });
        }
        for number in numbers {
            if let Some(error) = loss.clone() {
                self.end_operation(id, number, Err(error), wakers);
            }
        }
        for token in tokens {
            wakers.extend(self.give(token, Outcome::Happened));
        }
        if self.networks.connections.get(&id).is_some_and(|connection| !connection.is_held) {
            self.networks.connections.remove(&id);
        }
    }

    /// Takes the result of an operation, if it has ended.
    pub(super) fn result_of(&mut self, id: u64, number: u32) -> Option<RdmaResult<()>> {
        let connection = self.networks.connections.get_mut(&id)?;
        let result = connection.running.get_mut(&number)?.result.take()?;
        connection.running.remove(&number);
        Some(result)
    }

    /// Notes that no future waits for the result any more; the operation still runs to its end.
    pub(super) fn forget_result(&mut self, id: u64, number: u32) {
        let connection: Option<&mut Connection> = self.networks.connections.get_mut(&id);
        let Some(connection) = connection else { return };
        let Some(running) = connection.running.get_mut(&number) else { return };
        running.token = None;
        if running.result.is_some() {
            connection.running.remove(&number);
        }
    }
}
