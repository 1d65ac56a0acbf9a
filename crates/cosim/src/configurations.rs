// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameter sets of the verilated gateware, with one model each. The build reads this file too.

/// Build parameters of a card, those of the module `crosslane_card`, or with memory
/// `crosslane_card_with_memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardParameters {
    /// Width of the datapath in bytes: 8, 16, 32 or 64.
    pub datapath_bytes: u32,
    /// Number of H2C channels.
    pub h2c_channels: u8,
    /// Number of C2H channels.
    pub c2h_channels: u8,
    /// Number of peer channels.
    pub peer_channels: u8,
    /// Number of receive queues.
    pub lanes: u8,
    /// Number of tags for reads of data.
    pub tags: u16,
    /// Longest payload of a write, bytes.
    pub max_write_bytes: u32,
    /// Longest read, bytes.
    pub max_read_bytes: u32,
    /// Staging ring of each H2C channel, bytes.
    pub staging_bytes: u32,
    /// FIFO of each receive queue, bytes.
    pub lane_fifo_bytes: u32,
    /// Bytes of BAR1 for each receive queue.
    pub lane_window_bytes: u64,
    /// Number of descriptors of each table.
    pub table_descriptors: u16,
    /// Number of descriptors of a fetch from a ring.
    pub fetch_batch: u16,
    /// Completions that the link core's receive buffer takes; 0: no limit.
    pub completion_header_credits: u32,
    /// Their data, in units of 16 B; 0: no limit.
    pub completion_data_credits: u32,
    /// Whether H2C and C2H channel 0 have a packet mode.
    pub packets: bool,
    /// Whether each channel has a line in the push aperture, BAR4.
    pub push: bool,
    /// Whether H2C and C2H channel 0 reach the card's memory.
    pub memory: bool,
    /// Bits of the addresses of the window into that memory, BAR2; 0: it has none.
    pub window_bits: u32,
    /// Clock period, ps.
    pub clock_ps: u64,
    /// Completion time-out, clocks.
    pub timeout_clocks: u64,
}

/// Build parameters of a network processor with its links, those of the module
/// `crosslane_network_card`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkCardParameters {
    /// Width of the datapath in bytes: 8, 16, 32 or 64.
    pub datapath_bytes: u32,
    /// Number of links.
    pub links: u8,
    /// Slots of the put aperture for each channel of each link.
    pub put_slots: u8,
    /// Slots for get requests.
    pub get_slots: u16,
    /// Slots for credits.
    pub credit_slots: u16,
    /// Tags for reads of host memory, of each link.
    pub tags: u16,
    /// Longest read, bytes.
    pub max_read_bytes: u32,
    /// Staging memory of each channel of each link, bytes.
    pub staging_bytes: u32,
    /// Longest payload of a write, bytes.
    pub max_write_bytes: u32,
    /// Lanes of each link, eight bits of data of each in a clock. The pins have room for 8.
    pub lanes: u8,
    /// Whether the lanes have code 64b/66b, not 8b/10b.
    pub blocks: bool,
    /// Whether datagrams carry 256 B, not 128 B.
    pub long_datagrams: bool,
    /// Datagrams of each channel's receive buffer.
    pub channel_datagrams: u16,
    /// Datagrams of each channel's transmit queue.
    pub queue_datagrams: u8,
    /// Most datagrams in flight without acknowledgement.
    pub retry_datagrams: u8,
    /// Most datagrams that one acknowledgement covers.
    pub acknowledge_datagrams: u8,
    /// Longest wait of an acknowledgement, clocks.
    pub acknowledge_within_clocks: u64,
    /// Time without acknowledgement after which datagrams are repeated, clocks.
    pub retry_timeout_clocks: u64,
    /// Time after which COUNT is repeated, and at most NACK, clocks.
    pub refresh_clocks: u64,
    /// Nodes of the largest torus in which it routes, a power of two; 0: it does not route.
    pub nodes: u32,
    /// Clock period, and time of eight bits of data on a lane, ps.
    pub clock_ps: u64,
    /// Completion time-out, clocks.
    pub timeout_clocks: u64,
}

/// Symbols of 8b/10b in a word of a transceiver.
pub const SYMBOLS: u64 = 2;

impl NetworkCardParameters {
    /// Returns the clocks in which a lane's transceiver sends a word.
    pub const fn word_clocks(&self) -> u64 {
        if self.blocks { 8 } else { SYMBOLS }
    }

    /// Returns the line bits of a link's word: those of all its lanes.
    pub const fn word_bits(&self) -> u64 {
        (if self.blocks { 66 } else { 10 * SYMBOLS }) * self.lanes as u64
    }
}

/// Named set of a network processor's parameters for which a model can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkConfiguration {
    /// Name in file names and symbols.
    pub name: &'static str,
    /// Lab or variant whose network processors it models.
    pub of: &'static str,
    /// Build parameters.
    pub parameters: NetworkCardParameters,
}

/// Nodes of the largest torus in which the network processors of every lab route.
pub const MOST_NODES: u32 = 64;

