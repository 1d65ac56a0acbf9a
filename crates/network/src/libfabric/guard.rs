// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frees locks in shared memory that another process leaves held.
//!
//! Before libfabric 2.5, endpoints of its shm provider exchange commands under spin locks in memory
//! that both processes map. A process that is killed while it holds one leaves the other to spin
//! for good, with the network's thread or a caller's. A thread of the guard watches the processes
//! at the other ends. Once one has died, or the program closes a connection whose lock stays held,
//! it frees both locks until the network has dropped that connection. Nobody else uses them then:
//! each connection has a separate endpoint at both ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crosslane_host::lock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

/// Time for the network to notice by itself that a process has died, and for a living process to
/// leave its lock while the program closes the connection.
const PATIENCE: Duration = Duration::from_millis(500);
/// Delay between two looks at locks that must be free.
const AGAIN: Duration = Duration::from_millis(20);

/// Values of a spin lock of the C library.
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
const FREE: i32 = 1;
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
const FREE: i32 = 0;

/// Returns the offset of an endpoint's lock in its memory, bytes, by the version of the layout in
/// the first byte: 2 to 5 of libfabric 1.15 to 1.19, 6 of 1.20, 7 and 8 of 1.21 to 2.4. Version 4
/// is tested, the others are from its headers.
const fn lock_offset(version: u8) -> Option<u64> {
    match version {
        2..=5 => Some(24),
        6 => Some(64),
        7 | 8 => Some(56),
        _ => None,
    }
}

/// The memory of one endpoint, as a file.
#[derive(Debug)]
struct Memory(File);

impl Memory {
    /// Opens the memory of an endpoint by its name, if the name is one of shared memory.
    fn open(folder: &Path, name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?.trim_end_matches('\0');
        let name = name.rsplit_once("://").map_or(name, |(_, name)| name);
        if name.is_empty() || name.contains('/') {
            return None;
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::open(folder.join(name), flags, Mode::empty()).ok()?;
        Some(Self(File::from(file)))
    }

    /// Frees its lock if it is held and its place is known.
    fn free(&self) -> Option<()> {
        let mut version = [0];
        self.0.read_exact_at(&mut version, 0).ok()?;
        let offset = lock_offset(version[0])?;
        let mut lock = [0; 4];
        self.0.read_exact_at(&mut lock, offset).ok()?;
        if i32::from_ne_bytes(lock) != FREE {
            self.0.write_all_at(&FREE.to_ne_bytes(), offset).ok()?;
        }
        Some(())
    }
}

struct Watched {
    /// Readable once the process has died.
    process: Arc<OwnedFd>,
    memories: Vec<Memory>,
    /// Time at which the process died or the program closed the connection.
    over: Option<Instant>,
}

struct Inner {
    watched: Mutex<Option<BTreeMap<u64, Watched>>>,
    wake: OwnedFd,
}

/// The thread that watches the other ends of a network's connections.
pub struct Guard {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

/// A connection that is watched until this is dropped.
pub struct Watch {
    inner: Arc<Inner>,
    id: u64,
}

impl Guard {
    pub fn start() -> rustix::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inner = Arc::new(Inner { watched: Mutex::new(Some(BTreeMap::new())), wake });
        let of_thread = inner.clone();
        let thread = thread::Builder::new().name("crosslane-guard".into());
        let thread = thread.spawn(move || of_thread.run()).map_err(|_| rustix::io::Errno::AGAIN)?;
        Ok(Self { inner, thread: Some(thread) })
    }

    /// Watches a connection to a process by the names of its endpoints. Returns nothing if that
    /// cannot be done: where the process has another number, or no memory of that name.
    pub fn watch(&self, id: u64, process: Pid, names: [&[u8]; 2]) -> Option<Watch> {
        self.watch_in(Path::new(super::shm::FOLDER), id, process, names)
    }

    fn watch_in(&self, folder: &Path, id: u64, process: Pid, names: [&[u8]; 2]) -> Option<Watch> {
        let process = Arc::new(pidfd_open(process, PidfdFlags::empty()).ok()?);
        let memories = names.into_iter().filter_map(|name| Memory::open(folder, name)).collect();
        let watched = Watched { process, memories, over: None };
        lock(&self.inner.watched).as_mut()?.insert(id, watched);
        self.inner.wake();
        Some(Watch { inner: self.inner.clone(), id })
    }

    /// The program closes one connection, or all of them.
    pub fn close(&self, id: Option<u64>) {
        let mut watched = lock(&self.inner.watched);
        let of_id = |(at, _): &(&u64, &mut Watched)| id.is_none_or(|id| id == **at);
        let now = Instant::now();
        for (_, one) in watched.iter_mut().flatten().filter(of_id) {
            one.over.get_or_insert(now);
        }
        drop(watched);
        self.inner.wake();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        *lock(&self.inner.watched) = None;
        self.inner.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watched) = &mut *lock(&self.inner.watched) {
            watched.remove(&self.id);
        }
    }
}

