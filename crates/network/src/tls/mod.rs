// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network of our own over TCP, sealed by TLS 1.3.
//!
//! Nothing that a stranger sends is looked at before he has shown that he has a key. Reads and
//! writes are served by threads of the connection: the program at the far end takes no part.
//!
//! Read first: `link.rs` (what a connection shares with its threads), then `receiver.rs` (what
//! frames do), `wire.rs` (plain and sealed streams), `keys.rs` and
//! `certificates.rs` (who is who), `joining.rs` (set-up).

mod certificates;
mod frame;
mod joining;
mod keys;
mod link;
mod receiver;
mod region;
mod socket;
mod wire;

use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crosslane_host::{
    Clock, DmaMemory, ErrorKind, FarEnd, MAX_RDMA_MESSAGE_BYTES, NearEnd, RdmaConnection,
    RdmaError, RdmaListener, RdmaRegion, RdmaResult, Reason, RemoteAccess, RemoteMemory,
};
use crosslane_pcie::units::Picoseconds;
use futures_channel::oneshot;

use crate::{MachineClock, NetworkMemory, address};
pub use certificates::Certificates;
use frame::MAX_OPERATION_BYTES;
use joining::Listening;
pub use keys::SharedKey;
use link::{Link, Operation};
use region::{Regions, Registered};
use wire::{Credentials, Known};

/// Longest wait for a connection that has no deadline.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// The nodes that a network of [`Provider::Tls`](crate::Provider::Tls) talks to. By default:
/// programs of this machine and nobody else, with nothing sealed.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Keys of the nodes that may connect to this one: what they send and get is sealed. With none,
    /// programs of this machine may connect.
    pub accept: Vec<SharedKey>,
    /// The key that this node connects to others with. With none it connects within this machine.
    pub present: Option<SharedKey>,
    /// Certificates by which this node and others know each other: those who connect to it and have
    /// no key of `accept`, and those that it connects to without a key to present.
    pub certificates: Option<Certificates>,
    /// To trust everybody who reaches this node, and whoever listens to the wires: nothing is
    /// sealed, whatever keys there are.
    pub everybody: bool,
    /// Hears of those who connect to this node and are turned away.
    pub turned_away: Option<TurnedAway>,
}

type Hear = dyn Fn(SocketAddr, &str, u64) + Send + Sync;

/// Hears of those who connect and are turned away: the address of one, why, and how many others
/// there were since it was called last. It is called at most once a second, however many come.
#[derive(Clone)]
pub struct TurnedAway(Arc<Hear>);

