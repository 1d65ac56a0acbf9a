// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A flow in one word: `FROM:TO:KIND:SIZE[:PAYLOAD]`, or `FROM:TO:PRESET`; `*` stands for every
//! endpoint.

use std::fmt;
use std::str::FromStr;

use crosslane_fabric::{FlowKind, Node, NodeKind};
use crosslane_lab::RunningLab;
use crosslane_results::quantity::{SizeList, parse_payload, short_size};

use super::plan::{FlowRequest, bars_of, find, split_place};

/// Returns a kind of flow: `write`, `read`, `writeread`.
pub const fn kind_word(kind: FlowKind) -> &'static str {
    match kind {
        FlowKind::Write => "write",
        FlowKind::Read => "read",
        FlowKind::WriteRead => "writeread",
    }
}

/// Form of a flow's argument.
const FORM: &str = "FROM:TO:KIND:SIZE or FROM:TO:KIND:SIZE:PAYLOAD";

/// Name of every endpoint.
const EVERY: &str = "*";

/// Operations of real devices: name, kind and size. Descriptors, status and
/// interrupts are left out.
const PRESETS: [(&str, FlowKind, u64); 4] = [
    // Frames of 1500 B, each into or out of one buffer.
    ("nic-receive", FlowKind::Write, 1500),
    ("nic-transmit", FlowKind::Read, 1500),
    // Blocks of 4 KiB: what a host reads from a drive, the drive writes.
    ("nvme-read", FlowKind::Write, 4096),
    ("nvme-write", FlowKind::Read, 4096),
];

/// Word of a flow from one endpoint to another by way of host memory.
pub(crate) const COPY: &str = "copy";

/// Returns the kind of a flow by its word, and the size of its operations if it is a preset.
fn kind_of(word: &str) -> Result<(FlowKind, Option<u64>), String> {
    if word == COPY {
        return Ok((FlowKind::Write, None));
    }
    let kinds = [FlowKind::Write, FlowKind::Read, FlowKind::WriteRead];
    let plain = kinds.into_iter().map(|kind| (kind_word(kind), kind, None));
    let presets = PRESETS.into_iter().map(|(name, kind, bytes)| (name, kind, Some(bytes)));
    let mut all = plain.chain(presets);
    match all.clone().find(|(name, ..)| *name == word) {
        Some((_, kind, bytes)) => Ok((kind, bytes)),
        None => {
            let mut known: Vec<&str> = all.by_ref().map(|(name, ..)| name).collect();
            known.insert(3, COPY);
            Err(format!("{word} is not a kind of flow; known are {}", known.join(", ")))
        }
    }
}

/// A flow as the user wrote it; names are not looked up yet.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowArgument {
    /// The requester: an endpoint, or a host (its processor).
    pub from: String,
    /// Owner of the memory: a host, or an endpoint, whose first BAR leads to it.
    pub to: String,
    /// Kind of the operations; of a copy, that of the endpoint that it comes from.
    pub kind: FlowKind,
    /// Whether data go from one endpoint to another by way of host memory.
    pub is_copy: bool,
    /// Sizes of one operation.
    pub sizes: SizeList,
    /// Longest payload of a write TLP or longest read request, if the user wants another one
    /// than the function's setting.
    pub payload_bytes: Option<u32>,
}

impl FlowArgument {
    /// The flow with operations of this size; both flows of a copy.
    pub fn requests(&self, operation_bytes: u64) -> Vec<FlowRequest> {
        let flows = match self.is_copy {
            true => FlowRequest::copy(&self.from, &self.to, operation_bytes).into(),
            false => vec![FlowRequest::new(&self.from, &self.to, self.kind, operation_bytes)],
        };
        let asked = |flow: FlowRequest| {
            let label = format!("--flow {self}");
            flow.with_label(label).with_payload_bytes(self.payload_bytes)
        };
        flows.into_iter().map(asked).collect()
    }

    /// Returns the flows that it stands for in a lab: with `*`, one from each endpoint, to each
    /// endpoint with a BAR, or for each pair of them below one host; without, itself.
    pub fn expanded(&self, lab: &RunningLab) -> Vec<Self> {
        let fabric = &lab.fabric;
        let has_bars = |node: &Node| !bars_of(fabric, node).is_empty();
        let names = |name: &str, is_target: bool| -> Vec<String> {
            if name != EVERY {
                return vec![name.to_owned()];
            }
            let nodes = fabric.nodes().iter().filter(|node| node.kind == NodeKind::Endpoint);
            let nodes = nodes.filter(|node| !is_target || self.is_copy || has_bars(node));
            nodes.map(|node| node.name.clone()).collect()
        };
        if self.from != EVERY && self.to != EVERY {
            return vec![self.clone()];
        }
        let node = |name: &str| find(lab, name).map(|id| (id, fabric.node(id).host));
        let targets = names(&self.to, true);
        let is_pair = |from: &str, to: &str| match (node(from), node(split_place(to).0)) {
            (Some((from, of_from)), Some((to, of_to))) => from != to && of_from == of_to,
            // That there is no such node is said when the flow is planned.
            _ => true,
        };
        let flow = |from: &str, to: &str| {
            let (from, to) = (from.to_owned(), to.to_owned());
            Self { from, to, ..self.clone() }
        };
        let of = |from: &String| {
            let to = targets.iter().filter(|to| is_pair(from, to));
            to.map(|to| flow(from, to)).collect::<Vec<_>>()
        };
        names(&self.from, false).iter().flat_map(of).collect()
    }
}

