// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The workload of a seed: its channels and their targets.

use std::rc::Rc;

use crosslane_driver::{
    ChannelKind, Device, DriverError, Peer, PeerOptions, PlanError, ReceiveQueuePolicy,
    StreamSource,
};
use crosslane_random::Random;

use crate::line::{Far, FarRoute, Line};
use crate::packets::Packeteer;
use crate::ping::Pingers;
use crate::scene::{World, us};
use crate::vault::Vault;

/// Lines that carry one stream, from its source to host memory; or a single line.
pub(crate) struct Chain {
    pub lines: Vec<Line>,
    /// Whether its options allow data to be dropped on the way.
    pub drops: bool,
}

impl Chain {
    fn single(line: Line) -> Self {
        Self { lines: vec![line], drops: false }
    }

    /// Makes the line from memory into an engine's checker.
    fn checked(world: &Rc<World>, device: &Device, rng: &mut Random, seed: u32) -> Self {
        let mut read = Line::new(world, device, (ChannelKind::H2c, 0), rng, seed);
        read.checked = true;
        Self::single(read)
    }

    /// Makes a chain of lines that pass a stream on to each other.
    fn of(mut lines: Vec<Line>, drops: bool) -> Self {
        let mut touches = 0;
        for line in &lines {
            touches |= line.own;
            if let Some(far) = &line.far {
                touches |= line.world.engine(&far.receiver.function().name);
            }
        }
        for line in &mut lines {
            (line.touches, line.depends) = (touches, true);
        }
        Self { lines, drops }
    }
}

/// All work of a seed.
pub(crate) struct AtWork {
    pub devices: Vec<Device>,
    pub chains: Vec<Chain>,
    pub pingers: Vec<Pingers>,
    pub packeteers: Vec<Packeteer>,
    pub vaults: Vec<Vault>,
}

/// Opens engines, and gives each some work. No faults happen yet.
pub(crate) async fn set_up(
    world: &Rc<World>,
    names: &[String],
    rng: &mut Random,
    mut packets: Option<Random>,
    mut memory: Random,
) -> Result<AtWork, DriverError> {
    use crosslane_host::Bus;

    let mut devices = Vec::new();
    for name in names {
        let bus = world.bus.on_core(rng.u16(..));
        devices.push(Device::open_by_name(bus, name).await?);
    }
    let (mut chains, mut pingers, mut packeteers) = (Vec::new(), Vec::new(), Vec::new());
    let mut vaults = Vec::new();
    let mut free = devices.as_slice();
    while let Some((device, others)) = free.split_first() {
        let has_packets = device.description().packets;
        if let Some(own) = packets.as_mut().filter(|_| has_packets)
            && own.bool()
        {
            packeteers.push(Packeteer::new(world, device, own));
            free = others;
            continue;
        }
        if device.description().card_memory && memory.u8(..4) != 0 {
            vaults.push(Vault::new(world, device, &mut memory));
            free = others;
            continue;
        }
        let shape = rng.u8(..7);
        let (taken, made) = match others {
            [next, ..] if shape == 6 => {
                let made = ping(world, [device, next], &mut pingers, rng).await?;
                (2, made)
            }
            [next, last, ..] if shape == 0 => (3, relay(world, [device, next, last], rng).await?),
            [next, ..] if shape <= 2 => (2, pair(world, device, next, rng).await?),
            _ if shape == 3 => (1, Some(loop_back(world, device, rng).await?)),
            _ => (1, Some(alone(world, device, rng).await?)),
        };
        let (these, rest) = free.split_at(taken);
        free = rest;
        match made {
            Some(made) => chains.extend(made),
            // No path leads from one to the other.
            None => {
                for device in these {
                    chains.extend(alone(world, device, rng).await?);
                }
            }
        }
    }
    Ok(AtWork { devices, chains, pingers, packeteers, vaults })
}

