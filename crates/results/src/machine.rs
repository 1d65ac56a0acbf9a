// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCI functions of a machine: their description, the findings of the doctor, and the outcomes
//! of commands that change or test them.
//!
//! Addresses are written as `lspci -D` writes them, IDs and class codes as hexadecimal digits.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::explanation::Explanation;

/// Functions of a machine in few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionList {
    /// The functions, in the order of their addresses.
    pub functions: Vec<FunctionSummary>,
}

/// One function in few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSummary {
    /// Domain, bus, device and function number.
    pub address: String,
    /// Vendor ID.
    pub vendor: String,
    /// Device ID.
    pub device: String,
    /// Class code.
    pub class: String,
    /// Name of the class.
    pub class_words: String,
    /// Kind of endpoint, port or bridge.
    pub kind: String,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// Number of its IOMMU group.
    pub iommu_group: Option<u32>,
    /// Rate that its link has trained to: `Gen3 x4`.
    pub link: Option<String>,
    /// Highest rate that it supports.
    pub link_capability: Option<String>,
    /// The nearest NUMA node.
    pub numa_node: Option<u32>,
}

/// A function and the bridges above it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionPath {
    /// The function.
    pub function: Function,
    /// The bridges above it, the root port first.
    pub above: Vec<Function>,
    /// Place of a program's buffers for it: `node 1, that of the card`.
    #[serde(default)]
    pub buffers: String,
}

/// One function in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Domain, bus, device and function number.
    pub address: String,
    /// Kind of endpoint, port or bridge.
    pub kind: String,
    /// Whether `kind` was read from configuration space, not derived from the position.
    pub kind_is_read: bool,
    /// Vendor ID.
    pub vendor: String,
    /// Device ID.
    pub device: String,
    /// Class code.
    pub class: String,
    /// Name of the class.
    pub class_words: String,
    /// Revision ID.
    pub revision: u8,
    /// Subsystem vendor ID and subsystem ID.
    pub subsystem: String,
    /// The board, if it is one that this project has a bitstream for.
    #[serde(default)]
    pub board: Option<String>,
    /// Device serial number, 16 hexadecimal digits: on these boards, the bitstream's identity.
    #[serde(default)]
    pub serial_number: Option<String>,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// The only driver that may take it.
    pub driver_override: Option<String>,
    /// IOMMU group of the function.
    pub iommu_group: Option<IommuGroup>,
    /// The nearest NUMA node.
    pub numa_node: Option<u32>,
    /// Memory Space Enable.
    pub memory_enabled: Option<bool>,
    /// Bus Master Enable.
    pub bus_master: Option<bool>,
    /// Rate that its link has trained to.
    pub link: Option<LinkCode>,
    /// Highest rate that it supports.
    pub link_capability: Option<LinkCode>,
    /// Max_Payload_Size.
    pub max_payload_bytes: Option<u32>,
    /// Max_Payload_Size Supported.
    pub max_payload_supported_bytes: Option<u32>,
    /// Max_Read_Request_Size.
    pub max_read_request_bytes: Option<u32>,
    /// Extended Tag Field Enable.
    pub extended_tags: Option<bool>,
    /// Extended Tag Field Supported.
    pub extended_tags_supported: Option<bool>,
    /// 10-Bit Tag Requester Enable.
    pub ten_bit_tags: Option<bool>,
    /// 10-Bit Tag Requester Supported.
    #[serde(default)]
    pub ten_bit_tags_supported: Option<bool>,
    /// Enable Relaxed Ordering.
    pub relaxed_ordering: Option<bool>,
    /// Function Level Reset Capability.
    #[serde(default)]
    pub function_level_reset: Option<bool>,
    /// Bytes of configuration space that could be read.
    #[serde(default)]
    pub configuration_bytes: usize,
    /// Vectors of MSI and MSI-X.
    pub interrupt_vectors: u32,
    /// Access control services that are on.
    pub acs_enabled: Option<String>,
    /// Whether requests between peers are redirected to the root complex.
    pub acs_redirects: Option<bool>,
    /// Memory BARs.
    pub bars: Vec<Bar>,
    /// Errors that the kernel has counted.
    pub errors: Option<ErrorCounts>,
}

/// Functions that the IOMMU cannot tell apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IommuGroup {
    /// Number of the group.
    pub number: u32,
    /// Translation for the kernel's own drivers: `DMA`, `DMA-FQ`, `identity`; may be empty.
    #[serde(rename = "type")]
    pub kind: String,
    /// Addresses of its functions.
    pub members: Vec<String>,
}

