// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behavioural model of the network processor: an endpoint between its host and the links of a
//! torus. `docs/network-processor.md` describes it, `docs/torus-link.md` its links.
//!
//! Read first: `request.rs` for the host's requests; `get.rs` and `send.rs` for the path from host
//! memory to a link; `receive.rs` for the path back; `link.rs` for the links.

mod border;
mod control;
mod get;
mod link;
mod outbound;
mod parameters;
mod receive;
mod registers;
mod request;
mod send;

use std::collections::{BTreeMap, VecDeque};

use crosslane_fabric::parameters::Parameters;
use crosslane_fabric::{Consumed, Device, DevicePort, Received};
use crosslane_pcie::config::ConfigSpace;
use crosslane_pcie::tlp::Header;
use crosslane_regs::network_notification::NetworkStatus;
use crosslane_regs::network_processor::{self as map, LinkMode};
use crosslane_torus_link::frame::Datagram;
use crosslane_torus_link::routing::{Hop, Torus};

use crate::kit::{
    self, Answer, Arrival, Completer, Function, Place, RegisterFile, Requester, Timer,
};
pub use border::{CableEnd, CableMessage, Outbox, Signal, Wish};
pub use control::LinkCounters;
use get::{Sending, Target};
use link::Link;
use outbound::Outbound;
pub use parameters::{CableParameters, LineCode, NetworkProcessorParameters};
use receive::{Credit, Remainder, Waiting};
use registers::Counters;
pub use request::REQUEST_WINDOW_BYTES;
use request::{Key, Party, PutWindow, Request, RequestWindows, Window};
use send::SendChannel;

/// Timer token: look for work.
const STEP: u32 = 0;
/// Timer token: check for completion time-outs.
const TIMEOUT: u32 = 1;
/// Timer token of link 0, followed by those of the other links.
const LINK_TIMER: u32 = 8;

/// BAR of the request apertures.
pub const REQUEST_BAR: usize = 2;
/// BAR of the put aperture.
pub const PUT_BAR: usize = 4;
/// Size of the register file in BAR 0, bytes.
pub const REGISTER_BYTES: u32 = crosslane_regs::network_processor::BYTES;

/// Network processor as an endpoint's device: registers in BAR 0, request apertures in BAR 2, put
/// aperture in BAR 4.
pub struct NetworkProcessor {
    parameters: NetworkProcessorParameters,
    function: Function,
    request_windows: RequestWindows,
    put_window: PutWindow,
    counters: Counters,
    registers: RegisterFile,
    /// Values of the registers `dimensions`, and the torus that they describe.
    extents: [u32; 4],
    torus: Option<Torus>,
    node: u16,
    links: Vec<Link>,
    /// Links with work to do, one bit each.
    busy_links: u8,
    /// Send state of each channel of each link.
    channels: Vec<SendChannel>,
    /// Channels with host memory to read, in turn.
    line: VecDeque<usize>,
    /// Complete requests, and the time at which each is handled.
    requests: VecDeque<(u64, Request)>,
    next_request_ps: u64,
    sending: BTreeMap<Key, Sending>,
    messages_begun: u64,
    get_places: u32,
    credits: BTreeMap<Key, Credit>,
    credit_places: u32,
    /// Messages that outlast their credit, or came without one.
    remainders: BTreeMap<Key, Remainder>,
    waiting: BTreeMap<Key, Waiting>,
    /// Routed datagrams that wait for credits in the buffers of the two routed channels, by links.
    routed_waiting: Vec<[u16; 2]>,
    /// Delivered datagrams: time to handle each, link, and datagram.
    arrived: VecDeque<(u64, u8, Datagram)>,
    requester: Requester<Target>,
    /// Number of unanswered reads.
    reading: u32,
    outbound: VecDeque<Outbound>,
    completer: Completer,
    /// Whether reads or writes go next on the link to the host.
    reads_first: bool,
    timer: Timer,
}

