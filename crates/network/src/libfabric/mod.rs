// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks on libfabric.
//!
//! Read first: [`Network`], then `shared.rs` (one lock, one thread), `state.rs` (requests of
//! programs), `joining.rs` (setup of connections), `connection.rs` (operations and messages).

mod abi;
mod connection;
mod door;
mod endpoint;
mod guard;
mod joining;
mod library;
mod message;
mod progress;
mod raw;
mod shared;
mod shm;
mod state;

use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crosslane_host::{
    Clock, DmaMemory, ErrorKind, FarEnd, MAX_RDMA_MESSAGE_BYTES, NearEnd, PageSize, Rdma,
    RdmaConnection, RdmaError, RdmaListener, RdmaRegion, RdmaResult, Reason, RemoteAccess,
    RemoteMemory,
};
use crosslane_pcie::units::Picoseconds;
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use crate::inbox::Inbox;
use crate::{MachineClock, NetworkMemory, Provider, address};
use connection::{Direction, Reply};
use door::Kind;
use endpoint::Far;
use guard::Guard;
use joining::Backlog;
use library::{FiError, ProviderOptions};
pub use library::{IS_LEFT_OUT, version_found};
use raw::RawNetwork;
use shared::Running;
use state::{Command, State};

fn options_of(provider: Provider) -> ProviderOptions {
    let with_connections = matches!(provider, Provider::Tcp | Provider::Verbs);
    let hardware = matches!(provider, Provider::Verbs | Provider::Efa);
    ProviderOptions { provider: provider.name(), with_connections, hardware }
}

/// Describes one of the library's providers, or says why it cannot be used.
pub fn usable(provider: Provider) -> Result<String, String> {
    let loaded = library::load()?;
    let version = library::version(loaded);
    match library::probe(loaded, options_of(provider)) {
        Ok(()) => Ok(match provider {
            Provider::Verbs => format!("RDMA adapter, libfabric {version}"),
            Provider::Efa => format!("EFA adapter, libfabric {version}; nobody has tested it"),
            Provider::Shm => format!("programs of this machine, libfabric {version}"),
            _ => format!("TCP sockets, libfabric {version}"),
        }),
        Err(FiError::NO_DATA) => Err(match provider {
            Provider::Verbs if !has_rdma_device() => "no RDMA device".into(),
            Provider::Efa => "no EFA device; nobody has tested it".into(),
            _ => format!("libfabric {version} on this machine does not offer it"),
        }),
        Err(error) => Err(error.text()),
    }
}

/// Returns whether the kernel has an RDMA adapter.
fn has_rdma_device() -> bool {
    let devices = std::fs::read_dir("/sys/class/infiniband");
    devices.is_ok_and(|mut devices| devices.next().is_some())
}

/// A network on one provider of libfabric. Clones are the same network, which ends with the last
/// clone and the last object made from it.
#[derive(Clone)]
pub struct Network {
    inner: Arc<NetworkInner>,
}

struct NetworkInner {
    running: Arc<Running>,
    provider: Provider,
    name: String,
    clock: MachineClock,
}

