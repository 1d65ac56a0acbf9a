// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network between programs of one lab host, with a given time for data and faults on demand: it
//! can be slow, stall, refuse and cut.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crosslane_host::{
    AnyBus, AnyMemory, Bus, DmaMemory, ErrorKind, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection,
    RdmaError, RdmaListener, RdmaRegion, Reason, RemoteAccess, RemoteMemory,
};
use crosslane_pcie::units::Picoseconds;
use futures_channel::mpsc;
use futures_util::StreamExt;

/// The fault of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// The operation with this number (reads and writes, from 0) never ends.
    StallAt(u64),
    /// No operation from this number on ends.
    SilentFrom(u64),
    /// The operation with this number is refused.
    RefuseAt(u64),
    /// The connection is cut when the operation with this number starts.
    CutAt(u64),
    /// The operation with this number changes its first byte.
    ChangeAt(u64),
    /// The connection is cut when the first of these operations starts, and the second one changes
    /// its first byte.
    CutAndChangeAt(u64, u64),
    /// The connection is cut when the operation with this number starts, and so many attempts to
    /// connect fail afterwards.
    AwayAt(u64, u64),
}

#[derive(Default)]
struct State {
    listeners: BTreeMap<String, mpsc::UnboundedSender<Connection>>,
    regions: BTreeMap<u64, (AnyMemory, RemoteAccess)>,
    last_key: u64,
    operations: u64,
    fault: Fault,
    /// Attempts to connect that fail.
    away: u64,
    /// Time at which the link is free.
    free: Picoseconds,
}

#[derive(Clone)]
pub struct Network {
    bus: AnyBus,
    state: Rc<RefCell<State>>,
    ps_per_byte: u64,
}

pub struct Registered {
    key: u64,
    memory: AnyMemory,
    state: Rc<RefCell<State>>,
}

#[derive(Clone)]
pub struct Region(Rc<Registered>);

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({})", self.0.key)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.state.borrow_mut().regions.remove(&self.key);
    }
}

impl RdmaRegion for Region {
    type Memory = AnyMemory;

    fn memory(&self) -> &AnyMemory {
        &self.0.memory
    }

    fn remote(&self) -> RemoteMemory {
        let bytes = self.0.memory.size_bytes();
        RemoteMemory { address: address_of(self.0.key), key: self.0.key, bytes }
    }
}

struct End {
    network: Network,
    side: usize,
    /// Messages to each end.
    to: [mpsc::UnboundedSender<Vec<u8>>; 2],
    incoming: RefCell<mpsc::UnboundedReceiver<Vec<u8>>>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.to.iter().for_each(mpsc::UnboundedSender::close_channel);
    }
}

#[derive(Clone)]
pub struct Connection(Rc<End>);

pub struct Listener {
    address: String,
    incoming: RefCell<mpsc::UnboundedReceiver<Connection>>,
}

impl Network {
    pub fn new(bus: impl Bus, ps_per_byte: u64) -> Self {
        Self { bus: AnyBus::new(bus), state: Rc::default(), ps_per_byte }
    }

    pub fn set_fault(&self, fault: Fault) {
        let mut state = self.state.borrow_mut();
        state.fault = fault;
        state.operations = 0;
    }

    pub fn registrations(&self) -> usize {
        self.state.borrow().regions.len()
    }
}

impl Rdma for Network {
    type Memory = AnyMemory;
    type Region = Region;
    type Connection = Connection;
    type Listener = Listener;

    fn name(&self) -> String {
        "test network".to_owned()
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<AnyMemory, RdmaError> {
        self.bus
            .allocate(bytes, pages)
            .map_err(|error| RdmaError::OutOfMemory { bytes, why: error.into() })
    }

    async fn register(
        &self,
        memory: &AnyMemory,
        access: RemoteAccess,
    ) -> Result<Region, RdmaError> {
        let mut state = self.state.borrow_mut();
        state.last_key += 1;
        let key = state.last_key;
        state.regions.insert(key, (memory.clone(), access));
        let state = Rc::clone(&self.state);
        Ok(Region(Rc::new(Registered { key, memory: memory.clone(), state })))
    }

    async fn listen(&self, address: &str) -> Result<Listener, RdmaError> {
        let (sender, incoming) = mpsc::unbounded();
        self.state.borrow_mut().listeners.insert(address.to_owned(), sender);
        Ok(Listener { address: address.to_owned(), incoming: RefCell::new(incoming) })
    }

    async fn connect(&self, address: &str, _: Picoseconds) -> Result<Connection, RdmaError> {
        let mut state = self.state.borrow_mut();
        let nobody = || RdmaError::Address {
            address: address.to_owned(),
            why: Reason::new(ErrorKind::LinkDown, "nobody"),
        };
        if state.away > 0 {
            state.away -= 1;
            return Err(nobody());
        }
        let listener = state.listeners.get(address).ok_or_else(nobody)?;
        let ((to_near, near), (to_far, far)) = (mpsc::unbounded(), mpsc::unbounded());
        let end = |side, incoming| {
            let (to, incoming) = ([to_near.clone(), to_far.clone()], RefCell::new(incoming));
            Connection(Rc::new(End { network: self.clone(), side, to, incoming }))
        };
        listener.unbounded_send(end(1, far)).map_err(|_| nobody())?;
        Ok(end(0, near))
    }
}

impl RdmaListener for Listener {
    type Connection = Connection;

