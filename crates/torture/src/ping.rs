// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two engines that exchange messages by their command ports.

use std::rc::Rc;

use crosslane_driver::{
    ChannelKind, ChannelOptions, DescriptorSource, Device, DriverError, PeerOptions, StreamSource,
};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::check::{Check, check};
use crate::fault::{Engines, Fault};
use crate::scene::{World, us};

/// Time allowed for the messages of one attempt: far longer than they take, and longer than any
/// fault that ends.
const SPAN: Picoseconds = us(20_000);
/// Most reads of the counter while the last message reaches it.
const LOOKS: u32 = 100;

/// Two engines that play ping-pong.
pub(crate) struct Pingers {
    world: Rc<World>,
    near: Device,
    far: Device,
    touches: Engines,
    rng: Random,
    /// Words compared after their return.
    pub words: u64,
    /// Number of attempts.
    pub attempts: u64,
}

impl Pingers {
    pub fn new(world: &Rc<World>, near: &Device, far: &Device, rng: &mut Random) -> Self {
        let touches = world.engine(&near.function().name) | world.engine(&far.function().name);
        Self {
            world: Rc::clone(world),
            near: near.on_core(rng.u16(..)),
            far: far.on_core(rng.u16(..)),
            touches,
            rng: rng.fork(),
            words: 0,
            attempts: 0,
        }
    }

    /// Plays `games` games, each from connecting to closing; games spoiled by a fault are
    /// restarted.
    pub async fn play(&mut self, games: u32) {
        for _ in 0..games {
            self.game().await;
            let pause = Picoseconds(self.rng.u64(..300_000_000));
            self.world.sleep(pause).await;
        }
        // Release what unfinished games left behind.
        for device in [&self.near, &self.far] {
            self.world.give_back(device, ChannelKind::Peer).await;
        }
    }

    async fn game(&mut self) {
        self.attempts += 1;
        let begun = self.world.bus.now();
        match self.messages().await {
            Ok(errors) => {
                let is_known = self.world.has(self.touches, begun, Fault::loses_writes);
                check!(
                    Check::Data,
                    errors == 0 || is_known,
                    "{errors} words of a ping-pong came back wrong to {}",
                    self.near.function().name
                );
            }
            Err(error) => {
                self.world.note(|| format!("ping-pong: {error}"));
                let is_known = self.world.has(self.touches, begun, |_| true);
                check!(Check::RightError, is_known, "ping-pong, and nothing was done: {error}");
            }
        }
    }

    /// Exchanges messages. Returns the number of wrong words.
    async fn messages(&mut self) -> Result<u32, DriverError> {
        let (near, far) = (&self.near, &self.far);
        let there = near.connect(far, PeerOptions::default()).await?;
        let back = far.connect(near, PeerOptions::default()).await?;
        let payload_bytes = 1 << self.rng.u32(4..=7);
        let options = ChannelOptions::default()
            .with_descriptors(DescriptorSource::CommandPort)
            .with_payload_bytes(Some(payload_bytes));
        let sending = near.channel(ChannelKind::Peer, 0, options).await?;
        let returning = far.channel(ChannelKind::Peer, 0, options).await?;
        let (generator, seed) = (StreamSource::Generator, self.rng.u32(..));
        near.user().route(generator, generator).await?;
        far.user().route(generator, StreamSource::ReceiveQueue(there.receive_queue())).await?;
        near.user().seed(seed).await?;
        back.check(seed).await?;
        let (bytes, rounds) = (payload_bytes * self.rng.u32(1..4), self.rng.u16(1..12));
        let all = bytes * u32::from(rounds);
        far.user().command(back.address(), all).await?;
        let deadline = self.world.bus.now() + SPAN;
        let made = near.user().ping_pong(there.address(), bytes, rounds, deadline).await?;
        let is_possible = made.rounds == u32::from(rounds)
            && made.least_clocks > 0
            && made.least_clocks <= made.most_clocks
            && made.sum_clocks >= u64::from(made.least_clocks) * u64::from(rounds)
            && made.sum_clocks <= u64::from(made.most_clocks) * u64::from(rounds);
        check!(Check::Registers, is_possible, "round trips of a ping-pong: {made:?}");
        far.user().command_done(deadline).await?;
        for _ in 0..LOOKS {
            if back.counters().await?.drained_bytes == all {
                break;
            }
            self.world.sleep(us(10)).await;
        }
        let errors = back.check_result().await?.errors;
        let drained = back.counters().await?.drained_bytes;
        self.words += u64::from(drained / 4);
        let is_whole = drained == all || self.world.has_lately(self.touches, Fault::loses_writes);
        check!(Check::Whole, is_whole, "{drained} of {all} B of a ping-pong came back");
        if self.rng.bool() {
            sending.close().await?;
            returning.close().await?;
            there.close().await?;
            back.close().await?;
        }
        Ok(errors)
    }
}
