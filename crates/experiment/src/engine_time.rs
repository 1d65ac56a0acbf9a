// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An engine's clock beside the host's.

use crosslane_driver::{ChannelCounters, Device};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;

use crate::error::Result;
use crate::measured::HardwareTime;

/// Turns engine time into the host's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineTime {
    clock: Picoseconds,
    /// Host time less engine time, picoseconds.
    offset_ps: i128,
}

impl EngineTime {
    /// Reads the engine's clock between two looks at the host's. Where the engine's time lies
    /// between the two, both began at once, as in a lab, and conversion is exact to a clock; else
    /// the engine is taken to have been read half way, right to half a register's round trip.
    pub(crate) async fn of<B: Bus>(device: &Device<B>) -> Result<Self> {
        let clock = device.description().clock;
        let before = device.bus().now();
        let clocks = device.time_clocks().await?;
        let after = device.bus().now();
        Ok(Self::between(clock, clocks, before, after))
    }

    fn between(clock: Picoseconds, clocks: u64, before: Picoseconds, after: Picoseconds) -> Self {
        let engine_ps = i128::from(clocks) * i128::from(clock.0);
        let (before, after) = (i128::from(before.0), i128::from(after.0));
        let began_at_once = (before..=after).contains(&engine_ps);
        let offset_ps = if began_at_once { 0 } else { (before + after) / 2 - engine_ps };
        Self { clock, offset_ps }
    }

    /// Returns the time in which a channel moved data, by its counters.
    pub(crate) fn span(self, counters: &ChannelCounters) -> HardwareTime {
        HardwareTime {
            bytes: counters.bytes,
            first: self.host(counters.first_clocks),
            last: self.host(counters.last_clocks),
        }
    }

    /// The host's time when the engine's clock stood at `clocks`.
    pub(crate) fn host(self, clocks: u64) -> Picoseconds {
        let engine_ps = i128::from(clocks) * i128::from(self.clock.0);
        Picoseconds((engine_ps + self.offset_ps).clamp(0, i128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_began_at_once_are_not_moved() {
        let clock = Picoseconds(4000);
        let time = EngineTime::between(clock, 100, Picoseconds(399_000), Picoseconds(900_000));
        assert_eq!(time.host(25), Picoseconds(100_000));
    }

    #[test]
    fn another_beginning_is_taken_from_the_middle() {
        let clock = Picoseconds(4000);
        let time = EngineTime::between(clock, 100, Picoseconds(1_000_000), Picoseconds(1_800_000));
        assert_eq!(time.host(100), Picoseconds(1_400_000));
        assert_eq!(time.host(101), Picoseconds(1_404_000));
        let early = EngineTime::between(clock, 1000, Picoseconds(10), Picoseconds(20));
        assert_eq!(early.host(0), Picoseconds::ZERO);
    }
}
