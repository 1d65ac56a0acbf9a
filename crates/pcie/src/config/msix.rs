// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The MSI-X capability (PCIe 6.x 7.7.2): position of a function's table of interrupt messages, and
//! whether it may send them. The function holds the table itself, behind a BAR.

use super::registers::*;
use super::reset::{EXPRESS, MSIX};
use super::{ConfigError, ConfigSpace, PortType, Register};

/// Most entries of a table (PCIe 6.x 7.7.2.2).
pub const MAX_MSIX_VECTORS: u16 = 2048;
/// Bytes of one entry: address, data, vector control (PCIe 6.x 7.7.2.5).
pub const MSIX_ENTRY_BYTES: u32 = 16;
/// Vectors of one word of the pending bit array, which has words of 8 bytes (PCIe 6.x 7.7.2.9).
pub const MSIX_VECTORS_PER_PENDING_WORD: u32 = 64;

/// Size and position of the interrupt message table that an endpoint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MsixRequest {
    /// Entries of the table, 1 to [`MAX_MSIX_VECTORS`].
    pub vectors: u16,
    /// Number of the BAR that holds the table.
    pub table_bar: u8,
    /// Offset of the table in that BAR, a multiple of 8.
    pub table_offset_bytes: u32,
    /// Number of the BAR that holds the pending bits.
    pub pending_bar: u8,
    /// Offset of the pending bits in that BAR, a multiple of 8.
    pub pending_offset_bytes: u32,
}

/// The capability as programmed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Msix {
    /// Size and position of the table and the pending bits.
    pub request: MsixRequest,
    /// Whether the function may send interrupt messages.
    pub enabled: bool,
    /// Whether all vectors are masked, whatever the table says.
    pub function_masked: bool,
}

impl MsixRequest {
    /// Length of the table in bytes.
    pub const fn table_bytes(&self) -> u32 {
        self.vectors as u32 * MSIX_ENTRY_BYTES
    }

    /// Length of the pending bits in bytes, whole words of 8.
    pub const fn pending_bytes(&self) -> u32 {
        (self.vectors as u32).div_ceil(MSIX_VECTORS_PER_PENDING_WORD) * 8
    }

    /// Table and pending bits: name, BAR, offset, length.
    const fn parts(&self) -> [(&'static str, u8, u32, u32); 2] {
        [
            ("table", self.table_bar, self.table_offset_bytes, self.table_bytes()),
            ("pending bits", self.pending_bar, self.pending_offset_bytes, self.pending_bytes()),
        ]
    }
}

impl ConfigSpace {
    /// Adds the MSI-X capability, disabled, to an endpoint.
    ///
    /// # Errors
    /// [`ConfigError`] if the number of vectors has no code, or if the table or pending bits do not
    /// fit into their BAR, are not at a multiple of 8, or overlap.
    ///
    /// # Panics
    /// If the function is not an endpoint or already has the capability.
    pub fn with_msix(mut self, request: MsixRequest) -> Result<Self, ConfigError> {
        assert!(self.port_type == PortType::Endpoint, "only endpoints have MSI-X here");
        assert!(self.find_capability(CAPABILITY_MSIX).is_none(), "one MSI-X capability each");
        if request.vectors == 0 || request.vectors > MAX_MSIX_VECTORS {
            return Err(ConfigError::MsixVectors { vectors: request.vectors });
        }
        for (part, bar, offset_bytes, bytes) in request.parts() {
            let size = self.bar_requests.get(usize::from(bar)).copied().flatten();
            let end = u64::from(offset_bytes) + u64::from(bytes);
            if offset_bytes % 8 != 0 || size.is_none_or(|size| end > size.size_bytes) {
                return Err(ConfigError::MsixPlace { part, bar, offset_bytes, bytes });
            }
        }
        let [table, pending] = request.parts();
        let end = |part: (&str, u8, u32, u32)| u64::from(part.2) + u64::from(part.3);
        let is_apart = end(table) <= u64::from(pending.2) || end(pending) <= u64::from(table.2);
        if table.1 == pending.1 && !is_apart {
            let (part, bar, offset_bytes, bytes) = pending;
            return Err(ConfigError::MsixPlace { part, bar, offset_bytes, bytes });
        }
        let control = u32::from(request.vectors - 1) << MSIX_TABLE_SIZE_SHIFT;
        let writable = MSIX_ENABLE | MSIX_FUNCTION_MASK;
        let header = Register {
            value: u32::from(CAPABILITY_MSIX) | control,
            writable,
            ..Register::default()
        };
        *self.register_mut(MSIX) = header;
        self.register_mut(MSIX + MSIX_TABLE).value =
            request.table_offset_bytes | u32::from(table.1);
        self.register_mut(MSIX + MSIX_PENDING).value =
            request.pending_offset_bytes | u32::from(pending.1);
        self.register_mut(EXPRESS).value |= u32::from(MSIX) << 8;
        Ok(self)
    }

    /// The MSI-X capability, or `None` if the function lacks it.
    pub fn msix(&self) -> Option<Msix> {
        let at = self.find_capability(CAPABILITY_MSIX)?;
        let (header, table) = (self.read(at), self.read(at + MSIX_TABLE));
        let pending = self.read(at + MSIX_PENDING);
        let place = |register: u32| ((register & MSIX_BAR) as u8, register & !MSIX_BAR);
        let ((table_bar, table_offset_bytes), (pending_bar, pending_offset_bytes)) =
            (place(table), place(pending));
        let vectors = (header >> MSIX_TABLE_SIZE_SHIFT & MSIX_TABLE_SIZE) as u16 + 1;
        Some(Msix {
            request: MsixRequest {
                vectors,
                table_bar,
                table_offset_bytes,
                pending_bar,
                pending_offset_bytes,
            },
            enabled: header & MSIX_ENABLE != 0,
            function_masked: header & MSIX_FUNCTION_MASK != 0,
        })
    }
}
