// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Support for tests of networks.
#![allow(dead_code)] // Each test needs a part of it.

pub mod authority;
pub mod peer;

use std::future::Future;
use std::time::Duration;

use crosslane_host::{
    DmaMemory, FarEnd, NearEnd, PageSize, Rdma, RdmaListener, RdmaResult, RemoteAccess,
    RemoteMemory,
};
use crosslane_network::{
    Connection, Listener, MachineClock, Network, NetworkMemory, Provider, Region, SharedKey, Trust,
};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, select};
pub use peer::Peer;

/// A network of these tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Sealed,
    Plain,
    Tcp,
    Shm,
}

/// Those that work on any machine.
pub const EVERYWHERE: [Over; 4] = [Over::Sealed, Over::Plain, Over::Tcp, Over::Shm];

impl Over {
    pub const fn provider(self) -> Provider {
        match self {
            Self::Sealed | Self::Plain => Provider::Tls,
            Self::Tcp => Provider::Tcp,
            Self::Shm => Provider::Shm,
        }
    }
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The key that both ends of a sealed connection have.
pub const KEY: SharedKey = SharedKey([7; 32]);

/// Longer than any operation here takes: reaching it means a hang.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Opens our own network.
pub fn tls(trust: &Trust) -> (Network, MachineClock) {
    let clock = MachineClock::new();
    (Network::open_with(Provider::Tls, &clock, trust).unwrap(), clock)
}

/// Listens to this machine.
pub fn listener(network: &Network) -> Listener {
    run("listening", network.listen("127.0.0.1:0")).unwrap()
}

/// Connects while the listener accepts.
pub fn join(
    (network, clock): &(Network, MachineClock),
    address: &str,
    listener: &Listener,
) -> RdmaResult<(Connection, Connection)> {
    run("joining", async {
        let near = std::pin::pin!(network.connect(address, far(clock)));
        let there = std::pin::pin!(listener.accept());
        match select(near, there).await {
            Either::Left((near, there)) => Ok((near?, there.await?)),
            Either::Right((there, near)) => Ok((near.await?, there?)),
        }
    })
}

pub fn open(over: Over) -> (Network, MachineClock) {
    let clock = MachineClock::new();
    let trust = match over {
        Over::Sealed => Trust { accept: vec![KEY], present: Some(KEY), ..Trust::default() },
        Over::Plain | Over::Tcp | Over::Shm => Trust::default(),
    };
    let opened = Network::open_with(over.provider(), &clock, &trust);
    let network = opened.unwrap_or_else(|error| {
        panic!("{error}: these tests need libfabric (Debian: libfabric-dev, pkg-config)")
    });
    (network, clock)
}

/// Returns a time that is only reached in a hang.
pub fn far(clock: &MachineClock) -> Picoseconds {
    clock.after(PATIENCE)
}

/// Polls a future to its end; panics if it hangs.
pub fn run<F: Future>(what: &str, future: F) -> F::Output {
    use crosslane_host::Clock;
    let clock = MachineClock::new();
    let (future, late) = (std::pin::pin!(future), std::pin::pin!(clock.sleep_until(far(&clock))));
    match futures_executor::block_on(select(future, late)) {
        Either::Left((output, _)) => output,
        Either::Right(_) => panic!("{what} hangs"),
    }
}

/// A connection to another process.
pub struct Pair {
    pub network: Network,
    pub clock: MachineClock,
    pub near: Connection,
    pub peer: Peer,
}

pub fn pair(over: Over) -> Pair {
    let (network, clock) = open(over);
    let mut peer = Peer::start(over);
    peer.begin("accept");
    let near = run("connecting", network.connect(&peer.address, far(&clock))).unwrap();
    assert_ne!(peer.answer(), "");
    Pair { network, clock, near, peer }
}

/// Kernel resources of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub files: usize,
    pub threads: usize,
    pub mappings: usize,
}

impl Counts {
    pub fn now() -> Self {
        let entries = |folder| std::fs::read_dir(folder).unwrap().count();
        let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        let (files, threads) = (entries("/proc/self/fd"), entries("/proc/self/task"));
        Self { files, threads, mappings }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.files, self.threads, self.mappings)
    }
}

impl std::str::FromStr for Counts {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers: Result<Vec<usize>, _> = text.split(' ').map(str::parse).collect();
        let numbers = numbers?;
        Ok(Self { files: numbers[0], threads: numbers[1], mappings: numbers[2] })
    }
}

/// Hashes bytes, equally in both processes.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hasher::write(&mut hasher, bytes);
    std::hash::Hasher::finish(&hasher)
}

/// Returns bytes that depend on the seed and their position.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = crosslane_random::Random::with_seed(seed);
    let mut all = vec![0; bytes];
    rng.fill(&mut all);
    all
}

pub fn region(network: &Network, bytes: u64, access: RemoteAccess) -> (NetworkMemory, Region) {
    let memory = network.allocate(bytes, PageSize::Small).unwrap();
    let region = run("registering", network.register(&memory, access)).unwrap();
    (memory, region)
}

pub fn near_end(region: &Region, offset_bytes: u64) -> NearEnd<Region> {
    NearEnd { region: region.clone(), offset_bytes }
}

pub fn far_of(memory: RemoteMemory, offset_bytes: u64) -> FarEnd {
    FarEnd { memory, offset_bytes }
}

pub fn contents(memory: &NetworkMemory) -> Vec<u8> {
    let mut all = vec![0; memory.size_bytes() as usize];
    memory.read(0, &mut all).unwrap();
    all
}
