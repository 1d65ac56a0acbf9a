// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab, its devices opened, and a workload run in it.

use crosslane_driver::Device;
use crosslane_experiment::ExperimentError;
use crosslane_fabric::{DirectionId, Fabric, LinkDirection};
use crosslane_lab::{LabBus, Simulation, open};
use crosslane_pcie::units::HostId;

/// Bytes of the large transfers.
pub const LARGE_BYTES: u64 = 4 << 20;

/// The lab `rosta` or one of its variants, running.
pub struct Scene {
    pub simulation: Simulation,
}

impl Scene {
    pub fn new(lab: &str) -> Self {
        let lab = open(lab).unwrap().build_engines(1).unwrap();
        Self { simulation: Simulation::new(lab) }
    }

    pub fn bus(&self) -> LabBus {
        self.simulation.bus(HostId(0))
    }

    /// Opens FPGAs by number.
    pub async fn devices(&self, numbers: &[usize]) -> Vec<Device> {
        let mut devices = Vec::new();
        for number in numbers {
            let name = format!("fpga{number}");
            devices.push(Device::open_by_name(self.bus(), &name).await.unwrap());
        }
        devices
    }

    /// Runs a workload to its end, and the lab until it is quiet.
    pub fn run<T>(
        &self,
        work: impl Future<Output = Result<T, ExperimentError>>,
    ) -> Result<T, ExperimentError> {
        let result = self.simulation.run("test", work).unwrap();
        self.simulation.finish().unwrap();
        result
    }

    /// The sentence with which a workload is refused.
    pub fn refusal<T>(&self, work: impl Future<Output = Result<T, ExperimentError>>) -> String {
        self.run(work).err().expect("it is refused").to_string()
    }

    /// Runs a workload that has to succeed, in a fabric that must find nothing wrong.
    pub fn run_well<T>(&self, work: impl Future<Output = Result<T, ExperimentError>>) -> T {
        let result = self.run(work).unwrap();
        self.simulation.with_fabric(|fabric| assert_eq!(fabric.errors(), []));
        result
    }
}

/// The direction that leaves the port of that name.
pub fn leaving(fabric: &Fabric, port: &str) -> DirectionId {
    let index = fabric.ports().iter().position(|other| other.name == port).unwrap();
    let link = fabric.ports()[index].link.unwrap();
    let is_lower = fabric.link(link).lower.0 as usize == index;
    DirectionId { link, heading: if is_lower { LinkDirection::Up } else { LinkDirection::Down } }
}
