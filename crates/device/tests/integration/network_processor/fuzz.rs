// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random programs: any bytes in requests, stores of any length into any aperture, any words in
//! registers, cut cables, hosts that reset. No memory outside requests is touched, nothing panics,
//! every request is notified at most once, and nothing is left over in the end.
//!
//! `cargo test` tries some hundred random inputs; `tools/corpus.py NAME` fuzzes with coverage and
//! writes the inputs that each run replays first.

use bolero::TypeGenerator;
use crosslane_device::network_processor::NetworkProcessorParameters;
use crosslane_regs::network_processor as map;

use crate::network_processor::stand::*;
use crate::support::fabric_support::ns;

/// Random inputs of the target in a plain run of the tests.
const ITERATIONS: usize = 300;
/// Bytes that requests may name. The memory behind them must not be touched.
const REGION_BYTES: u64 = 40_000;

#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Step {
    /// A roughly valid request.
    Ask { end: bool, credit: bool, place: u16, at: u16, bytes: u16, bend: u8 },
    /// Cancel an earlier request.
    Cancel { which: u8 },
    /// Random bytes in the request apertures.
    Scribble { end: bool, at: u16, word: u64 },
    /// A roughly valid put.
    Put { end: bool, place: u16, bytes: u8, last: bool },
    /// Random bytes in the put aperture.
    ScribblePut { end: bool, at: u32, word: u64 },
    /// Random word in a register.
    Register { end: bool, at: u8, word: u32 },
    /// Let time pass.
    Wait { ns: u16 },
    /// Cut or mend a cable.
    Cut { link: bool, mend: bool },
}

fn run(seed: u8, steps: &[Step]) {
    let parameters = NetworkProcessorParameters { tags: u16::from(seed % 7) + 1, ..processor() };
    let mut cable = cable();
    cable.end.channel_datagrams = u16::from(seed % 5) + 1;
    cable.bit_error_rate = if seed.is_multiple_of(3) { 1e-4 } else { 0.0 };
    let mut stand = Stand::of(&[2], &settings(), parameters, cable);
    stand.fabric.set_shuffle(seed % 2 == 1);
    stand.bring_up();
    let before = [0, 1].map(|end| stand.peek(end, DATA + REGION_BYTES, 70_000));
    let mut asked: Vec<Asked> = Vec::new();
    for step in steps {
        match *step {
            Step::Ask { end, credit, place, at, bytes, bend } => {
                let place = u32::from(place);
                let (link, channel, tag) = (place & 1, place >> 1 & 7, place >> 4 & 3);
                let (at, bytes) = (u64::from(at) / 4, u32::from(bytes) / 4);
                let ask = match credit {
                    true => Ask::credit(link, channel, tag, DATA + at, bytes),
                    false => Ask::get(link, channel, tag, DATA + at, bytes),
                };
                let ask = match bend {
                    0 => Ask { link: 7, ..ask },
                    1 => Ask { bytes: u32::MAX, ..ask },
                    2 => Ask { address: u64::MAX - at, ..ask },
                    3..=60 => ask.to(u32::from(!end)),
                    _ => ask,
                };
                asked.push(stand.ask(end.into(), ask));
            }
            Step::Cancel { which } => {
                if let Some(one) = asked.get(usize::from(which) % asked.len().max(1)) {
                    let one = *one;
                    stand.cancel(&one);
                }
            }
            Step::Scribble { end, at, word } => {
                // Avoid addresses where a complete request could result by chance.
                let at = u64::from(at) % 0x7ff8;
                let bytes = word.to_le_bytes();
                stand.store(end.into(), REQUESTS + (at | 32), &bytes[..usize::from(seed) % 8 + 1]);
            }
            Step::Put { end, place, bytes: count, last } => {
                let place = u32::from(place);
                let place = (place & 1, place >> 1 & 7, place >> 4 & 15);
                let count = usize::from(count).clamp(1, 128);
                let data = bytes(place.2.into(), count);
                stand.put(end.into(), place, place.2 & 3, last, &data);
            }
            Step::ScribblePut { end, at, word } => {
                let at = u64::from(at) % (4 * 8 * PUT_SLOTS * 256 - 8);
                stand.store(end.into(), PUTS + at, &word.to_le_bytes());
            }
            Step::Register { end, at, word } => {
                let at = u32::from(at) * 4;
                // The counts would be written to the address in the word.
                if at != map::PUT_COUNTS_LOW && at != map::PUT_COUNTS_HIGH {
                    stand.write(end.into(), at, word);
                }
            }
            Step::Wait { ns: time } => stand.run_for(ns(time.into())),
            Step::Cut { link, mend } => {
                let link = u8::from(link);
                stand.command(0, |nwp, port| match mend {
                    true => nwp.mend(link, port),
                    false => nwp.cut(link, port),
                });
            }
        }
    }
    for end in 0..2 {
        stand.write(end, map::CONTROL, map::control::RESET.mask());
    }
    stand.run();
    // Twice, because the first may have come between two halves of a request.
    for one in asked {
        stand.ended(&one);
    }
    for (end, before) in before.into_iter().enumerate() {
        assert!(stand.peek(end, DATA + REGION_BYTES, 70_000) == before);
        assert_eq!(stand.read(end, map::STATUS), 1, "quiet");
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
                let (end, which) = (random.bool(), random.bool());
                match random.u8(..40) {
                    0..=19 => Step::Ask {
                        end,
                        credit: which,
                        place: random.u16(..),
                        at: random.u16(..),
                        bytes: random.u16(..),
                        bend: random.u8(..),
                    },
                    20..=22 => Step::Cancel { which: random.u8(..) },
                    23 => Step::Scribble { end, at: random.u16(..), word: random.u64(..) },
                    24..=27 => {
                        Step::Put { end, place: random.u16(..), bytes: random.u8(..), last: which }
                    }
                    28 => Step::ScribblePut { end, at: random.u32(..), word: random.u64(..) },
                    29 if random.u8(..8) == 0 => {
                        Step::Register { end, at: random.u8(..), word: random.u32(..) }
                    }
                    30 | 31 => Step::Cut { link: end, mend: which },
                    _ => Step::Wait { ns: random.u16(..) / 8 },
                }
            })
            .collect();
        run(seed as u8, &steps);
    }
}
