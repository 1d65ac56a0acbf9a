// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts and ends of connections.

use std::pin::pin;

use crosslane_device::nic::Nic;
use crosslane_host::*;
use crosslane_lab::*;
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::network::nodes::*;

const RW: RemoteAccess = RemoteAccess::READ_WRITE;

#[test]
fn addresses() {
    let nodes = nodes();
    assert_eq!(nodes.server.name(), "fnic of fpga-node");
    nodes
        .simulation
        .run("addresses", async {
            let connect = |to| nodes.client.connect(to, NEVER);
            for (address, why) in [
                ("fpga-node", "like fpga-node:7471"),
                ("fpga-node:x", "x is not a port"),
                ("fpga-node:70000", "70000 is not a port"),
                ("elsewhere:1", "no host elsewhere"),
                ("fpga-node:7471", "nobody listens"),
            ] {
                let error = connect(address).await.unwrap_err().to_string();
                assert!(error.starts_with(address) && error.contains(why), "{error}");
            }
            let error = nodes.client.listen("fpga-node:7471").await.unwrap_err().to_string();
            assert!(error.contains("none of rnic of rnode"), "{error}");
            let listener = nodes.server.listen("fpga-node:0").await.unwrap();
            assert_eq!(listener.address(), "fpga-node:49152");
            let error = nodes.server.listen("fpga-node:49152").await.unwrap_err().to_string();
            assert!(error.contains("it is taken"), "{error}");
            let other = nodes.server.listen("fpga-node:0").await.unwrap();
            assert_eq!(other.address(), "fpga-node:49153");
            drop(listener);
            let again = nodes.server.listen("fpga-node:49152").await.unwrap();
            let error = nodes.server.connect(&again.address(), NEVER).await.unwrap_err();
            assert!(error.to_string().contains("no network link joins fnic and fnic"), "{error}");
        })
        .unwrap();
    nodes.assert_clean();
}

