// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves data to a card and back, without `async`.

use crosslane::blocking::Session;
use crosslane::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1);
    let session = Session::open(name.as_deref().unwrap_or("lab:sbdt:crosslane/pac"))?;
    let device = session.device(0)?;
    let data: Vec<u32> = (0..16_384).map(|n: u32| n.wrapping_mul(n) >> 3).collect();
    let bytes = 4 * data.len() as u64;
    let (to, from) = (device.buffer(bytes, PageSize::Huge)?, device.buffer(bytes, PageSize::Huge)?);
    to.copy_from_slice(0, &data)?;
    // Both channels use the card's memory, from its address 4096 on.
    let options = ChannelOptions::default().with_card_memory(true);
    for (kind, buffer) in [(ChannelKind::H2c, &to), (ChannelKind::C2h, &from)] {
        let mut channel = device.channel(kind, 0, options)?;
        let target = Target::Card(buffer.clone(), 0..buffer.size_bytes(), 4096);
        let deadline = device.deadline(Duration::from_secs(1));
        channel.transfer(Transfer { target, ..Transfer::of(buffer, deadline) })?;
        channel.close()?;
    }
    assert_eq!(from.to_vec::<u32>(0..bytes)?, data);
    println!("{bytes} B went to the card's memory and came back");
    Ok(())
}
