// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab's memory at one end of a real network, an ordinary program at the other.

use crate::support;

use crosslane_host::{
    DmaMemory, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaError, RdmaRegion, RemoteAccess,
};
use crosslane_open::Session;
use futures_util::future::join_all;
use support::scene::{Scene, contents, far, in_time, near, pattern};

/// Opens a lab, with a client of a network that reaches its memory.
fn scene() -> (Session, Scene) {
    let lab = Session::open("lab:minimal").unwrap();
    let scene = lab.run_free(in_time(Scene::new(lab.bus())));
    (lab, scene)
}

#[test]
fn data_pass_through_in_pieces() {
    const BYTES: u64 = 20 << 20;
    let (lab, Scene { rdma: staged, client, here, there: _there }) = scene();
    lab.run_free(in_time(async {
        let lab_memory = staged.allocate(BYTES, PageSize::Small).unwrap();
        let near = staged.register(&lab_memory, RemoteAccess::NONE).await.unwrap();
        let memory = client.allocate(BYTES, PageSize::Small).unwrap();
        let far = client.register(&memory, RemoteAccess::READ_WRITE).await.unwrap();
        let data = pattern(1, BYTES);
        memory.write(0, &data).unwrap();
        let ends = |near_offset: u64, far_offset: u64| {
            let near = NearEnd { region: near.clone(), offset_bytes: near_offset };
            (near, FarEnd { memory: far.remote(), offset_bytes: far_offset })
        };
        let (near_end, far_end) = ends(0, 0);
        here.read(&near_end, far_end, BYTES).await.unwrap();
        assert!(contents(&lab_memory) == data);
        // Many at once: more pieces than buffers, of odd lengths and offsets.
        memory.write(0, &vec![0; BYTES as usize]).unwrap();
        let piece = BYTES / 7 - 1;
        let mut expected = vec![0; BYTES as usize];
        let writes = (0..7).map(|number| {
            let (here, ends) = (&here, &ends);
            async move {
                let (near_end, far_end) = ends(number * piece + 3, number * piece);
                here.write(&near_end, far_end, piece).await
            }
        });
        for written in join_all(writes).await {
            written.unwrap();
        }
        let all = 7 * piece as usize;
        expected[..all].copy_from_slice(&data[3..all + 3]);
        assert!(contents(&memory) == expected);
        let (near_end, far_end) = ends(BYTES - 1, 0);
        let error = here.write(&near_end, far_end, 2).await.unwrap_err();
        assert!(matches!(error, RdmaError::BeyondMemory { what: "the near", .. }), "{error}");
        let (near_end, far_end) = ends(0, BYTES - 1);
        let error = here.read(&near_end, far_end, 2).await.unwrap_err();
        assert!(matches!(error, RdmaError::BeyondMemory { what: "the far", .. }), "{error}");
        here.read(&near_end, far_end, 0).await.unwrap();
    }));
    assert_eq!(staged.name().split_once(", ").unwrap().1, "copied: the lab's memory is simulated");
    assert!(!staged.is_zero_copy());
}

#[test]
fn others_read_what_was_there_at_the_last_message() {
    let (lab, Scene { rdma: staged, client, here, there }) = scene();
    lab.run_free(in_time(async {
        let shown = staged.allocate(100_000, PageSize::Small).unwrap();
        let write = RemoteAccess { read: false, write: true };
        let error = staged.register(&shown, write).await.err().unwrap().to_string();
        assert!(error.contains("others cannot write to memory that is copied"), "{error}");
        let read = RemoteAccess { read: true, write: false };
        let region = staged.register(&shown, read).await.unwrap();
        let memory = client.allocate(100_000, PageSize::Small).unwrap();
        let own = client.register(&memory, RemoteAccess::NONE).await.unwrap();
        for round in 0..3 {
            let data = pattern(round, 100_000);
            shown.write(0, &data).unwrap();
            region.publish(0, 100_000).unwrap();
            assert!(region.publish(1, 100_000).is_err(), "beyond its end");
            here.send(b"it is there").await.unwrap();
            // Later writes are not published.
            shown.write(0, &[0; 100]).unwrap();
            assert_eq!(there.receive().await.unwrap(), b"it is there");
            there.read(&near(&own), far(&region), 100_000).await.unwrap();
            assert!(contents(&memory) == data);
            there.send(b"taken").await.unwrap();
            assert_eq!(here.receive().await.unwrap(), b"taken");
        }
        drop(region);
        let hidden = staged.register(&shown, RemoteAccess::NONE).await.unwrap();
        let error = there.read(&near(&own), far(&hidden), 1).await.unwrap_err();
        assert!(matches!(error, RdmaError::Refused { .. }), "{error}");
    }));
}

#[test]
fn dropped_and_closed() {
    const BYTES: u64 = 16 << 20;
    let (lab, Scene { rdma: staged, client, here, there }) = scene();
    lab.run_free(in_time(async {
        let lab_memory = staged.allocate(BYTES, PageSize::Small).unwrap();
        let own = staged.register(&lab_memory, RemoteAccess::NONE).await.unwrap();
        let memory = client.allocate(BYTES, PageSize::Small).unwrap();
        memory.write(0, &pattern(4, BYTES)).unwrap();
        let theirs = client.register(&memory, RemoteAccess::READ_WRITE).await.unwrap();
        let (near_end, far_end) = (near(&own), far(&theirs));
        // Dropped operations take more buffers than the pool has.
        for _ in 0..40 {
            let mut read = Box::pin(here.read(&near_end, far_end, BYTES));
            let _ = futures_util::poll!(&mut read);
        }
        // Their buffers are replaced, and the unfinished operations disturb no later one.
        lab_memory.write(0, &pattern(5, BYTES)).unwrap();
        here.write(&near_end, far_end, BYTES).await.unwrap();
        assert!(contents(&memory) == pattern(5, BYTES));
        memory.write(0, &pattern(6, BYTES)).unwrap();
        here.read(&near_end, far_end, BYTES).await.unwrap();
        assert!(contents(&lab_memory) == pattern(6, BYTES));
        // After `close` returns, nothing is written.
        let mut read = Box::pin(here.read(&near_end, far_end, BYTES));
        let _ = futures_util::poll!(&mut read);
        here.close().await;
        lab_memory.write(0, &vec![9; BYTES as usize]).unwrap();
        let error = read.await.unwrap_err();
        assert!(matches!(error, RdmaError::Lost { .. }), "{error}");
        assert!(contents(&lab_memory).iter().all(|byte| *byte == 9));
        let error = there.receive().await.unwrap_err();
        assert!(matches!(error, RdmaError::Lost { .. }), "{error}");
    }));
}
