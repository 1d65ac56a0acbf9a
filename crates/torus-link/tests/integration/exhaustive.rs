// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All runs of two link ends with few datagrams, faults and losses: no datagram is lost, doubled or
//! out of order, no credit is false, no end waits for ever, and no state comes again.
//!
//! Read first: `docs/torus-link.md`, *Proofs*, whose rows are computed here. Time is in units of a
//! frame's time on the wire.
//!
//! Bugs put into the crate by hand turn it red. By a rule: NACK is sent once only, or gets no
//! RESTART where nothing is to be repeated; COUNT or CONFIRM is not sent, or any CONFIRM will do;
//! counts are not told again behind a loss; a time-out repeats nothing, or is not put off by an
//! ACK; no time is set for an ACK that waits; a credit or a place of the retry buffer too many;
//! counts or numbers do not wrap. By a row of the page, as another command or the time-out heals
//! the link: damage or a gap is no error; RESTART or doubles get no ACK; an ACK does not shorten a
//! repetition; an end that comes up repeats nothing, or stays in error; datagrams are taken in
//! error. Two rules make no difference here: RESTART ahead of the expected number is never sent,
//! and a CONFIRM never has a count that has not been told.

mod ends;
mod graph;
mod link;

use crosslane_torus_link::*;
use ends::channel;
use graph::explore;
use link::Link;

const PAGE: &str = include_str!("../../../../docs/torus-link.md");

/// A link, the datagrams sent over it, and the most that may happen to it.
pub struct Setup {
    parameters: EndParameters,
    /// Time from the end of a frame at one end to its arrival at the other.
    latency: u8,
    /// Datagrams on each channel, from side 0 and from side 1.
    datagrams: [[u8; ends::CHANNELS]; 2],
    /// Frames that are damaged or lost, and damaged idle columns.
    faults: u8,
    /// Frames that wait for a skip set.
    skip_sets: u8,
    /// Losses of the link.
    losses: u8,
    /// Datagrams of each channel that have gone both ways before.
    before: u16,
}

/// The shortest times that *Budget* allows.
const fn parameters(retry: u8, room: u16, acknowledge: u8, latency: u8) -> EndParameters {
    let acknowledge_within_ps = acknowledge as u64 + 1;
    let round_trip_ps = acknowledge as u64 + 3 + 2 * latency as u64;
    EndParameters {
        channel_datagrams: room,
        retry_datagrams: retry,
        queue_datagrams: 2,
        acknowledge_datagrams: acknowledge,
        acknowledge_within_ps,
        retry_timeout_ps: round_trip_ps + acknowledge_within_ps + 1,
        refresh_ps: 4 * (2 * latency as u64 + 5),
    }
}

/// Both ends, up, behind the datagrams that have gone both ways before.
fn start(setup: &Setup) -> [(LinkEnd, u64); 2] {
    let mut ends = [(); 2].map(|()| LinkEnd::new(setup.parameters));
    ends.iter_mut().for_each(|end| end.up(setup.parameters.channel_datagrams, 0));
    let mut now_ps = 0;
    for number in 0..setup.before * 2 {
        let channel = channel((number % 2) as u8);
        for end in &mut ends {
            end.submit(channel, Kind::Last, 0, 0, Payload::from([0]));
        }
        while !ends.iter().all(LinkEnd::is_settled) {
            for at in 0..2 {
                while let Some(frame) = ends[at].next_frame(now_ps) {
                    if ends[1 - at].receive(Ok(frame), now_ps).is_some() {
                        ends[1 - at].free(channel);
                    }
                }
            }
            now_ps += 1;
            assert!(now_ps < 100 * (u64::from(number) + 1), "datagram {number} does not settle");
        }
    }
    ends.map(|end| (end, now_ps))
}

const ONE_WAY: Setup = Setup {
    parameters: parameters(2, 2, 1, 1),
    latency: 1,
    datagrams: [[2, 0], [0, 0]],
    faults: 0,
    skip_sets: 0,
    losses: 0,
    before: 0,
};
const BOTH_WAYS: Setup = Setup { datagrams: [[1, 0]; 2], ..ONE_WAY };
const TWO_CHANNELS: Setup = Setup { datagrams: [[1, 1], [0, 0]], ..ONE_WAY };
/// Numbers 254, 255, 0 and counts 1023, 0, 1 follow.
const BEFORE_THE_WRAP: u16 = 1_023;

