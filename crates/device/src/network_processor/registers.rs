// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers of BAR 0, and reads of all BARs.

use crosslane_fabric::trace::HeaderLine;
use crosslane_fabric::{DevicePort, ErrorKind, Received};
use crosslane_pcie::split;
use crosslane_pcie::tlp::{Class, CompletionStatus, Header};
use crosslane_regs::network_processor as map;
use crosslane_torus_link::routing::{Dimension, MAX_DIMENSIONS, Torus};

use super::NetworkProcessor;
use crate::engine::READ_COMPLETION_BOUNDARY_BYTES;

/// Byte enables of a whole double word.
const ALL_BYTES: u8 = 0xf;

/// Counters of the whole device, which wrap at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub gets: u32,
    pub credits: u32,
    pub puts: u32,
    pub refused: u32,
    pub forwarded: u32,
    pub misrouted: u32,
}

impl Counters {
    pub fn refuse(&mut self) {
        self.refused = self.refused.wrapping_add(1);
    }
}

/// Completion waiting to be sent.
pub(super) struct Answer {
    ready_ps: u64,
    header: Header,
    /// Word that fills the payload.
    word: u32,
    /// Read whose receive buffer is freed with its last completion.
    frees: Option<(Received, Header, u32)>,
}

impl NetworkProcessor {
    pub(super) fn write_register(&mut self, offset: u32, word: u32, port: &mut DevicePort<'_>) {
        let halves = |value: u64| (value as u32, (value >> 32) as u32);
        match offset {
            map::CONTROL if map::control::RESET.get(word) != 0 => self.reset(true, port),
            map::PUT_COUNTS_LOW => {
                let (_, high) = halves(self.put_counts);
                // Aligned to whole lines, so that each count lies in one line.
                self.put_counts = u64::from(high) << 32 | u64::from(word & !63);
            }
            map::PUT_COUNTS_HIGH => {
                let (low, _) = halves(self.put_counts);
                self.put_counts = u64::from(word) << 32 | u64::from(low);
                for out in 0..self.channels.len() {
                    self.count_puts(out);
                }
            }
            _ => {
                if let Some((index, map::torus_dimension::EXTENT)) = place(map::DIMENSIONS, offset)
                {
                    self.extents[index as usize] = word;
                    self.make_torus();
                } else if let Some((index, map::torus_link::CONTROL)) = place(map::LINKS, offset) {
                    self.control_link(index as u8, word, port);
                }
            }
        }
    }

    /// Sets the torus that the registers describe, and this node's number in it.
    fn make_torus(&mut self) {
        use map::torus_dimension::extent;
        let dimensions: [Dimension; MAX_DIMENSIONS] = self.extents.map(|word| Dimension {
            size: extent::SIZE.get(word).max(1) as u16,
            wraps: extent::OPEN.get(word) == 0,
        });
        let position = self.extents.map(|word| extent::POSITION.get(word) as u16);
        let torus = Torus::of(&dimensions).ok().filter(|torus| torus.nodes() > 1);
        let place = torus.and_then(|torus| Some((torus, torus.node(&position)?)));
        self.torus = place.map(|(torus, _)| torus);
        self.node = place.map(|(_, node)| node).unwrap_or_default();
    }

    fn read_register(&self, offset: u32) -> u32 {
        use map::{put_sizes, sizes, status};
        let parameters = &self.parameters;
        let counters = &self.counters;
        match offset {
            map::ID => map::ID_RESET,
            map::VERSION => map::VERSION_RESET,
            map::SIZES => {
                sizes::LINKS.put(parameters.links.into())
                    | sizes::GET_SLOTS.put(parameters.get_slots.into())
                    | sizes::CREDIT_SLOTS.put(parameters.credit_slots.into())
            }
            map::PUT_SIZES => put_sizes::SLOTS.put(parameters.put_slots.into()),
            map::STATUS => {
                status::QUIET.put(u32::from(self.reading == 0 && self.outbound.is_empty()))
            }
            map::PUT_COUNTS_LOW => self.put_counts as u32,
            map::PUT_COUNTS_HIGH => (self.put_counts >> 32) as u32,
            map::GETS => counters.gets,
            map::CREDITS => counters.credits,
            map::PUTS => counters.puts,
            map::REFUSED => counters.refused,
            map::FORWARDED => counters.forwarded,
            map::MISROUTED => counters.misrouted,
            map::WAITING => self.waiting_count(),
            _ => {
                if let Some((index, map::torus_dimension::EXTENT)) = place(map::DIMENSIONS, offset)
                {
                    self.extents[index as usize]
                } else if let Some((index, register)) = place(map::LINKS, offset) {
                    self.read_link(index as u8, register)
                } else {
                    0
                }
            }
        }
    }

