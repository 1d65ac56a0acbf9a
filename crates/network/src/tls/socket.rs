// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A socket whose two directions belong to two threads, and memory that it reads and writes
//! without a copy of ours.
#![allow(unsafe_code)]

use std::io::{Error, ErrorKind, Result};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crosslane_host::lock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use rustix::time::Timespec;

use super::region::Registered;
use crate::memory::Mapping;

/// How long an end may leave data unanswered, or be silent when it is asked, before it counts as
/// gone.
const SILENCE: Duration = Duration::from_secs(30);
/// How long the last words to another end may take.
pub const LINGER: Duration = Duration::from_millis(200);
/// Most bytes that are copied between two looks at whether memory is still registered.
const MOST_AT_ONCE: usize = 1 << 20;

/// A connected socket that never blocks by itself.
pub struct Socket {
    stream: TcpStream,
    /// When whoever waits gives up.
    deadline: Mutex<Option<Instant>>,
    /// Readable from when a deadline is set for those who wait without one.
    alarm: OnceLock<Arc<OwnedFd>>,
}

/// The memory of one end of a transfer.
pub enum Place<'a> {
    /// This node's, which nobody takes away.
    Own(&'a Mapping),
    /// Memory that another node reaches for as long as it is registered.
    Lent(&'a Registered),
}

impl Place<'_> {
    /// Lets work at the memory, unless it is lent no longer.
    pub fn with<T>(&self, work: impl FnOnce(&Mapping) -> T) -> Option<T> {
        match self {
            Self::Own(mapping) => Some(work(mapping)),
            Self::Lent(registered) => registered.with(work),
        }
    }
}

