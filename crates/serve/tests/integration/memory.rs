// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BARs with plain memory: a client maps them and shares the memory with the lab; all other
//! accesses trap.

use crate::support;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crosslane_driver::{
    ChannelKind, CompletionLevel, Contents, Device, MEMORY_BAR, MemoryCard, StreamSource, Target,
    Window, WindowOptions,
};
use crosslane_host::{Mapping, Topology};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::BusAddress;
use crosslane_vfio::user::protocol::{Area, Capabilities, Command, Header, RegionInfo, Version};
use crosslane_vfio::user::socket::{Message, receive, send};
use crosslane_vfio::{Function, FunctionError, VfioBus, block_on, user};
use rustix::fs::{FallocateFlags, fallocate, fstat, ftruncate};
use rustix::io::Errno;

use support::*;

fn served(devices: &[&str], is_generic: bool) -> Served {
    let folder = tempdir().unwrap();
    Served::start(&lab_with_a_memory_card(folder.path(), is_generic), devices)
}

/// Opens the functions behind the sockets, and a bus of them.
fn functions(served: &Served) -> (Vec<Arc<user::UserFunction>>, VfioBus) {
    let functions = user::open(&served.sockets, REQUEST).unwrap();
    let all = functions.iter().map(|function| Arc::clone(function) as Arc<dyn Function>).collect();
    (functions, VfioBus::new(all, None).unwrap())
}

/// Loads from the card in requests of its bus, eight bytes each.
fn loaded(card: &user::UserFunction, offset: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    for (word, at) in data.chunks_mut(8).zip((offset..).step_by(8)) {
        card.read(MEMORY_BAR, at, word).unwrap();
    }
    data
}

#[test]
fn a_memory_card_is_mapped_and_its_registers_trap() {
    let served = served(&[CARD, "fpga1"], false);
    let (functions, bus) = functions(&served);
    let card = &functions[0];
    let part_of = |bar: u8| {
        let region = card.region(bar).unwrap();
        let parts = region.parts.iter().map(|part| (part.offset, part.uncached.bytes()));
        (region.bytes, parts.collect::<Vec<_>>())
    };
    // Of the memory's BAR, the part with memory behind it; of registers and the FIFO nothing.
    assert_eq!(part_of(MEMORY_BAR), (CARD_BAR_BYTES, vec![(0, BANKS_BYTES)]));
    assert!([0, 2].into_iter().all(|bar| part_of(bar).1.is_empty()));
    // An engine has registers, tables and receive queues.
    let engine = &functions[1];
    assert!((0..6).filter_map(|bar| engine.region(bar)).all(|region| region.parts.is_empty()));
    block_on(async {
        let opened = MemoryCard::open_by_name(bus.clone(), card.name()).await.unwrap();
        for (mapping, at) in [(Mapping::Uncached, 12_340), (Mapping::WriteCombined, MIB + 5)] {
            let range = 0..BANKS_BYTES;
            let contents = Contents::Memory;
            let options =
                WindowOptions::new(MEMORY_BAR, range).with_mapping(mapping).with_contents(contents);
            let window = Window::open(bus.clone(), card.id(), options).unwrap();
            let data = pattern(at as u32, MIB);
            window.copy(at, &data).await.unwrap();
            window.flush().await.unwrap();
            let mut back = vec![0; data.len()];
            window.read(at, &mut back).await.unwrap();
            assert!(back == data, "{mapping:?}");
            // These accesses were not requests to the card.
            let counted = opened.take_metrics().await.unwrap();
            assert!(counted.sizes.is_empty(), "{mapping:?}: {counted:?}");
            // Now some are: the card's bus reads what was stored, and vice versa.
            let first = at.next_multiple_of(8);
            let skip = (first - at) as usize;
            assert_eq!(loaded(card, first, 256), data[skip..skip + 256], "{mapping:?}");
            card.write(MEMORY_BAR, first, &[0xa5; 8]).unwrap();
            // A load behind the store shows that it has arrived.
            loaded(card, first + 8, 8);
            window.read(first, &mut back[..8]).await.unwrap();
            assert_eq!(back[..8], [0xa5; 8], "{mapping:?}");
            let counted = opened.take_metrics().await.unwrap();
            assert_eq!(counted.sizes, [(8, 1, 33)], "{mapping:?}");
        }
        // No memory lies beyond.
        let error = card.read(MEMORY_BAR, BANKS_BYTES, &mut [0; 8]).unwrap_err();
        assert!(matches!(error, FunctionError::Refused { .. }), "{error}");
    });
}

