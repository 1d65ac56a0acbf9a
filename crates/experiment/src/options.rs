// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of a workload's run.

use std::ops::RangeInclusive;

use crosslane_driver::{ChannelOptions, DescriptorSource, Notification};
use crosslane_host::{AnyBus, Bus, PageSize, setters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::quantity::size_words;
use smart_default::SmartDefault;

use crate::error::{ExperimentError, Result};

/// Time at which memory is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Registration {
    /// Once, before anything is timed.
    Before,
    /// Within each transfer, as a driver does that pins the caller's pages in the system call.
    /// Transfers are then made one at a time.
    Within,
}

/// Options of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, SmartDefault)]
#[non_exhaustive]
pub struct Options {
    /// Bytes of one transfer, a multiple of 4.
    #[default(4 << 20)]
    pub size_bytes: u64,
    /// Transfers.
    #[default(1)]
    pub iterations: u64,
    /// Transfers that are kept posted at once.
    #[default(1)]
    pub outstanding: u32,
    /// Place of descriptors. [`CommandPort`](DescriptorSource::CommandPort) is for peer writes,
    /// [`Table`](DescriptorSource::Table) for transfers with host memory.
    #[default(ChannelOptions::default().descriptors)]
    pub descriptors: DescriptorSource,
    /// Method of learning of completions.
    #[default(ChannelOptions::default().notification)]
    pub notification: Notification,
    /// Longest write payload or read request, bytes; none for the most that is allowed.
    pub payload_bytes: Option<u32>,
    /// Use `payload_bytes` even beyond Max_Payload_Size.
    pub oversize: bool,
    /// Pages of the host memory.
    #[default(PageSize::Huge)]
    pub pages: PageSize,
    /// Time at which the memory is registered.
    #[default(Registration::Before)]
    pub registration: Registration,
    /// Charge the processor one system call for each transfer.
    pub system_call: bool,
    /// Keep a credit window between engines (peer writes and chains).
    #[default(true)]
    pub credits: bool,
    /// Seed of the generator's pattern. Flows that share a device share the seed.
    #[default(1)]
    pub seed: u32,
    /// Compare every byte in host memory. An engine's checker compares what the engine
    /// receives in any case.
    #[default(true)]
    pub check: bool,
    /// A transfer that takes longer than this has failed.
    #[default(Picoseconds::from_ms(1_000))]
    pub timeout: Picoseconds,
    /// If transfers are posted one at a time, their figure is the rate of one of typical time, not
    /// of all.
    pub of_one: bool,
}

setters!(Options {
    with_size_bytes(size_bytes: u64),
    with_iterations(iterations: u64),
    with_outstanding(outstanding: u32),
    with_descriptors(descriptors: DescriptorSource),
    with_notification(notification: Notification),
    with_payload_bytes(payload_bytes: Option<u32>),
    with_oversize(oversize: bool),
    with_pages(pages: PageSize),
    with_registration(registration: Registration),
    with_system_call(system_call: bool),
    with_credits(credits: bool),
    with_seed(seed: u32),
    with_check(check: bool),
    with_timeout(timeout: impl Into<Picoseconds>),
    with_of_one(of_one: bool),
});

/// Data that each flow moves unless the user says how many operations, bytes.
const DEFAULT_TOTAL_BYTES: u64 = 8 << 20;
/// Fewest and most operations that follow from it, as far as the next two allow.
const DEFAULT_OPERATIONS: RangeInclusive<u64> = 16..=10_000;
/// Most data that each flow moves unless the user says how many operations, bytes.
const DEFAULT_MOST_BYTES: u64 = 64 << 20;
/// Fewest operations, however large they are: fewer would have no second one behind the first.
const DEFAULT_FEWEST_OPERATIONS: u64 = 2;
/// Data that each flow has in flight unless the user says how many operations, bytes.
const DEFAULT_IN_FLIGHT_BYTES: u64 = 256 << 10;
/// Fewest and most operations in flight that follow from it.
const DEFAULT_OUTSTANDING: RangeInclusive<u64> = 2..=64;
/// Most bytes of one run's host memory: what every lab and every machine has.
const MAX_MEMORY_BYTES: u64 = 1 << 32;
/// Fewest descriptors of a fitting ring: more than are posted by default.
const LEAST_RING_ENTRIES: u64 = 1024;
/// Most that a ring can have (docs/engine.md).
const MAX_RING_ENTRIES: u64 = 1 << 16;
/// Bytes of a small page.
const PAGE_BYTES: u64 = 4096;
/// Shortest time limit of a transfer, and what each byte on its way adds, in picoseconds: as at
/// 10 MB/s, far slower than any link.
const LEAST_TIMEOUT: Picoseconds = Picoseconds::from_ms(100);
const TIMEOUT_PS_PER_BYTE: u64 = 100_000;

