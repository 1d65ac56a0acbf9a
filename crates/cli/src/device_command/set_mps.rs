// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device set-mps`: payload sizes along a way.

use std::fmt::Write as _;

use crosslane_driver::{Place, set_max_payload_on_path};
use crosslane_vfio::sysfs::{Address, ConfigurationWrites, PciFunction, Tree};
use serde_json::{Value, json};

use super::arguments::SetMpsArguments;
use super::machine;
use crate::error::CommandError;
use crate::output;

/// What stands for the memory of the machine.
const HOST: &str = "host";

/// The two ends of a way, and the domain that they are in.
fn ends(path: &[String]) -> Result<(u32, Place, Place), CommandError> {
    let usage = |sentence: String| CommandError::Usage(format!("--path: {sentence}"));
    let [from, to] = path else { return Err(usage("it has two ends".to_owned())) };
    let end = |text: &String| match text.as_str() {
        HOST => Ok(None),
        text => text.parse::<Address>().map(Some).map_err(|error| usage(error.to_string())),
    };
    let (from, to) = (end(from)?, end(to)?);
    let domain = match (from, to) {
        (Some(a), Some(b)) if a.domain != b.domain => {
            return Err(usage(format!(
                "{a} and {b} are of different domains: no way between them"
            )));
        }
        (Some(end), _) | (None, Some(end)) => end.domain,
        (None, None) => return Err(usage("one end has to be a function".to_owned())),
    };
    let place =
        |end: Option<Address>| end.map_or(Place::HostMemory, |address| Place::Function(address.id));
    Ok((domain, place(from), place(to)))
}

/// Functions below the ports of a way that are set to less than those now: they may be sent longer
/// packets than they take.
fn set_to_less<'a>(tree: &'a Tree, way: &[Address], bytes: u32) -> Vec<(&'a PciFunction, u32)> {
    tree.functions()
        .filter(|function| !way.contains(&function.address))
        .filter(|function| {
            let above = tree.above(function.address);
            above.iter().any(|bridge| way.contains(&bridge.address))
        })
        .filter_map(|function| Some((function, function.express()?.max_payload_bytes)))
        .filter(|(_, set)| *set < bytes)
        .collect()
}

/// `device set-mps`.
///
/// # Errors
/// Ends that there are not, a size that a port does not support or keep, or a missing right.
pub fn run(arguments: &SetMpsArguments) -> Result<(), CommandError> {
    let (domain, from, to) = ends(&arguments.path)?;
    let bytes = arguments.bytes;
    let before = machine(&arguments.output.root).tree()?;
    let segment = before.segment(domain, ConfigurationWrites::Allowed);
    let names = set_max_payload_on_path(&segment, from, to, bytes)?;
    let way: Vec<Address> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let tree = before.read_again()?;
    let less = set_to_less(&tree, &way, bytes);
    let set = |tree: &Tree, address: Address| {
        tree.function(address).ok()?.express().map(|express| express.max_payload_bytes)
    };
    if arguments.output.json {
        let ports: Vec<Value> = way
            .iter()
            .map(|&port| {
                json!({
                    "address": port.to_string(),
                    "before_bytes": set(&before, port),
                    "bytes": set(&tree, port),
                })
            })
            .collect();
        let less: Vec<Value> = less
            .iter()
            .map(|(it, bytes)| json!({ "address": it.address.to_string(), "bytes": bytes }))
            .collect();
        return output::print_json(&json!({ "ports": ports, "set_to_less": less }));
    }
    let mut page = String::new();
    for port in &way {
        let was = set(&before, *port).map_or("?".to_owned(), |bytes| bytes.to_string());
        let _ = writeln!(page, "{port}: Max_Payload_Size {bytes} B (was {was} B)");
    }
    if !less.is_empty() {
        let _ = writeln!(
            page,
            "set to less, and below ports that may now send {bytes} B: packets to them may be \
             reported as malformed"
        );
        for (function, bytes) in less {
            let _ = writeln!(page, "  {}: {bytes} B", function.address);
        }
    }
    output::print(&page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(a: &str, b: &str) -> Result<(u32, Place, Place), String> {
        ends(&[a.to_owned(), b.to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_way_has_two_ends_in_one_domain() {
        let card: Address = "03:00.0".parse().unwrap();
        let place = Place::Function(card.id);
        assert_eq!(of("03:00.0", "host"), Ok((0, place, Place::HostMemory)));
        assert_eq!(of("host", "10000:03:00.0"), Ok((0x10000, Place::HostMemory, place)));
        assert!(of("host", "host").unwrap_err().contains("has to be a function"));
        assert!(of("03:00.0", "0001:03:00.0").unwrap_err().contains("different domains"));
        assert!(of("card", "host").unwrap_err().contains("card is not the address"));
    }
}
