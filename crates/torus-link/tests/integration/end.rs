// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A link end against another, and against hand-made frames: one rule per test.

use crate::support;

use crosslane_torus_link::*;
use std::sync::Arc;
use support::{Fate, Pair};

/// x8 at 5 Gb/s: a symbol each 0.25 ns.
const SYMBOL_PS: u64 = 250;
const LATENCY_PS: u64 = 136_000;
const CHANNEL: Channel = Channel::ALL[2];

fn parameters() -> EndParameters {
    EndParameters::for_wire(136 * SYMBOL_PS, LATENCY_PS)
}

fn pair<F: FnMut(usize, &Frame, u64) -> Fate>(fate: F) -> Pair<F> {
    Pair::new(parameters(), SYMBOL_PS, LATENCY_PS, fate)
}

fn up() -> LinkEnd {
    let mut end = LinkEnd::new(parameters());
    end.up(64, 0);
    end
}

fn datagram(sequence: u8) -> Result<Frame, Damaged> {
    let header = Header { sequence, channel: CHANNEL, kind: Kind::Middle, tag: 1, index: 2 };
    Ok(Frame::Datagram(Datagram { header, payload: Arc::new([7; 128]) }))
}

fn command(operation: Operation, sequence: u8, freed: u16) -> Result<Frame, Damaged> {
    Ok(Frame::Command(Command { operation, sequence, channel: CHANNEL, freed }))
}

/// Next frame of an end: a datagram by its number, a command by its name and number.
fn next(end: &mut LinkEnd, now_ps: u64) -> Option<String> {
    Some(match end.next_frame(now_ps)? {
        Frame::Datagram(datagram) => datagram.header.sequence.to_string(),
        Frame::Command(command) => format!("{:?} {}", command.operation, command.sequence),
    })
}

/// Asserts that an end says this, one frame after the other.
#[track_caller]
fn assert_says(end: &mut LinkEnd, now_ps: u64, frames: &[&str]) {
    let said: Vec<_> = frames.iter().map_while(|_| next(end, now_ps)).collect();
    assert_eq!(said, frames);
}

/// All that an end says until it has nothing more to say.
fn all_said(end: &mut LinkEnd) -> Vec<String> {
    std::iter::from_fn(|| next(end, 0)).collect()
}

fn fill(end: &mut LinkEnd) {
    while end.room(CHANNEL) > 0 {
        end.submit(CHANNEL, Kind::Middle, 0, 0, Arc::new([0; 128]));
    }
}

#[test]
fn a_datagram_comes_and_then_nothing_happens_any_more() {
    let mut pair = pair(|_, _, _| Fate::Comes);
    assert!(pair.run(u64::MAX));
    assert_eq!(pair.sides[0].symbols + pair.sides[1].symbols, 0, "up, and nothing is said");
    pair.sides[0].to_send[2] = 1;
    assert!(pair.run(u64::MAX));
    pair.assert_done([1, 0]);
    // It arrived with its last symbol.
    assert_eq!(pair.sides[1].last_taken_at_ps, 136 * SYMBOL_PS + LATENCY_PS);
    // One ACK with the count, COUNT when the channel has fallen silent, and its CONFIRM.
    assert_eq!(pair.sides[0].end.counters().commands, 1);
    assert_eq!(pair.sides[1].end.counters().commands, 2);
}

#[test]
fn nothing_is_said_or_taken_while_down() {
    let mut end = LinkEnd::new(parameters());
    fill(&mut end);
    assert_eq!(end.next_frame(0), None);
    assert_eq!(end.receive(datagram(0), 0), None);
    assert_eq!(end.wakes_at_ps(), None);
    end.up(64, 5);
    assert_says(&mut end, 5, &["0"]);
    end.down();
    assert_eq!((end.next_frame(u64::MAX - 1), end.wakes_at_ps()), (None, None));
    end.up(64, 5);
    assert_says(&mut end, 6, &["Restart 0", "0", "1"]);
}

#[test]
fn no_more_than_the_credits_are_sent() {
    let mut end = LinkEnd::new(parameters());
    end.up(3, 0);
    fill(&mut end);
    assert_eq!(all_said(&mut end), ["0", "1", "2"]);
    end.receive(command(Operation::Acknowledge, 3, 0), 0);
    assert_eq!(end.next_frame(0), None);
    assert_eq!(end.wakes_at_ps(), None, "the count comes by itself");
    end.receive(command(Operation::Acknowledge, 3, 2), 0);
    assert_eq!(end.credit(CHANNEL), 2);
    // One acknowledges more than were sent, one fewer than are known; both are impossible.
    end.receive(command(Operation::Acknowledge, 3, 4), 0);
    end.receive(command(Operation::Acknowledge, 3, 1), 0);
    assert_eq!((end.credit(CHANNEL), end.counters().stale), (2, 2));
    assert_says(&mut end, 0, &["3"]);
}

