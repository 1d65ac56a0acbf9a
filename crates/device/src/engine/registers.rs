// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Register file of the engine: reads and writes of each register. The map is
//! `registers/engine.rdl`.

use crosslane_regs::engine::{
    C2H, C2H_TABLE, GLOBAL, H2C, H2C_TABLE, LANES, MSIX_PENDING, MSIX_TABLE, PEER, USER, channel,
    global, lane, user,
};
use crosslane_regs::{Array, Field, Memory};

use super::channel::{Channel, Kind, Wait};
use super::{Engine, TABLE_ENTRY_BYTES, status};

/// Register at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecodedRegister {
    Global(u32),
    User(u32),
    /// Kind, number, offset.
    Channel(Kind, usize, u32),
    /// Number, offset.
    Lane(usize, u32),
    /// Word.
    MsixTable(usize),
    /// Word.
    MsixPending(u32),
    /// Table, byte.
    Table(usize, usize),
    Nothing,
}

fn in_array(array: Array, offset: u32) -> Option<(usize, u32)> {
    let within = offset.checked_sub(array.base)?;
    let number = within / array.stride;
    (number < array.count).then_some((number as usize, within % array.stride))
}

fn in_memory(memory: Memory, offset: u32) -> Option<u32> {
    offset.checked_sub(memory.base).filter(|within| *within < memory.bytes)
}

fn place_of(offset: u32) -> DecodedRegister {
    for (kind, array) in [(Kind::H2c, H2C), (Kind::C2h, C2H), (Kind::Peer, PEER)] {
        if let Some((number, within)) = in_array(array, offset) {
            return DecodedRegister::Channel(kind, number, within);
        }
    }
    if let Some((number, within)) = in_array(LANES, offset) {
        return DecodedRegister::Lane(number, within);
    }
    for (table, memory) in [H2C_TABLE, C2H_TABLE].into_iter().enumerate() {
        if let Some(within) = in_memory(memory, offset) {
            return DecodedRegister::Table(table, within as usize);
        }
    }
    if let Some(within) = in_memory(MSIX_TABLE, offset) {
        return DecodedRegister::MsixTable(within as usize / 4);
    }
    if let Some(within) = in_memory(MSIX_PENDING, offset) {
        return DecodedRegister::MsixPending(within / 4);
    }
    match offset {
        USER..H2C_BASE => DecodedRegister::User(offset - USER),
        GLOBAL..MSIX_BASE => DecodedRegister::Global(offset - GLOBAL),
        _ => DecodedRegister::Nothing,
    }
}

/// Ends of the two stand-alone register files, given by the start of the next item.
const MSIX_BASE: u32 = MSIX_TABLE.base;
const H2C_BASE: u32 = H2C.base;

fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

/// Returns the low word of a value and latches the high word for a later read.
fn low(value: u64, latched: &mut u32) -> u32 {
    *latched = high(value);
    value as u32
}

fn set_low(value: &mut u64, word: u32) {
    *value = *value & !0xffff_ffff | u64::from(word);
}

fn set_high(value: &mut u64, word: u32) {
    *value = *value & 0xffff_ffff | u64::from(word) << 32;
}

impl Engine {
    pub(super) fn read_register(&mut self, offset: u32, now_ps: u64) -> u32 {
        match place_of(offset) {
            DecodedRegister::Global(offset) => self.read_global(offset, now_ps),
            DecodedRegister::User(offset) => self.read_user(offset),
            DecodedRegister::Channel(kind, number, offset) => {
                self.read_channel(kind, number, offset, now_ps)
            }
            DecodedRegister::Lane(number, offset) => self.read_lane(number, offset),
            DecodedRegister::MsixTable(word) => self.msix.word(word),
            DecodedRegister::MsixPending(word) => {
                if word == 0 {
                    self.msix.pending
                } else {
                    0
                }
            }
            DecodedRegister::Table(table, at) => match self.tables[table].get(at..at + 4) {
                Some(bytes) => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
                None => 0,
            },
            DecodedRegister::Nothing => 0,
        }
    }

