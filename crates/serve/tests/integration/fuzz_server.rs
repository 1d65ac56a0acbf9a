// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A misbehaving client: invalid bytes, messages with any numbers, descriptors that are not files.
//! The server answers or closes the connection, and serves the next client as usual.

use crate::support;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::RefUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bolero::TypeGenerator;
use crosslane_pcie::units::RoutingId;
use crosslane_vfio::user::protocol::{
    CONFIG_REGION, Capabilities, Command, DmaMap, DmaUnmap, Header, InterruptAction, InterruptData,
    RegionAccess, RegionInfo, SetInterrupts, Version,
};
use crosslane_vfio::user::socket::{receive, send};
use crosslane_vfio::{Function, user};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::io::pwrite;

use support::*;

/// Clients of a plain run; `make fuzz` sets another number.
const ITERATIONS: usize = 400;
/// Messages of one client.
const MOST_MESSAGES: usize = 12;
/// Size of the clients' file, bytes.
const FILE_BYTES: u64 = 1 << 20;

/// Numbers that are easy to forget.
#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Number {
    Zero,
    Page(u8),
    Small(u16),
    PowerOfTwo(u8),
    BelowPowerOfTwo(u8),
    Any(u64),
}

impl Number {
    fn value(self) -> u64 {
        match self {
            Self::Zero => 0,
            Self::Page(page) => u64::from(page) << 12,
            Self::Small(number) => number.into(),
            Self::PowerOfTwo(bit) => 1 << (bit % 64),
            Self::BelowPowerOfTwo(bit) => u64::MAX >> (bit % 64),
            Self::Any(number) => number,
        }
    }
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
enum File {
    None,
    Sealed,
    Open,
    Socket,
    Two,
}

#[derive(Clone, Debug, TypeGenerator)]
enum What {
    Map {
        offset: Number,
        address: Number,
        bytes: Number,
        writable: bool,
        file: File,
    },
    Unmap {
        all: bool,
        address: Number,
        bytes: Number,
    },
    DeviceInfo,
    RegionInfo {
        index: u8,
        room: Number,
    },
    InterruptInfo {
        index: u8,
    },
    SetInterrupts {
        data: u8,
        action: u8,
        index: u8,
        start: Number,
        count: Number,
        file: File,
    },
    Read {
        region: u8,
        offset: Number,
        bytes: Number,
    },
    Write {
        region: u8,
        offset: Number,
        data: Vec<u8>,
        says: Option<Number>,
    },
    /// Registers with effects: Command, BARs, MSI-X.
    Config {
        register: u8,
        value: u32,
    },
    Reset,
    Version {
        bytes: Vec<u8>,
    },
    /// A command of any number with any payload.
    Command {
        number: u16,
        payload: Vec<u8>,
        file: File,
    },
    /// A reply that was not requested.
    Reply {
        id: u16,
        number: u16,
        payload: Vec<u8>,
    },
    /// A header with any length and flags.
    Header {
        length: Number,
        flags: u32,
        error: u32,
    },
    Bytes(Vec<u8>),
    Shrink,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Client {
    /// Whether it tells its version first, as it must.
    begins_well: bool,
    /// Whether it is one of the memory card: it is given a file.
    of_card: bool,
    messages: Vec<(What, bool)>,
}

struct Files {
    sealed: OwnedFd,
    open: OwnedFd,
    socket: UnixStream,
}

impl Files {
    fn new() -> Self {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = || {
            let file = memfd_create("client", flags).unwrap();
            ftruncate(&file, FILE_BYTES).unwrap();
            file
        };
        let sealed = file();
        fcntl_add_seals(&sealed, SealFlags::SHRINK).unwrap();
        Self { sealed, open: file(), socket: UnixStream::pair().unwrap().0 }
    }

