// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Status blocks in host memory, and the interrupts that follow them.

use crosslane_fabric::DevicePort;
use crosslane_pcie::tlp::Header;
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::{channel, global};
use crosslane_regs::status_block;

use super::Engine;
use super::arbiter::{Built, below, in_turn, later};
use super::channel::Due;

/// Number of interrupt vectors.
pub(super) const VECTORS: u32 = global::counts::VECTORS.get(global::COUNTS_RESET);
/// Alignment of a status block, bytes.
const STATUS_ALIGNMENT: u64 = 64;

impl Engine {
    /// Sends a due interrupt or status block.
    pub(super) fn build_status(&mut self, port: &mut DevicePort<'_>) -> Built {
        if !self.function.is_bus_master {
            // Neither can be sent, but the registers hold the state.
            self.channels.iter_mut().for_each(|channel| channel.due.clear());
            return Built::Nothing(u64::MAX);
        }
        if self.msix.pending != 0 && self.send_message(port) {
            return Built::Tlp;
        }
        let now_ps = port.now_ps();
        let due_ps = self.channels.iter().fold(u64::MAX, |first, it| first.min(it.due_ps()));
        if due_ps > now_ps {
            return Built::Nothing(due_ps);
        }
        for index in in_turn(self.status_turn, below(self.channels.len())) {
            let Some(due) = self.take_due(index, now_ps) else { continue };
            if due.interrupt {
                self.msix.request(self.channels[index].registers.get(channel::VECTOR));
            }
            if due.status {
                self.status_turn = index + 1;
                self.send_status(index, due.completed, port);
                return Built::Tlp;
            }
            if self.send_message(port) {
                return Built::Tlp;
            }
        }
        Built::Nothing(self.next_status_ps(now_ps))
    }

    /// Merges a channel's due reports into one. A block is assembled as soon as it may be sent and
    /// the block before it has gone, even if the link is not ready. Later reports are not in it.
    fn take_due(&mut self, index: usize, now_ps: u64) -> Option<Due> {
        let due = &mut self.channels[index].due;
        let first = due.front().filter(|first| first.from_ps <= now_ps)?;
        let made_ps = first.from_ps.max(self.status_free_ps);
        let count = due.iter().take_while(|due| due.from_ps <= made_ps).count();
        due.drain(..count).reduce(|all, next| Due {
            status: all.status || next.status,
            interrupt: all.interrupt || next.interrupt,
            ..next
        })
    }

    /// Sends the message of a pending vector. Returns whether it sent one.
    fn send_message(&mut self, port: &mut DevicePort<'_>) -> bool {
        let Some((address, data)) = self.msix.take() else { return false };
        let header = Header::memory_write(port.routing_id(), BusAddress(address), 4);
        self.status_free_ps =
            self.send(header, port, |payload| payload.copy_from_slice(&data.to_le_bytes()));
        true
    }

    /// Returns the next time at which a scheduled status block or interrupt may be sent.
    pub(super) fn next_status_ps(&self, now_ps: u64) -> u64 {
        let times = self.channels.iter().map(|channel| later(channel.due_ps(), now_ps));
        times.fold(u64::MAX, u64::min)
    }

    /// Sends a channel's status block for `completed` descriptors.
    fn send_status(&mut self, index: usize, completed: u32, port: &mut DevicePort<'_>) {
        let clocks = self.clocks(port.now_ps());
        let in_flight = self.in_flight(index);
        let channel = &mut self.channels[index];
        channel.sequence = channel.sequence.wrapping_add(1);
        // Progress of a later descriptor must not be reported before that descriptor's data.
        let moved = if completed == channel.completed { channel.shown_moved() } else { 0 };
        let words = [
            (status_block::SEQUENCE, channel.sequence),
            (status_block::COMPLETED, completed),
            (status_block::STATUS, channel.status(in_flight)),
            (status_block::STOPPED_AT, moved),
            (status_block::ERROR_LOW, channel.error_address as u32),
            (status_block::ERROR_HIGH, (channel.error_address >> 32) as u32),
            (status_block::TIME_LOW, clocks as u32),
            (status_block::TIME_HIGH, (clocks >> 32) as u32),
        ];
        let address =
            BusAddress(channel.registers.wide(channel::STATUS_LOW) & !(STATUS_ALIGNMENT - 1));
        let header = Header::memory_write(port.routing_id(), address, status_block::BYTES);
        self.status_free_ps = self.send(header, port, |payload| {
            for (offset, word) in words {
                payload[offset as usize..offset as usize + 4].copy_from_slice(&word.to_le_bytes());
            }
        });
    }
}
