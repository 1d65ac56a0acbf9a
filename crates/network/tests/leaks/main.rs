// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that open and close leave nothing behind. This test is alone in its program, because
//! it counts the resources of the process.

#[path = "../integration/support/mod.rs"]
mod support;

use crosslane_host::{Rdma, RdmaConnection, RdmaError, RemoteAccess};
use crosslane_network::{MachineClock, Network};
use support::{Counts, EVERYWHERE, Over, Peer, far, far_of, near_end, open, region, run};

/// Makes connections one after the other: this end closes half of them and drops the others.
fn come_and_go((network, clock): (&Network, &MachineClock), peer: &mut Peer, times: u32) {
    peer.begin(&format!("host {times}"));
    run("connections that come and go", async {
        for number in 0..times {
            let deadline = far(clock);
            let near = network.connect(&peer.address, deadline).await.unwrap();
            let word = number.to_string();
            near.send(word.as_bytes()).await.unwrap();
            assert_eq!(near.receive().await.unwrap(), word.as_bytes());
            if number % 2 == 0 {
                near.close().await;
                let error = near.send(b"").await.unwrap_err();
                assert!(matches!(error, RdmaError::Lost { .. }), "{error}");
            }
        }
    });
    assert_eq!(peer.answer(), "done");
}

/// Mappings that the allocator may add: the kernel joins and splits them. A leak of one per
/// connection would be a thousand.
const MAPPINGS_MORE: usize = 50;

/// Checks that no resources were added. The kernel frees some a little after the call returns.
fn nothing_more(what: &str, before: Counts, mut now: impl FnMut() -> Counts) {
    let begin = std::time::Instant::now();
    loop {
        let counts = now();
        let is_no_more = counts.files <= before.files
            && counts.threads <= before.threads
            && counts.mappings <= before.mappings + MAPPINGS_MORE;
        if is_no_more {
            return;
        }
        assert!(begin.elapsed().as_secs() < 5, "{what}: {before:?} before, {counts:?} after");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn leaves_nothing(over: Over) {
    let (network, clock) = open(over);
    let mut peer = Peer::start(over);
    let transfer = |peer: &mut Peer| {
        // Memory is registered and freed too, and a connection is lost in the middle of a write.
        peer.begin("accept");
        let deadline = far(&clock);
        let near = run("connecting", network.connect(&peer.address, deadline)).unwrap();
        peer.answer();
        let there = peer.region(1 << 20, RemoteAccess::READ_WRITE);
        let (_memory, near_region) = region(&network, 1 << 20, RemoteAccess::READ_WRITE);
        let here = near_end(&near_region, 0);
        run("a write", near.write(&here, far_of(there, 0), 1 << 20)).unwrap();
        peer.ask("forget");
        peer.ask("close");
    };
    // Resources that are allocated once and kept: buffers of the allocator, threads' stacks.
    come_and_go((&network, &clock), &mut peer, 200);
    transfer(&mut peer);
    let there = |peer: &mut Peer| peer.ask("counts").parse::<Counts>().unwrap();
    let (before, before_there) = (Counts::now(), there(&mut peer));
    come_and_go((&network, &clock), &mut peer, 1000);
    for _ in 0..10 {
        transfer(&mut peer);
    }
    nothing_more(&format!("{over}, here"), before, Counts::now);
    nothing_more(&format!("{over}, there"), before_there, || there(&mut peer));
}

#[test]
fn a_thousand_connections_leave_nothing() {
    // Resources that a provider opens once per process stay.
    for over in EVERYWHERE {
        drop(open(over));
    }
    let before = Counts::now();
    for over in EVERYWHERE {
        leaves_nothing(over);
    }
    let own = format!("crosslane-{}-", std::process::id());
    let files = std::fs::read_dir("/dev/shm").unwrap().flatten().map(|file| file.file_name());
    let left = files.filter(|name| name.to_string_lossy().contains(&own));
    assert_eq!(left.count(), 0, "shared memory that is left");
    // A network's threads and files end with it.
    nothing_more("all networks", before, Counts::now);
}