    fn of(&self, file: File) -> Vec<std::os::fd::BorrowedFd<'_>> {
        match file {
            File::None => vec![],
            File::Sealed => vec![self.sealed.as_fd()],
            File::Open => vec![self.open.as_fd()],
            File::Socket => vec![self.socket.as_fd()],
            File::Two => vec![self.sealed.as_fd(), self.open.as_fd()],
        }
    }
}

/// Encodes the message: command number, payload, files.
fn message(what: &What) -> (u16, Vec<u8>, File) {
    let of = |command: Command, payload| (command as u16, payload, File::None);
    match what.clone() {
        What::Map { offset, address, bytes, writable, file } => {
            let (offset, address, bytes) = (offset.value(), address.value(), bytes.value());
            let map =
                DmaMap { readable: true, writable, offset, address, bytes, ..Default::default() };
            (Command::DmaMap as u16, map.encode(), file)
        }
        What::Unmap { all, address, bytes } => {
            let (address, bytes) = (address.value(), bytes.value());
            let unmap = DmaUnmap { dirty_pages: false, all, address, bytes };
            of(Command::DmaUnmap, unmap.encode())
        }
        What::DeviceInfo => of(Command::DeviceInfo, vec![0; 16]),
        What::RegionInfo { index, room } => {
            let question = RegionInfo::question(index.into(), room.value() as u32);
            of(Command::RegionInfo, question)
        }
        What::InterruptInfo { index } => {
            let numbers = [16, 0, u32::from(index), 0];
            of(Command::InterruptInfo, numbers.into_iter().flat_map(u32::to_ne_bytes).collect())
        }
        What::SetInterrupts { data, action, index, start, count, file } => {
            let data = match data % 3 {
                0 => InterruptData::None,
                1 => InterruptData::Bools(vec![true; usize::from(data)]),
                _ => InterruptData::Eventfds,
            };
            let action = match action % 4 {
                0 => InterruptAction::Mask,
                1 => InterruptAction::Unmask,
                _ => InterruptAction::Trigger,
            };
            let (start, count) = (start.value() as u32, count.value() as u32);
            let set = SetInterrupts { data, action, index: index.into(), start, count };
            (Command::SetInterrupts as u16, set.encode(), file)
        }
        What::Read { region, offset, bytes } => {
            let (offset, bytes) = (offset.value(), bytes.value() as u32 % (1 << 14));
            let access = RegionAccess { offset, region: u32::from(region) % 10, bytes };
            of(Command::RegionRead, access.encode(&[]))
        }
        What::Write { region, offset, data, says } => {
            let bytes = says.map_or(data.len() as u64, Number::value) as u32;
            let access =
                RegionAccess { offset: offset.value(), region: u32::from(region) % 10, bytes };
            of(Command::RegionWrite, access.encode(&data))
        }
        What::Config { register, value } => {
            let registers = [0x04, 0x06, 0x10, 0x14, 0x18, 0x48, 0x50, 0x80, 0x84];
            let offset = registers[usize::from(register) % registers.len()];
            let access = RegionAccess { offset, region: CONFIG_REGION, bytes: 4 };
            of(Command::RegionWrite, access.encode(&value.to_le_bytes()))
        }
        What::Reset => of(Command::Reset, vec![]),
        What::Version { bytes } => of(Command::Version, bytes),
        What::Command { number, payload, file } => (number, payload, file),
        What::Header { .. } | What::Bytes(_) | What::Shrink | What::Reply { .. } => {
            unreachable!("they are no commands")
        }
    }
}

/// Tries to change a file of the server's.
fn take_away(file: &OwnedFd) {
    assert!(ftruncate(file, 0).is_err() && ftruncate(file, 1 << 40).is_err());
    assert!(fcntl_add_seals(file, SealFlags::WRITE).is_err());
    pwrite(file, &[0x5a; 8192], CARD_BAR_BYTES - 4096).unwrap();
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 1 << 16).unwrap();
}

