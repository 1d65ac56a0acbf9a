// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Link rates, encodings, and the cost of a packet on the wire.
//!
//! Read first: base specification chapter 4 (encodings, 4.2.2; SKP, 4.2.7.1) and 3.6.

use std::fmt;
use std::str::FromStr;

/// Ticks per picosecond. The byte time of every generation 1 to 6 and every width 1 to 32
/// (x12 too) is a whole number of ticks, so wire time never rounds. That of generations 1 to 5 is
/// exact; that of generation 6 is 4 millionths long ([`FLIT_BYTES`]).
pub const TICKS_PER_PS: u64 = 3072;

/// Bytes of framing, sequence number and LCRC around each TLP in non-FLIT mode: STP, two of
/// sequence, LCRC and END with 8b/10b; the STP token and LCRC with 128b/130b. Eight in both.
pub const TLP_FRAMING_BYTES: u32 = 8;

/// Bytes on the wire before a TLP's header: STP and sequence number (three), or the STP token
/// (four). Four is used for both, so that the header of a cut-through packet is whole.
pub const TLP_PREFIX_BYTES: u32 = 4;

/// Bytes of one DLLP on the wire in non-FLIT mode: six, and SDP and END or the SDP token.
pub const DLLP_BYTES: u32 = 8;

/// Bytes of a FLIT: [`FLIT_TLP_BYTES`] of TLPs, then 6 of DLLPs, 8 of CRC and 6 of forward error
/// correction (PCI-SIG, *PCIe 6.0 Specification*).
pub const FLIT_BYTES: u32 = 256;
/// Bytes of a FLIT that carry TLPs.
pub const FLIT_TLP_BYTES: u32 = 236;

/// Largest payload that any function may be set to, bytes (PCIe 6.x 7.5.3.4).
pub const MAX_PAYLOAD_BYTES: u32 = 4096;

/// Naturally aligned boundary in bytes that a request must not cross (PCIe 6.x 2.2.7).
pub const PAGE_BYTES: u64 = 4096;

/// Generation of a link's rate, 1 to 6.
///
/// Generation 6 runs in FLIT mode, of which the rate is modelled: TLPs share the
/// [`FLIT_TLP_BYTES`] of each [`FLIT_BYTES`] without gaps, without framing, sequence number and
/// LCRC; DLLPs travel in the FLITs, and take no time from TLPs. Headers, SKP ordered sets, replay
/// by TLP and the timers are those of generation 5. A TLP does not wait for the end of its FLIT
/// (256 B: 2 ns on x16) nor for forward error correction: that is part of the latency of ports.
/// Links of generations 1 to 5 are in non-FLIT mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// 2.5 GT/s, 8b/10b.
    Gen1,
    /// 5 GT/s, 8b/10b.
    Gen2,
    /// 8 GT/s, 128b/130b.
    Gen3,
    /// 16 GT/s, 128b/130b.
    Gen4,
    /// 32 GT/s, 128b/130b.
    Gen5,
    /// 64 GT/s, PAM4, FLITs.
    Gen6,
}

impl Generation {
    /// Every generation, slowest first.
    pub const ALL: [Self; 6] =
        [Self::Gen1, Self::Gen2, Self::Gen3, Self::Gen4, Self::Gen5, Self::Gen6];

    /// Number of the generation, 1 to 6, as the Link Status register encodes it.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The generation with this number, `None` unless 1 to 6.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Megatransfers per second on one lane.
    pub const fn megatransfers(self) -> u32 {
        match self {
            Self::Gen1 => 2_500,
            Self::Gen2 => 5_000,
            Self::Gen3 => 8_000,
            Self::Gen4 => 16_000,
            Self::Gen5 => 32_000,
            Self::Gen6 => 64_000,
        }
    }

    /// Whether its links run in FLIT mode.
    pub const fn is_flit(self) -> bool {
        matches!(self, Self::Gen6)
    }

    /// Bytes on the wire around the header and the payload of a TLP; none in FLIT mode.
    pub const fn tlp_framing_bytes(self) -> u32 {
        if self.is_flit() { 0 } else { TLP_FRAMING_BYTES }
    }

    /// Bytes of a DLLP on the wire; none in FLIT mode, where each FLIT has room for DLLPs.
    pub const fn dllp_bytes(self) -> u32 {
        if self.is_flit() { 0 } else { DLLP_BYTES }
    }

    /// Whether the encoding is 8b/10b (generations 1 and 2) rather than 128b/130b.
    pub const fn is_8b10b(self) -> bool {
        matches!(self, Self::Gen1 | Self::Gen2)
    }

    /// Time of one byte on one lane, in ticks, encoding included.
    pub const fn lane_byte_ticks(self) -> u64 {
        // 8b/10b: ten bits a byte. 128b/130b: 8 x 130/128 = 8.125 bits a byte. FLITs: 8 x 256/236
        // bits a byte of TLPs, 416,542.4 ticks, rounded up to a multiple of all widths.
        match self {
            Self::Gen1 => 4_000 * TICKS_PER_PS,
            Self::Gen2 => 2_000 * TICKS_PER_PS,
            Self::Gen3 => 8_125 * TICKS_PER_PS / 8,
            Self::Gen4 => 8_125 * TICKS_PER_PS / 16,
            Self::Gen5 => 8_125 * TICKS_PER_PS / 32,
            Self::Gen6 => 416_544,
        }
    }

