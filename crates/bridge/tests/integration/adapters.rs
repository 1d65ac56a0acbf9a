// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bridge over simulated network adapters: the two nodes of lab `sbdt`, where adapter and card
//! share the server's memory and root complex.

use crosslane_bridge::{
    CardPlace, Client, Identity, MemoryPart, Mode, Outcome, Report, Server, ServerOptions, Stage,
    TransferOptions,
};
use crosslane_device::nic::Nic;
use crosslane_driver::Device;
use crosslane_host::{DmaMemory, PageSize, Rdma, RemoteAccess};
use crosslane_lab::{LabBus, LabRdma, LabRegion, MemoryInUse, Simulation, open};
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::support::{bytes_of, pattern, serve_while};

const SERVER: &str = "fpga-node:7471";
const CARD: &str = "pac";
const SECOND_PS: u64 = 1_000_000_000_000;

struct Nodes {
    simulation: Simulation,
    server: LabRdma,
    client: LabRdma,
}

/// The client's type in a lab.
type LabClient = Client<LabRdma, LabBus>;

impl Nodes {
    fn new() -> Self {
        let simulation = Simulation::new(open("sbdt").unwrap().build_engines(1).unwrap());
        let server = simulation.rdma(HostId(0), "fnic").unwrap();
        let client = simulation.rdma(HostId(1), "rnic").unwrap();
        Self { simulation, server, client }
    }

    /// Runs a program at the client beside a server, and checks that nothing is left.
    fn run(&self, program: impl AsyncFnOnce(LabClient)) -> Vec<String> {
        let events = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let told = events.clone();
        let before = [0, 1].map(|host| self.simulation.memory_in_use(HostId(host)));
        let both = async {
            let bus = self.simulation.bus(HostId(0));
            let card = Device::open_by_name(bus.clone(), CARD).await.unwrap();
            // The lab has no other programs.
            let options = ServerOptions::default().with_closed_network(true);
            let server = Server::new(
                vec![(CARD.to_owned(), card)],
                self.server.clone(),
                bus,
                options,
                move |event| told.borrow_mut().push(event.to_string()),
            );
            let working = async || {
                let clock = self.simulation.bus(HostId(1));
                let end = Picoseconds(SECOND_PS);
                let identity = Identity::default();
                let client =
                    Client::connect(self.client.clone(), clock, SERVER, &identity, end).await;
                program(client.unwrap()).await;
            };
            serve_while(server.await.unwrap(), SERVER, working).await;
        };
        self.simulation.run("test", both).unwrap();
        self.simulation.finish().unwrap();
        let after = [0, 1].map(|host| self.simulation.memory_in_use(HostId(host)));
        assert_eq!(after, before, "nothing is left behind");
        assert_eq!(after[1], MemoryInUse::default());
        events.take()
    }

    async fn memory(&self, bytes: &[u8]) -> MemoryPart<LabRegion> {
        let memory = self.client.allocate(bytes.len() as u64, PageSize::Huge).unwrap();
        memory.write(0, bytes).unwrap();
        let region = self.client.register(&memory, RemoteAccess::READ_WRITE).await.unwrap();
        MemoryPart { region, range: 0..bytes.len() as u64 }
    }
}

fn options(mode: Mode) -> TransferOptions {
    TransferOptions::default().with_mode(mode).with_time(Picoseconds(SECOND_PS))
}

#[test]
fn every_way_with_its_data() {
    let nodes = Nodes::new();
    let place = |address| CardPlace { card: CARD.to_owned(), address };
    nodes.run(async |client| {
        for mode in [Mode::Pipelined, Mode::Naive] {
            for (bytes, address) in [(1 << 14, 0), (3_000_000, 1 << 20), (1 << 23, 5 << 30)] {
                let data = pattern(bytes, bytes as u8);
                let source = nodes.memory(&data).await;
                let back = nodes.memory(&vec![0; data.len()]).await;
                let options = options(mode);
                client.put(&source, &place(address), &options, |_| {}).await.unwrap();
                client.get(&place(address), &back, &options, |_| {}).await.unwrap();
                assert!(bytes_of(&back) == data, "{mode:?} of {bytes} B");
                let trip = nodes.memory(&vec![0; data.len()]).await;
                client.round_trip(CARD, &source, &trip, &options, |_| {}).await.unwrap();
                assert!(bytes_of(&trip) == data, "{mode:?} of {bytes} B");
            }
        }
        client.close().await;
    });
}