/// Sends a client's messages and reads the replies until the connection is closed.
fn play(socket: &Path, client: &Client) {
    let files = Files::new();
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    if client.begins_well {
        let version = Version { major: 0, minor: 1, capabilities: Capabilities::OURS }.encode();
        let header = Header::command(1, Command::Version, version.len());
        send(&stream, &header, &version, &[]).unwrap();
        receive(&stream).unwrap();
    }
    // Answers that nobody has asked for are refused.
    let mut astray = 0;
    for (id, (what, wants_reply)) in (0..).zip(client.messages.iter().take(MOST_MESSAGES)) {
        let sent = match what {
            What::Header { length, flags, error } => {
                let mut header = Header::command(id, Command::RegionRead, 0).encode();
                header[4..8].copy_from_slice(&(length.value() as u32).to_ne_bytes());
                header[8..12].copy_from_slice(&flags.to_ne_bytes());
                header[12..].copy_from_slice(&error.to_ne_bytes());
                let _ = (&stream).write_all(&header);
                // Later bytes are taken as its payload: whether an answer comes depends on that.
                break;
            }
            What::Bytes(bytes) => {
                let _ = (&stream).write_all(bytes);
                break;
            }
            What::Reply { id, number, payload } => {
                let mut header = Header::command(*id, Command::DmaRead, payload.len());
                header.command = *number;
                if send(&stream, &header.reply(payload.len()), payload, &[]).is_err() {
                    break;
                }
                astray += 1;
                continue;
            }
            What::Shrink => {
                ftruncate(&files.open, 0).unwrap();
                continue;
            }
            what => {
                let (command, payload, file) = message(what);
                let mut header = Header::command(id, Command::Reset, payload.len());
                header.command = command;
                if !wants_reply {
                    header = header.without_reply();
                }
                send(&stream, &header, &payload, &files.of(file))
            }
        };
        if sent.is_err() {
            break;
        }
        if *wants_reply {
            // A reply with the same number, or the end.
            let reply = loop {
                match receive(&stream) {
                    Ok(reply) if reply.header.id == id => break Some(reply),
                    Ok(reply) => {
                        let is_refusal = reply.header.is_reply() && reply.header.is_refusal();
                        assert!(is_refusal && astray > 0, "{what:?} {:?}", reply.header);
                        astray -= 1;
                    }
                    Err(_) => break None,
                }
            };
            let Some(reply) = reply else { break };
            assert!(reply.header.is_reply(), "{what:?}");
            reply.descriptors.into_iter().for_each(|file| take_away(&file));
        }
    }
    // The connection ends within a message or after one; the server notices both.
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    match (&stream).read_to_end(&mut rest) {
        Ok(_) => {}
        // The server had not read everything.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server closes the connection in time: {error}"),
    }
}

/// A client that must not be affected.
struct Bystander(Arc<user::UserFunction>);

// A panic in one of its calls would end the test anyway.
impl RefUnwindSafe for Bystander {}

impl Bystander {
    fn is_served(&self) {
        identify(&self.0, 0x10ee);
    }
}

fn identify(function: &user::UserFunction, vendor: u16) {
    let mut ids = [0; 4];
    function.config_read(0, &mut ids).expect("it is served");
    assert_eq!(ids[..2], vendor.to_le_bytes());
}

#[test]
fn fuzz_server() {
    let folder = tempdir().unwrap();
    let lab = lab_with_a_memory_card(folder.path(), false);
    let served = Served::start(&lab, &["fpga1", CARD, "fpga2"]);
    let sockets = [served.sockets[0].clone(), served.sockets[1].clone()];
    let beside = Bystander(user::open(&served.sockets[2..], REQUEST).unwrap().remove(0));
    bolero::check!().with_type::<Client>().with_iterations(ITERATIONS).for_each(|client| {
        let socket = &sockets[usize::from(client.of_card)];
        play(socket, client);
        let id = RoutingId::new(1, 0, 0);
        let next = user::UserFunction::open(socket, id, REQUEST).expect("the next is served");
        identify(&next, if client.of_card { 0x1d0f } else { 0x10ee });
        beside.is_served();
        // As after a reset: nothing is mapped or placed.
        let mut header = [0; 0x28];
        next.config_read(0, &mut header).unwrap();
        // The lowest bits of a base address register hold its kind.
        let mut bars = header[0x10..].chunks(4);
        assert!(bars.all(|bar| bar[0] & 0xf0 == 0 && bar[1..] == [0; 3]), "{header:x?}");
        assert_eq!(header[4] & 0b110, 0);
    });
}
