// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bus over functions that the test plays: registers, configuration space, DMA, mappings and
//! their cache.

use crate::fails::{fails, fails_with};
use crate::fake;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crosslane_host::{
    Bus, BusError, DmaMemory, Mapping, PageSize, RegisterAddress, Stores, Topology, TopologyError,
};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::RoutingId;
use crosslane_vfio::{
    BusOptions, Function, FunctionError, Mapped, NumaNode, Region, StoreWidth, VfioBus, block_on,
};

use fake::{
    Call, Fake, FakeDomain, FakeTree, REGISTERS_BYTES, TRAPPED, VECTORS, WINDOW_BYTES, bus, bus_of,
    bus_over, pin, pinned,
};

fn at(fake: &Fake, bar: u8, offset_bytes: u64) -> RegisterAddress {
    RegisterAddress { function: fake.id(), bar, offset_bytes }
}

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut rng = crosslane_random::Random::with_seed(seed);
    (0..count).map(|_| rng.u8(..)).collect()
}

/// The error of a domain that can hold no more mappings.
fn refusal() -> FunctionError {
    FunctionError::System {
        function: "fake0".to_owned(),
        what: "mapping 4096 B for DMA".to_owned(),
        errno: 28,
        remedy: "Raise the limit".to_owned(),
    }
}

#[test]
fn registers_are_reached_by_loads_and_stores_or_by_calls() {
    let (bus, fake) = &bus();
    let in_device = |offset| fake.registers.mapped().word(offset).load(Ordering::Relaxed);
    block_on(async {
        for offset in [0, 4092, 4096, 8188, 8192, REGISTERS_BYTES - 4] {
            bus.write_register(at(fake, 0, offset), 0x1234_0000 + offset as u32).await.unwrap();
            assert_eq!(in_device(offset), 0x1234_0000 + offset as u32);
            let value = bus.read_register(at(fake, 0, offset)).await.unwrap();
            assert_eq!(value, in_device(offset));
        }
    });
    let word = |offset: u64| (0x1234_0000 + offset as u32).to_le_bytes().to_vec();
    let calls = [4096, 8188].map(|offset| [(0, offset, Some(word(offset))), (0, offset, None)]);
    assert_eq!(*fake.accesses.lock().unwrap(), calls.concat(), "the others are mapped");
}

#[test]
fn runs_of_bytes_cross_what_is_mapped_and_what_is_not() {
    let (bus, fake) = &bus();
    let widths: Vec<u32> = (0..7).map(|power| 1 << power).collect();
    for width in widths.into_iter().filter(|width| *width <= bus.widest_store_bytes()) {
        let written = bytes(9000, width.into());
        let offset = 3 + u64::from(width);
        block_on(async {
            bus.store(at(fake, 0, offset), &written, Stores::uncached(width)).await.unwrap();
            let mut read = vec![0; written.len()];
            bus.load(at(fake, 0, offset), &mut read, Mapping::Uncached).await.unwrap();
            assert_eq!(read, written, "width {width}");
        });
        let mut in_device = vec![0; written.len()];
        fake.registers.mapped().copy_out(offset, &mut in_device);
        assert_eq!(in_device, written, "width {width}");
        let calls = std::mem::take(&mut *fake.accesses.lock().unwrap());
        let stored: Vec<_> = calls.iter().filter(|(.., data)| data.is_some()).collect();
        let longest = u64::from(width.min(8));
        assert_eq!(stored.len() as u64, 4096 / longest, "one call for each aligned store");
        assert!(stored.iter().all(|(_, offset, _)| TRAPPED.contains(offset)));
    }
}

