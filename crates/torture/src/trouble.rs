// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The faults of a lab at work.

use crosslane_fabric::{DirectionId, LinkDirection, LinkId, Moment, NodeKind, PortId, TlpFault};
use crosslane_host::{Bus, Topology};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::fault::{Engines, Fault};
use crate::scene::{World, us};

/// The set of all engines.
const EVERY_ENGINE: Engines = Engines::MAX;
/// Time in which the last stores of the set-up have arrived. They are posted, and nobody reads back
/// the seeds among them: no fault comes earlier.
pub(crate) const SET_UP_ARRIVES: Picoseconds = us(20);
/// Time for which the effects of a spoilt or lost TLP last.
pub(crate) const AFTER_TLP: Picoseconds = us(50);

/// Makes faults, one after the other.
pub(crate) async fn trouble(world: &World, ports: &[String], rng: &mut Random) {
    let earliest = world.bus.now() + SET_UP_ARRIVES;
    for _ in 0..[0, 0, 1, 3, 6][rng.usize(..5)] {
        let due = world.bus.now() + us(rng.u64(..2_000));
        world.bus.sleep_until(due.max(earliest)).await;
        let span = us(rng.u64(1..1_500));
        match rng.u8(..24) {
            0..6 => {
                let port = &ports[rng.usize(..ports.len())];
                link_down(world, port, span).await;
            }
            6..12 => {
                let port = &ports[rng.usize(..ports.len())];
                bad_tlps(world, port, span, rng).await;
            }
            12..17 => stall(world, span, rng).await,
            17..20 => {
                let name = &world.engines[rng.usize(..world.engines.len())].name;
                bus_master_off(world, name, span).await;
            }
            20..23 => astray(world, span, rng).await,
            _ => {
                let port = &ports[rng.usize(..ports.len())];
                removal(world, port).await;
            }
        }
    }
}

pub(crate) fn link_below(world: &World, name: &str) -> LinkId {
    world.fabric(|fabric| {
        let port = fabric.ports().iter().find(|port| port.name == name);
        port.and_then(|port| port.link).expect("ports without a link are not chosen")
    })
}

/// A fault of single TLPs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlpTrouble {
    pub fault: Fault,
    pub heading: LinkDirection,
    pub class: Class,
    pub what: TlpFault,
}

impl TlpTrouble {
    const fn new(fault: Fault, heading: LinkDirection, class: Class, what: TlpFault) -> Self {
        Self { fault, heading, class, what }
    }

    /// Poisoned, lost and doubled TLPs, in both directions.
    pub const ALL: [Self; 8] = [
        Self::new(Fault::PoisonedTlp, LinkDirection::Down, Class::Completion, TlpFault::Poison),
        Self::new(Fault::PoisonedWrite, LinkDirection::Down, Class::Posted, TlpFault::Poison),
        Self::new(Fault::PoisonedWrite, LinkDirection::Up, Class::Posted, TlpFault::Poison),
        Self::new(Fault::LostRead, LinkDirection::Down, Class::Completion, TlpFault::Drop),
        Self::new(Fault::LostRead, LinkDirection::Up, Class::NonPosted, TlpFault::Drop),
        Self::new(Fault::LostWrite, LinkDirection::Down, Class::Posted, TlpFault::Drop),
        Self::new(Fault::LostWrite, LinkDirection::Up, Class::Posted, TlpFault::Drop),
        Self::new(Fault::Doubled, LinkDirection::Down, Class::Completion, TlpFault::Duplicate),
    ];
}

/// Poisons, loses or doubles some TLPs on the link below a port, if it carries any.
async fn bad_tlps(world: &World, port: &str, span: Picoseconds, rng: &mut Random) {
    let link = link_below(world, port);
    let TlpTrouble { fault, heading, class, what } = TlpTrouble::ALL[rng.usize(..8)];
    let count = rng.u32(1..5);
    world.note(|| format!("{fault}: {count} {heading:?} by the link below {port}"));
    let number = world.begin(fault, world.engines_below(link));
    let direction = DirectionId { link, heading };
    world.fabric(|fabric| fabric.inject_fault(direction, class, what, Moment::Next(count)));
    world.sleep(span).await;
    world.fabric(|fabric| fabric.clear_injections(direction));
    world.sleep(AFTER_TLP).await;
    world.end(number);
}

