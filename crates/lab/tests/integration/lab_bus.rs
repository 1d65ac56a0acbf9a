// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bus of a lab: results and times of loads, stores, memory, pinning and the tree.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use crosslane_fabric::FlowId;
use crosslane_fabric::trace::TraceRecord;
use crosslane_host::{
    Bus, BusError, DmaMemory, HostWork, PageSize, RegisterAddress, Stores, Topology, TopologyError,
};
use crosslane_lab::{Lab, LabBus, MemoryInUse, Simulation, Stuck, open};
use crosslane_pcie::config::{PortType, registers as reg};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};

use crate::scenes::{function, minimal, ns, parts, write};

/// Returns the lab `minimal` with a generic card, and a register of it.
fn stand() -> (Simulation, LabBus, RegisterAddress) {
    let (simulation, bus) = minimal();
    let at = RegisterAddress { function: function(&bus, "card0").id, bar: 0, offset_bytes: 0x40 };
    (simulation, bus, at)
}

fn flow(simulation: &Simulation, from: &str, target: BusAddress, bytes: u64) -> FlowId {
    let flow = write(simulation.find(from).unwrap(), target, bytes);
    simulation.with_fabric(|fabric| fabric.start_flow(flow)).unwrap()
}

#[test]
fn a_load_takes_the_round_trip_and_a_store_what_the_core_takes() {
    let (simulation, bus, at) = stand();
    let run = async {
        bus.write_register(at, 0x1234_5678).await.unwrap();
        let stored = bus.now();
        let value = bus.read_register(at).await.unwrap();
        (stored, value, bus.now())
    };
    let (stored, value, loaded) = simulation.run("main", run).unwrap();
    assert_eq!((stored, value), (ns(50), 0x1234_5678));
    // 100 ns out, in, out and in again; 50 ns the memory, 50 ns the core; 1 ns of flight each
    // way; 20 B and 24 B at 8 GT/s x 4 with 128b/130b, 253.906 ps a byte.
    let wire = Picoseconds((44.0_f64 * 253.906_25).ceil() as u64);
    let expected = stored + ns(4 * 100 + 50 + 50 + 2) + wire;
    assert!(loaded.0.abs_diff(expected.0) <= 2, "{} ps, expected {}", loaded.0, expected.0);
    simulation.finish().unwrap();
    assert_eq!(simulation.with_fabric(|fabric| fabric.check_quiet()), Vec::<String>::new());
}

#[test]
fn stores_have_the_width_that_was_asked_for_where_they_can() {
    // Offset, bytes, width; expected number of stores.
    for (offset, bytes, width, stores) in [
        (0, 64, 4, 16),
        (0, 64, 8, 8),
        (0, 64, 64, 1),
        (4, 12, 8, 2),
        (4, 64, 64, 5),
        (60, 8, 32, 2),
        (0, 0, 8, 0),
    ] {
        let (simulation, bus, at) = stand();
        let at = RegisterAddress { offset_bytes: offset, ..at };
        let data: Vec<u8> = (0..bytes).map(|byte| byte as u8 + 1).collect();
        simulation.run("stores", bus.store(at, &data, Stores::uncached(width))).unwrap().unwrap();
        assert_eq!(simulation.now(), ns(50 * stores), "{offset} {bytes} {width}");
        simulation.finish().unwrap();
        let mut seen = vec![0; bytes];
        let bar = bus.functions().unwrap()[1].bars[0].base;
        let place = bar.offset(offset);
        assert!(simulation.with_fabric(|fabric| fabric.peek(HostId(0), place, &mut seen)));
        assert_eq!(seen, data);
    }
}