    fn address(&self) -> String {
        self.address.clone()
    }

    #[allow(clippy::await_holding_refcell_ref)]
    async fn accept(&self) -> Result<Connection, RdmaError> {
        match self.incoming.borrow_mut().next().await {
            Some(connection) => Ok(connection),
            None => std::future::pending().await,
        }
    }
}

impl Connection {
    fn lost(&self) -> RdmaError {
        RdmaError::Lost { peer: self.peer(), why: "it was closed".to_owned() }
    }

    /// Takes the time of the data, and applies the fault; returns whether it changes data.
    async fn cross(&self, bytes: u64, operation: &'static str) -> Result<bool, RdmaError> {
        let network = &self.0.network;
        let (number, fault, arrives) = {
            let mut state = network.state.borrow_mut();
            let number = state.operations;
            state.operations += 1;
            let start = state.free.max(network.bus.now());
            state.free = Picoseconds(start.0 + bytes * network.ps_per_byte);
            (number, state.fault, state.free)
        };
        match fault {
            Fault::StallAt(at) if at == number => std::future::pending().await,
            Fault::SilentFrom(at) if at <= number => std::future::pending().await,
            Fault::RefuseAt(at) if at == number => {
                let why = Reason::new(ErrorKind::Failed, "asked for by the test");
                return Err(RdmaError::Refused { peer: self.peer(), operation, why });
            }
            Fault::CutAt(at) | Fault::CutAndChangeAt(at, _) if at == number => self.close().await,
            Fault::AwayAt(at, attempts) if at == number => {
                network.state.borrow_mut().away = attempts;
                self.close().await;
            }
            _ => {}
        }
        network.bus.sleep_until(arrives).await;
        if self.0.to[0].is_closed() {
            return Err(self.lost());
        }
        let changes = matches!(
            fault,
            Fault::ChangeAt(at) | Fault::CutAndChangeAt(_, at) if at == number
        );
        Ok(changes)
    }

    /// Finds registered memory by its key, and the offset there of the far end's first byte. As an
    /// adapter does, this goes by what is registered and not by what the other end says of it.
    fn far(&self, far: FarEnd, bytes: u64, is_read: bool) -> Result<(AnyMemory, u64), RdmaError> {
        let state = self.0.network.state.borrow();
        let may = |access: &RemoteAccess| if is_read { access.read } else { access.write };
        let found = state.regions.get(&far.memory.key).filter(|(_, access)| may(access));
        let start = far.memory.address.checked_add(far.offset_bytes);
        let offset = start.and_then(|start| start.checked_sub(address_of(far.memory.key)));
        if let (Some((memory, _)), Some(offset)) = (found, offset)
            && offset.checked_add(bytes).is_some_and(|end| end <= memory.size_bytes())
        {
            return Ok((memory.clone(), offset));
        }
        let operation = if is_read { "read" } else { "write" };
        let why = Reason::new(ErrorKind::Denied, "no such memory");
        Err(RdmaError::Refused { peer: self.peer(), operation, why })
    }
}

/// Returns the address of the memory that is registered under a key.
const fn address_of(key: u64) -> u64 {
    0x10_0000_u64.wrapping_mul(key)
}

/// Inverts a byte, if the fault says so.
fn change(memory: &AnyMemory, at: u64, is_changed: bool) {
    let mut byte = [0];
    memory.read(at, &mut byte).expect("it lies within");
    byte[0] = if is_changed { !byte[0] } else { return };
    memory.write(at, &byte).expect("it lies within");
}

impl RdmaConnection for Connection {
    type Region = Region;

    fn peer(&self) -> String {
        ["the server", "the client"][self.0.side].to_owned()
    }

    async fn send(&self, message: &[u8]) -> Result<(), RdmaError> {
        let sent = self.0.to[1 - self.0.side].unbounded_send(message.to_vec());
        sent.map_err(|_| self.lost())
    }

    #[allow(clippy::await_holding_refcell_ref)]
    async fn receive(&self) -> Result<Vec<u8>, RdmaError> {
        self.0.incoming.borrow_mut().next().await.ok_or_else(|| self.lost())
    }

    async fn read(&self, near: &NearEnd<Region>, far: FarEnd, bytes: u64) -> Result<(), RdmaError> {
        let (memory, offset) = self.far(far, bytes, true)?;
        let is_changed = self.cross(bytes, "read").await?;
        let (own, at) = (near.region.memory(), near.offset_bytes);
        memory.copy_into(offset, own, at, bytes).expect("it lies within");
        change(own, at, is_changed);
        Ok(())
    }

    async fn write(
        &self,
        near: &NearEnd<Region>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        let (memory, offset) = self.far(far, bytes, false)?;
        let is_changed = self.cross(bytes, "write").await?;
        let (own, at) = (near.region.memory(), near.offset_bytes);
        own.copy_into(at, &memory, offset, bytes).expect("it lies within");
        change(&memory, offset, is_changed);
        Ok(())
    }

    async fn close(&self) {
        self.0.to.iter().for_each(mpsc::UnboundedSender::close_channel);
    }
}
