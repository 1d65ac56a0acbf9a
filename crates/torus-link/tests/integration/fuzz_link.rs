// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arbitrary bytes as frames, frames at a link end, and line bits at a port or at lanes of 64b/66b:
//! nothing panics or grows, no end wants to be woken for ever, and no frame is made up.
//!
//! `cargo test` tries some thousand random inputs; `tools/corpus.py NAME` fuzzes with coverage and
//! writes the inputs that each run replays first.

use crosslane_torus_link::block::{Aligner, Block, Columns, Rows};
use crosslane_torus_link::code::Code;
use crosslane_torus_link::lanes::{BringUp, Column, Deframer, Event, MAX_LANES, TrainingSet};
use crosslane_torus_link::*;
use std::sync::Arc;

/// Random inputs of a target in a plain run of the tests.
const ITERATIONS: usize = 3_000;

#[test]
fn fuzz_frames_of_any_bytes() {
    bolero::check!().with_iterations(ITERATIONS).with_type::<Vec<u8>>().for_each(|bytes| {
        for length in [bytes.len(), 8, 136] {
            let mut bytes = bytes.clone();
            bytes.resize(length, 0x5c);
            assert!(Frame::decode(&bytes).is_err() || [8, 136].contains(&length));
            // With a matching CRC it encodes to itself, apart from unused bits.
            if length >= 8 {
                let crc = crc32fast::hash(&bytes[..length - 4]);
                bytes[length - 4..].copy_from_slice(&crc.to_le_bytes());
                if let Ok(frame) = Frame::decode(&bytes) {
                    assert_eq!(frame.encode().as_slice(), bytes);
                }
            }
        }
    });
}

/// One action on an end.
type Step = (u8, u8, u32);

/// A frame of random numbers, mostly a plausible one.
fn frame(kind: u8, bits: u32) -> Result<Frame, Damaged> {
    match kind % 4 {
        0 => Err(Damaged::Crc),
        1 => {
            let header = Header::from_word(bits);
            Ok(Frame::Datagram(Datagram { header, payload: Arc::new([kind; 128]) }))
        }
        _ => Command::from_word(bits << 8 | 0x5c).map(Frame::Command),
    }
}

fn throw(channel_datagrams: u16, retry_datagrams: u8, steps: &[Step]) {
    let parameters = EndParameters {
        channel_datagrams: channel_datagrams % 512 + 1,
        retry_datagrams: retry_datagrams % 127 + 1,
        ..EndParameters::for_wire(34_000, 136_000)
    };
    let mut end = LinkEnd::new(parameters);
    let mut now_ps = 0;
    let mut held = [0_u16; 8];
    end.up(64, 0);
    for &(step, kind, bits) in steps {
        let channel = Channel::from_bits(bits);
        match step % 16 {
            0..6 => {
                if let Some(datagram) = end.receive(frame(kind, bits), now_ps) {
                    held[datagram.header.channel.index()] += 1;
                }
            }
            // The frame expected next.
            6 => {
                let header = Header { sequence: end.expected(), ..Header::from_word(bits) };
                let payload = Arc::new([kind; 128]);
                let next = Ok(Frame::Datagram(Datagram { header, payload }));
                if let Some(datagram) = end.receive(next, now_ps) {
                    held[datagram.header.channel.index()] += 1;
                }
            }
            7 | 8 if end.room(channel) > 0 => {
                end.submit(channel, Kind::Routed, kind, bits as u16, Arc::new([0; 128]));
            }
            9 if held[channel.index()] > 0 => {
                held[channel.index()] -= 1;
                end.free(channel);
            }
            10 => now_ps += u64::from(bits),
            11 if kind == 0 => end.down(),
            11 if kind < 16 => end.up(bits as u16, now_ps),
            12 if kind == 0 => {
                end.reset();
                held = [0; 8];
            }
            _ => {
                // Finitely many frames are due, and then the end is quiet for a time.
                let mut frames = 0;
                while end.next_frame(now_ps).is_some() {
                    frames += 1;
                    assert!(frames < 1_000, "frames without end");
                }
                assert!(end.wakes_at_ps().is_none_or(|at_ps| at_ps > now_ps));
            }
        }
        assert!(held.iter().all(|held| *held <= parameters.channel_datagrams));
        assert!(end.unacknowledged() <= usize::from(parameters.retry_datagrams));
        assert!(Channel::ALL.iter().all(|channel| end.credit(*channel) <= 512));
    }
}

#[test]
fn fuzz_any_frames_at_an_end() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_type::<(u16, u8, Vec<Step>)>()
        .for_each(|(room, retry, steps)| throw(*room, *retry, steps));
}

/// Like the test before with many steps, since bolero's random inputs are short.
#[test]
fn fuzz_many_frames_at_an_end() {
    for seed in 0..300 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let steps: Vec<Step> =
            (0..2_000).map(|_| (random.u8(..), random.u8(..), random.u32(..))).collect();
        throw(random.u16(..), random.u8(..), &steps);
    }
}

