// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Build parameters of an engine.

use crosslane_pcie::units::Picoseconds;
use thiserror::Error;

use crate::card_memory::CardMemoryParameters;

/// Tags that each channel reserves for descriptor fetches, beyond those for data, so that data
/// waiting for room in a stream cannot block descriptors.
pub(crate) const FETCH_TAGS: u16 = 4;

/// Tags that a requester can have (PCIe 6.x 2.2.6.2, 10-bit tags).
const MAX_TAGS: u64 = 1024;

/// Build parameters of a DMA engine, including everything that can slow it. This project's engine
/// has no idle clocks and no gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineParameters {
    /// Clock period, 1 ps to 1 us.
    pub clock: Picoseconds,
    /// Bytes per clock of the stream to the link core, 1 to 1024. Carries payloads, and headers too
    /// if `header_on_datapath` is set.
    pub datapath_bytes: u32,
    /// Whether headers occupy clocks of the datapath. If not, a TLP takes the clocks of its
    /// payload, at least one.
    pub header_on_datapath: bool,
    /// Idle clocks after each TLP, up to 1024.
    pub idle_clocks_per_tlp: u32,
    /// Time after a descriptor's last TLP before its channel begins the next, up to 1 s.
    pub descriptor_gap: Picoseconds,
    /// Tags for data: reads in flight, from 1. Each channel has four more for descriptor fetches;
    /// the sum is at most 1024.
    pub tags: u16,
    /// Longest write payload that the engine can build, bytes, a power of two from 64 to 4096.
    pub max_write_bytes: u32,
    /// Longest read that the engine can send, bytes, a power of two from 128 to 4096.
    pub max_read_bytes: u32,
    /// Descriptors of an H2C channel with reads in flight at once, from 1.
    pub reading_descriptors: u16,
    /// Time after which an unanswered read has failed, 1 ns to 100 s.
    pub completion_timeout: Picoseconds,
    /// Time from the arrival of a register read to its completion, up to 1 s.
    pub register_latency: Picoseconds,
    /// Clocks from an available descriptor to its first TLP on an otherwise idle channel, up to
    /// 1024.
    pub request_latency_clocks: u32,
    /// Additional clocks if that TLP is a write, whose payload must be assembled; up to 1024.
    pub write_latency_clocks: u32,
    /// Clocks from the doorbell to the fetch of the posted descriptors, and from a credit to the
    /// status block that waits for it; up to 1024.
    pub fetch_latency_clocks: u32,
    /// Clocks that data take through a receive queue or the staging memory, from arrival to the TLP
    /// that carries them; up to 1024. A queue that feeds nothing drains them `write_latency_clocks`
    /// earlier.
    pub stream_latency_clocks: u32,
    /// H2C channels, 1 to 4.
    pub h2c_channels: u8,
    /// C2H channels, 1 to 4.
    pub c2h_channels: u8,
    /// Peer channels, 1 to 4.
    pub peer_channels: u8,
    /// Receive queues, 1 to 16, a power of two.
    pub lanes: u8,
    /// Bytes of each receive queue's FIFO, a power of two from `max_write_bytes` to 16 MiB.
    pub lane_fifo_bytes: u32,
    /// Bytes of each H2C channel's staging ring, in which answers are put together and wait to be
    /// taken: a power of two, at least the longest read plus the longest write, up to 16 MiB.
    pub staging_bytes: u32,
    /// Descriptors of each table in the engine, a power of two, up to 1024.
    pub table_descriptors: u16,
    /// Most descriptors that one fetch from a ring asks for, a power of two, 1 to 128.
    pub fetch_batch: u16,
    /// Card memory that H2C and C2H channel 0 may use instead of streams; `None` if the engine has
    /// no such mode.
    pub card_memory: Option<CardMemoryParameters>,
}

/// Parameter value with which no engine can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// The value is too small or too large.
    #[error("{name} of {value} is not between {least} and {most}")]
    OutOfRange {
        /// Name of the parameter, with its unit.
        name: &'static str,
        /// Rejected value.
        value: u64,
        /// Smallest valid value.
        least: u64,
        /// Largest valid value.
        most: u64,
    },
    /// The value is not a power of two.
    #[error("{name} of {value} is not a power of two")]
    NoPowerOfTwo {
        /// Name of the parameter, with its unit.
        name: &'static str,
        /// Rejected value.
        value: u64,
    },
}

