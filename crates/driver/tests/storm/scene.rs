// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A random lab, and what all tasks of a storm share.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crosslane_host::{Bus, Topology};
use crosslane_lab::{Lab, Simulation, shipped};
use crosslane_pcie::units::{HostId, Picoseconds, RoutingId};
use fastrand::Rng;

use crate::watched::{Shared, WatchedBus, Witness};

/// A storm that is not over by then never will be.
const LIMIT: Picoseconds = Picoseconds::from_ns(120_000_000_000);

pub const fn us(us: u64) -> Picoseconds {
    Picoseconds::from_ns(us * 1_000)
}

/// What all tasks of a storm share.
pub struct World {
    pub bus: WatchedBus,
    /// Begun and ended spans in which posted writes may be lost.
    pub losses: Cell<u64>,
    /// Spans that have begun and not ended.
    pub losing: Cell<u64>,
    /// Anything that the storm has done to the lab, so that errors are to be expected.
    pub faults: Cell<u64>,
    is_loud: bool,
}

impl World {
    /// Says what has happened, where one storm is replayed.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if !self.is_loud {
            return;
        }
        eprintln!("{}: {}", self.bus.now(), line());
    }

    pub fn begin_loss(&self) {
        self.losses.set(self.losses.get() + 1);
        self.losing.set(self.losing.get() + 1);
        self.faults.set(self.faults.get() + 1);
    }

    pub fn end_loss(&self) {
        self.losses.set(self.losses.get() + 1);
        self.losing.set(self.losing.get() - 1);
    }

    pub async fn sleep(&self, span: Picoseconds) {
        self.bus.sleep_until(self.bus.now() + span).await;
    }

    /// The function of that name.
    pub fn function(&self, name: &str) -> RoutingId {
        let functions = self.bus.functions().unwrap();
        functions.iter().find(|info| info.name == name).unwrap().id
    }

    /// What a future gives, or nothing where it takes longer than `span`: then it is dropped.
    pub async fn within<T>(&self, span: Picoseconds, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut end = pin!(self.sleep(span));
        poll_fn(|context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            end.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

/// A lab that was built.
pub struct Scene {
    pub simulation: Simulation,
    pub world: World,
    pub witness: Shared,
    /// Names of its engines.
    pub engines: Vec<String>,
    /// Upper ports of links that may be taken down.
    pub ports: Vec<String>,
    pub description: String,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

/// The text of a lab with bit errors on some of its links.
fn with_bit_errors(text: &str, rng: &mut Rng, description: &mut String) -> String {
    let mut text = text.to_owned();
    for part in ["slot", "cable", "board-x4"] {
        let head = format!("[part.{part}]\nkind = \"link\"\n");
        if !text.contains(&head) || rng.u8(..3) != 0 {
            continue;
        }
        let rate = pick(rng, &["1e-7", "1e-6", "1e-5"]);
        let source = "source = \"assumption: a storm\"";
        let errors = format!(
            "{head}bit_error_rate = {{ value = {rate}, {source} }}\n\
             retrain_ns = {{ value = 2_000, {source} }}\n"
        );
        text = text.replacen(&head, &errors, 1);
        description.push_str(&format!(" {part}: bit errors {rate}"));
    }
    text
}

/// The lab of a storm, with random sizes of everything that its engines have.
fn lab(rng: &mut Rng, description: &mut String) -> Lab {
    let (name, variant, part) = pick(
        rng,
        &[
            ("minimal", None, "card"),
            ("rosta", None, "v7"),
            ("rosta", Some("crosslane"), "v7"),
            ("rosta", Some("crosslane"), "v7"),
        ],
    );
    description.push_str(&format!("{name}:{}", variant.unwrap_or("")));
    let shipped = shipped().iter().find(|lab| lab.name == name).unwrap();
    let text = with_bit_errors(shipped.text, rng, description);
    // Measurements beside the file are not looked for.
    let text = text.replace("[[measurements]]\nfile = \"published/rosta.csv\"\n", "");
    let mut lab = Lab::from_text(name, &text).unwrap();
    if let Some(variant) = variant {
        lab = lab.with_variant(variant).unwrap();
    }
    let constants: [(&str, &[u32]); 11] = [
        ("engine.h2c_channels", &[1, 2]),
        ("engine.c2h_channels", &[1, 2]),
        ("engine.peer_channels", &[1, 2]),
        ("engine.lane_fifo_bytes", &[512, 1024, 4096, 16_384]),
        ("engine.stream_fifo_bytes", &[512, 1024, 4096, 16_384]),
        ("engine.fetch_batch", &[1, 4, 8, 16, 64]),
        ("engine.table_descriptors", &[32, 64, 1024]),
        ("engine.reading_descriptors", &[1, 2, 64]),
        ("requester.tags", &[1, 2, 5, 16]),
        ("requester.completion_timeout_ns", &[60_000, 400_000, 50_000_000]),
        ("requester.datapath_bytes", &[8, 16, 32]),
    ];
    for (constant, values) in constants {
        if rng.bool() {
            let value = pick(rng, values);
            let path = format!("part.{part}.{constant}");
            let is_there = |path: &str| {
                lab.constants()
                    .any(|constant| format!("{}.{}", constant.place, constant.key) == path)
            };
            let overruled = variant.map(|variant| format!("variant.{variant}.{path}"));
            let path = overruled.filter(|path| is_there(path)).unwrap_or(path);
            lab = lab.with_constant(&path, f64::from(value)).unwrap();
            description.push_str(&format!(" {constant}={value}"));
        }
    }
    lab
}

impl Scene {
    pub fn new(seed: u64, rng: &mut Rng, is_loud: bool) -> Self {
        let mut description = format!("seed {seed}: ");
        let lab = lab(rng, &mut description);
        let simulation = Simulation::new(lab.build_engines(rng.u64(..)).unwrap());
        simulation.set_time_limit(Some(LIMIT));
        if rng.bool() {
            simulation.with_fabric(|fabric| fabric.set_shuffle(true));
            description.push_str(" shuffled");
        }
        let witness = Witness::watch(&simulation);
        let bus = WatchedBus { bus: simulation.bus(HostId(0)), witness: witness.clone() };
        let functions = bus.functions().unwrap();
        let is_engine = |name: &&str| name.starts_with("fpga") || name.starts_with("card");
        let names = functions.iter().map(|info| info.name.as_str());
        let engines = names.filter(is_engine).map(str::to_owned).collect();
        let ports = functions.iter().filter(|info| info.port_type.is_above_its_link());
        let ports = ports.map(|info| info.name.clone()).collect();
        let world = World {
            bus,
            losses: Cell::new(0),
            losing: Cell::new(0),
            faults: Cell::new(0),
            is_loud,
        };
        Self { simulation, world, witness, engines, ports, description }
    }
}
