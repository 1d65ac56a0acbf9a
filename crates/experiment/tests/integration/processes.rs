// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One lab in several processes, which are threads here, with messages as bytes: every figure and
//! the hash of the trace are those of one thread, and a process that is gone ends the others.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crosslane_experiment::{ExperimentError, HaloOptions, HaloOutcome, Lattice, Scenario};
use crosslane_lab::Lab;
use crosslane_lab::parts::{Arrived, Carrier, Disagreement, Gone, agree};
use crosslane_pcie::units::Picoseconds;

/// A process's ends of the channels to all others.
#[derive(Debug)]
struct Wires {
    rank: usize,
    names: Vec<String>,
    outgoing: Mutex<Vec<Sender<Vec<u8>>>>,
    incoming: Mutex<Vec<Receiver<Vec<u8>>>>,
    /// Swaps until it is killed.
    left: AtomicU32,
    /// Byte that is changed in its last message.
    damaged: Option<usize>,
}

impl Carrier for Wires {
    fn rank(&self) -> usize {
        self.rank
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn swap(&self, mut messages: Vec<Vec<u8>>) -> Result<Arrived, Gone> {
        let gone = |rank: usize| Gone {
            who: self.names[rank].clone(),
            why: "does not answer any more".to_owned(),
        };
        let (mut outgoing, incoming) =
            (self.outgoing.lock().unwrap(), self.incoming.lock().unwrap());
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            match self.damaged {
                Some(at) => messages.iter_mut().for_each(|message| message[at] ^= 0xff),
                None => {
                    outgoing.clear();
                    return Err(gone(self.rank));
                }
            }
        }
        for (wire, message) in outgoing.iter().zip(messages) {
            // One that is gone is missed below.
            drop(wire.send(message));
        }
        let (mut arrived, mut last) = (Vec::new(), self.rank);
        for (rank, wire) in incoming.iter().enumerate() {
            arrived.push(wire.recv().map_err(|_| gone(rank))?);
            last = rank;
        }
        arrived[self.rank].clear();
        Ok(Arrived { messages: arrived, last })
    }
}

/// Makes processes; number `killed.0` is killed after `killed.1` swaps.
fn processes(count: usize, killed: Option<(usize, u32)>) -> Vec<Wires> {
    let mut outgoing: Vec<Vec<Sender<Vec<u8>>>> = (0..count).map(|_| Vec::new()).collect();
    let mut incoming: Vec<Vec<Receiver<Vec<u8>>>> = (0..count).map(|_| Vec::new()).collect();
    for from in &mut outgoing {
        for to in &mut incoming {
            let (sender, receiver) = channel();
            from.push(sender);
            to.push(receiver);
        }
    }
    let names: Vec<String> = (0..count).map(|rank| format!("rank {rank} on here")).collect();
    let wires = outgoing.into_iter().zip(incoming).enumerate();
    let wires = wires.map(|(rank, (outgoing, incoming))| Wires {
        rank,
        names: names.clone(),
        outgoing: Mutex::new(outgoing),
        incoming: Mutex::new(incoming),
        left: killed.filter(|(it, _)| *it == rank).map_or(u32::MAX, |(_, swaps)| swaps).into(),
        damaged: None,
    });
    wires.collect()
}

type Outcomes = Vec<Result<HaloOutcome, ExperimentError>>;

/// Runs exchanges in processes; returns the outcome of each.
fn run(lab: &Arc<Lab>, options: HaloOptions, processes: Vec<Wires>) -> Outcomes {
    thread::scope(|scope| {
        let start = |wires: Wires| {
            let carrier: Arc<dyn Carrier> = Arc::new(wires);
            let scenario = Scenario::new(lab.clone(), options).with_carrier(Some(carrier));
            scope.spawn(move || scenario.run(&(), None))
        };
        let all: Vec<_> = processes.into_iter().map(start).collect();
        all.into_iter().map(|process| process.join().unwrap()).collect()
    })
}

fn torus(sizes: &[u16]) -> Arc<Lab> {
    Arc::new(Lab::load("torus").and_then(|lab| lab.with_torus(sizes)).unwrap())
}