#[test]
fn a_window_is_stored_to_through_either_mapping() {
    let (bus, fake) = &bus();
    assert_eq!(bus.check_mapping(fake.id(), 2, Mapping::WriteCombined), Ok(()));
    assert_eq!(bus.check_mapping(fake.id(), 0, Mapping::Uncached), Ok(()));
    fails(
        bus.check_mapping(fake.id(), 0, Mapping::WriteCombined),
        "cannot map BAR0 of 01:00.0 write-combined: it is not prefetchable",
    );
    let widest = bus.widest_store_bytes();
    assert_eq!(widest as usize, StoreWidth::widest().bytes());
    block_on(async {
        for stores in [Stores::combined(widest), Stores::combined(4), Stores::uncached(16)] {
            let written = bytes(WINDOW_BYTES as usize - 5, stores.width_bytes.into());
            bus.store(at(fake, 2, 5), &written, stores).await.unwrap();
            bus.fence().await.unwrap();
            let mut read = vec![0; written.len()];
            bus.load(at(fake, 2, 5), &mut read, stores.mapping).await.unwrap();
            assert_eq!(read, written);
        }
        let to_registers = bus.store(at(fake, 0, 0), &[1], Stores::combined(1)).await;
        assert!(matches!(to_registers, Err(BusError::CannotCombine { .. })), "{to_registers:?}");
    });
}

#[test]
fn bad_accesses_are_refused_by_name() {
    let (bus, fake) = &bus();
    let nobody = RoutingId::new(9, 9, 0);
    block_on(async {
        let error = bus.read_register(at(fake, 0, 2)).await.unwrap_err();
        assert!(matches!(error, BusError::Unaligned { width_bytes: 4, .. }), "{error}");
        fails_with(bus.write_register(at(fake, 0, REGISTERS_BYTES), 0).await, "BAR0 has 16384 B");
        let error = bus.read_register(at(fake, 0, u64::MAX - 3)).await.unwrap_err();
        assert!(matches!(error, BusError::NoSuchRegister { .. }), "{error}");
        fails_with(bus.read_register(at(fake, 1, 0)).await, "fake0 has no memory BAR1");
        let lost = RegisterAddress { function: nobody, bar: 0, offset_bytes: 0 };
        let error = bus.read_register(lost).await.unwrap_err();
        assert_eq!(error, TopologyError::NoSuchFunction(nobody).into());
        for width_bytes in [0, 3, 128] {
            let stores = Stores { width_bytes, mapping: Mapping::Uncached };
            let error = bus.store(at(fake, 0, 0), &[0; 8], stores).await.unwrap_err();
            assert!(matches!(error, BusError::BadStoreWidth { .. }), "{error}");
        }
    });
}

#[test]
fn a_card_that_is_dead_is_told_from_a_register_of_all_ones() {
    let (bus, fake) = &bus();
    block_on(async {
        for offset in [0, *TRAPPED.start()] {
            bus.write_register(at(fake, 0, offset), u32::MAX).await.unwrap();
            assert_eq!(bus.read_register(at(fake, 0, offset)).await, Ok(u32::MAX));
        }
        *fake.is_dead.lock().unwrap() = true;
        for offset in [0, *TRAPPED.start()] {
            let error = bus.read_register(at(fake, 0, offset)).await.unwrap_err();
            assert!(matches!(error, BusError::NoAnswer { .. }), "{error}");
        }
    });
}

#[test]
fn configuration_space_and_memory_decoding() {
    let (bus, fake) = &bus();
    let on = reg::COMMAND_MEMORY_SPACE | reg::COMMAND_BUS_MASTER;
    assert_eq!(fake.command(), on, "turned on when it was opened");
    assert_eq!(bus.config_read(fake.id(), 0), Ok(0x5678_1234));
    // Only one byte of four.
    bus.config_write(fake.id(), reg::INTERRUPT_BRIDGE_CONTROL, 0x5a5a_5a5a, 0b0001).unwrap();
    assert_eq!(bus.config_read(fake.id(), reg::INTERRUPT_BRIDGE_CONTROL), Ok(0x5a));
    let bad = bus.config_read(fake.id(), 2);
    assert_eq!(bad, Err(TopologyError::BadOffset { offset: 2 }));
    assert!(bus.config_read(fake.id(), 4096).is_err());
    // Without decoding nothing is touched: a load would end the program.
    bus.config_write(fake.id(), reg::COMMAND, reg::COMMAND_BUS_MASTER, 0b0011).unwrap();
    fails(
        block_on(bus.read_register(at(fake, 0, 0))),
        "cannot read 01:00.0 BAR0 + 0x0: fake0 does not decode memory accesses",
    );
    bus.config_write(fake.id(), reg::COMMAND, on, 0b0001).unwrap();
    assert_eq!(block_on(bus.read_register(at(fake, 0, 0))), Ok(0));
    bus.reset(fake.id()).unwrap();
    assert_eq!(fake.take_calls(), [Call::Reset]);
    assert_eq!(fake.command(), on, "as before the reset");
    assert_eq!(block_on(bus.read_register(at(fake, 0, 0))), Ok(0));
}