/// This project's network processor in the hosts of the nget paper.
const OWN_NETWORK: NetworkCardParameters = NetworkCardParameters {
    datapath_bytes: 32,
    links: 6,
    put_slots: 16,
    get_slots: 64,
    credit_slots: 64,
    tags: 32,
    max_read_bytes: 512,
    staging_bytes: 8192,
    max_write_bytes: 128,
    lanes: 8,
    blocks: false,
    long_datagrams: false,
    channel_datagrams: 64,
    queue_datagrams: 16,
    retry_datagrams: 32,
    acknowledge_datagrams: 8,
    acknowledge_within_clocks: 204,
    retry_timeout_clocks: 855,
    refresh_clocks: 447,
    nodes: MOST_NODES,
    clock_ps: 4000,
    timeout_clocks: 12_500_000,
};

/// A network processor with as little of everything as it can have, so that everything runs full.
const SMALL_NETWORK: NetworkCardParameters = NetworkCardParameters {
    datapath_bytes: 16,
    links: 2,
    put_slots: 4,
    get_slots: 8,
    credit_slots: 8,
    tags: 4,
    max_read_bytes: 256,
    staging_bytes: 1024,
    channel_datagrams: 2,
    queue_datagrams: 2,
    retry_datagrams: 5,
    acknowledge_datagrams: 2,
    acknowledge_within_clocks: 102,
    retry_timeout_clocks: 3200,
    refresh_clocks: 1100,
    ..OWN_NETWORK
};

/// This project's network processor with 64b/66b and datagrams of 256 B.
const DENSE_NETWORK: NetworkCardParameters = NetworkCardParameters {
    links: 2,
    max_write_bytes: 256,
    blocks: true,
    long_datagrams: true,
    acknowledge_within_clocks: 396,
    retry_timeout_clocks: 1584,
    refresh_clocks: 2904,
    clock_ps: 3300,
    timeout_clocks: 15_151_515,
    ..OWN_NETWORK
};

/// All configurations of network processors that can be built.
pub const NETWORK_CONFIGURATIONS: [NetworkConfiguration; 4] = [
    NetworkConfiguration { name: "six_links", of: "nget:crosslane", parameters: OWN_NETWORK },
    NetworkConfiguration { name: "two_dense_links", of: "nget:dense", parameters: DENSE_NETWORK },
    NetworkConfiguration {
        name: "two_links",
        of: "the tori of the torture",
        parameters: SMALL_NETWORK,
    },
    NetworkConfiguration {
        name: "two_small_dense_links",
        of: "the tori of the torture",
        parameters: NetworkCardParameters {
            blocks: true,
            long_datagrams: true,
            acknowledge_within_clocks: 198,
            retry_timeout_clocks: 6400,
            refresh_clocks: 2200,
            clock_ps: DENSE_NETWORK.clock_ps,
            timeout_clocks: DENSE_NETWORK.timeout_clocks,
            ..SMALL_NETWORK
        },
    },
];

/// Named set of card parameters for which a model can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Name in file names and symbols.
    pub name: &'static str,
    /// Lab or variant whose engines it models.
    pub of: &'static str,
    /// Build parameters.
    pub parameters: CardParameters,
}

/// Parameters of this project's engine in every lab.
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
    completion_header_credits: 0,
    completion_data_credits: 0,
    packets: false,
    push: false,
    memory: false,
    window_bits: 0,
    clock_ps: 4000,
    timeout_clocks: 12_500_000,
};

/// All configurations that can be built.
pub const CONFIGURATIONS: [Configuration; 6] = [
    Configuration { name: "gen2x4", of: "rosta:crosslane", parameters: OWN },
    Configuration {
        name: "gen3x4",
        of: "minimal",
        parameters: CardParameters {
            datapath_bytes: 32,
            max_write_bytes: 512,
            lane_window_bytes: 131_072,
            packets: true,
            ..OWN
        },
    },
    Configuration {
        name: "gen2x4buffer",
        of: "rosta:crosslane with a receive buffer for 72 completions",
        parameters: CardParameters {
            completion_header_credits: 72,
            completion_data_credits: 850,
            ..OWN
        },
    },
    Configuration {
        name: "gen3x8push",
        of: "pciebench:crosslane",
        parameters: CardParameters {
            datapath_bytes: 32,
            tags: 128,
            max_read_bytes: 512,
            staging_bytes: 32_768,
            lane_window_bytes: 131_072,
            fetch_batch: 128,
            push: true,
            ..OWN
        },
    },
    Configuration {
        name: "gen2x4memory",
        of: "rosta:memory",
        parameters: CardParameters { memory: true, window_bits: 28, ..OWN },
    },
    Configuration {
        name: "kc705",
        of: "kc705:crosslane",
        parameters: CardParameters {
            datapath_bytes: 16,
            lanes: 1,
            lane_window_bytes: 65_536,
            memory: true,
            clock_ps: 8000,
            timeout_clocks: 6_250_000,
            ..OWN
        },
    },
];

/// Circuit of the tests, used in place of a card.
pub const STAND_IN: Configuration =
    Configuration { name: "stand_in", of: "the tests of this crate", parameters: OWN };
