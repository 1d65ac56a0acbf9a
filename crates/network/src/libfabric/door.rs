// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The small socket beside a connectionless endpoint: both ends exchange their names over it, ring
//! when the other must look for work, and notice when the other is gone.
//!
//! For shared memory it is a Unix socket with an abstract name, for adapters a TCP socket.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::net::{accept_with, bind, connect, getpeername, getsockname, listen, recv, send};
use rustix::net::{shutdown, socket_with, sockopt};
use rustix::process::{Pid, geteuid, getpid};
use rustix::time::Timespec;

use super::raw::MAX_NAME_BYTES;

/// Greeting of both ends: kind and version of the protocol.
pub const GREETING: [u8; 8] = *b"XLANE\0\0\x01";
/// Length of each end's hello: greeting, length of the name (2), name.
pub const HELLO_BYTES: usize = GREETING.len() + 2 + MAX_NAME_BYTES;
/// Most connections that the kernel keeps for accepting.
const KERNEL_BACKLOG: i32 = 128;

/// Asks the other end to look for work.
const RING: u8 = b'R';
/// Confirms that it has looked.
const DONE: u8 = b'D';

/// Kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Unix socket, for this machine only.
    Local,
    Tcp,
}

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn local_name(port: u16) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("crosslane/shm/{port}").as_bytes())
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Listening socket for doors.
pub struct Porch {
    socket: OwnedFd,
    kind: Kind,
}

impl Porch {
    /// Starts to listen. Returns the address, with the chosen port if it was 0.
    pub fn open(kind: Kind, at: SocketAddr) -> rustix::io::Result<(Self, SocketAddr)> {
        let (socket, at) = match kind {
            Kind::Local => {
                let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
                let port = bind_local(&socket, at.port())?;
                (socket, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            }
            Kind::Tcp => {
                let socket = socket_with(family(at), SocketType::STREAM, FLAGS, None)?;
                sockopt::set_socket_reuseaddr(&socket, true)?;
                bind(&socket, &at)?;
                let bound = SocketAddr::try_from(getsockname(&socket)?)?;
                (socket, bound)
            }
        };
        listen(&socket, KERNEL_BACKLOG)?;
        Ok((Self { socket, kind }, at))
    }

    /// Accepts a waiting connection, if any: the socket and a name for the peer.
    pub fn accept(&self) -> rustix::io::Result<Option<(Door, String)>> {
        let socket = match accept_with(&self.socket, FLAGS) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(error) => return Err(error),
        };
        let name = match self.kind {
            Kind::Local => {
                let who = sockopt::socket_peercred(&socket)?;
                let is_other_user = who.uid != geteuid() && !who.uid.is_root();
                if is_other_user || who.pid == getpid() {
                    // Turned away like another user's access to a file; a peer in this process
                    // finds the reason itself.
                    return Ok(None);
                }
                format!("process {}", who.pid.as_raw_nonzero())
            }
            Kind::Tcp => {
                let peer = getpeername(&socket)?;
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                peer.map_or_else(|| "a client".into(), |peer| peer.to_string())
            }
        };
        Ok(Some((Door::new(socket), name)))
    }
}

impl AsFd for Porch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn bind_local(socket: &OwnedFd, port: u16) -> rustix::io::Result<u16> {
    if port != 0 {
        bind(socket, &local_name(port)?)?;
        return Ok(port);
    }
    /// First of the ports chosen here; those of TCP start there by default too.
    const FIRST: u16 = 32_768;
    /// Enough, as almost all ports are free.
    const TRIES: usize = 64;
    for _ in 0..TRIES {
        let random = getrandom::u32().map_err(|_| Errno::ADDRINUSE)? as u16;
        let port = FIRST | random;
        match bind(socket, &local_name(port)?) {
            Ok(()) => return Ok(port),
            Err(Errno::ADDRINUSE) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::ADDRINUSE)
}

/// Signals received since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rung {
    /// The other end asks this one to look.
    pub ring: bool,
    /// The other end has looked.
    pub done: bool,
    /// The other end is gone.
    pub gone: bool,
}

/// A socket to the other end.
pub struct Door {
    socket: OwnedFd,
    /// Whether the connection is established.
    connected: bool,
    hello: Vec<u8>,
}

