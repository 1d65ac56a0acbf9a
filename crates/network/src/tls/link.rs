// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection: what its program and its threads share.
//!
//! Each of its streams has a thread that sends what is queued and one that receives. Messages, and
//! answers without data, go before data; messages take the first stream, reads and writes take
//! turns.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Instant;

use crosslane_host::{RdmaError, RdmaResult, Reason, lock};
use futures_channel::oneshot;
use rustix::event::{EventfdFlags, eventfd};

use super::frame::{Header, Kind, MAX_DATA_BYTES, Status};
use super::receiver::Receiver;
use super::region::{Regions, Registered};
use super::socket::{LINGER, Place};
use super::wire::{Body, Incoming, Scratch, Wire};
use crate::inbox::{Inbox, WINDOW};

/// Most reads and writes in flight; more wait for their turn at the end that begins them.
const MOST_OPERATIONS: usize = 4096;
/// Most reads of the other end that are not answered yet.
const MOST_ANSWERS: usize = MOST_OPERATIONS;
/// Most bytes of frames without data that wait to be sent, twice what an end may cause that keeps
/// the rules: one that takes none is given up.
const MOST_QUEUED_BYTES: usize = 1 << 20;
/// Bytes of frames without data that are sent at once.
const GATHERED_BYTES: usize = 16 << 10;

/// Why a connection is lost whose other end says that it goes, or goes without a word.
const CLOSED: &str = "the other end has closed it";

/// The program's end of an operation.
pub type Reply = oneshot::Sender<RdmaResult<()>>;

/// A read of the other node that is to be answered.
pub struct Answer {
    pub id: u64,
    pub region: Arc<Registered>,
    pub address: u64,
    pub bytes: u32,
}

/// A read or write that this end has begun.
pub struct Operation {
    pub is_read: bool,
    pub region: Arc<Registered>,
    pub near_offset: u64,
    pub key: u64,
    pub address: u64,
    pub bytes: u32,
    pub reply: Reply,
}

/// Data that are to be sent.
struct Outgoing {
    id: u64,
    region: Arc<Registered>,
    /// Of an answer the memory is lent, and `key` is none.
    key: Option<u64>,
    /// Places of the bytes: in the region, and at the other end.
    from: u64,
    to: u64,
    bytes: u32,
    sent: u32,
    status: Status,
}

/// Frames and data that a stream has to send.
#[derive(Default)]
struct Queue {
    frames: VecDeque<u8>,
    data: VecDeque<Outgoing>,
    /// The session of the stream has something to say.
    is_due: bool,
    has_ended: bool,
}

struct Stream {
    wire: Wire,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    last_id: u64,
    /// Operations that are on their way, and how much of each read has come.
    under_way: HashMap<u64, (Operation, u32)>,
    waiting: VecDeque<Operation>,
    /// Messages sent that the other program has not taken, and those that wait for that.
    untaken: u32,
    other_taken: u32,
    messages: VecDeque<(Vec<u8>, Reply)>,
    /// Answers that are due.
    answers: usize,
    has_ended: bool,
    threads: usize,
    closing: Vec<Waker>,
}

/// A connection.
pub struct Link {
    peer: String,
    /// Names that its certificate has.
    names: Vec<String>,
    regions: Arc<Regions>,
    inbox: Inbox,
    streams: Vec<Stream>,
    state: Mutex<State>,
    /// Wakes the threads when the connection ends gently.
    alarm: Arc<OwnedFd>,
}

impl Link {
    /// Begins the threads of a connection whose streams have been joined.
    ///
    /// # Errors
    /// The system starts no more threads, and streams of different nodes.
    pub fn start(
        peer: String,
        regions: Arc<Regions>,
        wires: Vec<(Wire, Incoming)>,
    ) -> std::io::Result<Arc<Self>> {
        let alarm = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let names = wires.first().map(|(wire, _)| wire.names()).unwrap_or_default();
        if wires.iter().any(|(wire, _)| wire.names() != names) {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let (mut streams, mut incoming) = (Vec::new(), Vec::new());
        for (wire, came) in wires {
            wire.socket().wait_for(alarm.clone());
            streams.push(Stream { wire, queue: Mutex::default(), changed: Condvar::new() });
            incoming.push(came);
        }
        let (inbox, state) = (Inbox::default(), Mutex::default());
        let link = Arc::new(Self { peer, names, regions, inbox, streams, state, alarm });
        for (number, incoming) in incoming.into_iter().enumerate() {
            let started =
                link.begin("crosslane-send", move |link| link.send_all(number)).and_then(|()| {
                    link.begin("crosslane-recv", move |link| link.receive_all(number, incoming))
                });
            if let Err(error) = started {
                link.end("no thread can be started");
                return Err(error);
            }
        }
        Ok(link)
    }

    fn begin(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> std::io::Result<()> {
        let link = self.clone();
        lock(&self.state).threads += 1;
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            work(&link);
            link.thread_ended();
        });
        if thread.is_err() {
            self.thread_ended();
        }
        thread.map(drop)
    }

