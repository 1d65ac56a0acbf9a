// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab with cards, a server and clients on one host.

pub mod network;

use std::cell::RefCell;
use std::rc::Rc;

use crosslane_bridge::messages::{Hello, MAGIC, VERSION, encode};
use crosslane_bridge::{
    BridgeError, CardPlace, Client, Identity, MemoryPart, Server, ServerEvent, ServerOptions,
    TransferOptions,
};
use crosslane_driver::Device;
use crosslane_host::{AnyMemory, Bus, Clock, DmaMemory, PageSize, Rdma, RdmaRegion, RemoteAccess};
use crosslane_lab::{Lab, LabBus, MemoryInUse, Simulation, shipped};
use crosslane_pcie::units::{HostId, Picoseconds};
use futures_channel::oneshot;

use network::{Network, Region};

/// A second board beside the first.
const SECOND: &str = r#"
[[endpoint]]
name = "second"
part = "kc705"

[[link]]
upper = "host0"
lower = "second"
part = "slot"
"#;

pub const SECOND_PS: u64 = 1_000_000_000_000;
/// Address of the server.
pub const SERVER: &str = "127.0.0.1:7471";

/// A host with two cards and a network.
pub struct Scene {
    pub simulation: Simulation,
    pub network: Network,
    pub bus: LabBus,
    before: MemoryInUse,
}

/// The first card.
pub const CARD: &str = "kc705";

pub type LabClient = Client<Network, LabBus>;

pub type Events = Rc<RefCell<Vec<String>>>;

/// Runs a program beside a server at this address, then stops the server.
pub async fn serve_while<R: Rdma<Memory = AnyMemory>, C: Clock, T>(
    server: Server<R, C>,
    address: &str,
    program: impl AsyncFnOnce() -> T,
) -> T {
    let (stop, stopped) = oneshot::channel::<()>();
    let listener = server.listen(address).await.expect("it is free");
    let serving = server.serve(listener, async {
        let _ = stopped.await;
    });
    let programming = async {
        let result = program().await;
        let _ = stop.send(());
        result
    };
    let (served, result) = futures_util::join!(serving, programming);
    served.expect("the server ends well");
    result
}

impl Scene {
    /// Makes a scene whose network takes this many ps for a byte.
    pub fn new(ps_per_byte: u64) -> Self {
        let text = shipped().iter().find(|lab| lab.name == "kc705").expect("it is shipped").text;
        let lab = Lab::from_text("two cards", &format!("{text}{SECOND}")).expect("it is a lab");
        let lab = lab.with_variant("crosslane").expect("it has the variant");
        Self::of(&lab, ps_per_byte)
    }

    /// Makes a scene of a lab.
    pub fn of(lab: &Lab, ps_per_byte: u64) -> Self {
        let simulation = Simulation::new(lab.build_engines(1).expect("it can be built"));
        let bus = simulation.bus(HostId(0));
        let network = Network::new(bus.clone(), ps_per_byte);
        let before = simulation.memory_in_use(HostId(0));
        Self { simulation, network, bus, before }
    }

    pub fn bus_now(&self) -> u64 {
        Bus::now(&self.bus).0
    }

    pub fn clock(&self) -> LabBus {
        self.bus.clone()
    }

    pub fn small() -> ServerOptions {
        ServerOptions::default()
            .with_slots(4)
            .with_slot_bytes(16_384)
            .with_least_chunk_bytes(4096)
            .with_window_bytes(65_536)
            .with_most_naive_bytes(1 << 20)
    }

    /// Runs a program beside a server of these cards, then stops the server and checks that nothing
    /// is left behind.
    pub fn with_server<T>(
        &self,
        cards: &[&str],
        options: ServerOptions,
        program: impl AsyncFnOnce() -> T,
    ) -> (T, Vec<String>) {
        let events = Events::default();
        let told = Rc::clone(&events);
        let result = self.simulation.run("test", async {
            serve_while(self.server(cards, options, told).await, SERVER, program).await
        });
        let result = result.expect("nothing hangs");
        self.check_empty();
        let events = events.borrow().clone();
        (result, events)
    }

    /// Checks that nothing is left behind.
    pub fn check_empty(&self) {
        assert_eq!(self.network.registrations(), 0, "registrations are given back");
        assert_eq!(self.simulation.memory_in_use(HostId(0)), self.before, "nothing is left behind");
    }

    pub async fn server(
        &self,
        cards: &[&str],
        options: ServerOptions,
        told: Events,
    ) -> Server<Network, LabBus> {
        let mut devices = Vec::new();
        for name in cards {
            let device = Device::open_by_name(self.bus.clone(), name).await;
            devices.push(((*name).to_owned(), device.expect("it is an engine")));
        }
        let tell = move |event: &ServerEvent| told.borrow_mut().push(event.to_string());
        Server::new(devices, self.network.clone(), self.clock(), options, tell)
            .await
            .expect("there is memory")
    }

    pub async fn client(&self) -> LabClient {
        self.client_as(&Identity::default()).await.expect("the server is there")
    }

    pub async fn client_as(&self, identity: &Identity) -> Result<LabClient, BridgeError> {
        let second = Picoseconds(SECOND_PS);
        Client::connect(self.network.clone(), self.clock(), SERVER, identity, second).await
    }

    /// Returns registered memory with bytes that depend on their position and the seed.
    pub async fn filled(&self, bytes: u64, seed: u8) -> MemoryPart<Region> {
        let part = self.empty(bytes).await;
        part.region.memory().write(0, &pattern(bytes, seed)).expect("it lies within");
        part
    }

    /// Writes memory to the first card.
    pub async fn put(&self, client: &LabClient, source: &MemoryPart<Region>, address: u64) {
        let to = place(CARD, address);
        client.put(source, &to, &options(), |_| {}).await.expect("it is put");
    }

    /// Reads the first card's memory.
    pub async fn get(&self, client: &LabClient, address: u64, bytes: u64) -> Vec<u8> {
        let back = self.empty(bytes).await;
        let from = place(CARD, address);
        client.get(&from, &back, &options(), |_| {}).await.expect("it is got");
        bytes_of(&back)
    }

    pub async fn empty(&self, bytes: u64) -> MemoryPart<Region> {
        let memory = self.network.allocate(bytes, PageSize::Small).expect("there is memory");
        let region = self.network.register(&memory, RemoteAccess::READ_WRITE).await;
        MemoryPart { region: region.expect("it can be"), range: 0..bytes }
    }
}

/// A greeting without a key.
pub fn hello(name: &str) -> Vec<u8> {
    let name = name.to_owned();
    encode(&Hello { magic: MAGIC, version: VERSION, name, handshake: Vec::new() }).expect("short")
}

pub fn pattern(bytes: u64, seed: u8) -> Vec<u8> {
    (0..bytes).map(|n| (n ^ (n >> 8) ^ (n >> 16)) as u8 ^ seed).collect()
}

pub fn bytes_of<G: RdmaRegion>(part: &MemoryPart<G>) -> Vec<u8> {
    let mut bytes = vec![0; (part.range.end - part.range.start) as usize];
    part.region.memory().read(part.range.start, &mut bytes).expect("it lies within");
    bytes
}

/// A second for each transfer.
pub fn options() -> TransferOptions {
    TransferOptions::default().with_time(Picoseconds(SECOND_PS))
}

pub fn place(card: &str, address: u64) -> CardPlace {
    CardPlace { card: card.to_owned(), address }
}