/// Speed and width of a link, as Link Status has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCode {
    /// Generation.
    pub generation: u8,
    /// Width.
    pub lanes: u8,
}

/// Writes `Gen3 x8`, or `down`.
impl fmt::Display for LinkCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { generation: 0, .. } | Self { lanes: 0, .. } => f.write_str("down"),
            Self { generation, lanes } => write!(f, "Gen{generation} x{lanes}"),
        }
    }
}

/// A memory BAR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// Number of the BAR.
    pub index: usize,
    /// First bus address.
    pub address: String,
    /// Size.
    pub bytes: u64,
    /// 32 or 64.
    pub bits: u8,
    /// Whether reads of it have no side effect.
    pub prefetchable: bool,
    /// Whether it can be mapped write-combined.
    #[serde(default)]
    pub write_combined: bool,
}

/// Counters of Advanced Error Reporting other than 0, by the kernel's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCounts {
    /// Errors that hardware has corrected.
    pub correctable: BTreeMap<String, u64>,
    /// Uncorrected errors after which the link is still reliable.
    pub non_fatal: BTreeMap<String, u64>,
    /// Uncorrected errors after which the link is unreliable.
    pub fatal: BTreeMap<String, u64>,
}

/// Writes `3 RxErr (correctable), 1 DLP (fatal)`, or `none`.
impl fmt::Display for ErrorCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("correctable", &self.correctable),
            ("non-fatal", &self.non_fatal),
            ("fatal", &self.fatal),
        ];
        let words = kinds.iter().flat_map(|(kind, counts)| {
            counts.iter().map(move |(name, count)| format!("{count} {name} ({kind})"))
        });
        let words: Vec<String> = words.collect();
        match words.is_empty() {
            true => f.write_str("none"),
            false => f.write_str(&words.join(", ")),
        }
    }
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// Fine.
    #[serde(rename = "ok")]
    Ok,
    /// Worth knowing.
    #[serde(rename = "note")]
    Note,
    /// Costs speed, or prevents use.
    #[serde(rename = "problem")]
    Problem,
}

impl Severity {
    /// Returns its word: `ok`, `note`, `problem`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// One property of a machine or a card that the doctor examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Severity.
    #[serde(rename = "state")]
    pub severity: Severity,
    /// The property.
    pub what: String,
    /// Value of the property, and why it matters.
    pub found: String,
    /// The remedy, a command if there is one; may be empty.
    pub help: String,
}

/// Counts the problems among findings.
pub fn problems(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.severity == Severity::Problem).count()
}

/// The doctor's findings on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineDiagnosis {
    /// All properties examined.
    pub findings: Vec<Finding>,
    /// Number of problems among them.
    pub problems: usize,
    /// Functions that a program may use.
    pub candidates: Vec<Candidate>,
    /// Addresses of functions that the system uses.
    pub kept: Vec<String>,
}

/// A function that a program may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Domain, bus, device and function number.
    pub address: String,
    /// Vendor ID.
    pub vendor: String,
    /// Device ID.
    pub device: String,
    /// Name of its class.
    pub class_words: String,
    /// The driver that it is bound to.
    pub driver: Option<String>,
}

/// The doctor's findings on a card, and rates of its paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardDiagnosis {
    /// Address of the card.
    pub address: String,
    /// All properties examined.
    pub findings: Vec<Finding>,
    /// Number of problems among them.
    pub problems: usize,
    /// Rates that the fabric model predicts.
    pub predicted: Vec<PredictedRate>,
    /// Reason for which no rate can be predicted.
    pub not_predicted: Option<String>,
    /// Measured rates; `None` if no measurement was requested.
    pub measured: Option<Vec<MeasuredRate>>,
    /// Reason for which no rate could be measured.
    pub not_measured: Option<String>,
    /// Lab file that was written of the card.
    pub lab: Option<PathBuf>,
}

/// Rate that the fabric model predicts for a path of a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedRate {
    /// The path: `writes to host memory`.
    pub what: String,
    /// Payload rate.
    pub bytes_per_second: Option<f64>,
    /// Highest rate of the path for such TLPs, less DLLPs.
    pub ceiling_bytes_per_second: Option<f64>,
    /// The limit of the rate, in words.
    pub bottleneck: String,
    /// Errors of the run.
    pub errors: Vec<String>,
    /// Reason for which the run never ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlock: Option<String>,
    /// Explanation of the rate.
    pub why: Option<Explanation>,
}

