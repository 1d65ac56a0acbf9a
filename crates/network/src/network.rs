// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks of any provider: libfabric's, and our own.

use std::fmt;

use crosslane_host::{
    ErrorKind, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaError, RdmaListener,
    RdmaRegion, RdmaResult, Reason, RemoteAccess, RemoteMemory,
};
use crosslane_pcie::units::Picoseconds;

use crate::provider::is_loopback;
use crate::tls::{TlsConnection, TlsListener, TlsNetwork, TlsRegion};
use crate::{MachineClock, NetworkMemory, Provider, Trust, libfabric};

/// A network of one provider. Clones are the same network, which ends with the last clone and the
/// last object made from it.
#[derive(Clone)]
pub struct Network(Kind);

#[derive(Clone)]
enum Kind {
    Libfabric(libfabric::Network),
    Tls(TlsNetwork),
}

/// Memory registered with a [`Network`].
#[derive(Clone)]
pub struct Region(RegionKind);

#[derive(Clone)]
enum RegionKind {
    Libfabric(libfabric::Region),
    Tls(TlsRegion),
}

/// Listens for connections of a [`Network`].
pub struct Listener(ListenerKind);

enum ListenerKind {
    Libfabric(libfabric::Listener),
    Tls(TlsListener),
}

/// A connection of a [`Network`].
#[derive(Clone)]
pub struct Connection(ConnectionKind);

#[derive(Clone)]
enum ConnectionKind {
    Libfabric(libfabric::Connection),
    Tls(TlsConnection),
}

impl Network {
    /// Opens a provider. Deadlines use the time of `clock`. [`Provider::Tls`] reaches this machine
    /// only, as it has been given no keys.
    ///
    /// # Errors
    /// [`RdmaError::Unusable`] if the provider is unavailable.
    pub fn open(provider: Provider, clock: &MachineClock) -> RdmaResult<Self> {
        Self::open_with(provider, clock, &Trust::default())
    }

    /// Opens a provider; only [`Provider::Tls`] looks at whom it may trust.
    ///
    /// # Errors
    /// [`RdmaError::Unusable`] if the provider is unavailable.
    pub fn open_with(provider: Provider, clock: &MachineClock, trust: &Trust) -> RdmaResult<Self> {
        Ok(Self(match provider {
            Provider::Tls => Kind::Tls(TlsNetwork::open(clock, trust)?),
            provider => Kind::Libfabric(libfabric::Network::open(provider, clock)?),
        }))
    }

    /// Opens the network for a client of the server at an address: the provider that is asked for,
    /// or the one that suits the address, which with certificates is [`Provider::Tls`].
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with); another provider than that with certificates, and
    /// [`Provider::Tcp`] beyond this machine without trust in everybody.
    pub fn open_for(
        address: &str,
        provider: Option<Provider>,
        clock: &MachineClock,
        trust: &Trust,
    ) -> RdmaResult<Self> {
        let unusable = |provider: Provider, kind, why| {
            let why = Reason::new(kind, why);
            Err(RdmaError::Unusable { network: provider.name().into(), why })
        };
        let provider = match (provider, trust.certificates.is_some()) {
            (Some(other), true) if other != Provider::Tls => {
                let why = "it takes no certificates, which are for tls";
                return unusable(other, ErrorKind::InvalidArgument, why);
            }
            (_, true) => Provider::Tls,
            (Some(provider), false) => provider,
            (None, false) => Provider::choose(address).0,
        };
        if provider == Provider::Tcp && !trust.everybody && !is_loopback(address) {
            let why = "beyond this machine it is for networks where nobody means harm: it reads \
                what strangers send before it knows them, and some of that ends it; take tls, or \
                trust the network";
            return unusable(provider, ErrorKind::Denied, why);
        }
        Self::open_with(provider, clock, trust)
    }

    /// Returns its provider.
    pub fn provider(&self) -> Provider {
        match &self.0 {
            Kind::Libfabric(network) => network.provider(),
            Kind::Tls(_) => Provider::Tls,
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Network({})", self.name())
    }
}

impl Rdma for Network {
    type Memory = NetworkMemory;
    type Region = Region;
    type Connection = Connection;
    type Listener = Listener;

    fn name(&self) -> String {
        match &self.0 {
            Kind::Libfabric(network) => network.name(),
            Kind::Tls(network) => network.name(),
        }
    }

