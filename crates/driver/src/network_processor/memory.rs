// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of messages: the program's, or the driver's with a copy.

use std::ops::Range;

use crosslane_host::ErrorKind::Failed;
use crosslane_host::{Bus, HostWork, PageSize, lock};
use crosslane_pcie::units::BusAddress;

use super::NetworkProcessor;
use super::error::NetworkError;
use super::flights::{Bounce, Held, Kind, Target};
use super::options::{Buffers, ScatteredMessage};
use crate::buffer::{Buffer, check_placed};
use crate::error::Result;

/// Smallest size of the driver's own buffers, bytes.
const LEAST_COPY_BYTES: u64 = 4096;
/// Most unused buffers kept by the driver.
const POOL: usize = 512;

impl NetworkProcessor {
    /// Prepares `count` of the driver's own buffers for messages of up to `bytes`, so that no
    /// message waits for that later. Useful only with [`Buffers::Copied`].
    ///
    /// # Errors
    /// No memory, or it cannot be pinned.
    pub async fn prepare_copies(&self, bytes: u64, count: usize) -> Result<()> {
        let mut ready = Vec::new();
        for _ in 0..count.min(POOL) {
            ready.push(self.own_buffer(bytes).await?);
        }
        lock(&self.shared.pool).append(&mut ready);
        Ok(())
    }

    /// Gives the memory of a message to the device, and returns its addresses.
    pub(super) async fn hold(
        &self,
        kind: Kind,
        message: &ScatteredMessage,
    ) -> Result<(Held, Vec<(BusAddress, u32)>), NetworkError> {
        let buffer = &message.buffer;
        let refused = NetworkError::refused;
        let parts: Vec<_> = message.parts.iter().filter(|part| !part.is_empty()).cloned().collect();
        let device_writes = kind == Kind::Credit;
        let claims = parts.iter().map(|part| buffer.claim(part.clone(), device_writes));
        let claims = claims.collect::<Result<Vec<_>>>().map_err(refused)?;
        if parts.is_empty() || self.shared.modes.buffers != Buffers::Copied {
            let mut pieces = Vec::new();
            for part in parts {
                pieces.append(&mut self.placed(buffer, part)?);
            }
            return Ok((Held { claims, bounce: None }, pieces));
        }
        let bytes = message.bytes();
        let own = self.own_buffer(bytes).await.map_err(refused)?;
        let target = match kind {
            Kind::Get => {
                self.bus().work(HostWork::Copy(bytes)).await;
                let mut at = 0;
                for part in parts {
                    let mut data = vec![0; (part.end - part.start) as usize];
                    buffer.read(part.start, &mut data).map_err(refused)?;
                    own.write(at, &data).map_err(refused)?;
                    at += data.len() as u64;
                }
                None
            }
            Kind::Credit => Some(Target { buffer: buffer.clone(), parts, claims }),
        };
        let pieces = self.placed(&own, 0..bytes)?;
        Ok((Held { claims: Vec::new(), bounce: Some(Bounce { own, target }) }, pieces))
    }

    /// Returns the bus addresses of a part of a buffer.
    fn placed(
        &self,
        buffer: &Buffer,
        part: Range<u64>,
    ) -> Result<Vec<(BusAddress, u32)>, NetworkError> {
        let bytes = part.end - part.start;
        let pieces: Vec<_> = buffer.registered().pieces(part).collect();
        check_placed(&pieces, bytes).map_err(|problem| {
            NetworkError::refused(self.shared.access.refused(Failed, problem))
        })?;
        Ok(pieces)
    }

    /// Gets one of the driver's own buffers with at least this many bytes.
    async fn own_buffer(&self, bytes: u64) -> Result<Buffer> {
        let pooled = {
            let mut pool = lock(&self.shared.pool);
            let fitting = pool.iter().enumerate().filter(|(_, own)| own.size_bytes() >= bytes);
            let best = fitting.min_by_key(|(_, own)| own.size_bytes()).map(|(index, _)| index);
            best.map(|index| pool.swap_remove(index))
        };
        if let Some(own) = pooled {
            return Ok(own);
        }
        let size = bytes.next_power_of_two().max(LEAST_COPY_BYTES);
        let memory = self.shared.access.allocate(self.bus(), size, PageSize::Huge)?;
        self.shared.access.buffer(self.bus(), memory, &self.shared.retired).await
    }

    /// Keeps one of the driver's own buffers for the next message.
    pub(super) fn keep(&self, own: Buffer) {
        let mut pool = lock(&self.shared.pool);
        if pool.len() < POOL {
            pool.push(own);
        }
    }

    /// Copies received data into the program's buffer.
    pub(super) async fn copy_out(&self, own: &Buffer, target: Option<Target>, bytes: u64) {
        let Some(Target { buffer, parts, claims }) = target else { return };
        drop(claims);
        let mut at = 0;
        for part in parts {
            let here = (bytes - at).min(part.end - part.start);
            let mut data = vec![0; here as usize];
            // Cannot fail: the sizes were compared when the message was posted.
            let copied = own.read(at, &mut data).and_then(|()| buffer.write(part.start, &data));
            debug_assert_eq!(copied, Ok(()));
            at += here;
        }
        self.bus().work(HostWork::Copy(at)).await;
    }
}
