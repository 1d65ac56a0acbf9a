// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows of data, and their latencies as five numbers.

use serde::{Deserialize, Serialize};

/// Outcome of one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Name of the flow, made of its ends: `fpga1 -> host`.
    pub name: String,
    /// Bytes of one transfer.
    pub bytes: u64,
    /// Number of transfers.
    pub iterations: u64,
    /// Most transfers in flight at once.
    pub in_flight: Option<u64>,
    /// Duration of a transfer, if each has one.
    pub latency: Option<Latencies>,
    /// Rate as the application sees it.
    pub application_bytes_per_second: Option<f64>,
    /// Rate by the engines' timers.
    pub hardware: Option<Hardware>,
    /// The rate, if there is only one.
    pub bytes_per_second: Option<f64>,
    /// Rate that the links allow.
    pub ceiling: Option<Ceiling>,
    /// Rate as a share of the ceiling less DLLPs.
    pub share_of_ceiling: Option<f64>,
    /// Values of one kind of benchmark.
    #[serde(flatten)]
    pub detail: Detail,
}

impl Flow {
    /// Returns the rate by the engines' timers, or the only rate.
    pub fn rate(&self) -> Option<f64> {
        let hardware = self.hardware.as_ref().map(|hardware| hardware.bytes_per_second);
        hardware.or(self.bytes_per_second).or(self.application_bytes_per_second)
    }
}

/// Methods that return the details of one kind of benchmark.
macro_rules! details {
    ($($name:ident: $kind:ident, $what:literal;)*) => {
        impl Flow {
            $(
                #[doc = concat!("Returns ", $what, ", if the flow has such details.")]
                pub fn $name(&self) -> Option<&$kind> {
                    match &self.detail {
                        Detail::$kind(detail) => Some(detail),
                        _ => None,
                    }
                }
            )*
        }
    };
}

details! {
    transfers: Transfers, "the transfers of engines";
    traffic: Traffic, "the generated traffic";
    gets: Gets, "the gets of a network processor";
    exchange: Exchange, "the exchanges of a halo";
    soak: LinkSoak, "the test of a torus link";
    stores: Stores, "the stores of a processor";
}

/// Time and data between two readings of the engines' timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hardware {
    /// Payload bytes.
    pub bytes: u64,
    /// Begin of the first data TLP.
    pub first_ps: u64,
    /// End of the last data TLP.
    pub last_ps: u64,
    /// Rate between the two.
    pub bytes_per_second: f64,
}

/// Rate that the links allow for the TLPs of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Rate with nothing but TLPs on the link.
    pub bytes_per_second: f64,
    /// Ceiling less the DLLPs of the run, bytes per second.
    pub less_dllps_bytes_per_second: f64,
    /// Average payload of a TLP, bytes.
    #[serde(default)]
    pub payload_bytes: f64,
    /// TLPs that carry the data: `writes` or `completions`.
    #[serde(default)]
    pub carrier: String,
    /// Length of their headers, DW.
    #[serde(default)]
    pub header_dw: u32,
    /// Whether the TLPs were estimated, not counted.
    #[serde(default)]
    pub is_estimate: bool,
    /// Direction of the link that sets the ceiling.
    pub direction: Option<String>,
}

/// Values of a flow that only one kind of benchmark has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Detail {
    /// Transfers of engines.
    Transfers(Box<Transfers>),
    /// Generated traffic.
    Traffic(Traffic),
    /// Gets of a network processor.
    Gets(Gets),
    /// Exchanges of a halo.
    Exchange(Exchange),
    /// Test of a torus link, as one of its ends saw it.
    LinkSoak(Box<LinkSoak>),
    /// Stores of a processor.
    Stores(Stores),
    /// Details of a benchmark that this version does not know.
    Unknown {},
}

impl Default for Detail {
    fn default() -> Self {
        Self::Unknown {}
    }
}

/// Transfers of engines through the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfers {
    /// Bytes of all transfers.
    pub moved_bytes: u64,
    /// Begin of the first transfer, as the application sees it.
    pub started_ps: u64,
    /// End of the last transfer.
    pub ended_ps: u64,
    /// Time from the first post to the first data TLP or read request.
    pub post_to_first_tlp_ps: Option<u64>,
    /// Time for the registration of memory.
    pub registration_ps: Option<u64>,
    /// The path and its expected rate.
    pub plan: PlanSummary,
    /// Words of 4 B that differ from those sent.
    pub wrong_words: u64,
    /// Index of the first such word in the stream.
    pub first_wrong_word: Option<u64>,
    /// Counters of the channels, in the direction of the data.
    pub channels: Vec<Channel>,
    /// Counters of the receive queues, in the direction of the data.
    pub lanes: Vec<ReceiveQueue>,
}