impl TurnedAway {
    /// Makes one that calls a function, from the threads of the network.
    pub fn new(hear: impl Fn(SocketAddr, &str, u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

impl fmt::Debug for TurnedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TurnedAway")
    }
}

impl Trust {
    /// Makes the trust of a node that connects to others by a key, by certificates, or by neither.
    /// `files` are those of [`Certificates::read`], in its order.
    ///
    /// # Errors
    /// [`RdmaError::Unusable`]: some of the files without the others, certificates beside a key or
    /// beside trust in everybody, and files that cannot be used.
    pub fn of_client(
        present: Option<SharedKey>,
        files: [Option<&Path>; 3],
        everybody: bool,
    ) -> RdmaResult<Self> {
        let wrong = |why: String| RdmaError::Unusable {
            network: "tls".into(),
            why: Reason::new(ErrorKind::InvalidArgument, why),
        };
        let one_of_two = |other| wrong(format!("certificates and {other}: give one of the two"));
        if files.iter().any(Option::is_some) {
            if present.is_some() {
                return Err(one_of_two("a key"));
            }
            if everybody {
                return Err(one_of_two("a network that is trusted, on which nothing is sealed"));
            }
        }
        let certificates = match files {
            [Some(own), Some(key), Some(trusted)] => Some(Certificates::read(own, key, trusted)?),
            [None, None, None] => None,
            some => {
                let names = ["tls_cert", "tls_key", "tls_ca"].into_iter().zip(some);
                let missing: Vec<_> =
                    names.filter_map(|(name, file)| file.is_none().then_some(name)).collect();
                let missing = missing.join(", ");
                let why = "is missing: certificates need tls_cert, tls_key and tls_ca";
                return Err(wrong(format!("{missing} {why}")));
            }
        };
        Ok(Self { present, certificates, everybody, ..Self::default() })
    }
}

/// The network. Clones are the same.
#[derive(Clone)]
pub struct TlsNetwork(Arc<Inner>);

struct Inner {
    clock: MachineClock,
    regions: Arc<Regions>,
    /// As a node that others connect to, and as one that connects.
    listens: Credentials,
    connects: Connects,
    everybody: bool,
    turned_away: Option<TurnedAway>,
}

/// The credentials of a node that connects: with certificates each server has to have its own name.
enum Connects {
    Always(Credentials),
    ByName(Certificates),
}

impl Connects {
    fn to(&self, address: &str) -> RdmaResult<Credentials> {
        match self {
            Self::Always(credentials) => Ok(credentials.clone()),
            Self::ByName(certificates) => {
                let name = certificates::server_name(address)
                    .map_err(|why| address::failed(address, ErrorKind::InvalidArgument, &why))?;
                let (config, certificates) = (certificates.client(), Some(certificates.clone()));
                Ok(Credentials::Client(config, name, certificates))
            }
        }
    }
}

impl TlsNetwork {
    /// Opens it.
    ///
    /// # Errors
    /// Keys and certificates that cannot be used.
    pub fn open(clock: &MachineClock, trust: &Trust) -> RdmaResult<Self> {
        let unusable = |error: rustls::Error| RdmaError::Unusable {
            network: "tls".into(),
            why: Reason::new(ErrorKind::Failed, error.to_string()),
        };
        let (mut listens, mut connects) = (Credentials::None, Connects::Always(Credentials::None));
        let certificates = trust.certificates.as_ref().filter(|_| !trust.everybody);
        let accept = Some(&trust.accept[..]).filter(|keys| !trust.everybody && !keys.is_empty());
        if certificates.is_some() || accept.is_some() {
            let by_keys = accept.map(keys::server).transpose().map_err(unusable)?;
            let by_certificates = certificates.cloned();
            listens = Credentials::Server(Known { by_keys, by_certificates });
        }
        if let Some(key) = trust.present.as_ref().filter(|_| !trust.everybody) {
            let (config, name) = keys::client(key).map_err(unusable)?;
            connects = Connects::Always(Credentials::Client(config, name, None));
        } else if let Some(certificates) = certificates {
            connects = Connects::ByName(certificates.clone());
        }
        let (clock, regions, everybody) = (clock.clone(), Arc::default(), trust.everybody);
        let turned_away = trust.turned_away.clone();
        Ok(Self(Arc::new(Inner { clock, regions, listens, connects, everybody, turned_away })))
    }

    pub fn name(&self) -> String {
        let is_sealed = !matches!(self.0.listens, Credentials::None)
            || !matches!(self.0.connects, Connects::Always(Credentials::None));
        let how = match self.0.everybody {
            true => "not sealed",
            false if is_sealed => "sealed",
            false => "not sealed, within this machine",
        };
        format!("tls, {how}")
    }

    pub fn register(&self, memory: &NetworkMemory, access: RemoteAccess) -> RdmaResult<TlsRegion> {
        let bytes = memory.size_bytes();
        let registered = self.0.regions.add(memory.mapping(), bytes, access)?;
        let regions = self.0.regions.clone();
        let memory = memory.clone();
        Ok(TlsRegion(Arc::new(RegionInner { registered, regions, memory })))
    }

    /// The addresses that a name stands for, if they may be reached with these credentials.
    async fn resolve(
        &self,
        address: &str,
        credentials: &Credentials,
    ) -> RdmaResult<Vec<SocketAddr>> {
        let all = address::resolve(address).await?;
        let is_open = self.0.everybody || !matches!(credentials, Credentials::None);
        if !is_open && !all.iter().all(|at| at.ip().is_loopback()) {
            let why =
                "tls without a key or certificates reaches only this machine: give both ends a key";
            return Err(address::failed(address, ErrorKind::Denied, why));
        }
        Ok(all)
    }

    pub async fn listen(&self, address: &str) -> RdmaResult<TlsListener> {
        let credentials = self.0.listens.clone();
        let all = self.resolve(address, &credentials).await?;
        let (regions, turned_away) = (self.0.regions.clone(), self.0.turned_away.clone());
        let listening = Listening::start(all[0], credentials, regions, turned_away);
        let listening = listening.map_err(|error| address::of_io(address, &error))?;
        Ok(TlsListener(listening))
    }

