// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link end that is told by lines on standard input what happens in each clock, and says on
//! standard output what it does: the reference of the gateware's tests
//! (`gateware/tb/link_reference.py`).
//!
//! The first line has the sizes and times of the end as decimal numbers: lanes,
//! `channel_datagrams`, `retry_datagrams`, `queue_datagrams`, `acknowledge_datagrams`,
//! `acknowledge_within`, `retry_timeout`, `refresh`, and 1 if datagrams are long, else 0. Every
//! other line is a clock: its time, then in this order, each if it happens,
//!
//! * `n`: the next frame is chosen,
//! * `c...`: a column comes, three hexadecimal digits a lane: 0 data, 1 control, 2 error; the byte,
//! * `fC`: a buffer of channel C is freed,
//! * `sC:HEADER:PAYLOAD`: a datagram is queued (hexadecimal; of the header kind, tag and index),
//! * `uN`: the link is up, with N datagrams of each receive buffer at the other end; `d`: down.
//!
//! The answer has the frame's bytes or `-`, the header and payload of a delivered datagram or `-`,
//! then decimal numbers: in error, settled, unacknowledged, expected, time-outs in a row, eight
//! credits, thirteen counters.

use crosslane_torus_link::code::Symbol;
use crosslane_torus_link::frame::{Channel, Damaged, Frame, Header, payload_bytes};
use crosslane_torus_link::lanes::{Deframer, Event, MAX_LANES};
use crosslane_torus_link::{EndParameters, LinkEnd};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::sync::Arc;

type Outcome<T> = Result<T, Box<dyn Error>>;

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

fn channel(text: &str) -> Outcome<Channel> {
    Channel::new(text.parse()?).ok_or_else(|| format!("there is no channel {text}").into())
}

struct Reference {
    end: LinkEnd,
    deframer: Deframer,
    is_long: bool,
}

impl Reference {
    fn new(line: &str) -> Outcome<Self> {
        let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [lanes, datagrams, retry, queue, acknowledge, within, timeout, refresh, long] =
            numbers[..]
        else {
            return Err(format!("nine numbers are expected: {line}").into());
        };
        let parameters = EndParameters {
            channel_datagrams: datagrams.try_into()?,
            retry_datagrams: retry.try_into()?,
            queue_datagrams: queue.try_into()?,
            acknowledge_datagrams: acknowledge.try_into()?,
            acknowledge_within_ps: within,
            retry_timeout_ps: timeout,
            refresh_ps: refresh,
        };
        parameters.check()?;
        let (deframer, is_long) = (Deframer::new(lanes.try_into()?), long == 1);
        let deframer = if is_long { deframer.with_long_datagrams() } else { deframer };
        Ok(Self { end: LinkEnd::new(parameters), deframer, is_long })
    }

    /// Takes a column; returns the datagram that it delivers.
    fn column(&mut self, text: &str, now: u64) -> Outcome<Option<String>> {
        let mut column = [None; MAX_LANES];
        for (lane, symbol) in column.iter_mut().zip(text.as_bytes().chunks(3)) {
            let byte = u8::from_str_radix(std::str::from_utf8(&symbol[1..])?, 16)?;
            *lane = match symbol[0] {
                b'0' => Some(Symbol::Data(byte)),
                b'1' => Some(Symbol::Control(byte)),
                _ => None,
            };
        }
        let mut delivered = None;
        for event in self.deframer.take(&column).into_iter().flatten() {
            let frame = match event {
                Event::Frame(frame) => frame,
                // As a port has it: the damaged set may have been a frame.
                Event::Set(None) => Err(Damaged::Begin),
                _ => continue,
            };
            if let Some(datagram) = self.end.receive(frame, now) {
                let word = datagram.header.word().to_le_bytes();
                delivered = Some(hex(&word) + &hex(&datagram.payload[..]));
            }
        }
        Ok(delivered)
    }

    fn submit(&mut self, text: &str) -> Outcome<()> {
        let parts: Vec<&str> = text.split(':').collect();
        let [number, header, payload] = parts[..] else {
            return Err(format!("channel, header and payload are expected: {text}").into());
        };
        let Header { kind, tag, index, .. } = Header::from_word(u32::from_str_radix(header, 16)?);
        let (payload, expected) = (bytes(payload)?, payload_bytes(self.is_long));
        if payload.len() != expected {
            return Err(format!("{expected} bytes are expected: {text}").into());
        }
        self.end.submit(channel(number)?, kind, tag, index, Arc::from(payload));
        Ok(())
    }

    /// Lets happen what a line says, and returns the answer.
    fn clock(&mut self, line: &str) -> Outcome<String> {
        let mut words = line.split(' ');
        let now = words.next().unwrap_or_default().parse()?;
        let (mut frame, mut delivered) = (None, None);
        for word in words {
            let (kind, rest) = word.split_at(1);
            match kind {
                "n" => frame = self.end.next_frame(now).as_ref().map(Frame::encode),
                "c" => delivered = self.column(rest, now)?,
                "f" => self.end.free(channel(rest)?),
                "s" => self.submit(rest)?,
                "u" => self.end.up(rest.parse()?, now),
                "d" => self.end.down(),
                _ => return Err(format!("nothing is called {word}").into()),
            }
        }
        let frame = frame.map_or_else(|| "-".into(), |frame| hex(frame.as_slice()));
        Ok(format!("{frame} {} {}", delivered.as_deref().unwrap_or("-"), self.state()))
    }

    fn state(&self) -> String {
        let end = &self.end;
        let credits = Channel::ALL.map(|channel| end.credit(channel) as u64);
        let c = end.counters();
        let counters = [
            c.sent, c.delivered, c.repeated, c.damaged, c.nacks, c.restarts, c.timeouts,
            c.trainings, c.commands, c.doubles, c.discarded, c.stale, c.overruns,
        ];
        let first = [
            u64::from(end.is_in_error()),
            u64::from(end.is_settled()),
            end.unacknowledged() as u64,
            u64::from(end.expected()),
            u64::from(end.timeouts_in_a_row()),
        ];
        let numbers = first.into_iter().chain(credits).chain(counters);
        numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
    }
}

fn main() -> Outcome<()> {
    let mut lines = std::io::stdin().lock().lines();
    let mut out = std::io::stdout().lock();
    let mut reference = Reference::new(&lines.next().ok_or("no parameters")??)?;
    for line in lines {
        writeln!(out, "{}", reference.clock(&line?)?)?;
        out.flush()?;
    }
    Ok(())
}
