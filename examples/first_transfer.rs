// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves data from a card to host memory: `cargo run --example first_transfer -- vfio:03:00.0`, or
//! without an argument in a lab.

use crosslane::driver::pattern_word;
use crosslane::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1);
    let session = Session::open(name.as_deref().unwrap_or("lab:rosta:crosslane/fpga1"))?;
    session.block_on(async {
        let device = session.device(0).await?;
        // The user circuit generates words; channel C2H 0 writes them to host memory.
        device.user().route(StreamSource::Generator, StreamSource::Generator).await?;
        device.user().seed(7).await?;
        let buffer = device.buffer(1 << 20, PageSize::Huge).await?;
        let mut channel = device.channel(ChannelKind::C2h, 0, ChannelOptions::default()).await?;
        let deadline = device.deadline(Duration::from_secs(1));
        let done = channel.transfer(Transfer::of(&buffer, deadline)).await?;
        assert_eq!(buffer.to_vec::<u32>(400..404)?, [pattern_word(7, 100)]);
        println!("{} B in {}", done.bytes, done.completed.since(done.posted));
        channel.close().await?;
        Ok(())
    })?
}
