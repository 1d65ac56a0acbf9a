// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interrupts from a device that sends them on command, and requests without an answer.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use crosslane_fabric::{
    COMPLETION_TIMEOUT, Consumed, Device, DevicePort, FabricBuilder, NodeId, Received,
};
use crosslane_host::{Bus, BusError, DmaMemory, HostWork, PageSize, RegisterAddress};
use crosslane_pcie::config::{ConfigSpace, Msix, MsixRequest};
use crosslane_pcie::tlp::{Header, TlpKind};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};
use proptest::prelude::*;

use super::{LabBus, LabMemory, Simulation, WhyStuck};
use crate::enumerate::{Policy, enumerate};
use crate::lab::{RunningHost, RunningLab, open};

/// Offset of the bell's MSI-X table.
const TABLE: u64 = 0x1000;
const VECTORS: u16 = 4;
/// Reads from here are never answered.
const SILENT: u64 = 0x800;

const fn ns(ns: u64) -> Picoseconds {
    Picoseconds::from_ns(ns)
}

/// Stores what is written, reads it back, and sends an interrupt for each write below the table:
/// the offset is the delay in ns, the value the vector.
#[derive(Default)]
struct Bell {
    base: u64,
    words: BTreeMap<u64, u32>,
    msix: Option<Msix>,
    late: VecDeque<u32>,
}

impl Bell {
    fn ring(&self, vector: u32, port: &mut DevicePort<'_>) {
        let msix = self.msix.expect("it has MSI-X");
        assert!(msix.enabled && !msix.function_masked, "nothing is sent before it may be");
        let word = |number: u64| self.words[&(TABLE + 16 * u64::from(vector) + 4 * number)];
        assert_eq!(word(3) & 1, 0, "the vector is not masked");
        let address = BusAddress(u64::from(word(0)) | u64::from(word(1)) << 32);
        let (id, data) = (port.routing_id(), word(2));
        port.send(Header::memory_write(id, address, 4), |payload| {
            payload.copy_from_slice(&data.to_le_bytes());
        });
    }
}

impl Device for Bell {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let offset = header.address.0 - self.base;
        if header.kind == TlpKind::MemoryRead {
            if offset == SILENT {
                return Consumed::Now;
            }
            let value = self.words.get(&offset).copied().unwrap_or(0);
            let id = port.routing_id();
            port.send(Header::completion_data(&header, id, header.address, 4, 4), |payload| {
                payload.copy_from_slice(&value.to_le_bytes());
            });
            return Consumed::Now;
        }
        let value = u32::from_le_bytes(*port.payload(tlp).first_chunk().unwrap());
        self.words.insert(offset, value);
        if offset == 0 {
            self.ring(value, port);
        } else if offset < TABLE {
            self.late.push_back(value);
            port.timer(port.now_ps() + offset * 1000, 0);
        }
        Consumed::Now
    }

    fn transmit_ready(&mut self, _port: &mut DevicePort<'_>) {}

    fn timer(&mut self, _token: u32, port: &mut DevicePort<'_>) {
        let vector = self.late.pop_front().unwrap();
        self.ring(vector, port);
    }

    fn configured(&mut self, config: &ConfigSpace) {
        self.base = config.bar(0).map_or(0, |bar| bar.base.0);
        self.msix = config.msix();
    }
}

