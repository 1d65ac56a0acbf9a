// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Complete state of one network: requests of programs, and events. One thread at a time uses it,
//! behind the lock in [`Shared`](super::shared::Shared).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crosslane_host::{ErrorKind, RdmaError, RdmaResult, Reason, RemoteAccess, RemoteMemory};
use futures_channel::oneshot;

use super::connection::{Connection, Direction, Phase, Question, Reply, Transfer};
use super::door::{Door, Kind, Porch};
use super::endpoint::Far;
use super::guard::{Guard, Watch};
use super::joining::Backlog;
use super::library::{FiError, Result};
use super::message::Grant;
use super::raw::{RawListener, RawNetwork, Registration};
use crate::inbox::Inbox;
use crate::memory::Mapping;

/// Most mappings kept because the other end might still write there.
const MAX_RETIRED: usize = 1 << 12;

/// A request of a program. The program chooses the ids, so that it can take back a request that it
/// no longer waits for.
pub enum Command {
    Register {
        id: u64,
        mapping: Arc<Mapping>,
        bytes: u64,
        access: RemoteAccess,
        reply: Reply<RemoteMemory>,
    },
    Unregister {
        id: u64,
    },
    Listen {
        id: u64,
        at: SocketAddr,
        backlog: Arc<Backlog>,
        reply: Reply<SocketAddr>,
    },
    Unlisten {
        id: u64,
    },
    Connect {
        id: u64,
        to: SocketAddr,
        peer: String,
        inbox: Arc<Inbox>,
        reply: Reply<()>,
    },
    Transfer {
        connection: u64,
        direction: Direction,
        region: u64,
        near_offset: u64,
        far: Far,
        bytes: u64,
        reply: Reply<()>,
    },
    Send {
        connection: u64,
        message: Vec<u8>,
        reply: Reply<()>,
    },
    Taken {
        connection: u64,
    },
    Close {
        connection: u64,
        reply: Option<oneshot::Sender<()>>,
    },
}

impl Command {
    /// Returns whether a software provider may copy for long when this begins.
    pub const fn is_long(&self) -> bool {
        /// Length that takes as long to copy as it takes to wake a thread.
        const LONG_BYTES: u64 = 64 << 10;
        matches!(self, Self::Transfer { direction: Direction::Write, bytes: LONG_BYTES.., .. })
    }
}

pub(super) struct Member {
    pub connection: Connection,
    pub door: Option<Door>,
    /// Whether the other end has hung up.
    pub is_gone: bool,
    /// The name of a connectionless endpoint; empty for others.
    pub name: Vec<u8>,
    /// Whether the name must be sent as soon as the door is connected.
    pub is_unsaid: bool,
    pub rings: Rings,
    /// Dropped after the endpoint, whose locks it keeps free.
    pub watch: Option<Watch>,
}

/// Rings for work in progress.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// Count of ended operations at the last ring.
    pub ended: u64,
    /// Rings since that count last changed.
    pub fruitless: u32,
    /// Whether the next ring is delayed.
    pub is_late: bool,
}

pub(super) enum Entrance {
    Provider(RawListener),
    Porch(Porch),
}

pub(super) struct Listener {
    pub entrance: Entrance,
    pub backlog: Arc<Backlog>,
}

/// A peer that has rung but not yet sent its hello.
pub(super) struct Visitor {
    pub door: Door,
    pub peer: String,
    pub listener: u64,
    pub since: Instant,
}

/// A connection that has ended here, but perhaps not yet in the other process.
pub(super) struct Farewell {
    id: u64,
    pub door: Door,
    pub replies: Vec<oneshot::Sender<()>>,
    pub since: Instant,
    _held: Vec<Arc<Registration>>,
}

/// Memory that was registered for others, and may be written until these connections end.
pub(super) struct Retired {
    pub mapping: Arc<Mapping>,
    pub is_empty: bool,
    connections: BTreeSet<u64>,
}

struct Registered {
    registration: Arc<Registration>,
    access: RemoteAccess,
}

pub struct State {
    // In the order in which they must end.
    pub(super) members: BTreeMap<u64, Member>,
    pub(super) by_fid: BTreeMap<usize, u64>,
    pub(super) listeners: BTreeMap<u64, Listener>,
    pub(super) visitors: Vec<Visitor>,
    pub(super) farewells: Vec<Farewell>,
    registrations: BTreeMap<u64, Registered>,
    by_key: BTreeMap<u64, u64>,
    pub(super) retired: Vec<Retired>,
    pub(super) network: RawNetwork,
    /// Kind of the sockets beside connectionless endpoints; `None` for connected ones.
    pub(super) door: Option<Kind>,
    pub(super) guard: Option<Arc<Guard>>,
    last_id: Arc<AtomicU64>,
}

