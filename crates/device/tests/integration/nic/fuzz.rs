// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random programs: any doorbell values, any bytes in rings, early deregistration, connections
//! closed at any moment. No memory without a key is written, nothing panics, and nothing is left
//! over in the end.
//!
//! `cargo test` tries some hundred random inputs; `tools/corpus.py NAME` fuzzes with coverage and
//! writes the inputs that each run replays first.

use bolero::TypeGenerator;
use crosslane_device::nic::layout::{INLINE_BYTES, Operation, WorkRequest};
use crosslane_device::nic::{Nic, NicParameters};

use crate::nic::stand::*;
use crate::support::fabric_support::ns;

/// Random inputs of the target in a plain run of the tests.
const ITERATIONS: usize = 400;
/// Bytes of each registration. The memory between registrations must not be touched.
const REGION_BYTES: u64 = 20_000;

#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Step {
    /// A roughly valid work request.
    Post { pair: u8, operation: u8, near: u16, far: u16, bytes: u16, bend: u8, id: u8 },
    /// Random bytes in a work request.
    Scribble { pair: u8, byte: u8, at: u8 },
    /// Random value in a doorbell.
    Ring { pair: u8, which: bool, count: u32 },
    /// Let time pass.
    Wait { ns: u16 },
    /// End a registration and begin another.
    Register { end: bool },
    /// Close a connection.
    Close { pair: u8 },
    /// Cut or mend the network.
    Cut { mend: bool },
}

fn operation(number: u8) -> Operation {
    use Operation::{Read, Send, SendInline, Write};
    [Write, Read, Send, SendInline][usize::from(number) % 4]
}

fn run(seed: u8, steps: &[Step]) {
    let parameters = NicParameters { tags: u16::from(seed % 7) + 1, ..nic() };
    let mut stand = Stand::new(parameters);
    stand.fabric.set_shuffle(seed % 2 == 1);
    let access = BOTH;
    let mut regions = [0, 1].map(|end: usize| stand.register(end, DATA, REGION_BYTES, access));
    let mut pairs: Vec<Pair> = (0..2).flat_map(|_| stand.connect(2)).collect();
    let before = [0, 1].map(|end| stand.peek(end, DATA + REGION_BYTES, 70_000));
    for step in steps {
        match *step {
            Step::Post { pair, operation: number, near, far, bytes, bend, id } => {
                let at = usize::from(pair) % pairs.len();
                let mut pair = pairs[at];
                let (own, other) = (&regions[pair.end], &regions[1 - pair.end]);
                let (near, far) = (u64::from(near) / 4, u64::from(far) / 4);
                let bytes = u64::from(bytes) / 8;
                let one = work(operation(number), id.into(), (own, near), (other, far), bytes);
                // Corrupt some of them.
                let one = match bend {
                    0 => WorkRequest { far_key: one.far_key + 1, ..one },
                    1 => WorkRequest { near_key: 0, ..one },
                    2 => WorkRequest { bytes: u64::MAX - one.bytes, ..one },
                    3 => WorkRequest { far_address: u64::MAX - far, ..one },
                    4 => WorkRequest { near_address: u64::MAX - near, ..one },
                    _ => one,
                };
                let within = match one.operation {
                    Operation::SendInline => vec![number; one.bytes.min(INLINE_BYTES) as usize],
                    _ => Vec::new(),
                };
                stand.put_with(&mut pair, one, &within);
                stand.ring(&pair);
                pairs[at] = pair;
            }
            Step::Scribble { pair, byte, at } => {
                let index = usize::from(pair) % pairs.len();
                let mut pair = pairs[index];
                stand.scribble(&mut pair, at, byte);
                stand.ring(&pair);
                pairs[index] = pair;
            }
            Step::Ring { pair, which, count } => {
                let pair = pairs[usize::from(pair) % pairs.len()];
                stand.doorbell(&pair, if which { 4 } else { 0 }, count);
            }
            Step::Wait { ns: time } => stand.run_for(ns(time.into())),
            Step::Register { end } => {
                let end = usize::from(end);
                let key = regions[end].key;
                assert!(stand.device(end).deregister(key));
                regions[end] = stand.register(end, DATA, REGION_BYTES, access);
            }
            Step::Close { pair } => {
                let pair = pairs[usize::from(pair) % pairs.len()];
                stand.close(&pair);
            }
            Step::Cut { mend } => {
                let node = stand.ends[0].node;
                match mend {
                    true => assert!(Nic::mend(&mut stand.fabric, node)),
                    false => assert!(Nic::cut(&mut stand.fabric, node)),
                }
            }
        }
    }
    let node = stand.ends[0].node;
    Nic::mend(&mut stand.fabric, node);
    for pair in &pairs {
        stand.close(pair);
    }
    stand.run();
    for pair in &pairs {
        assert!(stand.device(pair.end).destroy(pair.number), "{pair:?} has not ended");
    }
    for (end, before) in before.into_iter().enumerate() {
        assert_eq!(stand.peek(end, DATA + REGION_BYTES, 70_000), before);
        assert_eq!(stand.device(end).tags_in_use(), 0);
    }
    stand.assert_at_rest();
}

#[test]
fn programs_that_do_anything() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_type::<(u8, Vec<Step>)>()
        .for_each(|(seed, steps)| run(*seed, steps));
}

/// Runs many steps, since bolero's random inputs are short.
#[test]
fn programs_that_do_much() {
    for seed in 0..60 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let steps: Vec<Step> = (0..200)
            .map(|_| {
                let (pair, end) = (random.u8(..4), random.bool());
                match random.u8(..40) {
                    0..=19 => Step::Post {
                        pair,
                        operation: random.u8(..),
                        near: random.u16(..),
                        far: random.u16(..),
                        bytes: random.u16(..),
                        // Corrupt few, because a connection that has ended does nothing.
                        bend: if random.u8(..30) == 0 { random.u8(..5) } else { 9 },
                        id: random.u8(..),
                    },
                    20 if random.u8(..10) == 0 => {
                        Step::Scribble { pair, byte: random.u8(..), at: random.u8(..) }
                    }
                    21 if random.u8(..4) == 0 => {
                        Step::Ring { pair, which: end, count: random.u32(..) }
                    }
                    22..=25 => Step::Ring { pair, which: true, count: random.u32(..9) },
                    26 if random.u8(..8) == 0 => Step::Register { end },
                    27 if random.u8(..8) == 0 => Step::Close { pair },
                    28 | 29 => Step::Cut { mend: end },
                    _ => Step::Wait { ns: random.u16(..) / 8 },
                }
            })
            .collect();
        run(seed as u8, &steps);
    }
}
