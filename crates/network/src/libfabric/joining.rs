// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Setup of connections: by the provider's requests and events or, for connectionless endpoints, by
//! the hellos at the [`Door`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crosslane_host::{ErrorKind, PageSize, RdmaError, Reason, RemoteAccess};
use rustix::io::Errno;

use super::connection::{
    Connection, MESSAGES_BYTES, OTHER_END_GONE, Phase, Reply, SLOTS, Settings, TRANSFERS,
};
use super::door::{Door, GREETING, Kind};
use super::endpoint::RawEndpoint;
use super::guard::{Guard, Watch};
use super::library::{FiError, Result};
use super::message::SENDS;
use super::raw::{Event, Registration, Request};
use super::state::{Entrance, Member, Rings, State, Visitor};
use crate::inbox::{Inbox, MAX_BACKLOG, Queue};
use crate::memory::Mapping;

/// Longest piece of a read or write, bytes: adapters take 1 GiB.
const MAX_PIECE_BYTES: u64 = 1 << 30;
/// Most visitors that have rung without a hello so far.
const MAX_VISITORS: usize = 64;

/// Accepted connections of one listener that no program has taken yet.
pub type Backlog = Queue<Accepted>;

/// An accepted connection that no program has taken yet.
#[derive(Debug)]
pub struct Accepted {
    pub id: u64,
    pub peer: String,
    pub inbox: Arc<Inbox>,
}

/// An endpoint about to become a connection.
struct Newcomer {
    endpoint: RawEndpoint,
    door: Option<Door>,
    name: Vec<u8>,
    watch: Option<Watch>,
}

impl Newcomer {
    const fn with_connection(endpoint: RawEndpoint) -> Self {
        Self { endpoint, door: None, name: Vec::new(), watch: None }
    }
}

/// Watches the process behind a door, where the provider needs it.
fn watch(guard: Option<&Guard>, id: u64, door: &Door, names: [&[u8]; 2]) -> Option<Watch> {
    guard?.watch(id, door.process()?, names)
}

impl State {
    fn settings(&self) -> Settings {
        let facts = &self.network.facts;
        let slots = facts.transmit_slots.saturating_sub(SENDS.into()).max(1);
        Settings {
            most_piece: facts.max_message_bytes.clamp(1, MAX_PIECE_BYTES),
            transfers: slots.min(TRANSFERS.into()) as u32,
            asks: !self.network.options().hardware,
        }
    }

    fn message_memory(&self) -> Result<Arc<Registration>, String> {
        let mapping = Mapping::new(MESSAGES_BYTES, PageSize::Small);
        let mapping = Arc::new(mapping.map_err(|error| error.to_string())?);
        self.register_raw(&mapping, MESSAGES_BYTES, RemoteAccess::NONE)
    }

    /// Adds an endpoint as a member.
    fn join(
        &mut self,
        id: u64,
        newcomer: Newcomer,
        peer: String,
        inbox: Arc<Inbox>,
    ) -> Result<&mut Member, String> {
        let Newcomer { endpoint, door, name, watch } = newcomer;
        let (messages, fid) = (self.message_memory()?, endpoint.fid());
        let connection = Connection::new(endpoint, messages, peer, inbox, &self.settings());
        let connection = connection.map_err(FiError::text)?;
        self.by_fid.insert(fid, id);
        let is_unsaid = door.as_ref().is_some_and(Door::is_connecting);
        let (is_gone, rings) = (false, Rings::default());
        let member = Member { connection, door, is_gone, name, is_unsaid, rings, watch };
        // The id is new.
        Ok(self.members.entry(id).or_insert(member))
    }

    // --- Connecting from this end -----------------------------------------------------------

