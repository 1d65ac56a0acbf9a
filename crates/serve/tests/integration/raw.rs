// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client that sends whatever a test wants, right or wrong.

use std::cell::Cell;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crosslane_vfio::user::protocol::{
    CONFIG_REGION, Capabilities, Command, DmaMap, Header, RegionAccess, Version,
};
use crosslane_vfio::user::socket::{Message, receive, send};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::support::{PAGE, REQUEST};

/// A connection to a server.
pub struct Raw {
    pub stream: UnixStream,
    last: Cell<u16>,
}

impl Raw {
    /// Connects and says nothing.
    pub fn silent(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(REQUEST)).unwrap();
        Self { stream, last: Cell::new(0) }
    }

    /// Connects and agrees on a version.
    pub fn connect(socket: &Path) -> Self {
        let raw = Self::silent(socket);
        raw.greet().unwrap();
        raw
    }

    /// Agrees on a version; the error is the server's number.
    pub fn greet(&self) -> Result<Message, u32> {
        let version = Version { major: 0, minor: 1, capabilities: Capabilities::OURS };
        self.ask(Command::Version as u16, &version.encode(), &[])
    }

    /// Sends a command and waits for its reply; the error is the server's number.
    pub fn ask(
        &self,
        command: u16,
        payload: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<Message, u32> {
        let id = self.post(command, payload, files);
        self.reply(id, command)
    }

    /// Sends a command; returns its number.
    pub fn post(&self, command: u16, payload: &[u8], files: &[BorrowedFd<'_>]) -> u16 {
        let id = self.last.replace(self.last.get().wrapping_add(1));
        let mut header = Header::command(id, Command::Reset, payload.len());
        header.command = command;
        send(&self.stream, &header, payload, files).unwrap();
        id
    }

    /// Sends bytes as they are, and waits for a reply to a message with these numbers.
    pub fn ask_bytes(&self, bytes: &[u8], id: u16, command: u16) -> Result<Message, u32> {
        (&self.stream).write_all(bytes).unwrap();
        self.reply(id, command)
    }

    /// Waits for the reply with these numbers.
    pub fn reply(&self, id: u16, command: u16) -> Result<Message, u32> {
        let reply = receive(&self.stream).expect("the server answers");
        let header = reply.header;
        assert!(header.is_reply() && (header.id, header.command) == (id, command), "{header:?}");
        match header.is_refusal() {
            true => Err(header.errno),
            false => Ok(reply),
        }
    }

    /// Waits until the server closes the connection.
    pub fn is_closed(&self) -> bool {
        receive(&self.stream).is_err_and(|error| {
            let text = error.to_string();
            assert!(text.contains("closed"), "{text}");
            true
        })
    }

    /// Maps a part of a file for DMA.
    pub fn map(&self, address: u64, bytes: u64, file: Option<&OwnedFd>) -> Result<(), u32> {
        let files: Vec<_> = file.into_iter().map(AsFd::as_fd).collect();
        let (readable, writable) = (true, true);
        let map = DmaMap { readable, writable, address, bytes, ..DmaMap::default() };
        self.ask(Command::DmaMap as u16, &map.encode(), &files).map(|_| ())
    }

    pub fn read_config(&self, offset: u64, bytes: u32) -> Vec<u8> {
        let access = RegionAccess { offset, region: CONFIG_REGION, bytes };
        let reply = self.ask(Command::RegionRead as u16, &access.encode(&[]), &[]).unwrap();
        RegionAccess::decode_with_data(&reply.payload).unwrap().1.to_vec()
    }

    pub fn write_config(&self, offset: u64, data: &[u8]) {
        let access = RegionAccess { offset, region: CONFIG_REGION, bytes: data.len() as u32 };
        self.ask(Command::RegionWrite as u16, &access.encode(data), &[]).unwrap();
    }
}

/// Returns a file of one page; sealed, the server maps it and keeps no descriptor.
pub fn file(is_sealed: bool) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("client", flags).unwrap();
    ftruncate(&file, PAGE).unwrap();
    if is_sealed {
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    }
    file
}

/// Returns an eventfd with this count.
pub fn event(count: u32) -> OwnedFd {
    eventfd(count, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

/// Takes the count of an eventfd; 0 if it has none.
pub fn count(event: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::read(event, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
}