    /// Returns whether the provider copies nothing: only adapters do.
    fn is_zero_copy(&self) -> bool {
        match &self.0 {
            Kind::Libfabric(network) => network.is_zero_copy(),
            Kind::Tls(_) => false,
        }
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> RdmaResult<NetworkMemory> {
        NetworkMemory::new(bytes, pages)
    }

    async fn register(&self, memory: &NetworkMemory, access: RemoteAccess) -> RdmaResult<Region> {
        Ok(Region(match &self.0 {
            Kind::Libfabric(network) => {
                RegionKind::Libfabric(network.register(memory, access).await?)
            }
            Kind::Tls(network) => RegionKind::Tls(network.register(memory, access)?),
        }))
    }

    async fn listen(&self, address: &str) -> RdmaResult<Listener> {
        Ok(Listener(match &self.0 {
            Kind::Libfabric(network) => ListenerKind::Libfabric(network.listen(address).await?),
            Kind::Tls(network) => ListenerKind::Tls(network.listen(address).await?),
        }))
    }

    async fn connect(&self, address: &str, deadline: Picoseconds) -> RdmaResult<Connection> {
        Ok(Connection(match &self.0 {
            Kind::Libfabric(network) => {
                ConnectionKind::Libfabric(network.connect(address, deadline).await?)
            }
            Kind::Tls(network) => ConnectionKind::Tls(network.connect(address, deadline).await?),
        }))
    }
}

impl RdmaRegion for Region {
    type Memory = NetworkMemory;

    fn memory(&self) -> &NetworkMemory {
        match &self.0 {
            RegionKind::Libfabric(region) => region.memory(),
            RegionKind::Tls(region) => region.memory(),
        }
    }

    fn remote(&self) -> RemoteMemory {
        match &self.0 {
            RegionKind::Libfabric(region) => region.remote(),
            RegionKind::Tls(region) => region.remote(),
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the key, which grants access.
        write!(f, "Region({:?})", self.memory())
    }
}

impl RdmaListener for Listener {
    type Connection = Connection;

    fn address(&self) -> String {
        match &self.0 {
            ListenerKind::Libfabric(listener) => listener.address(),
            ListenerKind::Tls(listener) => listener.address(),
        }
    }

    async fn accept(&self) -> RdmaResult<Connection> {
        Ok(Connection(match &self.0 {
            ListenerKind::Libfabric(listener) => {
                ConnectionKind::Libfabric(listener.accept().await?)
            }
            ListenerKind::Tls(listener) => ConnectionKind::Tls(listener.accept().await?),
        }))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.address())
    }
}

/// The near end, for the provider that the connection and the memory are of.
macro_rules! of {
    ($kind:ident, $near:expr, $operation:expr) => {{
        let NearEnd { region, offset_bytes } = $near;
        match &region.0 {
            RegionKind::$kind(region) => {
                let near = NearEnd { region: region.clone(), offset_bytes: *offset_bytes };
                $operation(&near).await
            }
            _ => Err(crate::another_network(region.memory())),
        }
    }};
}

impl RdmaConnection for Connection {
    type Region = Region;

    fn peer(&self) -> String {
        match &self.0 {
            ConnectionKind::Libfabric(connection) => connection.peer(),
            ConnectionKind::Tls(connection) => connection.peer(),
        }
    }

    fn proven_names(&self) -> Vec<String> {
        match &self.0 {
            ConnectionKind::Libfabric(connection) => connection.proven_names(),
            ConnectionKind::Tls(connection) => connection.proven_names(),
        }
    }

    async fn send(&self, message: &[u8]) -> RdmaResult<()> {
        match &self.0 {
            ConnectionKind::Libfabric(connection) => connection.send(message).await,
            ConnectionKind::Tls(connection) => connection.send(message).await,
        }
    }

    async fn receive(&self) -> RdmaResult<Vec<u8>> {
        match &self.0 {
            ConnectionKind::Libfabric(connection) => connection.receive().await,
            ConnectionKind::Tls(connection) => connection.receive().await,
        }
    }

    async fn read(&self, near: &NearEnd<Region>, far: FarEnd, bytes: u64) -> RdmaResult<()> {
        match &self.0 {
            ConnectionKind::Libfabric(connection) => {
                of!(Libfabric, near, async |near| connection.read(near, far, bytes).await)
            }
            ConnectionKind::Tls(connection) => {
                of!(Tls, near, async |near| connection.read(near, far, bytes).await)
            }
        }
    }

    async fn write(&self, near: &NearEnd<Region>, far: FarEnd, bytes: u64) -> RdmaResult<()> {
        match &self.0 {
            ConnectionKind::Libfabric(connection) => {
                of!(Libfabric, near, async |near| connection.write(near, far, bytes).await)
            }
            ConnectionKind::Tls(connection) => {
                of!(Tls, near, async |near| connection.write(near, far, bytes).await)
            }
        }
    }

    async fn close(&self) {
        match &self.0 {
            ConnectionKind::Libfabric(connection) => connection.close().await,
            ConnectionKind::Tls(connection) => connection.close().await,
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.peer())
    }
}
