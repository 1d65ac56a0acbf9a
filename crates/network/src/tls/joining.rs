// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Set-up of connections: the handshake of each stream, then the streams of one connection find
//! each other by its number.

use std::collections::{HashMap, VecDeque};
use std::io::{Error, ErrorKind, Result};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crosslane_host::lock;

use super::frame::{Header, Kind};
use super::link::Link;
use super::region::Regions;
use super::wire::{Credentials, Incoming, Scratch, Wire};
use super::{Open, TlsConnection, TurnedAway};
use crate::inbox::{MAX_BACKLOG, Queue};

/// Streams of a connection: several processors seal and open at once.
const STREAMS: u32 = 2;
/// Most streams that another node may ask for.
const MOST_STREAMS: u32 = 16;
/// Time for everything between a socket's connection and the start of its connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most sockets that have not shown yet whose they are; beyond it the oldest is closed.
const MOST_STRANGERS: usize = 128;
/// Time that each has to show it, however many others come: those that come at the same time are
/// all heard.
const LEAST_TIME: Duration = Duration::from_millis(200);
/// Time between two words about those who were turned away.
const BETWEEN_WORDS: Duration = Duration::from_secs(1);
/// Time between two looks whether another one has a place.
const LOOK: Duration = Duration::from_millis(2);

type Stream = (Wire, Incoming);