impl PredictedRate {
    /// Returns the rate as a share of its ceiling.
    pub fn share(&self) -> Option<f64> {
        let ceiling = self.ceiling_bytes_per_second.filter(|ceiling| *ceiling > 0.0)?;
        Some(self.bytes_per_second? / ceiling)
    }
}

/// Measured rate of a path of a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// The path, with the same name as in the prediction.
    pub what: String,
    /// Payload rate as the application sees it.
    pub application_bytes_per_second: f64,
    /// Payload rate by the engine's timers.
    pub hardware_bytes_per_second: f64,
}

/// A function that was bound to a driver, or given back to the kernel's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Address of the function.
    pub address: String,
    /// Driver of the function before.
    pub before: Option<String>,
    /// Driver of the function now.
    pub driver: Option<String>,
    /// Number of its IOMMU group.
    pub iommu_group: Option<u32>,
    /// Functions of the group that other drivers use, which prevents VFIO.
    pub in_the_way: Vec<BoundFunction>,
}

/// A function with its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundFunction {
    /// Address of the function.
    pub address: String,
    /// Driver of the function.
    pub driver: String,
}

/// A card that was removed, reconfigured and restored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reload {
    /// Address of the card.
    pub address: String,
    /// Address of the port above it.
    pub port: String,
    /// Time until it was restored.
    pub took_seconds: f64,
    /// Driver of the card now.
    pub driver: Option<String>,
    /// Settings that could not be restored, a sentence each.
    pub notes: Vec<String>,
    /// Errors that the port recorded meanwhile.
    pub recorded: Vec<String>,
}

/// Max_Payload_Size of the ports of a path, after it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadSizes {
    /// The ports of the path.
    pub ports: Vec<PortPayload>,
    /// Functions below these ports with a smaller size: packets may be too long for them.
    pub set_to_less: Vec<FunctionPayload>,
}

/// Max_Payload_Size of a port that was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortPayload {
    /// Address of the port.
    pub address: String,
    /// The size before.
    pub before_bytes: Option<u32>,
    /// The size now.
    pub bytes: Option<u32>,
}

/// Max_Payload_Size of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionPayload {
    /// Address of the function.
    pub address: String,
    /// The size.
    pub bytes: u32,
}

/// Outcome of a test of cards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTest {
    /// Names of the cards.
    pub devices: Vec<String>,
    /// The cards, as they were found.
    #[serde(default)]
    pub cards: Vec<TestedCard>,
    /// Random seed.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// Every step.
    pub steps: Vec<TestStep>,
    /// Number of steps that failed.
    pub failed: usize,
}

/// A card that was tested: what tells its report from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedCard {
    /// The card, as the steps name it.
    pub name: String,
    /// Vendor ID and device ID.
    pub identity: String,
    /// Subsystem vendor ID and subsystem ID.
    pub subsystem: String,
    /// The board, if it is one that this project has a bitstream for.
    pub board: Option<String>,
    /// Device serial number, 16 hexadecimal digits: on these boards, the bitstream's identity.
    pub serial_number: Option<String>,
    /// Rate that its link has trained to: `Gen3 x4`.
    pub link: Option<String>,
    /// Highest rate that it supports.
    pub link_capability: Option<String>,
    /// Max_Payload_Size, bytes.
    pub max_payload_bytes: Option<u32>,
    /// Max_Read_Request_Size, bytes.
    pub max_read_request_bytes: Option<u32>,
    /// The engine.
    pub engine: TestedEngine,
}

/// Build of an engine, as its registers give it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedEngine {
    /// Numbers of H2C, C2H and peer channels.
    pub channels: [u8; 3],
    /// Number of receive queues.
    pub lanes: u8,
    /// Number of tags for reads of data.
    pub tags: u16,
    /// Longest payload that it can build, bytes.
    pub max_write_bytes: u32,
    /// Longest read that it can ask for, bytes.
    pub max_read_bytes: u32,
    /// One clock, ps.
    pub clock_ps: u64,
}

/// One step of a test of cards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestStep {
    /// The card, or the two ends.
    pub place: String,
    /// The step.
    pub what: String,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Duration of the step by the clock of the card's bus, ps.
    pub took_ps: u64,
}