/// Sets up an exchange of messages, and memory into the checkers of both.
async fn ping(
    world: &Rc<World>,
    [near, far]: [&Device; 2],
    pingers: &mut Vec<Pingers>,
    rng: &mut Random,
) -> Result<Option<Vec<Chain>>, DriverError> {
    let options = PeerOptions::default();
    let Some(there) = first_connection(world, near, far, options).await? else {
        return Ok(None);
    };
    there.close().await?;
    let Some(back) = first_connection(world, far, near, options).await? else {
        return Ok(None);
    };
    back.close().await?;
    let mut chains = Vec::new();
    for device in [near, far] {
        let seed = rng.u32(..);
        device.user().check_h2c(seed).await?;
        chains.push(Chain::checked(world, device, rng, seed));
    }
    pingers.push(Pingers::new(world, near, far, rng));
    Ok(Some(chains))
}

/// Connects a peer channel for the first time; `None` if the root complex does not allow it.
async fn first_connection(
    world: &World,
    sender: &Device,
    receiver: &Device,
    options: PeerOptions,
) -> Result<Option<Peer>, DriverError> {
    let forbids = || world.forbids_peers(&sender.function().name, &receiver.function().name);
    match sender.connect(receiver, options).await {
        // The driver cannot see that the root complex forbids it, and would lose these writes.
        Ok(peer) if peer.plan().through_root_complex && forbids() => {
            world.note(|| format!("{peer:?} would go through the root complex, which forbids it"));
            peer.close().await?;
            Ok(None)
        }
        // A switch that redirects, below one that does not.
        Err(DriverError::Plan(error @ PlanError::RedirectedHalfWay { .. })) => {
            world.note(|| error.to_string());
            Ok(None)
        }
        connected => connected.map(Some),
    }
}

/// Makes further channels, each with a separate stream.
fn further(world: &Rc<World>, device: &Device, seed: u32, rng: &mut Random) -> Vec<Chain> {
    let mut chains = Vec::new();
    let description = device.description();
    for (kind, have) in
        [(ChannelKind::H2c, description.h2c_channels), (ChannelKind::C2h, description.c2h_channels)]
    {
        if have > 1 && rng.bool() {
            chains.push(Chain::single(Line::new(world, device, (kind, 1), rng, seed)));
        }
    }
    chains
}

/// Sets up the generator into memory, memory into the checker, and perhaps writes to nowhere.
async fn alone(
    world: &Rc<World>,
    device: &Device,
    rng: &mut Random,
) -> Result<Vec<Chain>, DriverError> {
    let seed = rng.u32(..);
    device.user().seed(seed).await?;
    device.user().check_h2c(seed).await?;
    let mut chains = further(world, device, seed, rng);
    chains.push(Chain::single(Line::new(world, device, (ChannelKind::C2h, 0), rng, seed)));
    chains.push(Chain::checked(world, device, rng, seed));
    if rng.bool() {
        chains.push(Chain::single(Line::new(world, device, (ChannelKind::Peer, 0), rng, seed)));
    }
    Ok(chains)
}

/// Sets up memory through the engine into memory.
async fn loop_back(
    world: &Rc<World>,
    device: &Device,
    rng: &mut Random,
) -> Result<Vec<Chain>, DriverError> {
    let seed = rng.u32(..);
    device.user().seed(seed).await?;
    device.user().route(StreamSource::H2c, StreamSource::Generator).await?;
    let mut chains = further(world, device, seed, rng);
    let read = Line::new(world, device, (ChannelKind::H2c, 0), rng, seed);
    let write = Line::new(world, device, (ChannelKind::C2h, 0), rng, seed);
    chains.push(Chain::of(vec![read, write], false));
    Ok(chains)
}

