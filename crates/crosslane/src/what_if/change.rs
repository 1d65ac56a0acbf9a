// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of a lab in the words of its user.

use std::fmt;

use crosslane_pcie::link::LinkRate;

/// A change of a lab, as an option of the command line says it. It is displayed as that option.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// `--set PATH=VALUE`: a constant, or a setting of a host, a switch or an endpoint.
    Set {
        /// Path of the constant, or `NODE.SETTING`.
        path: String,
        /// Value of it.
        value: String,
    },
    /// `--move NODE=PLACE`: an endpoint, or a switch with all that is below it, at another port.
    Move {
        /// Endpoint or switch.
        node: String,
        /// `HOST` or `SWITCH` for a new port, `HOST.numaN` for one of a socket, `HOST.PORT` or
        /// `SWITCH.PORT` to name it, or `swap:NODE` for the other's port.
        place: String,
    },
    /// `--link NODE=GxN`: generation and width of the link above an endpoint or a switch.
    Link {
        /// Endpoint or switch.
        node: String,
        /// Rate that the link trains to.
        rate: LinkRate,
    },
    /// `--acs on|off` or `--acs NODE=on|off`: redirection of peer requests.
    Acs {
        /// Host or switch; `None` for all.
        node: Option<String>,
        /// Whether its ports redirect.
        redirects: bool,
    },
}

/// Splits `NAME=VALUE`.
fn halves(text: &str, form: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text} is not {form}")),
    }
}

/// Reads `on` or `off`.
pub(super) fn switched(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text} is neither on nor off")),
    }
}

impl Change {
    /// Reads the value of `--set`.
    ///
    /// # Errors
    /// A sentence that names the text and what is possible.
    pub fn set(text: &str) -> Result<Self, String> {
        let (path, value) = halves(text, "PATH=VALUE, such as host0.mps=256")?;
        Ok(Self::Set { path, value })
    }

    /// Reads the value of `--move`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn moved(text: &str) -> Result<Self, String> {
        let (node, place) = halves(text, "NODE=PLACE, such as gpu3=switch0")?;
        Ok(Self::Move { node, place })
    }

    /// Reads the value of `--link`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn link(text: &str) -> Result<Self, String> {
        let (node, rate) = halves(text, "NODE=GxN, such as nic0=4x8")?;
        Ok(Self::Link { node, rate: rate.parse()? })
    }

    /// Reads the value of `--acs`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn acs(text: &str) -> Result<Self, String> {
        if !text.contains('=') {
            return Ok(Self::Acs { node: None, redirects: switched(text)? });
        }
        let (node, word) = halves(text, "NODE=on or NODE=off")?;
        Ok(Self::Acs { node: Some(node), redirects: switched(&word)? })
    }

    /// Whether it changes flows, and nothing of the lab: relaxed ordering.
    pub(super) fn is_of_flows(&self) -> bool {
        matches!(self, Self::Set { path, .. } if path.ends_with(".relaxed-ordering"))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on: &bool| if *on { "on" } else { "off" };
        match self {
            Self::Set { path, value } => write!(f, "--set {path}={value}"),
            Self::Move { node, place } => write!(f, "--move {node}={place}"),
            Self::Link { node, rate } => {
                write!(f, "--link {node}={}x{}", rate.generation.number(), rate.width.lanes())
            }
            Self::Acs { node: None, redirects } => write!(f, "--acs {}", word(redirects)),
            Self::Acs { node: Some(node), redirects } => {
                write!(f, "--acs {node}={}", word(redirects))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_and_written() {
        for (read, text) in [
            (Change::set as fn(&str) -> Result<Change, String>, "--set host0.mps=256"),
            (Change::moved, "--move gpu3=swap:nic0"),
            (Change::link, "--link nic0=4x8"),
            (Change::acs, "--acs off"),
            (Change::acs, "--acs switch0=on"),
        ] {
            let (_, value) = text.split_once(' ').unwrap();
            assert_eq!(read(value).unwrap().to_string(), text);
        }
        for text in ["", "a", "=on", "a=", "a=maybe"] {
            assert!(Change::acs(text).is_err(), "{text}");
        }
        assert!(Change::link("nic0=9x8").is_err() && Change::set("mps").is_err());
    }
}
