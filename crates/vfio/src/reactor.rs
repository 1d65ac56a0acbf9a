// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread that waits in the kernel for several events at once: eventfds of interrupts, deadlines,
//! and the loss of functions. It counts interrupts, so that none is lost while no task waits, and
//! wakes the tasks that do.

use std::collections::BTreeMap;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crosslane_host::lock;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::function::Function;

/// Token of the timer's descriptor.
const TIMER: u64 = 0;
/// Token of the descriptor that stops the thread.
const STOP: u64 = 1;
/// The first token of other descriptors.
const FIRST_SOURCE: u64 = 2;
/// Most events taken from the kernel at once.
const EVENTS_AT_ONCE: usize = 64;

/// A function with the state that its bus keeps.
pub(crate) struct Held {
    pub function: Arc<dyn Function>,
    /// Whether it answers memory accesses: bit 1 of its Command register.
    pub decodes: AtomicBool,
    /// Set once the function is lost, and never cleared.
    pub lost: AtomicBool,
}

impl Held {
    /// Checks whether the function is lost, and remembers it.
    pub fn look(&self) -> bool {
        let lost = self.lost.load(Ordering::Relaxed) || self.function.lost().is_some();
        if lost {
            self.lost.store(true, Ordering::Relaxed);
        }
        lost
    }
}

/// A descriptor that the thread watches, with the tasks that wait for it.
enum Source {
    Vector { event: OwnedFd, count: u64, waiting: Vec<(u64, Waker)>, held: Arc<Held> },
    Lost(Arc<Held>),
}

#[derive(Default)]
struct Table {
    sources: BTreeMap<u64, Source>,
    next_token: u64,
    /// Wakers by time and number of the waiter.
    timers: BTreeMap<(Instant, u64), Waker>,
    next_waiter: u64,
}

impl Table {
    fn waiter(&mut self) -> u64 {
        self.next_waiter += 1;
        self.next_waiter
    }

    fn insert(&mut self, source: Source) -> u64 {
        let token = self.next_token.max(FIRST_SOURCE);
        self.next_token = token + 1;
        self.sources.insert(token, source);
        token
    }
}

struct Shared {
    epoll: OwnedFd,
    timer: OwnedFd,
    stop: OwnedFd,
    table: Mutex<Table>,
}

/// Handle of the thread, which ends when this is dropped.
pub(crate) struct Reactor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Makes an eventfd that neither blocks nor survives `exec`.
pub(crate) fn event() -> Result<OwnedFd, Errno> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Reads and clears the count of an eventfd or a timer.
fn drain(event: BorrowedFd<'_>) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(event, &mut count) {
        Ok(8) => u64::from_ne_bytes(count),
        _ => 0,
    }
}

