// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random messages of a vfio-user server: bytes, payloads, whole conversations.

use crate::played_server;

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bolero::TypeGenerator;
use crosslane_vfio::user::UserFunction;
use crosslane_vfio::user::protocol::{
    Command, DeviceInfo, DmaAccess, DmaMap, DmaUnmap, Header, InterruptInfo, RegionAccess,
    RegionInfo, SetInterrupts, Version,
};
use crosslane_vfio::user::socket::{receive, send};

use played_server::*;

#[derive(Clone, Debug, TypeGenerator)]
enum Deed {
    Reply,
    Refusal(i32),
    /// A wrong payload.
    Payload(Vec<u8>),
    /// The right payload with one byte changed.
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
    /// A read or write of memory, mostly at mapped addresses.
    Memory {
        is_write: bool,
        address: u16,
        bytes: u16,
        data: Vec<u8>,
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

/// Plays the server: a deed for each message, then correct answers.
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
        let extra = |header: &Header, payload: &[u8]| {
            let result = send(stream, header, payload, &[]);
            reply(stream, &message, &memory);
            result
        };
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
                extra(&stray.reply(payload.len()), payload)
            }
            Some(Deed::Own { number, payload, wants_reply }) => {
                let mut own = Header::command(7, Command::DmaWrite, payload.len());
                own.command = *number;
                extra(&if *wants_reply { own } else { own.without_reply() }, payload)
            }
            Some(Deed::Memory { is_write, address, bytes, data }) => {
                let command = if *is_write { Command::DmaWrite } else { Command::DmaRead };
                let address = 0x10_0000 - 0x100 + u64::from(*address % 0x1200);
                let access = DmaAccess { address, bytes: (*bytes).into() };
                let payload = access.encode(data);
                extra(&Header::command(8, command, payload.len()), &payload)
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

/// Every call ends in time, with a result or an error, whatever the server does.
#[test]
fn fuzz_client() {
    let deadline = Duration::from_millis(30);
    bolero::check!().with_type::<Vec<Deed>>().with_iterations(300).for_each(|deeds| {
        let mine = deeds.clone();
        let (path, thread) = server(move |stream| play(&stream, &mine));
        let begun = Instant::now();
        // Seventeen requests to open it and twenty-six to use it, each at most `deadline` long.
        if let Ok(function) = UserFunction::open(&path, ID, deadline) {
            for _ in 0..2 {
                let _ = use_all(&function);
            }
        }
        assert!(begun.elapsed() < 60 * deadline + LONG, "{:?}", begun.elapsed());
        thread.join().unwrap();
    });
}

/// Decodes any bytes as the payload of any message.
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
        let _ = DmaAccess::decode_written(bytes);
        if let Ok((access, data)) = DmaAccess::decode_with_data(bytes) {
            assert_eq!(access.encode(data), bytes[..DmaAccess::BYTES + data.len()]);
            assert_eq!(DmaAccess::decode_written(bytes), Ok(access));
        }
        if let Ok((access, data)) = RegionAccess::decode_with_data(bytes) {
            assert_eq!(access.encode(data), bytes[..RegionAccess::BYTES + data.len()]);
        }
    });
}
