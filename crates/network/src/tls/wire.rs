// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stream between two nodes: TCP, plain or sealed by TLS 1.3.
//!
//! One thread sends and another one receives. Of a sealed stream both need the same session; it is
//! locked while bytes are sealed or opened, not while the socket waits.

use std::io::{Error, ErrorKind, Result};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crosslane_host::lock;
use rustls::client::{ClientConfig, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{Acceptor, ServerConfig, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};

use super::certificates::{Certificates, names};
use super::frame::{HEADER_BYTES, Header};
use super::keys::is_of_key;
use super::receiver::Receiver;
use super::socket::{Place, Socket};

/// Bytes that are sealed at once: two records.
const SEALED_AT_ONCE: usize = 32 << 10;
/// Length of the buffer for what comes at first: more than the longest record, of 16.3 KiB. Those
/// who connect and go leave no more than that behind in the allocator, which has an arena for each
/// of many threads.
const FIRST_INCOMING_BYTES: usize = 20 << 10;
/// Its length when that much comes at once: several records.
const INCOMING_BYTES: usize = 256 << 10;
/// Longer than a handshake is; a peer that sends more is none of ours.
const MOST_HANDSHAKE_BYTES: usize = 64 << 10;

/// How the two ends of a connection know each other, at one end of it.
#[derive(Clone)]
pub enum Credentials {
    /// They do not; nothing is sealed.
    None,
    /// The server's name, and the certificates if it is not by a shared key.
    Client(Arc<ClientConfig>, ServerName<'static>, Option<Certificates>),
    Server(Known),
}

/// The clients that a server knows: by keys, by certificates, or each by its own.
#[derive(Clone)]
pub struct Known {
    pub by_keys: Option<Arc<ServerConfig>>,
    pub by_certificates: Option<Certificates>,
}

/// The two roles of a session.
enum Tls {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

struct Session {
    tls: Tls,
    /// If the ends know each other by certificates.
    certificates: Option<Certificates>,
    /// Records that are to be sent before any other.
    due: Buffer,
    /// Whether it has ended by an error: messages that were not looked at may be left, which the
    /// library would look for where they were.
    has_failed: bool,
}

/// Bytes that are filled again and again, and cleared but once.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
}

/// A stream.
pub struct Wire {
    socket: Socket,
    session: Option<Mutex<Session>>,
}

/// Memory that goes behind a header.
pub struct Body<'a> {
    pub place: Place<'a>,
    pub at: usize,
    pub bytes: usize,
}

/// Buffers of the thread that sends.
#[derive(Default)]
pub struct Scratch {
    plain: Buffer,
    sealed: Buffer,
}

/// Bytes that have come and are not looked at yet, of the thread that receives.
pub struct Incoming {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Of a sealed stream: bytes that were opened before frames were looked for.
    early: Vec<u8>,
}

/// The next thing to do with a session.
enum Step {
    /// More has to come first.
    Wait,
    /// The same, and the handshake is over.
    Ready,
    /// Something was opened or encoded; go on.
    Again,
    /// Nothing more will come.
    End,
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidData, error.to_string())
}

/// An error of the library, in words about keys or certificates where it is about them.
fn of_tls(error: rustls::Error, certificates: Option<&Certificates>) -> Error {
    use rustls::AlertDescription as Alert;
    if let Some(certificates) = certificates {
        return match certificates.words(&error) {
            Some(why) => Error::new(ErrorKind::PermissionDenied, why),
            None => broken(error),
        };
    }
    let why = match error {
        rustls::Error::AlertReceived(
            Alert::AccessDenied
            | Alert::BadCertificate
            | Alert::CertificateRequired
            | Alert::CertificateUnknown
            | Alert::HandshakeFailure
            | Alert::UnknownCA,
        ) => "the other end says that it does not know this key",
        rustls::Error::InvalidCertificate(_) => "the other end does not have the same key",
        rustls::Error::PeerIncompatible(_) => "the other end does not seal as this one does",
        // A server finds no pair of keys by the name that a client asks for.
        rustls::Error::General(why) if why == "no server certificate chain resolved" => {
            "the other end has no key that is known here"
        }
        error => return broken(error),
    };
    Error::new(ErrorKind::PermissionDenied, why)
}

impl Buffer {
    /// Returns at least so many bytes behind those that are filled.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.len() < self.filled + bytes {
            self.bytes.resize(self.filled + bytes, 0);
        }
        &mut self.bytes[self.filled..]
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Fills bytes by a function that says how much room it needs, if it needs more than `least`.
    fn append<E: std::fmt::Display>(
        &mut self,
        least: usize,
        mut write: impl FnMut(&mut [u8]) -> std::result::Result<usize, E>,
        wanted: impl Fn(&E) -> Option<usize>,
    ) -> Result<()> {
        let mut room = least;
        for _ in 0..2 {
            match write(self.room(room)) {
                Ok(written) => {
                    self.filled += written;
                    return Ok(());
                }
                Err(error) => match wanted(&error) {
                    Some(bytes) => room = bytes,
                    None => return Err(broken(error)),
                },
            }
        }
        Err(broken("a record that has no end"))
    }
}