#[test]
fn no_more_than_the_retry_buffer_is_unacknowledged() {
    let mut end =
        LinkEnd::new(EndParameters { retry_datagrams: 5, queue_datagrams: 20, ..parameters() });
    end.up(512, 0);
    fill(&mut end);
    assert_eq!((all_said(&mut end).len(), end.unacknowledged()), (5, 5));
    end.receive(command(Operation::Acknowledge, 6, 0), 0);
    end.receive(command(Operation::Acknowledge, 255, 0), 0);
    assert_eq!((end.unacknowledged(), end.counters().stale), (5, 2), "out of the window");
    end.receive(command(Operation::Acknowledge, 2, 0), 0);
    assert_eq!(all_said(&mut end), ["5", "6"]);
}

#[test]
fn acknowledgements_are_put_together() {
    let mut end = up();
    let within_ps = parameters().acknowledge_within_ps;
    for number in 0..7 {
        assert!(end.receive(datagram(number), 1_000).is_some());
        assert_eq!(end.next_frame(1_000), None);
    }
    assert_eq!(end.wakes_at_ps(), Some(1_000 + within_ps));
    assert!(end.receive(datagram(7), 1_000).is_some());
    assert_says(&mut end, 1_000, &["Acknowledge 8"]);
    assert_eq!((end.next_frame(1_000), end.wakes_at_ps()), (None, None));
    assert!(end.receive(datagram(8), 2_000).is_some());
    assert_eq!(end.next_frame(2_000), None);
    assert_eq!(end.next_frame(2_000 + within_ps - 1), None);
    assert_says(&mut end, 2_000 + within_ps, &["Acknowledge 9"]);
}

#[test]
fn behind_damage_everything_waits_for_a_restart() {
    let mut end = up();
    assert!(end.receive(datagram(0), 0).is_some());
    assert!(end.receive(Err(Damaged::Crc), 10).is_none());
    assert!(end.receive(datagram(1), 20).is_none(), "RESTART is waited for");
    assert_says(&mut end, 20, &["NotAcknowledge 1"]);
    assert!(end.receive(Err(Damaged::Symbol), 30).is_none());
    assert_eq!(end.next_frame(30), None, "once is enough");
    let refresh_ps = parameters().refresh_ps;
    let mut again_ps = 20;
    for wait_ps in [refresh_ps / 4, refresh_ps / 2, refresh_ps, refresh_ps] {
        again_ps += wait_ps;
        assert_eq!(end.wakes_at_ps(), Some(again_ps));
        assert_says(&mut end, again_ps, &["NotAcknowledge 1"]);
    }
    end.receive(command(Operation::Restart, 2, 0), again_ps);
    assert!(end.is_in_error(), "2 is ahead of 1");
    end.receive(command(Operation::Restart, 0, 0), again_ps);
    assert_says(&mut end, again_ps, &["Acknowledge 1"]);
    assert!(end.receive(datagram(0), again_ps).is_none(), "has been");
    assert!(end.receive(datagram(1), again_ps).is_some());
    let counters = end.counters();
    assert_eq!((counters.damaged, counters.nacks, counters.doubles), (2, 5, 1));
    end.receive(Err(Damaged::Crc), again_ps);
    assert_says(&mut end, again_ps, &["NotAcknowledge 2"]);
    let first_ps = again_ps + refresh_ps / 4;
    assert_eq!(end.wakes_at_ps(), Some(first_ps), "the RESTART ended the longer waits");
}

#[test]
fn behind_a_loss_of_the_lanes_nothing_is_waited_for() {
    let mut end = up();
    end.receive(Err(Damaged::Crc), 0);
    end.down();
    end.up(64, 10);
    assert!(!end.is_in_error(), "what was lost is being sent again");
    assert!(end.receive(datagram(0), 10).is_some());
}

#[test]
fn a_gap_is_an_error() {
    let mut end = up();
    assert!(end.receive(datagram(1), 0).is_none());
    assert_says(&mut end, 0, &["NotAcknowledge 0"]);
    end.receive(command(Operation::Restart, 0, 0), 0);
    assert!(end.receive(datagram(0), 0).is_some());
}

