// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of rows: from line bits to what a deframer finds.

use super::*;
use crate::frame::{Channel, Command, Datagram, Header, Operation};
use crate::lanes::{Deframer, Event, MAX_LANES, TrainingSet};

const LANES: usize = 4;
/// Rows in which a place of the headers is found and holds: two on average for each of 66 places.
pub(super) const SEARCH_ROWS: usize = 4 * BLOCK_BITS + 64;

pub(super) fn set() -> TrainingSet {
    TrainingSet {
        version: 1,
        lanes: LANES as u8,
        channel_datagrams: 300,
        session: 0x1234,
        seen: 0xfedc,
        stage: 2,
        has_long_datagrams: true,
        is_in_order: true,
    }
}

pub(super) fn command() -> Frame {
    let operation = Operation::Acknowledge;
    Frame::Command(Command { operation, sequence: 9, channel: Channel::ALL[3], freed: 77 })
}

pub(super) fn datagram(number: u8) -> Frame {
    let header = Header::from_word(u32::from(number).wrapping_mul(0x0123_4567));
    Frame::Datagram(Datagram { header, payload: (0..128).map(|at| at ^ number).collect() })
}

fn row(block: impl Fn(usize) -> Content) -> [Content; LANES] {
    std::array::from_fn(block)
}

/// The rows of a training set.
fn set_rows() -> [[Content; LANES]; SET_ROWS] {
    let half = |lane: usize, at: usize| {
        let mut bytes = [0; BLOCK_BYTES];
        bytes.copy_from_slice(&set().encode(lane as u8)[at..at + BLOCK_BYTES]);
        bytes
    };
    let zeros = row(|_| Content::Data([0; BLOCK_BYTES]));
    let first = row(|lane| Content::Control(half(lane, 0)));
    [first, row(|lane| Content::Data(half(lane, BLOCK_BYTES))), zeros, zeros]
}

/// Rows as lanes send them whose scramblers begin with different states.
fn scrambled(rows: &[[Content; LANES]]) -> Vec<Vec<Block>> {
    let mut lanes = std::array::from_fn(|lane| Scrambler::new(lane as u64 * 0x9e37_79b9));
    let row = |row: &[Content; LANES]| {
        let lanes: &mut [Scrambler; LANES] = &mut lanes;
        lanes.iter_mut().zip(row).map(|(lane, content)| lane.encode(*content)).collect()
    };
    rows.iter().map(row).collect()
}

/// The content of rows from the first of a port on.
pub(super) fn plain(rows: &[Vec<Block>]) -> Vec<Vec<Content>> {
    let mut lanes = [Scrambler::default(); MAX_LANES];
    let row = |row: &Vec<Block>| {
        let blocks = lanes.iter_mut().zip(row);
        blocks.map(|(lane, block)| lane.decode(*block).expect("its header is right")).collect()
    };
    rows.iter().map(row).collect()
}

/// The line bits of each lane, behind others that say nothing.
fn lines(rows: &[Vec<Block>], delays: &[usize]) -> Vec<Vec<bool>> {
    let line = |(lane, delay): (usize, &usize)| {
        let mut line = vec![false; *delay];
        for row in rows {
            line.extend((0..BLOCK_BITS).map(|at| row[lane].bits() >> at & 1 != 0));
        }
        line
    };
    delays.iter().enumerate().map(line).collect()
}

/// Events of a deframer in rows whose lanes have these delays, and rows that were not deskewed.
pub(super) fn events(rows: &[Vec<Block>], delays: &[usize]) -> (Vec<Event>, usize) {
    let (lines, lanes) = (lines(rows, delays), delays.len());
    let (mut aligner, mut columns) = (Aligner::new(lanes), Columns::new(lanes));
    let mut deframer = Deframer::new(lanes);
    let (mut found, mut without) = (Vec::new(), 0);
    for at in 0..rows.len() {
        let mut words = [None; MAX_LANES];
        for (word, line) in words.iter_mut().zip(&lines) {
            let part = &line[at * BLOCK_BITS..(at + 1) * BLOCK_BITS];
            let bits = part.iter().rev().fold(0, |bits: u128, bit| bits << 1 | u128::from(*bit));
            *word = Some(Block::from_bits(bits));
        }
        match aligner.take(&words).blocks {
            None => without += 1,
            Some(row) => {
                let columns = columns.take(&row).into_iter().flatten();
                found.extend(columns.flat_map(|column| deframer.take(&column)).flatten());
            }
        }
    }
    (found, without)
}

/// Sets until lanes are aligned; an idle row, a skip row, and a command in the third lane.
fn sent() -> Vec<Vec<Block>> {
    let sets = (0..SEARCH_ROWS / SET_ROWS + 8).flat_map(|_| set_rows());
    let idle = Content::filler(IDLE_BYTE);
    let bytes = command().encode();
    let frame = row(|lane| if lane == 2 { blocks(&bytes).next().unwrap() } else { idle });
    let behind = [row(|_| idle), row(|_| Content::filler(SKIP_BYTE)), frame];
    let all: Vec<_> = sets.chain(behind).chain((0..4).map(|_| row(|_| idle))).collect();
    scrambled(&all)
}

#[test]
fn sets_skip_rows_and_frames_come_out_of_line_bits() {
    // In step, a bit apart, and as far apart as lanes may be.
    for delays in [[0; LANES], [3, 4, 3, 2], [7, 73, 40, 8], [66, 0, 66, 33]] {
        let (found, _) = events(&sent(), &delays);
        let sets = found.iter().filter(|event| **event == Event::Set(Some(set()))).count();
        assert!(sets >= 7, "{delays:?}: {sets} sets");
        assert!(!found.contains(&Event::Set(None)) && found.contains(&Event::Comma(true)));
        let frames: Vec<&Event> =
            found.iter().filter(|event| matches!(event, Event::Frame(_))).collect();
        assert_eq!(frames, [&Event::Frame(Ok(command()))], "{delays:?}");
        let tail = found.iter().rev().take_while(|event| **event == Event::Idle).count();
        assert!(tail >= 2 * 8, "{delays:?}: {tail} idle columns");
    }
}

#[test]
fn lanes_two_rows_apart_are_never_deskewed() {
    let rows = sent();
    let (found, without) = events(&rows, &[0, 2 * BLOCK_BITS, 0, 0]);
    assert_eq!((found.len(), without), (0, rows.len()));
}
