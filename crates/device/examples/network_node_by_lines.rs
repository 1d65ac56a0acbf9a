// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network processor that is told by lines on standard input what its host and its links do, and
//! says on standard output what it does: the reference of the gateware's tests
//! (`gateware/tb/network_reference.py`).
//!
//! The first line has decimal numbers: links, put slots, credit slots, longest write in bytes,
//! datagrams of a channel's receive buffer, get slots, longest read in bytes, 1 for long datagrams
//! or 0. The byte at an address of the host's memory is bits 7:0 of it, exclusive or bits 15:8.
//! Every other line is one thing that happens; what it leads to is waited for:
//!
//! * `w BAR OFFSET BYTES`: the host stores bytes (hexadecimal) at an offset of a BAR (decimal),
//! * `d LINK HEADER PAYLOAD`: the other end of a link sends a datagram (hexadecimal),
//! * `r OFFSET`: the host reads a register.
//!
//! The answer has, in the order in which they happen, `t:ADDRESS:BYTES` for a write to the host's
//! memory and `s:LINK:HEADER:PAYLOAD` for a datagram sent; `v:VALUE` for what a register says.

#[allow(unused_imports)]
#[path = "../../fabric/tests/integration/support/mod.rs"]
mod fabric_support;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use crosslane_device::network_processor::{
    CableEnd, CableParameters, LineCode, NetworkProcessor, NetworkProcessorParameters, Outbox,
    REQUEST_WINDOW_BYTES, Signal, Wish,
};
use crosslane_fabric::{Fabric, HostEvent, MMIO_HOLE, NodeId, OutsideMemory};
use crosslane_pcie::config::{BarKind, BarRequest, Identity};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};
use crosslane_torus_link::end::{EndParameters, LinkEnd};
use crosslane_torus_link::frame::{Header, payload_bytes};
use fabric_support::{Settings, Stand, direct_device, ns, rate};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Time that passes before it is looked at what has happened.
const WINDOW: Picoseconds = Picoseconds::from_ns(200);
/// Windows after which nothing more is expected to happen.
const WINDOWS: usize = 2_000;
const LATENCY_PS: u64 = 10_000;
/// Token of the end of a window.
const TIMER: u64 = 8;
/// Memory that the host has.
const MEMORY_BYTES: u64 = 1 << 62;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(text: &str) -> Outcome<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

/// Events so far, in order.
#[derive(Clone, Default)]
struct Done(Arc<Mutex<Vec<String>>>);

