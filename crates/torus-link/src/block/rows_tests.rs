// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the way out: what is sent when, and that the way in finds it again.

use super::line_tests::{SEARCH_ROWS, command, datagram, events, plain, set};
use super::*;
use crate::frame::DATAGRAM_SYMBOLS;
use crate::lanes::{Event, MAX_LANES, TrainingSet};
use proptest::prelude::*;
use std::collections::VecDeque;

const IDLE: Content = Content::filler(IDLE_BYTE);
const SKIP: Content = Content::filler(SKIP_BYTE);

/// The rows that are sent while the link is up and these frames wait.
fn up(rows: &mut Rows, lanes: usize, count: usize, frames: Vec<Frame>) -> Vec<Vec<Block>> {
    let mut frames = VecDeque::from(frames);
    (0..count).map(|_| rows.next(None, |_| frames.pop_front()).blocks[..lanes].to_vec()).collect()
}

fn contents(frame: &Frame) -> Vec<Content> {
    blocks(&frame.encode()).collect()
}

#[test]
fn frames_follow_each_other_across_lanes() {
    for lanes in [1, 4, 8] {
        let frames = [datagram(1), command(), command(), datagram(2)];
        let wanted: Vec<Content> = frames.iter().flat_map(contents).collect();
        let count = wanted.len().div_ceil(lanes);
        let sent = plain(&up(&mut Rows::new(lanes), lanes, count, frames.to_vec())).concat();
        assert_eq!(sent[..wanted.len()], wanted, "{lanes}");
        assert!(sent[wanted.len()..].iter().all(|block| *block == IDLE), "{lanes}");
    }
}

#[test]
fn a_frame_begins_at_the_block_where_it_is_asked_for() {
    let mut rows = Rows::new(8);
    let mut asked = Vec::new();
    let sent = rows.next(None, |lane| {
        asked.push(lane);
        (lane == 3).then(command)
    });
    assert_eq!(asked, [0, 1, 2, 3, 4, 5, 6, 7]);
    let row = &plain(&[sent.blocks.to_vec()])[0];
    let begun: Vec<usize> = (0..8).filter(|lane| row[*lane] != IDLE).collect();
    assert_eq!((begun, row[3]), (vec![3], contents(&command())[0]));
}

#[test]
fn a_set_is_four_rows_and_an_idle_row_follows() {
    let mut rows = Rows::new(4);
    // Training that comes to its end in a set does not end the set.
    let mut sent = Vec::new();
    for at in 0..7 {
        let row = rows.next((at < 2).then(set), |_| Some(command()));
        assert_eq!(row.ended, (at == 3).then(set), "row {at}");
        sent.push(row.blocks[..4].to_vec());
    }
    let sent = plain(&sent);
    for (lane, bytes) in (0..4).map(|lane| (lane, set().encode(lane as u8))) {
        let column: Vec<Content> = sent.iter().map(|row| row[lane]).collect();
        let half = |at: usize| bytes[at..at + 8].try_into().unwrap();
        let zeros = Content::Data([0; 8]);
        let of_set = [Content::Control(half(0)), Content::Data(half(8)), zeros, zeros];
        let frame = contents(&command())[0];
        assert_eq!(column, [&of_set[..], &[IDLE, frame, frame]].concat());
    }
}

#[test]
fn a_frame_is_finished_before_training() {
    let mut rows = Rows::new(8);
    let mut sent = up(&mut rows, 8, 1, vec![command(), datagram(7)]);
    for _ in 0..3 {
        let row = rows.next(Some(set()), |_| panic!("no frame begins while the end is down"));
        sent.push(row.blocks.to_vec());
    }
    // A block of the command and 17 of the datagram end in the third lane of the third row.
    let sent = plain(&sent).concat();
    let frames = [contents(&command()), contents(&datagram(7))].concat();
    assert_eq!(frames.len(), 18);
    assert_eq!(sent[..24], [&frames[..], &[IDLE; 6]].concat());
    assert!(matches!(sent[24], Content::Control([SET_BYTE, ..])));
}