impl NetworkProcessor {
    /// Creates a network processor in its reset state, without cables.
    ///
    /// # Panics
    /// Panics if [`Parameters::check`] rejects the parameters.
    pub fn new(parameters: NetworkProcessorParameters) -> Self {
        parameters.assert_valid();
        let links = usize::from(parameters.links);
        Self {
            request_windows: RequestWindows::new(parameters.get_slots, parameters.credit_slots),
            put_window: PutWindow::new(
                parameters.links,
                parameters.put_slots,
                parameters.payload_bytes(),
            ),
            requester: Requester::new(
                parameters.tags, parameters.max_read_bytes, parameters.completion_timeout, TIMEOUT,
            ),
            parameters,
            function: Function::default(),
            counters: Counters::default(),
            registers: RegisterFile::new(map::WRITTEN),
            extents: [0; 4],
            torus: None,
            node: 0,
            links: (0..parameters.links).map(Link::new).collect(),
            busy_links: 0,
            channels: std::iter::repeat_with(SendChannel::default).take(links * 8).collect(),
            line: VecDeque::new(),
            requests: VecDeque::new(),
            next_request_ps: 0,
            sending: BTreeMap::new(),
            messages_begun: 0,
            get_places: 0,
            credits: BTreeMap::new(),
            credit_places: 0,
            remainders: BTreeMap::new(),
            waiting: BTreeMap::new(),
            routed_waiting: vec![[0; 2]; links],
            arrived: VecDeque::new(),
            reading: 0,
            outbound: VecDeque::new(),
            completer: Completer::default(),
            reads_first: false,
            timer: Timer::new(STEP),
        }
    }

    /// Returns the bytes of the put aperture in BAR 4.
    pub fn put_window_bytes(parameters: &NetworkProcessorParameters) -> u64 {
        let slots = u64::from(parameters.links) * 8 * u64::from(parameters.put_slots);
        slots * parameters.put_stride_bytes()
    }

    /// Notes that a channel of a link may have a datagram to send.
    fn sendable(&mut self, out: usize) {
        let (link, channel) = ((out / 8) as u8, out % 8);
        if let Some(found) = self.links.get_mut(usize::from(link)) {
            found.sendable |= 1 << channel;
        }
        self.work_on(link);
    }

    /// Notes that a link may have work to do.
    fn work_on(&mut self, link: u8) {
        self.busy_links |= 1 << link;
    }

    /// Does all that can be done now.
    fn go_on(&mut self, port: &mut DevicePort<'_>) {
        loop {
            let mut goes_on = self.completer.send(&mut self.timer, port);
            goes_on |= self.look_at_request(port);
            goes_on |= self.place(port);
            // Writes to the host and reads share the link; the kind that went last waits.
            for is_read in [self.reads_first, !self.reads_first] {
                let went = if is_read { self.ask(port) } else { self.write(port) };
                if went {
                    (self.reads_first, goes_on) = (!is_read, true);
                }
            }
            while self.busy_links != 0 {
                let number = self.busy_links.trailing_zeros() as u8;
                self.busy_links &= self.busy_links - 1;
                self.feed(number, port);
                self.send_frames(number, port);
                goes_on = true;
            }
            if !goes_on {
                return;
            }
        }
    }

    // --- Requests ------------------------------------------------------------------------------

    /// Takes a write of the host.
    fn take_write(
        &mut self,
        place: Place,
        tlp: Received,
        header: &Header,
        port: &mut DevicePort<'_>,
    ) {
        let Place { bar, offset } = place;
        let skip = (header.address.0 & 3) as usize;
        let data = port.payload(tlp);
        let bytes = data.get(skip..skip + header.request_bytes() as usize).unwrap_or_default();
        match bar {
            REQUEST_BAR => {
                let ready_ps = port.now_ps() + self.parameters.request_latency.0;
                let (queue, counters) = (&mut self.requests, &mut self.counters);
                self.request_windows.store(offset, bytes, |request| match request {
                    Some(request) => queue.push_back((ready_ps, request)),
                    None => counters.refuse(),
                });
            }
            PUT_BAR => self.take_puts(offset, bytes),
            _ => {
                let words: Vec<_> = kit::whole_words(offset, header, data).collect();
                for (register, word) in words {
                    self.write_register(register, word, port);
                }
            }
        }
    }

