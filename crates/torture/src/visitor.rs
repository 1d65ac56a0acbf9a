// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host code that comes and goes: it allocates memory, registers it with one device or two, reads
//! registers, and drops what it had.

use std::rc::Rc;

use crosslane_driver::{Device, DriverError};
use crosslane_host::{Bus, HostWork, PageSize};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::check::{Check, check};
use crate::fault::Fault;
use crate::scene::World;

/// Visits devices: does a few things, and leaves.
pub(crate) async fn visit(world: Rc<World>, devices: Vec<Device>, mut rng: Random) {
    for _ in 0..rng.u32(1..6) {
        let pause = Picoseconds(rng.u64(..400_000_000));
        world.sleep(pause).await;
        let one = &devices[rng.usize(..devices.len())];
        let other = &devices[rng.usize(..devices.len())];
        let touches = world.engine(&one.function().name) | world.engine(&other.function().name);
        if let Err(error) = call(&world, one, other, &mut rng).await {
            let is_known = world.has_lately(touches, Fault::cuts_off);
            check!(Check::RightError, is_known, "a visitor, and nothing was done: {error}");
        }
    }
}

async fn call(
    world: &World,
    one: &Device,
    other: &Device,
    rng: &mut Random,
) -> Result<(), DriverError> {
    let bytes = rng.u64(1..=100_000);
    let pages = if rng.bool() { PageSize::Small } else { PageSize::Huge };
    let buffer = one.buffer(bytes, pages).await?;
    let wrote = vec![rng.u8(..); bytes as usize];
    buffer.write(0, &wrote)?;
    world.bus.work(HostWork::Copy(bytes)).await;
    let memory = buffer.clone().unregister().await?;
    let is_refused = buffer.clone().unregister().await.is_err();
    check!(Check::Buffers, is_refused, "a registration was ended twice");
    // Register with both, if they are two.
    let shared = one.register(memory.clone()).await?;
    if other.function().id != one.function().id {
        let second = other.register(memory).await?;
        let pause = Picoseconds(rng.u64(..100_000_000));
        world.sleep(pause).await;
        if rng.bool() {
            second.unregister().await?;
        }
    }
    let mut read = vec![0; bytes as usize];
    shared.read(0, &mut read)?;
    check!(Check::Data, read == wrote, "memory of {bytes} B that nobody writes has changed");
    let before = one.time_clocks().await?;
    let after = one.time_clocks().await?;
    check!(Check::Registers, after > before, "engine time goes from {before} to {after}");
    if rng.bool() {
        shared.unregister().await?;
    }
    Ok(())
}
