// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The channel to a client, for answers to it and requests to it. Memory mapped without a file is
//! accessed only by a request to the client from the lab's thread, which waits for the answer.
//!
//! The thread of the connection reads, answers, and reads on. While it waits for the lab it reads
//! nothing, so the first request to the client starts a second thread, which then reads and hands
//! commands to the first. Clients that never get a request do not pay for that.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crosslane_host::lock;
use crosslane_vfio::user::protocol::{Capabilities, Command, DmaAccess, Header};
use crosslane_vfio::user::socket::{Message, SocketError, receive_within, send};
use rustix::io::Errno;

use crate::error::ServeEvent;

/// Receiver of events.
pub(crate) type Tell = Arc<dyn Fn(&ServeEvent) + Send + Sync>;

/// Commands read by the second thread: see [`Caller::next`].
pub(crate) type Commands = Receiver<Result<Message, String>>;

/// Most commands of a client that wait behind the current one. Beyond it no reply is read.
const MOST_WAITING: usize = 64;
/// Most bytes and most descriptors of these commands.
const MOST_WAITING_BYTES: usize = 16 << 20;
const MOST_WAITING_DESCRIPTORS: usize = 32;
/// Time for a client to answer; the lab stands still meanwhile.
const ANSWER: Duration = Duration::from_secs(5);
/// Time for a client to accept a message.
const SENDING: Duration = Duration::from_secs(10);
/// Longest time between two looks at the time that a client takes for a message.
const LOOK: Duration = Duration::from_secs(1);

/// A client, as long as it is connected.
pub(crate) struct Caller {
    device: String,
    stream: UnixStream,
    /// Held while a message is sent.
    sending: Mutex<()>,
    /// Held while a message is awaited.
    receiving: Mutex<()>,
    /// Commands read by the second thread, or the reason why it has ended.
    queue: SyncSender<Result<Message, String>>,
    /// Bytes and descriptors of the commands in the queue.
    queued_bytes: AtomicUsize,
    queued_descriptors: AtomicUsize,
    /// Most bytes that the client reads or writes at once.
    most_bytes: AtomicUsize,
    /// Whether it has set up anything: memory, an interrupt, a register.
    has_used: AtomicBool,
    /// Time for a message of the client's, from its first byte.
    message: Duration,
    deadline: Duration,
    state: Mutex<State>,
    /// Signals a change of `state`.
    changed: Condvar,
    tell: Tell,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({})", self.device)
    }
}

#[derive(Default)]
struct State {
    /// Time at which it was last heard or answered; `None` while a command is carried out.
    quiet_since: Option<Instant>,
    /// The reason for which the server ends the connection.
    end: Option<String>,
    /// The second thread, once it has started.
    reader: Option<JoinHandle<()>>,
    /// Number of the last command to the client; 0 before the first.
    last_asked: u16,
    /// The command waiting for its reply.
    open: Option<u16>,
    reply: Option<Message>,
    is_closed: bool,
    /// Whether it has missed a deadline and not replied since; it gets no requests then.
    is_silent: bool,
    /// Whether its last answer was missing or invalid, and that was reported.
    is_told: bool,
}

/// The reason why there is no valid answer.
enum Failure {
    /// The client refuses or is gone; the device in the lab sees an error.
    Refused,
    /// The client breaks the protocol.
    Wrong(String),
}

