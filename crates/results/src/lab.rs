// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab files: those that are shipped, their constants, and remarks of their check.

use serde::{Deserialize, Serialize};

/// A lab made from dumps of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabImport {
    /// Name of the lab.
    pub lab: String,
    /// Its endpoints, by address.
    pub endpoints: Vec<ImportedEndpoint>,
    /// Parts of the library that its devices were taken for.
    pub parts: Vec<ImportedPart>,
    /// Gaps of the dumps, which the lab assumes or leaves out, a sentence each.
    pub gaps: Vec<String>,
}

/// An endpoint of a lab made from dumps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedEndpoint {
    /// Name in the lab.
    pub name: String,
    /// Address on the machine.
    pub address: String,
    /// Vendor ID, hexadecimal.
    pub vendor: String,
    /// Device ID, hexadecimal.
    pub device: String,
    /// Class of the device in words.
    pub class_words: String,
    /// Name that a dump gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub described: Option<String>,
    /// Its link as it has trained: `Gen3 x8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The best link that it supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_link: Option<String>,
    /// Its NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
}

/// Devices of a machine that were taken for a part of the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedPart {
    /// Name of the part.
    pub part: String,
    /// Kind of the part: `root-complex`, `switch` or `endpoint`.
    pub kind: String,
    /// Description of the part.
    pub summary: String,
    /// Whether the part is known by the devices' IDs or their class; otherwise it stands for all
    /// that no part is known for.
    pub is_match: bool,
    /// Addresses of root ports, upstream ports of switches, or endpoints.
    pub devices: Vec<String>,
}

/// The labs that are shipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabList {
    /// The labs.
    pub labs: Vec<LabSummary>,
}

/// A lab that is shipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabSummary {
    /// Name of the lab.
    pub name: String,
    /// Purpose of the lab.
    pub summary: String,
    /// Variants of the lab.
    pub variants: Vec<VariantSummary>,
}

/// A variant of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantSummary {
    /// Name of the variant.
    pub name: String,
    /// Purpose of the variant.
    pub summary: String,
}

/// The constants of a lab with their provenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabConstants {
    /// Name of the lab.
    pub lab: String,
    /// Purpose of the lab.
    pub summary: String,
    /// The paper that it reproduces.
    pub source: Option<String>,
    /// The variant in force.
    pub variant: Option<String>,
    /// Variants of the lab.
    pub variants: Vec<VariantSummary>,
    /// The constants in force.
    pub constants: Vec<LabConstant>,
}

/// A constant of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabConstant {
    /// Table and key of the constant.
    pub path: String,
    /// Value of the constant.
    pub value: String,
    /// Low end of its range, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<String>,
    /// High end of its range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<String>,
    /// Unit of the value; may be empty.
    pub unit: String,
    /// Kind of its source: `fit`, `assumption`.
    pub provenance: String,
    /// Source of the value.
    pub source: String,
    /// Line of the constant in the file.
    pub line: usize,
}

/// Outcome of the check of a lab file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabFileCheck {
    /// The file.
    pub file: String,
    /// The lab and each of its variants.
    pub checked: Vec<LabCheck>,
}

/// A lab that can be built, and remarks on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabCheck {
    /// Name of the lab.
    pub lab: String,
    /// The variant in force.
    pub variant: Option<String>,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of PCI Express links.
    pub links: usize,
    /// Number of functions.
    pub functions: usize,
    /// Number of constants.
    pub constants: usize,
    /// Probable mistakes.
    pub warnings: Vec<LabRemark>,
    /// Properties that limit runs, as in a real machine.
    pub notes: Vec<LabRemark>,
}

/// A property of a lab that slows runs or makes them impossible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabRemark {
    /// Kind of the property.
    pub kind: LabRemarkKind,
    /// Names of the nodes that have it.
    pub nodes: Vec<String>,
    /// The property in words.
    pub sentence: String,
}

/// Kind of a remark on a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabRemarkKind {
    /// An endpoint's datapath carries less than its link.
    Datapath,
    /// The link above a switch carries less than those below it together.
    Oversubscribed,
    /// A host forbids peer-to-peer requests between its root ports.
    ForbiddenPeers,
    /// A link runs in FLIT mode, of which only the rate is modelled.
    FlitMode,
}
