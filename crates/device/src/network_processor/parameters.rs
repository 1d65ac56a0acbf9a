// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Build parameters of a network processor and its cables.

use crosslane_fabric::parameters;
use crosslane_fabric::parameters::{ParameterError, one_of, within};
use crosslane_pcie::units::Picoseconds;
use crosslane_torus_link::block::{BLOCK_BITS, BLOCK_BYTES, SKIP_INTERVAL_ROWS};
use crosslane_torus_link::code::CODE_BITS;
use crosslane_torus_link::end::EndParameters;
use crosslane_torus_link::frame::{DATAGRAM_OVERHEAD_BYTES, payload_bytes};

use super::link::{SKIP_COLUMNS, SKIP_INTERVAL_COLUMNS};
use crate::parameters::SECOND;

parameters! {
    /// Build parameters of a network processor.
    NetworkProcessorParameters {
        /// Tags: reads of host memory in flight, 1 to 256.
        tags: u16 [1, 256],
        /// Longest payload of a write to host memory, bytes, a power of two from 128 to 4096.
        max_write_bytes: u32 [power of two, 128, 4096],
        /// Longest read of host memory, bytes, a power of two from 128 to 4096.
        max_read_bytes: u32 [power of two, 128, 4096],
        /// Time after which an unanswered read of host memory has failed, 1 ns to 100 s.
        completion_timeout: Picoseconds [1_000, 100 * SECOND],
        /// Links, 1 to 8. Link 2 x d leads up in dimension d of a torus, link 2 x d + 1 down.
        links: u8 [1, 8],
        /// Slots for get requests, 1 to 256, limited by the size of their aperture.
        get_slots: u16 [1, 256],
        /// Slots for credits, 1 to 256, limited by the size of their aperture.
        credit_slots: u16 [1, 256],
        /// Slots of the put aperture for each channel of each link, a power of two up to 32.
        put_slots: u8 [power of two, 1, 32],
        /// Staging memory for data from host memory, per channel of each link, bytes: at least the
        /// longest read plus two payloads for the partial datagrams at its start and end, up to
        /// 64 KiB.
        staging_bytes: u32 [|p| u64::from(p.max_read_bytes + 2 * p.payload_bytes()), 1 << 16],
        /// Time from a request's last byte to its first read of host memory, or until its credit
        /// takes effect; up to 1 s.
        request_latency: Picoseconds [0, SECOND],
        /// Minimum time between the starts of two requests, up to 1 s.
        request_interval: Picoseconds [0, SECOND],
        /// Time from the last byte of a datagram's data until the datagram is ready for the link,
        /// up to 1 s.
        send_latency: Picoseconds [0, SECOND],
        /// Time from a datagram's delivery by the link to its processing, up to 1 s.
        receive_latency: Picoseconds [0, SECOND],
        /// Time from a register read to its completion, up to 1 s.
        register_latency: Picoseconds [0, SECOND],
        /// Whether datagrams carry 256 B, and slots of the put aperture are 512 B; false: 128 B
        /// and 256 B. All cards of a torus have the same.
        long_datagrams: bool [any; 0],
    }
}

/// Returns the distance of slots in the put aperture, bytes: a power of two with room for a control
/// word before a payload.
pub(super) const fn put_stride_bytes(payload_bytes: u32) -> u64 {
    2 * payload_bytes as u64
}

impl NetworkProcessorParameters {
    /// Returns the bytes of a datagram's payload, 128 or 256.
    pub const fn payload_bytes(&self) -> u32 {
        payload_bytes(self.long_datagrams) as u32
    }

    /// Returns the distance of slots in the put aperture, bytes.
    pub const fn put_stride_bytes(&self) -> u64 {
        put_stride_bytes(self.payload_bytes())
    }
}

/// Line code of a cable's lanes (`docs/torus-link.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineCode {
    /// Symbols of 8 bits as 10 line bits.
    #[default]
    Symbols,
    /// Blocks of 64 bits as 66 line bits, scrambled.
    Blocks,
}

