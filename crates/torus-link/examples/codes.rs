// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the whole 8b/10b code, decimal, for the gateware's tests
//! (`gateware/tb/link_reference.py`).
//!
//! * `encode P C BYTE CODE B`: the code of a symbol, data (C 0) or control (1), at negative (P 0)
//!   or positive disparity (1), and the disparity behind it, B.
//! * `decode P CODE KIND BYTE B`: what ten bits mean there: data (KIND 0), control (1), nothing
//!   (2), or nothing at this disparity (3).

use crosslane_torus_link::code::{
    COMMA, CONTROLS, Code, CodeError, Decoder, Disparity, Encoder, Symbol,
};

/// Whether the disparity of a line is positive, by a comma as it is at negative disparity.
fn is_positive(mut decoder: Decoder) -> bool {
    decoder.decode(Encoder::default().encode(COMMA)).is_err()
}

fn main() {
    for (positive, disparity) in [Disparity::Minus, Disparity::Plus].into_iter().enumerate() {
        let data = (0..=255).map(|byte| (0, byte, Symbol::Data(byte)));
        let control = CONTROLS.map(|byte| (1, byte, Symbol::Control(byte)));
        for (kind, byte, symbol) in data.chain(control) {
            let mut encoder = Encoder::default();
            if positive == 1 {
                encoder.encode(COMMA);
            }
            let code = encoder.encode(symbol).0;
            let behind = encoder.disparity() as u8;
            println!("encode {positive} {kind} {byte} {code} {behind}");
        }
        for code in 0..1024 {
            let mut decoder = Decoder::new(disparity);
            let (kind, byte) = match decoder.decode(Code(code)) {
                Ok(Symbol::Data(byte)) => (0, byte),
                Ok(Symbol::Control(byte)) => (1, byte),
                Err(CodeError::None(_)) => (2, 0),
                Err(CodeError::Disparity(_)) => (3, 0),
            };
            let behind = u8::from(is_positive(decoder));
            println!("decode {positive} {code} {kind} {byte} {behind}");
        }
    }
}
