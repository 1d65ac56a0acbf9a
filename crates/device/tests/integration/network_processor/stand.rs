// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A torus of hosts, each with a network processor, with programs that use plain accesses.

use crosslane_device::network_processor::{
    CableParameters, LineCode, NetworkProcessor, NetworkProcessorParameters, REQUEST_WINDOW_BYTES,
};
use crosslane_fabric::*;
use crosslane_pcie::config::{BarKind, BarRequest};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_regs::network_notification::{self as notification, NetworkStatus};
use crosslane_regs::{network_processor as map, network_request, put_control};
use crosslane_torus_link::end::EndParameters;
use crosslane_torus_link::routing::Torus;

use crate::support::fabric_support::{Settings, ns, rate};
use crate::support::hosts::Hosts;
pub use crate::support::hosts::bytes;

/// Start of notifications, counts and data in each host's memory.
const NOTIFICATIONS: u64 = 0x10_0000;
pub const COUNTS: u64 = 0x20_0000;
pub const DATA: u64 = 0x400_0000;
const REGISTERS: u64 = MMIO_HOLE.start;
pub const REQUESTS: u64 = MMIO_HOLE.start + REQUEST_WINDOW_BYTES;
pub const CREDITS: u64 = REQUESTS + 0x4000;
pub const PUTS: u64 = MMIO_HOLE.start + 0x1_0000;
pub const PUT_SLOTS: u64 = 8;

/// A network processor that is never the limit.
pub fn processor() -> NetworkProcessorParameters {
    NetworkProcessorParameters {
        tags: 64,
        max_write_bytes: 256,
        max_read_bytes: 512,
        completion_timeout: ns(50_000),
        links: 4,
        get_slots: 64,
        credit_slots: 64,
        put_slots: PUT_SLOTS as u8,
        staging_bytes: 16_384,
        request_latency: ns(40),
        request_interval: ns(4),
        send_latency: ns(30),
        receive_latency: ns(30),
        register_latency: ns(40),
        long_datagrams: false,
    }
}

/// Eight lanes of 5 Gb/s, 136 ns long.
pub fn cable() -> CableParameters {
    CableParameters {
        lanes: 8,
        lane_bits_per_second: 5_000_000_000,
        line_code: LineCode::Symbols,
        latency: ns(136),
        bit_error_rate: 0.0,
        bring_up: ns(2_000),
        long_datagrams: false,
        end: EndParameters {
            channel_datagrams: 32,
            retry_datagrams: 64,
            queue_datagrams: 4,
            acknowledge_datagrams: 8,
            acknowledge_within_ps: 408_000,
            retry_timeout_ps: 2_000_000,
            refresh_ps: 1_200_000,
        },
    }
}

/// Gen2 x8, as in the nget paper.
pub fn settings() -> Settings {
    let mut settings = Settings::ideal(rate(2, 8), 256);
    settings.completer.read_latency = ns(300);
    settings.completer.write_latency = ns(50);
    settings.port.receive_latency = ns(60);
    settings.port.transmit_latency = ns(60);
    settings.link.flight = ns(1);
    settings.memory_bytes = 1 << 30;
    settings
}

pub struct Stand {
    hosts: Hosts<NetworkProcessor>,
    pub torus: Torus,
    token: u16,
}

impl std::ops::Deref for Stand {
    type Target = Hosts<NetworkProcessor>;

    fn deref(&self) -> &Self::Target {
        &self.hosts
    }
}

impl std::ops::DerefMut for Stand {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.hosts
    }
}

/// Content of a request.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub window: u64,
    pub link: u32,
    pub channel: u32,
    pub tag: u32,
    /// Other end of a routed message.
    pub node: Option<u32>,
    pub address: u64,
    pub bytes: u32,
}

impl Ask {
    pub fn get(link: u32, channel: u32, tag: u32, address: u64, bytes: u32) -> Self {
        Self { window: REQUESTS, link, channel, tag, node: None, address, bytes }
    }

    pub fn credit(link: u32, channel: u32, tag: u32, address: u64, bytes: u32) -> Self {
        Self { window: CREDITS, ..Self::get(link, channel, tag, address, bytes) }
    }

    pub fn to(self, node: u32) -> Self {
        Self { node: Some(node), channel: 6, ..self }
    }
}

/// Issued request: the end and address of its notification, and its token.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub end: usize,
    pub notify: u64,
    pub token: u16,
    ask: Ask,
}