#[test]
fn a_skip_row_begins_at_the_first_end_of_a_frame() {
    for lanes in [1, 4, 8] {
        let blocks_of_frame = DATAGRAM_SYMBOLS / BLOCK_BYTES;
        for early in [0, 3, blocks_of_frame - 1] {
            // Frames in a row, behind idle blocks, so that one of them ends at each block.
            let mut rows = Rows::new(lanes);
            let mut asked = 0;
            let sent: Vec<Vec<Block>> = (0..2 * 1_300)
                .map(|_| {
                    let row = rows.next(None, |_| {
                        asked += 1;
                        (asked > early).then(|| datagram(0))
                    });
                    row.blocks[..lanes].to_vec()
                })
                .collect();
            let sent = plain(&sent);
            let skips = |row: &[Content]| row.iter().all(|block| *block == SKIP);
            let at: Vec<usize> = (0..sent.len()).filter(|at| skips(&sent[*at])).collect();
            // Ends of frames: a row is full, or filled, before the skip row.
            let end = |blocks: usize| blocks.next_multiple_of(blocks_of_frame);
            let first = early + end(1_279 * lanes + 1 - early);
            let behind = first.div_ceil(lanes);
            assert_eq!(at[0], behind, "{lanes} lanes, {early}");
            let filled = first..behind * lanes;
            assert!(sent.concat()[filled].iter().all(|block| *block == IDLE));
            let second = end(1_278 * lanes + 1).div_ceil(lanes) + 1;
            assert_eq!(at[1] - at[0], second, "{lanes} lanes, {early}");
        }
    }
}

/// Phases of a link: rows of training or of frames, and the odds of a frame where one may begin.
fn phases() -> impl Strategy<Value = Vec<(bool, usize, u8)>> {
    prop::collection::vec((any::<bool>(), 1..400_usize, any::<u8>()), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..<_>::default() })]

    /// Line bits of lanes apart: behind the first training all that was sent comes, and no more.
    #[test]
    fn all_that_is_sent_is_found(
        lanes in prop::sample::select(vec![1_usize, 4, 8]),
        delays: [u8; MAX_LANES],
        phases in phases(),
        seed: u64,
    ) {
        let mut random = crosslane_random::Random::with_seed(seed);
        let delays = delays.map(|delay| usize::from(delay) % (BLOCK_BITS + 1));
        let mut rows = Rows::new(lanes);
        let (mut sent, mut wanted, mut number) = (Vec::new(), Vec::new(), 0);
        let trained = (true, SEARCH_ROWS, 0);
        for (at, (trains, count, odds)) in std::iter::once(trained).chain(phases).enumerate() {
            for _ in 0..count {
                let training = trains.then_some(TrainingSet { seen: at as u16, ..set() });
                let row = rows.next(training, |_| {
                    number += 1;
                    let frame = if number % 3 == 0 { command() } else { datagram(number as u8) };
                    let begins = random.u8(..) < odds;
                    if begins {
                        wanted.push(Event::Frame(Ok(frame.clone())));
                    }
                    begins.then_some(frame)
                });
                wanted.extend(row.ended.map(|set| Event::Set(Some(set))));
                sent.push(row.blocks[..lanes].to_vec());
            }
        }
        // Until the last frame or set has come, in all lanes.
        for _ in 0..DATAGRAM_SYMBOLS {
            let row = rows.next(None, |_| None);
            wanted.extend(row.ended.map(|set| Event::Set(Some(set))));
            sent.push(row.blocks[..lanes].to_vec());
        }
        let (found, _) = events(&sent, &delays[..lanes]);
        prop_assert!(!found.contains(&Event::Comma(false)));
        let is_content = |event: &Event| matches!(event, Event::Frame(_) | Event::Set(_));
        let found: Vec<Event> = found.into_iter().filter(is_content).collect();
        prop_assert!(wanted.ends_with(&found), "{} of {}", found.len(), wanted.len());
        // Sets go by before the lanes are aligned.
        prop_assert!(wanted.len() - found.len() < trained.1 / SET_ROWS);
    }
}
