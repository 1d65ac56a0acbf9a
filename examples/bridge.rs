// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves the memory of one node into a card of another and back: a bridge's server and its client,
//! each on a node of one lab, joined by RDMA adapters.

use crosslane::bridge::{
    CardPlace, Client, Identity, MemoryPart, Server, ServerOptions, TransferOptions,
};
use crosslane::host::{Rdma, RdmaRegion, Reason, RemoteAccess};
use crosslane::lab::{CheckedRun, LabBus, LabRdma, LabRegion};
use crosslane::pcie::units::HostId;
use crosslane::prelude::*;

const ADDRESS: &str = "fpga-node:7471";
const BYTES: u64 = 4 << 20;

fn main() -> Result<(), Reason> {
    let run = CheckedRun::new(&crosslane::lab::open("sbdt:crosslane")?, 1)?;
    let simulation = run.simulation();
    run.run("bridge", async {
        // The node with the card serves it to others, until the other node is done.
        let (bus, network) = (simulation.bus(HostId(0)), simulation.rdma(HostId(0), "fnic")?);
        let cards = vec![("pac".to_owned(), Device::open_by_name(bus.clone(), "pac").await?)];
        let options = ServerOptions::default().with_closed_network(true);
        let server = Server::new(cards, network, bus, options, |_| {}).await?;
        let listener = server.listen(ADDRESS).await?;
        let (bus, network) = (simulation.bus(HostId(1)), simulation.rdma(HostId(1), "rnic")?);
        let mut moved = Ok(());
        server.serve(listener, async { moved = there_and_back(bus, network).await }).await?;
        moved
    })?;
    Ok(())
}

/// Puts memory of this node into the card of the other one, and gets it back.
async fn there_and_back(bus: LabBus, network: LabRdma) -> Result<(), Reason> {
    let (me, second) = (Identity::default(), Duration::from_secs(1));
    let client = Client::connect(network.clone(), bus, ADDRESS, &me, second).await?;
    let (source, destination) = (memory(&network).await?, memory(&network).await?);
    let data: Vec<u8> = (0..BYTES).map(|n| (n ^ (n >> 8) ^ (n >> 16)) as u8).collect();
    source.region.memory().write(0, &data)?;
    let place = CardPlace { card: "pac".to_owned(), address: 4096 };
    let options = TransferOptions::default().with_time(second);
    let put = client.put(&source, &place, &options, |_| {}).await?;
    let got = client.get(&place, &destination, &options, |_| {}).await?;
    client.close().await;
    let mut back = vec![0; data.len()];
    destination.region.memory().read(0, &mut back)?;
    assert_eq!(data, back);
    for (name, outcome) in [("put", put), ("get", got)] {
        println!("{name}: {} B in {}", outcome.report.bytes, outcome.elapsed);
    }
    Ok(())
}

/// Allocates memory that the other node may read and write.
async fn memory(network: &LabRdma) -> Result<MemoryPart<LabRegion>, Reason> {
    let memory = network.allocate(BYTES, PageSize::Huge)?;
    let region = network.register(&memory, RemoteAccess::READ_WRITE).await?;
    Ok(MemoryPart { region, range: 0..BYTES })
}
