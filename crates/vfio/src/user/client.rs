// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection to a server: commands and their replies, each with a deadline.
//!
//! A thread reads incoming messages. Replies find their commands by number, in any order; late
//! ones, whose caller has given up, are dropped. Commands of the server that read or write memory
//! are answered, even for memory that it was given as a file; other commands are refused. A message
//! that cannot be understood, or the end of the connection, ends all waits and later requests
//! immediately.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crosslane_host::{ErrorKind, Reason, lock};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::protocol::{Capabilities, Command, Header, MAJOR, MINOR, Version};
use super::reachable::Reachable;
use super::socket::{Message, SocketError, receive, send};
use crate::function::{Doing, FunctionError, Result};
use crate::reactor;

/// Most answers that may wait to be sent; a server with more open commands is at fault.
const MOST_ANSWERS: usize = 64;

/// Time for a server that has made its socket to listen there too, as far as the deadline allows.
const LISTENS_WITHIN: Duration = Duration::from_millis(500);

/// A connection to a server, closed on drop.
#[derive(Debug)]
pub(super) struct Client {
    shared: Arc<Shared>,
    /// Limits that the server has stated.
    pub server: Capabilities,
    deadline: Duration,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// The socket's path: the function's name.
    name: String,
    stream: UnixStream,
    /// Number of the last command; locked while a message is sent.
    sending: Mutex<u16>,
    waiting: Mutex<Waiting>,
    /// Signals changes of `waiting`.
    changed: Condvar,
    /// Answers to the server's commands that wait to be sent.
    answers: Mutex<Vec<(Header, Vec<u8>)>>,
    /// Memory that the server may reach.
    reachable: Reachable,
    /// Becomes readable once the connection is lost.
    lost_event: OwnedFd,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Commands that still wait for a reply, or whose reply has not been taken.
    open: BTreeMap<u16, Option<Message>>,
    lost: Option<FunctionError>,
}

impl Shared {
    /// Ends the connection, and returns the first error that did.
    fn lose(&self, error: FunctionError) -> FunctionError {
        let mut waiting = lock(&self.waiting);
        let first = waiting.lost.get_or_insert(error).clone();
        drop(waiting);
        // Both fail only if they were done before.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = rustix::io::write(&self.lost_event, &1_u64.to_ne_bytes());
        self.changed.notify_all();
        first
    }

    fn gone(&self, why: SocketError) -> FunctionError {
        FunctionError::Gone { function: self.name.clone(), why: why.into() }
    }

    /// Reads until the connection ends.
    fn read(&self) {
        loop {
            let message = match receive(&self.stream) {
                Ok(message) => message,
                Err(error) => {
                    self.lose(self.gone(error));
                    return;
                }
            };
            if message.header.is_reply() {
                if let Some(place) = lock(&self.waiting).open.get_mut(&message.header.id) {
                    *place = Some(message);
                    self.changed.notify_all();
                }
                continue;
            }
            let header = message.header;
            let answer = match self.reachable.answer(header.command, &message.payload) {
                Ok(payload) => (header.reply(payload.len()), payload),
                Err(errno) => (header.refusal(errno.raw_os_error()), Vec::new()),
            };
            if header.wants_reply() {
                let mut answers = lock(&self.answers);
                if answers.len() >= MOST_ANSWERS {
                    let why = format!("it sent {MOST_ANSWERS} commands and took no answer");
                    let why = Reason::new(ErrorKind::LinkDown, why);
                    self.lose(FunctionError::Gone { function: self.name.clone(), why });
                    return;
                }
                answers.push(answer);
                drop(answers);
                self.send_answers();
            }
        }
    }

    /// Sends the answers to the server's commands. If another thread is sending, it sends them
    /// next, and this one continues to read so that the server can take them. A sender checks once
    /// more after it has unlocked, so no answer is left behind.
    fn send_answers(&self) {
        while !lock(&self.answers).is_empty() {
            let guard = match self.sending.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(error)) => error.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            let all = std::mem::take(&mut *lock(&self.answers));
            for (header, payload) in all {
                if let Err(error) = send(&self.stream, &header, &payload, &[]) {
                    self.lose(self.gone(error));
                    return;
                }
            }
            drop(guard);
        }
    }
}

