// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State of a lab's listeners and connections.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use crosslane_device::nic::layout::{
    MESSAGE_BYTES, Operation, QueueLayout, RECEIVE_DOORBELL, WorkRequest,
};
use crosslane_device::nic::{Nic, PairNumber};
use crosslane_fabric::CoreWork;
use crosslane_host::{ErrorKind, RdmaError, RdmaResult, Reason, RemoteAccess};
use crosslane_pcie::units::BusAddress;

use super::super::memory::LabMemory;
use super::super::shared::{Outcome, Shared, State};
use super::{Adapter, LabRegion, doorbells, what_operation};

/// Places of the ring of a connection's work requests; further operations wait.
const REQUESTS: u32 = 128;
/// Most messages that have arrived and not been received; further ones wait at the other end.
const MESSAGES: u32 = 16;
/// Most messages being sent at once; further ones wait.
const MESSAGES_OUT: u32 = 16;
const LAYOUT: QueueLayout = QueueLayout::new(REQUESTS, MESSAGES);
/// Host memory of a connection at each end, bytes: its rings, and outgoing messages.
pub(super) const QUEUE_BYTES: u64 = LAYOUT.bytes() + MESSAGES_OUT as u64 * MESSAGE_BYTES;
/// Most connections of a listener not yet accepted; further ones are refused.
const BACKLOG: usize = 64;
/// Ports for listeners that ask for any free one.
const FREE_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;
/// Token of doorbell stores, which have no wait.
const DOORBELL: u64 = u64::MAX;

struct Listening {
    adapter: Adapter,
    /// Connections not yet accepted.
    backlog: VecDeque<u64>,
    waiting: Vec<u64>,
}

/// An operation in progress.
pub(super) struct Running {
    pub operation: &'static str,
    /// The region it keeps registered until it has ended.
    pub holds: Option<LabRegion>,
    /// The wait of its future; `None` once that is dropped.
    pub token: Option<u64>,
    pub result: Option<RdmaResult<()>>,
    /// The slot of its message, and the places of its work request.
    pub slot: Option<u32>,
    pub places: u32,
}

/// An operation for which the rings have no room yet.
struct Queued {
    id: u32,
    work: WorkRequest,
    message: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// The connection's NIC has been told to end it.
    Closing,
    /// The connection has ended, for this reason.
    Lost(String),
}

/// One end of a connection.
pub(super) struct Connection {
    pub adapter: Adapter,
    pub core: u16,
    pub peer: Arc<str>,
    pub pair: PairNumber,
    /// Queues of the connection until it is lost, and their registration.
    pub memory: Option<LabMemory>,
    pub key: u32,
    pub life: Life,
    /// Whether a program holds it.
    pub is_held: bool,
    pub last_id: u32,
    pub running: BTreeMap<u32, Running>,
    queued: VecDeque<Queued>,
    /// Places of work requests posted, and ended.
    posted: u32,
    pub ended: u32,
    pub free_slots: Vec<u32>,
    /// Completion entries processed.
    pub seen: u32,
    /// Token of the watch on the next entry.
    pub watch: u64,
    /// Lengths of the messages in their slots, and messages saved when it was lost.
    pub messages: VecDeque<u32>,
    pub saved: VecDeque<Vec<u8>>,
    /// Messages taken by the program.
    taken: u32,
    pub receiving: Option<u64>,
    pub closing: Vec<u64>,
}

/// The networks of a lab, as programs see them.
#[derive(Default)]
pub(in super::super) struct Networks {
    last_id: u64,
    last_port: u16,
    /// Registrations of each memory with each NIC: host, memory, function.
    pins: BTreeMap<(usize, u64, u16), u32>,
    /// Listeners by host and port.
    listeners: BTreeMap<(usize, u16), Listening>,
    pub(super) connections: BTreeMap<u64, Connection>,
    /// Connection of each watch token.
    pub(super) watches: BTreeMap<u64, u64>,
    /// Objects to drop once the lab is unlocked.
    pub(super) dead: Vec<Dead>,
}

/// An object that must not be dropped while the lab is locked.
pub(in super::super) enum Dead {
    Region { _region: LabRegion },
    Memory { _memory: LabMemory },
}