#[test]
fn what_is_no_register() {
    let (simulation, bus, at) = stand();
    let load = |at| simulation.run("load", bus.read_register(at)).unwrap().unwrap_err();
    let error = load(RegisterAddress { offset_bytes: 0x1_0000, ..at });
    assert_eq!(error.to_string(), "4 B at 01:00.0 BAR0 + 0x10000 are not in a BAR: it has 65536 B");
    assert_eq!(
        load(RegisterAddress { bar: 3, ..at }).to_string(),
        "4 B at 01:00.0 BAR3 + 0x40 are not in a BAR: the function has no BAR3"
    );
    for bar in [6, 255] {
        assert!(matches!(load(RegisterAddress { bar, ..at }), BusError::NoSuchRegister { .. }));
    }
    let last = RegisterAddress { offset_bytes: u64::MAX - 3, ..at };
    assert!(matches!(load(last), BusError::NoSuchRegister { .. }));
    let odd = RegisterAddress { offset_bytes: 6, ..at };
    assert_eq!(
        load(odd).to_string(),
        "01:00.0 BAR0 + 0x6 is not a multiple of the access width, 4 B"
    );
    let nobody = RoutingId::new(7, 0, 0);
    let error = load(RegisterAddress { function: nobody, ..at });
    assert_eq!(error, BusError::Topology(TopologyError::NoSuchFunction(nobody)));
    let store = |at, bytes: &[u8]| {
        simulation.run("store", bus.store(at, bytes, Stores::uncached(4))).unwrap()
    };
    let stores = Stores::uncached(3);
    let refused = simulation.run("store", bus.store(at, &[1; 6], stores)).unwrap().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot store 3 B at once: the processor stores powers of two up to 64 B"
    );
    let end = RegisterAddress { offset_bytes: 0xfffc, ..at };
    assert!(matches!(store(end, &[1; 8]), Err(BusError::NoSuchRegister { bytes: 8, .. })));
    assert_eq!(store(end, &[1; 4]), Ok(()));
}

#[test]
fn a_function_that_decodes_nothing_does_not_answer() {
    let (simulation, bus, at) = stand();
    let command = bus.config_read(at.function, reg::COMMAND).unwrap();
    let off = command & !reg::COMMAND_MEMORY_SPACE;
    bus.config_write(at.function, reg::COMMAND, off, 0b0011).unwrap();
    let error = simulation.run("load", bus.read_register(at)).unwrap().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, BusError::NoAnswer { .. }));
    assert!(text.starts_with("cannot read 01:00.0 BAR0 + 0x40: "), "{text}");
    assert!(text.contains("Unsupported Request"), "{text}");
}