const fn encode_room(error: &EncodeError) -> Option<usize> {
    match error {
        EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => {
            Some(*required_size)
        }
        EncodeError::AlreadyEncoded => None,
    }
}

const fn encrypt_room(error: &EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(InsufficientSizeError { required_size }) => {
            Some(*required_size)
        }
        EncryptError::EncryptExhausted => None,
    }
}

/// Makes one step of a session: opens a record, encodes what is due, or seals `plain` if it may.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    certificates: Option<&Certificates>,
    due: &mut Buffer,
    plain: &mut Option<&[u8]>,
    mut opened: impl FnMut(&[u8]) -> std::result::Result<(), String>,
) -> (usize, Result<Step>) {
    let UnbufferedStatus { mut discard, state } = status;
    let of_tls = |error| of_tls(error, certificates);
    let next = state.map_err(of_tls).and_then(|state| {
        Ok(match state {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(of_tls)?;
                    discard += record.discard;
                    opened(record.payload).map_err(broken)?;
                }
                Step::Again
            }
            ConnectionState::EncodeTlsData(mut encoder) => {
                due.append(1024, |to| encoder.encode(to), encode_room)?;
                Step::Again
            }
            ConnectionState::TransmitTlsData(due) => {
                due.done();
                Step::Again
            }
            ConnectionState::WriteTraffic(mut traffic) => {
                if let Some(plain) = plain.take() {
                    let least = plain.len() + 64 * (1 + plain.len() / (16 << 10));
                    due.append(least, |to| traffic.encrypt(plain, to), encrypt_room)?;
                }
                Step::Ready
            }
            ConnectionState::BlockedHandshake => Step::Wait,
            ConnectionState::PeerClosed | ConnectionState::Closed => Step::End,
            _ => return Err(broken("early data, which nobody has asked for")),
        })
    });
    (discard, next)
}

impl Session {
    fn step(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Option<&[u8]>,
        opened: impl FnMut(&[u8]) -> std::result::Result<(), String>,
    ) -> (usize, Result<Step>) {
        let Self { tls, certificates, due, has_failed } = self;
        let certificates = certificates.as_ref();
        let (discard, next) = match tls {
            Tls::Client(tls) => {
                step(tls.process_tls_records(incoming), certificates, due, plain, opened)
            }
            Tls::Server(tls) => {
                step(tls.process_tls_records(incoming), certificates, due, plain, opened)
            }
        };
        *has_failed |= next.is_err();
        (discard, next)
    }