/// Sets up one engine's generator, or what it reads, into another's memory.
async fn pair(
    world: &Rc<World>,
    sender: &Device,
    receiver: &Device,
    rng: &mut Random,
) -> Result<Option<Vec<Chain>>, DriverError> {
    let seed = rng.u32(..);
    let credits = rng.u8(..4) != 0;
    let route = if rng.u8(..4) == 0 { FarRoute::Drained } else { FarRoute::C2h };
    // Without credits, a stalled receive queue blocks the path that would empty it, unless it is
    // drained.
    let may_stall = credits || route == FarRoute::Drained;
    let policy =
        if may_stall && rng.bool() { ReceiveQueuePolicy::Stall } else { ReceiveQueuePolicy::Drop };
    let options = PeerOptions::default().with_credits(credits).with_policy(policy);
    sender.user().seed(seed).await?;
    receiver.user().seed(seed).await?;
    let Some(peer) = first_connection(world, sender, receiver, options).await? else {
        return Ok(None);
    };
    let mut chains = further(world, sender, seed, rng);
    chains.extend(further(world, receiver, seed, rng));
    let mut write = Line::new(world, sender, (ChannelKind::Peer, 0), rng, seed);
    let lane = StreamSource::ReceiveQueue(peer.receive_queue());
    write.far = Some(Far { receiver: receiver.clone(), options, route, peer: Some(peer) });
    // A stage before the receiver's memory takes what its own generator has.
    let mut lines = Vec::new();
    if rng.bool() {
        sender.user().route(StreamSource::Generator, StreamSource::H2c).await?;
        lines.push(Line::new(world, sender, (ChannelKind::H2c, 0), rng, seed));
        chains.push(Chain::single(Line::new(world, sender, (ChannelKind::C2h, 0), rng, seed)));
    }
    lines.push(write);
    if route == FarRoute::C2h {
        receiver.user().route(lane, StreamSource::Generator).await?;
        let mut memory = Line::new(world, receiver, (ChannelKind::C2h, 0), rng, seed);
        if rng.u8(..4) == 0 {
            // A slow reader.
            memory.pause = us(rng.u64(100..2_000));
        }
        lines.push(memory);
    }
    chains.push(Chain::of(lines, !credits));
    receiver.user().check_h2c(seed).await?;
    chains.push(Chain::checked(world, receiver, rng, seed));
    Ok(Some(chains))
}

/// Sets up memory through three engines into memory.
async fn relay(
    world: &Rc<World>,
    [first, middle, last]: [&Device; 3],
    rng: &mut Random,
) -> Result<Option<Vec<Chain>>, DriverError> {
    let seed = rng.u32(..);
    let policy = if rng.bool() { ReceiveQueuePolicy::Stall } else { ReceiveQueuePolicy::Drop };
    let options = PeerOptions::default().with_credits(true).with_policy(policy);
    let Some(there) = first_connection(world, first, middle, options).await? else {
        return Ok(None);
    };
    let Some(on) = first_connection(world, middle, last, options).await? else {
        return Ok(None);
    };
    for device in [first, middle, last] {
        device.user().seed(seed).await?;
    }
    let (generator, lane) = (StreamSource::Generator, StreamSource::ReceiveQueue);
    first.user().route(generator, StreamSource::H2c).await?;
    middle.user().route(generator, lane(there.receive_queue())).await?;
    last.user().route(lane(on.receive_queue()), generator).await?;
    let read = Line::new(world, first, (ChannelKind::H2c, 0), rng, seed);
    let mut send = Line::new(world, first, (ChannelKind::Peer, 0), rng, seed);
    let route = FarRoute::Peer;
    send.far = Some(Far { receiver: middle.clone(), options, route, peer: Some(there) });
    let mut pass_on = Line::new(world, middle, (ChannelKind::Peer, 0), rng, seed);
    let route = FarRoute::C2h;
    pass_on.far = Some(Far { receiver: last.clone(), options, route, peer: Some(on) });
    let write = Line::new(world, last, (ChannelKind::C2h, 0), rng, seed);
    Ok(Some(vec![Chain::of(vec![read, send, pass_on, write], false)]))
}
