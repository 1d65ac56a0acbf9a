// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of messages: the program's, or the driver's with a copy.

use std::ops::Range;

use crosslane_host::ErrorKind::Failed;
use crosslane_host::{Bus, DmaMemory, HostWork, PageSize, lock};
use crosslane_pcie::units::BusAddress;

use super::NetworkProcessor;
use super::error::NetworkError;
use super::flights::{Bounce, Held, Kind, POOL, Target};
use super::options::{Buffers, ScatteredMessage};
use super::request::{self, Piece};
use crate::buffer::{Buffer, Claim, check_placed};
use crate::error::Result;

/// Smallest size of the driver's own buffers, bytes.
const LEAST_COPY_BYTES: u64 = 4096;

impl NetworkProcessor {
    /// Prepares `count` of the driver's own buffers for messages of up to `bytes`, so that no
    /// message waits for that later: with [`Buffers::Copied`] for whole messages, else for those
    /// payloads that lie in several places.
    ///
    /// # Errors
    /// No memory, or it cannot be pinned.
    pub async fn prepare_copies(&self, bytes: u64, count: usize) -> Result<()> {
        let mut ready = Vec::new();
        for _ in 0..count.min(POOL) {
            ready.push(self.own_buffer(bytes).await?);
        }
        let mut flights = lock(&self.shared.flights);
        ready.into_iter().for_each(|own| flights.keep(own));
        Ok(())
    }

    /// Claims the memory of a message, and returns the pieces in which it lies.
    pub(super) fn claim(
        &self,
        kind: Kind,
        message: &ScatteredMessage,
    ) -> Result<(Vec<Claim>, Vec<Piece>), NetworkError> {
        let buffer = &message.buffer;
        let parts = message.parts.iter().filter(|part| !part.is_empty());
        let device_writes = kind == Kind::Credit;
        let claims = parts.clone().map(|part| buffer.claim(part.clone(), device_writes));
        let claims = claims.collect::<Result<Vec<_>>>().map_err(NetworkError::refused)?;
        if self.shared.modes.buffers == Buffers::Copied {
            let pieces = parts.map(|part| Piece { part: part.clone(), address: None });
            return Ok((claims, pieces.collect()));
        }
        let mut places = Vec::new();
        for part in parts {
            let mut begin = part.start;
            for (address, bytes) in self.placed(buffer, part.clone())? {
                let end = begin + u64::from(bytes);
                places.push((begin..end, address));
                begin = end;
            }
        }
        let unit_bytes = message.key.unit_bytes(self.shared.sizes.payload_bytes());
        Ok((claims, request::cut(unit_bytes, message.bytes(), places.into_iter())))
    }

    /// Gives the claimed memory of a message to the device, or copies it, and returns its
    /// addresses.
    pub(super) async fn hold(
        &self,
        kind: Kind,
        buffer: &Buffer,
        (claims, pieces): (Vec<Claim>, Vec<Piece>),
    ) -> Result<(Held, Vec<(BusAddress, u32)>), NetworkError> {
        let copied = || pieces.iter().filter(|piece| piece.address.is_none());
        let copied_bytes: u64 = copied().map(Piece::bytes).sum();
        if copied_bytes == 0 {
            let in_place = |piece: &Piece| Some((piece.address?, piece.bytes() as u32));
            let places = pieces.iter().filter_map(in_place).collect();
            return Ok((Held { claims, bounce: None }, places));
        }
        let own = self.own_buffer(copied_bytes).await.map_err(NetworkError::refused)?;
        let (mut places, mut at) = (Vec::new(), 0);
        for run in request::by_run(&pieces) {
            let bytes: u64 = run.iter().map(Piece::bytes).sum();
            match run[0].address {
                Some(address) => places.push((address, bytes as u32)),
                None => {
                    places.append(&mut self.placed(&own, at..at + bytes)?);
                    at += bytes;
                }
            }
        }
        if kind == Kind::Credit {
            let target = Some(Target { buffer: buffer.clone(), pieces, claims });
            let bounce = Some(Bounce { own, target });
            return Ok((Held { claims: Vec::new(), bounce }, places));
        }
        self.bus().work(HostWork::Copy(copied_bytes)).await;
        let mut at = 0;
        for Piece { part, .. } in copied() {
            let mut data = vec![0; (part.end - part.start) as usize];
            buffer.read(part.start, &mut data).map_err(NetworkError::refused)?;
            own.write(at, &data).map_err(NetworkError::refused)?;
            at += data.len() as u64;
        }
        // A message that was copied as a whole is the program's again.
        let is_whole = pieces.iter().all(|piece| piece.address.is_none());
        let claims = if is_whole { Vec::new() } else { claims };
        Ok((Held { claims, bounce: Some(Bounce { own, target: None }) }, places))
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
        let kept = lock(&self.shared.flights).take_kept(bytes);
        if let Some(own) = kept {
            return Ok(own);
        }
        // Those that a refused message had.
        self.unpin_retired().await?;
        let size = bytes.next_power_of_two().max(LEAST_COPY_BYTES);
        let memory = self.shared.access.allocate(self.bus(), size, PageSize::Huge)?;
        self.shared.access.buffer(self.bus(), memory, &self.shared.retired).await
    }

    /// Copies the received data in the driver's own memory into the program's buffer, of a message
    /// of which `bytes` have come, and keeps that memory for the next message.
    pub(super) async fn copy_out(&self, own: Buffer, target: Target, bytes: u64) {
        let Target { buffer, pieces, claims } = target;
        let (mut at, mut own_at, mut copied_bytes) = (0, 0, 0);
        for piece in pieces {
            let here = piece.bytes().min(bytes.saturating_sub(at));
            at += piece.bytes();
            if piece.address.is_some() {
                continue;
            }
            let mut data = vec![0; here as usize];
            own.read(own_at, &mut data).expect("it is as long as the pieces");
            let copied = buffer.memory().write(piece.part.start, &data);
            copied.expect("the piece was claimed, so it is within the buffer");
            own_at += piece.bytes();
            copied_bytes += here;
        }
        drop(claims);
        lock(&self.shared.flights).keep(own);
        self.bus().work(HostWork::Copy(copied_bytes)).await;
    }
}
