// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of packets from host memory through a card's stream and back, by their size.

use crosslane_driver::{
    ChannelKind, ChannelOptions, Device, Packet, StreamSource, Target, Transfer,
};
use crosslane_host::{Bus, PageSize, setters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::PacketRow;
use smart_default::SmartDefault;

use crate::error::{ExperimentError, Result};
use crate::pattern::pattern_bytes;

/// Bytes from one packet's place to the next: a multiple of this.
const STRIDE_BYTES: u64 = 64;
/// Longest packet, bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Sizes and numbers of the packets.
#[derive(Clone, Debug, PartialEq, Eq, SmartDefault)]
#[non_exhaustive]
pub struct PacketOptions {
    /// Bytes of a packet; a row for each.
    #[default(vec![64, 128, 256, 512, 1024, 1500, 4096, 9000])]
    pub sizes: Vec<u64>,
    /// Packets of each size.
    #[default(2000)]
    pub packets: u64,
    /// Packets on their way at once, 1 to 512.
    #[default(256)]
    pub outstanding: u64,
    /// Packets sent with one doorbell.
    #[default(32)]
    pub batch: u64,
    /// Seed of the data.
    #[default(1)]
    pub seed: u32,
    /// A packet that takes longer than this has failed.
    #[default(Picoseconds::from_ms(1_000))]
    pub timeout: Picoseconds,
}

setters!(PacketOptions {
    with_sizes(sizes: Vec<u64>),
    with_packets(packets: u64),
    with_outstanding(outstanding: u64),
    with_batch(batch: u64),
    with_seed(seed: u32),
    with_timeout(timeout: impl Into<Picoseconds>),
});

/// Sends packets of each size through the card's stream and receives them again; compares every
/// one. Times are by the bus's clock, from the first doorbell to the last packet.
///
/// # Errors
/// Options that exclude each other, a card without packets, and a failure of the run.
pub async fn packets(device: &Device, options: &PacketOptions) -> Result<Vec<PacketRow>> {
    let PacketOptions { packets, outstanding, batch, .. } = *options;
    if packets == 0 || batch == 0 || !(1..=512).contains(&outstanding) {
        let problem = format!(
            "{packets} packets in batches of {batch}, {outstanding} on their way: at least 1 of \
             each, and up to 512 on their way"
        );
        return Err(ExperimentError::refused("packets", problem));
    }
    device.user().route(StreamSource::H2c, StreamSource::Generator).await?;
    let mut rows = Vec::new();
    for &bytes in &options.sizes {
        if !(1..=MOST_BYTES).contains(&bytes) {
            let problem = format!("packets of {bytes} B: 1 B to {MOST_BYTES} B are possible");
            return Err(ExperimentError::refused("packets", problem));
        }
        rows.push(of_size(device, options, bytes).await?);
    }
    Ok(rows)
}

async fn of_size(device: &Device, options: &PacketOptions, bytes: u64) -> Result<PacketRow> {
    let mode = ChannelOptions::default().with_packets(true);
    let mut h2c = device.channel(ChannelKind::H2c, 0, mode).await?;
    let mut c2h = device.channel(ChannelKind::C2h, 0, mode).await?;
    let stride = bytes.next_multiple_of(STRIDE_BYTES);
    let room = options.outstanding * stride;
    let out = device.buffer(room, PageSize::Huge).await?;
    let back = device.buffer(room, PageSize::Huge).await?;
    let data = pattern_bytes(options.seed, room.next_multiple_of(4));
    out.write(0, &data[..room as usize])?;
    let part = |number: u64| {
        let start = number % options.outstanding * stride;
        start..start + bytes
    };
    let place =
        |number| Transfer::new(Target::Buffer(back.clone(), part(number)), Picoseconds::NEVER);
    let most = options.packets.min(options.outstanding);
    c2h.post(&(0..most).map(place).collect::<Vec<_>>()).await?;
    let (mut sent, mut posted, mut received, mut wrong) = (0, most, 0, 0);
    let bus = device.bus();
    let begun = bus.now();
    while received < options.packets {
        while sent < posted {
            let end = posted.min(sent + options.batch);
            let packet = |number| Packet::new(out.clone(), part(number)).with_user(number as u16);
            let batch: Vec<_> = (sent..end).map(packet).collect();
            h2c.send_packets(&batch, bus.now() + options.timeout).await?;
            sent = end;
        }
        let deadline = bus.now() + options.timeout;
        let arrived = c2h.recv_packets(options.batch as usize, deadline).await;
        let arrived = arrived.map_err(ExperimentError::failed)?;
        if arrived.is_empty() {
            let problem = format!("packet {received} of {bytes} B has not come");
            return Err(ExperimentError::failed(problem));
        }
        for packet in arrived {
            let range = part(received);
            let is_same = packet.is_whole
                && packet.user == received as u16
                && packet.read()? == data[range.start as usize..range.end as usize];
            wrong += u64::from(!is_same);
            received += 1;
        }
        let end = options.packets.min(received + options.outstanding);
        if end > posted {
            c2h.post(&(posted..end).map(place).collect::<Vec<_>>()).await?;
            posted = end;
        }
    }
    let elapsed = bus.now().since(begun);
    h2c.close().await?;
    c2h.close().await?;
    Ok(PacketRow { bytes, packets: options.packets, bus_ps: elapsed.0, wrong })
}