#[test]
fn a_nack_sends_everything_again_even_nothing() {
    let mut end = up();
    fill(&mut end);
    assert_says(&mut end, 0, &["0", "1", "2", "3"]);
    end.receive(command(Operation::NotAcknowledge, 1, 0), 0);
    assert_says(&mut end, 0, &["Restart 1"]);
    assert_eq!(all_said(&mut end), (1..16).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!((end.counters().repeated, end.counters().sent), (3, 16));
    // An acknowledgement in the middle of the repeat: only the rest follows.
    end.receive(command(Operation::NotAcknowledge, 1, 0), 0);
    assert_says(&mut end, 0, &["Restart 1", "1"]);
    end.receive(command(Operation::Acknowledge, 14, 0), 0);
    assert_says(&mut end, 0, &["14", "15"]);
    end.receive(command(Operation::NotAcknowledge, 16, 16), 0);
    assert_says(&mut end, 0, &["Restart 16"]);
    assert_eq!((end.next_frame(0), end.is_settled()), (None, true));
}

#[test]
fn what_is_not_acknowledged_in_time_is_sent_again() {
    let mut end = up();
    end.submit(CHANNEL, Kind::Last, 0, 0, Arc::new([0; 128]));
    assert_says(&mut end, 100, &["0"]);
    for turn in 1..=3 {
        let at_ps = 100 + turn * parameters().retry_timeout_ps;
        assert_eq!((end.next_frame(at_ps - 1), end.wakes_at_ps()), (None, Some(at_ps)));
        assert_says(&mut end, at_ps, &["Restart 0", "0"]);
        assert_eq!(u64::from(end.timeouts_in_a_row()), turn);
    }
    end.receive(command(Operation::Acknowledge, 1, 0), 0);
    assert_eq!((end.timeouts_in_a_row(), end.wakes_at_ps()), (0, None));
}

#[test]
fn more_than_there_is_room_for_is_not_taken() {
    let mut end = LinkEnd::new(EndParameters { channel_datagrams: 2, ..parameters() });
    end.up(64, 0);
    let taken = (0..3).filter(|number| end.receive(datagram(*number), 0).is_some()).count();
    assert_eq!((taken, end.counters().overruns, end.is_in_error()), (2, 1, true));
    end.free(CHANNEL);
    end.receive(command(Operation::Restart, 2, 0), 0);
    assert!(end.receive(datagram(2), 0).is_some());
}

#[test]
fn a_lost_count_is_asked_for_and_then_it_ends() {
    // Side 1 loses all its commands for a time: ACKs and counts.
    for lost in 1..6 {
        let mut left = lost;
        let mut pair = pair(move |side, frame, _| {
            if side == 1 && matches!(frame, Frame::Command(_)) && left > 0 {
                left -= 1;
                return Fate::Vanishes;
            }
            Fate::Comes
        });
        pair.sides[0].to_send[2] = 1_000;
        assert!(pair.run(u64::MAX), "it ends");
        pair.assert_done([1_000, 0]);
    }
}

#[test]
fn a_channel_that_is_full_stops_no_other() {
    let mut pair = pair(|_, _, _| Fate::Comes);
    pair.sides[0].to_send = [1_000; 8];
    pair.sides[1].hold_ps = u64::MAX;
    assert!(pair.run(u64::MAX), "nothing runs while the host takes nothing");
    let room = u32::from(parameters().channel_datagrams);
    assert_eq!(pair.sides[1].taken, [room; 8]);
    assert_eq!(pair.sides[0].end.wakes_at_ps(), None);
    pair.sides[1].hold_ps = 0;
    let now_ps = pair.now_ps;
    pair.sides[1].let_go(now_ps);
    assert!(pair.run(u64::MAX));
    pair.assert_done([8_000, 0]);
}

#[test]
fn one_channel_waits_and_the_others_flow() {
    let mut end = up();
    let other = Channel::ALL[5];
    for _ in 0..parameters().queue_datagrams {
        end.submit(other, Kind::Last, 0, 0, Arc::new([0; 128]));
    }
    fill(&mut end);
    // The channels take turns.
    let mut channels = Vec::new();
    while let Some(Frame::Datagram(datagram)) = end.next_frame(0) {
        channels.push(datagram.header.channel);
    }
    assert_eq!(channels[..4], [CHANNEL, other, CHANNEL, other]);
}

#[test]
fn both_ends_forget() {
    let mut pair = pair(|_, _, _| Fate::Comes);
    pair.sides[0].to_send[2] = 300;
    pair.run(2_000_000);
    let taken = pair.sides[1].taken[2];
    assert!(taken > 20);
    for side in &mut pair.sides {
        side.end.reset();
        assert!(side.end.is_settled() && !side.end.is_up());
        assert_eq!(side.end.expected(), 0);
    }
}

#[test]
fn parameters_that_cannot_be_say_why() {
    let good = parameters();
    assert_eq!(good.check(), Ok(()));
    for (wrong, word) in [
        (EndParameters { channel_datagrams: 0, ..good }, "channel_datagrams"),
        (EndParameters { channel_datagrams: 513, ..good }, "channel_datagrams"),
        (EndParameters { retry_datagrams: 0, ..good }, "retry_datagrams"),
        (EndParameters { retry_datagrams: 128, ..good }, "retry_datagrams"),
        (EndParameters { queue_datagrams: 0, ..good }, "queue_datagrams"),
        (EndParameters { acknowledge_datagrams: 0, ..good }, "acknowledge_datagrams"),
        (EndParameters { retry_timeout_ps: good.acknowledge_within_ps, ..good }, "retry_timeout"),
        (EndParameters { refresh_ps: 3, ..good }, "refresh_ps"),
    ] {
        let error = wrong.check().expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
}
