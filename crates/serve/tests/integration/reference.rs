// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests that the tests of the reference implementation make (libvfio-user, `test/py`), made of
//! this server: those that are refused there are refused here. `docs/vfio-user.md` lists all tests.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crosslane_pcie::config::registers as reg;
use crosslane_vfio::user::protocol::{
    CONFIG_REGION, Command, DeviceInfo, Header, InterruptInfo, MAX_DATA_BYTES, MAX_MESSAGE_BYTES,
    MSIX, RegionAccess, RegionInfo, RegionIoDescriptors, Version,
};
use rustix::io::Errno;

use crate::raw::{Raw, count, event, file};
use crate::support::*;

/// Kinds of interrupts that the devices do not have: errors, requests.
const ERR: u32 = 3;
const REQ: u32 = 4;
/// Flags of commands about interrupts.
const NONE: u32 = 1;
const BOOL: u32 = 1 << 1;
const EVENTFD: u32 = 1 << 2;
const MASK: u32 = 1 << 3;
const UNMASK: u32 = 1 << 4;
const TRIGGER: u32 = 1 << 5;
/// Commands that this server does not have: features of a device, data of a migration.
const FEATURE: u16 = 16;
const MIGRATION_READ: u16 = 17;

const INVAL: u32 = Errno::INVAL.raw_os_error() as u32;

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// Words, and double words behind them.
fn longer(numbers: &[u32], more: &[u64]) -> Vec<u8> {
    [words(numbers), more.iter().flat_map(|number| number.to_ne_bytes()).collect()].concat()
}

/// Makes requests that must be refused, and one in order after each.
fn refused(raw: &Raw, command: u16, payloads: &[(&str, Vec<u8>)]) {
    for (what, payload) in payloads {
        let error = raw.ask(command, payload, &[]).expect_err(what);
        assert_eq!(error, INVAL, "{what}");
        assert_eq!(raw.read_config(0, 2), 0x10ee_u16.to_le_bytes(), "{what}");
    }
}

fn served() -> (Served, Raw) {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let raw = Raw::connect(&served.sockets[0]);
    (served, raw)
}

/// `test_device_get_info`, `test_device_get_irq_info`, `test_device_get_region_info`,
/// `test_device_get_region_info_zero_size`, `test_device_get_region_io_fds`,
/// `test_shadow_ioeventfd_none`.
#[test]
fn descriptions_need_room_and_an_index_in_range() {
    let (_served, raw) = served();
    let short = || ("short", words(&[0, 0]));
    refused(&raw, Command::DeviceInfo as u16, &[short(), ("argsz", words(&[8, 0, 0, 0]))]);
    let reply = raw.ask(Command::DeviceInfo as u16, &words(&[32, 0, 0, 0]), &[]).unwrap();
    assert_eq!(reply.payload, words(&[16, 3, 9, 5]));
    let info = DeviceInfo::decode(&reply.payload).unwrap();
    assert!(info.resets && info.is_pci);

    let wrong = [short(), ("argsz", words(&[8, 0, MSIX, 0])), ("index", words(&[16, 0, 5, 0]))];
    refused(&raw, Command::InterruptInfo as u16, &wrong);
    for (argsz, kind, has) in [(16, MSIX, true), (32, MSIX, true), (16, REQ, false)] {
        let asked = words(&[argsz, 0, kind, 0]);
        let reply = raw.ask(Command::InterruptInfo as u16, &asked, &[]).unwrap();
        let info = InterruptInfo::decode(&reply.payload).unwrap();
        assert_eq!((info.index, info.count > 0, info.eventfd), (kind, has, has));
        assert_eq!(reply.payload[..4], 16_u32.to_ne_bytes());
    }

    let region = |argsz, index| longer(&[argsz, 0, index, 0], &[0, 0]);
    let wrong = [short(), ("argsz", region(8, 1)), ("index", region(32, 9))];
    refused(&raw, Command::RegionInfo as u16, &wrong);
    for (index, bytes) in [(CONFIG_REGION, 4096), (5, 0), (6, 0), (8, 0)] {
        let reply = raw.ask(Command::RegionInfo as u16, &region(40, index), &[]).unwrap();
        assert_eq!(reply.payload.len(), 32, "{index}");
        let info = RegionInfo::decode(&reply.payload).unwrap();
        let flags = (info.readable, info.writable, info.mappable);
        let is_there = bytes > 0;
        assert_eq!((info.room_bytes, info.bytes, info.file_offset), (32, bytes, 0), "{index}");
        assert_eq!((flags, info.areas.len()), ((is_there, is_there, false), 0), "{index}");
    }

    let asked = |argsz, flags, index, count| words(&[argsz, flags, index, count]);
    let wrong = [
        short(),
        ("flags", asked(216, 1, 0, 0)),
        ("count", asked(216, 0, 0, 1)),
        ("too small", asked(15, 0, 0, 0)),
        ("too large", asked(MAX_DATA_BYTES + 1, 0, 0, 0)),
        ("no region", asked(512, 0, 5, 0)),
        ("out of range", asked(512, 0, 512, 0)),
    ];
    refused(&raw, Command::RegionIoDescriptors as u16, &wrong);
    for argsz in [16, 512] {
        let command = Command::RegionIoDescriptors as u16;
        let reply = raw.ask(command, &asked(argsz, 0, 0, 0), &[]).unwrap();
        assert_eq!(reply.payload, RegionIoDescriptors { index: 0, count: 0 }.encode());
    }
}