impl State {
    pub fn new(
        network: RawNetwork,
        door: Option<Kind>,
        guard: Option<Arc<Guard>>,
        last_id: Arc<AtomicU64>,
    ) -> Self {
        Self {
            members: BTreeMap::new(),
            by_fid: BTreeMap::new(),
            listeners: BTreeMap::new(),
            visitors: Vec::new(),
            farewells: Vec::new(),
            registrations: BTreeMap::new(),
            by_key: BTreeMap::new(),
            retired: Vec::new(),
            network,
            door,
            guard,
            last_id,
        }
    }

    pub(super) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    // --- Commands ---------------------------------------------------------------------------

    pub fn execute(&mut self, command: Command) {
        match command {
            Command::Register { id, mapping, bytes, access, reply } => {
                let _ = reply.send(self.register(id, &mapping, bytes, access));
            }
            Command::Unregister { id } => self.unregister(id),
            Command::Listen { id, at, backlog, reply } => {
                let _ = reply.send(self.listen(id, at, backlog));
            }
            Command::Unlisten { id } => self.unlisten(id),
            Command::Connect { id, to, peer, inbox, reply } => {
                self.connect(id, to, peer, inbox, reply);
            }
            Command::Transfer { connection, direction, region, near_offset, far, bytes, reply } => {
                let Some(member) = self.members.get_mut(&connection) else { return };
                let Some(registered) = self.registrations.get(&region) else { return };
                let near = registered.registration.clone();
                let (done, piece) = (0, 0);
                let transfer =
                    Transfer { direction, near, near_offset, far, bytes, done, piece, reply };
                member.connection.transfer(transfer);
                self.look_after(connection);
            }
            Command::Send { connection, message, reply } => {
                let Some(member) = self.members.get_mut(&connection) else { return };
                member.connection.send(message, reply);
                self.look_after(connection);
            }
            Command::Taken { connection } => {
                let Some(member) = self.members.get_mut(&connection) else { return };
                member.connection.tell_taken();
                self.look_after(connection);
            }
            Command::Close { connection, reply } => self.close(connection, reply),
        }
    }

    fn register(
        &mut self,
        id: u64,
        mapping: &Arc<Mapping>,
        bytes: u64,
        access: RemoteAccess,
    ) -> RdmaResult<RemoteMemory> {
        let failed = |why: String| RdmaError::Registration {
            bytes,
            why: Reason::new(ErrorKind::Failed, why),
        };
        let registration = self.register_raw(mapping, bytes, access).map_err(failed)?;
        let is_virtual = self.network.facts.addresses_are_virtual;
        let address = if is_virtual { registration.virtual_address() } else { 0 };
        let remote = RemoteMemory { address, key: registration.key(), bytes };
        self.by_key.insert(registration.key(), id);
        self.registrations.insert(id, Registered { registration, access });
        Ok(remote)
    }

    /// Registers memory. Keys that this node may choose are random, so that they cannot be guessed.
    pub(super) fn register_raw(
        &self,
        mapping: &Arc<Mapping>,
        bytes: u64,
        access: RemoteAccess,
    ) -> Result<Arc<Registration>, String> {
        let key = match self.network.facts.provider_gives_keys {
            true => 0,
            false => getrandom::u64().map_err(|error| error.to_string())?,
        };
        self.network.register(mapping, bytes, access, key).map_err(FiError::text)
    }

    fn unregister(&mut self, id: u64) {
        let Some(Registered { registration, access }) = self.registrations.remove(&id) else {
            return;
        };
        if self.by_key.get(&registration.key()) == Some(&id) {
            self.by_key.remove(&registration.key());
        }
        if (access.read || access.write) && !self.members.is_empty() {
            // A software provider may be in the middle of another node's operation: the addresses
            // must not be reused meanwhile.
            let connections = self.members.keys().copied().collect();
            let mapping = registration.mapping().clone();
            self.retired.push(Retired { mapping, is_empty: false, connections });
            if self.retired.len() > MAX_RETIRED {
                self.retired.remove(0);
            }
        }
    }

    fn listen(&mut self, id: u64, at: SocketAddr, backlog: Arc<Backlog>) -> RdmaResult<SocketAddr> {
        let failed = |why: Reason| RdmaError::Address { address: at.to_string(), why };
        let (entrance, at) = match self.door {
            Some(kind) => {
                let opened = Porch::open(kind, at)
                    .map_err(|error| failed(std::io::Error::from(error).into()));
                let (porch, at) = opened?;
                (Entrance::Porch(porch), at)
            }
            None => {
                let opened = self.network.listen(at);
                let opened =
                    opened.map_err(|error| failed(Reason::new(error.kind(), error.text())));
                let (listener, at) = opened?;
                self.by_fid.insert(listener.fid(), id);
                (Entrance::Provider(listener), at)
            }
        };
        self.listeners.insert(id, Listener { entrance, backlog });
        Ok(at)
    }

