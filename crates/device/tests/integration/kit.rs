// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accesses that all devices answer alike: any width and alignment at BAR 0, and requests that no
//! BAR claims.

use crosslane_device::network_processor::NetworkProcessor;
use crosslane_device::nic::Nic;
use crosslane_device::{Engine, MemoryCard, MemoryCardParameters};
use crosslane_fabric::*;
use crosslane_pcie::config::{BarKind, BarRequest, Identity, registers};
use crosslane_pcie::tlp::{CompletionStatus, Header};
use crosslane_pcie::units::{BusAddress, Tag};
use crosslane_regs::{Written, engine, memory_card, network_processor as map};

use crate::network_processor::stand::processor;
use crate::nic::stand::nic;
use crate::outside::Bench;
use crate::support::fabric_support::{Stand, direct_device};
use crate::support::{HOST, own, settings};
use crosslane_device::kit::{Answer, Aperture, Arrival, Function, RegisterFile};

const BASE: u64 = MMIO_HOLE.start;

fn memory_card() -> MemoryCardParameters {
    MemoryCardParameters {
        banks: 1,
        bank_bytes: 4096,
        beat_bytes: 64,
        write_interval: crate::support::ns(30),
        beat: crate::support::ns(4),
        read_latency: crate::support::ns(100),
        fifo_window_bytes: 64,
        fifo_bytes: 100,
    }
}

/// Creates each device on a root port, with its registers at [`BASE`].
fn stands() -> Vec<(&'static str, Stand)> {
    let devices: [(_, Box<dyn Device>); 4] = [
        ("engine", Box::new(Engine::new(own()))),
        ("memory card", Box::new(MemoryCard::new(memory_card()))),
        ("NIC", Box::new(Nic::new(nic()))),
        ("network processor", Box::new(NetworkProcessor::new(processor()))),
    ];
    let kind = BarKind::Memory32 { prefetchable: false };
    let bar = |size_bytes| Some(BarRequest { kind, size_bytes });
    let bars = [bar(1 << 16), None, bar(4096), None, bar(4096), None];
    let stand = |device| direct_device(&settings(), Identity::default(), bars, device);
    devices.into_iter().map(|(name, device)| (name, stand(device))).collect()
}

fn load(stand: &mut Stand, address: u64, bytes: u32) -> Result<u64, LoadError> {
    stand.fabric.host_load(stand.root, 0, BusAddress(address), bytes, 1).unwrap();
    assert!(stand.fabric.run_until_host_event());
    let mut events = Vec::new();
    stand.fabric.take_host_events(&mut events);
    match events.pop() {
        Some(HostEvent::Loaded { result, .. }) => result,
        event => panic!("not an answer: {event:?}"),
    }
}

fn store(stand: &mut Stand, address: u64, bytes: &[u8]) {
    let width = bytes.len() as u32;
    stand.fabric.host_store(stand.root, 0, BusAddress(address), bytes, width, 1).unwrap();
    assert!(stand.fabric.run_until_host_event());
    stand.fabric.take_host_events(&mut Vec::new());
}

/// A debugger reads bytes, and software may read MSI-X's structures by 8 B (PCIe 6.x 7.7.2).
#[test]
fn parts_and_pairs_of_registers_are_read() {
    for (name, mut stand) in stands() {
        let mut at = |offset, bytes| load(&mut stand, BASE + offset, bytes).unwrap();
        for low in [0x00, 0x08, 0x1000, 0x1008, 0x1800] {
            let pair = at(low, 8);
            assert_eq!(pair, at(low, 4) | at(low + 4, 4) << 32, "{name}, {low:#x}");
            for (offset, bytes) in [(0, 1), (1, 1), (2, 2), (3, 1), (5, 1), (6, 2)] {
                let part = pair >> (8 * offset) & ((1 << (8 * bytes)) - 1);
                assert_eq!(at(low + offset, bytes), part, "{name}, {bytes} B at {offset}");
            }
        }
        assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
    }
}

