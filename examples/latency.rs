// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the time of a message from card to card, by size.

use crosslane::experiment::{Options, latency};
use crosslane::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names = ["lab:rosta/fpga1".parse()?, "lab:rosta/fpga5".parse()?];
    let session = Session::open_all(&names, SessionOptions::default())?;
    session.block_on(async {
        let devices = session.devices().await?;
        for size_bytes in [4, 64, 1024] {
            let options = Options::ping_pong().with_size_bytes(size_bytes).with_iterations(20);
            let measured = latency(&devices[0], &devices[1], &options).await?;
            let one_way = Picoseconds(measured.one_way().typical_ps);
            println!("{size_bytes} B: {one_way} one way, {}", measured.name);
        }
        Ok(())
    })?
}
