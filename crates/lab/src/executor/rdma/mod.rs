// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The networks of a lab: a verbs library for its programs, over the simulated NICs.
//!
//! Read first: [`LabRdma`], then `connections.rs` for the state of each connection and
//! `completions.rs` for the ends of its operations. Requests to a NIC that would go through a
//! kernel take the time given at each method; the rest uses doorbells and host memory.

mod completions;
mod connection;
mod connections;
mod listener;
mod region;

use std::fmt;
use std::sync::Arc;

use crosslane_device::nic::Nic;
use crosslane_fabric::{CoreWork, Fabric, NodeId};
use crosslane_host::ErrorKind::{Busy, InvalidArgument, LinkDown, NotFound, Unsupported};
use crosslane_host::{
    AnyMemory, Bus, DmaMemory, PageSize, Rdma, RdmaError, RdmaResult, Reason, RemoteAccess,
};
use crosslane_pcie::units::{HostId, Picoseconds, RoutingId};

use super::bus::LabBus;
use super::memory::LabMemory;
use super::shared::{Shared, What};
pub use connection::LabConnection;
pub(super) use connections::Networks;
pub use listener::LabListener;
pub use region::LabRegion;

/// A NIC of a host.
#[derive(Clone, Debug)]
pub(super) struct Adapter {
    pub host: usize,
    pub node: NodeId,
    /// The host's root complex.
    pub root_complex: NodeId,
    pub function: RoutingId,
    pub name: Arc<str>,
}

/// A host's access to a network: one of its NICs. Clones share it.
///
/// Its addresses are names of hosts with a port, such as `fpga-node:7471`. Connections that it
/// makes are worked by its core.
#[derive(Clone)]
pub struct LabRdma {
    bus: LabBus,
    shared: Arc<Shared>,
    adapter: Adapter,
}

impl fmt::Debug for LabRdma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LabRdma({})", self.name())
    }
}

impl LabRdma {
    pub(super) fn new(bus: LabBus, shared: Arc<Shared>, name: &str) -> RdmaResult<Self> {
        let host = usize::from(bus.host().0);
        let unusable = |kind, why: &str| {
            let network = format!("{name} of {}", shared.hosts[host].name);
            Err(RdmaError::Unusable { network, why: Reason::new(kind, why) })
        };
        let Some(&node) = shared.names.get(name) else {
            return unusable(NotFound, "the lab has nothing of that name");
        };
        let mut state = shared.lock();
        let is_here = state.fabric.node(node).host == bus.host();
        let network = state.fabric.device_as::<Nic>(node).map(|nic| nic.far().is_some());
        let port = state.fabric.node(node).ports.first().copied();
        let function = port.map(|port| state.fabric.routing_id(port));
        drop(state);
        let function = match (network, function) {
            (None, _) | (_, None) => return unusable(Unsupported, "it is not a NIC"),
            (Some(false), _) => return unusable(Unsupported, "no network link leads from it"),
            _ if !is_here => return unusable(InvalidArgument, "it belongs to another host"),
            (Some(true), Some(function)) => function,
        };
        let root_complex = shared.hosts[host].root_complex;
        let adapter = Adapter { host, node, root_complex, function, name: name.into() };
        Ok(Self { bus, shared, adapter })
    }

    /// Returns the same access, worked by another core; numbers beyond the last wrap around.
    pub fn on_core(&self, core: u16) -> Self {
        Self { bus: self.bus.on_core(core), ..self.clone() }
    }

    /// Returns its host.
    pub fn host(&self) -> HostId {
        self.bus.host()
    }

    fn host_name(&self) -> &str {
        &self.shared.hosts[self.adapter.host].name
    }

    /// Parses an address into host and port.
    fn parse(&self, address: &str) -> RdmaResult<(usize, u16)> {
        let refused = |kind, why: String| {
            Err(RdmaError::Address { address: address.to_owned(), why: Reason::new(kind, why) })
        };
        let Some((name, port)) = address.rsplit_once(':') else {
            return refused(
                InvalidArgument,
                "a lab's addresses are like fpga-node:7471".to_owned(),
            );
        };
        let Ok(port) = port.parse() else {
            return refused(InvalidArgument, format!("{port} is not a port from 0 to 65535"));
        };
        match self.shared.hosts.iter().position(|host| host.name == name) {
            Some(host) => Ok((host, port)),
            None => refused(NotFound, format!("the lab has no host {name}")),
        }
    }

