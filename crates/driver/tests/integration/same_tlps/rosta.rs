// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Short workloads of the reproduction `rosta`: to and from host memory, between cards on a board
//! and over the shared cable, the row of eight, and ping-pong.

use crosslane_driver::{Device, PathEnd, set_max_payload_on_path};
use crosslane_experiment::{
    Flow, NoObserver, Options, Workload, chain, latency, peer_write, read, together, write,
};
use crosslane_host::{Bus, Topology};
use crosslane_lab::{EngineKind, LabBus, Simulation, open};
use crosslane_pcie::units::HostId;

use crate::lab::setup::us;
use crate::same_tlps::seen::{Places, Recorder, Step};
use crate::same_tlps::workload::{bars_of, links_of};

const NAMES: [&str; 8] = ["fpga1", "fpga2", "fpga3", "fpga4", "fpga5", "fpga6", "fpga7", "fpga8"];
/// Bytes that each flow moves.
const BYTES: u64 = 256 << 10;

/// A workload, by numbers of engines.
#[derive(Clone, Copy, Debug)]
pub enum Rosta {
    Write(&'static [usize]),
    Read(&'static [usize]),
    /// Peer writes of these pairs, with this Max_Payload_Size on the path.
    Peer(&'static [(usize, usize)], u32),
    Chain,
    PingPong(usize, usize),
}

/// Alternating boards.
const EIGHT: &[usize] = &[1, 5, 2, 6, 3, 7, 4, 8];
/// Case 8.1, a ring over both boards, and case 8.2, each to the other board.
const RING: &[(usize, usize)] = &[(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 1)];
const ACROSS: &[(usize, usize)] = &[(1, 5), (2, 6), (3, 7), (4, 8), (5, 1), (6, 2), (7, 3), (8, 4)];

pub const ALL: [Rosta; 16] = [
    Rosta::Write(&[1]),
    Rosta::Read(&[1]),
    Rosta::Peer(&[(1, 2)], 128),
    Rosta::Peer(&[(1, 2)], 256),
    Rosta::PingPong(1, 2),
    Rosta::PingPong(3, 5),
    Rosta::Chain,
    Rosta::Write(&[1, 5]),
    Rosta::Read(&[1, 5]),
    Rosta::Peer(&[(1, 2), (3, 4), (2, 3), (4, 1)], 128),
    Rosta::Peer(RING, 128),
    Rosta::Peer(RING, 256),
    Rosta::Peer(ACROSS, 128),
    Rosta::Peer(ACROSS, 256),
    Rosta::Write(EIGHT),
    Rosta::Read(EIGHT),
];

/// Results of a run: TLPs, rates of the flows (B/s) by the engines' timers, and round trips.
pub struct Shown {
    pub step: Step,
    pub rates: Vec<f64>,
    pub round_trips_ps: Vec<u64>,
}

impl Rosta {
    /// Whether single TLPs can be timed: one engine works alone, or one behind another.
    pub fn is_timed(&self) -> bool {
        match self {
            Self::Write(numbers) | Self::Read(numbers) => numbers.len() == 1,
            Self::Peer(pairs, _) => pairs.len() == 1,
            // The host's work between two messages depends on when it polls.
            Self::Chain | Self::PingPong(..) => false,
        }
    }

    pub fn run(&self, kind: EngineKind) -> Shown {
        let lab = open("rosta:crosslane").unwrap().with_engines(kind);
        let simulation = Simulation::new(lab.build_engines(1).unwrap());
        simulation.set_time_limit(Some(us(100_000)));
        let recorder = Recorder::of(&simulation);
        let links = links_of(&simulation, &NAMES);
        let bus = simulation.bus(HostId(0));
        let (begin_ps, bars, rates, round_trips_ps) = simulation
            .run("rosta", async {
                let functions = bus.functions().unwrap();
                let bars = NAMES.map(|name| bars_of(&functions, name));
                let mut devices = Vec::new();
                for name in NAMES {
                    devices.push(Device::open_by_name(bus.clone(), name).await.unwrap());
                }
                let begin_ps = bus.now().0;
                let (rates, round_trips_ps) = self.drive(&bus, &devices).await;
                (begin_ps, bars, rates, round_trips_ps)
            })
            .unwrap();
        let places = Places::of(links, &bars, Vec::new());
        let step = recorder.steps(&places, &[begin_ps]).remove(0);
        Shown { step, rates, round_trips_ps }
    }

    async fn drive(&self, bus: &LabBus, devices: &[Device]) -> (Vec<f64>, Vec<u64>) {
        let device = |number: &usize| devices[number - 1].clone();
        let options = Options::default().with_size_bytes(BYTES);
        let works: Vec<(Workload, Vec<Device>)> = match self {
            Self::Write([number]) => {
                let measured = write(&device(number), &options).await.unwrap();
                return (vec![measured.hardware_bytes_per_second()], Vec::new());
            }
            Self::Read([number]) => {
                let measured = read(&device(number), &options).await.unwrap();
                return (vec![measured.hardware_bytes_per_second()], Vec::new());
            }
            Self::Peer([(from, to)], payload) => {
                set_payload(bus, &device(from), &device(to), *payload);
                let measured = peer_write(&device(from), &device(to), &options).await.unwrap();
                return (vec![measured.hardware_bytes_per_second()], Vec::new());
            }
            Self::Chain => {
                let measured = chain(devices, &options).await.unwrap();
                assert_eq!(measured.data_errors.words, 0);
                return (vec![measured.hardware_bytes_per_second()], Vec::new());
            }
            Self::PingPong(from, to) => {
                let options = Options::ping_pong().with_size_bytes(128).with_iterations(20);
                let measured = latency(&device(from), &device(to), &options).await.unwrap();
                return (Vec::new(), measured.round_trips.iter().map(|time| time.0).collect());
            }
            Self::Write(numbers) => {
                let work = |number| (Workload::Write(options), vec![device(number)]);
                numbers.iter().map(work).collect()
            }
            Self::Read(numbers) => {
                let work = |number| (Workload::Read(options), vec![device(number)]);
                numbers.iter().map(work).collect()
            }
            Self::Peer(pairs, payload) => {
                for (from, to) in *pairs {
                    set_payload(bus, &device(from), &device(to), *payload);
                }
                let work = |(from, to): &(usize, usize)| {
                    (Workload::Peer(options), vec![device(from), device(to)])
                };
                pairs.iter().map(work).collect()
            }
        };
        let flow = |(core, (workload, devices))| Flow { workload, devices, core };
        let flows: Vec<_> = (0..).zip(works).map(flow).collect();
        let measured = together(&flows, &NoObserver).await.unwrap();
        (measured.flows.iter().map(|flow| flow.hardware_bytes_per_second()).collect(), Vec::new())
    }
}

fn set_payload(bus: &LabBus, from: &Device, to: &Device, bytes: u32) {
    let place = |device: &Device| PathEnd::Function(device.function().id);
    set_max_payload_on_path(bus, place(from), place(to), bytes).unwrap();
}
