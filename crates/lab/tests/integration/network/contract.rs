// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads, writes and messages keep the contracts of the traits.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crosslane_host::*;
use crosslane_lab::{LabError, LabRegion, open};
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::network::nodes::*;

const RW: RemoteAccess = RemoteAccess::READ_WRITE;

#[test]
fn data_of_all_sizes_and_offsets() {
    data_of_all_sizes(nodes());
}

/// Behind an IOMMU, the adapters of two hosts use different addresses.
#[test]
fn data_of_all_sizes_and_offsets_through_an_iommu() {
    let iommu = open("rosta:iommu").unwrap().file().hosts[0].part.parameters.iommu;
    let lab = open("sbdt").unwrap().edited(|file| {
        for host in &mut file.hosts {
            Arc::make_mut(&mut host.part).parameters.iommu = iommu;
        }
    });
    data_of_all_sizes(nodes_of(&lab.unwrap(), 1));
}

fn data_of_all_sizes(nodes: Nodes) {
    nodes.joined(async |client, _server| {
        let (ours, theirs) = (bytes(1, 70_000), bytes(2, 70_000));
        let (near_memory, near_region) = nodes.filled(&nodes.client, &ours, RW).await;
        let (far_memory, far_region) = nodes.filled(&nodes.server, &theirs, RW).await;
        for count in [0, 1, 2, 7, 64, 4095, 4096, 4097, 8191, 12_288, 50_001] {
            for (from, to) in [(0, 0), (1, 2), (4094, 3), (4096, 8191)] {
                near_memory.write(0, &ours).unwrap();
                far_memory.write(0, &theirs).unwrap();
                let (near, far) = (near(&near_region, from), far(&far_region, to));
                let (from, to, length) = (from as usize, to as usize, count as usize);
                client.write(&near, far, count).await.unwrap();
                let mut expected = theirs.clone();
                expected[to..to + length].copy_from_slice(&ours[from..from + length]);
                assert!(all(&far_memory) == expected, "write of {count} B, {from} to {to}");
                far_memory.write(0, &theirs).unwrap();
                client.read(&near, far, count).await.unwrap();
                let mut expected = ours.clone();
                expected[from..from + length].copy_from_slice(&theirs[to..to + length]);
                assert!(all(&near_memory) == expected, "read of {count} B, {to} to {from}");
            }
        }
    });
}

/// Operations that reach beyond memory move nothing and cost nothing; the connection stays usable.
#[test]
fn operations_beyond_memory() {
    let nodes = nodes();
    nodes.joined(async |client, _server| {
        let (_, near_region) = nodes.filled(&nodes.client, &[1; 100], RW).await;
        let (_, far_region) = nodes.filled(&nodes.server, &[2; 50], RW).await;
        let before = nodes.simulation.now();
        let (at, far_at) = (near(&near_region, 60), far(&far_region, 20));
        for (bytes, what, offset_bytes, size_bytes) in
            [(41, "the near", 60, 100), (31, "the far", 20, 50), (u64::MAX, "the near", 60, 100)]
        {
            let expected = RdmaError::BeyondMemory { what, offset_bytes, bytes, size_bytes };
            assert_eq!(client.read(&at, far_at, bytes).await, Err(expected.clone()));
            assert_eq!(client.write(&at, far_at, bytes).await, Err(expected));
        }
        let error = client.send(&[0; 4097]).await;
        assert_eq!(error, Err(RdmaError::LongMessage { bytes: 4097, most: 4096 }));
        assert_eq!(nodes.simulation.now(), before);
        // A registration with the other node is not valid at the near end.
        let error = client.read(&near(&far_region, 0), far_at, 1).await.unwrap_err();
        assert!(error.to_string().contains("not registered with LabRdma(rnic of rnode)"));
        let error = nodes.server.register(&all_memory(&near_region), RW).await.unwrap_err();
        assert!(error.to_string().contains("belongs to another host"), "{error}");
        client.write(&at, far_at, 30).await.unwrap();
    });
}

fn all_memory(region: &LabRegion) -> AnyMemory {
    region.memory().clone()
}