/// `test_device_set_irqs`, `test_irq_trigger`.
#[test]
fn commands_about_interrupts_are_checked() {
    let (_served, raw) = served();
    let asked = words(&[16, 0, MSIX, 0]);
    let reply = raw.ask(Command::InterruptInfo as u16, &asked, &[]).unwrap();
    let have = InterruptInfo::decode(&reply.payload).unwrap().count;
    let set = |flags, kind, start, count| words(&[20, flags, kind, start, count]);
    let with = |payload: Vec<u8>, bools: &[u8]| [payload, bools.to_vec()].concat();
    let command = Command::SetInterrupts as u16;
    let wrong = [
        ("nothing", vec![]),
        ("short", words(&[0, 0])),
        ("argsz", words(&[3, TRIGGER | NONE, REQ, 0, 0])),
        ("index", set(TRIGGER | NONE, 5, 0, 0)),
        ("mask and unmask", set(MASK | UNMASK, MSIX, 0, 0)),
        ("none and bool", set(MASK | NONE | BOOL, MSIX, 0, 0)),
        ("range", set(MASK | NONE, MSIX, have - 1, 2)),
        ("start", set(MASK | NONE, MSIX, have + 1, 1)),
        ("range beyond 2^32", set(TRIGGER | EVENTFD, MSIX, 3, u32::MAX)),
        ("action for errors", set(MASK | NONE, ERR, 0, 1)),
        ("action for requests", set(MASK | NONE, REQ, 0, 1)),
        ("range of errors", set(TRIGGER | NONE, ERR, 0, 2)),
        ("range of requests", set(TRIGGER | NONE, REQ, 0, 2)),
        ("start of none", set(MASK | NONE, MSIX, 1, 0)),
        ("start of all", set(TRIGGER | NONE, MSIX, 1, 0)),
        ("action for none", set(MASK | NONE, MSIX, 0, 0)),
        ("data for none", set(TRIGGER | BOOL, MSIX, 0, 0)),
        ("descriptors for none", set(TRIGGER | EVENTFD, MSIX, 0, 0)),
        ("too few bools", with(set(TRIGGER | BOOL, MSIX, 0, 2), &[0])),
        ("too many bools", with(set(TRIGGER | BOOL, MSIX, 0, 2), &[0, 0, 0])),
        ("unmasked by a signal", set(UNMASK | EVENTFD, MSIX, 0, 1)),
    ];
    refused(&raw, command, &wrong);
    let events: Vec<OwnedFd> = [4, 8].map(event).into();
    let both: Vec<BorrowedFd<'_>> = events.iter().map(AsFd::as_fd).collect();
    let other = file(true);
    let descriptors_of = |what: &str, payload: Vec<u8>, files: &[BorrowedFd<'_>]| {
        assert_eq!(raw.ask(command, &payload, files).expect_err(what), INVAL, "{what}");
    };
    descriptors_of("bool", with(set(TRIGGER | BOOL, MSIX, 0, 1), &[0]), &both[..1]);
    descriptors_of("none", set(TRIGGER | NONE, MSIX, 0, 1), &both[..1]);
    descriptors_of("mask", set(MASK | NONE, MSIX, 0, 1), &both[..1]);
    descriptors_of("one for two", set(TRIGGER | EVENTFD, MSIX, 0, 2), &both[..1]);
    descriptors_of("two for one", set(TRIGGER | EVENTFD, MSIX, 0, 1), &both);
    descriptors_of("no eventfd", set(TRIGGER | EVENTFD, MSIX, 0, 1), &[other.as_fd()]);
    let right = |payload: Vec<u8>, files: &[BorrowedFd<'_>]| {
        raw.ask(command, &payload, files).unwrap();
    };
    // Turned off, as a whole and one by one.
    right(set(TRIGGER | NONE, MSIX, 0, 0), &[]);
    right(set(TRIGGER | EVENTFD, MSIX, 0, 1), &[]);
    // The same again: set, replaced, triggered.
    right(set(TRIGGER | EVENTFD, MSIX, 0, 1), &both[..1]);
    right(set(TRIGGER | EVENTFD, MSIX, 0, 2), &both);
    right(set(TRIGGER | NONE, MSIX, 1, 1), &[]);
    assert_eq!([count(&events[0]), count(&events[1])], [4, 9]);
    right(with(set(TRIGGER | BOOL, MSIX, 0, 2), &[0, 1]), &[]);
    assert_eq!([count(&events[0]), count(&events[1])], [0, 1]);
    // Masked, an interrupt is kept until it is unmasked.
    right(set(MASK | NONE, MSIX, 0, 2), &[]);
    right(set(TRIGGER | NONE, MSIX, 0, 2), &[]);
    right(set(TRIGGER | NONE, MSIX, 1, 1), &[]);
    assert_eq!([count(&events[0]), count(&events[1])], [0, 0]);
    right(with(set(UNMASK | BOOL, MSIX, 0, 2), &[0, 1]), &[]);
    assert_eq!([count(&events[0]), count(&events[1])], [0, 2]);
    right(set(UNMASK | NONE, MSIX, 0, 1), &[]);
    assert_eq!(count(&events[0]), 1);
}