/// Connects a socket. A refusal counts once it lasts: `bind` makes a server's socket, and `listen`
/// comes a moment later.
fn connect_to(
    socket: &OwnedFd,
    address: &SocketAddrUnix,
    deadline: Duration,
) -> rustix::io::Result<()> {
    let until = Instant::now() + deadline.min(LISTENS_WITHIN);
    loop {
        match connect(socket, address) {
            Err(Errno::CONNREFUSED) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

impl Client {
    /// Connects and agrees on a version. Every request, including this one, may take up to
    /// `deadline`.
    ///
    /// # Errors
    /// No listener at `path`, or one with another protocol or version.
    pub fn connect(path: &Path, deadline: Duration) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |what: &str, errno: Errno, remedy: &str| {
            FunctionError::system(&name, what, errno, remedy)
        };
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None);
        let socket = socket.doing("making a socket", &name)?;
        // This also limits `connect`.
        set_socket_timeout(&socket, Timeout::Send, Some(deadline))
            .doing("making a socket", &name)?;
        let bytes = path.as_os_str().len();
        let too_long = format!("the path is {bytes} bytes long, at most 107 are possible");
        let address = SocketAddrUnix::new(path)
            .map_err(|errno| failed("naming the socket", errno, &too_long))?;
        connect_to(&socket, &address, deadline).map_err(|errno| {
            let remedy = match errno {
                Errno::NOENT | Errno::CONNREFUSED => {
                    "Is its server running? crosslane lab serve LAB --device NAME --socket PATH"
                }
                Errno::AGAIN => "Has it another client?",
                _ => "",
            };
            failed("connecting to the server", errno, remedy)
        })?;
        let lost_event = reactor::event().doing("making an eventfd", &name)?;
        let shared = Arc::new(Shared {
            name: name.clone(),
            stream: UnixStream::from(socket),
            sending: Mutex::default(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            answers: Mutex::default(),
            reachable: Reachable::default(),
            lost_event,
        });
        let reader = thread::Builder::new().name("crosslane-user".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.read()
        });
        let reader = reader.map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
            failed("starting a thread", errno, "")
        })?;
        let server = Capabilities::UNSAID;
        let mut client = Self { shared, server, deadline, reader: Some(reader) };
        let ours = Version { major: MAJOR, minor: MINOR, capabilities: Capabilities::OURS };
        let what = "which version of vfio-user it has";
        let reply = client.request(Command::Version, &ours.encode(), &[], what);
        let reply = reply.map_err(|error| match error {
            FunctionError::Refused { errno, .. } if errno == Errno::BUSY.raw_os_error() => {
                let remedy = "Another client has the device, and does not give way";
                failed("opening the device", Errno::BUSY, remedy)
            }
            error => error,
        })?;
        let theirs = Version::decode(&reply.payload);
        let theirs = theirs.map_err(|error| client.malformed(what, error.to_string()))?;
        if theirs.major != MAJOR || theirs.minor > MINOR {
            let why =
                format!("{MAJOR}.{MINOR} was offered, it has {}.{}", theirs.major, theirs.minor);
            return Err(client.malformed(what, why));
        }
        client.server = theirs.capabilities;
        Ok(client)
    }

    /// The socket's path.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Memory that the server may reach by messages.
    pub fn reachable(&self) -> &Reachable {
        &self.shared.reachable
    }

    /// The error of an answer that makes no sense.
    pub fn malformed(&self, what: &str, why: String) -> FunctionError {
        FunctionError::malformed(self.name(), what, why)
    }

    /// The error that ended the connection, if it is lost.
    pub fn lost(&self) -> Option<FunctionError> {
        lock(&self.shared.waiting).lost.clone()
    }

    /// A descriptor that becomes readable once the connection is lost.
    pub fn lost_event(&self) -> BorrowedFd<'_> {
        self.shared.lost_event.as_fd()
    }

    /// Sends a command and waits for its reply; `what` describes the request in errors.
    ///
    /// # Errors
    /// A lost connection, a passed deadline, or a refusal.
    pub fn request(
        &self,
        command: Command,
        payload: &[u8],
        descriptors: &[BorrowedFd<'_>],
        what: &str,
    ) -> Result<Message> {
        let until = Instant::now() + self.deadline;
        let id = self.post(command, payload, descriptors)?;
        self.shared.send_answers();
        let mut waiting = lock(&self.shared.waiting);
        let reply = loop {
            if let Some(reply) = waiting.open.get_mut(&id).and_then(Option::take) {
                waiting.open.remove(&id);
                break reply;
            }
            let left = until.saturating_duration_since(Instant::now());
            if let Some(lost) = waiting.lost.clone() {
                waiting.open.remove(&id);
                return Err(lost);
            }
            if left.is_zero() {
                waiting.open.remove(&id);
                let (function, what) = (self.name().to_owned(), what.to_owned());
                return Err(FunctionError::Deadline { function, what, waited: self.deadline });
            }
            let woken = self.shared.changed.wait_timeout(waiting, left);
            (waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
        };
        drop(waiting);
        if reply.header.command != command as u16 {
            let why = format!("the reply is one to command {}", reply.header.command);
            return Err(self.malformed(what, why));
        }
        if reply.lacks_descriptors {
            let remedy = "Raise the limit of open files (ulimit -n)";
            return Err(FunctionError::system(self.name(), what, Errno::MFILE, remedy));
        }
        if reply.header.is_refusal() {
            let (function, what) = (self.name().to_owned(), what.to_owned());
            // A refusal need not give a reason.
            let errno = match i32::try_from(reply.header.errno) {
                Ok(0) | Err(_) => Errno::IO.raw_os_error(),
                Ok(errno) => errno,
            };
            return Err(FunctionError::Refused { function, what, errno });
        }
        Ok(reply)
    }

    /// Sends a command, and returns the number that its reply will have.
    fn post(
        &self,
        command: Command,
        payload: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<u16> {
        let mut last = lock(&self.shared.sending);
        let mut waiting = lock(&self.shared.waiting);
        if let Some(lost) = &waiting.lost {
            return Err(lost.clone());
        }
        // Always finds one: far fewer commands are open than numbers exist.
        let id = (1..=u16::MAX)
            .map(|next| last.wrapping_add(next))
            .find(|id| !waiting.open.contains_key(id))
            .unwrap_or(*last);
        *last = id;
        waiting.open.insert(id, None);
        drop(waiting);
        let header = Header::command(id, command, payload.len());
        send(&self.shared.stream, &header, payload, descriptors).map_err(|error| {
            lock(&self.shared.waiting).open.remove(&id);
            self.shared.lose(self.shared.gone(error))
        })?;
        Ok(id)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.shared.stream.shutdown(std::net::Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
