// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One lab on several threads: whatever the number of parts, every figure, byte, counter and trace
//! is that of one thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosslane_device::network_processor::{LinkCounters, NetworkProcessor};
use crosslane_experiment::{
    ExperimentError, HaloMeasured, HaloNode, HaloOptions, HaloOutcome, Lattice, Scenario,
};
use crosslane_fabric::trace::{self, TraceRecord, TraceSink};
use crosslane_fabric::{DirectionId, LinkDirection};
use crosslane_host::{Bus, PageSize};
use crosslane_lab::{
    CheckedRun, Division, Ending, Lab, LabBus, Part, PartsReport, Progress, Simulation, WhyStuck,
};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_random::Random;
use crosslane_torus::{Coordinates, Node, NodeOptions};
use futures_util::future::try_join_all;

const LINKS: u8 = 8;

fn ns(time: u64) -> Picoseconds {
    Picoseconds::from_ns(time)
}

/// A small torus with cables of random constants.
fn lab(random: &mut Random) -> Lab {
    let sizes: [&[u16]; 9] =
        [&[2], &[3], &[5], &[2, 2], &[3, 2], &[4, 3], &[2, 3, 2], &[2, 2, 2, 2], &[3, 1, 2]];
    let sizes = sizes[random.usize(..sizes.len())];
    let lab = Lab::load("torus").and_then(|lab| lab.with_torus(sizes)).unwrap();
    let is_odd = random.bool();
    let edited = lab.edited(|file| {
        let cable = &mut file.tori[0].parameters;
        // Multiples of the processor's clock, where times are equal most often, and others.
        cable.latency = if is_odd { ns(random.u64(1..400)) } else { ns(4 * random.u64(1..100)) };
        cable.lanes = [1, 4, 8][random.usize(..3)];
        cable.bit_error_rate = [0.0, 0.0, 1e-6, 1e-5][random.usize(..4)];
        cable.bring_up = ns(random.u64(1..20_000));
        cable.end.retry_timeout_ps = 20_000_000;
        cable.end.refresh_ps = 5_000_000;
    });
    edited.unwrap()
}

/// Runs exchanges on that number of threads. Returns the outcome and the sorted trace.
fn run(lab: &Arc<Lab>, options: HaloOptions, threads: u32) -> (HaloOutcome, Vec<TraceRecord>) {
    let records = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let records = records.clone();
        let keep = move |record: &TraceRecord| records.lock().unwrap().push(*record);
        Box::new(keep) as Box<dyn TraceSink>
    };
    let scenario = Scenario::new(lab.clone(), options.with_threads(threads));
    let outcome = scenario.run(&(), Some(sink)).unwrap();
    let mut records = std::mem::take(&mut *records.lock().unwrap());
    if threads == 1 {
        trace::sort(&mut records);
    }
    (outcome, records)
}

#[track_caller]
fn assert_same(one: &[TraceRecord], other: &[TraceRecord], what: &str) {
    assert!(!one.is_empty());
    let different = one.iter().zip(other).position(|(one, other)| one != other);
    if let Some(at) = different {
        panic!("{what}: record {at} is\n{}\nnot\n{}", other[at], one[at]);
    }
    assert_eq!(one.len(), other.len(), "{what}");
}

#[test]
fn traces_do_not_depend_on_the_number_of_threads() {
    for seed in 0..12 {
        let mut random = Random::with_seed(seed);
        let lab = Arc::new(lab(&mut random));
        let extents = std::array::from_fn(|_| random.u32(1..4));
        let lattice = Lattice::new(extents).unwrap();
        let options = HaloOptions::new(lattice, 4 * random.u64(1..30));
        let options = options.with_exchanges(random.u32(1..3)).with_seed(seed);
        let (outcome, records) = run(&lab, options, 1);
        assert_eq!(outcome.checked().1, 0, "seed {seed}");
        for threads in [2, 3, 4] {
            let what = format!("seed {seed}, {threads} threads");
            let (same, others) = run(&lab, options, threads);
            assert_same(&records, &others, &what);
            assert_eq!(same, outcome, "{what}");
        }
    }
}

