// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards that clients reconfigure: the client's call, and the part of a server that knows files,
//! programs and devices.

use std::io;
use std::path::Path;
use std::pin::pin;

use crosslane_host::ErrorKind::{Data, Timeout};
use crosslane_host::{Clock, DmaMemory, Rdma, RdmaConnection, RdmaRegion};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, LocalBoxFuture, select};
use sha2::{Digest, Sha256};

use crate::client::{Client, MemoryPart, region};
use crate::deadline::after;
use crate::error::{BridgeError, Result};
use crate::messages::{ReloadRequest, Reply, Request, short};
use crate::served::Served;
use crate::stage::Stage;

/// Bytes of memory summed at once.
const STEP_BYTES: u64 = 1 << 20;

/// A file that takes an image; removed when it is dropped.
pub trait ImageFile: io::Write {
    /// Returns its path, for programs.
    fn path(&self) -> &Path;
}

/// A card that was reconfigured and is open again.
pub struct Renewed {
    /// The card.
    pub card: Served,
    /// The last lines that the program which reconfigured it has written.
    pub said: String,
}

/// Reconfigures cards of a server: knows the devices behind their names, and the program for each.
pub trait Reloader {
    /// Checks that a card can be reconfigured here.
    ///
    /// # Errors
    /// The reason for which it cannot.
    fn check(&self, card: &str) -> Result<(), String>;

    /// Makes an empty file for an image, whose name has this ending, if it is not empty.
    ///
    /// # Errors
    /// A file that cannot be made.
    fn file(&self, ending: &str) -> io::Result<Box<dyn ImageFile>>;

    /// Reconfigures a card, which the server has let go, with an image, and opens it again.
    /// Resolves within a time that it knows itself.
    ///
    /// # Errors
    /// A program that fails, and a card that does not come back.
    fn reload<'a>(
        &'a self,
        card: &'a str,
        image: Box<dyn ImageFile>,
    ) -> LocalBoxFuture<'a, Result<Renewed, String>>;
}

/// A reload as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// Bytes of the image, the same at both ends.
    pub bytes: u64,
    /// SHA-256 of the image, the same at both ends.
    pub sha256: [u8; 32],
    /// The last lines that the server's program has written, as they came.
    pub said: String,
    /// Time from the request until the card was served again.
    pub elapsed: Picoseconds,
}

/// Sums registered memory.
fn sha256<G: RdmaRegion>(part: &MemoryPart<G>) -> Result<[u8; 32]> {
    let mut sum = Sha256::new();
    let mut step = vec![0; STEP_BYTES as usize];
    let mut at = part.range.start;
    while at < part.range.end {
        let step = &mut step[..(part.range.end - at).min(STEP_BYTES) as usize];
        part.region.memory().read(at, step)?;
        sum.update(&*step);
        at += step.len() as u64;
    }
    Ok(sum.finalize().into())
}

impl<R: Rdma, C: Clock> Client<R, C> {
    /// Has the server reload a card with an image, which must be registered for remote reads.
    /// `ending` is that of the image's file name. `progress` is called now and then with the bytes
    /// that have arrived; the card is not touched before all have, with the same checksum.
    ///
    /// # Errors
    /// A refusal, an image that does not arrive in this time, a card that cannot be reloaded, which
    /// then is out of service, and a server that says nothing in the same time again. The
    /// connection is unusable afterwards, unless the server merely refused the request.
    pub async fn reload(
        &self,
        card: &str,
        image: &MemoryPart<R::Region>,
        ending: &str,
        time: impl Into<Picoseconds>,
        mut progress: impl FnMut(u64),
    ) -> Result<Reloaded> {
        let (source, time) = (region(image)?, time.into());
        let bytes = source.bytes;
        let request = ReloadRequest {
            card: card.to_owned(),
            ending: ending.to_owned(),
            bytes,
            sha256: [0; 32],
            source,
            time_ps: time.0,
        };
        request.check()?;
        let request = ReloadRequest { sha256: sha256(image)?, ..request };
        let own = request.sha256;
        let begun = self.clock.now();
        self.control.send(&Request::Reload(Box::new(request))).await?;
        let talking = async {
            loop {
                match self.control.receive::<Reply>("a server's reply").await? {
                    Reply::Reloaded { bytes: theirs, sha256, said } => {
                        if (theirs, sha256) != (bytes, own) {
                            let why = "the server has reloaded the card with another image";
                            return Err(BridgeError::new(Stage::Reload, Data, why));
                        }
                        let said = said.lines().map(short).collect::<Vec<_>>().join("\n");
                        let elapsed = self.clock.now().since(begun);
                        return Ok(Reloaded { bytes, sha256, said, elapsed });
                    }
                    Reply::Failed(failure) => return Err(failure.into()),
                    Reply::Progress { bytes: arrived, .. } => progress(arrived.min(bytes)),
                    // Others are of a transfer that was given up.
                    _ => {}
                }
            }
        };
        let end = after(&self.clock, Picoseconds(time.0.saturating_mul(2)));
        let (talking, late) = (pin!(talking), pin!(self.clock.sleep_until(end)));
        match select(talking, late).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                self.control.connection().close().await;
                let why = "the server has not said whether the card is reloaded";
                Err(BridgeError::new(Stage::Reload, Timeout, why))
            }
        }
    }
}