fn options() -> HaloOptions {
    let options = HaloOptions::new(Lattice::new([2, 3, 1, 2]).unwrap(), 60);
    options.with_exchanges(2).with_trace_hash(true)
}

#[test]
fn outcomes_do_not_depend_on_the_processes() {
    for (sizes, bit_error_rate) in [(&[4][..], 1e-5), (&[3, 2], 0.0), (&[2, 2, 2], 1e-6)] {
        let lab = torus(sizes).edited(|file| {
            file.tori[0].parameters.bit_error_rate = bit_error_rate;
        });
        let lab = Arc::new(lab.unwrap());
        let one = Scenario::new(lab.clone(), options()).run(&(), None).unwrap();
        assert!(one.trace.unwrap().records > 1000, "{sizes:?}");
        let threads = Scenario::new(lab.clone(), options().with_threads(2)).run(&(), None).unwrap();
        assert_eq!(threads, one, "{sizes:?} on two threads");
        for count in [1, 2, 3] {
            for outcome in run(&lab, options(), processes(count, None)) {
                assert_eq!(outcome.unwrap(), one, "{sizes:?} in {count} processes");
            }
        }
    }
}

#[test]
fn another_lattice_has_another_trace_hash() {
    let hash = |bytes| {
        let mut options = options();
        options.site_bytes = bytes;
        Scenario::new(torus(&[2]), options).run(&(), None).unwrap().trace
    };
    assert_ne!(hash(60), hash(64));
    assert_eq!(hash(60), hash(60));
}

#[test]
fn a_process_that_is_killed_ends_the_others() {
    for swaps in [0, 7] {
        for outcome in run(&torus(&[3]), options(), processes(3, Some((1, swaps)))) {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("rank 1 on here does not answer any more"), "{error}");
        }
    }
}

#[test]
fn a_message_that_makes_no_sense_ends_all() {
    let mut all = processes(2, Some((1, 3)));
    all[1].damaged = Some(0);
    let outcomes = run(&torus(&[4]), options(), all);
    let error = outcomes[0].as_ref().unwrap_err().to_string();
    let words = "rank 1 on here sent a message that cannot be read: ";
    assert!(error.contains(words), "{error}");
    assert!(outcomes[1].is_err());
}

/// Rings that never come up: all processes say the same.
#[test]
fn a_run_that_fails_fails_in_all_processes() {
    let lab = torus(&[4]).edited(|file| {
        file.tori[0].parameters.bring_up = Picoseconds::from_ns(2_000_000);
    });
    let lab = Arc::new(lab.unwrap());
    let options = options().with_timeout(Picoseconds::from_ns(1_000_000));
    let one = Scenario::new(lab.clone(), options).run(&(), None).unwrap_err().to_string();
    for outcome in run(&lab, options, processes(2, None)) {
        assert_eq!(outcome.unwrap_err().to_string(), one);
    }
}

#[test]
fn more_processes_than_hosts_are_refused() {
    for outcome in run(&torus(&[2]), options(), processes(3, None)) {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("3 processes, but it can be divided into 2 parts"), "{error}");
    }
}

#[test]
fn processes_that_differ_find_it_out() {
    let started = |builds: [&str; 3]| {
        thread::scope(|scope| {
            let agreeing = |(wires, build): (Wires, &str)| {
                let facts = [("version", "1".to_owned()), ("build", build.to_owned())];
                scope.spawn(move || agree(&wires, &facts))
            };
            let all: Vec<_> = processes(3, None).into_iter().zip(builds).map(agreeing).collect();
            all.into_iter().map(|process| process.join().unwrap()).collect::<Vec<_>>()
        })
    };
    assert_eq!(started(["a", "a", "a"]), [Ok(()), Ok(()), Ok(())]);
    for outcome in started(["a", "a", "b"]) {
        let different = outcome.unwrap_err();
        assert!(matches!(different, Disagreement::Different { .. }));
        let words = "rank 2 on here has another build: b, not a as rank 0 on here";
        assert_eq!(different.to_string(), words);
    }
}
