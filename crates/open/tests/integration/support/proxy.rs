// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TCP proxy that delays, stalls and cuts connections. It works with the provider tcp, whose
//! clients connect only to the given address.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Size of a read, and the most such parts in flight.
const PART_BYTES: usize = 64 << 10;
const PARTS: usize = 256;

/// A proxy between clients and one server, which ends on drop.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    target: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    delay: Duration,
    is_stalled: bool,
    /// Whether new connections are closed at once.
    refuses: bool,
    has_ended: bool,
    /// Number of passed bytes at which all connections are cut.
    cut_at: Option<u64>,
    passed_bytes: u64,
    accepted: usize,
    /// Both ends of each connection.
    open: Vec<(TcpStream, TcpStream)>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the proxy is stalled.
    fn wait_stalled(&self) -> MutexGuard<'_, State> {
        let stalled = |state: &mut State| state.is_stalled && !state.has_ended;
        self.changed.wait_while(self.lock(), stalled).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proxy {
    /// Starts a proxy on a free port of the loopback; `target` is the server's address.
    pub fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a port");
        let address = listener.local_addr().expect("it has an address");
        let (target, state) = (target.to_owned(), Mutex::default());
        let shared = Arc::new(Shared { target, state, changed: Condvar::new() });
        let of_thread = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if of_thread.lock().has_ended {
                    return;
                }
                join(&of_thread, client);
            }
        });
        Self { shared, address }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Delays everything from now on, each way; the rate stays.
    pub fn delay(&self, delay: Duration) {
        self.shared.lock().delay = delay;
    }

    /// Stalls everything, with connections open, until [`resume`](Self::resume).
    pub fn stall(&self) {
        self.shared.lock().is_stalled = true;
    }

    /// Continues after a stall.
    pub fn resume(&self) {
        self.shared.lock().is_stalled = false;
        self.shared.changed.notify_all();
    }

    /// Cuts all open connections.
    pub fn cut(&self) {
        cut(&mut self.shared.lock());
    }

    /// Cuts all connections that are then open, in the middle of a transfer, once this many bytes
    /// have passed, both ways together.
    pub fn cut_after(&self, bytes: u64) {
        let mut state = self.shared.lock();
        state.cut_at = Some(state.passed_bytes + bytes);
    }

    /// Sets whether new connections are closed at once.
    pub fn refuse(&self, refuses: bool) {
        self.shared.lock().refuses = refuses;
    }

    /// Returns the bytes that have passed, both ways together.
    pub fn passed_bytes(&self) -> u64 {
        self.shared.lock().passed_bytes
    }

    /// Returns the number of connections so far.
    pub fn accepted(&self) -> usize {
        self.shared.lock().accepted
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.has_ended = true;
        cut(&mut state);
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

fn cut(state: &mut State) {
    state.cut_at = None;
    for (client, server) in state.open.drain(..) {
        // It may have ended already.
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }
}

fn join(shared: &Arc<Shared>, client: TcpStream) {
    if shared.lock().refuses {
        return;
    }
    let Ok(server) = TcpStream::connect(&shared.target) else { return };
    let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor is free");
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("sockets have it");
    }
    let mut state = shared.lock();
    state.accepted += 1;
    state.open.push((copy(&client), copy(&server)));
    drop(state);
    for (from, to) in [(copy(&client), copy(&server)), (server, client)] {
        let (sender, receiver) = sync_channel(PARTS);
        let (of_reader, of_writer, into) = (shared.clone(), shared.clone(), copy(&to));
        thread::spawn(move || read(&of_reader, from, &sender));
        thread::spawn(move || write(&of_writer, &receiver, &into));
    }
}

fn read(shared: &Shared, mut from: TcpStream, sender: &SyncSender<(Instant, Vec<u8>)>) {
    let mut part = vec![0; PART_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut part) {
        let due = Instant::now() + shared.wait_stalled().delay;
        if sender.send((due, part[..bytes].to_vec())).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Read);
}

fn write(shared: &Shared, receiver: &Receiver<(Instant, Vec<u8>)>, mut to: &TcpStream) {
    for (due, part) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut state = shared.wait_stalled();
        let after = state.passed_bytes + part.len() as u64;
        let is_last = state.cut_at.is_some_and(|cut_at| after >= cut_at);
        state.passed_bytes = after;
        drop(state);
        let half = if is_last { part.len() / 2 } else { part.len() };
        if to.write_all(&part[..half]).is_err() {
            break;
        }
        if is_last {
            cut(&mut shared.lock());
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