impl Networks {
    pub(super) fn pinned_once_more(&mut self, adapter: &Adapter, memory: u64) {
        *self.pins.entry((adapter.host, memory, adapter.function.0)).or_default() += 1;
    }

    /// Removes one registration; returns whether it was the last.
    pub(super) fn pinned_once_less(&mut self, adapter: &Adapter, memory: u64) -> bool {
        let place = (adapter.host, memory, adapter.function.0);
        let Some(count) = self.pins.get_mut(&place) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.pins.remove(&place);
        }
        is_last
    }

    /// Whether a connection waits for its NIC to end it.
    pub(in super::super) fn is_closing(&self) -> bool {
        self.connections.values().any(|connection| connection.life == Life::Closing)
    }

    /// Takes all remaining objects, to be dropped without the lock, when the lab ends.
    pub(in super::super) fn take_all(&mut self) -> Vec<Dead> {
        let mut dead = std::mem::take(&mut self.dead);
        for (_, connection) in std::mem::take(&mut self.connections) {
            dead.extend(connection.memory.map(|_memory| Dead::Memory { _memory }));
            let holds = connection.running.into_values().filter_map(|running| running.holds);
            dead.extend(holds.map(|_region| Dead::Region { _region }));
        }
        dead
    }

    /// Listens at a port; 0 means any free one. `None` if it is taken.
    pub(super) fn listen(&mut self, adapter: &Adapter, port: u16) -> Option<u16> {
        let is_free = |port: u16| !self.listeners.contains_key(&(adapter.host, port));
        let mut free_ports = FREE_PORTS;
        let port = match port {
            0 => free_ports.find(|port| is_free(*port))?,
            port => Some(port).filter(|port| is_free(*port))?,
        };
        let adapter = adapter.clone();
        let listening = Listening { adapter, backlog: VecDeque::new(), waiting: Vec::new() };
        self.listeners.insert((listening.adapter.host, port), listening);
        Some(port)
    }

    /// Takes the next connection of a listener.
    pub(super) fn accept(&mut self, host: usize, port: u16) -> Option<(u64, Arc<str>)> {
        let id = self.listeners.get_mut(&(host, port))?.backlog.pop_front()?;
        let connection = self.connections.get_mut(&id)?;
        connection.is_held = true;
        Some((id, connection.peer.clone()))
    }
}

impl State {
    /// Registers a wait for a connection of a listener.
    pub(super) fn wait_to_accept(&mut self, host: usize, port: u16, token: u64) {
        let Some(listening) = self.networks.listeners.get_mut(&(host, port)) else { return };
        let mut waiting = std::mem::take(&mut listening.waiting);
        waiting.retain(|other| self.is_waiting(*other));
        waiting.push(token);
        if let Some(listening) = self.networks.listeners.get_mut(&(host, port)) {
            listening.waiting = waiting;
        }
    }

    /// Makes this core work a connection from now on.
    pub(super) fn set_core(&mut self, id: u64, core: u16) {
        if let Some(connection) = self.networks.connections.get_mut(&id) {
            connection.core = core;
        }
    }

    /// Ends a listener and its connections not yet accepted.
    pub(super) fn stop_listening(&mut self, host: usize, port: u16) {
        let Some(listening) = self.networks.listeners.remove(&(host, port)) else { return };
        for id in listening.backlog {
            self.let_go(id);
        }
    }

    /// Connects a NIC with a listener, each end with memory for its queues. Returns the near end's
    /// number, and the wakers to wake.
    pub(super) fn connect(
        &mut self,
        adapter: &Adapter,
        core: u16,
        to: (usize, u16),
        memories: [LabMemory; 2],
    ) -> Result<(u64, Vec<Waker>), Reason> {
        let result = self.try_connect(adapter, core, to, &memories);
        // The queues hold it, if they were made.
        let dead = memories.into_iter().map(|_memory| Dead::Memory { _memory });
        self.networks.dead.extend(dead);
        result
    }