/// Trains a port with another and spoils some bits. Each step is the number of columns that arrive
/// unchanged, and then the change of one.
fn spoil(lanes: usize, steps: &[(u8, u8, u16)]) {
    let parameters = EndParameters::for_wire(34_000, 136_000);
    let mut ports = [Port::new(lanes, parameters, 7), Port::new(lanes, parameters, 8)];
    ports.iter_mut().for_each(Port::enable);
    let mut now_ps = 0;
    let mut came: [Column; 2] = [[None; MAX_LANES]; 2];
    let mut column = |change: Option<(u8, u16)>| {
        now_ps += 2_000;
        for at in 0..2 {
            let channel = Channel::from_bits(now_ps as u32 >> 4);
            let end = ports[at].end_mut();
            if end.room(channel) > 0 {
                end.submit(channel, Kind::Last, 0, 0, Arc::new([0; 128]));
            }
            let mut sent = ports[at].transmit(now_ps);
            if let Some((how, bits)) = change {
                let lane = usize::from(how) % lanes;
                sent[lane] = match how >> 5 {
                    0 => None,
                    1 | 2 => Some(Code(bits)),
                    // A symbol of the column before.
                    3 => came[at][lane],
                    _ => sent[lane].map(|code| Code(code.0 ^ 1 << (bits % 10))),
                };
            }
            came[at] = sent;
            if let Some(datagram) = ports[1 - at].receive(&sent, now_ps) {
                ports[1 - at].end_mut().free(datagram.header.channel);
            }
        }
    };
    for &(good, how, bits) in steps {
        for _ in 0..good {
            column(None);
        }
        column(Some((how, bits)));
    }
}

#[test]
fn fuzz_any_bits_at_a_port() {
    bolero::check!()
        .with_iterations(ITERATIONS / 10)
        .with_type::<(u8, Vec<(u8, u8, u16)>)>()
        .for_each(|(width, steps)| spoil([1, 4, 8][usize::from(width % 3)], steps));
}

/// The same for longer, so that the link can come up in between.
#[test]
fn fuzz_many_bits_at_a_port() {
    for seed in 0..60 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let steps: Vec<(u8, u8, u16)> =
            (0..200).map(|_| (random.u8(..), random.u8(..), random.u16(..))).collect();
        spoil([1, 4, 8][seed as usize % 3], &steps);
    }
}

/// A port that receives only noise.
#[test]
fn fuzz_noise_at_a_port() {
    for seed in 0..30 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let lanes = [1, 4, 8][seed as usize % 3];
        let mut port = Port::new(lanes, EndParameters::for_wire(34_000, 136_000), 1);
        port.enable();
        for column in 0..20_000 {
            let noise = std::array::from_fn(|_| Some(Code(random.u16(..))));
            assert_eq!(port.receive(&noise, column * 2_000), None);
            port.transmit(column * 2_000);
        }
        assert_eq!(port.state(), PortState::Align);
    }
}

/// Trains lanes of 64b/66b, sends numbered datagrams and spoils some blocks. Each step is a number
/// of rows that arrive unchanged, and then the change of one. Returns the last datagram that came.
fn spoil_blocks(lanes: usize, steps: &[(u8, u8, u64)]) -> u32 {
    let bring_up = |session| {
        let mut bring_up = BringUp::new(lanes, 64, session).with_blocks();
        bring_up.enable();
        bring_up
    };
    let mut rows = Rows::new(lanes);
    let training = TrainingSet { seen: 7, stage: 2, ..bring_up(8).training_set() };
    let (mut aligner, mut columns) = (Aligner::new(lanes), Columns::new(lanes));
    let (mut deframer, mut bring_up) = (Deframer::new(lanes), bring_up(7));
    let (mut asked, mut sent, mut came) = (0_u32, 0_u32, 0_u32);
    let mut row = |trains: bool, change: Option<(u8, u64)>| {
        let next = rows.next(trains.then_some(training), |_| {
            asked += 1;
            if asked % 3 == 0 {
                return None;
            }
            sent += 1;
            let payload = sent.to_le_bytes().repeat(32).into();
            let header = Header::from_word(sent);
            Some(Frame::Datagram(Datagram { header, payload }))
        });
        let mut words = next.blocks.map(Some);
        if let Some((how, bits)) = change {
            let lane = usize::from(how) % lanes;
            words[lane] = match how >> 5 {
                0 => None,
                1 | 2 => Some(Block::from_bits(u128::from(bits) << 2 | u128::from(how >> 3))),
                // A header that is an error, or of the other sort.
                3 => Some(Block { header: bits as u8 & 3, ..next.blocks[lane] }),
                _ => Some(Block::from_bits(next.blocks[lane].bits() ^ 1 << (bits % 66))),
            };
        }
        let received = aligner.take(&words);
        let is_whole = received.blocks.map(|row| row[..lanes].iter().all(Option::is_some));
        let counts = received.is_aligned || bring_up.state() == PortState::Up;
        let restarts = counts && bring_up.column(is_whole).0;
        let row = received.blocks.map(|row| columns.take(&row));
        for column in row.into_iter().flatten().flatten() {
            for event in deframer.take(&column).into_iter().flatten() {
                if let Event::Frame(Ok(Frame::Datagram(datagram))) = &event {
                    let number = datagram.header.word();
                    assert!(came < number && number <= sent, "{number} behind {came}");
                    assert_eq!(datagram.payload[..], number.to_le_bytes().repeat(32));
                    came = number;
                }
                bring_up.event(&event);
            }
        }
        if restarts {
            aligner.restart();
            deframer.restart();
        }
    };
    for &(good, how, bits) in steps {
        for _ in 0..good {
            row(how & 3 == 0, None);
        }
        row(how & 3 == 0, Some((how, bits)));
    }
    came
}

#[test]
fn fuzz_any_blocks_at_lanes() {
    bolero::check!()
        .with_iterations(ITERATIONS / 10)
        .with_type::<(u8, Vec<(u8, u8, u64)>)>()
        .for_each(|(width, steps)| {
            spoil_blocks([1, 4, 8][usize::from(width % 3)], steps);
        });
}

/// The same for longer, so that lanes are aligned and deskewed in between.
#[test]
fn fuzz_many_blocks_at_lanes() {
    for seed in 0..12 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let steps: Vec<(u8, u8, u64)> =
            (0..200).map(|_| (random.u8(..), random.u8(..), random.u64(..))).collect();
        assert!(spoil_blocks([1, 4, 8][seed as usize % 3], &steps) > 0, "{seed}");
    }
}
