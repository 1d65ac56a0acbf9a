// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Servers of vfio-user that a test plays.

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crosslane_host::PageSize;
use crosslane_pcie::units::RoutingId;
use crosslane_vfio::user::UserFunction;
use crosslane_vfio::user::protocol::{
    Area, CONFIG_REGION, Capabilities, Command, DeviceInfo, InterruptInfo, MSIX, RegionAccess,
    RegionInfo, Version,
};
use crosslane_vfio::user::socket::{Message, receive, send};
use crosslane_vfio::{Function, FunctionError, Pages};
use rustix::event::{EventfdFlags, eventfd};

pub const ID: RoutingId = RoutingId(0x100);
/// Deadline for servers that answer.
pub const LONG: Duration = Duration::from_secs(20);
pub const BAR_BYTES: u64 = 0x10000;

/// Plays a server for one client.
pub fn server(play: impl FnOnce(UnixStream) + Send + 'static) -> (PathBuf, JoinHandle<()>) {
    let socket = tempfile::Builder::new().make(|path| UnixListener::bind(path)).unwrap();
    let path = socket.path().to_owned();
    let thread = std::thread::spawn(move || {
        let (stream, _) = socket.as_file().accept().unwrap();
        socket.close().unwrap();
        play(stream);
    });
    (path, thread)
}

/// Returns a correct server's answer, and whether a file goes with it. The second half of one BAR
/// can be mapped.
pub fn answer(message: &Message) -> (Vec<u8>, bool) {
    let plain = |payload| (payload, false);
    match Command::from_repr(message.header.command).unwrap() {
        Command::Version => {
            plain(Version { major: 0, minor: 0, capabilities: Capabilities::UNSAID }.encode())
        }
        Command::DeviceInfo => plain(
            DeviceInfo { resets: true, is_pci: true, regions: 9, interrupt_kinds: 5 }.encode(),
        ),
        Command::RegionInfo => {
            let asked = RegionInfo::decode(&message.payload).unwrap();
            let bytes = match asked.index {
                0 => BAR_BYTES,
                CONFIG_REGION => 4096,
                _ => 0,
            };
            let is_bar = asked.index == 0;
            let areas = vec![Area { offset: BAR_BYTES / 2, bytes: BAR_BYTES / 2 }];
            let info = RegionInfo {
                readable: true,
                writable: true,
                mappable: is_bar,
                index: asked.index,
                bytes,
                areas: if is_bar { areas } else { Vec::new() },
                ..RegionInfo::default()
            };
            (info.encode(asked.room_bytes), is_bar)
        }
        Command::InterruptInfo => {
            let asked = InterruptInfo::decode(&message.payload).unwrap();
            let count = if asked.index == MSIX { 8 } else { 0 };
            plain(InterruptInfo { eventfd: true, count, ..asked }.encode())
        }
        Command::RegionRead => {
            let (access, _) = RegionAccess::decode(&message.payload).unwrap();
            // Each byte tells its offset.
            let first = access.offset;
            let data: Vec<u8> = (0..u64::from(access.bytes)).map(|at| (first + at) as u8).collect();
            let is_flags = access.region == CONFIG_REGION && (0x10..0x28).contains(&first);
            let data = if is_flags { vec![0; data.len()] } else { data };
            plain(access.encode(&data))
        }
        Command::RegionWrite => {
            plain(RegionAccess::decode(&message.payload).unwrap().0.encode(&[]))
        }
        Command::DmaUnmap => plain(message.payload.clone()),
        _ => plain(Vec::new()),
    }
}

pub fn reply(stream: &UnixStream, message: &Message, memory: &Pages) {
    let (payload, has_file) = answer(message);
    let files = [memory.file()];
    let files = if has_file { &files[..] } else { &[] };
    let _ = send(stream, &message.header.reply(payload.len()), &payload, files);
}

pub fn pages() -> Arc<Pages> {
    Arc::new(Pages::allocate(BAR_BYTES, PageSize::Small).unwrap())
}

pub fn in_order(stream: &UnixStream, memory: &Pages) {
    while let Ok(message) = receive(stream) {
        reply(stream, &message, memory);
    }
}

/// Makes every kind of request that a bus makes of a function.
pub fn use_all(function: &UserFunction) -> Result<(), FunctionError> {
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let memory = pages();
    let mut header = [0; 64];
    function.config_read(0, &mut header)?;
    function.config_write(4, &6_u16.to_le_bytes())?;
    let mut register = [0; 4];
    function.read(0, 8, &mut register)?;
    function.write(0, 8, &register)?;
    function.map_dma(0x10_0000, &memory, 0, 4096)?;
    function.unmap_dma(0x10_0000, 4096)?;
    function.set_vectors(&[event.as_fd(), event.as_fd()])?;
    function.reset()
}