    fn try_connect(
        &mut self,
        adapter: &Adapter,
        core: u16,
        to: (usize, u16),
        memories: &[LabMemory; 2],
    ) -> Result<(u64, Vec<Waker>), Reason> {
        let nobody = || Reason::new(ErrorKind::LinkDown, "nobody listens there");
        let listening = self.networks.listeners.get(&to).ok_or_else(nobody)?;
        let (far, waiting) = (listening.adapter.clone(), listening.backlog.len());
        if waiting >= BACKLOG {
            let why = format!("{waiting} connections wait to be accepted there already");
            return Err(Reason::new(ErrorKind::Busy, why));
        }
        let joined = self.fabric.device_as::<Nic>(adapter.node).and_then(|nic| nic.far());
        if joined != Some(far.node) {
            let why = format!("no network link joins {} and {}", adapter.name, far.name);
            return Err(Reason::new(ErrorKind::Unsupported, why));
        }
        let near = self.create_pair(adapter, &memories[0])?;
        let far_pair = match self.create_pair(&far, &memories[1]) {
            Ok(pair) => pair,
            Err(why) => {
                self.destroy_new(adapter, near, &memories[0]);
                return Err(why);
            }
        };
        let ends = [(adapter.node, near), (far.node, far_pair)];
        if let Err(error) = Nic::connect(&mut self.fabric, ends) {
            self.destroy_new(adapter, near, &memories[0]);
            self.destroy_new(&far, far_pair, &memories[1]);
            return Err(Reason::new(ErrorKind::Failed, error));
        }
        let networks = &mut self.networks;
        networks.last_port = networks.last_port.wrapping_add(1);
        let port = FREE_PORTS.start() + networks.last_port % (u16::MAX - FREE_PORTS.start());
        let name = |networks_host: usize| self.host_names[networks_host].clone();
        let peers =
            [format!("{}:{}", name(far.host), to.1), format!("{}:{port}", name(adapter.host))];
        let [near_peer, far_peer] = peers;
        let [near_memory, far_memory] = memories;
        let id = self.add_connection(adapter, core, near_peer, near, near_memory);
        let far_id = self.add_connection(&far, 0, far_peer, far_pair, far_memory);
        if let Some(connection) = self.networks.connections.get_mut(&id) {
            connection.is_held = true;
        }
        let mut wakers = Vec::new();
        if let Some(listening) = self.networks.listeners.get_mut(&to) {
            listening.backlog.push_back(far_id);
            for token in std::mem::take(&mut listening.waiting) {
                wakers.extend(self.give(token, Outcome::Happened));
            }
        }
        Ok((id, wakers))
    }

    /// Makes a queue pair in memory, which this pins.
    fn create_pair(&mut self, adapter: &Adapter, memory: &LabMemory) -> Result<PairNumber, Reason> {
        let runs = self.pin(memory, adapter.function).into_iter();
        let runs = crosslane_device::nic::Runs::new(runs.map(|part| (part.address, part.bytes)));
        let node = adapter.node;
        let created = self.fabric.command(node, |nic: &mut Nic, _| nic.create_pair(LAYOUT, runs));
        let created = match created {
            Some(created) => created.map_err(|error| {
                Reason::new(ErrorKind::Busy, format!("{}: {error}", adapter.name))
            }),
            None => Err(Reason::new(ErrorKind::Unsupported, "it is not a NIC")),
        };
        if created.is_err() {
            self.unpin(adapter.host, memory.id(), adapter.function);
        }
        created
    }

    /// Removes a queue pair that has no other end.
    fn destroy_new(&mut self, adapter: &Adapter, pair: PairNumber, memory: &LabMemory) {
        self.fabric.command(adapter.node, |nic: &mut Nic, _| nic.destroy(pair));
        self.unpin(adapter.host, memory.id(), adapter.function);
    }

    fn add_connection(
        &mut self,
        adapter: &Adapter,
        core: u16,
        peer: String,
        pair: PairNumber,
        memory: &LabMemory,
    ) -> u64 {
        let key = self.register(adapter, memory, RemoteAccess::NONE);
        self.networks.last_id += 1;
        let id = self.networks.last_id;
        let connection = Connection {
            adapter: adapter.clone(),
            core,
            peer: peer.into(),
            pair,
            memory: Some(memory.clone()),
            key,
            life: Life::Open,
            is_held: false,
            last_id: 0,
            running: BTreeMap::new(),
            queued: VecDeque::new(),
            posted: 0,
            ended: 0,
            free_slots: (0..MESSAGES_OUT).rev().collect(),
            seen: 0,
            watch: self.next_token(),
            messages: VecDeque::new(),
            saved: VecDeque::new(),
            taken: 0,
            receiving: None,
            closing: Vec::new(),
        };
        self.networks.watches.insert(connection.watch, id);
        self.networks.connections.insert(id, connection);
        self.watch_entries(id);
        id
    }

