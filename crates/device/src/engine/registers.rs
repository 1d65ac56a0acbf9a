// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Register file of the engine: reads and writes of each register. The map is
//! `registers/engine.rdl`.

use crosslane_regs::engine::{
    C2H, C2H_TABLE, GLOBAL, H2C, H2C_TABLE, LANES, MSIX_PENDING, MSIX_TABLE, PEER, USER, channel,
    global, lane, user,
};

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

fn place_of(offset: u32) -> DecodedRegister {
    for (kind, array) in [(Kind::H2c, H2C), (Kind::C2h, C2H), (Kind::Peer, PEER)] {
        if let Some((number, within)) = array.find(offset) {
            return DecodedRegister::Channel(kind, number as usize, within);
        }
    }
    if let Some((number, within)) = LANES.find(offset) {
        return DecodedRegister::Lane(number as usize, within);
    }
    for (table, memory) in [H2C_TABLE, C2H_TABLE].into_iter().enumerate() {
        if let Some(within) = memory.find(offset) {
            return DecodedRegister::Table(table, within as usize);
        }
    }
    if let Some(within) = MSIX_TABLE.find(offset) {
        return DecodedRegister::MsixTable(within as usize / 4);
    }
    if let Some(within) = MSIX_PENDING.find(offset) {
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

/// Registers that peer channels alone have.
const PEER_ONLY: [u32; 4] =
    [channel::CREDIT, channel::CREDIT_WINDOW, channel::SENT, channel::APERTURE];

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
                    | global::sizes::PUSH.put(p.push.into())
                    | global::sizes::PACKETS.put(p.packets.into())
                    | global::sizes::CARD_COPY.put(u32::from(p.card_memory.is_some()))
                    | global::sizes::CARD_MEMORY.put(u32::from(p.card_memory.is_some()))
            }
            global::MAX_WRITE => p.max_write_bytes,
            global::MAX_READ => p.max_read_bytes,
            global::LANE_FIFO => p.lane_fifo_bytes,
            global::LANE_WINDOW => u32::try_from(self.lane_window_bytes).unwrap_or(u32::MAX),
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
            user::H2C_CHECK_ERRORS => user.h2c_check.errors,
            user::H2C_CHECK_FIRST => user.h2c_check.first,
            user::COMMAND_STATUS => user::command_status::BUSY.put(u32::from(user.is_busy)),
            user::COMMAND_DONE => user.command_done,
            user::PING_DONE => user.ping.done,
            user::PING_SUM_LOW => low(user.ping.sum_clocks, &mut user.ping.latched),
            user::PING_SUM_HIGH => user.ping.latched,
            user::PING_LEAST => user.ping.least_clocks,
            user::PING_MOST => user.ping.most_clocks,
            _ => user.registers.get(offset),
        }
    }

    fn read_channel(&mut self, kind: Kind, number: usize, offset: u32, now_ps: u64) -> u32 {
        let clock_ps = self.parameters.clock.0;
        let Some(index) = self.find_channel(kind, number) else { return 0 };
        if kind != Kind::Peer && PEER_ONLY.contains(&offset) {
            return 0;
        }
        let in_flight = self.in_flight(index);
        let c = &mut self.channels[index];
        let clocks = |ps| (ps / clock_ps) as u32;
        let idle = |c: &Channel, wait| clocks(c.idle_ps(wait, now_ps));
        match offset {
            channel::STATUS => c.status(in_flight),
            channel::DOORBELL => c.doorbell,
            channel::COMPLETED => c.completed,
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
            channel::PACKETS => c.counters.packets.moved,
            channel::PACKETS_DROPPED => c.counters.packets.dropped,
            channel::PACKETS_TRUNCATED => c.counters.packets.truncated,
            channel::PUSHED => c.counters.pushed,
            channel::PUSHES_DROPPED => c.counters.pushes_dropped,
            channel::CREDIT => c.credit,
            channel::SENT => c.sent,
            _ => c.registers.get(offset),
        }
    }

    fn read_lane(&mut self, number: usize, offset: u32) -> u32 {
        let clock_ps = self.parameters.clock.0;
        let Some(l) = self.lanes.get_mut(number) else { return 0 };
        match offset {
            lane::STATUS => lane::status::OVERFLOW.put(u32::from(l.overflow)),
            lane::FILL => l.fifo.length(),
            lane::RECEIVED => l.received,
            lane::DRAINED => l.drained,
            lane::CHECK_ERRORS => l.checker.errors,
            lane::CHECK_FIRST => l.checker.first,
            lane::FIRST_LOW => low(l.first_ps.unwrap_or(0) / clock_ps, &mut l.latched[0]),
            lane::FIRST_HIGH => l.latched[0],
            lane::LAST_LOW => low(l.last_ps / clock_ps, &mut l.latched[1]),
            lane::LAST_HIGH => l.latched[1],
            _ => l.registers.get(offset),
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
        let Some(value) = user.registers.write(offset, value) else { return };
        match offset {
            user::INTERCONNECT => {
                user.route();
                self.settle_streams(now_ps);
            }
            user::GENERATOR_SEED => self.channels.iter_mut().for_each(|c| c.generated = 0),
            user::H2C_CHECK => {
                user.h2c_check.enabled = user::h2c_check::ENABLE.get(value) != 0;
                if user::h2c_check::RESTART.get(value) != 0 {
                    user.h2c_check.restart();
                }
            }
            user::H2C_CHECK_SEED => user.h2c_check.seed = value,
            user::COMMAND if user::command::START.get(value) != 0 => user.start_command(now_ps),
            user::PING if user::ping::START.get(value) != 0 => user.start_ping(now_ps),
            _ => {}
        }
    }

    fn write_channel(&mut self, kind: Kind, number: usize, offset: u32, value: u32, now_ps: u64) {
        let Some(index) = self.find_channel(kind, number) else { return };
        if kind != Kind::Peer && PEER_ONLY.contains(&offset) {
            return;
        }
        let clock_ps = self.parameters.clock.0;
        let latency_ps = self.parameters.clocks_ps(self.parameters.fetch_latency_clocks);
        let c = &mut self.channels[index];
        let Some(value) = c.write(offset, value) else { return };
        match offset {
            channel::CONTROL => {
                self.control_channel(index, value, now_ps);
                self.settle_running(index);
            }
            channel::DOORBELL if !c.is_stopped() => c.post(value, now_ps),
            channel::CREDIT if (value.wrapping_sub(c.credit) as i32) > 0 => {
                c.credit = value;
                c.settle_credit(now_ps + latency_ps, clock_ps);
            }
            _ => {}
        }
    }

    fn control_channel(&mut self, index: usize, value: u32, now_ps: u64) {
        use channel::control;
        if !self.has_memory_mode(index) {
            self.channels[index].clear_control(control::CARD_MEMORY);
        }
        if !self.has_packet_mode(index) {
            self.channels[index].clear_control(control::PACKETS);
            self.channels[index].clear_control(control::DROP_PACKETS);
        }
        if control::RESTART.get(value) == 0 {
            return;
        }
        self.channels[index].clear_control(control::RUN);
        self.give_up_tags(index);
        self.channels[index].restart();
        self.forget_memory(index);
        self.channels[index].note_wait(None, now_ps, now_ps);
        self.command_stopped(index);
        self.forget_table(index);
        if index == 0 {
            self.cut_packet();
            self.stream.clear();
        }
    }

    fn write_lane(&mut self, number: usize, offset: u32, value: u32) {
        let Some(l) = self.lanes.get_mut(number) else { return };
        let Some(value) = l.registers.write(offset, value) else { return };
        match offset {
            lane::CONTROL => {
                l.checker.enabled = lane::control::CHECK.get(value) != 0;
                if lane::control::RESTART.get(value) != 0 {
                    l.restart();
                }
            }
            lane::CHECK_SEED => l.checker.seed = value,
            _ => {}
        }
        self.settle_credit_time(number);
    }
}