#[test]
fn the_tree_is_read_as_it_is_now() {
    let simulation = Simulation::new(open("rosta").unwrap().build(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let functions = bus.functions().unwrap();
    let tree = &simulation.hosts()[0].tree;
    assert_eq!(functions.len(), tree.functions.len());
    let fpga = functions.iter().find(|function| function.name == "fpga6").unwrap();
    assert_eq!((fpga.port_type, fpga.vendor, fpga.bars.len()), (PortType::Endpoint, 0x10ee, 2));
    let parent = functions.iter().find(|function| Some(function.id) == fpga.parent).unwrap();
    assert_eq!(parent.name, "rc47b.down1");
    assert_eq!(functions[0].parent, None);
    // A BAR that is moved is found at its new address.
    let low = bus.config_read(fpga.id, reg::BAR0).unwrap();
    assert_eq!(u64::from(low & !0xf), fpga.bars[0].base.0);
    bus.config_write(fpga.id, reg::BAR0, low + 0x10_0000, 0xf).unwrap();
    let moved = bus.functions().unwrap();
    let moved = moved.iter().find(|function| function.name == "fpga6").unwrap();
    assert_eq!(moved.bars[0].base.0, fpga.bars[0].base.0 + 0x10_0000);
    let bad = bus.config_read(fpga.id, 0x1000).unwrap_err();
    assert_eq!(bad, TopologyError::BadOffset { offset: 0x1000 });
    assert!(bus.config_write(fpga.id, 2, 0, 1).is_err());
    assert!(bus.config_read(RoutingId::new(99, 0, 0), 0).is_err());
}

#[test]
fn pinning_costs_a_call_and_each_page() {
    let (simulation, bus, at) = stand();
    let device = at.function;
    let run = async {
        let small = bus.allocate(4 << 20, PageSize::Small).unwrap();
        let segments = bus.pin(device, &small).await.unwrap();
        assert_eq!(bus.now(), ns(200 + 1024 * 100));
        assert_eq!(segments.len(), 1024);
        assert!(segments.iter().all(|segment| segment.bytes == 4096));
        let start = bus.now();
        let huge = bus.allocate(4 << 20, PageSize::Huge).unwrap();
        let one = bus.pin(device, &huge).await.unwrap();
        assert_eq!(bus.now() - start, ns(200 + 2 * 100));
        assert_eq!((one.len(), one[0].bytes), (1, 4 << 20));
        assert!(one[0].address.0.is_multiple_of(2 << 20));
        let start = bus.now();
        let few = bus.allocate(5000, PageSize::Small).unwrap();
        let two = bus.pin(device, &few).await.unwrap();
        assert_eq!((two[0].bytes, two[1].bytes, two.len()), (4096, 904, 2));
        assert_eq!(bus.now() - start, ns(200 + 2 * 100));
        let again = bus.pin(device, &few).await.unwrap_err();
        assert!(again.to_string().ends_with("is pinned for the function already"), "{again}");
        // Another function may have it pinned too.
        let root_port = bus.functions().unwrap()[0].id;
        bus.pin(root_port, &few).await.unwrap();
        let start = bus.now();
        bus.unpin(device, &few).await.unwrap();
        assert_eq!(bus.now() - start, ns(200));
        let error = bus.unpin(device, &few).await.unwrap_err();
        assert!(error.to_string().ends_with("is not pinned for the function"), "{error}");
        assert!(bus.pin(RoutingId::new(9, 9, 0), &few).await.is_err());
    };
    simulation.run("main", run).unwrap();
}

#[test]
fn memory_is_zeroed_bounded_and_given_back() {
    let (simulation, bus, at) = stand();
    let memory = bus.allocate(10_000, PageSize::Small).unwrap();
    let pattern: Vec<u8> = (0..10_000_u32).map(|byte| (byte * 7 + 3) as u8).collect();
    memory.write(0, &pattern).unwrap();
    let mut back = vec![0; 6000];
    memory.clone().read(3000, &mut back).unwrap();
    assert_eq!(back, pattern[3000..9000]);
    let error = memory.write(9_999, &[0; 2]).unwrap_err();
    assert_eq!(error.to_string(), "2 B at offset 9999 reach beyond a memory of 10000 B");
    assert!(memory.read(u64::MAX, &mut [0]).is_err());
    drop(memory);
    let again = bus.allocate(10_000, PageSize::Small).unwrap();
    again.read(3000, &mut back).unwrap();
    assert_eq!(back, [0; 6000]);
    // The whole memory: 2 GiB below 4 GiB less the first MiB, which is not handed out.
    let all = (2 << 30) - (1 << 20);
    let error = bus.allocate(all, PageSize::Huge).unwrap_err();
    assert!(matches!(error, BusError::OutOfMemory { bytes, left_bytes }
        if bytes == all && left_bytes == all - 3 * 4096));
    let error = bus.allocate(u64::MAX, PageSize::Small).unwrap_err();
    assert!(matches!(error, BusError::OutOfMemory { .. }));
    assert_eq!(bus.allocate(0, PageSize::Small).unwrap().size_bytes(), 0);
    drop(again);
    // Memory dropped while pinned is not handed out again.
    let pinned = bus.allocate(4096, PageSize::Small).unwrap();
    simulation.run("pin", bus.pin(at.function, &pinned)).unwrap().unwrap();
    drop(pinned);
    let error = bus.allocate(all, PageSize::Small).unwrap_err();
    assert!(matches!(error, BusError::OutOfMemory { left_bytes, .. } if left_bytes == all - 4096));
}

#[test]
fn a_core_sees_a_device_write_when_it_can_be_seen() {
    let (simulation, bus, at) = stand();
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    let segments = simulation.run("pin", bus.pin(at.function, &memory)).unwrap().unwrap();
    let id = flow(&simulation, "card0", segments[0].address, 4096);
    // The last word of the last packet, and the first of the first.
    let late = simulation.spawn("late", {
        let (bus, memory) = (bus.clone(), memory.clone());
        async move { (bus.wait_memory(&memory, 4092, 0, ns(1_000_000)).await, bus.now()) }
    });
    let run = async {
        let value = bus.wait_memory(&memory, 0, 0, ns(1_000_000)).await.unwrap();
        let early = bus.now();
        let (last, time) = late.await;
        (value, early, last.unwrap(), time)
    };
    let (value, early, last, time) = simulation.run("main", run).unwrap();
    let mut bytes = [0; 4];
    memory.read(0, &mut bytes).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), value);
    memory.read(4092, &mut bytes).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), last);
    simulation.finish().unwrap();
    let report = simulation.with_fabric(|fabric| fabric.flow_report(id));
    assert_eq!((report.errors, report.last_done), (vec![], time));
    assert!(early < time);
}

#[test]
fn a_deadline_passes_before_the_data() {
    let (simulation, bus, at) = stand();
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    let segments = simulation.run("pin", bus.pin(at.function, &memory)).unwrap().unwrap();
    let start = simulation.now();
    flow(&simulation, "card0", segments[0].address, 64);
    // A first attempt shows when it can be seen.
    let wait = |deadline| simulation.run("wait", bus.wait_memory(&memory, 0, 0, deadline)).unwrap();
    let error = wait(start + ns(100)).unwrap_err();
    assert!(matches!(error, BusError::Deadline { .. }), "{error}");
    assert_eq!(simulation.now(), start + ns(100));
    wait(start + ns(10_000)).unwrap();
    assert!(simulation.now() < start + ns(1000));
}