impl Inner {
    fn wake(&self) {
        // A full counter has woken the thread already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn run(&self) {
        loop {
            let (mut living, mut is_over) = (Vec::new(), false);
            {
                let mut watched = lock(&self.watched);
                let Some(watched) = &mut *watched else { return };
                for one in watched.values_mut() {
                    match one.over {
                        None => living.push(one.process.clone()),
                        Some(since) if since.elapsed() > PATIENCE => {
                            for memory in &one.memories {
                                let _ = memory.free();
                            }
                        }
                        Some(_) => {}
                    }
                    is_over |= one.over.is_some();
                }
            }
            let dead = self.wait(&living, is_over.then_some(AGAIN));
            if let (false, Some(watched)) = (dead.is_empty(), &mut *lock(&self.watched)) {
                for one in watched.values_mut() {
                    if dead.iter().any(|process| Arc::ptr_eq(process, &one.process)) {
                        one.over.get_or_insert_with(Instant::now);
                    }
                }
            }
        }
    }

    /// Waits for a change, and returns the processes that have died.
    fn wait<'a>(
        &self,
        living: &'a [Arc<OwnedFd>],
        patience: Option<Duration>,
    ) -> Vec<&'a Arc<OwnedFd>> {
        let descriptors = std::iter::once(self.wake.as_fd());
        let descriptors = descriptors.chain(living.iter().map(|process| process.as_fd()));
        let mut polled: Vec<PollFd<'_>> =
            descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = patience.map(|patience| Timespec {
            tv_sec: patience.as_secs().cast_signed(),
            tv_nsec: patience.subsec_nanos().into(),
        });
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        if !polled[0].revents().is_empty() {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        let died = |(_, polled): &(_, &PollFd<'_>)| !polled.revents().is_empty();
        living.iter().zip(&polled[1..]).filter(died).map(|(process, _)| process).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const HELD: i32 = 1 - FREE;

    /// Memory of an endpoint with a held lock.
    fn memory(folder: &Path, name: &str, version: u8) -> File {
        let path = folder.join(name);
        let mut bytes = [0; 128];
        bytes[0] = version;
        if let Some(offset) = lock_offset(version) {
            bytes[offset as usize..][..4].copy_from_slice(&HELD.to_ne_bytes());
        }
        std::fs::write(&path, bytes).unwrap();
        File::open(path).unwrap()
    }

    fn is_free(memory: &File, offset: u64) -> bool {
        let mut lock = [0; 4];
        memory.read_exact_at(&mut lock, offset).unwrap();
        i32::from_ne_bytes(lock) == FREE
    }

    fn until(what: impl Fn() -> bool) {
        let begin = Instant::now();
        while !what() {
            assert!(begin.elapsed() < Duration::from_secs(30), "it never happens");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn locks_of_the_dead_and_of_closed_connections_become_free() {
        let folder = tempfile::tempdir().unwrap();
        let guard = Guard::start().unwrap();
        let start = || Command::new("sleep").arg("1000").spawn().unwrap();
        let [mut killed, mut living] = [start(), start()];
        let names = ["near", "far", "closed", "kept", "unknown"];
        let [near, far, closed, kept, unknown] = [4, 8, 6, 4, 9]
            .iter()
            .zip(names)
            .map(|(version, name)| memory(folder.path(), name, *version))
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        let watch = |id, process, names: [&str; 2]| {
            let names = names.map(str::as_bytes);
            guard.watch_in(folder.path(), id, Pid::from_child(process), names).unwrap()
        };
        let _watches = [
            watch(1, &killed, ["near\0\0", "fi_shm://far"]),
            watch(2, &living, ["closed", "no/such"]),
            watch(3, &living, ["kept", "nothing"]),
            watch(4, &killed, ["unknown", ""]),
        ];
        guard.close(Some(2));
        until(|| is_free(&closed, 64));
        assert!(!is_free(&near, 24), "its process lives");
        killed.kill().unwrap();
        // A zombie is dead too.
        until(|| is_free(&near, 24) && is_free(&far, 56));
        killed.wait().unwrap();
        assert!(!is_free(&kept, 24), "its process lives");
        let mut bytes = [0; 128];
        unknown.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[1..].iter().all(|byte| *byte == 0), "of an unknown version");
        guard.close(None);
        until(|| is_free(&kept, 24));
        living.kill().unwrap();
        living.wait().unwrap();
    }
}