const US: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000 * US;
/// Upper bound of FIFO sizes, more than any chip has.
const MAX_FIFO_BYTES: u64 = 16 << 20;

pub(crate) fn within(
    name: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), ParameterError> {
    let fits = (least..=most).contains(&value);
    fits.then_some(()).ok_or(ParameterError::OutOfRange { name, value, least, most })
}

pub(crate) fn power_of_two(
    name: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), ParameterError> {
    within(name, value, least, most)?;
    let fits = value.is_power_of_two();
    fits.then_some(()).ok_or(ParameterError::NoPowerOfTwo { name, value })
}

impl EngineParameters {
    /// Converts clocks to picoseconds.
    pub(crate) fn clocks_ps(&self, clocks: u32) -> u64 {
        u64::from(clocks) * self.clock.0
    }

    /// Time from the arrival of data to their draining from a stream that feeds nothing. It is
    /// shorter because no TLP is assembled.
    pub(crate) fn drain_ps(&self) -> u64 {
        self.clocks_ps(self.stream_latency_clocks.saturating_sub(self.write_latency_clocks))
    }

    /// Number of channels of all kinds.
    pub(crate) fn channels(&self) -> u16 {
        u16::from(self.h2c_channels) + u16::from(self.c2h_channels) + u16::from(self.peer_channels)
    }

    /// Checks that an engine can be built with these parameters.
    ///
    /// # Errors
    /// Returns the first field that is out of bounds.
    pub fn check(&self) -> Result<(), ParameterError> {
        within("clock (ps)", self.clock.0, 1, US)?;
        within("datapath_bytes", u64::from(self.datapath_bytes), 1, 1024)?;
        within("idle_clocks_per_tlp", u64::from(self.idle_clocks_per_tlp), 0, 1024)?;
        within("descriptor_gap (ps)", self.descriptor_gap.0, 0, SECOND)?;
        within("completion_timeout (ps)", self.completion_timeout.0, 1_000, 100 * SECOND)?;
        within("register_latency (ps)", self.register_latency.0, 0, SECOND)?;
        for (name, clocks) in [
            ("request_latency_clocks", self.request_latency_clocks),
            ("write_latency_clocks", self.write_latency_clocks),
            ("fetch_latency_clocks", self.fetch_latency_clocks),
            ("stream_latency_clocks", self.stream_latency_clocks),
        ] {
            within(name, u64::from(clocks), 0, 1024)?;
        }
        within("h2c_channels", u64::from(self.h2c_channels), 1, 4)?;
        within("c2h_channels", u64::from(self.c2h_channels), 1, 4)?;
        within("peer_channels", u64::from(self.peer_channels), 1, 4)?;
        let most_tags = MAX_TAGS - u64::from(self.channels() * FETCH_TAGS);
        within("tags", u64::from(self.tags), 1, most_tags)?;
        power_of_two("max_write_bytes", u64::from(self.max_write_bytes), 64, 4096)?;
        power_of_two("max_read_bytes", u64::from(self.max_read_bytes), 128, 4096)?;
        let reading = u64::from(self.reading_descriptors);
        within("reading_descriptors", reading, 1, u64::from(u16::MAX))?;
        power_of_two("lanes", u64::from(self.lanes), 1, 16)?;
        // A write is built once all of its bytes have arrived.
        let (least, most) = (u64::from(self.max_write_bytes), MAX_FIFO_BYTES);
        power_of_two("lane_fifo_bytes", u64::from(self.lane_fifo_bytes), least, most)?;
        // A read is sent when all of it has room, and data are taken once a write is complete. A
        // remainder too short for a write must not block the next read.
        let least = least + u64::from(self.max_read_bytes);
        power_of_two("staging_bytes", u64::from(self.staging_bytes), least, most)?;
        power_of_two("table_descriptors", u64::from(self.table_descriptors), 1, 1024)?;
        power_of_two("fetch_batch", u64::from(self.fetch_batch), 1, 128)?;
        self.card_memory.map_or(Ok(()), |memory| memory.check())
    }
}