    fn read_global(&mut self, offset: u32, now_ps: u64) -> u32 {
        let p = &self.parameters;
        match offset {
            global::ID => global::ID_RESET,
            global::VERSION => global::VERSION_RESET,
            global::COUNTS => {
                global::counts::H2C.put(u32::from(p.h2c_channels))
                    | global::counts::C2H.put(u32::from(p.c2h_channels))
                    | global::counts::PEER.put(u32::from(p.peer_channels))
                    | global::counts::LANES.put(u32::from(p.lanes))
                    | global::counts::VECTORS.put(status::VECTORS)
            }
            global::SIZES => {
                global::sizes::TAGS.put(u32::from(p.tags))
                    | global::sizes::TABLE_ENTRIES.put(u32::from(p.table_descriptors))
                    | global::sizes::CARD_COPY.put(u32::from(p.card_memory.is_some()))
                    | global::sizes::CARD_MEMORY.put(u32::from(p.card_memory.is_some()))
            }
            global::MAX_WRITE => p.max_write_bytes,
            global::MAX_READ => p.max_read_bytes,
            global::LANE_FIFO => p.lane_fifo_bytes,
            global::LANE_WINDOW => u32::try_from(self.lane_window_bytes()).unwrap_or(u32::MAX),
            global::CLOCK => p.clock.0 as u32,
            global::TIME_LOW => low(now_ps / p.clock.0, &mut self.latched_time),
            global::TIME_HIGH => self.latched_time,
            global::IN_FORCE => {
                let function = &self.function;
                global::in_force::MAX_PAYLOAD.put(function.max_payload_bytes)
                    | global::in_force::MAX_READ_REQUEST.put(function.max_read_request_bytes)
            }
            global::FETCH_BATCH => u32::from(p.fetch_batch),
            _ => 0,
        }
    }

    fn read_user(&mut self, offset: u32) -> u32 {
        let user = &mut self.user;
        match offset {
            user::INTERCONNECT => user.interconnect,
            user::GENERATOR_SEED => user.generator_seed,
            user::H2C_CHECK => user::h2c_check::ENABLE.put(u32::from(user.h2c_check.enabled)),
            user::H2C_CHECK_SEED => user.h2c_check.seed,
            user::H2C_CHECK_ERRORS => user.h2c_check.errors,
            user::H2C_CHECK_FIRST => user.h2c_check.first,
            user::COMMAND_LOW => user.command_address as u32,
            user::COMMAND_HIGH => high(user.command_address),
            user::COMMAND_BYTES => user.command_bytes,
            user::COMMAND_STATUS => user::command_status::BUSY.put(u32::from(user.is_busy)),
            user::COMMAND_DONE => user.command_done,
            user::PING => user::ping::ROUNDS.put(user.ping_rounds),
            user::PING_DONE => user.ping.done,
            user::PING_SUM_LOW => low(user.ping.sum_clocks, &mut user.ping.latched),
            user::PING_SUM_HIGH => user.ping.latched,
            user::PING_LEAST => user.ping.least_clocks,
            user::PING_MOST => user.ping.most_clocks,
            _ => 0,
        }
    }

    fn read_channel(&mut self, kind: Kind, number: usize, offset: u32, now_ps: u64) -> u32 {
        let clock_ps = self.parameters.clock.0;
        let Some(index) = self.find_channel(kind, number) else { return 0 };
        let in_flight = self.tags.waiting_of(index);
        let c = &mut self.channels[index];
        let clocks = |ps| (ps / clock_ps) as u32;
        let idle = |c: &Channel, wait| clocks(c.idle_ps(wait, now_ps));
        match offset {
            channel::CONTROL => c.control,
            channel::STATUS => c.status(in_flight),
            channel::PAYLOAD => c.payload,
            channel::VECTOR => c.vector,
            channel::RING_LOW => c.ring as u32,
            channel::RING_HIGH => high(c.ring),
            channel::RING_ENTRIES => c.ring_entries,
            channel::DOORBELL => c.doorbell,
            channel::COMPLETED => c.completed,
            channel::STATUS_LOW => c.status_address as u32,
            channel::STATUS_HIGH => high(c.status_address),
            channel::STOPPED_AT => c.shown_moved(),
            channel::ERROR_LOW => c.error_address as u32,
            channel::ERROR_HIGH => high(c.error_address),
            channel::BYTES_LOW => low(c.counters.bytes, &mut c.latched[0]),
            channel::BYTES_HIGH => c.latched[0],
            channel::TLPS => c.counters.tlps,
            channel::FETCHED => c.counters.fetched,
            channel::FIRST_LOW => {
                low(c.counters.first_ps.unwrap_or(0) / clock_ps, &mut c.latched[1])
            }
            channel::FIRST_HIGH => c.latched[1],
            channel::LAST_LOW => low(c.counters.last_ps / clock_ps, &mut c.latched[2]),
            channel::LAST_HIGH => c.latched[2],
            channel::IDLE_NO_DESCRIPTOR => {
                clocks(c.idle_ps(Wait::Descriptor, now_ps) + c.idle_ps(Wait::Post, now_ps))
            }
            channel::IDLE_NO_DATA => idle(c, Wait::Data),
            channel::IDLE_NO_TAG => idle(c, Wait::Tag),
            channel::IDLE_LINK => idle(c, Wait::Link),
            channel::IDLE_NO_CREDIT => idle(c, Wait::Credit),
            channel::IDLE_GAP => idle(c, Wait::Gap),
            _ if kind != Kind::Peer => 0,
            channel::CREDIT => c.credit,
            channel::CREDIT_WINDOW => c.credit_window,
            channel::SENT => c.sent,
            channel::APERTURE => c.aperture,
            _ => 0,
        }
    }

