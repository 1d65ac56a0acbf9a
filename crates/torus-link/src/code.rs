// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 8b/10b code: a symbol of 8 bits, data or control, becomes 10 line bits, with as many ones as
//! zeros in the long run.
//!
//! Read first: A. X. Widmer and P. A. Franaszek, IBM J. Res. Dev. 27 (1983) 440; tables as in
//! PCI Express 2.1, appendix B. Bit 9 of a [`Code`] is `a`, which is sent first, bit 0 is `j`.

use thiserror::Error;

/// Number of line bits of a symbol.
pub const CODE_BITS: usize = 10;

/// Ten line bits of a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Code(pub u16);

/// A data or control symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// D: any byte.
    Data(u8),
    /// K: one of twelve bytes.
    Control(u8),
}

/// K28.0: skip.
pub const SKIP: Symbol = Symbol::Control(0x1c);
/// K28.2: begins a command.
pub const COMMAND: Symbol = Symbol::Control(0x5c);
/// K28.3: idle.
pub const IDLE: Symbol = Symbol::Control(0x7c);
/// K28.5: comma.
pub const COMMA: Symbol = Symbol::Control(0xbc);

/// Bytes of all control symbols: K28.0 to K28.7, K23.7, K27.7, K29.7, K30.7.
pub const CONTROLS: [u8; 12] =
    [0x1c, 0x3c, 0x5c, 0x7c, 0x9c, 0xbc, 0xdc, 0xfc, 0xf7, 0xfb, 0xfd, 0xfe];

/// Excess of ones (`Plus`) or zeros sent so far, after a 6-bit or 4-bit group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Disparity {
    /// Fewer ones than zeros have been sent, or as many.
    #[default]
    Minus,
    /// More ones than zeros have been sent.
    Plus,
}

/// Error of decoding ten bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum CodeError {
    /// No symbol has these bits.
    #[error("no symbol has the code {0:#012b}")]
    None(u16),
    /// A symbol has these bits, but only at the other disparity.
    #[error("the code {0:#012b} does not fit the disparity")]
    Disparity(u16),
}

/// Groups abcdei of D.0 to D.31 at negative disparity.
const SIX: [u8; 32] = [
    0b100111, 0b011101, 0b101101, 0b110001, 0b110101, 0b101001, 0b011001, 0b111000, 0b111001,
    0b100101, 0b010101, 0b110100, 0b001101, 0b101100, 0b011100, 0b010111, 0b011011, 0b100011,
    0b010011, 0b110010, 0b001011, 0b101010, 0b011010, 0b111010, 0b110011, 0b100110, 0b010110,
    0b110110, 0b001110, 0b101110, 0b011110, 0b101011,
];
/// Group abcdei of K28 at negative disparity.
const SIX_K28: u8 = 0b001111;
/// Groups fghj of D.x.0 to D.x.6 and D.x.P7 at negative disparity.
const FOUR: [u8; 8] = [0b1011, 0b1001, 0b0101, 0b1100, 0b1101, 0b1010, 0b0110, 0b1110];
/// Group fghj of D.x.A7 and K.x.7 at negative disparity.
const FOUR_A7: u8 = 0b0111;
/// Groups of K.x.0 to K.x.7 at negative disparity.
const FOUR_K: [u8; 8] = [0b1011, 0b0110, 0b1010, 0b1100, 0b1101, 0b0101, 0b1001, FOUR_A7];

/// Returns a group's bits at a disparity, and the disparity after it. With `always_turns`, a
/// balanced group is inverted at positive disparity too.
const fn group(bits: u8, width: u32, now: Disparity, always_turns: bool) -> (u8, Disparity) {
    let ones = bits.count_ones();
    let is_balanced = ones * 2 == width;
    let inverse = !bits & ((1 << width) - 1);
    match (now, is_balanced) {
        (Disparity::Minus, true) => (bits, Disparity::Minus),
        (Disparity::Minus, false) => (bits, Disparity::Plus),
        (Disparity::Plus, true) => (if always_turns { inverse } else { bits }, Disparity::Plus),
        (Disparity::Plus, false) => (inverse, Disparity::Minus),
    }
}

const fn encode(symbol: Symbol, now: Disparity) -> (Code, Disparity) {
    let (byte, is_control) = match symbol {
        Symbol::Data(byte) => (byte, false),
        Symbol::Control(byte) => (byte, true),
    };
    let low = (byte & 31) as usize;
    let high = (byte >> 5) as usize;
    let six = if is_control && low == 28 { SIX_K28 } else { SIX[low] };
    // D.7 has two balanced groups, which limits the run length.
    let (six, between) = group(six, 6, now, low == 7);
    let takes_a7 = match between {
        Disparity::Minus => matches!(low, 17 | 18 | 20),
        Disparity::Plus => matches!(low, 11 | 13 | 14),
    };
    let (four, behind) = if is_control {
        group(FOUR_K[high], 4, between, true)
    } else if high == 7 && takes_a7 {
        group(FOUR_A7, 4, between, false)
    } else {
        group(FOUR[high], 4, between, high == 3)
    };
    (Code((six as u16) << 4 | four as u16), behind)
}