    fn unlisten(&mut self, id: u64) {
        let Some(listener) = self.listeners.remove(&id) else { return };
        if let Entrance::Provider(raw) = &listener.entrance {
            self.by_fid.remove(&raw.fid());
        }
        self.visitors.retain(|visitor| visitor.listener != id);
        let halfway =
            |member: &Member| matches!(member.connection.phase, Phase::Accepting(of) if of == id);
        let half: Vec<u64> =
            self.members.iter().filter(|(_, member)| halfway(member)).map(|(id, _)| *id).collect();
        let left = listener.backlog.take_all();
        for id in half.into_iter().chain(left.into_iter().map(|accepted| accepted.id)) {
            self.close(id, None);
        }
    }

    // --- Progress and end of connections ----------------------------------------------------

    /// Takes in completions of a connection, begins waiting operations, and rings if the other end
    /// must look too.
    pub fn look_after(&mut self, id: u64) {
        /// Passes over one connection before others get a turn.
        const PASSES: usize = 16;
        let Some(member) = self.members.get_mut(&id) else { return };
        let connection = &mut member.connection;
        // Without a descriptor nothing signals operations that end at once.
        let passes = if connection.endpoint.wait_fd().is_some() { 1 } else { PASSES };
        let memory = Memory {
            registrations: &self.registrations,
            by_key: &self.by_key,
            addresses_are_virtual: self.network.facts.addresses_are_virtual,
        };
        let mut result = Ok(());
        for _ in 0..passes {
            let before = connection.ended;
            result = memory.pass(connection);
            if result.is_err() || connection.ended == before {
                break;
            }
        }
        let has_begun = std::mem::take(&mut connection.has_begun);
        if let (true, Some(door)) = (has_begun, &member.door) {
            door.ring();
        }
        if let Err(why) = result {
            self.lose(id, why);
        }
    }

    pub(super) fn lose(&mut self, id: u64, why: String) {
        if let Some(member) = self.members.get(&id) {
            let peer = member.connection.peer.clone();
            self.end(id, RdmaError::Lost { peer, why }, None);
        }
    }

    fn close(&mut self, id: u64, reply: Option<oneshot::Sender<()>>) {
        let peer = self.members.get(&id).map(|member| member.connection.peer.clone());
        let why = "it was closed at this end".into();
        self.end(id, RdmaError::Lost { peer: peer.unwrap_or_default(), why }, reply);
    }

    /// Ends a connection: all its operations get this error.
    pub(super) fn end(&mut self, id: u64, why: RdmaError, reply: Option<oneshot::Sender<()>>) {
        let Some(member) = self.members.remove(&id) else {
            // It has ended before, and may still be waiting for the other process.
            let farewell = self.farewells.iter_mut().find(|farewell| farewell.id == id);
            match (farewell, reply) {
                (Some(farewell), Some(reply)) => farewell.replies.push(reply),
                (None, Some(reply)) => drop(reply.send(())),
                (_, None) => {}
            }
            return;
        };
        let Member { mut connection, door, is_gone, watch, .. } = member;
        self.by_fid.remove(&connection.endpoint.fid());
        for retired in &mut self.retired {
            retired.connections.remove(&id);
        }
        self.retired.retain(|retired| !retired.connections.is_empty());
        let has_transfers = connection.has_transfers();
        if door.is_none() {
            connection.endpoint.shutdown();
        }
        let held = connection.end(why);
        drop(watch);
        match door {
            Some(door) if has_transfers && !is_gone => {
                door.hang_up();
                let (replies, since) = (reply.into_iter().collect(), Instant::now());
                self.farewells.push(Farewell { id, door, replies, since, _held: held });
            }
            _ => {
                if let Some(reply) = reply {
                    let _ = reply.send(());
                }
            }
        }
    }
}

/// Memory that others may reach.
struct Memory<'a> {
    registrations: &'a BTreeMap<u64, Registered>,
    by_key: &'a BTreeMap<u64, u64>,
    addresses_are_virtual: bool,
}

impl Memory<'_> {
    fn grant(&self, key: u64) -> Option<Grant> {
        let Registered { registration, access } = self.registrations.get(self.by_key.get(&key)?)?;
        let address = if self.addresses_are_virtual { registration.virtual_address() } else { 0 };
        let (bytes, RemoteAccess { read, write }) = (registration.bytes, *access);
        (read || write).then_some(Grant { address, bytes, read, write })
    }

    fn pass(&self, connection: &mut Connection) -> Result<(), String> {
        for Question { id, key } in connection.reap()? {
            if !connection.answer(id, self.grant(key)) {
                return Err("it asks more than was agreed on".to_owned());
            }
        }
        connection.flush()
    }
}
