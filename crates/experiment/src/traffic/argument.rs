// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A flow in one word: `FROM:TO:KIND:SIZE[:PAYLOAD]`.

use std::fmt;
use std::str::FromStr;

use crosslane_fabric::FlowKind;

use super::plan::FlowRequest;
use crosslane_results::quantity::short_size;

use crosslane_results::quantity::{SizeRange, parse_payload};

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

/// A flow as the user wrote it; names are not looked up yet.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowArgument {
    /// The requester: an endpoint, or a host (its processor).
    pub from: String,
    /// Owner of the memory: a host, or an endpoint, whose first BAR leads to it.
    pub to: String,
    /// Kind of the operations.
    pub kind: FlowKind,
    /// Sizes of one operation.
    pub sizes: SizeRange,
    /// Longest payload of a write TLP or longest read request, if the user wants another one
    /// than the function's setting.
    pub payload_bytes: Option<u32>,
}

impl FlowArgument {
    /// The flow with operations of this size.
    pub fn request(&self, operation_bytes: u64) -> FlowRequest {
        FlowRequest::new(&self.from, &self.to, self.kind, operation_bytes)
            .with_label(format!("--flow {self}"))
            .with_payload_bytes(self.payload_bytes)
    }
}

impl FromStr for FlowArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let (from, to, kind, size, payload) = match parts[..] {
            [from, to, kind, size] => (from, to, kind, size, None),
            [from, to, kind, size, payload] => (from, to, kind, size, Some(payload)),
            [_] => return Err(format!("{text} has 1 part; a flow is {FORM}")),
            _ => return Err(format!("{text} has {} parts; a flow is {FORM}", parts.len())),
        };
        if from.is_empty() || to.is_empty() {
            return Err(format!("{text} lacks a name; a flow is {FORM}"));
        }
        let kinds = [FlowKind::Write, FlowKind::Read, FlowKind::WriteRead];
        let Some(kind) = kinds.into_iter().find(|known| kind_word(*known) == kind) else {
            return Err(format!("{kind} is not a kind of flow; known are write, read, writeread"));
        };
        let payload_bytes = payload.map(parse_payload).transpose();
        let payload_bytes = payload_bytes.map_err(|error| format!("a payload of {error}"))?;
        Ok(Self { from: from.into(), to: to.into(), kind, sizes: size.parse()?, payload_bytes })
    }
}

impl fmt::Display for FlowArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.from, self.to, kind_word(self.kind), self.sizes)?;
        match self.payload_bytes {
            Some(bytes) => write!(f, ":{}", short_size(bytes.into())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read_and_written() {
        for text in ["fpga1:host:write:64", "a:b:read:64..1M", "cpu:x-1.y:writeread:4K:256"] {
            assert_eq!(text.parse::<FlowArgument>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn each_part_that_is_wrong_is_named() {
        for (text, error) in [
            ("a:b:write", "a:b:write has 3 parts; a flow is "),
            ("fpga1", "fpga1 has 1 part; a flow is "),
            ("a:b:write:1:2:3", "a:b:write:1:2:3 has 6 parts; a flow is "),
            (":b:write:64", ":b:write:64 lacks a name; "),
            ("a:b:copy:64", "copy is not a kind of flow; known are write, read, writeread"),
            ("a:b:write:64Q", "64Q is not a size"),
            ("a:b:write:64:100", "a payload of 100 is not a power of two from 4 to 4096 bytes"),
            ("a:b:write:64:8K", "a payload of 8K is not a power of two from 4 to 4096 bytes"),
        ] {
            let found = text.parse::<FlowArgument>().unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