    fn thread_ended(&self) {
        let mut state = lock(&self.state);
        state.threads -= 1;
        if state.threads > 0 {
            return;
        }
        let closing = std::mem::take(&mut state.closing);
        // From here on nobody uses the memory of these.
        let under_way = std::mem::take(&mut state.under_way);
        let waiting = std::mem::take(&mut state.waiting);
        let messages = std::mem::take(&mut state.messages);
        drop(state);
        let operations = under_way.into_values().map(|(operation, _)| operation);
        let replies = operations.chain(waiting).map(|operation| operation.reply);
        for reply in replies.chain(messages.into_iter().map(|(_, reply)| reply)) {
            let _ = reply.send(Err(self.lost()));
        }
        closing.into_iter().for_each(Waker::wake);
    }

    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Names that the other end's certificate has.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub const fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Why nothing goes any more, if that is so.
    pub fn lost(&self) -> RdmaError {
        self.inbox.lost().unwrap_or_else(|| RdmaError::Lost {
            peer: self.peer.clone(),
            why: "it has ended".into(),
        })
    }

    /// Ends the connection at once; the first reason counts.
    pub fn end(&self, why: &str) {
        if self.begin_end(why) {
            self.streams.iter().for_each(|stream| stream.wire.socket().shut());
        }
    }

    /// Ends the connection when the frames that are queued have gone, for which there is little
    /// time.
    pub fn close(&self) {
        if self.begin_end("it was closed at this end") {
            self.hurry();
        }
    }

    /// Gives all threads little time to end.
    fn hurry(&self) {
        let deadline = Instant::now() + LINGER;
        self.streams.iter().for_each(|stream| stream.wire.socket().set_deadline(deadline));
        // A sum of few numbers fits, and nobody takes it away.
        let _ = rustix::io::write(&self.alarm, &1_u64.to_ne_bytes());
    }

    /// Lets nothing more begin. False if the connection has ended before.
    fn begin_end(&self, why: &str) -> bool {
        if std::mem::replace(&mut lock(&self.state).has_ended, true) {
            return false;
        }
        self.inbox.lose(RdmaError::Lost { peer: self.peer.clone(), why: why.into() });
        for stream in &self.streams {
            lock(&stream.queue).has_ended = true;
            stream.changed.notify_all();
        }
        true
    }