/// A card of the same lab writes into the memory: the client sees it, and overwrites it.
#[test]
fn the_client_sees_what_peers_write_and_the_bus_what_the_client_stores() {
    let served = served(&[CARD, "fpga1"], false);
    let (functions, bus) = functions(&served);
    let (card, engine) = (&functions[0], functions[1].id());
    let infos = bus.functions().unwrap();
    let info = infos.iter().find(|info| info.id == card.id()).unwrap();
    let bar = info.bars.iter().find(|bar| bar.index == usize::from(MEMORY_BAR)).unwrap();
    let base = bar.base.0;
    let (part, _) = card.region(MEMORY_BAR).unwrap().part(0, BANKS_BYTES).unwrap();
    block_on(async {
        let device = Device::open(bus.clone(), engine).await.unwrap();
        device.user().seed(3).await.unwrap();
        device.user().route(StreamSource::Generator, StreamSource::Generator).await.unwrap();
        let mut peer = channel(&device, ChannelKind::Peer).await;
        let target = Target::Bus(BusAddress(base + 3 * PAGE), MIB);
        peer.transfer(to(&device, target, CompletionLevel::Sent)).await.unwrap();
        // A load over its card's bus shows that it has arrived.
        let last = 3 * PAGE + MIB - 8;
        let begun = std::time::Instant::now();
        while loaded(card, last, 8) != pattern(3, MIB)[MIB as usize - 8..] {
            assert!(begun.elapsed().as_secs() < 20, "the last of it has not arrived");
        }
        let mut there = vec![0; MIB as usize];
        part.uncached.copy_out(3 * PAGE, &mut there);
        assert!(there == pattern(3, MIB), "another card wrote something else");
        // Vice versa: requests on the card's bus read what is stored over a peer's data.
        let middle = 3 * PAGE + MIB / 2;
        part.uncached.store(middle, &pattern(9, PAGE), crosslane_vfio::StoreWidth::B8);
        assert_eq!(loaded(card, middle, PAGE as usize), pattern(9, PAGE));
        assert_eq!(
            loaded(card, middle + PAGE, 64),
            pattern(3, MIB)[(MIB / 2 + PAGE) as usize..][..64]
        );
    });
}

#[test]
fn memory_stays_as_it_is_while_it_is_not_decoded_and_over_resets_and_clients() {
    let served = served(&[CARD], false);
    let (functions, bus) = functions(&served);
    let card = &functions[0];
    let (part, _) = card.region(MEMORY_BAR).unwrap().part(0, BANKS_BYTES).unwrap();
    let word = || part.uncached.word(5 * PAGE).load(std::sync::atomic::Ordering::Relaxed);
    card.write(MEMORY_BAR, 5 * PAGE, &7_u64.to_le_bytes()).unwrap();
    assert_eq!((loaded(card, 5 * PAGE, 8), word()), (7_u64.to_le_bytes().to_vec(), 7));
    card.config_write(reg::COMMAND, &[0, 0]).unwrap();
    let error = card.read(MEMORY_BAR, 5 * PAGE, &mut [0; 8]).unwrap_err();
    assert!(matches!(error, FunctionError::Refused { errno: 5, .. }), "{error}");
    assert_eq!(word(), 7);
    part.uncached.store(5 * PAGE, &[8], crosslane_vfio::StoreWidth::B8);
    card.config_write(reg::COMMAND, &[2, 0]).unwrap();
    assert_eq!(loaded(card, 5 * PAGE, 8), 8_u64.to_le_bytes());
    bus.reset(card.id()).unwrap();
    assert_eq!((word(), loaded(card, 5 * PAGE, 8)), (8, 8_u64.to_le_bytes().to_vec()));
    drop((functions, bus));
    served.wait_for("the client has gone");
    let next = user::open(&served.sockets, REQUEST).unwrap().remove(0);
    let (part, _) = next.region(MEMORY_BAR).unwrap().part(0, BANKS_BYTES).unwrap();
    let mut there = [0; 8];
    part.uncached.copy_out(5 * PAGE, &mut there);
    assert_eq!(there, 8_u64.to_le_bytes());
}