    pub(super) fn connect(
        &mut self,
        id: u64,
        to: SocketAddr,
        peer: String,
        inbox: Arc<Inbox>,
        reply: Reply<()>,
    ) {
        let newcomer = match self.door {
            Some(kind) => self.ring_at(kind, to),
            None => match self.network.connect(to, SLOTS, &GREETING) {
                Ok(endpoint) => Ok(Newcomer::with_connection(endpoint)),
                Err(error) => Err(error.text()),
            },
        };
        match newcomer.and_then(|newcomer| self.join(id, newcomer, peer, inbox)) {
            Ok(member) => member.connection.phase = Phase::Connecting(reply),
            Err(why) => {
                let (address, why) = (to.to_string(), Reason::new(ErrorKind::LinkDown, why));
                let _ = reply.send(Err(RdmaError::Address { address, why }));
            }
        }
    }

    fn ring_at(&mut self, kind: Kind, to: SocketAddr) -> Result<Newcomer, String> {
        let door = Door::connect(kind, to).map_err(|error| match (kind, error) {
            (Kind::Local, Errno::CONNREFUSED) => {
                "no program of this machine listens there with shm (with tls or tcp, perhaps)"
                    .into()
            }
            (Kind::Local, Errno::AGAIN) => "too many connect there at once".into(),
            (_, error) => error.to_string(),
        })?;
        if kind == Kind::Local && door.leads_home() {
            // The provider maps such a peer's memory once, and unmaps it for both.
            return Err("shm joins two processes, and who listens there is this one".into());
        }
        let (endpoint, name) = self.datagram_endpoint()?;
        if !door.is_connecting() {
            door.say_hello(&name).map_err(|error| error.to_string())?;
        }
        Ok(Newcomer { endpoint, door: Some(door), name, watch: None })
    }

    fn datagram_endpoint(&mut self) -> Result<(RawEndpoint, Vec<u8>), String> {
        let is_local = self.door == Some(Kind::Local);
        let service = is_local.then(super::shm::endpoint_name);
        self.network.datagram_endpoint(SLOTS, service.as_deref()).map_err(FiError::text)
    }

    /// Continues with a door at which this end has rung.
    pub(super) fn go_on_connecting(&mut self, id: u64) -> Result<(), String> {
        let Some(member) = self.members.get_mut(&id) else { return Ok(()) };
        let Some(door) = &mut member.door else { return Ok(()) };
        if member.is_unsaid {
            if !door.is_writable() {
                return Ok(());
            }
            door.finish_connecting().map_err(|error| error.to_string())?;
            door.say_hello(&member.name).map_err(|error| error.to_string())?;
            member.is_unsaid = false;
        }
        let Some(name) = door.hear_hello()? else { return Ok(()) };
        member.watch = watch(self.guard.as_deref(), id, door, [&member.name, &name]);
        member.connection.endpoint.set_peer(&name).map_err(FiError::text)?;
        self.opened(id);
        Ok(())
    }

    // --- Connections from others ------------------------------------------------------------

    pub(super) fn take_event(&mut self, event: Event) {
        match event {
            Event::Request { fid, request, greeting } => self.requested(fid, request, &greeting),
            Event::Connected { fid, greeting } => {
                let Some(&id) = self.by_fid.get(&fid) else { return };
                let connecting = self
                    .members
                    .get(&id)
                    .is_some_and(|member| matches!(member.connection.phase, Phase::Connecting(_)));
                if connecting && greeting != GREETING {
                    self.refuse(id, "it is not a program of this kind, or has another version");
                } else {
                    self.opened(id);
                }
            }
            Event::Shutdown { fid } => {
                let Some(&id) = self.by_fid.get(&fid) else { return };
                // Everything received before the shutdown is still good.
                self.look_after(id);
                self.lose(id, OTHER_END_GONE.into());
            }
            Event::Failed { fid, why } => {
                let Some(&id) = self.by_fid.get(&fid) else { return };
                self.refuse(id, &why);
            }
        }
    }

