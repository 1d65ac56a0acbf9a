// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Link end against link end while frames are damaged or lost, and the link drops: no datagram is
//! lost, duplicated or out of order within its channel, every run ends, and both ends then agree.
//!
//! The harness in `support` checks every datagram as it arrives, and panics if an end with nothing
//! to send wants to be woken at once. A failing case prints its input; the file that proptest
//! writes beside this one replays it.

use crate::support;

use crosslane_torus_link::*;
use proptest::prelude::*;
use support::{Fate, Pair};

/// A case without its faults.
#[derive(Clone, Debug)]
struct Setup {
    parameters: EndParameters,
    symbol_ps: u64,
    latency_ps: u64,
    /// Datagrams on each channel, from side 0 and from side 1.
    datagrams: [[u32; 8]; 2],
    /// Time for which each host holds a datagram.
    hold_ps: [u64; 2],
}

prop_compose! {
    /// Times that fit the wire; if errors are rare, also far too short ones.
    fn parameters(symbol_ps: u64, latency_ps: u64, rare: bool)(
        channel_datagrams in prop_oneof![1..=4_u16, 5..=64_u16, Just(512)],
        retry_datagrams in prop_oneof![1..=4_u8, 5..=40_u8, Just(127)],
        queue_datagrams in 1..=20_u8,
        acknowledge_datagrams in 1..=20_u8,
        within in prop_oneof![Just(0), 1..1_000_000_u64],
        shorter in prop::sample::select(if rare { vec![1, 7, 40] } else { vec![1] }),
    ) -> EndParameters {
        let usual = EndParameters::for_wire(136 * symbol_ps, latency_ps);
        let acknowledge_within_ps = within / shorter;
        EndParameters {
            channel_datagrams,
            retry_datagrams,
            queue_datagrams,
            acknowledge_datagrams,
            acknowledge_within_ps,
            retry_timeout_ps: (usual.retry_timeout_ps / shorter).max(1) + acknowledge_within_ps,
            refresh_ps: (usual.refresh_ps / shorter).max(4),
        }
    }
}

fn datagrams() -> impl Strategy<Value = [u32; 8]> {
    prop_oneof![
        prop::array::uniform8(0..60_u32),
        (0..700_u32).prop_map(|count| [0, 0, count, 0, 0, 0, 0, 0]),
        Just([0; 8]),
    ]
}

fn setup(rare: bool) -> impl Strategy<Value = Setup> {
    let wire = (prop_oneof![Just(250_u64), Just(1_000), Just(4_000)], 0..400_000_u64);
    wire.prop_flat_map(move |(symbol_ps, latency_ps)| {
        let parameters = parameters(symbol_ps, latency_ps, rare);
        let hold = || prop_oneof![2 => Just(0_u64), 1 => 0..3_000_000_u64];
        (parameters, datagrams(), datagrams(), hold(), hold()).prop_map(
            move |(parameters, from_0, from_1, hold_0, hold_1)| Setup {
                parameters,
                symbol_ps,
                latency_ps,
                datagrams: [from_0, from_1],
                hold_ps: [hold_0, hold_1],
            },
        )
    })
}

fn pair<F: FnMut(usize, &Frame, u64) -> Fate>(setup: &Setup, fate: F) -> Pair<F> {
    let mut pair = Pair::new(setup.parameters, setup.symbol_ps, setup.latency_ps, fate);
    for (at, side) in pair.sides.iter_mut().enumerate() {
        side.to_send = setup.datagrams[at];
        side.hold_ps = setup.hold_ps[at];
    }
    pair
}

fn totals(setup: &Setup) -> [u32; 2] {
    setup.datagrams.map(|channels| channels.iter().sum())
}