    /// Seals these bytes behind the records that are due, and returns all of them.
    fn seal(&mut self, plain: &[u8], into: &mut Buffer) -> Result<()> {
        let mut left = Some(plain);
        while left.is_some() {
            if self.has_failed || matches!(self.step(&mut [], &mut left, |_| Ok(())).1?, Step::End)
            {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        into.filled = 0;
        std::mem::swap(into, &mut self.due);
        Ok(())
    }

    /// Whether it has records that are not encoded yet.
    fn wants_write(&self) -> bool {
        match &self.tls {
            Tls::Client(tls) => tls.wants_write(),
            Tls::Server(tls) => tls.wants_write(),
        }
    }

    /// Tells the other end why this one gives up, if it hears it.
    fn say_why(&mut self, incoming: &mut Incoming, socket: &Socket) {
        // Beyond what is to be sent, the library would go on with what came behind the error, and
        // it panics if that gives another alert.
        while self.wants_write() && self.open_one(incoming, |_, _| Ok(())).is_ok() {}
        if socket.write_all(self.due.filled()).is_ok() {
            socket.end_gently();
        }
    }

    /// Opens all whole records.
    fn open(
        &mut self,
        incoming: &mut Incoming,
        mut opened: impl FnMut(&mut Vec<u8>, &[u8]) -> std::result::Result<(), String>,
    ) -> Result<Step> {
        loop {
            match self.open_one(incoming, &mut opened)? {
                Step::Again => {}
                next => return Ok(next),
            }
        }
    }

    fn open_one(
        &mut self,
        Incoming { buffer, begin, end, early }: &mut Incoming,
        mut opened: impl FnMut(&mut Vec<u8>, &[u8]) -> std::result::Result<(), String>,
    ) -> Result<Step> {
        let opened = |bytes: &[u8]| opened(early, bytes);
        let (discard, next) = self.step(&mut buffer[*begin..*end], &mut None, opened);
        *begin += discard;
        next
    }
}

impl Incoming {
    fn new() -> Self {
        Self { buffer: vec![0; FIRST_INCOMING_BYTES], begin: 0, end: 0, early: Vec::new() }
    }

    /// Waits for more; false at the end of the stream.
    fn fill(&mut self, socket: &Socket) -> Result<bool> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let got = socket.read(&mut self.buffer[self.end..])?;
        self.end += got;
        if self.end == self.buffer.len() && self.end < INCOMING_BYTES {
            self.buffer.resize(INCOMING_BYTES.min(2 * self.end), 0);
        }
        Ok(got > 0)
    }
}

impl Known {
    /// Chooses how a client is to show whose it is: of those who know both ways, by the name that
    /// it asks for, which is all that is looked at.
    fn ask(
        &self,
        incoming: &mut Incoming,
        socket: &Socket,
    ) -> Result<(Arc<ServerConfig>, Option<Certificates>)> {
        let Self { by_keys, by_certificates } = self;
        let (keys, certificates) = match (by_keys, by_certificates) {
            (Some(keys), Some(both)) => (keys, both),
            (None, Some(certificates)) => {
                return Ok((certificates.server(), Some(certificates.clone())));
            }
            (Some(keys), None) => return Ok((keys.clone(), None)),
            (None, None) => return Err(broken("nobody is known here")),
        };
        let mut greeting = Acceptor::default();
        let by_key = loop {
            let before = incoming.end;
            if !incoming.fill(socket)? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if incoming.end > MOST_HANDSHAKE_BYTES {
                return Err(broken("a handshake that is too long"));
            }
            let mut came = &incoming.buffer[before..incoming.end];
            while !came.is_empty() {
                greeting.read_tls(&mut came)?;
            }
            match greeting.accept() {
                Ok(None) => {}
                Ok(Some(asked)) => break asked.client_hello().server_name().is_some_and(is_of_key),
                // The session finds the same, and tells the other end.
                Err(_) => break false,
            }
        };
        Ok(match by_key {
            true => (keys.clone(), None),
            false => (certificates.server(), Some(certificates.clone())),
        })
    }
}

impl Wire {
    /// Makes a stream of a connected socket, by a handshake if it is to be sealed.
    ///
    /// # Errors
    /// A connection that has broken, and an end that is not who it should be.
    pub fn new(
        stream: TcpStream,
        credentials: &Credentials,
        deadline: Instant,
    ) -> Result<(Self, Incoming)> {
        let socket = Socket::new(stream)?;
        socket.set_deadline(deadline);
        let mut incoming = Incoming::new();
        let (tls, certificates) = match credentials {
            Credentials::None => return Ok((Self { socket, session: None }, incoming)),
            Credentials::Client(config, name, certificates) => {
                let tls = UnbufferedClientConnection::new(config.clone(), name.clone());
                let certificates = certificates.clone();
                (tls.map(Tls::Client), certificates)
            }
            Credentials::Server(known) => {
                let (config, certificates) = known.ask(&mut incoming, &socket)?;
                (UnbufferedServerConnection::new(config).map(Tls::Server), certificates)
            }
        };
        let tls = tls.map_err(|error| of_tls(error, certificates.as_ref()))?;
        let mut session = Session { tls, certificates, due: Buffer::default(), has_failed: false };
        let mut came = 0;
        loop {
            let next = match session.open(&mut incoming, keep) {
                Ok(next) => next,
                Err(error) => {
                    session.say_why(&mut incoming, &socket);
                    return Err(error);
                }
            };
            socket.write_all(std::mem::take(&mut session.due).filled())?;
            match next {
                Step::Ready => break,
                Step::End => return Err(ErrorKind::UnexpectedEof.into()),
                Step::Wait | Step::Again => {}
            }
            let before = incoming.end - incoming.begin;
            if !incoming.fill(&socket)? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            came += incoming.end - before;
            if came > MOST_HANDSHAKE_BYTES {
                return Err(broken("a handshake that is too long"));
            }
        }
        Ok((Self { socket, session: Some(Mutex::new(session)) }, incoming))
    }

    /// The socket.
    pub const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether what it carries is sealed.
    pub const fn is_sealed(&self) -> bool {
        self.session.is_some()
    }

    /// Names that the other end's certificate has; none before the other end has proven them.
    pub fn names(&self) -> Vec<String> {
        let Some(session) = &self.session else { return Vec::new() };
        let Session { tls, certificates, .. } = &*lock(session);
        let shown = match tls {
            Tls::Client(tls) => tls.peer_certificates(),
            Tls::Server(tls) => tls.peer_certificates(),
        };
        let own = shown.filter(|_| certificates.is_some()).and_then(<[_]>::first);
        own.map(names).unwrap_or_default()
    }