/// Makes the root complex or an engine accept nothing for a while.
async fn stall(world: &World, span: Picoseconds, rng: &mut Random) {
    let (name, engines) = if rng.bool() {
        ("host0", EVERY_ENGINE)
    } else {
        let name = &world.engines[rng.usize(..world.engines.len())].name;
        (name.as_str(), world.engine(name))
    };
    let Some(node) = world.node(name) else { return };
    world.note(|| format!("{name} takes nothing for {span}"));
    let number = world.begin(Fault::Stall, engines);
    let until = world.bus.now() + span;
    world.fabric(|fabric| fabric.stall(node, until));
    world.bus.sleep_until(until).await;
    world.end(number);
}

async fn link_down(world: &World, port: &str, span: Picoseconds) {
    let link = link_below(world, port);
    if world.fabric(|fabric| !fabric.is_link_up(link)) {
        return;
    }
    world.note(|| format!("the link below {port} goes down for {span}"));
    let number = world.begin(Fault::LinkDown, world.engines_below(link));
    let until = world.bus.now() + span;
    world.fabric(|fabric| fabric.take_link_down(link, Some(until)));
    world.bus.sleep_until(until + us(1)).await;
    world.end(number);
}

/// Removes everything below a port, for good.
async fn removal(world: &World, port: &str) {
    let link = link_below(world, port);
    if world.fabric(|fabric| !fabric.is_link_up(link)) {
        return;
    }
    world.note(|| format!("the link below {port} is gone for good"));
    let engines = world.engines_below(link);
    world.begin(Fault::Removal, engines);
    world.remove(engines);
    world.fabric(|fabric| fabric.take_link_down(link, None));
}

async fn bus_master_off(world: &World, name: &str, span: Picoseconds) {
    world.note(|| format!("{name} is no bus master for {span}"));
    let number = world.begin(Fault::BusMasterOff, world.engine(name));
    set_bus_master(world, name, false);
    world.sleep(span).await;
    set_bus_master(world, name, true);
    world.end(number);
    world.note(|| format!("{name} is bus master again"));
}

fn set_bus_master(world: &World, name: &str, on: bool) {
    let id = world.function(name);
    let Ok(command) = world.bus.config_read(id, reg::COMMAND) else { return };
    if command == u32::MAX {
        return;
    }
    let bit = reg::COMMAND_BUS_MASTER;
    let command = if on { command | bit } else { command & !bit };
    // A function that cannot be reached is no bus master either.
    let _ = world.bus.config_write(id, reg::COMMAND, command, 0b0011);
}

/// Finds a downstream port of a switch with more than one of them.
fn port_with_a_neighbour(world: &World, rng: &mut Random) -> Option<(PortId, String)> {
    world.fabric(|fabric| {
        let switches = fabric.nodes().iter().filter(|node| node.kind == NodeKind::Switch);
        // A switch's upstream port may be any of its ports; skip the one linked upwards.
        let mut found = Vec::new();
        for switch in switches {
            let below = |port: &&PortId| {
                let link = fabric.port(**port).link;
                link.is_some_and(|link| fabric.link(link).upper == **port)
            };
            let below: Vec<PortId> = switch.ports.iter().filter(below).copied().collect();
            if below.len() > 1 {
                found.extend(below.into_iter().map(|port| (port, fabric.port(port).name.clone())));
            }
        }
        (!found.is_empty()).then(|| found.swap_remove(rng.usize(..found.len())))
    })
}

/// Makes a switch believe for a while that host memory is behind one of its ports.
async fn astray(world: &World, span: Picoseconds, rng: &mut Random) {
    let Some((_, name)) = port_with_a_neighbour(world, rng) else { return };
    let id = world.function(&name);
    let offset = reg::MEMORY_BASE_LIMIT;
    let Ok(before) = world.bus.config_read(id, offset) else { return };
    if before == u32::MAX {
        return;
    }
    world.note(|| format!("requests go astray to {name} for {span}"));
    let number = world.begin(Fault::Astray, EVERY_ENGINE);
    let set = |window| world.bus.config_write(id, offset, window, 0b1111);
    // If it cannot be reached, nothing goes astray.
    let _ = set(0x7ff0_0000);
    world.sleep(span).await;
    while set(before).is_err() {
        world.sleep(us(100)).await;
    }
    // TLPs in flight may still be lost.
    world.sleep(us(50)).await;
    world.end(number);
}
