// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user circuit: what feeds the streams, the command port, ping-pong.

use crosslane_host::Bus;
use crosslane_pcie::units::{BusAddress, Picoseconds};

use crate::error::DriverError;

/// What feeds a stream that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamSource {
    /// The generator.
    Generator,
    /// H2C channel 0.
    H2c,
    /// A receive lane.
    Lane(u8),
}

/// What a checker has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Words that were not what was expected.
    pub errors: u32,
    /// Number of the first of them, if there is one.
    pub first_word: Option<u32>,
}

/// Round trips of a ping-pong, as the initiator's hardware timer saw them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingPong {
    /// Round trips.
    pub rounds: u32,
    /// Sum of their times, in clocks.
    pub sum_clocks: u64,
    /// Shortest, in clocks.
    pub least_clocks: u32,
    /// Longest, in clocks.
    pub most_clocks: u32,
}

/// The user circuit of an engine.
#[derive(Clone)]
pub struct User<B: Bus> {
    _bus: B,
}

impl<B: Bus> User<B> {
    /// Word `n` of the generator's pattern.
    #[must_use]
    pub const fn pattern(seed: u32, n: u32) -> u32 {
        seed.wrapping_add(n.wrapping_mul(0x9e37_79b1))
    }

    /// What feeds C2H channel 0 and peer channel 0. Only one lane can be routed.
    ///
    /// # Errors
    /// Two different lanes, a lane that is not there, or no answer.
    pub async fn route(&self, c2h: StreamSource, peer: StreamSource) -> Result<(), DriverError> {
        let _ = (c2h, peer);
        unimplemented!()
    }

    /// Seeds the generator; both generated streams begin anew.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn seed(&self, seed: u32) -> Result<(), DriverError> {
        let _ = seed;
        unimplemented!()
    }

    /// Compares what H2C channel 0 reads with the pattern of `seed` from now on, while it feeds
    /// nothing.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check_h2c(&self, seed: u32) -> Result<(), DriverError> {
        let _ = seed;
        unimplemented!()
    }

    /// What that checker has found.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn h2c_check_result(&self) -> Result<Check, DriverError> {
        unimplemented!()
    }

    /// Starts a peer write at the command port; peer channel 0 has to be open with
    /// [`CommandPort`](crate::DescriptorSource::CommandPort).
    ///
    /// # Errors
    /// A length of 0 or not of whole words, a command that is still running, or no answer.
    pub async fn command(&self, address: BusAddress, bytes: u32) -> Result<(), DriverError> {
        let _ = (address, bytes);
        unimplemented!()
    }

    /// Waits until the command has been worked off (polls the register).
    ///
    /// # Errors
    /// The deadline has passed, the peer channel has stopped, or no answer.
    pub async fn command_done(&self, deadline: Picoseconds) -> Result<(), DriverError> {
        let _ = deadline;
        unimplemented!()
    }

    /// Makes round trips: messages of `bytes` to `address`, each sent when the one before it has
    /// come back in the routed lane.
    ///
    /// # Errors
    /// As [`command`](Self::command) and [`command_done`](Self::command_done).
    pub async fn ping_pong(
        &self,
        address: BusAddress,
        bytes: u32,
        rounds: u16,
        deadline: Picoseconds,
    ) -> Result<PingPong, DriverError> {
        let _ = (address, bytes, rounds, deadline);
        unimplemented!()
    }
}