impl Caller {
    /// Makes the client at the other end of a connection, and the queue of its commands. Each of
    /// its messages may take as long as `message`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(
        stream: UnixStream,
        device: &str,
        tell: Tell,
        message: Duration,
    ) -> std::io::Result<(Arc<Self>, Commands)> {
        Self::with_deadline(stream, device, tell, message, ANSWER)
    }

    fn with_deadline(
        stream: UnixStream,
        device: &str,
        tell: Tell,
        message: Duration,
        deadline: Duration,
    ) -> std::io::Result<(Arc<Self>, Commands)> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(SENDING))?;
        stream.set_read_timeout(Some(message.min(LOOK)))?;
        let (queue, commands) = sync_channel(MOST_WAITING);
        let state = State { quiet_since: Some(Instant::now()), ..State::default() };
        let caller = Self {
            device: device.to_owned(),
            stream,
            sending: Mutex::default(),
            receiving: Mutex::default(),
            queue,
            queued_bytes: AtomicUsize::default(),
            queued_descriptors: AtomicUsize::default(),
            most_bytes: AtomicUsize::new(Capabilities::UNSAID.max_data_bytes as usize),
            has_used: AtomicBool::new(false),
            message,
            deadline,
            state: Mutex::new(state),
            changed: Condvar::new(),
            tell,
        };
        Ok((Arc::new(caller), commands))
    }

    /// Notes that it sets up something: the device must be reset behind it.
    pub fn note_use(&self) {
        self.has_used.store(true, Ordering::Release);
    }

    /// Whether it has set up something.
    pub fn has_used(&self) -> bool {
        self.has_used.load(Ordering::Acquire)
    }

    /// Notes that a command has its answer.
    pub fn note_answer(&self) {
        lock(&self.state).quiet_since = Some(Instant::now());
    }

    /// Returns the time since it was last heard, zero while it waits for an answer.
    pub fn silent_for(&self) -> Duration {
        lock(&self.state).quiet_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Ends the connection for a reason of the server's.
    pub fn end(&self, why: String) {
        lock(&self.state).end.get_or_insert(why);
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Notes the client's capabilities.
    pub fn can(&self, client: Capabilities) {
        let most = client.max_data_bytes.min(Capabilities::OURS.max_data_bytes);
        self.most_bytes.store(most as usize, Ordering::Relaxed);
    }

    /// Sends a message, whole.
    ///
    /// # Errors
    /// Any error makes the connection unusable.
    pub fn send(
        &self,
        header: &Header,
        payload: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<(), SocketError> {
        let _guard = lock(&self.sending);
        send(&self.stream, header, payload, files)
    }

    /// Waits for the next command, and hands replies to their waiting thread.
    ///
    /// # Errors
    /// The reason why no more commands can come.
    pub fn next(&self, commands: &Commands) -> Result<Message, String> {
        let next = self.next_of(commands);
        let mut state = lock(&self.state);
        state.quiet_since = None;
        next.map_err(|why| state.end.take().unwrap_or(why))
    }

    fn next_of(&self, commands: &Commands) -> Result<Message, String> {
        while lock(&self.state).reader.is_none() {
            let _guard = lock(&self.receiving);
            // Another thread may have begun to read while this one waited for the lock.
            if lock(&self.state).reader.is_none()
                && let Some(command) = self.read_one()?
            {
                return Ok(command);
            }
        }
        let next = commands.recv().unwrap_or_else(|_| Err("its thread has failed".to_owned()));
        if let Ok(message) = &next {
            self.queued_bytes.fetch_sub(message.payload.len(), Ordering::Relaxed);
            self.queued_descriptors.fetch_sub(message.descriptors.len(), Ordering::Relaxed);
        }
        next
    }

    /// Counts a command for the queue.
    fn count(&self, message: &mut Message) -> Result<(), String> {
        let bytes = self.queued_bytes.fetch_add(message.payload.len(), Ordering::Relaxed);
        if bytes + message.payload.len() > MOST_WAITING_BYTES {
            return Err(format!("it has {bytes} B of commands without their answers"));
        }
        let come = message.descriptors.len();
        if self.queued_descriptors.load(Ordering::Relaxed) + come > MOST_WAITING_DESCRIPTORS {
            message.descriptors.clear();
            message.lacks_descriptors = true;
        }
        self.queued_descriptors.fetch_add(message.descriptors.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Reads a message; `None` for a reply, which is handed over.
    fn read_one(&self) -> Result<Option<Message>, String> {
        let error = match receive_within(&self.stream, Some(self.message)) {
            Ok(message) if message.header.is_reply() => {
                // A late answer is one too many; an answer before any question is a mistake.
                if lock(&self.state).last_asked == 0 {
                    self.refuse(&message.header);
                } else {
                    self.take(message);
                }
                return Ok(None);
            }
            Ok(message) => return Ok(Some(message)),
            Err(SocketError::Closed) => "it closed the connection".to_owned(),
            Err(SocketError::Protocol { error, header }) => {
                self.refuse(&header);
                error.to_string()
            }
            Err(error) => error.to_string(),
        };
        self.close();
        Err(error)
    }

    /// Refuses a message that is not a command.
    fn refuse(&self, header: &Header) {
        // A connection that is lost is noticed by the next read.
        let _ = self.send(&header.refusal(Errno::INVAL.raw_os_error()), &[], &[]);
    }

    /// Starts the second thread, which reads from now on.
    fn read_along(self: &Arc<Self>, state: &mut State) -> std::io::Result<()> {
        let caller = Arc::clone(self);
        let read = move || {
            let _guard = lock(&caller.receiving);
            loop {
                let read = caller.read_one().and_then(|mut read| {
                    read.as_mut().map_or(Ok(()), |message| caller.count(message))?;
                    Ok(read)
                });
                let is_end = read.is_err();
                let is_taken = match read.transpose() {
                    Some(command) => caller.queue.send(command).is_ok(),
                    None => true,
                };
                if is_end || !is_taken {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(format!("{} reads", self.device));
        state.reader = Some(thread.spawn(read)?);
        Ok(())
    }

    /// Ends the connection and the second thread.
    pub fn end_with(&self, commands: Commands) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        self.close();
        drop(commands);
        let reader = lock(&self.state).reader.take();
        if let Some(reader) = reader {
            // The panic was reported when it happened.
            let _ = reader.join();
        }
    }

    fn take(&self, reply: Message) {
        let mut state = lock(&self.state);
        state.is_silent = false;
        state.quiet_since = state.quiet_since.map(|_| Instant::now());
        if state.open == Some(reply.header.id) {
            (state.open, state.reply) = (None, Some(reply));
            self.changed.notify_all();
        }
    }

    /// Notes that no reply can come any more.
    fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }

    /// Whether the client can be expected to answer.
    pub fn answers(&self) -> bool {
        let state = lock(&self.state);
        !state.is_closed && !state.is_silent
    }

    fn ask(self: &Arc<Self>, command: Command, payload: &[u8]) -> Result<Message, Failure> {
        let mut state = lock(&self.state);
        if state.is_closed || state.is_silent {
            return Err(Failure::Refused);
        }
        if state.reader.is_none()
            && let Err(error) = self.read_along(&mut state)
        {
            return Err(Failure::Wrong(format!("cannot start a thread for that: {error}")));
        }
        let id = state.last_asked.wrapping_add(1).max(1);
        (state.last_asked, state.open, state.reply) = (id, Some(id), None);
        drop(state);
        let header = Header::command(id, command, payload.len());
        if self.send(&header, payload, &[]).is_err() {
            // The connection's thread notices too, and reports it.
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
            return Err(Failure::Refused);
        }
        let until = Instant::now() + self.deadline;
        let mut state = lock(&self.state);
        loop {
            if let Some(reply) = state.reply.take() {
                return match reply.header.is_refusal() {
                    true => Err(Failure::Refused),
                    false if reply.header.command == command as u16 => Ok(reply),
                    false => Err(Failure::Wrong("it answered something else".to_owned())),
                };
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.is_closed {
                return Err(Failure::Refused);
            }
            if left.is_zero() {
                (state.open, state.is_silent) = (None, true);
                let ms = self.deadline.as_millis();
                return Err(Failure::Wrong(format!("it did not answer within {ms} ms")));
            }
            let woken = self.changed.wait_timeout(state, left);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes how an access has ended, and reports the first of several failures.
    fn note_end(&self, address: u64, bytes: usize, ended: Result<(), Failure>) -> bool {
        let (is_done, why) = match ended {
            Ok(()) => (true, None),
            Err(Failure::Refused) => (false, None),
            Err(Failure::Wrong(why)) => (false, Some(why)),
        };
        let was_told = std::mem::replace(&mut lock(&self.state).is_told, why.is_some());
        if let Some(why) = why.filter(|_| !was_told) {
            let device = self.device.clone();
            (self.tell)(&ServeEvent::NoAnswer { device, address, bytes, why });
        }
        is_done
    }

    fn most_bytes(&self) -> usize {
        self.most_bytes.load(Ordering::Relaxed).max(1)
    }

    /// Reads memory of the client; false if that fails.
    pub fn read(self: &Arc<Self>, address: u64, into: &mut [u8]) -> bool {
        let mut at = address;
        into.chunks_mut(self.most_bytes()).all(|piece| {
            let access = DmaAccess { address: at, bytes: piece.len() as u64 };
            let asked = self.ask(Command::DmaRead, &access.encode(&[]));
            let read = asked.and_then(|reply| match DmaAccess::decode_with_data(&reply.payload) {
                Ok((answered, data)) if answered == access => {
                    piece.copy_from_slice(data);
                    Ok(())
                }
                Ok(_) => Err(Failure::Wrong("it answered for another address".to_owned())),
                Err(error) => Err(Failure::Wrong(error.to_string())),
            });
            at += piece.len() as u64;
            self.note_end(access.address, piece.len(), read)
        })
    }

    /// Writes memory of the client; false if that fails.
    pub fn write(self: &Arc<Self>, address: u64, from: &[u8]) -> bool {
        let mut at = address;
        from.chunks(self.most_bytes()).all(|piece| {
            let access = DmaAccess { address: at, bytes: piece.len() as u64 };
            let asked = self.ask(Command::DmaWrite, &access.encode(piece));
            let written = asked.and_then(|reply| match DmaAccess::decode_written(&reply.payload) {
                Ok(answered) if answered == access => Ok(()),
                Ok(_) => Err(Failure::Wrong("it wrote something else".to_owned())),
                Err(error) => Err(Failure::Wrong(error.to_string())),
            });
            at += piece.len() as u64;
            self.note_end(access.address, piece.len(), written)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's reaction to a command.
    type Play = fn(&UnixStream, &Message);

    fn reply(stream: &UnixStream, message: &Message, payload: &[u8]) {
        let _ = send(stream, &message.header.reply(payload.len()), payload, &[]);
    }

    /// Plays memory in which each byte holds its address; writes are compared with that.
    fn in_order(stream: &UnixStream, message: &Message) {
        let (access, data) = DmaAccess::decode(&message.payload).unwrap();
        assert!(access.bytes <= 100, "{access:?}");
        let there: Vec<u8> = (0..access.bytes).map(|at| (access.address + at) as u8).collect();
        match Command::from_repr(message.header.command).unwrap() {
            Command::DmaRead => reply(stream, message, &access.encode(&there)),
            _ => {
                assert_eq!(data, there);
                reply(stream, message, &access.encode(&[])[..12]);
            }
        }
    }

    /// Reads and writes memory of a client that plays so; returns the results and the reports.
    fn played(play: Play) -> (Vec<(bool, bool)>, Vec<String>, bool) {
        let (near, far) = UnixStream::pair().unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell: Tell = Arc::new({
            let told = Arc::clone(&told);
            move |event| told.lock().unwrap().push(event.to_string())
        });
        let deadline = Duration::from_millis(50);
        let (copy, long) = (near.try_clone().unwrap(), Duration::from_secs(10));
        let (caller, commands) = Caller::with_deadline(copy, "card", tell, long, deadline).unwrap();
        caller.can(Capabilities { max_data_bytes: 100, ..Capabilities::OURS });
        let results = thread::scope(|scope| {
            scope.spawn(|| {
                while let Ok(message) = receive_within(&far, None) {
                    play(&far, &message);
                }
            });
            // The thread of the connection, which has nothing to answer.
            let own = Arc::clone(&caller);
            let ended = scope.spawn(move || {
                let ended = own.next(&commands).unwrap_err();
                own.end_with(commands);
                ended
            });
            let there: Vec<u8> = (7_u8..=255).chain(0..=255).collect();
            let results = (0..3).map(|_| {
                let mut data = vec![0; there.len()];
                let is_read = caller.read(7, &mut data);
                assert!(!is_read || data == there);
                (is_read, caller.write(7, &there))
            });
            let results = results.collect();
            let _ = near.shutdown(std::net::Shutdown::Both);
            assert_eq!(ended.join().unwrap(), "it closed the connection");
            results
        });
        let told = told.lock().unwrap().clone();
        (results, told, caller.answers())
    }

    #[test]
    fn a_client_in_order_is_asked_for_no_more_than_it_takes_at_once() {
        let (results, told, answers) = played(in_order);
        assert_eq!((results, told), (vec![(true, true); 3], vec![]));
        assert!(!answers, "it has gone");
    }

    #[test]
    fn refusals_and_answers_of_no_use_end_the_access_and_nothing_else() {
        let no = vec![(false, false); 3];
        let (results, told, _) = played(|stream, message| {
            let _ = send(stream, &message.header.refusal(14), &[], &[]);
        });
        assert_eq!((results, told), (no.clone(), vec![]));
        let wrong: [(Play, &str); 4] = [
            (|stream, message| reply(stream, message, &[0; 11]), "needs"),
            (|stream, message| reply(stream, message, &[0; 300]), "another address"),
            (
                |stream, message| {
                    let (access, _) = DmaAccess::decode(&message.payload).unwrap();
                    reply(stream, message, &DmaAccess { bytes: 1 << 40, ..access }.encode(&[]));
                },
                "the limit is",
            ),
            (
                |stream, message| {
                    let mut other = message.header;
                    other.command = Command::Reset as u16;
                    let _ = send(stream, &other.reply(0), &[], &[]);
                },
                "something else",
            ),
        ];
        for (play, why) in wrong {
            let (results, told, _) = played(play);
            assert_eq!(results, no, "{why}");
            // Reported once, not each time.
            assert!(told.len() == 1 && told[0].contains(why), "{why}: {told:?}");
        }
    }

    #[test]
    fn a_client_that_does_not_answer_is_asked_once_and_again_when_it_has_said_something() {
        let begun = Instant::now();
        let (results, told, _) = played(|_, _| {});
        assert_eq!(results, vec![(false, false); 3]);
        assert!(told.len() == 1 && told[0].contains("did not answer within 50 ms"), "{told:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        // Replies to another command: the client is alive, and is asked each time.
        let (results, told, _) = played(|stream, message| {
            let mut stray = message.header;
            stray.id = stray.id.wrapping_add(1);
            let _ = send(stream, &stray.reply(0), &[], &[]);
        });
        assert_eq!((results, told.len()), (vec![(false, false); 3], 1));
    }

    #[test]
    fn a_client_that_goes_ends_the_wait() {
        let begun = Instant::now();
        let (results, told, answers) = played(|stream, _| {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        });
        assert_eq!((results, told), (vec![(false, false); 3], vec![]));
        assert!(!answers && begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