    fn requested(&mut self, fid: usize, request: Request, greeting: &[u8]) {
        let Some(&listener_id) = self.by_fid.get(&fid) else { return };
        let Some(listener) = self.listeners.get(&listener_id) else { return };
        let Entrance::Provider(raw) = &listener.entrance else { return };
        if greeting != GREETING || listener.backlog.length() >= MAX_BACKLOG {
            raw.reject(request);
            return;
        }
        // On an error the client has hung up meanwhile, or this machine lacks a resource: the
        // listener carries on, and the client's attempt fails.
        let Ok(endpoint) = self.network.accept(request, SLOTS, &GREETING) else { return };
        let peer = endpoint.peer_address();
        let peer = peer.map_or_else(|| "a client".to_owned(), |peer| peer.to_string());
        let newcomer = Newcomer::with_connection(endpoint);
        let id = self.next_id();
        if let Ok(member) = self.join(id, newcomer, peer, Arc::default()) {
            member.connection.phase = Phase::Accepting(listener_id);
        }
    }

    /// Ends a connection whose setup failed, or that is lost.
    pub(super) fn refuse(&mut self, id: u64, why: &str) {
        let Some(member) = self.members.get(&id) else { return };
        let (peer, why) = (member.connection.peer.clone(), why.to_owned());
        let error = match member.connection.phase {
            Phase::Connecting(_) => {
                RdmaError::Address { address: peer, why: Reason::new(ErrorKind::LinkDown, why) }
            }
            Phase::Accepting(_) | Phase::Open => RdmaError::Lost { peer, why },
        };
        self.end(id, error, None);
    }

    /// Opens a connection whose both ends are ready.
    fn opened(&mut self, id: u64) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let connection = &mut member.connection;
        match std::mem::replace(&mut connection.phase, Phase::Open) {
            Phase::Connecting(reply) => {
                // If the caller has gone, its `Close` will follow.
                let _ = reply.send(Ok(()));
            }
            Phase::Accepting(listener) => {
                let (peer, inbox) = (connection.peer.clone(), connection.inbox.clone());
                match self.listeners.get(&listener) {
                    Some(listener) => listener.backlog.push(Accepted { id, peer, inbox }),
                    None => self.refuse(id, "nobody listens any more"),
                }
            }
            Phase::Open => {}
        }
        self.look_after(id);
    }

    /// Takes in visitors that have rung at a porch.
    pub(super) fn welcome(&mut self, listener_id: u64) {
        while self.visitors.len() < MAX_VISITORS {
            let Some(listener) = self.listeners.get(&listener_id) else { return };
            let Entrance::Porch(porch) = &listener.entrance else { return };
            if listener.backlog.length() >= MAX_BACKLOG {
                return;
            }
            match porch.accept() {
                Ok(Some((door, peer))) => {
                    let (listener, since) = (listener_id, Instant::now());
                    self.visitors.push(Visitor { door, peer, listener, since });
                }
                Ok(None) => return,
                Err(error) => {
                    let (address, why) =
                        ("the listener".into(), std::io::Error::from(error).into());
                    listener.backlog.lose(RdmaError::Address { address, why });
                    return;
                }
            }
        }
    }

    /// Reads a visitor's hello; returns the visitor if it has not sent it yet.
    pub(super) fn hear(&mut self, mut visitor: Visitor) -> Option<Visitor> {
        let name = match visitor.door.hear_hello() {
            Ok(Some(name)) => name,
            Ok(None) => return Some(visitor),
            // It has left, or is not a peer of this kind: no error to report.
            Err(_) => return None,
        };
        let Visitor { door, peer, listener, .. } = visitor;
        let (mut endpoint, own_name) = self.datagram_endpoint().ok()?;
        let id = self.next_id();
        let watch = watch(self.guard.as_deref(), id, &door, [&own_name, &name]);
        endpoint.set_peer(&name).ok()?;
        door.say_hello(&own_name).ok()?;
        let newcomer = Newcomer { endpoint, door: Some(door), name: own_name, watch };
        let member = self.join(id, newcomer, peer, Arc::default()).ok()?;
        member.connection.phase = Phase::Accepting(listener);
        self.opened(id);
        None
    }
}