/// The network is cut in the middle of a transfer: the client learns the reason within the
/// adapters' time-out, and the server keeps serving.
#[test]
fn a_network_that_is_cut() {
    let nodes = Nodes::new();
    let place = || CardPlace { card: CARD.to_owned(), address: 0 };
    let node = nodes.simulation.find("rnic").unwrap();
    let events = nodes.run(async |client| {
        let data = pattern(8 << 20, 1);
        let source = nodes.memory(&data).await;
        let begun = nodes.simulation.now();
        let cutting = async {
            let cut = Picoseconds(begun.0 + SECOND_PS / 2000);
            let bus = nodes.simulation.bus(HostId(1));
            crosslane_host::Clock::sleep_until(&bus, cut).await;
            nodes.simulation.with_fabric(|fabric| assert!(Nic::cut(fabric, node)));
        };
        let options = options(Mode::Pipelined);
        let to = place();
        let putting = client.put(&source, &to, &options, |_| {});
        let (put, ()) = futures_util::join!(putting, cutting);
        let error = put.unwrap_err().to_string();
        let took = nodes.simulation.now().since(begun).as_seconds();
        assert!((0.4705..0.48).contains(&took), "{error} after {took} s");
        assert!(error.contains("no sign of the other node"), "{error}");
        nodes.simulation.with_fabric(|fabric| assert!(Nic::mend(fabric, node)));
        let clock = nodes.simulation.bus(HostId(1));
        let end = Picoseconds(SECOND_PS);
        let identity = Identity::default();
        let again = Client::connect(nodes.client.clone(), clock, SERVER, &identity, end).await;
        let again = again.unwrap();
        again.put(&source, &place(), &options, |_| {}).await.unwrap();
        let back = nodes.memory(&vec![0; data.len()]).await;
        again.get(&place(), &back, &options, |_| {}).await.unwrap();
        assert!(bytes_of(&back) == data);
        again.close().await;
    });
    assert!(events.iter().any(|event| event.contains("no sign of the other node")), "{events:?}");
}

/// Times of small transfers in ps: bytes; of a put the whole, as the client has it, the server's
/// part, and of that the card's; then those of a get. The last one is too long for the messages.
const SMALL: [(u64, [u64; 3], [u64; 3]); 4] = [
    (64, [5_815_033, 1_980_847, 1_973_776], [5_304_967, 1_471_059, 1_463_988]),
    (1024, [7_923_956, 2_309_233, 2_196_084], [6_661_044, 1_810_592, 1_697_443]),
    (3840, [10_025_962, 3_002_263, 2_577_954], [8_844_038, 2_587_863, 2_163_554]),
    (3841, [10_406_645, 6_593_070, 2_603_173], [10_400_112, 6_587_807, 2_186_073]),
];

#[test]
fn small_data_are_within_the_messages() {
    let nodes = Nodes::new();
    nodes.run(async |client| {
        let options = options(Mode::Pipelined);
        let place = || CardPlace { card: CARD.to_owned(), address: 4096 };
        let dma = |report: &Report| {
            let dma = report.stages.iter().find(|stage| stage.stage == Stage::Dma);
            dma.map_or(0, |dma| dma.busy_ps)
        };
        let parts = |done: &Outcome| [done.elapsed.0, done.report.elapsed_ps, dma(&done.report)];
        let mut times = Vec::new();
        for (bytes, ..) in SMALL {
            let data = pattern(bytes, bytes as u8);
            let source = nodes.memory(&data).await;
            let back = nodes.memory(&vec![0; data.len()]).await;
            // The first ones open channels and set up what comes after them.
            let mut last = None;
            for _ in 0..3 {
                let put = client.put(&source, &place(), &options, |_| {}).await.unwrap();
                let got = client.get(&place(), &back, &options, |_| {}).await.unwrap();
                last = Some((bytes, parts(&put), parts(&got)));
            }
            assert!(bytes_of(&back) == data, "{bytes} B");
            times.extend(last);
        }
        assert_eq!(times, SMALL);
        assert!(times[0].1[0] < 6_000_000, "64 B to the card in less than 6 us");
        client.close().await;
    });
}
