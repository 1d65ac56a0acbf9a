// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bridge's server with a card on a real network, and clients in separate threads.

use crate::support;

use std::thread;
use std::time::Duration;

use crosslane_bridge::messages::MOST_CARRIED_BYTES;
use crosslane_bridge::{
    CardPlace, Client, Identity, MemoryPart, Server, ServerOptions, Stage, TransferOptions,
};
use crosslane_host::{DmaMemory, PageSize, Rdma, RdmaListener, RdmaRegion, RemoteAccess};
use crosslane_network::{MachineClock, Network, Provider, Region};
use crosslane_open::{AnyRdma, Session};
use crosslane_pcie::units::Picoseconds;
use futures_channel::oneshot;
use futures_executor::block_on;
use support::scene::{contents, pattern};
use support::served::Served;

/// Longer than any operation here takes: a minute.
const PATIENCE: Picoseconds = Picoseconds::from_ns(60_000_000_000);

async fn memory(network: &Network, data: &[u8]) -> MemoryPart<Region> {
    let bytes = data.len() as u64;
    let memory = network.allocate(bytes, PageSize::Huge).unwrap();
    memory.write(0, data).unwrap();
    let region = network.register(&memory, RemoteAccess::READ_WRITE).await.unwrap();
    MemoryPart { region, range: 0..bytes }
}

/// One client, which makes puts, gets, and a round trip through the card's stream.
async fn client(provider: Provider, address: &str, card: &str, number: u64) {
    let clock = MachineClock::new();
    let network = Network::open(provider, &clock).unwrap();
    let time = Duration::from_secs(60);
    let client = Client::connect(network.clone(), clock, address, &Identity::default(), time).await;
    let client = client.unwrap();
    let options = TransferOptions::default().with_time(PATIENCE).with_checksum(true);
    let mut place = number * (64 << 20);
    for bytes in [1, MOST_CARRIED_BYTES, MOST_CARRIED_BYTES + 1, 100_000, 8 << 20] {
        let data = pattern(number ^ bytes, bytes);
        let to = CardPlace { card: card.to_owned(), address: place };
        let put = client.put(&memory(&network, &data).await, &to, &options, |_| {}).await.unwrap();
        let back = memory(&network, &vec![0; bytes as usize]).await;
        let got = client.get(&to, &back, &options, |_| {}).await.unwrap();
        for report in [put.report, got.report] {
            // Small data are within the messages.
            let has_dma_alone = report.stages.iter().all(|stage| stage.stage == Stage::Dma);
            assert_eq!(has_dma_alone, bytes <= MOST_CARRIED_BYTES, "{bytes} B: {report:?}");
        }
        assert!(contents(back.region.memory()) == data, "client {number}, {bytes} B");
        place += bytes + 3;
    }
    let data = pattern(number, 1 << 20);
    let (source, back) = (memory(&network, &data).await, memory(&network, &[0; 1 << 20]).await);
    client.round_trip(card, &source, &back, &options, |_| {}).await.unwrap();
    assert!(contents(back.region.memory()) == data, "client {number}, round trip");
    client.close().await;
}

/// Serves a card until `clients` clients have finished.
async fn serve(session: &Session, provider: Provider, clients: u64) -> String {
    let clock = MachineClock::new();
    let rdma = AnyRdma::new(Network::open(provider, &clock).unwrap(), session.bus());
    let (name, device, card) = (rdma.name(), session.device(0).await.unwrap(), "card");
    let options = ServerOptions::default().with_slot_bytes(256 << 10);
    let devices = vec![(card.to_owned(), device)];
    let server = Server::new(devices, rdma, clock, options, |_| {}).await.unwrap();
    let listener = server.listen("127.0.0.1:0").await.unwrap();
    let (address, card) = (listener.address(), card.to_owned());
    let (stop, stopped) = oneshot::channel();
    let running = thread::spawn(move || {
        let all: Vec<_> = (0..clients)
            .map(|number| {
                let (address, card) = (address.clone(), card.clone());
                thread::spawn(move || block_on(client(provider, &address, &card, number)))
            })
            .collect();
        let results: Vec<_> = all.into_iter().map(thread::JoinHandle::join).collect();
        let _ = stop.send(());
        results.into_iter().for_each(|result| result.unwrap());
    });
    let end = async {
        let _ = stopped.await;
    };
    server.serve(listener, end).await.unwrap();
    running.join().unwrap();
    name
}

#[test]
fn clients_of_a_lab_s_card() {
    let session = Session::open("lab:kc705:crosslane").unwrap();
    let name = session.run_free(serve(&session, Provider::Tcp, 3));
    assert!(name.ends_with(", copied: the lab's memory is simulated"), "{name}");
}

#[test]
fn clients_of_a_card_whose_buffers_the_network_reaches() {
    let served = Served::start("sbdt:crosslane", &["pac"]);
    let session = Session::open(&format!("vfio-user:{}", served.sockets[0].display())).unwrap();
    let name = session.run_free(serve(&session, Provider::Tcp, 3));
    assert!(name.ends_with(", in the card's own buffers"), "{name}");
}

#[test]
fn a_client_of_a_card_over_tls() {
    let session = Session::open("lab:kc705:crosslane").unwrap();
    let name = session.run_free(serve(&session, Provider::Tls, 1));
    assert!(name.starts_with("tls"), "{name}");
}