/// An error from the other node carries its reason and ends the connection for both ends.
#[test]
fn what_the_other_node_refuses() {
    let read_only = RemoteAccess { read: true, write: false };
    for (case, kind, why) in [
        ("key", ErrorKind::Denied, "its key is not for this"),
        ("right", ErrorKind::Denied, "its key is not for this"),
        ("bounds", ErrorKind::InvalidArgument, "it reaches beyond the memory that its key is for"),
    ] {
        let nodes = nodes();
        nodes.joined(async |client, server| {
            let (_, near_region) = nodes.filled(&nodes.client, &[1; 9000], RW).await;
            let (memory, far_region) = nodes.filled(&nodes.server, &[2; 5000], read_only).await;
            let mut target = far(&far_region, 0);
            match case {
                "key" => target.memory.key += 1,
                "bounds" => target.memory.bytes += 1,
                _ => {}
            }
            let at = near(&near_region, 0);
            let (operation, result) = match case {
                "bounds" => ("read", client.read(&at, target, 5001).await),
                _ => ("write", client.write(&at, target, 5000).await),
            };
            let (peer, why) = (SERVER.to_owned(), Reason::new(kind, why));
            assert_eq!(result, Err(RdmaError::Refused { peer, operation, why }));
            assert_eq!(all(&memory), [2; 5000]);
            let lost = server.receive().await.unwrap_err();
            let RdmaError::Lost { peer, why } = lost else { panic!("{lost}") };
            assert!(peer.starts_with("rnode:"), "{peer}");
            assert_eq!(why, "a request of the other node had to be refused");
            let lost = client.send(b"still there?").await;
            assert!(matches!(lost, Err(RdmaError::Lost { .. })), "{lost:?}");
            client.close().await;
        });
    }
}