#[test]
fn functions_and_the_tree_above_them() {
    let domain = FakeDomain::new();
    let fake = Arc::new(Fake::new(3, &domain));
    let tree = Arc::new(FakeTree::new(0x4000_0000, 0x12_0000_0000));
    let functions = vec![Arc::clone(&fake) as Arc<dyn Function>];
    let bus = VfioBus::new(functions, Some(tree.clone())).unwrap();
    let infos = bus.functions().unwrap();
    assert_eq!(infos.iter().map(|info| info.name.as_str()).collect::<Vec<_>>(), ["port", "fake3"]);
    let bars: Vec<_> =
        infos[1].bars.iter().map(|bar| (bar.index, bar.base.0, bar.size_bytes)).collect();
    assert_eq!(bars, [(0, 0x40_0000, REGISTERS_BYTES), (2, 0x50_0000, WINDOW_BYTES)]);
    assert_eq!((infos[1].vendor, infos[1].device), (0x1234, 0x5678));
    // Ports belong to the tree.
    let windows = bus.config_read(FakeTree::PORT, reg::MEMORY_BASE_LIMIT);
    assert_eq!(windows, Ok(0x4000_4000));
    bus.config_write(FakeTree::PORT, 8, 7, 0xf).unwrap();
    assert_eq!(*tree.writes.lock().unwrap(), [(FakeTree::PORT, 8, 7, 0xf)]);
    // No address that the port or the function claims is given out: these memories fill all below
    // the first BAR, all between the two, and so on.
    let given: Vec<_> = (0..40).map(|_| pinned(&bus, &fake, 1 << 20)).collect();
    let taken = [
        (0x40_0000, REGISTERS_BYTES),
        (0x50_0000, WINDOW_BYTES),
        (0x4000_0000, 1 << 20),
        (0x12_0000_0000, 1 << 20),
    ];
    for (_, first) in &given {
        for (start, length) in taken {
            assert!(first + (1 << 20) <= start || *first >= start + length, "{first:#x}");
        }
    }
    fails(
        VfioBus::new(vec![fake.clone(), fake.clone()], None),
        "fake3 has no number of its own: 01:03.0 is another function's of this bus",
    );
}

#[test]
fn mappings_that_cannot_be_are_refused() {
    let refusal = |change: &dyn Fn(&mut Fake)| {
        let mut fake = Fake::new(0, &FakeDomain::new());
        change(&mut fake);
        VfioBus::new(vec![Arc::new(fake)], None).unwrap_err().to_string()
    };
    let registers = |fake: &mut Fake| fake.regions.remove(&0).unwrap();
    let beyond = refusal(&|fake| {
        let region = registers(fake);
        fake.regions.insert(0, Region { bytes: 12 << 10, ..region });
    });
    let text = "fake0 gave an invalid answer to where BAR0 is mapped: a part of 8192 B that is \
                mapped at 0x2000 of 12288 B, behind 0x1000";
    assert_eq!(beyond, text);
    for offset in [0, 2048, 4095, u64::MAX - 4095] {
        let apart = refusal(&|fake| {
            let mut region = registers(fake);
            region.parts[1].offset = offset;
            fake.regions.insert(0, region);
        });
        assert!(apart.contains(&format!("mapped at {offset:#x} of")), "{apart}");
    }
    let unlike = refusal(&|fake| {
        let mut window = fake.regions.remove(&2).unwrap();
        window.parts[0].combined = Some(Mapped::of(fake.window.file(), 0, 4096).unwrap());
        fake.regions.insert(2, window);
    });
    assert!(unlike.contains("two mappings of unlike size at 0x0"), "{unlike}");
}

#[test]
fn windows_of_bridges_are_kept_off() {
    let fake = Arc::new(Fake::new(0, &FakeDomain::new()));
    // All below 4 MiB except one page is BAR, forwarded by the port, or below the lowest address.
    let tree = FakeTree::new(0x10_0000, 0x20_0000);
    let bus = VfioBus::new(vec![fake.clone()], Some(Arc::new(tree))).unwrap();
    assert_eq!(pinned(&bus, &fake, 4096).1, 0x30_0000);
}

