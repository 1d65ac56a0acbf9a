// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses of functions in the text of a lab that was made from dumps: in the comment above an
//! endpoint, and in the names of switches and ports.

use std::collections::BTreeMap;

use crosslane_sysfs::Address;

/// Words before the address in a name: `port-18-00-0`.
const WORDS: [&str; 3] = ["card-", "switch-", "port-"];

/// Addresses of the functions of a lab, as far as its text has them.
#[derive(Clone, Debug, Default)]
pub struct Addresses(BTreeMap<String, Address>);

impl Addresses {
    /// Reads those of endpoints: each is in a comment above its table.
    pub fn of(text: &str) -> Self {
        let mut found = BTreeMap::new();
        let mut above = None;
        for line in text.lines() {
            let name = line.strip_prefix("name = \"").and_then(|rest| rest.strip_suffix('"'));
            match (line.strip_prefix("# "), name) {
                (Some(comment), _) => {
                    let address = comment.split(',').next().unwrap_or_default();
                    above = address.parse::<Address>().ok();
                }
                (None, Some(name)) => {
                    found.extend(above.take().map(|address| (name.to_owned(), address)));
                }
                (None, None) if line == "[[endpoint]]" => {}
                (None, None) => above = None,
            }
        }
        Self(found)
    }

    /// Returns the address of an endpoint, of a port such as `host.port-16-01-0`, or of the
    /// upstream port of a switch, `switch-17-00-0.up`.
    pub fn get(&self, port: &str) -> Option<Address> {
        let name = port.strip_suffix(".up").unwrap_or(port);
        let name = name.rsplit('.').next()?;
        self.0.get(name).copied().or_else(|| in_name(name))
    }
}

/// Reads the address in a name.
fn in_name(name: &str) -> Option<Address> {
    let rest = WORDS.iter().find_map(|word| name.strip_prefix(word))?;
    let parts: Vec<&str> = rest.split('-').collect();
    let text = match parts[..] {
        [bus, device, function] => format!("{bus}:{device}.{function}"),
        [domain, bus, device, function] => format!("{domain}:{bus}:{device}.{function}"),
        _ => return None,
    };
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_comments_and_names() {
        let text = "# 0000:19:00.0, NUMA node 0\n[[endpoint]]\nname = \"gpu0\"\n\n\
                    # 0001:1a:00.0\n[[endpoint]]\nname = \"gpu1\"\n# a word\n[[endpoint]]\n\
                    name = \"nic0\"\n# 0000:01:00.0\n\n[[endpoint]]\nname = \"nic1\"\n";
        let known = Addresses::of(text);
        for (name, address) in [
            ("gpu0", Some("0000:19:00.0")),
            ("gpu1", Some("0001:1a:00.0")),
            ("nic0", None),
            ("nic1", None),
            ("host.port-16-01-0", Some("0000:16:01.0")),
            ("switch-0001-17-00-0.up", Some("0001:17:00.0")),
            ("switch-17-00-0.port-18-02-0", Some("0000:18:02.0")),
            ("switch-x.up", None),
            ("host.port0", None),
        ] {
            let found = known.get(name).map(|address| address.to_string());
            assert_eq!(found.as_deref(), address, "{name}");
        }
    }
}
