// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nearest-neighbour exchange as lattice QCD needs it: a lattice of four dimensions over the hosts
//! of a torus, each of which has a part of it. In each step every site gets the sum of its eight
//! neighbours, less a part of itself: the hopping term of a field of 12 complex numbers, without
//! the links' matrices. Faces go from host to host through their FPGAs.
//!
//! `cargo run --release -p crosslane-experiment --example lattice [STEPS]`
//!
//! At the end each number on each host is compared with that of the whole lattice in one memory.

use crosslane_driver::Buffer;
use crosslane_experiment::Lattice;
use crosslane_experiment::lattice::{DIRECTIONS, Neighbour};
use crosslane_lab::Simulation;
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_torus::{Coordinates, Direction, Message, Node, NodeOptions, Peer, TorusError};
use futures_util::future::{join_all, try_join_all};

/// Hosts of the lab `torus`, in each dimension.
const TORUS: [u16; 4] = [2, 2, 2, 2];
/// Sites of each host's part.
const PART: [u32; 4] = [4, 4, 4, 4];
/// 12 complex numbers.
const NUMBERS: usize = 24;
/// Bytes of a site.
const SITE_BYTES: usize = NUMBERS * 8;
/// The part of a site that is taken off.
const MASS: f64 = 0.25;
/// Longest time of a step.
const TIMEOUT: Picoseconds = Picoseconds::from_ns(1_000_000);

type Site = [f64; NUMBERS];

/// The field at the beginning, by the site's coordinates in the whole lattice.
fn initial(coordinates: [u32; 4]) -> Site {
    let place =
        coordinates.iter().fold(1_u32, |place, &one| place.wrapping_mul(31).wrapping_add(one));
    std::array::from_fn(|number| {
        let mixed = (place ^ (number as u32).wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
        f64::from(mixed >> 8) / f64::from(1 << 24) - 0.5
    })
}

/// A step at a site: `neighbour` gives the site in each direction.
fn step(own: &Site, neighbour: impl Fn(Direction) -> Site) -> Site {
    let mut sum: Site = std::array::from_fn(|number| -MASS * own[number]);
    for direction in DIRECTIONS {
        let other = neighbour(direction);
        sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += 0.125 * other);
    }
    sum
}

fn bytes_of(sites: impl Iterator<Item = Site>) -> Vec<u8> {
    sites.flatten().flat_map(f64::to_le_bytes).collect()
}

fn sites_of(bytes: &[u8]) -> Vec<Site> {
    let numbers = bytes.as_chunks::<8>().0.iter().map(|number| f64::from_le_bytes(*number));
    let numbers: Vec<f64> = numbers.collect();
    numbers.as_chunks::<NUMBERS>().0.to_vec()
}

/// A host's part.
struct Part {
    node: Node,
    lattice: Lattice,
    field: Vec<Site>,
    /// Memory for a face in each direction, to be sent and to come.
    sent: Vec<Buffer>,
    received: Vec<Buffer>,
}

impl Part {
    async fn open(simulation: &Simulation, number: u16) -> Result<Self, TorusError> {
        let bus = simulation.bus(HostId(number));
        let place = Coordinates::of_node(number, &TORUS);
        let name = format!("fpga{}", number + 1);
        let node = Node::open(bus, &name, place, NodeOptions::default()).await?;
        let lattice = Lattice::new(PART).expect("a part has sites");
        let begin: Vec<u32> = (node.coordinates().dimensions().iter().zip(PART))
            .map(|(dimension, extent)| u32::from(dimension.position) * extent)
            .collect();
        let whole = |site: usize| {
            let inner = lattice.coordinates(site);
            std::array::from_fn(|dimension| begin[dimension] + inner[dimension])
        };
        let field = (0..lattice.sites()).map(|site| initial(whole(site))).collect();
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for direction in DIRECTIONS {
            let sites = lattice.face_sites(direction.dimension().into());
            let bytes = (sites * SITE_BYTES) as u64;
            sent.push(node.buffer(bytes).await?);
            received.push(node.buffer(bytes).await?);
        }
        Ok(Self { node, lattice, field, sent, received })
    }

    fn message(&self, direction: Direction, buffer: &Buffer) -> Message {
        use crosslane_host::Bus;
        Message {
            peer: Peer::Neighbour { direction, channel: 0 },
            tag: 0,
            buffer: buffer.clone(),
            part: 0..buffer.size_bytes(),
            deadline: self.node.processor().bus().now() + TIMEOUT,
        }
    }