    fn read_lane(&mut self, number: usize, offset: u32) -> u32 {
        let clock_ps = self.parameters.clock.0;
        let Some(l) = self.lanes.get_mut(number) else { return 0 };
        match offset {
            lane::CONTROL => l.control,
            lane::STATUS => lane::status::OVERFLOW.put(u32::from(l.overflow)),
            lane::CREDIT_LOW => l.credit_address as u32,
            lane::CREDIT_HIGH => high(l.credit_address),
            lane::FILL => l.fifo.length(),
            lane::RECEIVED => l.received,
            lane::DRAINED => l.drained,
            lane::CHECK_SEED => l.checker.seed,
            lane::CHECK_ERRORS => l.checker.errors,
            lane::CHECK_FIRST => l.checker.first,
            lane::FIRST_LOW => low(l.first_ps.unwrap_or(0) / clock_ps, &mut l.latched[0]),
            lane::FIRST_HIGH => l.latched[0],
            lane::LAST_LOW => low(l.last_ps / clock_ps, &mut l.latched[1]),
            lane::LAST_HIGH => l.latched[1],
            _ => 0,
        }
    }

    pub(super) fn find_channel(&self, kind: Kind, number: usize) -> Option<usize> {
        let index = self.index(kind, number);
        let is_it = |c: &Channel| c.kind == kind && c.number == number;
        self.channels.get(index).is_some_and(is_it).then_some(index)
    }

    // --- Writes --------------------------------------------------------------------------

    pub(super) fn write_register(&mut self, offset: u32, value: u32, now_ps: u64) {
        match place_of(offset) {
            DecodedRegister::Global(global::CONTROL) => {
                if global::control::RESET_COUNTERS.get(value) != 0 {
                    self.channels.iter_mut().for_each(|c| c.reset_counters(now_ps));
                    self.lanes.iter_mut().for_each(super::Lane::reset_counters);
                }
            }
            DecodedRegister::User(offset) => self.write_user(offset, value, now_ps),
            DecodedRegister::Channel(kind, number, offset) => {
                self.write_channel(kind, number, offset, value, now_ps);
            }
            DecodedRegister::Lane(number, offset) => self.write_lane(number, offset, value),
            DecodedRegister::MsixTable(word) => self.msix.set_word(word, value),
            DecodedRegister::Table(table, at) => {
                if let Some(bytes) = self.tables[table].get_mut(at..at + 4) {
                    bytes.copy_from_slice(&value.to_le_bytes());
                    let (entry, word) = (at / TABLE_ENTRY_BYTES, at % TABLE_ENTRY_BYTES / 4);
                    self.stored[table][entry] |= 1 << word;
                }
            }
            DecodedRegister::Global(_)
            | DecodedRegister::MsixPending(_)
            | DecodedRegister::Nothing => {}
        }
    }

