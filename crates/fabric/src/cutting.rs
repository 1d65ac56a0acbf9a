// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A root complex that cuts what it passes on between its root ports to the Max_Payload_Size of the
//! port that it leaves by (PCIe 6.x 1.3.1).

use crosslane_pcie::tlp::{Header, TlpKind};
use crosslane_pcie::units::BusAddress;

use crate::packet::{NONE, PacketIndex, Packets};

/// Bytes of data that a TLP carries from its address on.
pub(crate) fn data_bytes(header: &Header) -> u32 {
    match header.kind {
        TlpKind::CompletionData => {
            let room = header.payload_bytes() - (header.address.0 & 3) as u32;
            room.min(header.byte_count.into())
        }
        _ => header.request_bytes(),
    }
}

/// Cuts a write or a completion with data into a first TLP with a payload of `payload_bytes`, and
/// the rest. Of a completion the payload ends at a multiple of `boundary` bytes.
fn cut(header: &Header, payload_bytes: u32, boundary: u32) -> (Header, Header) {
    let (at, data) = (header.address, data_bytes(header));
    let is_completion = header.kind == TlpKind::CompletionData;
    let unit = if is_completion { u64::from(boundary) } else { 4 };
    let first = (payload_bytes - (at.0 % unit) as u32).min(data);
    let part = |from: u32, bytes: u32| {
        let address = BusAddress(at.0 + u64::from(from));
        let plain = Header::memory_write(header.requester, address, bytes);
        let (length_dw, byte_count) =
            (plain.length_dw, header.byte_count.wrapping_sub(from as u16));
        match is_completion {
            true => {
                Header { address: BusAddress(address.0 & 0x7f), length_dw, byte_count, ..*header }
            }
            false => {
                let Header { first_byte_enables, last_byte_enables, .. } = plain;
                Header { address, length_dw, first_byte_enables, last_byte_enables, ..*header }
            }
        }
    };
    (part(0, first), part(first, data - first))
}

impl Packets {
    /// Cuts a TLP that is longer than `payload_bytes`: adds all pieces but the last to `before`, in
    /// order, and leaves the last one in the TLP's place, with its receive buffer.
    pub fn cut(
        &mut self,
        index: PacketIndex,
        payload_bytes: u32,
        boundary: u32,
        before: &mut Vec<PacketIndex>,
    ) {
        while self.get(index).payload_bytes() > payload_bytes {
            let (first, rest) = cut(&self.get(index).header, payload_bytes, boundary);
            let piece = self.duplicate(index);
            self.shorten(piece, 0, first);
            // Only the last one has the place in the order and the buffer of the whole.
            let packet = self.get_mut(piece);
            (packet.source_sequence, packet.ingress) = (0, NONE);
            before.push(piece);
            self.shorten(index, first.payload_bytes() as usize, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_pcie::units::{RoutingId, Tag};

    /// Address, data, payload and byte count of each piece.
    fn pieces(header: Header, payload_bytes: u32) -> Vec<(u64, u32, u32, u16)> {
        let mut all = Vec::new();
        let mut rest = header;
        while rest.payload_bytes() > payload_bytes {
            let (first, after) = cut(&rest, payload_bytes, 64);
            all.push(first);
            rest = after;
        }
        all.push(rest);
        let of = |it: &Header| (it.address.0, data_bytes(it), it.payload_bytes(), it.byte_count);
        all.iter().map(of).collect()
    }

    #[test]
    fn writes_are_cut_at_the_length_of_payloads() {
        let write = |at: u64, bytes: u32| Header::memory_write(RoutingId(8), BusAddress(at), bytes);
        let found = pieces(write(0x1000, 512), 256);
        assert_eq!(found, [(0x1000, 256, 256, 0), (0x1100, 256, 256, 0)]);
        let found = pieces(write(0x1003, 258), 128);
        assert_eq!(found, [(0x1003, 125, 128, 0), (0x1080, 128, 128, 0), (0x1100, 5, 8, 0)]);
    }

    #[test]
    fn completions_are_cut_at_the_boundary() {
        let read = Header::memory_read(RoutingId(8), Tag(3), BusAddress(0x2028), 1000);
        // The first 472 B of 1000 that are to come.
        let data = Header::completion_data(&read, RoutingId(0), BusAddress(0x2028), 472, 1000);
        let found = pieces(data, 256);
        assert_eq!(found, [(0x28, 216, 216, 1000), (0, 256, 256, 784)]);
    }
}