    /// Watches the next completion entry of a connection.
    pub(super) fn watch_entries(&mut self, id: u64) {
        let Some(connection) = self.networks.connections.get(&id) else { return };
        let Some(memory) = &connection.memory else { return };
        let (address, _) = memory.locate(LAYOUT.entry_offset(connection.seen));
        let (root_complex, token) = (connection.adapter.root_complex, connection.watch);
        self.fabric.host_watch(root_complex, address..address + 4, token);
    }

    /// Takes the next completion entry of a connection, if it has been written.
    pub(super) fn next_entry(&mut self, id: u64) -> Option<[u8; 64]> {
        let connection = self.networks.connections.get_mut(&id)?;
        let (address, _) = connection.memory.as_ref()?.locate(LAYOUT.entry_offset(connection.seen));
        let mut bytes = [0; 64];
        let host = self.hosts[connection.adapter.host];
        self.fabric.peek(host, BusAddress(address), &mut bytes);
        let turn = LAYOUT.entry_turn(connection.seen);
        if bytes[..4] != turn.to_le_bytes() {
            return None;
        }
        connection.seen += 1;
        Some(bytes)
    }

    // --- Operations ----------------------------------------------------------------------------

    /// Starts an operation: posts it, or keeps it until the rings have room. Returns its number and
    /// the token of its wait.
    pub(super) fn begin_operation(
        &mut self,
        id: u64,
        operation: &'static str,
        work: WorkRequest,
        message: Option<Vec<u8>>,
        holds: Option<LabRegion>,
    ) -> RdmaResult<(u32, u64)> {
        let lost = || RdmaError::Lost { peer: String::new(), why: "the lab has ended".to_owned() };
        let connection = self.networks.connections.get(&id).ok_or_else(lost)?;
        if let Some(error) = connection.loss() {
            return Err(error);
        }
        let bytes = work.bytes;
        let what = what_operation(connection.adapter.host, &connection.peer, operation, bytes);
        let token = self.begin_wait(what);
        let Some(connection) = self.networks.connections.get_mut(&id) else { return Err(lost()) };
        connection.last_id = connection.last_id.wrapping_add(1);
        let number = connection.last_id;
        let running =
            Running { operation, holds, token: Some(token), result: None, slot: None, places: 1 };
        connection.running.insert(number, running);
        let work = WorkRequest { id: number, ..work };
        connection.queued.push_back(Queued { id: number, work, message });
        self.post_queued(id);
        Ok((number, token))
    }

    /// Posts queued operations while the rings have room.
    pub(super) fn post_queued(&mut self, id: u64) {
        let mut has_posted = false;
        while let Some(connection) = self.networks.connections.get_mut(&id)
            && connection.life == Life::Open
            && let Some(memory) = &connection.memory
            && let Some(first) = connection.queued.front()
        {
            let (posted, places) = (connection.posted, first.work.places());
            if posted.wrapping_sub(connection.ended) + places > REQUESTS {
                break;
            }
            let is_inline = first.work.operation == Operation::SendInline;
            let slot = match &first.message {
                Some(_) if !is_inline => match connection.free_slots.pop() {
                    None => break,
                    slot => slot,
                },
                _ => None,
            };
            // A place of the ring lies within one page, and so does a message.
            let place = |number| LAYOUT.request_offset(posted.wrapping_add(number));
            let ring: Vec<u64> = (0..places).map(|at| memory.locate(place(at)).0).collect();
            let slot_offset = LAYOUT.bytes() + u64::from(slot.unwrap_or_default()) * MESSAGE_BYTES;
            let slot_place = memory.locate(slot_offset).0;
            let near_address = memory.first_address() + slot_offset;
            let Some(Queued { id: number, mut work, message }) = connection.queued.pop_front()
            else {
                break;
            };
            connection.posted = posted.wrapping_add(places);
            let (adapter, core, key) =
                (connection.adapter.clone(), connection.core, connection.key);
            if let Some(running) = connection.running.get_mut(&number) {
                (running.slot, running.places) = (slot, places);
            }
            let (host, message) = (self.hosts[adapter.host], message.unwrap_or_default());
            if work.operation.is_message() {
                let copy = CoreWork::Copy(message.len() as u64);
                self.fabric.spend(adapter.root_complex, core, copy);
            }
            let mut within = &message[..];
            if slot.is_some() {
                (work.near_key, work.near_address) = (key, near_address);
                self.fabric.poke(host, BusAddress(slot_place), &message);
                within = &[];
            }
            for (at, bytes) in ring.into_iter().zip(work.with_message(within)) {
                self.fabric.poke(host, BusAddress(at), &bytes);
            }
            has_posted = true;
        }
        if has_posted {
            let posted = self.networks.connections.get(&id).map_or(0, |of| of.posted);
            self.ring(id, 0, posted);
        }
    }