#[test]
fn longer_and_unaligned_reads_of_registers_violate_the_programming_model() {
    let mut bench = Bench::new(&settings());
    let mut function = Function::default();
    function.bars[0] = Aperture { base: BASE, bytes: 4096 };
    let id = bench.id;
    for (offset, bytes) in [(4, 8), (0, 12), (0, 64), (1, 7), (0, 5), (3, 2)] {
        let read = Header::memory_read(id, Tag(0), BusAddress(BASE + offset), bytes);
        let arrival = bench.with(|_, port| function.sort(&read, port));
        let abort = Answer::Refused(CompletionStatus::CompleterAbort);
        assert_eq!(arrival, Arrival::Answered(abort), "{bytes} B at {offset}");
    }
}

#[test]
fn a_request_of_no_bar_is_unsupported() {
    for (name, mut stand) in stands() {
        let id = stand.fabric.routing_id(stand.fabric.node(stand.endpoints[0]).ports[0]);
        stand.fabric.config_write(HOST, id, registers::BAR0, BASE as u32 + (1 << 19), 0xf);
        let loaded = load(&mut stand, BASE, 4);
        let is_refused =
            matches!(&loaded, Err(LoadError::Refused { status: "Unsupported Request", .. }));
        assert!(is_refused, "{name}: {loaded:?}");
        store(&mut stand, BASE, &[0; 4]);
        stand.fabric.run(None);
        let is_it = |error: &&ErrorRecord| matches!(error.kind, ErrorKind::Unrouted { .. });
        assert_eq!(stand.fabric.errors().iter().filter(is_it).count(), 2, "{name}");
    }
}

/// Each whole double word of a wide store counts, whatever is beside it.
#[test]
fn wide_stores_write_each_whole_register() {
    let [_, (_, mut card), _, (_, mut processor)] = stands().try_into().ok().unwrap();
    // `take` of the memory card, in a store that covers the reserved word behind it, too.
    store(&mut card, BASE + (1 << 16) + 4096, &[7; 8]);
    store(&mut card, BASE + u64::from(memory_card::CONTROL), &[1, 0, 0, 0, 0, 0, 0, 0]);
    let writes = memory_card::SIZE_CLASSES.at(3) + memory_card::size_class::WRITES;
    assert_eq!(load(&mut card, BASE + u64::from(writes), 4), Ok(1), "writes of 5 to 8 B");
    let wide = 0x1234_5678_9abc_de40_u64.to_le_bytes();
    store(&mut processor, BASE + u64::from(map::PUT_COUNTS_LOW), &wide);
    for (offset, value) in [(map::PUT_COUNTS_LOW, 0x9abc_de40), (map::PUT_COUNTS_HIGH, 0x1234_5678)]
    {
        assert_eq!(load(&mut processor, BASE + u64::from(offset), 4), Ok(value));
    }
    // Half a register is not written.
    store(&mut processor, BASE + u64::from(map::PUT_COUNTS_LOW), &[0xff, 0xff]);
    assert_eq!(load(&mut processor, BASE + u64::from(map::PUT_COUNTS_LOW), 4), Ok(0x9abc_de40));
}

#[test]
fn a_register_file_keeps_the_bits_that_its_map_names() {
    let mut file = RegisterFile::new(engine::channel::WRITTEN);
    let control = engine::channel::control::RESTART.mask() | engine::channel::control::RUN.mask();
    assert_eq!(file.write(engine::channel::CONTROL, control | 1 << 20), Some(control));
    assert_eq!(file.get(engine::channel::CONTROL), engine::channel::control::RUN.mask());
    // Software does not write this one.
    assert_eq!(file.write(engine::channel::COMPLETED, 7), None);
    assert_eq!(file.get(engine::channel::COMPLETED), 0);
    let is_sorted = |all: &[Written]| all.is_sorted_by_key(|register| register.offset);
    assert!(is_sorted(engine::channel::WRITTEN) && is_sorted(map::WRITTEN));
}
