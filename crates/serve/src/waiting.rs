// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clients of one socket: one is served, and others wait until it ends or gives way.
//!
//! A client counts once its first message has come, so one that says nothing keeps nobody waiting.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crosslane_vfio::user::protocol::{Capabilities, HEADER_BYTES};
use crosslane_vfio::user::socket::{receive_within, send};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::ask::{Asker, What};
use crate::caller::{Caller, Tell};
use crate::connection::{Connection, Description};
use crate::error::ServeEvent;
use crate::mappings::SharedMappings;
use crate::options::ServeOptions;

/// Most clients that wait; others stay in the kernel's queue of connections.
const MOST_WAITING: usize = 64;
/// Time that a client has for its first message, however many others come.
const GRACE: Duration = Duration::from_millis(250);
/// Most clients that are accepted before those that wait are looked at again.
const MOST_AT_ONCE: usize = 64;
/// Longest first message that is waited for; a longer one is refused without its end.
const MOST_GREETING_BYTES: usize = HEADER_BYTES + 4096;
/// Time between two looks at clients that wait.
const TICK: Duration = Duration::from_millis(20);
/// Time without new clients after one could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// A device for its clients.
pub(crate) struct Station {
    pub description: Description,
    pub asker: Asker,
    pub mappings: SharedMappings,
    pub tell: Tell,
    pub options: ServeOptions,
}

impl Station {
    fn refused(&self, why: impl Into<String>) {
        let (device, why) = (self.description.name.clone(), why.into());
        (self.tell)(&ServeEvent::Refused { device, why });
    }
}

/// Wakes the thread of a socket.
#[derive(Clone, Debug)]
pub(crate) struct Wake {
    event: Arc<OwnedFd>,
    is_closing: Arc<AtomicBool>,
}

impl Wake {
    pub fn new() -> Result<Self, Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event: Arc::new(event), is_closing: Arc::default() })
    }

    /// Makes the thread end, and its client with it.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // It fails only if it has been woken already.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }
}

/// A client that waits.
struct Waiting {
    stream: UnixStream,
    since: Instant,
    greeting: Greeting,
}

/// Part of a client's first message that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeting {
    Nothing,
    Part,
    /// All of it, or something that is none.
    Whole,
}

impl Waiting {
    /// Whether others may have its place.
    fn is_silent(&self) -> bool {
        self.greeting != Greeting::Whole && self.since.elapsed() > GRACE
    }

    /// Looks at what has come; false if the client has gone.
    fn look(&mut self) -> bool {
        let mut ready = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut ready, Some(&at_once)).is_err() {
            return false;
        }
        let (ends, has_gone) = (
            ready[0].revents().contains(PollFlags::RDHUP),
            ready[0].revents().intersects(PollFlags::HUP | PollFlags::ERR),
        );
        let mut bytes = [0; MOST_GREETING_BYTES];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let came = match recv(&self.stream, &mut bytes, flags) {
            Ok((come, _)) => come,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => return false,
        };
        // The length stands behind the number and the command of a message.
        let length = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        self.greeting = match came {
            0 => Greeting::Nothing,
            _ if came < HEADER_BYTES => Greeting::Part,
            _ if (HEADER_BYTES..=MOST_GREETING_BYTES).contains(&length) && came < length => {
                Greeting::Part
            }
            _ => Greeting::Whole,
        };
        !has_gone && (!ends || self.greeting == Greeting::Whole)
    }

    /// Refuses it: another one has the device.
    fn refuse_as_busy(&self) {
        let told = self.stream.set_read_timeout(Some(TICK)).is_ok()
            && self.stream.set_write_timeout(Some(TICK)).is_ok();
        if told && let Ok(message) = receive_within(&self.stream, Some(TICK)) {
            let refusal = message.header.refusal(Errno::BUSY.raw_os_error());
            // One that does not read it sees the end of the connection.
            let _ = send(&self.stream, &refusal, &[], &[]);
        }
    }
}

/// The client that is served, and its thread, which returns whether the device is reset.
struct Current {
    caller: Arc<Caller>,
    has_ended: Arc<AtomicBool>,
    thread: JoinHandle<bool>,
}

/// The thread of a socket.
pub(crate) struct Reception {
    listener: UnixListener,
    station: Arc<Station>,
    wake: Wake,
    waiting: VecDeque<Waiting>,
    current: Option<Current>,
    /// Time until which no client is accepted.
    paused: Option<Instant>,
}