#[test]
fn networks_that_cannot_be_used() {
    let lab = open("sbdt").unwrap();
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    for (host, name, why) in [
        (0, "nothing", "the lab has nothing of that name"),
        (0, "pac", "it is not a NIC"),
        (0, "rnic", "it belongs to another host"),
    ] {
        let error = simulation.rdma(HostId(host), name).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let lab = lab.edited(|file| file.networks.clear()).unwrap();
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    let error = simulation.rdma(HostId(0), "fnic").unwrap_err().to_string();
    assert_eq!(error, "fnic of fpga-node cannot be used: no network link leads from it");
}

/// A thousand connections, one after the other and some at once, leave nothing behind.
#[test]
fn a_thousand_connections() {
    let nodes = nodes();
    nodes
        .simulation
        .run("connects", async {
            let listener = nodes.server.listen(SERVER).await.unwrap();
            let mut held = Vec::new();
            for number in 0..1000_u32 {
                let client = nodes.client.connect(SERVER, NEVER).await.unwrap();
                let server = listener.accept().await.unwrap();
                client.send(&number.to_le_bytes()).await.unwrap();
                assert_eq!(server.receive().await.unwrap(), number.to_le_bytes());
                match number % 3 {
                    0 => client.close().await,
                    1 => server.close().await,
                    _ => held.push((client, server)),
                }
                if held.len() == 8 {
                    held.clear();
                }
            }
        })
        .unwrap();
    nodes.assert_clean();
}

/// Connections that are never accepted: up to the backlog, and gone with their listener.
#[test]
fn connections_that_nobody_accepts() {
    let nodes = nodes();
    nodes
        .simulation
        .run("backlog", async {
            let listener = nodes.server.listen(SERVER).await.unwrap();
            let mut clients = Vec::new();
            let error = loop {
                match nodes.client.connect(SERVER, NEVER).await {
                    Ok(client) => clients.push(client),
                    Err(error) => break error.to_string(),
                }
            };
            assert_eq!(clients.len(), 64);
            assert!(error.contains("64 connections wait to be accepted"), "{error}");
            // A message waits until the connection is accepted.
            clients[1].send(b"hello").await.unwrap();
            let _first = listener.accept().await.unwrap();
            let second = listener.accept().await.unwrap();
            assert_eq!(second.receive().await.unwrap(), b"hello");
            drop(listener);
            let lost = clients[5].receive().await.unwrap_err().to_string();
            assert!(lost.contains("it was closed at the other end"), "{lost}");
            let error = nodes.client.connect(SERVER, NEVER).await.unwrap_err().to_string();
            assert!(error.contains("nobody listens"), "{error}");
        })
        .unwrap();
    nodes.assert_clean();
}

#[test]
fn a_deadline_to_connect() {
    let nodes = nodes();
    nodes
        .simulation
        .run("deadline", async {
            let _listener = nodes.server.listen(SERVER).await.unwrap();
            let deadline = nodes.simulation.now() + Picoseconds::from_ns(999_000);
            let error = nodes.client.connect(SERVER, deadline).await.unwrap_err().to_string();
            assert!(
                error.contains("deadline passed while connecting to fpga-node:7471"),
                "{error}"
            );
            assert_eq!(nodes.simulation.now(), deadline);
        })
        .unwrap();
    nodes.assert_clean();
}

/// Connections closed with operations in flight, at any moment, by either end or by dropping it:
/// all operations end, memory is untouched from then on, and nothing leaks.
#[test]
fn closed_in_the_middle() {
    for step in 0..24_u64 {
        let nodes = nodes();
        nodes.joined(async |client, server| {
            let text = bytes(step, 400_000);
            let (ours, near_region) = nodes.filled(&nodes.client, &text, RW).await;
            let (theirs, far_region) = nodes.filled(&nodes.server, &text, RW).await;
            let mut tasks = Vec::new();
            for at in 0..8_u64 {
                let (client, near) = (client.clone(), near(&near_region, at * 50_000));
                let far = far(&far_region, at * 50_000);
                tasks.push(nodes.simulation.spawn("one", async move {
                    match at % 2 {
                        0 => client.read(&near, far, 50_000).await,
                        _ => client.write(&near, far, 50_000).await,
                    }
                }));
            }
            // The operations keep the near end's region.
            drop(near_region);
            let until = nodes.simulation.now() + Picoseconds::from_ns(step * 2_500);
            Clock::sleep_until(&nodes.simulation.bus(HostId(0)), until).await;
            let (memory, clear) = match step % 3 {
                0 => {
                    client.close().await;
                    (&ours, true)
                }
                1 => {
                    server.close().await;
                    (&theirs, true)
                }
                _ => {
                    drop(server.clone());
                    (&theirs, false)
                }
            };
            if clear {
                memory.write(0, &vec![0; 400_000]).unwrap();
            }
            let mut ended = 0;
            if clear {
                for task in tasks {
                    match task.await {
                        Ok(()) => ended += 1,
                        Err(error) => {
                            assert!(matches!(error, RdmaError::Lost { .. }), "{error}");
                        }
                    }
                }
                assert!(ended < 8 || step > 10, "{ended} at step {step}");
                assert!(all(memory).iter().all(|byte| *byte == 0), "written after the end");
                let lost = client.receive().await.unwrap_err();
                assert!(matches!(lost, RdmaError::Lost { .. }), "{lost}");
            } else {
                for task in tasks {
                    task.await.unwrap();
                }
            }
            drop(far_region);
        });
    }
}

/// The last clone is dropped with operations in flight: the connection is closed for both ends.
#[test]
fn dropped_in_the_middle() {
    let nodes = nodes();
    let (client, server) = nodes.connect();
    nodes
        .simulation
        .run("drops", async {
            let (_, near_region) = nodes.filled(&nodes.client, &[1; 200_000], RW).await;
            let (_, far_region) = nodes.filled(&nodes.server, &[2; 200_000], RW).await;
            client.send(b"last words").await.unwrap();
            {
                let at = near(&near_region, 0);
                let mut read = pin!(client.read(&at, far(&far_region, 0), 200_000));
                let waker = std::task::Waker::noop();
                assert!(
                    read.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending()
                );
            }
            drop(near_region);
            drop(client);
            // Messages that arrived before can still be received.
            assert_eq!(server.receive().await.unwrap(), b"last words");
            let lost = server.receive().await.unwrap_err().to_string();
            assert!(lost.contains("it was closed at the other end"), "{lost}");
        })
        .unwrap();
    drop(server);
    nodes.assert_clean();
}

/// If a network is cut, everything ends after the time-out, at both ends, and no connection can be
/// made until it is mended.
#[test]
fn a_network_that_is_cut() {
    let nodes = nodes();
    let (client, server) = nodes.connect();
    let node = nodes.nic("rnic");
    nodes
        .simulation
        .run("cut", async {
            let (_, near_region) = nodes.filled(&nodes.client, &[1; 500_000], RW).await;
            let (_, far_region) = nodes.filled(&nodes.server, &[2; 500_000], RW).await;
            let writer = {
                let (client, at) = (client.clone(), near(&near_region, 0));
                let far = far(&far_region, 0);
                nodes
                    .simulation
                    .spawn("write", async move { client.write(&at, far, 500_000).await })
            };
            let bus = nodes.simulation.bus(HostId(0));
            let cut = nodes.simulation.now() + Picoseconds::from_ns(20_000);
            Clock::sleep_until(&bus, cut).await;
            nodes.simulation.with_fabric(|fabric| assert!(Nic::cut(fabric, node)));
            let why = "there was no sign of the other node within the time-out";
            let lost = writer.await.unwrap_err().to_string();
            assert!(lost.contains(why), "{lost}");
            let lost = server.receive().await.unwrap_err().to_string();
            assert!(lost.contains(why), "{lost}");
            let took = nodes.simulation.now().since(cut).as_ns();
            assert!((470e6..470e6 + 1000.0).contains(&took), "{took} ns");
            let _listener = nodes.server.listen(SERVER).await.unwrap();
            let error = nodes.client.connect(SERVER, NEVER).await.unwrap_err().to_string();
            assert!(error.contains("the network link is down"), "{error}");
            nodes.simulation.with_fabric(|fabric| assert!(Nic::mend(fabric, node)));
            nodes.client.connect(SERVER, NEVER).await.unwrap();
        })
        .unwrap();
    drop((client, server));
    nodes.assert_clean();
}

/// A deadlock reports the waits of each task.
#[test]
fn what_waits_is_said() {
    let nodes = nodes();
    let (client, server) = nodes.connect();
    let stuck = nodes.simulation.run("stuck", client.receive()).unwrap_err().to_string();
    assert!(stuck.contains("stuck: waits for a message from fpga-node:7471 to rnode"), "{stuck}");
    let stuck = nodes.simulation.run("accepts", async {
        let listener = nodes.server.listen(SERVER).await.unwrap();
        listener.accept().await.map(drop)
    });
    let stuck = stuck.unwrap_err().to_string();
    assert!(stuck.contains("waits for a connection to fpga-node:7471"), "{stuck}");
    drop((client, server));
    nodes.assert_clean();
}

/// The lab is dropped with connections and operations in flight.
#[test]
fn a_lab_that_goes() {
    let nodes = nodes();
    let (client, server) = nodes.connect();
    let (region, near_region) = nodes
        .simulation
        .run("begins", async {
            let (_, near_region) = nodes.filled(&nodes.client, &[1; 90_000], RW).await;
            let (_, far_region) = nodes.filled(&nodes.server, &[2; 90_000], RW).await;
            let at = near(&near_region, 0);
            let mut read = pin!(client.read(&at, far(&far_region, 0), 90_000));
            let waker = std::task::Waker::noop();
            assert!(read.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
            (far_region, near_region)
        })
        .unwrap();
    let bus = nodes.simulation.bus(HostId(0));
    drop(nodes);
    drop((server, region));
    let mut send = pin!(client.send(b"anybody?"));
    let waker = std::task::Waker::noop();
    let polled = send.as_mut().poll(&mut std::task::Context::from_waker(waker));
    let std::task::Poll::Ready(Err(RdmaError::Lost { why, .. })) = polled else {
        panic!("{polled:?}")
    };
    assert_eq!(why, "the lab has ended");
    drop((bus, near_region));
}