    /// Sends the faces and gets those of the neighbours; then the step at all sites.
    async fn step(&mut self) -> Result<(), TorusError> {
        let (mut receiving, mut sending) = (Vec::new(), Vec::new());
        for (direction, buffer) in DIRECTIONS.into_iter().zip(&self.received) {
            receiving.push(self.node.rx_i(self.message(direction, buffer)).await?);
        }
        for (direction, buffer) in DIRECTIONS.into_iter().zip(&self.sent) {
            let face = self.lattice.face(direction).map(|site| self.field[site]);
            buffer.write(0, &bytes_of(face))?;
            sending.push(self.node.tx_i(self.message(direction, buffer)).await?);
        }
        try_join_all(receiving.iter().map(|message| self.node.finish(message))).await?;
        try_join_all(sending.iter().map(|message| self.node.finish(message))).await?;
        let mut halo = Vec::new();
        for buffer in &self.received {
            let mut bytes = vec![0; buffer.size_bytes() as usize];
            buffer.read(0, &mut bytes)?;
            halo.push(sites_of(&bytes));
        }
        let at = |site: usize, direction: Direction| match self.lattice.neighbour(site, direction) {
            Neighbour::Inside(other) => self.field[other],
            Neighbour::Outside(place) => halo[usize::from(direction.link())][place],
        };
        let sites = 0..self.lattice.sites();
        self.field =
            sites.map(|site| step(&self.field[site], |direction| at(site, direction))).collect();
        Ok(())
    }
}

/// The same on the whole lattice in one memory.
fn reference(steps: u32) -> (Lattice, Vec<Site>) {
    let extents = std::array::from_fn(|at| PART[at] * u32::from(TORUS[at]));
    let lattice = Lattice::new(extents).expect("the whole lattice has sites");
    let sites = 0..lattice.sites();
    let mut field: Vec<Site> =
        sites.clone().map(|site| initial(lattice.coordinates(site))).collect();
    for _ in 0..steps {
        // At its edge the lattice goes on at the other side, as the torus does.
        let at = |site: usize, direction: Direction| match lattice.neighbour(site, direction) {
            Neighbour::Inside(other) => field[other],
            Neighbour::Outside(place) => {
                let other_side = lattice.face(direction.opposite()).nth(place);
                field[other_side.expect("faces are alike")]
            }
        };
        let next = sites.clone().map(|site| step(&field[site], |direction| at(site, direction)));
        field = next.collect();
    }
    (lattice, field)
}

/// Result of a run.
struct Outcome {
    /// Simulated time of all steps.
    time: Picoseconds,
    /// Numbers that were compared, and those that differ.
    compared: usize,
    wrong: usize,
}

fn run(steps: u32) -> Outcome {
    use crosslane_host::Bus;
    let lab = crosslane_lab::open("torus").unwrap_or_else(|error| panic!("{error}"));
    let simulation =
        Simulation::new(lab.build_engines(1).unwrap_or_else(|error| panic!("{error}")));
    let program = async {
        let parts = (0..TORUS.iter().product()).map(|number| Part::open(&simulation, number));
        let mut parts = try_join_all(parts).await?;
        let late = simulation.bus(HostId(0)).now() + TIMEOUT;
        try_join_all(parts.iter().map(|part| part.node.links_up(late))).await?;
        let begun = simulation.bus(HostId(0)).now();
        let all = parts.iter_mut().map(async |part| {
            for _ in 0..steps {
                part.step().await?;
            }
            Ok::<(), TorusError>(())
        });
        join_all(all).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok::<_, TorusError>((parts, simulation.bus(HostId(0)).now().since(begun)))
    };
    let result = simulation.run("lattice", program).unwrap_or_else(|stuck| panic!("{stuck}"));
    let (parts, time) = result.unwrap_or_else(|error| panic!("{error}"));
    let (whole, expected) = reference(steps);
    let (mut compared, mut wrong) = (0, 0);
    for part in &parts {
        for (site, found) in part.field.iter().enumerate() {
            let inner = part.lattice.coordinates(site);
            let begin = part.node.coordinates().dimensions();
            let at = std::array::from_fn(|dimension| {
                u32::from(begin[dimension].position) * PART[dimension] + inner[dimension]
            });
            let expected = &expected[whole.site(at)];
            compared += NUMBERS;
            let pairs = found.iter().zip(expected);
            wrong +=
                pairs.filter(|(found, expected)| found.to_bits() != expected.to_bits()).count();
        }
    }
    Outcome { time, compared, wrong }
}

fn main() {
    let steps = std::env::args().nth(1).map_or(10, |steps| steps.parse().expect("STEPS"));
    let Outcome { time, compared, wrong } = run(steps);
    let nodes: u16 = TORUS.iter().product();
    println!("{nodes} hosts, {steps} steps in {time} of simulated time, without computing");
    println!("{compared} numbers compared with those of the whole lattice, {wrong} differ");
    assert_eq!(wrong, 0, "numbers differ");
}

#[test]
fn every_number_is_that_of_the_whole_lattice() {
    let outcome = run(3);
    assert_eq!((outcome.wrong, outcome.compared), (0, 16 * 256 * NUMBERS));
    // Three steps are three exchanges of 12 KiB in each of eight directions.
    assert!(outcome.time.0 > 3 * 12_000_000, "{}", outcome.time);
}