/// Code and next disparity of each symbol, data then control, at both disparities.
static ENCODE: [[(Code, Disparity); 512]; 2] = {
    let mut table = [[(Code(0), Disparity::Minus); 512]; 2];
    let mut byte = 0;
    while byte < 256 {
        table[0][byte] = encode(Symbol::Data(byte as u8), Disparity::Minus);
        table[1][byte] = encode(Symbol::Data(byte as u8), Disparity::Plus);
        table[0][byte + 256] = encode(Symbol::Control(byte as u8), Disparity::Minus);
        table[1][byte + 256] = encode(Symbol::Control(byte as u8), Disparity::Plus);
        byte += 1;
    }
    table
};

/// Symbol of a code at negative and at positive disparity.
#[derive(Clone, Copy)]
struct Meaning {
    symbol: [Option<Symbol>; 2],
}

static DECODE: [Meaning; 1024] = {
    let mut table = [Meaning { symbol: [None; 2] }; 1024];
    let mut now = 0;
    while now < 2 {
        let disparity = if now == 0 { Disparity::Minus } else { Disparity::Plus };
        let mut byte = 0;
        while byte < 256 {
            let symbol = Symbol::Data(byte as u8);
            table[encode(symbol, disparity).0.0 as usize].symbol[now] = Some(symbol);
            byte += 1;
        }
        let mut control = 0;
        while control < CONTROLS.len() {
            let symbol = Symbol::Control(CONTROLS[control]);
            table[encode(symbol, disparity).0.0 as usize].symbol[now] = Some(symbol);
            control += 1;
        }
        now += 1;
    }
    table
};

/// Encoder of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoder {
    disparity: Disparity,
}

impl Encoder {
    /// Encodes the next symbol.
    ///
    /// # Panics
    /// If the control symbol does not exist.
    pub fn encode(&mut self, symbol: Symbol) -> Code {
        let at = match symbol {
            Symbol::Data(byte) => usize::from(byte),
            Symbol::Control(byte) => {
                assert!(CONTROLS.contains(&byte), "there is no control symbol {byte:#x}");
                256 + usize::from(byte)
            }
        };
        let (code, behind) = ENCODE[self.disparity as usize][at];
        self.disparity = behind;
        code
    }

    /// Disparity after the symbols encoded so far.
    pub const fn disparity(&self) -> Disparity {
        self.disparity
    }
}

/// Decoder of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    disparity: Disparity,
}

impl Decoder {
    /// Creates a decoder for a line with this disparity.
    pub const fn new(disparity: Disparity) -> Self {
        Self { disparity }
    }