#[test]
fn a_watch_that_was_dropped_is_gone() {
    let (simulation, bus, at) = stand();
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    let segments = simulation.run("pin", bus.pin(at.function, &memory)).unwrap().unwrap();
    let start = simulation.now();
    let mut wait = Box::pin(bus.wait_memory(&memory, 0, 0, Picoseconds::NEVER));
    let mut sleep = pin!(bus.sleep_until(start + ns(10)));
    let both = poll_fn(|context| {
        assert!(wait.as_mut().poll(context).is_pending());
        sleep.as_mut().poll(context)
    });
    simulation.run("both", both).unwrap();
    drop(wait);
    flow(&simulation, "card0", segments[0].address, 64);
    // The write arrives, but causes no event for host code.
    let stuck = simulation.run("main", pending::<()>()).unwrap_err();
    assert_eq!(stuck.time, start + ns(10));
    assert!(simulation.now() > stuck.time);
    simulation.finish().unwrap();
    let mut word = [0; 4];
    memory.read(0, &mut word).unwrap();
    assert_ne!(word, [0; 4]);
}

#[test]
fn two_cores_store_side_by_side() {
    let (simulation, bus, at) = stand();
    let tasks: Vec<_> = (0..2)
        .map(|core| {
            let bus = bus.on_core(core);
            simulation.spawn("core", async move {
                let at = RegisterAddress { offset_bytes: 4096 * u64::from(core), ..at };
                bus.store(at, &[1; 40], Stores::uncached(4)).await.unwrap();
                bus.work(HostWork::SystemCall).await;
                bus.now()
            })
        })
        .collect();
    let ends = simulation.run("all", async {
        let mut ends = Vec::new();
        for task in tasks {
            ends.push(task.await);
        }
        ends
    });
    assert_eq!(ends.unwrap(), [ns(10 * 50 + 200); 2]);
}

#[test]
fn work_waits_for_what_the_core_does_already() {
    let (simulation, bus, at) = stand();
    let call = |start| {
        let bus = bus.clone();
        simulation.spawn("call", async move {
            bus.sleep_until(start).await;
            bus.work(HostWork::SystemCall).await;
            bus.now()
        })
    };
    // Ten stores of 50 ns, and a call in the middle.
    let task = call(ns(120));
    let run = async {
        bus.store(at, &[1; 40], Stores::uncached(4)).await.unwrap();
        (bus.now(), task.await)
    };
    assert_eq!(simulation.run("stores", run).unwrap(), (ns(500), ns(700)));
    // A load, and a call while the core waits for it.
    let task = call(ns(800));
    let run = async {
        bus.read_register(at).await.unwrap();
        (bus.now(), task.await)
    };
    let (loaded, called) = simulation.run("load", run).unwrap();
    assert!(loaded > ns(1100) && called == loaded + ns(200), "{loaded}, {called}");
}