    fn write_user(&mut self, offset: u32, value: u32, now_ps: u64) {
        let user = &mut self.user;
        match offset {
            user::INTERCONNECT => {
                user.interconnect = value
                    & (user::interconnect::C2H_SOURCE.mask()
                        | user::interconnect::PEER_SOURCE.mask()
                        | user::interconnect::LANE.mask());
                self.settle_streams(now_ps);
            }
            user::GENERATOR_SEED => {
                user.generator_seed = value;
                self.channels.iter_mut().for_each(|c| c.generated = 0);
            }
            user::H2C_CHECK => {
                user.h2c_check.enabled = user::h2c_check::ENABLE.get(value) != 0;
                if user::h2c_check::RESTART.get(value) != 0 {
                    user.h2c_check.restart();
                }
            }
            user::H2C_CHECK_SEED => user.h2c_check.seed = value,
            user::COMMAND_LOW => set_low(&mut user.command_address, value),
            user::COMMAND_HIGH => set_high(&mut user.command_address, value),
            user::COMMAND_BYTES => user.command_bytes = value,
            user::COMMAND if user::command::START.get(value) != 0 => user.start_command(now_ps),
            user::PING => {
                user.ping_rounds = user::ping::ROUNDS.get(value);
                if user::ping::START.get(value) != 0 {
                    user.start_ping(now_ps);
                }
            }
            _ => {}
        }
    }

    fn write_channel(&mut self, kind: Kind, number: usize, offset: u32, value: u32, now_ps: u64) {
        let Some(index) = self.find_channel(kind, number) else { return };
        let clock_ps = self.parameters.clock.0;
        let latency_ps = self.parameters.clocks_ps(self.parameters.fetch_latency_clocks);
        let c = &mut self.channels[index];
        match offset {
            channel::CONTROL => self.control_channel(index, value, now_ps),
            channel::PAYLOAD => c.payload = channel::payload::BYTES.get(value),
            channel::VECTOR => c.vector = channel::vector::VALUE.get(value),
            channel::RING_LOW => set_low(&mut c.ring, value),
            channel::RING_HIGH => set_high(&mut c.ring, value),
            channel::RING_ENTRIES => c.ring_entries = value,
            channel::DOORBELL if !c.is_stopped() => c.post(value, now_ps),
            channel::STATUS_LOW => set_low(&mut c.status_address, value),
            channel::STATUS_HIGH => set_high(&mut c.status_address, value),
            _ if kind != Kind::Peer => {}
            channel::CREDIT if (value.wrapping_sub(c.credit) as i32) > 0 => {
                c.credit = value;
                c.settle_credit(now_ps + latency_ps, clock_ps);
            }
            channel::CREDIT_WINDOW => c.credit_window = value,
            channel::APERTURE => c.aperture = value,
            _ => {}
        }
    }

    fn control_channel(&mut self, index: usize, value: u32, now_ps: u64) {
        use channel::control;
        let bits = |fields: &[Field]| fields.iter().fold(0, |all, field| all | field.mask());
        let kept = bits(&[
            control::RUN,
            control::SOURCE,
            control::INTERRUPT_ENABLE,
            control::STATUS_ENABLE,
            control::RELAXED_ORDERING,
            control::OVERSIZE,
        ]);
        let of_memory = if self.has_memory_mode(index) { control::CARD_MEMORY.mask() } else { 0 };
        self.channels[index].control = value & (kept | of_memory);
        if control::RESTART.get(value) == 0 {
            return;
        }
        self.channels[index].control &= !control::RUN.mask();
        self.give_up_tags(index);
        self.channels[index].restart();
        self.forget_memory(index);
        self.channels[index].note_wait(None, now_ps, now_ps);
        self.command_stopped(index);
        self.forget_table(index);
        if index == 0 {
            self.stream.clear();
        }
    }

    fn write_lane(&mut self, number: usize, offset: u32, value: u32) {
        let Some(l) = self.lanes.get_mut(number) else { return };
        match offset {
            lane::CONTROL => {
                use lane::control;
                let kept = control::ENABLE.mask()
                    | control::DROP_WHEN_FULL.mask()
                    | control::RETURN_CREDITS.mask()
                    | control::CHECK.mask();
                l.control = value & kept;
                l.checker.enabled = control::CHECK.get(value) != 0;
                if control::RESTART.get(value) != 0 {
                    l.restart();
                }
            }
            lane::CREDIT_LOW => set_low(&mut l.credit_address, value),
            lane::CREDIT_HIGH => set_high(&mut l.credit_address, value),
            lane::CHECK_SEED => l.checker.seed = value,
            _ => {}
        }
    }
}
