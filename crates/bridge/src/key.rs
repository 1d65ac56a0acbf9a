// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys shared by a client and a server.

use std::fmt;
use std::str::FromStr;

use crate::error::{BridgeError, Result};
use crate::stage::Stage;
use crosslane_host::ErrorKind::InvalidArgument;

const KEY_BYTES: usize = 32;

/// A shared key, 256 bits: 64 hexadecimal digits in files. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// Makes a key of these bytes, which have to be random.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns its bytes.
    pub const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Returns the key as written into a file: 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl FromStr for Key {
    type Err = BridgeError;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let wrong = || {
            let why = format!(
                "a key is {} hexadecimal digits, and here are {} characters",
                2 * KEY_BYTES,
                text.chars().count()
            );
            BridgeError::new(Stage::Connection, InvalidArgument, why)
        };
        if text.len() != 2 * KEY_BYTES || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; KEY_BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written_and_never_shown() {
        let key = Key::new(std::array::from_fn(|n| n as u8 * 7));
        assert_eq!(format!("{}\n", key.to_hex()).parse(), Ok(key.clone()));
        assert_eq!(format!("{key:?}"), "Key(..)");
        for wrong in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
            wrong.parse::<Key>().expect_err("it is none");
        }
    }
}
