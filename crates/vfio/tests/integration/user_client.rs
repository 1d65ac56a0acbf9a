// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client of vfio-user against servers that the test plays: correct, out of order, refusing.

use crate::fails::fails_with;
use crate::played_server;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crosslane_vfio::user::UserFunction;
use crosslane_vfio::user::protocol::{
    Area, Capabilities, Command, DmaAccess, Header, InterruptAction, InterruptData, ProtocolError,
    RegionAccess, RegionInfo, SetInterrupts, Version,
};
use crosslane_vfio::user::socket::{Message, receive, send};
use crosslane_vfio::{Function, FunctionError};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use played_server::*;

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
    fails_with(function.read(0, BAR_BYTES, &mut [0; 4]), "BAR0");
    fails_with(function.config_read(4092, &mut [0; 8]), "configuration space");
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    assert!(function.set_vectors(&[event.as_fd(); 9]).is_err());
    drop(function);
    thread.join().unwrap();
}

/// Stray replies and commands of the server in between; two requests that are answered in reverse
/// order.
#[test]
fn replies_find_their_requests_in_any_order() {
    let (path, thread) = server(|stream| {
        let memory = pages();
        let mut refused = 0;
        let mut held: Option<Message> = None;
        while let Ok(message) = receive(&stream) {
            if message.header.is_reply() {
                assert!(message.header.is_refusal() && message.header.errno == 95);
                assert_eq!(message.header.command, Command::RegionIoDescriptors as u16);
                refused += 1;
                continue;
            }
            // The server sends a command, and a reply without one.
            let own = Header::command(message.header.id, Command::RegionIoDescriptors, 16);
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

/// A server reads and writes its client's memory by messages: only the mapped part.
#[test]
fn memory_is_reached_by_messages() {
    const FIRST: u64 = 0x10_0000;
    const PAGE: u64 = 4096;
    let ask = |stream: &UnixStream, command, access: DmaAccess, data: &[u8]| {
        let payload = access.encode(data);
        send(stream, &Header::command(9, command, payload.len()), &payload, &[]).unwrap();
        let reply = receive(stream).unwrap();
        assert!(reply.header.is_reply() && reply.header.id == 9, "{:?}", reply.header);
        let refused = reply.header.is_refusal().then_some(reply.header.errno);
        refused.map_or(Ok(reply.payload), Err)
    };
    let (path, thread) = server(move |stream| {
        let memory = pages();
        let (mut maps, mut unmaps) = (0, 0);
        while let Ok(message) = receive(&stream) {
            let command = message.header.command;
            if command == Command::DmaMap as u16 {
                assert!(message.descriptors.is_empty(), "it keeps its files");
                maps += 1;
            }
            let access = |address, bytes| DmaAccess { address, bytes };
            let read = |address, bytes| ask(&stream, Command::DmaRead, access(address, bytes), &[]);
            let write = |address, data: &[u8]| {
                ask(&stream, Command::DmaWrite, access(address, data.len() as u64), data)
            };
            if command == Command::Reset as u16 && maps == 2 && unmaps == 0 {
                // Across the seam of two mappings, and each alone.
                let seam = FIRST + 2 * PAGE;
                let data: Vec<u8> = (0..100).collect();
                assert_eq!(write(seam - 50, &data), Ok(access(seam - 50, 100).encode(&[])));
                assert_eq!(read(seam - 50, 100), Ok(access(seam - 50, 100).encode(&data)));
                let all = access(FIRST, 3 * PAGE);
                assert_eq!(read(FIRST, 3 * PAGE).unwrap().len(), all.encode(&[]).len() + 12288);
                // Beyond either end; nothing is written then.
                for (address, bytes) in
                    [(FIRST - 1, 2), (FIRST + 3 * PAGE - 1, 2), (u64::MAX, 1), (u64::MAX, 2)]
                {
                    assert_eq!(read(address, bytes), Err(14), "{address:#x}");
                    assert_eq!(write(address, &vec![0xa5; bytes as usize]), Err(14));
                }
                let end = FIRST + 3 * PAGE - 1;
                assert_eq!(read(end, 1), Ok(access(end, 1).encode(&[0])));
                // Malformed commands.
                assert_eq!(read(FIRST, 1 << 40), Err(22));
                let short = ask(&stream, Command::DmaWrite, access(FIRST, 8), &[1, 2, 3]);
                assert_eq!(short, Err(22));
            }
            if command == Command::Reset as u16 && unmaps == 1 {
                assert_eq!(read(FIRST, 1), Err(14));
                assert!(read(FIRST + 2 * PAGE, 1).is_ok());
                unmaps = 0;
                maps = 0;
            }
            unmaps += u32::from(command == Command::DmaUnmap as u16);
            reply(&stream, &message, &memory);
        }
        assert_eq!((maps, unmaps), (0, 0), "the server has asked for what it meant to");
    });
    let function = UserFunction::open(&path, ID, LONG).unwrap();
    function.keep_files();
    let memory = pages();
    // The later page of the memory at the earlier address.
    function.map_dma(FIRST, &memory, 4 * PAGE, 2 * PAGE).unwrap();
    function.map_dma(FIRST + 2 * PAGE, &memory, PAGE, PAGE).unwrap();
    function.reset().unwrap();
    let mut there = [0; 50];
    memory.mapped().copy_out(6 * PAGE - 50, &mut there);
    assert!(there.iter().zip(0..).all(|(byte, at)| *byte == at), "{there:?}");
    memory.mapped().copy_out(PAGE, &mut there);
    assert!(there.iter().zip(50..).all(|(byte, at)| *byte == at), "{there:?}");
    function.unmap_dma(FIRST, 2 * PAGE).unwrap();
    function.reset().unwrap();
    drop(function);
    thread.join().unwrap();
}

#[test]
fn refusals_say_what_was_refused_and_why() {
    let (path, thread) = server(|stream| {
        let memory = pages();
        while let Ok(message) = receive(&stream) {
            let is_refused = match Command::from_repr(message.header.command).unwrap() {
                Command::DmaMap => Some(17),
                // A refusal without a reason.
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
    let map = function.map_dma(0x10_0000, &pages(), 0, 8192);
    fails_with(map, "refused a mapping of 8192 B at 0x100000: File exists");
    let write = function.write(0, 4, &[0; 4]);
    fails_with(write, "refused a write of BAR0 at 0x4: Input/output error");
    // The connection still works.
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

#[test]
fn payloads_that_cannot_be_are_refused() {
    let raw = |text: &str| Version::decode(&[&[0; 4], text.as_bytes()].concat());
    let version = |text: &str| raw(&format!("{text}\0"));
    assert_eq!(raw("").unwrap().capabilities, Capabilities::UNSAID);
    assert_eq!(version("").unwrap().capabilities, Capabilities::UNSAID);
    let said = version(r#"{"capabilities":{"max_msg_fds":3,"other":{}}}"#).unwrap().capabilities;
    assert_eq!(said, Capabilities { max_descriptors: 3, ..Capabilities::UNSAID });
    let page = |bytes: u32| format!(r#"{{"capabilities":{{"migration":{{"pgsize":{bytes}}}}}}}"#);
    assert!(version(&page(4096)).is_ok());
    // Bytes behind a zero are no text.
    assert!(version("{}\0x").is_ok());
    for result in [
        raw("{}"),
        version("{"),
        version("\""),
        version(r#"{"capabilities":"23"}"#),
        version(r#"{"capabilities":{"max_msg_fds":"many"}}"#),
        version(r#"{"capabilities":{"max_msg_fds":-1}}"#),
        version(r#"{"capabilities":{"max_msg_fds":1025}}"#),
        version(r#"{"capabilities":{"migration":"23"}}"#),
        version(r#"{"capabilities":{"migration":{"pgsize":"23"}}}"#),
        version(&page(4095)),
        version(r#"{"capabilities":{"twin_socket":{"supported":1}}}"#),
    ] {
        let is_bad = matches!(&result, Err(ProtocolError::Malformed { why })
            if why.starts_with("cannot read the capabilities in the version message"));
        assert!(is_bad, "{result:?}");
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
    // A list without room is left out.
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
