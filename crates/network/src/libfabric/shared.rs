// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state behind its lock, and the thread that waits for events.
//!
//! The program's own thread runs a short request at once if the lock is free; any other is left to
//! the network's thread. So polling a future never copies, or waits while that thread does.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crosslane_host::lock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::Timespec;

use super::guard::Guard;
use super::raw::borrow_fd;
use super::state::{Command, State};

pub struct Shared {
    state: Mutex<State>,
    commands: Mutex<VecDeque<Command>>,
    wake: OwnedFd,
    has_ended: AtomicBool,
}

/// A network with its thread, which ends when the last owner drops this.
pub struct Running {
    shared: Arc<Shared>,
    guard: Option<Arc<Guard>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub last_id: Arc<AtomicU64>,
}

impl Running {
    pub fn start(
        state: State,
        guard: Option<Arc<Guard>>,
        last_id: Arc<AtomicU64>,
    ) -> Result<Self, String> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            commands: Mutex::default(),
            wake: wake.map_err(|error| error.to_string())?,
            has_ended: AtomicBool::new(false),
        });
        let of_thread = shared.clone();
        let thread = thread::Builder::new().name("crosslane-rdma".into());
        let thread = thread.spawn(move || of_thread.run()).map_err(|error| error.to_string())?;
        Ok(Self { shared, guard, thread: Mutex::new(Some(thread)), last_id })
    }

    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Runs a command, now or soon.
    pub fn submit(&self, command: Command) {
        if let (Some(guard), Command::Close { connection, .. }) = (&self.guard, &command) {
            guard.close(Some(*connection));
        }
        self.shared.submit(command);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(guard) = &self.guard {
            guard.close(None);
        }
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // The last owner may be a waker that drops it in the thread itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn wake(&self) {
        // A full counter has woken the thread already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn submit(&self, command: Command) {
        let state = match self.state.try_lock() {
            _ if command.is_long() => None,
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let Some(mut state) = state else {
            lock(&self.commands).push_back(command);
            return self.wake();
        };
        self.run_commands(&mut state);
        // The thread notices events of existing connections by itself.
        let is_seen = matches!(
            command,
            Command::Transfer { .. } | Command::Send { .. } | Command::Taken { .. }
        );
        state.execute(command);
        let must_look = !is_seen || state.patience().is_some();
        drop(state);
        if must_look || !lock(&self.commands).is_empty() {
            self.wake();
        }
    }

    /// Runs the commands in order of arrival.
    fn run_commands(&self, state: &mut State) {
        loop {
            // The lock is free during the command, so that others can add more.
            let command = lock(&self.commands).pop_front();
            match command {
                Some(command) => state.execute(command),
                None => return,
            }
        }
    }

    fn run(&self) {
        while !self.has_ended.load(Ordering::Acquire) {
            let mut state = lock(&self.state);
            self.run_commands(&mut state);
            let may_wait = state.pass();
            let descriptors = state.descriptors();
            let patience = state.patience();
            drop(state);
            let patience = if may_wait { patience } else { Some(Duration::ZERO) };
            self.wait(&descriptors, patience);
        }
    }

    fn wait(&self, descriptors: &[(RawFd, PollFlags)], patience: Option<Duration>) {
        let own = (self.wake.as_fd().as_raw_fd(), PollFlags::IN);
        let all = std::iter::once(&own).chain(descriptors);
        let mut polled: Vec<PollFd<'_>> =
            all.map(|(fd, flags)| PollFd::from_borrowed_fd(borrow_fd(*fd), *flags)).collect();
        let timeout = patience.map(|patience| Timespec {
            tv_sec: patience.as_secs().cast_signed(),
            tv_nsec: patience.subsec_nanos().into(),
        });
        // Whatever the result, the next pass checks everything.
        let _ = poll(&mut polled, timeout.as_ref());
        if polled[0].revents().contains(PollFlags::IN) {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
    }
}