/// Hosts with a bell each, from the parts of the lab `minimal`.
fn bells(hosts: u16) -> (Simulation, Vec<LabBus>, RegisterAddress) {
    let lab = open("minimal").unwrap();
    let (part, card) = (&lab.file().hosts[0].part, &lab.file().endpoints[0].part);
    let msix = MsixRequest {
        vectors: VECTORS,
        table_bar: 0,
        table_offset_bytes: TABLE as u32,
        pending_bar: 0,
        pending_offset_bytes: 0x1800,
    };
    let mut builder = FabricBuilder::new(1);
    let mut roots = Vec::new();
    for host in 0..hosts {
        let (name, id) = (format!("host{host}"), HostId(host));
        let root = builder.root_complex(&name, id, part.parameters.clone());
        let up = builder.root_port(root, &name, part.identity, part.port.clone());
        let (identity, bars) = (card.parameters.identity, card.parameters.bars);
        let (bell, port) = (Box::new(Bell::default()), card.port.clone());
        let (_, down) =
            builder.endpoint_with_device("bell", identity, bars, Some(msix), port, bell);
        builder.link("slot", up, down, lab.file().links[0].parameters);
        roots.push(root);
    }
    let mut fabric = builder.build().unwrap();
    let policy = Policy {
        max_read_request_bytes: 512,
        read_completion_boundary_bytes: 64,
        ..Policy::default()
    };
    let buffers = 1 << 20..1 << 30;
    let running = |root_complex: NodeId, id: HostId, tree| RunningHost {
        id,
        name: format!("host{}", id.0),
        root_complex,
        tree,
        buffers: buffers.clone(),
        socket_buffers: vec![buffers.clone()],
        numa_node: 0,
        cpu: part.parameters.cpu,
        direct: Vec::new(),
    };
    let hosts: Vec<RunningHost> = (0..)
        .zip(&roots)
        .map(|(host, &root)| {
            let id = HostId(host);
            running(root, id, enumerate(&mut fabric, id, &policy).unwrap())
        })
        .collect();
    let function = hosts[0].tree.find("bell").unwrap().routing_id;
    let count = hosts.len() as u16;
    let simulation =
        Simulation::new(RunningLab { fabric, border: None, hosts, names: BTreeMap::new() });
    let buses = (0..count).map(|host| simulation.bus(HostId(host))).collect();
    (simulation, buses, RegisterAddress { function, bar: 0, offset_bytes: 0 })
}

/// Rings after `delay_ns`.
async fn ring(bus: &LabBus, at: RegisterAddress, delay_ns: u64, vector: u16) {
    let at = RegisterAddress { offset_bytes: delay_ns, ..at };
    bus.write_register(at, vector.into()).await.unwrap();
}

#[test]
fn interrupts_are_counted_and_wake_those_who_wait() {
    let (simulation, buses, at) = bells(1);
    let bus = &buses[0];
    let far = Picoseconds::from_ns(1_000_000);
    let run = async {
        bus.enable_interrupts(at.function, VECTORS).await.unwrap();
        // A call, 16 stores of 50 ns, and a read back behind them.
        assert!(bus.now() > ns(200 + 16 * 50 + 400), "{}", bus.now());
        for _ in 0..3 {
            ring(bus, at, 0, 2).await;
        }
        bus.sleep_until(bus.now() + ns(5000)).await;
        // They came before the call, and those of another vector are not counted.
        assert_eq!(bus.wait_interrupt(at.function, 2, far).await, Ok(3));
        let late = bus.wait_interrupt(at.function, 2, bus.now() + ns(10)).await.unwrap_err();
        assert!(late.to_string().contains("interrupt 2 of 01:00.0 at host0"), "{late}");
        assert!(bus.wait_interrupt(at.function, 1, bus.now()).await.is_err());
        let start = bus.now();
        ring(bus, at, 400, 1).await;
        assert_eq!(bus.wait_interrupt(at.function, 1, far).await, Ok(1));
        bus.now() - start
    };
    let took = simulation.run("main", run).unwrap();
    // 200 ns down, 400 ns in the bell, 200 ns up, 1000 ns to the handler, 2 ns of flight; two
    // TLPs of 24 B.
    let expected = ns(200 + 400 + 200 + 1000 + 2).0 + (48.0 * 253.906_25) as u64;
    assert!(took.0.abs_diff(expected) <= 2, "{} ps, expected {expected}", took.0);
    simulation.finish().unwrap();
}

