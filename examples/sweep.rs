// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps a constant of a lab: the rate of reads by the number of tags.

use crosslane::driver::Device;
use crosslane::experiment::{Options, read};
use crosslane::lab::{CheckedRun, Lab};
use crosslane::pcie::units::HostId;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lab = Lab::load("rosta:crosslane")?;
    for tags in [1.0, 2.0, 4.0] {
        let lab = lab.with_constant("variant.crosslane.part.v7.requester.tags", tags)?;
        let run = CheckedRun::new(&lab, 1)?;
        let bus = run.simulation().bus(HostId(0));
        let measured = run.run("sweep", async {
            let device = Device::open_by_name(bus, "fpga1").await?;
            let options = Options::default().with_size_bytes(65_536).with_iterations(32);
            read(&device, &options.with_outstanding(4)).await
        })?;
        println!("{tags} tags: {:.1} MB/s", measured.value.hardware_bytes_per_second() / 1e6);
    }
    Ok(())
}
