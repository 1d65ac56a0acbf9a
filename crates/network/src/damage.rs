// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mapped files whose pages may go away: a file that was made shorter, or whose disk is full, has
//! none for some of its addresses, and an access raises SIGBUS. The handler here puts an empty page
//! there and notes it, so that the access ends and the transfer fails with a sentence.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use crosslane_host::lock;

/// Most files that are mapped at once: the handler looks through all of them, and may wait for
/// nothing.
const MOST_FILES: usize = 64;

/// Addresses of a mapped file; free if the end is 0.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    page_bytes: AtomicUsize,
    is_damaged: AtomicBool,
}

static FILES: [Entry; MOST_FILES] = [const {
    Entry {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        page_bytes: AtomicUsize::new(0),
        is_damaged: AtomicBool::new(false),
    }
}; MOST_FILES];

/// Held while an entry is taken.
static TAKING: Mutex<()> = Mutex::new(());

/// The action that the program had for the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapped file under watch, until it is dropped: before it is unmapped.
pub struct Watched(&'static Entry);

impl Watched {
    /// Watches the addresses of a mapping.
    ///
    /// # Errors
    /// Too many files, or a kernel that takes no handler.
    pub fn new(addresses: Range<usize>, page_bytes: usize) -> Result<Self, String> {
        let taking = lock(&TAKING);
        install()?;
        let free = FILES.iter().find(|entry| entry.end.load(Ordering::Relaxed) == 0);
        let entry = free.ok_or_else(|| format!("{MOST_FILES} files are mapped already"))?;
        entry.is_damaged.store(false, Ordering::Relaxed);
        entry.start.store(addresses.start, Ordering::Relaxed);
        entry.page_bytes.store(page_bytes, Ordering::Relaxed);
        // The end makes it valid, for the handler.
        entry.end.store(addresses.end, Ordering::Release);
        drop(taking);
        Ok(Self(entry))
    }

    /// Whether a page of it was missing.
    pub fn is_damaged(&self) -> bool {
        self.0.is_damaged.load(Ordering::Acquire)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.end.store(0, Ordering::Release);
    }
}

/// Installs the handler, once.
fn install() -> Result<(), String> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a zeroed action is a valid one: no flags, an empty mask, the default handler.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: both structures are valid for the call; the handler has the signature that
    // `SA_SIGINFO` demands and does only what a signal handler may.
    let status = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr()) };
    if status != 0 {
        return Err(format!("no handler of SIGBUS: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: the call has succeeded and filled it.
    let before = unsafe { before.assume_init() };
    // Whoever comes second finds this handler; the first to come has set it.
    let _ = BEFORE.set(before);
    Ok(())
}

/// Puts an empty page where a watched file has none; else does what was done before.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid structure, and this signal has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    for entry in &FILES {
        let end = entry.end.load(Ordering::Acquire);
        let start = entry.start.load(Ordering::Relaxed);
        if !(start..end).contains(&address) {
            continue;
        }
        let page_bytes = entry.page_bytes.load(Ordering::Relaxed);
        let page = address / page_bytes * page_bytes;
        // Huge pages are not replaced one small page at a time: then all of the file is.
        if replace(page..page + page_bytes) || replace(start..end) {
            entry.is_damaged.store(true, Ordering::Release);
            return;
        }
    }
    pass_on(signal, info, context);
}

/// Replaces pages of a watched mapping by empty ones.
fn replace(addresses: Range<usize>) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let start = addresses.start as *mut c_void;
    // SAFETY: the addresses are of a mapping that is watched, hence mapped, and whose content may
    // change at any time; `mmap` is a system call, which a handler may make.
    let mapped = unsafe { libc::mmap(start, addresses.len(), protection, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Does what the program did before: it has not been a page of ours.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = BEFORE.get();
    match before.map_or(libc::SIG_DFL, |before| before.sa_sigaction) {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: a zeroed action is the default one; the access is repeated and ends the
            // program, as it would have without this handler.
            unsafe {
                let action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
        handler if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) => {
            // SAFETY: it was installed with this signature.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: it was installed with this signature.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
