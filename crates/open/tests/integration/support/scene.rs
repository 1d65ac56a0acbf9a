// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node with the memory of a bus, and an ordinary program as a client of its network.

use std::future::Future;
use std::time::Duration;

use crosslane_host::{Clock, DmaMemory, FarEnd, NearEnd, Rdma, RdmaListener, RdmaRegion};
use crosslane_network::{Connection, MachineClock, Network, Provider};
use crosslane_open::{AnyBus, AnyConnection, AnyRdma};
use futures_util::future::{Either, select, try_join};

/// Upper bound for any operation, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

/// Both ends of a connection, and their networks.
pub struct Scene {
    pub rdma: AnyRdma,
    pub client: Network,
    pub here: AnyConnection,
    pub there: Connection,
}

impl Scene {
    /// Connects a client to a node with the memory of this bus.
    pub async fn new(bus: &AnyBus) -> Self {
        let clock = MachineClock::new();
        let open = || Network::open(Provider::Tcp, &clock).unwrap();
        let (rdma, client) = (AnyRdma::new(open(), bus), open());
        let listener = rdma.listen("127.0.0.1:0").await.unwrap();
        let (address, deadline) = (listener.address(), clock.after(LONG));
        let connected = try_join(listener.accept(), client.connect(&address, deadline));
        let (here, there) = connected.await.unwrap();
        Self { rdma, client, here, there }
    }
}

/// Panics if a future hangs.
pub async fn in_time<F: Future>(future: F) -> F::Output {
    let clock = MachineClock::new();
    let late = clock.sleep_until(clock.after(LONG));
    match select(Box::pin(future), Box::pin(late)).await {
        Either::Left((output, _)) => output,
        Either::Right(_) => panic!("it hangs"),
    }
}

/// Returns the contents of a memory.
pub fn contents(memory: &impl DmaMemory) -> Vec<u8> {
    let mut all = vec![0; memory.size_bytes() as usize];
    memory.read(0, &mut all).unwrap();
    all
}

/// Returns the near end of an operation at the beginning of registered memory.
pub fn near<R: RdmaRegion>(region: &R) -> NearEnd<R> {
    NearEnd { region: region.clone(), offset_bytes: 0 }
}

/// Returns the far end of an operation at the beginning of registered memory.
pub fn far(region: &impl RdmaRegion) -> FarEnd {
    FarEnd { memory: region.remote(), offset_bytes: 0 }
}

/// Returns bytes that the seed determines.
pub fn pattern(seed: u64, bytes: u64) -> Vec<u8> {
    let mut rng = crosslane_random::Random::with_seed(seed);
    let mut all = vec![0; bytes as usize];
    rng.fill(&mut all);
    all
}