impl Stand {
    /// Creates a torus of ideal hosts.
    pub fn new(sizes: &[u16]) -> Self {
        Self::of(sizes, &settings(), processor(), cable())
    }

    pub fn of(
        sizes: &[u16],
        settings: &Settings,
        parameters: NetworkProcessorParameters,
        cable: CableParameters,
    ) -> Self {
        let torus = Torus::new(sizes, true).unwrap();
        let kind = BarKind::Memory32 { prefetchable: true };
        let bar = |size_bytes| Some(BarRequest { kind, size_bytes });
        let puts = NetworkProcessor::put_window_bytes(&parameters).next_power_of_two();
        let bars = [bar(4096), None, bar(REQUEST_WINDOW_BYTES), None, bar(puts), None];
        let settings = vec![settings.clone(); torus.nodes() as usize];
        let mut hosts =
            Hosts::build(&settings, NOTIFICATIONS, bars, |_| NetworkProcessor::new(parameters));
        for ends in torus.cables() {
            let joined =
                <[_; 2]>::from(ends).map(|(node, link)| (hosts.ends[usize::from(node)].node, link));
            assert!(NetworkProcessor::join(&mut hosts.fabric, joined, cable));
        }
        Self { hosts, torus, token: 0 }
    }

    /// Creates a torus of ideal hosts, with its links up.
    pub fn up(sizes: &[u16]) -> Self {
        let mut stand = Self::new(sizes);
        stand.bring_up();
        stand
    }

    /// Enables all links, waits until they are up, and sets the position of each node.
    pub fn bring_up(&mut self) {
        for end in 0..self.ends.len() {
            for dimension in 0..self.torus.dimensions().len() {
                let size = self.torus.dimensions()[dimension].size;
                let position = self.torus.position(end as u16)[dimension];
                let extent = map::torus_dimension::extent::SIZE.put(size.into())
                    | map::torus_dimension::extent::POSITION.put(position.into());
                self.write(end, map::DIMENSIONS.at(dimension as u32), extent);
            }
            for link in 0..2 * self.torus.dimensions().len() as u32 {
                self.control(end, link, map::torus_link::control::ENABLE.mask());
            }
        }
        self.run();
    }

    pub fn control(&mut self, end: usize, link: u32, word: u32) {
        self.write(end, map::LINKS.at(link) + map::torus_link::CONTROL, word);
    }

    /// Stores into the device, 8 bytes at a time where possible.
    pub fn store(&mut self, end: usize, address: u64, bytes: &[u8]) {
        let root = self.ends[end].root;
        self.fabric.host_store(root, 0, BusAddress(address), bytes, 8, 1).unwrap();
        self.step();
    }

    pub fn write(&mut self, end: usize, offset: u32, word: u32) {
        self.store(end, REGISTERS + u64::from(offset), &word.to_le_bytes());
    }

    pub fn read(&mut self, end: usize, offset: u32) -> u32 {
        let root = self.ends[end].root;
        let address = BusAddress(REGISTERS + u64::from(offset));
        self.fabric.host_load(root, 0, address, 4, 7).unwrap();
        let mut events = Vec::new();
        loop {
            assert!(self.fabric.run_until_host_event(), "no answer");
            self.fabric.take_host_events(&mut events);
            for event in events.drain(..) {
                if let HostEvent::Loaded { result, .. } = event {
                    return result.expect("an answer") as u32;
                }
            }
        }
    }

    pub fn link_register(&mut self, end: usize, link: u32, register: u32) -> u32 {
        self.read(end, map::LINKS.at(link) + register)
    }