/// `test_dma_map`, `test_dma_unmap`, `test_dirty_pages_uninitialised_dma`.
#[test]
fn commands_about_mappings_are_checked() {
    let (served, raw) = served();
    let map = |argsz, flags, address, bytes| longer(&[argsz, flags], &[0, address, bytes]);
    let wrong = [
        ("short", words(&[0, 0])),
        ("argsz", map(8, 3, PAGE, PAGE)),
        ("flags", map(32, 0x13, PAGE, PAGE)),
        ("mapped without a file", map(32, 7, PAGE, PAGE)),
        ("file calls without a file", map(32, 0xb, PAGE, PAGE)),
        ("nothing", map(32, 3, PAGE, 0)),
    ];
    refused(&raw, Command::DmaMap as u16, &wrong);
    let unmap = |argsz, flags, address, bytes| longer(&[argsz, flags], &[address, bytes]);
    let bitmap = |argsz, bytes: u64| [unmap(argsz, 1, PAGE, PAGE), longer(&[], &[PAGE, bytes])];
    raw.map(PAGE, PAGE, None).unwrap();
    let wrong = [
        ("short", words(&[0, 0])),
        ("argsz", unmap(8, 0, PAGE, PAGE)),
        ("argsz beyond all messages", unmap(MAX_DATA_BYTES + 8, 0, PAGE, PAGE)),
        ("bitmap beyond all messages", bitmap(40, u64::MAX - 32).concat()),
        ("bitmap of pages that nobody counts", [bitmap(48, 8).concat(), vec![0; 8]].concat()),
        ("flags", unmap(24, 4, PAGE, PAGE)),
        ("all of a part", unmap(24, 2, 16 * PAGE, PAGE)),
        ("all with a bitmap", unmap(24, 3, 0, 0)),
    ];
    let command = Command::DmaUnmap as u16;
    refused(&raw, command, &wrong);
    // QEMU's virtual IOMMU unmaps without regard to what is mapped.
    let elsewhere = unmap(24, 0, 16 * PAGE, PAGE);
    assert_eq!(raw.ask(command, &elsewhere, &[]).unwrap().payload, elsewhere);
    let part = unmap(24, 0, PAGE, PAGE);
    assert_eq!(raw.ask(command, &part, &[]).unwrap().payload, part);
    for place in 1..64 {
        raw.map(place * PAGE, PAGE, None).unwrap();
    }
    assert_eq!(raw.map(7 * PAGE, PAGE, None), Err(Errno::EXIST.raw_os_error() as u32));
    raw.ask(command, &unmap(24, 2, 0, 0), &[]).unwrap();
    raw.map(7 * PAGE, PAGE, None).unwrap();
    // Either way to a file's bytes.
    for (flags, place) in [(7, 100), (0xb, 101)] {
        let payload = map(32, flags, place * PAGE, PAGE);
        raw.ask(Command::DmaMap as u16, &payload, &[file(true).as_fd()]).unwrap();
    }
    assert!(served.told().iter().all(|line| !line.contains("in the lab")), "{:?}", served.told());
}