/// Damage by line bits: each bit of a frame is wrong with probability `rate`. With 8b/10b any wrong
/// bit damages the frame or, in a first symbol, sometimes hides it.
fn bit_errors(seed: u64, rate: [f64; 2]) -> impl FnMut(usize, &Frame, u64) -> Fate {
    let mut random = crosslane_random::Random::with_seed(seed);
    move |side, frame, _| {
        let bits = frame.symbols() as i32 * 10;
        if random.f64() < (1.0 - rate[side]).powi(bits) {
            Fate::Comes
        } else if random.u8(..8) == 0 {
            Fate::Vanishes
        } else {
            Fate::Damaged
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// NACKs and RESTARTs overtake the frames that they ask for.
    #[test]
    fn times_that_are_too_short(setup in setup(true), seed: u64, exponent in -7.0..-4.0_f64) {
        let rate = 10_f64.powf(exponent);
        let mut pair = pair(&setup, bit_errors(seed, [rate; 2]));
        prop_assert!(pair.run(u64::MAX));
        pair.assert_done(totals(&setup));
    }

    /// Rates up to 1e-4, and up to 2e-3, where nine of ten datagrams are damaged.
    #[test]
    fn any_bit_error_rate(
        setup in setup(false),
        seed: u64,
        exponents in prop::array::uniform2(-7.0..-2.7_f64),
    ) {
        let rate = exponents.map(|exponent| 10_f64.powf(exponent));
        let mut pair = pair(&setup, bit_errors(seed, rate));
        prop_assert!(pair.run(u64::MAX));
        pair.assert_done(totals(&setup));
    }

    /// Up to six in ten commands are lost, but no datagrams: ACK, NACK, RESTART, COUNT, CONFIRM.
    #[test]
    fn errors_in_commands(setup in setup(false), seed: u64, damaged: bool, share in 0.0..0.6_f64) {
        let mut random = crosslane_random::Random::with_seed(seed);
        let mut pair = pair(&setup, |_, frame, _| match frame {
            Frame::Command(_) if random.f64() < share => {
                if damaged {
                    Fate::Damaged
                } else {
                    Fate::Vanishes
                }
            }
            Frame::Datagram(_) if random.f64() < 0.02 => Fate::Damaged,
            _ => Fate::Comes,
        });
        prop_assert!(pair.run(u64::MAX));
        pair.assert_done(totals(&setup));
    }

    /// Repeatedly loses every command of one operation for a while.
    #[test]
    fn one_operation_is_lost(
        setup in setup(false),
        seed: u64,
        lost in 0..5_usize,
        run in 1..6_u32,
    ) {
        let operation = [
            Operation::Acknowledge,
            Operation::NotAcknowledge,
            Operation::Restart,
            Operation::Count,
            Operation::Confirm,
        ][lost];
        let mut random = crosslane_random::Random::with_seed(seed);
        let mut since = 0;
        let mut pair = pair(&setup, |_, frame, _| match frame {
            Frame::Command(command) if command.operation == operation => {
                since += 1;
                if since % (run + 1) == 0 { Fate::Comes } else { Fate::Vanishes }
            }
            Frame::Datagram(_) if random.f64() < 0.02 => Fate::Vanishes,
            _ => Fate::Comes,
        });
        prop_assert!(pair.run(u64::MAX));
        pair.assert_done(totals(&setup));
    }

    /// Bursts: for a time every frame is damaged, then none.
    #[test]
    fn bursts_of_damage(
        setup in setup(false),
        period_ps in 100_000..20_000_000_u64,
        share in 0.0..0.9_f64,
        vanish: bool,
    ) {
        // A period below the round trip may never let a retry through, so the bursts end
        // eventually.
        let mut pair = pair(&setup, |side, _, now_ps| {
            let phase_ps = (now_ps + side as u64 * period_ps / 3) % period_ps;
            match (phase_ps as f64) < period_ps as f64 * share && now_ps < 2_000_000_000 {
                false => Fate::Comes,
                true if vanish => Fate::Vanishes,
                true => Fate::Damaged,
            }
        });
        prop_assert!(pair.run(u64::MAX));
        pair.assert_done(totals(&setup));
    }

    /// The link drops and returns, at different times at each end, with errors throughout.
    #[test]
    fn links_that_drop(
        setup in setup(true),
        seed: u64,
        exponent in -7.0..-3.5_f64,
        drops in prop::collection::vec((1_u64..3_000_000, 0_u64..500_000, 0..3_u8), 1..12),
    ) {
        let rate = 10_f64.powf(exponent);
        let mut pair = pair(&setup, bit_errors(seed, [rate; 2]));
        for (after_ps, apart_ps, first) in drops {
            pair.run(pair.now_ps + after_ps);
            pair.cut();
            let until_ps = pair.now_ps + 100_000;
            pair.run(until_ps);
            pair.up(usize::from(first % 2));
            if first < 2 {
                // Frames of the first end are lost meanwhile.
                let until_ps = pair.now_ps + apart_ps;
                pair.run(until_ps);
            }
            pair.up(usize::from(1 - first % 2));
        }
        prop_assert!(pair.run(u64::MAX));
        pair.assert_done(totals(&setup));
    }

    /// Hosts that hold datagrams for a long time: first no credits, then all at once.
    #[test]
    fn starvation(setup in setup(false), seed: u64, exponent in -7.0..-3.0_f64) {
        let rate = 10_f64.powf(exponent);
        let mut pair = pair(&setup, bit_errors(seed, [rate; 2]));
        for side in &mut pair.sides {
            side.hold_ps = u64::MAX;
        }
        // The run ends even without credits.
        prop_assert!(pair.run(u64::MAX));
        for _ in 0..4_000 {
            let now_ps = pair.now_ps;
            let before = pair.sides[0].all_taken() + pair.sides[1].all_taken();
            pair.sides.iter_mut().for_each(|side| side.let_go(now_ps));
            prop_assert!(pair.run(u64::MAX));
            if pair.sides[0].all_taken() + pair.sides[1].all_taken() == before {
                break;
            }
        }
        pair.assert_done(totals(&setup));
    }
}