impl FromStr for FlowArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let (from, to, kind, size, payload) = match parts[..] {
            [from, to, preset] if matches!(kind_of(preset), Ok((_, Some(_)))) => {
                (from, to, preset, None, None)
            }
            [from, to, kind, size] => (from, to, kind, Some(size), None),
            [from, to, kind, size, payload] => (from, to, kind, Some(size), Some(payload)),
            [_] => return Err(format!("{text} has 1 part; a flow is {FORM}")),
            _ => return Err(format!("{text} has {} parts; a flow is {FORM}", parts.len())),
        };
        if from.is_empty() || to.is_empty() {
            return Err(format!("{text} lacks a name; a flow is {FORM}"));
        }
        let is_copy = kind == COPY;
        let (kind, own_bytes) = kind_of(kind)?;
        let payload_bytes = payload.map(parse_payload).transpose();
        let payload_bytes = payload_bytes.map_err(|error| format!("a payload of {error}"))?;
        let sizes = match (size, own_bytes) {
            (None, Some(bytes)) => SizeList::from(bytes),
            (size, _) => size.unwrap_or_default().parse()?,
        };
        Ok(Self { from: from.into(), to: to.into(), kind, is_copy, sizes, payload_bytes })
    }
}

impl fmt::Display for FlowArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_copy { COPY } else { kind_word(self.kind) };
        write!(f, "{}:{}:{kind}:{}", self.from, self.to, self.sizes)?;
        match self.payload_bytes {
            Some(bytes) => write!(f, ":{}", short_size(bytes.into())),
            None => Ok(()),
        }
    }
}

/// Returns the flows of each run in which all go at once: one run for each size of the ranges,
/// which all have the same number of sizes, or one.
///
/// # Errors
/// A range whose number of sizes is another.
pub fn at_once(flows: &[FlowArgument]) -> Result<Vec<Vec<FlowRequest>>, String> {
    let sizes: Vec<Vec<u64>> = flows.iter().map(|flow| flow.sizes.sizes().collect()).collect();
    let count = sizes.iter().map(Vec::len).max().unwrap_or(0);
    for (flow, sizes) in flows.iter().zip(&sizes) {
        if sizes.len() != 1 && sizes.len() != count {
            return Err(format!(
                "--flow {flow}: a range of {} sizes beside one of {count}; ranges of one run need \
                 the same number of sizes",
                sizes.len()
            ));
        }
    }
    let of_run = |index: usize| {
        let requests = flows.iter().zip(&sizes);
        requests
            .flat_map(|(flow, sizes)| flow.requests(sizes[index.min(sizes.len() - 1)]))
            .collect()
    };
    Ok((0..count).map(of_run).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read_and_written() {
        for text in [
            "fpga1:host:write:64", "a:b:read:64..1M", "cpu:x-1.y:writeread:4K:256",
            "*:*:write:64,1K..4K", "gpu0:gpu1:copy:4M",
        ] {
            assert_eq!(text.parse::<FlowArgument>().unwrap().to_string(), text);
        }
        for (text, same) in [
            ("nic0:host:nic-receive", "nic0:host:write:1500"),
            ("nic0:host:nic-transmit:64,9000", "nic0:host:read:64,9000"),
            ("drive:host:nvme-read", "drive:host:write:4K"),
            ("drive:gpu0:nvme-write:8K:512", "drive:gpu0:read:8K:512"),
        ] {
            assert_eq!(text.parse::<FlowArgument>(), same.parse(), "{text}");
        }
    }

    #[test]
    fn each_part_that_is_wrong_is_named() {
        for (text, error) in [
            ("a:b:write", "a:b:write has 3 parts; a flow is "),
            ("fpga1", "fpga1 has 1 part; a flow is "),
            ("a:b:write:1:2:3", "a:b:write:1:2:3 has 6 parts; a flow is "),
            (":b:write:64", ":b:write:64 lacks a name; "),
            (
                "a:b:move:64",
                "move is not a kind of flow; known are write, read, writeread, copy, nic-receive",
            ),
            ("a:b:nvme", "a:b:nvme has 3 parts; a flow is "),
            ("a:b:write:64Q", "64Q is not a size"),
            ("a:b:write:64:100", "a payload of 100 is not a power of two from 4 to 4096 bytes"),
            ("a:b:write:64:8K", "a payload of 8K is not a power of two from 4 to 4096 bytes"),
        ] {
            let found = text.parse::<FlowArgument>().unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
