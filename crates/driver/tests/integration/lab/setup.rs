// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs, and recognizable data.

use std::future::Future;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Device,
    Notification, Target, Ticket, Transfer, User,
};
use crosslane_fabric::{DirectionId, LinkDirection, LinkId, Moment, TlpFault};
use crosslane_host::{Bus, PageSize, Topology};
use crosslane_lab::{EngineKind, LabBus, Simulation, open};
use crosslane_pcie::config::registers;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::{HostId, Picoseconds, RoutingId};

pub use crate::fails::{fails, fails_with, failure};

pub const PAGE: u64 = 4096;
pub const MEGABYTE: u64 = 1 << 20;
pub const MEGABYTES_4: u64 = 4 << 20;
pub const VISIBLE: CompletionLevel = CompletionLevel::Visible;
pub const ACKNOWLEDGED: CompletionLevel = CompletionLevel::Acknowledged;

pub const fn us(us: u64) -> Picoseconds {
    Picoseconds::from_ns(us * 1_000)
}

/// A lab with engines. With `CROSSLANE_ENGINE=rtl` those of `rosta:crosslane` and `kc705:crosslane`
/// are the gateware, if built (`make check-rtl`).
pub fn simulation(lab: &str) -> Simulation {
    let is_rtl = std::env::var("CROSSLANE_ENGINE").is_ok_and(|engine| engine == "rtl");
    let kind = match lab {
        "rosta:crosslane" | "kc705:crosslane" if is_rtl => EngineKind::Rtl,
        _ => EngineKind::Model,
    };
    let lab = open(lab).unwrap().with_engines(kind);
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    // No test waits for longer.
    simulation.set_time_limit(Some(us(10_000_000)));
    simulation
}

/// Runs host code on a lab's only host.
pub fn run<T, F: Future<Output = T>>(simulation: &Simulation, code: impl FnOnce(LabBus) -> F) -> T {
    let bus = simulation.bus(HostId(0));
    simulation.run("test", code(bus)).unwrap()
}

/// Runs host code on a lab with these engines opened.
pub fn run_on<T, const N: usize, F: Future<Output = T>>(
    lab: &str,
    names: [&str; N],
    code: impl FnOnce([Device; N]) -> F,
) -> T {
    let simulation = simulation(lab);
    run(&simulation, async |bus| code(open_all(&bus, names).await).await)
}

/// Runs host code on a lab with these engines opened, and with its simulation at hand.
pub fn run_in<T, const N: usize>(
    lab: &str,
    names: [&str; N],
    code: impl AsyncFnOnce(&Simulation, [Device; N]) -> T,
) -> T {
    let simulation = simulation(lab);
    run(&simulation, async |bus| code(&simulation, open_all(&bus, names).await).await)
}

pub async fn open_all<const N: usize>(bus: &LabBus, names: [&str; N]) -> [Device; N] {
    let mut devices = Vec::new();
    for name in names {
        devices.push(Device::open_by_name(bus.clone(), name).await.unwrap());
    }
    devices.try_into().unwrap()
}

/// Bytes of the generator's pattern from word `first`.
pub fn pattern(seed: u32, first: u32, bytes: u64) -> Vec<u8> {
    let words = (bytes / 4) as u32;
    (0..words).flat_map(|n| User::pattern(seed, first + n).to_le_bytes()).collect()
}

/// A buffer filled with the pattern.
pub async fn filled(device: &Device, bytes: u64, seed: u32) -> Buffer {
    let buffer = device.buffer(bytes, PageSize::Small).await.unwrap();
    buffer.write(0, &pattern(seed, 0, bytes)).unwrap();
    buffer
}

pub async fn empty(device: &Device, bytes: u64) -> Buffer {
    device.buffer(bytes, PageSize::Small).await.unwrap()
}

pub fn contents(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.size_bytes() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

/// All of a buffer, without a deadline.
pub fn whole(buffer: &Buffer, level: CompletionLevel) -> Transfer {
    part(buffer, 0, buffer.size_bytes(), level)
}

pub fn part(buffer: &Buffer, start: u64, end: u64, level: CompletionLevel) -> Transfer {
    to(Target::Buffer(buffer.clone(), start..end), level)
}

pub fn to(target: Target, level: CompletionLevel) -> Transfer {
    Transfer { target, level, deadline: Picoseconds::NEVER }
}

/// The same transfer with a deadline after `span`.
pub fn within(device: &Device, span: Picoseconds, transfer: Transfer) -> Transfer {
    Transfer { deadline: device.bus().now() + span, ..transfer }
}

pub async fn sleep(device: &Device, span: Picoseconds) {
    device.bus().sleep_until(device.bus().now() + span).await;
}

/// A channel with the default options.
pub async fn channel(device: &Device, kind: ChannelKind) -> Channel {
    channel_with(device, kind, ChannelOptions::default()).await
}

/// A channel with these options.
pub async fn channel_with(device: &Device, kind: ChannelKind, options: ChannelOptions) -> Channel {
    device.channel(kind, 0, options).await.unwrap()
}

/// Reads `out` with one channel while the other one writes `back`.
pub async fn out_and_back(channels: [&mut Channel; 2], [out, back]: [Transfer; 2], bytes: u64) {
    let [h2c, c2h] = channels;
    let written = post(c2h, back).await;
    let read = post(h2c, out).await;
    assert_eq!(h2c.wait(read).await.unwrap().bytes, bytes);
    assert_eq!(c2h.wait(written).await.unwrap().bytes, bytes);
}

/// Posts one transfer.
pub async fn post(channel: &mut Channel, transfer: Transfer) -> Ticket {
    channel.post(&[transfer]).await.unwrap()[0]
}

/// The link above a port.
pub fn link_of(simulation: &Simulation, port: &str) -> LinkId {
    let port = simulation.find_port(port).unwrap();
    simulation.with_fabric(|fabric| fabric.port(port).link.unwrap())
}

/// The function of that name.
pub fn function(bus: &impl Topology, name: &str) -> RoutingId {
    let functions = bus.functions().unwrap();
    functions.iter().find(|info| info.name == name).unwrap().id
}

/// Sets or clears Bus Master Enable of a function.
pub fn set_bus_master(bus: &impl Topology, name: &str, on: bool) {
    let id = function(bus, name);
    let command = bus.config_read(id, registers::COMMAND).unwrap();
    let bit = registers::COMMAND_BUS_MASTER;
    let command = if on { command | bit } else { command & !bit };
    bus.config_write(id, registers::COMMAND, command, 0b0011).unwrap();
}

/// All combinations of descriptor source and notification.
pub fn every_way() -> Vec<ChannelOptions> {
    let mut ways = Vec::new();
    for descriptors in [DescriptorSource::Table, DescriptorSource::Ring { entries: 1024 }] {
        for notification in [Notification::Poll, Notification::Interrupt] {
            ways.push(
                ChannelOptions::default()
                    .with_descriptors(descriptors)
                    .with_notification(notification),
            );
        }
    }
    ways
}

/// Loses the next writes to a card. Returns the direction of the link.
pub fn lose_writes(simulation: &Simulation, card: &str, count: u32) -> DirectionId {
    let direction = DirectionId { link: link_of(simulation, card), heading: LinkDirection::Down };
    simulation.with_fabric(|fabric| {
        fabric.inject_fault(direction, Class::Posted, TlpFault::Drop, Moment::Next(count));
        direction
    })
}
