// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP through a proxy that makes trouble, and between two nodes.

use crate::support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crosslane_host::{
    Clock, DmaMemory, FarEnd, PageSize, Rdma, RdmaConnection, RdmaError, RdmaListener, RdmaRegion,
    RemoteAccess, RemoteMemory,
};
use crosslane_network::{
    Connection, Listener, MachineClock, Network, NetworkMemory, Provider, Region,
};
use futures_executor::block_on;
use futures_util::future::{Either, select, try_join};
use support::namespaces::{ADDRESSES, nodes};
use support::proxy::Proxy;
use support::scene::{contents, far, near, pattern};

const BYTES: u64 = 8 << 20;
/// Longer than any operation here takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Variable with the address to listen at, which makes a test program the other node.
const VARIABLE: &str = "CROSSLANE_TEST_NODE";

/// A listener, and a client that connects through a proxy.
struct Scene {
    clock: MachineClock,
    proxy: Proxy,
    listener: Listener,
    near_network: Network,
    near: Connection,
    far: Connection,
    near_memory: (NetworkMemory, Region),
    far_memory: (NetworkMemory, Region),
}

async fn registered(network: &Network, access: RemoteAccess) -> (NetworkMemory, Region) {
    let memory = network.allocate(BYTES, PageSize::Huge).unwrap();
    let region = network.register(&memory, access).await.unwrap();
    (memory, region)
}

