// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file descriptor that becomes readable at an interrupt. The bus wakes a task at an interrupt;
//! here the waker of that task writes to an eventfd.

use std::future::Future;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crosslane::host::{Bus, BusResult, ErrorKind};
use crosslane::open::AnyBus;
use crosslane::pcie::units::{Picoseconds, RoutingId};

use crate::error::{Failure, Result};

/// The eventfd, and the state of its owner.
struct Signal {
    fd: OwnedFd,
    /// Whether the owner polls: it will look at `is_woken` itself.
    is_arming: AtomicBool,
    is_woken: AtomicBool,
}

impl Signal {
    fn raise(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: an open descriptor, and eight readable bytes. An eventfd that is full is
        // readable.
        let _ = unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    fn clear(&self) {
        let mut count = [0_u8; 8];
        let into = count.as_mut_ptr().cast();
        // SAFETY: an open descriptor, and eight writable bytes. It does not block.
        let _ = unsafe { libc::read(self.fd.as_raw_fd(), into, count.len()) };
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if !self.is_arming.load(Ordering::SeqCst) {
            self.raise();
        }
    }
}

type Interrupt = Pin<Box<dyn Future<Output = BusResult<u64>>>>;

/// Waits for the interrupts of one vector for as long as it lives.
pub(crate) struct Event {
    signal: Arc<Signal>,
    bus: AnyBus,
    function: RoutingId,
    vector: u16,
    armed: Interrupt,
}

impl Event {
    /// Makes the descriptor, and arms it.
    pub fn new(bus: &AnyBus, function: RoutingId, vector: u16) -> Result<Self> {
        // SAFETY: it takes no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            let error = std::io::Error::last_os_error();
            let kind = ErrorKind::from(error.kind());
            return Err(Failure::new(kind, format!("cannot make an eventfd: {error}")));
        }
        // SAFETY: the kernel has just made it, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let (is_arming, is_woken) = (AtomicBool::new(true), AtomicBool::new(false));
        let signal = Arc::new(Signal { fd, is_arming, is_woken });
        let armed = interrupt(bus, function, vector);
        let mut event = Self { signal, bus: bus.clone(), function, vector, armed };
        event.arm()?;
        Ok(event)
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.signal.fd.as_raw_fd()
    }

    /// Clears the descriptor; the next interrupt makes it readable again. What has happened before
    /// is to be looked at after this.
    pub fn arm(&mut self) -> Result<()> {
        let waker = Waker::from(Arc::clone(&self.signal));
        self.signal.is_arming.store(true, Ordering::SeqCst);
        self.signal.clear();
        loop {
            self.signal.is_woken.store(false, Ordering::SeqCst);
            match self.armed.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(counted) => {
                    self.armed = interrupt(&self.bus, self.function, self.vector);
                    counted?;
                }
                // The bus looks for a moment, with the core awake, before it lets the core sleep.
                Poll::Pending if self.signal.is_woken.load(Ordering::SeqCst) => {}
                Poll::Pending => break,
            }
        }
        self.signal.is_arming.store(false, Ordering::SeqCst);
        if self.signal.is_woken.load(Ordering::SeqCst) {
            self.signal.raise();
        }
        Ok(())
    }
}

fn interrupt(bus: &AnyBus, function: RoutingId, vector: u16) -> Interrupt {
    let bus = bus.clone();
    Box::pin(async move { bus.wait_interrupt(function, vector, Picoseconds::NEVER).await })
}
