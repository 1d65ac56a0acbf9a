// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults of single TLPs aimed at traffic: each is set on a link and a class that carry TLPs at
//! that moment, and stays set until TLPs have met it.

use crosslane_fabric::{DirectionId, Moment};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::scene::{World, us};
use crate::trouble::{AFTER_TLP, SET_UP_ARRIVES, TlpTrouble, link_below};

/// One seed in this many has aimed faults: those that leave [`AIMED_SEED`]. Their randomness has a
/// separate stream, so that the other seeds run as they would without them.
pub(crate) const AIMED_SEEDS: u64 = 4;
/// See [`AIMED_SEEDS`].
pub(crate) const AIMED_SEED: u64 = 3;

/// Most faults of a seed.
const MOST_FAULTS: u32 = 16;
/// Time for which a link is watched for TLPs of a class.
const LOOK: Picoseconds = us(4);
/// Time after which a fault that no TLP has met is withdrawn.
const PATIENCE: Picoseconds = us(400);

/// Makes faults of single TLPs, one after the other, until all work has ended.
pub(crate) async fn aimed(world: &World, ports: &[String], mut rng: Random) {
    let earliest = world.bus.now() + SET_UP_ARRIVES;
    for _ in 0..rng.u32(1..=MOST_FAULTS) {
        let due = world.bus.now() + us(rng.u64(1..200));
        world.bus.sleep_until(due.max(earliest)).await;
        let trouble = TlpTrouble::ALL[rng.usize(..TlpTrouble::ALL.len())];
        let count = rng.u32(1..4);
        let Some(port) = busy(world, ports, trouble, &mut rng).await else { return };
        let link = link_below(world, port);
        let TlpTrouble { fault, heading, class, what } = trouble;
        world.note(|| format!("{fault}: {count} {heading:?} by the busy link below {port}"));
        let number = world.begin(fault, world.engines_below(link));
        let direction = DirectionId { link, heading };
        let goal = world.fabric(|fabric| {
            fabric.inject_fault(direction, class, what, Moment::Next(count));
            fabric.injected_count() + u64::from(count)
        });
        let patience = world.bus.now() + PATIENCE;
        while world.fabric(|fabric| fabric.injected_count()) < goal
            && world.bus.now() < patience
            && world.is_at_work()
        {
            world.sleep(us(1)).await;
        }
        world.fabric(|fabric| fabric.clear_injections(direction));
        world.sleep(AFTER_TLP).await;
        world.end(number);
    }
}

/// Finds a port whose link carries TLPs that the fault can meet; `None` if all work ends first.
async fn busy<'p>(
    world: &World,
    ports: &'p [String],
    trouble: TlpTrouble,
    rng: &mut Random,
) -> Option<&'p String> {
    let TlpTrouble { heading, class, .. } = trouble;
    let links: Vec<_> = ports.iter().map(|port| link_below(world, port)).collect();
    let carried = || -> Vec<u64> {
        let witness = world.bus.witness.lock().expect("nobody panics with it");
        let directions = links.iter().map(|&link| DirectionId { link, heading });
        directions.map(|direction| witness.carried(direction, class)).collect()
    };
    while world.is_at_work() {
        let before = carried();
        world.sleep(LOOK).await;
        let now = carried();
        let busy: Vec<usize> = (0..ports.len()).filter(|&port| now[port] > before[port]).collect();
        if !busy.is_empty() {
            return Some(&ports[busy[rng.usize(..busy.len())]]);
        }
    }
    None
}