impl Reactor {
    /// Starts the thread.
    ///
    /// # Errors
    /// Too few descriptors, or no thread.
    pub fn start() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let stop = event()?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let shared = Arc::new(Shared { epoll, timer, stop, table: Mutex::default() });
        let thread = thread::Builder::new().name("crosslane-vfio".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run()
        });
        let thread =
            thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Watches for the loss of a function, if it can be watched.
    ///
    /// # Errors
    /// Too little memory in the kernel.
    pub fn watch_loss(&self, held: &Arc<Held>) -> Result<(), Errno> {
        let Some(event) = held.function.lost_event() else { return Ok(()) };
        let token = lock(&self.shared.table).insert(Source::Lost(Arc::clone(held)));
        let flags = EventFlags::IN | EventFlags::HUP;
        epoll::add(&self.shared.epoll, event, EventData::new_u64(token), flags)
    }

    /// Counts the signals of a function's eventfd until [`forget`](Self::forget).
    ///
    /// # Errors
    /// Too little memory in the kernel.
    pub fn count(&self, event: OwnedFd, held: &Arc<Held>) -> Result<u64, Errno> {
        let mut table = lock(&self.shared.table);
        let data = EventData::new_u64(table.next_token.max(FIRST_SOURCE));
        epoll::add(&self.shared.epoll, &event, data, EventFlags::IN)?;
        let held = Arc::clone(held);
        Ok(table.insert(Source::Vector { event, count: 0, waiting: Vec::new(), held }))
    }

    /// Ends a count and wakes its waiters.
    pub fn forget(&self, token: u64) {
        let source = lock(&self.shared.table).sources.remove(&token);
        if let Some(Source::Vector { event, waiting, .. }) = source {
            let _ = epoll::delete(&self.shared.epoll, &event);
            waiting.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    /// Takes the count of a token's eventfd so far; 0 if the token is gone.
    pub fn take(&self, token: u64) -> u64 {
        match lock(&self.shared.table).sources.get_mut(&token) {
            Some(Source::Vector { event, count, .. }) => {
                drain(event.as_fd()).saturating_add(std::mem::take(count))
            }
            _ => 0,
        }
    }

    /// Waits until the eventfd of a token is signalled, and takes its count; `None` when the time
    /// runs out, or the function or the token is gone.
    pub fn counted(&self, token: u64, until: Option<Instant>) -> Counted<'_> {
        Counted { shared: &self.shared, token, until, waiter: None }
    }

    /// Waits until a moment.
    pub fn until(&self, moment: Instant) -> Until<'_> {
        Until { shared: &self.shared, moment, waiter: None }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.shared.stop, &1_u64.to_ne_bytes());
        // A task that this thread has just woken may drop the last handle of a bus.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        loop {
            events.clear();
            let waited =
                epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None);
            if waited.is_err_and(|errno| errno != Errno::INTR) {
                return;
            }
            let mut woken = Vec::new();
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    TIMER => self.timer(&mut woken),
                    token => self.signalled(token, &mut woken),
                }
            }
            // After the lock is released: a waker may run code that takes it.
            woken.into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes every waiter whose time has come, and sets the timer for the next.
    fn timer(&self, woken: &mut Vec<Waker>) {
        drain(self.timer.as_fd());
        let mut table = lock(&self.table);
        let later = table.timers.split_off(&(Instant::now(), u64::MAX));
        woken.extend(std::mem::replace(&mut table.timers, later).into_values());
        self.arm(&table);
    }

    /// Sets the timer for the earliest waiter.
    fn arm(&self, table: &Table) {
        let left = table.timers.first_key_value().map(|((moment, _), _)| {
            // A time of zero would turn the timer off.
            moment.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1))
        });
        let left = left.unwrap_or_default();
        let it_value =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval, it_value };
        // Cannot fail: the descriptor is a timer, and the time is valid.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
    }

    fn signalled(&self, token: u64, woken: &mut Vec<Waker>) {
        let mut table = lock(&self.table);
        let lost = match table.sources.get_mut(&token) {
            None => return,
            Some(Source::Vector { event, count, waiting, .. }) => {
                let signals = drain(event.as_fd());
                *count = count.saturating_add(signals);
                if signals > 0 {
                    woken.extend(waiting.drain(..).map(|(_, waker)| waker));
                }
                return;
            }
            Some(Source::Lost(held)) => Arc::clone(held),
        };
        if !lost.look() {
            return;
        }
        if let Some(event) = lost.function.lost_event() {
            let _ = epoll::delete(&self.epoll, event);
        }
        table.sources.remove(&token);
        for source in table.sources.values_mut() {
            if let Source::Vector { waiting, held, .. } = source
                && Arc::ptr_eq(held, &lost)
            {
                woken.extend(waiting.drain(..).map(|(_, waker)| waker));
            }
        }
        // A sleeping task may wait for the function's memory, so all of them look again.
        let timers = std::mem::take(&mut table.timers);
        woken.extend(timers.into_values());
    }

    /// Registers a waker to be called at a moment.
    fn wake_at(&self, table: &mut Table, moment: Instant, waiter: u64, waker: &Waker) {
        table.timers.insert((moment, waiter), waker.clone());
        if table.timers.first_key_value().is_some_and(|(first, _)| *first == (moment, waiter)) {
            self.arm(table);
        }
    }
}

/// Future of [`Reactor::counted`].
pub(crate) struct Counted<'a> {
    shared: &'a Shared,
    token: u64,
    until: Option<Instant>,
    waiter: Option<u64>,
}

impl Future for Counted<'_> {
    type Output = Option<u64>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = self.shared;
        let mut table = lock(&shared.table);
        let waiter = self.waiter.unwrap_or_else(|| table.waiter());
        self.waiter = Some(waiter);
        let Some(Source::Vector { event, count, waiting, held }) =
            table.sources.get_mut(&self.token)
        else {
            return Poll::Ready(None);
        };
        // Read here as well, since the thread may lag behind.
        let signals = drain(event.as_fd()).saturating_add(std::mem::take(count));
        waiting.retain(|(other, _)| *other != waiter);
        if signals > 0 {
            return Poll::Ready(Some(signals));
        }
        let is_over = self.until.is_some_and(|until| until <= Instant::now());
        if is_over || held.lost.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        waiting.push((waiter, context.waker().clone()));
        if let Some(until) = self.until {
            shared.wake_at(&mut table, until, waiter, context.waker());
        }
        Poll::Pending
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter else { return };
        let mut table = lock(&self.shared.table);
        if let Some(Source::Vector { waiting, .. }) = table.sources.get_mut(&self.token) {
            waiting.retain(|(other, _)| *other != waiter);
        }
        if let Some(until) = self.until {
            table.timers.remove(&(until, waiter));
        }
    }
}

/// Future of [`Reactor::until`].
pub(crate) struct Until<'a> {
    shared: &'a Shared,
    moment: Instant,
    waiter: Option<u64>,
}

impl Future for Until<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.moment <= Instant::now() {
            return Poll::Ready(());
        }
        let shared = self.shared;
        let mut table = lock(&shared.table);
        let waiter = self.waiter.unwrap_or_else(|| table.waiter());
        self.waiter = Some(waiter);
        shared.wake_at(&mut table, self.moment, waiter, context.waker());
        Poll::Pending
    }
}

impl Drop for Until<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            lock(&self.shared.table).timers.remove(&(self.moment, waiter));
        }
    }
}