/// `test_request_errors`, `test_device_feature_*` and the like of `test_migration`: what a server
/// without migration answers.
#[test]
fn requests_that_do_not_exist_are_refused() {
    let (served, raw) = served();
    refused(
        &raw,
        FEATURE,
        &[
            ("short", vec![0; 7]),
            ("logging of writes", longer(&[24, 6 | 1 << 17], &[PAGE, 0])),
            ("bitmap of writes", longer(&[40, 8 | 1 << 16], &[16 * PAGE, 16 * PAGE, PAGE])),
            ("migration", words(&[16, 1 | 1 << 16, 0, 0])),
            ("probe", words(&[2, 1 | 1 << 18])),
            ("state", words(&[8, 2 | 1 << 17, 2, 0])),
        ],
    );
    refused(&raw, MIGRATION_READ, &[("data", words(&[12, 4]))]);
    refused(&raw, 19, &[("number", vec![0])]);
    for command in [Command::DmaRead, Command::DmaWrite, Command::Version] {
        refused(&raw, command as u16, &[("number", longer(&[], &[PAGE, 0]))]);
    }
    for command in (2..=12).filter(|command| *command != 1) {
        refused(&raw, command, &[("no payload", vec![])]);
    }
    // An answer to nothing.
    let header = Header::command(7, Command::SetInterrupts, 0).reply(0);
    assert_eq!(raw.ask_bytes(&header.encode(), 7, 8).expect_err("nobody asked"), INVAL);
    // Descriptors that come with a bad request are closed.
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    let events: Vec<OwnedFd> = (0..8).map(event).collect();
    let files: Vec<BorrowedFd<'_>> = events.iter().map(AsFd::as_fd).collect();
    let bools = words(&[20, TRIGGER | BOOL, MSIX, 0, 1]);
    for _ in 0..100 {
        assert!(raw.ask(Command::SetInterrupts as u16, &bools, &files).is_err());
    }
    // Other tests of this program open files too.
    assert!(descriptors() < before + 400, "{before} and {}", descriptors());
    // Lengths that no message has end the connection, with an answer before.
    for bytes in [15, MAX_MESSAGE_BYTES + 1] {
        let raw = Raw::connect(&next(&served, &raw));
        let mut header = Header::command(9, Command::SetInterrupts, 0).encode();
        header[4..8].copy_from_slice(&bytes.to_ne_bytes());
        assert_eq!(raw.ask_bytes(&header, 9, 8).expect_err("no message is so long"), INVAL);
        assert!(raw.is_closed());
    }
}

/// Ends a client, and returns the socket for the next.
fn next(served: &Served, raw: &Raw) -> std::path::PathBuf {
    raw.stream.shutdown(std::net::Shutdown::Both).unwrap();
    served.sockets[0].clone()
}