    pub async fn connect(&self, address: &str, deadline: Picoseconds) -> RdmaResult<TlsConnection> {
        let late = || RdmaError::Deadline { what: format!("connecting to {address}") };
        let credentials = self.0.connects.to(address)?;
        let all = self.resolve(address, &credentials).await?;
        let left = deadline.0.saturating_sub(self.0.clock.now().0);
        let left = Duration::from_nanos(left / 1000).min(LONGEST_WAIT);
        let (reply, answer) = oneshot::channel();
        let (name, regions) = (address.to_owned(), self.0.regions.clone());
        let until = Instant::now() + left;
        let work = move || {
            let joined = joining::connect(&name, &all, &credentials, &regions, until);
            // Whoever asked may have gone: then the connection ends here.
            let _ = reply.send(joined.map(|link| TlsConnection(Arc::new(Open(link)))));
        };
        let thread = std::thread::Builder::new().name("crosslane-join".into()).spawn(work);
        thread.map_err(|error| address::of_io(address, &error))?;
        match answer.await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::TimedOut => Err(late()),
            Ok(Err(error)) => Err(address::of_io(address, &error)),
            Err(_) => Err(late()),
        }
    }
}

/// Memory registered with it.
#[derive(Clone)]
pub struct TlsRegion(Arc<RegionInner>);

struct RegionInner {
    registered: Arc<Registered>,
    regions: Arc<Regions>,
    memory: NetworkMemory,
}

impl Drop for RegionInner {
    fn drop(&mut self) {
        self.regions.remove(&self.registered);
    }
}

impl RdmaRegion for TlsRegion {
    type Memory = NetworkMemory;

    fn memory(&self) -> &NetworkMemory {
        &self.0.memory
    }

    fn remote(&self) -> RemoteMemory {
        let Registered { key, bytes, .. } = *self.0.registered;
        RemoteMemory { address: 0, key, bytes }
    }
}

/// Listens for connections.
pub struct TlsListener(Listening);

impl RdmaListener for TlsListener {
    type Connection = TlsConnection;

    fn address(&self) -> String {
        self.0.address().to_string()
    }

    async fn accept(&self) -> RdmaResult<TlsConnection> {
        poll_fn(|context| self.0.backlog().poll(context)).await
    }
}

/// A connection. The last clone ends it.
#[derive(Clone)]
pub struct TlsConnection(Arc<Open>);

/// The program's hold on a connection.
struct Open(Arc<Link>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl fmt::Debug for TlsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsConnection({})", self.peer())
    }
}

impl TlsConnection {
    fn link(&self) -> &Link {
        &self.0.0
    }

    async fn ask(
        &self,
        begin: impl FnOnce(&Link, oneshot::Sender<RdmaResult<()>>),
    ) -> RdmaResult<()> {
        let (reply, answer) = oneshot::channel();
        begin(self.link(), reply);
        answer.await.unwrap_or_else(|_| Err(self.link().lost()))
    }

    async fn transfer(
        &self,
        is_read: bool,
        near: &NearEnd<TlsRegion>,
        far: FarEnd,
        bytes: u64,
    ) -> RdmaResult<()> {
        near.check(far, bytes)?;
        if let Some(lost) = self.link().inbox().lost() {
            return Err(lost);
        }
        for begin in (0..bytes).step_by(MAX_OPERATION_BYTES as usize) {
            let operation = |reply| Operation {
                is_read,
                region: near.region.0.registered.clone(),
                near_offset: near.offset_bytes + begin,
                key: far.memory.key,
                address: far.memory.address + far.offset_bytes + begin,
                bytes: (bytes - begin).min(MAX_OPERATION_BYTES) as u32,
                reply,
            };
            self.ask(|link, reply| link.transfer(operation(reply))).await?;
        }
        Ok(())
    }
}

impl RdmaConnection for TlsConnection {
    type Region = TlsRegion;

    fn peer(&self) -> String {
        self.link().peer().into()
    }

    fn proven_names(&self) -> Vec<String> {
        self.link().names().to_vec()
    }

    async fn send(&self, message: &[u8]) -> RdmaResult<()> {
        let (bytes, most) = (message.len(), MAX_RDMA_MESSAGE_BYTES);
        if bytes > most {
            return Err(RdmaError::LongMessage { bytes, most });
        }
        self.ask(|link, reply| link.send(message.to_vec(), reply)).await
    }

    async fn receive(&self) -> RdmaResult<Vec<u8>> {
        let link = self.link();
        let message = poll_fn(|context| link.inbox().poll(context)).await?;
        if link.inbox().is_time_to_tell() {
            link.tell_taken();
        }
        Ok(message)
    }

    async fn read(&self, near: &NearEnd<TlsRegion>, far: FarEnd, bytes: u64) -> RdmaResult<()> {
        self.transfer(true, near, far, bytes).await
    }

    async fn write(&self, near: &NearEnd<TlsRegion>, far: FarEnd, bytes: u64) -> RdmaResult<()> {
        self.transfer(false, near, far, bytes).await
    }

    async fn close(&self) {
        self.link().close();
        self.link().ended().await;
    }
}