#[test]
fn a_device_reads_and_writes_what_is_pinned_and_nothing_else() {
    let (bus, fakes) = bus_of(2, BusOptions::default().with_kept_bytes(0));
    let fake = &fakes[0];
    let (from, to) = (9000, 100_000);
    let source = bus.allocate(from, PageSize::Small).unwrap();
    let target = bus.allocate(to, PageSize::Huge).unwrap();
    let data = bytes(from as usize, 1);
    source.write(0, &data).unwrap();
    let (source_at, target_at) = (pin(&bus, fake, &source), pin(&bus, fake, &target));
    let device = std::thread::spawn({
        let fake = Arc::clone(fake);
        move || {
            let read = fake.dma_read(source_at, from).expect("the source is mapped");
            assert!(fake.dma_write(target_at + 50_000, &read));
        }
    });
    device.join().unwrap();
    let mut came = vec![0; data.len()];
    target.read(50_000, &mut came).unwrap();
    assert_eq!(came, data);
    let beyond = target.read(to - 1, &mut [0; 2]).unwrap_err();
    assert_eq!(beyond, BusError::BeyondMemory { offset_bytes: to - 1, bytes: 2, size_bytes: to });
    fails_with(block_on(bus.pin(fake.id(), &source)), "is pinned for the function already");
    block_on(bus.unpin(fake.id(), &source)).unwrap();
    assert_eq!(fake.dma_read(source_at, 1), None, "no longer mapped");
    for function in &fakes {
        fails_with(block_on(bus.unpin(function.id(), &source)), "is not pinned for the function");
    }
    let (other, _) = bus_of(1, BusOptions::default());
    fails_with(block_on(other.pin(fake.id(), &target)), "belongs to another bus");
}

#[test]
fn one_mapping_serves_the_functions_of_a_domain() {
    let (bus, fakes) = bus_of(2, BusOptions::default());
    let (memory, first) = pinned(&bus, &fakes[0], 8192);
    assert_eq!(pin(&bus, &fakes[1], &memory), first);
    let mapped = Call::Map { iova: first, bytes: 8192 };
    let calls = [fakes[0].take_calls(), fakes[1].take_calls()].concat();
    assert_eq!(calls, [mapped], "once for both");
    block_on(bus.unpin(fakes[0].id(), &memory)).unwrap();
    block_on(bus.unpin(fakes[1].id(), &memory)).unwrap();
    // Kept, and used again.
    assert_eq!(pin(&bus, &fakes[1], &memory), first);
    assert!(fakes[0].take_calls().is_empty() && fakes[1].take_calls().is_empty());
    // Freed memory is unmapped, pinned or not.
    drop(memory);
    assert_eq!(fakes[0].take_calls(), [Call::Unmap { iova: first, bytes: 8192 }]);
    // Each domain has separate mappings.
    let apart: Vec<_> =
        (0..2).map(|device| Arc::new(Fake::new(device, &FakeDomain::new()))).collect();
    let bus = bus_over(&apart, BusOptions::default());
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    for fake in &apart {
        pin(&bus, fake, &memory);
        assert_eq!(fake.mapping_count(), 1);
    }
}

#[test]
fn memory_is_on_the_node_that_is_asked_for() {
    let function = || vec![Arc::new(Fake::new(0, &FakeDomain::new())) as Arc<dyn Function>];
    let open = |node: u32| {
        let options = BusOptions::default().with_numa(NumaNode::Is(node));
        VfioBus::with_options(function(), None, options)
    };
    match open(0) {
        Ok(bus) => {
            let memory = bus.allocate(1 << 20, PageSize::Huge).unwrap();
            let placed = bus.placement().node();
            assert!(placed.is_none() || placed == memory.pages().node(), "{placed:?}");
        }
        // Containers may forbid it.
        Err(error) => assert!(error.to_string().contains("`--cap-add SYS_NICE`"), "{error}"),
    }
    let error = open(1023).unwrap_err().to_string();
    assert!(error.starts_with("this machine has no NUMA node 1023: "), "{error}");
}

