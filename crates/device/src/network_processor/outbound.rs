// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes to host memory, in order: data of messages, the notifications that follow them, and
//! counts of puts.

use std::ops::Range;

use crosslane_fabric::DevicePort;
use crosslane_pcie::tlp::Class;
use crosslane_regs::network_notification::{self as notification, NetworkStatus};
use crosslane_torus_link::frame::{Channel, Payload};

use super::NetworkProcessor;
use crate::kit::send_write;

/// Item to be written.
pub(super) enum Outbound {
    /// Payload bytes of a datagram. Until they are handed on, they occupy an entry of the receive
    /// buffer of `place`, if that buffer has not been reset.
    Data { address: u64, payload: Payload, from: Range<usize>, place: Option<(u8, Channel)> },
    /// End of a message.
    Notify { address: u64, token: u16, status: NetworkStatus, bytes: u32 },
    /// Number of put datagrams of a link's channel that have left the put aperture.
    Count { out: usize },
}

impl NetworkProcessor {
    /// Schedules the count of a channel's puts to be written to the host.
    pub(super) fn count_puts(&mut self, out: usize) {
        let address = self.put_counts();
        let channel = &mut self.channels[out];
        if address != 0 && !std::mem::replace(&mut channel.is_count_due, true) {
            self.outbound.push_back(Outbound::Count { out });
        }
    }

    /// Writes the next item if the link to the host has room.
    pub(super) fn write(&mut self, port: &mut DevicePort<'_>) -> bool {
        if self.outbound.is_empty()
            || !self.function.is_bus_master
            || !port.has_room_for(Class::Posted)
        {
            return false;
        }
        if matches!(self.outbound.front(), Some(Outbound::Data { .. })) {
            self.write_data(port);
            return true;
        }
        match self.outbound.pop_front() {
            Some(Outbound::Notify { address, token, status, bytes }) => {
                let word = notification::word::TOKEN.put(token.into())
                    | notification::word::STATUS.put(status as u32);
                let both = u64::from(bytes) << 32 | u64::from(word);
                send_write(address, &both.to_le_bytes(), port);
            }
            Some(Outbound::Count { out }) => {
                let address = self.put_counts() + 4 * out as u64;
                let channel = &mut self.channels[out];
                channel.is_count_due = false;
                send_write(address, &channel.put_count.to_le_bytes(), port);
            }
            Some(Outbound::Data { .. }) | None => {}
        }
        true
    }

    /// Sends one write of data: as many contiguous datagrams as have arrived and fit.
    fn write_data(&mut self, port: &mut DevicePort<'_>) {
        let most = self.parameters.max_write_bytes.min(self.function.max_payload_bytes);
        let Some(Outbound::Data { address: first, .. }) = self.outbound.front() else { return };
        let first = *first;
        let room = u64::from(most) - first % u64::from(most);
        let end = first + room;
        let mut data = Vec::with_capacity(room as usize);
        while let Some(Outbound::Data { address, payload, from, place }) = self.outbound.front_mut()
        {
            let next = first + data.len() as u64;
            if *address != next || next == end {
                break;
            }
            let count = from.len().min((end - next) as usize);
            data.extend_from_slice(&payload[from.start..from.start + count]);
            from.start += count;
            *address += count as u64;
            if from.start < from.end {
                break;
            }
            let place = *place;
            self.outbound.pop_front();
            if let Some((link, channel)) = place {
                self.free(link, channel);
            }
        }
        let bytes = data.len() as u64;
        assert!(bytes > 0 && bytes <= room, "a write of {bytes} B at {first:#x}, with {room} B");
        send_write(first, &data, port);
    }
}