/// Blocks and long datagrams, with wrong bits whose repetitions cross frames.
#[test]
fn halos_of_the_lab_torus_dense_are_right() {
    let lab = crosslane_lab::open("torus:dense").and_then(|lab| lab.with_torus(&[2, 2]));
    let lab = lab.and_then(|lab| lab.edited(|file| file.tori[0].parameters.bit_error_rate = 1e-5));
    let lab = Arc::new(lab.unwrap());
    let options = HaloOptions::new(Lattice::new([3, 3, 2, 2]).unwrap(), 200).with_exchanges(2);
    let (outcome, records) = run(&lab, options, 1);
    assert!(outcome.checked().0 > 0 && outcome.checked().1 == 0, "{:?}", outcome.checked());
    let (same, others) = run(&lab, options, 2);
    assert_same(&records, &others, "2 threads");
    assert_eq!(same, outcome);
}

/// What is left of a node at the end.
#[derive(Debug, PartialEq)]
struct Seen {
    node: u16,
    measured: HaloMeasured,
    links: Vec<Option<LinkCounters>>,
    forwarded: u32,
    /// TLPs, payload and header bytes, Acks and UpdateFCs of the host's link, down and up.
    host_link: Vec<[u64; 5]>,
    sent: Vec<u8>,
}

fn bus_of(simulation: &Simulation, number: u16) -> LabBus {
    let name = format!("node{}", number + 1);
    let host = simulation.hosts().iter().position(|host| host.name == name).unwrap();
    simulation.bus(HostId(host as u16))
}

/// Makes exchanges during which each node trains one of its links anew, again and again.
async fn trained_anew(
    bus: LabBus,
    number: u16,
    sizes: Vec<u16>,
    options: HaloOptions,
) -> Result<HaloMeasured, ExperimentError> {
    let place = Coordinates::of_node(number, &sizes);
    let links: Vec<u8> = place.directions().map(|direction| direction.link()).collect();
    let name = format!("fpga{}", number + 1);
    let node = Node::open(bus.clone(), &name, place, NodeOptions::default()).await?;
    let processor = node.processor().on_core(1);
    let node = HaloNode::prepare(node, options).await?;
    let exchange = node.exchange();
    let trouble = async {
        let mut random = Random::with_seed(number.into());
        for _ in 0..4 {
            let wake = bus.now() + ns(random.u64(..3_000));
            processor.bus().sleep_until(wake).await;
            processor.retrain_link(links[random.usize(..links.len())]).await?;
        }
        Ok(())
    };
    let (measured, troubled) = futures_util::future::join(exchange, trouble).await;
    let troubled: Result<(), ExperimentError> = troubled;
    troubled?;
    measured
}

fn look(simulation: &Simulation, node: u16, measured: HaloMeasured) -> Seen {
    let name = format!("fpga{}", node + 1);
    let (model, port) = (simulation.find(&name).unwrap(), simulation.find_port(&name).unwrap());
    simulation.with_fabric(|fabric| {
        let link = fabric.port(port).link.unwrap();
        let host_link = [LinkDirection::Down, LinkDirection::Up].map(|heading| {
            let counters = fabric.counters(DirectionId { link, heading });
            let bytes = [counters.payload_bytes, counters.header_bytes];
            [counters.tlps, bytes[0], bytes[1], counters.acks, counters.update_fcs]
        });
        let mut sent = vec![0; 4096];
        let host = fabric.node(model).host;
        assert!(fabric.peek(host, crosslane_pcie::units::BusAddress(0x10_0000), &mut sent));
        let model: &mut NetworkProcessor = fabric.device_as(model).unwrap();
        let links = (0..LINKS).map(|link| model.link_counters(link)).collect();
        let forwarded = model.forwarded();
        Seen { node, measured, links, forwarded, host_link: host_link.to_vec(), sent }
    })
}

