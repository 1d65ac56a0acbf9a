// SPDX-License-Identifier: Apache-2.0 OR MIT
//! With which parameters the gateware is verilated: a model for each. The build reads this file
//! too.

/// How a card is built: parameters of the module `crosslane_card`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardParameters {
    /// Bytes of the datapath: 8, 16, 32 or 64.
    pub datapath_bytes: u32,
    /// H2C channels.
    pub h2c_channels: u8,
    /// C2H channels.
    pub c2h_channels: u8,
    /// Peer channels.
    pub peer_channels: u8,
    /// Receive lanes.
    pub lanes: u8,
    /// Tags for reads of data.
    pub tags: u16,
    /// Longest payload of a write, bytes.
    pub max_write_bytes: u32,
    /// Longest read, bytes.
    pub max_read_bytes: u32,
    /// Ring of each H2C channel, bytes.
    pub staging_bytes: u32,
    /// Ring of each lane, bytes.
    pub lane_fifo_bytes: u32,
    /// Bytes of BAR1 that each lane has.
    pub lane_window_bytes: u64,
    /// Descriptors of each table.
    pub table_descriptors: u16,
    /// Descriptors of a fetch from a ring.
    pub fetch_batch: u16,
    /// One clock, ps.
    pub clock_ps: u64,
    /// Time-out of completions, clocks.
    pub timeout_clocks: u64,
}

/// A card that there can be a model of, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// In file names and symbols.
    pub name: &'static str,
    /// Whose engines it stands for.
    pub of: &'static str,
    /// What it is built with.
    pub parameters: CardParameters,
}

/// What this project's engine has wherever it is.
const OWN: CardParameters = CardParameters {
    datapath_bytes: 8,
    h2c_channels: 1,
    c2h_channels: 1,
    peer_channels: 1,
    lanes: 8,
    tags: 64,
    max_write_bytes: 256,
    max_read_bytes: 1024,
    staging_bytes: 65_536,
    lane_fifo_bytes: 16_384,
    lane_window_bytes: 524_288,
    table_descriptors: 1024,
    fetch_batch: 16,
    clock_ps: 4000,
    timeout_clocks: 12_500_000,
};

/// All of them.
pub const CONFIGURATIONS: [Configuration; 2] = [
    Configuration { name: "gen2x4", of: "rosta:crosslane", parameters: OWN },
    Configuration {
        name: "gen3x4",
        of: "minimal",
        parameters: CardParameters {
            datapath_bytes: 32,
            max_write_bytes: 512,
            lane_window_bytes: 131_072,
            ..OWN
        },
    },
];

/// The circuit of the tests, in the place of a card.
pub const STAND_IN: Configuration =
    Configuration { name: "stand_in", of: "the tests of this crate", parameters: OWN };