impl Done {
    fn add(&self, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OutsideMemory for Done {
    fn covers(&mut self, _: RoutingId, address: BusAddress, bytes: u32, _: bool) -> bool {
        let end = address.0.saturating_add(bytes.into());
        !MMIO_HOLE.contains(&address.0) && end <= MEMORY_BYTES
    }

    fn read(&mut self, _: RoutingId, address: BusAddress, into: &mut [u8]) -> bool {
        for (at, byte) in (address.0..).zip(into) {
            *byte = (at ^ at >> 8) as u8;
        }
        true
    }

    fn write(&mut self, _: RoutingId, address: BusAddress, from: &[u8]) -> bool {
        self.add(format!("t:{:x}:{}", address.0, hex(from)));
        true
    }
}

/// The other end of a link.
struct Far {
    end: LinkEnd,
    is_up: bool,
    /// Session; it changes when the end is reset.
    session: u32,
    /// Arrival of its last signal, ps.
    last_ps: u64,
}

struct Reference {
    fabric: Fabric,
    root: NodeId,
    node: NodeId,
    outbox: Outbox,
    far: Vec<Far>,
    cable: CableParameters,
    bars: [u64; 6],
    done: Done,
}

impl Reference {
    fn new(line: &str) -> Outcome<Self> {
        let numbers: Vec<u32> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [
            links,
            put_slots,
            credit_slots,
            max_write_bytes,
            channel_datagrams,
            get_slots,
            max_read_bytes,
            long,
        ] = numbers[..]
        else {
            return Err(format!("eight numbers are expected: {line}").into());
        };
        let long_datagrams = long != 0;
        let parameters = NetworkProcessorParameters {
            tags: 64,
            max_write_bytes,
            max_read_bytes,
            completion_timeout: ns(50_000),
            links: links.try_into()?,
            get_slots: get_slots.try_into()?,
            credit_slots: credit_slots.try_into()?,
            put_slots: put_slots.try_into()?,
            staging_bytes: 16_384,
            request_latency: ns(4),
            request_interval: ns(4),
            send_latency: ns(4),
            receive_latency: ns(4),
            register_latency: ns(4),
            long_datagrams,
        };
        let cable = CableParameters {
            lanes: 8,
            lane_bits_per_second: 2_500_000_000,
            line_code: LineCode::Symbols,
            long_datagrams,
            latency: Picoseconds(LATENCY_PS),
            bit_error_rate: 0.0,
            bring_up: ns(100),
            end: EndParameters {
                channel_datagrams: channel_datagrams.try_into()?,
                retry_datagrams: 32,
                queue_datagrams: 4,
                acknowledge_datagrams: 8,
                acknowledge_within_ps: 400_000,
                retry_timeout_ps: 4_000_000,
                refresh_ps: 2_000_000,
            },
        };
        let kind = BarKind::Memory32 { prefetchable: true };
        let puts = NetworkProcessor::put_window_bytes(&parameters).next_power_of_two();
        let sizes = [4096, 0, REQUEST_WINDOW_BYTES, 0, puts, 0];
        let bar = |size_bytes: u64| BarRequest { kind, size_bytes };
        let requests = sizes.map(|size| (size > 0).then(|| bar(size)));
        let mut bars = [0; 6];
        let mut next = MMIO_HOLE.start;
        for (base, size) in bars.iter_mut().zip(sizes).filter(|(_, size)| *size > 0) {
            *base = next.next_multiple_of(size);
            next = *base + size;
        }
        let settings = Settings::ideal(rate(2, 8), max_write_bytes.try_into()?);
        let device = Box::new(NetworkProcessor::new(parameters));
        let Stand { mut fabric, root, endpoints } =
            direct_device(&settings, Identity::default(), requests, device);
        let done = Done::default();
        fabric.set_outside_memory(HostId(0), Some(Box::new(done.clone())));
        let node = *endpoints.first().ok_or("no endpoint")?;
        let outbox = Outbox::default();
        let mut far = Vec::new();
        for link in 0..parameters.links {
            let end = CableEnd { node: 0, link };
            if !NetworkProcessor::join_away(&mut fabric, (node, link), end, cable, &outbox) {
                return Err(format!("there is no link {link}").into());
            }
            let end = LinkEnd::new(cable.end);
            far.push(Far { end, is_up: false, session: 1, last_ps: 0 });
        }
        Ok(Self { fabric, root, node, outbox, far, cable, bars, done })
    }

    fn carry(&mut self, link: usize, signal: Signal) -> Outcome<()> {
        let far = self.far.get_mut(link).ok_or("no such link")?;
        far.last_ps = (self.fabric.now().0 + LATENCY_PS).max(far.last_ps + 1);
        let at_ps = far.last_ps;
        let carried = self.fabric.command(self.node, |node: &mut NetworkProcessor, port| {
            node.carry(link as u8, at_ps, signal, port);
        });
        carried.ok_or_else(|| "the node is no network processor".into())
    }

    /// Passes what has been sent on the cables to the other ends. Returns whether there was any.
    fn exchange(&mut self) -> Outcome<bool> {
        let mut messages = Vec::new();
        self.outbox.empty(|message| messages.push(message));
        let now_ps = self.fabric.now().0;
        let mut is_busy = !messages.is_empty();
        for message in messages {
            let link = usize::from(message.to.link);
            let far = self.far.get_mut(link).ok_or("no such link")?;
            match message.signal {
                Signal::Frame(frame) => {
                    if let Some(datagram) = far.end.receive(frame, now_ps) {
                        let header = Header { sequence: 0, ..datagram.header };
                        let (word, payload) = (header.word(), hex(&datagram.payload[..]));
                        self.done.add(format!("s:{link}:{word:08x}:{payload}"));
                        far.end.free(header.channel);
                    }
                }
                Signal::LaneErrors(_) => {}
                Signal::Training(None) => {
                    far.end.reset();
                    far.is_up = false;
                    far.session += 1;
                }
                Signal::Training(Some(_)) => {
                    far.end.down();
                    let wish = Wish { since_ps: now_ps, session: far.session, far_session: None };
                    self.carry(link, Signal::Training(Some(wish)))?;
                    let far = self.far.get_mut(link).ok_or("no such link")?;
                    far.end.up(self.cable.end.channel_datagrams, now_ps);
                    far.is_up = true;
                }
            }
        }
        for link in 0..self.far.len() {
            loop {
                let far = self.far.get_mut(link).ok_or("no such link")?;
                let Some(frame) = far.end.next_frame(now_ps) else { break };
                is_busy = true;
                self.carry(link, Signal::Frame(Ok(frame)))?;
            }
        }
        Ok(is_busy)
    }

    /// Lets everything happen that follows.
    fn settle(&mut self) -> Outcome<()> {
        let mut still = 0;
        for _ in 0..WINDOWS {
            let limit = Picoseconds(self.fabric.now().0 + WINDOW.0);
            self.fabric.host_timer(limit, TIMER);
            while self.fabric.now() < limit && self.fabric.run_until_host_event() {
                self.fabric.take_host_events(&mut Vec::new());
            }
            let is_settled = self.far.iter().all(|far| !far.is_up || far.end.is_settled());
            still = if self.exchange()? || !is_settled { 0 } else { still + 1 };
            // The node's own times, of its acknowledgements and of COUNT.
            if still * WINDOW.0 > 2 * self.cable.end.refresh_ps {
                return Ok(());
            }
        }
        Err("it does not come to rest".into())
    }

    fn store(&mut self, bar: &str, offset: &str, data: &str) -> Outcome<()> {
        let base = *self.bars.get(bar.parse::<usize>()?).ok_or("no such BAR")?;
        let address = BusAddress(base + offset.parse::<u64>()?);
        self.fabric.host_store(self.root, 0, address, &bytes(data)?, 8, 1)?;
        self.settle()
    }

    fn read(&mut self, offset: &str) -> Outcome<()> {
        let address = BusAddress(self.bars[0] + offset.parse::<u64>()?);
        self.fabric.host_load(self.root, 0, address, 4, 7)?;
        let mut events = Vec::new();
        while self.fabric.run_until_host_event() {
            self.fabric.take_host_events(&mut events);
            for event in events.drain(..) {
                if let HostEvent::Loaded { result: Ok(value), .. } = event {
                    self.done.add(format!("v:{value:x}"));
                    return Ok(());
                }
            }
        }
        Err("a register does not answer".into())
    }

    fn deliver(&mut self, link: &str, header: &str, payload: &str) -> Outcome<()> {
        let link: usize = link.parse()?;
        let Header { channel, kind, tag, index, .. } =
            Header::from_word(u32::from_str_radix(header, 16)?);
        let payload = bytes(payload)?;
        let expected = payload_bytes(self.cable.long_datagrams);
        if payload.len() != expected {
            return Err(format!("{expected} bytes of payload are expected").into());
        }
        let far = self.far.get_mut(link).ok_or("no such link")?;
        if far.end.room(channel) == 0 {
            return Err(format!("channel {} of link {link} has no room", channel.number()).into());
        }
        far.end.submit(channel, kind, tag, index, payload.into());
        self.settle()
    }

    fn line(&mut self, line: &str) -> Outcome<String> {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["w", bar, offset, data] => self.store(bar, offset, data)?,
            ["d", link, header, payload] => self.deliver(link, header, payload)?,
            ["r", offset] => self.read(offset)?,
            _ => return Err(format!("this is not understood: {line}").into()),
        }
        Ok(self.done.take().join(" "))
    }
}

fn main() -> Outcome<()> {
    let mut lines = std::io::stdin().lock().lines();
    let mut out = std::io::stdout().lock();
    let mut reference = Reference::new(&lines.next().ok_or("no parameters")??)?;
    for line in lines {
        writeln!(out, "{}", reference.line(&line?)?)?;
        out.flush()?;
    }
    Ok(())
}