#[test]
fn an_engine_gets_its_interrupt_messages() {
    let simulation = Simulation::new(open("minimal").unwrap().build_engines(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let function = function(&bus, "card0").id;
    simulation.run("enable", bus.enable_interrupts(function, 3)).unwrap().unwrap();
    let run = async {
        let mut words = Vec::new();
        for offset_bytes in (0x1000..0x1040).step_by(4) {
            let at = RegisterAddress { function, bar: 0, offset_bytes };
            words.push(bus.read_register(at).await.unwrap());
        }
        words
    };
    let words = simulation.run("table", run).unwrap();
    let entries: Vec<&[u32]> = words.chunks(4).collect();
    for (number, entry) in (1..).zip(&entries[..3]) {
        assert_eq!(*entry, [0xfee0_0000, 0, number, 0]);
    }
    assert_eq!(entries[3][3] & 1, 1, "the next one is masked");
    simulation.finish().unwrap();
}

const TWO_HOSTS: &str = "
[[host]]
name = \"left\"
part = \"host\"
buffers = { value = \"below-4-gib\", source = \"assumption: any\" }
[[host]]
name = \"right\"
part = \"host\"
buffers = { value = \"above-4-gib\", source = \"assumption: any\" }
[[endpoint]]
name = \"card{0..1}\"
part = \"card\"
[[link]]
upper = \"left\"
lower = \"card0\"
part = \"slot\"
[[link]]
upper = \"right\"
lower = \"card1\"
part = \"slot\"
";

#[test]
fn each_host_has_its_own_devices_memory_and_cores() {
    let text = format!("{}{TWO_HOSTS}", parts("minimal"));
    let lab = Lab::from_text("two.toml", &text).unwrap();
    let simulation = Simulation::new(lab.build(1).unwrap());
    let [left, right] = [0, 1].map(|host| simulation.bus(HostId(host)));
    let of = |bus: &LabBus, card| RegisterAddress {
        function: function(bus, card).id,
        bar: 0,
        offset_bytes: 0,
    };
    let (one, other) = (of(&left, "card0"), of(&right, "card1"));
    assert_eq!(one.function, other.function, "each host counts its buses itself");
    assert!(right.functions().unwrap().iter().all(|function| function.name != "card0"));
    let run = async {
        left.write_register(one, 1).await.unwrap();
        right.write_register(other, 2).await.unwrap();
        let start = left.now();
        let a = left.read_register(one).await.unwrap();
        let b = right.read_register(other).await.unwrap();
        assert_eq!((a, b), (1, 2));
        let memory = left.allocate(4096, PageSize::Small).unwrap();
        let error = right.pin(other.function, &memory).await.unwrap_err();
        assert!(error.to_string().ends_with("belongs to another host"), "{error}");
        let above = right.allocate(4096, PageSize::Huge).unwrap();
        let segments = right.pin(other.function, &above).await.unwrap();
        assert!(segments[0].address.0 >= 1 << 32);
        start
    };
    assert_eq!(simulation.run("both", run).unwrap(), ns(100));
    simulation.finish().unwrap();
}

#[test]
fn memory_that_is_out_is_counted_with_its_pins() {
    let simulation = Simulation::new(open("minimal").unwrap().build_engines(1).unwrap());
    let out = || simulation.memory_in_use(HostId(0));
    let bus = simulation.bus(HostId(0));
    let at = function(&bus, "card0").id;
    assert_eq!(out(), MemoryInUse::default());
    let run = async {
        let memory = bus.allocate(5000, PageSize::Small).unwrap();
        bus.pin(at, &memory).await.unwrap();
        assert_eq!(out(), MemoryInUse { bytes: 8192, pinned_for: vec![at] });
        bus.unpin(at, &memory).await.unwrap();
        assert_eq!(out(), MemoryInUse { bytes: 8192, pinned_for: vec![] });
        drop(memory);
        assert_eq!(out(), MemoryInUse::default());
        let kept = bus.allocate(4096, PageSize::Small).unwrap();
        bus.pin(at, &kept).await.unwrap();
    };
    simulation.run("pins", run).unwrap();
    assert_eq!(out(), MemoryInUse { bytes: 4096, pinned_for: vec![at] }, "given back while pinned");
}

/// Runs eight tasks on eight FPGAs that load, store, pin, wait and race; traces all links.
fn busy(seed: u64) -> (Vec<String>, Result<(), Stuck>) {
    let simulation = Simulation::new(open("rosta").unwrap().build_engines(seed).unwrap());
    let trace = Arc::new(Mutex::new(Vec::new()));
    let sink = trace.clone();
    simulation.with_fabric(|fabric| {
        fabric.set_trace(Box::new(move |record: &TraceRecord| {
            sink.lock().unwrap().push(format!("{record:?}"));
        }));
    });
    for number in 1..=8_u16 {
        let bus = simulation.bus(HostId(0)).on_core(number);
        let log = trace.clone();
        let name = format!("fpga{number}");
        let at = RegisterAddress { function: function(&bus, &name).id, bar: 0, offset_bytes: 0 };
        simulation.spawn(&name.clone(), async move {
            for round in 0..4_u64 {
                let value = bus.read_register(at).await;
                let memory = bus.allocate(9000, PageSize::Small).unwrap();
                let segments = bus.pin(at.function, &memory).await.unwrap();
                let deadline = bus.now() + ns(100 * u64::from(number) + round);
                let waited = bus.wait_memory(&memory, 4, 0, deadline).await.is_err();
                bus.unpin(at.function, &memory).await.unwrap();
                let line =
                    format!("{} {name} {round} {value:?} {segments:?} {waited}", bus.now().0);
                log.lock().unwrap().push(line);
            }
        });
    }
    let end = simulation.finish();
    let trace = std::mem::take(&mut *trace.lock().unwrap());
    (trace, end)
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let (one, end) = busy(7);
    end.unwrap();
    let (other, _) = busy(7);
    assert!(one.len() > 200, "{}", one.len());
    assert_eq!(one, other);
}