    /// Decodes the next ten bits; higher bits are ignored.
    ///
    /// # Errors
    /// [`CodeError`] if they are not a symbol. The disparity then follows the bits themselves.
    pub fn decode(&mut self, code: Code) -> Result<Symbol, CodeError> {
        let bits = code.0 & 0x3ff;
        let meaning = &DECODE[usize::from(bits)];
        let now = self.disparity as usize;
        let ones = bits.count_ones();
        match ones {
            0..=4 => self.disparity = Disparity::Minus,
            5 => {}
            _ => self.disparity = Disparity::Plus,
        }
        match (meaning.symbol[now], meaning.symbol[1 - now]) {
            (Some(symbol), _) => Ok(symbol),
            (None, Some(_)) => {
                // A balanced code of the other disparity shows the true disparity of the line.
                if ones == 5 {
                    self.disparity = [Disparity::Plus, Disparity::Minus][now];
                }
                Err(CodeError::Disparity(bits))
            }
            (None, None) => Err(CodeError::None(bits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn symbols() -> impl Iterator<Item = Symbol> {
        (0..=255).map(Symbol::Data).chain(CONTROLS.map(Symbol::Control))
    }

    /// Codes as printed in PCI Express 2.1, appendix B, at negative and positive disparity.
    #[test]
    fn codes_are_those_of_the_standard() {
        for (symbol, minus, plus) in [
            (Symbol::Data(0x00), 0b1001110100, 0b0110001011),
            (Symbol::Data(0x07), 0b1110001011, 0b0001110100),
            (Symbol::Data(0x1f), 0b1010110100, 0b0101001011),
            (Symbol::Data(0xb5), 0b1010101010, 0b1010101010),
            (Symbol::Data(0x4a), 0b0101010101, 0b0101010101),
            (Symbol::Data(0x63), 0b1100011100, 0b1100010011),
            (Symbol::Data(0xeb), 0b1101001110, 0b1101001000),
            (Symbol::Data(0xf1), 0b1000110111, 0b1000110001),
            (Symbol::Data(0xff), 0b1010110001, 0b0101001110),
            (SKIP, 0b0011110100, 0b1100001011),
            (COMMAND, 0b0011110101, 0b1100001010),
            (IDLE, 0b0011110011, 0b1100001100),
            (COMMA, 0b0011111010, 0b1100000101),
            (Symbol::Control(0x3c), 0b0011111001, 0b1100000110),
            (Symbol::Control(0x9c), 0b0011110010, 0b1100001101),
            (Symbol::Control(0xdc), 0b0011110110, 0b1100001001),
            (Symbol::Control(0xfc), 0b0011111000, 0b1100000111),
            (Symbol::Control(0xf7), 0b1110101000, 0b0001010111),
            (Symbol::Control(0xfe), 0b0111101000, 0b1000010111),
        ] {
            assert_eq!(encode(symbol, Disparity::Minus).0, Code(minus), "{symbol:?}");
            assert_eq!(encode(symbol, Disparity::Plus).0, Code(plus), "{symbol:?}");
        }
    }

    #[test]
    fn each_code_has_one_meaning() {
        let mut meant = std::collections::BTreeMap::new();
        for symbol in symbols() {
            for now in [Disparity::Minus, Disparity::Plus] {
                let (code, behind) = encode(symbol, now);
                let ones = code.0.count_ones();
                assert!((4..=6).contains(&ones), "{symbol:?}");
                let wanted = match (now, ones) {
                    (_, 5) => now,
                    (Disparity::Minus, 6) => Disparity::Plus,
                    (Disparity::Plus, 4) => Disparity::Minus,
                    _ => panic!("{symbol:?} goes further from balance"),
                };
                assert_eq!(behind, wanted);
                assert_eq!(*meant.entry(code.0).or_insert(symbol), symbol, "{code:?}");
            }
        }
    }

    /// A wrong bit is detected, or decodes to another symbol, but never to the same one.
    #[test]
    fn a_wrong_bit_changes_the_symbol() {
        for symbol in symbols() {
            for disparity in [Disparity::Minus, Disparity::Plus] {
                for bit in 0..CODE_BITS {
                    let code = encode(symbol, disparity).0;
                    let wrong = Code(code.0 ^ 1 << bit);
                    let decoded = Decoder { disparity }.decode(wrong);
                    assert_ne!(decoded, Ok(symbol), "{symbol:?} bit {bit}");
                }
            }
        }
    }

    #[test]
    fn commas_are_nowhere_else() {
        let is_comma = |bits: u32| matches!(bits & 0x7f, 0b0011111 | 0b1100000);
        let ends_at_7 = |code: Code| is_comma(u32::from(code.0) >> 3);
        assert!(ends_at_7(encode(COMMA, Disparity::Minus).0));
        let used = || symbols().filter(|symbol| *symbol != Symbol::Control(0xfc));
        for first in used() {
            for second in used() {
                for now in [Disparity::Minus, Disparity::Plus] {
                    let (code, behind) = encode(first, now);
                    let both = u32::from(code.0) << 10 | u32::from(encode(second, behind).0.0);
                    for shift in 4..=9 {
                        assert!(!is_comma(both >> shift), "{first:?} {second:?}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn streams_come_back_and_stay_balanced(
            picks in prop::collection::vec(0..268_usize, 1..400),
        ) {
            let all: Vec<Symbol> = symbols().collect();
            let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
            // Negative disparity means one zero too many.
            let (mut sum, mut run, mut before) = (-1_i32, 0, 2);
            for pick in picks {
                let code = encoder.encode(all[pick]);
                for bit in (0..CODE_BITS).rev() {
                    let bit = code.0 >> bit & 1;
                    sum += i32::from(bit) * 2 - 1;
                    run = if bit == before { run + 1 } else { 1 };
                    before = bit;
                    prop_assert!(sum.abs() <= 3, "the sum of bits stays near 0");
                    // K28.7 after other symbols may make longer runs.
                    prop_assert!(run <= 5 || all[pick] == Symbol::Control(0xfc));
                }
                prop_assert_eq!(sum.abs(), 1);
                prop_assert_eq!(decoder.decode(code), Ok(all[pick]));
            }
        }

        #[test]
        fn any_bits_are_decoded(codes in prop::collection::vec(any::<u16>(), 0..100)) {
            let mut decoder = Decoder::default();
            for code in codes {
                if let Ok(symbol) = decoder.decode(Code(code)) {
                    prop_assert!(symbols().any(|known| known == symbol));
                }
            }
        }
    }
}
