// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buffers of a served card that a real network accesses directly: the same pages at both ends.

use crate::support;

use std::future::Future;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crosslane_driver::{ChannelKind, ChannelOptions, Device, StreamSource, Transfer};
use crosslane_host::{
    DmaMemory, PageSize, Rdma, RdmaConnection, RdmaError, RdmaRegion, RemoteAccess,
};
use crosslane_open::{AnyBus, AnyMemory, VfioMemory};
use crosslane_vfio::{VfioBus, block_on};
use support::scene::{LONG, Scene, contents, far, in_time, near, pattern};
use support::served::Served;

/// Runs a future to its end; panics if it hangs.
fn run<F: Future>(future: F) -> F::Output {
    block_on(in_time(future))
}

/// Serves a card whose model is fast; returns it with its bus, and a client of its network.
fn scene() -> (Served, VfioBus, Scene) {
    let served = Served::start("sbdt:crosslane", &["pac"]);
    let bus = served.bus();
    let scene = run(Scene::new(&AnyBus::new(bus.clone())));
    (served, bus, scene)
}

#[test]
fn what_others_write_and_read_is_the_card_s_buffer_itself() {
    const BYTES: u64 = 300_000;
    let (_served, bus, Scene { rdma: direct, client, here, there }) = scene();
    run(async {
        let device = Device::open(AnyBus::new(bus.clone()), bus.own_functions().next().unwrap())
            .await
            .unwrap();
        // Copies have to refuse remote write access.
        let all = RemoteAccess::READ_WRITE;
        let out = direct.allocate(BYTES, PageSize::Small).unwrap();
        let back = direct.allocate(BYTES, PageSize::Huge).unwrap();
        let out_region = direct.register(&out, all).await.unwrap();
        let back_region = direct.register(&back, all).await.unwrap();
        let memory = client.allocate(BYTES, PageSize::Small).unwrap();
        let own = client.register(&memory, RemoteAccess::READ_WRITE).await.unwrap();
        // The data have arrived when the write ends, without any action at this end.
        memory.write(0, &pattern(1, BYTES)).unwrap();
        there.write(&near(&own), far(&out_region), BYTES).await.unwrap();
        assert!(contents(&out) == pattern(1, BYTES));
        // The card moves them from this buffer to the other one, from which they are read: no
        // program of this node has touched a byte.
        let buffers = [device.register(out.clone()).await, device.register(back.clone()).await];
        let [out_buffer, back_buffer] = buffers.map(Result::unwrap);
        device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
        let channel = async |kind| device.channel(kind, 0, ChannelOptions::default()).await;
        let transfer = |buffer| Transfer::of(&buffer, device.deadline(LONG));
        let (mut h2c, mut c2h) =
            (channel(ChannelKind::H2c).await.unwrap(), channel(ChannelKind::C2h).await.unwrap());
        let written = c2h.post(&[transfer(back_buffer.clone())]).await.unwrap()[0];
        h2c.transfer(transfer(out_buffer.clone())).await.unwrap();
        assert_eq!(c2h.wait(written).await.unwrap().bytes, BYTES);
        memory.write(0, &vec![0; BYTES as usize]).unwrap();
        there.read(&near(&own), far(&back_region), BYTES).await.unwrap();
        assert!(contents(&memory) == pattern(1, BYTES));
        // Remote reads see the current data, not a copy of an earlier time.
        back.write(0, &pattern(2, BYTES)).unwrap();
        there.read(&near(&own), far(&back_region), BYTES).await.unwrap();
        assert!(contents(&memory) == pattern(2, BYTES));
        // This node's own reads and writes.
        memory.write(0, &pattern(3, BYTES)).unwrap();
        here.read(&near(&out_region), far(&own), BYTES).await.unwrap();
        assert!(contents(&out) == pattern(3, BYTES));
        here.write(&near(&back_region), far(&own), BYTES).await.unwrap();
        assert!(contents(&memory) == pattern(2, BYTES));
        let error = here.write(&near(&back_region), far(&own), BYTES + 1).await.unwrap_err();
        assert!(matches!(error, RdmaError::BeyondMemory { what: "the near", .. }), "{error}");
    });
    assert!(direct.name().ends_with(", in the card's own buffers"), "{}", direct.name());
}

/// Returns the number of mappings of a memory's pages in this process, which contains the server
/// and the network too.
fn mapped(inode: u64) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let inode = inode.to_string();
    maps.lines().filter(|line| line.split_whitespace().nth(4) == Some(&inode)).count()
}

#[track_caller]
fn wait_until_mapped(inode: u64, times: usize) {
    let begun = Instant::now();
    while mapped(inode) != times {
        assert!(begun.elapsed() < LONG, "it is mapped {} times, not {times}", mapped(inode));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn inode(memory: &AnyMemory) -> u64 {
    let memory: &VfioMemory = memory.downcast().expect("it is a card's");
    rustix::fs::fstat(memory.pages().file().as_fd()).unwrap().st_ino
}

#[test]
fn pages_are_there_as_long_as_anybody_has_them_and_no_longer() {
    const BYTES: u64 = 8 << 20;
    let (_served, bus, Scene { rdma: direct, client, here, there }) = scene();
    run(async {
        let device = Device::open(AnyBus::new(bus.clone()), bus.own_functions().next().unwrap())
            .await
            .unwrap();
        let memory = client.allocate(BYTES, PageSize::Small).unwrap();
        let own = client.register(&memory, RemoteAccess::READ_WRITE).await.unwrap();
        memory.write(0, &pattern(1, BYTES)).unwrap();
        // Mapped by the program, by the server for the card, and by the network.
        let buffer = direct.allocate(BYTES, PageSize::Small).unwrap();
        let of_buffer = inode(&buffer);
        assert_eq!(mapped(of_buffer), 1);
        let pinned = device.register(buffer.clone()).await.unwrap();
        wait_until_mapped(of_buffer, 2);
        let region = direct.register(&buffer, RemoteAccess::NONE).await.unwrap();
        assert_eq!(mapped(of_buffer), 3);
        // The end of a registration takes nothing from the card.
        drop(region);
        wait_until_mapped(of_buffer, 2);
        let region = direct.register(&buffer, RemoteAccess::READ_WRITE).await.unwrap();
        // After unpinning it stays mapped for the card until the program drops it.
        pinned.unregister().await.unwrap();
        assert_eq!(mapped(of_buffer), 3);
        drop(buffer);
        there.write(&near(&own), far(&region), BYTES).await.unwrap();
        assert!(contents(region.memory()) == pattern(1, BYTES));
        // Only a read whose future was dropped still holds it.
        let near_end = near(&region);
        let mut read = Box::pin(here.read(&near_end, far(&own), BYTES));
        let _ = futures_util::poll!(&mut read);
        drop(read);
        drop((near_end, region));
        // Pages that remote writes might still reach stay mapped until the connection ends.
        wait_until_mapped(of_buffer, 1);
        let next = direct.allocate(BYTES, PageSize::Small).unwrap();
        let next_region = direct.register(&next, RemoteAccess::NONE).await.unwrap();
        here.read(&near(&next_region), far(&own), BYTES).await.unwrap();
        here.close().await;
        wait_until_mapped(of_buffer, 0);
        assert!(contents(&next) == pattern(1, BYTES));
    });
}