    /// Stores into a doorbell. The core does it after its earlier work.
    fn ring(&mut self, id: u64, offset: u64, count: u32) {
        let Some(connection) = self.networks.connections.get(&id) else { return };
        let Some(base) = doorbells(&self.fabric, connection.adapter.node) else { return };
        let address = base.offset(connection.pair.doorbells() + offset);
        let (root_complex, core) = (connection.adapter.root_complex, connection.core);
        let word = count.to_le_bytes();
        let asked = self.fabric.host_store(root_complex, core, address, &word, 4, DOORBELL);
        if asked.is_err() {
            // The core's queue is full.
            self.close(id);
        }
    }

    /// Takes the next message, if any.
    pub(super) fn take_message(&mut self, id: u64) -> Option<Vec<u8>> {
        let connection = self.networks.connections.get_mut(&id)?;
        if let Some(saved) = connection.saved.pop_front() {
            return Some(saved);
        }
        let message = self.copy_message(id, 0)?;
        let connection = self.networks.connections.get_mut(&id)?;
        connection.messages.pop_front();
        connection.taken = connection.taken.wrapping_add(1);
        let (taken, is_open) = (connection.taken, connection.life == Life::Open);
        if is_open {
            self.ring(id, RECEIVE_DOORBELL, taken);
        }
        Some(message)
    }

    /// Copies one of the messages in their slots.
    pub(super) fn copy_message(&mut self, id: u64, number: usize) -> Option<Vec<u8>> {
        let connection = self.networks.connections.get(&id)?;
        let bytes = *connection.messages.get(number)?;
        let count = connection.taken.wrapping_add(number as u32);
        let (address, _) = connection.memory.as_ref()?.locate(LAYOUT.message_offset(count));
        let mut message = vec![0; bytes as usize];
        let host = self.hosts[connection.adapter.host];
        self.fabric.peek(host, BusAddress(address), &mut message);
        Some(message)
    }

    // --- Ends ----------------------------------------------------------------------------------

    /// Tells the NIC to end a connection.
    pub(super) fn close(&mut self, id: u64) {
        let Some(connection) = self.networks.connections.get_mut(&id) else { return };
        if connection.life != Life::Open {
            return;
        }
        connection.life = Life::Closing;
        let (node, pair) = (connection.adapter.node, connection.pair);
        self.fabric.command(node, |nic: &mut Nic, port| nic.close(pair, port));
    }

    /// Notes that no program holds a connection any more.
    pub(super) fn let_go(&mut self, id: u64) {
        self.close(id);
        let Some(connection) = self.networks.connections.get_mut(&id) else { return };
        connection.is_held = false;
        if matches!(connection.life, Life::Lost(_)) {
            self.networks.connections.remove(&id);
        }
    }
}

impl Connection {
    /// Returns the error for a connection that is not open.
    pub(super) fn loss(&self) -> Option<RdmaError> {
        let why = match &self.life {
            Life::Open => return None,
            Life::Closing => "it was closed at this end",
            Life::Lost(why) => why,
        };
        Some(RdmaError::Lost { peer: self.peer.to_string(), why: why.to_owned() })
    }

    /// Drops the operations that were never posted.
    pub(super) fn forget_queued(&mut self) {
        self.queued.clear();
    }
}

impl Shared {
    /// Drops the objects that could not be dropped while the lab was locked.
    pub(in super::super) fn bury(&self) {
        loop {
            let dead = std::mem::take(&mut self.lock().networks.dead);
            if dead.is_empty() {
                return;
            }
            drop(dead);
        }
    }
}