/// Connects to the first of the addresses where somebody is.
///
/// # Errors
/// That of the last one.
pub fn connect(
    name: &str,
    all: &[SocketAddr],
    credentials: &Credentials,
    regions: &Arc<Regions>,
    until: Instant,
) -> Result<Arc<Link>> {
    let mut last = Error::from(ErrorKind::NotFound);
    for to in all {
        match connect_to(name, *to, credentials, regions, until) {
            Ok(link) => return Ok(link),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(
    name: &str,
    to: SocketAddr,
    credentials: &Credentials,
    regions: &Arc<Regions>,
    until: Instant,
) -> Result<Arc<Link>> {
    let random = || getrandom::u64().map_err(|error| Error::other(error.to_string()));
    let (id, key) = (random()?, random()?);
    let mut streams = Vec::new();
    for number in 0..STREAMS {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        let stream = TcpStream::connect_timeout(&to, left.ok_or(ErrorKind::TimedOut)?)?;
        let (wire, incoming) = Wire::new(stream, credentials, until)?;
        let address = u64::from(number) | u64::from(STREAMS) << 32;
        let join = Header { id, key, address, ..Header::new(Kind::Join) };
        wire.send(&join.encode(), None, &mut Scratch::default())?;
        streams.push((wire, incoming));
    }
    let (wire, incoming) = &mut streams[0];
    let answer = wire.header(incoming).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset if !wire.is_sealed() => {
            let why = "the other end takes no connection that is not sealed";
            Error::new(ErrorKind::PermissionDenied, why)
        }
        _ => error,
    })?;
    if answer.kind != Kind::Joined {
        let why = format!("the other end answers with {:?}", answer.kind);
        return Err(Error::new(ErrorKind::InvalidData, why));
    }
    Link::start(name.into(), regions.clone(), streams)
}

/// A socket that listens, with its thread.
pub struct Listening {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Not to be accepted from here; it ends the thread.
    socket: TcpListener,
}

struct Shared {
    credentials: Credentials,
    regions: Arc<Regions>,
    backlog: Queue<TlsConnection>,
    /// Sockets that have not shown yet whose they are, oldest first.
    strangers: Mutex<Strangers>,
    /// Streams of connections that are not complete, by the connections' numbers.
    incomplete: Mutex<HashMap<(u64, u64), Gathered>>,
    turned_away: Option<TurnedAway>,
    /// When somebody who was turned away was last told of, and how many were not since.
    told: Mutex<(Option<Instant>, u64)>,
}

#[derive(Default)]
struct Strangers {
    last: u64,
    sockets: VecDeque<(u64, Instant, TcpStream)>,
    has_ended: bool,
}

struct Gathered {
    since: Instant,
    streams: Vec<Option<Stream>>,
}

impl Listening {
    /// Begins to listen.
    ///
    /// # Errors
    /// An address that is taken or not of this node.
    pub fn start(
        at: SocketAddr,
        credentials: Credentials,
        regions: Arc<Regions>,
        turned_away: Option<TurnedAway>,
    ) -> Result<Self> {
        let socket = TcpListener::bind(at)?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared {
            credentials,
            regions,
            backlog: Queue::default(),
            strangers: Mutex::default(),
            incomplete: Mutex::default(),
            turned_away,
            told: Mutex::default(),
        });
        let (of_thread, listener) = (shared.clone(), socket.try_clone()?);
        let work = move || of_thread.accept_all(&listener);
        thread::Builder::new().name("crosslane-accept".into()).spawn(work)?;
        Ok(Self { shared, address, socket })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn backlog(&self) -> &Queue<TlsConnection> {
        &self.shared.backlog
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut strangers = lock(&self.shared.strangers);
        strangers.has_ended = true;
        for (_, _, socket) in strangers.sockets.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(strangers);
        // Wakes the thread, and lets nobody else in.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        lock(&self.shared.incomplete).clear();
        drop(self.shared.backlog.take_all());
    }
}

impl Shared {
    fn accept_all(self: Arc<Self>, listener: &TcpListener) {
        loop {
            self.wait_for_room();
            let accepted = listener.accept();
            if lock(&self.strangers).has_ended {
                return;
            }
            match accepted {
                Ok((stream, from)) => self.clone().welcome(stream, from),
                // Too many open files, or a socket that has gone: others go on.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Waits until fewer strangers are here than may be, or the oldest has had its time.
    fn wait_for_room(&self) {
        loop {
            let strangers = lock(&self.strangers);
            let oldest = strangers.sockets.front().map(|(_, since, _)| since.elapsed());
            let is_full = strangers.sockets.len() >= MOST_STRANGERS && !strangers.has_ended;
            if !is_full || oldest.is_none_or(|time| time >= LEAST_TIME) {
                return;
            }
            drop(strangers);
            thread::sleep(LOOK);
        }
    }

    /// Hears a stranger in a thread of his own.
    fn welcome(self: Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let Ok(kept) = stream.try_clone() else { return };
        let mut strangers = lock(&self.strangers);
        strangers.last += 1;
        let number = strangers.last;
        strangers.sockets.push_back((number, Instant::now(), kept));
        if strangers.sockets.len() > MOST_STRANGERS
            && let Some((_, _, oldest)) = strangers.sockets.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        drop(strangers);
        let shared = self.clone();
        let work = move || {
            let heard = shared.hear(stream);
            shared.forget(number);
            match heard {
                Ok(Some(streams)) => shared.complete(from, streams),
                Ok(None) => {}
                Err(error) => shared.turn_away(from, &error),
            }
        };
        if thread::Builder::new().name("crosslane-hear".into()).spawn(work).is_err() {
            self.forget(number);
        }
    }

    /// Tells of one who was turned away. Those who only leave are none.
    fn turn_away(&self, from: SocketAddr, error: &Error) {
        let Some(TurnedAway(hear)) = &self.turned_away else { return };
        if !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidData) {
            return;
        }
        let others = {
            let (last, untold) = &mut *lock(&self.told);
            if last.is_some_and(|last| last.elapsed() < BETWEEN_WORDS) {
                *untold += 1;
                return;
            }
            *last = Some(Instant::now());
            std::mem::take(untold)
        };
        hear(from, &error.to_string(), others);
    }

    fn forget(&self, number: u64) {
        lock(&self.strangers).sockets.retain(|(other, ..)| *other != number);
    }

    /// Hears whose stream it is. Returns all streams of a connection with its last one.
    fn hear(&self, stream: TcpStream) -> Result<Option<Vec<Stream>>> {
        let now = Instant::now();
        let (wire, mut incoming) = Wire::new(stream, &self.credentials, now + PATIENCE)?;
        let Header { kind, id, key, address, .. } = wire.header(&mut incoming)?;
        let (number, count) = (address as u32, (address >> 32) as u32);
        if kind != Kind::Join || number >= count || count > MOST_STREAMS {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut incomplete = self.room_for(&(id, key));
        incomplete.retain(|_, gathered| now.duration_since(gathered.since) < PATIENCE);
        // The oldest gives way, so that nobody keeps others out by connections never completed.
        let oldest = incomplete.iter().min_by_key(|(_, gathered)| gathered.since);
        if let Some(oldest) = oldest.map(|(number, _)| *number)
            && incomplete.len() >= MOST_STRANGERS
        {
            incomplete.remove(&oldest);
        }
        let empty = || Gathered { since: now, streams: (0..count).map(|_| None).collect() };
        let gathered = incomplete.entry((id, key)).or_insert_with(empty);
        let is_alike = gathered.streams.len() == count as usize;
        match gathered.streams.get_mut(number as usize) {
            Some(place) if is_alike && place.is_none() => *place = Some((wire, incoming)),
            _ => return Err(ErrorKind::InvalidData.into()),
        }
        if gathered.streams.iter().any(Option::is_none) {
            return Ok(None);
        }
        let complete = incomplete.remove(&(id, key)).map(|gathered| gathered.streams);
        Ok(complete.map(|streams| streams.into_iter().flatten().collect()))
    }

    /// Waits until a stream's connection has a place among those that are not complete, or the
    /// oldest of these has had its time.
    fn room_for(&self, id: &(u64, u64)) -> MutexGuard<'_, HashMap<(u64, u64), Gathered>> {
        loop {
            let incomplete = lock(&self.incomplete);
            let oldest = incomplete.values().map(|gathered| gathered.since.elapsed()).max();
            let is_full = incomplete.len() >= MOST_STRANGERS && !incomplete.contains_key(id);
            if !is_full || oldest.is_none_or(|time| time >= LEAST_TIME) {
                return incomplete;
            }
            drop(incomplete);
            thread::sleep(LOOK);
        }
    }

    /// Begins a connection, and hands it to the program.
    fn complete(&self, from: SocketAddr, streams: Vec<Stream>) {
        let joined = Header::new(Kind::Joined).encode();
        let told = streams[0].0.send(&joined, None, &mut Scratch::default());
        if told.is_err() || self.backlog.length() >= MAX_BACKLOG {
            return;
        }
        if let Ok(link) = Link::start(from.to_string(), self.regions.clone(), streams) {
            self.backlog.push(TlsConnection(Arc::new(Open(link))));
        }
    }
}
