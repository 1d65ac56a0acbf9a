// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys shared by a client and a server.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use crate::error::{BridgeError, Result};
use crate::stage::Stage;
use crosslane_host::ErrorKind::{Denied, InvalidArgument};
use crosslane_host::hex;

const KEY_BYTES: usize = 32;
/// Most bytes of a key file that are read: a key with blanks around it.
const MOST_FILE_BYTES: u64 = 4096;

/// A shared key, 256 bits: 64 hexadecimal digits in files. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// Makes a key of these bytes, which have to be random.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads a key file, which nobody but its owner may read.
    ///
    /// # Errors
    /// A file that cannot be read, that others may read, or that is no key; all name the file.
    pub fn read(path: &Path) -> Result<Self> {
        let place = path.display();
        let bad = |kind, why: String| BridgeError::new(Stage::Connection, kind, why);
        let unreadable = |error: std::io::Error| {
            bad(error.kind().into(), format!("{place} cannot be read: {error}"))
        };
        let mut text = String::new();
        let file = File::open(path).map_err(unreadable)?;
        check_private(path, &file.metadata().map_err(unreadable)?)?;
        file.take(MOST_FILE_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        text.parse()
            .map_err(|error: BridgeError| bad(error.kind(), format!("{place}: {}", error.why)))
    }

    /// Returns its bytes.
    pub const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Returns the key as written into a file: 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }
}

/// Checks that nobody but its owner may read or change a file with a key.
///
/// # Errors
/// A file that others may read or change.
pub(crate) fn check_private(path: &Path, file: &Metadata) -> Result<()> {
    let denied = |why: String| BridgeError::new(Stage::Connection, Denied, why);
    crosslane_host::check_private(path, file).map_err(denied)
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

    #[cfg(unix)]
    #[test]
    fn a_key_file_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("crosslane-key-{}", std::process::id()));
        let key = Key::new([5; 32]);
        std::fs::write(&path, key.to_hex()).expect("it can be written");
        let read = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("it is ours");
            Key::read(&path).map_err(|error| error.why.to_string())
        };
        assert_eq!(read(0o600), Ok(key));
        for mode in [0o640, 0o604, 0o602] {
            let why = read(mode).expect_err("others may read it");
            assert!(why.contains(&format!("(mode {mode:o}): chmod 600 ")), "{why}");
        }
        std::fs::remove_file(&path).expect("it is there");
        let why = Key::read(&path).expect_err("it has gone").why.to_string();
        assert!(why.contains("cannot be read: "), "{why}");
    }

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
