// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves data to a card and back, without `async`.

use crosslane::blocking::Session;
use crosslane::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1);
    let session = Session::open(name.as_deref().unwrap_or("lab:sbdt:crosslane/pac"))?;
    let device = session.device(0)?;
    let data: Vec<u8> = (0..65_536_u32).map(|n| ((n * n) >> 3) as u8).collect();
    let (to, from) = (
        device.buffer(data.len() as u64, PageSize::Huge)?,
        device.buffer(data.len() as u64, PageSize::Huge)?,
    );
    to.write(0, &data)?;
    // Both channels use the card's memory, from its address 4096 on.
    let options = ChannelOptions { card_memory: true, ..ChannelOptions::default() };
    for (kind, buffer) in [(ChannelKind::H2c, &to), (ChannelKind::C2h, &from)] {
        let mut channel = device.channel(kind, 0, options)?;
        let target = Target::Card(buffer.clone(), 0..buffer.size_bytes(), 4096);
        let deadline = device.deadline(Duration::from_secs(1));
        channel.transfer(Transfer { target, ..Transfer::of(buffer, deadline) })?;
        channel.close()?;
    }
    let mut back = vec![0; data.len()];
    from.read(0, &mut back)?;
    assert_eq!(data, back);
    println!("{} B went to the card's memory and came back", data.len());
    Ok(())
}