impl LineCode {
    /// All codes, in the order of their words.
    pub const ALL: [Self; 2] = [Self::Symbols, Self::Blocks];
    /// Words of the codes in lab files.
    pub const WORDS: [&'static str; 2] = ["8b10b", "64b66b"];
}

/// Build parameters of a cable between two network processors, with its transceivers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CableParameters {
    /// Lanes: 1, 4 or 8.
    pub lanes: u8,
    /// Bits per second of each lane, including the line code: 2.5 or 5 x 10^9.
    pub lane_bits_per_second: u64,
    /// Line code of the lanes.
    pub line_code: LineCode,
    /// Time of a frame's last symbol from the logic of one end to that of the other, through
    /// transceiver, cable and transceiver; up to 1 s.
    pub latency: Picoseconds,
    /// Probability that a bit arrives wrong, 0 to 0.01.
    pub bit_error_rate: f64,
    /// Time from both ends being enabled, or the lanes returning, until the first datagrams; up to
    /// 1 s. Training takes a round trip of the cable at least.
    pub bring_up: Picoseconds,
    /// Whether datagrams carry 256 B, as those of the cards at both ends.
    pub long_datagrams: bool,
    /// Parameters of the data link layer at both ends.
    pub end: EndParameters,
}

impl CableParameters {
    /// Checks that a cable can be built with these parameters.
    ///
    /// # Errors
    /// Returns the first field that is out of bounds.
    pub fn check(&self) -> Result<(), ParameterError> {
        one_of(("lanes", "lanes"), self.lanes.into(), &[1, 4, 8])?;
        let name = ("lane_bits_per_second", "lane_gbit_per_s");
        one_of(name, self.lane_bits_per_second, &[2_500_000_000, 5_000_000_000])?;
        within(("latency (ps)", "latency_ns"), self.latency.0, 0, SECOND)?;
        within(("bring_up (ps)", "bring_up_ns"), self.bring_up.0, 0, SECOND)
    }

    /// Returns the rate of line bits in each direction, in bytes per second: all lanes.
    pub fn raw_bytes_per_second(&self) -> f64 {
        f64::from(self.lanes) * self.lane_bits_per_second as f64 / 8.0
    }

    /// Returns the link layer's rate in each direction, in bytes per second: all lanes, less the
    /// line code.
    pub fn bytes_per_second(&self) -> f64 {
        let line_bits = f64::from(self.lanes) * self.lane_bits_per_second as f64;
        match self.line_code {
            LineCode::Symbols => line_bits / CODE_BITS as f64,
            LineCode::Blocks => line_bits / BLOCK_BITS as f64 * BLOCK_BYTES as f64,
        }
    }

    /// Returns the rate of datagram payload in each direction, in bytes per second: less headers,
    /// CRCs and skip sets, but not less the commands for the other direction (`docs/torus-link.md`,
    /// *Budget*).
    pub fn payload_bytes_per_second(&self) -> f64 {
        let payload = payload_bytes(self.long_datagrams) as f64;
        let of_frames = payload / (payload + DATAGRAM_OVERHEAD_BYTES as f64);
        let skipped = match self.line_code {
            LineCode::Symbols => {
                SKIP_COLUMNS as f64 / (SKIP_INTERVAL_COLUMNS + SKIP_COLUMNS) as f64
            }
            LineCode::Blocks => 1.0 / f64::from(SKIP_INTERVAL_ROWS + 1),
        };
        self.bytes_per_second() * of_frames * (1.0 - skipped)
    }

    /// Returns the time of training, ps: each end has to hear that the other has gone down.
    pub(super) fn training_ps(&self) -> u64 {
        self.bring_up.0.max(2 * self.latency.0)
    }

    /// Returns the time of a block (66 bits), ps, where all lanes take turns.
    pub const fn block_ps(&self) -> u64 {
        BLOCK_BITS as u64 * 1_000_000_000_000 / (self.lane_bits_per_second * self.lanes as u64)
    }

    /// Returns the time of a symbol (10 bits) on a lane, ps.
    pub const fn symbol_ps(&self) -> u64 {
        10_000_000_000_000 / self.lane_bits_per_second
    }
}