#[test]
fn each_function_of_each_host_has_messages_of_its_own() {
    let (simulation, buses, at) = bells(2);
    let far = Picoseconds::from_ns(1_000_000);
    let run = async {
        for bus in &buses {
            bus.enable_interrupts(at.function, 2).await.unwrap();
        }
        ring(&buses[1], at, 0, 0).await;
        assert_eq!(buses[1].wait_interrupt(at.function, 0, far).await, Ok(1));
        let silent = buses[0].wait_interrupt(at.function, 0, buses[0].now()).await;
        assert!(matches!(silent, Err(BusError::Deadline { .. })));
    };
    simulation.run("main", run).unwrap();
}

#[test]
fn two_who_wait_for_one_vector() {
    let (simulation, buses, at) = bells(1);
    let bus = &buses[0];
    let far = Picoseconds::from_ns(1_000_000);
    simulation.run("enable", bus.enable_interrupts(at.function, 1)).unwrap().unwrap();
    let tasks = [0, 1].map(|_| {
        let bus = bus.clone();
        simulation.spawn("waits", async move {
            let count = bus.wait_interrupt(at.function, 0, far).await;
            (count, bus.now())
        })
    });
    let [one, other] = tasks;
    let ends = simulation.run("main", async {
        bus.sleep_until(bus.now() + ns(100)).await;
        ring(bus, at, 0, 0).await;
        ring(bus, at, 0, 0).await;
        [one.await, other.await]
    });
    let [one, other] = ends.unwrap();
    // Each gets one; the second interrupt came a store later.
    assert_eq!((one.0, other.0), (Ok(1), Ok(1)));
    assert_eq!(other.1 - one.1, ns(50));
}

#[test]
fn vectors_that_there_are_not() {
    let (simulation, buses, at) = bells(1);
    let bus = &buses[0];
    let enable = |function, vectors| {
        simulation.run("enable", bus.enable_interrupts(function, vectors)).unwrap()
    };
    let function = at.function;
    let error = enable(function, VECTORS + 1).unwrap_err();
    assert_eq!(error, BusError::NoSuchVector { function, vector: VECTORS, have: VECTORS });
    let bridge = RoutingId::new(0, 1, 0);
    let error = enable(bridge, 1).unwrap_err();
    assert_eq!(error.to_string(), "00:01.0 has no interrupt vector 0: it has 0 of them");
    assert!(matches!(enable(RoutingId::new(5, 0, 0), 1), Err(BusError::Topology(_))));
    let wait = |vector| {
        let wait = bus.wait_interrupt(function, vector, Picoseconds::NEVER);
        simulation.run("wait", wait).unwrap()
    };
    assert_eq!(wait(0), Err(BusError::NoSuchVector { function, vector: 0, have: 0 }));
    enable(function, 2).unwrap();
    assert_eq!(wait(2), Err(BusError::NoSuchVector { function, vector: 2, have: 2 }));
    enable(function, 2).unwrap();
    let stuck =
        simulation.run("waits", bus.wait_interrupt(function, 1, Picoseconds::NEVER)).unwrap_err();
    assert_eq!(stuck.why, WhyStuck::NothingLeft);
    assert_eq!(stuck.waiting, ["waits: waits for interrupt 1 of 01:00.0 at host0"]);
}

#[test]
fn a_load_that_nobody_answers_ends_by_time_out() {
    let (simulation, buses, at) = bells(1);
    let at = RegisterAddress { offset_bytes: SILENT, ..at };
    let error = simulation.run("load", buses[0].read_register(at)).unwrap().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, BusError::NoAnswer { .. }), "{text}");
    assert!(text.contains("no completion within 50 ms"), "{text}");
    assert!(simulation.now() >= COMPLETION_TIMEOUT && simulation.now().0 < 51_000_000_000);
}

