// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers of BAR 0.

use crosslane_fabric::DevicePort;
use crosslane_regs::network_processor as map;
use crosslane_torus_link::lanes::MAX_LANES;
use crosslane_torus_link::routing::{Dimension, MAX_DIMENSIONS, Torus};

use super::NetworkProcessor;

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

impl NetworkProcessor {
    pub(super) fn write_register(&mut self, offset: u32, word: u32, port: &mut DevicePort<'_>) {
        self.registers.write(offset, word);
        match offset {
            map::CONTROL if map::control::RESET.get(word) != 0 => self.reset(true, port),
            map::PUT_COUNTS_HIGH => {
                for out in 0..self.channels.len() {
                    self.count_puts(out);
                }
            }
            _ => {
                if let Some((index, map::torus_dimension::EXTENT)) = map::DIMENSIONS.find(offset) {
                    self.extents[index as usize] = word;
                    self.make_torus();
                } else if let Some((index, map::torus_link::CONTROL)) = map::LINKS.find(offset) {
                    self.control_link(index as u8, word, port);
                }
            }
        }
    }

    /// Returns the bus address at which counts of puts are written, a multiple of 64 so that each
    /// lies in one line; 0 for none.
    pub(super) fn put_counts(&self) -> u64 {
        self.registers.wide(map::PUT_COUNTS_LOW) & !63
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

    pub(super) fn read_register(&self, offset: u32) -> u32 {
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
            map::PUT_SIZES => {
                put_sizes::SLOTS.put(parameters.put_slots.into())
                    | put_sizes::LONG.put(parameters.long_datagrams.into())
            }
            map::STATUS => {
                status::QUIET.put(u32::from(self.reading == 0 && self.outbound.is_empty()))
            }
            map::PUT_COUNTS_LOW => self.put_counts() as u32,
            map::GETS => counters.gets,
            map::CREDITS => counters.credits,
            map::PUTS => counters.puts,
            map::REFUSED => counters.refused,
            map::FORWARDED => counters.forwarded,
            map::MISROUTED => counters.misrouted,
            map::WAITING => self.waiting_count(),
            _ => {
                if let Some((index, map::torus_dimension::EXTENT)) = map::DIMENSIONS.find(offset) {
                    self.extents[index as usize]
                } else if let Some((index, register)) = map::LINKS.find(offset) {
                    self.read_link(index as u8, register)
                } else if let Some((index, map::torus_lane::ERRORS)) = map::LANES.find(offset) {
                    let (link, lane) = (index as usize / MAX_LANES, index as usize % MAX_LANES);
                    let cable = self.links.get(link).and_then(|link| link.cable.as_ref());
                    cable.map_or(0, |cable| cable.lane_errors[lane])
                } else {
                    self.registers.get(offset)
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
}
