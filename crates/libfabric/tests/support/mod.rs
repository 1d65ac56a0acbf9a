// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of networks have in common.
#![allow(dead_code)] // Each test needs a part of it.

use std::future::Future;
use std::time::Duration;

use crosslane_host::{
    DmaMemory, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaListener, RdmaRegion,
    RemoteAccess, RemoteMemory,
};
use crosslane_libfabric::{Connection, MachineClock, Network, NetworkMemory, Provider, Region};
use crosslane_pcie::units::Picoseconds;

/// The providers that work on any machine, within one process too.
pub const EVERYWHERE: [Provider; 1] = [Provider::Tcp];

/// Longer than anything here takes: only what hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn open(provider: Provider) -> (Network, MachineClock) {
    let clock = MachineClock::new();
    let network = Network::open(provider, &clock).unwrap_or_else(|error| {
        panic!("{error}: these tests need libfabric (Debian: libfabric-dev, pkg-config)")
    });
    (network, clock)
}

/// A moment that only what hangs reaches.
pub fn far(clock: &MachineClock) -> Picoseconds {
    clock.after(PATIENCE)
}

/// Polls a future to its end; panics where it hangs.
pub fn run<F: Future>(what: &str, future: F) -> F::Output {
    use crosslane_host::Clock;
    use futures_util::future::{Either, select};
    let clock = MachineClock::new();
    let (future, late) = (std::pin::pin!(future), std::pin::pin!(clock.sleep_until(far(&clock))));
    match futures_executor::block_on(select(future, late)) {
        Either::Left((output, _)) => output,
        Either::Right(_) => panic!("{what} hangs"),
    }
}

/// Two ends of a connection within this process, on networks of their own.
pub struct Pair {
    pub networks: [Network; 2],
    pub near: Connection,
    pub far: Connection,
}

pub fn pair(provider: Provider) -> Pair {
    let (one, clock) = open(provider);
    let (other, _) = open(provider);
    run("connecting", async {
        let listener = other.listen("127.0.0.1:0").await.unwrap();
        let address = listener.address();
        let connected =
            futures_util::future::try_join(one.connect(&address, far(&clock)), listener.accept());
        let (near, far) = connected.await.unwrap();
        Pair { near, far, networks: [one, other] }
    })
}

/// Bytes that tell where they stand.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
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

pub fn far_end(region: &Region, offset_bytes: u64) -> FarEnd {
    FarEnd { memory: region.remote(), offset_bytes }
}

pub fn far_of(memory: RemoteMemory, offset_bytes: u64) -> FarEnd {
    FarEnd { memory, offset_bytes }
}

pub fn contents(memory: &NetworkMemory) -> Vec<u8> {
    let mut all = vec![0; memory.size_bytes() as usize];
    memory.read(0, &mut all).unwrap();
    all
}

/// That a connection goes on to work.
pub async fn exchange(one: &Connection, other: &Connection, message: &[u8]) {
    one.send(message).await.unwrap();
    assert_eq!(other.receive().await.unwrap(), message);
}