impl Socket {
    /// Takes a socket over.
    ///
    /// # Errors
    /// The system refuses an option.
    pub fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, SILENCE / 3)?;
        sockopt::set_tcp_keepintvl(&stream, SILENCE / 6)?;
        sockopt::set_tcp_keepcnt(&stream, 4)?;
        let silence = u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&stream, silence)?;
        Ok(Self { stream, deadline: Mutex::default(), alarm: OnceLock::new() })
    }

    /// Sets the time at which every wait ends that begins from now on.
    pub fn set_deadline(&self, deadline: Instant) {
        *lock(&self.deadline) = Some(deadline);
    }

    /// Lets waits take as long as they may, until the alarm goes off.
    pub fn wait_for(&self, alarm: Arc<OwnedFd>) {
        // It is set once, when the socket gets its threads.
        let _ = self.alarm.set(alarm);
        *lock(&self.deadline) = None;
    }

    /// Ends the direction away from here: the other end learns that nothing more will come.
    pub fn shut_write(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends both directions; whoever waits in one goes on.
    pub fn shut(&self) {
        // A socket that is not connected any more needs no end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Ends this direction, and drops what still comes for a moment: unread bytes would have the
    /// kernel take back what was sent last.
    pub fn end_gently(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        self.set_deadline(Instant::now() + LINGER);
        let mut dropped = [0; 4096];
        for _ in 0..64 {
            if !matches!(self.read(&mut dropped), Ok(1..)) {
                return;
            }
        }
    }

    fn wait(&self, what: PollFlags) -> Result<()> {
        let left = match *lock(&self.deadline) {
            None => None,
            Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                None => return Err(ErrorKind::TimedOut.into()),
                Some(left) => Some(left),
            },
        };
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let own = PollFd::from_borrowed_fd(self.stream.as_fd(), what);
        let polled = match self.alarm.get().filter(|_| left.is_none()) {
            Some(alarm) => {
                poll(&mut [own, PollFd::from_borrowed_fd(alarm.as_fd(), PollFlags::IN)], None)
            }
            None => poll(&mut [own], left.as_ref()),
        };
        match polled {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls until it neither has to wait nor is interrupted.
    fn again(&self, what: PollFlags, mut call: impl FnMut() -> Result<usize>) -> Result<usize> {
        loop {
            match call() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(what)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// As [`again`](Self::again), with memory that may be of a file: the kernel refuses pages that
    /// it has lost, until they are replaced.
    fn mending(
        &self,
        (place, at, bytes): (&Place<'_>, usize, usize),
        what: PollFlags,
        mut call: impl FnMut() -> Result<usize>,
    ) -> Result<usize> {
        match self.again(what, &mut call) {
            Err(error)
                if error.raw_os_error() == Some(libc::EFAULT)
                    && place.with(|mapping| mapping.mend(at, bytes)) == Some(true) =>
            {
                self.again(what, call)
            }
            done => done,
        }
    }

    /// Waits for bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// A connection that has broken.
    pub fn read(&self, into: &mut [u8]) -> Result<usize> {
        use std::io::Read;
        self.again(PollFlags::IN, || (&self.stream).read(into))
    }

    /// Sends all of these bytes.
    ///
    /// # Errors
    /// A connection that has broken.
    pub fn write_all(&self, from: &[u8]) -> Result<()> {
        self.write_all_flagged(from, 0)
    }

    fn write_all_flagged(&self, mut from: &[u8], flags: i32) -> Result<()> {
        while !from.is_empty() {
            let sent = self.again(PollFlags::OUT, || {
                // SAFETY: the pointer and length are those of a slice.
                unsafe { send(self.stream.as_raw_fd(), from.as_ptr().cast(), from.len(), flags) }
            })?;
            from = &from[sent..];
        }
        Ok(())
    }

    /// Sends these bytes and behind them `bytes` of memory from `at` on; the caller has checked
    /// that they are in it. Returns whether it still was lent: else zeros were sent.
    ///
    /// # Errors
    /// A connection that has broken.
    pub fn write_memory(
        &self,
        head: &[u8],
        place: &Place<'_>,
        mut at: usize,
        mut bytes: usize,
    ) -> Result<bool> {
        self.write_all_flagged(head, libc::MSG_MORE)?;
        let mut is_lent = true;
        while is_lent && bytes > 0 {
            let most = bytes.min(MOST_AT_ONCE);
            let sent = self.mending((place, at, most), PollFlags::OUT, || {
                let sent = place.with(|mapping| {
                    let from = mapping.bytes_at(at, most);
                    // SAFETY: `bytes_at` has checked the bounds; the kernel reads the pages
                    // whatever others write there.
                    unsafe { send(self.stream.as_raw_fd(), from.cast(), most, 0) }
                });
                is_lent = sent.is_some();
                sent.unwrap_or(Ok(0))
            })?;
            (at, bytes) = (at + sent, bytes - sent);
        }
        for piece in vec![0; bytes].chunks(MOST_AT_ONCE) {
            self.write_all(piece)?;
        }
        Ok(is_lent)
    }

    /// Waits for up to `bytes` for memory from `at` on; 0 at the end of the stream. The caller has
    /// checked that they are in it. `None`: it is lent no longer, and nothing was read.
    ///
    /// # Errors
    /// A connection that has broken.
    pub fn read_memory(&self, place: &Place<'_>, at: usize, bytes: usize) -> Result<Option<usize>> {
        let mut is_lent = true;
        let most = bytes.min(MOST_AT_ONCE);
        let got = self.mending((place, at, most), PollFlags::IN, || {
            let got = place.with(|mapping| {
                let into = mapping.bytes_at(at, most);
                // SAFETY: as for sending; words of the memory may be torn, as by any device.
                let got = unsafe {
                    libc::recv(self.stream.as_raw_fd(), into.cast(), most, libc::MSG_DONTWAIT)
                };
                result(got)
            });
            got.unwrap_or_else(|| {
                is_lent = false;
                Ok(0)
            })
        })?;
        Ok(is_lent.then_some(got))
    }
}

/// # Safety
/// `bytes` from `from` on are mapped.
unsafe fn send(socket: i32, from: *const libc::c_void, bytes: usize, more: i32) -> Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | more;
    // SAFETY: by the caller.
    result(unsafe { libc::send(socket, from, bytes, flags) })
}

fn result(returned: isize) -> Result<usize> {
    usize::try_from(returned).map_err(|_| Error::last_os_error())
}
