// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores from the processor into a card's memory, uncached and write-combined.

use crosslane::driver::{MEMORY_BAR, MemoryCard};
use crosslane::host::Mapping;
use crosslane::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lab = crosslane::lab::open("aws-f1")?;
    let run = crosslane::lab::CheckedRun::new(&lab, 1)?;
    let bus = run.simulation().bus(crosslane::pcie::units::HostId(0));
    run.run("window", async {
        let card = MemoryCard::open_by_name(bus.clone(), "f1").await?;
        for mapping in [Mapping::Uncached, Mapping::WriteCombined] {
            let contents = crosslane::driver::Contents::Memory;
            let options = WindowOptions::new(MEMORY_BAR, 0..65_536)
                .with_mapping(mapping)
                .with_contents(contents);
            let window = card.window(options)?;
            card.take_metrics().await?;
            let begin = bus.now();
            window.write(0, &[0x5a; 4096]).await?;
            window.flush().await?;
            let took = bus.now().since(begin);
            let writes = card.take_metrics().await?.writes_in_words();
            println!("{mapping:?}: 4096 B in {took}; the card saw {writes}");
        }
        Ok::<_, crosslane::driver::DriverError>(())
    })?;
    Ok(())
}
