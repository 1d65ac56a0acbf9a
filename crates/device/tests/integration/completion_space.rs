// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receive buffer for completions: what a read reserves, when it waits, what comes back.

use crate::support;

use crosslane_device::kit::CompletionCredits;
use crosslane_device::{Engine, UNLIMITED_COMPLETIONS};
use crosslane_fabric::*;
use crosslane_pcie::split::all_legal_completions;
use crosslane_pcie::tlp::CompletionStatus;
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::{ChannelError, channel};
use support::script::{Answer, Script, WINDOW};
use support::*;

/// Headers beside those of a longest read, of 1 KiB: 17.
const BESIDE_LONGEST: u32 = 10;
/// Reads of one completion that are sent while none is answered.
const SMALL_READS: u32 = BESIDE_LONGEST + 1;

fn buffered() -> EngineParameters {
    EngineParameters { completion_header_credits: 17 + BESIDE_LONGEST, ..own() }
}

/// Creates an engine (0) and a completer (1) with scripted answers.
fn stand(answers: &[Answer]) -> Bench {
    let devices: Vec<Box<dyn Device>> =
        vec![Box::new(Engine::new(buffered())), Box::new(Script::new(answers))];
    bench_of(&settings(), devices)
}

/// Posts reads of 64 B in one window of the completer, which has the same answer for all.
fn post_small(bench: &mut Bench, window: u64) {
    let first = bench.bars[1][1] + window * WINDOW;
    for number in 0..16 {
        bench.put_ring(h2c(0), number, first + u64::from(number) * 64, 64, 0);
    }
    bench.post_ring(h2c(0), 16, 16);
}

fn in_flight(bench: &mut Bench) -> u32 {
    channel::status::IN_FLIGHT.get(bench.read(h2c(0), channel::STATUS))
}

#[test]
fn credits_cover_every_legal_cut() {
    for start in [0_u64, 1, 4, 12, 16, 47, 60, 63, 100, 3456] {
        for bytes in [1, 3, 4, 16, 17, 64, 65, 180, 512] {
            let credits = CompletionCredits::of(start, bytes);
            let mut most = CompletionCredits::default();
            for rcb_bytes in [64, 128] {
                for cut in all_legal_completions(BusAddress(start), bytes, rcb_bytes, 4096) {
                    let (mut at, mut data) = (start, 0);
                    for length in &cut {
                        let double_words = (at % 4 + u64::from(*length)).div_ceil(4);
                        data += double_words.div_ceil(4) as u32;
                        at += u64::from(*length);
                    }
                    most.headers = most.headers.max(cut.len() as u32);
                    most.data = most.data.max(data);
                }
            }
            assert_eq!(credits.headers, most.headers, "{bytes} B at {start}");
            // A single completion's data begin where the buffer's unit does.
            let spare = u32::from(credits.headers == 1);
            assert!(credits.data >= most.data && credits.data <= most.data + spare);
            let longest = CompletionCredits::most_of(bytes);
            assert!(credits.headers <= longest.headers && credits.data <= longest.data);
        }
    }
}

#[test]
fn reads_wait_until_the_buffer_has_room() {
    let mut bench = stand(&[Answer::Never]);
    post_small(&mut bench, 0);
    bench.wait_until(ns(5_000));
    assert_eq!(in_flight(&mut bench), SMALL_READS);
    assert!(bench.read(h2c(0), channel::IDLE_NO_TAG) > 500);
}

#[test]
fn data_credits_are_a_limit_alike() {
    // A longest read takes 65.
    let parameters = EngineParameters { completion_data_credits: 65 + 8, ..own() };
    let devices: Vec<Box<dyn Device>> =
        vec![Box::new(Engine::new(parameters)), Box::new(Script::new(&[Answer::Never]))];
    let mut bench = bench_of(&settings(), devices);
    post_small(&mut bench, 0);
    bench.wait_until(ns(5_000));
    // Four for each, until fewer than 65 are left.
    assert_eq!(in_flight(&mut bench), 3);
}

/// Time-outs give space back when the tags have rested: late completions find room until then.
#[test]
fn space_of_a_read_that_timed_out_rests() {
    let mut bench = stand(&[Answer::Never]);
    post_small(&mut bench, 0);
    bench.wait_stopped(h2c(0));
    let failed = bench.fabric.now();
    bench.restart(h2c(0));
    bench.put_ring(h2c(0), 0, DATA, 64, STATUS_WRITE);
    bench.post_ring(h2c(0), 16, 1);
    bench.wait_completed(h2c(0), 1);
    let rested = bench.fabric.now() - failed;
    assert!(rested > ns(49_000) && rested < ns(53_000), "{rested}");
    // All of it is back.
    bench.restart(h2c(0));
    post_small(&mut bench, 0);
    let later = bench.fabric.now() + ns(5_000);
    bench.wait_until(later);
    assert_eq!(in_flight(&mut bench), SMALL_READS);
}

#[test]
fn refused_reads_give_their_space_back() {
    for answer in [
        Answer::Refuse(CompletionStatus::UnsupportedRequest),
        Answer::Refuse(CompletionStatus::CompleterAbort),
    ] {
        let mut bench = stand(&[answer, Answer::Never]);
        for _ in 0..4 {
            post_small(&mut bench, 0);
            bench.wait_stopped(h2c(0));
            assert_ne!(bench.state(h2c(0)).1, ChannelError::CompletionTimeout);
            let later = bench.fabric.now() + ns(5_000);
            bench.wait_until(later);
            bench.restart(h2c(0));
        }
        post_small(&mut bench, 1);
        let later = bench.fabric.now() + ns(5_000);
        bench.wait_until(later);
        assert_eq!(in_flight(&mut bench), SMALL_READS);
    }
}

/// Clocks of 1 MiB read with this many header credits.
fn clocks_with(header_credits: u32) -> u64 {
    let mut settings = settings();
    settings.max_read_request = 1024;
    let parameters = EngineParameters { completion_header_credits: header_credits, ..own() };
    let mut bench = bench(&settings, &[parameters]);
    let at = h2c(0);
    bench.poke_pattern(DATA, 9, 0, 1 << 20);
    bench.check_h2c(9);
    bench.put_rings(at, 256, (DATA, 4096), 4096, 0);
    bench.post_ring(at, 256, 256);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!((bench.read(at, channel::COMPLETED), bench.checker_errors()), (256, 0));
    bench.clocks(at)
}

#[test]
fn a_buffer_that_is_large_enough_costs_nothing() {
    let free = clocks_with(UNLIMITED_COMPLETIONS);
    // Of the reads of all tags, and of the fetches.
    assert_eq!(clocks_with(65 * 17), free);
    let (small, least) = (clocks_with(34), clocks_with(17));
    assert!(free < small && small < least, "{free} {small} {least}");
}