impl Network {
    /// Opens a provider. Deadlines use the time of `clock`.
    ///
    /// # Errors
    /// [`RdmaError::Unusable`] if the provider is unavailable.
    pub fn open(provider: Provider, clock: &MachineClock) -> RdmaResult<Self> {
        let network = provider.to_string();
        let unusable = |why: String| RdmaError::Unusable {
            network: network.clone(),
            why: Reason::new(ErrorKind::Unsupported, why),
        };
        if provider == Provider::Shm {
            shm::remove_stale_files();
        }
        let loaded = library::load().map_err(unusable)?;
        let raw = RawNetwork::open(loaded, options_of(provider)).map_err(|error| {
            // The probe may give a better reason.
            unusable(usable(provider).err().unwrap_or_else(|| error.text()))
        })?;
        let version = library::version(loaded);
        let name = match provider {
            Provider::Verbs => format!("verbs on {} (libfabric {version})", raw.facts.domain),
            provider => format!("{provider} (libfabric {version})"),
        };
        let door = match provider {
            Provider::Shm => Some(Kind::Local),
            Provider::Efa => Some(Kind::Tcp),
            _ => None,
        };
        let last_id = Arc::new(AtomicU64::new(0));
        let guard = match provider {
            Provider::Shm => Some(Guard::start().map_err(|error| unusable(error.to_string()))?),
            _ => None,
        };
        let guard = guard.map(Arc::new);
        let state = State::new(raw, door, guard.clone(), last_id.clone());
        let running = Arc::new(Running::start(state, guard, last_id).map_err(unusable)?);
        let inner = NetworkInner { running, provider, name, clock: clock.clone() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns its provider.
    pub fn provider(&self) -> Provider {
        self.inner.provider
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> RdmaResult<T> {
        let (reply, answer) = oneshot::channel();
        self.inner.running.submit(command(reply));
        answer.await.unwrap_or_else(|_| Err(self.has_ended()))
    }

    fn has_ended(&self) -> RdmaError {
        let why = Reason::new(ErrorKind::LinkDown, "it has ended");
        RdmaError::Unusable { network: self.inner.name.clone(), why }
    }

    /// Resolves an address to socket addresses.
    async fn resolve(&self, at: &str) -> RdmaResult<Vec<SocketAddr>> {
        let found = address::resolve(at).await?;
        if self.provider() == Provider::Shm && !found.iter().all(|at| at.ip().is_loopback()) {
            let why = "shm reaches only this machine: 127.0.0.1 and a port";
            return Err(address::failed(at, ErrorKind::InvalidArgument, why));
        }
        Ok(found)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Network({})", self.inner.name)
    }
}

impl Rdma for Network {
    type Memory = NetworkMemory;
    type Region = Region;
    type Connection = Connection;
    type Listener = Listener;

    fn name(&self) -> String {
        self.inner.name.clone()
    }

    /// Returns whether the provider copies nothing: only adapters do.
    fn is_zero_copy(&self) -> bool {
        options_of(self.provider()).hardware
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> RdmaResult<NetworkMemory> {
        NetworkMemory::new(bytes, pages)
    }

    async fn register(&self, memory: &NetworkMemory, access: RemoteAccess) -> RdmaResult<Region> {
        let registered = Owned::new(&self.inner.running, |id| Command::Unregister { id });
        let remote = self.ask(|reply| Command::Register {
            id: registered.id,
            mapping: memory.mapping().clone(),
            bytes: memory.size_bytes(),
            access,
            reply,
        });
        let remote = remote.await?;
        let memory = memory.clone();
        Ok(Region { inner: Arc::new(RegionInner { registered, memory, remote }) })
    }

    async fn listen(&self, address: &str) -> RdmaResult<Listener> {
        let all = self.resolve(address).await?;
        let listening = Owned::new(&self.inner.running, |id| Command::Unlisten { id });
        let backlog = Arc::new(Backlog::default());
        let listened = self.ask(|reply| Command::Listen {
            id: listening.id,
            at: all[0],
            backlog: backlog.clone(),
            reply,
        });
        let at = listened.await.map_err(|error| in_words_of(address, error))?;
        Ok(Listener { listening, backlog, address: at.to_string() })
    }

    async fn connect(&self, address: &str, deadline: Picoseconds) -> RdmaResult<Connection> {
        let connected = async {
            let mut last = None;
            for to in self.resolve(address).await? {
                let inbox = Arc::new(Inbox::default());
                let open = Arc::new(Owned::new(&self.inner.running, close));
                let (id, peer) = (open.id, address.to_owned());
                let of_state = inbox.clone();
                let connected =
                    self.ask(|reply| Command::Connect { id, to, peer, inbox: of_state, reply });
                match connected.await {
                    Ok(()) => return Ok(Connection { open, inbox, peer: address.into() }),
                    Err(error) => last = Some(in_words_of(address, error)),
                }
            }
            Err(last.unwrap_or_else(|| self.has_ended()))
        };
        let connected = pin!(connected);
        let deadline = pin!(self.inner.clock.sleep_until(deadline));
        match select(connected, deadline).await {
            Either::Left((connected, _)) => connected,
            Either::Right(_) => {
                Err(RdmaError::Deadline { what: format!("connecting to {address}") })
            }
        }
    }
}

/// Restores the program's spelling of the address in an error.
fn in_words_of(address: &str, error: RdmaError) -> RdmaError {
    match error {
        RdmaError::Address { why, .. } => RdmaError::Address { address: address.to_owned(), why },
        error => error,
    }
}

/// An object of the network, which ends when this is dropped.
struct Owned {
    id: u64,
    running: Arc<Running>,
    end: fn(u64) -> Command,
}

impl Owned {
    fn new(running: &Arc<Running>, end: fn(u64) -> Command) -> Self {
        Self { id: running.next_id(), running: running.clone(), end }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.running.submit((self.end)(self.id));
    }
}

/// Ends a connection.
const fn close(connection: u64) -> Command {
    Command::Close { connection, reply: None }
}

/// Memory registered with a [`Network`].
#[derive(Clone)]
pub struct Region {
    inner: Arc<RegionInner>,
}

struct RegionInner {
    // Dropped first: the registration must end before its memory.
    registered: Owned,
    memory: NetworkMemory,
    remote: RemoteMemory,
}

impl RdmaRegion for Region {
    type Memory = NetworkMemory;

    fn memory(&self) -> &NetworkMemory {
        &self.inner.memory
    }

    fn remote(&self) -> RemoteMemory {
        self.inner.remote
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the key, which grants access.
        write!(f, "Region({:?})", self.inner.memory)
    }
}

/// Listens for connections of a [`Network`].
pub struct Listener {
    listening: Owned,
    backlog: Arc<Backlog>,
    address: String,
}

impl RdmaListener for Listener {
    type Connection = Connection;

    fn address(&self) -> String {
        self.address.clone()
    }

    async fn accept(&self) -> RdmaResult<Connection> {
        let accepted = poll_fn(|context| self.backlog.poll(context)).await?;
        let running = self.listening.running.clone();
        let open = Owned { id: accepted.id, running, end: close };
        let (inbox, peer) = (accepted.inbox, accepted.peer.into());
        Ok(Connection { open: Arc::new(open), inbox, peer })
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.address)
    }
}

/// A connection of a [`Network`].
#[derive(Clone)]
pub struct Connection {
    open: Arc<Owned>,
    inbox: Arc<Inbox>,
    peer: Arc<str>,
}

impl Connection {
    fn lost(&self) -> RdmaError {
        self.inbox.lost().unwrap_or_else(|| RdmaError::Lost {
            peer: self.peer.to_string(),
            why: "the network has ended".into(),
        })
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> RdmaResult<T> {
        let (reply, answer) = oneshot::channel();
        self.open.running.submit(command(reply));
        answer.await.unwrap_or_else(|_| Err(self.lost()))
    }

    async fn transfer(
        &self,
        direction: Direction,
        near: &NearEnd<Region>,
        far: FarEnd,
        bytes: u64,
    ) -> RdmaResult<()> {
        near.check(far, bytes)?;
        if let Some(lost) = self.inbox.lost() {
            return Err(lost);
        }
        if bytes == 0 {
            return Ok(());
        }
        let address = far.memory.address + far.offset_bytes;
        self.ask(|reply| Command::Transfer {
            connection: self.open.id,
            direction,
            region: near.region.inner.registered.id,
            near_offset: near.offset_bytes,
            far: Far { address, key: far.memory.key },
            bytes,
            reply,
        })
        .await
    }
}

impl RdmaConnection for Connection {
    type Region = Region;

    fn peer(&self) -> String {
        self.peer.to_string()
    }

    async fn send(&self, message: &[u8]) -> RdmaResult<()> {
        let (bytes, most) = (message.len(), MAX_RDMA_MESSAGE_BYTES);
        if bytes > most {
            return Err(RdmaError::LongMessage { bytes, most });
        }
        let (connection, message) = (self.open.id, message.to_vec());
        self.ask(|reply| Command::Send { connection, message, reply }).await
    }

    async fn receive(&self) -> RdmaResult<Vec<u8>> {
        let message = poll_fn(|context| self.inbox.poll(context)).await?;
        if self.inbox.is_time_to_tell() {
            self.open.running.submit(Command::Taken { connection: self.open.id });
        }
        Ok(message)
    }

    async fn read(&self, near: &NearEnd<Region>, far: FarEnd, bytes: u64) -> RdmaResult<()> {
        self.transfer(Direction::Read, near, far, bytes).await
    }

    async fn write(&self, near: &NearEnd<Region>, far: FarEnd, bytes: u64) -> RdmaResult<()> {
        self.transfer(Direction::Write, near, far, bytes).await
    }

    async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        self.open.running.submit(Command::Close { connection: self.open.id, reply: Some(reply) });
        // A network that has ended has no connections.
        let _ = answer.await;
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.peer)
    }
}