    fn take_puts(&mut self, offset: u64, data: &[u8]) {
        let mut found = Vec::new();
        self.put_window.store(offset, data, |put| found.push(put));
        for put in found {
            let Some((slot, put)) = put else {
                self.counters.refuse();
                continue;
            };
            let slots = usize::from(self.parameters.put_slots);
            let out = slot / slots;
            let takes = self.links.get(out / 8).is_some_and(Link::takes_datagrams);
            let put = put.filter(|_| takes && !self.is_for_routed(out % 8));
            let (is_put, channel) = (put.is_some(), &mut self.channels[out]);
            if channel.complete_put(slot % slots, slots, put) && is_put {
                self.counters.puts = self.counters.puts.wrapping_add(1);
            } else {
                self.counters.refuse();
            }
            if channel.pass_refused() {
                self.count_puts(out);
            }
            if self.channels[out].has_put() {
                self.sendable(out);
            }
        }
    }

    /// Whether a channel is reserved for routed messages.
    fn is_for_routed(&self, channel: usize) -> bool {
        self.torus.is_some() && channel >= 6
    }

    /// Handles the next complete request.
    fn look_at_request(&mut self, port: &mut DevicePort<'_>) -> bool {
        let Some(&(ready_ps, request)) = self.requests.front() else { return false };
        let at_ps = ready_ps.max(self.next_request_ps);
        if at_ps > port.now_ps() {
            self.timer.at(at_ps, port);
            return false;
        }
        self.requests.pop_front();
        self.next_request_ps = port.now_ps() + self.parameters.request_interval.0;
        match (request.is_cancel, request.window) {
            (true, Window::Get) => self.cancel_get(&request),
            (true, Window::Credit) => self.cancel_credit(&request),
            (false, window) => match (self.check(&request), window) {
                (Ok(out), Window::Get) => self.take_get(&request, out),
                (Ok(_), Window::Credit) => self.take_credit(&request),
                (Err(Some(status)), _) => self.refuse(&request, status),
                (Err(None), _) => self.counters.refuse(),
            },
        }
        true
    }

    /// Returns the channel index of a valid request. The error is the status of its notification,
    /// or `None` if it gets none.
    fn check(&self, request: &Request) -> Result<usize, Option<NetworkStatus>> {
        let (of_key, places, slots) = match request.window {
            Window::Get => (self.get_of(request), self.get_places, self.parameters.get_slots),
            Window::Credit => {
                (self.credit_of(request), self.credit_places, self.parameters.credit_slots)
            }
        };
        match of_key {
            Some(true) => {}
            _ if request.index > 0 => return Err(None),
            Some(false) => return Err(Some(NetworkStatus::Taken)),
            None => {}
        }
        let refused = Err(Some(NetworkStatus::Refused));
        if !request.is_possible(self.parameters.payload_bytes()) || places >= slots.into() {
            return refused;
        }
        let (link, channel) = match request.key.party {
            Party::Neighbour { link, channel } => (link, usize::from(channel)),
            Party::Node(node) => {
                let torus = self.torus.as_ref().filter(|torus| u32::from(node) < torus.nodes());
                let Some(torus) = torus.filter(|_| node != self.node) else { return refused };
                // Routed messages may arrive over any link, so their credits have none.
                if request.window == Window::Credit {
                    return Ok(0);
                }
                match torus.next_hop(self.node, self.node, node) {
                    Ok(Hop::Link { link, channel }) => (link, channel.index()),
                    Ok(Hop::Arrived) | Err(_) => return refused,
                }
            }
        };
        let is_neighbour = matches!(request.key.party, Party::Neighbour { .. });
        match self.links.get(usize::from(link)) {
            None => refused,
            Some(_) if is_neighbour && self.is_for_routed(channel) => refused,
            Some(found) if !found.takes_datagrams() => Err(Some(NetworkStatus::LinkDown)),
            Some(_) => Ok(usize::from(link) * 8 + channel),
        }
    }

    /// Refuses a request. If it continues a message, that message ends.
    fn refuse(&mut self, request: &Request, status: NetworkStatus) {
        self.counters.refuse();
        let (key, is_next) = match request.window {
            Window::Get => (request.key, self.get_of(request) == Some(true)),
            Window::Credit => (request.key, self.credit_of(request) == Some(true)),
        };
        match (request.window, is_next) {
            (Window::Get, true) => self.end_open_get(key, status),
            (Window::Credit, true) => self.end_credit(key, status),
            _ if request.notify != 0 && request.notify.is_multiple_of(8) => {
                let (address, token, bytes) = (request.notify, request.token, 0);
                self.outbound.push_back(Outbound::Notify { address, token, status, bytes });
            }
            _ => {}
        }
    }

