// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies between cards of one server: by reads of a peer, and through host memory.

use crate::support;

use crosslane_bridge::files::{FileClient, FileOptions};
use crosslane_bridge::messages::PeerTarget;
use crosslane_bridge::{Identity, Served, Server, Stage};
use crosslane_driver::Device;
use crosslane_host::{AnyMemory, Bus, PageSize, Topology};
use crosslane_lab::{Lab, LabBus};
use crosslane_pcie::config::{find_extended_capability, registers as reg};

use support::network::Network;
use support::{LabClient, SERVER, Scene, bytes_of, options, pattern, place, serve_while};

const MEMORY_BYTES: u64 = 1 << 20;

/// The eight cards below two switches, each with a window into its memory: fpga1 and fpga2 meet in
/// a switch.
fn rosta() -> Scene {
    Scene::of(&Lab::load("rosta:memory").expect("it is shipped"), 100)
}

fn here(card: &str, address: u64) -> PeerTarget {
    PeerTarget { server: String::new(), card: card.to_owned(), address }
}

/// Runs a program beside a server with two engines, memory, and nothing.
fn beside<T>(scene: &Scene, cards: [&str; 2], program: impl AsyncFnOnce(LabClient) -> T) -> T {
    let run = scene.simulation.run("test", async {
        let mut served = Vec::new();
        for card in cards {
            let device = Device::open_by_name(scene.bus.clone(), card).await.expect("an engine");
            served.push((card.to_owned(), Served::Engine(device)));
        }
        let memory = scene.bus.allocate(MEMORY_BYTES, PageSize::Small).expect("there is memory");
        served.push(("memory".to_owned(), Served::Memory(AnyMemory::new(memory))));
        served.push(("null".to_owned(), Served::Null));
        let server: Server<Network, LabBus> =
            Server::new(served, scene.network.clone(), scene.clock(), Scene::small(), |_| {})
                .await
                .expect("there is memory");
        serve_while(server, SERVER, async || program(scene.client().await).await).await
    });
    let result = run.expect("nothing hangs");
    scene.check_empty();
    result
}

/// Puts a pattern into a card's memory.
async fn fill(scene: &Scene, client: &LabClient, (card, address): (&str, u64), bytes: u64) {
    let source = scene.filled(bytes, bytes as u8).await;
    client.put(&source, &place(card, address), &options(), |_| {}).await.expect("it is put");
}

/// Checks that a card's memory has that pattern, and nothing behind it.
async fn check(scene: &Scene, client: &LabClient, (card, address): (&str, u64), bytes: u64) {
    let back = scene.filled(bytes + 1, 77).await;
    client.get(&place(card, address), &back, &options(), |_| {}).await.expect("it is got");
    let expected = [pattern(bytes, bytes as u8), vec![0]].concat();
    assert!(bytes_of(&back) == expected, "{bytes} B at {address} of {card}");
}

#[test]
fn an_engine_reads_another_ones_memory() {
    let scene = rosta();
    beside(&scene, ["fpga1", "fpga5"], async |client| {
        for (bytes, from, to) in [(1, 0, 3), (4096, 64, 8192), (300_001, 77, 1 << 20)] {
            fill(&scene, &client, ("fpga1", from), bytes).await;
            let copied = client
                .copy(&place("fpga1", from), here("fpga5", to), bytes, &options(), |_| {})
                .await;
            let report = copied.expect("it is copied").report;
            let route = report.route.as_deref();
            assert_eq!(route, Some("fpga5 reads the memory of fpga1, past host memory"));
            let stages: Vec<_> = report.stages.iter().map(|it| (it.stage, it.bytes)).collect();
            assert_eq!((stages, report.checksum), (vec![(Stage::Dma, bytes)], None));
            check(&scene, &client, ("fpga5", to), bytes).await;
        }
        client.close().await;
    });
}

/// Has a switch port send requests of peers up to the root complex.
fn redirect(bus: &LabBus, port: &str) {
    let functions = bus.functions().expect("a lab shows its tree");
    let id = functions.iter().find(|info| info.name == port).expect("it is there").id;
    let read = |offset| bus.config_read(id, offset);
    let found = find_extended_capability(reg::EXTENDED_CAPABILITY_ACS, read).expect("readable");
    let control = found.expect("it has ACS") + reg::ACS_CONTROL;
    let value = read(control).expect("readable") | reg::ACS_CONTROL_REQUEST_REDIRECT;
    bus.config_write(id, control, value, 0b1111).expect("writable");
}