/// The path of a flow, as the driver plans it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanSummary {
    /// Names of the functions on the path.
    pub path: Vec<String>,
    /// Longest payload that all of them take.
    pub max_payload_bytes: u32,
    /// Rate that the path allows.
    pub expected_bytes_per_second: f64,
    /// The slowest link.
    pub slowest_link: String,
    /// Whether the path crosses the root complex.
    pub through_root_complex: bool,
    /// Reasons for which there is no faster path.
    pub not_faster: Vec<String>,
}

/// Counters of an engine's channel; clocks are those of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// The device.
    pub device: String,
    /// `h2c`, `c2h` or `peer`.
    pub kind: String,
    /// Duration of a clock.
    pub clock_ps: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Write TLPs or read requests.
    pub tlps: u32,
    /// Descriptors fetched.
    pub fetched: u32,
    /// Clock of the first TLP.
    pub first_clocks: u64,
    /// Clock of the last TLP or of the last data.
    pub last_clocks: u64,
    /// Clocks without a descriptor while data moved.
    pub no_descriptor_clocks: u64,
    /// Clocks without data in the stream.
    pub no_data_clocks: u32,
    /// Clocks without a tag.
    pub no_tag_clocks: u32,
    /// Clocks in which the link was not ready.
    pub link_clocks: u32,
    /// Clocks without credit from the peer.
    pub no_credit_clocks: u32,
    /// Clocks between descriptors.
    pub gap_clocks: u32,
}

/// Counters of an engine's receive queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveQueue {
    /// The device.
    pub device: String,
    /// Number of the receive queue.
    pub lane: u8,
    /// Duration of a clock.
    pub clock_ps: u64,
    /// Bytes that arrived.
    pub received_bytes: u32,
    /// Bytes that were taken from it.
    pub drained_bytes: u32,
    /// Whether data arrived for which it had no room.
    pub overflow: bool,
    /// Clock of the first data.
    pub first_clocks: u64,
    /// Clock of the last data.
    pub last_clocks: u64,
}

/// Generated traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The requester.
    pub from: String,
    /// The target.
    pub to: String,
    /// `write`, `read` or `writeread`.
    pub kind: String,
    /// Whether the requester is a core of a host.
    pub is_core: bool,
    /// Whether the core reads write-combined memory by streaming loads, which read whole lines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_streaming: bool,
    /// Operations that failed.
    pub failed: u64,
    /// Operations that the requester may have outstanding.
    pub outstanding: u32,
    /// Bus address of the target.
    pub target: u64,
    /// Bytes of all operations.
    pub moved_bytes: u64,
    /// Requests.
    pub request_tlps: u64,
    /// Rate without begin and end.
    pub steady_bytes_per_second: Option<f64>,
}

/// Gets of a network processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gets {
    /// The endpoint.
    pub node: String,
    /// Modes of buffers, requests and waiting, in words.
    pub modes: String,
    /// Gets posted in one round of the loop.
    pub per_loop: u32,
    /// Rounds of the loop.
    pub loops: u64,
    /// Duration of all, nanoseconds.
    pub elapsed_ns: f64,
    /// Duration of one get in the pipeline, nanoseconds.
    pub interval_ns: f64,
    /// Duration of a get.
    pub latency_ps: Latencies,
    /// Datagrams received.
    pub datagrams: u64,
    /// Gets whose data were compared, after the measurement.
    #[serde(default)]
    pub gets_compared: u32,
    /// Gets with wrong data.
    #[serde(default)]
    pub gets_wrong: u32,
    /// Average payload of a completion, bytes; in a lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_bytes: Option<f64>,
    /// Rate that the link allows for these completions; in a lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_bytes_per_second: Option<f64>,
    /// Ceiling less DLLPs; in a lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_less_dllps_bytes_per_second: Option<f64>,
}

/// Exchanges of a halo between the nodes of a torus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Number of nodes.
    pub nodes: usize,
    /// Nodes in each dimension.
    pub sizes: Vec<u16>,
    /// Duration of an exchange, nanoseconds.
    pub exchange_ns: f64,
    /// Receive buffers that were compared.
    pub buffers_compared: u64,
    /// Buffers with wrong data.
    pub buffers_wrong: u64,
    /// Duration of all exchanges, nanoseconds.
    #[serde(default)]
    pub elapsed_ns: f64,
    /// Directions in which a node exchanges.
    #[serde(default)]
    pub directions: usize,
    /// Bytes of the largest face.
    #[serde(default)]
    pub face_bytes: u64,
    /// Rate of a torus link.
    #[serde(default)]
    pub link_bytes_per_second: f64,
    /// Rate that a torus link allows; in a lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_rate_bytes_per_second: Option<f64>,
    /// Rate that the link of a host allows; in a lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_rate_bytes_per_second: Option<f64>,
}

