// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory.

use crosslane_host::{Bus, Segment};

use crate::error::DriverError;

/// Memory that one device may reach. Clones are the same memory. While a transfer is in flight
/// its part of the buffer belongs to the device: neither [`read`](Self::read) nor
/// [`write`](Self::write) nor another transfer may touch it.
#[derive(Clone)]
pub struct Buffer<B: Bus> {
    memory: B::Memory,
}

impl<B: Bus> Buffer<B> {
    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// Where its parts lie, as the device addresses them.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        unimplemented!()
    }

    /// Copies out of it.
    ///
    /// # Errors
    /// Beyond its end, or a part that is in flight for writing by the device.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DriverError> {
        let _ = (offset_bytes, into);
        unimplemented!()
    }

    /// Copies into it.
    ///
    /// # Errors
    /// Beyond its end, or a part that is in flight.
    pub fn write(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DriverError> {
        let _ = (offset_bytes, from);
        unimplemented!()
    }

    /// Ends the registration and gives the memory back.
    ///
    /// # Errors
    /// While a transfer is in flight.
    pub async fn unregister(self) -> Result<B::Memory, DriverError> {
        Ok(self.memory)
    }
}
