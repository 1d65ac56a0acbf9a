// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two nodes of lab `sbdt`, with helpers for the tests.

use crosslane_fabric::NodeId;
use crosslane_host::*;
use crosslane_lab::*;
use crosslane_pcie::units::{HostId, Picoseconds};

pub const NEVER: Picoseconds = Picoseconds::NEVER;
pub const SERVER: &str = "fpga-node:7471";

/// The two nodes of the lab.
pub struct Nodes {
    pub simulation: Simulation,
    pub server: LabRdma,
    pub client: LabRdma,
}

pub fn nodes() -> Nodes {
    nodes_of(&open("sbdt").unwrap(), 1)
}

pub fn nodes_of(lab: &Lab, seed: u64) -> Nodes {
    let simulation = Simulation::new(lab.build_engines(seed).unwrap());
    let server = simulation.rdma(HostId(0), "fnic").unwrap();
    let client = simulation.rdma(HostId(1), "rnic").unwrap();
    Nodes { simulation, server, client }
}

impl Nodes {
    /// Makes a connection: the client's end, and the server's.
    pub fn connect(&self) -> (LabConnection, LabConnection) {
        let both = async {
            let listener = self.server.listen(SERVER).await.unwrap();
            let client = self.client.connect(SERVER, NEVER).await.unwrap();
            (client, listener.accept().await.unwrap())
        };
        self.simulation.run("connect", both).unwrap()
    }

    /// Runs code with both ends of a connection; then nothing is left of it.
    pub fn joined(&self, code: impl AsyncFnOnce(&LabConnection, &LabConnection)) {
        let (client, server) = self.connect();
        self.simulation.run("test", code(&client, &server)).unwrap();
        drop((client, server));
        self.assert_clean();
    }

    /// Returns registered memory of one of the nodes with these bytes.
    pub async fn filled(
        &self,
        of: &LabRdma,
        bytes: &[u8],
        access: RemoteAccess,
    ) -> (AnyMemory, LabRegion) {
        let memory = of.allocate(bytes.len() as u64, PageSize::Small).unwrap();
        memory.write(0, bytes).unwrap();
        let region = of.register(&memory, access).await.unwrap();
        (memory, region)
    }

    pub fn nic(&self, name: &str) -> NodeId {
        self.simulation.find(name).unwrap()
    }

    /// Asserts that no memory of either node is in use, and no adapter has anything left.
    pub fn assert_clean(&self) {
        self.simulation.finish().unwrap();
        for host in 0..2 {
            let in_use = self.simulation.memory_in_use(HostId(host));
            assert_eq!(in_use, MemoryInUse::default(), "host {host}");
        }
        for name in ["fnic", "rnic"] {
            let node = self.nic(name);
            self.simulation.with_fabric(|fabric| {
                let nic: &mut crosslane_device::nic::Nic = fabric.device_as(node).unwrap();
                assert_eq!((nic.pairs(), nic.registrations(), nic.tags_in_use()), (0, 0, 0));
            });
        }
        let left = self.simulation.with_fabric(|fabric| fabric.check_quiet());
        assert_eq!(left, Vec::<String>::new());
        assert_eq!(self.simulation.with_fabric(|fabric| fabric.errors().to_vec()), []);
    }
}

pub fn all(memory: &AnyMemory) -> Vec<u8> {
    let mut bytes = vec![0; memory.size_bytes() as usize];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

pub fn near(region: &LabRegion, offset_bytes: u64) -> NearEnd<LabRegion> {
    NearEnd { region: region.clone(), offset_bytes }
}

pub fn far(region: &LabRegion, offset_bytes: u64) -> FarEnd {
    FarEnd { memory: region.remote(), offset_bytes }
}

/// Returns bytes that differ from position to position.
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}