#[test]
fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
    let options = BusOptions::default().with_kept_bytes(3 * 4096);
    let (bus, fakes) = bus_of(1, options);
    let fake = &fakes[0];
    let memories: Vec<_> = (0..4).map(|_| bus.allocate(4096, PageSize::Small).unwrap()).collect();
    let places: Vec<_> = memories.iter().map(|memory| pin(&bus, fake, memory)).collect();
    fake.take_calls();
    // Not in the order in which they were pinned.
    for index in [2, 0, 1] {
        block_on(bus.unpin(fake.id(), &memories[index])).unwrap();
    }
    assert!(fake.take_calls().is_empty(), "three pages may be kept");
    block_on(bus.unpin(fake.id(), &memories[3])).unwrap();
    let unmapped = |index: usize| Call::Unmap { iova: places[index], bytes: 4096 };
    assert_eq!(fake.take_calls(), [unmapped(2)]);
    // A memory that is used again is the youngest when it is unpinned.
    assert_eq!(pin(&bus, fake, &memories[0]), places[0]);
    block_on(bus.unpin(fake.id(), &memories[0])).unwrap();
    let (big, at) = pinned(&bus, fake, 2 * 4096);
    block_on(bus.unpin(fake.id(), &big)).unwrap();
    let mapped = Call::Map { iova: at, bytes: 8192 };
    assert_eq!(fake.take_calls(), [mapped, unmapped(1), unmapped(3)]);
    assert_eq!(fake.mapping_count(), 2);
    // A memory that is pinned again neither counts nor is unmapped.
    assert_eq!(pin(&bus, fake, &memories[0]), places[0]);
    let next = [1, 3].map(|index| pin(&bus, fake, &memories[index]));
    for index in [1, 3] {
        block_on(bus.unpin(fake.id(), &memories[index])).unwrap();
    }
    assert!(fake.dma_read(places[0], 4096).is_some() && fake.dma_read(next[0], 4096).is_some());
    assert_eq!(fake.dma_read(at, 1), None, "the oldest that is only kept");
    block_on(bus.unpin(fake.id(), &memories[0])).unwrap();
    // A memory larger than the limit is not kept.
    let (larger, _) = pinned(&bus, fake, 4 * 4096);
    block_on(bus.unpin(fake.id(), &larger)).unwrap();
    assert_eq!(fake.mapping_count(), 0);
}

#[test]
fn a_full_domain_gives_up_what_is_only_kept() {
    let (bus, fake) = &bus();
    let (kept, kept_at) = pinned(bus, fake, 4096);
    block_on(bus.unpin(fake.id(), &kept)).unwrap();
    fake.take_calls();
    fake.map_errors.lock().unwrap().push_back(Some(refusal()));
    let (_memory, memory_at) = pinned(bus, fake, 4096);
    let unmap = Call::Unmap { iova: kept_at, bytes: 4096 };
    assert_eq!(fake.take_calls(), [unmap, Call::Map { iova: memory_at, bytes: 4096 }]);
    // Nothing is kept now: the error is returned, and its addresses are free again.
    fake.map_errors.lock().unwrap().push_back(Some(refusal()));
    let other = bus.allocate(4096, PageSize::Small).unwrap();
    fails(
        block_on(bus.pin(fake.id(), &other)),
        "01:00.0: fake0: mapping 4096 B for DMA failed: No space left on device (os error 28). \
         Raise the limit",
    );
    assert_eq!(pin(bus, fake, &other), kept_at, "the lowest that is free");
    // A known limit is never exceeded.
    let mut limited = Fake::new(1, &FakeDomain::new());
    limited.most_mappings = Some(2);
    let limited = [Arc::new(limited)];
    let bus = bus_over(&limited, BusOptions::default());
    let mut memories = Vec::new();
    for _ in 0..10 {
        let (memory, _) = pinned(&bus, &limited[0], 4096);
        assert!(limited[0].mapping_count() <= 2);
        block_on(bus.unpin(limited[0].id(), &memory)).unwrap();
        memories.push(memory);
    }
}