/// Runs of `make test`, a few seconds.
const SOME: &[Setup] = &[
    Setup { faults: 3, datagrams: [[1, 0], [0, 0]], ..ONE_WAY },
    Setup { faults: 2, ..ONE_WAY },
    Setup { faults: 1, losses: 1, before: BEFORE_THE_WRAP, ..ONE_WAY },
    Setup {
        parameters: parameters(1, 2, 1, 1),
        datagrams: [[3, 0], [0, 0]],
        faults: 1,
        before: BEFORE_THE_WRAP,
        ..ONE_WAY
    },
    Setup { parameters: parameters(3, 1, 2, 1), datagrams: [[3, 0], [0, 0]], faults: 1, ..ONE_WAY },
    Setup { faults: 1, skip_sets: 1, ..BOTH_WAYS },
    Setup { parameters: parameters(2, 2, 1, 3), latency: 3, faults: 1, ..BOTH_WAYS },
    Setup { losses: 1, ..BOTH_WAYS },
    Setup { faults: 1, ..TWO_CHANNELS },
    Setup { losses: 1, ..TWO_CHANNELS },
];

/// Runs of a night, up to 15 million states each.
const MORE: &[Setup] = &[
    Setup { faults: 2, losses: 1, before: BEFORE_THE_WRAP, ..ONE_WAY },
    Setup { faults: 1, losses: 2, ..ONE_WAY },
    Setup {
        parameters: parameters(3, 2, 1, 1),
        datagrams: [[3, 0], [0, 0]],
        faults: 2,
        before: BEFORE_THE_WRAP,
        ..ONE_WAY
    },
    Setup { faults: 3, ..BOTH_WAYS },
    Setup { losses: 2, ..BOTH_WAYS },
    Setup { faults: 1, losses: 1, skip_sets: 1, ..BOTH_WAYS },
    Setup { datagrams: [[2, 0], [1, 0]], faults: 1, before: BEFORE_THE_WRAP, ..BOTH_WAYS },
    Setup {
        parameters: parameters(2, 1, 2, 2),
        latency: 2,
        datagrams: [[2, 0], [1, 0]],
        faults: 1,
        ..BOTH_WAYS
    },
    Setup { faults: 1, losses: 1, ..TWO_CHANNELS },
    Setup { datagrams: [[1, 1], [1, 0]], faults: 1, ..TWO_CHANNELS },
];

/// A number with commas between its thousands.
fn grouped(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

/// The row of a setup, as on the page.
fn row(setup: &Setup) -> String {
    let explored = explore(Link::new(setup, start(setup)));
    let Setup { parameters, latency, datagrams, faults, skip_sets, losses, before } = setup;
    let EndParameters { retry_datagrams, channel_datagrams, acknowledge_datagrams, .. } =
        parameters;
    let [there, back] = datagrams.map(|[first, second]| match second {
        0 => first.to_string(),
        _ => format!("{first} + {second}"),
    });
    format!(
        "| {there} | {back} | {} | {retry_datagrams} | {channel_datagrams} \
         | {acknowledge_datagrams} | {latency} | {faults} | {losses} | {skip_sets} | {} | {} |",
        grouped(usize::from(*before)),
        grouped(explored.states),
        explored.longest,
    )
}

/// Explores all setups, and reports all rows that are missing on the page together.
fn assert_on_page(setups: &[Setup]) {
    let rows = setups.iter().map(row).inspect(|row| println!("{row}"));
    let missing: Vec<String> = rows.filter(|row| !PAGE.contains(row)).collect();
    assert!(missing.is_empty(), "the page lacks {missing:#?}");
}

#[test]
fn ends_settle_in_every_run() {
    assert_on_page(SOME);
}

#[test]
#[ignore = "minutes: make test-long"]
fn ends_settle_in_every_run_of_a_night() {
    assert_on_page(MORE);
}

/// A retry time-out that leaves no time for an ACK to wait.
#[test]
#[should_panic(expected = "a time-out without a fault")]
fn a_retry_timeout_below_the_budget_is_found() {
    let mut parameters = ONE_WAY.parameters;
    parameters.retry_timeout_ps -= parameters.acknowledge_within_ps + 1;
    let setup = Setup { parameters, skip_sets: 1, ..BOTH_WAYS };
    explore(Link::new(&setup, start(&setup)));
}
