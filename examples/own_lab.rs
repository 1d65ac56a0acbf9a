// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs in a lab of one's own: a shipped one with another link, as it would be in a file.

use crosslane::driver::Device;
use crosslane::experiment::{Options, write};
use crosslane::lab::{Lab, Simulation, shipped};
use crosslane::pcie::units::HostId;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let minimal = shipped().iter().find(|lab| lab.name == "minimal").ok_or("it is shipped")?;
    for width in [4, 8, 16] {
        let text =
            minimal.text.replace("width = { value = 4", &format!("width = {{ value = {width}"));
        let lab = Lab::from_text("own", &text)?;
        let simulation = Simulation::new(lab.build_engines(1)?);
        let bus = simulation.bus(HostId(0));
        let measured = simulation.run("own lab", async {
            let device = Device::open_by_name(bus, "card0").await?;
            write(&device, &Options::default().with_size_bytes(65_536).with_iterations(32)).await
        })??;
        println!("x{width}: {:.1} MB/s", measured.hardware_bytes_per_second() / 1e6);
    }
    Ok(())
}