#[test]
fn past_a_port_that_redirects_no_engine_reads() {
    let scene = rosta();
    for port in ["rc47b.down0", "rha25.down1"] {
        redirect(&scene.bus, port);
    }
    beside(&scene, ["fpga1", "fpga5"], async |client| {
        fill(&scene, &client, ("fpga1", 5), 70_001).await;
        let copied =
            client.copy(&place("fpga1", 5), here("fpga5", 3), 70_001, &options(), |_| {}).await;
        let report = copied.expect("it is copied").report;
        let route = report.route.expect("it says which way it was");
        assert!(route.starts_with("through host memory: "), "{route}");
        assert!(route.ends_with("redirects peer requests to the root complex (ACS)"), "{route}");
        let stages: Vec<Stage> = report.stages.iter().map(|it| it.stage).collect();
        assert_eq!(stages, [Stage::Receive, Stage::CopyIn, Stage::Transmit]);
        check(&scene, &client, ("fpga5", 3), 70_001).await;
        client.close().await;
    });
}

#[test]
fn where_no_engine_can_read_host_memory_has_the_data() {
    let scene = Scene::new(100);
    beside(&scene, ["kc705", "second"], async |client| {
        let bytes = 200_003;
        let cards = [
            ("kc705", "second", "kc705 shows none of its memory to others (BAR2)", 3),
            ("second", "memory", "not both of them have an engine", 2),
            ("memory", "memory", "not both of them have an engine", 1),
            ("memory", "kc705", "not both of them have an engine", 2),
            ("kc705", "kc705", "it is one card", 3),
        ];
        for (number, (from, to, why, stages)) in cards.into_iter().enumerate() {
            // Each its own place, so that nothing of the one before is there.
            let (at, into) = (number as u64 * 17, 400_000 + number as u64 * 13);
            fill(&scene, &client, (from, at), bytes).await;
            let checked = options().with_checksum(true);
            let copied =
                client.copy(&place(from, at), here(to, into), bytes, &checked, |_| {}).await;
            let report = copied.expect("it is copied").report;
            assert_eq!(report.route, Some(format!("through host memory: {why}")));
            assert_eq!((report.stages.len(), report.checksum), (stages, None), "{from} -> {to}");
            assert!(report.stages.iter().all(|stage| stage.bytes == bytes));
            check_start(&scene, &client, (to, into), bytes).await;
        }
        // Nothing comes from nothing, and goes there.
        for (from, to) in [("null", "memory"), ("memory", "null")] {
            let copied = client.copy(&place(from, 5), here(to, 9), bytes, &options(), |_| {}).await;
            assert_eq!(copied.expect("it is copied").report.bytes, bytes);
        }
        let back = scene.filled(bytes, 4).await;
        client.get(&place("memory", 9), &back, &options(), |_| {}).await.expect("it is got");
        assert!(bytes_of(&back) == vec![0; bytes as usize]);
        client.close().await;
    });
}

/// Checks that a card's memory has the pattern.
async fn check_start(scene: &Scene, client: &LabClient, (card, address): (&str, u64), bytes: u64) {
    let back = scene.empty(bytes).await;
    client.get(&place(card, address), &back, &options(), |_| {}).await.expect("it is got");
    assert!(bytes_of(&back) == pattern(bytes, bytes as u8), "{bytes} B at {address} of {card}");
}

#[test]
fn copies_within_a_node_that_cannot_be() {
    let scene = Scene::new(100);
    beside(&scene, ["kc705", "second"], async |client| {
        let why = async |from, to: PeerTarget, bytes| {
            let error = client.copy(&from, to, bytes, &options(), |_| {}).await;
            error.expect_err("it is refused").why.to_string()
        };
        let overlap = why(place("kc705", 0), here("kc705", 99), 100).await;
        assert_eq!(overlap, "100 B from 0x0 on and from 0x63 on overlap in kc705");
        let nobody = why(place("kc705", 0), here("nosuch", 0), 100).await;
        assert!(nobody.starts_with("there is no card nosuch: this server has kc705"), "{nobody}");
        let small = why(place("kc705", 0), here("memory", MEMORY_BYTES - 99), 100).await;
        assert!(small.starts_with("memory has 1048576 B, not 100 B from"), "{small}");
        // Beyond the card's memory its engine says so, and the connection is closed as ever.
        let beyond =
            client.copy(&place("kc705", 0), here("second", 1 << 40), 100, &options(), |_| {}).await;
        let error = beyond.expect_err("no card has that");
        assert_eq!(error.stage, Stage::Transmit, "{error}");
    });
}

#[test]
fn a_file_client_copies_within_a_node() {
    let scene = Scene::new(100);
    beside(&scene, ["kc705", "second"], async |client| {
        fill(&scene, &client, ("kc705", 0), 100_000).await;
        let (network, clock) = (scene.network.clone(), scene.clock());
        let (identity, options) = (Identity::default(), FileOptions::default());
        let mut files = FileClient::new(network, clock, SERVER, identity, options);
        let copied = files.copy(&place("kc705", 0), &here("second", 5), 100_000, &()).await;
        let copied = copied.expect("it is copied");
        assert_eq!((copied.bytes, copied.checksum, copied.reports.len()), (100_000, None, 1));
        files.close().await;
        check_start(&scene, &client, ("second", 5), 100_000).await;
        client.close().await;
    });
}