    /// Returns the bytes of a request for a run of a message.
    pub fn request(ask: &Ask, run: (u32, bool), token: u16, notify: u64) -> Vec<u8> {
        let (index, is_last) = run;
        let what = network_request::what::LINK.put(ask.link)
            | network_request::what::CHANNEL.put(ask.channel)
            | network_request::what::TAG.put(ask.tag)
            | network_request::what::LAST.put(is_last.into())
            | network_request::what::ROUTED.put(ask.node.is_some().into())
            | network_request::what::INDEX.put(index);
        let party = network_request::party::TOKEN.put(token.into())
            | network_request::party::NODE.put(ask.node.unwrap_or(0));
        let halves = |long: u64| [long as u32, (long >> 32) as u32];
        let [low, high] = halves(ask.address);
        let [notify_low, notify_high] = halves(notify);
        let words = [what, ask.bytes, low, high, notify_low, notify_high, party, 0];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Allocates a notification and a token.
    pub fn notification(&mut self, end: usize, ask: Ask) -> Asked {
        self.token += 1;
        let notify = self.share(end, 8);
        Asked { end, notify, token: self.token, ask }
    }

    /// Issues a request for a message of one run.
    pub fn ask(&mut self, end: usize, ask: Ask) -> Asked {
        let asked = self.notification(end, ask);
        self.ask_run(&asked, ask, (0, true));
        asked
    }

    /// Issues a request for one run of a message.
    pub fn ask_run(&mut self, asked: &Asked, ask: Ask, run: (u32, bool)) {
        let bytes = Self::request(&ask, run, asked.token, asked.notify);
        let slot = u64::from(asked.token % 64) * 64;
        self.store(asked.end, ask.window + slot, &bytes);
    }

    pub fn cancel(&mut self, asked: &Asked) {
        let mut bytes = Self::request(&asked.ask, (0, false), asked.token, asked.notify);
        let what = u32::from_le_bytes(*bytes.first_chunk().unwrap());
        let what = what | network_request::what::CANCEL.mask();
        bytes[..4].copy_from_slice(&what.to_le_bytes());
        self.store(asked.end, asked.ask.window + 63 * 64, &bytes);
    }

    /// Returns the outcome of a request if it has ended.
    pub fn ended(&mut self, asked: &Asked) -> Option<(NetworkStatus, u32)> {
        let bytes = self.peek(asked.end, asked.notify, 8);
        let word = u32::from_le_bytes(*bytes.first_chunk().unwrap());
        let status = NetworkStatus::from_bits(notification::word::STATUS.get(word)).unwrap();
        if status == NetworkStatus::None {
            return None;
        }
        assert_eq!(notification::word::TOKEN.get(word), asked.token.into());
        Some((status, u32::from_le_bytes(*bytes.last_chunk().unwrap())))
    }

    /// Asserts that requests have ended well, with this many bytes.
    #[track_caller]
    pub fn assert_done(&mut self, all: &[Asked], bytes: u32) {
        for asked in all {
            assert_eq!(self.ended(asked), Some((NetworkStatus::Done, bytes)), "{asked:?}");
        }
    }

    /// Moves a message from host 0 to host 1.
    #[track_caller]
    pub fn assert_carries(&mut self, bytes: u32) {
        let credit = self.ask(1, Ask::credit(1, 0, 1, DATA, bytes));
        self.ask(0, Ask::get(0, 0, 1, DATA, bytes));
        self.run();
        self.assert_done(&[credit], bytes);
    }

    /// Stores a datagram into the put aperture.
    pub fn put(&mut self, end: usize, place: (u32, u32, u32), tag: u32, last: bool, data: &[u8]) {
        let (link, channel, number) = place;
        let what = put_control::what::TAG.put(tag)
            | put_control::what::LAST.put(last.into())
            | put_control::what::VALID.put(1)
            | put_control::what::INDEX.put(number);
        let mut bytes = what.to_le_bytes().to_vec();
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
        let slot = u64::from(link * 8 + channel) * PUT_SLOTS + u64::from(number) % PUT_SLOTS;
        self.store(end, PUTS + slot * 256, &bytes);
    }

    /// Runs until nothing is left to do and the last writes can be seen.
    pub fn run(&mut self) {
        self.run_and_see(1_000);
    }

    /// Runs until a request has ended. Returns its outcome and the time at which it could be seen.
    pub fn wait(&mut self, asked: &Asked) -> (NetworkStatus, u32, Picoseconds) {
        let limit = self.fabric.now() + ns(100_000_000);
        // Time-outs occur only while a program waits.
        self.fabric.host_timer(limit, 8);
        loop {
            if let Some((status, bytes)) = self.ended(asked) {
                self.fabric.cancel_host_timer(8);
                return (status, bytes, self.fabric.now());
            }
            assert!(self.fabric.now() < limit, "it does not end: {asked:?}");
            self.wait_change(asked.end, asked.notify);
        }
    }

    /// Asserts that nothing is left over and no error was reported.
    pub fn assert_quiet(&mut self) {
        self.run();
        assert_eq!(self.fabric.errors(), &[]);
        self.assert_at_rest();
        for end in 0..self.ends.len() {
            assert_eq!(self.read(end, map::STATUS), 1, "quiet");
        }
    }
}
