// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs in a lab of one's own: a lab file, with another link.

use crosslane::driver::Device;
use crosslane::experiment::{Options, write};
use crosslane::lab::{CheckedRun, Lab};
use crosslane::pcie::units::HostId;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A shipped lab, or the path of a file: labs/minimal.toml is the one to copy.
    let lab = Lab::load(&std::env::args().nth(1).unwrap_or("minimal".to_owned()))?;
    for width in [4.0, 8.0, 16.0] {
        let card = lab.with_constant("part.card.port.max_width", width)?;
        let run = CheckedRun::new(&card.with_constant("part.slot.width", width)?, 1)?;
        let bus = run.simulation().bus(HostId(0));
        let measured = run.run("own lab", async {
            let device = Device::open_by_name(bus, "card0").await?;
            write(&device, &Options::default().with_size_bytes(65_536).with_iterations(32)).await
        })?;
        println!("x{width}: {:.1} MB/s", measured.value.hardware_bytes_per_second() / 1e6);
    }
    Ok(())
}