    /// Discards all state of a link that is down.
    fn forget_link(&mut self, number: u8, port: &mut DevicePort<'_>) {
        self.end_gets(Some(number), NetworkStatus::LinkDown);
        self.end_credits(Some(number), NetworkStatus::LinkDown);
        self.forget_arrived(Some(number));
        self.empty_channels(Some(number));
        self.reset_link(number, port);
    }

    /// Discards the data waiting for a link, or for all links.
    fn empty_channels(&mut self, link: Option<u8>) {
        for out in 0..self.channels.len() {
            if link.is_some_and(|link| usize::from(link) != out / 8) {
                continue;
            }
            for (link, datagram) in std::mem::take(&mut self.channels[out].through) {
                self.free(link, datagram.header.channel);
            }
            self.channels[out].forget();
            if self.channels[out].pass_refused() {
                self.count_puts(out);
            }
        }
    }

    /// Discards all state; `tells` says whether the host is still notified.
    fn reset(&mut self, tells: bool, port: &mut DevicePort<'_>) {
        self.end_gets(None, NetworkStatus::Reset);
        self.end_credits(None, NetworkStatus::Reset);
        self.forget_arrived(None);
        self.empty_channels(None);
        self.requests.clear();
        self.request_windows.reset();
        self.put_window.reset();
        self.remainders.clear();
        for number in 0..self.parameters.links {
            self.switch_link_off(number, port);
        }
        // Pending data go with their credits; data already handed on are in flight.
        let is_kept = |outbound: &Outbound| tells && matches!(outbound, Outbound::Notify { .. });
        self.outbound.retain(is_kept);
        for channel in &mut self.channels {
            channel.reset_puts();
        }
        self.counters = Counters::default();
        (self.registers, self.extents) = (RegisterFile::new(map::WRITTEN), [0; 4]);
        (self.torus, self.node) = (None, 0);
    }
}

impl Device for NetworkProcessor {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let answer = match self.function.sort(&header, port) {
            Arrival::Write(place) => {
                self.take_write(place, tlp, &header, port);
                None
            }
            Arrival::Completion => {
                self.take_completion(tlp, &header, port);
                None
            }
            Arrival::Registers(read) => Some(read.answer(|offset| self.read_register(offset))),
            Arrival::Read(_) => Some(Answer::Word(0)),
            Arrival::Answered(answer) => Some(answer),
            Arrival::Poisoned(_) | Arrival::Ignored => None,
        };
        let ready_ps = port.now_ps() + self.parameters.register_latency.0;
        let consumed = self.completer.reply(tlp, answer, ready_ps, &self.function, port);
        self.go_on(port);
        consumed
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        self.go_on(port);
    }

    fn link_down(&mut self, port: &mut DevicePort<'_>) {
        self.requester.lose_all(port.now_ps());
        self.reading = 0;
        for sending in self.sending.values_mut() {
            sending.reads_lost();
        }
        self.reset(false, port);
        self.go_on(port);
    }

    fn timer(&mut self, token: u32, port: &mut DevicePort<'_>) {
        match token {
            TIMEOUT => self.time_out_reads(port),
            STEP => self.timer.fired(port.now_ps()),
            _ => {
                let number = (token - LINK_TIMER) as u8;
                if let Some(link) = self.links.get_mut(usize::from(number)) {
                    link.timer.fired(port.now_ps());
                }
                self.take_frames(number, port);
                self.work_on(number);
            }
        }
        self.go_on(port);
    }

    fn configured(&mut self, config: &ConfigSpace) {
        self.function = config.into();
    }

    fn unfinished(&self) -> Vec<String> {
        let datagrams = self.channels.iter().map(SendChannel::waiting).sum();
        kit::unfinished(&[
            (self.sending.len(), "messages are being read from host memory"),
            (datagrams, "datagrams wait for a link"),
            (self.outbound.len(), "writes wait"),
            (self.completer.len(), "completions wait"),
        ])
    }
}