    /// One symbol time in picoseconds, the unit of the Ack, UpdateFC and replay limits: 4,000 at
    /// 2.5 GT/s, 2,000 at 5, then 1,000, 500, 250, 125.
    pub const fn symbol_ps(self) -> u64 {
        match self {
            Self::Gen1 => 4_000,
            Self::Gen2 => 2_000,
            Self::Gen3 => 1_000,
            Self::Gen4 => 500,
            Self::Gen5 => 250,
            Self::Gen6 => 125,
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gen{}", self.number())
    }
}

/// Number of lanes: 1, 2, 4, 8, 12, 16 or 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Width(u8);

impl Width {
    /// The widths that the specification defines (PCIe 5.0 4.2.4.9).
    pub const ALL: [Self; 7] = [Self(1), Self(2), Self(4), Self(8), Self(12), Self(16), Self(32)];

    /// A width of `lanes` lanes, `None` if the specification does not define it.
    pub fn new(lanes: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.0 == lanes)
    }

    /// Number of lanes.
    pub const fn lanes(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{}", self.0)
    }
}

/// Parses `x4` or `4`.
impl FromStr for Width {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.strip_prefix('x').unwrap_or(text).parse().ok().and_then(Self::new).ok_or_else(|| {
            format!("{text} is not a link width; known are x1, x2, x4, x8, x12, x16 and x32")
        })
    }
}

/// Interval and length of the SKP ordered sets that interrupt a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkpRule {
    /// Time from one SKP ordered set's due time to the next, in ticks.
    pub interval_ticks: u64,
    /// Wire time of one SKP ordered set, in ticks (with the EDS token of 128b/130b).
    pub length_ticks: u64,
    /// Length of one SKP ordered set in bytes of the whole link, for the counters.
    pub length_bytes: u32,
}

/// Symbol times between SKP ordered sets with 8b/10b: the longest allowed, which costs least (1180
/// to 1538; base specification 2.1 4.2.7.1).
pub const SKP_INTERVAL_SYMBOLS_8B10B: u64 = 1538;
/// Blocks between SKP ordered sets with 128b/130b (370 to 375; base specification 3.1 4.2.7.1).
pub const SKP_INTERVAL_BLOCKS_128B130B: u64 = 375;

/// Rate and width that a link has trained to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkRate {
    /// Generation, which sets the rate of a lane.
    pub generation: Generation,
    /// Lanes in use.
    pub width: Width,
}

impl LinkRate {
    /// Exact time of one byte on the whole link, in ticks.
    pub const fn byte_ticks(self) -> u64 {
        self.generation.lane_byte_ticks() / self.width.0 as u64
    }

    /// Bytes per second of one direction, encoding taken off (with FLITs, all but the bytes of
    /// TLPs), before SKP, framing and headers.
    pub fn bytes_per_second(self) -> f64 {
        TICKS_PER_PS as f64 * 1e12 / self.byte_ticks() as f64
    }

    /// The SKP rule of this rate and width at the default interval.
    ///
    /// 8b/10b: COM and three SKP, four symbols on each lane, every 1538 symbol times.
    /// 128b/130b: one block of sixteen symbols on each lane and the EDS token of four bytes
    /// before it, every 375 blocks. Idle tokens that pad the last data block are not counted.
    /// FLITs: the same share of the time, an assumption.
    pub fn skp_rule(self) -> SkpRule {
        let lanes = u32::from(self.width.0);
        let (symbols, length_bytes) = if self.generation.is_8b10b() {
            (SKP_INTERVAL_SYMBOLS_8B10B, 4 * lanes)
        } else {
            (SKP_INTERVAL_BLOCKS_128B130B * 16, 16 * lanes + 4)
        };
        SkpRule {
            interval_ticks: symbols * self.generation.lane_byte_ticks(),
            length_ticks: u64::from(length_bytes) * self.byte_ticks(),
            length_bytes,
        }
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.generation, self.width)
    }
}

