// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks of a program built without libfabric: none opens.

use std::convert::Infallible;

use crosslane_host::{
    ErrorKind, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaError, RdmaListener,
    RdmaRegion, Reason, RemoteAccess, RemoteMemory,
};
use crosslane_pcie::units::Picoseconds;

use crate::{MachineClock, NetworkMemory, Provider, ProviderState};

/// Reason, from the build.
const WHY: &str = env!("CROSSLANE_WITHOUT");

/// Lists all providers as unusable, with the reason.
#[must_use]
pub fn providers() -> Vec<ProviderState> {
    let state = |provider| ProviderState { provider, usable: Err(WHY.into()) };
    Provider::ALL.into_iter().map(state).collect()
}

/// A network that never opens.
#[derive(Clone, Debug)]
pub struct Network(Infallible);

/// Memory registered with a [`Network`].
#[derive(Clone, Debug)]
pub struct Region(Infallible);

/// Listens for connections of a [`Network`].
#[derive(Debug)]
pub struct Listener(Infallible);

/// A connection of a [`Network`].
#[derive(Clone, Debug)]
pub struct Connection(Infallible);

impl Network {
    /// Fails to open a provider.
    ///
    /// # Errors
    /// [`RdmaError::Unusable`], always.
    pub fn open(provider: Provider, _clock: &MachineClock) -> Result<Self, RdmaError> {
        let why = Reason::new(ErrorKind::Unsupported, WHY);
        Err(RdmaError::Unusable { network: provider.to_string(), why })
    }

    /// Returns its provider.
    #[must_use]
    pub fn provider(&self) -> Provider {
        match self.0 {}
    }
}

impl Rdma for Network {
    type Memory = NetworkMemory;
    type Region = Region;
    type Connection = Connection;
    type Listener = Listener;

    fn name(&self) -> String {
        match self.0 {}
    }

    fn allocate(&self, _bytes: u64, _pages: PageSize) -> Result<NetworkMemory, RdmaError> {
        match self.0 {}
    }

    async fn register(&self, _: &NetworkMemory, _: RemoteAccess) -> Result<Region, RdmaError> {
        match self.0 {}
    }

    async fn listen(&self, _address: &str) -> Result<Listener, RdmaError> {
        match self.0 {}
    }

    async fn connect(&self, _: &str, _: Picoseconds) -> Result<Connection, RdmaError> {
        match self.0 {}
    }
}

impl RdmaRegion for Region {
    type Memory = NetworkMemory;

    fn memory(&self) -> &NetworkMemory {
        match self.0 {}
    }

    fn remote(&self) -> RemoteMemory {
        match self.0 {}
    }
}

impl RdmaListener for Listener {
    type Connection = Connection;

    fn address(&self) -> String {
        match self.0 {}
    }

    async fn accept(&self) -> Result<Connection, RdmaError> {
        match self.0 {}
    }
}

impl RdmaConnection for Connection {
    type Region = Region;

    fn peer(&self) -> String {
        match self.0 {}
    }

    async fn send(&self, _message: &[u8]) -> Result<(), RdmaError> {
        match self.0 {}
    }

    async fn receive(&self) -> Result<Vec<u8>, RdmaError> {
        match self.0 {}
    }

    async fn read(&self, _: &NearEnd<Region>, _: FarEnd, _: u64) -> Result<(), RdmaError> {
        match self.0 {}
    }

    async fn write(&self, _: &NearEnd<Region>, _: FarEnd, _: u64) -> Result<(), RdmaError> {
        match self.0 {}
    }

    async fn close(&self) {
        match self.0 {}
    }
}
