// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of any function's configuration space, by a function that reads a double word of it.

use super::registers::*;
use crate::link::{Generation, LinkRate, Width};

/// Most capabilities that a walk visits: a list has no room for more, and may run in a circle.
const LIST_LIMIT: usize = 1024;
/// Offset of the first register behind the header.
const HEADER_END: u16 = 0x40;
/// Largest code of payload and read sizes; the two above it are reserved.
const LARGEST_SIZE_CODE: u32 = 5;

/// Finds the offset of the capability with this ID (PCIe 6.x 7.5.1.1.11).
///
/// # Errors
/// The first of `read`.
pub fn find_capability<E>(
    id: u8,
    mut read: impl FnMut(u16) -> Result<u32, E>,
) -> Result<Option<u16>, E> {
    let mut offset = read(CAPABILITIES_POINTER)? as u16 & 0xfc;
    for _ in 0..LIST_LIMIT {
        if offset < HEADER_END {
            break;
        }
        let header = read(offset)?;
        if header as u8 == id {
            return Ok(Some(offset));
        }
        offset = (header >> 8) as u16 & 0xfc;
    }
    Ok(None)
}

/// Finds the offset of the extended capability with this ID (PCIe 6.x 7.6.3).
///
/// # Errors
/// The first of `read`.
pub fn find_extended_capability<E>(
    id: u16,
    mut read: impl FnMut(u16) -> Result<u32, E>,
) -> Result<Option<u16>, E> {
    let mut offset = EXTENDED_SPACE;
    for _ in 0..LIST_LIMIT {
        let header = read(offset)?;
        if header == 0 || header == u32::MAX {
            break;
        }
        if header as u16 == id {
            return Ok(Some(offset));
        }
        offset = (header >> 20) as u16 & 0xffc;
        if offset < EXTENDED_SPACE {
            break;
        }
    }
    Ok(None)
}

/// Decodes a payload or read request size from the lowest three bits: 128 bytes times two to their
/// power. The two reserved codes count as 4096 bytes.
pub const fn size_of_code(code: u32) -> u32 {
    let code = code & 7;
    128 << if code > LARGEST_SIZE_CODE { LARGEST_SIZE_CODE } else { code }
}

/// Encodes a payload or read request size, a power of two from 128 to 4096 bytes.
pub const fn size_code(bytes: u32) -> u32 {
    bytes.trailing_zeros() - 7
}

/// Decodes speed (bits 3:0) and width (bits 9:4) of a link; `None` for codes that are not modelled.
pub fn rate_of_code(code: u32) -> Option<LinkRate> {
    let generation = Generation::from_number((code & LINK_SPEED_MASK) as u8)?;
    let width = Width::new((code >> LINK_CAPABILITIES_WIDTH_SHIFT & 0x3f) as u8)?;
    Some(LinkRate { generation, width })
}