async fn scene() -> Scene {
    let clock = MachineClock::new();
    let near_network = Network::open(Provider::Tcp, &clock).unwrap();
    let far_network = Network::open(Provider::Tcp, &clock).unwrap();
    let listener = far_network.listen("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(&listener.address());
    let (address, deadline) = (proxy.address(), clock.after(PATIENCE));
    let connected = try_join(near_network.connect(&address, deadline), listener.accept());
    let (near, far) = connected.await.unwrap();
    let near_memory = registered(&near_network, RemoteAccess::NONE).await;
    let far_memory = registered(&far_network, RemoteAccess::READ_WRITE).await;
    Scene { clock, proxy, listener, near_network, near, far, near_memory, far_memory }
}

impl Scene {
    async fn write(&self) -> Result<(), RdmaError> {
        let (near, far) = (near(&self.near_memory.1), far(&self.far_memory.1));
        self.near.write(&near, far, BYTES).await
    }
}

fn is_lost<T: std::fmt::Debug>(result: &Result<T, RdmaError>) -> bool {
    matches!(result, Err(RdmaError::Lost { .. }))
}

#[test]
fn everything_goes_to_the_one_address() {
    block_on(async {
        let scene = scene().await;
        scene.proxy.delay(Duration::from_millis(5));
        scene.near_memory.0.write(0, &pattern(1, BYTES)).unwrap();
        scene.write().await.unwrap();
        assert!(contents(&scene.far_memory.0) == pattern(1, BYTES));
        scene.near.send(b"hello").await.unwrap();
        assert_eq!(scene.far.receive().await.unwrap(), b"hello");
        assert_eq!(scene.proxy.accepted(), 1);
        assert!(scene.proxy.passed_bytes() > BYTES);
    });
}

#[test]
fn what_stalls_goes_on_or_meets_its_deadline() {
    block_on(async {
        let scene = scene().await;
        scene.proxy.stall();
        scene.near_memory.0.write(0, &pattern(2, BYTES)).unwrap();
        let write = Box::pin(scene.write());
        let soon = scene.clock.after(Duration::from_millis(50));
        let Either::Right(((), write)) =
            select(write, Box::pin(scene.clock.sleep_until(soon))).await
        else {
            panic!("nothing passes")
        };
        // Another client: the proxy accepts it, and nothing follows.
        let deadline = scene.clock.after(Duration::from_millis(50));
        let address = scene.proxy.address();
        let error = scene.near_network.connect(&address, deadline).await.unwrap_err();
        assert!(matches!(error, RdmaError::Deadline { .. }), "{error}");
        scene.proxy.resume();
        write.await.unwrap();
        assert!(contents(&scene.far_memory.0) == pattern(2, BYTES));
        // Closed during a stall: this end at once, the other as soon as it is told.
        scene.proxy.stall();
        let mut write = Box::pin(scene.write());
        assert!(futures_util::poll!(&mut write).is_pending());
        scene.near.close().await;
        let written = write.await;
        assert!(is_lost(&written), "{written:?}");
        scene.proxy.resume();
        assert!(is_lost(&scene.far.receive().await));
    });
}

#[test]
fn what_is_cut_is_lost_at_both_ends_and_others_can_connect() {
    block_on(async {
        for passes in [0, 1, 1000, BYTES / 2] {
            let scene = scene().await;
            match passes {
                0 => scene.proxy.cut(),
                bytes => scene.proxy.cut_after(bytes),
            }
            let written = scene.write().await;
            assert!(is_lost(&written), "{passes}: {written:?}");
            assert!(is_lost(&scene.far.receive().await));
            let deadline = scene.clock.after(PATIENCE);
            let address = scene.proxy.address();
            let connected =
                try_join(scene.near_network.connect(&address, deadline), scene.listener.accept());
            let (near, far) = connected.await.unwrap();
            far.send(b"again").await.unwrap();
            assert_eq!(near.receive().await.unwrap(), b"again");
            scene.proxy.refuse(true);
            let error = scene.near_network.connect(&address, deadline).await.unwrap_err();
            assert!(matches!(error, RdmaError::Address { .. }), "{error}");
        }
    });
}

/// A process that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "another test starts it on the other node"]
fn the_other_node() {
    let address = std::env::var(VARIABLE).expect("another test starts this one");
    block_on(async {
        let network = Network::open(Provider::Tcp, &MachineClock::new()).unwrap();
        let listener = network.listen(&address).await.unwrap();
        let (memory, region) = registered(&network, RemoteAccess::READ_WRITE).await;
        memory.write(0, &pattern(3, BYTES)).unwrap();
        let RemoteMemory { address, key, .. } = region.remote();
        println!("node: {}", listener.address());
        let connection = listener.accept().await.unwrap();
        connection.send(format!("{address} {key}").as_bytes()).await.unwrap();
        assert_eq!(connection.receive().await.unwrap(), b"written");
        assert!(contents(&memory) == pattern(4, BYTES));
        connection.send(b"as it should be").await.unwrap();
        // Until the other node goes down.
        assert!(is_lost(&connection.receive().await));
    });
}

#[test]
#[ignore = "another test starts it on the first node"]
fn the_first_node() {
    let address = std::env::var(VARIABLE).expect("another test starts this one");
    block_on(async {
        let clock = MachineClock::new();
        let network = Network::open(Provider::Tcp, &clock).unwrap();
        let connection = network.connect(&address, clock.after(PATIENCE)).await.unwrap();
        let told = String::from_utf8(connection.receive().await.unwrap()).unwrap();
        let (address, key) = told.split_once(' ').unwrap();
        let (address, key) = (address.parse().unwrap(), key.parse().unwrap());
        let far = FarEnd { memory: RemoteMemory { address, key, bytes: BYTES }, offset_bytes: 0 };
        let (memory, region) = registered(&network, RemoteAccess::NONE).await;
        let near = near(&region);
        connection.read(&near, far, BYTES).await.unwrap();
        assert!(contents(&memory) == pattern(3, BYTES));
        memory.write(0, &pattern(4, BYTES)).unwrap();
        connection.write(&near, far, BYTES).await.unwrap();
        connection.send(b"written").await.unwrap();
        assert_eq!(connection.receive().await.unwrap(), b"as it should be");
        println!("node: done");
    });
}

/// Starts this test program as a node, and returns the first line of its part.
fn begin(mut command: Command, part: &str, address: &str) -> (Killed, String) {
    command
        .args(["--exact", &format!("trouble::{part}"), "--ignored", "--nocapture"])
        .env(VARIABLE, address);
    let process = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut process = process;
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let said = lines.find_map(|line| Some(line.unwrap().split_once("node: ")?.1.to_owned()));
    // The rest of its output is ignored.
    std::thread::spawn(move || lines.for_each(drop));
    (process, said.unwrap_or_else(|| panic!("{part} has failed")))
}

#[test]
fn two_nodes() {
    let Some(nodes) = nodes() else { return };
    let program = std::env::current_exe().unwrap();
    let listen = format!("{}:0", ADDRESSES[1]);
    let (mut other, address) = begin(nodes.command(1, &program), "the_other_node", &listen);
    assert!(address.starts_with(&format!("{}:", ADDRESSES[1])), "{address}");
    let (mut first, done) = begin(nodes.command(0, &program), "the_first_node", &address);
    assert_eq!(done, "done");
    assert!(first.0.wait().unwrap().success());
    assert!(other.0.wait().unwrap().success());
}
