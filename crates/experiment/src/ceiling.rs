// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Highest rate that a flow could reach: the payload ceiling of the slowest link on the way of its
//! data, for the TLPs that it sends.
//!
//! Read first: [`crosslane_pcie::ceiling`].

use crosslane_pcie::ceiling::link_ceiling_bytes_per_second;
use crosslane_pcie::link::{LinkRate, TLP_FRAMING_BYTES};
use crosslane_pcie::units::Picoseconds;

/// The TLPs that carry a flow's data, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataTlps {
    /// How many.
    pub tlps: u64,
    /// Data in all of them, bytes.
    pub data_bytes: u64,
    /// The same as the wire has it, in whole double words.
    pub wire_payload_bytes: u64,
    /// Length of their header in double words.
    pub header_dw: u32,
}

impl DataTlps {
    /// Average data of a TLP in bytes.
    pub fn payload_bytes(&self) -> f64 {
        self.data_bytes as f64 / self.tlps.max(1) as f64
    }

    /// Share of a link's packet bytes that is data, 0 to 1.
    pub fn efficiency(&self) -> f64 {
        let overhead = self.tlps * u64::from(TLP_FRAMING_BYTES + 4 * self.header_dw);
        let wire = self.wire_payload_bytes + overhead;
        if wire == 0 { 0.0 } else { self.data_bytes as f64 / wire as f64 }
    }
}

/// Kind of TLP that carries the data of a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Memory writes.
    Writes,
    /// Completions of reads.
    Completions,
}

impl Carrier {
    /// `writes`, `completions`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Completions => "completions",
        }
    }
}

/// One direction of a link on the way of the data, and the DLLPs that a run sent in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkLoad<Id> {
    /// The direction of the link.
    pub link: Id,
    /// Its rate.
    pub rate: LinkRate,
    /// DLLPs in `span`, bytes on the wire.
    pub dllp_bytes: u64,
    /// How long they were counted.
    pub span: Picoseconds,
}

/// A flow's ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling<Id> {
    /// Bytes of data per second, no DLLPs taken off.
    pub bytes_per_second: f64,
    /// The same less the DLLPs that the run sent in that direction.
    pub less_dllps_bytes_per_second: f64,
    /// The direction that sets the latter.
    pub link: Id,
}

impl<Id> Ceiling<Id> {
    /// Returns the ceiling as plain data. `direction` is the name of its link, if it is said.
    pub fn result(
        &self,
        carrier: Carrier,
        tlps: DataTlps,
        direction: impl Into<Option<String>>,
    ) -> crosslane_results::Ceiling {
        crosslane_results::Ceiling {
            bytes_per_second: self.bytes_per_second,
            less_dllps_bytes_per_second: self.less_dllps_bytes_per_second,
            payload_bytes: tlps.payload_bytes(),
            carrier: carrier.word().to_owned(),
            header_dw: tlps.header_dw,
            is_estimate: false,
            direction: direction.into(),
        }
    }
}

/// The least ceiling along `links`, or `None` where there is no link.
pub fn least_ceiling<Id>(
    links: impl IntoIterator<Item = LinkLoad<Id>>,
    tlps: DataTlps,
) -> Option<Ceiling<Id>> {
    let efficiency = tlps.efficiency();
    links
        .into_iter()
        .map(|load| {
            let packets = link_ceiling_bytes_per_second(load.rate);
            let seconds = load.span.as_seconds();
            let dllps = if seconds > 0.0 { load.dllp_bytes as f64 / seconds } else { 0.0 };
            Ceiling {
                bytes_per_second: packets * efficiency,
                less_dllps_bytes_per_second: (packets - dllps).max(0.0) * efficiency,
                link: load.link,
            }
        })
        .min_by(|a, b| a.less_dllps_bytes_per_second.total_cmp(&b.less_dllps_bytes_per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiency_counts_whole_double_words_and_every_header() {
        let tlps = DataTlps { tlps: 2, data_bytes: 256, wire_payload_bytes: 256, header_dw: 3 };
        assert_eq!(tlps.efficiency(), 128.0 / 148.0);
        assert_eq!(tlps.payload_bytes(), 128.0);
        // Six bytes take eight on the wire.
        let odd = DataTlps { tlps: 1, data_bytes: 6, wire_payload_bytes: 8, header_dw: 4 };
        assert_eq!(odd.efficiency(), 6.0 / 32.0);
    }
}