impl Door {
    const fn new(socket: OwnedFd) -> Self {
        Self { socket, connected: true, hello: Vec::new() }
    }

    /// Starts to connect. [`Errno::AGAIN`] means to try later.
    pub fn connect(kind: Kind, to: SocketAddr) -> rustix::io::Result<Self> {
        let (socket, connecting) = match kind {
            Kind::Local => {
                let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
                let connecting = connect(&socket, &local_name(to.port())?);
                (socket, connecting)
            }
            Kind::Tcp => {
                let socket = socket_with(family(to), SocketType::STREAM, FLAGS, None)?;
                let connecting = connect(&socket, &to);
                (socket, connecting)
            }
        };
        let connected = match connecting {
            Ok(()) => true,
            Err(Errno::INPROGRESS) => false,
            Err(error) => return Err(error),
        };
        Ok(Self { connected, ..Self::new(socket) })
    }

    /// Returns the process at the other end of a local door.
    pub fn process(&self) -> Option<Pid> {
        sockopt::socket_peercred(&self.socket).ok().map(|who| who.pid)
    }

    /// Returns whether the other end is in this process.
    pub fn leads_home(&self) -> bool {
        self.process() == Some(getpid())
    }

    /// Returns whether to wait until it can be written to, not read from.
    pub const fn is_connecting(&self) -> bool {
        !self.connected
    }

    /// Returns whether it can be written to: the attempt to connect has succeeded or failed.
    pub fn is_writable(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Finishes connecting once the socket can be written to.
    pub fn finish_connecting(&mut self) -> rustix::io::Result<()> {
        sockopt::socket_error(&self.socket)??;
        self.connected = true;
        Ok(())
    }

    /// Sends the hello with the name of this end's endpoint.
    pub fn say_hello(&self, name: &[u8]) -> rustix::io::Result<()> {
        let mut hello = GREETING.to_vec();
        hello.extend((name.len() as u16).to_le_bytes());
        hello.extend(name);
        hello.resize(HELLO_BYTES, 0);
        // A new socket has room.
        match send(&self.socket, &hello, SendFlags::NOSIGNAL) {
            Ok(HELLO_BYTES) => Ok(()),
            Ok(_) => Err(Errno::MSGSIZE),
            Err(error) => Err(error),
        }
    }

    /// Receives the other end's hello, and returns its name once complete.
    pub fn hear_hello(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut room = [0; HELLO_BYTES];
        let missing = HELLO_BYTES - self.hello.len();
        match recv(&self.socket, &mut room[..missing], RecvFlags::empty()) {
            Ok((0, _)) => return Err("it hung up before its greeting".into()),
            Ok((count, _)) => self.hello.extend(&room[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
        if self.hello.len() < HELLO_BYTES {
            return Ok(None);
        }
        let (greeting, rest) = self.hello.split_at(GREETING.len());
        let (length, name) = rest.split_at(2);
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        if greeting != GREETING || length > MAX_NAME_BYTES {
            return Err("it is not a program of this kind, or has another version".into());
        }
        Ok(Some(name[..length].to_vec()))
    }

    pub fn ring(&self) {
        self.write(RING);
    }

    pub fn ring_done(&self) {
        self.write(DONE);
    }

    fn write(&self, word: u8) {
        // A full socket has rung already; a closed one is noticed on reading.
        let _ = send(&self.socket, &[word], SendFlags::NOSIGNAL);
    }

    /// Reads the signals received since the last call.
    pub fn listen(&self) -> Rung {
        let mut rung = Rung::default();
        loop {
            let mut words = [0; 256];
            match recv(&self.socket, &mut words, RecvFlags::empty()) {
                Ok((0, _)) => rung.gone = true,
                Ok((count, _)) => {
                    let words = &words[..count];
                    rung.ring |= words.contains(&RING);
                    rung.done |= words.contains(&DONE);
                    if count == 256 {
                        continue;
                    }
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                Err(_) => rung.gone = true,
            }
            return rung;
        }
    }

    /// Tells the other end that this one sends nothing more.
    pub fn hang_up(&self) {
        let _ = shutdown(&self.socket, Shutdown::Write);
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