/// Runs [`trained_anew`] on all nodes.
fn troubled(division: &Division, sizes: &[u16], options: HaloOptions) -> Vec<Seen> {
    let ending = division.run(1, &(), |part: &Part, run: CheckedRun| {
        let simulation = run.simulation();
        let ended = run.run_to_errors("exchanges", async {
            let exchange = |&number: &u16| {
                let bus = bus_of(simulation, number);
                let exchange = trained_anew(bus, number, sizes.to_vec(), options);
                simulation.spawn(&format!("node {number}"), exchange)
            };
            try_join_all(part.nodes().iter().map(exchange).collect::<Vec<_>>()).await
        });
        ended.map(|all| {
            let all = part.nodes().iter().zip(all);
            all.map(|(&node, measured)| look(simulation, node, measured)).collect::<Vec<_>>()
        })
    });
    let ended = ending.unwrap().into_result().unwrap_or_else(|error| panic!("{error}"));
    let mut all: Vec<Seen> = ended.value.into_iter().flatten().collect();
    all.sort_by_key(|seen| seen.node);
    all
}

#[test]
fn links_that_train_anew_do_so_alike_on_any_threads() {
    for (seed, sizes) in [&[2][..], &[3, 2], &[4], &[2, 2, 2], &[5, 2]].into_iter().enumerate() {
        let lab = Lab::load("torus").and_then(|lab| lab.with_torus(sizes)).unwrap();
        let lab = lab.edited(|file| {
            let cable = &mut file.tori[0].parameters;
            cable.latency = [ns(136), ns(40), ns(701)][seed % 3];
            cable.bring_up = [ns(300), ns(100), ns(5_000)][seed % 3];
            cable.bit_error_rate = [0.0, 1e-5][seed % 2];
        });
        let lab = lab.unwrap();
        let lattice = Lattice::new([3; 4]).unwrap();
        let options = HaloOptions::new(lattice, 64).with_exchanges(3);
        let one = troubled(&lab.divide(1).unwrap(), sizes, options);
        assert!(one.iter().all(|seen| seen.measured.wrong == 0 && seen.measured.checked > 0));
        assert!(one.iter().any(|seen| seen.links[0].unwrap().repeated > 0), "{sizes:?}");
        for threads in [2, 3] {
            let others = troubled(&lab.divide(threads).unwrap(), sizes, options);
            assert_eq!(one, others, "{sizes:?} on {threads} threads");
        }
    }
}

fn small(sizes: &[u16]) -> Division {
    let lab = Lab::load("torus").and_then(|lab| lab.with_torus(sizes)).unwrap();
    lab.divide(2).unwrap()
}

/// Sleeps until then on the first host of the part.
async fn sleep(run: &CheckedRun, time: Picoseconds) {
    run.simulation().bus(HostId(0)).sleep_until(time).await;
}

/// Runs a program that does the same in all parts but the second.
fn with_second(
    watch: &dyn Progress,
    second: impl AsyncFn(&CheckedRun) -> Result<(), String> + Sync,
) -> Ending<Vec<()>, String> {
    let ending = small(&[4]).run(1, watch, |part, run| {
        let run = run.with_limit(ns(1_000_000));
        run.run_to_errors("a part", async {
            match part.nodes().contains(&0) {
                true => sleep(&run, ns(500_000)).await,
                false => second(&run).await?,
            }
            Ok(())
        })
    });
    ending.unwrap()
}

#[test]
fn a_part_that_fails_ends_the_others() {
    let ending = with_second(&(), async |run| {
        sleep(run, ns(2_000)).await;
        Err("no more".to_owned())
    });
    assert_eq!(ending.program, Ok(Err("no more".to_owned())));
    assert_eq!(ending.ended, ns(2_000));
}

