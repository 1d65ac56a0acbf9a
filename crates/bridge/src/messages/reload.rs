// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The request to reload a card.

use crosslane_host::ErrorKind::InvalidArgument;
use crosslane_host::RemoteMemory;
use serde::{Deserialize, Serialize};

use super::{MAX_NAME_BYTES, MOST_ENDING_BYTES, MOST_IMAGE_BYTES, long_name, short};
use crate::error::{BridgeError, Result};
use crate::stage::Stage;

/// A configuration or bitstream for a card, which the server reads and reloads the card with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadRequest {
    /// Name of the card.
    pub card: String,
    /// The letters and digits behind the last point of the image's file name, by which programs
    /// tell formats apart; may be empty.
    pub ending: String,
    /// Length of the image, bytes.
    pub bytes: u64,
    /// SHA-256 of the image.
    pub sha256: [u8; 32],
    /// The image in the client's memory.
    pub source: RemoteMemory,
    /// Time until the image has to be at the server, ps.
    pub time_ps: u64,
}

impl ReloadRequest {
    /// Checks that the numbers and names of a request are possible, before any of them is used.
    ///
    /// # Errors
    /// The first that is not, with its value.
    pub fn check(&self) -> Result<()> {
        let Self { card, ending, bytes, source, .. } = self;
        let problem = if !(1..=MOST_IMAGE_BYTES).contains(bytes) {
            format!("an image of {bytes} B: 1 to {MOST_IMAGE_BYTES} are possible")
        } else if card.len() > MAX_NAME_BYTES {
            long_name(card)
        } else if ending.len() > MOST_ENDING_BYTES
            || !ending.bytes().all(|letter| letter.is_ascii_alphanumeric())
        {
            format!(
                "the ending {:?} of the image's name: up to {MOST_ENDING_BYTES} letters and digits",
                short(ending)
            )
        } else if !source.holds(0, *bytes) {
            let (address, have) = (source.address, source.bytes);
            format!("the image has {have} B from {address:#x} on, and {bytes} are needed")
        } else {
            return Ok(());
        };
        Err(BridgeError::new(Stage::Request, InvalidArgument, problem))
    }
}
