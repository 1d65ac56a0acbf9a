// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an engine is built with.

use crosslane_pcie::units::Picoseconds;

/// How a DMA engine is built. Everything that can slow it is here; this project's own engine has
/// neither idle clocks nor a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineParameters {
    /// One clock of the engine.
    pub clock: Picoseconds,
    /// Bytes per clock of its stream to the link core: header and payload of a TLP go through it.
    pub datapath_bytes: u32,
    /// Clocks after each TLP in which nothing is sent.
    pub idle_clocks_per_tlp: u32,
    /// Time after a descriptor's last TLP before its channel begins the next.
    pub descriptor_gap: Picoseconds,
    /// Tags: reads in flight, 1 to 1024.
    pub tags: u16,
    /// Longest payload of a write that it can build, bytes, a power of two from 128 to 4096.
    pub max_write_bytes: u32,
    /// Longest read that it can ask for, bytes, a power of two from 128 to 4096.
    pub max_read_bytes: u32,
    /// Descriptors of an H2C channel whose reads may be in flight at once.
    pub reading_descriptors: u16,
    /// A read that is not answered within this time has failed.
    pub completion_timeout: Picoseconds,
    /// From a register read at the registers to its completion.
    pub register_latency: Picoseconds,
    /// H2C channels, 1 to 4.
    pub h2c_channels: u8,
    /// C2H channels, 1 to 4.
    pub c2h_channels: u8,
    /// Peer channels, 1 to 4.
    pub peer_channels: u8,
    /// Receive lanes, 1 to 16, a power of two.
    pub lanes: u8,
    /// Bytes of each lane's FIFO, a power of two.
    pub lane_fifo_bytes: u32,
    /// Bytes of the FIFO behind each H2C channel, a power of two.
    pub stream_fifo_bytes: u32,
    /// Descriptors of each table in the engine, a power of two, up to 1024.
    pub table_descriptors: u16,
    /// Descriptors that one fetch from a ring asks for at most, a power of two, 1 to 128.
    pub fetch_batch: u16,
}