/// Parses generation and lanes, as `2x4`.
impl FromStr for LinkRate {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let rate = text.split_once('x').and_then(|(generation, lanes)| {
            let generation = Generation::from_number(generation.parse().ok()?)?;
            Some(Self { generation, width: Width::new(lanes.parse().ok()?)? })
        });
        rate.ok_or_else(|| {
            format!(
                "{text} is not a link; write generation x lanes, such as 2x4: generations are 1 to \
                 6, lanes 1, 2, 4, 8, 12, 16 or 32"
            )
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn rate(number: u8, lanes: u8) -> LinkRate {
        LinkRate {
            generation: Generation::from_number(number).unwrap(),
            width: Width::new(lanes).unwrap(),
        }
    }

    #[test]
    fn rates_are_read() {
        assert_eq!("2x4".parse(), Ok(rate(2, 4)));
        for text in ["", "2", "x4", "0x4", "7x4", "2x3", "2x", "-1x4", "2X4"] {
            let error = text.parse::<LinkRate>().unwrap_err();
            assert!(error.starts_with(&format!("{text} is not a link; ")), "{error}");
        }
    }

    /// Every generation with every width.
    fn all_rates() -> impl Iterator<Item = LinkRate> {
        Generation::ALL
            .into_iter()
            .flat_map(|generation| Width::ALL.map(|width| LinkRate { generation, width }))
    }

    #[test]
    fn byte_times_are_whole_ticks() {
        for link in all_rates() {
            let lanes = u64::from(link.width.lanes());
            assert_eq!(link.byte_ticks() * lanes, link.generation.lane_byte_ticks(), "{link}");
            if link.generation.is_flit() {
                continue;
            }
            // Bits of a byte with encoding, over the rate, in ticks: the same without rounding.
            let (bits, per) = if link.generation.is_8b10b() { (10, 1) } else { (8 * 130, 128) };
            let megatransfers = u64::from(link.generation.megatransfers());
            assert_eq!(
                link.byte_ticks() * lanes * megatransfers * per,
                bits * 1_000_000 * TICKS_PER_PS,
                "{link}"
            );
        }
    }

    #[test]
    fn byte_times_that_documents_print() {
        let ps = |link: LinkRate| link.byte_ticks() as f64 / TICKS_PER_PS as f64;
        assert_eq!(ps(rate(1, 1)), 4_000.0);
        assert_eq!(ps(rate(2, 4)), 500.0);
        assert_eq!(ps(rate(3, 8)), 126.953_125);
        assert_eq!(ps(rate(5, 16)), 15.869_140_625);
        assert_eq!(rate(2, 4).bytes_per_second(), 2.0e9);
        assert_eq!(rate(1, 1).bytes_per_second(), 250.0e6);
    }

    #[test]
    fn flits_leave_236_of_256_bytes_of_64_gigatransfers() {
        for width in Width::ALL {
            let link = LinkRate { generation: Generation::Gen6, width };
            let exact = 8.0e9 * f64::from(width.lanes()) * 236.0 / 256.0;
            let off = link.bytes_per_second() / exact - 1.0;
            assert!((-4e-6..0.0).contains(&off), "{link}: {off}");
        }
        assert_eq!(format!("{:.1}", rate(6, 16).bytes_per_second() / 1e9), "118.0");
    }

    #[test]
    fn skp_with_8b10b_is_four_symbols_in_1538() {
        for link in all_rates().filter(|link| link.generation.is_8b10b()) {
            let rule = link.skp_rule();
            assert_eq!(rule.length_ticks * 1538, rule.interval_ticks * 4, "{link}");
            assert_eq!(rule.length_bytes, 4 * u32::from(link.width.lanes()));
            // 1538 symbols of 4 ns or 2 ns.
            let interval_ps = rule.interval_ticks / TICKS_PER_PS;
            assert_eq!(interval_ps, 1538 * link.generation.symbol_ps());
        }
    }

    #[test]
    fn skp_with_128b130b_is_a_block_in_375_and_a_token() {
        let is_block = |link: &LinkRate| !link.generation.is_8b10b() && !link.generation.is_flit();
        for link in all_rates().filter(is_block) {
            let rule = link.skp_rule();
            let lanes = u64::from(link.width.lanes());
            // A block is 130 bit times on each lane.
            let block_ticks =
                130 * 1_000_000 * TICKS_PER_PS / u64::from(link.generation.megatransfers());
            assert_eq!(rule.interval_ticks, 375 * block_ticks, "{link}");
            assert_eq!(rule.length_ticks, block_ticks + 4 * link.byte_ticks(), "{link}");
            assert_eq!(u64::from(rule.length_bytes), 16 * lanes + 4);
        }
        let rule = rate(3, 16).skp_rule();
        let cost = rule.length_ticks as f64 / rule.interval_ticks as f64;
        assert!((0.0026..0.0028).contains(&cost), "about 0.27 %, not {cost}");
    }

    #[test]
    fn generations_and_widths_by_number() {
        for generation in Generation::ALL {
            assert_eq!(Generation::from_number(generation.number()), Some(generation));
        }
        assert_eq!([0, 7, 255].map(Generation::from_number), [None; 3]);
        assert_eq!([0, 3, 6, 64].map(Width::new), [None; 4]);
        assert_eq!("x8".parse(), Ok(Width(8)));
        assert_eq!("16".parse(), Ok(Width(16)));
        for wrong in ["", "x", "xx4", "x3", "4x", "-1", "x256"] {
            let error = wrong.parse::<Width>().unwrap_err();
            assert!(error.contains("is not a link width"), "{wrong}");
        }
        assert_eq!(rate(3, 8).to_string(), "Gen3 x8");
    }

    #[test]
    fn symbol_times() {
        let times = Generation::ALL.map(Generation::symbol_ps);
        assert_eq!(times, [4_000, 2_000, 1_000, 500, 250, 125]);
    }
}