#[test]
fn a_part_that_panics_ends_the_others() {
    let panicking = || {
        with_second(&(), async |run| {
            sleep(run, ns(2_000)).await;
            panic!("a part is broken");
        })
    };
    let panic = catch_unwind(AssertUnwindSafe(panicking)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a part is broken"));
}

#[test]
fn a_part_that_waits_for_ever_is_found() {
    let ending = with_second(&(), async |run| {
        let bus = run.simulation().bus(HostId(0));
        let memory = bus.allocate(4096, PageSize::Small).map_err(|error| error.to_string())?;
        let waited = bus.wait_memory(&memory, 0, 0, Picoseconds::NEVER).await;
        waited.map(drop).map_err(|error| error.to_string())
    });
    let stuck = ending.program.unwrap_err();
    assert_eq!((stuck.why, stuck.waiting.len()), (WhyStuck::NothingLeft, 1), "{stuck}");
    assert!(stuck.to_string().contains("a part: waits for 4 B at"), "{stuck}");
}

#[test]
fn the_time_limit_is_that_of_all_parts() {
    let ending = with_second(&(), async |run| {
        sleep(run, ns(2_000_000)).await;
        Ok(())
    });
    let stuck = ending.program.unwrap_err();
    assert_eq!((stuck.why, stuck.time), (WhyStuck::TimeLimit, ns(1_000_000)));
    let ending = with_second(&(), async |run| {
        sleep(run, ns(1_000_000)).await;
        Ok(())
    });
    assert_eq!(ending.program, Ok(Ok(vec![(), ()])));
    assert_eq!(ending.ended, ns(1_000_000));
}

/// An observer that ends the work at its third look.
#[derive(Default)]
struct Impatient {
    looks: AtomicU32,
    reports: Mutex<Vec<PartsReport>>,
}

impl Progress for Impatient {
    fn is_over(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed) >= 3
    }

    fn clock(&self) -> Option<fn() -> Duration> {
        Some(|| Duration::from_secs(1))
    }

    fn parted(&self, report: &PartsReport) {
        self.reports.lock().unwrap().push(report.clone());
    }
}

#[test]
fn an_interruption_ends_all_parts() {
    let watch = Impatient::default();
    // Something happens all the time, without an end.
    let ending = with_second(&watch, async |run| {
        loop {
            let bus = run.simulation().bus(HostId(0));
            bus.sleep_until(bus.now() + Picoseconds(1)).await;
        }
    });
    assert_eq!(ending.program.unwrap_err().why, WhyStuck::Ended);
    let reports = watch.reports.lock().unwrap();
    let nodes: Vec<usize> = reports[0].parts.iter().map(|part| part.nodes).collect();
    assert_eq!(nodes, [2, 2]);
    assert!(reports[0].parts[0].exchanges > 0);
    let lab = Lab::load("torus").and_then(|lab| lab.with_torus(&[2])).unwrap();
    let options = HaloOptions::new(Lattice::new([2; 4]).unwrap(), 64).with_threads(2);
    let watch = Impatient { looks: 3.into(), ..Default::default() };
    let ended = Scenario::new(Arc::new(lab), options).run(&watch, None);
    assert_eq!(ended.unwrap_err(), ExperimentError::Interrupted);
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let lab = Lab::load("torus").and_then(|lab| lab.with_torus(&[2])).unwrap();
    let lab = lab.edited(|file| {
        let mut part = (*file.hosts[0].part).clone();
        part.parameters.completer.read_jitter = ns(1);
        file.hosts[0].part = Arc::new(part);
    });
    let options = HaloOptions::new(Lattice::new([2; 4]).unwrap(), 64).with_threads(2);
    let error = Scenario::new(Arc::new(lab.unwrap()), options).run(&(), None).unwrap_err();
    let words = "cannot divide lab torus for several threads: reads of node1's memory take random";
    assert!(error.to_string().contains(words), "{error}");
}
