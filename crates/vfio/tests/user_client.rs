// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client of vfio-user against servers that the test plays: in order, out of order, and mad.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bolero::TypeGenerator;
use crosslane_host::PageSize;
use crosslane_pcie::units::RoutingId;
use crosslane_vfio::user::UserFunction;
use crosslane_vfio::user::protocol::{
    Area, CONFIG_REGION, Capabilities, Command, DeviceInfo, DmaMap, DmaUnmap, Header,
    InterruptAction, InterruptData, InterruptInfo, MSIX, ProtocolError, RegionAccess, RegionInfo,
    SetInterrupts, Version,
};
use crosslane_vfio::user::socket::{Message, receive, send};
use crosslane_vfio::{Function, FunctionError, Pages};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

const ID: RoutingId = RoutingId(0x100);
/// For servers that answer.
const LONG: Duration = Duration::from_secs(20);
const BAR_BYTES: u64 = 0x10000;

/// A socket that nobody else has.
fn socket() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("crosslane-{}-{number}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// Plays a server for one client.
fn server(play: impl FnOnce(UnixStream) + Send + 'static) -> (PathBuf, JoinHandle<()>) {
    let path = socket();
    let listener = UnixListener::bind(&path).unwrap();
    let thread = std::thread::spawn({
        let path = path.clone();
        move || {
            let (stream, _) = listener.accept().unwrap();
            std::fs::remove_file(path).unwrap();
            play(stream);
        }
    });
    (path, thread)
}

/// What a server in order answers, and whether a file goes with it: one with a BAR of which the
/// second half can be mapped.
fn answer(message: &Message) -> (Vec<u8>, bool) {
    let plain = |payload| (payload, false);
    match Command::from_number(message.header.command).unwrap() {
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
            // Each byte tells where it is from.
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

fn reply(stream: &UnixStream, message: &Message, memory: &Pages) {
    let (payload, has_file) = answer(message);
    let files = [memory.file()];
    let files = if has_file { &files[..] } else { &[] };
    let _ = send(stream, &message.header.reply(payload.len()), &payload, files);
}

fn pages() -> Arc<Pages> {
    Arc::new(Pages::allocate(BAR_BYTES, PageSize::Small).unwrap())
}

fn in_order(stream: &UnixStream, memory: &Pages) {
    while let Ok(message) = receive(stream) {
        reply(stream, &message, memory);
    }
}

/// All that a bus asks of a function.
fn use_all(function: &UserFunction) -> Result<(), FunctionError> {
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

#[test]
fn a_server_in_order_is_understood() {
    let memory = pages();
    let (path, thread) = server({
        let memory = Arc::clone(&memory);
        move |stream| in_order(&stream, &memory)
    });
    let function = UserFunction::open(&path, ID, LONG).unwrap();
    assert_eq!((function.vectors(), function.most_mappings()), (8, Some(65_535)));
    let region = function.region(0).unwrap();
    assert_eq!((region.bytes, region.parts.len()), (BAR_BYTES, 1));
    assert!(region.part(0, 4).is_none());
    let (part, within) = region.part(BAR_BYTES / 2 + 4096, 8).unwrap();
    memory.mapped().word(BAR_BYTES / 2 + 4096).store(0x1234_5678, Ordering::Relaxed);
    assert_eq!(part.uncached.word(within).load(Ordering::Relaxed), 0x1234_5678);
    assert!((1..6).all(|bar| function.region(bar).is_none()));
    use_all(&function).unwrap();
    let mut bytes = [0; 200];
    function.config_read(0x30, &mut bytes).unwrap();
    assert!(bytes.iter().zip(0x30..).all(|(byte, at)| *byte == at as u8));
    for (offset, bytes) in [(2, 4), (0, 3), (4, 8), (0, 0), (0, 16)] {
        let error = function.read(0, offset, &mut vec![0; bytes]).unwrap_err();
        assert!(matches!(error, FunctionError::Unaligned { .. }), "{error}");
    }
    let error = function.read(0, BAR_BYTES, &mut [0; 4]).unwrap_err();
    assert!(error.to_string().contains("BAR0"), "{error}");
    let error = function.config_read(4092, &mut [0; 8]).unwrap_err();
    assert!(error.to_string().contains("configuration space"), "{error}");
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    assert!(function.set_vectors(&vec![event.as_fd(); 9]).is_err());
    drop(function);
    thread.join().unwrap();
}

/// Replies that nobody waits for, and commands of the server's, in between; two requests that are
/// answered the other way round.
#[test]
fn replies_find_their_requests_in_any_order() {
    let (path, thread) = server(|stream| {
        let memory = pages();
        let mut refused = 0;
        let mut held: Option<Message> = None;
        while let Ok(message) = receive(&stream) {
            if message.header.is_reply() {
                assert!(message.header.is_refusal() && message.header.errno == 95);
                assert_eq!(message.header.command, Command::DmaRead as u16);
                refused += 1;
                continue;
            }
            // The server asks something itself, and answers what nobody has asked.
            let own = Header::command(message.header.id, Command::DmaRead, 16);
            send(&stream, &own, &[0; 16], &[]).unwrap();
            let mut stray = message.header;
            stray.id = stray.id.wrapping_add(1000);
            send(&stream, &stray.reply(3), &[1, 2, 3], &[]).unwrap();
            let is_bar = message.header.command == Command::RegionRead as u16
                && RegionAccess::decode(&message.payload).unwrap().0.region == 0;
            match held.take() {
                None if is_bar => held = Some(message),
                Some(first) => {
                    reply(&stream, &message, &memory);
                    reply(&stream, &first, &memory);
                }
                None => reply(&stream, &message, &memory),
            }
        }
        assert!(refused > 10, "{refused}");
    });
    let function = Arc::new(UserFunction::open(&path, ID, LONG).unwrap());
    for round in 0..50_u64 {
        let read = |at: u64| {
            let function = Arc::clone(&function);
            std::thread::spawn(move || {
                let mut bytes = [0; 4];
                function.read(0, at, &mut bytes).unwrap();
                assert_eq!(bytes[0], at as u8);
            })
        };
        let both = [read(round * 4), read(1024 + round * 4 + 4)];
        both.into_iter().for_each(|thread| thread.join().unwrap());
    }
    drop(function);
    thread.join().unwrap();
}

#[test]
fn refusals_say_what_was_refused_and_why() {
    let (path, thread) = server(|stream| {
        let memory = pages();
        while let Ok(message) = receive(&stream) {
            let is_refused = match Command::from_number(message.header.command).unwrap() {
                Command::DmaMap => Some(17),
                // One that does not say why.
                Command::RegionWrite => Some(0),
                _ => None,
            };
            match is_refused {
                Some(errno) => send(&stream, &message.header.refusal(errno), &[], &[]).unwrap(),
                None => reply(&stream, &message, &memory),
            }
        }
    });
    let function = UserFunction::open(&path, ID, LONG).unwrap();
    let error = function.map_dma(0x10_0000, &pages(), 0, 8192).unwrap_err().to_string();
    assert!(error.contains("refused a mapping of 8192 B at 0x100000: File exists"), "{error}");
    let error = function.write(0, 4, &[0; 4]).unwrap_err().to_string();
    assert!(error.contains("refused a write of BAR0 at 0x4: Input/output error"), "{error}");
    // And all goes on.
    function.read(0, 4, &mut [0; 4]).unwrap();
    drop(function);
    thread.join().unwrap();
}

#[test]
fn the_end_of_the_connection_can_be_waited_for() {
    let (path, thread) = server(|stream| {
        let memory = pages();
        while let Ok(message) = receive(&stream) {
            if message.header.command == Command::Reset as u16 {
                return;
            }
            reply(&stream, &message, &memory);
        }
    });
    let function = UserFunction::open(&path, ID, LONG).unwrap();
    let event = function.lost_event().unwrap();
    let wait = |ms: i64| {
        let mut ready = [PollFd::new(&event, PollFlags::IN)];
        let time = Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
        poll(&mut ready, Some(&time)).unwrap()
    };
    assert_eq!((wait(0), function.lost()), (0, None));
    let error = function.reset().unwrap_err();
    assert!(matches!(error, FunctionError::Gone { .. }), "{error}");
    assert_eq!(wait(20_000), 1);
    assert_eq!(function.lost(), Some(error.clone()));
    assert_eq!(function.config_read(0, &mut [0; 4]), Err(error));
    thread.join().unwrap();
}

#[derive(Clone, Debug, TypeGenerator)]
enum Deed {
    Reply,
    Refusal(i32),
    /// Another payload than the right one.
    Payload(Vec<u8>),
    /// One byte of the right payload is another.
    Change {
        at: u16,
        to: u8,
    },
    Cut(u16),
    Stray {
        id: u16,
        command: u16,
        payload: Vec<u8>,
    },
    Own {
        number: u16,
        payload: Vec<u8>,
        wants_reply: bool,
    },
    Header {
        length: u32,
        flags: u32,
    },
    Bytes(Vec<u8>),
    Files,
    Nothing,
    Close,
}

/// What a server does for each message, and then it is in order.
fn play(stream: &UnixStream, deeds: &[Deed]) {
    let memory = pages();
    let mut deeds = deeds.iter();
    while let Ok(message) = receive(stream) {
        if message.header.is_reply() {
            continue;
        }
        let (mut payload, _) = answer(&message);
        let header = message.header;
        let sent = |payload: &[u8]| send(stream, &header.reply(payload.len()), payload, &[]);
        let result = match deeds.next() {
            None | Some(Deed::Reply) => {
                reply(stream, &message, &memory);
                Ok(())
            }
            Some(Deed::Refusal(errno)) => send(stream, &header.refusal(*errno), &[], &[]),
            Some(Deed::Payload(payload)) => sent(payload),
            Some(Deed::Change { at, to }) => {
                let length = payload.len().max(1);
                if let Some(byte) = payload.get_mut(usize::from(*at) % length) {
                    *byte = *to;
                }
                sent(&payload)
            }
            Some(Deed::Cut(bytes)) => sent(&payload[..usize::from(*bytes).min(payload.len())]),
            Some(Deed::Stray { id, command, payload }) => {
                let mut stray = header;
                (stray.id, stray.command) = (*id, *command);
                let result = send(stream, &stray.reply(payload.len()), payload, &[]);
                reply(stream, &message, &memory);
                result
            }
            Some(Deed::Own { number, payload, wants_reply }) => {
                let mut own = Header::command(7, Command::DmaWrite, payload.len());
                own.command = *number;
                let own = if *wants_reply { own } else { own.without_reply() };
                let result = send(stream, &own, payload, &[]);
                reply(stream, &message, &memory);
                result
            }
            Some(Deed::Header { length, flags }) => {
                let mut bytes = header.reply(0).encode();
                bytes[4..8].copy_from_slice(&length.to_ne_bytes());
                bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
                let _ = { stream }.write_all(&bytes);
                Ok(())
            }
            Some(Deed::Bytes(bytes)) => {
                let _ = { stream }.write_all(bytes);
                Ok(())
            }
            Some(Deed::Files) => {
                let files = [memory.file(), stream.as_fd()];
                send(stream, &header.reply(payload.len()), &payload, &files)
            }
            Some(Deed::Nothing) => Ok(()),
            Some(Deed::Close) => return,
        };
        if result.is_err() {
            return;
        }
    }
}

/// Whatever a server does: each call ends in time, with a result or an error.
#[test]
fn fuzz_client() {
    let deadline = Duration::from_millis(30);
    bolero::check!().with_type::<Vec<Deed>>().with_iterations(300).for_each(|deeds| {
        let mine = deeds.clone();
        let (path, thread) = server(move |stream| play(&stream, &mine));
        let begun = Instant::now();
        // Seventeen requests to open it and twenty-six to use it, each at most so long.
        if let Ok(function) = UserFunction::open(&path, ID, deadline) {
            for _ in 0..2 {
                let _ = use_all(&function);
            }
        }
        assert!(begun.elapsed() < 60 * deadline + LONG, "{:?}", begun.elapsed());
        thread.join().unwrap();
    });
}

/// Bytes that are any message's payload.
#[test]
fn fuzz_payloads() {
    bolero::check!().with_type::<Vec<u8>>().with_iterations(20_000).for_each(|bytes| {
        if let Some(head) = bytes.first_chunk()
            && let Ok(header) = Header::decode(head)
        {
            assert_eq!(header.encode(), *head);
        }
        let _ = Version::decode(bytes);
        let _ = DeviceInfo::decode(bytes);
        let _ = InterruptInfo::decode(bytes);
        if let Ok(info) = RegionInfo::decode(bytes) {
            assert_eq!(RegionInfo::decode(&info.encode(u32::MAX)).unwrap().areas, info.areas);
        }
        if let Ok(map) = DmaMap::decode(bytes) {
            assert_eq!(DmaMap::decode(&map.encode()), Ok(map));
        }
        if let Ok(unmap) = DmaUnmap::decode(bytes) {
            assert_eq!(DmaUnmap::decode(&unmap.encode()), Ok(unmap));
        }
        if let Ok(Some(set)) = SetInterrupts::decode(bytes) {
            assert_eq!(SetInterrupts::decode(&set.encode()), Ok(Some(set)));
        }
        if let Ok((access, data)) = RegionAccess::decode_with_data(bytes) {
            assert_eq!(access.encode(data), bytes[..RegionAccess::BYTES + data.len()]);
        }
    });
}

#[test]
fn payloads_that_cannot_be_are_refused() {
    let version = |text: &str| Version::decode(&[&[0; 4], text.as_bytes()].concat());
    assert_eq!(version("").unwrap().capabilities, Capabilities::UNSAID);
    let said = version(r#"{"capabilities":{"max_msg_fds":3,"other":{}}}"#).unwrap().capabilities;
    assert_eq!(said, Capabilities { max_descriptors: 3, ..Capabilities::UNSAID });
    for text in ["{", "\u{0}x", r#"{"capabilities":{"max_msg_fds":"many"}}"#] {
        let result = version(text);
        let is_bad = matches!(result, Err(ProtocolError::BadCapabilities { .. }));
        assert_eq!(is_bad, !text.starts_with('\u{0}'), "{text:?}: {result:?}");
    }
    // A list of capabilities in a circle, out of the message, and with too many parts.
    let info = RegionInfo {
        areas: vec![Area { offset: 0, bytes: 4096 }],
        mappable: true,
        ..RegionInfo::default()
    };
    let good = info.encode(u32::MAX);
    assert_eq!(RegionInfo::decode(&good).unwrap().areas, info.areas);
    for (at, to) in [(36, 32_u32), (36, 4000), (36, 5), (40, 70), (12, 3)] {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&to.to_ne_bytes());
        assert!(RegionInfo::decode(&bad).is_err(), "{at} {to}");
    }
    // What there is no room for is left out.
    let short = RegionInfo::decode(&info.encode(40)).unwrap();
    assert_eq!((short.areas.len(), short.room_bytes), (0, 64));
    let set = SetInterrupts {
        data: InterruptData::None,
        action: InterruptAction::Trigger,
        index: 2,
        start: 0,
        count: 0,
    };
    for flags in [0_u32, 0b11, 0b100_011, 0b11_000_001, 0b1_100_001] {
        let mut bytes = set.encode();
        bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
        assert_eq!(SetInterrupts::decode(&bytes), Ok(None), "{flags:#b}");
    }
}