impl Reception {
    /// # Errors
    /// The kernel's error.
    pub fn new(listener: UnixListener, station: Station, wake: Wake) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (station, waiting) = (Arc::new(station), VecDeque::new());
        Ok(Self { listener, station, wake, waiting, current: None, paused: None })
    }

    /// Serves one client after the other until the server ends.
    pub fn run(mut self) {
        loop {
            self.sleep();
            if self.wake.is_closing.load(Ordering::Acquire) {
                if let Some(current) = self.current {
                    current.caller.end("the server ends".to_owned());
                    let _ = current.thread.join();
                }
                return;
            }
            self.accept();
            self.look();
            if !self.note_end() {
                return;
            }
            self.serve_next();
            self.make_way();
        }
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < MOST_WAITING || self.waiting.iter().any(Waiting::is_silent)
    }

    /// Waits until something may have to be done.
    fn sleep(&mut self) {
        self.paused = self.paused.filter(|until| *until > Instant::now());
        let mut ready = vec![PollFd::new(&*self.wake.event, PollFlags::IN)];
        if self.paused.is_none() && self.has_room() {
            ready.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let silent = self.waiting.iter().filter(|waiting| waiting.greeting == Greeting::Nothing);
        ready.extend(silent.map(|waiting| PollFd::new(&waiting.stream, PollFlags::IN)));
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
        let needs_tick = self.paused.is_some() || !self.waiting.is_empty();
        // An error is a signal: the loop looks at everything anyway.
        let _ = poll(&mut ready, needs_tick.then_some(&tick));
        let _ = rustix::io::read(&*self.wake.event, &mut [0; 8]);
    }

    /// Takes new clients in.
    fn accept(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            if self.paused.is_some() || !self.has_room() {
                return;
            }
            let error = match self.listener.accept() {
                Ok((stream, _)) => {
                    let (since, greeting) = (Instant::now(), Greeting::Nothing);
                    let mut new = Waiting { stream, since, greeting };
                    if new.look() {
                        self.make_room();
                        self.waiting.push_back(new);
                    }
                    continue;
                }
                Err(error) => error,
            };
            match error.kind() {
                io::ErrorKind::WouldBlock => return,
                io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                _ => {
                    self.station.refused(format!("it cannot be accepted: {error}"));
                    self.paused = Some(Instant::now() + PAUSE);
                }
            }
        }
    }

    /// Ends the one that has said nothing for the longest time, if there is no room.
    fn make_room(&mut self) {
        let longest = self.waiting.iter().position(Waiting::is_silent);
        if self.waiting.len() >= MOST_WAITING
            && let Some(longest) = longest
        {
            self.waiting.remove(longest);
            self.station.refused("it told no version, and others came");
        }
    }

    /// Looks at clients that wait, and ends those that have gone or waited too long.
    fn look(&mut self) {
        let (station, is_served) = (&self.station, self.current.is_some());
        self.waiting.retain_mut(|waiting| {
            if !waiting.look() {
                return false;
            }
            let waited = waiting.since.elapsed();
            let has_greeted = waiting.greeting == Greeting::Whole;
            if !has_greeted && waited > station.options.message {
                let within = station.options.message.as_millis();
                station.refused(format!("it told no version within {within} ms"));
                return false;
            }
            if has_greeted && is_served && waited > station.options.waiting {
                station.refused("another one has the device");
                waiting.refuse_as_busy();
                return false;
            }
            true
        });
    }

    /// Notes the end of the client that is served; false if the lab has ended.
    fn note_end(&mut self) -> bool {
        let ended = self.current.take_if(|current| current.has_ended.load(Ordering::Acquire));
        // A panic was reported when it happened.
        ended.is_none_or(|ended| ended.thread.join().unwrap_or(false))
    }

    /// Begins with the client that has waited longest.
    fn serve_next(&mut self) {
        while self.current.is_none() {
            let next = self.waiting.iter().position(|next| next.greeting == Greeting::Whole);
            let Some(next) = next.and_then(|next| self.waiting.remove(next)) else { return };
            match self.serve(next.stream) {
                Ok(current) => self.current = Some(current),
                Err(error) => self.station.refused(format!("it cannot be served: {error}")),
            }
        }
    }

    fn serve(&self, stream: UnixStream) -> io::Result<Current> {
        let station = Arc::clone(&self.station);
        let device = station.description.name.clone();
        let message = station.options.message;
        let (caller, commands) = Caller::new(stream, &device, Arc::clone(&station.tell), message)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let serving = {
            let (caller, has_ended) = (Arc::clone(&caller), Arc::clone(&has_ended));
            let wake = self.wake.clone();
            move || {
                let Station { description, asker, mappings, tell, .. } = &*station;
                mappings.begin(Arc::clone(&caller));
                tell(&ServeEvent::Connected { device: device.clone() });
                let client = Cell::new(Capabilities::UNSAID);
                let caller = &*caller;
                let connection =
                    Connection { caller, device: description, mappings, asker, tell, client };
                let why = connection.serve(commands);
                // After this, the device accesses no memory of the client.
                let is_reset = !caller.has_used() || asker.ask(What::End).is_ok();
                mappings.end();
                tell(&ServeEvent::Ended { device, why });
                has_ended.store(true, Ordering::Release);
                wake.wake();
                is_reset
            }
        };
        let thread = thread::Builder::new().name(self.station.description.name.clone());
        Ok(Current { caller, has_ended, thread: thread.spawn(serving)? })
    }

    /// Ends the client that is served if it has been silent for too long and another one waits.
    fn make_way(&self) {
        let Some(current) = &self.current else { return };
        if !self.waiting.iter().any(|waiting| waiting.greeting == Greeting::Whole) {
            return;
        }
        let options = &self.station.options;
        let silent = current.caller.silent_for();
        let most = if current.caller.has_used() { options.used } else { Some(options.unused) };
        if most.is_some_and(|most| silent >= most) {
            let ms = silent.as_millis();
            current.caller.end(format!("it was silent for {ms} ms, and another one waits"));
        }
    }
}