/// Messages arrive whole and in order, however many; many operations run at once.
#[test]
fn messages_in_order_beside_other_operations() {
    let nodes = nodes();
    let (client, server) = nodes.connect();
    let length = |number: usize| [0, 1, 4096, 100, 17][number % 5];
    let receiver = nodes.simulation.spawn("receiver", async move {
        for number in 0..200 {
            let message = server.receive().await.unwrap();
            assert!(message == bytes(number as u64, length(number)), "message {number}");
            if number % 20 == 0 {
                server.send(format!("seen {number}").as_bytes()).await.unwrap();
            }
        }
        server
    });
    let server = nodes
        .simulation
        .run("sender", async {
            let (_, near_region) = nodes.filled(&nodes.client, &bytes(7, 1 << 20), RW).await;
            let (memory, far_region) = nodes.filled(&nodes.server, &vec![0; 1 << 20], RW).await;
            let ends = (0..64).map(|at| (near(&near_region, at << 14), far(&far_region, at << 14)));
            let ends: Vec<_> = ends.collect();
            let mut writes: Vec<_> = ends
                .iter()
                .map(|(near, far)| Box::pin(client.write(near, *far, 1 << 14)))
                .collect();
            let texts: Vec<_> =
                (0..200).map(|number| bytes(number as u64, length(number))).collect();
            let mut sends: Vec<_> = texts.iter().map(|text| Box::pin(client.send(text))).collect();
            // All start at once, in this order.
            let (mut writing, mut sending) = (writes.len(), sends.len());
            let mut done = vec![false; writing + sending];
            std::future::poll_fn(|context| {
                for (at, write) in
                    writes.iter_mut().enumerate().filter(|(at, _)| !done[*at]).collect::<Vec<_>>()
                {
                    if let Poll::Ready(result) = write.as_mut().poll(context) {
                        result.unwrap();
                        done[at] = true;
                        writing -= 1;
                    }
                }
                for (at, send) in sends.iter_mut().enumerate() {
                    if !done[64 + at]
                        && let Poll::Ready(result) = send.as_mut().poll(context)
                    {
                        result.unwrap();
                        done[64 + at] = true;
                        sending -= 1;
                    }
                }
                if writing + sending == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            drop((writes, sends));
            assert!(all(&memory) == bytes(7, 1 << 20));
            for number in (0..200).step_by(20) {
                assert_eq!(client.receive().await.unwrap(), format!("seen {number}").into_bytes());
            }
            receiver.await
        })
        .unwrap();
    drop((client, server));
    nodes.assert_clean();
}

/// Polls a future once.
async fn once<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    let mut future = future;
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled.is_ready()
}

/// Dropping a future does not end its operation, and the network keeps its memory; an operation
/// never polled has not started.
#[test]
fn futures_that_are_dropped() {
    let nodes = nodes();
    nodes.joined(async |client, server| {
        let text = bytes(4, 100_000);
        let (_, near_region) = nodes.filled(&nodes.client, &text, RW).await;
        let (memory, far_region) = nodes.filled(&nodes.server, &vec![0; 100_000], RW).await;
        let target = far(&far_region, 0);
        {
            let at = near(&near_region, 0);
            let mut write = pin!(client.write(&at, target, 100_000));
            assert!(!once(write.as_mut()).await);
            let _never = client.write(&at, target, 1);
            let mut send = pin!(client.send(b"one"));
            assert!(!once(send.as_mut()).await);
            let _never = client.send(b"never");
        }
        // Only the network holds it now.
        let freed = nodes.simulation.memory_in_use(HostId(1)).bytes;
        drop(near_region);
        assert_eq!(nodes.simulation.memory_in_use(HostId(1)).bytes, freed);
        {
            let mut receive = pin!(server.receive());
            assert!(!once(receive.as_mut()).await);
        }
        assert_eq!(server.receive().await.unwrap(), b"one");
        client.send(b"two").await.unwrap();
        {
            // Polled with a message waiting, and dropped before it is copied.
            let mut receive = pin!(server.receive());
            assert!(!once(receive.as_mut()).await);
        }
        assert_eq!(server.receive().await.unwrap(), b"two");
        assert!(all(&memory) == text, "the write has gone on to its end");
        assert!(nodes.simulation.memory_in_use(HostId(1)).bytes < freed);
    });
}

/// Processor time: registering pins, posting stores.
#[test]
fn what_it_takes_of_the_processor() {
    let nodes = nodes();
    let bus = nodes.simulation.bus(HostId(1));
    nodes.joined(async |client, _server| {
        let cpu = nodes.simulation.hosts()[1].cpu;
        let busy = || Clock::processor_time(&bus).unwrap();
        let (before, now) = (busy(), nodes.simulation.now());
        let memory = nodes.client.allocate(40_000, PageSize::Small).unwrap();
        let region = nodes.client.register(&memory, RW).await.unwrap();
        let pinning = cpu.system_call + Picoseconds(10 * cpu.pin_page.0);
        assert_eq!(busy().since(before), pinning);
        assert_eq!(nodes.simulation.now().since(now), pinning);
        let before = busy();
        let (_, far_region) = nodes.filled(&nodes.server, &[0; 40_000], RW).await;
        client.write(&near(&region, 0), far(&far_region, 0), 40_000).await.unwrap();
        assert_eq!(busy().since(before), cpu.uncached_store);
        assert_eq!(Clock::now(&bus), nodes.simulation.now());
        let later = nodes.simulation.now() + Picoseconds(5);
        Clock::sleep_until(&bus, later).await;
        assert_eq!(nodes.simulation.now(), later);
    });
}

/// Programs may run on several threads: handles and futures can be sent.
#[test]
fn futures_can_be_sent() {
    fn is_send<T: Send>(_: &T) {}
    let nodes = nodes();
    nodes.joined(async |client, _| {
        let (memory, region) = nodes.filled(&nodes.client, &[1; 10], RW).await;
        let (at, target) = (near(&region, 0), far(&region, 0));
        is_send(client);
        is_send(&client.read(&at, target, 1));
        is_send(&client.write(&at, target, 1));
        is_send(&client.send(b"x"));
        is_send(&client.receive());
        is_send(&client.close());
        is_send(&nodes.client.register(&memory, RW));
        is_send(&nodes.client.connect(SERVER, NEVER));
        is_send(&nodes.server.listen(SERVER));
    });
}

/// The same lab, seed and programs give the same trace.
#[test]
fn the_same_again() -> Result<(), LabError> {
    let run = || {
        let nodes = nodes_of(&open("sbdt")?, 7);
        let (client, server) = nodes.connect();
        let time = nodes.simulation.run("work", async {
            let (_, near_region) = nodes.filled(&nodes.client, &bytes(7, 300_000), RW).await;
            let (_, far_region) = nodes.filled(&nodes.server, &vec![0; 300_000], RW).await;
            let (at, target) = (near(&near_region, 0), far(&far_region, 0));
            client.write(&at, target, 200_000).await.unwrap();
            client.read(&at, target, 300_000).await.unwrap();
            server.send(b"x").await.unwrap();
            client.receive().await.unwrap();
            nodes.simulation.now()
        });
        let events = nodes.simulation.with_fabric(|fabric| fabric.events_processed());
        Ok((time.unwrap(), events))
    };
    assert_eq!(run()?, run()?);
    Ok(())
}