/// One thing that a task does; times in ns.
#[derive(Clone, Debug)]
enum Step {
    Sleep(u16),
    Load,
    Ring(u16, u16),
    Write(u8),
    WaitMemory(u16),
    WaitInterrupt(u16, u16),
    Work,
    /// The first to end wins, the other is dropped.
    Race(Box<Step>, Box<Step>),
}

fn step() -> impl Strategy<Value = Step> {
    let one = prop_oneof![
        (0_u16..2000).prop_map(Step::Sleep),
        Just(Step::Load),
        (1_u16..500, 0..VECTORS).prop_map(|(delay, vector)| Step::Ring(delay & !3, vector)),
        any::<u8>().prop_map(Step::Write),
        (0_u16..3000).prop_map(Step::WaitMemory),
        (0..VECTORS, 0_u16..4000).prop_map(|(vector, time)| Step::WaitInterrupt(vector, time)),
        Just(Step::Work),
    ];
    one.prop_recursive(2, 4, 2, |inner| {
        (inner.clone(), inner).prop_map(|(one, other)| Step::Race(one.into(), other.into()))
    })
}

/// Does a step; returns what it saw.
fn doing<'a>(
    bus: &'a LabBus,
    at: RegisterAddress,
    memory: &'a LabMemory,
    step: &'a Step,
) -> Pin<Box<dyn Future<Output = String> + 'a>> {
    let after = |time: u16| bus.now() + ns(time.into());
    Box::pin(async move {
        match step {
            Step::Sleep(time) => {
                bus.sleep_until(after(*time)).await;
                String::new()
            }
            Step::Load => format!("{:?}", bus.read_register(at).await),
            Step::Ring(delay, vector) => {
                ring(bus, at, (*delay).into(), *vector).await;
                String::new()
            }
            Step::Write(value) => format!("{:?}", memory.write(4, &[*value])),
            Step::WaitMemory(time) => {
                format!("{:?}", bus.wait_memory(memory, 4, 0, after(*time)).await)
            }
            Step::WaitInterrupt(vector, time) => {
                format!("{:?}", bus.wait_interrupt(at.function, *vector, after(*time)).await)
            }
            Step::Work => {
                bus.work(HostWork::Copy(640)).await;
                String::new()
            }
            Step::Race(one, other) => {
                let mut one = pin!(doing(bus, at, memory, one));
                let mut other = pin!(doing(bus, at, memory, other));
                poll_fn(|context| match one.as_mut().poll(context) {
                    Poll::Pending => other.as_mut().poll(context),
                    ready => ready,
                })
                .await
            }
        }
    })
}

/// Runs tasks of steps; returns everything they saw, with its time.
fn run_steps(tasks: &[Vec<Step>]) -> Vec<String> {
    let (simulation, buses, at) = bells(1);
    let bus = &buses[0];
    simulation.run("enable", bus.enable_interrupts(at.function, VECTORS)).unwrap().unwrap();
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    let log = Rc::new(RefCell::new(Vec::new()));
    for (number, steps) in tasks.iter().enumerate() {
        let (steps, memory, log) = (steps.clone(), memory.clone(), log.clone());
        let bus = bus.on_core(number as u16);
        simulation.spawn(&format!("task{number}"), async move {
            for step in &steps {
                let seen = doing(&bus, at, &memory, step).await;
                log.borrow_mut().push(format!("{} {number} {step:?} {seen}", bus.now().0));
            }
        });
    }
    simulation.finish().unwrap();
    assert_eq!(simulation.shared.lock().wait_count(), 0);
    assert_eq!(simulation.with_fabric(|fabric| fabric.check_quiet()), Vec::<String>::new());
    log.take()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever tasks do, race for and drop, all of them end, a second run equals the first, and
    /// nothing is left behind.
    #[test]
    fn tasks_that_race(tasks in prop::collection::vec(prop::collection::vec(step(), 1..6), 1..6)) {
        let log = run_steps(&tasks);
        prop_assert_eq!(log.len(), tasks.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(run_steps(&tasks), log);
    }
}