/// Test of a torus link with generator and checker, as one of its ends saw it. Counters are those
/// of this end, over the test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSoak {
    /// The network processor.
    pub node: String,
    /// Number of the link.
    pub link: u8,
    /// The network processor at the other end of the cable.
    pub far_node: String,
    /// Number of its link.
    pub far_link: u8,
    /// State of the link at the end: `up` if all is well.
    pub state: String,
    /// Lanes.
    pub lanes: u8,
    /// Line bits per second of each lane.
    pub lane_bits_per_second: u64,
    /// Duration of the test, nanoseconds.
    pub elapsed_ns: f64,
    /// Datagrams that the generator has sent from here.
    pub sent: u64,
    /// Datagrams of the other end that the checker here found right.
    pub right: u64,
    /// Datagrams of the other end that the checker here found wrong.
    pub wrong: u64,
    /// Datagrams that the other end has sent and that did not come.
    pub lost: u64,
    /// Payload of the datagrams that came, as a share of the line bits.
    pub share_of_line: f64,
    /// The same as a share of the payload that a direction alone can carry; in a lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_payload_rate: Option<f64>,
    /// Datagrams sent again.
    pub repeated: u64,
    /// Damaged frames received.
    pub damaged: u64,
    /// NACK commands sent.
    pub nacks: u64,
    /// RESTART commands sent.
    pub restarts: u64,
    /// Time-outs of the oldest unacknowledged datagram.
    pub timeouts: u64,
    /// Trainings since the device's reset.
    pub trainings: u64,
    /// Times that the link has gone down during the test.
    pub losses: u64,
    /// Skip columns or rows dropped by the elastic buffer, and columns doubled.
    #[serde(default)]
    pub dropped: u64,
    /// See `dropped`.
    #[serde(default)]
    pub doubled: u64,
    /// Times that the elastic buffer was empty or full.
    #[serde(default)]
    pub slipped: u64,
    /// Symbols, or sync headers of 64b/66b, that came wrong on each lane.
    #[serde(default)]
    pub lane_errors: Vec<u64>,
    /// Line bits that passed during the test.
    pub line_bits: f64,
    /// Damaged frames for each line bit: about the rate of wrong bits while that is low.
    pub damage_per_bit: f64,
    /// Bound of the rate of wrong bits, with a confidence of 95 %, if nothing was damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit_error_rate_below: Option<f64>,
}

/// Stores of a processor into a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stores {
    /// Duration of all passes, nanoseconds.
    pub elapsed_ns: f64,
    /// Duration of the last fence, nanoseconds.
    pub fence_ns: f64,
    /// Words of 4 B that differ from those sent.
    pub wrong_words: u64,
    /// Writes by their length.
    pub writes_by_length: Vec<WritesByLength>,
    /// Beats that each bank of the device took.
    pub beats_by_bank: Vec<u32>,
}

/// Number of writes in a class of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritesByLength {
    /// Largest length in the class.
    pub up_to_bytes: u32,
    /// Number of writes in the class.
    pub writes: u32,
}

/// Latencies of many operations as five numbers, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Shortest.
    pub min_ps: u64,
    /// Median: half of the operations took no longer.
    pub typical_ps: u64,
    /// Mean.
    pub average_ps: u64,
    /// 99 of 100 operations took no longer.
    pub p99_ps: u64,
    /// Longest.
    pub max_ps: u64,
}

impl Latencies {
    /// Computes the five numbers of latencies in any order; all are 0 without latencies.
    pub fn of(mut latencies_ps: Vec<u64>) -> Self {
        if latencies_ps.is_empty() {
            return Self::default();
        }
        latencies_ps.sort_unstable();
        let sum: u128 = latencies_ps.iter().map(|&ps| u128::from(ps)).sum();
        let average = (sum + latencies_ps.len() as u128 / 2) / latencies_ps.len() as u128;
        Self {
            min_ps: latencies_ps[0],
            typical_ps: percentile(&latencies_ps, 50),
            average_ps: average as u64,
            p99_ps: percentile(&latencies_ps, 99),
            max_ps: latencies_ps[latencies_ps.len() - 1],
        }
    }
}

/// Returns the least value that `percent` percent of the sorted values do not exceed (nearest
/// rank).
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_and_of_one() {
        assert_eq!(Latencies::of(Vec::new()), Latencies::default());
        let one = Latencies::of(vec![7]);
        let all = [one.min_ps, one.typical_ps, one.average_ps, one.p99_ps, one.max_ps];
        assert_eq!(all, [7; 5]);
    }

    #[test]
    fn of_a_hundred_in_any_order() {
        let latencies = Latencies::of((1..=100).rev().collect());
        let expected =
            Latencies { min_ps: 1, typical_ps: 50, average_ps: 51, p99_ps: 99, max_ps: 100 };
        assert_eq!(latencies, expected);
    }

    #[test]
    fn huge_values_do_not_overflow() {
        assert_eq!(Latencies::of(vec![u64::MAX; 4]).average_ps, u64::MAX);
    }
}