    /// Waits until nothing of the connection reads or writes any more.
    pub async fn ended(&self) {
        poll_fn(|context| {
            let mut state = lock(&self.state);
            if state.threads == 0 {
                return Poll::Ready(());
            }
            state.closing.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    // --- Of the program --------------------------------------------------------------------------

    /// Sends a message when the other program has room for it.
    pub fn send(&self, message: Vec<u8>, reply: Reply) {
        let mut state = lock(&self.state);
        if state.has_ended {
            drop(state);
            let _ = reply.send(Err(self.lost()));
            return;
        }
        state.messages.push_back((message, reply));
        self.send_messages(state);
    }

    fn send_messages(&self, mut state: MutexGuard<'_, State>) {
        let mut sent = Vec::new();
        while state.untaken < WINDOW
            && let Some((message, reply)) = state.messages.pop_front()
        {
            state.untaken += 1;
            let header = Header { bytes: message.len() as u32, ..Header::new(Kind::Message) };
            self.queue_frame(0, &header, &message);
            sent.push(reply);
        }
        drop(state);
        for reply in sent {
            let _ = reply.send(Ok(()));
        }
    }

    /// Tells the other program how many messages this one has taken.
    pub fn tell_taken(&self) {
        let header = Header { id: self.inbox.tell_taken().into(), ..Header::new(Kind::Taken) };
        self.queue_frame(0, &header, &[]);
    }

    /// Begins a read or write, when not too many are under way.
    pub fn transfer(&self, operation: Operation) {
        let mut state = lock(&self.state);
        if state.has_ended {
            drop(state);
            let _ = operation.reply.send(Err(self.lost()));
            return;
        }
        if state.under_way.len() < MOST_OPERATIONS {
            self.begin_operation(&mut state, operation);
        } else {
            state.waiting.push_back(operation);
        }
    }

    fn begin_operation(&self, state: &mut State, operation: Operation) {
        state.last_id += 1;
        let id = state.last_id;
        let stream = (id % self.streams.len() as u64) as usize;
        let Operation { key, address, bytes, .. } = operation;
        if operation.is_read {
            let header = Header { id, key, address, bytes, ..Header::new(Kind::Read) };
            self.queue_frame(stream, &header, &[]);
        } else {
            let outgoing = Outgoing {
                id,
                region: operation.region.clone(),
                key: Some(key),
                from: operation.near_offset,
                to: address,
                bytes,
                sent: 0,
                status: Status::Moved,
            };
            self.queue(stream, |queue| queue.data.push_back(outgoing));
        }
        state.under_way.insert(id, (operation, 0));
    }

    // --- Of the threads that receive -------------------------------------------------------------

    /// Takes a message.
    ///
    /// # Errors
    /// More than there may be.
    pub fn message(&self, message: Vec<u8>) -> Result<(), String> {
        if self.inbox.is_full() {
            return Err("more messages than there is room for".into());
        }
        self.inbox.push(message);
        Ok(())
    }

    /// Learns how many messages the other program has taken.
    pub fn taken(&self, count: u32) {
        let mut state = lock(&self.state);
        let more = count.wrapping_sub(state.other_taken);
        // A false count opens no more than the window.
        state.untaken = state.untaken.saturating_sub(more);
        state.other_taken = count;
        self.send_messages(state);
    }

    /// Returns where the next bytes of a read go.
    ///
    /// # Errors
    /// Data that nobody has asked for.
    pub fn place_of(
        &self,
        id: u64,
        offset: u64,
        bytes: u32,
    ) -> Result<(Arc<Registered>, u64), String> {
        let mut state = lock(&self.state);
        let (operation, came) = match state.under_way.get_mut(&id) {
            Some((operation, came)) if operation.is_read => (operation, came),
            _ => return Err(format!("data of a read {id} that is not under way")),
        };
        if u64::from(*came) != offset || operation.bytes - *came < bytes {
            let of = operation.bytes;
            return Err(format!("{bytes} B at {offset} of a read of {of} B, of which {came} came"));
        }
        *came += bytes;
        Ok((operation.region.clone(), operation.near_offset + offset))
    }

    /// Ends a read or write of this node.
    ///
    /// # Errors
    /// An end of something that is not under way.
    pub fn done(&self, id: u64, status: Status) -> Result<(), String> {
        let mut state = lock(&self.state);
        let found = state.under_way.remove(&id);
        let (operation, came) = found.ok_or_else(|| format!("the end of {id}, not under way"))?;
        if operation.is_read && status == Status::Moved && came < operation.bytes {
            let of = operation.bytes;
            state.under_way.insert(id, (operation, came));
            return Err(format!("the end of a read of {of} B, of which {came} came"));
        }
        if let Some(next) = state.waiting.pop_front() {
            self.begin_operation(&mut state, next);
        }
        drop(state);
        let outcome = self.outcome(&operation, status);
        let _ = operation.reply.send(outcome);
        Ok(())
    }

    fn outcome(&self, operation: &Operation, status: Status) -> RdmaResult<()> {
        let Operation { is_read, key, address, bytes, .. } = *operation;
        let (name, kind) =
            (if is_read { "read" } else { "write" }, crosslane_host::ErrorKind::Denied);
        let why = match status {
            Status::Moved => return Ok(()),
            Status::NoSuchKey => format!("no memory there has the key {key:#x}"),
            Status::NotAllowed => format!("its memory is not registered for a remote {name}"),
            Status::Beyond => format!("{bytes} B at {address:#x} are not within its memory"),
        };
        let (peer, why) = (self.peer.clone(), Reason::new(kind, why));
        Err(RdmaError::Refused { peer, operation: name, why })
    }

    /// Has a read of the other node answered.
    ///
    /// # Errors
    /// More reads than there may be.
    pub fn answer(&self, stream: usize, answer: Answer) -> Result<(), String> {
        let mut state = lock(&self.state);
        state.answers += 1;
        if state.answers > MOST_ANSWERS {
            return Err("more reads at once than there may be".into());
        }
        drop(state);
        let Answer { id, region, address, bytes } = answer;
        let (key, sent, status) = (None, 0, Status::Moved);
        let outgoing = Outgoing { id, region, key, from: address, to: 0, bytes, sent, status };
        self.queue(stream, |queue| queue.data.push_back(outgoing));
        Ok(())
    }

    /// Tells the other node how its read or write has ended.
    ///
    /// # Errors
    /// More of them than there may be.
    pub fn tell_done(&self, stream: usize, id: u64, status: Status) -> Result<(), String> {
        self.queue_frame(stream, &Header::done(id, status), &[]);
        let queued = lock(&self.streams[stream].queue).frames.len();
        if queued > MOST_QUEUED_BYTES {
            return Err("it takes no answers".into());
        }
        Ok(())
    }

    /// Makes the thread that sends look for what its session has to say.
    pub fn wake_sender(&self, stream: usize) {
        self.queue(stream, |queue| queue.is_due = true);
    }

    fn receive_all(self: &Arc<Self>, stream: usize, mut incoming: Incoming) {
        let mut receiver = Receiver::new(self.clone(), stream);
        let wire = &self.streams[stream].wire;
        loop {
            match wire.receive(&mut incoming, &mut receiver) {
                Ok(true) => {}
                // The last messages come by the first stream.
                Ok(false) if stream > 0 => return self.hurry(),
                Ok(false) => return self.end(CLOSED),
                Err(error) if error.kind() == ErrorKind::TimedOut => return self.end(CLOSED),
                Err(error) => return self.end(&error.to_string()),
            }
        }
    }

    // --- Of the threads that send ----------------------------------------------------------------

    fn queue(&self, stream: usize, change: impl FnOnce(&mut Queue)) {
        let stream = &self.streams[stream];
        let mut queue = lock(&stream.queue);
        if !queue.has_ended {
            change(&mut queue);
        }
        drop(queue);
        stream.changed.notify_one();
    }

    fn queue_frame(&self, stream: usize, header: &Header, body: &[u8]) {
        self.queue(stream, |queue| {
            queue.frames.extend(header.encode());
            queue.frames.extend(body);
        });
    }

    fn send_all(&self, number: usize) {
        let stream = &self.streams[number];
        let mut scratch = Scratch::default();
        let mut frames = Vec::new();
        loop {
            let mut queue = lock(&stream.queue);
            while !queue.has_ended
                && !queue.is_due
                && queue.frames.is_empty()
                && queue.data.is_empty()
            {
                queue = stream.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.has_ended {
                let last = queue.frames.make_contiguous().to_vec();
                drop(queue);
                // Whether the other end hears it does not matter.
                if stream.wire.send(&last, None, &mut scratch).is_ok() {
                    stream.wire.socket().shut_write();
                }
                return;
            }
            let is_due = std::mem::take(&mut queue.is_due);
            frames.clear();
            let gathered = queue.frames.len().min(GATHERED_BYTES);
            frames.extend(queue.frames.drain(..gathered));
            // Data go when no frames are left: those of one write or answer are sent in turn.
            let data = if queue.frames.is_empty() { queue.data.pop_front() } else { None };
            drop(queue);
            match self.send_some(&stream.wire, is_due, &frames, data, &mut scratch) {
                Ok(Some(rest)) => self.queue(number, |queue| queue.data.push_front(rest)),
                Ok(None) => {}
                Err(error) => return self.end(&error.to_string()),
            }
        }
    }

    /// Sends frames, then some of the data; returns data that are left.
    fn send_some(
        &self,
        wire: &Wire,
        is_due: bool,
        frames: &[u8],
        data: Option<Outgoing>,
        scratch: &mut Scratch,
    ) -> std::io::Result<Option<Outgoing>> {
        if is_due {
            wire.send_due()?;
        }
        if !frames.is_empty() {
            wire.send(frames, None, scratch)?;
        }
        let Some(mut data) = data else { return Ok(None) };
        let bytes = MAX_DATA_BYTES.min(data.bytes - data.sent);
        let begin = data.sent;
        data.sent += bytes;
        let is_last = data.sent == data.bytes;
        let kind = if data.key.is_some() { Kind::Write } else { Kind::Data };
        let header = Header {
            kind,
            is_first: begin == 0,
            is_last,
            bytes,
            id: data.id,
            key: data.key.unwrap_or_default(),
            address: data.to + u64::from(begin),
        };
        let place = match data.key {
            Some(_) => Place::Own(&data.region.mapping),
            None => Place::Lent(&data.region),
        };
        let at = (data.from + u64::from(begin)) as usize;
        let body = Body { place, at, bytes: bytes as usize };
        if !wire.send(&header.encode(), Some(body), scratch)? {
            data.status = Status::NoSuchKey;
        }
        if !is_last {
            return Ok(Some(data));
        }
        if data.key.is_none() {
            wire.send(&Header::done(data.id, data.status).encode(), None, scratch)?;
            lock(&self.state).answers -= 1;
        }
        Ok(None)
    }
}