    /// Waits for the other end to answer: the NIC's time to connect.
    async fn wait_to_connect(&self, address: &str, deadline: Picoseconds) -> RdmaResult<()> {
        let node = self.adapter.node;
        let parameters = {
            let mut state = self.shared.lock();
            state.fabric.device_as::<Nic>(node).map(|nic| *nic.parameters())
        };
        let Some(parameters) = parameters else { return Ok(()) };
        let late = || RdmaError::Deadline { what: format!("connecting to {address}") };
        let mut until = Bus::now(&self.bus) + parameters.connect;
        if until > deadline {
            Bus::sleep_until(&self.bus, deadline).await;
            return Err(late());
        }
        Bus::sleep_until(&self.bus, until).await;
        let is_up = {
            let mut state = self.shared.lock();
            state.fabric.device_as::<Nic>(node).and_then(|nic| nic.is_link_up())
        };
        if is_up == Some(true) {
            return Ok(());
        }
        until += parameters.retry_timeout;
        Bus::sleep_until(&self.bus, until.min(deadline)).await;
        if until > deadline {
            return Err(late());
        }
        let why = Reason::new(LinkDown, "there is no answer: the network link is down");
        Err(RdmaError::Address { address: address.to_owned(), why })
    }
}

impl Rdma for LabRdma {
    type Memory = AnyMemory;
    type Region = LabRegion;
    type Connection = LabConnection;
    type Listener = LabListener;

    fn name(&self) -> String {
        format!("{} of {}", self.adapter.name, self.host_name())
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> RdmaResult<AnyMemory> {
        let allocated = self.bus.allocate(bytes, pages).map(AnyMemory::new);
        allocated.map_err(|error| RdmaError::OutOfMemory { bytes, why: error.into() })
    }

    /// Costs a system call, and the time to pin each page.
    async fn register(&self, memory: &AnyMemory, access: RemoteAccess) -> RdmaResult<LabRegion> {
        let bytes = memory.size_bytes();
        let own = memory.downcast().filter(|own: &&LabMemory| own.host() == self.adapter.host);
        let Some(memory) = own else {
            let why = Reason::new(InvalidArgument, "it belongs to another host");
            return Err(RdmaError::Registration { bytes, why });
        };
        self.bus.spend(&self.bus.pinning_work(self.adapter.function, memory)).await;
        Ok(LabRegion::register(&self.shared, &self.adapter, memory, access))
    }

    /// Costs a system call.
    async fn listen(&self, address: &str) -> RdmaResult<LabListener> {
        let (host, port) = self.parse(address)?;
        if host != self.adapter.host {
            let why = Reason::new(InvalidArgument, format!("it is none of {}", self.name()));
            return Err(RdmaError::Address { address: address.to_owned(), why });
        }
        self.bus.spend(&[CoreWork::SystemCall]).await;
        let listening = self.shared.lock().networks.listen(&self.adapter, port);
        let Some(port) = listening else {
            let why = Reason::new(Busy, "it is taken");
            return Err(RdmaError::Address { address: address.to_owned(), why });
        };
        Ok(LabListener::new(self.clone(), port))
    }

    /// Costs a system call, and the NIC's time to connect.
    async fn connect(&self, address: &str, deadline: Picoseconds) -> RdmaResult<LabConnection> {
        let (host, port) = self.parse(address)?;
        self.bus.spend(&[CoreWork::SystemCall]).await;
        self.wait_to_connect(address, deadline).await?;
        let refused = |why: Reason| RdmaError::Address { address: address.to_owned(), why };
        let memories = [self.adapter.host, host].map(|host| {
            let bytes = connections::QUEUE_BYTES;
            LabMemory::allocate(&self.shared, host, bytes, PageSize::Small)
        });
        let [Ok(near), Ok(far)] = memories else {
            return Err(refused(Reason::new(Busy, "no memory is left for its queues")));
        };
        let core = self.bus.core();
        let connected = {
            let mut state = self.shared.lock();
            state.connect(&self.adapter, core, (host, port), [near, far])
        };
        self.shared.bury();
        let (id, wakers) = connected.map_err(refused)?;
        for waker in wakers {
            waker.wake();
        }
        Ok(LabConnection::new(self.clone(), id, address.into()))
    }
}

/// Returns the address of a NIC's first doorbell.
fn doorbells(fabric: &Fabric, node: NodeId) -> Option<crosslane_pcie::units::BusAddress> {
    let port = *fabric.node(node).ports.first()?;
    Some(fabric.port(port).config.bar(0)?.base)
}

/// Describes the wait for an operation.
fn what_operation(host: usize, peer: &Arc<str>, operation: &'static str, bytes: u64) -> What {
    What::Rdma { host, peer: peer.clone(), operation, bytes }
}
