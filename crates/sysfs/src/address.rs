// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses of PCI functions as Linux writes them.

use std::fmt;
use std::str::FromStr;

use crosslane_pcie::units::RoutingId;

use crate::{Result, SysfsError};

/// Domain, bus, device and function: `0000:01:00.0`. Each domain (a segment in the specification's
/// words, PCIe 6.x 7.2.2) has separate bus numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The domain: 0 on most machines. Linux assigns those above 0xffff to buses behind devices.
    pub domain: u32,
    /// Bus, device and function number within the domain.
    pub id: RoutingId,
}

impl Address {
    /// Address of a function in the same domain.
    #[must_use]
    pub const fn beside(self, id: RoutingId) -> Self {
        Self { domain: self.domain, id }
    }

    /// Whether both are functions of one device.
    pub fn is_of_device(self, other: Self) -> bool {
        (self.domain, self.id.bus(), self.id.device())
            == (other.domain, other.id.bus(), other.id.device())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{}", self.domain, self.id)
    }
}

/// Parses `0000:01:00.0`, or `01:00.0` for domain 0.
impl FromStr for Address {
    type Err = SysfsError;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| SysfsError::BadAddress { text: super::shown(text) })
    }
}

fn parse(text: &str) -> Option<Address> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0000", rest));
    let number = |digits: &str, width: std::ops::RangeInclusive<usize>, most: u32| {
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u32::from_str_radix(digits, 16).ok()?;
        (is_hex && width.contains(&digits.len()) && value <= most).then_some(value)
    };
    let domain = number(domain, 4..=8, u32::MAX)?;
    let bus = number(bus, 2..=2, 0xff)?;
    let device = number(device, 2..=2, 0x1f)?;
    let function = number(function, 1..=1, 7)?;
    Some(Address { domain, id: RoutingId::new(bus as u8, device as u8, function as u8) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (text, written) in [
            ("0000:01:00.0", "0000:01:00.0"),
            ("af:1f.7", "0000:af:1f.7"),
            ("10000:e1:00.0", "10000:e1:00.0"),
            ("0000:AF:00.1", "0000:af:00.1"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), written);
            assert_eq!(written.parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_named() {
        let bad = [
            "", ".", ":.", "01:00", "01:20.0", "01:00.8", "1:00.0", "01:0.0", "0:01:00.0",
            "000000000:01:00.0", "+1:00.0", "01:+0.0", "gg:00.0", "0000:01:00.0.0", "01:00.0\n",
        ];
        for text in bad {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.to_string().contains("0000:01:00.0 or 01:00.0"), "{text}: {error}");
        }
    }
}