    fn read_link(&self, number: u8, register: u32) -> u32 {
        use map::torus_link::{self as link_map, control, status};
        let Some(link) = self.links.get(usize::from(number)) else { return 0 };
        let counters = self.link_counters(number).unwrap_or_default();
        match register {
            link_map::CONTROL => {
                control::ENABLE.put(link.is_enabled.into())
                    | control::MODE.put(link.mode as u32)
                    | control::GENERATE.put(link.generator.is_some().into())
                    | control::CHECK.put(link.checker.is_some().into())
            }
            link_map::STATUS => {
                let cable = link.cable.as_ref();
                let parameters = cable.map(|cable| cable.parameters);
                let half_gigabits = |bits_per_second: u64| (bits_per_second / 500_000_000) as u32;
                let is_up = cable.is_some_and(|cable| cable.end.is_up());
                let far_room = parameters.filter(|_| is_up);
                status::STATE.put(link.state() as u32)
                    | status::LANES.put(parameters.map_or(0, |cable| cable.lanes.into()))
                    | status::LANE_RATE.put(
                        parameters.map_or(0, |cable| half_gigabits(cable.lane_bits_per_second)),
                    )
                    | status::FAR_ROOM
                        .put(far_room.map_or(0, |cable| cable.end.channel_datagrams.into()))
            }
            link_map::SENT => counters.sent as u32,
            link_map::DELIVERED => counters.delivered as u32,
            link_map::REPEATED => counters.repeated as u32,
            link_map::DAMAGED => counters.damaged as u32,
            link_map::NACKS => counters.nacks as u32,
            link_map::RESTARTS => counters.restarts as u32,
            link_map::TIMEOUTS => counters.timeouts as u32,
            link_map::TRAININGS => link.trainings,
            link_map::CHECKED => link.checked[0],
            link_map::WRONG => link.checked[1],
            _ => 0,
        }
    }

    // --- Reads ---------------------------------------------------------------------------------

    /// Takes a read. Registers are read one whole double word at a time; any other read of them
    /// gets Completer Abort (PCIe 6.x 2.3.1). The apertures read as zero. A read of no bytes is a
    /// flush and always valid.
    pub(super) fn take_read(&mut self, tlp: Received, request: &Header, port: &mut DevicePort<'_>) {
        let ready_ps = port.now_ps() + self.parameters.register_latency.0;
        let frees = Some((tlp, *request, port.data_credits(tlp)));
        let (id, bytes) = (port.routing_id(), request.request_bytes());
        let address = request.address.0;
        let super::Function { registers, requests, puts, max_payload_bytes, .. } = self.function;
        let is_whole = request.length_dw == 1 && request.first_byte_enables == ALL_BYTES;
        let in_window = requests.offset(address, bytes).or(puts.offset(address, bytes)).is_some();
        let mut answer = |header, word, frees| {
            self.answers.push_back(Answer { ready_ps, header, word, frees });
        };
        match registers.offset(address, bytes) {
            found if bytes == 0 && (in_window || found.is_some()) => {
                let header = Header::completion_data(request, id, request.address, 0, 0);
                answer(header, 0, frees);
            }
            Some(offset) if is_whole => {
                let word = self.read_register(offset as u32);
                let header = Header::completion_data(request, id, request.address, 4, 4);
                self.answers.push_back(Answer { ready_ps, header, word, frees });
            }
            Some(_) => {
                let status = CompletionStatus::CompleterAbort;
                answer(Header::completion_error(request, id, status), 0, frees);
            }
            None if in_window => {
                let (mut left, boundary) = (bytes, READ_COMPLETION_BOUNDARY_BYTES);
                let pieces =
                    split::completions(request.address, bytes, boundary, max_payload_bytes);
                for (at, length) in pieces {
                    let header = Header::completion_data(request, id, at, length, left);
                    left -= length;
                    answer(header, 0, frees.filter(|_| left == 0));
                }
            }
            None => {
                let what = HeaderLine(request).to_string();
                port.report(ErrorKind::Unrouted { what, address: request.address });
                let status = CompletionStatus::UnsupportedRequest;
                answer(Header::completion_error(request, id, status), 0, frees);
            }
        }
    }

    /// Sends the next completion if one is ready. Returns whether it sent one.
    pub(super) fn build_answer(&mut self, port: &mut DevicePort<'_>) -> bool {
        let Some(ready_ps) = self.answers.front().map(|answer| answer.ready_ps) else {
            return false;
        };
        if ready_ps > port.now_ps() {
            self.wake_at(ready_ps, port);
            return false;
        }
        if !port.has_room_for(Class::Completion) {
            return false;
        }
        let Some(answer) = self.answers.pop_front() else { return false };
        let word = answer.word.to_le_bytes();
        port.send(answer.header, |payload| {
            for chunk in payload.as_chunks_mut::<4>().0 {
                *chunk = word;
            }
        });
        if let Some((tlp, request, data_credits)) = answer.frees {
            port.release(tlp, &request, data_credits);
        }
        true
    }
}

/// Returns the index of an offset in an array of register files, and the offset within that file.
fn place(array: crosslane_regs::Array, offset: u32) -> Option<(u32, u32)> {
    let within = offset.checked_sub(array.base)?;
    let index = within / array.stride;
    (index < array.count).then_some((index, within % array.stride))
}