#[test]
fn addresses_have_a_limit_where_the_device_has_one() {
    let options = BusOptions::default().with_highest_address((1 << 22) - 1);
    let (bus, fakes) = bus_of(1, options);
    assert!(pinned(&bus, &fakes[0], 1 << 20).1 + (1 << 20) <= 1 << 22);
    let large = bus.allocate(4 << 20, PageSize::Small).unwrap();
    fails(
        block_on(bus.pin(fakes[0].id(), &large)),
        "01:00.0: no 4194304 B of I/O virtual addresses are free in one run",
    );
    let most = bus.allocate(u64::MAX, PageSize::Huge).unwrap_err();
    assert!(matches!(most, BusError::OutOfMemory { bytes: u64::MAX, .. }), "{most}");
}

#[test]
fn a_peers_bar_is_mapped_once_and_for_as_long_as_somebody_has_it() {
    let (bus, fakes) = bus_of(3, BusOptions::default());
    let [sender, second, target] = &fakes[..] else { panic!("there are three") };
    let (id, peer) = (sender.id(), target.id());
    assert_eq!(bus.is_translated(id), Ok(true));
    let begin = block_on(bus.pin_bar(id, peer, 0)).unwrap().0;
    // The mapped parts at their offsets in the BAR, without the hole between them.
    for (index, offset) in [0, 8192].into_iter().enumerate() {
        let part = &target.region(0).unwrap().parts[index];
        assert_eq!(sender.peer_at(begin + offset), Some(part.uncached.address()));
    }
    assert_eq!((sender.peer_at(begin + 4096), sender.mapping_count()), (None, 2));
    // No memory is placed in the hole.
    let (_memory, memory_at) = pinned(&bus, sender, 64 << 10);
    assert!(memory_at >= begin + REGISTERS_BYTES || memory_at + (64 << 10) <= begin);
    for function in [id, second.id()] {
        assert_eq!(block_on(bus.pin_bar(function, peer, 0)).unwrap().0, begin, "the same");
    }
    for function in [id, id, second.id()] {
        assert!(sender.peer_at(begin).is_some());
        block_on(bus.unpin_bar(function, peer, 0)).unwrap();
    }
    assert_eq!((sender.peer_at(begin), sender.mapping_count()), (None, 1));
    fails(
        block_on(bus.unpin_bar(id, peer, 0)),
        "memory at 0x300000 is not pinned for the function",
    );
    // An error half-way leaves nothing behind.
    fakes[0].map_errors.lock().unwrap().extend([None, Some(refusal())]);
    fails_with(block_on(bus.pin_bar(id, peer, 0)), "No space left");
    assert_eq!(sender.mapping_count(), 1);
    assert_eq!(block_on(bus.pin_bar(id, peer, 0)).unwrap().0, begin, "the addresses are free");
    fails_with(block_on(bus.pin_bar(id, peer, 1)), "fake2 has no memory BAR1");
    fails_with(
        block_on(bus.pin_bar(id, RoutingId::new(7, 0, 0), 0)),
        "the bus has not opened that function",
    );
}

#[test]
fn without_an_iommu_a_peers_bar_has_its_own_address() {
    let domain = FakeDomain::new();
    let fakes = [0, 1].map(|device| {
        let mut fake = Fake::new(device, &domain);
        fake.is_translated = false;
        Arc::new(fake)
    });
    let bus = bus_over(&fakes, BusOptions::default());
    assert_eq!(bus.is_translated(fakes[0].id()), Ok(false));
    let address = block_on(bus.pin_bar(fakes[0].id(), fakes[1].id(), 2)).unwrap();
    assert_eq!(address.0, 0x30_0000);
    assert_eq!(fakes[0].mapping_count(), 0);
    block_on(bus.unpin_bar(fakes[0].id(), fakes[1].id(), 2)).unwrap();
}

#[test]
fn the_last_handle_turns_everything_off() {
    let (bus, fake) = bus();
    let (memory, _) = pinned(&bus, &fake, 4096);
    block_on(bus.enable_interrupts(fake.id(), VECTORS)).unwrap();
    fake.take_calls();
    let clone = bus.on_core(1);
    drop(bus);
    assert_eq!(fake.mapping_count(), 1);
    drop(clone);
    assert_eq!(fake.mapping_count(), 0);
    assert!(!fake.interrupt(0), "vectors are off");
    assert_eq!(fake.command(), reg::COMMAND_MEMORY_SPACE, "no bus master");
    // The memory outlives its bus.
    memory.write(0, &[1]).unwrap();
}
