// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving side of a stream: takes bytes as they come, in pieces of any size, and does as the
//! frames say.

use std::sync::Arc;

use super::frame::{HEADER_BYTES, Header, Kind, Status};
use super::link::{Answer, Link};
use super::region::Registered;
use super::socket::Place;

/// Takes the bytes of one stream.
pub struct Receiver {
    link: Arc<Link>,
    /// Number of the stream.
    stream: usize,
    head: [u8; HEADER_BYTES],
    /// Bytes of the next header that have come.
    have: usize,
    body: Option<Body>,
    /// How the write is going whose frames are coming.
    write: Status,
}

/// Bytes that come behind a header.
struct Body {
    header: Header,
    target: Target,
    /// Bytes that have come.
    came: u32,
}

enum Target {
    Nowhere,
    Message(Vec<u8>),
    /// Memory for a read of this node, from this byte on.
    Own(Arc<Registered>, u64),
    /// Memory that the other node writes to.
    Lent(Arc<Registered>, u64),
}

impl Receiver {
    pub const fn new(link: Arc<Link>, stream: usize) -> Self {
        let head = [0; HEADER_BYTES];
        Self { link, stream, head, have: 0, body: None, write: Status::Moved }
    }

    /// The memory that the next bytes go to, the offset there, and how many.
    pub fn memory(&self) -> Option<(Place<'_>, usize, usize)> {
        let body = self.body.as_ref()?;
        let (place, at) = match &body.target {
            Target::Own(own, at) => (Place::Own(&own.mapping), at),
            Target::Lent(lent, at) => (Place::Lent(lent), at),
            Target::Nowhere | Target::Message(_) => return None,
        };
        // Both are within a mapping, so they fit `usize`.
        let at = (at + u64::from(body.came)) as usize;
        Some((place, at, (body.header.bytes - body.came) as usize))
    }

    /// Bytes that may be fed at once, so that none of them belongs into memory.
    pub fn wanted(&self) -> usize {
        match &self.body {
            Some(body) => (body.header.bytes - body.came) as usize,
            None => HEADER_BYTES - self.have,
        }
    }

    /// Takes note that the memory is lent no longer: what still comes is dropped.
    pub fn is_gone(&mut self) -> bool {
        if let Some(body) = &mut self.body {
            body.target = Target::Nowhere;
            self.write = Status::NoSuchKey;
        }
        true
    }

    /// Makes the sender look for what the session has to say.
    pub fn wake_sender(&self) {
        self.link.wake_sender(self.stream);
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// An end that breaks the rules.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let Some(body) = &mut self.body else {
                let piece = bytes.len().min(HEADER_BYTES - self.have);
                let (first, rest) = bytes.split_at(piece);
                self.head[self.have..self.have + piece].copy_from_slice(first);
                (self.have, bytes) = (self.have + piece, rest);
                if self.have == HEADER_BYTES {
                    self.have = 0;
                    self.begin(Header::decode(&self.head)?)?;
                }
                continue;
            };
            let piece = bytes.len().min((body.header.bytes - body.came) as usize);
            let (first, rest) = bytes.split_at(piece);
            bytes = rest;
            let offset = |at: u64| (at + u64::from(body.came)) as usize;
            match &mut body.target {
                Target::Nowhere => {}
                Target::Message(message) => message.extend_from_slice(first),
                Target::Own(own, at) => own.mapping.write(offset(*at), first),
                Target::Lent(lent, at) => {
                    let to = offset(*at);
                    if lent.with(|mapping| mapping.write(to, first)).is_none() {
                        self.is_gone();
                    }
                }
            }
            self.moved(piece)?;
        }
        Ok(())
    }

    /// Takes note of bytes that have gone where they belong.
    ///
    /// # Errors
    /// An end that breaks the rules.
    pub fn moved(&mut self, bytes: usize) -> Result<(), String> {
        let Some(body) = &mut self.body else { return Ok(()) };
        body.came += bytes as u32;
        if body.came < body.header.bytes {
            return Ok(());
        }
        match self.body.take() {
            Some(body) => self.end(body),
            None => Ok(()),
        }
    }

    fn begin(&mut self, header: Header) -> Result<(), String> {
        let Header { kind, bytes, id, key, address, .. } = header;
        let target = match kind {
            Kind::Join | Kind::Joined => return Err(format!("a {kind:?} in the middle")),
            Kind::Taken => {
                self.link.taken(id as u32);
                return Ok(());
            }
            Kind::Done => return self.link.done(id, header.status()?),
            Kind::Read => {
                match self.link.regions().find(key, address, bytes.into(), false) {
                    Ok(region) => {
                        let answer = Answer { id, region, address, bytes };
                        self.link.answer(self.stream, answer)?;
                    }
                    Err(status) => self.link.tell_done(self.stream, id, status)?,
                }
                return Ok(());
            }
            Kind::Message => Target::Message(Vec::with_capacity(bytes as usize)),
            Kind::Data => {
                let (own, at) = self.link.place_of(id, address, bytes)?;
                own.mapping.prepare(at as usize, bytes as usize);
                Target::Own(own, at)
            }
            Kind::Write => {
                let found = self.link.regions().find(key, address, bytes.into(), true);
                let status = found.as_ref().err().copied().unwrap_or(Status::Moved);
                if header.is_first || self.write == Status::Moved {
                    self.write = status;
                }
                found.map_or(Target::Nowhere, |region| Target::Lent(region, address))
            }
        };
        let body = Body { header, target, came: 0 };
        if bytes == 0 {
            return self.end(body);
        }
        self.body = Some(body);
        Ok(())
    }

    /// The end of a frame's bytes.
    fn end(&mut self, Body { header, target, .. }: Body) -> Result<(), String> {
        match (header.kind, target) {
            (Kind::Message, Target::Message(message)) => self.link.message(message),
            (Kind::Write, _) if header.is_last => {
                self.link.tell_done(self.stream, header.id, self.write)
            }
            _ => Ok(()),
        }
    }
}