    /// Sends headers, and behind them memory. Returns whether the memory was still lent.
    ///
    /// # Errors
    /// A connection that has broken.
    pub fn send(&self, head: &[u8], body: Option<Body<'_>>, scratch: &mut Scratch) -> Result<bool> {
        let Some(session) = &self.session else {
            return match body {
                None => self.socket.write_all(head).map(|()| true),
                Some(Body { place, at, bytes }) => {
                    self.socket.write_memory(head, &place, at, bytes)
                }
            };
        };
        let Scratch { plain, sealed } = scratch;
        let mut is_lent = true;
        let mut seal = |plain: &[u8]| {
            lock(session).seal(plain, sealed)?;
            self.socket.write_all(sealed.filled())
        };
        let Some(Body { place, mut at, mut bytes }) = body else {
            return seal(head).map(|()| true);
        };
        plain.filled = 0;
        plain.room(head.len())[..head.len()].copy_from_slice(head);
        plain.filled = head.len();
        loop {
            let piece = bytes.min(SEALED_AT_ONCE);
            let into = &mut plain.room(piece)[..piece];
            let read = place.with(|mapping| mapping.read(at, into)).is_some();
            if !read {
                plain.room(piece)[..piece].fill(0);
                is_lent = false;
            }
            plain.filled += piece;
            seal(plain.filled())?;
            plain.filled = 0;
            (at, bytes) = (at + piece, bytes - piece);
            if bytes == 0 {
                return Ok(is_lent);
            }
        }
    }

    /// Seals and sends what the session has to say by itself.
    ///
    /// # Errors
    /// A connection that has broken.
    pub fn send_due(&self) -> Result<()> {
        let due = self.session.as_ref().map(|session| std::mem::take(&mut lock(session).due));
        self.socket.write_all(due.unwrap_or_default().filled())
    }

    /// Waits for bytes and hands them to the receiver. False at the end of the stream.
    ///
    /// # Errors
    /// A connection that has broken, or an end that breaks the rules.
    pub fn receive(&self, incoming: &mut Incoming, receiver: &mut Receiver) -> Result<bool> {
        let Some(session) = &self.session else {
            if let Some((place, at, bytes)) = receiver.memory() {
                return match self.socket.read_memory(&place, at, bytes)? {
                    None => Ok(receiver.is_gone()),
                    Some(0) => Ok(false),
                    Some(got) => receiver.moved(got).map(|()| true).map_err(broken),
                };
            }
            let most = receiver.wanted().min(incoming.buffer.len());
            let got = self.socket.read(&mut incoming.buffer[..most])?;
            receiver.feed(&incoming.buffer[..got]).map_err(broken)?;
            return Ok(got > 0);
        };
        if !incoming.early.is_empty() {
            receiver.feed(&std::mem::take(&mut incoming.early)).map_err(broken)?;
        }
        let mut session = lock(session);
        let next = session.open(incoming, |_, bytes| receiver.feed(bytes))?;
        if session.due.filled > 0 {
            receiver.wake_sender();
        }
        drop(session);
        Ok(!matches!(next, Step::End) && incoming.fill(&self.socket)?)
    }

    /// Waits for the header of the next frame, which has nothing behind it.
    ///
    /// # Errors
    /// A connection that has broken, or an end that breaks the rules.
    pub fn header(&self, incoming: &mut Incoming) -> Result<Header> {
        let mut header = [0; HEADER_BYTES];
        match &self.session {
            None => {
                let mut have = 0;
                while have < HEADER_BYTES {
                    match self.socket.read(&mut header[have..])? {
                        0 => return Err(ErrorKind::UnexpectedEof.into()),
                        got => have += got,
                    }
                }
            }
            Some(session) => {
                while incoming.early.len() < HEADER_BYTES {
                    let next = lock(session).open(incoming, keep)?;
                    let has_all = incoming.early.len() >= HEADER_BYTES;
                    if !has_all && (matches!(next, Step::End) || !incoming.fill(&self.socket)?) {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                header.copy_from_slice(&incoming.early[..HEADER_BYTES]);
                incoming.early.drain(..HEADER_BYTES);
            }
        }
        Header::decode(&header).map_err(broken)
    }
}

/// Keeps bytes that come before frames are looked for.
fn keep(early: &mut Vec<u8>, bytes: &[u8]) -> std::result::Result<(), String> {
    if early.len() + bytes.len() > MOST_HANDSHAKE_BYTES {
        return Err("more than a connection begins with".into());
    }
    early.extend_from_slice(bytes);
    Ok(())
}