impl Options {
    /// Returns options whose numbers suit the size of the transfers, as far as they are not given:
    /// transfers, those that are kept posted, the entries of a ring, and the time limit, of that
    /// many flows at once.
    #[must_use]
    pub fn suited(self, iterations: Option<u64>, outstanding: Option<u32>, flows: u16) -> Self {
        let by_default = match self.descriptors {
            DescriptorSource::Ring { .. } => default_in_flight(self.size_bytes) as u32,
            DescriptorSource::Table | DescriptorSource::CommandPort => 1,
        };
        let iterations = iterations.unwrap_or_else(|| default_operations(self.size_bytes));
        let outstanding = u64::from(outstanding.unwrap_or(by_default)).min(iterations);
        let in_flight = self.size_bytes.saturating_mul(outstanding).saturating_mul(flows.into());
        let timeout = LEAST_TIMEOUT.0.saturating_add(in_flight.saturating_mul(TIMEOUT_PS_PER_BYTE));
        let (outstanding, timeout) = (outstanding as u32, Picoseconds(timeout));
        Self { iterations, outstanding, timeout, ..self }.with_fitting_ring()
    }

    /// Returns the same with as many entries of a ring as the posted transfers need: one for each
    /// piece of their memory.
    #[must_use]
    pub fn with_fitting_ring(mut self) -> Self {
        let each = match self.pages {
            // The first page may begin in its middle.
            PageSize::Small => self.size_bytes.div_ceil(PAGE_BYTES) + 1,
            PageSize::Huge => 2,
        };
        let needed = each.saturating_mul(self.outstanding.into());
        if let DescriptorSource::Ring { entries } = &mut self.descriptors {
            let needed = needed.clamp(LEAST_RING_ENTRIES, MAX_RING_ENTRIES);
            *entries = (needed as u32).next_power_of_two();
        }
        self
    }

    /// Whether a run can be made so; `place` is named where not.
    pub(crate) fn check(&self, place: &str) -> Result<()> {
        let size = self.size_bytes;
        let problem = if size == 0 || !size.is_multiple_of(4) {
            format!("a transfer of {}: it has to be a multiple of 4 B, and not 0", size_words(size))
        } else if self.iterations == 0 || self.outstanding == 0 {
            "at least one transfer has to be made, and posted".to_owned()
        } else if self.registration == Registration::Within && self.outstanding > 1 {
            format!(
                "{} transfers cannot be outstanding where each registers the memory anew",
                self.outstanding
            )
        } else if u64::from(self.outstanding).saturating_mul(size) > MAX_MEMORY_BYTES {
            format!(
                "{} transfers of {} at once need more than {} of memory",
                self.outstanding,
                size_words(size),
                size_words(MAX_MEMORY_BYTES)
            )
        } else {
            return Ok(());
        };
        Err(ExperimentError::refused(place, problem))
    }

    /// The options of the channel.
    pub(crate) fn channel(&self) -> ChannelOptions {
        ChannelOptions::default()
            .with_descriptors(self.descriptors)
            .with_notification(self.notification)
            .with_payload_bytes(self.payload_bytes)
            .with_oversize(self.oversize)
    }

    /// Returns the time by which a transfer that begins now has to be complete.
    pub(crate) fn deadline(&self, bus: &AnyBus) -> Picoseconds {
        Picoseconds(bus.now().0.saturating_add(self.timeout.0))
    }
}

/// Operations in flight that keep a link busy.
pub fn default_in_flight(bytes: u64) -> u64 {
    by_size(DEFAULT_IN_FLIGHT_BYTES, bytes, &DEFAULT_OUTSTANDING)
}

/// Operations that suit a size: enough for an average, and not too long to wait for.
pub fn default_operations(bytes: u64) -> u64 {
    let most = (DEFAULT_MOST_BYTES / bytes).max(DEFAULT_FEWEST_OPERATIONS);
    by_size(DEFAULT_TOTAL_BYTES, bytes, &DEFAULT_OPERATIONS).min(most)
}

fn by_size(total: u64, bytes: u64, limits: &RangeInclusive<u64>) -> u64 {
    (total / bytes).clamp(*limits.start(), *limits.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_operations_are_few_by_default() {
        let (mib, gib) = (1 << 20, 1 << 30);
        for (bytes, operations) in [
            (1, 10_000),
            (4096, 2048),
            (mib, 16),
            (4 * mib, 16),
            (16 * mib, 4),
            (32 * mib, 2),
            (gib, 2),
        ] {
            assert_eq!(default_operations(bytes), operations, "{bytes} B");
        }
    }
}