/// `test_negotiate`, and the end of a connection in `test_request_errors`.
#[test]
fn versions_are_checked() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let socket = &served.sockets[0];
    let version = |major: u16, text: &str| {
        [&major.to_ne_bytes()[..], &1_u16.to_ne_bytes(), text.as_bytes()].concat()
    };
    let said = |text: &str| (1, version(0, &format!("{text}\0")));
    let capability = |text: &str| said(&format!("{{ \"capabilities\": {text} }}"));
    let wrong = [
        (1, vec![]),
        (999, version(0, "\0")),
        (1, version(999, "\0")),
        (1, version(0, "{}")),
        said("{"),
        said("\""),
        capability("\"23\""),
        capability(r#"{ "max_msg_fds": "foo" }"#),
        capability(r#"{ "max_msg_fds": -1 }"#),
        capability(r#"{ "max_msg_fds": 1025 }"#),
        capability(r#"{ "migration": "23" }"#),
        capability(r#"{ "migration": { "pgsize": "foo" } }"#),
        capability(r#"{ "migration": { "pgsize": 4095 } }"#),
    ];
    for (command, payload) in wrong {
        let raw = Raw::silent(socket);
        let text = String::from_utf8_lossy(&payload).into_owned();
        assert_eq!(raw.ask(command, &payload, &[]).expect_err(&text), INVAL, "{text}");
        assert!(raw.is_closed(), "{text}");
    }
    let raw = Raw::silent(socket);
    let (command, payload) = said("{}");
    assert_eq!(raw.ask(command, &payload, &[event(0).as_fd()]).expect_err("a file"), INVAL);
    let raw = Raw::silent(socket);
    let mut header = Header::command(3, Command::Version, 0).encode();
    header[4..8].copy_from_slice(&(MAX_MESSAGE_BYTES + 1).to_ne_bytes());
    assert_eq!(raw.ask_bytes(&header, 3, 1).expect_err("no message is so long"), INVAL);
    let right = [
        (1, version(0, "")),
        (1, version(0, "\0")),
        said("{}"),
        capability(r#"{ "max_msg_fds": 1024, "max_data_xfer_size": 1048576 }"#),
    ];
    for (command, payload) in right {
        let raw = Raw::silent(socket);
        let reply = raw.ask(command, &payload, &[]).unwrap();
        let version = Version::decode(&reply.payload).unwrap();
        let limits = version.capabilities;
        assert_eq!((version.major, version.minor), (0, 1));
        assert_eq!((limits.max_descriptors, limits.max_data_bytes), (8, 1 << 20));
    }
}

/// `test_setup_region`, `test_pci_caps` and the sizes of BARs in `test_device_get_region_info`.
#[test]
fn accesses_to_regions_are_checked() {
    let (_served, raw) = served();
    let access = |region, offset, bytes| RegionAccess { offset, region, bytes }.encode(&[]);
    let read = Command::RegionRead as u16;
    let wrong = [
        ("offset beyond 2^64", access(CONFIG_REGION, u64::MAX, 256)),
        ("beyond the end", access(CONFIG_REGION, 4090, 8)),
        ("too many", access(CONFIG_REGION, 0, MAX_DATA_BYTES + 8)),
        ("no region", access(5, 0, 4)),
        ("no such region", access(9, 0, 4)),
        ("short", longer(&[], &[0])),
    ];
    refused(&raw, read, &wrong);
    let write = Command::RegionWrite as u16;
    let wrong = [
        ("short", longer(&[], &[0])),
        ("too few data", [access(CONFIG_REGION, 4, 4), vec![0; 3]].concat()),
        ("too many data", [access(CONFIG_REGION, 4, 4), vec![0; 5]].concat()),
    ];
    refused(&raw, write, &wrong);
    // Nothing at all, also where nothing decodes.
    for command in [read, write] {
        raw.ask(command, &access(0, 0, 0), &[]).unwrap();
    }
    // The size of each BAR, as a kernel finds it.
    let mut masks = Vec::new();
    for register in (0x10..0x28).step_by(4) {
        let before = raw.read_config(register, 4);
        raw.write_config(register, &[0xff; 4]);
        let read = raw.read_config(register, 4).try_into().unwrap();
        masks.push(u64::from(u32::from_le_bytes(read)));
        raw.write_config(register, &before);
    }
    let mut number = 0;
    while number < 6 {
        let wide = masks[number] & 0b110 == 0b100;
        let low = masks[number] & !0xf;
        let mask = if wide { masks[number + 1] << 32 | low } else { low | u64::MAX << 32 };
        let size = if low == 0 && !wide { 0 } else { mask.wrapping_neg() };
        let asked = RegionInfo::question(number as u32, 32);
        let reply = raw.ask(Command::RegionInfo as u16, &asked, &[]).unwrap();
        assert_eq!(RegionInfo::decode(&reply.payload).unwrap().bytes, size, "BAR{number}");
        number += if wide { 2 } else { 1 };
    }
    // MSI-X: the bits of its control register that are its client's, by accesses of every kind.
    let (control, before) = (0x82, raw.read_config(0x80, 12));
    let bits = ((reg::MSIX_ENABLE | reg::MSIX_FUNCTION_MASK) >> 16) as u16;
    let is = |set: u16| {
        let mut expected = before.clone();
        let number = u16::from_le_bytes([before[2], before[3]]) | set;
        expected[2..4].copy_from_slice(&number.to_le_bytes());
        assert_eq!(raw.read_config(0x80, 12), expected, "{set:#x}");
    };
    raw.write_config(control, &[0xff; 2]);
    is(bits);
    raw.write_config(control, &[0; 2]);
    is(0);
    raw.write_config(control + 1, &[(bits >> 8) as u8, 0xff]);
    is(bits);
    raw.write_config(control, &((reg::MSIX_ENABLE >> 16) as u16).to_le_bytes());
    raw.write_config(control + 2, &[0]);
    is((reg::MSIX_ENABLE >> 16) as u16);
}