/// A connection on which the test sends every message.
struct Bare(UnixStream);

impl Bare {
    fn connect(served: &Served, capabilities: Capabilities) -> Self {
        let bare = Self(UnixStream::connect(&served.sockets[0]).unwrap());
        bare.0.set_read_timeout(Some(REQUEST)).unwrap();
        let version = Version { major: 0, minor: 1, capabilities };
        bare.ask(Command::Version, &version.encode());
        bare
    }

    fn ask(&self, command: Command, payload: &[u8]) -> Message {
        send(&self.0, &Header::command(1, command, payload.len()), payload, &[]).unwrap();
        receive(&self.0).unwrap()
    }

    fn region(&self, bar: u8, room_bytes: u32) -> (RegionInfo, Vec<u8>, Vec<OwnedFd>) {
        let asked = RegionInfo::question(bar.into(), room_bytes);
        let reply = self.ask(Command::RegionInfo, &asked);
        let info = RegionInfo::decode(&reply.payload).unwrap();
        (info, reply.payload, reply.descriptors)
    }
}

/// The messages on the socket, byte by byte where QEMU depends on it.
#[test]
fn a_client_is_given_one_file_that_it_cannot_take_away() {
    let served = served(&[CARD], false);
    let bare = Bare::connect(&served, Capabilities::OURS);
    // Without room for the list of areas, the reply has none and does not mention it.
    let (info, payload, _) = bare.region(MEMORY_BAR, 32);
    assert_eq!((info.areas, info.room_bytes, payload.len()), (vec![], 64, 32));
    assert_eq!(payload[4..8], 0b0111_u32.to_ne_bytes());
    let (info, payload, files) = bare.region(MEMORY_BAR, info.room_bytes);
    assert_eq!(info.areas, [Area { offset: 0, bytes: BANKS_BYTES }]);
    assert_eq!((info.bytes, info.file_offset, payload.len()), (CARD_BAR_BYTES, 0, 64));
    assert_eq!(payload[4..8], 0b1111_u32.to_ne_bytes());
    let [file] = &files[..] else { panic!("{} files", files.len()) };
    let stat = fstat(file).unwrap();
    assert_eq!((stat.st_size as u64, stat.st_blocks), (CARD_BAR_BYTES, 0), "it is sparse");
    assert_eq!(ftruncate(file.as_fd(), PAGE), Err(Errno::PERM));
    // A client may make holes in it: they read as zeros.
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, hole, 0, BANKS_BYTES).unwrap();
    for bar in [0, 2] {
        let (info, _, files) = bare.region(bar, 4096);
        assert!(!info.mappable && info.areas.is_empty() && files.is_empty(), "BAR{bar}");
    }
    drop(bare);
    // A client that accepts no files gets none.
    let bare = Bare::connect(&served, Capabilities { max_descriptors: 0, ..Capabilities::OURS });
    let (info, _, files) = bare.region(MEMORY_BAR, 4096);
    assert!(!info.mappable && info.readable && files.is_empty());
}

/// All BARs of a generic endpoint are memory.
#[test]
fn a_generic_endpoint_is_mapped_as_a_whole() {
    let served = served(&[CARD], true);
    let (functions, bus) = functions(&served);
    let endpoint = &functions[0];
    for bar in (0..6).filter(|bar| endpoint.region(*bar).is_some()) {
        let region = endpoint.region(bar).unwrap();
        let (part, _) = region.part(0, region.bytes).expect("it is one part");
        let marks = [u64::from(bar) + 1, !u64::from(bar)];
        for (place, mark) in [PAGE, region.bytes - 8].into_iter().zip(marks) {
            part.uncached.store(place, &mark.to_le_bytes(), crosslane_vfio::StoreWidth::B8);
            let mut there = [0; 8];
            endpoint.read(bar, place, &mut there).unwrap();
            assert_eq!(u64::from_le_bytes(there), mark, "BAR{bar} {place:#x}");
            endpoint.write(bar, place, &(!mark).to_le_bytes()).unwrap();
            // A read completes behind the earlier writes.
            endpoint.read(bar, place, &mut there).unwrap();
            part.uncached.copy_out(place, &mut there);
            assert_eq!(u64::from_le_bytes(there), !mark, "BAR{bar} {place:#x}");
        }
    }
    drop(bus);
}
