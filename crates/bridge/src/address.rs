// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of cards and addresses in their memory: `card:address` and `node:port/card:address`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::error::{BridgeError, Result};
use crate::messages::MAX_NAME_BYTES;
use crate::stage::Stage;
use crosslane_host::ErrorKind::InvalidArgument;
use crosslane_pcie::units::bytes_of;

/// An address in a card's memory at a server, such as `node:7471/fpga0:0x4000`, relative to the
/// start of that memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CardAddress {
    /// Address of the server in its network.
    pub server: String,
    /// Name of the card.
    pub card: String,
    /// First byte in the card's memory.
    pub address: u64,
}

impl fmt::Display for CardAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{:#x}", self.server, self.card, self.address)
    }
}

/// An address in a card's memory, whose server may have to be looked for: `fpga0:0x4000` or
/// `node:7471/fpga0:0x4000`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CardName {
    /// Address of the server in its network, if it is named.
    pub server: Option<String>,
    /// Name of the card.
    pub card: String,
    /// First byte in the card's memory.
    pub address: u64,
}

impl fmt::Display for CardName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "{server}/")?;
        }
        write!(f, "{}:{:#x}", self.card, self.address)
    }
}

fn wrong(text: &str, why: &str) -> BridgeError {
    let why = format!("{text}: {why}; a target is written like node:7471/fpga0:0x4000");
    BridgeError::new(Stage::Request, InvalidArgument, why)
}

/// Reads an address: hexadecimal digits behind `0x`, or decimal ones with or without a unit, as in
/// sizes.
fn number_of(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").filter(|digits| !digits.starts_with('+')) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => bytes_of(text)?.try_into().ok(),
    }
}

impl FromStr for CardName {
    type Err = BridgeError;

    /// Parses a card's name; a missing address is 0.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| wrong(text, why);
        let (server, rest) = match text.rsplit_once('/') {
            Some((server, rest)) => (Some(server), rest),
            None => (None, text),
        };
        let (card, address) = match rest.split_once(':') {
            Some((card, address)) => {
                let number = number_of(&address.replace('_', ""));
                (card, number.ok_or_else(|| wrong(&format!("{address} is not an address")))?)
            }
            None => (rest, 0),
        };
        if server.is_none() && card.parse::<IpAddr>().is_ok() {
            return Err(wrong("no card is named"));
        }
        if server.is_some_and(str::is_empty) {
            return Err(wrong("no server is named"));
        }
        if card.is_empty() || card.len() > MAX_NAME_BYTES {
            return Err(wrong("a card's name has 1 to 64 characters"));
        }
        Ok(Self { server: server.map(str::to_owned), card: card.to_owned(), address })
    }
}

impl FromStr for CardAddress {
    type Err = BridgeError;

    /// Parses a target; a missing address is 0.
    fn from_str(text: &str) -> Result<Self> {
        if !text.contains('/') {
            return Err(wrong(text, "no card is named"));
        }
        let CardName { server, card, address } = text.parse()?;
        let server = server.ok_or_else(|| wrong(text, "no server is named"))?;
        Ok(Self { server, card, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_as_it_is_written() {
        let target: CardAddress = "10.0.0.2:7471/fpga0:0x4000".parse().expect("it is right");
        assert_eq!((&*target.server, &*target.card), ("10.0.0.2:7471", "fpga0"));
        assert_eq!(target.address, 0x4000);
        assert_eq!(target.to_string().parse(), Ok(target));
        let address = |text: &str| text.parse::<CardAddress>().map(|target| target.address);
        assert_eq!(address("[::1]:7471/fpga0"), Ok(0));
        assert_eq!(address("node:1/fpga0:1_000"), Ok(1000));
        assert_eq!(address("node:1/fpga0:64K"), Ok(64 << 10));
        assert_eq!(address("node:1/fpga0:64KiB"), Ok(64 << 10));
        assert_eq!(address("node:1/fpga0:17G"), Ok(17 << 30));
        for wrong in ["node:1", "/fpga0:0", "node:1/", "n:1/f:0xg", "n:1/f:-1", "n:1/f:0x+1", ""] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        for wrong in ["n:1/f:K", "n:1/f:0x4K", "n:1/f:18446744073709551615K"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_card_is_named_with_or_without_its_server() {
        let name = |text: &str| text.parse::<CardName>().map(|name| (name.server, name.address));
        assert_eq!(name("fpga0"), Ok((None, 0)));
        assert_eq!(name("fpga0:0x40"), Ok((None, 0x40)));
        assert_eq!(name("node:1/fpga0:0x40"), Ok((Some("node:1".to_owned()), 0x40)));
        for text in ["fpga0:0x40", "node:1/fpga0:0x40"] {
            assert_eq!(text.parse::<CardName>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["", ":5", "/fpga0", "node:1/", "fpga0:x", "127.0.0.1:7471"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
